//! [`Session`]: engines with the subgraphs of a plan, the inputs of each task, and the results that
//! they are compared with.

use super::{
    PlanTask, Routes, RunError, RunPlan, memory::Eviction, schedule::Limit, task_models::TaskModels,
};
use crate::plan::live::{Engine, tolerance};
use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::AtomicBool},
};
use vitempo_graph::Graph;
use vitempo_profiler::{
    OutputValues, RunOptions as EngineOptions, conformance, inputs,
    live::{Engines, LiveProcessor, Rig, Tensors, Workers},
};

/// Queries that may wait for a processor.
pub const BOUND: usize = 1000;

/// How a plan is run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Engines of processors, instead of the plan's.
    pub engines: Vec<Engine>,
    /// Whether the plan may be one for another machine or for other engines.
    pub anywhere: bool,
    /// How long it lasts.
    pub limit: Limit,
    /// Memory budget of loaded subgraphs, bytes; `None`: the plan's.
    pub memory_bytes: Option<u64>,
    /// Which subgraph makes room for others.
    pub eviction: Eviction,
    /// Whether nothing is loaded before the run.
    pub cold: bool,
    /// Queries that may wait for a processor; one that arrives when so many wait is refused.
    pub bound: usize,
    /// Whether tasks that violate their objectives repeatedly fall back to faster ways of the plan.
    pub fallbacks: bool,
    /// How engines run in processes of their own; `None`: in threads of this process, so that an
    /// engine that crashes ends it.
    pub workers: Option<Workers>,
    /// Set it from another thread to end the run.
    pub interrupted: Arc<AtomicBool>,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            engines: Vec::new(),
            anywhere: false,
            limit: Limit::Plan,
            memory_bytes: None,
            eviction: Eviction::default(),
            cold: false,
            bound: BOUND,
            fallbacks: true,
            workers: None,
            interrupted: Arc::new(AtomicBool::new(false)),
        }
    }
}

/// A subgraph of the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub task: usize,
    /// Counted from 1.
    pub position: usize,
    pub variant: String,
    pub bytes: u64,
}

/// See the module.
pub(super) struct Session {
    pub rig: Rig,
    /// Subgraphs by the index of their part.
    pub parts: Vec<Part>,
    /// Subgraphs of each step, by lane: index of the part and bytes.
    pub steps: Vec<Vec<Vec<(usize, u64)>>>,
    /// By lane, step and part: names of earlier values that are handed on.
    pub keep: Vec<Vec<Vec<Vec<String>>>>,
    /// Inputs by task.
    pub inputs: Vec<Vec<Arc<OutputValues>>>,
    /// The same, as engines are handed them.
    pub tensors: Vec<Tensors>,
    /// The whole model of each lane: index of its part, behind the subgraphs.
    wholes: Vec<usize>,
    /// The difference of results that the precision of each lane's model explains, as a share.
    pub tolerances: Vec<f64>,
}

