//! Multiply-accumulates of convolutions, matrix products, Einsum and attention.

use super::total;
use crate::{OpKind, OpSpec, TensorSpec};
use std::collections::BTreeMap;

/// Multiply-accumulates of an operator; 0 for every kind that is not a product.
pub(super) fn macs(op: &OpSpec) -> u64 {
    match op.kind {
        OpKind::Conv => outputs(op).saturating_mul(per_output(op)),
        OpKind::ConvTranspose => input(op, 0)
            .map_or(0, TensorSpec::elements)
            .saturating_mul(product(input(op, 1).map_or(&[], |w| tail(w)))),
        OpKind::Linear => outputs(op).saturating_mul(linear_depth(op)),
        OpKind::MatMul => outputs(op).saturating_mul(matmul_depth(op)),
        OpKind::Einsum => einsum(op),
        OpKind::Attention => attention(op),
        _ => 0,
    }
}

/// Scores of an attention operator: batch x heads x queries x keys.
pub(super) fn attention_scores(op: &OpSpec) -> u64 {
    let (Some(query), Some(key)) = (input(op, 0), input(op, 1)) else { return 0 };
    let heads = match query.rank() {
        3 => op.attributes.int("heads").and_then(|h| u64::try_from(h).ok()).unwrap_or(1),
        _ => 1,
    };
    let rows = product(&query.shape[..query.rank().saturating_sub(1)]);
    rows.saturating_mul(heads).saturating_mul(length(key))
}

/// Kernel elements x input channels per group, from the weight `[out, in / group, ...]`, or from
/// the attributes where the weight is packed.
fn per_output(op: &OpSpec) -> u64 {
    let (x, weight) = (input(op, 0), input(op, 1));
    match (x, weight) {
        (Some(x), Some(weight)) if x.rank() == weight.rank() => product(tail(weight)),
        (Some(x), _) => {
            let group =
                op.attributes.int("group").and_then(|g| u64::try_from(g).ok()).unwrap_or(1).max(1);
            let channels = x.shape.get(1).map_or(0, |&c| c as u64) / group;
            op.attributes
                .ints("kernel_shape")
                .iter()
                .fold(channels, |n, &k| n.saturating_mul(u64::try_from(k).unwrap_or(0)))
        }
        _ => 0,
    }
}

/// Input features of a linear layer: weight `[in, out]`, or `[out, in]` with `trans_b`.
fn linear_depth(op: &OpSpec) -> u64 {
    let Some(weight) = input(op, 1) else { return 0 };
    let from_end =
        if weight.rank() == 1 || op.attributes.int("trans_b") == Some(1) { 1 } else { 2 };
    dimension(weight, from_end)
}

/// The dimension both sides of a product share. `trans_batch_a` with `trans_a`: the left side is
/// `[K, batch.., M]`.
fn matmul_depth(op: &OpSpec) -> u64 {
    let Some(left) = input(op, 0) else { return 0 };
    let set = |name: &str| op.attributes.int(name) == Some(1);
    match (left.rank() > 1 && set("trans_a"), set("trans_batch_a")) {
        (false, _) => dimension(left, 1),
        (true, false) => dimension(left, 2),
        (true, true) => dimension(left, left.rank()),
    }
}

/// q k^T and the product with v: each element of q and of the output meets every key once.
fn attention(op: &OpSpec) -> u64 {
    let (Some(query), Some(key)) = (input(op, 0), input(op, 1)) else { return 0 };
    query.elements().saturating_add(outputs(op)).saturating_mul(length(key))
}

/// Sequence length: the dimension before the last.
fn length(key: &TensorSpec) -> u64 {
    dimension(key, 2)
}

