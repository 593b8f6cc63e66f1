//! `vitempo plan pipeline`: which stages on which processors, when frames overlap?

use super::{
    super::{
        error::{CliError, CliResult},
        files,
        output::{self, Format},
    },
    costs::{self, Forecast},
    quantity,
    report::Plans,
    split::OptionalModel,
};
use clap::ValueEnum;
use std::{collections::BTreeMap, path::PathBuf};
use vitempo_planners::{
    cost::{Costs, Link, ProcessorCosts},
    picture,
    pipeline::{Pipeline, PipelineError, PipelineObjective, naive},
};

/// Cuts a model into stages on different processors that work on different frames at the same time
///
/// Example: vitempo plan pipeline vit.onnx --processor npu=npu.vtb --processor cpu=cpu.vtb --bandwidth 8GB/s
#[derive(clap::Args, Debug)]
pub struct PipelineArgs {
    #[command(flatten)]
    pub models: OptionalModel,

    /// Costs measured or put together elsewhere, instead of model and bundles; inputs arrive at its first processor
    #[arg(long, value_name = "FILE.json", conflicts_with_all = ["models", "processors", "bandwidth"])]
    pub costs: Option<PathBuf>,

    /// A processor and its predictors; may be repeated. Inputs arrive at the first
    #[arg(long = "processor", value_name = "NAME=BUNDLE.vtb", value_parser = parse_processor, required_unless_present = "costs")]
    pub processors: Vec<(String, PathBuf)>,

    /// Between any two processors, e.g. 8GB/s
    #[arg(long, value_parser = quantity::bandwidth, required_unless_present = "costs")]
    pub bandwidth: Option<u64>,

    /// Once per tensor handed over
    #[arg(long, value_name = "TIME", value_parser = quantity::time_ns, default_value = "0us")]
    pub hand_over: u64,

    #[arg(long, value_enum, default_value_t)]
    pub minimise: Minimise,

    #[arg(long, value_name = "TIME", value_parser = quantity::time_ns)]
    pub max_latency: Option<u64>,
    #[arg(long, value_name = "TIME", value_parser = quantity::time_ns)]
    pub max_period: Option<u64>,

    /// Show every pipeline that is best in some trade of period against latency
    #[arg(long)]
    pub pareto: bool,

    /// Draw the stages of three frames
    #[arg(long, value_name = "FILE.svg", conflicts_with = "pareto")]
    pub svg: Option<PathBuf>,

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

fn parse_processor(text: &str) -> Result<(String, PathBuf), String> {
    let (name, bundle) = text.split_once('=').ok_or("expected NAME=BUNDLE, e.g. npu=phone-npu.vtb")?;
    if name.is_empty() || bundle.is_empty() { Err("expected NAME=BUNDLE, e.g. npu=phone-npu.vtb".to_owned()) } else { Ok((name.to_owned(), bundle.into())) }
}

impl From<PipelineError> for CliError {
    fn from(error: PipelineError) -> Self {
        Self::user(error)
    }
}

pub fn run(args: &PipelineArgs) -> CliResult {
    let costs = args.costs()?;
    let pipeline = Pipeline::new(&costs, 0)?;
    let plans = if args.pareto { pipeline.pareto()? } else { vec![pipeline.best(args.objective()?)?] };
    let mut notes = Vec::new();
    if let [best] = &plans[..] {
        if let Some(path) = &args.svg {
            files::write(path, picture::stages(&best.plan, 3).as_bytes())?;
        }
        let order: Vec<usize> = (0..costs.processors().len()).collect();
        let objective = PipelineObjective::Throughput { latency_at_most: None };
        let equal = pipeline.plan_of(&naive::equal_counts(costs.nodes().len(), &order), objective);
        let period = equal.and_then(|p| p.plan.predicted.period_ns);
        notes.extend(period.map(|period| format!("as many operators on each processor, in their order: period {}", vitempo_planners::duration(period))));
    }
    output::print(&Plans { plans: plans.into_iter().map(|p| p.plan).collect(), extra: Vec::new(), notes }, args.format)
}

impl PipelineArgs {
    fn objective(&self) -> CliResult<PipelineObjective> {
        match (self.minimise, self.max_latency, self.max_period) {
            (Minimise::Period, latency_at_most, None) => Ok(PipelineObjective::Throughput { latency_at_most }),
            (Minimise::Latency, None, period_at_most) => Ok(PipelineObjective::Latency { period_at_most }),
            _ => {
                Err(CliError::user("what is minimised is not bounded too")
                    .hint("use --max-latency with --minimise period, --max-period with --minimise latency"))
            }
        }
    }

    fn costs(&self) -> CliResult<Costs> {
        if let Some(path) = &self.costs {
            return costs::of_file(path);
        }
        let model = costs::one_model(&self.models.args())?;
        let forecast = |(name, bundle): &(String, PathBuf)| (ProcessorCosts::named(name), bundle.clone());
        let processors: Vec<(ProcessorCosts, PathBuf)> = self.processors.iter().map(forecast).collect();
        let forecasts = processors.iter().map(|(processor, bundle)| Forecast { processor: processor.clone(), bundle }).collect();
        let link = Link { message_ns: self.hand_over, ..Link::of_bandwidth(self.bandwidth.unwrap_or(0)) };
        let count = processors.len();
        let links: BTreeMap<_, _> = (0..count).flat_map(|a| (0..count).filter(move |&b| a != b).map(move |b| ((a, b), link))).collect();
        costs::of_bundles(&model.graph, forecasts, links)
    }
}
