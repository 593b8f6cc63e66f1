//! [`place_models`]: several models in memory, each run whole on one processor, with costs as
//! bundles forecast them. Tasks of files, whose models may be cut and stitched, are for
//! `place_tasks`.

use super::{Placing, PlacingError, Request, contention, place};
use crate::{
    plan::stitch::{
        StitchingError,
        forecasts::{Forecasts, Processor, none_refused, subgraphs},
    },
    zoo::variants::Variants,
};
use std::{collections::BTreeMap, sync::Arc};
use vitempo_graph::{Graph, quantize};
use vitempo_planners::stitch::{Slo, StitchError, Table, Task, Zoo};

/// A model in several variants, and what it is asked for.
#[derive(Clone, Debug)]
pub struct ModelTask {
    /// Unique name.
    pub name: String,
    /// At least one.
    pub variants: Vec<ModelVariant>,
    /// The objective.
    pub slo: Slo,
}

/// A variant of a model.
#[derive(Clone, Debug)]
pub struct ModelVariant {
    /// Its name within the task.
    pub name: String,
    /// Its operators.
    pub graph: Graph,
    /// Its accuracy, basis points.
    pub accuracy_bp: u32,
}

/// The plan for these tasks. Where the request gives no slowdowns, those of the bundles' slowdown
/// models count.
///
/// # Errors
/// [`PlacingError`] naming the task, variant, processor or field at fault.
pub fn place_models(
    tasks: &[ModelTask],
    processors: &[Processor],
    request: &Request,
) -> Result<Placing, PlacingError> {
    let variants: Vec<Variants> = tasks.iter().map(variants).collect();
    let slowdown = contention::forecast(&variants, processors)
        .map_err(|source| StitchingError::Prediction { what: "contention".to_owned(), source })?;
    let each = tasks.iter().zip(&variants);
    let planned = each
        .map(|(task, variants)| costs(task, variants, processors))
        .collect::<Result<Vec<Task>, StitchingError>>()?;
    let names = processors.iter().map(|processor| processor.name.clone()).collect();
    let zoo = Zoo::new(names, BTreeMap::new(), planned)?.with_forecast_loads();
    let slos: Vec<Slo> = tasks.iter().map(|task| task.slo).collect();
    place(zoo, &slos, &request.or_slowdown(&slowdown))
}

/// The variants of a task, in one piece each.
fn variants(task: &ModelTask) -> Variants {
    let graphs: Vec<Graph> = task.variants.iter().map(|variant| variant.graph.clone()).collect();
    Variants {
        task: task.name.clone(),
        names: task.variants.iter().map(|variant| variant.name.clone()).collect(),
        quantized: graphs.iter().map(quantize::is_quantized).collect(),
        cuts: Vec::new(),
        subgraphs: vec![graphs],
    }
}

fn costs(
    task: &ModelTask,
    variants: &Variants,
    processors: &[Processor],
) -> Result<Task, StitchingError> {
    let accuracies = task.variants.iter().map(|variant| variant.accuracy_bp).collect();
    let accuracy = Table::new(1, task.variants.len(), accuracies).map_err(|error| {
        let reason = error.to_string();
        StitchingError::Stitch(StitchError::Task { task: task.name.clone(), reason })
    })?;
    let Forecasts { subgraphs, cannot_run } = subgraphs(variants, processors, &mut |_| ())?;
    none_refused(cannot_run)?;
    Ok(Task {
        name: task.name.clone(),
        variants: variants.names.clone(),
        subgraphs,
        accuracy: Arc::new(accuracy),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::{Bundle, models, prelude::ReadOptions};
    use std::path::Path;

    fn task(name: &str, latency_ns: u64) -> ModelTask {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/models/{name}.onnx"));
        let graph = models::read(&path, &ReadOptions::default()).unwrap().graph;
        let variant = ModelVariant { name: "only".to_owned(), graph, accuracy_bp: 9000 };
        let slo = Slo { accuracy_bp: 8000, latency_ns };
        ModelTask { name: name.to_owned(), variants: vec![variant], slo }
    }

    fn processors(names: &[(&str, &str)]) -> Vec<Processor> {
        let bundles = Path::new(env!("CARGO_MANIFEST_DIR")).join("bundles");
        let open = |(name, bundle): &(&str, &str)| {
            ((*name).to_owned(), Bundle::open(bundles.join(format!("{bundle}.vtb"))).unwrap())
        };
        Processor::of(names.iter().map(open)).unwrap()
    }

    #[test]
    fn two_models_run_beside_each_other_and_objectives_count() {
        let pair = [("a", "epyc-onnxruntime-f32-1t"), ("b", "epyc-rten-f32-1t")];
        let tasks =
            [task("mobilevit_xxs", 60_000_000_000), task("vit_tiny_patch16_224", 60_000_000_000)];
        let one = place_models(&tasks, &processors(&pair[..1]), &Request::default()).unwrap();
        let two = place_models(&tasks, &processors(&pair), &Request::default()).unwrap();
        assert_eq!((one.plan.score.violated, two.plan.score.violated), (0, 0));
        assert!(two.plan.score.saturated_ns < one.plan.score.saturated_ns);
        let tight = tasks.clone().map(|mut task| {
            task.slo.latency_ns = 1;
            task
        });
        let none = place_models(&tight, &processors(&pair), &Request::default()).unwrap();
        assert_eq!(none.plan.score.violated, none.plan.score.queries);
    }

    #[test]
    fn tasks_that_cannot_be_planned_are_named() {
        let mut lacking = task("mobilevit_xxs", 1);
        lacking.variants.clear();
        let processors = processors(&[("a", "epyc-rten-f32-1t")]);
        let error = place_models(&[lacking], &processors, &Request::default()).unwrap_err();
        assert!(error.to_string().contains("mobilevit_xxs"), "{error}");
    }
}
