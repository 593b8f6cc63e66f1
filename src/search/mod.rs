//! Searches a space for the architectures with the highest score within ceilings for latency and
//! memory on one or several devices.
//!
//! NSGA-II (Deb, Pratap, Agarwal, Meyarivan: "A fast and elitist multiobjective genetic algorithm
//! that can be adapted", IEEE TEC 6(2), 2002) over a search space: maximise the score, minimise the
//! latency in every environment; architectures above a ceiling rank behind all others, by how far
//! they exceed it. Latencies come from [`crate::query`], so a candidate costs microseconds. The
//! result is a function of space, bundles, objective and seed.
//!
//! | question | where |
//! |---|---|
//! | which score is maximised? | [`objective`] |
//! | how are candidates sorted? | [`dominance`] |
//! | how is the next generation made? | `evolution` |
//! | which architectures are on the front? | `archive` |
//! | which are the best of a part of a space, and of several parts? | [`score`], [`merge`] |
//! | do forecasts rank as measurements do? | [`spearman`] |
//! | which files does a front consist of? | [`folder`], [`front_json`] |
//! | how are members of the front measured? | `verify` |

mod archive;
pub mod dominance;
mod evolution;
pub mod folder;
mod front;
pub mod objective;
mod rank;
mod scoring;
#[cfg(all(feature = "dataset", feature = "profile"))]
pub mod verify;

pub use evolution::{
    Candidate, Ceilings, Device, MOST_CANDIDATES, Options, Outcome, Progress, devices, memories,
    search,
};
pub use front::front_json;
pub use objective::{Objective, ObjectiveError};
pub use rank::spearman;
pub use scoring::{Member, Rejected, ScoreOptions, Scored, Scores, merge, score};

use crate::query::QueryError;
use vitempo_search_space::Space;

/// The name of a member of the front: that of its file.
#[must_use]
pub fn member_name(space: &Space, place: usize) -> String {
    format!("{}-front-{place:03}", space.name())
}

/// Why a search failed.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// An architecture has no forecast.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// An architecture has no score.
    #[error(transparent)]
    Objective(#[from] ObjectiveError),
    /// No candidate is below the ceiling.
    #[error(
        "none of {candidates} candidates is within the ceilings; the closest exceeds them by \
         {:.0} %: {encoding}", 100.0 * excess
    )]
    NothingFits {
        /// Architectures that were evaluated.
        candidates: u64,
        /// By how much the nearest one exceeds them, as a share; the sum over all ceilings.
        excess: f64,
        /// Encoding of the nearest one.
        encoding: String,
    },
    /// An option is out of its range.
    #[error("option {option}: {reason}")]
    Option {
        /// Name of the option.
        option: &'static str,
        /// What is wrong.
        reason: &'static str,
    },
    /// The number of ceilings is neither none nor that of the bundles.
    #[error("{bundles} bundles, but {ceilings} ceilings")]
    Ceilings {
        /// How many bundles there are.
        bundles: usize,
        /// How many ceilings.
        ceilings: usize,
    },
    /// The memory of an engine has a ceiling and no forecast.
    #[error("the memory of {environment} has no forecast, so its ceiling cannot be kept")]
    MemoryUnknown {
        /// Description of the environment.
        environment: String,
    },
    /// More candidates are asked for than [`MOST_CANDIDATES`].
    #[error("{0} candidates are more than {MOST_CANDIDATES}")]
    TooMany(u64),
    /// The caller ended the search before anything was within the ceilings.
    #[error("interrupted")]
    Interrupted,
}
