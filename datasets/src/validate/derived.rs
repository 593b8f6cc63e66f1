//! Are the columns that repeat what a specification or a graph says the same as it? vitempo does
//! not read them, but other programs do.

use super::Inspection;
use crate::{
    column::Table,
    tables::{models::ModelRow, operators::OperatorRow},
};
use vitempo_graph::Work;

/// A cell that is not what it is derived from.
pub(super) struct Departure {
    row: usize,
    column: &'static str,
    found: String,
    expected: String,
}

const WORK: [&str; 5] = ["macs", "flops", "bytes_read", "bytes_written", "params"];

fn work_cells(work: &Work) -> [u64; 5] {
    [work.macs, work.flops, work.bytes_read, work.bytes_written, work.params]
}

fn compare(
    departures: &mut Vec<Departure>,
    row: usize,
    column: &'static str,
    found: impl ToString + PartialEq<String>,
    expected: String,
) {
    if found != expected {
        departures.push(Departure { row, column, found: found.to_string(), expected });
    }
}

fn compare_work(departures: &mut Vec<Departure>, table: &Table, row: usize, work: &Work) {
    for (column, expected) in WORK.into_iter().zip(work_cells(work)) {
        let found = table.integer(column, row).to_string();
        compare(departures, row, column, found, expected.to_string());
    }
}

/// Of the table of operators.
pub(super) fn of_operators(table: &Table, rows: &[OperatorRow]) -> Vec<Departure> {
    let mut departures = Vec::new();
    for (row, OperatorRow { op, .. }) in rows.iter().enumerate() {
        let texts = [
            ("kind", String::from(op.kind.clone())),
            ("memory_format", op.format().name().to_owned()),
            ("precision", op.precision().name().to_owned()),
        ];
        for (column, expected) in texts {
            compare(&mut departures, row, column, table.text(column, row).to_owned(), expected);
        }
        compare_work(&mut departures, table, row, &Work::of_operator(op));
    }
    departures
}

/// Of the table of models; one without a graph has no work.
pub(super) fn of_models(table: &Table, rows: &[ModelRow]) -> Vec<Departure> {
    let mut departures = Vec::new();
    for (row, ModelRow { graph, .. }) in rows.iter().enumerate() {
        let nodes = graph.as_ref().map_or(0, |graph| graph.nodes().len());
        let found = table.integer("operators", row).to_string();
        compare(&mut departures, row, "operators", found, nodes.to_string());
        let work = graph.as_ref().map(Work::of_graph).unwrap_or_default();
        compare_work(&mut departures, table, row, &work);
    }
    departures
}

impl Inspection<'_> {
    pub(super) fn report_departures(&mut self, file: &str, departures: &[Departure]) {
        for Departure { row, column, found, expected } in departures {
            let what = format!("column `{column}` is {found}, and should be {expected}");
            self.error("derived-column", file, *row, what);
        }
    }
}
