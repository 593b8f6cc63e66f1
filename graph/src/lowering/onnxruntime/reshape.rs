//! Reshapes: which ONNX operator one was (it decides what ONNX Runtime does to it), and ONNX Runtime's fusion of neighbouring ones.
//!
//! vitempo has one operator for Reshape, Squeeze, Unsqueeze and Flatten, because they cost the same. The optimizer treats them differently;
//! the reader's attribute [`ORIGIN`] tells, and where it is missing, the shapes do.

use crate::{
    Attribute, Attributes, OpKind,
    patterns::rewriter::{NodeIndex, Rewriter},
};

/// The attribute that says which ONNX operator a reshape was. It is no part of a kernel's identity and goes at the end of lowering.
pub(super) const ORIGIN: &str = "origin";

/// What a reshape does to its dimensions.
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

/// The positions in `long` that are left over when `short` is laid over it; they must all have extent 1.
pub(super) fn ones_added(short: &[usize], long: &[usize]) -> Option<Vec<usize>> {
    let mut rest = short.iter().peekable();
    let mut added = Vec::new();
    for (i, extent) in long.iter().enumerate() {
        let spare = long.len() - i > rest.len();
        match rest.peek() {
            Some(next) if *next == extent && !(*extent == 1 && spare) => {
                rest.next();
            }
            _ if *extent == 1 => added.push(i),
            _ => return None,
        }
    }
    (rest.next().is_none() && !added.is_empty()).then_some(added)
}

/// What the reshape at `index` is.
pub(super) fn form(graph: &Rewriter, index: NodeIndex) -> Option<Form> {
    let node = graph.node(index).filter(|n| n.op.kind == OpKind::Reshape)?;
    let (input, output) = graph.ends(index)?;
    let (from, to) = (graph.shape(input), graph.shape(output));
    let axes = || node.op.attributes.ints("axes").iter().map(|&a| a as usize).collect::<Vec<_>>();
    let by_shape = |short: &[usize], long: &[usize]| ones_added(short, long).unwrap_or_default();
    Some(match node.op.attributes.text(ORIGIN) {
        Some("Squeeze") if !axes().is_empty() => Form::Squeeze(axes()),
        Some("Squeeze") => Form::Squeeze(by_shape(to, from)),
        Some("Unsqueeze") if !axes().is_empty() => Form::Unsqueeze(axes()),
        Some("Unsqueeze") => Form::Unsqueeze(by_shape(from, to)),
        Some("Flatten") => Form::Flatten,
        Some(_) => Form::Reshape,
        None => match (ones_added(to, from), ones_added(from, to)) {
            (Some(axes), _) => Form::Squeeze(axes),
            (_, Some(axes)) => Form::Unsqueeze(axes),
            _ => Form::Reshape,
        },
    })
}

/// Attributes of a reshape of that origin.
pub(super) fn attributes(origin: &str, axes: &[usize]) -> Attributes {
    let attributes = Attributes::new().with(ORIGIN, Attribute::Text(origin.to_owned()));
    if axes.is_empty() { attributes } else { attributes.with_ints("axes", axes.iter().map(|&a| a as i64).collect::<Vec<_>>()) }
}

/// Fuses a Reshape with the Reshapes, Squeezes and Unsqueezes that follow it one by one. Whether anything changed.
pub(super) fn fuse_neighbours(graph: &mut Rewriter) -> bool {
    let mut changed = false;
    for index in graph.order() {
        if form(graph, index) != Some(Form::Reshape) {
            continue;
        }
        while let Some((input, output)) = graph.ends(index) {
            let Some(next) = graph.only_consumer(output).filter(|&n| matches!(form(graph, n), Some(f) if f != Form::Flatten)) else { break };
            let Some((_, last)) = graph.ends(next) else { break };
            graph.remove(next);
            graph.set_output(index, 0, last);
            debug_assert_eq!(graph.ends(index), Some((input, last)));
            changed = true;
        }
    }
    changed
}

/// The attributes of a reshape or broadcast as a kernel: the shape that comes out.
pub(super) fn target(graph: &Rewriter, index: NodeIndex) -> Attributes {
    let shape = graph.ends(index).map(|(_, output)| graph.shape(output).to_vec()).unwrap_or_default();
    Attributes::new().with_ints("shape", shape.iter().map(|&d| d as i64).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ones_are_found_where_they_were_added() {
        assert_eq!(ones_added(&[3, 197, 64], &[1, 3, 197, 64]), Some(vec![0]));
        assert_eq!(ones_added(&[1, 3, 197, 64], &[1, 1, 3, 197, 64]), Some(vec![0]));
        assert_eq!(ones_added(&[1, 197, 3, 64], &[1, 197, 1, 3, 64]), Some(vec![2]));
        assert_eq!(ones_added(&[5], &[5, 1, 1]), Some(vec![1, 2]));
        assert_eq!(ones_added(&[6], &[2, 3]), None);
        assert_eq!(ones_added(&[2, 3], &[2, 3]), None);
    }
}
