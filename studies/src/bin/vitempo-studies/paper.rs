//! `vitempo-studies paper`: tables of a paper, recomputed.

use super::print::{self, Failure, Format, Table};
use clap::ValueEnum;
use serde_json::{Value, json};
use std::fmt::Write;
use vitempo::planners::{Evidence, simulator::constants::Constants};
use vitempo_studies::papers::{
    Basis, Cell, Claim, Observation, PaperError, PaperTable, Reproduced, ar_energy_study, mape,
    model_stitching,
    mtl_thesis::{self, Sustained},
};

/// Prints a paper's figures recomputed from its other figures: those that contradict others beyond
/// rounding are marked
///
/// Example: vitempo-studies paper ar-energy-study --table II
#[derive(clap::Args, Debug)]
pub struct PaperArgs {
    #[arg(value_enum)]
    paper: Paper,

    /// Only this table, e.g. VI
    #[arg(long, value_name = "NUMBER")]
    table: Option<String>,

    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Paper {
    /// Object detection on a Nexus 6, locally or on an edge server: latency and energy
    ArEnergyStudy,
    /// Multi-task models on CPU and NPU of a Galaxy S24
    MtlThesis,
    /// Stitched variants of sparse models on CPU, GPU and NPU
    ModelStitching,
}

pub fn run(args: &PaperArgs) -> Result<(), Failure> {
    let mut found = Recomputed::of(args.paper).map_err(Failure::new)?;
    if let Some(number) = &args.table {
        found.keep(number)?;
    }
    match args.format {
        Format::Table => print::write(&found.to_text()),
        Format::Csv => print::write(&found.to_csv()?),
        Format::Json => print::write_json(&found.to_json()),
    }
}

/// A paper, recomputed.
#[derive(Default)]
struct Recomputed {
    tables: Vec<PaperTable>,
    /// What its text says, and figures of tables that are not printed whole.
    text: Vec<Claim>,
    /// Models beside printed measurements: those they were fitted to, and the others.
    models: Vec<Reproduced>,
    /// What the paper observes, and what models say.
    observations: Vec<Observation>,
    /// Simulated without a printed figure beside it.
    sustained: Vec<Sustained>,
}

impl Recomputed {
    fn of(paper: Paper) -> Result<Self, PaperError> {
        Ok(match paper {
            Paper::ArEnergyStudy => {
                let tables = ar_energy_study::tables()?;
                let mut text = ar_energy_study::claims()?;
                text.retain(|claim| tables.iter().all(|table| table.name != claim.place));
                let models = ar_energy_study::models()?;
                let observations = ar_energy_study::observations()?;
                Self { tables, text, models, observations, ..Self::default() }
            }
            Paper::MtlThesis => {
                let rates = mtl_thesis::frame_rates(&Constants::default())?;
                let models = rates.sequential.into_iter().chain(rates.pipelined).collect();
                let sustained = mtl_thesis::sustained()?;
                Self { text: mtl_thesis::claims()?, models, sustained, ..Self::default() }
            }
            Paper::ModelStitching => Self {
                text: model_stitching::claims()?,
                models: model_stitching::additivity()?,
                ..Self::default()
            },
        })
    }

    /// One table alone.
    fn keep(&mut self, number: &str) -> Result<(), Failure> {
        let of = |table: &PaperTable| table.name.trim_start_matches("table ").to_owned();
        let known: Vec<String> = self.tables.iter().map(of).collect();
        if known.is_empty() {
            return Err(Failure::new("--table: no table of this paper is printed whole"));
        }
        let tables = std::mem::take(&mut self.tables);
        *self = Self {
            tables: tables.into_iter().filter(|t| of(t).eq_ignore_ascii_case(number)).collect(),
            ..Self::default()
        };
        if self.tables.is_empty() {
            let known = known.join(", ");
            let message = format!("--table: the paper has no table {number} of figures");
            return Err(Failure::new(message).hint(format!("it has {known}")));
        }
        Ok(())
    }

    fn to_text(&self) -> String {
        let mut text: String = self.tables.iter().map(paper_table).collect();
        for table in [self.claims(), self.reproduced(), self.observed(), self.simulated()] {
            if !table.is_empty() {
                let _ = writeln!(text, "{}", table.to_text());
            }
        }
        text += &self.errors();
        let cells: Vec<&Cell> =
            self.tables.iter().flat_map(|t| &t.rows).flat_map(|r| &r.cells).collect();
        let checked = cells.iter().filter(|cell| !cell.claims.is_empty()).count();
        let wrong = cells.iter().filter(|cell| cell.contradiction().is_some()).count();
        if checked > 0 {
            let _ = writeln!(
                text,
                "{checked} cells follow from others; {wrong} contradict them beyond rounding (*)   \
                (paper table)"
            );
        }
        if !self.text.is_empty() && self.tables.is_empty() {
            let wrong = self.text.iter().filter(|claim| !claim.holds()).count();
            let _ = writeln!(
                text,
                "{} figures follow from others; {wrong} contradict them beyond rounding (*)   \
                (paper table)",
                self.text.len()
            );
        }
        text
    }

    fn claims(&self) -> Table {
        let mut rows = Table::new(&["Statements", "Where", "Printed", "Computed", ""], 2);
        for claim in &self.text {
            let mark = if claim.holds() { "" } else { "*" };
            let numbers = [short(claim.printed), short(claim.computed), mark.to_owned()];
            rows.row([claim.what.clone(), claim.place.clone()].into_iter().chain(numbers));
        }
        rows
    }

