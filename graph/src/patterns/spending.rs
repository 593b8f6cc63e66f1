//! [`Spending`]: takes the steps of a rewriter from its budget, many at a time, and keeps the first
//! refusal.

use crate::{Budget, Exceeded};
use std::cell::{Cell, RefCell};

/// The remaining steps of a rewriter.
#[derive(Clone, Debug)]
pub(super) struct Spending {
    budget: Budget,
    /// Steps that are done and not yet taken from the budget.
    open: Cell<u64>,
    exceeded: RefCell<Option<Exceeded>>,
}

/// Steps that are taken from the budget at a time.
const STEPS_AT_A_TIME: u64 = 1 << 10;

impl Spending {
    pub(super) fn new(budget: &Budget) -> Self {
        Self { budget: budget.clone(), open: Cell::new(0), exceeded: RefCell::new(None) }
    }

    /// Takes steps. Returns whether the budget had them, as far as it was asked.
    pub(super) fn steps(&self, steps: u64) -> bool {
        if self.is_over() {
            return false;
        }
        self.open.set(self.open.get().saturating_add(steps));
        self.open.get() < STEPS_AT_A_TIME || self.settle()
    }

    /// Takes the open steps from the budget. Whether it had them.
    pub(super) fn settle(&self) -> bool {
        let spent = self.budget.steps(self.open.take());
        self.note(spent)
    }

    /// Takes one node.
    pub(super) fn node(&self) {
        self.note(self.budget.nodes(1));
    }

    /// The exceeded limit, if any.
    pub(super) fn exceeded(&self) -> Option<Exceeded> {
        self.exceeded.borrow().clone()
    }

    fn note(&self, spent: Result<(), Exceeded>) -> bool {
        if let Err(exceeded) = spent {
            self.exceeded.borrow_mut().get_or_insert(exceeded);
        }
        !self.is_over()
    }

    fn is_over(&self) -> bool {
        self.exceeded.borrow().is_some()
    }
}
