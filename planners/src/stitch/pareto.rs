//! [`pareto`]: which variants of a task no other beats in latency and accuracy, over all orders of
//! processors. Where stitching gains nothing, whole variants are these.

use super::{Order, Slo, StitchError, Stitched, Zoo, each_variant};
use crate::multi_dnn::Kind;
use std::collections::BTreeMap;

/// How a variant runs in an order.
fn kind(variants: &[usize], order: &Order) -> Kind {
    let same = |of: &[usize]| of.windows(2).all(|pair| pair[0] == pair[1]);
    match (same(variants), same(order.processors())) {
        (false, _) => Kind::Stitched,
        (true, false) => Kind::Cut,
        (true, true) => Kind::Whole,
    }
}

/// A variant that no other beats, and its order of processors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnFront {
    /// The processor of each position.
    pub order: Order,
    /// The variant with its latency in that order.
    pub stitched: Stitched,
}

impl OnFront {
    /// How it runs.
    #[must_use]
    pub fn kind(&self) -> Kind {
        kind(&self.stitched.variants, &self.order)
    }

    /// Whether it meets an objective, alone on the chip.
    #[must_use]
    pub const fn meets(&self, slo: &Slo) -> bool {
        self.stitched.accuracy_bp >= slo.accuracy_bp && self.stitched.latency_ns <= slo.latency_ns
    }
}

/// The variants of a task of one of these kinds that no other of them beats in any order, by rising
/// latency and accuracy. Among equals the kind that comes first stays.
///
/// # Errors
/// [`StitchError::TooMany`] where they cannot be enumerated.
pub fn pareto(
    zoo: &Zoo,
    task: usize,
    orders: &[Order],
    kinds: &[Kind],
) -> Result<Vec<OnFront>, StitchError> {
    // By accuracy, the fastest.
    let mut fastest: BTreeMap<u32, (u64, Kind, OnFront)> = BTreeMap::new();
    for order in orders {
        each_variant(zoo, task, order, |variants, latency_ns, accuracy_bp| {
            let kind = kind(variants, order);
            let known = fastest.get(&accuracy_bp);
            if kinds.contains(&kind) && known.is_none_or(|k| (latency_ns, kind) < (k.0, k.1)) {
                let stitched = Stitched { variants: variants.to_vec(), latency_ns, accuracy_bp };
                let found = OnFront { order: order.clone(), stitched };
                fastest.insert(accuracy_bp, (latency_ns, kind, found));
            }
        })?;
    }
    let mut least_ns = u64::MAX;
    let mut front: Vec<OnFront> = Vec::new();
    for (latency_ns, _, found) in fastest.into_values().rev() {
        if latency_ns < least_ns {
            least_ns = latency_ns;
            front.push(found);
        }
    }
    front.reverse();
    Ok(front)
}
