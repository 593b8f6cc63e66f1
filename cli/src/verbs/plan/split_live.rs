//! `vitempo plan split --live`: what is run, and its results as text and JSON.

use super::{
    super::{
        error::{CliError, CliResult},
        interrupt::interrupted,
        models::Model,
        output::Table,
        progress,
        quantity::{self, positive},
        worker::worker,
    },
    live::{in_a_line, parse_engine},
    split::{Minimise, SplitArgs},
    to_run::warn_of_others,
};
use serde_json::{Value, json};
use std::{path::PathBuf, time::Duration};
use vitempo::plan::{
    live::Engine,
    split::{
        BreakPointOf, FeaturesError, Forecast, LiveBreakPoint, break_points_of,
        live::{Compared, LiveSplit, LiveSplitError, MeasuredSplit, SplitOptions, compare},
        record::{RecordedRun, SplitRecord},
    },
};
use vitempo::planners::{
    Evidence,
    cost::Costs,
    duration, rate,
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

/// What a run adds to a plan: fields of its JSON, and lines below its table.
pub type Shown = (Value, Vec<String>);

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
        Ok((json!({"live": plan_json(&live, &measured, &compared, self.features, bytes)}), lines))
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

/// Forecast and measurement, part by part.
fn table(compared: &[Compared]) -> String {
    let mut table = Table::new(&["Part", "Forecast", "Measured", "Difference"], 1);
    for row in compared {
        let dash = || "-".to_owned();
        table.row([
            row.what.to_owned(),
            duration(row.forecast_ns),
            row.measured_ns.map_or_else(dash, duration),
            row.off().map_or_else(dash, |off| format!("{:+.1} %", 100.0 * off)),
        ]);
    }
    table.to_text()
}

fn ends(live: &LiveSplit) -> String {
    let described: Vec<(String, String)> = live
        .ends()
        .into_iter()
        .map(|end| {
            let environment = end.environment;
            let version = environment.framework_version;
            let engine =
                format!("{} {version} on cores {:?}", environment.framework, environment.cores);
            (end.processor, engine)
        })
        .collect();
    format!("{}   ({})", in_a_line(&described), Evidence::Live)
}

/// What else there is to say of a run.
fn said(
    live: &LiveSplit,
    measured: &MeasuredSplit,
    features: Features,
    [sent, back]: [u64; 2],
) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(link) = measured.link {
        lines.push(format!(
            "sent {sent} B in {features}, {back} B back; link measured at {} to the server, {} back",
            rate(link.there_bytes_per_s),
            rate(link.back_bytes_per_s)
        ));
        lines.extend(link.slower_than(live.declared()).into_iter().map(|(way, said, is)| {
            format!(
                "warning: the link {way} is slower than declared: {} instead of {}",
                rate(is),
                rate(said)
            )
        }));
    }
    lines.extend(measured.similarity.map(|s| {
        format!(
            "results are those of the whole model to {:.1e} of the largest value; cosine {:.6}   \
            ({} inputs)",
            s.apart, s.cosine, s.inputs
        )
    }));
    if let Some(first) = measured.lost.first() {
        let (lost, not_run) = (measured.lost.len(), measured.not_run);
        lines.push(format!(
            "warning: {lost} frames were lost and {not_run} not run; the first: {}",
            first.reason
        ));
    }
    lines
}

fn plan_json(
    live: &LiveSplit,
    measured: &MeasuredSplit,
    compared: &[Compared],
    features: Features,
    [sent, back]: [u64; 2],
) -> Value {
    let rows = compared.iter().map(|row| {
        let both = json!({"forecast_ns": row.forecast_ns, "measured_ns": row.measured_ns, "off": row.off()});
        (row.what.to_owned(), both)
    });
    let slower = measured.link.map(|link| {
        let slower = link.slower_than(live.declared()).into_iter();
        slower.map(|(way, ..)| way).collect::<Vec<_>>()
    });
    json!({
        "ends": live.ends(),
        "features": features,
        "sent_bytes": sent,
        "received_bytes": back,
        "compared": rows.collect::<serde_json::Map<_, _>>(),
        "link": measured.link,
        "slower_than_declared": slower,
        "similarity": measured.similarity,
        "frames": measured.alone.len(),
        "lost": measured.lost,
        "not_run": measured.not_run,
        "evidence": Evidence::Live,
    })
}
