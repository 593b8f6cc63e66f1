//! [`RunPlan::of_pipeline`] and [`RunPlan::of_placement`]: one model that is divided over processors,
//! as a file that can be run. A query is a frame; its parts run one after the other, and frames
//! overlap where they arrive faster than they end. Times are in ns.

use super::{
    CostsOrigin, LoadingOrigin, NO_DEADLINE_NS, PhaseTask, PlanForecast, PlanPhase, PlanPiece,
    PlanProcessor, PlanSubgraph, PlanTask, PlanVariant, PlanWay, RunError, RunPlan, TaskForecast,
    file::{FORMAT, VERSION},
    make::{digest, relative},
};
use crate::{
    models::Model,
    plan::{
        multitask::Placements,
        partition::Partition,
        pipeline::{part_times, stage_names},
    },
    zoo::weights,
};
use std::{collections::BTreeMap, path::Path};
use vitempo_graph::{Graph, onnx::ReadOptions};
use vitempo_planners::{
    multi_dnn::{Arrivals, Lane, Step, TaskArrivals, forecast},
    pipeline::{PipelinePlan, multitask::Execution},
};

/// Frames of a plan that overlap, unless the run has another number.
const FRAMES: u64 = 30;
/// The name of the only variant.
const VARIANT: &str = "model";

/// A model, how it is divided, and what its processors are.
#[derive(Clone, Debug)]
pub struct DividedModel<'a> {
    /// The model.
    pub model: &'a Model,
    /// How it is read.
    pub read: &'a ReadOptions,
    /// For every node of the model its part.
    pub part_of: &'a [usize],
    /// The processors, in the order of the costs.
    pub processors: &'a [PlanProcessor],
    /// Where the costs come from.
    pub costs: CostsOrigin,
    /// Frames per second; `None`: as many as the plan forecasts.
    pub camera_fps: Option<f64>,
    /// A frame violates its objective if its results come later than this after it.
    pub deadline_ns: Option<u64>,
    /// The path of the plan: paths in it are relative to its folder.
    pub path: &'a Path,
}

impl RunPlan {
    /// The file of a pipeline. Frames arrive with its period.
    ///
    /// # Errors
    /// [`RunError`] naming the model or the node at fault.
    pub fn of_pipeline(
        pipeline: &PipelinePlan,
        divided: &DividedModel<'_>,
    ) -> Result<Self, RunError> {
        let period_ns = pipeline.plan.predicted.period_ns.map_or(1, |period| period.point());
        divided.plan(&stage_names(pipeline), &part_times(pipeline), Some(period_ns))
    }

    /// The file of the chosen placement of a multi-task model. Frames arrive with its period, or one
    /// after the other if that is how it runs. The decoders of a frame run one after the other also
    /// where the placement has them on different processors: its period stays as planned, the
    /// latency of a frame is longer, and the file's forecast has it.
    ///
    /// # Errors
    /// [`RunError`] naming the model or the node at fault.
    pub fn of_placement(
        placements: &Placements,
        divided: &DividedModel<'_>,
    ) -> Result<Self, RunError> {
        let schedule = &placements.rows.first().ok_or(RunError::NoPlacement)?.schedule;
        let times = placements.model.part_times(&schedule.places()).ok_or(RunError::NoPlacement)?;
        let steps: Vec<(usize, u64)> =
            times.iter().map(|(processor, ns)| (*processor, ns.point())).collect();
        let names: Vec<String> = placements.model.parts().map(|part| part.name.clone()).collect();
        let period_ns = match schedule.execution {
            Execution::Sequential => None,
            Execution::Pipelined => Some(schedule.period_ns.point()),
        };
        divided.plan(&names, &steps, period_ns)
    }
}

