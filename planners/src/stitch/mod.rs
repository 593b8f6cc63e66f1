//! Model stitching: several tasks on one chip, each with sparse variants of one base model, cut
//! into subgraphs at the same tensors. A stitched variant takes each subgraph from some variant; V
//! variants of S subgraphs make V^S of them ("Multi-DNN Inference of Sparse Models on Edge SoCs",
//! SparseLoom).
//!
//! | question | where |
//! |---|---|
//! | where are variants cut, and how is a stitched one assembled as a model? | [`cut`], [`assemble`] |
//! | what do tasks, variants and processors cost? | [`Zoo`] |
//! | what does a subgraph take among others beside its latency alone? | [`HandOver`] |
//! | how accurate is a stitched variant? | [`Accuracy`]: [`Additive`], [`Monotone`], [`Table`] |
//! | which processor takes which position? | [`Order`], [`orders`] |
//! | which variants does no other beat, whole or stitched? | [`pareto`](mod@pareto) |
//! | which order and which variants meet the most service-level objectives? | [`Optimiser`] |
//! | which subgraphs should be in memory? | [`hotness`](mod@hotness), [`preload`] |
//! | which objectives are used for evaluation? | [`slo`] |
//! | how do other systems perform? | [`systems`], [`evaluate`] |
//! | how many runs does profiling take? | [`profiling`] |
//!
//! Nothing is enumerated where that can be avoided. Latencies are whole nanoseconds, accuracies
//! whole basis points (0.01 percentage points): 8575 is 85.75 %. Any subgraph can follow any other:
//! a zoo is cut where the shapes of all variants agree.

pub mod accuracy;
mod algorithm1;
mod assembly;
pub mod cut;
mod enumeration;
pub mod evaluate;
mod fetching;
mod front;
mod hand_over;
pub mod hotness;
mod loaded;
mod menu;
mod optimiser;
pub mod orders;
pub mod pareto;
pub mod preload;
pub mod profiling;
mod search;
pub mod slo;
pub mod systems;
#[cfg(test)]
mod tests;
mod zoo;

pub use accuracy::{Accuracy, Additive, Monotone, Table};
pub use algorithm1::{Printed, Reading};
pub use assembly::{AssemblyError, Misfit, assemble, fit};
pub use cut::CutError;
pub use enumeration::{MOST_ENUMERATED, each_variant};
pub use hand_over::HandOver;
pub use optimiser::{Assignment, Choice, EachOrder, Optimiser, STEPS, default_budget};
pub use orders::Order;
pub use slo::Slo;
pub use zoo::{Loading, MOST_POSITIONS, Stitched, Subgraph, Task, Zoo};

use crate::simulator::ScenarioError;

/// Why stitched variants cannot be planned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StitchError {
    /// A task that cannot be planned.
    #[error("task `{task}`: {reason}")]
    Task {
        /// Its name.
        task: String,
        /// What is wrong.
        reason: String,
    },
    /// An invalid zoo.
    #[error("{reason}")]
    Zoo {
        /// What is wrong.
        reason: String,
    },
    /// Accuracies that do not fit the zoo.
    #[error("accuracies: {reason}")]
    Accuracy {
        /// What is wrong.
        reason: String,
    },
    /// A task that runs in no placement order.
    #[error(
        "task `{task}` cannot run in {orders}: at some position no variant runs on the processor, \
        or no link leads to it"
    )]
    Impossible {
        /// Its name.
        task: String,
        /// The orders.
        orders: String,
    },
    /// Too many stitched variants for an exhaustive method.
    #[error(
        "task `{task}` has {variants} stitched variants; {what} looks at each of them, at most \
        {most}"
    )]
    TooMany {
        /// Name of the task.
        task: String,
        /// Number of stitched variants.
        variants: u128,
        /// The method.
        what: &'static str,
        /// Largest number that the method can take.
        most: u128,
    },
    /// A subgraph that has to be loaded, and whose time of loading is not known.
    #[error("task `{task}`: the time of loading {subgraph} is not known")]
    LoadingUnknown {
        /// Name of the task.
        task: String,
        /// Variant, position and processor, in words.
        subgraph: String,
    },
    /// The simulator refuses the scenario.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
}

impl StitchError {
    fn zoo(reason: impl Into<String>) -> Self {
        Self::Zoo { reason: reason.into() }
    }
}
