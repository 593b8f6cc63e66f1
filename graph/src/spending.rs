//! [`Spending`]: takes the steps of one piece of work from its budget, many at a time; the first
//! refusal stays, with the node at which it came.

use crate::{Budget, Exceeded, GraphError};
use std::cell::{Cell, RefCell};

/// What a piece of work may still do.
#[derive(Clone, Debug)]
pub(crate) struct Spending {
    budget: Budget,
    /// Steps that are done and not yet taken from the budget.
    open: Cell<u64>,
    refusal: RefCell<Option<Refusal>>,
}

#[derive(Clone, Debug)]
struct Refusal {
    node: Option<String>,
    exceeded: Exceeded,
}

/// Steps that are taken from the budget at a time.
const STEPS_AT_A_TIME: u64 = 1 << 10;

impl Spending {
    pub(crate) fn new(budget: &Budget) -> Self {
        Self { budget: budget.clone(), open: Cell::new(0), refusal: RefCell::new(None) }
    }

    /// Takes so many steps. Whether the budget had them, as far as it was asked.
    pub(crate) fn steps(&self, steps: u64) -> bool {
        if self.is_over() {
            return false;
        }
        self.open.set(self.open.get().saturating_add(steps));
        self.open.get() < STEPS_AT_A_TIME || self.settle()
    }

    /// Takes the open steps from the budget. Whether it had them.
    pub(crate) fn settle(&self) -> bool {
        let spent = self.budget.steps(self.open.take());
        self.note(spent)
    }

    /// Takes one node. Whether the budget had it.
    pub(crate) fn node(&self) -> bool {
        self.note(self.budget.nodes(1))
    }

    /// Takes memory that is allocated next. Whether the budget had it.
    pub(crate) fn bytes(&self, bytes: u64) -> bool {
        self.note(self.budget.bytes(bytes))
    }

    /// Names the node at which the budget ended, if it did and none is named yet.
    pub(crate) fn at(&self, node: &str) {
        if let Some(refusal) = self.refusal.borrow_mut().as_mut() {
            refusal.node.get_or_insert_with(|| node.to_owned());
        }
    }

    /// What ran out, if anything did.
    pub(crate) fn exceeded(&self) -> Option<Exceeded> {
        self.refusal.borrow().as_ref().map(|refusal| refusal.exceeded.clone())
    }

    /// Takes the open steps, and ends.
    ///
    /// # Errors
    /// [`GraphError::Exceeded`] when the budget was spent on the way.
    pub(crate) fn finish(&self) -> Result<(), GraphError> {
        self.settle();
        match self.refusal.borrow().clone() {
            Some(Refusal { node, exceeded }) => {
                Err(GraphError::Exceeded { node, source: exceeded })
            }
            None => Ok(()),
        }
    }

    fn note(&self, spent: Result<(), Exceeded>) -> bool {
        if let Err(exceeded) = spent {
            self.refusal.borrow_mut().get_or_insert(Refusal { node: None, exceeded });
        }
        !self.is_over()
    }

    fn is_over(&self) -> bool {
        self.refusal.borrow().is_some()
    }
}
