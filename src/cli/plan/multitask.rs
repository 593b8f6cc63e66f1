//! `vitempo plan multitask`: one encoder, several decoders, a few processors: every placement, forecast, simulated, and run for real.

use super::{
    super::{
        bundle,
        error::{CliError, CliResult},
        models::ModelArgs,
        output::{self, Format},
        profile::go_on,
        progress, quantity,
    },
    costs,
    division::divide,
    live::{LiveArgs, Stand},
    pipeline::parse_processor,
    placements::{Placed, Placements},
};
use std::{collections::BTreeSet, path::PathBuf, sync::Arc};
use vitempo_graph::{Graph, LatencyModel};
use vitempo_planners::{
    cost::{Interval, Link},
    pipeline::{
        Rehearsal, Tasks, TasksError,
        multitask::{Execution, MultiTask, Schedule},
    },
    simulator::simulate,
};
use vitempo_profiler::{
    OutputValues,
    live::{Stage, Task},
    statistics,
};

/// Places one encoder and its decoders on processors: every placement, one frame after the other and overlapped
///
/// Example: vitempo plan multitask segformer.onnx --encoder /segformer --live a=onnxruntime@0 --live b=rten@1
///
/// Costs are forecast by bundles, or measured on the engines named by --live; these also run every placement for real.
#[derive(clap::Args, Debug)]
pub struct MultitaskArgs {
    #[command(flatten)]
    pub models: ModelArgs,

    /// The encoder is what nodes need whose names begin so, themselves included; by default what leads to several outputs
    #[arg(long, value_name = "PREFIX")]
    pub encoder: Option<String>,

    /// A processor and its predictors; may be repeated
    #[arg(long = "processor", value_name = "NAME=BUNDLE.vtb", value_parser = parse_processor, required_unless_present = "engines")]
    pub processors: Vec<(String, PathBuf)>,

    /// Between any two processors, e.g. 8GB/s
    #[arg(long, value_parser = quantity::bandwidth, requires = "processors")]
    pub bandwidth: Option<u64>,

    /// Once for handing the features over
    #[arg(long, value_name = "TIME", value_parser = quantity::time_ns, default_value = "0us", requires = "processors")]
    pub hand_over: u64,

    #[command(flatten)]
    pub live: LiveArgs,

    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

impl From<TasksError> for CliError {
    fn from(error: TasksError) -> Self {
        let unclear = matches!(error, TasksError::OneOutput { .. } | TasksError::NoSuchNode { .. });
        let refused = Self::user(error);
        if unclear { refused.hint("give --encoder PREFIX") } else { refused }
    }
}

pub fn run(args: &MultitaskArgs) -> CliResult {
    let model = costs::one_model(&args.models)?;
    let tasks = Tasks::of(&model.graph, args.encoder.as_deref())?;
    let divided = divide(&model, &args.models, &tasks.part_of, &tasks.names())?;
    let mut plan = Planning { args, names: tasks.names.clone(), model: MultiTask::of_parts(&model.identity.name, &tasks.names), rehearsal: Rehearsal::plain() };
    plan.rehearsal.camera_fps = args.live.camera;
    plan.rehearsal.deadline_ns = args.live.deadline;
    plan.model.features_bytes = features_bytes(&divided.parts);
    if !args.processors.is_empty() {
        plan.forecast(&divided.parts)?;
    }
    let stand = if args.live.engines.is_empty() { None } else { Some(Stand::start(&args.live, divided)?) };
    if let Some(stand) = &stand {
        plan.measure(stand)?;
    }
    let mut rows = Vec::new();
    for execution in [Execution::Sequential, Execution::Pipelined] {
        for schedule in plan.model.all(execution)? {
            rows.push(plan.place(schedule, stand.as_ref())?);
        }
    }
    let engines = stand.as_ref().map(|stand| stand.describe(&args.live));
    let placements = Placements::new(plan.model, rows, plan.rehearsal.slowdown, engines);
    output::print(&placements, args.format)
}

/// Side by side, an engine runs at most so many times as many frames as the slowest.
const MOST_BESIDE: usize = 50;

/// What the decoders read of what the encoder gives, bytes.
fn features_bytes(parts: &[Graph]) -> u64 {
    let read: BTreeSet<&str> = parts.iter().skip(1).flat_map(|part| part.inputs().iter().map(|&id| part.value(id).name.as_str())).collect();
    let given = parts.first().into_iter().flat_map(|encoder| encoder.outputs().iter().map(|&id| encoder.value(id)));
    given.filter(|value| read.contains(value.name.as_str())).filter_map(|value| value.tensor.as_ref()).map(vitempo_graph::TensorSpec::size_bytes).sum()
}

/// What is known so far.
struct Planning<'a> {
    args: &'a MultitaskArgs,
    names: Vec<String>,
    model: MultiTask,
    rehearsal: Rehearsal,
}

