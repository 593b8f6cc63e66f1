//! The regret of a split: the most by which another split can be better when every cost takes any
//! value in its interval.
//!
//! For fixed bandwidths, the worst case has the costs of this split at their upper ends and all
//! other costs at their lower ends (Kasperski 2008, minmax regret of sums). A link has one
//! bandwidth for all transfers. The difference between two splits is linear in the time per byte of
//! each link, so the regret is convex in it, and largest where each link is at one end of its
//! interval. Where the budget ends before the best split of that case is proven, the regret is an
//! upper bound, by the bound on that split.

use super::{Objective, Split, criteria::At};
use crate::{Regret, cost::End};

impl Split<'_> {
    pub(super) fn regret(&self, objective: &Objective, side: &[bool]) -> Option<Regret> {
        let ends =
            |certain: bool| if certain { &[End::Point][..] } else { &[End::Lower, End::Upper] };
        let is_certain = |link: &crate::cost::Link| {
            link.bandwidth_bytes_per_s.at(End::Lower) == link.bandwidth_bytes_per_s.at(End::Upper)
        };
        let up = ends(is_certain(&self.ends.up));
        let down = ends(self.ends.down.as_ref().is_none_or(is_certain));
        let corners = up.iter().flat_map(|&up| down.iter().map(move |&down| (up, down)));
        let regrets = corners.map(|corner| self.regret_at(objective, side, corner));
        regrets.reduce(|a, b| Some(a?.max(b?)))?
    }

    /// The worst case with each link at one end.
    fn regret_at(
        &self,
        objective: &Objective,
        side: &[bool],
        (up, down): (End, End),
    ) -> Option<Regret> {
        let at = |nodes| self.terms(objective.minimise, At { nodes, up, down });
        let side = side.to_vec();
        let worst_terms = at(End::Upper).where_paid(&self.closure, &side, &at(End::Lower));
        let best = self.solve_terms(&worst_terms, objective).ok()?;
        let paid = worst_terms.cost(&self.closure, &side);
        let small = |value: u128| u64::try_from(value).unwrap_or(u64::MAX);
        let regret = Regret::of(small(paid.saturating_sub(best.at_least)), small(paid));
        Some(if best.value > best.at_least { regret.as_bound() } else { regret })
    }
}
