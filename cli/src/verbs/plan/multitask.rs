//! `vitempo plan multitask`: one encoder, several decoders, a few processors: every placement,
//! forecast, simulated, and run for real.

use super::{
    super::{
        bundle,
        error::{CliError, CliResult},
        models::ModelArgs,
        output::{self, Format},
        profile::{go_on, parse_positive},
        progress, quantity,
    },
    costs,
    division::divide,
    live::{LiveArgs, Stand},
    pipeline::parse_processor,
    placements::{Placed, Placements, Round},
};
use std::{collections::BTreeSet, path::PathBuf, sync::Arc};
use vitempo::graph::{Graph, LatencyModel};
use vitempo::planners::{
    cost::{Interval, Link},
    pipeline::{
        Simulation, Tasks, TasksError,
        multitask::{Execution, MultiTask, Schedule},
    },
    simulator::simulate,
};
use vitempo::predictors::metrics;
use vitempo::profiler::{
    OutputValues,
    live::{Stage, Task},
    statistics,
};

/// Places one encoder and its decoders on processors: every placement, one frame after the other
/// and overlapped
///
/// Example: vitempo plan multitask segformer.onnx --encoder /segformer --live a=onnxruntime@0
/// --live b=rten@1
///
/// Costs are forecast by bundles, or measured on the engines named by --live; these also run every
/// placement for real.
#[derive(clap::Args, Debug)]
pub struct MultitaskArgs {
    #[command(flatten)]
    pub models: ModelArgs,

    /// The encoder is what nodes need whose names begin so, themselves included; by default what
    /// leads to several outputs
    #[arg(long, value_name = "PREFIX")]
    pub encoder: Option<String>,

    /// A processor and its bundle (a file, or a name that `vitempo bundle list` shows); may be
    /// repeated
    #[arg(long = "processor", value_name = "NAME=BUNDLE", value_parser = parse_processor, required_unless_present = "engines")]
    pub processors: Vec<(String, PathBuf)>,

    /// Between any two processors, e.g. 8GB/s
    #[arg(long, value_parser = quantity::bandwidth, requires = "processors")]
    pub bandwidth: Option<u64>,

    /// Once for handing the features over
    #[arg(long, value_name = "TIME", value_parser = quantity::time_ns, default_value = "0us", requires = "processors")]
    pub hand_over: u64,

    #[command(flatten)]
    pub live: LiveArgs,

    /// How often to measure parts and placements in turns; told are medians, and each simulation is
    /// held against the run just after its costs
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = parse_positive, requires = "engines")]
    pub rounds: usize,

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
    let mut plan = Planning {
        args,
        names: tasks.names.clone(),
        model: MultiTask::of_parts(&model.identity.name, &tasks.names),
        simulation: Simulation::plain(),
    };
    plan.simulation.camera_fps = args.live.camera;
    plan.simulation.deadline_ns = args.live.deadline;
    plan.model.features_bytes = features_bytes(&divided.parts);
    if !args.processors.is_empty() {
        plan.forecast(&divided.parts)?;
    }
    let placements = if args.live.engines.is_empty() {
        plan.placements(None)?
    } else {
        plan.placements(Some(&Stand::start(&args.live, divided)?))?
    };
    output::print(&placements, args.format)
}

/// Side by side, an engine runs at most so many times as many frames as the slowest.
const MOST_BESIDE: usize = 50;

/// What the decoders read of what the encoder gives, bytes.
fn features_bytes(parts: &[Graph]) -> u64 {
    let read: BTreeSet<&str> = parts
        .iter()
        .skip(1)
        .flat_map(|part| part.inputs().iter().map(|&id| part.value(id).name.as_str()))
        .collect();
    let given = parts
        .first()
        .into_iter()
        .flat_map(|encoder| encoder.outputs().iter().map(|&id| encoder.value(id)));
    given
        .filter(|value| read.contains(value.name.as_str()))
        .filter_map(|value| value.tensor.as_ref())
        .map(vitempo::graph::TensorSpec::size_bytes)
        .sum()
}

/// What is known so far.
#[derive(Clone)]
struct Planning<'a> {
    args: &'a MultitaskArgs,
    names: Vec<String>,
    model: MultiTask,
    simulation: Simulation,
}

