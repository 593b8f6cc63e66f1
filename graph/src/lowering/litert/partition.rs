//! Which operators the interpreter gives to XNNPACK together: the parts it cuts a model into.
//!
//! The interpreter goes through the operators again and again: the first one whose inputs are ready
//! decides whether the next part is XNNPACK's or builtin, and every operator of that kind whose
//! inputs become ready joins it, also one that comes later in the file; what is left starts the
//! next part.

use crate::{Graph, ValueSource};

/// A part of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Whether the interpreter runs it in its own kernels.
    pub builtin: bool,
    /// The operators, in the order of execution.
    pub operators: Vec<usize>,
}

/// The parts XNNPACK gets, in the order of execution. `builtin` says of each operator whether it
/// runs in a builtin kernel.
#[must_use]
pub fn parts(operators: &Graph, builtin: &[bool]) -> Vec<Vec<usize>> {
    sequence(operators, builtin)
        .into_iter()
        .filter(|part| !part.builtin)
        .map(|part| part.operators)
        .collect()
}

/// All parts in the order of execution.
#[must_use]
pub fn sequence(operators: &Graph, builtin: &[bool]) -> Vec<Part> {
    let mut ready: Vec<bool> = operators
        .values()
        .iter()
        .map(|value| !matches!(value.source, ValueSource::Node(_)))
        .collect();
    let mut done = vec![false; operators.nodes().len()];
    let mut parts = Vec::new();
    loop {
        let mut kind = None;
        let mut part = Vec::new();
        while pass(operators, builtin, &mut ready, &mut done, &mut kind, &mut part) {}
        match kind {
            None => return parts,
            Some(builtin) => parts.push(Part { builtin, operators: part }),
        }
    }
}

/// One pass over all operators; whether any joined the part.
fn pass(
    operators: &Graph,
    builtin: &[bool],
    ready: &mut [bool],
    done: &mut [bool],
    kind: &mut Option<bool>,
    part: &mut Vec<usize>,
) -> bool {
    let mut joined = false;
    for (index, node) in operators.nodes().iter().enumerate() {
        let waits = done[index] || !node.inputs.iter().all(|input| ready[input.0 as usize]);
        if waits || *kind.get_or_insert(builtin[index]) != builtin[index] {
            continue;
        }
        done[index] = true;
        joined = true;
        part.push(index);
        node.outputs.iter().for_each(|output| ready[output.0 as usize] = true);
    }
    joined
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::{Attributes, GraphBuilder, OpKind, TensorSpec};

    #[test]
    fn later_operators_join_an_earlier_part_when_they_can() {
        let mut b = GraphBuilder::new("m");
        let x = b.input("x", TensorSpec::f32([4]));
        let mut unary = |name: &str, of| b.op(name, OpKind::Abs, Attributes::new(), &[of]).unwrap();
        let a = unary("a", x);
        let gather = unary("gather", a);
        let c = unary("c", gather);
        let d = unary("d", a);
        let graph = b.finish(vec![c, d]).unwrap();
        assert_eq!(parts(&graph, &[false, true, false, false]), [vec![0, 3], vec![2]]);
        assert_eq!(parts(&graph, &[true, false, true, false]), [vec![1, 3]]);
        assert_eq!(parts(&graph, &[true; 4]), Vec::<Vec<usize>>::new());
        assert_eq!(parts(&graph, &[false; 4]), [vec![0, 1, 2, 3]]);
    }
}
