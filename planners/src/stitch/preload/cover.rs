//! [`Cover`]: the least memory with which a task can meet a number of its objectives, for every
//! number.
//!
//! A variant that meets an objective meets every looser one. A set of objectives is therefore met
//! if its strictest ones are, none of which is looser than another: on a grid of 5 x 5 there are
//! 251 such sets. Each is a separate search ([`super::bound`]), limited by the best solution that
//! meets as many.
//!
//! The present objective may also be met by a variant some or all of whose subgraphs are fetched
//! ([`super::fetched`]): a fetched subgraph takes no memory, whichever it is.

use super::{
    super::{Order, Slo, StitchError, Zoo, each_variant},
    bound::{Variants, cheapest},
    exact::Present,
    fetched::{Fetched, partly_loaded},
};
use crate::meter::Meter;
use std::collections::BTreeMap;

/// Largest number of sets of strictest objectives that are searched.
const MOST_SETS: usize = 1 << 16;

/// Subgraphs (position times variants plus variant) that meet some number of objectives.
#[derive(Clone, Debug)]
pub(super) struct Level {
    pub objectives: usize,
    pub memory_bytes: u64,
    pub subgraphs: Vec<usize>,
}

/// The memory needed to meet objectives.
pub(super) struct Cover {
    /// The best found: objectives fall, memory falls.
    pub levels: Vec<Level>,
    /// Lower bounds on the memory for each number of objectives: objectives fall, memory does not
    /// rise.
    pub at_least: Vec<(usize, u64)>,
}

/// Objectives that the same variants meet.
struct Group {
    variants: Vec<Vec<usize>>,
    numbers: Vec<u32>,
    objectives: usize,
}

impl Cover {
    /// The cover of one task, with at most this memory. A case of the search visits each variant
    /// about ten times, a step each.
    pub(super) fn of_task(
        zoo: &Zoo,
        task: usize,
        order: &Order,
        slos: &[Slo],
        present: Option<Present<Slo>>,
        budget_bytes: u64,
        meter: &mut Meter<'_>,
    ) -> Result<Self, StitchError> {
        let fetched = match present {
            Some(Present { slos: slo, .. }) => partly_loaded(zoo, task, order, slo, meter),
            None => Fetched::Partly(Vec::new()),
        };
        let met = present.map_or(0, |present| present.weight);
        match fetched {
            Fetched::Meets => {
                let others = (slos, None, &[][..]);
                let cover = Self::of_objectives(zoo, task, order, others, budget_bytes, meter)?;
                Ok(cover.with_met(met))
            }
            Fetched::Partly(partly) => {
                let all = (slos, present, &partly[..]);
                Self::of_objectives(zoo, task, order, all, budget_bytes, meter)
            }
            Fetched::TooMany => {
                let whole = (slos, present, &[][..]);
                let cover = Self::of_objectives(zoo, task, order, whole, budget_bytes, meter)?;
                Ok(cover.that_may_meet(met))
            }
        }
    }

    /// With as many more objectives, which take no memory.
    fn with_met(mut self, more: usize) -> Self {
        self.levels.iter_mut().for_each(|level| level.objectives += more);
        self.at_least.iter_mut().for_each(|(objectives, _)| *objectives += more);
        self.levels.push(Level { objectives: more, memory_bytes: 0, subgraphs: Vec::new() });
        self.at_least.push((more, 0));
        self
    }

    /// With a bound for as many more objectives, of which it is not known what they take.
    fn that_may_meet(mut self, more: usize) -> Self {
        let with_more: Vec<_> =
            self.at_least.iter().map(|&(objectives, floor)| (objectives + more, floor)).collect();
        self.at_least.extend(with_more);
        self.at_least.push((more, 0));
        self
    }

    fn of_objectives(
        zoo: &Zoo,
        task: usize,
        order: &Order,
        (slos, present, partly): (&[Slo], Option<Present<Slo>>, &Variants),
        budget_bytes: u64,
        meter: &mut Meter<'_>,
    ) -> Result<Self, StitchError> {
        let found = zoo
            .tasks()
            .get(task)
            .ok_or_else(|| StitchError::zoo(format!("there is no task {task}")))?;
        let mut memory: Vec<u64> =
            found.subgraphs.iter().flatten().map(|s| s.memory_bytes).collect();
        let subgraphs = memory.len();
        // A fetched subgraph at each position.
        memory.resize(subgraphs + zoo.positions(), 0);
        let groups = groups(zoo, task, order, slos, present, partly)?;
        let inside: Vec<Vec<bool>> = groups
            .iter()
            .map(|a| groups.iter().map(|b| subset(&a.numbers, &b.numbers)).collect())
            .collect();
        let mut sets = Vec::new();
        if !strictest(&inside, &mut Vec::new(), 0, &mut sets) {
            let reason = format!(
                "its {} objectives can be combined in more than {MOST_SETS} ways: preload it \
                greedily, or judge by fewer objectives",
                slos.len() + usize::from(present.is_some())
            );
            return Err(StitchError::Task { task: found.name.clone(), reason });
        }
        let kept = |set: &[usize]| {
            (0..groups.len())
                .filter(|&b| set.iter().any(|&a| inside[a][b]))
                .map(|b| groups[b].objectives)
                .sum::<usize>()
        };
        let mut sets: Vec<(usize, Vec<usize>)> =
            sets.into_iter().map(|set| (kept(&set), set)).collect();
        sets.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
        let widest = groups.iter().map(|g| g.numbers.len()).max().unwrap_or(0);
        let steps = (10 * widest * zoo.positions()).max(1);
        let mut cover = Self { levels: Vec::new(), at_least: Vec::new() };
        let (mut below, mut floor) = (budget_bytes.saturating_add(1), u64::MAX);
        for (objectives, set) in sets {
            let lists: Vec<&Variants> =
                set.iter().map(|&group| groups[group].variants.as_slice()).collect();
            let found = cheapest(&memory, &lists, below, meter, steps);
            floor = floor.min(found.at_least);
            cover.at_least.push((objectives, floor));
            if let Some(best) = found.best {
                below = best.memory_bytes;
                let of_loaded = best.subgraphs.into_iter().filter(|&s| s < subgraphs);
                cover.levels.push(Level {
                    objectives,
                    memory_bytes: best.memory_bytes,
                    subgraphs: of_loaded.collect(),
                });
            }
        }
        Ok(cover)
    }
}

