//! [`with_features`]: costs of a split whose tensors are sent in another precision.

use std::collections::HashMap;
use vitempo_graph::{Graph, TensorSpec};
use vitempo_planners::cost::{CostError, Costs, CostsFile};
use vitempo_profiler::split::{Features, sent_bytes};

/// Why costs do not fit a model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FeaturesError {
    /// A tensor of the costs that the model does not have.
    #[error("the costs are of another model: it lacks their tensor `{tensor}`")]
    UnknownTensor {
        /// Its name.
        tensor: String,
    },
    /// The costs are not consistent.
    #[error(transparent)]
    Cost(#[from] CostError),
}

/// The same costs where operators' inputs are sent in this precision. Results of the model keep
/// theirs, also where operators read them.
///
/// # Errors
/// [`FeaturesError`] naming a tensor that the model does not have.
pub fn with_features(
    costs: Costs,
    graph: &Graph,
    features: Features,
) -> Result<Costs, FeaturesError> {
    if features == Features::F32 {
        return Ok(costs);
    }
    let tensors: HashMap<&str, &TensorSpec> = graph
        .values()
        .iter()
        .filter_map(|value| Some((value.name.as_str(), value.tensor.as_ref()?)))
        .collect();
    let mut file = CostsFile::from(&costs);
    for (entry, tensor) in file.tensors.iter_mut().zip(costs.tensors()) {
        if tensor.output || tensor.consumers.is_empty() {
            continue;
        }
        let unknown = || FeaturesError::UnknownTensor { tensor: tensor.name.clone() };
        let spec = tensors.get(tensor.name.as_str()).ok_or_else(unknown)?;
        entry.size_bytes = sent_bytes(spec, features);
    }
    Ok(file.check()?)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use vitempo_graph::{Attributes, GraphBuilder, OpKind};
    use vitempo_planners::cost::{Interval, ProcessorCosts};

    #[test]
    fn what_is_sent_shrinks_and_results_do_not() {
        let mut b = GraphBuilder::new("m");
        let x = b.input("x", TensorSpec::f32([1, 8]));
        let a = b.op("a", OpKind::Relu, Attributes::new(), &[x]).unwrap();
        let c = b.op("c", OpKind::Sigmoid, Attributes::new(), &[a]).unwrap();
        let d = b.op("d", OpKind::Relu, Attributes::new(), &[c]).unwrap();
        // `c` is a result, and read as well.
        let graph = b.finish(vec![d, c]).unwrap();
        let costs = || {
            let processors = vec![ProcessorCosts::named("p")];
            let ns = |_, _| Some(Interval::exact(1));
            Costs::of_graph(&graph, processors, BTreeMap::new(), ns, Vec::new()).unwrap()
        };
        let sizes = |features| -> Vec<u64> {
            let costs = with_features(costs(), &graph, features).unwrap();
            costs.tensors().iter().map(|t| t.size_bytes).collect()
        };
        assert_eq!(sizes(Features::F32), [32, 32, 32, 32]);
        assert_eq!(sizes(Features::F16), [16, 16, 32, 32]);
        assert_eq!(sizes(Features::Int8), [16, 16, 32, 32], "8 bytes and the range");
        let mut other = GraphBuilder::new("n");
        let y = other.input("y", TensorSpec::f32([1]));
        let other = other.finish(vec![y]).unwrap();
        let error = with_features(costs(), &other, Features::F16).unwrap_err().to_string();
        assert!(error.contains("lacks their tensor `x`"), "{error}");
    }
}
