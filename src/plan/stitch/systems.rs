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

/// The six baselines, stitching, and stitching with loaded subgraphs in an order. Systems that do
/// not choose an order use processors in listed order. When the budget ends, outcomes are those of
/// a part ([`SystemOutcome::is_complete`]).
///
/// # Errors
/// [`StitchError`] naming the task that cannot run in the orders, or the subgraph whose time of
/// loading is not known.
pub fn simulate(
    zoo: &Zoo,
    orders: &[Order],
    asked: &[Slo],
    memory: Option<(&Order, &Loaded)>,
    budget: &Budget,
) -> Result<Vec<SystemOutcome>, StitchError> {
    let fixed = fixed_order(zoo);
    let grid = objectives(zoo, &fixed, Ranges::grid)?;
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
    let plain = System::BASELINES
        .into_iter()
        .chain([System::STITCHED])
        .map(|system| one(system, system.to_string(), &setting));
    let limited = memory.map(|loaded| {
        one(
            System::STITCHED,
            "stitched, from memory".to_owned(),
            &Setting { loaded: Some(loaded), ..setting },
        )
    });
    plain.chain(limited).collect()
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
