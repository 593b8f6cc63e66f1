//! [`Memo`]: the estimates that a bundle made, by working set and operator, up to a number of
//! bytes. What no longer fits is estimated every time.

use crate::{Estimate, features::WorkingSet};
use foldhash::HashMap;
use std::{collections::BTreeMap, mem::size_of_val};
use vitempo_graph::{Attribute, OpSpec};

/// Bytes that operators of a bundle may hold, all working sets together.
const LARGEST: usize = 64 << 20;

/// Estimates made before.
#[derive(Debug, Default)]
pub(crate) struct Memo {
    by_working_set: BTreeMap<WorkingSet, HashMap<OpSpec, Estimate>>,
    bytes: usize,
}

impl Memo {
    /// The estimates in models of that working set.
    pub(crate) fn within(&self, working_set: WorkingSet) -> Option<&HashMap<OpSpec, Estimate>> {
        self.by_working_set.get(&working_set)
    }

    /// Keeps an estimate where there is room.
    pub(crate) fn insert(&mut self, op: &OpSpec, working_set: WorkingSet, estimate: Estimate) {
        self.insert_up_to(LARGEST, op, working_set, estimate);
    }

    fn insert_up_to(
        &mut self,
        largest: usize,
        op: &OpSpec,
        working_set: WorkingSet,
        estimate: Estimate,
    ) {
        let bytes = self.bytes.saturating_add(bytes(op));
        let known = self.by_working_set.entry(working_set).or_default();
        if bytes <= largest && known.insert(op.clone(), estimate).is_none() {
            self.bytes = bytes;
        }
    }
}

/// About how much an entry holds.
fn bytes(op: &OpSpec) -> usize {
    let attribute = |(name, value)| size_of_val(name) + size_of_val(value) + heap(value);
    let attributes = op.attributes.0.iter().map(attribute);
    let inputs = op.inputs.iter().map(|input| &input.tensor);
    let shapes = inputs.chain(&op.outputs).map(|tensor| size_of_val(tensor.shape.as_slice()));
    size_of::<(OpSpec, Estimate)>()
        + size_of_val(op.inputs.as_slice())
        + size_of_val(op.outputs.as_slice())
        + attributes.chain(shapes).sum::<usize>()
}

fn heap(attribute: &Attribute) -> usize {
    match attribute {
        Attribute::Text(text) => text.len(),
        Attribute::Ints(ints) => size_of_val(ints.as_slice()),
        Attribute::Floats(floats) => size_of_val(floats.as_slice()),
        Attribute::Int(_) | Attribute::Float(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vitempo_graph::{Attributes, OpKind, PredictionSource};

    const ESTIMATE: Estimate = Estimate {
        latency_ns: 1.0,
        source: PredictionSource::Model,
        extrapolating: false,
        in_distribution: true,
        log_error: 0.1,
    };

    fn operator(equation: &str) -> OpSpec {
        let attributes = Attributes::new().with("equation", Attribute::Text(equation.to_owned()));
        OpSpec { kind: OpKind::Einsum, attributes, inputs: Vec::new(), outputs: Vec::new() }
    }

    #[test]
    fn all_working_sets_share_the_room_and_long_attributes_count() {
        let (small, large) = (operator("ij"), operator(&"i".repeat(1 << 16)));
        let room = 2 * bytes(&small);
        let mut memo = Memo::default();
        let working_sets = [1.0, 1e4, 1e7]
            .map(|weights| WorkingSet::within(&crate::WorkingSetBytes { weights, largest: 0.0 }));
        for working_set in working_sets {
            memo.insert_up_to(room, &large, working_set, ESTIMATE);
            // A second time takes no more room.
            memo.insert_up_to(room, &small, working_set, ESTIMATE);
            memo.insert_up_to(room, &small, working_set, ESTIMATE);
        }
        let known =
            |op| working_sets.map(|set| memo.within(set).is_some_and(|m| m.contains_key(op)));
        assert_eq!((known(&small), known(&large)), ([true, true, false], [false; 3]));
        assert_eq!(memo.bytes, room);
    }
}
