//! The parts into which the interpreter cuts a model: which operators it gives to XNNPACK together.
//!
//! The interpreter passes over the operators repeatedly. The first one whose inputs are ready
//! decides whether the next part is XNNPACK's or builtin; every operator of that kind whose inputs
//! become ready joins it, also one that comes later in the file. The remaining operators form the
//! next parts.

use crate::{Graph, ValueId, ValueSource};
use std::{cmp::Reverse, collections::BinaryHeap};

/// A part of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Whether the interpreter runs it in its own kernels.
    pub builtin: bool,
    /// The operators, in the order of execution.
    pub operators: Vec<usize>,
}

/// The parts XNNPACK gets, in the order of execution. `builtin` gives for each operator whether it
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
    let consumers = operators.consumers();
    let computed = |id: &&ValueId| matches!(operators.value(**id).source, ValueSource::Node(_));
    let mut waits: Vec<usize> =
        operators.nodes().iter().map(|node| node.inputs.iter().filter(computed).count()).collect();
    let mut ready = Ready::default();
    (0..waits.len()).filter(|&i| waits[i] == 0).for_each(|i| ready.push(builtin[i], i));
    let mut parts = Vec::new();
    while let Some(builtin_part) = ready.first() {
        let mut part = Vec::new();
        while let Some(index) = ready.pop(builtin_part) {
            part.push(index);
            for &reader in
                operators.nodes()[index].outputs.iter().flat_map(|id| &consumers[id.0 as usize])
            {
                waits[reader] -= 1;
                if waits[reader] == 0 {
                    ready.push(builtin[reader], reader);
                }
            }
        }
        parts.push(Part { builtin: builtin_part, operators: part });
    }
    parts
}

/// Operators whose inputs are ready, XNNPACK's and builtin ones separately. Operators come after
/// their producers, so the smallest index is the next one that the interpreter reaches.
#[derive(Default)]
struct Ready([BinaryHeap<Reverse<usize>>; 2]);

impl Ready {
    fn push(&mut self, builtin: bool, index: usize) {
        self.0[usize::from(builtin)].push(Reverse(index));
    }

    fn pop(&mut self, builtin: bool) -> Option<usize> {
        self.0[usize::from(builtin)].pop().map(|Reverse(index)| index)
    }

    /// Whether the first of all is builtin.
    fn first(&self) -> Option<bool> {
        let [delegated, builtin] = self.0.each_ref().map(|heap| heap.peek().map(|r| r.0));
        match (delegated, builtin) {
            (None, None) => None,
            (Some(delegated), Some(builtin)) => Some(builtin < delegated),
            (delegated, None) => Some(delegated.is_none()),
            (None, Some(_)) => Some(true),
        }
    }
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