/// Objectives with the variants that meet them, fewest variants first; without those that no
/// variant meets. The present objective is met by partly loaded variants as well.
fn groups(
    zoo: &Zoo,
    task: usize,
    order: &Order,
    slos: &[Slo],
    present: Option<Present<Slo>>,
    partly: &Variants,
) -> Result<Vec<Group>, StitchError> {
    let Some(found) = zoo.tasks().get(task) else { return Ok(Vec::new()) };
    let needless = needless(zoo, task, order);
    let width = found.variants.len();
    let mut all: Vec<Vec<usize>> = Vec::new();
    let counts = slos.iter().map(|&slo| (slo, 1));
    let counts: Vec<(Slo, usize)> = counts.chain(present.map(|p| (p.slos, p.weight))).collect();
    let mut theta: Vec<Vec<u32>> = vec![Vec::new(); counts.len()];
    each_variant(zoo, task, order, |stitched, latency_ns, accuracy_bp| {
        let subgraphs =
            stitched.iter().enumerate().map(|(position, variant)| position * width + variant);
        if subgraphs.clone().any(|subgraph| needless[subgraph]) {
            return;
        }
        let met = counts.iter().zip(&mut theta);
        for (_, list) in met.filter(|((slo, _), _)| slo.is_met_by(accuracy_bp, latency_ns)) {
            list.push(all.len() as u32);
        }
        all.push(subgraphs.collect());
    })?;
    if let (Some(_), Some(list)) = (present, theta.last_mut()) {
        list.extend((all.len()..all.len() + partly.len()).map(|number| number as u32));
        all.extend_from_slice(partly);
    }
    let mut same: BTreeMap<Vec<u32>, usize> = BTreeMap::new();
    for (numbers, (_, count)) in
        theta.into_iter().zip(counts).filter(|(numbers, _)| !numbers.is_empty())
    {
        *same.entry(numbers).or_default() += count;
    }
    let group = |(numbers, objectives): (Vec<u32>, usize)| {
        let variants =
            numbers.iter().filter_map(|&number| all.get(number as usize).cloned()).collect();
        Group { variants, numbers, objectives }
    };
    let mut groups: Vec<Group> = same.into_iter().map(group).collect();
    groups.sort_by_key(|g| g.numbers.len());
    Ok(groups)
}

/// Subgraphs that another at the same position can replace without more memory, more latency or
/// less accuracy.
fn needless(zoo: &Zoo, task: usize, order: &Order) -> Vec<bool> {
    let Some(found) = zoo.tasks().get(task) else { return Vec::new() };
    let mut needless = Vec::new();
    for (position, row) in found.subgraphs.iter().enumerate() {
        let ns =
            |variant| zoo.step_ns(task, order, position, variant).map_or(u64::MAX, |ns| ns.point());
        let replaces = |a: usize, b: usize| {
            row[a].memory_bytes <= row[b].memory_bytes
                && ns(a) <= ns(b)
                && found.accuracy.no_worse(position, a, b)
        };
        let left_out = |b: usize| {
            (0..row.len()).any(|a| a != b && replaces(a, b) && (a < b || !replaces(b, a)))
        };
        needless.extend((0..row.len()).map(left_out));
    }
    needless
}

/// Whether all of one rising list is in another.
fn subset(inner: &[u32], outer: &[u32]) -> bool {
    let mut rest = outer.iter();
    inner.len() <= outer.len() && inner.iter().all(|number| rest.any(|other| other == number))
}

/// All sets none of which is inside another; false where there are too many.
fn strictest(
    inside: &[Vec<bool>],
    chosen: &mut Vec<usize>,
    from: usize,
    all: &mut Vec<Vec<usize>>,
) -> bool {
    (from..inside.len()).all(|next| {
        if chosen.iter().any(|&other| inside[other][next] || inside[next][other]) {
            return true;
        }
        chosen.push(next);
        all.push(chosen.clone());
        let few = all.len() <= MOST_SETS && strictest(inside, chosen, next + 1, all);
        chosen.pop();
        few
    })
}
