//! `vitempo-studies published`: how well devices are forecast that were left out of published
//! latencies.

use super::print::{self, Failure, Format, Table};
use serde_json::{Value, json};
use std::path::PathBuf;
use vitempo_studies::published::{Measure, Outcome, Protocol, Scores, StudyError, evaluate};

/// Evaluates adaptation on published latencies: every device is left out in turn and forecast from
/// a few of its models
///
/// docs/datasets.md lists the layouts of files in the folder; tests whose files are absent are left
/// out.
///
/// Example: vitempo-studies published realdevices/ --samples 10 --seeds 10
#[derive(clap::Args, Debug)]
pub struct PublishedArgs {
    /// Folder of published files
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// Number of models measured on the device that is left out
    #[arg(long, default_value_t = 10)]
    samples: usize,
    /// Number of random draws of these models
    #[arg(long, default_value_t = 10, value_parser = seeds())]
    seeds: u64,
    /// Devices to forecast; all others are sources. By default every device in turn
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    unseen: Vec<String>,
    /// Only tests whose name, as the table prints it, contains this text
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Print a row for every device and setting
    #[arg(long)]
    each: bool,
    /// Threads of the evaluation
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Format of the output
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Draws of a device's samples.
const MOST_SEEDS: u64 = 10_000;

fn seeds() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(1..=MOST_SEEDS)
}

pub fn run(args: &PublishedArgs) -> Result<(), Failure> {
    if args.samples == 0 {
        return Err(Failure::new("--samples is 0, expected at least one measured model"));
    }
    let protocol = Protocol {
        samples: args.samples,
        seeds: args.seeds,
        unseen: args.unseen.clone(),
        threads: args.threads,
    };
    let say = |test: &str| eprintln!("{test} ...");
    let outcomes = evaluate(&args.folder, args.only.as_deref(), &protocol, &say)
        .map_err(|error| with_hint(&error, args))?;
    if outcomes.is_empty() {
        return Err(Failure::new(format!("nothing to evaluate in {}", args.folder.display()))
            .hint("--only and --unseen leave every device out"));
    }
    let found = Evaluated { outcomes, each: args.each };
    match args.format {
        Format::Table => print::write(&found.rows().to_text()),
        Format::Csv => print::write(&found.rows().to_csv()?),
        Format::Json => print::write_json(&found.to_json()),
    }
}

fn with_hint(error: &StudyError, args: &PublishedArgs) -> Failure {
    let failure = Failure::new(format!("{}: {error}", args.folder.display()));
    let hint = match error {
        StudyError::UnknownTest { tests, .. } => {
            format!("--only takes a part of one of these names: {}", tests.join("; "))
        }
        StudyError::UnknownDevice { near, .. } if near.is_empty() => {
            "`vitempo-studies published FOLDER --each` prints the names of all devices".to_owned()
        }
        StudyError::UnknownDevice { near, .. } => {
            let near: Vec<String> = near.iter().map(|name| format!("`{name}`")).collect();
            format!("did you mean {}?", near.join(", "))
        }
        StudyError::NothingLeft { most: 0, .. } => {
            "the folder has too few models: give it whole files, or choose with --only".to_owned()
        }
        StudyError::NothingLeft { most, .. } => {
            format!("--samples {most} or fewer, or choose other tests with --only")
        }
        StudyError::NoFiles => "docs/datasets.md lists the files that it may hold".to_owned(),
        _ => return failure,
    };
    failure.hint(hint)
}

struct Evaluated {
    outcomes: Vec<Outcome>,
    each: bool,
}

impl Evaluated {
    fn rows(&self) -> Table {
        let mut table =
            Table::new(&["Test", "Measure", "Devices", "Score", "Over seeds", "Worst", "Best"], 2);
        for o in &self.outcomes {
            let means: Vec<f64> = o.scores.iter().map(Scores::mean).collect();
            let (low, high) = means
                .iter()
                .fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(*v), h.max(*v)));
            let (worst, best) = if matches!(o.measure, Measure::Mape | Measure::Width) {
                (high, low)
            } else {
                (low, high)
            };
            let number = |v: f64| number(o.measure, v);
            table.row([
                o.test.clone(),
                name(o.measure).to_owned(),
                o.scores.len().to_string(),
                number(o.score()),
                format!("+- {}", number(o.spread())),
                number(worst),
                number(best),
            ]);
            for s in o.scores.iter().filter(|_| self.each) {
                table.row([
                    String::new(),
                    s.target.clone(),
                    String::new(),
                    number(s.mean()),
                    String::new(),
                    String::new(),
                    String::new(),
                ]);
            }
        }
        table
    }

    fn to_json(&self) -> Value {
        let scores = |o: &Outcome| -> Vec<Value> {
            o.scores.iter().map(|s| json!({"target": s.target, "by_seed": s.by_seed})).collect()
        };
        let row = |o: &Outcome| {
            json!({"test": o.test, "measure": name(o.measure), "score": o.score(),
                "spread": o.spread(), "targets": scores(o)})
        };
        self.outcomes.iter().map(row).collect()
    }
}

fn name(measure: Measure) -> &'static str {
    match measure {
        Measure::Spearman => "Spearman, mean",
        Measure::Mape => "MAPE, median",
        Measure::Coverage => "coverage of 90 %",
        Measure::Width => "width of 90 %",
    }
}

fn number(measure: Measure, value: f64) -> String {
    match measure {
        Measure::Spearman => format!("{value:.3}"),
        Measure::Mape | Measure::Coverage | Measure::Width => format!("{value:.1} %"),
    }
}
