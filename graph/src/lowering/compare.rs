//! How well a predicted list of kernels agrees with the one an engine really ran: the same kernels, as often, whatever their order.

use crate::{Graph, OpSpec, Work};
use std::collections::BTreeMap;

/// Kernels of one kind in both lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KindCount {
    /// In the prediction.
    pub predicted: usize,
    /// In the engine's own list.
    pub executed: usize,
    /// In both, equal in everything.
    pub matched: usize,
}

/// What two lists of kernels have in common.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// Counts by kind.
    pub kinds: BTreeMap<String, KindCount>,
    /// Predicted, but not executed.
    pub only_predicted: Vec<OpSpec>,
    /// Executed, but not predicted.
    pub only_executed: Vec<OpSpec>,
    /// MACs of the executed kernels, and of those among them that were predicted.
    pub macs: (u64, u64),
    /// Bytes the executed kernels read and write, and those of the ones that were predicted.
    pub bytes: (u64, u64),
}

impl Comparison {
    /// Whether both lists are the same.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.only_predicted.is_empty() && self.only_executed.is_empty()
    }

    /// Share of the executed MACs that were predicted; 1 when there are none.
    #[must_use]
    pub fn share_of_macs(&self) -> f64 {
        share(self.macs)
    }

    /// Share of the bytes moved that were predicted; 1 when there are none.
    #[must_use]
    pub fn share_of_bytes(&self) -> f64 {
        share(self.bytes)
    }
}

fn share((all, matched): (u64, u64)) -> f64 {
    if all == 0 { 1.0 } else { matched as f64 / all as f64 }
}

/// Compares a predicted graph of kernels with the executed one. Names, numbers too small to matter for latency (epsilons and the like) do not count.
#[must_use]
pub fn compare(predicted: &Graph, executed: &Graph) -> Comparison {
    let mut comparison = Comparison::default();
    let mut open: BTreeMap<&OpSpec, usize> = BTreeMap::new();
    for node in predicted.nodes() {
        *open.entry(&node.op).or_default() += 1;
        comparison.kinds.entry(node.op.kind.name().to_owned()).or_default().predicted += 1;
    }
    for node in executed.nodes() {
        let work = Work::of_operator(&node.op);
        let bytes = work.bytes_read.saturating_add(work.bytes_written);
        let kind = comparison.kinds.entry(node.op.kind.name().to_owned()).or_default();
        kind.executed += 1;
        comparison.macs.0 = comparison.macs.0.saturating_add(work.macs);
        comparison.bytes.0 = comparison.bytes.0.saturating_add(bytes);
        match open.get_mut(&node.op).filter(|n| **n > 0) {
            Some(left) => {
                *left -= 1;
                kind.matched += 1;
                comparison.macs.1 = comparison.macs.1.saturating_add(work.macs);
                comparison.bytes.1 = comparison.bytes.1.saturating_add(bytes);
            }
            None => comparison.only_executed.push(node.op.clone()),
        }
    }
    comparison.only_predicted = open.into_iter().flat_map(|(op, left)| std::iter::repeat_n(op.clone(), left)).collect();
    comparison
}
