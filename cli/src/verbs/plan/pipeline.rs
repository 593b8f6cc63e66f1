//! `vitempo plan pipeline`: cuts a model into stages on processors that work on different frames.

use super::{
    super::{
        error::{CliError, CliResult},
        files,
        models::Model,
        output::{self, Format, percent},
        quantity,
    },
    costs,
    live::{LiveArgs, in_a_line, outcome_json},
    report::Plans,
    split::OptionalModel,
};
use clap::ValueEnum;
use serde_json::{Value, json};
use std::path::PathBuf;
use vitempo::graph::Latency;
use vitempo::plan::{
    live::Measured,
    partition::Partition,
    pipeline::{self, BoundedTwice},
};
use vitempo::planners::{
    Evidence,
    cost::{Costs, Link},
    picture,
    pipeline::{Pipeline, PipelineError, PipelineObjective, PipelinePlan},
};

/// Cuts a model into stages on different processors that work on different frames at the same time
///
/// Example: vitempo plan pipeline vit.onnx --processor npu=npu.vtb --processor cpu=cpu.vtb
/// --bandwidth 8GB/s
#[derive(clap::Args, Debug)]
pub struct PipelineArgs {
    #[command(flatten)]
    pub models: OptionalModel,

    /// File of costs, instead of model and bundles; inputs arrive at its first processor
    #[arg(long, value_name = "FILE.json", conflicts_with_all = ["models", "processors", "bandwidth"])]
    pub costs: Option<PathBuf>,

    /// A processor and its bundle (a file, or a name that `vitempo bundle list` shows); may be
    /// repeated. Inputs arrive at the first
    #[arg(long = "processor", value_name = "NAME=BUNDLE", value_parser = parse_processor, required_unless_present = "costs")]
    pub processors: Vec<(String, PathBuf)>,

    /// Bandwidth between any two processors, e.g. 8GB/s
    #[arg(long, value_parser = quantity::bandwidth, required_unless_present = "costs")]
    pub bandwidth: Option<u64>,

    /// Fixed time of each transfer of a tensor
    #[arg(long, value_name = "TIME", value_parser = quantity::time_ns, default_value = "0us")]
    pub hand_over: u64,

    /// Quantity to minimise
    #[arg(long, value_enum, default_value_t)]
    pub minimise: Minimise,

    /// Limit on the latency, with --minimise period
    #[arg(long, value_name = "TIME", value_parser = quantity::time_ns)]
    pub max_latency: Option<u64>,
    /// Limit on the period, with --minimise latency
    #[arg(long, value_name = "TIME", value_parser = quantity::time_ns)]
    pub max_period: Option<u64>,

    /// Show the Pareto front of period and latency
    #[arg(long)]
    pub pareto: bool,

    /// Draw the stages of three frames
    #[arg(long, value_name = "FILE.svg", conflicts_with = "pareto")]
    pub svg: Option<PathBuf>,

    #[command(flatten)]
    pub live: LiveArgs,

    /// Format of the output
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// `--minimise`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Minimise {
    #[default]
    Period,
    Latency,
}

pub(super) fn parse_processor(text: &str) -> Result<(String, PathBuf), String> {
    let (name, bundle) =
        text.split_once('=').ok_or("expected NAME=BUNDLE, e.g. npu=phone-npu.vtb")?;
    if name.is_empty() || bundle.is_empty() {
        Err("expected NAME=BUNDLE, e.g. npu=phone-npu.vtb".to_owned())
    } else {
        Ok((name.to_owned(), bundle.into()))
    }
}

impl From<PipelineError> for CliError {
    fn from(error: PipelineError) -> Self {
        Self::user(error)
    }
}

impl From<BoundedTwice> for CliError {
    fn from(error: BoundedTwice) -> Self {
        Self::user(error)
            .hint("use --max-latency with --minimise period, --max-period with --minimise latency")
    }
}

