//! [`Policy`]: a plan: for each task one way to run or several, and a priority.

use std::fmt;

/// How one query of a task runs: which variant at each position, on which processors, in how many
/// pieces. This is a compact form; [`super::Evaluator`] expands it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Way {
    /// Number of the order of processors, the last position counting fastest.
    pub(super) order: u32,
    /// Number of the stitched variant, the last position counting fastest.
    pub(super) variant: u32,
    /// Neighbouring positions on one processor run as one piece; else other work may come in
    /// between.
    pub(super) joined: bool,
}

/// Whether a way runs a variant whole, cut or stitched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// One original variant on one processor, in one piece.
    Whole,
    /// One original variant in several pieces.
    Cut,
    /// Subgraphs of several variants.
    Stitched,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Whole => "whole",
            Self::Cut => "cut",
            Self::Stitched => "stitched",
        })
    }
}

/// A plan: by task, the ways to choose from on arrival (the one that is expected to end first; with
/// one, no choice) and the priority (the lowest number is next where queries wait; what runs is not
/// interrupted).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Policy {
    pub(super) ways: Vec<Vec<Way>>,
    pub(super) priorities: Vec<u32>,
}

impl Policy {
    /// The ways of a task; empty for a task that does not exist.
    #[must_use]
    pub fn ways(&self, task: usize) -> &[Way] {
        self.ways.get(task).map_or(&[], Vec::as_slice)
    }

    /// The priorities by task.
    #[must_use]
    pub fn priorities(&self) -> &[u32] {
        &self.priorities
    }
}