/// What engines take, once or several times.
#[derive(Default)]
struct Measured {
    /// By engine and part, ns.
    samples: Vec<Vec<Vec<u64>>>,
    /// How much longer each engine takes while all others work, once each time.
    slowdowns: Vec<Vec<f64>>,
}

impl Measured {
    fn extend(&mut self, other: Self) {
        self.slowdowns.extend(other.slowdowns);
        if self.samples.is_empty() {
            self.samples = other.samples;
            return;
        }
        let pairs = self.samples.iter_mut().flatten().zip(other.samples.into_iter().flatten());
        pairs.for_each(|(own, new)| own.extend(new));
    }

    fn slowdown(&self, engine: usize) -> f64 {
        metrics::median(
            &self.slowdowns.iter().filter_map(|of| of.get(engine).copied()).collect::<Vec<f64>>(),
        )
        .unwrap_or(1.0)
    }

    /// Typical spread of one part on one engine.
    fn cv(&self) -> f64 {
        metrics::median(&self.samples.iter().flatten().map(|own| spread(own)).collect::<Vec<f64>>())
            .unwrap_or(0.0)
    }
}

impl Planning<'_> {
    /// Costs from bundles.
    fn forecast(&mut self, parts: &[Graph]) -> CliResult {
        let link = self.args.bandwidth.map(|bytes_per_s| Link {
            message_ns: self.args.hand_over,
            ..Link::of_bandwidth(bytes_per_s)
        });
        let received = link.map_or(Some(Interval::exact(self.args.hand_over)), |link| {
            link.transfer_ns(self.model.features_bytes)
        });
        for (name, path) in &self.args.processors {
            let bundle = bundle::open(path)?;
            let latency = |part: &Graph| -> CliResult<Option<Interval>> {
                Ok(Some(Interval::from(&bundle.predict(part)?.latency)))
            };
            let latencies = parts.iter().map(latency).collect::<CliResult<Vec<_>>>()?;
            self.model.add_processor(name, &latencies, received);
        }
        Ok(())
    }

    /// Every placement, simulated, and run where there are engines: in turns with measuring what it
    /// is made of.
    fn placements(self, stand: Option<&Stand>) -> CliResult<Placements> {
        let mut all = Measured::default();
        let mut told = self.clone();
        if let Some(stand) = stand {
            all = self.measured(stand)?;
            told = self.with(&all)?;
        }
        let mut rows = Vec::new();
        for execution in [Execution::Sequential, Execution::Pipelined] {
            rows.extend(
                told.model
                    .all(execution)?
                    .into_iter()
                    .map(|schedule| Placed { schedule, rounds: Vec::new() }),
            );
        }
        for round in 1..=self.args.rounds {
            for row in &mut rows {
                let mut now = told.clone();
                if let Some(stand) = stand {
                    progress::say(format!(
                        "round {round} of {}: {}",
                        self.args.rounds,
                        row.describe(&told.model.processors)
                    ));
                    let measured = self.measured(stand)?;
                    now = self.with(&measured)?;
                    all.extend(measured);
                }
                row.rounds.push(now.round(&row.schedule, stand)?);
            }
        }
        if stand.is_some() {
            told = self.with(&all)?;
            for row in &mut rows {
                row.schedule = told.anew(&row.schedule)?;
            }
        }
        let engines = stand.map(|stand| stand.describe(&self.args.live));
        Ok(Placements::new(told.model, rows, told.simulation.slowdown, engines))
    }

    /// What the parts take on the engines, and how much engines slow each other down.
    fn measured(&self, stand: &Stand) -> CliResult<Measured> {
        let frames = self.args.live.frames;
        let parts: Vec<usize> = (0..self.names.len()).collect();
        let values = stand.computed(&parts, 0)?;
        let mut samples = Vec::new();
        for processor in 0..self.args.live.engines.len() {
            samples.push(
                parts
                    .iter()
                    .map(|&part| stand.alone(part, processor, &values, frames))
                    .collect::<CliResult<Vec<_>>>()?,
            );
        }
        let slowdown = side_by_side(stand, &values, &samples, frames)?;
        Ok(Measured { samples, slowdowns: vec![slowdown] })
    }

    /// The same with costs that were measured, where no bundle gave them, and with how engines slow
    /// each other down.
    fn with(&self, measured: &Measured) -> CliResult<Self> {
        let mut with = self.clone();
        if self.args.processors.is_empty() {
            for (engine, own) in self.args.live.engines.iter().zip(&measured.samples) {
                let latencies: Vec<Option<Interval>> =
                    own.iter().map(|samples| interval(samples)).collect();
                with.model.add_processor(&engine.name, &latencies, Some(Interval::ZERO));
            }
        }
        with.simulation.cv = measured.cv();
        let of_processor =
            |name: &String| self.args.live.index_of(name).map(|engine| measured.slowdown(engine));
        with.simulation.slowdown =
            with.model.processors.iter().map(of_processor).collect::<CliResult<_>>()?;
        Ok(with)
    }

    /// The same placement with the costs of now.
    fn anew(&self, schedule: &Schedule) -> CliResult<Schedule> {
        let same = self.model.schedule(schedule.encoder, &schedule.decoders, schedule.execution);
        same.ok_or_else(|| CliError::ours("a part that ran before has no cost"))
    }

    /// One placement, simulated, and run where there are engines.
    fn round(&self, schedule: &Schedule, stand: Option<&Stand>) -> CliResult<Round> {
        let schedule = self.anew(schedule)?;
        let scenario = self.simulation.scenario(&self.model, &schedule);
        let simulated = simulate(&scenario, 0).map_err(CliError::user)?.streams.swap_remove(0);
        let Some(stand) = stand else { return Ok(Round { simulated, live: None, apart: None }) };
        let engine = |processor: usize| self.args.live.index_of(&self.model.processors[processor]);
        let task = |&(part, processor): &(usize, usize)| -> CliResult<Task> {
            Ok(Task { part, processor: engine(processor)? })
        };
        let step =
            |tasks: &Vec<(usize, usize)>| tasks.iter().map(task).collect::<CliResult<Vec<_>>>();
        let stage = |(index, steps): (usize, &Vec<Vec<(usize, usize)>>)| -> CliResult<Stage> {
            let steps = steps.iter().map(step).collect::<CliResult<_>>()?;
            Ok(Stage { name: format!("stage {}", index + 1), queue: self.simulation.queue, steps })
        };
        let stages =
            schedule.stages().iter().enumerate().map(stage).collect::<CliResult<Vec<_>>>()?;
        let run = stand.run(&stages)?;
        Ok(Round { simulated, live: Some(stand.outcome(&run)), apart: stand.apart(&run)? })
    }
}

