//! Transposes between DQ and Q stay between DQ and Q, so that they work on integers later.
//!
//! Rules after `FixQDQNodeUnits` and `MakeQDQNodeUnit` in `onnx_transpose_optimization.cc` of ONNX
//! Runtime.

use super::super::pairs;
use crate::{
    OpKind, ValueId,
    patterns::rewriter::{NodeIndex, Rewriter},
};

/// Puts a Q and a DQ behind the only reader of dequantised numbers.
pub(super) fn complete(graph: &mut Rewriter, floats: ValueId) -> Option<()> {
    let dequantize = pairs::dq_of(graph, floats)?;
    let reader = graph.only_consumer(floats).filter(|_| pairs::is_per_tensor(graph, dequantize))?;
    let (_, output) = graph.ends(reader)?;
    pairs::insert_behind(graph, dequantize, output)
}

/// Removes DQs before Qs between which nothing is left, and completes pairs around transposes.
/// Whether anything changed.
pub(super) fn repair(graph: &mut Rewriter) -> bool {
    let order = graph.order();
    if !order.iter().any(|&index| graph.is(index, &OpKind::Dequantize)) {
        return false;
    }
    let mut changed = false;
    for index in order {
        changed |= match graph.node(index).map(|n| &n.op.kind) {
            Some(OpKind::Quantize) => remove_empty(graph, index).is_some(),
            Some(OpKind::Transpose) => {
                add_missing_q(graph, index).or_else(|| add_missing_dq(graph, index)).is_some()
            }
            _ => false,
        };
    }
    changed
}

fn remove_empty(graph: &mut Rewriter, quantize: NodeIndex) -> Option<()> {
    let (_, integers) = graph.ends(quantize)?;
    if graph.uses(integers) != 1 {
        return None;
    }
    pairs::cancel(graph, quantize)
}

/// DQ, transpose and no Q.
fn add_missing_q(graph: &mut Rewriter, transpose: NodeIndex) -> Option<()> {
    let (floats, output) = graph.ends(transpose)?;
    pairs::dq_of(graph, floats)?;
    let fits = match graph.consumers(output).len() {
        0 => true,
        1 => !graph.consumers(output).any(|reader| pairs::is_q(graph, reader)),
        _ => false,
    };
    if fits { complete(graph, floats) } else { None }
}

/// Transpose and Q, and no DQ.
fn add_missing_dq(graph: &mut Rewriter, transpose: NodeIndex) -> Option<()> {
    let (input, output) = graph.ends(transpose)?;
    let quantize = pairs::only_q(graph, output)?;
    let producer = graph.producer(input)?;
    let fits = !graph.is(producer, &OpKind::Dequantize)
        && graph.consumers(input).len() == 1
        && pairs::is_per_tensor(graph, quantize);
    if !fits {
        return None;
    }
    pairs::insert_behind(graph, quantize, input)
}
