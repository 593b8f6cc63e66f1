//! Finds duplicate keys, dangling references, and identifiers that do not match their contents.

use super::{Inspection, Readable, Severity};
use crate::{
    RunKey,
    journal::Entry,
    tables::{environments, model_measurements, models, operator_measurements, operators},
};
use std::collections::{HashMap, HashSet};

impl Inspection<'_> {
    pub(super) fn check_identifiers(&mut self, readable: &Readable) {
        let file = operators::SCHEMA.file_name();
        let mut seen = HashSet::new();
        for (row, operator) in readable.operators.iter().flatten().enumerate() {
            if !seen.insert(&operator.op_id) {
                self.error(
                    "duplicate-key",
                    &file,
                    row,
                    format!("operator {} is there twice", operator.op_id),
                );
            }
            if operator.op.id() != operator.op_id {
                self.error(
                    "wrong-identifier",
                    &file,
                    row,
                    format!(
                        "op_id {} is not that of its spec_json, {}",
                        operator.op_id,
                        operator.op.id()
                    ),
                );
            }
        }
        let file = environments::SCHEMA.file_name();
        let mut seen = HashSet::new();
        for (row, environment) in readable.environments.iter().flatten().enumerate() {
            if !seen.insert((&environment.id, &environment.variant)) {
                self.error(
                    "duplicate-key",
                    &file,
                    row,
                    format!("environment {} is there twice", environment.id),
                );
            }
            if environment.environment.id() != environment.id {
                self.error(
                    "wrong-identifier",
                    &file,
                    row,
                    format!(
                        "environment_id {} is not that of its fields, {}",
                        environment.id,
                        environment.environment.id()
                    ),
                );
            }
        }
        self.check_models(readable);
    }

    fn check_models(&mut self, readable: &Readable) {
        let file = models::SCHEMA.file_name();
        let mut seen = HashSet::new();
        for (row, model) in readable.models.iter().flatten().enumerate() {
            let architecture = &model.identity.architecture;
            if !seen.insert((architecture, &model.identity.name)) {
                self.error(
                    "duplicate-key",
                    &file,
                    row,
                    format!("model `{}` ({architecture}) is there twice", model.identity.name),
                );
            }
            match &model.graph {
                Some(graph) if graph.architecture() != *architecture => {
                    self.error(
                        "wrong-identifier",
                        &file,
                        row,
                        format!(
                            "architecture {architecture} is not that of its graph, {}",
                            graph.architecture()
                        ),
                    );
                }
                Some(_) => {}
                None => self.warn(
                    "no-graph",
                    &file,
                    row,
                    format!(
                        "model `{}` has no graph: it can be trained on, but not forecast",
                        model.identity.name
                    ),
                ),
            }
        }
    }

    pub(super) fn check_references(&mut self, readable: &Readable) {
        let (Some(runs), Some(operator_runs)) = (&readable.runs, &readable.operator_runs) else {
            return;
        };
        let file = model_measurements::SCHEMA.file_name();
        let mut rows: HashMap<&RunKey, usize> = HashMap::new();
        for (row, run) in runs.iter().enumerate() {
            if let Some(first) = rows.insert(&run.key, row) {
                self.error(
                    "duplicate-key",
                    &file,
                    row,
                    format!("{} is in row {first} already", run.key),
                );
            }
        }
        self.check_runs(readable, &file);
        self.check_operator_runs(readable, operator_runs, &rows);
        self.check_journal(readable, &rows);
        let counts: HashMap<&RunKey, usize> =
            operator_runs.runs.iter().map(|run| (&run.key, run.len())).collect();
        for (row, run) in runs.iter().enumerate() {
            let found = counts.get(&run.key).copied().unwrap_or(0);
            if found as u64 != run.operators {
                self.error(
                    "missing-rows",
                    &file,
                    row,
                    format!("{} has {found} operator rows, not {}", run.key, run.operators),
                );
            }
        }
    }

    fn check_runs(&mut self, readable: &Readable, file: &str) {
        let environments: Option<HashSet<_>> = readable
            .environments
            .as_ref()
            .map(|rows| rows.iter().map(|e| (&e.id, &e.variant)).collect());
        let models: Option<HashSet<_>> = readable.models.as_ref().map(|rows| {
            rows.iter().map(|m| (&m.identity.architecture, &m.identity.name)).collect()
        });
        for (row, run) in readable.runs.iter().flatten().enumerate() {
            if environments.as_ref().is_some_and(|known| {
                !known.contains(&(&run.key.environment_id, &run.environment_variant))
            }) {
                self.error(
                    "dangling-reference",
                    file,
                    row,
                    format!(
                        "environments.parquet has no {}, variant {}",
                        run.key.environment_id, run.environment_variant
                    ),
                );
            }
            if models
                .as_ref()
                .is_some_and(|known| !known.contains(&(&run.key.architecture, &run.key.model)))
            {
                self.error(
                    "dangling-reference",
                    file,
                    row,
                    format!("models.parquet has no `{}` ({})", run.key.model, run.key.architecture),
                );
            }
        }
    }

    fn check_operator_runs(
        &mut self,
        readable: &Readable,
        operator_runs: &operator_measurements::OperatorRuns,
        rows: &HashMap<&RunKey, usize>,
    ) {
        let file = operator_measurements::SCHEMA.file_name();
        let operators: Option<HashSet<&str>> =
            readable.operators.as_ref().map(|rows| rows.iter().map(|o| o.op_id.as_str()).collect());
        let mut seen = HashSet::new();
        for run in &operator_runs.runs {
            if !seen.insert(&run.key) {
                self.error(
                    "duplicate-key",
                    &file,
                    run.first,
                    format!("the rows of {} are in two places", run.key),
                );
            }
            if !rows.contains_key(&run.key) {
                self.find(
                    Severity::Warning,
                    "dangling-reference",
                    &file,
                    Some(run.first),
                    format!("{} is not in model_measurements.parquet", run.key),
                );
            }
            let origin =
                rows.get(&run.key).and_then(|&r| readable.runs.as_ref()?.get(r)).map(|v| v.origin);
            for (position, row) in operator_runs.rows(run).enumerate() {
                let number = row.number();
                if row.position() != position as u64 {
                    self.error(
                        "missing-rows",
                        &file,
                        number,
                        format!("position {} where {position} belongs", row.position()),
                    );
                }
                if operators.as_ref().is_some_and(|known| !known.contains(row.op_id())) {
                    self.error(
                        "dangling-reference",
                        &file,
                        number,
                        format!("operators.parquet has no operator {}", row.op_id()),
                    );
                }
                if origin.is_some_and(|origin| row.origin().is_ok_and(|own| own != origin)) {
                    self.error("mixed-origins", &file, number, "another origin than its model run");
                }
            }
        }
    }

    fn check_journal(&mut self, readable: &Readable, rows: &HashMap<&RunKey, usize>) {
        let mut seen = HashSet::new();
        for (index, entry) in readable.journal.entries.iter().enumerate() {
            let Entry::Run(profile) = entry else { continue };
            self.report.journal_runs += 1;
            let key = RunKey::from(&**profile);
            let (file, line) = readable.journal.place(index);
            if rows.contains_key(&key) {
                self.find(
                    Severity::Note,
                    "not-compacted",
                    &file,
                    Some(line),
                    format!("{key} is in the tables too; the next compaction removes it here"),
                );
            } else if !seen.insert(key.clone()) {
                self.error("duplicate-key", &file, line, format!("{key} is there twice"));
            }
        }
    }
}
