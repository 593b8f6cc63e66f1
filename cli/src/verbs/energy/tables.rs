//! `vitempo energy tables`: the AR energy study's tables, recomputed.

use super::super::{
    error::{CliError, CliResult},
    output::{self, Format, Report, Table},
};
use serde_json::json;
use std::fmt::Write;
use vitempo::planners::papers::{Cell, Claim, PaperTable, Reproduced, ar_energy_study};

/// Recomputes tables I to VIII of the AR energy study, and marks cells that contradict others
///
/// Example: vitempo energy tables --table II
///
/// Table IV lists hardware and is not shown. Evidence: paper table.
#[derive(clap::Args, Debug)]
pub struct TablesArgs {
    /// Only this table, e.g. VI
    #[arg(long, value_name = "NUMBER")]
    pub table: Option<String>,

    /// Format of the output
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

pub fn run(args: &TablesArgs) -> CliResult {
    let mut tables = ar_energy_study::tables().map_err(CliError::ours)?;
    let mut text = ar_energy_study::claims().map_err(CliError::ours)?;
    let mut models = ar_energy_study::models().map_err(CliError::ours)?;
    text.retain(|claim| tables.iter().all(|table| table.name != claim.place));
    if let Some(number) = &args.table {
        let known = tables
            .iter()
            .map(|t| t.name.trim_start_matches("table ").to_owned())
            .collect::<Vec<_>>()
            .join(", ");
        tables.retain(|t| t.name.trim_start_matches("table ").eq_ignore_ascii_case(number));
        text.clear();
        models.clear();
        if tables.is_empty() {
            return Err(CliError::user(format!(
                "--table: the study has no table {number} of figures; it has {known}"
            )));
        }
    }
    output::print(&Printed { tables, text, models }, args.format)
}

struct Printed {
    tables: Vec<PaperTable>,
    /// Statements of the text.
    text: Vec<Claim>,
    /// The phase model at settings that it was not fitted to.
    models: Vec<Reproduced>,
}

/// A figure with as many digits as the paper's.
fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

impl Printed {
    fn paper_table(table: &PaperTable, text: &mut String) {
        let headings: Vec<&str> =
            std::iter::once("").chain(table.columns.iter().map(String::as_str)).collect();
        let mut rows = Table::new(&headings, 1);
        for row in &table.rows {
            let mark = |cell: &Cell| {
                if cell.contradiction().is_some() {
                    format!("*{}", cell.printed)
                } else {
                    cell.printed.to_string()
                }
            };
            rows.row(std::iter::once(row.what.clone()).chain(row.cells.iter().map(mark)));
        }
        let _ = write!(text, "{}: {}\n\n{}", table.name, table.title, rows.to_text());
        for cell in table.rows.iter().flat_map(|row| &row.cells) {
            if let Some(claim) = cell.contradiction() {
                let _ = writeln!(
                    text,
                    "* {}: {}, but {} is printed",
                    claim.what,
                    short(claim.computed),
                    cell.printed
                );
            }
        }
        text.push('\n');
    }
}

impl Report for Printed {
    fn table(&self) -> String {
        let mut text = String::new();
        for table in &self.tables {
            Self::paper_table(table, &mut text);
        }
        if !self.text.is_empty() {
            let mut rows = Table::new(&["Statements", "Where", "Printed", "Computed", ""], 2);
            for claim in &self.text {
                let verdict = if claim.holds() { "" } else { "*" };
                rows.row([
                    claim.what.clone(),
                    claim.place.clone(),
                    short(claim.printed),
                    short(claim.computed),
                    verdict.to_owned(),
                ]);
            }
            let _ = writeln!(text, "{}", rows.to_text());
        }
        if !self.models.is_empty() {
            let mut rows = Table::new(
                &["The phase model at other settings", "Printed", "Modelled", "Error"],
                1,
            );
            for row in &self.models {
                rows.row([
                    row.what.clone(),
                    short(row.printed),
                    short(row.modelled),
                    output::percent(row.error()),
                ]);
            }
            let _ = writeln!(text, "{}", rows.to_text());
        }
        let cells = self.tables.iter().flat_map(|t| &t.rows).flat_map(|r| &r.cells);
        let (checked, wrong) = cells
            .filter(|c| !c.claims.is_empty())
            .fold((0, 0), |(n, w), c| (n + 1, w + usize::from(c.contradiction().is_some())));
        let _ = writeln!(
            text,
            "{checked} cells follow from others; {wrong} contradict them beyond rounding (*)   \
            (paper table)"
        );
        text
    }

    fn csv(&self) -> CliResult<String> {
        let mut rows =
            Table::new(&["table", "row", "column", "printed", "rule", "computed", "holds"], 3);
        for table in &self.tables {
            for row in &table.rows {
                for (cell, column) in row.cells.iter().zip(&table.columns) {
                    let start = [
                        table.name.clone(),
                        row.what.clone(),
                        column.clone(),
                        cell.printed.to_string(),
                    ];
                    if cell.claims.is_empty() {
                        rows.row(start.clone().into_iter().chain(["", "", ""].map(str::to_owned)));
                    }
                    for claim in &cell.claims {
                        rows.row(start.clone().into_iter().chain([
                            claim.what.clone(),
                            claim.computed.to_string(),
                            claim.holds().to_string(),
                        ]));
                    }
                }
            }
        }
        rows.to_csv()
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        let claim = |c: &Claim| json!({"where": c.place, "what": c.what, "printed": c.printed, "computed": c.computed, "holds": c.holds()});
        let claims = |claims: &[Claim]| claims.iter().map(claim).collect::<Vec<_>>();
        let cell = |c: &Cell| json!({"printed": c.printed.value, "claims": claims(&c.claims)});
        let table = |t: &PaperTable| {
            let rows: Vec<_> = t.rows.iter().map(|r| json!({"what": r.what, "cells": r.cells.iter().map(cell).collect::<Vec<_>>()})).collect();
            json!({"name": t.name, "title": t.title, "columns": t.columns, "rows": rows})
        };
        let model = |r: &Reproduced| json!({"what": r.what, "printed": r.printed, "modelled": r.modelled, "error": r.error()});
        Ok(json!({
            "evidence": vitempo::planners::Evidence::PaperTable,
            "tables": self.tables.iter().map(table).collect::<Vec<_>>(),
            "text": claims(&self.text),
            "models": self.models.iter().map(model).collect::<Vec<_>>(),
        }))
    }
}
