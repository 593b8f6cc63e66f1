//! [`Svg`]: rectangles, lines and text.

use std::fmt::Write;

/// Colours that can be distinguished, also by the colour-blind (Okabe and Ito 2008).
const COLOURS: [&str; 8] =
    ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#999999"];

pub(super) fn colour(index: usize) -> &'static str {
    COLOURS[index % COLOURS.len()]
}

/// An SVG document under construction; all lengths in pixels.
pub(super) struct Svg {
    body: String,
    width: f64,
    height: f64,
}

impl Svg {
    pub(super) fn new(width: f64, height: f64) -> Self {
        Self { body: String::new(), width, height }
    }

    pub(super) fn rectangle(
        &mut self,
        (x, y): (f64, f64),
        (width, height): (f64, f64),
        fill: &str,
        title: &str,
    ) {
        let title = escaped(title);
        let size = format!(r#"x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}""#);
        let _ = writeln!(
            self.body,
            r#"<rect {size} rx="2" fill="{fill}"><title>{title}</title></rect>"#
        );
    }

    pub(super) fn line(
        &mut self,
        (x1, y1): (f64, f64),
        (x2, y2): (f64, f64),
        stroke: &str,
        width: f64,
    ) {
        let _ = writeln!(
            self.body,
            r#"<line x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}" stroke="{stroke}" stroke-width="{width}"/>"#
        );
    }

    pub(super) fn text(&mut self, (x, y): (f64, f64), text: &str) {
        let _ = writeln!(self.body, r#"<text x="{x:.1}" y="{y:.1}">{}</text>"#, escaped(text));
    }

    pub(super) fn finish(self) -> String {
        let Self { body, width, height } = self;
        let size = format!(
            r#"width="{width:.0}" height="{height:.0}" viewBox="0 0 {width:.0} {height:.0}""#
        );
        let background = r##"<rect width="100%" height="100%" fill="#ffffff"/>"##;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" {size} font-family=\"sans-serif\" \
            font-size=\"11\">\n{background}\n{body}</svg>\n"
        )
    }
}

/// Text that cannot end an element or an attribute.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_break_the_document() {
        let mut svg = Svg::new(10.0, 10.0);
        svg.text((1.0, 2.0), "a<b>&\"c\u{7}");
        let text = svg.finish();
        assert!(
            text.contains("a&lt;b&gt;&amp;&quot;c </text>")
                && text.starts_with("<svg ")
                && text.ends_with("</svg>\n")
        );
    }
}
