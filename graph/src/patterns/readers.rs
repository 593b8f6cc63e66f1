//! [`Readers`]: the nodes that read a value, and at which input, in order of insertion.
//!
//! A few readers are a list. Many readers (a value may have a hundred thousand) are found and
//! removed in logarithmic time.

use foldhash::HashMap;
use smallvec::SmallVec;
use std::{collections::BTreeMap, slice};

/// Index of a node in its rewriter; stays the same until the end.
pub(crate) type NodeIndex = usize;

/// A node that reads a value, and at which of its inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Reading {
    node: u32,
    position: u32,
}

impl Reading {
    pub(super) fn new(node: NodeIndex, position: usize) -> Self {
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Self { node: number(node), position: number(position) }
    }

    /// The node.
    pub(crate) const fn node(self) -> NodeIndex {
        self.node as NodeIndex
    }

    /// The position of the value among the node's inputs.
    pub(crate) const fn position(self) -> usize {
        self.position as usize
    }
}

/// More readings than this are not a list.
const FEW: usize = 32;

/// The readings of one value.
#[derive(Clone, Debug)]
pub(super) enum Readers {
    Few(SmallVec<[Reading; 2]>),
    Many(Box<Many>),
}

/// Many readings, in order and by themselves.
#[derive(Clone, Debug, Default)]
pub(super) struct Many {
    in_order: BTreeMap<u64, Reading>,
    turns: HashMap<Reading, u64>,
    next: u64,
}

impl Default for Readers {
    fn default() -> Self {
        Self::Few(SmallVec::new())
    }
}

impl Readers {
    pub(super) fn push(&mut self, reading: Reading) {
        match self {
            Self::Few(list) if list.len() < FEW => list.push(reading),
            Self::Few(list) => {
                let mut many = Many::default();
                list.iter().for_each(|&reading| many.push(reading));
                many.push(reading);
                *self = Self::Many(Box::new(many));
            }
            Self::Many(many) => many.push(reading),
        }
    }

    pub(super) fn remove(&mut self, reading: Reading) {
        match self {
            Self::Few(list) => {
                if let Some(at) = list.iter().position(|&r| r == reading) {
                    list.remove(at);
                }
            }
            Self::Many(many) => {
                if let Some(turn) = many.turns.remove(&reading) {
                    many.in_order.remove(&turn);
                }
            }
        }
    }

    /// For many readings, a count of all insertions: cached facts about them hold while it does not
    /// change.
    pub(super) fn many(&self) -> Option<u64> {
        match self {
            Self::Few(_) => None,
            Self::Many(many) => Some(many.next),
        }
    }

    pub(super) fn has(&self, reading: Reading) -> bool {
        match self {
            Self::Few(list) => list.contains(&reading),
            Self::Many(many) => many.turns.contains_key(&reading),
        }
    }

    pub(super) fn iter(&self) -> Readings<'_> {
        match self {
            Self::Few(list) => Readings::Few(list.iter()),
            Self::Many(many) => Readings::Many(many.in_order.values()),
        }
    }
}

impl Many {
    fn push(&mut self, reading: Reading) {
        self.turns.insert(reading, self.next);
        self.in_order.insert(self.next, reading);
        self.next += 1;
    }
}

/// Goes over the readings of a value.
#[derive(Clone, Debug)]
pub(crate) enum Readings<'a> {
    Few(slice::Iter<'a, Reading>),
    Many(std::collections::btree_map::Values<'a, u64, Reading>),
}

impl Iterator for Readings<'_> {
    type Item = Reading;

    fn next(&mut self) -> Option<Reading> {
        match self {
            Self::Few(readings) => readings.next().copied(),
            Self::Many(readings) => readings.next().copied(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match self {
            Self::Few(readings) => readings.size_hint(),
            Self::Many(readings) => readings.size_hint(),
        }
    }
}

impl ExactSizeIterator for Readings<'_> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_and_many_keep_the_order_and_forget_one_reading_alone() {
        for count in [3, FEW, FEW + 1, 100] {
            let mut readers = Readers::default();
            (0..count).for_each(|node| readers.push(Reading::new(node, node % 2)));
            readers.remove(Reading::new(1, 0));
            assert_eq!(readers.iter().len(), count, "node 1 reads at another position");
            readers.remove(Reading::new(1, 1));
            readers.push(Reading::new(1, 5));
            let order: Vec<NodeIndex> = readers.iter().map(Reading::node).collect();
            let expected: Vec<NodeIndex> =
                (0..count).filter(|&node| node != 1).chain([1]).collect();
            assert_eq!(order, expected);
            assert_eq!(readers.iter().last().map(Reading::position), Some(5));
        }
    }
}
