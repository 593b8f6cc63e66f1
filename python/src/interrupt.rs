//! [`Interrupt`]: whether Python has a signal to handle, for work that runs without the
//! interpreter's lock. Ctrl-C then ends a read, a batch, a search or a plan at its next question.

use crate::failure::Failure;
use pyo3::prelude::*;
use std::{
    sync::{Arc, Mutex, PoisonError},
    thread::{self, ThreadId},
};

/// The exception that ends the work, once there is one. Clones share it.
#[derive(Clone, Debug)]
pub struct Interrupt {
    ended_by: Arc<Mutex<Option<PyErr>>>,
    /// The thread that Python called.
    caller: ThreadId,
}

impl Default for Interrupt {
    /// For work that this thread starts.
    fn default() -> Self {
        Self { ended_by: Arc::default(), caller: thread::current().id() }
    }
}

impl Interrupt {
    /// Whether the work should end. Only the thread that Python called asks Python, so that others
    /// do not wait for the interpreter's lock.
    pub fn is_pending(&self) -> bool {
        let ended = self.ended_by.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        if ended || thread::current().id() != self.caller {
            return ended;
        }
        Python::attach(|py| match py.check_signals() {
            Ok(()) => false,
            Err(error) => {
                self.end_by(error);
                true
            }
        })
    }

    /// Ends the work by an exception.
    pub fn end_by(&self, error: PyErr) {
        self.ended_by.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    /// The result of work that ended: the exception, where there is one.
    pub fn or<T, E: Into<Failure>>(&self, result: Result<T, E>) -> Result<T, Failure> {
        match self.ended_by.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(error) => Err(error.into()),
            None => result.map_err(Into::into),
        }
    }
}
