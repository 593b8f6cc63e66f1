//! `vitempo plan pipeline`: cuts a model into stages on processors that work on different frames.

use super::{
    super::{
        error::{CliError, CliResult},
        files,
        models::Model,
        output::{self, Format, percent},
        quantity,
    },
    budget::BudgetArgs,
    costs::{self, OptionalModel},
    frame::FrameArgs,
    live::{LiveArgs, check_results, difference, in_a_line, outcome_json},
    report::Plans,
    to_run,
};
use clap::ValueEnum;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use vitempo::graph::Latency;
use vitempo::plan::{
    live::Measured,
    partition::Partition,
    pipeline::{self, BoundedTwice},
    run::{DividedModel, RunPlan},
};
use vitempo::planners::{
    Evidence,
    cost::{Costs, Link},
    picture,
    pipeline::{Pipeline, PipelineError, PipelineFront, PipelineObjective, PipelinePlan, STEPS},
};

/// Cuts a model into stages on different processors that work on different frames at the same time
///
/// Example: vitempo plan pipeline vit.onnx --processor npu=npu.vtb --processor cpu=cpu.vtb
/// --bandwidth 8GB/s
#[derive(clap::Args, Debug)]
pub struct PipelineArgs {
    #[command(flatten)]
    pub models: OptionalModel,

    /// File of costs, instead of bundles; inputs arrive at its first processor. With --out or
    /// --live, MODEL is the model of these costs
    #[arg(long, value_name = "FILE.json", conflicts_with_all = ["processors", "bandwidth", "hand_over"])]
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
    #[arg(long, value_enum, default_value_t, conflicts_with = "pareto")]
    pub minimise: Minimise,

    /// Limit on the latency, with --minimise period or --pareto
    #[arg(long, value_name = "TIME", value_parser = quantity::time_ns)]
    pub max_latency: Option<u64>,
    /// Limit on the period, with --minimise latency or --pareto
    #[arg(long, value_name = "TIME", value_parser = quantity::time_ns)]
    pub max_period: Option<u64>,

    /// Show the Pareto front of period and latency
    #[arg(long)]
    pub pareto: bool,

    /// Draw the stages of three frames
    #[arg(long, value_name = "FILE.svg", value_parser = files::svg(), conflicts_with = "pareto")]
    pub svg: Option<PathBuf>,

    /// Write the stages as ONNX into this folder, or the plan into this file for `vitempo run`
    #[arg(long, value_name = "FOLDER|FILE.json", conflicts_with = "pareto", requires = "models")]
    pub out: Option<PathBuf>,

    #[command(flatten)]
    pub frame: FrameArgs,

    /// A processor that is not on the device of --frame-energy: data goes there by radio
    #[arg(long, value_name = "NAME", requires = "frame_energy")]
    pub off_device: Vec<String>,

    #[command(flatten)]
    pub budget: BudgetArgs,

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
        match error {
            PipelineError::GaveUp { .. } => Self::user(error).hint("give --budget more time"),
            _ => Self::user(error),
        }
    }
}

impl From<BoundedTwice> for CliError {
    fn from(error: BoundedTwice) -> Self {
        Self::user(error)
            .hint("use --max-latency with --minimise period, --max-period with --minimise latency")
    }
}

pub fn run(args: &PipelineArgs) -> CliResult {
    args.check()?;
    let is_used = args.out.is_some() || !args.live.engines.is_empty();
    let model = args.models.read(args.costs.is_some(), is_used, "--out and --live")?;
    let costs = args.costs(model.as_ref())?;
    let pipeline = Pipeline::new(&costs, 0)?.within(args.budget.start(STEPS));
    let frame = args.frame.open(&costs, &args.off_device)?;
    if args.pareto {
        let front = pipeline.pareto()?.within(args.max_period, args.max_latency)?;
        let PipelineFront { plans, is_complete } = front;
        let notes = incomplete(is_complete, "there may be more of these");
        let plans = plans.into_iter().map(|p| frame.of(p.plan, &costs)).collect();
        return output::print(&Plans::front(plans, notes), args.format);
    }
    let mut best = pipeline.best(args.objective()?)?;
    best.plan = frame.of(best.plan, &costs);
    let mut notes = incomplete(best.is_complete, "there may be a better pipeline");
    let mut extra = json!({"search": {"is_complete": best.is_complete}});
    if let Some(path) = &args.svg {
        files::write(path, picture::stages(&best.plan, 3).as_bytes())?;
    }
    let period = pipeline::equal_counts(&pipeline, &costs);
    notes.extend(period.map(|period| {
        format!(
            "as many operators on each processor, in their order: period {}",
            vitempo::planners::duration(period)
        )
    }));
    let mut checked = Ok(());
    if let (true, Some(model)) = (is_used, &model) {
        let part_of = pipeline::part_of_model(&best, &costs, &model.graph)?;
        if let Some(out) = &args.out {
            notes.extend(args.write(model, &best, &part_of, &costs, out)?);
        }
        if !args.live.engines.is_empty() {
            let (measured, lines, agrees) = args.measured(model, &best, &part_of)?;
            (extra["live"], checked) = (measured, agrees);
            notes.extend(lines);
        }
    }
    output::print(&Plans::one(best.plan, Some(extra), notes), args.format)?;
    checked
}

