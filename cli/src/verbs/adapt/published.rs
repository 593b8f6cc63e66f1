//! `vitempo adapt published`: how well devices are forecast that were left out of published
//! latencies.

use super::super::{
    error::{CliError, CliResult},
    output::{self, Format, Report, Table},
    progress,
};
use serde_json::json;
use std::path::{Path, PathBuf};
use vitempo::{
    datasets::published::{AiHub, Cells, Column, Phones},
    transfer::{CellTest, Measure, NpuTest, Outcome, PhoneTest, Protocol},
};

/// Judges adapting on latencies that others published: every device is left out in turn and
/// forecast from a few of its models
///
/// The folder holds files in the layouts that docs/adapting.md lists; a layout that is absent is
/// left out.
///
/// Example: vitempo adapt published realdevices/ --samples 10 --seeds 10
#[derive(clap::Args, Debug)]
pub struct PublishedArgs {
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// Models measured on the device left out
    #[arg(long, default_value_t = 10)]
    samples: usize,
    /// Draws of which models those are
    #[arg(long, default_value_t = 10)]
    seeds: u64,
    /// Devices to forecast; all others are sources. By default every device in turn
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    unseen: Vec<String>,
    /// Only tests whose name holds this text
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// A row for every device and setting
    #[arg(long)]
    each: bool,
    #[arg(long, default_value_t = 2)]
    threads: usize,
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// The tests, by the name that `--only` looks in.
const CELLS_201: &str = "NAS-Bench-201";
const FBNET: &str = "FBNet";
const F5: &str = "FBNet, GPUs to CPUs and phones (F5)";
const PHONES: &str = "CNNs on phones";
const NPU: &str = "NPU";
/// Architectures of the pools.
const POOL_201: usize = 900;
const POOL_FBNET: usize = 4000;
/// Draws of a device's samples.
const MOST_SEEDS: u64 = 10_000;

pub fn run(args: &PublishedArgs) -> CliResult {
    if !(1..=MOST_SEEDS).contains(&args.seeds) || !(1..=POOL_FBNET).contains(&args.samples) {
        return Err(CliError::user(format!(
            "--seeds must lie between 1 and {MOST_SEEDS}, --samples between 1 and {POOL_FBNET}"
        )));
    }
    let protocol = Protocol {
        samples: args.samples,
        seeds: args.seeds,
        unseen: args.unseen.clone(),
        threads: args.threads,
    };
    let outcomes = outcomes(args, &protocol)?;
    if outcomes.iter().all(|o| o.scores.is_empty()) {
        let message = format!("nothing to judge in {}", args.folder.display());
        return Err(CliError::user(message).hint(
            "docs/adapting.md lists the files that it may hold; --only and --unseen leave some out",
        ));
    }
    output::print(&Judged { outcomes, each: args.each }, args.format)
}

fn outcomes(args: &PublishedArgs, protocol: &Protocol) -> CliResult<Vec<Outcome>> {
    let folder = args.folder.as_path();
    let wanted = |test: &str| {
        args.only.as_ref().is_none_or(|text| test.to_lowercase().contains(&text.to_lowercase()))
    };
    let there = |file: &str| folder.join(file).exists();
    let mut all = Vec::new();
    if wanted(CELLS_201) && there("nb201_latency.csv.gz") {
        progress::say(format!("{CELLS_201} ..."));
        let cells = Cells::nas_bench_201(folder)?;
        all.extend(
            CellTest {
                name: CELLS_201.to_owned(),
                cells: &cells,
                pool: POOL_201,
                source: any,
                target: any,
            }
            .run(protocol),
        );
    }
    if (wanted(FBNET) || wanted(F5)) && there("fbnet_latency.csv.gz") {
        all.extend(fbnet(folder, protocol, &wanted)?);
    }
    if wanted(PHONES) && there("cnn_phones_e2e_us.csv") {
        progress::say(format!("{PHONES} ..."));
        all.extend(PhoneTest { phones: &Phones::read(folder)? }.run(protocol)?);
    }
    if wanted(NPU) && there("aihub_latency.csv") {
        progress::say(format!("{NPU} ..."));
        all.extend(
            NpuTest { hub: &AiHub::read(folder)?, precision: "float".to_owned() }.run(protocol)?,
        );
    }
    all.retain(|o| !o.scores.is_empty());
    Ok(all)
}

fn any(device: &Column) -> bool {
    !device.summed
}

fn fbnet(
    folder: &Path,
    protocol: &Protocol,
    wanted: &dyn Fn(&str) -> bool,
) -> CliResult<Vec<Outcome>> {
    let cells = Cells::fbnet(folder)?;
    let mut all = Vec::new();
    if wanted(FBNET) {
        progress::say(format!("{FBNET} ..."));
        all.extend(
            CellTest {
                name: FBNET.to_owned(),
                cells: &cells,
                pool: POOL_FBNET,
                source: |_| true,
                target: any,
            }
            .run(protocol),
        );
    }
    if wanted(F5) {
        progress::say(format!("{F5} ..."));
        all.extend(
            CellTest {
                name: F5.to_owned(),
                cells: &cells,
                pool: POOL_FBNET,
                source: |d| d.class == "gpu",
                target: |d| d.class != "gpu" && !d.summed,
            }
            .run(protocol),
        );
    }
    Ok(all)
}

struct Judged {
    outcomes: Vec<Outcome>,
    each: bool,
}

impl Judged {
    fn rows(&self) -> Table {
        let mut table =
            Table::new(&["Test", "Measure", "Devices", "Score", "Over seeds", "Worst", "Best"], 2);
        for o in &self.outcomes {
            let means: Vec<f64> = o.scores.iter().map(vitempo::transfer::Scores::mean).collect();
            let (low, high) = means
                .iter()
                .fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(*v), h.max(*v)));
            let (worst, best) = if o.measure == Measure::Mape { (high, low) } else { (low, high) };
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
                    "".to_owned(),
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
}

fn name(measure: Measure) -> &'static str {
    match measure {
        Measure::Spearman => "Spearman, mean",
        Measure::Mape => "MAPE, median",
        Measure::Coverage => "coverage of 90 %",
    }
}

fn number(measure: Measure, value: f64) -> String {
    match measure {
        Measure::Spearman => format!("{value:.3}"),
        Measure::Mape | Measure::Coverage => format!("{value:.1} %"),
    }
}

impl Report for Judged {
    fn table(&self) -> String {
        self.rows().to_text()
    }

    fn csv(&self) -> CliResult<String> {
        self.rows().to_csv()
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        let scores = |o: &Outcome| -> Vec<serde_json::Value> {
            o.scores.iter().map(|s| json!({"target": s.target, "by_seed": s.by_seed})).collect()
        };
        let row = |o: &Outcome| json!({"test": o.test, "measure": name(o.measure), "score": o.score(), "spread": o.spread(), "targets": scores(o)});
        Ok(self.outcomes.iter().map(row).collect())
    }
}
