//! f16: converts every 32-bit float tensor to 16 bits, including the model's inputs and outputs.

use crate::spending::Spending;
use crate::{
    Attribute, Attributes, Budget, Graph, GraphError, Limits, Node, OpKind, Precision, TensorSpec,
    Value, shape,
};

/// The graph in 16-bit floats. Integers stay; a cast to f32 becomes one to f16. A model that
/// quantises while it runs is not changed: ONNX has DynamicQuantizeLinear in f32 alone.
///
/// # Errors
/// [`GraphError`] as [`Graph::new`]; not for any graph that a reader or builder made.
pub fn half(graph: &Graph) -> Result<Graph, GraphError> {
    half_within(graph, &Budget::new(Limits::NONE))
}

/// [`half`] within a budget.
///
/// # Errors
/// As [`half`], and [`GraphError::Exceeded`] with the node at which the budget ended.
pub fn half_within(graph: &Graph, budget: &Budget) -> Result<Graph, GraphError> {
    let spending = Spending::new(budget);
    spending.steps(graph.values().len() as u64);
    for node in graph.nodes() {
        if !spending.steps(1 + (node.inputs.len() + node.outputs.len()) as u64) {
            spending.at(&node.name);
            break;
        }
    }
    spending.finish()?;
    if graph.nodes().iter().any(|node| node.op.kind == OpKind::DynamicQuantize) {
        return Ok(graph.clone());
    }
    let halved = |tensor: &TensorSpec| match tensor.precision {
        Precision::F32 => TensorSpec { precision: Precision::F16, ..tensor.clone() },
        _ => tensor.clone(),
    };
    let value = |v: &Value| Value {
        name: v.name.clone(),
        tensor: v.tensor.as_ref().map(halved),
        source: v.source.clone(),
    };
    let values: Vec<Value> = graph.values().iter().map(value).collect();
    let node = |n: &Node| {
        let mut node = Node {
            written: n.written,
            ..Node::new(
                n.name.clone(),
                n.op.kind.clone(),
                retyped(n),
                &values,
                n.inputs.clone(),
                n.outputs.clone(),
            )
        };
        // Numbers that are operands in ONNX become 16-bit ones, too.
        if matches!(node.op.kind, OpKind::Clip | OpKind::Pad)
            && let Ok(attributes) =
                shape::canonical(&node.op.kind, node.op.attributes.clone(), &node.op.inputs)
        {
            node.op.attributes = attributes;
        }
        node
    };
    let nodes = graph.nodes().iter().map(node).collect();
    Graph::new(graph.name(), values, nodes, graph.inputs().to_vec(), graph.outputs().to_vec())
}

fn retyped(node: &Node) -> Attributes {
    let attributes = node.op.attributes.clone();
    let names_type =
        matches!(node.op.kind, OpKind::Cast | OpKind::ConstantOfShape | OpKind::Quantize)
            && attributes.text("to") == Some(Precision::F32.name());
    if names_type {
        attributes.with("to", Attribute::Text(Precision::F16.name().to_owned()))
    } else {
        attributes
    }
}