/// A note where the budget ended before the search did.
fn incomplete(is_complete: bool, so: &str) -> Vec<String> {
    let note = || format!("the budget ended: {so} (--budget)");
    (!is_complete).then(note).into_iter().collect()
}

impl PipelineArgs {
    /// Refuses what would have no effect.
    fn check(&self) -> CliResult<()> {
        let is_live = !self.live.engines.is_empty();
        if self.pareto && is_live {
            return Err(CliError::user("--live runs one pipeline, --pareto shows many")
                .hint("leave one of them out"));
        }
        if is_live && self.models.models.is_none() {
            return Err(CliError::user("--live needs a model: costs alone do not run"));
        }
        let given = [
            ("--camera", self.live.camera.is_some()),
            ("--deadline", self.live.deadline.is_some()),
        ];
        let is_run = is_live || self.out.as_deref().is_some_and(to_run::is_plan);
        match given.into_iter().find(|(_, given)| *given && !is_run) {
            Some((flag, _)) => {
                Err(CliError::user(format!("{flag} is for frames of a pipeline that runs"))
                    .hint("add --live NAME=BACKEND for each processor, or --out plan.json"))
            }
            None => Ok(()),
        }
    }

    /// Writes the stages, or the plan; returns notes on what was written.
    fn write(
        &self,
        model: &Model,
        best: &PipelinePlan,
        part_of: &[usize],
        costs: &Costs,
        out: &Path,
    ) -> CliResult<Vec<String>> {
        if !to_run::is_plan(out) {
            let written = pipeline::write_stages(model, best, part_of, out)?;
            return Ok(written.iter().map(|path| format!("wrote {}", path.display())).collect());
        }
        let names = costs.processors().iter().map(|processor| &processor.name);
        let divided = DividedModel {
            model,
            read: &self.models.args().read_options(),
            part_of,
            processors: &to_run::processors(names, &self.processors, &self.live)?,
            costs: to_run::origin(self.costs.as_ref(), &self.processors),
            camera_fps: self.live.camera,
            deadline_ns: self.live.deadline,
            path: out,
        };
        Ok(vec![to_run::write(&RunPlan::of_pipeline(best, &divided)?, out)?])
    }

    fn objective(&self) -> CliResult<PipelineObjective> {
        let minimise = match self.minimise {
            Minimise::Period => pipeline::Minimise::Period,
            Minimise::Latency => pipeline::Minimise::Latency,
        };
        Ok(pipeline::objective(minimise, self.max_latency, self.max_period)?)
    }

    fn costs(&self, model: Option<&Model>) -> CliResult<Costs> {
        let model = match (&self.costs, model) {
            (Some(path), _) => return costs::of_file(path),
            (None, Some(model)) => model,
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

    /// Runs a pipeline on engines, and returns the measurements as JSON and as text, and an error if
    /// the results are others than the whole model's.
    fn measured(
        &self,
        model: &Model,
        best: &PipelinePlan,
        part_of: &[usize],
    ) -> CliResult<(Value, Vec<String>, CliResult)> {
        let names = pipeline::stage_names(best);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let options = self.models.args().read_options();
        let bundles = self.processors.iter().map(|(name, path)| (name.as_str(), path));
        to_run::warn_of_others(bundles, &self.live.engines)?;
        let session = self.live.start(Partition::of(model, &options, part_of, &names)?)?;
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
        lines.extend(apart.map(difference));
        let mut measured = outcome_json(&outcome, Evidence::Live);
        measured["apart"] = json!(apart);
        let checked = check_results(apart, &model.graph, &lines[0]);
        Ok((measured, lines, checked))
    }
}
