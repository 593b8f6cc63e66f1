//! `--live`: stitched variants on real engines, each processor an engine on cores of its own: what
//! every subgraph costs there, what stitched variants take beside the sum of their subgraphs (eq.
//! 5), and whether the order chosen is the best one measured.

use super::{
    super::{
        super::{
            error::{CliError, CliResult},
            profile::interrupted,
            progress,
            zoo::variants::Variants,
        },
        live::{Engine, WARMUPS, described},
        multitask::interval,
    },
    each_order,
};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use vitempo::graph::Graph;
use vitempo::planners::{
    cost::Interval,
    stitch::{Order, Slo, Zoo},
};
use vitempo::profiler::{
    OutputValues, RunOptions, inputs,
    live::{Arrivals, Rig, Stage, Task, Trial},
    statistics,
};

/// Engines with all subgraphs of all tasks.
pub struct Live {
    rig: Rig,
    engines: Vec<Engine>,
    tasks: Vec<LiveTask>,
    frames: usize,
}

/// Where a task's subgraphs are among the parts, and what they read.
struct LiveTask {
    name: String,
    first_part: usize,
    variants: usize,
    /// Its inputs, and every tensor between positions.
    values: Vec<Arc<OutputValues>>,
}

/// One stitched variant that was run, ns.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Tried {
    pub task: String,
    /// Processors by position.
    pub order: Vec<String>,
    /// By position.
    pub variants: Vec<String>,
    /// The sum of its subgraphs as measured one by one.
    pub summed_ns: u64,
    /// The sum of their forecasts, where there are bundles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forecast_ns: Option<u64>,
    pub measured_ns: u64,
}

/// An order with the best variants for it, run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TriedOrder {
    /// Processors by position.
    pub order: Vec<String>,
    /// Mean over tasks, ns.
    pub predicted_ns: u64,
    pub measured_ns: u64,
    /// Objectives missed, by prediction and as measured.
    pub predicted_misses: usize,
    pub measured_misses: usize,
}

impl Live {
    /// Starts the engines.
    pub fn start(engines: &[Engine], frames: usize, tasks: &[Variants]) -> CliResult<Self> {
        let processors: Vec<_> = engines.iter().map(Engine::processor).collect();
        let mut parts: Vec<Graph> = Vec::new();
        let mut started = Vec::new();
        for task in tasks {
            let defaults = RunOptions::default();
            let first = task
                .subgraphs
                .first()
                .and_then(|row| row.first())
                .ok_or_else(|| CliError::ours("a task without subgraphs"))?;
            let values = inputs::of_graph(first, defaults.inputs, defaults.seed)
                .map_err(CliError::user)?
                .into_iter()
                .map(Arc::new)
                .collect();
            started.push(LiveTask {
                name: task.task.clone(),
                first_part: parts.len(),
                variants: task.names.len(),
                values,
            });
            parts.extend(task.subgraphs.iter().flatten().cloned());
        }
        let positions = tasks.first().map_or(0, |task| task.subgraphs.len());
        let mut live = Self {
            rig: Rig::start(&processors, parts)?,
            engines: engines.to_vec(),
            tasks: started,
            frames,
        };
        for task in 0..live.tasks.len() {
            let once = live.run(task, &vec![0; positions], &vec![0; positions], 1)?;
            live.tasks[task].values = once.values;
        }
        Ok(live)
    }

    /// Names of the processors.
    pub fn processors(&self) -> Vec<String> {
        self.engines.iter().map(|engine| engine.name.clone()).collect()
    }

    /// Names of the processors, and what they are.
    pub fn describe(&self) -> Vec<(String, String)> {
        described(&self.engines, &self.rig)
    }

    fn part(&self, task: usize, position: usize, variant: usize) -> usize {
        self.tasks[task].first_part + position * self.tasks[task].variants + variant
    }

    /// Frames through a stitched variant, one after the other.
    fn run(
        &self,
        task: usize,
        variants: &[usize],
        processors: &[usize],
        frames: usize,
    ) -> CliResult<vitempo::profiler::live::Run> {
        let step = |(position, (&variant, &processor))| {
            vec![Task { part: self.part(task, position, variant), processor }]
        };
        let steps = variants.iter().zip(processors).enumerate().map(step).collect();
        let stage = Stage { name: self.tasks[task].name.clone(), queue: 0, steps };
        let trial = Trial { arrivals: Arrivals::Closed, warmups: WARMUPS, frames };
        Ok(self.rig.run(&[stage], &self.tasks[task].values, &trial, &interrupted())?)
    }

