//! ONNX Runtime's CPU kernels for a graph, at its highest optimization level, in 32-bit floats and
//! static int8.
//!
//! Rules after the optimizers of ONNX Runtime 1.31 (`onnxruntime/core/optimizer`), in their order:
//! level 1 on ONNX operators, level 2 once nodes are assigned to the CPU, level 3 for memory
//! formats. Each level is repeated until nothing changes, a few times at most, as the engine does.
//! Whether they agree with the engine is checked by [`super::compare`] against the models it saves.

mod activation;
mod attention;
mod blocked;
mod convolution;
mod domain;
mod elimination;
mod int8;
mod normalization;
mod permutation;
mod product;
mod reshape;
mod split;
#[cfg(test)]
mod tests;
mod transpose;

pub(crate) use domain::DOMAIN;

use crate::{
    Attribute, Attributes, Budget, Environment, Graph, GraphError, MemoryFormat, OpKind, OpSpec,
    Precision, images_channels_last, patterns::rewriter::Rewriter, quantize, shape,
};
use std::borrow::Cow;

/// How often the engine repeats a level.
const ROUNDS: usize = 5;

/// Elements of a block of channels on a machine with these instructions: 16, 8, or 1 for no blocked
/// formats.
#[must_use]
pub fn block(environment: &Environment) -> usize {
    let has = |name: &str| environment.isa.split([',', ' ']).any(|i| i == name);
    if has("avx512f") {
        16
    } else if has("avx2") || has("avx") {
        8
    } else {
        1
    }
}

/// Channels padded to whole blocks.
pub(crate) fn padded(channels: usize, block: usize) -> usize {
    channels.div_ceil(block.max(1)).saturating_mul(block.max(1))
}

/// Attributes of an upsampling in a blocked format.
pub(crate) fn upsample_attributes(mode: &str, coordinates: &str, scales: Vec<f64>) -> Attributes {
    Attributes::new()
        .with("mode", Attribute::Text(mode.to_owned()))
        .with("coordinate_transformation_mode", Attribute::Text(coordinates.to_owned()))
        .with("nearest_mode", Attribute::Text("floor".to_owned()))
        .with("scales", Attribute::Floats(scales))
}

/// The kernels ONNX Runtime runs for `graph` at the environment's precision and memory format.
///
/// # Errors
/// As [`lower`].
pub fn lower_for(
    graph: &Graph,
    environment: &Environment,
    budget: &Budget,
) -> Result<Graph, GraphError> {
    let mut asked = Cow::Borrowed(graph);
    if environment.memory_format == Some(MemoryFormat::ChannelsLast) {
        asked = Cow::Owned(images_channels_last(&asked)?);
    }
    if environment.precision == Precision::I8 {
        let options = quantize::Options::default();
        asked = Cow::Owned(quantize::qdq_within(&asked, &options, budget)?);
    }
    match environment.memory_format {
        Some(MemoryFormat::ChannelsFirst) => kernels(asked, None, budget),
        _ => kernels(asked, Some(block(environment)), budget),
    }
}

/// The kernels ONNX Runtime runs for `graph` with blocks of that many channels.
///
/// # Errors
/// [`GraphError`] when the result is no graph, which would be a mistake in the rules.
pub fn lower(graph: &Graph, block: usize) -> Result<Graph, GraphError> {
    kernels(Cow::Borrowed(graph), Some(block), &Budget::default())
}

/// `block`: channels of a block; `None` where the engine leaves memory formats alone (optimization
/// level 2).
fn kernels(
    graph: Cow<'_, Graph>,
    block: Option<usize>,
    budget: &Budget,
) -> Result<Graph, GraphError> {
    let quantized = quantize::is_quantized(&graph);
    let channels_last = int8::channels_last_before(&graph);
    let mut rewriter = Rewriter::of(graph, budget);
    let graph = &mut rewriter;
    int8::mark_channels_last(graph, &channels_last);
    if quantized {
        elimination::fold_constants(graph);
        product::fuse_bias(graph);
        int8::spread(graph);
    }
    if !quantized {
        attention::fuse(graph);
    }
    repeat(graph, level_one);
    if block.is_some() {
        convolution::fuse_hard_swish(graph);
    }
    activation::spell_out_hard_swish(graph);
    if quantized {
        int8::fuse(graph);
    }
    repeat(graph, level_two);
    if let Some(block) = block.filter(|&block| block > 1) {
        blocked::convert(graph, block);
    }
    if quantized && block.is_some() {
        int8::work_channels_last(graph);
    }
    if block.is_some() {
        convolution::fuse_residuals(graph);
    }
    let kernels = rewriter.finish_with(seal)?;
    let is_spoken = !quantized && channels_last.is_empty();
    Ok(if is_spoken { kernels } else { int8::spoken_channels_first(kernels) })
}

fn repeat(graph: &mut Rewriter, level: fn(&mut Rewriter) -> bool) {
    for _ in 0..ROUNDS {
        if !level(graph) {
            break;
        }
    }
}

type Step = fn(&mut Rewriter) -> bool;

fn run(graph: &mut Rewriter, steps: &[Step]) -> bool {
    steps.iter().fold(false, |changed, step| step(graph) | changed)
}

fn level_one(graph: &mut Rewriter) -> bool {
    let steps: &[Step] = &[
        elimination::no_ops,
        convolution::fold_neighbours,
        convolution::fold_paddings,
        elimination::share,
        elimination::fold_constants,
        product::fuse_bias,
        reshape::fuse_neighbours,
        |g| transpose::optimize(g, false),
    ];
    run(graph, steps)
}

fn level_two(graph: &mut Rewriter) -> bool {
    let steps: &[Step] = &[
        |g| transpose::optimize(g, true),
        product::fuse_activations,
        convolution::fuse_activations,
        activation::gelu,
        split::fuse_gathers,
        product::fuse_transposes,
        activation::bias_gelu,
        normalization::fuse_residuals,
        activation::quick_gelu,
        product::fuse_scales,
    ];
    run(graph, steps)
}

/// Brings the attributes of a kernel into their canonical form and forgets what only the rules
/// needed.
fn seal(kernel: &mut OpSpec) {
    kernel.attributes.0.remove(activation::FUSED);
    if matches!(kernel.kind, OpKind::Reshape | OpKind::Expand) {
        kernel.attributes = reshape::target(&kernel.outputs);
    }
    if let Ok(canonical) = shape::canonical(&kernel.kind, kernel.attributes.clone(), &kernel.inputs)
    {
        kernel.attributes = canonical;
    }
}
