//! [`Candidates`]: the ways that a search tries for a task, and all ways of a task where these are
//! enumerated. Leaving a way out of the first set is a heuristic, because with queues a shorter way
//! can end later. No claim of optimality depends on it.

use super::{
    model::{Load, MOST_PROCESSORS, Model},
    policy::Way,
};
use std::collections::{HashMap, HashSet};

/// Largest number of single ways tried for one task.
const MOST_TRIED: usize = 400;
/// Largest number of ways that a search gives a task to choose from.
pub(super) const MOST_WAYS: usize = 4;

/// A way and its load on each processor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loaded {
    pub way: Way,
    pub load: Load,
}

impl Loaded {
    pub(super) fn total(&self) -> u64 {
        self.load.iter().fold(0, |sum, &ns| sum.saturating_add(ns))
    }

    fn beats(&self, other: &Self) -> bool {
        self.load != other.load && self.load.iter().zip(&other.load).all(|(a, b)| a <= b)
    }
}

/// The candidate ways of one task.
#[derive(Debug)]
pub(super) struct Candidates {
    /// Accurate ways; in each order of processors, those that no other way dominates in the load of
    /// all processors.
    pub accurate: Vec<Loaded>,
    /// Sets of one or several ways to choose from on arrival; the lightest first.
    pub choices: Vec<Vec<Way>>,
}

impl Candidates {
    pub(super) fn of(model: &Model<'_>, task: usize) -> Self {
        let accurate = accurate(model, task);
        let light: Vec<Loaded> = (0..model.orders.len())
            .filter_map(|order| {
                let (_, way) = model.lightest_in(task, order, &|_| 1.0)?;
                Some(Loaded { way, load: model.load(task, way)? })
            })
            .collect();
        let slo_ns = model.problem.slos[task].latency_ns;
        let mut singles: Vec<Loaded> =
            accurate.iter().filter(|l| l.total() <= slo_ns).copied().collect();
        singles.sort_by_key(|l| (l.total(), l.way));
        singles.truncate(MOST_TRIED);
        // A task that cannot meet its SLO should at least leave capacity to others.
        singles.extend(unbeaten(&light));
        singles.sort_by_key(|l| (l.total(), l.way));
        singles.dedup_by_key(|l| l.way);
        let several = [&accurate, &light].into_iter().flat_map(|ways| on_arrival(model, ways));
        let mut choices: Vec<Vec<Way>> = several.collect();
        choices.retain(|ways| alike(model, task, ways));
        choices.sort();
        choices.dedup();
        choices.extend(singles.iter().map(|l| vec![l.way]));
        Self { accurate, choices }
    }

    /// Every way that runs, every variant whole on whichever processor ends first, and the sets of
    /// ways that searches try; `None` where there are more than `most`.
    pub(super) fn space(
        &self,
        model: &Model<'_>,
        task: usize,
        most: usize,
    ) -> Option<Vec<Vec<Way>>> {
        if model.stitched(task).saturating_mul(model.orders.len()) > most {
            return None;
        }
        let mut space: Vec<Vec<Way>> = Vec::new();
        for variant in 0..model.stitched(task) as u32 {
            for order in 0..model.orders.len() {
                let way = |joined| Way { order: order as u32, variant, joined };
                if model.load(task, way(false)).is_some() {
                    space.push(vec![way(false)]);
                    space.extend(model.repeats(order).then(|| vec![way(true)]));
                }
            }
            space.push(model.whole_on_each(task, variant));
        }
        space.extend(self.choices.iter().filter(|ways| ways.len() > 1).cloned());
        space.retain(|ways| !ways.is_empty());
        space.sort();
        space.dedup();
        Some(space)
    }
}

