//! [`Budget`]: limits the work on one model before it is done. Reading, folding, shape inference,
//! lowering, quantising and writing of one model draw on the same budget, so that a file of a
//! hundred bytes cannot take terabytes or hours.
//!
//! Work is counted, not timed: the same file exceeds the budget at the same node on every machine.
//! Deadlines and cancelled requests come in through [`Budget::stopped_by`]; this crate reads no
//! clock.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What a budget bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Resource {
    /// Memory that the values of a model's constants take, in bytes.
    Bytes,
    /// Elementary pieces of work: an element folded, a node read, an edge followed.
    Steps,
    /// Nodes of a graph, those that rewriting adds included.
    Nodes,
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bytes => "bytes",
            Self::Steps => "steps",
            Self::Nodes => "nodes",
        })
    }
}

/// How much of each resource one model may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of constants' values.
    pub bytes: u64,
    /// Steps of work.
    pub steps: u64,
    /// Nodes.
    pub nodes: u64,
}

impl Limits {
    /// Bounds nothing.
    pub const NONE: Self = Self { bytes: u64::MAX, steps: u64::MAX, nodes: u64::MAX };
}

impl Default for Limits {
    /// Holds every model of which a vision engineer would think: a hundred thousand operators.
    fn default() -> Self {
        Self { bytes: 1 << 30, steps: 1_000_000_000, nodes: 1_000_000 }
    }
}

/// Why work on a model ended early.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Exceeded {
    /// The model takes more than its budget.
    #[error("takes more than the limit of {limit} {resource} for one model")]
    Limit {
        /// The exceeded limit.
        resource: Resource,
        /// How much there was.
        limit: u64,
    },
    /// The requester no longer waits.
    #[error("the work was stopped before its end: its time was over, or its requester is gone")]
    Stopped,
}

type Question = Arc<dyn Fn() -> bool + Send + Sync>;

/// A callback that returns whether to stop: a deadline, a client that is gone. By default it never
/// stops.
#[derive(Clone, Default)]
pub struct Stop(Option<Question>);

impl Stop {
    /// Stops when the answer is yes.
    #[must_use]
    pub fn when(stopped: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(stopped)))
    }
}

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stop").field(&self.0.is_some()).finish()
    }
}

/// The remaining budget of one model; clones share it.
#[derive(Clone)]
pub struct Budget {
    limits: Limits,
    spent: Arc<Spent>,
    stop: Stop,
}

#[derive(Default)]
struct Spent {
    bytes: AtomicU64,
    steps: AtomicU64,
    nodes: AtomicU64,
}

/// Steps between two calls of the callback.
const STEPS_BETWEEN_QUESTIONS: u64 = 1 << 14;

impl Budget {
    /// A fresh budget.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { limits, spent: Arc::default(), stop: Stop::default() }
    }

    /// The same budget, which also ends when `stopped` answers yes: a deadline, a client that left.
    #[must_use]
    pub fn stopped_by(self, stopped: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.with_stop(Stop::when(stopped))
    }

    /// The same budget, which also ends by this question.
    #[must_use]
    pub fn with_stop(mut self, stop: Stop) -> Self {
        self.stop = stop;
        self
    }

    /// The limits it started with.
    #[must_use]
    pub const fn limits(&self) -> Limits {
        self.limits
    }

    /// Steps spent so far: what tests of growth assert on.
    #[must_use]
    pub fn steps_spent(&self) -> u64 {
        self.spent.steps.load(Relaxed)
    }

    /// Spends memory before it is allocated.
    ///
    /// # Errors
    /// [`Exceeded`].
    pub fn bytes(&self, bytes: u64) -> Result<(), Exceeded> {
        spend(&self.spent.bytes, bytes, self.limits.bytes, Resource::Bytes).map(drop)
    }

    /// Spends work before it is done.
    ///
    /// # Errors
    /// [`Exceeded`].
    pub fn steps(&self, steps: u64) -> Result<(), Exceeded> {
        let before = spend(&self.spent.steps, steps, self.limits.steps, Resource::Steps)?;
        let crossed = before / STEPS_BETWEEN_QUESTIONS
            != before.saturating_add(steps) / STEPS_BETWEEN_QUESTIONS;
        match &self.stop.0 {
            Some(stopped) if crossed && stopped() => Err(Exceeded::Stopped),
            _ => Ok(()),
        }
    }

    /// Spends nodes before they are added.
    ///
    /// # Errors
    /// [`Exceeded`].
    pub fn nodes(&self, nodes: u64) -> Result<(), Exceeded> {
        spend(&self.spent.nodes, nodes, self.limits.nodes, Resource::Nodes).map(drop)
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget").field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// The amount spent before.
fn spend(spent: &AtomicU64, more: u64, limit: u64, resource: Resource) -> Result<u64, Exceeded> {
    spent
        .fetch_update(Relaxed, Relaxed, |before| {
            before.checked_add(more).filter(|&after| after <= limit)
        })
        .map_err(|_| Exceeded::Limit { resource, limit })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_last_unit_is_spent_and_no_more_and_clones_share() {
        let budget = Budget::new(Limits { bytes: 10, ..Limits::NONE });
        budget.bytes(4).unwrap();
        budget.clone().bytes(6).unwrap();
        let limit = Exceeded::Limit { resource: Resource::Bytes, limit: 10 };
        assert_eq!(budget.bytes(1), Err(limit.clone()));
        assert_eq!(budget.bytes(u64::MAX), Err(limit));
        budget.bytes(0).unwrap();
    }

    #[test]
    fn a_question_ends_the_work_within_its_distance() {
        let budget = Budget::new(Limits::NONE).stopped_by(|| true);
        let steps = (0..2 * STEPS_BETWEEN_QUESTIONS).find(|_| budget.steps(1).is_err());
        assert_eq!(steps, Some(STEPS_BETWEEN_QUESTIONS - 1));
        let large = Budget::new(Limits::NONE).stopped_by(|| true);
        assert_eq!(large.steps(STEPS_BETWEEN_QUESTIONS), Err(Exceeded::Stopped));
    }
}
