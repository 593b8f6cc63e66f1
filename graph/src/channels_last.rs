//! Converts a model to image inputs in channels last, the format of cameras and decoders.

use crate::{Attributes, Graph, GraphError, Node, OpKind, Value, ValueId, ValueSource};
use std::collections::HashMap;

/// The graph with every input N, C, H, W replaced by one N, H, W, C of the same name and a
/// transposition behind it.
///
/// # Errors
/// [`GraphError`] as [`Graph::new`]; not for any graph that a reader or builder made.
pub fn images_channels_last(graph: &Graph) -> Result<Graph, GraphError> {
    let mut values = graph.values().to_vec();
    let mut nodes = graph.nodes().to_vec();
    let mut transpositions = Vec::new();
    let mut moved: HashMap<ValueId, ValueId> = HashMap::new();
    for &input in graph.inputs() {
        let Value { name, tensor: Some(tensor), .. } = graph.value(input).clone() else { continue };
        let &[n, c, h, w] = tensor.shape.as_slice() else { continue };
        let inside = ValueId(values.len() as u32);
        values.push(Value {
            name: format!("{name}/channels_first"),
            tensor: Some(tensor.clone()),
            source: ValueSource::Node(0),
        });
        let mut outside = tensor;
        outside.shape = [n, h, w, c].into();
        values[input.0 as usize].tensor = Some(outside);
        let perm = Attributes::new().with_ints("perm", [0, 3, 1, 2]);
        transpositions.push(Node::new(
            format!("{name}/transpose"),
            OpKind::Transpose,
            perm,
            &values,
            vec![input],
            vec![inside],
        ));
        moved.entry(input).or_insert(inside);
    }
    let place = |id: &ValueId| moved.get(id).copied().unwrap_or(*id);
    for id in nodes.iter_mut().flat_map(|node| &mut node.inputs) {
        *id = place(id);
    }
    // The graph is rewritten, so the file's own operators no longer apply.
    nodes.iter_mut().for_each(|node| node.written = None);
    let outputs = graph.outputs().iter().map(place).collect();
    transpositions.append(&mut nodes);
    Graph::new(graph.name(), values, transpositions, graph.inputs().to_vec(), outputs)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::{GraphBuilder, TensorSpec};

    #[test]
    fn images_are_transposed_and_tokens_are_not() {
        let mut b = GraphBuilder::new("m");
        let image = b.input("image", TensorSpec::f32([1, 3, 8, 6]));
        let tokens = b.input("tokens", TensorSpec::f32([1, 4, 4]));
        let y = b.conv("conv", image, 4, 3, 1, 1, 1, false).unwrap();
        let z = b.unary("relu", OpKind::Relu, tokens).unwrap();
        let plain = b.finish(vec![y, z]).unwrap();
        let graph = images_channels_last(&plain).unwrap();
        let shape = |id: &ValueId| graph.value(*id).tensor.clone().unwrap().shape.to_vec();
        assert_eq!(
            graph.inputs().iter().map(shape).collect::<Vec<_>>(),
            [vec![1, 8, 6, 3], vec![1, 4, 4]]
        );
        assert_eq!(
            graph.nodes()[0].op.outputs,
            plain.nodes()[0].op.inputs[..1].iter().map(|o| o.tensor.clone()).collect::<Vec<_>>()
        );
        assert_eq!(graph.nodes()[1].op, plain.nodes()[0].op);
        assert_eq!(graph.nodes().len(), 3);
    }
}