/// A space of single ways with all further sets of up to [`MOST_WAYS`] of them; `None` where there
/// are more than `most`. Sets count once, in whichever order.
pub(super) fn with_all_sets(
    model: &Model<'_>,
    task: usize,
    space: &[Vec<Way>],
    most: usize,
) -> Option<Vec<Vec<Way>>> {
    let single: Vec<Way> = space.iter().filter(|ways| ways.len() == 1).map(|w| w[0]).collect();
    let sorted = |ways: &[Way]| {
        let mut sorted = ways.to_vec();
        sorted.sort();
        sorted
    };
    let mut known: HashSet<Vec<Way>> = space.iter().map(|ways| sorted(ways)).collect();
    let mut all = space.to_vec();
    let mut last: Vec<Vec<Way>> = single.iter().map(|&way| vec![way]).collect();
    for _ in 1..MOST_WAYS {
        let mut larger = Vec::new();
        for ways in last {
            for &way in single.iter().filter(|&way| ways.last() < Some(way)) {
                let set = [&ways[..], &[way]].concat();
                if alike(model, task, &set) {
                    if known.insert(set.clone()) {
                        all.push(set.clone());
                    }
                    larger.push(set);
                }
                if all.len().max(larger.len()) > most {
                    return None;
                }
            }
        }
        last = larger;
    }
    Some(all)
}

/// Whether all ways are accurate enough, or none: then the choice on arrival does not affect the
/// accuracy objective.
pub(super) fn alike(model: &Model<'_>, task: usize, ways: &[Way]) -> bool {
    let accurate = ways.iter().filter(|&&way| model.is_accurate(task, way)).count();
    accurate == 0 || accurate == ways.len()
}

/// All accurate ways that no other way in the same order dominates.
pub(super) fn accurate(model: &Model<'_>, task: usize) -> Vec<Loaded> {
    let mut found = Vec::new();
    for order in 0..model.orders.len() {
        let joined = model.repeats(order);
        let way = |variant| Way { order: order as u32, variant, joined };
        let ways =
            (0..model.stitched(task) as u32).map(way).filter(|&w| model.is_accurate(task, w));
        let mut here: Vec<Loaded> =
            ways.filter_map(|way| Some(Loaded { way, load: model.load(task, way)? })).collect();
        // Among equals the most accurate.
        here.sort_by_key(|l| {
            (l.total(), l.load, std::cmp::Reverse(model.accuracy_bp(task, l.way)), l.way)
        });
        here.dedup_by_key(|l| l.load);
        found.extend(unbeaten(&here));
    }
    found
}

/// The ways that no other way dominates in the load of all processors.
pub(super) fn unbeaten(ways: &[Loaded]) -> Vec<Loaded> {
    let mut sorted = ways.to_vec();
    sorted.sort_by_key(|l| (l.total(), l.way));
    let mut front: Vec<Loaded> = Vec::new();
    for way in sorted {
        if !front.iter().any(|other| other.beats(&way)) {
            front.push(way);
        }
    }
    front
}

/// Sets of ways to choose from on arrival: of the lightest whole ones, one a processor, each set of
/// processors (all and pairs where there are many); and these with the lightest cut one.
fn on_arrival(model: &Model<'_>, ways: &[Loaded]) -> Vec<Vec<Way>> {
    let mut whole: HashMap<usize, Loaded> = HashMap::new();
    let mut cut: Option<Loaded> = None;
    for &way in ways {
        let used = || (0..MOST_PROCESSORS).filter(|&p| way.load[p] > 0);
        let best = match used().count() {
            1 => whole.entry(used().next().unwrap_or(0)).or_insert(way),
            _ => cut.get_or_insert(way),
        };
        if (way.total(), way.way) < (best.total(), best.way) {
            *best = way;
        }
    }
    let mut whole: Vec<(usize, Way)> = whole.into_iter().map(|(p, l)| (p, l.way)).collect();
    whole.sort_unstable();
    let count = whole.len();
    let mut sets: Vec<Vec<Way>> = Vec::new();
    for mask in 1u32..1 << count {
        let size = mask.count_ones() as usize;
        if size >= 2 && (count <= 4 || size == 2 || size == count) {
            let taken = whole.iter().enumerate().filter(|(i, _)| mask >> i & 1 == 1);
            sets.push(taken.map(|(_, (_, way))| *way).collect());
        }
    }
    let cut = cut.filter(|_| model.processors() > 1);
    if let Some(cut) = cut {
        let all: Vec<Way> = whole.iter().map(|(_, way)| *way).chain([cut.way]).collect();
        sets.extend((all.len() > 1).then_some(all));
    }
    sets
}