    /// What a stitched variant takes, ns: the median.
    fn latency_ns(&self, task: usize, variants: &[usize], order: &Order) -> CliResult<u64> {
        let run = self.run(task, variants, order.processors(), self.frames)?;
        Ok(statistics::median(&run.latency_ns).unwrap_or(0.0) as u64)
    }

    /// What every subgraph of a task takes on every processor with nothing beside it: by position,
    /// variant and processor.
    pub fn subgraphs(&self, task: usize, positions: usize) -> CliResult<Vec<Vec<Vec<Interval>>>> {
        let LiveTask { name, variants, values, .. } = &self.tasks[task];
        progress::say(format!(
            "measuring {} subgraphs of {name} on {} engines",
            positions * variants,
            self.engines.len()
        ));
        let trial = Trial { arrivals: Arrivals::Closed, warmups: WARMUPS, frames: self.frames };
        let one = |part: usize, processor: usize| -> CliResult<Interval> {
            let stage =
                Stage { name: name.clone(), queue: 0, steps: vec![vec![Task { part, processor }]] };
            let run = self.rig.run(&[stage], values, &trial, &interrupted())?;
            // From frame to result, as in a stitched variant: handing over is part of it.
            interval(&run.latency_ns).ok_or_else(|| CliError::ours("a measurement without samples"))
        };
        let on_each = |part: usize| {
            (0..self.engines.len())
                .map(|processor| one(part, processor))
                .collect::<CliResult<Vec<_>>>()
        };
        let row = |position: usize| {
            (0..*variants)
                .map(|variant| on_each(self.part(task, position, variant)))
                .collect::<CliResult<Vec<_>>>()
        };
        (0..positions).map(row).collect()
    }

    /// So many stitched variants of each task in each order, drawn at random; `forecast` has the
    /// zoo's costs by bundles, where there are some.
    pub fn try_out(
        &self,
        measured: &Zoo,
        forecast: Option<&Zoo>,
        orders: &[Order],
        count: usize,
        seed: u64,
    ) -> CliResult<Vec<Tried>> {
        let mut random = StdRng::seed_from_u64(seed);
        let mut tried = Vec::new();
        for (index, task) in measured.tasks().iter().enumerate() {
            progress::say(format!(
                "running {} stitched variants of {}",
                count * orders.len(),
                task.name
            ));
            for order in orders {
                for _ in 0..count {
                    let variants: Vec<usize> = (0..measured.positions())
                        .map(|_| random.random_range(0..task.variants.len()))
                        .collect();
                    let sum =
                        |zoo: &Zoo| zoo.latency_ns(index, order, &variants).map(|ns| ns.point());
                    tried.push(Tried {
                        task: task.name.clone(),
                        order: named(measured, order),
                        variants: variants
                            .iter()
                            .map(|&variant| task.variants[variant].clone())
                            .collect(),
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
    pub fn orders(&self, zoo: &Zoo, orders: &[Order], slos: &[Slo]) -> CliResult<Vec<TriedOrder>> {
        let mut tried = Vec::new();
        for (order, best) in each_order(zoo, orders, slos)? {
            let Some(best) = best else { continue };
            progress::say(format!("running the best of {}", zoo.named(&order)));
            let mut measured = Vec::new();
            for (task, choice) in best.choices.iter().enumerate() {
                let Some(choice) = choice else { continue };
                measured.push((
                    self.latency_ns(task, &choice.stitched.variants, &order)?,
                    choice,
                    slos[task],
                ));
            }
            let total: u64 = measured.iter().map(|(ns, ..)| ns).sum();
            tried.push(TriedOrder {
                order: named(zoo, &order),
                predicted_ns: best.mean_latency_ns() as u64,
                measured_ns: total / measured.len().max(1) as u64,
                predicted_misses: best.violations,
                measured_misses: measured
                    .iter()
                    .filter(|(ns, choice, slo)| !slo.is_met_by(choice.stitched.accuracy_bp, *ns))
                    .count(),
            });
        }
        Ok(tried)
    }
}

fn named(zoo: &Zoo, order: &Order) -> Vec<String> {
    order.processors().iter().filter_map(|&p| zoo.processors().get(p).cloned()).collect()
}
