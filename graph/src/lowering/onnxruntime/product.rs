//! Matrix products as ONNX Runtime fuses them: MatMul and Add become Gemm, scales and transposes
//! become attributes.

use super::reshape;
use crate::{
    Attribute, Attributes, OpKind, TensorSpec, ValueId,
    patterns::rewriter::{NodeIndex, Rewriter},
};

/// `MatMul, Add` with a weight and a bias become one Gemm, between reshapes where the input is no
/// matrix. Whether anything changed.
pub(super) fn fuse_bias(graph: &mut Rewriter) -> bool {
    let mut changed = false;
    for index in graph.order() {
        changed |= fuse_one_bias(graph, index).is_some();
    }
    changed
}

fn fuse_one_bias(graph: &mut Rewriter, index: NodeIndex) -> Option<()> {
    let node = graph.node(index).filter(|n| n.op.kind == OpKind::Linear && n.inputs.len() == 2)?;
    let plain = node.op.attributes.0.is_empty();
    let (name, x, weight, product) =
        (node.name.clone(), node.inputs[0], node.inputs[1], *node.outputs.first()?);
    let add = graph.only_consumer(product).filter(|&n| graph.is(n, &OpKind::Add))?;
    let bias = graph.other_input(add, product)?;
    let output = *graph.node(add)?.outputs.first()?;
    let (x_spec, weight_shape) = (graph.tensor(x)?.clone(), graph.shape(weight).to_vec());
    let [k, n] = weight_shape[..] else { return None };
    if !plain || graph.shape(bias) != [n] || x_spec.shape.is_empty() || !x_spec.precision.is_float()
    {
        return None;
    }
    graph.remove(add);
    graph.remove(index);
    let matrix = |columns: usize| TensorSpec {
        shape: [x_spec.shape[..x_spec.rank() - 1].iter().product(), columns].as_slice().into(),
        ..x_spec.clone()
    };
    if x_spec.rank() == 2 {
        graph.add(&name, OpKind::Linear, Attributes::new(), vec![x, weight, bias], vec![output]);
        return Some(());
    }
    let flat = graph.add_with_output(
        &[&name, "/in"].concat(),
        OpKind::Reshape,
        reshape::attributes(reshape::OF_GEMM, &[]),
        vec![x],
        Some(matrix(k)),
    );
    let gemm = graph.add_with_output(
        &name,
        OpKind::Linear,
        Attributes::new(),
        vec![flat, weight, bias],
        Some(matrix(n)),
    );
    graph.add(
        &[&name, "/out"].concat(),
        OpKind::Reshape,
        reshape::attributes(reshape::OF_GEMM, &[]),
        vec![gemm],
        vec![output],
    );
    Some(())
}

/// Fuses transposes into the MatMul after them: of the last two dimensions, and of the first with
/// all but the last. Returns whether anything changed.
pub(super) fn fuse_transposes(graph: &mut Rewriter) -> bool {
    let mut changed = false;
    for index in graph.order() {
        for (position, last_two, batch) in
            [(0, "trans_a", "trans_batch_a"), (1, "trans_b", "trans_batch_b")]
        {
            changed |= is_matmul(graph, index)
                && fuse_transpose(graph, index, position, last_two, batch).is_some();
        }
    }
    changed
}

fn fuse_transpose(
    graph: &mut Rewriter,
    index: NodeIndex,
    position: usize,
    last_two: &str,
    batch: &str,
) -> Option<()> {
    let inputs = &graph.node(index)?.inputs;
    let (input, other) = (*inputs.get(position)?, *inputs.get(1 - position)?);
    let transpose =
        graph.producer_of(input, &OpKind::Transpose).filter(|_| !graph.is_output(input))?;
    let (swaps, moves_first) = taken_in(graph.node(transpose)?.op.attributes.ints("perm"))?;
    let done = |graph: &Rewriter, name: &str| {
        graph.node(index).and_then(|n| n.op.attributes.int(name)).unwrap_or(0) != 0
    };
    if moves_first
        && (graph.shape(input).len() != graph.shape(other).len()
            || done(graph, last_two)
            || done(graph, batch))
    {
        return None;
    }
    let (source, _) = graph.ends(transpose)?;
    graph.set_input(index, position, source);
    if graph.uses(input) == 0 {
        graph.remove(transpose);
    }
    let attributes = graph.attributes_mut(index)?;
    for (name, flips) in [(last_two, swaps), (batch, moves_first)] {
        if flips {
            attributes.set(name, Attribute::Int(1 - attributes.int(name).unwrap_or(0)));
        }
    }
    Some(())
}

