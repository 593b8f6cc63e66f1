//! Matrix products `[batch] x m x k * k x n`: linear (constant right side), matmul (both computed),
//! einsum, attention. A product with a single row is a class of its own: it is a pass over the
//! right side, not a blocked product. So is a linear layer of a permuted tensor: its rows are not
//! contiguous, so it is computed matrix by matrix, each with a right side of its own (torch's
//! `matmul` folds dimensions only where their strides do).

use super::{LANES, activation_cost, alignment, flag, order, product, round_up};
use std::borrow::Cow;
use vitempo_graph::{OpKind, OpSpec};

pub(super) const COLUMNS: &[&str] = &[
    "batch",
    "m",
    "k",
    "n",
    "macs_padded",
    "left_bytes",
    "right_bytes",
    "result_bytes",
    "panels",
    "right_constant",
    "right_shared",
    "transpose_left",
    "transpose_right",
    "bias",
    "scaled",
    "fused_activation",
    "activated_elements",
    "heads",
    "m_remainder",
    "n_remainder",
    "k_remainder",
    "panel_fill",
    "k_block_remainder",
    "n_block_remainder",
    "alignment_m",
    "alignment_k",
    "alignment_n",
    "bytes_gathered",
    "operands_gathered",
];

pub(super) const BASELINE: &[&str] = &[
    "macs_padded",
    "left_bytes",
    "right_bytes",
    "result_bytes",
    "panels",
    "batch",
    "activated_elements",
    "bytes_reordered",
    "bytes_gathered",
    "operands_gathered",
];

/// Rows that a register-blocked kernel works on at once.
const ROWS: f64 = 12.0;
/// Columns, and steps along `k`, that kernels with their right side packed for bf16 take as one
/// block.
const BLOCK: f64 = 64.0;

struct Product {
    batch: f64,
    m: f64,
    k: f64,
    n: f64,
    right_batch: f64,
}

fn last(shape: &[usize], from_last: usize) -> f64 {
    shape.len().checked_sub(from_last).and_then(|i| shape.get(i)).map_or(1.0, |&d| d as f64)
}

fn leading(shape: &[usize]) -> f64 {
    product(&shape[..shape.len().saturating_sub(2)])
}

fn switch(op: &OpSpec, name: &str) -> bool {
    op.attributes.int(name).unwrap_or(0) != 0
}

fn dimensions(op: &OpSpec) -> Product {
    let left = super::first_shape(op);
    let right = op.inputs.get(1).map_or(&[][..], |i| i.tensor.shape.as_slice());
    let result = super::output_shape(op);
    match op.kind {
        OpKind::Linear => {
            let k = if switch(op, "trans_b") { last(right, 1) } else { last(right, 2) };
            let n = if switch(op, "trans_b") { last(right, 2) } else { last(right, 1) };
            let batch = if order::permuted(op) { leading(left).max(1.0) } else { 1.0 };
            Product { batch, m: product(left) / (batch * k).max(1.0), k, n, right_batch: batch }
        }
        OpKind::Attention => {
            let heads = op.attributes.int("heads").unwrap_or(1).max(1) as f64;
            let hidden = if left.len() >= 4 { last(left, 1) } else { last(left, 1) / heads };
            let batch = if left.len() >= 4 { leading(left) } else { leading(left) * heads };
            Product { batch, m: last(left, 2), k: hidden, n: last(right, 2), right_batch: batch }
        }
        _ => {
            let k = if switch(op, "trans_a") { last(left, 2) } else { last(left, 1) };
            let n = if switch(op, "trans_b") { last(right, 2) } else { last(right, 1) };
            let batch = leading(result).max(leading(left)).max(leading(right));
            let m = if left.len() < 2 {
                1.0
            } else if switch(op, "trans_a") {
                last(left, 1)
            } else {
                last(left, 2)
            };
            Product { batch, m, k, n, right_batch: leading(right) }
        }
    }
}

pub(super) fn class(op: &OpSpec) -> Cow<'static, str> {
    if op.kind == OpKind::Einsum {
        return Cow::Owned(op.attributes.text("equation").unwrap_or_default().to_owned());
    }
    let Product { batch, m, .. } = dimensions(op);
    Cow::Borrowed(match op.kind {
        OpKind::Linear if batch * m <= 1.0 => "row",
        OpKind::Linear if order::permuted(op) => "matrix-permuted",
        OpKind::Linear => "matrix",
        _ if m <= 1.0 => "row",
        _ => "matrix",
    })
}

