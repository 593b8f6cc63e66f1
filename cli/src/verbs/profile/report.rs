//! What a campaign measured, as a table, CSV and JSON.

use crate::verbs::{
    error::CliResult,
    output::{Report, Table},
};
use serde_json::json;
use std::path::Path;
use vitempo::{
    campaign::Outcome,
    profiler::sweep::{UNSTEADY, unsteadiness},
};

/// What is printed.
pub struct Profiled<'a> {
    pub outcome: &'a Outcome,
    pub out: &'a Path,
}

/// Says so where the machine was not at rest.
pub fn unsteady_text(unsteadiness: Option<f64>) -> String {
    let unsteady = unsteadiness.filter(|times| *times > UNSTEADY);
    unsteady.map_or_else(String::new, |times| {
        format!(
            "warning: this machine was not at rest: a reference workload took {times:.2} times as \
             long beside the slowest tenth of the model runs as beside the fastest (at rest 1.1 to \
             {UNSTEADY}). Forecasts cannot be better than that; measure again when nothing else \
             runs\n"
        )
    })
}

impl Report for Profiled<'_> {
    fn table(&self) -> String {
        let s = &self.outcome.summary;
        let mut text =
            format!("{}\nkept in {}\n\n", self.outcome.environment.describe(), self.out.display());
        let mut table = Table::new(&["Model runs", "Count"], 1);
        for (what, count) in [
            ("measured", s.measured),
            ("there already", s.skipped),
            ("failed", s.failed.len()),
            ("left", s.left),
        ] {
            table.row([what.to_owned(), count.to_string()]);
        }
        text += &table.to_text();
        for (model, reason) in &s.failed {
            text += &format!("failed: {model}: {reason}\n");
        }
        for (reason, n) in &s.without_peak_memory {
            text += &format!("no peak memory ({n} x): {reason}\n");
        }
        text += &unsteady_text(unsteadiness(&s.reference_ns));
        if s.left > 0 {
            text += "hint: the same command goes on with what is left\n";
        }
        text
    }

    fn csv(&self) -> CliResult<String> {
        let s = &self.outcome.summary;
        let mut table =
            Table::new(&["environment", "measured", "skipped", "failed", "left", "elapsed_s"], 1);
        let counts = [s.measured, s.skipped, s.failed.len(), s.left].map(|n| n.to_string());
        table.row(
            std::iter::once(self.outcome.environment.id())
                .chain(counts)
                .chain([format!("{:.1}", s.elapsed.as_secs_f64())]),
        );
        table.to_csv()
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        let s = &self.outcome.summary;
        let failed: Vec<_> = s
            .failed
            .iter()
            .map(|(model, reason)| json!({"model": model, "reason": reason}))
            .collect();
        Ok(
            json!({"environment": self.outcome.environment.id(), "dataset": self.out, "measured": s.measured, "skipped": s.skipped,
            "failed": failed, "without_peak_memory": s.without_peak_memory, "left": s.left, "interrupted": s.interrupted, "unsteadiness": unsteadiness(&s.reference_ns), "elapsed_s": s.elapsed.as_secs_f64()}),
        )
    }
}
