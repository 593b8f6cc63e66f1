//! Static int8: a Quantize and the Dequantizes behind it are one elementwise operator, which kernels take in; integer kernels read what it writes.
//!
//! Shapes and fusions follow the rules for floats. Precisions: what a Quantize, or a kernel that ends with one, writes is `u8`.

use super::pattern::{ends_quantized, is_quantize};
use crate::{OpKind, Precision, ValueId, patterns::rewriter::Rewriter};

/// Joins pairs around activations; those around weights are constants already.
pub(super) fn join_pairs(graph: &mut Rewriter) {
    for index in graph.order() {
        let Some((x, quantized)) = graph.ends(index).filter(|_| graph.is(index, &OpKind::Quantize)) else { continue };
        let readers = graph.consumers(quantized).to_vec();
        if graph.is_constant(x) || graph.is_output(quantized) || !readers.iter().all(|&r| graph.is(r, &OpKind::Dequantize)) {
            continue;
        }
        let tensor = graph.tensor(x).cloned();
        let Some(node) = graph.remove(index) else { continue };
        let joined = graph.add_with_output(&node.name, OpKind::Quantize, node.op.attributes, vec![x], tensor);
        for reader in readers {
            let Some(output) = graph.remove(reader).and_then(|n| n.outputs.first().copied()) else { continue };
            graph.replace_value(output, joined);
        }
    }
}

/// Kernels that end with a Quantize write bytes; convolutions and products that read bytes have weights in bytes.
pub(super) fn set_precisions(graph: &mut Rewriter) {
    for index in graph.order() {
        let Some(node) = graph.node(index) else { continue };
        let quantizes = is_quantize(graph, index) || ends_quantized(node);
        let moves = matches!(node.op.kind, OpKind::Reshape | OpKind::Transpose | OpKind::Reorder | OpKind::MaxPool)
            && node.inputs.first().is_some_and(|&v| is_bytes(graph, v));
        let on_bytes = matches!(node.op.kind, OpKind::Conv | OpKind::Linear) && node.inputs.first().is_some_and(|&v| is_bytes(graph, v));
        if let Some(&weight) = node.inputs.get(1).filter(|&&v| on_bytes && graph.is_constant(v))
            && let Some(tensor) = graph.tensor_mut(weight)
        {
            tensor.precision = Precision::I8;
        }
        if !quantizes && !moves {
            continue;
        }
        let Some(node) = graph.node(index) else { continue };
        for output in node.outputs.clone() {
            if graph.is_output(output) {
                continue;
            }
            if let Some(tensor) = graph.tensor_mut(output) {
                tensor.precision = Precision::U8;
            }
        }
    }
}

fn is_bytes(graph: &Rewriter, value: ValueId) -> bool {
    graph.tensor(value).is_some_and(|t| t.precision == Precision::U8)
}