/// The extents of all distinct labels multiplied: one MAC per point of the index space. An ellipsis
/// stands for dimensions that are broadcast, aligned at the end.
fn einsum(op: &OpSpec) -> u64 {
    let equation: String = op
        .attributes
        .text("equation")
        .unwrap_or_default()
        .chars()
        .filter(|c| !c.is_whitespace())
        .collect();
    let terms = equation.split("->").next().unwrap_or_default().split(',');
    let mut labels: BTreeMap<char, u64> = BTreeMap::new();
    let mut ellipsis: Vec<u64> = Vec::new();
    for (term, operand) in terms.zip(&op.inputs) {
        let shape = &operand.tensor.shape;
        let (front, back) = term.split_once("...").unwrap_or((term, ""));
        let hidden = shape.len().saturating_sub(front.chars().count() + back.chars().count());
        let start = front.chars().count().min(shape.len());
        let named = shape.iter().take(start).chain(shape.iter().skip(start + hidden));
        for (label, &extent) in front.chars().chain(back.chars()).zip(named) {
            let slot = labels.entry(label).or_insert(1);
            *slot = (*slot).max(extent as u64);
        }
        if term.contains("...") {
            let hidden = &shape[start..start + hidden];
            ellipsis.resize(ellipsis.len().max(hidden.len()), 1);
            for (slot, &extent) in ellipsis.iter_mut().zip(hidden.iter().rev()) {
                *slot = (*slot).max(extent as u64);
            }
        }
    }
    match op.inputs.len() {
        0 => 0,
        _ => labels.values().chain(&ellipsis).fold(1, |n: u64, &d| n.saturating_mul(d)),
    }
}

fn input(op: &OpSpec, index: usize) -> Option<&TensorSpec> {
    op.inputs.get(index).map(|i| &i.tensor)
}

fn outputs(op: &OpSpec) -> u64 {
    total(op.outputs.first().into_iter().map(TensorSpec::elements))
}

fn tail(tensor: &TensorSpec) -> &[usize] {
    tensor.shape.get(1..).unwrap_or_default()
}

fn product(shape: &[usize]) -> u64 {
    shape.iter().fold(1, |n, &d| n.saturating_mul(d as u64))
}

