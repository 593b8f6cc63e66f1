//! Refuses models that rten 0.27 computes wrong without an error, or refuses with a less precise
//! one.

use vitempo_graph::{Graph, Node, OpKind, Precision};

/// Names the first unsupported node, and the reason.
///
/// # Errors
/// A sentence with the node, its operator and what to do.
pub(super) fn check(graph: &Graph) -> Result<(), String> {
    graph.nodes().iter().try_for_each(|node| match objection(node) {
        Some(reason) => Err(format!("node `{}` ({}): {reason}", node.name, node.op.kind)),
        None => Ok(()),
    })
}

fn objection(node: &Node) -> Option<String> {
    let op = &node.op;
    let half = op.outputs.iter().find(|t| matches!(t.precision, Precision::F16 | Precision::Bf16));
    if let Some(tensor) = half {
        return Some(format!(
            "rten computes {} as f32 in silence; export the model in f32",
            tensor.precision
        ));
    }
    match &op.kind {
        OpKind::Resize if op.attributes.text("mode") == Some("cubic") => Some(
            "rten 0.27 computes cubic interpolation as linear in silence; use another \
                backend, or mode `linear`"
                .to_owned(),
        ),
        OpKind::Conv | OpKind::ConvTranspose
            if op.inputs.first().is_some_and(|x| x.tensor.rank() > 4) =>
        {
            Some(
                "rten 0.27 has no convolution of more than two spatial dimensions; use another \
                backend"
                    .to_owned(),
            )
        }
        OpKind::Col2Im => Some(missing("Col2Im")),
        OpKind::Unsupported(name) if name.starts_with("QLinear") => Some(missing(name)),
        _ => None,
    }
}

fn missing(name: &str) -> String {
    format!("rten 0.27 does not have {name}; use another backend")
}

#[cfg(test)]
mod tests {
    use super::*;
    use vitempo_graph::{Attribute, Attributes, TensorSpec, Value, ValueId, ValueSource};

    fn graph(kind: OpKind, attributes: Attributes, input: TensorSpec, output: TensorSpec) -> Graph {
        let values = vec![
            Value { name: "x".into(), tensor: Some(input), source: ValueSource::Input },
            Value { name: "y".into(), tensor: Some(output), source: ValueSource::Node(0) },
        ];
        let node = Node::new("here", kind, attributes, &values, vec![ValueId(0)], vec![ValueId(1)]);
        Graph::new("g", values, vec![node], vec![ValueId(0)], vec![ValueId(1)])
            .unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn refuses_what_rten_gets_wrong_and_names_the_node() {
        let image = || TensorSpec::f32([1, 3, 8, 8]);
        let mode = |mode: &str| Attributes::new().with("mode", Attribute::Text(mode.into()));
        let half = TensorSpec::new([1, 3, 8, 8], Precision::F16);
        let cases = [
            (OpKind::Resize, mode("cubic"), image(), image(), Some("cubic")),
            (OpKind::Resize, mode("linear"), image(), image(), None),
            (
                OpKind::Conv,
                Attributes::new(),
                TensorSpec::f32([1, 3, 8, 8, 8]),
                image(),
                Some("two spatial dimensions"),
            ),
            (OpKind::Conv, Attributes::new(), image(), image(), None),
            (OpKind::Col2Im, Attributes::new(), image(), image(), Some("Col2Im")),
            (
                OpKind::Unsupported("QLinearConv".into()),
                Attributes::new(),
                image(),
                image(),
                Some("QLinearConv"),
            ),
            (OpKind::Relu, Attributes::new(), half.clone(), half, Some("as f32 in silence")),
        ];
        for (kind, attributes, input, output, expected) in cases {
            let result = check(&graph(kind.clone(), attributes, input, output));
            match expected {
                None => assert_eq!(result, Ok(()), "{kind}"),
                Some(words) => assert!(
                    result.as_ref().is_err_and(|e| e.contains(words) && e.contains("`here`")),
                    "{kind}: {result:?}"
                ),
            }
        }
    }
}
