//! `vitempo-studies fleet`: machines that are left out of a fleet.

use super::print::{self, Failure, Format, Table, percent};
use serde_json::json;
use std::{collections::BTreeMap, path::PathBuf};
use vitempo_studies::fleet::{Protocol, Record, Row, Way, study};

/// Leaves each machine of a fleet out, and forecasts it from ten end-to-end latencies and from a
/// minute of operator networks
///
/// Nothing is measured. A second run goes on where the first one stopped.
///
/// Example: vitempo-studies fleet datasets/measured/epyc datasets/measured/epyc-zen3 --engine
/// onnxruntime --bundles bundles-of-machines/ --record fleet.json
#[derive(clap::Args, Debug)]
pub struct FleetArgs {
    /// Datasets, each of one machine
    #[arg(value_name = "FOLDERS", required = true)]
    datasets: Vec<PathBuf>,
    /// Engine, in f32 with one thread; may be repeated
    #[arg(long = "engine", value_name = "NAME", required = true)]
    engines: Vec<String>,
    /// Folder of the machines' own bundles; those that are not there are trained
    #[arg(long, value_name = "FOLDER")]
    bundles: PathBuf,
    /// Draws of the models and networks that are measured
    #[arg(long, default_value_t = 3)]
    seeds: u64,
    /// End-to-end latencies
    #[arg(long, default_value_t = 10)]
    latencies: usize,
    /// Measuring time of operator networks, s
    #[arg(long, default_value_t = 60.0)]
    seconds: f64,
    /// Errors, kept as soon as they are there
    #[arg(long, value_name = "FILE.json")]
    record: PathBuf,
    /// Format of the output; a table is Markdown
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub fn run(args: &FleetArgs) -> Result<(), Failure> {
    std::fs::create_dir_all(&args.bundles)
        .map_err(|e| Failure::new(format!("{}: {e}", args.bundles.display())))?;
    let protocol = Protocol {
        seeds: args.seeds,
        latencies: args.latencies,
        seconds: args.seconds,
        bundles: &args.bundles,
        record: &args.record,
    };
    let say = |next: &str| eprintln!("{next} ...");
    let mut record = Record::default();
    for engine in &args.engines {
        record = study(&args.datasets, engine, &protocol, &say).map_err(Failure::new)?;
    }
    match args.format {
        Format::Table => print::write(&markdown(&record)),
        Format::Csv => print::write(&rows(&record).to_csv()?),
        Format::Json => print::write_json(&json!({ "record": record })),
    }
}

fn rows(record: &Record) -> Table {
    let headings =
        ["engine", "machine", "way", "source", "seed", "models", "real", "mape", "coverage", "s"];
    let mut table = Table::new(&headings, 4);
    for r in &record.rows {
        table.row([
            r.engine.clone(),
            r.machine.clone(),
            r.way.name().to_owned(),
            r.source.clone().unwrap_or_default(),
            r.seed.to_string(),
            r.models.to_string(),
            r.real.to_string(),
            format!("{:.2}", r.mape),
            format!("{:.3}", r.coverage),
            format!("{:.1}", r.seconds),
        ]);
    }
    table
}

/// Means over seeds: a row for each way, a column for each machine.
fn markdown(record: &Record) -> String {
    let mut text = String::new();
    let mut engines: Vec<&str> = record.rows.iter().map(|r| r.engine.as_str()).collect();
    engines.dedup();
    for engine in engines {
        let of_engine: Vec<&Row> = record.rows.iter().filter(|r| r.engine == engine).collect();
        let mut machines: Vec<&str> = of_engine.iter().map(|r| r.machine.as_str()).collect();
        machines.dedup();
        text += &format!(
            "{engine}:\n\n| known of the machine | {} | mean | aim |\n",
            machines.join(" | ")
        );
        text += &format!("|---|{}---|---|\n", "---|".repeat(machines.len()));
        let mut ways: BTreeMap<Way, Vec<Option<(f64, f64)>>> = BTreeMap::new();
        for row in &of_engine {
            ways.entry(row.way)
                .or_insert_with(|| machines.iter().map(|m| mean(&of_engine, m, row.way)).collect());
        }
        for (way, cells) in ways {
            let found: Vec<f64> = cells.iter().flatten().map(|(mape, _)| *mape).collect();
            let cell = |cell: &Option<(f64, f64)>| {
                cell.map_or_else(
                    || "-".to_owned(),
                    |(mape, inside)| format!("{mape:.1} % ({})", percent(inside)),
                )
            };
            let cells: Vec<String> = cells.iter().map(cell).collect();
            let all = found.iter().sum::<f64>() / found.len().max(1) as f64;
            let aim = way.target().map_or_else(|| "-".to_owned(), |aim| format!("{aim:.0} %"));
            text += &format!("| {} | {} | {all:.1} % | {aim} |\n", way.name(), cells.join(" | "));
        }
        let noise = |machine: &&str| {
            let found = record
                .noise
                .iter()
                .find(|(e, m, _)| (e.as_str(), m.as_str()) == (engine, *machine));
            found
                .and_then(|(_, _, noise)| *noise)
                .map_or_else(|| "-".to_owned(), |n| format!("{n:.1} %"))
        };
        let noise: Vec<String> = machines.iter().map(noise).collect();
        text += &format!("| noise: two rounds differ by | {} | | |\n\n", noise.join(" | "));
    }
    text
}

/// Error and share inside of the interval.
fn mean(rows: &[&Row], machine: &str, way: Way) -> Option<(f64, f64)> {
    let of: Vec<&&Row> =
        rows.iter().filter(|r| (r.machine.as_str(), r.way) == (machine, way)).collect();
    let n = of.len() as f64;
    let mape = of.iter().map(|r| r.mape).sum::<f64>() / n;
    (!of.is_empty()).then(|| (mape, of.iter().map(|r| r.coverage).sum::<f64>() / n))
}
