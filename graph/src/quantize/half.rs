//! f16: converts every 32-bit float tensor to 16 bits, including the model's inputs and outputs.

use crate::{Attribute, Attributes, Graph, GraphError, Node, OpKind, Precision, TensorSpec, Value};

/// The graph in 16-bit floats. Integers stay; a cast to f32 becomes one to f16.
///
/// # Errors
/// [`GraphError`] as [`Graph::new`]; not for any graph that a reader or builder made.
pub fn half(graph: &Graph) -> Result<Graph, GraphError> {
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
        Node::new(
            n.name.clone(),
            n.op.kind.clone(),
            retyped(n),
            &values,
            n.inputs.clone(),
            n.outputs.clone(),
        )
    };
    let nodes = graph.nodes().iter().map(node).collect();
    Graph::new(graph.name(), values, nodes, graph.inputs().to_vec(), graph.outputs().to_vec())
}

fn retyped(node: &Node) -> Attributes {
    let attributes = node.op.attributes.clone();
    let names_type = matches!(node.op.kind, OpKind::Cast | OpKind::ConstantOfShape)
        && attributes.text("to") == Some(Precision::F32.name());
    if names_type {
        attributes.with("to", Attribute::Text(Precision::F16.name().to_owned()))
    } else {
        attributes
    }
}
