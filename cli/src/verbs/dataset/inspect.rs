//! `vitempo dataset inspect`: what a dataset holds.

use crate::verbs::{
    error::{CliError, CliResult},
    output::{Report, Table, si, thousands},
};
use vitempo::datasets::Summary;

/// What is printed.
pub struct Inspected(pub Summary);

impl Inspected {
    fn environments(&self) -> Table {
        let mut table = Table::new(
            &[
                "Environment",
                "What",
                "Asked",
                "Executed",
                "Model runs",
                "Failed",
                "Architectures",
                "Sessions",
                "Peak memory",
            ],
            4,
        );
        for (id, e) in &self.0.environments {
            let counts =
                [e.runs, e.failed, e.architectures, e.sessions.len()].map(|n| n.to_string());
            let executed: Vec<&str> = e.executed.keys().map(String::as_str).collect();
            let executed = if executed.is_empty() { "-".to_owned() } else { executed.join("; ") };
            let peak = e.peak_memory_bytes.map_or_else(|| "-".to_owned(), |bytes| si(bytes) + "B");
            table.row(
                [id.clone(), e.description.clone(), e.asked.clone(), executed]
                    .into_iter()
                    .chain(counts)
                    .chain([peak]),
            );
        }
        table
    }

    fn kinds(&self) -> Table {
        let mut table = Table::new(&["Operator", "Distinct", "Rows", "Samples"], 1);
        for (kind, k) in &self.0.kinds {
            table.row([
                kind.clone(),
                thousands(k.distinct as u64),
                thousands(k.rows as u64),
                thousands(k.samples as u64),
            ]);
        }
        table
    }
}

impl Report for Inspected {
    fn table(&self) -> String {
        let s = &self.0;
        let size: u64 = s.size_bytes.values().sum();
        let origins: Vec<String> =
            s.origins.iter().map(|(origin, n)| format!("{n} {origin}")).collect();
        let mut text = format!(
            "{}   schema {}   {}B\n\nModel runs   {} ({}; {} not yet in the tables)\nModels       \
            {} synthetic, {} real; {} networks around single operators\nOperators    {} distinct, \
            {} rows\nSamples      {}\nData digest  {}\n",
            s.path.display(),
            s.schema_version,
            si(size),
            s.runs,
            origins.join(", "),
            s.runs_in_journal,
            s.synthetic_models,
            s.real_models,
            s.single_operators,
            s.distinct_operators,
            thousands(s.operator_rows as u64),
            thousands(s.samples as u64),
            s.digest,
        );
        for (source, n) in &s.sources {
            text += &format!("Source       {source} ({n} model runs)\n");
        }
        text.push('\n');
        text += &self.environments().to_text();
        text.push('\n');
        text += &self.kinds().to_text();
        for (id, environment) in &s.environments {
            for (kind, n) in &environment.not_measured {
                text += &format!("not measured in {id}: {n} model runs ({kind})\n");
            }
        }
        for (reason, n) in s.failed.iter().chain(&s.failed_operators) {
            text += &format!("failed ({n} x): {reason}\n");
        }
        for warning in &s.warnings {
            text += &format!("warning: {warning}\n");
        }
        text
    }

    fn csv(&self) -> CliResult<String> {
        self.environments().to_csv()
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        serde_json::to_value(&self.0).map_err(CliError::ours)
    }
}
