//! Compares stitching with systems that do not stitch, in the simulator: SLO violations on the grid
//! over the originals' ranges, over all orders of arrival, and queries per second.

use vitempo_graph::Budget;
use vitempo_planners::{
    cost::End,
    stitch::{
        Order, Slo, StitchError, Subgraph, Zoo,
        evaluate::Violations,
        preload::Loaded,
        slo::{Ranges, shared},
        systems::{Setting, System},
    },
};

/// Queries of each task for the throughput.
pub const QUERIES: usize = 100;

/// The outcome of one system.
#[derive(Clone, Debug)]
pub struct SystemOutcome {
    /// Its name.
    pub system: String,
    /// Violations when each query has the chip to itself.
    pub alone: Violations,
    /// Violations with one query of each task at the same time.
    pub at_once: Violations,
    /// Queries per second with the given objectives, everything in memory.
    pub queries_per_s: f64,
}

impl SystemOutcome {
    /// Whether all of it was searched and simulated before the budget ended; else the shares are
    /// those of the simulated part, with the best variants found.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.alone.is_complete && self.at_once.is_complete
    }
}

/// A system that cannot serve the tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Its name.
    pub system: String,
    /// The reason, naming the task.
    pub reason: String,
}

/// The systems that were simulated, and the others.
#[derive(Clone, Debug, Default)]
pub struct Compared {
    /// In the order of the paper.
    pub outcomes: Vec<SystemOutcome>,
    /// Baselines, in which some task has no original that runs.
    pub left_out: Vec<LeftOut>,
}

/// The six baselines, stitching, and stitching with loaded subgraphs in an order. Systems that do
/// not choose an order use processors in listed order. When the budget ends, outcomes are those of
/// a part ([`SystemOutcome::is_complete`]). A baseline in which a task has no original that runs is
/// left out.
///
/// # Errors
/// [`StitchError`] naming the task that cannot run in the orders, or of which no original does, or
/// the subgraph whose time of loading is not known.
pub fn simulate(
    zoo: &Zoo,
    orders: &[Order],
    asked: &[Slo],
    memory: Option<(&Order, &Loaded)>,
    budget: &Budget,
) -> Result<Compared, StitchError> {
    let fixed = fixed_order(zoo);
    let grid = grid(zoo, &fixed, orders)?;
    let apart = longest_ns(zoo);
    let budget = Some(budget);
    let setting = Setting { zoo, fixed: &fixed, orders, loaded: None, budget };
    let one = |system: System,
               name: String,
               setting: &Setting<'_>|
     -> Result<SystemOutcome, StitchError> {
        let missed = |spacing_ns| setting.violations(system, &grid, spacing_ns);
        Ok(SystemOutcome {
            system: name,
            alone: missed(apart)?,
            at_once: missed(0)?,
            queries_per_s: setting.throughput(system, asked, QUERIES)?,
        })
    };
    let mut compared = Compared::default();
    for system in System::BASELINES {
        match one(system, system.to_string(), &setting) {
            Ok(outcome) => compared.outcomes.push(outcome),
            Err(StitchError::Impossible { task, orders }) => compared.left_out.push(LeftOut {
                system: system.to_string(),
                reason: format!("no variant of task `{task}` runs whole in {orders}"),
            }),
            Err(error) => return Err(error),
        }
    }
    compared.outcomes.push(one(System::STITCHED, System::STITCHED.to_string(), &setting)?);
    if let Some(loaded) = memory {
        let limited = Setting { loaded: Some(loaded), ..setting };
        let name = "stitched, from memory".to_owned();
        compared.outcomes.push(one(System::STITCHED, name, &limited)?);
    }
    Ok(compared)
}

/// Processors in listed order, repeated.
#[must_use]
pub fn fixed_order(zoo: &Zoo) -> Order {
    Order::new((0..zoo.positions()).map(|position| position % zoo.processors().len()).collect())
}

/// Objectives over the ranges of each task's originals in the fixed order; tasks share the index of
/// a configuration.
///
/// # Errors
/// [`StitchError`] naming the task that cannot run in the order.
pub fn objectives(
    zoo: &Zoo,
    fixed: &Order,
    of: impl Fn(Ranges) -> Vec<Slo>,
) -> Result<Vec<Vec<Slo>>, StitchError> {
    let own = (0..zoo.tasks().len())
        .map(|task| Ok(of(Ranges::of_originals(zoo, task, fixed)?)))
        .collect::<Result<Vec<_>, StitchError>>()?;
    Ok(shared(&own))
}

