//! The regret of a split: the most by which another split can be better when every cost takes any
//! value in its interval.
//!
//! For fixed bandwidths, the largest amount is saved with the costs of this split at their upper
//! ends and all other costs at their lower ends (Kasperski 2008, minmax regret of sums). The largest
//! share s is saved with the costs that both splits have at their lower ends: there each of them
//! counts its lower end in the other split, and (1 - s) x its lower end in this one. The same
//! difference results from costs of this split at s x lower + (1 - s) x upper end in the other, and
//! (1 - s) x upper end in this one, so that one search finds the other split.
//!
//! A link has one bandwidth for all transfers. The difference between two splits is linear in the
//! time per byte of each link, so the regret is convex in it, and largest where each link is at one
//! end of its interval. Where the budget ends before the best split of a case is proven, the regret
//! is an upper bound, by the bound on that split.

use super::{
    Objective, Split,
    closure::{Side, Terms},
    criteria::{At, LARGEST},
};
use crate::{
    Regret,
    cost::{End, Link},
    regret::Beyond,
};

/// By what the search of a share rounds costs, as a share of them.
const ROUNDING: f64 = 1e-7;

/// The costs of one criterion at both ends, with each link at one end.
struct Corner {
    lower: Terms,
    /// The costs of the split at their upper ends, all others at their lower ends.
    worst: Terms,
}

impl Split<'_> {
    pub(super) fn regret(&self, objective: &Objective, side: &[bool]) -> Option<Regret> {
        let side = side.to_vec();
        let corners = self.corners(objective, &side);
        let amounts = corners.iter().map(|corner| self.amount(objective, &side, corner));
        let regret = amounts.reduce(|a, b| Some(a?.max(b?)))??;
        let paid = |terms: &Terms| terms.cost(&self.closure, &side);
        let least = corners.iter().map(|corner| paid(&corner.lower)).min().unwrap_or(0);
        let most = corners.iter().map(|corner| paid(&corner.worst)).max().unwrap_or(0);
        Some(regret.with_largest_share(small(least), most as f64 * ROUNDING, |share| {
            let beyond = |corner| self.beyond(objective, &side, corner, share);
            corners.iter().map(beyond).try_fold(Beyond::NOTHING, |a, b| Some(a.max(b?)))
        }))
    }

    fn corners(&self, objective: &Objective, side: &Side) -> Vec<Corner> {
        let ends =
            |certain: bool| if certain { &[End::Point][..] } else { &[End::Lower, End::Upper] };
        let is_certain = |link: &Link| {
            link.bandwidth_bytes_per_s.at(End::Lower) == link.bandwidth_bytes_per_s.at(End::Upper)
        };
        let up = ends(is_certain(&self.ends.up));
        let down = ends(self.ends.down.as_ref().is_none_or(is_certain));
        let corner = |(up, down): (End, End)| {
            let at = |nodes| self.terms(objective.minimise, At { nodes, up, down });
            let lower = at(End::Lower);
            let worst = at(End::Upper).where_paid(&self.closure, side, &lower);
            Corner { lower, worst }
        };
        up.iter().flat_map(|&up| down.iter().map(move |&down| (up, down))).map(corner).collect()
    }

    /// The largest amount that another split saves, with the cost of this one in that case.
    fn amount(&self, objective: &Objective, side: &Side, corner: &Corner) -> Option<Regret> {
        let best = self.solve_terms(&corner.worst, objective).ok()?;
        let paid = corner.worst.cost(&self.closure, side);
        let regret = Regret::of(small(paid.saturating_sub(best.at_least)), small(paid));
        Some(if best.value > best.at_least { regret.as_bound() } else { regret })
    }

    /// What other splits save beyond a share. Costs are scaled up to what the arithmetic takes, so
    /// that blends of small costs are not rounded.
    fn beyond(
        &self,
        objective: &Objective,
        side: &Side,
        Corner { lower, worst }: &Corner,
        share: f64,
    ) -> Option<Beyond> {
        let scale = (LARGEST / worst.ceiling()).max(1);
        let blend = |lower: &u128, upper: &u128| {
            let range = upper.saturating_sub(*lower) * scale;
            lower * scale + ((1.0 - share) * range as f64) as u128
        };
        let best = self.solve_terms(&lower.with(worst, blend), objective).ok()?;
        let paid = worst.cost(&self.closure, side) as f64;
        // Where both splits pay a cost, it is at its lower end.
        let case = lower.where_paid(&self.closure, &best.side, worst);
        let (own, other) = (case.cost(&self.closure, side), case.cost(&self.closure, &best.side));
        Some(Beyond {
            at_most: (1.0 - share) * paid - best.at_least as f64 / scale as f64,
            share: own.saturating_sub(other) as f64 / (own as f64).max(1.0),
        })
    }
}

fn small(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}
