//! `vitempo plan split --live`: what is run, and its results as text and JSON.

mod report;

use super::{
    super::{
        error::{CliError, CliResult},
        interrupt::interrupted,
        models::Model,
        progress,
        quantity::{self, positive},
        worker::worker,
    },
    live::parse_engine,
    split::{Minimise, SplitArgs},
    to_run::warn_of_others,
};
use report::{check, ends, plan_json, said, table};
use serde_json::{Value, json};
use std::{path::PathBuf, time::Duration};
use vitempo::plan::{
    live::Engine,
    split::{
        BreakPointOf, FeaturesError, Forecast, LiveBreakPoint, break_points_of,
        live::{LiveSplit, LiveSplitError, SplitOptions, compare},
        record::{RecordedRun, SplitRecord},
    },
};
use vitempo::planners::{
    cost::Costs,
    rate,
    split::{BandwidthRange, SplitPlan},
};
use vitempo::profiler::{
    remote::AgentCommand,
    split::{Features, Reach},
};

/// Running a split.
#[derive(clap::Args, Clone, Debug)]
pub struct SplitLiveArgs {
    /// Run the split with this engine, on cores of its own, as an end: device=BACKEND and
    /// server=BACKEND, e.g. `server=rten@1`. With --over-bandwidth, neighbouring splits run to
    /// find the bandwidth at which they are equally fast
    #[arg(long = "live", value_name = "NAME=BACKEND[@CORES]", value_parser = parse_engine, conflicts_with = "pareto", requires = "models")]
    pub engines: Vec<Engine>,

    /// Precision in which tensors are sent to the server: f32, f16 or int8
    #[arg(long, value_name = "PRECISION", default_value_t)]
    pub features: Features,

    /// Command that starts the server's agent, e.g. 'ssh board vitempo-agent'; by default a process
    /// of this program, over TCP on this machine
    #[arg(long, value_name = "COMMAND", requires = "engines")]
    pub remote: Option<AgentCommand>,

    /// Number of measured frames: one at a time, one after the other, and of each pair for a break
    /// point
    #[arg(long, value_name = "COUNT", default_value = "30", value_parser = positive, requires = "engines")]
    pub frames: usize,

    /// Number of seeded inputs whose results are compared with the whole model's
    #[arg(long, value_name = "COUNT", default_value = "3", value_parser = positive, requires = "engines")]
    pub inputs: usize,

    /// Give up a server that has not answered for so long, beyond what the link takes; a half that
    /// loads may take ten times as long
    #[arg(long, value_name = "TIME", value_parser = quantity::duration_or_seconds, default_value = "10s", requires = "engines")]
    pub answer_within: Duration,

    /// Write everything that was measured as JSON
    #[arg(long, value_name = "FILE", requires = "engines")]
    pub record: Option<PathBuf>,
}

impl From<FeaturesError> for CliError {
    fn from(error: FeaturesError) -> Self {
        Self::user(format!("--features: {error}"))
    }
}

impl From<LiveSplitError> for CliError {
    fn from(error: LiveSplitError) -> Self {
        let hint = match &error {
            LiveSplitError::NoEngine { processor } => Some(format!("add --live {processor}=rten")),
            LiveSplitError::UnknownEngine { .. } => {
                Some("name the processors of the costs: --live device=rten".to_owned())
            }
            LiveSplitError::Run(error) => error.hint(),
            _ => None,
        };
        match (error, hint) {
            (LiveSplitError::Partition(error), _) => error.into(),
            (LiveSplitError::Costs(error), _) => error.into(),
            (LiveSplitError::Device(error), _) => error.into(),
            (error @ LiveSplitError::Values(_), _) => Self::ours(error),
            (error, Some(hint)) => Self::user(error).hint(hint),
            (error, None) => Self::user(error),
        }
    }
}

/// What a run adds to a plan.
pub struct Shown {
    /// Fields of its JSON.
    pub json: Value,
    /// Lines below its table.
    pub lines: Vec<String>,
    /// An error if results are others than the whole model's.
    pub checked: CliResult,
}

