//! [`of_engine`]: the memory that an engine takes for a model, divided over its operators, as
//! planners bound it.

use vitempo_graph::{Environment, Graph, Node, ValueId, ValueSource};
use vitempo_planners::cost::EngineMemory;
use vitempo_predictors::memory::EngineMemory as Fit;

/// The memory of a model by operator, from the kernels that the engine runs for it; `None` where the
/// engine's memory is not known.
///
/// An operator has the weights that it is the first to read, in the bytes that the engine takes for
/// them, and its part of what kernels take. What is left of the forecast is taken once: the engine's
/// base, and what the whole model takes beside its weights. All add up to the forecast
/// ([`crate::Bundle::memory`]).
#[must_use]
pub fn of_engine(
    environment: &Environment,
    graph: &Graph,
    kernels: &Graph,
) -> Option<EngineMemory> {
    let fit = Fit::of(environment)?;
    let forecast = fit.forecast(graph, kernels);
    let per_operator =
        fit.per_kernel_bytes * forecast.demand.kernels as f64 / graph.nodes().len().max(1) as f64;
    let weights = weights_by_operator(graph, fit);
    let once = fit.base_bytes + fit.per_activation * forecast.demand.others_bytes() as f64;
    let whole = forecast.peak_bytes.point();
    let added: f64 = weights.iter().map(|bytes| bytes + per_operator).sum();
    let scale = ((whole as f64 - once) / added).max(0.0);
    let own = |bytes: &f64| (((bytes + per_operator) * scale) as u64).max(1);
    let nodes_bytes: Vec<u64> = weights.iter().map(own).collect();
    let sum: u64 = nodes_bytes.iter().sum();
    Some(EngineMemory { once_bytes: whole.saturating_sub(sum), nodes_bytes })
}

/// What the engine takes for the weights that each operator is the first to read, bytes.
fn weights_by_operator(graph: &Graph, fit: &Fit) -> Vec<f64> {
    let mut is_read = vec![false; graph.values().len()];
    let mut first = |&&id: &&ValueId| !std::mem::replace(&mut is_read[id.0 as usize], true);
    let mut of_node = |node: &Node| -> f64 {
        let is_product = node.op.kind.is_matrix_product();
        let factor = if is_product { fit.per_product_weight } else { fit.per_other_weight };
        let constants = node.inputs.iter().filter(&mut first).map(|&id| graph.value(id));
        let constants = constants.filter(|v| matches!(v.source, ValueSource::Constant(_)));
        let bytes = constants.filter_map(|v| Some(v.tensor.as_ref()?.size_bytes() as f64));
        factor * bytes.sum::<f64>()
    };
    graph.nodes().iter().map(&mut of_node).collect()
}
