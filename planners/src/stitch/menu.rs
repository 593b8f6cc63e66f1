//! [`Menu`]: the stitched variants of one task in one order. It finds the fastest above an
//! accuracy, by the method that fits the kind of accuracy.

use super::{Additive, Order, Stitched, Zoo, front::Front, loaded::Loaded, search::Search};
use crate::meter::Meter;

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
        self.fastest_within(at_least_bp, &mut Meter::unlimited())
    }

    /// The same within a budget; when it ends, the best found so far.
    pub(super) fn fastest_within(
        &self,
        at_least_bp: u32,
        meter: &mut Meter<'_>,
    ) -> Option<Stitched> {
        match self {
            Self::Sums(front, accuracy) => front.fastest(accuracy.allowed_drop(at_least_bp)?),
            Self::Any(search) => search.fastest(at_least_bp, u64::MAX, meter),
        }
    }

    /// The most accurate; among equals the fastest.
    #[cfg(test)]
    pub(super) fn most_accurate(&self) -> Option<Stitched> {
        self.most_accurate_within(&mut Meter::unlimited())
    }

    fn most_accurate_within(&self, meter: &mut Meter<'_>) -> Option<Stitched> {
        match self {
            Self::Sums(front, _) => front.most_accurate(),
            Self::Any(search) => search.most_accurate(meter),
        }
    }

    /// The fastest that is accurate enough, else the most accurate. When the budget ends before
    /// either is found, the fastest of all, if any runs.
    pub(super) fn choose(&self, at_least_bp: u32, meter: &mut Meter<'_>) -> Option<Stitched> {
        let found = self.fastest_within(at_least_bp, meter);
        let found = found.or_else(|| self.most_accurate_within(meter));
        match self {
            Self::Any(search) if meter.is_over() => found.or_else(|| search.lightest()),
            _ => found,
        }
    }

    /// Steps that making it took.
    pub(super) fn steps(&self) -> usize {
        match self {
            Self::Sums(front, _) => front.points(),
            Self::Any(_) => 1,
        }
    }
}