fn dimension(tensor: &TensorSpec, from_end: usize) -> u64 {
    tensor.rank().checked_sub(from_end).map_or(0, |i| tensor.shape[i] as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Attribute, Attributes, Operand};

    fn op(kind: OpKind, attributes: Attributes, inputs: &[&[usize]], output: &[usize]) -> OpSpec {
        let inputs = inputs
            .iter()
            .map(|&shape| Operand { tensor: TensorSpec::f32(shape), constant: false })
            .collect();
        OpSpec { kind, attributes, inputs, outputs: vec![TensorSpec::f32(output)] }
    }

    #[test]
    fn by_hand() {
        let none = Attributes::new;
        let einsum = |equation: &str| none().with("equation", Attribute::Text(equation.to_owned()));
        // (operator, MACs)
        let cases = [
            // 8x5x5 outputs, each 4 channels x 3 x 3
            (op(OpKind::Conv, none(), &[&[1, 4, 5, 5], &[8, 4, 3, 3]], &[1, 8, 5, 5]), 200 * 36),
            // depthwise: each of 6x4x4 outputs sees 1 channel x 5 x 5
            (
                op(
                    OpKind::Conv,
                    none().with_int("group", 6),
                    &[&[1, 6, 4, 4], &[6, 1, 5, 5]],
                    &[1, 6, 4, 4],
                ),
                96 * 25,
            ),
            // packed weight: from the attributes, 6 / 2 channels x 3 x 3
            (
                op(
                    OpKind::Conv,
                    none().with_int("group", 2).with_ints("kernel_shape", [3, 3]),
                    &[&[1, 6, 4, 4], &[108]],
                    &[1, 6, 4, 4],
                ),
                96 * 27,
            ),
            // each of 3x2x2 inputs meets 5 channels x 2 x 2
            (
                op(OpKind::ConvTranspose, none(), &[&[1, 3, 2, 2], &[3, 5, 2, 2]], &[1, 5, 4, 4]),
                12 * 20,
            ),
            (op(OpKind::Linear, none(), &[&[1, 10, 8], &[8, 16]], &[1, 10, 16]), 160 * 8),
            (
                op(
                    OpKind::Linear,
                    none().with_int("trans_b", 1),
                    &[&[2, 8], &[16, 8], &[16]],
                    &[2, 16],
                ),
                32 * 8,
            ),
            (op(OpKind::Linear, none(), &[&[10, 8], &[8]], &[10]), 80),
            (op(OpKind::MatMul, none(), &[&[3, 10, 8], &[3, 8, 12]], &[3, 10, 12]), 360 * 8),
            (
                op(
                    OpKind::MatMul,
                    none().with_int("trans_a", 1),
                    &[&[3, 8, 10], &[3, 8, 12]],
                    &[3, 10, 12],
                ),
                360 * 8,
            ),
            (
                op(
                    OpKind::MatMul,
                    none().with_int("trans_a", 1).with_int("trans_batch_a", 1),
                    &[&[8, 3, 10], &[3, 8, 12]],
                    &[3, 10, 12],
                ),
                360 * 8,
            ),
            (
                op(
                    OpKind::Einsum,
                    einsum("bij, bjk -> bik"),
                    &[&[2, 3, 4], &[2, 4, 5]],
                    &[2, 3, 5],
                ),
                2 * 3 * 4 * 5,
            ),
            (
                op(
                    OpKind::Einsum,
                    einsum("...ij,...jk->...ik"),
                    &[&[7, 2, 3, 4], &[7, 2, 4, 5]],
                    &[7, 2, 3, 5],
                ),
                14 * 60,
            ),
            // dimensions of an ellipsis are broadcast one by one
            (
                op(
                    OpKind::Einsum,
                    einsum("...ij,...jk->...ik"),
                    &[&[2, 1, 4, 5], &[1, 3, 5, 6]],
                    &[2, 3, 4, 6],
                ),
                2 * 3 * 4 * 5 * 6,
            ),
            // 2 x 3 heads, 10 queries, 7 keys of 8, values of 8
            (
                op(
                    OpKind::Attention,
                    none(),
                    &[&[2, 3, 10, 8], &[2, 3, 7, 8], &[2, 3, 7, 8]],
                    &[2, 3, 10, 8],
                ),
                6 * 10 * 7 * 16,
            ),
            (
                op(
                    OpKind::Attention,
                    none().with_int("heads", 3),
                    &[&[2, 10, 24], &[2, 7, 24], &[2, 7, 24]],
                    &[2, 10, 24],
                ),
                6 * 10 * 7 * 16,
            ),
            (op(OpKind::Add, none(), &[&[2, 3], &[3]], &[2, 3]), 0),
            (op(OpKind::Einsum, einsum("ij,jk"), &[], &[]), 0),
        ];
        for (op, expected) in cases {
            assert_eq!(macs(&op), expected, "{} {:?}", op.kind, op.inputs);
        }
    }

    #[test]
    fn scores_of_split_and_joined_heads_agree() {
        let joined = op(
            OpKind::Attention,
            Attributes::new().with_int("heads", 3),
            &[&[2, 10, 24], &[2, 7, 24], &[2, 7, 24]],
            &[2, 10, 24],
        );
        let split = op(
            OpKind::Attention,
            Attributes::new(),
            &[&[2, 3, 10, 8], &[2, 3, 7, 8], &[2, 3, 7, 8]],
            &[2, 3, 10, 8],
        );
        assert_eq!((attention_scores(&joined), attention_scores(&split)), (420, 420));
    }

    #[test]
    fn mangled_equations_do_no_harm() {
        for equation in ["", "->", "...", "a...b...c,,,", "abcdefgh,a", "i...,..."] {
            let attributes =
                Attributes::new().with("equation", Attribute::Text(equation.to_owned()));
            let _ = macs(&op(OpKind::Einsum, attributes, &[&[2, 3], &[3]], &[2, 3]));
        }
    }
}
