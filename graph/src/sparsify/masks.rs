//! Unstructured pruning: of every product's weights, the share that is smallest in magnitude
//! becomes 0. Shapes do not change, nor does the latency in engines without sparse kernels.

use super::{SparsifyError, check_share, product_weights};
use crate::{ConstantData, Graph, Value, ValueSource};

/// The graph with this share of every product's weights masked; of equal ones the first.
///
/// # Errors
/// [`SparsifyError`] for an invalid share, for weights without values, and for models without
/// products with weights.
pub fn masked(graph: &Graph, share: f64) -> Result<Graph, SparsifyError> {
    check_share(share)?;
    let weights = product_weights(graph);
    if weights.is_empty() {
        return Err(SparsifyError::Nothing {
            model: graph.name().to_owned(),
            reason: "it has no convolution or matrix product with weights to mask",
        });
    }
    let mut values: Vec<Value> = graph.values().to_vec();
    for id in weights {
        let Some(value) = values.get_mut(id.0 as usize) else { continue };
        match &mut value.source {
            ValueSource::Constant(Some(ConstantData::Floats(floats))) => mask(floats, share),
            _ => {
                return Err(SparsifyError::NoValues {
                    model: graph.name().to_owned(),
                    weight: value.name.clone(),
                });
            }
        }
    }
    Ok(Graph::new(
        graph.name(),
        values,
        graph.nodes().to_vec(),
        graph.inputs().to_vec(),
        graph.outputs().to_vec(),
    )?)
}

fn mask(floats: &mut [f64], share: f64) {
    let count = (share * floats.len() as f64).round() as usize;
    let mut order: Vec<usize> = (0..floats.len()).collect();
    if count == 0 {
        return;
    }
    let smaller =
        |a: &usize, b: &usize| floats[*a].abs().total_cmp(&floats[*b].abs()).then(a.cmp(b));
    order.select_nth_unstable_by(count.min(floats.len()) - 1, smaller);
    order.into_iter().take(count).for_each(|index| floats[index] = 0.0);
}
