//! All systems over a grid of SLOs, as a table, CSV and JSON.

use super::words;
use crate::verbs::{
    error::CliResult,
    output::{Report, Table, percent},
};
use serde_json::{Value, json};
use vitempo::{
    plan::multi_dnn::grid::{Grid, GridRow},
    planners::{Evidence, stitch::Zoo},
};

/// All systems over the grid, to be printed.
pub struct PrintedGrid {
    /// The systems.
    pub grid: Grid,
    /// The costs that all of them have.
    pub zoo: Zoo,
}

impl PrintedGrid {
    fn rate(row: &GridRow) -> f64 {
        row.violated as f64 / row.queries.max(1) as f64
    }
}

impl Report for PrintedGrid {
    fn table(&self) -> String {
        let grid = &self.grid;
        let mut table = Table::new(&["System", "Violated", "Of", "Share", "Queries/s"], 1);
        for row in &grid.rows {
            table.row([
                row.name.clone(),
                row.violated.to_string(),
                row.queries.to_string(),
                percent(Self::rate(row)),
                format!("{:.1}", row.queries_per_s),
            ]);
        }
        let shares: Vec<String> =
            grid.shares.iter().map(|(kind, share)| format!("{} {kind}", percent(*share))).collect();
        let (more, fewer) = grid.beside_unstitched;
        format!(
            "{}\n{} configurations; one query of each task at once, over all orders of arrival   \
            ({})\nevery plan violates at least {}; in {} of {} configurations no plan violates fewer \
            than the one found\nthe best system that does not stitch violates more in {more} \
            configurations, fewer in {fewer}\nplanned for fewest violations, queries run {}\n{}\n",
            table.to_text(),
            grid.configurations,
            Evidence::Simulation,
            grid.least_violated,
            grid.proven,
            grid.configurations,
            shares.join(", "),
            words::hand_over(&self.zoo)
        )
    }

    fn csv(&self) -> CliResult<String> {
        let headings = ["system", "violated", "queries", "queries_per_s", "configurations"];
        let mut table = Table::new(&headings, 1);
        for row in &self.grid.rows {
            table.row([
                row.name.clone(),
                row.violated.to_string(),
                row.queries.to_string(),
                row.queries_per_s.to_string(),
                row.configurations.to_string(),
            ]);
        }
        table.to_csv()
    }

    fn json(&self) -> CliResult<Value> {
        let grid = &self.grid;
        let row = |row: &GridRow| {
            json!({
                "name": row.name,
                "violated": row.violated,
                "queries": row.queries,
                "queries_per_s": row.queries_per_s,
                "configurations": row.configurations,
            })
        };
        let shares: serde_json::Map<String, Value> =
            grid.shares.iter().map(|(kind, share)| (kind.clone(), json!(share))).collect();
        Ok(json!({
            "systems": grid.rows.iter().map(row).collect::<Vec<_>>(),
            "least_violated": grid.least_violated,
            "proven": grid.proven,
            "configurations": grid.configurations,
            "shares": shares,
            "unstitched_violates": {"more": grid.beside_unstitched.0, "fewer": grid.beside_unstitched.1},
            "hand_over": words::hand_over_json(&self.zoo),
            "evidence": Evidence::Simulation,
        }))
    }
}
