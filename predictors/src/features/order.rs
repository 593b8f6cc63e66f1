//! The order of operands in memory: that of their dimensions, a permutation, or another memory
//! format than the result's.
//!
//! Engines that keep views (torch) or fuse transposes into their readers (rten) give the order of
//! an operand's dimensions by attributes `perm_0`, `perm_1`, ... or `perm_a`, `perm_b`, from the
//! slowest to the fastest. Operands in equal orders are read together; others are copied first or
//! read in strides, which is several times as slow.

use vitempo_graph::{MemoryFormat, OpSpec, Operand};

/// In which order the dimensions of an operand lie; empty: in their own.
fn of(op: &OpSpec, position: usize) -> &[i64] {
    let is_it = |name: &str| match name {
        "a" => position == 0,
        "b" => position == 1,
        digits => digits.parse() == Ok(position),
    };
    named(op).find(|(position, _)| is_it(position)).map_or(&[], |(_, order)| order)
}

/// The orders of all operands that do not lie in their own.
pub(super) fn permutations(op: &OpSpec) -> impl Iterator<Item = &[i64]> {
    named(op).map(|(_, order)| order)
}

/// What follows `perm_` in an attribute's name, and the order.
fn named(op: &OpSpec) -> impl Iterator<Item = (&str, &[i64])> {
    op.attributes
        .0
        .keys()
        .filter_map(|name| Some((name.strip_prefix("perm_")?, op.attributes.ints(name))))
}

/// Whether an operand lies in another order or format than the first.
fn differs(op: &OpSpec, position: usize, operand: &Operand) -> bool {
    of(op, position) != of(op, 0) || operand.tensor.format != op.format()
}

/// Whether operands as large as the result lie in different orders.
pub(super) fn mixed(op: &OpSpec) -> bool {
    let elements = op.outputs.first().map_or(0, |t| t.elements());
    let full = |o: &Operand| !o.constant && o.tensor.elements() == elements;
    op.inputs.first().is_some_and(full)
        && op.inputs.iter().enumerate().any(|(i, o)| full(o) && differs(op, i, o))
}

/// Whether the first operand's last dimension is not contiguous.
pub(super) fn permuted(op: &OpSpec) -> bool {
    !of(op, 0).is_empty() || op.format() == MemoryFormat::ChannelsLast
}

/// Extent of the first operand's contiguous dimension: loops along a short one are slow.
pub(super) fn innermost_extent(op: &OpSpec) -> f64 {
    let Some(first) = op.inputs.first() else { return 1.0 };
    let shape = &first.tensor.shape;
    let innermost = match (of(op, 0).last(), first.tensor.format) {
        (Some(&dimension), _) => usize::try_from(dimension).unwrap_or(usize::MAX),
        (None, MemoryFormat::ChannelsLast) if shape.len() > 2 => 1,
        _ => shape.len().saturating_sub(1),
    };
    shape.get(innermost).map_or(1.0, |&extent| extent as f64)
}

/// The computed operands that are permuted or in another format than the result.
fn reordered(op: &OpSpec) -> impl Iterator<Item = &Operand> {
    let format = op.outputs.first().map_or(op.format(), |t| t.format);
    let reordered = move |(i, o): &(usize, &Operand)| {
        !o.constant && (!of(op, *i).is_empty() || o.tensor.format != format)
    };
    op.inputs.iter().enumerate().filter(reordered).map(|(_, o)| o)
}

/// Bytes of the operands that are permuted or in another format than the result.
pub(super) fn reordered_bytes(op: &OpSpec) -> f64 {
    bytes(reordered(op))
}

/// Their number.
pub(super) fn reordered_operands(op: &OpSpec) -> f64 {
    reordered(op).count() as f64
}

fn bytes<'a>(operands: impl Iterator<Item = &'a Operand>) -> f64 {
    operands.map(|o| o.tensor.size_bytes() as f64).sum()
}

/// The operands of a product of many matrices that are copied first: whose leading dimensions do not
/// lie one after the other, or whose matrices have no contiguous rows or columns (torch's `matmul`
/// makes one dimension of the leading ones).
fn gathered(op: &OpSpec) -> impl Iterator<Item = &Operand> {
    let gathered = |(i, o): &(usize, &Operand)| !o.constant && !folds(&o.tensor.shape, of(op, *i));
    op.inputs.iter().enumerate().filter(gathered).map(|(_, o)| o)
}

/// Bytes of the operands of a product that are copied first.
pub(super) fn gathered_bytes(op: &OpSpec) -> f64 {
    bytes(gathered(op))
}

/// Their number.
pub(super) fn gathered_operands(op: &OpSpec) -> f64 {
    gathered(op).count() as f64
}