impl Session {
    /// Starts the engines.
    pub fn start(plan: &RunPlan, routes: &Routes, options: &RunOptions) -> Result<Self, RunError> {
        let engines = plan.engines(&options.engines, options.anywhere)?;
        let processors: Vec<LiveProcessor> = engines.iter().map(Engine::processor).collect();
        let (mut parts, mut graphs) = (Vec::new(), Vec::new());
        let mut inputs = Vec::new();
        let mut wholes: BTreeMap<(usize, Vec<String>), Graph> = BTreeMap::new();
        let mut kept: BTreeMap<(usize, Vec<String>), Vec<Vec<String>>> = BTreeMap::new();
        for (index, task) in plan.tasks.iter().enumerate() {
            let models = TaskModels::read(plan, index, task)?;
            inputs.push(inputs_of(task, &models)?);
            for subgraph in &task.subgraphs {
                let found = models.subgraph(subgraph.position, &subgraph.variant);
                let graph = found.ok_or_else(|| {
                    let reason = format!("there is no subgraph {}", subgraph.position);
                    plan.invalid(format!("tasks[{index}].subgraphs"), reason)
                })?;
                let name = format!("{}/{}/{}", task.name, subgraph.variant, subgraph.position);
                graphs.push(graph.clone().with_name(&name));
                parts.push(Part {
                    task: index,
                    position: subgraph.position,
                    variant: subgraph.variant.clone(),
                    bytes: subgraph.memory_bytes,
                });
            }
            for way in &task.ways {
                let whole = models.whole(&way.variants);
                let whole = whole.map_err(|e| plan.invalid(format!("tasks[{index}].ways"), e))?;
                wholes.insert((index, way.variants.clone()), whole);
                kept.insert((index, way.variants.clone()), models.kept(&way.variants));
            }
        }
        let of_lane = |route: &super::routes::Route| {
            (route.task, plan.tasks[route.task].ways[route.way].variants.clone())
        };
        let first = graphs.len();
        let keys: Vec<_> = wholes.keys().cloned().collect();
        graphs.extend(wholes.into_values());
        let whole = |key| keys.iter().position(|known| *known == key).unwrap_or(0) + first;
        let wholes: Vec<usize> = routes.routes.iter().map(|route| whole(of_lane(route))).collect();
        let tolerances = wholes.iter().map(|&whole| tolerance(&graphs[whole])).collect();
        let keep = |route: &super::routes::Route| {
            let kept = kept.get(&of_lane(route)).map_or(&[][..], Vec::as_slice);
            let pieces = plan.tasks[route.task].ways[route.way].pieces.iter();
            pieces.map(|p| kept.get(p.first - 1..p.last).unwrap_or_default().to_vec()).collect()
        };
        let keep = routes.routes.iter().map(keep).collect();
        let steps = routes.routes.iter().map(|route| steps(plan, route, &parts)).collect();
        let seats = options.workers.clone().map_or(Engines::Here, Engines::Workers);
        let rig = Rig::start_in(&seats, &processors, graphs)?;
        if let (Some(environment), false) = (rig.environments().next(), options.anywhere) {
            plan.check_device(&environment.device)?;
        }
        let shared = |(task, inputs): (&PlanTask, &Vec<_>)| {
            let refuse = |e: std::io::Error| RunError::Inputs {
                task: task.name.clone(),
                reason: e.to_string(),
            };
            rig.tensors(inputs).map_err(refuse)
        };
        let tensors = plan.tasks.iter().zip(&inputs).map(shared).collect::<Result<_, _>>()?;
        Ok(Self { rig, parts, steps, keep, inputs, tensors, wholes, tolerances })
    }

    /// Results of the whole model of a lane on the engine of its first step. It is unloaded
    /// afterwards; the second value is the resident memory of the engine's process then.
    pub fn expected(
        &self,
        lane: usize,
        processor: usize,
        task: usize,
    ) -> Result<(Vec<OutputValues>, Option<u64>), RunError> {
        let whole = self.wholes[lane];
        let answer = self.rig.ask(whole, processor, &self.inputs[task])?.wait();
        let resident_bytes = self.rig.unload(processor, &[whole])?;
        Ok((answer?.values, resident_bytes))
    }
}

/// The difference of results from expected ones, and the output that differs most; `None` for
/// engines that compute nothing.
pub(super) fn apart(
    expected: &[OutputValues],
    found: &[Arc<OutputValues>],
) -> Option<(f64, String)> {
    let own: Option<Vec<OutputValues>> = expected
        .iter()
        .map(|value| found.iter().find(|own| own.name == value.name).map(|own| (**own).clone()))
        .collect();
    // Results of another shape differ infinitely. A log is JSON, which has no infinite numbers.
    let found = conformance::difference(expected, &own?);
    let (share, output) = found.unwrap_or((f64::INFINITY, String::new()));
    (!expected.is_empty()).then_some((share.min(f64::MAX), output))
}

fn inputs_of(task: &PlanTask, models: &TaskModels) -> Result<Vec<Arc<OutputValues>>, RunError> {
    let refuse = |reason: String| RunError::Inputs { task: task.name.clone(), reason };
    let first = models.first().ok_or_else(|| refuse("it has no subgraph".to_owned()))?;
    let defaults = EngineOptions::default();
    let values = inputs::of_graph(first, defaults.inputs, defaults.seed).map_err(refuse)?;
    Ok(values.into_iter().map(Arc::new).collect())
}

/// The parts of each piece of a way.
fn steps(plan: &RunPlan, route: &super::routes::Route, parts: &[Part]) -> Vec<Vec<(usize, u64)>> {
    let way = &plan.tasks[route.task].ways[route.way];
    let part = |position: usize| {
        let variant = &way.variants[position - 1];
        let is_it =
            |p: &Part| p.task == route.task && p.position == position && p.variant == *variant;
        parts.iter().position(is_it).map(|index| (index, parts[index].bytes))
    };
    way.pieces.iter().map(|piece| (piece.first..=piece.last).filter_map(part).collect()).collect()
}