impl DividedModel<'_> {
    /// The plan of parts with these processors and times; frames arrive one after the other without
    /// a period.
    fn plan(
        &self,
        names: &[String],
        steps: &[(usize, u64)],
        period_ns: Option<u64>,
    ) -> Result<RunPlan, RunError> {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let parts = Partition::divide(&self.model.graph, self.model, self.part_of, &names)?;
        let used: BTreeMap<usize, PlanProcessor> = steps
            .iter()
            .filter_map(|(at, _)| Some((*at, self.processors.get(*at)?.clone())))
            .collect();
        let task = self.task(&parts, &self.pieces(steps))?;
        let phase = PhaseTask {
            accuracy_bp: 0,
            latency_ns: self.deadline_ns.unwrap_or(NO_DEADLINE_NS),
            ways: vec![0],
            fallbacks: Vec::new(),
            priority: 0,
        };
        let arrivals = period_ns.map_or(Arrivals::AtOnce, |period_ns| {
            let camera_ns = self.camera_fps.map(|fps| (1e9 / fps) as u64);
            let period_ns = camera_ns.unwrap_or(period_ns).max(1);
            let tasks = vec![TaskArrivals::Periodic { period_ns, phase_ns: 0 }];
            Arrivals::Over { horizon_ns: period_ns.saturating_mul(FRAMES), tasks }
        });
        let mut plan = RunPlan {
            format: FORMAT.to_owned(),
            version: VERSION,
            made_by: format!("vitempo {}", env!("CARGO_PKG_VERSION")),
            costs: self.costs,
            loading: LoadingOrigin::Unknown,
            processors: used.into_values().collect(),
            tasks: vec![task],
            phases: vec![PlanPhase { from_ns: 0, tasks: vec![phase] }],
            arrivals,
            slowdown: None,
            memory_bytes: None,
            cold: false,
            dimensions: self.read.dimensions.clone(),
            forecast: Vec::new(),
            path: self.path.to_owned(),
        };
        plan.check()?;
        plan.forecast = vec![expected(&plan)?];
        Ok(plan)
    }

    /// Consecutive parts of one processor are one piece.
    fn pieces(&self, steps: &[(usize, u64)]) -> Vec<PlanPiece> {
        let mut pieces: Vec<PlanPiece> = Vec::new();
        for (part, (processor, ns)) in steps.iter().enumerate() {
            let name = self.processors.get(*processor).map(|p| p.name.clone()).unwrap_or_default();
            match pieces.last_mut() {
                Some(last) if last.processor == name => {
                    last.last = part + 1;
                    last.latency_ns = last.latency_ns.saturating_add(*ns);
                }
                _ => pieces.push(PlanPiece {
                    processor: name,
                    first: part + 1,
                    last: part + 1,
                    latency_ns: *ns,
                }),
            }
        }
        pieces
    }

    fn task(&self, parts: &[Graph], pieces: &[PlanPiece]) -> Result<PlanTask, RunError> {
        let mut nodes = vec![Vec::new(); parts.len()];
        for (node, &part) in self.model.graph.nodes().iter().zip(self.part_of) {
            nodes[part].push(node.name.clone());
        }
        let memory = |part: &Graph| {
            weights(part).map(|(tensor, _)| tensor.size_bytes()).fold(0, u64::saturating_add)
        };
        let subgraph = |(place, part): (usize, &Graph)| PlanSubgraph {
            position: place + 1,
            variant: VARIANT.to_owned(),
            memory_bytes: memory(part),
        };
        let kind = if pieces.len() == 1 { "whole" } else { "cut" };
        Ok(PlanTask {
            name: self.model.identity.name.clone(),
            cuts: Vec::new(),
            nodes,
            variants: vec![PlanVariant {
                name: VARIANT.to_owned(),
                model: relative(self.path, &self.model.path),
                digest: digest(&self.model.path)?,
            }],
            subgraphs: parts.iter().enumerate().map(subgraph).collect(),
            ways: vec![PlanWay {
                kind: kind.to_owned(),
                variants: vec![VARIANT.to_owned(); parts.len()],
                accuracy_bp: 0,
                pieces: pieces.to_vec(),
            }],
        })
    }
}

/// What the simulator expects of a plan with one way.
fn expected(plan: &RunPlan) -> Result<PlanForecast, RunError> {
    let names: Vec<String> = plan.tasks.iter().map(|task| task.name.clone()).collect();
    let pieces = plan.tasks.iter().flat_map(|task| &task.ways).flat_map(|way| &way.pieces);
    let step = |piece: &PlanPiece| Step {
        processor: plan.processor(&piece.processor).unwrap_or_default(),
        ns: piece.latency_ns,
    };
    let lane = Lane { steps: pieces.map(step).collect(), priority: 0 };
    let mut load_ns = vec![0u64; plan.processors.len()];
    for step in &lane.steps {
        load_ns[step.processor] = load_ns[step.processor].saturating_add(step.ns);
    }
    let lanes = [lane];
    let mut latencies = Vec::new();
    for scenario in plan.arrivals.scenarios(&names)? {
        let queries: Vec<(u64, usize)> = scenario.iter().map(|query| (query.at_ns, 0)).collect();
        let ends = forecast(plan.processors.len(), &[], &lanes, &queries)
            .map_err(|source| RunError::Replay { path: plan.path.clone(), source })?;
        latencies.extend(ends.iter().zip(&queries).map(|(end, (at, _))| end.saturating_sub(*at)));
    }
    let deadline_ns = plan.phases[0].tasks[0].latency_ns;
    let task = TaskForecast {
        queries: latencies.len() as u64,
        violated: latencies.iter().filter(|ns| **ns > deadline_ns).count() as u64,
        mean_latency_ns: latencies.iter().map(|ns| *ns as f64).sum::<f64>()
            / latencies.len().max(1) as f64,
        longest_ns: latencies.iter().copied().max().unwrap_or(0),
    };
    Ok(PlanForecast {
        violated: task.violated,
        queries: task.queries,
        queries_per_s: 1e9 / load_ns.into_iter().max().unwrap_or(0).max(1) as f64,
        tasks: vec![task],
    })
}
