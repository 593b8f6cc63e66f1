//! What a standard campaign measured and what is missing, as text, CSV and JSON.

use crate::verbs::{
    error::{CliError, CliResult},
    output::{Report, Table, percent},
    profile::report::unsteady_text,
};
use serde_json::json;
use std::{fmt::Write, path::PathBuf};
use vitempo::campaign::standard::{PartState, StandardOutcome};

/// A campaign on one engine.
pub struct Engine {
    pub backend: String,
    pub outcome: StandardOutcome,
}

/// What is printed.
pub struct Measured {
    pub engines: Vec<Engine>,
    pub out: PathBuf,
}

const HEADINGS: [&str; 6] = ["part", "round", "planned", "measured", "failed", "missing"];
/// Failures that are named.
const NAMED: usize = 5;

impl Engine {
    /// Model runs in the dataset that have samples.
    pub fn measured(&self) -> usize {
        self.outcome.parts.iter().map(|part| part.measured).sum()
    }

    pub fn is_interrupted(&self) -> bool {
        self.outcome.interrupted
    }

    /// Why nothing was measured.
    pub fn failure(&self) -> CliError {
        let nothing = |why: &str| {
            CliError::user(format!("nothing could be measured on {}: {why}", self.backend))
        };
        let failed_earlier: usize = self.outcome.parts.iter().map(|part| part.failed).sum();
        match self.outcome.failed.first() {
            Some((model, reason)) => nothing(&format!("`{model}`: {reason}")),
            None if failed_earlier > 0 => nothing("every model run failed in an earlier session")
                .hint("`vitempo dataset inspect` has the reasons; --retry-failed tries again"),
            None => nothing("the budget ended before the first model run")
                .hint("give more time with --budget"),
        }
    }

    fn table(&self) -> String {
        let o = &self.outcome;
        let seconds = o.elapsed.as_secs();
        let mut text =
            format!("{}   {} model runs in {seconds} s", o.environment.describe(), o.made);
        if let Some(stolen) = o.stolen {
            let _ =
                write!(text, ", {} of the cores' time stolen by other machines", percent(stolen));
        }
        if let Some(busy) = o.busy_cores {
            let _ = write!(text, ", {busy:.1} cores busy");
        }
        text += "\n\n";
        let mut table = Table::new(&HEADINGS, 1);
        o.parts.iter().for_each(|part| table.row(cells(part)));
        text += &table.to_text();
        text += &unsteady_text(o.unsteadiness);
        if o.had_company() {
            text += "warning: more cores were busy than the measurement has threads: what runs on \
                     other cores, another campaign too, shares caches and memory with it\n";
        }
        for (model, reason) in o.failed.iter().take(NAMED) {
            let _ = writeln!(text, "failed: {model}: {reason}");
        }
        if o.failed.len() > NAMED {
            let _ = writeln!(text, "failed: {} more", o.failed.len() - NAMED);
        }
        if o.missing() > 0 {
            text += "hint: the same command goes on with what is missing\n";
        }
        text
    }

    fn json(&self) -> serde_json::Value {
        let o = &self.outcome;
        let part = |p: &PartState| {
            json!({"part": p.group.name(), "round": p.round, "planned": p.planned,
                   "measured": p.measured, "failed": p.failed, "missing": p.missing()})
        };
        let failed = |(model, reason): &(String, String)| json!({"model": model, "reason": reason});
        json!({
            "backend": self.backend,
            "environment": o.environment.id(),
            "host": o.environment.host,
            "parts": o.parts.iter().map(part).collect::<Vec<_>>(),
            "made": o.made,
            "missing": o.missing(),
            "failed": o.failed.iter().map(failed).collect::<Vec<_>>(),
            "interrupted": o.interrupted,
            "elapsed_s": o.elapsed.as_secs_f64(),
            "stolen_share": o.stolen,
            "busy_cores": o.busy_cores,
            "unsteadiness": o.unsteadiness,
        })
    }
}

fn cells(part: &PartState) -> [String; 6] {
    let [round, planned, measured, failed, missing] =
        [part.round + 1, part.planned, part.measured, part.failed, part.missing()]
            .map(|n| n.to_string());
    [part.group.name().to_owned(), round, planned, measured, failed, missing]
}

impl Report for Measured {
    fn table(&self) -> String {
        let engines: Vec<String> = self.engines.iter().map(Engine::table).collect();
        format!("{}\nkept in {}\n", engines.join("\n"), self.out.display())
    }

    fn csv(&self) -> CliResult<String> {
        let mut table = Table::new(&[&["environment"][..], &HEADINGS].concat(), 2);
        for engine in &self.engines {
            let id = engine.outcome.environment.id();
            for part in &engine.outcome.parts {
                table.row(std::iter::once(id.clone()).chain(cells(part)));
            }
        }
        table.to_csv()
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        let engines: Vec<_> = self.engines.iter().map(Engine::json).collect();
        Ok(json!({"dataset": self.out, "engines": engines}))
    }
}
