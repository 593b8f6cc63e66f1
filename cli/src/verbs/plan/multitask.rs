//! `vitempo plan multitask`: places one encoder and several decoders on processors; forecasts,
//! simulates and runs every placement.

use super::{
    super::{
        bundle,
        error::{CliError, CliResult},
        models::Model,
        output::{self, Format},
        progress,
        quantity::{self, positive},
    },
    budget::BudgetArgs,
    costs::{self, OptionalModel},
    dynamic::DynamicArgs,
    frame::FrameArgs,
    live::{LiveArgs, in_a_line},
    pipeline::parse_processor,
    placements::{PlacementReport, describe},
    to_run,
};
use std::path::{Path, PathBuf};
use vitempo::graph::Budget;
use vitempo::plan::{
    costs::nodes_of,
    multitask::{self, MultitaskError, Placements, Planning, RoundProgress},
    partition::Partition,
    run::{DividedModel, RunPlan},
};
use vitempo::planners::{
    cost::{Interval, Link},
    pipeline::{Boundaries, Tasks, TasksError, multitask::STEPS},
};

/// Places one encoder and its decoders on processors: compares every placement, one frame after the
/// other and overlapped
///
/// Example: vitempo plan multitask segformer.onnx --encoder /segformer --live a=onnxruntime@0
/// --live b=rten@1
///
/// Costs are forecast by bundles, or measured on the engines of --live, which also run every
/// placement.
#[derive(clap::Args, Debug)]
pub struct MultitaskArgs {
    #[command(flatten)]
    pub models: OptionalModel,

    /// Costs measured or put together elsewhere, instead of bundles: a part takes what its nodes
    /// take together. With --out, MODEL is the model that they are of
    #[arg(long, value_name = "FILE.json", conflicts_with_all = ["processors", "bandwidth", "hand_over", "engines"])]
    pub costs: Option<PathBuf>,

    /// Prefix of node names: these nodes and all nodes that they depend on are the encoder; by
    /// default the nodes that several outputs depend on
    #[arg(long, value_name = "PREFIX")]
    pub encoder: Option<String>,

    /// Prefix of node names: these nodes and all nodes that depend on them are postprocessing, which
    /// is placed apart from its decoder
    #[arg(long, value_name = "PREFIX")]
    pub postprocessing: Option<String>,

    /// What one call of a session takes beside its operators: added to each part, and to the whole
    /// model that they are compared with
    #[arg(long, value_name = "TIME", value_parser = quantity::time_ns, requires = "costs")]
    pub session_overhead: Option<u64>,

    /// A processor and its bundle (a file, or a name that `vitempo bundle list` shows); may be
    /// repeated
    #[arg(long = "processor", value_name = "NAME=BUNDLE", value_parser = parse_processor, required_unless_present_any = ["engines", "costs"])]
    pub processors: Vec<(String, PathBuf)>,

    /// Bandwidth between any two processors, e.g. 8GB/s; without it, transfers cost --hand-over
    /// alone
    #[arg(long, value_parser = quantity::bandwidth, requires = "processors")]
    pub bandwidth: Option<u64>,

    /// Fixed time of each transfer of features
    #[arg(long, value_name = "TIME", value_parser = quantity::time_ns, default_value = "0us", requires = "processors")]
    pub hand_over: u64,

    /// Write the parts as ONNX into this folder, or the chosen placement into this file for
    /// `vitempo run`
    #[arg(long, value_name = "FOLDER|FILE.json", requires = "models")]
    pub out: Option<PathBuf>,

    #[command(flatten)]
    pub live: LiveArgs,

    /// Rounds in which parts and placements are measured in turns; medians are reported, and each
    /// simulation is compared with the run just after its costs
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = positive, requires = "engines")]
    pub rounds: usize,

    #[command(flatten)]
    pub dynamic: DynamicArgs,

    #[command(flatten)]
    pub frame: FrameArgs,

    /// A processor that is not on the device of --frame-energy: data goes there by radio
    #[arg(long, value_name = "NAME", requires = "frame_energy")]
    pub off_device: Vec<String>,

    #[command(flatten)]
    pub budget: BudgetArgs,

    /// Format of the output
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

impl From<TasksError> for CliError {
    fn from(error: TasksError) -> Self {
        let hint = match &error {
            TasksError::OneOutput { .. } => Some("give --encoder PREFIX"),
            TasksError::NoSuchNode { .. } => Some("give another prefix"),
            _ => None,
        };
        let refused = Self::user(error);
        match hint {
            Some(hint) => refused.hint(hint),
            None => refused,
        }
    }
}

impl From<MultitaskError> for CliError {
    fn from(error: MultitaskError) -> Self {
        match error {
            MultitaskError::Live(error) => error.into(),
            MultitaskError::NoCost => Self::ours(error),
            other => Self::user(other),
        }
    }
}