/// Whether a permutation swaps the last two dimensions, and whether it moves the first one behind
/// the other batch dimensions before that; `None` for any other permutation.
fn taken_in(perm: &[i64]) -> Option<(bool, bool)> {
    let rank = perm.len() as i64;
    let (batch, tail) = perm.split_at(perm.len().checked_sub(2)?);
    let from = |first: i64| batch.iter().copied().eq(first..first + rank - 2);
    match *tail {
        [a, b] if (a, b) == (rank - 1, rank - 2) && from(0) => Some((true, false)),
        [0, b] if rank > 2 && b == rank - 1 && from(1) => Some((false, true)),
        [a, 0] if rank > 2 && a == rank - 1 && from(1) => Some((true, true)),
        _ => None,
    }
}

/// A MatMul, with or without constant right side, and not a Gemm (which has a bias).
fn is_matmul(graph: &Rewriter, index: NodeIndex) -> bool {
    let floats = |value: &ValueId| graph.tensor(*value).is_some_and(|t| t.precision.is_float());
    graph.node(index).is_some_and(|n| {
        matches!(n.op.kind, OpKind::MatMul | OpKind::Linear)
            && n.inputs.len() == 2
            && n.inputs.iter().all(floats)
    })
}

/// Fuses multiplications and divisions by a number before and after a MatMul into it. Returns
/// whether anything changed.
pub(super) fn fuse_scales(graph: &mut Rewriter) -> bool {
    let mut changed = false;
    for index in graph.order() {
        if !is_matmul(graph, index) {
            continue;
        }
        for position in 0..2 {
            changed |= fuse_scale_before(graph, index, position).is_some();
        }
        changed |= fuse_scale_after(graph, index).is_some();
    }
    changed
}

fn scale(graph: &mut Rewriter, index: NodeIndex, factor: f32) {
    if let Some(attributes) = graph.attributes_mut(index) {
        let alpha = attributes.float("alpha").unwrap_or(1.0) as f32 * factor;
        attributes.set("alpha", Attribute::Float(f64::from(alpha)));
    }
}

/// The factor of a Mul or Div by a number, and the scaled value.
fn factor(graph: &Rewriter, index: NodeIndex) -> Option<(f32, ValueId)> {
    let node = graph.node(index)?;
    let (number, other) = graph.scalar_operand(index)?;
    let constant = node.inputs.iter().copied().find(|&v| v != other)?;
    if graph.shape(constant).len() > graph.shape(other).len() || graph.is_constant(other) {
        return None;
    }
    match node.op.kind {
        OpKind::Mul => Some((number as f32, other)),
        OpKind::Div if node.inputs.first() == Some(&other) => Some((1.0 / number as f32, other)),
        _ => None,
    }
}

fn fuse_scale_before(graph: &mut Rewriter, index: NodeIndex, position: usize) -> Option<()> {
    let input = *graph.node(index)?.inputs.get(position)?;
    let before = graph.producer(input)?;
    let (number, source) = factor(graph, before)?;
    graph.set_input(index, position, source);
    if graph.uses(input) == 0 {
        graph.remove(before);
    }
    scale(graph, index, number);
    Some(())
}

fn fuse_scale_after(graph: &mut Rewriter, index: NodeIndex) -> Option<()> {
    let (_, output) = graph.ends(index)?;
    let after = graph.only_consumer(output)?;
    let (number, _) = factor(graph, after)?;
    let (_, end) = graph.ends(after)?;
    graph.remove(after);
    graph.set_output(index, 0, end);
    scale(graph, index, number);
    Some(())
}

/// Fuses an activation that is the only reader of a Gemm into it. Returns whether anything changed.
pub(super) fn fuse_activations(graph: &mut Rewriter) -> bool {
    use OpKind as K;
    let mut changed = false;
    for index in graph.order() {
        let is_gemm = graph.node(index).is_some_and(|n| {
            n.op.kind == K::Linear
                && n.inputs.len() == 3
                && n.op.attributes.text("activation").is_none()
        });
        let Some((_, output)) = graph.ends(index).filter(|_| is_gemm) else { continue };
        let Some(next) = graph.only_consumer(output) else { continue };
        let Some(node) = graph.node(next) else { continue };
        if !matches!(
            node.op.kind,
            K::Relu | K::LeakyRelu | K::Sigmoid | K::Tanh | K::Elu | K::HardSigmoid | K::Softplus
        ) {
            continue;
        }
        let (name, Some(&end)) = (node.op.kind.name().to_owned(), node.outputs.first()) else {
            continue;
        };
        graph.remove(next);
        graph.set_output(index, 0, end);
        if let Some(attributes) = graph.attributes_mut(index) {
            attributes.set("activation", Attribute::Text(name));
        }
        changed = true;
    }
    changed
}