impl SplitLiveArgs {
    pub fn is_live(&self) -> bool {
        !self.engines.is_empty()
    }

    /// Starts the halves of these splits on both ends.
    fn start(
        &self,
        args: &SplitArgs,
        model: &Model,
        costs: &Costs,
        splits: &[&[bool]],
    ) -> CliResult<LiveSplit> {
        let bundles = [("device", &args.device_bundle), ("server", &args.server_bundle)];
        let bundles = bundles.into_iter().filter_map(|(name, path)| Some((name, path.as_ref()?)));
        warn_of_others(bundles, &self.engines)?;
        let reach = self.remote.clone().map_or_else(own_agent, |c| Ok(Reach::Command(c)))?;
        let options = SplitOptions {
            engines: self.engines.clone(),
            reach,
            features: self.features,
            frames: self.frames,
            inputs: self.inputs,
            timeout: self.answer_within,
            worker: worker()?,
            interrupted: interrupted(),
        };
        let read = args.models.args().read_options();
        Ok(LiveSplit::start(model, &read, costs, splits, options)?)
    }

    /// Runs a plan.
    pub fn run_plan(
        &self,
        args: &SplitArgs,
        model: &Model,
        costs: &Costs,
        best: &SplitPlan,
    ) -> CliResult<Shown> {
        let mut live = self.start(args, model, costs, &[&best.on_device])?;
        let measured = live.measure(0)?;
        let forecast = Forecast::of(&best.plan, costs);
        let mut record = SplitRecord::of(costs.model(), self.features, &live);
        let bytes = live.tensor_bytes(0);
        record.run = Some(RecordedRun::of(&best.on_device, bytes, forecast, &measured));
        self.write(&record)?;
        let compared = compare(&forecast, &measured);
        let mut lines = vec![String::new()];
        lines.extend(table(&compared).lines().map(str::to_owned));
        lines.push(ends(&live));
        lines.extend(said(&live, &measured, self.features, bytes));
        Ok(Shown {
            json: json!({"live": plan_json(&live, &measured, &compared, self.features, bytes)}),
            lines,
            checked: check(measured.similarity.as_ref(), &live, self.features),
        })
    }

    /// Finds the break points between neighbours of this list.
    pub fn run_break_points(
        &self,
        args: &SplitArgs,
        model: &Model,
        costs: &Costs,
        ranges: &[BandwidthRange],
    ) -> CliResult<Vec<LiveBreakPoint>> {
        if !matches!(args.minimise, Minimise::Latency) {
            return Err(CliError::user("--live finds break points of the latency")
                .hint("leave --minimise out"));
        }
        let splits: Vec<&[bool]> = ranges.iter().map(|range| range.on_device.as_slice()).collect();
        let mut live = self.start(args, model, costs, &splits)?;
        let mut points = Vec::new();
        for BreakPointOf { splits, bytes_per_s } in break_points_of(ranges) {
            let found = live.break_point(splits, bytes_per_s, &mut |difference| {
                let (at, ms) = (rate(difference.bytes_per_s), difference.median_ns / 1e6);
                let noise = difference.noise_ns / 1e6;
                progress::say(format!("at {at}: difference {ms:.2} ms, noise {noise:.2} ms"));
            })?;
            points.push(found);
        }
        let mut record = SplitRecord::of(costs.model(), self.features, &live);
        record.break_points.clone_from(&points);
        self.write(&record)?;
        Ok(points)
    }

    fn write(&self, record: &SplitRecord) -> CliResult<()> {
        let Some(path) = &self.record else { return Ok(()) };
        let refused = |e| CliError::user(format!("cannot write {}: {e}", path.display()));
        record.write(path).map_err(refused)
    }
}

/// A process of this program as the server's agent.
fn own_agent() -> CliResult<Reach> {
    let program = std::env::current_exe().map_err(CliError::ours)?;
    let program = program.to_string_lossy();
    Reach::own([&*program, "agent", "--folder"]).map_err(CliError::ours)
}
