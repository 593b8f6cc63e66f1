//! How results are printed: a table for people, JSON or CSV for programs. Results go to standard
//! output, everything else to standard error.

use super::error::{CliError, CliResult};
use clap::ValueEnum;
use comfy_table::{CellAlignment, ColumnConstraint, Table as TextTable, Width, presets};
use std::{
    borrow::Cow,
    io::{self, Write},
};
use vitempo::graph::Latency;

/// `--format`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    #[default]
    Table,
    Json,
    Csv,
}

/// Rows under headings. Cells are text; units are in the heading or in the cell.
#[derive(Debug, Default)]
pub struct Table {
    headings: Vec<String>,
    rows: Vec<Vec<String>>,
    left: usize,
}

impl Table {
    /// A table whose first `left` columns are text; the others are numbers and are aligned right.
    pub fn new<H: AsRef<str>>(headings: &[H], left: usize) -> Self {
        Self {
            headings: headings.iter().map(|h| h.as_ref().to_owned()).collect(),
            rows: Vec::new(),
            left,
        }
    }

    pub fn row<I: IntoIterator<Item = String>>(&mut self, cells: I) {
        self.rows.push(cells.into_iter().collect());
    }

    pub fn to_text(&self) -> String {
        let mut table = TextTable::new();
        table.load_preset(presets::NOTHING).set_header(self.headings.clone());
        for row in &self.rows {
            table.add_row(row.iter().map(|cell| visible(cell, false)));
        }
        for (index, column) in table.column_iter_mut().enumerate() {
            column.set_padding((0, 2));
            if index >= self.left {
                column.set_cell_alignment(CellAlignment::Right);
            }
            column.set_constraint(ColumnConstraint::UpperBoundary(Width::Fixed(80)));
        }
        table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
    }

    pub fn to_csv(&self) -> CliResult<String> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let mut write = || -> Result<(), csv::Error> {
            writer.write_record(&self.headings)?;
            self.rows.iter().try_for_each(|row| writer.write_record(row))
        };
        write().map_err(CliError::ours)?;
        let bytes = writer.into_inner().map_err(CliError::ours)?;
        String::from_utf8(bytes).map_err(CliError::ours)
    }
}

/// One result in the three formats of `--format`.
pub trait Report {
    fn table(&self) -> String;
    fn csv(&self) -> CliResult<String>;
    fn json(&self) -> CliResult<serde_json::Value>;
}

/// Prints a result in one format.
pub fn print(report: &impl Report, format: Format) -> CliResult {
    match format {
        Format::Table => write_stdout(&visible(&report.table(), true)),
        Format::Csv => write_stdout(&report.csv()?),
        Format::Json => {
            let text = serde_json::to_string_pretty(&report.json()?).map_err(CliError::ours)?;
            write_stdout(&(text + "\n"))
        }
    }
}

/// A text whose control characters are written out, so that names in files cannot control a
/// terminal; lines may stay lines.
pub fn visible(text: &str, with_lines: bool) -> Cow<'_, str> {
    let is_control = |c: char| c.is_control() && !(with_lines && c == '\n');
    if !text.contains(is_control) {
        return Cow::Borrowed(text);
    }
    let escaped = |c: char| match is_control(c) {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    Cow::Owned(text.chars().map(escaped).collect())
}

/// Writes to standard output; a closed pipe (`| head`) is not an error.
pub fn write_stdout(text: &str) -> CliResult {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
            Err(CliError::user(format!("cannot write to standard output: {e}")))
        }
        _ => Ok(()),
    }
}

/// `12 345 678`
pub fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(c);
    }
    out
}

/// `1 error`, `2 errors`
pub fn counted(count: usize, what: &str) -> String {
    let many = if count == 1 { "" } else { "s" };
    format!("{count} {what}{many}")
}

/// `1.25 G`, `5.72 M`, `12.0 k`
pub fn si(n: u64) -> String {
    let value = n as f64;
    let (scaled, unit) = match value {
        v if v >= 1e12 => (v / 1e12, " T"),
        v if v >= 1e9 => (v / 1e9, " G"),
        v if v >= 1e6 => (v / 1e6, " M"),
        v if v >= 1e3 => (v / 1e3, " k"),
        v => return format!("{v}"),
    };
    let decimals = if scaled < 10.0 { 2 } else { usize::from(scaled < 100.0) };
    format!("{scaled:.decimals$}{unit}")
}

/// A latency in whole nanoseconds for CSV; empty for an upper end that is not known.
pub fn ns(latency: Latency) -> String {
    if latency.is_finite() { format!("{:.0}", latency.ns()) } else { String::new() }
}

/// A share as a percentage: `74.6 %`.
pub fn percent(share: f64) -> String {
    if share.is_finite() { format!("{:.1} %", share * 100.0) } else { "-".to_owned() }
}

/// The level of an interval as a percentage, in hundredths rounded down: `90 %`, `99.95 %`.
pub fn level(level: f64) -> String {
    if level.is_nan() {
        return "-".to_owned();
    }
    // A level of 0.9 is a little less than nine tenths; one below 1 is never 100 %.
    let hundredths = (level * 1e4 + 1e-6).floor().min(9999.0);
    format!("{} %", hundredths / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_rounded_down() {
        for (share, text) in [
            (0.9, "90 %"),
            (0.95, "95 %"),
            (1.0 - 0.2, "80 %"),
            (0.987_654, "98.76 %"),
            (0.9995, "99.95 %"),
            (0.999_999_999_999, "99.99 %"),
            (1e-300, "0 %"),
            (f64::NAN, "-"),
        ] {
            assert_eq!(level(share), text);
        }
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!(thousands(1_234_567), "1 234 567");
        assert_eq!(thousands(12), "12");
        assert_eq!(si(1_253_683_200), "1.25 G");
        assert_eq!(si(999), "999");
        assert_eq!(percent(0.746), "74.6 %");
        assert_eq!(percent(f64::NAN), "-");
    }

    #[test]
    fn names_cannot_control_a_terminal() {
        let mut table = Table::new(&["node"], 1);
        table.row(["a\u{1b}[31m\nb".to_owned()]);
        assert_eq!(table.to_text(), "node\na\\u{1b}[31m\\nb\n");
        assert_eq!(visible("a\nb\r", true), "a\nb\\r");
    }

    #[test]
    fn tables_align_and_csv_quotes() {
        let mut table = Table::new(&["kind", "count"], 1);
        table.row(["a,b".to_owned(), "7".to_owned()]);
        assert_eq!(table.to_text(), "kind  count\na,b       7\n");
        assert_eq!(table.to_csv().ok().as_deref(), Some("kind,count\n\"a,b\",7\n"));
    }
}