pub(super) fn push(op: &OpSpec, out: &mut Vec<f64>) {
    let Product { batch, m, k, n, right_batch } = dimensions(op);
    let bytes = op.precision().size_bytes() as f64;
    let padded = batch * round_up(m, if m < ROWS { 1.0 } else { ROWS }) * k * round_up(n, LANES);
    let activation = activation_cost(op);
    out.extend_from_slice(&[
        batch,
        m,
        k,
        n,
        padded,
        batch * m * k * bytes,
        right_batch * k * n * bytes,
        batch * m * n * bytes,
        batch * (m / ROWS).ceil() * (n / LANES).ceil(),
        flag(op.inputs.get(1).is_some_and(|i| i.constant)),
        flag(right_batch < batch),
        flag(switch(op, "trans_a")),
        flag(switch(op, "trans_b")),
        flag(op.inputs.len() > 2),
        op.attributes.float("alpha").filter(|a| a.is_finite()).map_or(0.0, |a| flag(a != 1.0)),
        activation,
        activation * batch * m * n,
        op.attributes.int("heads").unwrap_or(0) as f64,
        m % ROWS,
        n % LANES,
        k % LANES,
        if padded > 0.0 { batch * m * k * n / padded } else { 0.0 },
        k % BLOCK,
        n % BLOCK,
        alignment(m),
        alignment(k),
        alignment(n),
        order::gathered_bytes(op),
        order::gathered_operands(op),
    ]);
}

#[cfg(test)]
mod tests {
    use super::super::{FeatureSchema, PredictorKey};
    use vitempo_graph::{Attributes, OpKind, OpSpec, Operand, TensorSpec};

    fn product(
        kind: OpKind,
        left: &[usize],
        right: &[usize],
        constant: bool,
        attributes: Attributes,
    ) -> OpSpec {
        let operand = |s: &[usize], constant| Operand { tensor: TensorSpec::f32(s), constant };
        OpSpec {
            kind,
            attributes,
            inputs: vec![operand(left, false), operand(right, constant)],
            outputs: vec![TensorSpec::f32(vec![1])],
        }
    }

    #[test]
    fn dimensions_of_linear_and_matmul() {
        let none = Attributes::new;
        for (op, mkn, class) in [
            (
                product(OpKind::Linear, &[1, 197, 384], &[384, 1536], true, none()),
                [197.0, 384.0, 1536.0],
                "matrix",
            ),
            (
                product(
                    OpKind::Linear,
                    &[1, 384],
                    &[1000, 384],
                    true,
                    none().with_int("trans_b", 1),
                ),
                [1.0, 384.0, 1000.0],
                "row",
            ),
            (
                product(OpKind::MatMul, &[1, 6, 197, 64], &[1, 6, 64, 197], false, none()),
                [197.0, 64.0, 197.0],
                "matrix",
            ),
            (
                product(
                    OpKind::MatMul,
                    &[1, 6, 197, 64],
                    &[1, 6, 99, 64],
                    false,
                    none().with_int("trans_b", 1),
                ),
                [197.0, 64.0, 99.0],
                "matrix",
            ),
        ] {
            let f = FeatureSchema::extract(&op);
            assert_eq!(["m", "k", "n"].map(|c| f.get(c).unwrap_or(-1.0)), mkn);
            assert_eq!(PredictorKey::of(&op).class, class);
        }
    }

    #[test]
    fn a_permuted_tensor_is_multiplied_matrix_by_matrix() {
        let permuted = Attributes::new().with_ints("perm_0", vec![0, 1, 3, 2, 4, 5]);
        let op = product(OpKind::Linear, &[1, 2, 2, 7, 7, 256], &[256, 768], true, permuted);
        let f = FeatureSchema::extract(&op);
        assert_eq!(
            ["batch", "m", "k", "n", "right_bytes"].map(|c| f.get(c).unwrap_or(-1.0)),
            [28.0, 7.0, 256.0, 768.0, 28.0 * 256.0 * 768.0 * 4.0]
        );
        assert_eq!(PredictorKey::of(&op).class, "matrix-permuted");
    }
}