/// Whether the dimensions before the last two are one dimension in memory, in that order.
fn folds(shape: &[usize], order: &[i64]) -> bool {
    let Some(leading) = shape.len().checked_sub(2).filter(|_| !order.is_empty()) else {
        return true;
    };
    let extent = |&d: &usize| shape.get(d).is_some_and(|&extent| extent > 1);
    let in_memory = || order.iter().filter_map(|&d| usize::try_from(d).ok()).filter(extent);
    let batch = || (0..leading).filter(extent);
    let from_first = in_memory().skip_while(|&d| d >= leading);
    batch().eq(from_first.take(batch().count()))
        && in_memory().next_back().is_none_or(|d| d >= leading)
}

#[cfg(test)]
mod tests {
    use super::super::{FeatureSchema, PredictorKey};
    use vitempo_graph::{Attributes, MemoryFormat, OpKind, OpSpec, Operand, TensorSpec};

    fn op(kind: OpKind, inputs: usize) -> OpSpec {
        let x = TensorSpec::f32(vec![1, 6, 10, 8]);
        let operand = Operand { tensor: x.clone(), constant: false };
        OpSpec {
            kind,
            attributes: Attributes::new(),
            inputs: vec![operand; inputs],
            outputs: vec![x],
        }
    }

    #[test]
    fn sums_of_operands_in_different_orders_are_a_class() {
        let features_of = |op: &OpSpec| {
            (
                PredictorKey::of(op).class.into_owned(),
                FeatureSchema::extract(op).get("bytes_reordered"),
            )
        };
        let plain = op(OpKind::Add, 2);
        assert_eq!(features_of(&plain), ("same".to_owned(), Some(0.0)));
        let mut one = op(OpKind::Add, 2);
        one.attributes = one.attributes.with_ints("perm_1", vec![0, 2, 1, 3]);
        assert_eq!(features_of(&one), ("same-reordered".to_owned(), Some(1920.0)));
        one.attributes = one.attributes.with_ints("perm_0", vec![0, 2, 1, 3]);
        assert_eq!(features_of(&one), ("same".to_owned(), Some(3840.0)));
        let mut last = op(OpKind::Add, 2);
        last.inputs[1].tensor.format = MemoryFormat::ChannelsLast;
        assert_eq!(features_of(&last), ("same-reordered".to_owned(), Some(1920.0)));
    }

    #[test]
    fn neighbours_lie_along_the_last_dimension_of_the_order() {
        let mut x = op(OpKind::Div, 2);
        let features_of = |op: &OpSpec| FeatureSchema::extract(op).get("extent_innermost");
        assert_eq!(features_of(&x), Some(8.0));
        x.inputs[0].tensor.format = MemoryFormat::ChannelsLast;
        assert_eq!(features_of(&x), Some(6.0));
        x.inputs[0].tensor.format = MemoryFormat::ChannelsFirst;
        x.attributes = x.attributes.with_ints("perm_0", vec![0, 3, 1, 2]);
        assert_eq!(features_of(&x), Some(10.0));
    }

    #[test]
    fn operands_whose_leading_dimensions_lie_apart_are_gathered() {
        let bytes = |shape: &[usize], order: &[i64]| {
            let mut product = op(OpKind::MatMul, 2);
            product.inputs[0].tensor = TensorSpec::f32(shape);
            product.attributes = product.attributes.with_ints("perm_0", order);
            FeatureSchema::extract(&product).get("bytes_gathered")
        };
        // Heads of one image, of windows, of windows with one head, and transposed matrices.
        assert_eq!(bytes(&[1, 6, 49, 32], &[0, 2, 1, 3]), Some(0.0));
        assert_eq!(bytes(&[9, 6, 49, 32], &[0, 2, 1, 3]), Some(9.0 * 6.0 * 49.0 * 32.0 * 4.0));
        assert_eq!(bytes(&[9, 1, 49, 32], &[0, 2, 1, 3]), Some(0.0));
        assert_eq!(bytes(&[9, 6, 49, 32], &[0, 1, 3, 2]), Some(0.0));
        assert_eq!(bytes(&[9, 6, 49, 32], &[2, 3, 0, 1]), Some(9.0 * 6.0 * 49.0 * 32.0 * 4.0));
        assert_eq!(bytes(&[9, 6, 49, 32], &[]), Some(0.0));
    }

    #[test]
    fn normalizations_of_permuted_tensors_are_a_class() {
        let mut softmax = op(OpKind::Softmax, 1);
        assert_eq!(PredictorKey::of(&softmax).class, "last");
        softmax.attributes = softmax.attributes.with_ints("perm_0", vec![0, 1, 3, 2]);
        assert_eq!(PredictorKey::of(&softmax).class, "last-permuted");
    }
}
