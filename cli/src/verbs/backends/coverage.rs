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
use std::{collections::BTreeMap, sync::atomic::Ordering, time::Duration};
use vitempo::graph::Precision;
use vitempo::profiler::{
    RunOptions,
    coverage::{Assigned, Compiler, Coverage, counts},
};
use vitempo::{campaign, models};

/// Longest a model may take: emulators of NPUs compile slowly.
const LIMIT: Duration = Duration::from_secs(300);

/// Compiles each model, prints what became of it, and fails where no model compiled.
pub fn run(models: &ModelArgs, backend: &str, options: &RunOptions, format: Format) -> CliResult {
    let models::Models { read: models, unreadable } =
        models::read_all(&models.models, &models.read_options())?;
    let (worker, interrupted) = (worker()?, interrupted());
    let compiler = Compiler::new(&worker, backend, options)?;
    let models = campaign::sweep_models(models);
    let bar = progress::bar((models.len() + unreadable.len()) as u64, "compiling");
    let mut rows: Vec<Row> = unreadable
        .into_iter()
        .map(|(path, error)| Row {
            model: path.display().to_string(),
            outcome: Err(error.to_string()),
        })
        .collect();
    for model in &models {
        bar.set_position(rows.len() as u64);
        let outcome = compiler.coverage(model, LIMIT, &interrupted);
        if interrupted.load(Ordering::Relaxed) {
            break;
        }
        rows.push(Row { model: model.identity.name.clone(), outcome });
    }
    bar.finish_and_clear();
    let compiled = Compiled {
        backend: format!("{backend} {}", compiler.offered.version),
        precision: compiler.options.precision,
        rows,
    };
    output::print(&compiled, format)?;
    match compiled.rows.iter().find_map(|r| r.outcome.as_ref().err()) {
        _ if interrupted.load(Ordering::Relaxed) => {
            Err(CliError::user("interrupted: some models were not compiled"))
        }
        Some(reason) if compiled.rows.iter().all(|r| r.outcome.is_err()) => {
            Err(CliError::user(format!("no model compiled; {reason}")))
        }
        _ => Ok(()),
    }
}

struct Row {
    model: String,
    outcome: Result<Coverage, String>,
}

struct Compiled {
    backend: String,
    precision: Precision,
    rows: Vec<Row>,
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

impl Compiled {
    fn rows(&self) -> Table {
        let mut table = Table::new(&["Model", "Whole", "Left", "Taken", "of"], 3);
        for row in &self.rows {
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
                Err(reason) => {
                    ["failed".to_owned(), reason.clone(), "-".to_owned(), "-".to_owned()]
                }
            };
            table.row(std::iter::once(row.model.clone()).chain(cells));
        }
        table
    }
}

impl Report for Compiled {
    fn table(&self) -> String {
        let whole =
            self.rows.iter().filter(|r| r.outcome.as_ref().is_ok_and(Coverage::whole)).count();
        let summary = format!(
            "{whole} of {} models run on the NPU as a whole. Nothing was timed: this tells no \
            latency.",
            self.rows.len()
        );
        format!("{}, {}\n\n{}\n{summary}\n", self.backend, self.precision, self.rows().to_text())
    }

    fn csv(&self) -> CliResult<String> {
        self.rows().to_csv()
    }

    fn json(&self) -> CliResult<Value> {
        let row = |row: &Row| match &row.outcome {
            Ok(c) => {
                json!({"model": row.model, "compiles": true, "whole": c.whole(), "taken": counts(&c.taken), "left": c.left, "reason": null})
            }
            Err(reason) => {
                json!({"model": row.model, "compiles": false, "whole": false, "taken": {}, "left": [], "reason": reason})
            }
        };
        Ok(
            json!({"engine": self.backend, "precision": self.precision, "models": self.rows.iter().map(row).collect::<Vec<_>>()}),
        )
    }
}
