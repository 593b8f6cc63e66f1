//! Chooses the subgraphs to keep in memory within a budget: those with which the most objectives
//! can be met when objectives change. [`within_memory`] chooses the order of processors as well.
//!
//! Objectives are the given ones, and the 25 of the paper's grid over the originals' ranges, which
//! represent later ones. The given ones come first: each counts as more than the whole grid of all
//! tasks.

use super::{Selection, best, systems::ranges};
use vitempo_graph::Budget as SearchBudget;
use vitempo_planners::stitch::{
    Assignment, Order, Slo, StitchError, Zoo, hotness,
    preload::{self, Loaded},
    slo::{Ranges, shared},
};

/// Steps of a budget for each order that is compared, beside those of its search.
const ORDER_STEPS: u64 = 1 << 14;

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
    /// The weight of a given objective: one more than the grid has objectives over all tasks, so
    /// that one more given objective counts more than the whole grid.
    pub weight: usize,
}

impl Bounded {
    /// Whether no choice meets more.
    #[must_use]
    pub const fn is_proven(&self) -> bool {
        self.met == self.at_most
    }
}

/// How the order of processors was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderChoice {
    /// As if every subgraph were in memory.
    AllInMemory,
    /// By plans within the memory.
    WithinMemory {
        /// Number of orders that may have a better plan but were not compared: the budget ended, or
        /// the time of loading a subgraph is not known.
        orders_left: usize,
    },
}

impl OrderChoice {
    /// Number of orders that may have a better plan within the memory, and were not compared.
    #[must_use]
    pub const fn orders_left(self) -> usize {
        match self {
            Self::AllInMemory => 0,
            Self::WithinMemory { orders_left } => orders_left,
        }
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
    /// How the order was chosen.
    pub order: OrderChoice,
    /// Tasks of which no original runs in any order. There is no grid then.
    pub without_grid: Vec<usize>,
}

/// The best plan within the memory, and the subgraphs that stay there. `ranked` are the orders to
/// compare, each with its best plan with everything in memory, best first: a plan within the memory
/// is no better than that, so the comparison ends where no other order can be better.
///
/// # Errors
/// As [`preload()`]; [`StitchError::LoadingUnknown`] where in each order some subgraph has to be
/// fetched whose time of loading is not known.
pub fn within_memory(
    zoo: &Zoo,
    ranked: &[(Order, Option<Assignment>)],
    orders: &[Order],
    asked: &[Slo],
    selection: Selection,
    memory: Memory<'_>,
) -> Result<(Assignment, Preloading), StitchError> {
    let mut found: Option<(Assignment, Preloading)> = None;
    let (mut unknown, mut orders_left) = (None, 0);
    let runs = ranked.iter().filter_map(|(order, plan)| Some((order, plan.as_ref()?)));
    for (index, (order, at_best)) in runs.enumerate() {
        if found.as_ref().is_some_and(|(plan, _)| at_best.rank() >= plan.rank()) {
            break;
        }
        if index > 0 && memory.steps.steps(ORDER_STEPS).is_err() {
            orders_left += 1;
            continue;
        }
        match in_order(zoo, order, orders, asked, selection, memory) {
            Ok((plan, preloading)) => {
                if found.as_ref().is_none_or(|(best, _)| plan.rank() < best.rank()) {
                    found = Some((plan, preloading));
                }
            }
            Err(error @ StitchError::LoadingUnknown { .. }) => {
                orders_left += 1;
                unknown = unknown.or(Some(error));
            }
            Err(error) => return Err(error),
        }
    }
    let none = || StitchError::Zoo { reason: "there is no order to compare".to_owned() };
    let (plan, preloading) = found.ok_or_else(|| unknown.unwrap_or_else(none))?;
    let order = OrderChoice::WithinMemory { orders_left };
    Ok((plan, Preloading { order, ..preloading }))
}

/// The plan in an order within the memory, and the subgraphs that stay there.
///
/// # Errors
/// As [`preload()`]; [`StitchError::LoadingUnknown`] for a subgraph that has to be fetched.
pub fn in_order(
    zoo: &Zoo,
    order: &Order,
    orders: &[Order],
    asked: &[Slo],
    selection: Selection,
    memory: Memory<'_>,
) -> Result<(Assignment, Preloading), StitchError> {
    let chosen = preload(zoo, order, orders, asked, memory)?;
    let usable = chosen.loaded.or_fetched(zoo, order);
    // A subgraph that is not in memory is fetched first, and its latency includes that time.
    let fetched = zoo.with_fetching(&chosen.loaded, &usable)?;
    let only = std::slice::from_ref(order);
    let plan = best(&fetched, only, Some(&usable), asked, selection, memory.steps)?.plan;
    Ok((plan, chosen))
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
    let ranges: Vec<Option<Ranges>> =
        tasks.clone().map(|task| ranges(zoo, task, order, orders)).collect();
    let without_grid = tasks.clone().filter(|&task| ranges[task].is_none()).collect();
    let grids: Vec<Vec<Slo>> =
        ranges.iter().map(|ranges| ranges.map_or_else(Vec::new, Ranges::grid)).collect();
    let grid = shared(&grids);
    let weight = grid.len() * zoo.tasks().len() + 1;
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
    let order = OrderChoice::AllInMemory;
    Ok(Preloading { loaded, budget_bytes, full_bytes, keeps, bound, order, without_grid })
}

#[cfg(test)]
mod tests {
    use super::{super::each_order, *};
    use std::{collections::BTreeMap, sync::Arc};
    use vitempo_graph::Limits;
    use vitempo_planners::{
        cost::Interval,
        stitch::{Additive, Subgraph, Task, orders},
    };

