//! [`Menu`]: the stitched variants of one task in one order. It finds the fastest above an
//! accuracy, by the method that fits the kind of accuracy.

use super::{Additive, Order, Stitched, Zoo, front::Front, loaded::Loaded, search::Search};

pub(super) enum Menu<'a> {
    Sums(Front<'a>, &'a Additive),
    Any(Search<'a>),
}

impl<'a> Menu<'a> {
    /// The menu of all subgraphs, or of the loaded ones.
    pub(super) fn new(
        zoo: &'a Zoo,
        task: usize,
        order: &Order,
        loaded: Option<&Loaded>,
    ) -> Option<Self> {
        let mut parts = zoo.parts(task, order);
        if let Some(loaded) = loaded {
            for (position, row) in parts.iter_mut().enumerate() {
                row.retain(|part| loaded.holds(task, position, part.variant));
            }
        }
        let accuracy = zoo.tasks().get(task)?.accuracy.as_ref();
        Some(match accuracy.additive() {
            Some(additive) => Self::Sums(Front::new(additive, &parts), additive),
            None => Self::Any(Search::new(accuracy, &parts)),
        })
    }

    /// The fastest at least this accurate; among equals the most accurate.
    pub(super) fn fastest(&self, at_least_bp: u32) -> Option<Stitched> {
        match self {
            Self::Sums(front, accuracy) => front.fastest(accuracy.allowed_drop(at_least_bp)?),
            Self::Any(search) => search.fastest(at_least_bp, u64::MAX),
        }
    }

    /// The most accurate; among equals the fastest.
    pub(super) fn most_accurate(&self) -> Option<Stitched> {
        match self {
            Self::Sums(front, _) => front.most_accurate(),
            Self::Any(search) => search.most_accurate(),
        }
    }
}
