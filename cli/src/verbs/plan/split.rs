//! `vitempo plan split`: divides the operators of a model between a device and a server.

use super::{
    super::{
        bundle,
        error::{CliError, CliResult},
        files,
        models::Model,
        output::{self, Format},
        quantity,
    },
    break_points::BreakPoints,
    budget::BudgetArgs,
    costs::{self, OptionalModel},
    frame::FrameArgs,
    report::Plans,
    split_live::SplitLiveArgs,
};
use clap::ValueEnum;
use std::path::{Path, PathBuf};
use vitempo::plan::{
    costs::{confined, nodes_of},
    parts::WritePartsError,
    split::{self, Connection, DevicePower, Limits, PlanSplitError, with_features},
};
use vitempo::planners::{
    cost::Costs,
    picture,
    split::{Criterion, Front, Objective, STEPS, SplitError, SplitPlan},
};
use vitempo::profiler::split::Features;

/// Splits a model between a device and a server behind a link
///
/// Example: vitempo plan split vit.onnx --device-bundle phone.vtb --server-bundle server.vtb
/// --bandwidth 20Mbit/s --out halves/
///
/// With --live both halves run, behind a link of that bandwidth, and are measured beside the
/// forecast: --live device=rten@0 --live server=onnxruntime@1 --features f16
#[derive(clap::Args, Debug)]
pub struct SplitArgs {
    #[command(flatten)]
    pub models: OptionalModel,

    /// File of costs, instead of bundles; its first processor is the device, its second the server.
    /// With --out, MODEL is the model of these costs
    #[arg(long, value_name = "FILE.json", conflicts_with_all = ["device_bundle", "server_bundle", "bandwidth", "round_trip", "hand_over", "active_power", "idle_power", "transmit_power"])]
    pub costs: Option<PathBuf>,

    /// Bundle for the device: a file, or a name that `vitempo bundle list` shows
    #[arg(long, value_name = "NAME", required_unless_present = "costs")]
    pub device_bundle: Option<PathBuf>,

    /// Bundle for the server: a file, or a name that `vitempo bundle list` shows
    #[arg(long, value_name = "NAME", required_unless_present = "costs")]
    pub server_bundle: Option<PathBuf>,

    /// Bandwidth of the link, both ways, e.g. 20Mbit/s
    #[arg(long, value_parser = quantity::bandwidth, required_unless_present = "costs")]
    pub bandwidth: Option<u64>,

    /// Round-trip time of the link, once per inference that uses the server
    #[arg(long, value_name = "TIME", value_parser = quantity::time_ns, default_value = "0ms")]
    pub round_trip: u64,

    /// What handing over a tensor takes besides the link, either way. A live run has it by itself,
    /// and prints what no engine and no link accounts for
    #[arg(long, value_name = "TIME", value_parser = quantity::time_ns, default_value = "0us")]
    pub hand_over: u64,

    /// Power of the device while it computes; energy depends on all three powers
    #[arg(long, value_name = "POWER", value_parser = quantity::power_w, default_value = "0W")]
    pub active_power: f64,
    /// Power of the device while it waits
    #[arg(long, value_name = "POWER", value_parser = quantity::power_w, default_value = "0W")]
    pub idle_power: f64,
    /// Power of the device while it sends
    #[arg(long, value_name = "POWER", value_parser = quantity::power_w, default_value = "0W")]
    pub transmit_power: f64,

    /// Quantity to minimise
    #[arg(long, value_enum, default_value_t, conflicts_with = "pareto")]
    pub minimise: Minimise,

    /// Limit on the latency
    #[arg(long, value_name = "TIME", value_parser = quantity::time_ns)]
    pub max_latency: Option<u64>,
    /// Limit on the energy of the device
    #[arg(long, value_name = "ENERGY", value_parser = quantity::energy_nj)]
    pub max_energy: Option<u64>,
    /// Limit on the memory of the device's engine, or of the weights where that is not known
    #[arg(long, value_name = "SIZE", value_parser = quantity::bytes)]
    pub max_memory: Option<u64>,

    /// A tensor that may not leave the device, e.g. the input; may be repeated
    #[arg(long, value_name = "TENSOR")]
    pub confine: Vec<String>,

    /// Show the Pareto front of latency and device energy (of latency and bytes sent, without
    /// powers)
    #[arg(long, conflicts_with = "over_bandwidth")]
    pub pareto: bool,

    /// Show the best split for every bandwidth, by exact break points
    #[arg(long, conflicts_with = "frame_energy")]
    pub over_bandwidth: bool,

    /// Write the two halves as ONNX into this folder
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["pareto", "over_bandwidth"], requires = "models")]
    pub out: Option<PathBuf>,

    /// Draw the split graph
    #[arg(long, value_name = "FILE.svg", value_parser = files::svg(), conflicts_with_all = ["pareto", "over_bandwidth"])]
    pub svg: Option<PathBuf>,

    #[command(flatten)]
    pub frame: FrameArgs,

    #[command(flatten)]
    pub live: SplitLiveArgs,

    #[command(flatten)]
    pub budget: BudgetArgs,

    /// Format of the output
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// `--minimise`.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum Minimise {
    #[default]
    Latency,
    Energy,
    Memory,
    Bytes,
}

