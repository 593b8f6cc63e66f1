//! [`Table`]: rows of a report under headings, as HTML, Markdown and JSON. JSON has the exact
//! numbers; HTML and Markdown round them.

use super::{
    chart::ModelKey,
    markup::{escape, lead, markdown, prose},
};
use serde_json::{Map, Value, json};

/// The page of what a cell under a heading names; `None` where it has none.
pub type Target<'a> = &'a dyn Fn(&str, &Cell) -> Option<String>;

/// Tables with more rows scroll within the page.
const LONG: usize = 25;
/// Texts with more characters may break over lines.
const WIDE: usize = 56;

/// One cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Absent: a dash, `null` in JSON.
    Blank,
    /// Words.
    Text(String),
    /// Words that lead to a page.
    Link {
        /// The words.
        text: String,
        /// The way to the page.
        page: String,
    },
    /// The name of a model.
    Model(ModelKey),
    /// A whole number.
    Count(usize),
    /// Already in percent.
    Percent(f64),
    /// Percent by which something is more, or less.
    Signed(f64),
    /// A factor: `1.75 x`.
    Times(f64),
    /// Three significant digits; the unit stands in the heading.
    Number(f64),
}

impl Cell {
    /// Words.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// The name of a model, which may have a page.
    pub fn model(name: &str, architecture: &str) -> Self {
        Self::Model(ModelKey::new(name, architecture))
    }

    /// A share between 0 and 1, shown in percent.
    pub fn share(share: impl Into<Option<f64>>) -> Self {
        share.into().map_or(Self::Blank, |s| Self::Percent(100.0 * s))
    }

    /// A number in percent; blank where there is none.
    pub fn percent(percent: impl Into<Option<f64>>) -> Self {
        percent.into().map_or(Self::Blank, Self::Percent)
    }

    /// A factor; blank where there is none.
    pub fn times(factor: impl Into<Option<f64>>) -> Self {
        factor.into().map_or(Self::Blank, Self::Times)
    }

    /// A number; blank where there is none.
    pub fn number(number: impl Into<Option<f64>>) -> Self {
        number.into().map_or(Self::Blank, Self::Number)
    }

    fn shown(&self) -> String {
        match self {
            Self::Text(text) | Self::Link { text, .. } => text.clone(),
            Self::Model(model) => model.name.clone(),
            Self::Count(n) => n.to_string(),
            Self::Percent(p) if p.is_finite() => format!("{p:.1} %"),
            // No `-0.0`.
            Self::Signed(p) if p.is_finite() => {
                format!("{:+.1} %", (p * 10.0).round() / 10.0 + 0.0)
            }
            Self::Times(factor) if factor.is_finite() => format!("{factor:.2} x"),
            Self::Number(number) if number.is_finite() => three_digits(*number),
            _ => "-".to_owned(),
        }
    }

    fn json(&self) -> Value {
        match self {
            Self::Blank => Value::Null,
            Self::Text(text) | Self::Link { text, .. } => json!(text),
            Self::Model(model) => json!(model.name),
            Self::Count(n) => json!(n),
            Self::Percent(v) | Self::Signed(v) | Self::Times(v) | Self::Number(v) => json!(v),
        }
    }

    fn is_numeric(&self) -> bool {
        !matches!(self, Self::Text(_) | Self::Model(_) | Self::Link { .. })
    }
}

/// Three significant digits, no exponent.
pub fn three_digits(number: f64) -> String {
    let decimals = match number.abs() {
        v if v >= 100.0 || v == 0.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 => 2,
        v if v >= 0.1 => 3,
        v if v >= 0.01 => 4,
        v => decimals(v),
    };
    format!("{number:.decimals$}")
}

/// Most decimals that a cell has room for.
const MOST_DECIMALS: usize = 12;

/// Decimals of three significant digits, of a number below 1.
fn decimals(number: f64) -> usize {
    let scientific = format!("{number:.2e}");
    let exponent = scientific.split_once("e-").and_then(|(_, exponent)| exponent.parse().ok());
    exponent.map_or(MOST_DECIMALS, |exponent: usize| (exponent + 2).min(MOST_DECIMALS))
}

