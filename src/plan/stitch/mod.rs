//! Plans stitched variants: one order of processors for all tasks, a variant for each of them, and
//! the subgraphs to keep in memory.
//!
//! | question | where |
//! |---|---|
//! | how are the tasks of a file planned, from bundles or engines? | `planning`, with the feature `train` |
//! | what does a plan contain for each task? | `stitching`, with the feature `train` |
//! | which objective does each task have? | [`objectives`] |
//! | how accurate are stitched variants? | `accuracies`, with the feature `train` |
//! | how long does each subgraph take on each processor? | [`forecasts`] |
//! | which orders are there, and which is best? | [`orders`], [`best`], [`each_order`] |
//! | which subgraphs stay in memory within a budget? | [`preloading`] |
//! | how do systems without stitching compare? | [`systems`] |
//! | how long do stitched variants take on engines? | `live`, with the feature `profile` |
//! | what does a piece take beside its subgraphs there? | [`hand_over`] |
//! | how are measurements stored in a file? | [`record`] |
//! | how do a measured zoo's figures compare with the paper's claims? | `assessment`, with the feature `train` |

#[cfg(feature = "train")]
pub mod accuracies;
#[cfg(feature = "train")]
pub mod assessment;
mod error;
pub mod forecasts;
pub mod hand_over;
#[cfg(feature = "profile")]
pub mod live;
pub mod objectives;
#[cfg(feature = "train")]
pub mod planning;
pub mod preloading;
pub mod record;
#[cfg(feature = "train")]
pub mod stitching;
pub mod systems;

pub use error::StitchingError;

use super::costs::Estimated;
use vitempo_graph::Budget;
use vitempo_planners::stitch::{
    Assignment, EachOrder, Optimiser, Order, Printed, Slo, StitchError, Zoo,
    orders as each_placement, preload::Loaded,
};

/// The current or next step.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum StitchProgress<'a> {
    /// All subgraphs of a variant are forecast on a processor.
    Forecast {
        /// Task, variant and processor.
        what: &'a str,
        /// Kernels without a predictor of their own.
        estimated: Estimated,
    },
    /// All subgraphs of a task, each on every engine.
    Subgraphs {
        /// The task's name.
        task: &'a str,
        /// Number of subgraphs.
        count: usize,
        /// Number of engines.
        engines: usize,
    },
    /// Stitched variants of a task.
    Variants {
        /// The task's name.
        task: &'a str,
        /// Number of stitched variants.
        count: usize,
    },
    /// The best variants in an order.
    Order {
        /// Names of its processors.
        order: &'a str,
    },
}

/// How to choose a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Selection {
    /// The most objectives met; among equals the least mean latency.
    #[default]
    MostObjectives,
    /// As algorithm 1 is printed: the least mean latency over tasks, of variants that meet their
    /// objective in some order.
    AsPrinted,
}

/// Orders to choose from: each processor at most once, or any processor at any position.
///
/// # Errors
/// [`StitchError`] where there are too few processors for the positions, or too many orders.
pub fn orders(
    processors: usize,
    positions: usize,
    repeated: bool,
) -> Result<Vec<Order>, StitchError> {
    if repeated {
        each_placement::any(processors, positions)
    } else {
        each_placement::each_once(processors, positions)
    }
}

/// A plan, and the extent of the search of algorithm 1 where that chose it.
#[derive(Clone, Debug)]
pub struct Best {
    /// The plan.
    pub plan: Assignment,
    /// For [`Selection::AsPrinted`].
    pub printed: Option<PrintedSearch>,
}

/// The extent of the search of algorithm 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrintedSearch {
    /// Number of orders that were not compared to their end, because the budget ended.
    pub orders_left: usize,
    /// In no order the variants of the tasks that have one are faster in sum, ns; all subgraphs in
    /// memory.
    pub latency_at_least_ns: u64,
}

/// The plan for the given objectives; `loaded`: with these subgraphs only. When the budget ends, the
/// best found.
///
/// # Errors
/// [`StitchError`] naming a task that cannot run in any order.
pub fn best(
    zoo: &Zoo,
    orders: &[Order],
    loaded: Option<&Loaded>,
    slos: &[Slo],
    selection: Selection,
    budget: &Budget,
) -> Result<Best, StitchError> {
    let optimiser = Optimiser::new(zoo, orders)?;
    let optimiser = loaded.map_or(optimiser, |loaded| optimiser.among(loaded));
    if selection == Selection::AsPrinted {
        let Printed { plan, left, latency_at_least_ns } =
            optimiser.as_printed_within(slos, budget)?;
        let printed = Some(PrintedSearch { orders_left: left, latency_at_least_ns });
        return Ok(Best { plan, printed });
    }
    let plan = optimiser.each_order(slos, budget)?.best().cloned();
    let none = || StitchError::Zoo { reason: "an optimiser gave no plan".to_owned() };
    Ok(Best { plan: plan.ok_or_else(none)?, printed: None })
}

/// The best plan in each order, within a budget.
///
/// # Errors
/// [`StitchError`] where objectives do not fit the tasks, or a task cannot run in any order.
pub fn each_order(
    zoo: &Zoo,
    orders: &[Order],
    slos: &[Slo],
    budget: &Budget,
) -> Result<EachOrder, StitchError> {
    Optimiser::new(zoo, orders)?.each_order(slos, budget)
}
