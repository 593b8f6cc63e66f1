//! Chooses the subgraphs to keep in memory within a budget: those with which the most objectives
//! can be met when objectives change. [`within_memory`] chooses the order of processors as well.
//!
//! Objectives are the given ones, and the 25 of the paper's grid over the originals' ranges, which
//! represent later ones. The given ones come first: each counts as more than the whole grid of all
//! tasks. They are met by loaded or fetched subgraphs, later ones by loaded subgraphs alone.

use super::{
    Selection, best,
    systems::{fixed_order, ranges},
};
use vitempo_graph::Budget as SearchBudget;
use vitempo_planners::stitch::{
    Assignment, Order, Slo, StitchError, Zoo, hotness,
    preload::{self, Loaded, Present},
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

/// How close an exact search came to its bound, in the chosen order of processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounded {
    /// Number of objectives that are met, of the grid by loaded subgraphs; each of the given ones
    /// counts as `weight`.
    pub met: usize,
    /// No choice within the memory budget meets more in this order, counted in the same way.
    pub at_most: usize,
    /// The weight of a given objective: one more than the grid has objectives over all tasks, so
    /// that one more given objective counts more than the whole grid.
    pub weight: usize,
}

impl Bounded {
    /// Whether no choice meets more in this order.
    #[must_use]
    pub const fn is_proven(&self) -> bool {
        self.met == self.at_most
    }

    /// Whether a choice in this order may meet more of the given objectives.
    const fn may_violate_fewer(&self) -> bool {
        self.met / self.weight < self.at_most / self.weight
    }
}

/// How the order of processors was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderChoice {
    /// As if every subgraph were in memory.
    AllInMemory,
    /// By plans within the memory.
    WithinMemory {
        /// Number of orders that may have a better plan but were not compared, or not to the end of
        /// their search: the budget ended, or the time of loading a subgraph is not known.
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
    // Orders in which a choice may violate fewer of the given objectives than the one found.
    let mut open = 0;
    let may_be_better = |(_, preloading): &(Assignment, Preloading)| {
        preloading.bound.is_some_and(|bound| bound.may_violate_fewer())
    };
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
            Ok(other) => {
                let is_better = found.as_ref().is_none_or(|(best, _)| other.0.rank() < best.rank());
                let worse = if is_better { found.replace(other) } else { Some(other) };
                open += usize::from(worse.as_ref().is_some_and(may_be_better));
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
    let order = OrderChoice::WithinMemory { orders_left: orders_left + open };
    Ok((plan, Preloading { order, ..preloading }))
}

/// The plan in an order within the memory, and the subgraphs that stay there. A task may also run
/// subgraphs that do not stay there: these are fetched first, and their latency includes that time.
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
    let fetching = zoo.fetching_in(order, &chosen.loaded)?;
    let only = std::slice::from_ref(order);
    let plan = best(&fetching, only, None, asked, selection, memory.steps)?.plan;
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
        tasks.clone().map(|task| ranges(zoo, task, &fixed_order(zoo), orders)).collect();
    let without_grid = tasks.clone().filter(|&task| ranges[task].is_none()).collect();
    let grids: Vec<Vec<Slo>> =
        ranges.iter().map(|ranges| ranges.map_or_else(Vec::new, Ranges::grid)).collect();
    let grid = shared(&grids);
    let weight = grid.len() * zoo.tasks().len() + 1;
    let own = |task: usize| {
        let first = std::iter::repeat_n(asked, weight);
        let all = first.chain(grid.iter().map(Vec::as_slice));
        all.filter_map(|slos| slos.get(task).copied()).collect::<Vec<_>>()
    };
    let hotness = || {
        tasks
            .clone()
            .map(|task| hotness::hotness(zoo, task, order, &own(task)))
            .collect::<Result<Vec<_>, StitchError>>()
    };
    let (loaded, bound) = match way {
        Way::Exact => {
            let present = Present { slos: asked, weight };
            let found =
                preload::exact_with_present(zoo, order, present, &grid, budget_bytes, steps)?;
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
            boundary_tensors: 1,
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
    fn a_task_fetches_where_what_is_loaded_does_not_meet_its_objective() {
        // What fits meets much of the grid, but not the objective; fetching does.
        let task: [Given<'_>; 2] = [(&[Some(500_000)], 100), (&[Some(100_000)], 10)];
        let zoo = zoo(1, &[task]);
        for bytes in [0, 10, 99, 100, 110] {
            let (plan, preloading) = planned(&zoo, &[slo(9000, 1_600_000)], bytes);
            assert_eq!(plan.violations, 0, "{bytes} B: {preloading:?}");
            // Too late in any case: the accuracy still is what was asked for.
            let (plan, _) = planned(&zoo, &[slo(9000, 1)], bytes);
            assert_eq!((plan.violations, plan.total_short_bp()), (1, 0), "{bytes} B");
        }
    }

    #[test]
    fn more_memory_neither_violates_more_nor_misses_more_accuracy() {
        let mut state = 7u64;
        let mut below = |most: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % most
        };
        let mut fell = 0;
        for round in 0..100 {
            let numbers: Vec<[[Option<u64>; 2]; 2]> = (0..3)
                .map(|_| [(); 2].map(|()| [(); 2].map(|()| Some(below(2_000_000) + 1))))
                .collect();
            let bytes: Vec<[u64; 2]> = (0..3).map(|_| [(); 2].map(|()| below(100))).collect();
            let tasks = numbers.iter().zip(&bytes);
            let tasks: Vec<[Given<'_>; 2]> =
                tasks.map(|(ns, bytes)| [(&ns[0][..], bytes[0]), (&ns[1][..], bytes[1])]).collect();
            let zoo = zoo(2, &tasks);
            let asked: Vec<Slo> = (0..3)
                .map(|_| slo([6900, 8900, 9900][below(3) as usize], below(3_000_000)))
                .collect();
            let mut before = (usize::MAX, u64::MAX);
            for percent in [0, 15, 25, 35, 50, 75, 100] {
                let full = Loaded::everything(&zoo).memory_bytes();
                let (plan, preloading) = planned(&zoo, &asked, full * percent / 100);
                let now = (plan.violations, plan.total_short_bp());
                assert!(now <= before, "round {round}, {percent} %: {now:?}, {before:?}");
                assert!(preloading.bound.is_some_and(|bound| bound.is_proven()));
                fell += u32::from(before.0 < usize::MAX && now < before);
                before = now;
            }
        }
        assert!(fell > 20, "{fell}");
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
