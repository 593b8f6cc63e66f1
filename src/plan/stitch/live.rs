//! [`StitchSession`]: stitched variants on engines, each processor an engine on cores of its own.
//! It measures every subgraph there, compares stitched variants with the sum of their subgraphs
//! (eq. 5), and finds whether the chosen order is the best one measured. Times are in ns.

use super::{
    StitchProgress, each_order,
    record::{Tried, TriedOrder},
};
use crate::plan::live::{Engine, WARMUPS, described, interval};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::sync::{Arc, atomic::AtomicBool};
use vitempo_graph::Graph;
use vitempo_planners::{
    cost::Interval,
    stitch::{Order, Slo, StitchError, Zoo, default_budget},
};
use vitempo_profiler::{
    OutputValues, RunOptions, inputs,
    live::{Arrivals, LiveError, Rig, Run, Stage, Task, Trial},
    statistics,
};

/// Latencies by position, variant and processor.
pub type SubgraphTimes = Vec<Vec<Vec<Interval>>>;

/// Times of loading by position, variant and processor, ns.
pub type LoadTimes = Vec<Vec<Vec<Option<u64>>>>;

/// A task to run: its name, and its subgraphs by position, then variant.
#[derive(Clone, Copy, Debug)]
pub struct TaskSubgraphs<'a> {
    /// The task's name, for messages.
    pub name: &'a str,
    /// Subgraphs by position, then variant, with the same number of variants at each position.
    pub subgraphs: &'a [Vec<Graph>],
}

