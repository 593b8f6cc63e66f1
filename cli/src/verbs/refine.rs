//! `vitempo refine`: measures the kernels of one model that its forecast is least sure of.

use super::{
    bundle,
    error::{CliError, CliResult},
    models::{Dimensions, LimitArgs, Model, ModelArgs},
    output::{self, Format, Report, Table, percent},
    profile::{RemoteArgs, run_campaign},
    progress, quantity,
};
use serde_json::json;
use std::{
    fmt::Write,
    path::PathBuf,
    time::{Duration, Instant},
};
use vitempo::{
    graph::{GraphPrediction, Latency},
    refine::{self, Candidate, Choice, RefineError, Refined, Refinement},
};

/// Measures what the forecast of one model is least sure of
///
/// Finds the kernels that carry most of the interval's width or have no predictor, measures each in
/// a small piece of the model, and writes a bundle that is corrected by them. The machine and the
/// engine have to be the bundle's.
///
/// Example: vitempo refine model.onnx --bundle mine.vtb --within 60s --out sure.vtb
#[derive(clap::Args, Debug)]
pub struct RefineArgs {
    /// ONNX file of the model; weights may be absent
    #[arg(value_name = "MODEL")]
    model: String,

    #[command(flatten)]
    dimensions: Dimensions,

    #[command(flatten)]
    limits: LimitArgs,

    /// Trained bundle: a file, or a name that `vitempo bundle list` shows
    #[arg(long, value_name = "NAME")]
    bundle: PathBuf,

    /// Time for measuring; kernels that bring most per second come first
    #[arg(long, value_name = "TIME", default_value = "60s",
          value_parser = quantity::duration_or_seconds)]
    within: Duration,

    /// Bundle to write
    #[arg(long, value_name = "NAME.vtb", required_unless_present = "list")]
    out: Option<PathBuf>,

    /// Dataset folder of the measurements; by default that of --out with `-data`
    #[arg(long, value_name = "FOLDER", conflicts_with = "list")]
    data: Option<PathBuf>,

    /// Only say what would be measured, and how long it would take
    #[arg(long, conflicts_with_all = ["out", "anywhere"])]
    list: bool,

    /// Logical cores to measure on; by default the last ones
    #[arg(long, value_delimiter = ',', value_name = "LIST", conflicts_with = "list")]
    cores: Vec<usize>,

    /// Measure though machine or engine are not the bundle's: the corrections then contain how much
    /// faster or slower this machine is
    #[arg(long)]
    anywhere: bool,

    #[command(flatten)]
    remote: RemoteArgs,

    /// Format of the output
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

impl From<RefineError> for CliError {
    fn from(error: RefineError) -> Self {
        let hint = match &error {
            RefineError::Adapted(_) => "adapt it again with more latencies: vitempo adapt",
            RefineError::Environment { .. } => {
                "measure where the bundle was trained, train a bundle here, or accept it with \
                 --anywhere"
            }
            RefineError::NothingChosen { .. } => "give more time with --within",
            RefineError::NothingMeasured(_) => {
                "the dataset has the reasons: vitempo dataset inspect"
            }
            _ => return Self::user(error),
        };
        Self::user(error).hint(hint)
    }
}

pub fn run(args: &RefineArgs) -> CliResult {
    let model = args.model()?;
    let bundle = bundle::open(&args.bundle)?;
    let refinement = Refinement::new(&bundle, &model)?;
    let choice = refinement.plan(Some(args.within))?;
    let Some(out) = &args.out else {
        let report = Plan { model: &model, before: &refinement.before, choice: &choice };
        return output::print(&report, args.format);
    };
    let target = args.remote.target()?;
    let options =
        vitempo::profiler::RunOptions { cores: args.cores.clone(), ..refinement.run_options() };
    if !args.anywhere {
        let backend = &refinement.bundle.environment.framework;
        let here = target.probe(backend, &options)?;
        refine::check_environment(refinement.bundle, &here)?;
    }
    let data = args.data.clone().unwrap_or_else(|| beside(out));
    let started = Instant::now();
    run_campaign(refinement.campaign(&choice, &data, target, options)?)?;
    let refined = refinement.apply(&data, started.elapsed().as_secs())?;
    for (network, reason) in &refined.failed {
        progress::say(format!("warning: {network} failed: {reason}"));
    }
    refined.bundle.save(out)?;
    let plan = Plan { model: &model, before: &refinement.before, choice: &choice };
    output::print(&Outcome { plan, refined: &refined, out, data: &data }, args.format)
}

/// The folder of the measurements that belong to a bundle's file.
fn beside(out: &std::path::Path) -> PathBuf {
    let stem = out.file_stem().unwrap_or_default().to_string_lossy();
    out.with_file_name(format!("{stem}-data"))
}

impl RefineArgs {
    fn model(&self) -> CliResult<Model> {
        let args = ModelArgs {
            models: vec![self.model.clone()],
            dimensions: self.dimensions.dimensions.clone(),
            limits: self.limits,
        };
        let mut models = args.read()?;
        match (models.pop(), models.pop()) {
            (Some(model), None) => Ok(model),
            _ => Err(CliError::user(format!("`{}` is several models", self.model))
                .hint("refine one after the other; each takes the bundle of the one before")),
        }
    }
}