    fn reproduced(&self) -> Table {
        let headings = ["Modelled figure", "Evidence", "Basis", "Printed", "Modelled", "Error"];
        let mut rows = Table::new(&headings, 3);
        for row in &self.models {
            let numbers = [short(row.printed), short(row.modelled), print::percent(row.error())];
            let words = [row.what.clone(), row.evidence.to_string(), row.basis.to_string()];
            rows.row(words.into_iter().chain(numbers));
        }
        rows
    }

    /// The errors of what was predicted.
    fn errors(&self) -> String {
        let of = |row: &&Reproduced| row.basis == Basis::Predicted;
        let predicted: Vec<Reproduced> = self.models.iter().filter(of).cloned().collect();
        if predicted.is_empty() {
            return String::new();
        }
        let most = predicted.iter().map(|row| row.error().abs()).fold(0.0, f64::max);
        format!(
            "{} figures are predicted: mean error {}, at most {}; the model was fitted to {} others\n",
            predicted.len(),
            print::percent(mape(&predicted)),
            print::percent(most),
            self.models.len() - predicted.len()
        )
    }

    fn observed(&self) -> Table {
        let mut rows = Table::new(&["Observation", "Where", "Modelled", ""], 4);
        for row in &self.observations {
            let mark = if row.holds { "" } else { "*" };
            let words = [&row.what, &row.place, &row.modelled].map(Clone::clone);
            rows.row(words.into_iter().chain([mark.to_owned()]));
        }
        rows
    }

    fn simulated(&self) -> Table {
        let headings = ["Placement, ten minutes", "Frames/s", "Lowest", "Highest"];
        let mut rows = Table::new(&headings, 1);
        for row in &self.sustained {
            let numbers = [row.frames_per_s, row.lowest, row.highest];
            rows.row([row.placement.clone()].into_iter().chain(numbers.map(|n| format!("{n:.2}"))));
        }
        rows
    }

    fn to_csv(&self) -> Result<String, Failure> {
        let headings = ["table", "row", "column", "printed", "rule", "computed", "holds"];
        let mut rows = Table::new(&headings, 3);
        let holds = |claim: &Claim| {
            [claim.what.clone(), claim.computed.to_string(), claim.holds().to_string()]
        };
        for table in &self.tables {
            for row in &table.rows {
                for (cell, column) in row.cells.iter().zip(&table.columns) {
                    let printed = cell.printed.to_string();
                    let start = [table.name.clone(), row.what.clone(), column.clone(), printed];
                    if cell.claims.is_empty() {
                        rows.row(start.clone().into_iter().chain(["", "", ""].map(str::to_owned)));
                    }
                    for claim in &cell.claims {
                        rows.row(start.clone().into_iter().chain(holds(claim)));
                    }
                }
            }
        }
        for claim in &self.text {
            let printed = claim.printed.to_string();
            let start = [claim.place.clone(), String::new(), String::new(), printed];
            rows.row(start.into_iter().chain(holds(claim)));
        }
        rows.to_csv()
    }

    fn to_json(&self) -> Value {
        let claim = |c: &Claim| {
            json!({"where": c.place, "what": c.what, "printed": c.printed, "computed": c.computed,
                "holds": c.holds()})
        };
        let claims = |claims: &[Claim]| claims.iter().map(claim).collect::<Vec<_>>();
        let cell = |c: &Cell| json!({"printed": c.printed.value, "claims": claims(&c.claims)});
        let table = |t: &PaperTable| {
            let row = |cells: &[Cell]| cells.iter().map(cell).collect::<Vec<_>>();
            let rows: Vec<Value> =
                t.rows.iter().map(|r| json!({"what": r.what, "cells": row(&r.cells)})).collect();
            json!({"name": t.name, "title": t.title, "columns": t.columns, "rows": rows})
        };
        let model = |r: &Reproduced| {
            json!({"what": r.what, "printed": r.printed, "modelled": r.modelled,
                "error": r.error(), "evidence": r.evidence, "basis": r.basis})
        };
        json!({
            "evidence": Evidence::PaperTable,
            "tables": self.tables.iter().map(table).collect::<Vec<_>>(),
            "text": claims(&self.text),
            "models": self.models.iter().map(model).collect::<Vec<_>>(),
            "observations": self.observations,
            "sustained": self.sustained,
        })
    }
}

/// A figure that needs no more digits than the paper's have.
fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn paper_table(table: &PaperTable) -> String {
    let headings: Vec<&str> =
        std::iter::once("").chain(table.columns.iter().map(String::as_str)).collect();
    let mut rows = Table::new(&headings, 1);
    for row in &table.rows {
        let mark = |cell: &Cell| {
            let star = if cell.contradiction().is_some() { "*" } else { "" };
            format!("{star}{}", cell.printed)
        };
        rows.row(std::iter::once(row.what.clone()).chain(row.cells.iter().map(mark)));
    }
    let mut text = format!("{}: {} (as printed)\n\n{}", table.name, table.title, rows.to_text());
    for cell in table.rows.iter().flat_map(|row| &row.cells) {
        if let Some(claim) = cell.contradiction() {
            let computed = short(claim.computed);
            let _ = writeln!(text, "* {}: {computed}, but {} is printed", claim.what, cell.printed);
        }
    }
    text.push('\n');
    text
}
