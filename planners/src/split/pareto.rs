//! Every split that no other split beats in both of two criteria: one bounded search after the
//! other, each under what the last one used.

use super::{Bound, Criterion, Objective, Split, SplitError, SplitPlan};
use crate::cost::End;

impl Split<'_> {
    /// The Pareto list, least of `first` to least of `second`; at most `most` splits. `bounds` are
    /// kept by all of them.
    ///
    /// # Errors
    /// As [`Split::best`], when not even one split keeps the bounds.
    pub fn pareto(
        &self,
        first: Criterion,
        second: Criterion,
        bounds: &[Bound],
        most: usize,
    ) -> Result<Vec<SplitPlan>, SplitError> {
        let mut list: Vec<SplitPlan> = Vec::new();
        let mut allowed: Option<u64> = None;
        while list.len() < most {
            let mut objective = Objective { minimise: first, bounds: bounds.to_vec() };
            objective.bounds.extend(allowed.map(|at_most| Bound { criterion: second, at_most }));
            let found = match self.best(&objective) {
                Ok(found) => found,
                Err(SplitError::Impossible { .. }) if !list.is_empty() => break,
                Err(error) => return Err(error),
            };
            // Of the splits that are as good in the first criterion, the best in the second.
            let least = self.value(first, &found.on_device);
            let tie = Objective { minimise: second, bounds: bounds.to_vec() }.keeping(first, least);
            let side = self.best(&tie)?.on_device;
            let used = self.value(second, &side);
            list.extend(self.plan_of(&side, &objective)?);
            match used.checked_sub(1) {
                Some(less) => allowed = Some(less),
                None => break,
            }
        }
        Ok(list)
    }

    /// What a split costs in one criterion.
    #[must_use]
    pub fn value(&self, criterion: Criterion, on_device: &[bool]) -> u64 {
        let value = self.terms(criterion, End::Point).cost(&self.closure, &on_device.to_vec());
        u64::try_from(value).unwrap_or(u64::MAX)
    }
}
