//! ONNX Runtime's CPU kernels for a graph, at its highest optimization level, in 32-bit floats and
//! static int8.
//!
//! Rules after the optimizers of ONNX Runtime 1.31 (`onnxruntime/core/optimizer`), in their order:
//! level 1 on ONNX operators, level 2 once nodes are assigned to the CPU, level 3 for memory
//! formats. Each level is repeated until nothing changes, a few times at most, as the engine does.
//! Whether they agree with the engine is checked by [`super::compare`] against the models it saves.

mod activation;
mod arena;
mod attention;
mod bfc;
mod blocked;
mod convolution;
mod domain;
mod elimination;
mod free_blocks;
mod heap;
mod int8;
mod loading;
mod normalization;
mod pairs;
mod permutation;
mod product;
mod reshape;
mod split;
#[cfg(test)]
mod tests;
mod transpose;

pub use arena::{arena_bytes, planned_bytes};
pub(crate) use domain::DOMAIN;
pub use loading::kept_bytes;

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
    let mut rules = Rules {
        block: match environment.memory_format {
            Some(MemoryFormat::ChannelsFirst) => None,
            _ => Some(block(environment)),
        },
        has_gelu: false,
    };
    if environment.precision == Precision::I8 && !quantize::is_quantized(&asked) {
        let options = quantize::Options::default();
        asked = Cow::Owned(quantize::qdq_within(&asked, &options, budget)?);
        rules.has_gelu = true;
    }
    kernels(asked, rules, budget)
}

/// The kernels ONNX Runtime runs for `graph` with blocks of that many channels.
///
/// # Errors
/// [`GraphError`] when the result is no graph, which would be a mistake in the rules.
pub fn lower(graph: &Graph, block: usize) -> Result<Graph, GraphError> {
    let rules = Rules { block: Some(block), has_gelu: false };
    kernels(Cow::Borrowed(graph), rules, &Budget::default())
}

/// What decides which rules hold, besides the graph.
#[derive(Clone, Copy, Debug)]
struct Rules {
    /// Channels of a block; `None` where the engine leaves memory formats alone (optimization level
    /// 2).
    block: Option<usize>,
    /// Whether the file's operator set has Gelu, as in files that vitempo writes: it is fused at
    /// the first level then.
    has_gelu: bool,
}

fn kernels(graph: Cow<'_, Graph>, rules: Rules, budget: &Budget) -> Result<Graph, GraphError> {
    let is_quantized = quantize::is_quantized(&graph);
    let channels_last = int8::channels_last_before(&graph);
    let mut rewriter = Rewriter::of(graph, budget);
    let graph = &mut rewriter;
    int8::mark_channels_last(graph, &channels_last);
    let mut weights = int8::Weights::default();
    if is_quantized {
        weights = int8::Weights::taken_from(graph);
        int8::share_parameters(graph);
        int8::one_per_reader(graph);
    } else {
        attention::fuse(graph);
    }
    repeat(graph, &level_one(is_quantized, rules));
    if rules.block.is_some() {
        convolution::fuse_hard_swish(graph);
    }
    activation::spell_out_hard_swish(graph);
    repeat(graph, &level_two(is_quantized, rules));
    weights.put_back(graph);
    if let Some(block) = rules.block.filter(|&block| block > 1) {
        blocked::convert(graph, block);
    }
    if is_quantized && rules.block.is_some() {
        int8::work_channels_last(graph);
    }
    if rules.block.is_some() {
        convolution::fuse_residuals(graph);
    }
    let kernels = rewriter.finish_with(seal)?;
    let is_spoken = !is_quantized && channels_last.is_empty();
    Ok(if is_spoken { kernels } else { int8::spoken_channels_first(kernels) })
}

type Step = fn(&mut Rewriter) -> bool;

/// Takes the steps again and again until nothing changes, but not for ever.
fn repeat(graph: &mut Rewriter, steps: &[Step]) {
    for _ in 0..ROUNDS {
        if !steps.iter().fold(false, |changed, step| step(graph) | changed) {
            break;
        }
    }
}

fn level_one(is_quantized: bool, rules: Rules) -> Vec<Step> {
    let mut steps: Vec<Step> =
        vec![elimination::no_ops, convolution::fold_neighbours, convolution::fold_paddings];
    if is_quantized {
        steps.push(int8::merge_double_pairs);
    }
    let rest: [Step; 4] = [
        elimination::share,
        elimination::fold_constants,
        product::fuse_bias,
        reshape::fuse_neighbours,
    ];
    steps.extend(rest);
    if rules.has_gelu {
        steps.push(activation::onnx_gelu);
    }
    if is_quantized {
        steps.push(int8::propagate);
        steps.push(int8::one_per_reader);
    }
    steps.push(|g| transpose::optimize(g, false));
    steps
}

fn level_two(is_quantized: bool, rules: Rules) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    if is_quantized {
        steps.push(int8::drop_clips);
    }
    steps.push(|g| transpose::optimize(g, true));
    if is_quantized {
        steps.push(int8::select);
    }
    steps.push(product::fuse_activations);
    steps.push(convolution::fuse_activations);
    if !rules.has_gelu {
        steps.push(activation::gelu);
    }
    let rest: [Step; 6] = [
        split::fuse_gathers,
        product::fuse_transposes,
        activation::bias_gelu,
        normalization::fuse_residuals,
        activation::quick_gelu,
        product::fuse_scales,
    ];
    steps.extend(rest);
    steps
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
