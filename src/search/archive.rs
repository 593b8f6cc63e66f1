//! [`Archive`]: of all that a search evaluated, the architectures within the ceilings that no other
//! one dominates.
//!
//! A generation has room for as many as the options say, and loses others of the front; the archive
//! keeps them, and is thinned at the end alone.

use super::{
    Candidate,
    dominance::{crowding, dominates, fronts},
};
use std::{cmp::Ordering, collections::HashSet};

/// One of so many members, at least, goes in a round of thinning.
const SHARE: usize = 8;

/// See the module. Members are in the order of [`by_costs`].
#[derive(Debug, Default)]
pub(super) struct Archive(Vec<Candidate>);

/// The highest score first, then the lowest latency.
pub(super) fn by_costs(a: &Candidate, b: &Candidate) -> Ordering {
    let costs =
        a.costs.iter().zip(&b.costs).map(|(a, b)| a.total_cmp(b)).find(|order| order.is_ne());
    costs.unwrap_or_else(|| a.architecture.cmp(&b.architecture))
}

impl Archive {
    /// Adds those of the candidates that belong to the front, and removes those that they dominate.
    pub(super) fn add(&mut self, candidates: &[Candidate]) {
        let is_new = |c: &&Candidate| c.excess == 0.0 && !self.dominates(c);
        let new: Vec<&Candidate> = candidates.iter().filter(is_new).collect();
        let best = fronts(&new).into_iter().next().unwrap_or_default();
        let mut best = Self(best.into_iter().map(|index| new[index].clone()).collect());
        best.0.sort_by(by_costs);
        self.0.retain(|member| !best.dominates(member));
        self.0.append(&mut best.0);
        self.0.sort_by(by_costs);
    }

    /// Whether a member dominates the candidate. Only one before it in the order can; with two
    /// objectives, the last one before it does if any does.
    pub(super) fn dominates(&self, candidate: &Candidate) -> bool {
        let place = self.0.partition_point(|member| by_costs(member, candidate).is_lt());
        let considered = if candidate.costs.len() == 2 { 1 } else { place };
        let mut before = self.0[..place].iter().rev().take(considered);
        before.any(|member| dominates(&member.costs, &candidate.costs))
    }

    /// At most `size` of them, the highest score first: the most crowded go, a few at a time and never
    /// two neighbours together.
    pub(super) fn thinned(self, size: usize) -> Vec<Candidate> {
        let mut members = self.0;
        while members.len() > size {
            let all: Vec<usize> = (0..members.len()).collect();
            let distances = crowding(&members, &all);
            let mut order = all;
            order.sort_by(|&a, &b| distances[a].total_cmp(&distances[b]).then(b.cmp(&a)));
            let count = (members.len() - size).min(members.len().div_ceil(SHARE));
            let mut gone = HashSet::with_capacity(count);
            for place in order {
                let is_beside = gone.contains(&(place + 1))
                    || place.checked_sub(1).is_some_and(|before| gone.contains(&before));
                if gone.len() < count && !is_beside {
                    gone.insert(place);
                }
            }
            let mut index = 0..;
            members.retain(|_| index.next().is_some_and(|index| !gone.contains(&index)));
        }
        members
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vitempo_search_space::{Generator, Space};

    fn candidates(objectives: usize, count: usize, values: u64) -> Vec<Candidate> {
        let mut generator = Generator::new(objectives as u64);
        let architecture = Space::named("mbconv").expect("a space").sample(0);
        let candidate = |_| Candidate {
            architecture,
            score: 0.0,
            latencies: Vec::new(),
            excess: if generator.below(9) == 0 { 0.5 } else { 0.0 },
            costs: (0..objectives).map(|_| generator.below(values) as f64).collect(),
        };
        (0..count).map(candidate).collect()
    }

    #[test]
    fn an_archive_has_all_that_nothing_within_the_ceilings_dominates() {
        for objectives in 2..5 {
            // Few distinct values, so that equal costs occur.
            let all = candidates(objectives, 900, 40);
            let mut archive = Archive::default();
            all.chunks(70).for_each(|some| archive.add(some));
            let within = || all.iter().filter(|c| c.excess == 0.0);
            let is_best = |c: &&Candidate| within().all(|o| !dominates(&o.costs, &c.costs));
            let mut expected: Vec<Candidate> = within().filter(is_best).cloned().collect();
            expected.sort_by(by_costs);
            assert_eq!(archive.0, expected, "{objectives} objectives");
            let dominated = all.iter().filter(|c| archive.dominates(c)).count();
            let rest = all.iter().filter(|c| within().any(|o| dominates(&o.costs, &c.costs)));
            assert_eq!(dominated, rest.count());
        }
    }

    #[test]
    fn a_thinned_archive_keeps_its_ends_and_has_no_wide_gaps() {
        let mut all = candidates(2, 1000, 2);
        for (index, candidate) in all.iter_mut().enumerate() {
            candidate.excess = 0.0;
            candidate.costs = vec![index as f64, 1000.0 - index as f64];
        }
        let mut archive = Archive::default();
        archive.add(&all);
        assert_eq!(archive.0.len(), 1000);
        let kept: Vec<f64> = archive.thinned(50).iter().map(|c| c.costs[0]).collect();
        assert_eq!((kept.len(), kept[0], kept[49]), (50, 0.0, 999.0));
        let gaps = kept.windows(2).map(|two| two[1] - two[0]);
        assert!(gaps.clone().fold(0.0, f64::max) <= 100.0, "{kept:?}");
    }
}
