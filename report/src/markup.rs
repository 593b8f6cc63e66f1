//! [`escape`], [`markdown`] and [`prose`]: text within markup.

/// Text inside HTML, or inside a quoted attribute.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            other => out.push(other),
        }
    }
    out
}

/// Text inside Markdown, on one line and without markup of its own, also in a cell of a table.
pub fn markdown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.replace("\r\n", " ").chars() {
        match c {
            '\\' | '|' | '<' | '&' | '`' | '[' | ']' => out.extend(['\\', c]),
            '\n' | '\r' => out.push(' '),
            other => out.push(other),
        }
    }
    out
}

/// Sentences inside HTML: what stands between backticks is code, and neither dates nor numbers with
/// their units break over lines.
pub fn prose(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    // Without its partner a backtick is one.
    let paired = parts.len() % 2 == 1;
    let part = |(number, part): (usize, &&str)| match (paired, number % 2) {
        (true, 1) => format!("<code>{}</code>", escape(part)),
        _ => escape(&unbroken(part)),
    };
    let shown: Vec<String> = parts.iter().enumerate().map(part).collect();
    shown.join(if paired { "" } else { "`" })
}

/// The first sentence of a caption, and the others.
pub fn lead(caption: &str) -> (&str, &str) {
    match caption.split_once(". ") {
        Some((first, rest)) => (first, rest),
        None => (caption.trim_end_matches('.'), ""),
    }
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const UNITS: [&str; 5] = ["%", "ms", "us", "MB", "x"];

/// With spaces that do not break inside dates, and before units.
fn unbroken(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut before = "";
    for (number, word) in text.split(' ').enumerate() {
        let is_digits = |word: &str| word.ends_with(|c: char| c.is_ascii_digit());
        let bare = word.trim_end_matches(|c: char| [',', '.', ';', ':', ')'].contains(&c));
        let together = (is_digits(before) && (MONTHS.contains(&word) || UNITS.contains(&bare)))
            || (MONTHS.contains(&before) && word.starts_with(|c: char| c.is_ascii_digit()));
        if number > 0 {
            out.push(if together { '\u{a0}' } else { ' ' });
        }
        out += word;
        before = word;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_text() {
        assert_eq!(escape("a < b & \"c\" > 'd'"), "a &lt; b &amp; &quot;c&quot; &gt; &#39;d&#39;");
    }

    #[test]
    fn commands_are_code_and_dates_stay_on_a_line() {
        for (text, shown) in [
            ("run `a <b>` now", "run <code>a &lt;b&gt;</code> now"),
            ("one ` alone", "one ` alone"),
            ("21 November 2026 to 2 May 2027.", "21~November~2026 to 2~May~2027."),
            ("in May 5.2 %, or so", "in May~5.2~%, or so"),
            ("May be 3 times", "May be 3 times"),
        ] {
            assert_eq!(prose(text), shown.replace('~', "\u{a0}"), "{text}");
        }
    }

    #[test]
    fn a_caption_begins_with_what_is_shown() {
        assert_eq!(lead("Errors of 3.5 %. Where; when."), ("Errors of 3.5 %", "Where; when."));
        assert_eq!(lead("Errors."), ("Errors", ""));
    }
}
