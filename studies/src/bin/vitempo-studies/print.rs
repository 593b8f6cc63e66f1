//! How results are printed: a table for people, JSON or CSV for programs.

use clap::ValueEnum;
use comfy_table::{CellAlignment, Table as TextTable, presets};
use std::{
    fmt::Display,
    io::{self, Write},
};

/// `--format`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    #[default]
    Table,
    Json,
    Csv,
}

/// Why nothing is printed, and what to do about it.
#[derive(Debug)]
pub struct Failure {
    pub message: String,
    pub hint: Option<String>,
}

impl Failure {
    pub fn new(message: impl Display) -> Self {
        Self { message: message.to_string(), hint: None }
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Rows under headings; cells are text.
#[derive(Debug)]
pub struct Table {
    headings: Vec<String>,
    rows: Vec<Vec<String>>,
    left: usize,
}

impl Table {
    /// A table whose first `left` columns are text; the others are numbers and align right.
    pub fn new<H: AsRef<str>>(headings: &[H], left: usize) -> Self {
        let headings = headings.iter().map(|heading| heading.as_ref().to_owned()).collect();
        Self { headings, rows: Vec::new(), left }
    }

    /// A cell under every heading.
    pub fn row<I: IntoIterator<Item = String>>(&mut self, cells: I) {
        let cells: Vec<String> = cells.into_iter().collect();
        assert_eq!(cells.len(), self.headings.len(), "cells under {:?}", self.headings);
        self.rows.push(cells);
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub fn to_text(&self) -> String {
        let mut table = TextTable::new();
        table.load_preset(presets::NOTHING).set_header(self.headings.clone());
        for row in &self.rows {
            table.add_row(row.clone());
        }
        for (index, column) in table.column_iter_mut().enumerate() {
            column.set_padding((0, 2));
            if index >= self.left {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
    }

    pub fn to_markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let marks = (0..self.headings.len()).map(|at| if at < self.left { "---" } else { "---:" });
        let marks: Vec<String> = marks.map(str::to_owned).collect();
        let rows: String = self.rows.iter().map(|row| line(row)).collect();
        line(&self.headings) + &line(&marks) + &rows
    }

    /// One object per row, by heading.
    pub fn to_json(&self) -> serde_json::Value {
        let object = |row: &Vec<String>| {
            let cells = self.headings.iter().zip(row);
            let cells = cells.map(|(heading, cell)| (heading.clone(), cell.clone().into()));
            serde_json::Value::Object(cells.collect())
        };
        self.rows.iter().map(object).collect()
    }

    pub fn to_csv(&self) -> Result<String, Failure> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let mut write = || -> Result<(), csv::Error> {
            writer.write_record(&self.headings)?;
            self.rows.iter().try_for_each(|row| writer.write_record(row))
        };
        write().map_err(Failure::new)?;
        let bytes = writer.into_inner().map_err(Failure::new)?;
        String::from_utf8(bytes).map_err(Failure::new)
    }
}

/// Writes to standard output; a reader that has gone (`| head`) is not an error.
pub fn write(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("cannot write to standard output: {e}")))
        }
        _ => Ok(()),
    }
}

/// Writes JSON to standard output.
pub fn write_json(value: &serde_json::Value) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(Failure::new)?;
    write(&(text + "\n"))
}

/// A share as a percentage: `74.6 %`.
pub fn percent(share: f64) -> String {
    if share.is_finite() { format!("{:.1} %", share * 100.0) } else { "-".to_owned() }
}