impl From<WritePartsError> for CliError {
    fn from(error: WritePartsError) -> Self {
        match error {
            WritePartsError::Onnx(error) => error.into(),
            other => Self::user(other),
        }
    }
}

impl From<PlanSplitError> for CliError {
    fn from(error: PlanSplitError) -> Self {
        let hint = match &error {
            PlanSplitError::Split(SplitError::NoEnergy { .. }) => {
                "give --active-power, --idle-power or --transmit-power, or the fields in the costs"
            }
            PlanSplitError::Split(SplitError::GaveUp { .. } | SplitError::OutOfBudget { .. }) => {
                "give --budget more time"
            }
            _ => return Self::user(error),
        };
        Self::user(error).hint(hint)
    }
}

pub fn run(args: &SplitArgs) -> CliResult {
    let is_live = args.live.is_live();
    let is_used = args.out.is_some() || is_live || args.live.features != Features::F32;
    let flags = "--out, --live and --features";
    let model = args.models.read(args.costs.is_some(), is_used, flags)?;
    let costs = args.costs(model.as_ref())?;
    let objective = args.objective();
    let budget = args.budget.start(STEPS);
    let frame = args.frame.open_split(&costs)?;
    if args.over_bandwidth {
        let ranges = split::over_bandwidth(&costs, &objective, budget)?;
        let live = |model| args.live.run_break_points(args, model, &costs, &ranges);
        let live = model.as_ref().filter(|_| is_live).map(live).transpose()?;
        let report = BreakPoints { costs: &costs, objective: &objective, ranges, live };
        return output::print(&report, args.format);
    }
    if args.pareto {
        let Front { plans, is_complete } = split::pareto(&costs, &objective.bounds, budget)?;
        let incomplete = "the budget ended: there may be more of these (--budget)".to_owned();
        let notes = if is_complete { Vec::new() } else { vec![incomplete] };
        let plans = plans.into_iter().map(|p| frame.of(p.plan, &costs)).collect();
        return output::print(&Plans::front(plans, notes), args.format);
    }
    let mut best = split::best(&costs, &objective, budget)?;
    best.plan = frame.of(best.plan, &costs);
    let (mut notes, mut extra, mut checked) = (Vec::new(), None, Ok(()));
    if let Some(path) = &args.svg {
        let picture = picture::graph(&costs, &split::processors(&best));
        files::write(path, picture.as_bytes())?;
    }
    if let (Some(folder), Some(model)) = (&args.out, &model) {
        notes.extend(write_halves(folder, model, &costs, &best)?);
    }
    if let (true, Some(model)) = (is_live, &model) {
        let run = args.live.run_plan(args, model, &costs, &best)?;
        extra = Some(run.json);
        notes.extend(run.lines);
        checked = run.checked;
    }
    output::print(&Plans::one(best.plan, extra, notes), args.format)?;
    checked
}

impl SplitArgs {
    fn objective(&self) -> Objective {
        let minimise = match self.minimise {
            Minimise::Latency => Criterion::Latency,
            Minimise::Energy => Criterion::DeviceEnergy,
            Minimise::Memory => Criterion::DeviceMemory,
            Minimise::Bytes => Criterion::BytesSent,
        };
        let limits = Limits {
            latency_ns: self.max_latency,
            device_energy_nj: self.max_energy,
            device_memory_bytes: self.max_memory,
        };
        limits.objective(minimise)
    }

    fn costs(&self, model: Option<&Model>) -> CliResult<Costs> {
        let costs = match (&self.costs, model, &self.device_bundle, &self.server_bundle) {
            (Some(path), ..) => costs::of_file(path)?,
            (None, Some(model), Some(device), Some(server)) => {
                let connection = Connection {
                    bytes_per_s: self.bandwidth.unwrap_or(0),
                    round_trip_ns: self.round_trip,
                    hand_over_ns: self.hand_over,
                    transmit_w: self.transmit_power,
                };
                let power = DevicePower { active_w: self.active_power, idle_w: self.idle_power };
                let (device, server) = (bundle::open(device)?, bundle::open(server)?);
                let forecast = split::costs(&model.graph, &device, &server, &connection, power)?;
                costs::warned(forecast)
            }
            _ => {
                return Err(CliError::user(
                    "a split needs --costs, or a model with --device-bundle, --server-bundle and \
                    --bandwidth",
                ));
            }
        };
        let costs = match (model, self.live.features) {
            (None, features) if features != Features::F32 => {
                return Err(CliError::user("--features needs the model: costs have sizes only"));
            }
            (Some(model), features) => with_features(costs, &model.graph, features)?,
            (None, _) => costs,
        };
        Ok(confined(costs, &self.confine)?)
    }
}

/// Writes both halves, with the model's own weights if the file has them.
fn write_halves(
    folder: &Path,
    model: &Model,
    costs: &Costs,
    best: &SplitPlan,
) -> CliResult<Vec<String>> {
    let nodes = nodes_of(costs, &model.graph)?;
    let written = split::write_halves(&model.path, &model.graph, &nodes, best, folder)?;
    Ok(written.map_or_else(
        || vec!["nothing to write: the whole model runs on one side".to_owned()],
        |paths| paths.iter().map(|path| format!("wrote {}", path.display())).collect(),
    ))
}
