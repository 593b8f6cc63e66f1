//! Chooses the subgraphs to keep in memory within a budget: those with which the most objectives
//! can be met when objectives change.
//!
//! Objectives are the given ones, and the 25 of the paper's grid over the originals' ranges, which
//! represent later ones. The given ones come first: each counts as more than the whole grid.

use vitempo_graph::Budget as SearchBudget;
use vitempo_planners::stitch::{
    Order, Slo, StitchError, Zoo, hotness,
    preload::{self, Loaded},
    slo::{Ranges, shared},
};

/// The memory budget.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Budget {
    /// A share of the memory of all subgraphs of all variants.
    Share(f64),
    /// A number of bytes.
    Bytes(u64),
}

/// How to choose the subgraphs that stay in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Way {
    /// The most objectives, by exact search; what is left of the memory goes to faster variants.
    #[default]
    Exact,
    /// The hottest subgraph of each task and position, round after round until nothing fits.
    RoundRobin,
    /// To the letter: one round, over the grid alone, of variants that meet an objective in some
    /// order.
    AsPrinted,
}

/// The memory, and how to fill it.
#[derive(Clone, Copy, Debug)]
pub struct Memory<'a> {
    /// Its size.
    pub budget: Budget,
    /// How to choose.
    pub way: Way,
    /// Of an exact search.
    pub steps: &'a SearchBudget,
}

/// How close an exact search came to its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounded {
    /// Number of objectives that loaded subgraphs meet; each of the given ones counts as `weight`.
    pub met: usize,
    /// No choice within the memory budget meets more, counted in the same way.
    pub at_most: usize,
    /// The weight of a given objective: one more than the grid has configurations.
    pub weight: usize,
}

impl Bounded {
    /// Whether no choice meets more.
    #[must_use]
    pub const fn is_proven(&self) -> bool {
        self.met == self.at_most
    }
}

/// The subgraphs kept in memory.
#[derive(Clone, Debug)]
pub struct Preloading {
    /// The subgraphs.
    pub loaded: Loaded,
    /// The memory budget.
    pub budget_bytes: u64,
    /// Memory of all subgraphs.
    pub full_bytes: u64,
    /// Number of objectives of the grid that loaded subgraphs meet, and of all.
    pub keeps: (usize, usize),
    /// The bound of an exact search; `None` for other searches.
    pub bound: Option<Bounded>,
}

/// Chooses the subgraphs that stay in memory in an order, which was chosen from `orders`.
///
/// # Errors
/// [`StitchError`] naming the task that cannot run in the order, or that has too many stitched
/// variants for an exact search.
pub fn preload(
    zoo: &Zoo,
    order: &Order,
    orders: &[Order],
    asked: &[Slo],
    Memory { budget, way, steps }: Memory<'_>,
) -> Result<Preloading, StitchError> {
    let full_bytes = Loaded::everything(zoo).memory_bytes();
    let budget_bytes = match budget {
        Budget::Share(share) => (full_bytes as f64 * share) as u64,
        Budget::Bytes(bytes) => bytes,
    };
    let tasks = 0..zoo.tasks().len();
    let grids = tasks
        .clone()
        .map(|task| Ok(Ranges::of_originals(zoo, task, order)?.grid()))
        .collect::<Result<Vec<_>, StitchError>>()?;
    let grid = shared(&grids);
    let weight = grid.len() + 1;
    let first = std::iter::repeat_n(asked.to_vec(), weight);
    let configurations: Vec<Vec<Slo>> = first.chain(grid.iter().cloned()).collect();
    let own = |task: usize| {
        configurations.iter().filter_map(|slos| slos.get(task).copied()).collect::<Vec<_>>()
    };
    let hotness = || {
        tasks
            .clone()
            .map(|task| hotness::hotness(zoo, task, order, &own(task)))
            .collect::<Result<Vec<_>, StitchError>>()
    };
    let (loaded, bound) = match way {
        Way::Exact => {
            let found = preload::exact(zoo, order, &configurations, budget_bytes, steps)?;
            let loaded = preload::with_faster(found.loaded, zoo, order, asked, budget_bytes)?;
            (loaded, Some(Bounded { met: found.keeps, at_most: found.at_most, weight }))
        }
        Way::RoundRobin => (preload::round_robin(zoo, &hotness()?, budget_bytes), None),
        Way::AsPrinted => {
            let of_task =
                |(task, grid): (usize, &Vec<Slo>)| hotness::as_printed(zoo, task, orders, grid);
            let hotness = grids.iter().enumerate().map(of_task);
            let hotness = hotness.collect::<Result<Vec<_>, StitchError>>()?;
            (preload::as_printed(zoo, &hotness, budget_bytes), None)
        }
    };
    let keeps = (loaded.keeps(zoo, order, &grid)?, grid.len() * zoo.tasks().len());
    Ok(Preloading { loaded, budget_bytes, full_bytes, keeps, bound })
}