/// Why stitched variants do not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StitchSessionError {
    /// An engine or a subgraph fails, or the user interrupted.
    #[error(transparent)]
    Live(#[from] LiveError),
    /// Inputs of a task cannot be filled.
    #[error("{0}")]
    Inputs(String),
    /// The zoo or the objectives are not consistent.
    #[error(transparent)]
    Stitch(#[from] StitchError),
    /// There is nothing to run.
    #[error("a task without subgraphs")]
    NoSubgraphs,
    /// The zoo has a task that the session does not have.
    #[error("the session has no task {0}")]
    NoTask(usize),
    /// An engine reports no latency.
    #[error("a measurement without samples")]
    NoSamples,
}

/// Engines with all subgraphs of all tasks.
#[derive(Debug)]
pub struct StitchSession {
    rig: Rig,
    engines: Vec<Engine>,
    tasks: Vec<LiveTask>,
    frames: usize,
    interrupted: Arc<AtomicBool>,
}

/// The parts of a task's subgraphs, and their inputs.
#[derive(Debug)]
struct LiveTask {
    name: String,
    first_part: usize,
    positions: usize,
    variants: usize,
    /// Its inputs, and every tensor between positions.
    values: Vec<Arc<OutputValues>>,
}

impl LiveTask {
    fn part(&self, position: usize, variant: usize) -> usize {
        self.first_part + position * self.variants + variant
    }
}

impl StitchSession {
    /// Starts the engines, and runs the first variant of each task once for the tensors between its
    /// subgraphs.
    ///
    /// # Errors
    /// [`StitchSessionError`] naming the processor that does not start.
    pub fn start(
        engines: &[Engine],
        frames: usize,
        tasks: &[TaskSubgraphs<'_>],
        interrupted: Arc<AtomicBool>,
    ) -> Result<Self, StitchSessionError> {
        let processors: Vec<_> = engines.iter().map(Engine::processor).collect();
        let mut parts: Vec<Graph> = Vec::new();
        let mut started = Vec::new();
        for task in tasks {
            started.push(live_task(task, parts.len())?);
            parts.extend(task.subgraphs.iter().flatten().cloned());
        }
        let rig = Rig::start(&processors, parts)?;
        let engines = engines.to_vec();
        let mut session = Self { rig, engines, tasks: started, frames, interrupted };
        for index in 0..session.tasks.len() {
            let task = session.task(index)?;
            let first = vec![0; task.positions];
            let values = session.run(task, &first, &first, 1)?.values;
            session.tasks[index].values = values;
        }
        Ok(session)
    }

    /// Names of the processors.
    #[must_use]
    pub fn processors(&self) -> Vec<String> {
        self.engines.iter().map(|engine| engine.name.clone()).collect()
    }

    /// Names of the processors with descriptions.
    #[must_use]
    pub fn described(&self) -> Vec<(String, String)> {
        described(&self.engines, &self.rig)
    }

    /// Latency of every subgraph of each task alone on every processor.
    ///
    /// # Errors
    /// [`StitchSessionError`] naming the subgraph and processor that failed.
    pub fn subgraphs(
        &self,
        progress: &mut dyn FnMut(StitchProgress<'_>),
    ) -> Result<Vec<SubgraphTimes>, StitchSessionError> {
        let of_task = |task: &LiveTask| {
            let (count, engines) = (task.positions * task.variants, self.engines.len());
            progress(StitchProgress::Subgraphs { task: &task.name, count, engines });
            let row = |position: usize| {
                let variants = 0..task.variants;
                variants.map(|variant| self.on_each(task, task.part(position, variant))).collect()
            };
            (0..task.positions).map(row).collect()
        };
        self.tasks.iter().map(of_task).collect()
    }

    /// How long each engine takes to read, compile and load each subgraph, ns: by task, position,
    /// variant and processor.
    ///
    /// # Errors
    /// [`StitchSessionError`] naming the subgraph and processor that failed.
    pub fn loads(&self) -> Result<Vec<LoadTimes>, StitchSessionError> {
        let on_each = |part: usize| -> Result<Vec<Option<u64>>, StitchSessionError> {
            let one = |processor: usize| {
                self.rig.unload(processor, &[part])?;
                Ok(self.rig.load(processor, part)?.map(|load| load.ns))
            };
            (0..self.engines.len()).map(one).collect()
        };
        let of_task = |task: &LiveTask| {
            let row = |position: usize| {
                (0..task.variants).map(|variant| on_each(task.part(position, variant))).collect()
            };
            (0..task.positions).map(row).collect()
        };
        self.tasks.iter().map(of_task).collect()
    }

    /// Measures this many stitched variants of each task in each order, drawn at random; `forecast`
    /// has the zoo's costs by bundles, if there are any.
    ///
    /// # Errors
    /// [`StitchSessionError`] naming the subgraph and processor that failed.
    pub fn try_out(
        &self,
        measured: &Zoo,
        forecast: Option<&Zoo>,
        orders: &[Order],
        (count, seed): (usize, u64),
        progress: &mut dyn FnMut(StitchProgress<'_>),
    ) -> Result<Vec<Tried>, StitchSessionError> {
        let mut random = StdRng::seed_from_u64(seed);
        let mut tried = Vec::new();
        for (index, task) in measured.tasks().iter().enumerate() {
            let count_all = count * orders.len();
            progress(StitchProgress::Variants { task: &task.name, count: count_all });
            for order in orders {
                for _ in 0..count {
                    let variants: Vec<usize> = (0..measured.positions())
                        .map(|_| random.random_range(0..task.variants.len()))
                        .collect();
                    let sum =
                        |zoo: &Zoo| zoo.latency_ns(index, order, &variants).map(|ns| ns.point());
                    let names = variants.iter().map(|&variant| task.variants[variant].clone());
                    tried.push(Tried {
                        task: task.name.clone(),
                        order: named(measured, order),
                        variants: names.collect(),
                        summed_ns: sum(measured).unwrap_or(0),
                        forecast_ns: forecast.and_then(sum),
                        measured_ns: self.latency_ns(index, &variants, order)?,
                    });
                }
            }
        }
        Ok(tried)
    }

    /// Every order with the variants that are best in it.
    ///
    /// # Errors
    /// [`StitchSessionError`] naming the subgraph and processor that failed.
    pub fn orders(
        &self,
        zoo: &Zoo,
        orders: &[Order],
        slos: &[Slo],
        progress: &mut dyn FnMut(StitchProgress<'_>),
    ) -> Result<Vec<TriedOrder>, StitchSessionError> {
        let mut tried = Vec::new();
        for (order, best) in each_order(zoo, orders, slos, &default_budget())?.plans {
            let Some(best) = best else { continue };
            progress(StitchProgress::Order { order: &zoo.named(&order) });
            let mut measured = Vec::new();
            for (task, (choice, slo)) in best.choices.iter().zip(slos).enumerate() {
                let Some(choice) = choice else { continue };
                let ns = self.latency_ns(task, &choice.stitched.variants, &order)?;
                measured.push((ns, slo.is_met_by(choice.stitched.accuracy_bp, ns)));
            }
            let total: u64 = measured.iter().map(|(ns, _)| ns).sum();
            tried.push(TriedOrder {
                order: named(zoo, &order),
                predicted_ns: best.mean_latency_ns() as u64,
                measured_ns: total / measured.len().max(1) as u64,
                predicted_misses: best.violations,
                measured_misses: measured.iter().filter(|(_, kept)| !kept).count(),
            });
        }
        Ok(tried)
    }

    fn task(&self, index: usize) -> Result<&LiveTask, StitchSessionError> {
        self.tasks.get(index).ok_or(StitchSessionError::NoTask(index))
    }

    /// The latency of a part on each engine.
    fn on_each(&self, task: &LiveTask, part: usize) -> Result<Vec<Interval>, StitchSessionError> {
        let one = |processor: usize| {
            let steps = vec![vec![Task { part, processor }]];
            // Measured from frame to result, as in a stitched variant, so that transfers are
            // included.
            let run = self.run_steps(task, steps, self.frames)?;
            interval(&run.latency_ns).ok_or(StitchSessionError::NoSamples)
        };
        (0..self.engines.len()).map(one).collect()
    }

    /// The median latency of a stitched variant.
    fn latency_ns(
        &self,
        task: usize,
        variants: &[usize],
        order: &Order,
    ) -> Result<u64, StitchSessionError> {
        let run = self.run(self.task(task)?, variants, order.processors(), self.frames)?;
        Ok(statistics::median(&run.latency_ns).unwrap_or(0.0) as u64)
    }

    /// Runs frames through a stitched variant, one after the other.
    fn run(
        &self,
        task: &LiveTask,
        variants: &[usize],
        processors: &[usize],
        frames: usize,
    ) -> Result<Run, StitchSessionError> {
        let step = |(position, (&variant, &processor))| {
            vec![Task { part: task.part(position, variant), processor }]
        };
        let steps = variants.iter().zip(processors).enumerate().map(step).collect();
        self.run_steps(task, steps, frames)
    }

    fn run_steps(
        &self,
        task: &LiveTask,
        steps: Vec<Vec<Task>>,
        frames: usize,
    ) -> Result<Run, StitchSessionError> {
        let stage = Stage { name: task.name.clone(), queue: 0, steps };
        let trial = Trial { arrivals: Arrivals::Closed, warmups: WARMUPS, frames };
        Ok(self.rig.run(&[stage], &task.values, &trial, &self.interrupted)?)
    }
}

/// A task whose first part has this index, with the inputs of its first subgraph.
fn live_task(task: &TaskSubgraphs<'_>, first_part: usize) -> Result<LiveTask, StitchSessionError> {
    let row = task.subgraphs.first().ok_or(StitchSessionError::NoSubgraphs)?;
    let first = row.first().ok_or(StitchSessionError::NoSubgraphs)?;
    let defaults = RunOptions::default();
    let values = inputs::of_graph(first, defaults.inputs, defaults.seed)
        .map_err(StitchSessionError::Inputs)?;
    Ok(LiveTask {
        name: task.name.to_owned(),
        first_part,
        positions: task.subgraphs.len(),
        variants: row.len(),
        values: values.into_iter().map(Arc::new).collect(),
    })
}

/// Engines in the order of the processors with these names, so that an order has the same meaning
/// for both; other engines come last.
#[must_use]
pub fn numbered_as(names: &[&str], engines: &[Engine]) -> Vec<Engine> {
    let mut engines = engines.to_vec();
    engines.sort_by_key(|engine| {
        names.iter().position(|name| *name == engine.name).unwrap_or(names.len())
    });
    engines
}

fn named(zoo: &Zoo, order: &Order) -> Vec<String> {
    order.processors().iter().filter_map(|&p| zoo.processors().get(p).cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_have_the_numbers_of_their_processors() {
        let engine = |name: &str| Engine {
            name: name.to_owned(),
            backend: "rten".to_owned(),
            cores: Vec::new(),
        };
        let order = |names: &[&str]| {
            numbered_as(names, &["cpu", "gpu", "npu"].map(engine))
                .into_iter()
                .map(|engine| engine.name)
                .collect::<Vec<_>>()
        };
        assert_eq!(order(&["npu", "cpu"]), ["npu", "cpu", "gpu"]);
        assert_eq!(order(&[]), ["cpu", "gpu", "npu"]);
    }
}
