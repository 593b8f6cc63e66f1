//! `vitempo backends check --backend qnn MODELS`: per model, which operators the NPU takes, which
//! are left and to whom, and whether the whole compiles.

use crate::verbs::{
    error::{CliError, CliResult},
    interrupt::interrupted,
    models::ModelArgs,
    output::{self, Format, Report, Table},
    progress,
    worker::worker,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use vitempo::{
    engines::coverage::{Covered, CoveredModel, cover},
    models,
    profiler::{
        RunOptions,
        coverage::{Assigned, counts},
    },
};

/// Compiles each model, prints what became of it, and fails where no model compiled.
pub fn run(models: &ModelArgs, backend: &str, options: &RunOptions, format: Format) -> CliResult {
    let models = models::read_all(&models.models, &models.read_options())?;
    let bar = progress::bar((models.read.len() + models.unreadable.len()) as u64, "compiling");
    let covered = cover(models, backend, &worker()?, options, &interrupted(), &mut |done| {
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    let covered = covered?;
    output::print(&covered, format)?;
    covered.verdict().map_err(CliError::user)
}

/// `12 Conv, 3 Erf`, most first.
fn listed(operators: &[Assigned]) -> String {
    let mut counts: Vec<_> = counts(operators).into_iter().collect();
    counts.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    counts
        .into_iter()
        .map(|(operator, count)| format!("{count} {operator}"))
        .collect::<Vec<_>>()
        .join(", ")
}

/// Operators by who runs them.
fn by_provider(operators: &[Assigned]) -> BTreeMap<&str, Vec<Assigned>> {
    let mut by = BTreeMap::<&str, Vec<Assigned>>::new();
    operators.iter().for_each(|o| by.entry(&o.provider).or_default().push(o.clone()));
    by
}

fn rows(covered: &Covered) -> Table {
    let mut table = Table::new(&["Model", "Whole", "Left", "Taken", "of"], 3);
    for row in &covered.models {
        let cells = match &row.outcome {
            Ok(c) => {
                let left: Vec<_> = by_provider(&c.left)
                    .into_iter()
                    .map(|(by, operators)| format!("{by}: {}", listed(&operators)))
                    .collect();
                let whole = if c.whole() { "yes" } else { "no" }.to_owned();
                [
                    whole,
                    left.join("; "),
                    c.taken.len().to_string(),
                    (c.taken.len() + c.left.len()).to_string(),
                ]
            }
            Err(reason) => ["failed".to_owned(), reason.clone(), "-".to_owned(), "-".to_owned()],
        };
        table.row(std::iter::once(row.model.clone()).chain(cells));
    }
    table
}

impl Report for Covered {
    fn table(&self) -> String {
        let summary = format!(
            "{} of {} models run on the NPU as a whole. Nothing was timed: no latency \
            is known.",
            self.whole(),
            self.models.len()
        );
        format!("{}, {}\n\n{}\n{summary}\n", self.engine, self.precision, rows(self).to_text())
    }

    fn csv(&self) -> CliResult<String> {
        rows(self).to_csv()
    }

    fn json(&self) -> CliResult<Value> {
        let row = |row: &CoveredModel| match &row.outcome {
            Ok(c) => {
                json!({"model": row.model, "compiles": true, "whole": c.whole(), "taken": counts(&c.taken), "left": c.left, "reason": null})
            }
            Err(reason) => {
                json!({"model": row.model, "compiles": false, "whole": false, "taken": {}, "left": [], "reason": reason})
            }
        };
        Ok(
            json!({"engine": self.engine, "precision": self.precision, "models": self.models.iter().map(row).collect::<Vec<_>>()}),
        )
    }
}