/// What is measured.
struct Plan<'a> {
    model: &'a Model,
    before: &'a GraphPrediction,
    choice: &'a Choice,
}

/// Width of an interval relative to its point.
fn width(forecast: &GraphPrediction) -> f64 {
    let latency = &forecast.latency;
    (latency.upper().ns() - latency.lower().ns()) / latency.point().ns().max(f64::MIN_POSITIVE)
}

fn spelled(forecast: &GraphPrediction) -> String {
    let l = &forecast.latency;
    format!("{} [{} .. {}], {} wide", l.point(), l.lower(), l.upper(), percent(width(forecast)))
}

fn json_of(forecast: &GraphPrediction) -> serde_json::Value {
    let l = &forecast.latency;
    json!({"point": l.point(), "lower": l.lower(), "upper": l.upper(), "level": l.level})
}

const HEADINGS: [&str; 8] =
    ["kernel", "node", "predictor", "count", "time", "share", "of the width", "costs"];

impl Plan<'_> {
    fn rows(&self) -> Table {
        let mut table = Table::new(&HEADINGS, 3);
        for candidate in &self.choice.candidates {
            table.row(Self::row(candidate));
        }
        table
    }

    fn row(c: &Candidate) -> [String; 8] {
        let predictor = match (c.trained, c.extrapolating) {
            (false, _) => "none",
            (true, true) => "extrapolates",
            (true, false) => "trained",
        };
        let cost = match (c.is_chosen, c.is_covered) {
            (true, _) => format!("{:.1} s", c.cost.as_secs_f64()),
            (false, true) => "with another".to_owned(),
            (false, false) => format!("({:.1} s)", c.cost.as_secs_f64()),
        };
        [
            c.op.kind.name().to_owned(),
            c.node.clone(),
            predictor.to_owned(),
            c.count.to_string(),
            Latency::from_ns(c.latency_ns).to_string(),
            percent(c.share_of_time),
            percent(c.share_of_width),
            cost,
        ]
    }

    fn summary(&self) -> String {
        let choice = self.choice;
        format!(
            "{} networks, about {:.0} s: {} of the interval's width; {} is out of reach\n",
            choice.chosen().count(),
            choice.cost().as_secs_f64(),
            percent(choice.covered()),
            percent(choice.out_of_reach)
        )
    }

    fn json_value(&self) -> serde_json::Value {
        let kernels: Vec<_> = self
            .choice
            .candidates
            .iter()
            .map(|c| {
                json!({
                    "kind": c.op.kind.name(), "node": c.node, "operator": c.op.id(),
                    "count": c.count, "latency_ns": c.latency_ns,
                    "share_of_time": c.share_of_time, "share_of_width": c.share_of_width,
                    "trained": c.trained, "extrapolating": c.extrapolating,
                    "cost_s": c.cost.as_secs_f64(), "chosen": c.is_chosen,
                    "with_another": c.is_covered,
                })
            })
            .collect();
        json!({
            "model": self.model.identity.name, "before": json_of(self.before),
            "kernels": kernels, "cost_s": self.choice.cost().as_secs_f64(),
            "covered": self.choice.covered(), "out_of_reach": self.choice.out_of_reach,
        })
    }
}

impl Report for Plan<'_> {
    fn table(&self) -> String {
        let head = format!("{}: {}\n\n", self.model.identity.name, spelled(self.before));
        head + &self.rows().to_text() + "\n" + &self.summary()
    }

    fn csv(&self) -> CliResult<String> {
        self.rows().to_csv()
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        Ok(self.json_value())
    }
}

/// What came of it.
struct Outcome<'a> {
    plan: Plan<'a>,
    refined: &'a Refined,
    out: &'a std::path::Path,
    data: &'a std::path::Path,
}

impl Report for Outcome<'_> {
    fn table(&self) -> String {
        let record = &self.refined.record;
        let mut text = format!("{}\n", self.plan.model.identity.name);
        let _ = writeln!(text, "before  {}", spelled(self.plan.before));
        let _ = writeln!(text, "after   {}", spelled(&self.refined.after));
        let _ = writeln!(
            text,
            "\n{} kernels corrected by {} networks, measured in {} s; {} of the width was out of \
             reach\nbundle {}, measurements {}",
            record.kernels,
            record.networks,
            record.seconds,
            percent(self.plan.choice.out_of_reach),
            self.out.display(),
            self.data.display()
        );
        text
    }

    fn csv(&self) -> CliResult<String> {
        let mut table = Table::new(
            &[
                "model",
                "before_ns",
                "before_width",
                "after_ns",
                "after_width",
                "kernels",
                "seconds",
            ],
            1,
        );
        let record = &self.refined.record;
        table.row([
            self.plan.model.identity.name.clone(),
            self.plan.before.latency.point().ns().to_string(),
            width(self.plan.before).to_string(),
            self.refined.after.latency.point().ns().to_string(),
            width(&self.refined.after).to_string(),
            record.kernels.to_string(),
            record.seconds.to_string(),
        ]);
        table.to_csv()
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        let record = &self.refined.record;
        let mut value = self.plan.json_value();
        value["after"] = json_of(&self.refined.after);
        value["corrected_kernels"] = record.kernels.into();
        value["networks"] = record.networks.into();
        value["seconds"] = record.seconds.into();
        value["failed"] = json!(self.refined.failed);
        Ok(value)
    }
}