pub fn run(args: &PipelineArgs) -> CliResult {
    let model =
        if args.costs.is_some() { None } else { Some(costs::one_model(&args.models.args())?) };
    let costs = args.costs(model.as_ref())?;
    let pipeline = Pipeline::new(&costs, 0)?;
    let plans =
        if args.pareto { pipeline.pareto()? } else { vec![pipeline.best(args.objective()?)?] };
    let (mut notes, mut extra) = (Vec::new(), Vec::new());
    if args.pareto && !args.live.engines.is_empty() {
        return Err(CliError::user("--live runs one pipeline, --pareto shows many")
            .hint("leave one of them out"));
    }
    if let [best] = &plans[..] {
        if let Some(path) = &args.svg {
            files::write(path, picture::stages(&best.plan, 3).as_bytes())?;
        }
        let period = pipeline::equal_counts(&pipeline, &costs);
        notes.extend(period.map(|period| {
            format!(
                "without a plan (equal numbers of operators per processor): period {}",
                vitempo::planners::duration(period)
            )
        }));
        if !args.live.engines.is_empty() {
            let model = model
                .as_ref()
                .ok_or_else(|| CliError::user("--live needs a model: costs alone cannot run"))?;
            let (measured, lines) = args.measured(model, best)?;
            extra.push(json!({"live": measured}));
            notes.extend(lines);
        }
    }
    output::print(
        &Plans { plans: plans.into_iter().map(|p| p.plan).collect(), extra, notes },
        args.format,
    )
}

impl PipelineArgs {
    fn objective(&self) -> CliResult<PipelineObjective> {
        let minimise = match self.minimise {
            Minimise::Period => pipeline::Minimise::Period,
            Minimise::Latency => pipeline::Minimise::Latency,
        };
        Ok(pipeline::objective(minimise, self.max_latency, self.max_period)?)
    }

    fn costs(&self, model: Option<&Model>) -> CliResult<Costs> {
        let model = match (&self.costs, model) {
            (None, Some(model)) => model,
            (Some(path), _) => return costs::of_file(path),
            (None, None) => {
                return Err(CliError::user(
                    "a pipeline needs --costs, or a model with --processor and --bandwidth",
                ));
            }
        };
        let link =
            Link { message_ns: self.hand_over, ..Link::of_bandwidth(self.bandwidth.unwrap_or(0)) };
        let bundles = costs::open(&self.processors)?;
        let processors = costs::processors(&bundles);
        Ok(costs::warned(pipeline::costs(&model.graph, &processors, link)?))
    }

    /// Runs a pipeline on engines, and returns the measurements as JSON and as text.
    fn measured(&self, model: &Model, best: &PipelinePlan) -> CliResult<(Value, Vec<String>)> {
        let names = pipeline::stage_names(best);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let part_of = pipeline::part_of(best, model.graph.nodes().len());
        let options = self.models.args().read_options();
        let session = self.live.start(Partition::of(model, &options, &part_of, &names)?)?;
        let Measured { outcome, apart } = pipeline::measure(&session, best)?;
        let show = |ns: Option<f64>| {
            ns.map_or_else(|| "-".to_owned(), |ns| Latency::from_ns(ns).to_string())
        };
        let quantile = |share| show(outcome.latency_quantile(share).map(|ns| ns as f64));
        let period = show(outcome.period_ns());
        let late = percent(1.0 - outcome.deadline_success_rate());
        let mut lines = vec![in_a_line(&session.described())];
        lines.push(format!(
            "measured: period {period}; latency {} (p50), {} (p99); late {late}   ({})",
            quantile(0.5),
            quantile(0.99),
            Evidence::Live
        ));
        lines.extend(apart.map(|apart| {
            format!("results are those of the whole model to {apart:.1e} of the largest value")
        }));
        let mut measured = outcome_json(&outcome, Evidence::Live);
        measured["apart"] = json!(apart);
        Ok((measured, lines))
    }
}
