//! Every split that no other split beats in both of two criteria.
//!
//! One pass of dynamic programming over the frontier finds all of them. On a graph too wide for
//! that it is one bounded search after the other, each under what the last one used, until the
//! budget ends.

use super::{
    Bound, Criterion, Objective, Split, SplitError, SplitPlan,
    bounded::{Bounded, half},
    closure::Side,
    criteria::At,
    frontier::{self, Question},
};
use crate::cost::End;

/// Splits that no other split beats.
#[derive(Clone, Debug, PartialEq)]
pub struct Front {
    /// Least of the first criterion to least of the second.
    pub plans: Vec<SplitPlan>,
    /// Whether these are all: the search ended before its budget did.
    pub is_complete: bool,
}

impl Split<'_> {
    /// The Pareto front, least of `first` to least of `second`. `bounds` are kept by all of it.
    ///
    /// # Errors
    /// As [`Split::best`], when not even one split keeps the bounds.
    pub fn pareto(
        &self,
        first: Criterion,
        second: Criterion,
        bounds: &[Bound],
    ) -> Result<Front, SplitError> {
        let objective = Objective { minimise: first, bounds: bounds.to_vec() };
        self.check_energy(&objective)?;
        self.check_energy(&Objective::least(second))?;
        let Some(sides) = self.front(first, second, &objective) else {
            return self.front_by_searches(second, &objective);
        };
        if sides.is_empty() {
            return Err(self.impossible(&objective));
        }
        let plans = sides.iter().map(|side| self.on_the_front(&objective, side)).collect();
        Ok(Front { plans, is_complete: true })
    }

    /// The sides of the whole front in one pass; `None` where that takes too long.
    fn front(
        &self,
        first: Criterion,
        second: Criterion,
        objective: &Objective,
    ) -> Option<Vec<Side>> {
        let mut columns = self.columns(first.then_ties(), self.bounds(objective));
        let place = first.then_ties().iter().position(|&criterion| criterion == second)?;
        columns.order[1..=place].rotate_right(1);
        let question = Question {
            columns: &columns.terms,
            order: &columns.order,
            leading: 2,
            within: &columns.within,
            at_most: u64::MAX,
            hull: false,
        };
        let found =
            frontier::undominated(&self.closure, &question, &mut half(&self.budget)).ok()?;
        // Splits that only use less of what is bounded are worth nothing any more.
        let (column, mut least) = (columns.order[1], None);
        let mut is_better = |split: &frontier::Labelled| {
            let value = split.values[column];
            let is_better = least.is_none_or(|least| value < least);
            least = if is_better { Some(value) } else { least };
            is_better
        };
        let front = found.into_iter().filter(|split| is_better(split));
        Some(front.map(|split| split.side).collect())
    }

    /// A split of the front as a plan. Its regret is not computed: what it gives up in one
    /// criterion it gains in the other.
    fn on_the_front(&self, objective: &Objective, side: &Side) -> SplitPlan {
        let value = self.terms(objective.minimise, At::all(End::Point)).cost(&self.closure, side);
        self.plan(objective, &Bounded { side: side.clone(), value, at_least: value }, None)
    }

    pub(super) fn front_by_searches(
        &self,
        second: Criterion,
        objective: &Objective,
    ) -> Result<Front, SplitError> {
        let mut plans: Vec<SplitPlan> = Vec::new();
        let mut bounded = objective.clone();
        loop {
            let found = match self.solve(&bounded) {
                Ok(found) => found,
                Err(SplitError::Impossible { .. }) if !plans.is_empty() => break,
                Err(SplitError::GaveUp { .. }) if !plans.is_empty() => {
                    return Ok(Front { plans, is_complete: false });
                }
                Err(error) => return Err(error),
            };
            // Of the splits that are as good in the first criterion, the best in the second.
            let least = u64::try_from(found.value).unwrap_or(u64::MAX);
            let tie = Objective { minimise: second, bounds: objective.bounds.clone() }
                .keeping(objective.minimise, least);
            let best = self.solve(&tie)?;
            let is_proven = found.at_least == found.value && best.at_least == best.value;
            if !is_proven {
                return Ok(Front { plans, is_complete: false });
            }
            plans.push(self.on_the_front(objective, &best.side));
            match u64::try_from(best.value).ok().and_then(|used| used.checked_sub(1)) {
                Some(less) => bounded = objective.clone().keeping(second, less),
                None => break,
            }
        }
        Ok(Front { plans, is_complete: true })
    }

    /// What a split costs in one criterion.
    #[must_use]
    pub fn value(&self, criterion: Criterion, on_device: &[bool]) -> u64 {
        let value =
            self.terms(criterion, At::all(End::Point)).cost(&self.closure, &on_device.to_vec());
        u64::try_from(value).unwrap_or(u64::MAX)
    }
}