/// Rows under headings.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Names the table in files; unique in a report.
    pub name: String,
    /// The caption.
    pub caption: String,
    /// One per column.
    pub headings: Vec<String>,
    /// Cells by row, as many as headings.
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    /// An empty table.
    pub fn new<H: Into<String>>(
        name: &str,
        caption: impl Into<String>,
        headings: impl IntoIterator<Item = H>,
    ) -> Self {
        Self {
            name: name.to_owned(),
            caption: caption.into(),
            headings: headings.into_iter().map(Into::into).collect(),
            rows: Vec::new(),
        }
    }

    /// Without the columns after the first in which no row has anything.
    #[must_use]
    pub fn without_blanks(self) -> Self {
        let is_blank = |cell: &Cell| matches!(cell, Cell::Blank);
        let is_kept = |column: usize| {
            column == 0 || self.rows.iter().any(|row| row.get(column).is_some_and(|c| !is_blank(c)))
        };
        let kept: Vec<bool> = (0..self.headings.len()).map(is_kept).collect();
        let pick = |column: usize| kept.get(column).copied().unwrap_or(false);
        let headings = self.headings.into_iter().enumerate().filter(|(column, _)| pick(*column));
        let rows = self.rows.into_iter().map(|row| {
            row.into_iter().enumerate().filter(|(at, _)| pick(*at)).map(|(_, cell)| cell).collect()
        });
        Self {
            name: self.name,
            caption: self.caption,
            headings: headings.map(|(_, heading)| heading).collect(),
            rows: rows.collect(),
        }
    }

    /// As HTML: the caption, then the rows in a region that scrolls and that a keyboard reaches.
    /// `target` has the page of what a cell under a heading names.
    pub fn html(&self, target: Target<'_>) -> String {
        let (id, (first, rest)) = (escape(&self.name), lead(&self.caption));
        let numeric = |column: usize| {
            self.rows.iter().all(|row| row.get(column).is_some_and(Cell::is_numeric))
        };
        let heading = |(column, heading): (usize, &String)| {
            let class = if numeric(column) { " class=\"n\"" } else { "" };
            format!("<th scope=\"col\"{class}>{}</th>", prose(heading))
        };
        let headings: String = self.headings.iter().enumerate().map(heading).collect();
        let rows: String = self.rows.iter().map(|row| self.html_row(row, target)).collect();
        let long = if self.rows.len() > LONG { " long" } else { "" };
        format!(
            "<div class=\"table\" id=\"table-{id}\">\n<p class=\"caption\" \
             id=\"caption-{id}\"><b>{}.</b> {}</p>\n\
             <div class=\"scroll{long}\" role=\"region\" tabindex=\"0\" \
             aria-labelledby=\"caption-{id}\">\n<table aria-labelledby=\"caption-{id}\">\n\
             <thead><tr>{headings}</tr></thead>\n<tbody>\n{rows}</tbody></table></div></div>\n",
            prose(first),
            prose(rest),
        )
    }

    fn html_row(&self, row: &[Cell], target: Target<'_>) -> String {
        let cell = |(column, cell): (usize, &Cell)| {
            let shown = cell.shown();
            let heading = self.headings.get(column).map_or("", String::as_str);
            let page = match cell {
                Cell::Link { page, .. } => Some(page.clone()),
                other => target(heading, other),
            };
            let text = match page {
                Some(page) => format!("<a href=\"{}\">{}</a>", escape(&page), escape(&shown)),
                None if cell.is_numeric() => escape(&shown),
                None => prose(&shown),
            };
            let class = match cell {
                _ if cell.is_numeric() => " class=\"n\"",
                _ if shown.chars().count() > WIDE => " class=\"w\"",
                _ => "",
            };
            if column == 0 && !cell.is_numeric() {
                format!("<th scope=\"row\"{class}>{text}</th>")
            } else {
                format!("<td{class}>{text}</td>")
            }
        };
        let cells: String = row.iter().enumerate().map(cell).collect();
        format!("<tr>{cells}</tr>\n")
    }

    /// As Markdown.
    pub fn markdown(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let mut text = format!("{}\n\n", markdown(&self.caption));
        text += &line(self.headings.iter().map(|h| markdown(h)).collect());
        text += &line(self.headings.iter().map(|_| "---".to_owned()).collect());
        self.rows
            .iter()
            .for_each(|row| text += &line(row.iter().map(|c| markdown(&c.shown())).collect()));
        text
    }

    /// As JSON: a list of rows by heading.
    pub fn json(&self) -> Value {
        let row = |cells: &Vec<Cell>| -> Value {
            Value::Object(
                self.headings
                    .iter()
                    .cloned()
                    .zip(cells.iter().map(Cell::json))
                    .collect::<Map<_, _>>(),
            )
        };
        json!({
            "name": self.name,
            "caption": self.caption,
            "rows": self.rows.iter().map(row).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new("t", "What & where", ["Kind", "Share"]);
        table.rows = vec![
            vec![Cell::text("a|b<c"), Cell::share(0.123)],
            vec![Cell::text("d"), Cell::percent(None)],
        ];
        table
    }

    #[test]
    fn the_three_forms() {
        assert_eq!(
            table().markdown(),
            "What \\& where\n\n| Kind | Share |\n| --- | --- |\n| a\\|b\\<c | 12.3 % |\n\
             | d | - |\n"
        );
        let html = table().html(&|heading, cell| {
            (heading == "Kind" && *cell == Cell::text("d")).then(|| "d.html".to_owned())
        });
        for part in [
            "<b>What &amp; where.</b>",
            "<th scope=\"row\">a|b&lt;c</th><td class=\"n\">12.3 %</td>",
            "<a href=\"d.html\">d</a>",
            "role=\"region\" tabindex=\"0\" aria-labelledby=\"caption-t\"",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
        assert_eq!(
            table().json()["rows"],
            json!([{"Kind": "a|b<c", "Share": 12.3}, {"Kind": "d", "Share": null}])
        );
    }

    #[test]
    fn json_has_the_numbers_themselves() {
        let exact = 1.234_567_890_123e-7;
        let cells = [Cell::Number(exact), Cell::Percent(exact), Cell::Signed(-exact)];
        assert_eq!(cells.map(|cell| cell.json().as_f64()), [exact, exact, -exact].map(Some));
        assert_eq!(Cell::Number(f64::NAN).json(), Value::Null);
    }

    #[test]
    fn names_break_no_row_of_markdown() {
        let mut table = Table::new("t", "What\nwhere", ["Model"]);
        table.rows = vec![vec![Cell::text("a\r\nb | <img> `c` \\ [d](e) &lt;")]];
        assert_eq!(
            table.markdown(),
            "What where\n\n| Model |\n| --- |\n\
             | a b \\| \\<img> \\`c\\` \\\\ \\[d\\](e) \\&lt; |\n"
        );
    }

    #[test]
    fn blank_columns_are_left_out() {
        let mut table = Table::new("t", "What", ["Kind", "Share", "Count"]);
        table.rows = vec![
            vec![Cell::Blank, Cell::Blank, Cell::Blank],
            vec![Cell::Blank, Cell::Blank, Cell::Count(1)],
        ];
        let kept = table.without_blanks();
        assert_eq!(kept.headings, ["Kind", "Count"]);
        assert_eq!(kept.rows[1], [Cell::Blank, Cell::Count(1)]);
    }

    #[test]
    fn numbers_keep_three_digits() {
        let shown: Vec<String> =
            [0.0, 0.01234, 0.5678, 3.25159, 42.123, 12345.6].map(three_digits).to_vec();
        assert_eq!(shown, ["0", "0.0123", "0.568", "3.25", "42.1", "12346"]);
        let small = [0.001234, -0.0012, 0.000056789, 0.009999, 1e-300].map(three_digits);
        assert_eq!(small, ["0.00123", "-0.00120", "0.0000568", "0.0100", "0.000000000000"]);
        assert_eq!(Cell::times(1.756).shown(), "1.76 x");
        assert_eq!(Cell::number(f64::NAN).shown(), "-");
    }
}
