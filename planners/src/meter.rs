//! [`Meter`]: spends the steps of a budget, many at once.

use vitempo_graph::Budget;

/// Steps that are spent together.
const BATCH: u64 = 1 << 12;

/// The budget has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutOfSteps;

/// Counts the steps of a search. Once the budget has ended, the meter stays at its end.
pub(crate) struct Meter<'a> {
    budget: Option<&'a Budget>,
    /// Steps that may still be spent of the budget.
    left: u64,
    pending: u64,
    is_over: bool,
}

impl<'a> Meter<'a> {
    pub(crate) fn new(budget: &'a Budget) -> Self {
        Self::of_share(budget, 1)
    }

    /// A meter of one of so many shares of what is left of a budget.
    pub(crate) fn of_share(budget: &'a Budget, shares: usize) -> Self {
        let left = budget.limits().steps.saturating_sub(budget.steps_spent());
        Self { budget: Some(budget), left: left / shares.max(1) as u64, pending: 0, is_over: false }
    }

    /// A meter without end.
    pub(crate) fn unlimited() -> Self {
        Self { budget: None, left: u64::MAX, pending: 0, is_over: false }
    }

    pub(crate) fn spend(&mut self, steps: usize) -> Result<(), OutOfSteps> {
        let Some(budget) = self.budget else { return Ok(()) };
        self.pending = self.pending.saturating_add(steps as u64);
        if self.pending >= BATCH && !self.is_over {
            let pending = std::mem::take(&mut self.pending);
            self.is_over = pending > self.left || budget.steps(pending).is_err();
            self.left = self.left.saturating_sub(pending);
        }
        if self.is_over { Err(OutOfSteps) } else { Ok(()) }
    }

    /// Whether the budget has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vitempo_graph::Limits;

    #[test]
    fn steps_are_spent_in_batches_and_the_end_is_the_end() {
        let budget = Budget::new(Limits { steps: 2 * BATCH, ..Limits::NONE });
        let mut meter = Meter::new(&budget);
        let spent = (0..4 * BATCH).take_while(|_| meter.spend(1).is_ok()).count();
        assert_eq!((spent as u64, budget.steps_spent()), (3 * BATCH - 1, 2 * BATCH));
        assert!(meter.is_over() && meter.spend(0).is_err());
        assert!(Meter::unlimited().spend(usize::MAX).is_ok());
        let budget = Budget::new(Limits { steps: 4 * BATCH, ..Limits::NONE });
        let mut half = Meter::of_share(&budget, 2);
        let batches = (0..4).take_while(|_| half.spend(BATCH as usize).is_ok()).count();
        assert_eq!((batches, budget.steps_spent()), (2, 2 * BATCH));
    }
}