pub fn run(args: &MultitaskArgs) -> CliResult {
    let model = args.models.read(args.costs.is_some(), args.out.is_some(), "--out")?;
    let budget = args.budget.start(STEPS);
    let mut notes = Vec::new();
    if let (Some(folder), Some(model)) = (args.folder(), &model) {
        let tasks = Tasks::of(&model.graph, args.boundaries())?;
        let written = multitask::write_parts(model, &tasks, folder)?;
        notes.extend(written.iter().map(|path| format!("wrote {}", path.display())));
    }
    let mut given = None;
    let (placements, engines) = match (&args.costs, &model) {
        (Some(path), _) => {
            let costs = costs::of_file(path)?;
            if let Some(model) = &model {
                nodes_of(&costs, &model.graph)?;
            }
            let tasks = Tasks::of_costs(&costs, args.boundaries())?;
            let (camera_fps, deadline_ns) = (args.live.camera, args.live.deadline);
            let planning = Planning::of_costs(&costs, &tasks, camera_fps, deadline_ns)?;
            let planning = planning.with_session_overhead(args.session_overhead.unwrap_or(0));
            given = Some((costs, tasks));
            (planning.within(budget).simulated()?, None)
        }
        (None, Some(model)) => args.placements(model, budget)?,
        (None, None) => {
            return Err(CliError::user("placements need a model, or --costs"));
        }
    };
    notes.extend(args.free_transfers());
    let dynamic = args.dynamic.simulate(&placements)?;
    if let (Some(path), Some(model)) = (args.plan(), &model) {
        notes.push(args.write(model, &placements, path)?);
    }
    let processors = placements.model.processors.iter().map(String::as_str);
    let frames = args.frame.open_among(processors, &args.off_device)?;
    let frames = frames.of_placements(&placements, given.as_ref());
    let report = PlacementReport { placements, dynamic, engines, frames, notes };
    output::print(&report, args.format)?;
    model.iter().try_for_each(|model| report.check(&model.graph))
}

fn say(progress: RoundProgress<'_>) {
    let RoundProgress { round, rounds, placement, processors } = progress;
    progress::say(format!("round {round} of {rounds}: {}", describe(placement, processors)));
}

impl MultitaskArgs {
    fn boundaries(&self) -> Boundaries<'_> {
        let (encoder, postprocessing) = (self.encoder.as_deref(), self.postprocessing.as_deref());
        Boundaries { encoder, postprocessing }
    }

    /// A note where forecasts have no bandwidth for what processors send each other.
    fn free_transfers(&self) -> Option<String> {
        let is_free =
            self.live.engines.is_empty() && self.processors.len() > 1 && self.bandwidth.is_none();
        is_free.then(|| match self.hand_over {
            0 => "transfers between processors cost nothing: there is no --bandwidth".to_owned(),
            _ => "transfers take --hand-over alone: there is no --bandwidth".to_owned(),
        })
    }

    /// The folder of `--out`.
    fn folder(&self) -> Option<&Path> {
        self.out.as_deref().filter(|out| !to_run::is_plan(out))
    }

    /// The plan of `--out`.
    fn plan(&self) -> Option<&Path> {
        self.out.as_deref().filter(|out| to_run::is_plan(out))
    }

    /// Writes the chosen placement, and returns a note on it.
    fn write(&self, model: &Model, placements: &Placements, path: &Path) -> CliResult<String> {
        let tasks = Tasks::of(&model.graph, self.boundaries())?;
        let names = placements.model.processors.iter();
        let divided = DividedModel {
            model,
            read: &self.models.args().read_options(),
            part_of: &tasks.part_of,
            processors: &to_run::processors(names, &self.processors, &self.live)?,
            costs: to_run::origin(self.costs.as_ref(), &self.processors),
            camera_fps: self.live.camera,
            deadline_ns: self.live.deadline,
            path,
        };
        to_run::write(&RunPlan::of_placement(placements, &divided)?, path)
    }

    /// Placements of a model's parts, and the engines that they ran on.
    fn placements(&self, model: &Model, budget: Budget) -> CliResult<(Placements, Option<String>)> {
        let tasks = Tasks::of(&model.graph, self.boundaries())?;
        let options = self.models.args().read_options();
        let partition = Partition::of(model, &options, &tasks.part_of, &tasks.names())?;
        let planning = self.planning(&model.identity.name, &tasks, &partition)?;
        let planning = planning.within(budget);
        if self.live.engines.is_empty() {
            return Ok((planning.simulated()?, None));
        }
        let session = self.live.start(partition)?;
        let engines = Some(in_a_line(&session.described()));
        Ok((planning.measured(&session, self.rounds, &mut say)?, engines))
    }

    /// The parts with costs from bundles, if bundles are given.
    fn planning(&self, model: &str, tasks: &Tasks, partition: &Partition) -> CliResult<Planning> {
        let (camera_fps, deadline_ns) = (self.live.camera, self.live.deadline);
        let parts = &partition.parts;
        let mut planning = Planning::new(model, tasks, parts, camera_fps, deadline_ns);
        let link = self.bandwidth.map(|bytes_per_s| Link {
            message_ns: self.hand_over,
            ..Link::of_bandwidth(bytes_per_s)
        });
        let transfer_ns = |bytes| {
            let fixed = Some(Interval::exact(self.hand_over));
            link.as_ref().map_or(fixed, |link| link.transfer_ns(bytes))
        };
        for (name, path) in &self.processors {
            planning.add_forecast(name, &bundle::open(path)?, partition, &transfer_ns)?;
        }
        Ok(planning)
    }
}
