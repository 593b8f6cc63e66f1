//! The kernels that OpenVINO's CPU plugin runs for a graph: in 32-bit floats, in bfloat16 by its
//! own conversion, or quantised with Q/DQ pairs.
//!
//! Rules after OpenVINO 2026.4 on x86-64 with AVX-512, in its order: common transformations, those
//! of the plugin, snippets tokenization, the plugin's own graph optimizer, and the choice of memory
//! formats. Checked against executed graphs by the example `compare_openvino`.
//!
//! How executed nodes are written (the same in forecasts and in what the profiler reports; kinds by
//! [`names`]):
//!
//! | layer type | kind | inputs and attributes |
//! |---|---|---|
//! | Convolution, Deconvolution | `conv`, `conv_transpose` | image, weight and bias as ONNX has them, then what fused operators read: a fused sum has `residual` = 1, other fused operators are listed in `activation`, joined by `+` |
//! | FullyConnected | `linear` | x, weight `[out, in]` (`trans_b` = 1), bias; fused operators in `activation` |
//! | MatMul | `matmul` | |
//! | Subgraph, Eltwise, FakeQuantize | by what is inside: a product and a softmax `attention`, one of them `matmul` or `softmax`, otherwise `elementwise` | everything the node reads, constants too; `ops` |
//! | MVN | `layer_norm` | x alone (scale and bias are an `elementwise` after it); normalises all dimensions from `axis` on |
//! | RMS | `rms_norm` | x, scale |
//! | NormalizeL2 | `lp_norm` | |
//! | Pooling | `max_pool` or `average_pool`, global ones too | |
//! | Reduce | the reduction; `reduce_mean` for a global average | |
//! | Concatenation, Split, StridedSlice, Gather, Transpose, Pad, Interpolate, Softmax | `concat`, `split`, `slice`, `gather`, `transpose`, `pad`, `resize`, `softmax` | |
//! | Reorder | `reorder` | shape channels first on both sides, formats differ |
//! | Convert | `cast` | |
//!
//! Tensors that are constant, or computed from constants alone, are constant inputs. Memory
//! formats: `acdb` is channels last, `aBcd16b` and its like blocked, all others channels first.
//! Nodes that were not executed (optimised out, in place) are not kernels; a kernel behind such a
//! node has the shape that it reads.

mod attention;
mod common;
mod convolution;
mod formats;
mod fusion;
mod groups;
mod lifting;
mod movement;
pub mod names;
mod normalization;
mod pattern;
mod place;
mod precision;
mod product;
mod quantized;
mod strides;
mod subgraph;
#[cfg(test)]
mod tests;

use crate::{
    Budget, Environment, Graph, GraphError, MemoryFormat, OpKind, Precision, patterns,
    patterns::rewriter::Rewriter, quantize,
};

/// The settings that kernels depend on besides the graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The images that go in are channels last.
    pub channels_last: bool,
    /// The engine computes in bfloat16.
    pub bf16: bool,
}

impl Settings {
    /// Those of an environment.
    #[must_use]
    pub fn of(environment: &Environment) -> Self {
        Self {
            channels_last: environment.memory_format == Some(MemoryFormat::ChannelsLast),
            bf16: matches!(environment.precision, Precision::Bf16 | Precision::F16),
        }
    }
}

/// The kernels OpenVINO's CPU plugin runs for `graph` at the environment's precision and memory
/// format.
///
/// # Errors
/// As [`lower`].
pub fn lower_for(
    graph: &Graph,
    environment: &Environment,
    budget: &Budget,
) -> Result<Graph, GraphError> {
    let settings = Settings::of(environment);
    match environment.precision {
        Precision::I8 => {
            let graph = quantize::qdq(graph, &quantize::Options::default())?;
            lower_within(&graph, settings, budget)
        }
        _ => lower_within(graph, settings, budget),
    }
}

/// The kernels OpenVINO's CPU plugin runs for `graph`.
///
/// # Errors
/// [`GraphError`] when the result is no graph, which would be a mistake in the rules.
pub fn lower(graph: &Graph, settings: Settings) -> Result<Graph, GraphError> {
    lower_within(graph, settings, &Budget::default())
}

fn lower_within(graph: &Graph, settings: Settings, budget: &Budget) -> Result<Graph, GraphError> {
    let quantized = graph.nodes().iter().any(|n| n.op.kind == OpKind::Quantize);
    let mut rewriter = Rewriter::within(graph, budget);
    if settings.channels_last {
        formats::enter_channels_last(&mut rewriter);
    }
    common::simplify(&mut rewriter);
    common::share(&mut rewriter);
    common::mark_hard_sigmoids(&mut rewriter);
    let canonical = patterns::canonicalize_within(&rewriter.finish()?, budget)?;
    let mut rewriter = Rewriter::within(&canonical, budget);
    let graph = &mut rewriter;
    quantized::join_pairs(graph);
    quantized::drop_clips(graph);
    quantized::quantize_before_joins(graph);
    quantized::scale_sums(graph);
    quantized::scale_normalised_sums(graph);
    transform(graph);
    optimize(graph, !settings.bf16);
    formats::choose(graph);
    place::in_place(graph);
    if settings.bf16 {
        precision::convert(graph);
    }
    if quantized {
        quantized::set_precisions(graph);
        quantized::clean(graph);
    }
    place::without_views(&rewriter.finish()?)
}

/// Transformations of the model, before it is the plugin's.
fn transform(graph: &mut Rewriter) {
    normalization::spell_out(graph);
    movement::global_pools(graph);
    movement::reductions(graph);
    movement::slices_to_splits(graph);
    movement::group_convolutions(graph);
    movement::einsums(graph);
    common::expansions(graph);
    common::divisions(graph);
    common::simplify(graph);
    movement::shuffles(graph);
    convolution::spell_out_shared_biases(graph);
    convolution::fold(graph);
    strides::lift(graph);
    product::turn_and_scale(graph);
    lifting::lift_elementwise(graph);
    product::fold(graph);
    common::simplify(graph);
}

/// Fusions of the plugin: into heavy kernels, then snippets.
fn optimize(graph: &mut Rewriter, transposes_after_attention: bool) {
    attention::fuse(graph, transposes_after_attention);
    convolution::fuse(graph);
    product::fuse(graph);
    fusion::fuse(graph);
    convolution::mark_left_sums(graph);
    subgraph::tokenize(graph);
}
