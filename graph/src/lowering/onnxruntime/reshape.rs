//! Reshapes: the ONNX operator that each was (ONNX Runtime's rules depend on it), and ONNX
//! Runtime's fusion of neighbouring ones.
//!
//! vitempo has one operator for Reshape, Squeeze, Unsqueeze and Flatten, because they cost the
//! same. The optimizer treats them differently: the attribute [`ORIGIN`] identifies those that it
//! made itself, [`Written`] those of the file.

use crate::{
    Attribute, Attributes, Node, OpKind, TensorSpec, Written,
    patterns::rewriter::{NodeIndex, Rewriter},
    shape::ones_added,
};

/// The attribute that says which ONNX operator a reshape was. It is not part of a kernel's identity
/// and is removed at the end of lowering.
pub(super) const ORIGIN: &str = "origin";

/// The origin of reshapes around a Gemm; ONNX Runtime never shares them.
pub(super) const OF_GEMM: &str = "Gemm";

/// The effect of a reshape on its dimensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Anything.
    Reshape,
    /// Takes dimensions of extent 1 away, at these positions of the input.
    Squeeze(Vec<usize>),
    /// Adds dimensions of extent 1, at these positions of the output.
    Unsqueeze(Vec<usize>),
    /// ONNX's Flatten, which no rule touches.
    Flatten,
}

/// The ONNX operator that a reshape is: a graph built in memory is written with Reshape alone.
fn spelled(node: &Node) -> &str {
    node.op.attributes.text(ORIGIN).unwrap_or(match node.written {
        Some(Written::Squeeze) => "Squeeze",
        Some(Written::Unsqueeze) => "Unsqueeze",
        Some(Written::Flatten) => "Flatten",
        _ => "Reshape",
    })
}

/// The form of the reshape at `index`.
pub(super) fn form(graph: &Rewriter, index: NodeIndex) -> Option<Form> {
    let node = graph.node(index).filter(|n| n.op.kind == OpKind::Reshape)?;
    let (input, output) = graph.ends(index)?;
    let (from, to) = (graph.shape(input), graph.shape(output));
    let axes = node.op.attributes.ints("axes");
    let given = (!axes.is_empty()).then(|| axes.iter().map(|&a| a as usize).collect::<Vec<_>>());
    Some(match spelled(node) {
        "Squeeze" => given.or_else(|| ones_added(to, from)).map_or(Form::Reshape, Form::Squeeze),
        "Unsqueeze" => {
            given.or_else(|| ones_added(from, to)).map_or(Form::Reshape, Form::Unsqueeze)
        }
        "Flatten" => Form::Flatten,
        _ => Form::Reshape,
    })
}

/// Attributes of a reshape of that origin.
pub(super) fn attributes(origin: &str, axes: &[usize]) -> Attributes {
    let attributes = Attributes::new().with(ORIGIN, Attribute::Text(origin.to_owned()));
    if axes.is_empty() {
        attributes
    } else {
        attributes.with_ints("axes", axes.iter().map(|&a| a as i64).collect::<Vec<_>>())
    }
}

/// Whether a Reshape has `allowzero`, which keeps it from being fused: PyTorch's newer exporter
/// sets it on every one.
fn allows_zero(graph: &Rewriter, index: NodeIndex) -> bool {
    graph.node(index).is_some_and(|n| {
        n.written == Some(Written::ReshapeAllowingZero) && !n.op.attributes.has(ORIGIN)
    })
}

/// Fuses a Reshape with the Reshapes, Squeezes and Unsqueezes that follow it one by one. Whether
/// anything changed.
pub(super) fn fuse_neighbours(graph: &mut Rewriter) -> bool {
    let mut changed = false;
    for index in graph.order() {
        if form(graph, index) != Some(Form::Reshape) || allows_zero(graph, index) {
            continue;
        }
        while let Some((input, output)) = graph.ends(index) {
            let fusable = |&n: &NodeIndex| {
                form(graph, n).is_some_and(|f| f != Form::Flatten) && !allows_zero(graph, n)
            };
            let Some(next) = graph.only_consumer(output).filter(fusable) else { break };
            let Some((_, last)) = graph.ends(next) else { break };
            graph.remove(next);
            graph.set_output(index, 0, last);
            debug_assert_eq!(graph.ends(index), Some((input, last)));
            changed = true;
        }
    }
    changed
}

/// The attributes of a reshape or broadcast as a kernel: the output's shape.
pub(super) fn target(outputs: &[TensorSpec]) -> Attributes {
    let shape: &[usize] = outputs.first().map_or(&[], |output| &output.shape);
    Attributes::new().with("shape", Attribute::Ints(shape.iter().map(|&d| d as i64).collect()))
}