/// The grid of objectives over the ranges of each task's originals in the fixed order, else in all
/// orders in which some run.
fn grid(zoo: &Zoo, fixed: &Order, orders: &[Order]) -> Result<Vec<Vec<Slo>>, StitchError> {
    let own = |task: usize| {
        let ranges = ranges(zoo, task, fixed, orders).ok_or_else(|| StitchError::Task {
            task: zoo.tasks()[task].name.clone(),
            reason: "none of its variants runs whole in any order, so that there are no ranges of \
                objectives on which systems are compared"
                .to_owned(),
        })?;
        Ok(ranges.grid())
    };
    Ok(shared(&(0..zoo.tasks().len()).map(own).collect::<Result<Vec<_>, StitchError>>()?))
}

/// The ranges over a task's originals in an order; where none of them runs in it, over all orders in
/// which some do. `None` without any.
pub(super) fn ranges(zoo: &Zoo, task: usize, order: &Order, orders: &[Order]) -> Option<Ranges> {
    let of = |order: &Order| Ranges::of_originals(zoo, task, order).ok();
    let both = |a: Ranges, b: Ranges| Ranges {
        accuracy_bp: wider(a.accuracy_bp, b.accuracy_bp),
        latency_ns: wider(a.latency_ns, b.latency_ns),
    };
    of(order).or_else(|| orders.iter().filter_map(of).reduce(both))
}

fn wider<T: Ord>(a: (T, T), b: (T, T)) -> (T, T) {
    (a.0.min(b.0), a.1.max(b.1))
}

/// Upper bound on the latency of a query, ns, even if all its subgraphs have to be fetched.
#[must_use]
pub fn longest_ns(zoo: &Zoo) -> u64 {
    let slowest = |row: &Vec<Subgraph>| {
        row.iter().flat_map(|s| s.latency_ns.iter().flatten()).map(|ns| ns.at(End::Upper)).max()
    };
    let loading =
        |row: &Vec<Subgraph>| row.iter().flat_map(|s| &s.load_ns).flatten().copied().max();
    let rows = || zoo.tasks().iter().flat_map(|task| &task.subgraphs);
    let run: u64 = rows().filter_map(slowest).fold(0, u64::saturating_add);
    let loads: u64 = rows().filter_map(loading).fold(0, u64::saturating_add);
    let hand_over = (0..zoo.processors().len()).map(|p| zoo.hand_over().on(p).at(End::Upper)).max();
    let hand_over = hand_over.unwrap_or(0).saturating_mul(zoo.positions() as u64);
    run.saturating_add(hand_over).saturating_mul(2).saturating_add(loads)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::BTreeMap, sync::Arc};
    use vitempo_graph::Limits;
    use vitempo_planners::{
        cost::Interval,
        stitch::{Additive, Task, orders},
    };

    #[test]
    fn a_baseline_that_cannot_run_is_left_out_and_named() {
        // Each variant runs on one processor alone.
        let row = (0..2).map(|own| Subgraph {
            latency_ns: (0..2).map(|p| (p == own).then_some(Interval::exact(10))).collect(),
            memory_bytes: 1,
            boundary_bytes: 0,
            boundary_tensors: 1,
            load_ns: vec![Some(1); 2],
        });
        let row: Vec<Subgraph> = row.collect();
        let task = Task {
            name: "t".to_owned(),
            variants: ["v0", "v1"].map(str::to_owned).to_vec(),
            subgraphs: vec![row.clone(), row],
            accuracy: Arc::new(Additive::of_originals(&[9000, 7000], 2).expect("accuracies")),
        };
        let names = ["a", "b"].map(str::to_owned).to_vec();
        let zoo = Zoo::new(names, BTreeMap::new(), vec![task]).expect("a zoo");
        let orders = orders::any(2, 2).expect("orders");
        let asked = [Slo { accuracy_bp: 8000, latency_ns: 100 }];
        let budget = Budget::new(Limits::NONE);
        let compared = simulate(&zoo, &orders, &asked, None, &budget).expect("systems");
        let left: Vec<&str> = compared.left_out.iter().map(|l| l.system.as_str()).collect();
        assert_eq!(left, ["SV-AO-P", "SV-LO-P", "AV-P"]);
        assert_eq!(compared.left_out[0].reason, "no variant of task `t` runs whole in a-b");
        let outcomes: Vec<&str> = compared.outcomes.iter().map(|o| o.system.as_str()).collect();
        assert_eq!(outcomes, ["SV-AO-NP", "SV-LO-NP", "AV-NP", "stitched"]);
        let only = std::slice::from_ref(&orders[1]);
        let refused = simulate(&zoo, only, &asked, None, &budget).map_err(|e| e.to_string());
        assert!(refused.is_err_and(|e| e.contains("task `t`: none of its variants runs whole")));
    }
}
