//! [`Memory`]: how much memory the requests of all clients may take together, for bodies that were
//! received and answers that were not read yet.
//!
//! The first [`FREE`] bytes of each body and of each answer do not count: the number of connections
//! bounds them, and small requests are answered while large ones take the rest.

use super::problem::Problem;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes of each body and of each answer that do not count.
pub const FREE: usize = 32 << 10;
/// Unit in which memory is handed out, bytes.
pub const PAGE: usize = 1024;

/// Memory that is handed out in shares.
#[derive(Clone, Debug)]
pub struct Memory {
    free: Arc<Semaphore>,
    pages: usize,
}

impl Memory {
    /// So many bytes.
    pub fn new(bytes: usize) -> Self {
        let pages = (bytes / PAGE).clamp(1, Semaphore::MAX_PERMITS);
        Self { free: Arc::new(Semaphore::new(pages)), pages }
    }

    /// Bytes that are handed out.
    pub fn used(&self) -> usize {
        (self.pages - self.free.available_permits().min(self.pages)) * PAGE
    }

    /// Nothing yet.
    pub fn share(&self) -> Share {
        Share { memory: self.clone(), held: None }
    }
}

/// A part of the memory, given back when it is dropped.
#[derive(Debug)]
pub struct Share {
    memory: Memory,
    held: Option<OwnedSemaphorePermit>,
}

impl Share {
    /// Holds at least `bytes`.
    ///
    /// # Errors
    /// 503 where others hold what is missing.
    pub fn grow(&mut self, bytes: usize) -> Result<(), Problem> {
        let held = self.held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let missing = u32::try_from(bytes.div_ceil(PAGE).saturating_sub(held)).unwrap_or(u32::MAX);
        if missing == 0 {
            return Ok(());
        }
        let full =
            |_| Problem::busy("other requests and answers take all memory set aside for them");
        let permit = self.memory.free.clone().try_acquire_many_owned(missing).map_err(full)?;
        match &mut self.held {
            Some(held) => held.merge(permit),
            None => self.held = Some(permit),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_parts_of_one_whole() {
        let memory = Memory::new(4 * PAGE);
        let (mut first, mut second) = (memory.share(), memory.share());
        assert!(first.grow(1).is_ok() && first.grow(PAGE).is_ok());
        assert_eq!(memory.used(), PAGE);
        assert!(second.grow(3 * PAGE + 1).is_err_and(|p| p.detail().contains("memory")));
        assert!(second.grow(3 * PAGE).is_ok());
        assert_eq!(memory.used(), 4 * PAGE);
        drop(first);
        assert!(second.grow(4 * PAGE).is_ok());
        drop(second);
        assert_eq!(memory.used(), 0);
    }
}