    /// A subgraph: its latency on each processor, ns, and its memory, bytes.
    type Given<'a> = (&'a [Option<u64>], u64);

    /// Tasks of one position, whose variants are 90 % and 70 % accurate; loading takes 1 ms.
    fn zoo(processors: usize, tasks: &[[Given<'_>; 2]]) -> Zoo {
        let subgraph = |&(ns, memory_bytes): &Given<'_>| Subgraph {
            latency_ns: ns.iter().map(|ns| ns.map(Interval::exact)).collect(),
            memory_bytes,
            boundary_bytes: 0,
            load_ns: vec![Some(1_000_000); processors],
        };
        let task = |(index, variants): (usize, &[Given<'_>; 2])| Task {
            name: format!("t{index}"),
            variants: ["v0", "v1"].map(str::to_owned).to_vec(),
            subgraphs: vec![variants.iter().map(subgraph).collect()],
            accuracy: Arc::new(Additive::of_originals(&[9000, 7000], 1).expect("accuracies")),
        };
        let names = (0..processors).map(|p| format!("p{p}")).collect();
        let tasks = tasks.iter().enumerate().map(task).collect();
        Zoo::new(names, BTreeMap::new(), tasks).expect("a zoo")
    }

    fn slo(accuracy_bp: u32, latency_ns: u64) -> Slo {
        Slo { accuracy_bp, latency_ns }
    }

    fn planned(zoo: &Zoo, asked: &[Slo], bytes: u64) -> (Assignment, Preloading) {
        let steps = SearchBudget::new(Limits::NONE);
        let orders = orders::any(zoo.processors().len(), zoo.positions()).expect("orders");
        let mut each = each_order(zoo, &orders, asked, &steps).expect("plans").plans;
        each.sort_by_key(|(_, plan)| plan.as_ref().map(Assignment::rank));
        let memory = Memory { budget: Budget::Bytes(bytes), way: Way::Exact, steps: &steps };
        let selection = Selection::MostObjectives;
        within_memory(zoo, &each, &orders, asked, selection, memory).expect("a plan")
    }

    #[test]
    fn a_given_objective_counts_more_than_the_grids_of_all_tasks() {
        // What meets the only objective that can be met, or all others, which meet much of a grid.
        let first: [Given<'_>; 2] = [(&[Some(1000)], 100), (&[Some(1000)], 50)];
        let other: [Given<'_>; 2] = [(&[Some(1000)], 45), (&[Some(5000)], 45)];
        let zoo = zoo(1, &[first, other, other, other]);
        let never = slo(9900, 1);
        let (plan, preloading) = planned(&zoo, &[slo(9000, 1100), never, never, never], 140);
        assert_eq!(plan.violations, 3, "{preloading:?}");
        assert!(preloading.loaded.holds(0, 0, 0));
        let bound = preloading.bound.expect("an exact search");
        assert_eq!((bound.weight, bound.is_proven()), (25 * 4 + 1, true));
    }

    #[test]
    fn the_order_is_chosen_within_the_memory() {
        // `p0` is faster, with the large variant of the first task; on `p1` the small one is fast.
        let first: [Given<'_>; 2] = [(&[Some(10), Some(90)], 100), (&[Some(500), Some(95)], 10)];
        let second: [Given<'_>; 2] = [(&[Some(10), Some(20)], 10), (&[Some(10), Some(20)], 10)];
        let zoo = zoo(2, &[first, second]);
        let asked = [slo(7000, 100), slo(7000, 100)];
        let (plan, preloading) = planned(&zoo, &asked, 1000);
        assert_eq!((plan.order.processors(), plan.violations), (&[0][..], 0));
        assert_eq!(preloading.order, OrderChoice::WithinMemory { orders_left: 0 });
        let (plan, preloading) = planned(&zoo, &asked, 30);
        assert_eq!((plan.order.processors(), plan.violations), (&[1][..], 0), "{preloading:?}");
        assert_eq!(preloading.order.orders_left(), 0);
    }

    #[test]
    fn a_task_that_runs_only_stitched_has_the_grid_of_another_order_or_none() {
        // Either variant runs on one processor alone.
        let apart: [Given<'_>; 2] = [(&[Some(10), None], 10), (&[None, Some(10)], 10)];
        let mut zoo = zoo(2, &[apart]);
        let rows = zoo.tasks()[0].subgraphs[0].clone();
        let subgraphs = vec![rows.clone(), rows];
        let accuracy = Arc::new(Additive::of_originals(&[9000, 7000], 2).expect("accuracies"));
        let task = Task { subgraphs, accuracy, ..zoo.tasks()[0].clone() };
        zoo = Zoo::new(zoo.processors().to_vec(), BTreeMap::new(), vec![task]).expect("a zoo");
        let steps = SearchBudget::new(Limits::NONE);
        let memory = Memory { budget: Budget::Bytes(1000), way: Way::Exact, steps: &steps };
        let mixed = Order::new(vec![0, 1]);
        let asked = [slo(8000, 100)];
        let all = orders::any(2, 2).expect("orders");
        let with_grid = preload(&zoo, &mixed, &all, &asked, memory).expect("subgraphs");
        assert_eq!((with_grid.keeps.1, with_grid.without_grid.len()), (25, 0));
        let only = std::slice::from_ref(&mixed);
        let without = preload(&zoo, &mixed, only, &asked, memory).expect("subgraphs");
        assert_eq!((without.keeps, without.without_grid), ((0, 0), vec![0]));
        assert_eq!(without.loaded.count(), 2);
    }
}
