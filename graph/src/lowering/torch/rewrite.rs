//! Rewrites the operators of a file into the calls that their author wrote.

use crate::patterns::{
    self,
    rewriter::{NodeIndex, Rewriter},
};
use crate::{Attribute, Attributes, Budget, Graph, GraphError, OpKind, Shape, TensorSpec};

/// One node per call; memory formats are still those of the file.
pub(super) fn calls(graph: &Graph, budget: &Budget) -> Result<Graph, GraphError> {
    let canonical = patterns::canonicalize_within(graph, budget)?;
    let mut graph = Rewriter::within(&canonical, budget);
    for rule in [no_operation, linear_with_bias, mish, separate_padding] {
        for index in graph.order() {
            rule(&mut graph, index);
        }
    }
    graph.finish()
}

/// Identity, and a Cast to the type there is already.
fn no_operation(graph: &mut Rewriter, index: NodeIndex) -> Option<()> {
    let node = graph.node(index)?;
    let (input, output) = graph.ends(index)?;
    let nothing = match node.op.kind {
        OpKind::Identity => true,
        OpKind::Cast => graph.tensor(input)?.precision == graph.tensor(output)?.precision,
        _ => false,
    };
    // An output of the model that is an input or a constant stays a call: something has to provide
    // it.
    if !nothing || (graph.is_output(output) && graph.producer(input).is_none()) {
        return None;
    }
    graph.remove(index)?;
    graph.replace_value(output, input);
    Some(())
}

/// A product with a constant matrix, and the Add of a constant vector that alone reads it.
fn linear_with_bias(graph: &mut Rewriter, index: NodeIndex) -> Option<()> {
    let node = graph.node(index).filter(|n| n.op.kind == OpKind::Linear && n.inputs.len() == 2)?;
    let (attributes, inputs, name) =
        (node.op.attributes.clone(), node.inputs.clone(), node.name.clone());
    let product = *node.outputs.first()?;
    let add = graph.only_consumer(product).filter(|&i| graph.is(i, &OpKind::Add))?;
    let bias = graph.other_input(add, product).filter(|&b| graph.is_constant(b))?;
    let (_, output) = graph.ends(add)?;
    let features = *graph.shape(product).last()?;
    let vector = matches!(graph.shape(bias), [extent] if *extent == features);
    if !vector || graph.shape(output) != graph.shape(product) {
        return None;
    }
    graph.fuse(&name, OpKind::Linear, attributes, vec![inputs[0], inputs[1], bias], output)?;
    Some(())
}

/// `x * tanh(softplus(x))`.
fn mish(graph: &mut Rewriter, index: NodeIndex) -> Option<()> {
    let (x, soft) = graph.ends(index).filter(|_| graph.is(index, &OpKind::Softplus))?;
    let tanh = graph.only_consumer(soft).filter(|&i| graph.is(i, &OpKind::Tanh))?;
    let (_, gate) = graph.ends(tanh)?;
    let mul = graph.only_consumer(gate).filter(|&i| graph.is(i, &OpKind::Mul))?;
    let (_, output) = graph.ends(mul).filter(|_| graph.other_input(mul, gate) == Some(x))?;
    let name = graph.node(mul)?.name.clone();
    graph.fuse(&name, OpKind::Mish, Attributes::new(), vec![x], output)?;
    Some(())
}

/// Torch pads both ends equally, and at most half of a maximum's window.
fn separate_padding(graph: &mut Rewriter, index: NodeIndex) -> Option<()> {
    let node = graph.node(index)?;
    let kind = node.op.kind.clone();
    let (attributes, name, inputs) =
        (node.op.attributes.clone(), node.name.clone(), node.inputs.clone());
    let outputs = node.outputs.clone();
    let pads = attributes.ints("pads").to_vec();
    let (begins, ends) = pads.split_at(pads.len() / 2);
    let too_wide =
        begins.iter().zip(attributes.ints("kernel_shape")).any(|(&pad, &window)| 2 * pad > window);
    let needed = match kind {
        OpKind::Conv => begins != ends,
        OpKind::MaxPool => begins != ends || too_wide,
        OpKind::AveragePool => {
            (begins != ends || too_wide) && attributes.int("count_include_pad") == Some(1)
        }
        _ => false,
    };
    if !needed {
        return None;
    }
    let input = *inputs.first()?;
    let tensor = graph.tensor(input)?.clone();
    let outer = tensor.rank().checked_sub(begins.len())?;
    let all = |pads: &[i64]| [vec![0; outer], pads.to_vec()].concat();
    let (all_begins, all_ends) = (all(begins), all(ends));
    let extent =
        |d: usize| usize::try_from(tensor.shape[d] as i64 + all_begins[d] + all_ends[d]).ok();
    let shape: Option<Shape> = (0..tensor.rank()).map(extent).collect();
    let mut padding = Attributes::new()
        .with_ints("pads", [all_begins.clone(), all_ends.clone()].concat())
        .with("mode", Attribute::Text("constant".to_owned()));
    if kind == OpKind::MaxPool {
        padding = padding.with("value", Attribute::Float(f64::NEG_INFINITY));
    }
    let padded = TensorSpec { shape: shape?, ..tensor };
    graph.remove(index)?;
    let padded = graph.add_with_output(
        &format!("{name}/pad"),
        OpKind::Pad,
        padding,
        vec![input],
        Some(padded),
    );
    let inputs = std::iter::once(padded).chain(inputs.into_iter().skip(1)).collect();
    graph.add(&name, kind, attributes.with_ints("pads", vec![0; pads.len()]), inputs, outputs);
    Some(())
}
