//! [`Shares`]: parts of a whole by operator family.

use crate::group::Group;
use std::collections::BTreeMap;
use vitempo::graph::{Graph, ModelProfile, OpFamily, OpKind};

/// How many operator families there are.
pub const FAMILIES: usize = OpFamily::ALL.len();

/// By operator family, in the order of [`OpFamily::ALL`]; adds up to 1.
pub type Shares = [f64; FAMILIES];

/// Place of a kind's family in [`Shares`].
pub fn family_index(kind: &OpKind) -> usize {
    OpFamily::ALL.iter().position(|f| *f == kind.family()).unwrap_or(OpFamily::ALL.len() - 1)
}

/// The mean of several shares; `None` without any.
pub fn mean_shares(all: &[Shares]) -> Option<Shares> {
    let mut mean = Shares::default();
    for shares in all {
        mean.iter_mut().zip(shares).for_each(|(m, s)| *m += s / all.len() as f64);
    }
    (!all.is_empty()).then_some(mean)
}

/// Parts of a whole; `None` where there is nothing.
pub fn shares(parts: impl IntoIterator<Item = (usize, f64)>) -> Option<Shares> {
    let mut sums = Shares::default();
    for (index, part) in parts {
        if let Some(sum) = sums.get_mut(index) {
            *sum += part;
        }
    }
    let total: f64 = sums.iter().sum();
    (total > 0.0).then(|| sums.map(|s| s / total))
}

/// Of the memory that the engine reports by operator: the mean over models.
pub fn memory_shares(
    profiles: &[ModelProfile],
    graphs: &BTreeMap<String, Graph>,
) -> BTreeMap<Group, Shares> {
    let mut by_group: BTreeMap<Group, Vec<Shares>> = BTreeMap::new();
    for p in profiles {
        let parts = p
            .operators
            .iter()
            .filter_map(|m| Some((family_index(&m.op.kind), m.memory_bytes? as f64)));
        if let Some((group, shares)) =
            Group::of(&p.model, graphs.get(&p.model.architecture)).zip(shares(parts))
        {
            by_group.entry(group).or_default().push(shares);
        }
    }
    by_group.into_iter().filter_map(|(group, all)| Some((group, mean_shares(&all)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_and_average() {
        let half = shares([(0, 2.0), (1, 2.0)]).expect("something");
        assert!((half[0] - 0.5).abs() < 1e-12);
        assert_eq!(shares([]), None);
        let mean = mean_shares(&[half, shares([(0, 1.0)]).expect("something")]).expect("two");
        assert!((mean[0] - 0.75).abs() < 1e-12 && (mean.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        assert_eq!(mean_shares(&[]), None);
    }
}
