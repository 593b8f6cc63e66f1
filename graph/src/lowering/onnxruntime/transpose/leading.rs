//! Values from which a path of operators that let transposes through leads to a transpose.
//!
//! A transpose is pushed towards others. Where a value has several readers, only one that undoes
//! it counts: with any other, as many transposes would be left.

use super::{Handler, perms, permutation};
use crate::{
    OpKind, ValueId,
    patterns::rewriter::{NodeIndex, Rewriter},
};
use foldhash::{HashMap, HashMapExt};
use smallvec::SmallVec;

/// Of more permutations behind a value, the others are not distinguished.
const MOST_PERMUTATIONS: usize = 8;

/// Numbers of permutations.
type Numbers = SmallVec<[u32; 2]>;

/// The transposes that values lead to.
#[derive(Debug)]
pub(super) struct Leading {
    numbers: HashMap<Vec<usize>, u32>,
    behind: HashMap<ValueId, Numbers>,
}

impl Leading {
    /// Of a graph whose nodes are in this order.
    pub(super) fn of(graph: &Rewriter, order: &[NodeIndex]) -> Self {
        let mut leading = Self { numbers: HashMap::new(), behind: HashMap::new() };
        for &index in order.iter().rev() {
            leading.follow_back(graph, index);
        }
        leading
    }

    fn follow_back(&mut self, graph: &Rewriter, index: NodeIndex) {
        let Some(node) = graph.node(index) else { return };
        if node.op.kind == OpKind::Transpose {
            let next = self.numbers.len() as u32;
            let perm = permutation(graph, index).unwrap_or_default();
            let number = *self.numbers.entry(perm).or_insert(next);
            if let Some(&input) = node.inputs.first() {
                self.add(input, &[number]);
            }
            return;
        }
        let reached: Vec<Numbers> =
            node.outputs.iter().filter_map(|v| self.behind.get(v).cloned()).collect();
        if reached.is_empty() {
            return;
        }
        let Some(handler) = Handler::of(graph, index).filter(|h| h.transposes_outputs()) else {
            return;
        };
        for position in handler.inputs(graph, index) {
            reached.iter().for_each(|numbers| self.add(node.inputs[position], numbers));
        }
    }

    fn add(&mut self, value: ValueId, numbers: &[u32]) {
        let own = self.behind.entry(value).or_default();
        for number in numbers {
            if own.len() < MOST_PERMUTATIONS && !own.contains(number) {
                own.push(*number);
            }
        }
    }

    /// Whether a transpose by `perm` behind a value will probably go.
    pub(super) fn leads(&self, graph: &Rewriter, value: ValueId, perm: &[usize]) -> bool {
        let Some(behind) = self.behind.get(&value) else { return false };
        let undoes = || {
            let number = self.numbers.get(&perms::invert(perm));
            number.is_some_and(|number| behind.contains(number))
        };
        !graph.is_output(value) && (graph.consumers(value).len() == 1 || undoes())
    }
}
