//! One order of processors for all tasks, a stitched variant for each of them, and what to keep in
//! memory.
//!
//! | question | where |
//! |---|---|
//! | which orders are there, and which is best? | [`orders`], [`best`], [`each_order`] |
//! | what stays in memory within a budget? | [`preloading`] |
//! | how do systems do that do not stitch? | [`systems`] |
//! | what do stitched variants take on engines? | `live`, with the feature `profile` |
//! | what was measured, as a file? | [`record`] |

#[cfg(feature = "profile")]
pub mod live;
pub mod preloading;
pub mod record;
pub mod systems;

use vitempo_planners::stitch::{
    Assignment, Optimiser, Order, Reading, Slo, StitchError, Zoo, orders as each_placement,
    preload::Loaded,
};

/// How to choose a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Selection {
    /// The most objectives kept; among equals the least mean latency.
    #[default]
    MostObjectives,
    /// As algorithm 1 is printed: the least mean latency over tasks, of variants that keep their
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

/// The plan for what is asked; `loaded`: of these subgraphs only.
///
/// # Errors
/// [`StitchError`] naming a task that cannot run in any order.
pub fn best(
    zoo: &Zoo,
    orders: &[Order],
    loaded: Option<&Loaded>,
    slos: &[Slo],
    selection: Selection,
) -> Result<Assignment, StitchError> {
    let optimiser = Optimiser::new(zoo, orders)?;
    let optimiser = loaded.map_or(optimiser, |loaded| optimiser.among(loaded));
    let configurations = [slos.to_vec()];
    let plans = match selection {
        Selection::AsPrinted => optimiser.as_printed(&configurations, Reading::Algorithm)?,
        Selection::MostObjectives => optimiser.best(&configurations)?,
    };
    let none = || StitchError::Zoo { reason: "an optimiser gave no plan".to_owned() };
    plans.into_iter().next().ok_or_else(none)
}

/// The best plan in each order; `None` where a task cannot run in it.
///
/// # Errors
/// [`StitchError`] where objectives do not fit the tasks.
pub fn each_order(
    zoo: &Zoo,
    orders: &[Order],
    slos: &[Slo],
) -> Result<Vec<(Order, Option<Assignment>)>, StitchError> {
    let one = |order: &Order| {
        let alone = std::slice::from_ref(order);
        match Optimiser::new(zoo, alone)?.best(&[slos.to_vec()]) {
            Ok(best) => Ok((order.clone(), best.into_iter().next())),
            Err(StitchError::Impossible { .. }) => Ok((order.clone(), None)),
            Err(error) => Err(error),
        }
    };
    orders.iter().map(one).collect()
}
