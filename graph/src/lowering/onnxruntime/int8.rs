//! Quantised kernels, which ONNX Runtime makes of Q/DQ pairs, and their memory format.
//!
//! [`propagation`] moves pairs at the first level, [`selection`] makes kernels on integers at the
//! second. At the third, convolutions on integers work channels last (`nhwc_transformer.cc`):
//! transpositions stand around them, then travel, once.

mod parameters;
mod propagation;
mod selection;
#[cfg(test)]
mod tests;
mod weights;

pub(super) use parameters::share as share_parameters;
pub(super) use propagation::{merge_double_pairs, one_per_reader, propagate};
pub(super) use selection::{drop_clips, select};
pub(super) use weights::Weights;

use super::transpose;
use crate::{
    Attribute, Graph, MemoryFormat, Node, OpKind, Precision,
    onnx::quantized::{LAST, speak_channels_first},
    patterns::rewriter::{NodeIndex, Rewriter},
};

/// Lets convolutions on integers work channels last.
pub(super) fn work_channels_last(graph: &mut Rewriter) {
    let mut wrapped = false;
    for index in graph.order() {
        wrapped |= wrap(graph, index).is_some();
    }
    if wrapped {
        transpose::optimize(graph, true);
    }
}

/// The kernels of a model that the engine has optimised before which work channels last: their
/// operators are written channels first, their values are not.
pub(super) fn channels_last_before(graph: &Graph) -> Vec<NodeIndex> {
    let is_last = |node: &Node| {
        let operand = node.op.inputs.first().map(|x| x.tensor.format);
        let value = node.inputs.first().and_then(|&x| graph.value(x).tensor.as_ref());
        operand == Some(MemoryFormat::ChannelsLast)
            && value.is_some_and(|x| x.format == MemoryFormat::ChannelsFirst)
    };
    let nodes = graph.nodes().iter().enumerate();
    nodes.filter(|(_, node)| is_last(node)).map(|(index, _)| index).collect()
}

/// Marks kernels as working channels last.
pub(super) fn mark_channels_last(graph: &mut Rewriter, kernels: &[NodeIndex]) {
    for &index in kernels {
        if let Some(attributes) = graph.attributes_mut(index) {
            attributes.set(LAST, Attribute::Int(1));
        }
    }
}

fn wrap(graph: &mut Rewriter, index: NodeIndex) -> Option<()> {
    let is_last = graph.node(index)?.op.attributes.int(LAST) == Some(1);
    let (x, _) = graph.ends(index).filter(|_| graph.is(index, &OpKind::Conv) && !is_last)?;
    let tensor = graph.tensor(x)?;
    if !matches!(tensor.precision, Precision::U8 | Precision::I8) || tensor.rank() < 3 {
        return None;
    }
    transpose::wrap_channels_last(graph, index, tensor.rank());
    graph.attributes_mut(index)?.set(LAST, Attribute::Int(1));
    Some(())
}

/// The graph with the tensors of kernels that work channels last written channels first, as
/// everywhere.
pub(super) fn spoken_channels_first(graph: Graph) -> Graph {
    graph.with_each_operator(speak_channels_first)
}