impl Planning<'_> {
    /// Costs from bundles.
    fn forecast(&mut self, parts: &[Graph]) -> CliResult {
        let link = self.args.bandwidth.map(|bytes_per_s| Link { message_ns: self.args.hand_over, ..Link::of_bandwidth(bytes_per_s) });
        let received = link.map_or(Some(Interval::exact(self.args.hand_over)), |link| link.transfer_ns(self.model.features_bytes));
        for (name, path) in &self.args.processors {
            let bundle = bundle::open(path)?;
            let latency = |part: &Graph| -> CliResult<Option<Interval>> { Ok(Some(Interval::from(&bundle.predict(part)?.latency))) };
            let latencies = parts.iter().map(latency).collect::<CliResult<Vec<_>>>()?;
            self.model.add_processor(name, &latencies, received);
        }
        Ok(())
    }

    /// Costs from the engines, where no bundle gave them; and how much engines slow each other down.
    fn measure(&mut self, stand: &Stand) -> CliResult {
        let frames = self.args.live.frames;
        let engines = self.args.live.engines.len();
        let parts: Vec<usize> = (0..self.names.len()).collect();
        progress::say(format!("measuring {} parts on {engines} engines, one at a time", parts.len()));
        let values = stand.computed(&parts, 0)?;
        let mut samples = Vec::new();
        for processor in 0..engines {
            let own = parts.iter().map(|&part| stand.alone(part, processor, &values, frames)).collect::<CliResult<Vec<_>>>()?;
            samples.push(own);
        }
        self.rehearsal.cv = median(samples.iter().flatten().map(|own| spread(own)));
        if self.args.processors.is_empty() {
            for (engine, own) in self.args.live.engines.iter().zip(&samples) {
                let latencies: Vec<Option<Interval>> = own.iter().map(|samples| interval(samples)).collect();
                self.model.add_processor(&engine.name, &latencies, Some(Interval::ZERO));
            }
        }
        let slowdown = side_by_side(stand, &values, &samples, frames)?;
        let of_processor = |name: &String| self.args.live.index_of(name).map(|engine| slowdown[engine]);
        self.rehearsal.slowdown = self.model.processors.iter().map(of_processor).collect::<CliResult<_>>()?;
        Ok(())
    }

    /// One placement, simulated, and run where there are engines.
    fn place(&self, schedule: Schedule, stand: Option<&Stand>) -> CliResult<Placed> {
        let scenario = self.rehearsal.scenario(&self.model, &schedule);
        let mut simulated = simulate(&scenario, 0).map_err(CliError::user)?;
        let mut placed = Placed { simulated: simulated.streams.swap_remove(0), live: None, apart: None, schedule };
        let Some(stand) = stand else { return Ok(placed) };
        progress::say(format!("running {}", placed.describe(&self.model.processors)));
        let engine = |processor: usize| self.args.live.index_of(&self.model.processors[processor]);
        let task = |&(part, processor): &(usize, usize)| -> CliResult<Task> { Ok(Task { part, processor: engine(processor)? }) };
        let step = |tasks: &Vec<(usize, usize)>| tasks.iter().map(task).collect::<CliResult<Vec<_>>>();
        let stage = |(index, steps): (usize, &Vec<Vec<(usize, usize)>>)| -> CliResult<Stage> {
            let steps = steps.iter().map(step).collect::<CliResult<_>>()?;
            Ok(Stage { name: format!("stage {}", index + 1), queue: self.rehearsal.queue, steps })
        };
        let stages = placed.schedule.stages().iter().enumerate().map(stage).collect::<CliResult<Vec<_>>>()?;
        let run = stand.run(&stages)?;
        placed.apart = stand.apart(&run)?;
        placed.live = Some(stand.outcome(&run));
        Ok(placed)
    }
}

/// How much longer the encoder takes on each engine while all others run it too; 1 and more.
fn side_by_side(stand: &Stand, values: &[Arc<OutputValues>], alone: &[Vec<Vec<u64>>], frames: usize) -> CliResult<Vec<f64>> {
    let typical: Vec<f64> = alone.iter().map(|parts| parts.first().and_then(|own| statistics::median(own)).unwrap_or(1.0)).collect();
    if typical.len() < 2 {
        return Ok(vec![1.0; typical.len()]);
    }
    let longest = typical.iter().copied().fold(0.0, f64::max);
    progress::say("measuring the encoder on all engines at the same time");
    let beside = std::thread::scope(|scope| {
        let start = |(processor, own): (usize, &f64)| {
            let as_long_as_others = (frames as f64 * longest / own.max(1.0)).ceil() as usize;
            scope.spawn(move || stand.alone(0, processor, values, as_long_as_others.clamp(frames, MOST_BESIDE * frames)))
        };
        let threads: Vec<_> = typical.iter().enumerate().map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(CliError::ours("a measurement ended early")))).collect::<CliResult<Vec<_>>>()
    })?;
    go_on()?;
    Ok(beside.iter().zip(&typical).map(|(samples, own)| (statistics::median(samples).unwrap_or(*own) / own).max(1.0)).collect())
}

/// Median, and the middle four fifths of the samples.
pub fn interval(samples: &[u64]) -> Option<Interval> {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    let at = |share: f64| sorted.get((share * sorted.len() as f64) as usize).copied();
    let point = statistics::median(samples)? as u64;
    Interval::new(point, at(0.1)?.min(point), at(0.9)?.max(point))
}

/// Robust coefficient of variation: 1.4826 median absolute deviations over the median.
fn spread(samples: &[u64]) -> f64 {
    let deviation = statistics::median_absolute_deviation(samples).unwrap_or(0.0);
    1.4826 * deviation / statistics::median(samples).unwrap_or(1.0).max(1.0)
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_hold_the_middle_of_the_samples() {
        let samples: Vec<u64> = (1..=10).map(|i| 100 * i).collect();
        assert_eq!(interval(&samples), Interval::new(550, 200, 1000));
        assert_eq!(interval(&[7]), Some(Interval::exact(7)));
        assert_eq!(interval(&[]), None);
        assert_eq!((spread(&[5, 5, 5]), median([3.0, 1.0, 2.0].into_iter())), (0.0, 2.0));
    }
}
