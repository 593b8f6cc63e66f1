//! The reference workload: a small vision transformer that never changes, run before and after
//! every model run.
//!
//! Its latency changes only with the machine, so it separates the drift of a sweep from the
//! differences between models. A convolutional stem with a depthwise convolution, then four
//! transformer blocks of width 192 over 64 tokens: a few milliseconds on one core, and the mix of
//! convolutions, matrix products and elementwise operators that the models themselves have.

use crate::{
    backends::{Backend, Model, ModelSource, RunOptions},
    source::{self, Source},
};
use vitempo_graph::{Graph, GraphBuilder, GraphError, OpKind, TensorSpec, ValueId};

const WIDTH: usize = 192;
const TOKENS: usize = 64;
const HEADS: usize = 3;
const BLOCKS: usize = 4;
const SEED: u64 = 0;

/// The workload, ready to load.
///
/// # Errors
/// A sentence, when it cannot be written as ONNX.
pub fn model() -> Result<Model, String> {
    let graph = graph().map_err(|e| e.to_string())?;
    let bytes = source::bytes_of_graph(&graph, SEED)?;
    Ok(Model { name: graph.name().to_owned(), graph, source: ModelSource::Bytes(bytes) })
}

/// The workload as this engine takes it at these options.
///
/// # Errors
/// As [`source::ready`].
pub fn model_for(backend: &dyn Backend, options: &RunOptions) -> Result<Model, String> {
    let graph = graph().map_err(|e| e.to_string())?;
    source::ready(
        graph.name(),
        &Source::Graph,
        &graph,
        backend,
        &RunOptions { seed: SEED, ..options.clone() },
    )
}

/// The workload as a graph.
///
/// # Errors
/// Never, unless a layer is broken.
pub fn graph() -> Result<Graph, GraphError> {
    let mut b = GraphBuilder::new("reference");
    let image = b.input("image", TensorSpec::f32([1, 3, 128, 128]));
    let stem = b.conv("stem", image, 48, 4, 4, 0, 1, true)?;
    let depthwise = b.conv("depthwise", stem, 48, 3, 1, 1, 48, true)?;
    let embedded = b.conv("embed", depthwise, WIDTH, 4, 4, 0, 1, true)?;
    let flat = b.reshape("flatten", embedded, &[1, WIDTH, TOKENS])?;
    let mut x = b.transpose("tokens", flat, &[0, 2, 1])?;
    for block in 0..BLOCKS {
        let attention = attention(&mut b, &format!("block{block}.attention"), x)?;
        let mixed = b.binary(&format!("block{block}.residual1"), OpKind::Add, x, attention)?;
        let mlp = mlp(&mut b, &format!("block{block}.mlp"), mixed)?;
        x = b.binary(&format!("block{block}.residual2"), OpKind::Add, mixed, mlp)?;
    }
    let norm = b.layer_norm("norm", x)?;
    let pooled = b.reduce_mean("pool", norm, &[1], false)?;
    let head = b.linear("head", pooled, 100, true)?;
    b.finish(vec![head])
}

fn attention(b: &mut GraphBuilder, name: &str, x: ValueId) -> Result<ValueId, GraphError> {
    let norm = b.layer_norm(&format!("{name}.norm"), x)?;
    let mut heads = |part: &str, perm: &[usize]| {
        let projected = b.linear(&format!("{name}.{part}"), norm, WIDTH, true)?;
        let split = b.reshape(
            &format!("{name}.{part}.heads"),
            projected,
            &[1, TOKENS, HEADS, WIDTH / HEADS],
        )?;
        b.transpose(&format!("{name}.{part}.order"), split, perm)
    };
    let (q, k, v) =
        (heads("q", &[0, 2, 1, 3])?, heads("k", &[0, 2, 3, 1])?, heads("v", &[0, 2, 1, 3])?);
    let scores = b.matmul(&format!("{name}.scores"), q, k)?;
    let scale =
        b.scalar(&format!("{name}.scale"), scores, ((WIDTH / HEADS) as f64).sqrt().recip())?;
    let scaled = b.binary(&format!("{name}.scaled"), OpKind::Mul, scores, scale)?;
    let weights = b.softmax(&format!("{name}.softmax"), scaled, 3)?;
    let mixed = b.matmul(&format!("{name}.mix"), weights, v)?;
    let order = b.transpose(&format!("{name}.order"), mixed, &[0, 2, 1, 3])?;
    let merged = b.reshape(&format!("{name}.merge"), order, &[1, TOKENS, WIDTH])?;
    b.linear(&format!("{name}.out"), merged, WIDTH, true)
}

fn mlp(b: &mut GraphBuilder, name: &str, x: ValueId) -> Result<ValueId, GraphError> {
    let norm = b.layer_norm(&format!("{name}.norm"), x)?;
    let wide = b.linear(&format!("{name}.in"), norm, 4 * WIDTH, true)?;
    let active = b.gelu_erf(&format!("{name}.gelu"), wide)?;
    b.linear(&format!("{name}.out"), active, WIDTH, true)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_never_changes() {
        let graph = graph().unwrap();
        assert_eq!(graph.architecture(), super::graph().unwrap().architecture());
        assert_eq!(graph.value(graph.outputs()[0]).tensor, Some(TensorSpec::f32([1, 100])));
        assert_eq!(graph.unsupported().count(), 0);
        assert_eq!(model().unwrap().source, model().unwrap().source);
    }
}
