//! The Pareto front of splits in two criteria.
//!
//! One pass of dynamic programming over the frontier finds all of them. On a graph too wide for
//! that, a sequence of bounded searches finds them, each bounded by the last one's value, until the
//! budget ends.

use super::{
    Bound, Criterion, Objective, Split, SplitError, SplitPlan,
    bounded::{Bounded, half},
    closure::Side,
    criteria::At,
    frontier::{self, Question},
};
use crate::cost::End;

/// Splits that no other split dominates.
#[derive(Clone, Debug, PartialEq)]
pub struct Front {
    /// The splits, from the least of the first criterion to the least of the second.
    pub plans: Vec<SplitPlan>,
    /// Whether the front is complete: the search ended within its budget.
    pub is_complete: bool,
}

impl Split<'_> {
    /// The Pareto front, from the least of `first` to the least of `second`. All splits satisfy
    /// `bounds`.
    ///
    /// # Errors
    /// As [`Split::best`], when no split satisfies the bounds.
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

    /// The sides of the whole front in one pass; `None` where the search exceeds its budget.
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
        // Splits that are better only in bounded columns are dropped.
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

    /// A split of the front as a plan. Its regret is not computed, because it is a compromise
    /// between two criteria.
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
            // Of the splits that are equally good in the first criterion, the best in the second.
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

    /// The cost of a split in one criterion.
    #[must_use]
    pub fn value(&self, criterion: Criterion, on_device: &[bool]) -> u64 {
        let value =
            self.terms(criterion, At::all(End::Point)).cost(&self.closure, &on_device.to_vec());
        u64::try_from(value).unwrap_or(u64::MAX)
    }
}
