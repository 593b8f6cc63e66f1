//! [`Regret`]: the most by which another plan can be better when each cost takes any value in its
//! interval, as an amount and as a share of what the plan then costs.
//!
//! Amount and share may be largest in different cases. In the case of the largest amount, the costs
//! that only this plan has are at their upper ends. Costs that both plans have cancel out in the
//! amount, but count in the share: it is larger where they are low.
//!
//! The largest share is found by the iteration of Dinkelbach (1967): for a share s, the largest
//! (1 - s) x (cost of this plan) - (cost of another) over all cases and other plans is 0 or less
//! where no plan saves more than s. Else the plan found saves more, and gives the next s.

use serde::{Deserialize, Serialize};

/// Iterations towards the largest share; each doubles the number of digits, or more.
const ITERATIONS: usize = 16;
/// Halvings of the interval between the share found and its upper bound.
const HALVINGS: usize = 6;
/// Shares that differ by less are equal.
const SAME: f64 = 1e-4;

/// The most by which another plan can be better, when each cost takes any value in its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Regret {
    /// The largest amount that another plan saves, in the unit of what was minimised (ns, nJ,
    /// bytes).
    pub worst: u64,
    /// The largest share of this plan's cost that another plan saves: at most 1. The costs of that
    /// case may be others than those of `worst`.
    pub share: f64,
    /// Whether `worst` or `share` is an upper bound only: another plan may save less than this.
    #[serde(default)]
    pub is_bound: bool,
}

/// What other plans save beyond a share, see [`Regret::with_largest_share`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beyond {
    /// In no case is (1 - share) x (cost of this plan) - (cost of another) larger.
    pub at_most: f64,
    /// The share that the best other plan found saves, in one case.
    pub share: f64,
}

impl Beyond {
    /// No plan saves anything.
    pub(crate) const NOTHING: Self = Self { at_most: f64::NEG_INFINITY, share: 0.0 };

    /// Of two sets of cases.
    pub(crate) fn max(self, other: Self) -> Self {
        Self { at_most: self.at_most.max(other.at_most), share: self.share.max(other.share) }
    }
}

impl Regret {
    /// No other plan can be better.
    pub const NONE: Self = Self { worst: 0, share: 0.0, is_bound: false };

    /// The regret of a case in which the plan costs `paid`.
    #[must_use]
    pub fn of(worst: u64, paid: u64) -> Self {
        let worst = worst.min(paid);
        let share = if worst == 0 { 0.0 } else { worst as f64 / paid.max(1) as f64 };
        Self { worst, share, is_bound: false }
    }

    /// The same as an upper bound; no regret is exact.
    #[must_use]
    pub const fn as_bound(self) -> Self {
        Self { is_bound: self.worst > 0, ..self }
    }

    /// Of two sets of cases: the larger amount and the larger share. It is a bound where one of
    /// them is.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        let is_needed = |bound: Self, exact: Self| {
            bound.is_bound && (bound.worst > exact.worst || bound.share > exact.share)
        };
        let both = self.is_bound && other.is_bound;
        Self {
            worst: self.worst.max(other.worst),
            share: self.share.max(other.share),
            is_bound: both || is_needed(self, other) || is_needed(other, self),
        }
    }

    /// With the largest share, from one that a plan saves. The plan costs `least_paid` at least;
    /// `rounding` is what sums of costs are rounded by. `beyond` gives what is saved beyond a
    /// share, or nothing where a budget ends.
    pub(crate) fn with_largest_share(
        self,
        least_paid: u64,
        rounding: f64,
        mut beyond: impl FnMut(f64) -> Option<Beyond>,
    ) -> Self {
        if self.worst == 0 {
            return self;
        }
        // No more than `worst` is saved, and no less than `least_paid` is paid.
        let mut at_most = (self.worst as f64 / least_paid.max(1) as f64).min(1.0);
        let mut share = self.share.min(at_most);
        let known = |share: f64, at_most: f64| Self {
            worst: self.worst,
            share: at_most,
            is_bound: self.is_bound || at_most > share + SAME,
        };
        for _ in 0..ITERATIONS {
            let Some(found) = beyond(share) else { return known(share, at_most) };
            let more = found.at_most.max(0.0) / least_paid.max(1) as f64;
            if found.at_most <= rounding {
                return known(share, at_most.min(share + more));
            }
            if found.share <= share {
                at_most = at_most.min(share + more);
                break;
            }
            share = found.share.min(at_most);
        }
        let mut low = share;
        for _ in 0..HALVINGS {
            if at_most <= low + SAME {
                break;
            }
            let middle = f64::midpoint(low, at_most);
            let Some(found) = beyond(middle) else { break };
            share = share.max(found.share.min(at_most));
            if found.at_most <= 0.0 {
                at_most = middle;
            } else {
                low = middle;
            }
        }
        known(share, at_most)
    }

    /// `5.1 %`, or `at most 5.1 %` where it is a bound.
    #[must_use]
    pub fn percent(&self) -> String {
        let at_most = if self.is_bound { "at most " } else { "" };
        format!("{at_most}{:.1} %", 100.0 * self.share)
    }
}

/// `share` of the way from one cost to another, rounded down.
pub(crate) fn blended(from: u64, to: u64, share: f64) -> u64 {
    from.saturating_add((to.saturating_sub(from) as f64 * share) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_regret_is_at_most_all_that_is_paid() {
        assert_eq!(Regret::of(50, 200).share, 0.25);
        assert_eq!(Regret::of(300, 200), Regret { worst: 200, share: 1.0, is_bound: false });
        assert_eq!(Regret::of(0, 0).as_bound(), Regret::NONE);
    }

    #[test]
    fn of_two_regrets_the_larger_counts_and_says_whether_it_is_a_bound() {
        let (small, bound) = (Regret::of(50, 200), Regret::of(60, 200).as_bound());
        assert_eq!((small.max(bound), bound.max(small)), (bound, bound));
        assert_eq!(Regret::of(60, 200).max(bound), Regret::of(60, 200));
        assert_eq!(
            (small.percent().as_str(), bound.percent().as_str()),
            ("25.0 %", "at most 30.0 %")
        );
        let (amount, share) = (Regret::of(80, 1000), Regret::of(20, 40));
        assert_eq!(amount.max(share), Regret { worst: 80, share: 0.5, is_bound: false });
    }

    /// One other plan, which costs 100; this one costs 150 to 200, of which the other shares some.
    fn beyond(share: f64, is_found: bool) -> Option<Beyond> {
        let cases = [(200.0, 160.0), (100.0, 50.0)];
        let over = |(paid, other): (f64, f64)| (1.0 - share) * paid - other;
        let best = if over(cases[0]) > over(cases[1]) { cases[0] } else { cases[1] };
        let saved = if is_found { 1.0 - best.1 / best.0 } else { 0.2 };
        Some(Beyond { at_most: over(best), share: saved })
    }

    #[test]
    fn the_largest_share_may_be_saved_where_less_is_paid() {
        let start = Regret::of(50, 250);
        let exact = start.with_largest_share(100, 1e-9, |share| beyond(share, true));
        assert_eq!(exact, Regret { worst: 50, share: 0.5, is_bound: false });
        let bound = start.with_largest_share(100, 1e-9, |share| beyond(share, false));
        assert!(bound.is_bound && (0.5 - 1e-9..0.52).contains(&bound.share), "{bound:?}");
        let cut = start.with_largest_share(100, 1e-9, |_| None);
        assert_eq!(cut, Regret { worst: 50, share: 0.5, is_bound: true });
    }
}
