//! The readers of each tensor of a model, found once for all parts that it is cut into.

use crate::{Graph, ValueId, ValueSource};
use std::collections::HashSet;

/// The readers of every value.
#[derive(Clone, Debug)]
pub(super) struct Readership {
    consumers: Vec<Vec<usize>>,
    /// For each value, whether the caller gets it.
    returned: Vec<bool>,
}

impl Readership {
    pub(super) fn of(operators: &Graph) -> Self {
        let mut returned = vec![false; operators.values().len()];
        operators.outputs().iter().for_each(|id| returned[id.0 as usize] = true);
        Self { consumers: operators.consumers(), returned }
    }

    /// The operators that read a value; one that reads it twice is listed twice.
    pub(super) fn readers(&self, value: ValueId) -> &[usize] {
        &self.consumers[value.0 as usize]
    }

    pub(super) fn is_returned(&self, value: ValueId) -> bool {
        self.returned[value.0 as usize]
    }
}

/// A part of a model: some of its operators, and everybody's readers.
pub(super) struct Inside<'a> {
    pub operators: &'a Graph,
    pub readership: &'a Readership,
    members: HashSet<usize>,
}

impl<'a> Inside<'a> {
    pub(super) fn of(operators: &'a Graph, readership: &'a Readership, part: &[usize]) -> Self {
        Self { operators, readership, members: part.iter().copied().collect() }
    }

    pub(super) fn has(&self, index: usize) -> bool {
        self.members.contains(&index)
    }

    /// The operator of the part that provides a value.
    pub(super) fn producer(&self, value: ValueId) -> Option<usize> {
        match self.operators.value(value).source {
            ValueSource::Node(index) => Some(index as usize).filter(|&i| self.has(i)),
            _ => None,
        }
    }

    /// The only operator that reads the output of one, in the same part; `None` when the caller
    /// gets it.
    pub(super) fn only_consumer(&self, index: usize) -> Option<usize> {
        let [output] = self.operators.nodes()[index].outputs[..] else { return None };
        let readers = self.readership.readers(output);
        let one = *readers.first()?;
        let alone = readers.iter().all(|&r| r == one) && !self.readership.is_returned(output);
        Some(one).filter(|&i| alone && self.has(i))
    }
}
