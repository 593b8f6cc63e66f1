//! Pipelines of a model over processors: [`costs()`], the [`objective`] from the minimised and the
//! bounded quantity, the period without a plan ([`equal_counts`]), and the parts that stages run
//! ([`part_of`]). With the feature `profile`, `measure` runs a pipeline on engines.

#[cfg(feature = "profile")]
use super::live::{LiveSession, LiveSessionError, Measured};
use super::{
    costs::{self, ForecastCosts, ForecastProcessor, PlanCostsError},
    parts::{self, WritePartsError},
};
use crate::models::Model;
use std::path::{Path, PathBuf};
use vitempo_graph::Graph;
use vitempo_planners::{
    cost::{Costs, Interval, Link},
    pipeline::{Pipeline, PipelineObjective, PipelinePlan, naive},
};

/// Frames that may wait before a stage when a pipeline runs on engines.
#[cfg(feature = "profile")]
const QUEUE: usize = 1;

/// The quantity that a pipeline minimises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Minimise {
    /// Time from result to result.
    #[default]
    Period,
    /// Time from frame to result.
    Latency,
}

/// The minimised quantity is also bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the quantity that is minimised cannot be bounded too")]
pub struct BoundedTwice;

/// The objective: the least period with a bound on the latency, or the least latency with a bound
/// on the period; ns.
///
/// # Errors
/// [`BoundedTwice`] where the bound is on the minimised quantity.
pub fn objective(
    minimise: Minimise,
    latency_at_most: Option<u64>,
    period_at_most: Option<u64>,
) -> Result<PipelineObjective, BoundedTwice> {
    match (minimise, latency_at_most, period_at_most) {
        (Minimise::Period, latency_at_most, None) => {
            Ok(PipelineObjective::Throughput { latency_at_most })
        }
        (Minimise::Latency, None, period_at_most) => {
            Ok(PipelineObjective::Latency { period_at_most })
        }
        _ => Err(BoundedTwice),
    }
}

/// Costs of a model on processors with the same link between any two.
///
/// # Errors
/// As [`costs::of_graph`].
pub fn costs(
    graph: &Graph,
    processors: &[ForecastProcessor<'_>],
    link: Link,
) -> Result<ForecastCosts, PlanCostsError> {
    costs::of_graph(graph, processors, costs::between_all(processors.len(), link))
}

/// The period with equal numbers of operators on each processor, in the order of the processors:
/// the baseline of a plan. `None` where these stages cannot run.
#[must_use]
pub fn equal_counts(pipeline: &Pipeline<'_>, costs: &Costs) -> Option<Interval> {
    let order: Vec<usize> = (0..costs.processors().len()).collect();
    let cuts = naive::equal_counts(costs.nodes().len(), &order);
    pipeline.period_ns(&cuts)
}

/// For every node the index of its stage.
#[must_use]
pub fn part_of(pipeline: &PipelinePlan, nodes: usize) -> Vec<usize> {
    let mut part_of = vec![0; nodes];
    for (stage, cut) in pipeline.cuts.iter().enumerate() {
        part_of[cut.from.min(nodes)..cut.to.min(nodes)].fill(stage);
    }
    part_of
}

/// The same for every node of a model, whose nodes the costs may have in another order.
///
/// # Errors
/// As [`costs::nodes_of`].
pub fn part_of_model(
    pipeline: &PipelinePlan,
    costs: &Costs,
    graph: &Graph,
) -> Result<Vec<usize>, PlanCostsError> {
    let part_of = part_of(pipeline, costs.nodes().len());
    Ok(costs::nodes_of(costs, graph)?.into_iter().map(|node| part_of[node]).collect())
}

/// Cuts the model's file into `MODEL.stage-1.onnx` and so on in a folder; `part_of` has the stage
/// of each of its nodes. Returns their paths; none where there is one stage only.
///
/// # Errors
/// As [`parts::write`].
pub fn write_stages(
    model: &Model,
    pipeline: &PipelinePlan,
    part_of: &[usize],
    folder: &Path,
) -> Result<Vec<PathBuf>, WritePartsError> {
    if pipeline.cuts.len() < 2 {
        return Ok(Vec::new());
    }
    let names: Vec<String> = (1..=pipeline.cuts.len()).map(|s| format!("stage-{s}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    parts::write(&model.path, &model.graph, part_of, &names, folder)
}

/// Names of the stages: `stage 1` and so on.
#[must_use]
pub fn stage_names(pipeline: &PipelinePlan) -> Vec<String> {
    (1..=pipeline.cuts.len()).map(|stage| format!("stage {stage}")).collect()
}

/// By stage: index of its processor, and the time that the plan expects of it there, with what it
/// receives, ns.
#[must_use]
pub fn part_times(pipeline: &PipelinePlan) -> Vec<(usize, u64)> {
    let PipelinePlan { cuts, plan, .. } = pipeline;
    let time = |stage: &vitempo_planners::Stage| {
        // Each processor has one stage.
        let received = plan.transfers.iter().filter(|transfer| transfer.to == stage.processor);
        received.map(|transfer| transfer.latency_ns).fold(stage.latency_ns, |sum, ns| sum + ns)
    };
    cuts.iter().zip(&plan.stages).map(|(cut, s)| (cut.processor, time(s).point())).collect()
}

/// Runs a pipeline whose stages are the parts of the session.
///
/// # Errors
/// [`LiveSessionError`] naming the processor that has no engine, or the part that failed.
#[cfg(feature = "profile")]
pub fn measure(
    session: &LiveSession,
    pipeline: &PipelinePlan,
) -> Result<Measured, LiveSessionError> {
    use vitempo_profiler::live::{Stage, Task};
    let stages = stage_names(pipeline).into_iter().zip(&pipeline.plan.stages).enumerate();
    let stage = |(part, (name, planned)): (usize, (String, &vitempo_planners::Stage))| {
        let task = Task { part, processor: session.engine(&planned.processor)? };
        Ok(Stage { name, queue: QUEUE, steps: vec![vec![task]] })
    };
    session.measure(&stages.map(stage).collect::<Result<Vec<_>, LiveSessionError>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_on_what_is_not_minimised() {
        let throughput = PipelineObjective::Throughput { latency_at_most: Some(3) };
        assert_eq!(objective(Minimise::Period, Some(3), None), Ok(throughput));
        let latency = PipelineObjective::Latency { period_at_most: Some(4) };
        assert_eq!(objective(Minimise::Latency, None, Some(4)), Ok(latency));
        assert_eq!(objective(Minimise::Period, None, Some(4)), Err(BoundedTwice));
        assert_eq!(objective(Minimise::Latency, Some(3), None), Err(BoundedTwice));
    }
}
