//! Greedy preloading by hotness: algorithm 2 as printed, and repeated until nothing fits.
//!
//! As printed, the innermost loop breaks after the first subgraph that fits, so that no task gets
//! more than one subgraph per position, whatever the budget. The figures of the paper (55 % of full
//! preloading) are not possible with that; [`round_robin`] is the likely intention.

use super::{super::hotness::Hotness, Loaded, Zoo};
use std::cmp::Reverse;

/// Algorithm 2 as printed: for each task and position the hottest subgraph that still fits. Hotness
/// by task.
#[must_use]
pub fn as_printed(zoo: &Zoo, hotness: &[Hotness], budget_bytes: u64) -> Loaded {
    let mut loaded = Loaded::nothing(zoo);
    one_round(zoo, hotness, budget_bytes, &mut loaded);
    loaded
}

/// Algorithm 2, round after round until nothing more fits.
#[must_use]
pub fn round_robin(zoo: &Zoo, hotness: &[Hotness], budget_bytes: u64) -> Loaded {
    let mut loaded = Loaded::nothing(zoo);
    while one_round(zoo, hotness, budget_bytes, &mut loaded) {}
    loaded
}

/// Runs one round; returns whether a subgraph was loaded.
fn one_round(zoo: &Zoo, hotness: &[Hotness], budget_bytes: u64, loaded: &mut Loaded) -> bool {
    let before = loaded.count();
    for (task, (found, hotness)) in zoo.tasks().iter().zip(hotness).enumerate() {
        for (position, (row, hotness)) in found.subgraphs.iter().zip(hotness).enumerate() {
            let room = budget_bytes.saturating_sub(loaded.memory_bytes());
            let fits = |&(variant, _): &(usize, &f64)| {
                !loaded.holds(task, position, variant)
                    && row.get(variant).is_some_and(|s| s.memory_bytes <= room)
            };
            let hottest = hotness
                .iter()
                .enumerate()
                .filter(fits)
                .max_by(|a, b| (a.1.total_cmp(b.1)).then(Reverse(a.0).cmp(&Reverse(b.0))));
            if let Some((variant, _)) = hottest {
                loaded.load(zoo, task, position, variant);
            }
        }
    }
    loaded.count() > before
}
