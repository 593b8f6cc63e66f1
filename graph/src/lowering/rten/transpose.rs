//! Fuses transposes into the operator that reads them, which reads its input with other strides
//! instead.

use super::{
    pattern::engine_name,
    program::{Fusion, Op, Program},
};
use crate::{Attribute, Node, OpKind, ValueId};

/// rten's operators that take any strides without loss.
const READERS: [&str; 6] = ["MatMul", "FusedMatMul", "Concat", "Expand", "Slice", "Split"];

/// `op(Transpose(x), ...)`.
pub(super) fn into_reader(program: &Program, index: usize) -> Option<Fusion> {
    let op = program.op(index)?;
    if !READERS.contains(&engine_name(op)) {
        return None;
    }
    let mut fused: Op = op.clone();
    for (position, input) in fused.inputs.iter_mut().enumerate() {
        if let Some((inner, order)) = transposed(program, *input) {
            *input = inner;
            fused.permuted.push((position, order));
        }
    }
    if fused.permuted.is_empty() { None } else { Fusion::kernel(fused) }
}

/// The value that another one is a transpose of, and the order of dimensions.
fn transposed(program: &Program, value: ValueId) -> Option<(ValueId, Vec<usize>)> {
    let (_, op) = program.source(value)?;
    let (OpKind::Transpose, &[inner]) = (&op.kind, op.inputs.as_slice()) else { return None };
    let rank = program.tensor(inner)?.rank();
    let order: Vec<usize> = op
        .attributes
        .ints("perm")
        .iter()
        .filter_map(|&axis| usize::try_from(axis).ok())
        .filter(|&axis| axis < rank)
        .collect();
    match order.len() {
        0 => Some((inner, (0..rank).rev().collect())),
        n if n == rank => Some((inner, order)),
        _ => None,
    }
}

/// Writes permuted inputs into the operator: their shapes as the operator reads them, and
/// attributes for their order in memory.
pub(super) fn describe(node: &mut Node, permuted: &[(usize, Vec<usize>)]) {
    let product = matches!(node.op.kind, OpKind::MatMul | OpKind::Linear);
    for (position, order) in permuted {
        let mut order = order.clone();
        let rank = order.len();
        let letter = if *position == 0 { "a" } else { "b" };
        if product && rank >= 2 && order[rank - 2] == rank - 1 {
            node.op.attributes.set(&format!("trans_{letter}"), Attribute::Int(1));
            order.swap(rank - 2, rank - 1);
        }
        let Some(operand) = node.op.inputs.get_mut(*position) else { continue };
        let shape = &operand.tensor.shape;
        operand.tensor.shape = order.iter().filter_map(|&axis| shape.get(axis).copied()).collect();
        if order.iter().enumerate().any(|(i, &axis)| i != axis) {
            let name = if product { format!("perm_{letter}") } else { format!("perm_{position}") };
            node.op
                .attributes
                .set(&name, Attribute::Ints(order.iter().map(|&axis| axis as i64).collect()));
        }
    }
}
