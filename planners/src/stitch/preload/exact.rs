//! [`exact`](fn@exact): the subgraphs within a budget with which the most objectives can be met,
//! over all tasks and configurations; among equals the least memory.
//!
//! As an integer programme: max sum y; y <= sum of z over the variants that meet y's objective; z
//! <= x for each of a variant's subgraphs; sum of memory x within the budget. A greedy choice can
//! be arbitrarily bad, because a variant needs all of its subgraphs. Tasks share only the budget,
//! so each task's trade-off between objectives and memory is searched separately
//! (`super::cover`), and a knapsack over tasks combines them. Each task may spend an equal share of
//! what is left of the budget.
//!
//! For its present objective a task can also fetch subgraphs, which takes time and no memory
//! ([`exact_with_present`]). An objective that is met with nothing loaded takes none.

use super::{
    super::{Order, Slo, StitchError, Zoo},
    Loaded,
    cover::{Cover, Level},
};
use crate::meter::Meter;
use vitempo_graph::Budget;

/// The best preloading found, and the bound on every other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exact {
    /// The subgraphs to load.
    pub loaded: Loaded,
    /// Number of objectives that can be met, over all tasks and configurations.
    pub keeps: usize,
    /// Upper bound on that number within the budget: equal to `keeps` when the preloading is proven
    /// best.
    pub at_most: usize,
}

/// Present objectives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Present<S> {
    /// The objectives.
    pub slos: S,
    /// How many of the others each of them counts as.
    pub weight: usize,
}

/// Finds the preloading that meets the most objectives within a memory budget. When the budget of
/// the search ends, the best found is returned with the bound proven by then.
///
/// # Errors
/// [`StitchError::TooMany`] for too many stitched variants, [`StitchError::Task`] for objectives in
/// too many combinations.
pub fn exact(
    zoo: &Zoo,
    order: &Order,
    configurations: &[Vec<Slo>],
    budget_bytes: u64,
    budget: &Budget,
) -> Result<Exact, StitchError> {
    search(zoo, order, None, configurations, budget_bytes, budget)
}

/// The same with present objectives, one for each task, which a task also meets by a variant some
/// or all of whose subgraphs are fetched; others only by loaded ones. With more memory no fewer
/// present objectives are met, where they count more than all others together and the search ends
/// with a proof.
///
/// # Errors
/// As [`exact`].
pub fn exact_with_present(
    zoo: &Zoo,
    order: &Order,
    present: Present<&[Slo]>,
    configurations: &[Vec<Slo>],
    budget_bytes: u64,
    budget: &Budget,
) -> Result<Exact, StitchError> {
    search(zoo, order, Some(present), configurations, budget_bytes, budget)
}

fn search(
    zoo: &Zoo,
    order: &Order,
    present: Option<Present<&[Slo]>>,
    configurations: &[Vec<Slo>],
    budget_bytes: u64,
    budget: &Budget,
) -> Result<Exact, StitchError> {
    zoo.check_order(order)?;
    zoo.check_configurations(configurations)?;
    if let Some(present) = present {
        zoo.check_configurations(&[present.slos.to_vec()])?;
    }
    let own = |task: usize| {
        configurations.iter().filter_map(|slos| slos.get(task).copied()).collect::<Vec<_>>()
    };
    let tasks = zoo.tasks().len();
    let covers: Vec<Cover> = (0..tasks)
        .map(|task| {
            let mut meter = Meter::of_share(budget, tasks - task);
            let present = present.and_then(|Present { slos, weight }| {
                Some(Present { slos: *slos.get(task)?, weight })
            });
            Cover::of_task(zoo, task, order, &own(task), present, budget_bytes, &mut meter)
        })
        .collect::<Result<_, _>>()?;
    let found: Vec<Vec<(usize, u64)>> = covers
        .iter()
        .map(|c| c.levels.iter().map(|l| (l.objectives, l.memory_bytes)).collect())
        .collect();
    let (keeps, chosen) = most(&found, budget_bytes);
    let bounds: Vec<Vec<(usize, u64)>> = covers.iter().map(|c| c.at_least.clone()).collect();
    let mut loaded = Loaded::nothing(zoo);
    for (task, (cover, chosen)) in covers.iter().zip(chosen).enumerate() {
        let level: Option<&Level> = chosen.and_then(|index| cover.levels.get(index));
        let width = zoo.tasks()[task].variants.len();
        level
            .into_iter()
            .flat_map(|l| &l.subgraphs)
            .for_each(|&subgraph| loaded.load(zoo, task, subgraph / width, subgraph % width));
    }
    Ok(Exact { loaded, keeps, at_most: most(&bounds, budget_bytes).0 })
}

/// The largest sum of values, one option (value, weight) or none from each list, with weights
/// within a budget; and which options. Least weight among equals.
fn most(lists: &[Vec<(usize, u64)>], budget: u64) -> (usize, Vec<Option<usize>>) {
    // The least weight for each sum of values.
    let mut least: Vec<Option<(u64, Vec<Option<usize>>)>> = vec![Some((0, Vec::new()))];
    for list in lists {
        let values = list.iter().map(|option| option.0).max().unwrap_or(0);
        let mut next: Vec<Option<(u64, Vec<Option<usize>>)>> = vec![None; least.len() + values];
        for (sum, (weight, chosen)) in
            least.iter().enumerate().filter_map(|(sum, entry)| Some((sum, entry.as_ref()?)))
        {
            let options = list
                .iter()
                .enumerate()
                .map(|(index, &(value, weight))| (Some(index), value, weight));
            for (option, value, more) in std::iter::once((None, 0, 0)).chain(options) {
                let total = weight.saturating_add(more);
                if total <= budget
                    && next[sum + value].as_ref().is_none_or(|(least, _)| total < *least)
                {
                    let chosen = chosen.iter().copied().chain([option]).collect();
                    next[sum + value] = Some((total, chosen));
                }
            }
        }
        least = next;
    }
    let best = least.into_iter().enumerate().rev().find_map(|(sum, entry)| Some((sum, entry?.1)));
    best.unwrap_or_default()
}
