//! `vitempo backends compare`: the same models on every engine, memory format and precision that
//! can run here.

use crate::verbs::{
    error::{CliError, CliResult},
    models::{ModelArgs, asked, none_left_out},
    output::{self, Format, Report, Table, percent},
    profile, progress, quantity,
    worker::worker,
};
use serde_json::json;
use std::{collections::BTreeMap, path::PathBuf};
use vitempo::campaign::{
    Campaign,
    compare::{self, CompareError, CompareOptions, Compared, Comparison},
};
use vitempo::graph::{MemoryFormat, OpFamily, Precision};
use vitempo::models::Models;

/// Measures the same models on every engine, memory format and precision that can run here, and
/// shows them side by side
///
/// Example: vitempo backends compare models/ --out comparison/
///
/// The same command goes on where an interrupted one stopped, and shows what is there. Nothing else
/// should run on the machine meanwhile.
#[derive(clap::Args, Debug)]
pub struct CompareArgs {
    #[command(flatten)]
    models: ModelArgs,

    /// Dataset folder the measurements go to; made if it is not there
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,

    /// Only these engines
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    backends: Vec<String>,

    /// Only these precisions, e.g. f32,int8
    #[arg(long, value_delimiter = ',', value_name = "LIST", value_parser = profile::parse_precision)]
    precisions: Vec<Precision>,

    /// Threads that compute inside one operator
    #[arg(long, default_value = "1", value_parser = quantity::positive)]
    threads: usize,

    /// How often the sweep goes round all settings and models
    #[arg(long, default_value = "1", value_parser = quantity::positive)]
    rounds: usize,

    /// Seed of inputs, of weights that files lack and of the order of model runs
    #[arg(long, default_value_t = 0)]
    seed: u64,

    /// Format of the output
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub fn run(args: &CompareArgs) -> CliResult {
    let models = args.models.read_some()?;
    let asked = asked(&models);
    let Models { read, unreadable } = models;
    let offered = compare::offered(&args.backends, &args.precisions)?;
    for engine in &offered.left_out {
        progress::say(format!("left out {}: {}; {}", engine.backend, engine.reason, engine.hint));
    }
    let options = CompareOptions {
        threads: args.threads,
        rounds: args.rounds,
        seed: args.seed,
        out: &args.out,
        worker: worker()?,
    };
    let run = &mut |round, setting: &_, campaign: Campaign<'_>| {
        progress::say(format!("round {round}: {setting}"));
        profile::run_campaign(campaign)
    };
    let compared = compare::compare(&read, offered.settings, &options, run)?;
    output::print(&compared, args.format)?;
    none_left_out(unreadable.len(), asked)
}

impl From<CompareError> for CliError {
    fn from(error: CompareError) -> Self {
        match error {
            CompareError::Campaign(error) => error.into(),
            CompareError::NothingOffered => {
                Self::user(format!("{error} (--backends, --precisions)"))
                    .hint("`vitempo backends list` shows what there is")
            }
            CompareError::Interrupted => {
                Self::user(error).hint("the same command goes on where it stopped")
            }
            other => Self::user(other),
        }
    }
}

fn summary(comparison: &Comparison) -> Table {
    let mut headings =
        vec!["No.", "Engine", "Precision", "Memory format", "Executed", "Models", "Latency"];
    headings.extend(OpFamily::ALL.map(OpFamily::name));
    let mut table = Table::new(&headings, 5);
    for (number, c) in comparison.compared.iter().enumerate() {
        let executed = c
            .executed
            .map_or_else(|| "-".to_owned(), |e| format!("{} {}", e.precision, e.memory_format));
        let ratio = comparison.ratio(c).map_or_else(|| "-".to_owned(), |r| format!("{r:.2} x"));
        let shares = OpFamily::ALL
            .map(|family| c.shares.get(&family).map_or_else(|| "-".to_owned(), |&s| percent(s)));
        let cells = [
            (number + 1).to_string(),
            format!("{} {}", c.setting.backend, c.version),
            c.setting.precision.to_string(),
            c.setting.format_name().to_owned(),
            executed,
            format!("{} of {}", c.latency_ns.len(), comparison.models.len()),
            ratio,
        ];
        table.row(cells.into_iter().chain(shares));
    }
    table
}

/// Latency of every model (rows) in every setting (columns, by number).
fn latencies(comparison: &Comparison) -> String {
    let width = comparison.models.iter().map(String::len).max().unwrap_or(0);
    let mut text = format!("{:width$}", "ms");
    (1..=comparison.compared.len()).for_each(|number| text += &format!(" {number:>8}"));
    text.push('\n');
    for model in &comparison.models {
        text += &format!("{model:width$}");
        for c in &comparison.compared {
            text += &c
                .latency_ns
                .get(model)
                .map_or_else(|| format!(" {:>8}", "-"), |ns| format!(" {:>8.2}", ns / 1e6));
        }
        text.push('\n');
    }
    text
}

impl Report for Comparison {
    fn table(&self) -> String {
        let mut text = summary(self).to_text();
        text += "\nLatency: geometric mean over the models, as a multiple of No. 1's. Families: \
            mean share of operator time.\n\n";
        text += &latencies(self);
        for c in &self.compared {
            for (model, reason) in &c.failed {
                text += &format!("failed: {}: {model}: {reason}\n", c.setting);
            }
        }
        text
    }

    fn csv(&self) -> CliResult<String> {
        let mut table = Table::new(
            &["engine", "version", "precision", "memory_format", "model", "latency_ns"],
            5,
        );
        for c in &self.compared {
            for (model, ns) in &c.latency_ns {
                let names = [
                    c.setting.backend,
                    &c.version,
                    c.setting.precision.name(),
                    c.setting.memory_format.map_or("", MemoryFormat::name),
                    model,
                ];
                table.row(names.map(str::to_owned).into_iter().chain([format!("{ns:.0}")]));
            }
        }
        table.to_csv()
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        let row = |c: &Compared| {
            let shares: BTreeMap<&str, f64> =
                c.shares.iter().map(|(family, share)| (family.name(), *share)).collect();
            json!({"engine": c.setting.backend, "version": c.version, "precision": c.setting.precision, "memory_format": c.setting.memory_format,
                "executed": c.executed, "latency_ns": c.latency_ns, "latency_ratio": self.ratio(c), "time_shares": shares, "failed": c.failed})
        };
        Ok(
            json!({"models": self.models, "settings": self.compared.iter().map(row).collect::<Vec<_>>()}),
        )
    }
}
