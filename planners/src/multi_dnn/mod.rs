//! Multi-DNN inference: several models with service level objectives share the processors of one
//! device. Which variant of each, whole, cut or stitched, on which processors, with which priority?
//!
//! | question | where |
//! |---|---|
//! | the problem: tasks, objectives, arrivals, contention, loaded subgraphs | [`Problem`], [`Arrivals`] |
//! | how can a task run, and what is a plan? | [`Way`], [`Policy`] |
//! | how is a plan evaluated? | [`Evaluator`], [`Score`] |
//! | which bound holds for every plan? | [`Bound`] |
//! | the best plan within a budget of evaluations | [`plan`] |
//! | the plans of the stitching paper's systems | [`plans_of_systems`], [`systems`] |
//! | which way does a query take, and which query runs next, in a runtime? | [`Expectation`], [`Dispatcher`] |
//! | when does a task fall back to a faster way, and when does it return? | [`Switching`] |
//! | measured queries in the simulator; the plan's forecast for given queries | [`replay()`], [`forecast`] |
//!
//! Unlike [`crate::stitch::Optimiser`], which considers each task alone, this planner evaluates
//! plans with tasks that wait for each other: every figure comes from one evaluator, which equals
//! [`crate::simulator`] event by event (a test verifies this). A plan gives each task one or
//! several ways to run. With several, each query takes on arrival the way that is expected to end
//! first, as in systems that run models whole. Plans are compared lexicographically: fewest
//! objectives violated, then most queries per second when saturated, then least energy, then least
//! latency.
//!
//! The space holds the plans of the six systems of the stitching paper (SV-AO, SV-LO and AV, each
//! -P and -NP) and of SparseLoom, and all of them are evaluated: no plan returned is worse than
//! theirs in this cost model.

mod arrivals;
mod bound;
mod candidates;
mod dispatcher;
mod evaluator;
mod expectation;
mod fallbacks;
mod lanes;
mod model;
mod outcome;
mod policy;
mod problem;
mod queueing;
mod relaxation;
pub mod replay;
mod search;
mod switching;
pub mod systems;
#[cfg(test)]
mod tests;

pub use arrivals::{Arrival, Arrivals, MOST_PERMUTED, MOST_QUERIES, TaskArrivals};
pub use bound::Bound;
pub use dispatcher::{Admission, Dispatcher, Ended, Start};
pub use evaluator::{Evaluator, Score};
pub use expectation::{Expectation, Step};
pub use fallbacks::MOST_FALLBACKS;
pub use model::{MOST_PROCESSORS, MOST_WAYS};
pub use outcome::{Compared, MultiDnnPlan, PlacedPiece, PlacedTask, PlacedWay, Proof};
pub use policy::{Kind, Policy, Way};
pub use problem::{Contention, Fetches, Objective, Problem};
pub use replay::{Lane, Replay, ReplayError, Replayed, forecast, replay};
pub use search::{Settings, SystemPlan, plan, plans_of_systems};
pub use switching::{Observed, Rule, Switched, Switching};

use crate::{simulator::ScenarioError, stitch::StitchError};

/// Why several models cannot be planned together.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
#[non_exhaustive]
pub enum MultiDnnError {
    #[error(transparent)]
    Stitch(#[from] StitchError),
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    #[error("{field}: {reason}")]
    Invalid { field: String, reason: String },
    #[error("{what}: {count}, at most {most}")]
    TooMany { what: String, count: u128, most: u128 },
    #[error(
        "task `{task}` cannot run: each of its variants has a position that runs on no processor, \
        or that no link leads to"
    )]
    Impossible { task: String },
    #[error("memory: the tasks take at least {least} bytes together, the budget is {budget} bytes")]
    Memory { least: u64, budget: u64 },
}

impl MultiDnnError {
    fn invalid(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Invalid { field: field.into(), reason: reason.into() }
    }
}