/// How much longer the encoder takes on each engine while all others run it too; 1 and more.
fn side_by_side(
    stand: &Stand,
    values: &[Arc<OutputValues>],
    alone: &[Vec<Vec<u64>>],
    frames: usize,
) -> CliResult<Vec<f64>> {
    let typical: Vec<f64> = alone
        .iter()
        .map(|parts| parts.first().and_then(|own| statistics::median(own)).unwrap_or(1.0))
        .collect();
    if typical.len() < 2 {
        return Ok(vec![1.0; typical.len()]);
    }
    let longest = typical.iter().copied().fold(0.0, f64::max);
    let beside = std::thread::scope(|scope| {
        let start = |(processor, own): (usize, &f64)| {
            let as_long_as_others = (frames as f64 * longest / own.max(1.0)).ceil() as usize;
            scope.spawn(move || {
                stand.alone(
                    0,
                    processor,
                    values,
                    as_long_as_others.clamp(frames, MOST_BESIDE * frames),
                )
            })
        };
        let threads: Vec<_> = typical.iter().enumerate().map(start).collect();
        threads
            .into_iter()
            .map(|thread| {
                thread.join().unwrap_or_else(|_| Err(CliError::ours("a measurement ended early")))
            })
            .collect::<CliResult<Vec<_>>>()
    })?;
    go_on()?;
    Ok(beside
        .iter()
        .zip(&typical)
        .map(|(samples, own)| (statistics::median(samples).unwrap_or(*own) / own).max(1.0))
        .collect())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_hold_the_middle_of_the_samples() {
        let samples: Vec<u64> = (1..=10).map(|i| 100 * i).collect();
        assert_eq!(interval(&samples), Interval::new(550, 200, 1000));
        assert_eq!(interval(&[7]), Some(Interval::exact(7)));
        assert_eq!(interval(&[]), None);
        assert!(spread(&[5, 5, 5]).abs() < 1e-12);
    }
}
