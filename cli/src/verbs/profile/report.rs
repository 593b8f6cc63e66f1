//! What a campaign measured, as a table, CSV and JSON.

use crate::verbs::{
    error::CliResult,
    output::{Report, Table},
};
use serde_json::json;
use std::path::{Path, PathBuf};
use vitempo::{
    campaign::Outcome,
    models::ModelError,
    profiler::sweep::{UNSTEADY, unsteadiness},
};

/// What to do about model runs that failed earlier.
pub const RETRY_FAILED: &str =
    "`vitempo dataset inspect` has the reasons; --retry-failed tries again";

/// What is printed.
pub struct Profiled<'a> {
    pub outcome: &'a Outcome,
    /// Models that cannot be read, with the reason.
    pub left_out: &'a [(PathBuf, ModelError)],
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
        let earlier = self.outcome.failed_earlier;
        for (what, count) in [
            ("measured", s.measured),
            ("there already", s.skipped - earlier),
            ("failed earlier", earlier),
            ("failed", s.failed.len()),
            ("left", s.left),
        ] {
            if count > 0 || what != "failed earlier" {
                table.row([what.to_owned(), count.to_string()]);
            }
        }
        text += &table.to_text();
        for (model, reason) in &s.failed {
            text += &format!("failed: {model}: {reason}\n");
        }
        for (reason, n) in &s.without_peak_memory {
            text += &format!("no peak memory ({n} x): {reason}\n");
        }
        text += &unsteady_text(unsteadiness(&s.reference_ns));
        if earlier > 0 && self.outcome.nothing_measured().is_none() {
            text += &format!("hint: {RETRY_FAILED}\n");
        }
        if s.left > 0 {
            text += "hint: the same command goes on with what is left\n";
        }
        text
    }

    fn csv(&self) -> CliResult<String> {
        let s = &self.outcome.summary;
        let mut table = Table::new(
            &[
                "environment",
                "measured",
                "skipped",
                "failed",
                "left",
                "elapsed_s",
                "failed_earlier",
                "left_out",
            ],
            1,
        );
        let more = [self.outcome.failed_earlier, self.left_out.len()].map(|n| n.to_string());
        let counts = [s.measured, s.skipped, s.failed.len(), s.left].map(|n| n.to_string());
        table.row(
            std::iter::once(self.outcome.environment.id())
                .chain(counts)
                .chain([format!("{:.1}", s.elapsed.as_secs_f64())])
                .chain(more),
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
        let left_out = self.left_out.iter();
        let left_out: Vec<_> = left_out
            .map(|(model, error)| json!({"model": model, "reason": error.to_string()}))
            .collect();
        Ok(
            json!({"environment": self.outcome.environment.id(), "dataset": self.out, "measured": s.measured, "skipped": s.skipped,
            "failed": failed, "failed_earlier": self.outcome.failed_earlier, "left_out": left_out, "without_peak_memory": s.without_peak_memory, "left": s.left, "interrupted": s.interrupted, "unsteadiness": unsteadiness(&s.reference_ns), "elapsed_s": s.elapsed.as_secs_f64()}),
        )
    }
}
