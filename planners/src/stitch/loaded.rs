//! [`Loaded`]: the subgraphs in memory, and their size.

use super::{Order, Task, Zoo};

/// Subgraphs in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// Whether a subgraph is loaded, by task, position and variant.
    subgraphs: Vec<Vec<Vec<bool>>>,
    memory_bytes: u64,
}

impl Loaded {
    /// No subgraphs.
    #[must_use]
    pub fn nothing(zoo: &Zoo) -> Self {
        let rows = |task: &Task| task.subgraphs.iter().map(|row| vec![false; row.len()]).collect();
        Self { subgraphs: zoo.tasks().iter().map(rows).collect(), memory_bytes: 0 }
    }

    /// Every subgraph of every variant: full preloading.
    #[must_use]
    pub fn everything(zoo: &Zoo) -> Self {
        let mut loaded = Self::nothing(zoo);
        for (task, found) in zoo.tasks().iter().enumerate() {
            for (position, row) in found.subgraphs.iter().enumerate() {
                (0..row.len()).for_each(|variant| loaded.load(zoo, task, position, variant));
            }
        }
        loaded
    }

    /// Adds a subgraph, if it exists and is not loaded yet.
    pub fn load(&mut self, zoo: &Zoo, task: usize, position: usize, variant: usize) {
        let slot =
            self.subgraphs.get_mut(task).and_then(|rows| rows.get_mut(position)?.get_mut(variant));
        let subgraph = zoo.tasks().get(task).and_then(|t| t.subgraphs.get(position)?.get(variant));
        if let (Some(slot @ false), Some(subgraph)) = (slot, subgraph) {
            *slot = true;
            self.memory_bytes = self.memory_bytes.saturating_add(subgraph.memory_bytes);
        }
    }

    /// Whether a subgraph is loaded.
    #[must_use]
    pub fn holds(&self, task: usize, position: usize, variant: usize) -> bool {
        self.subgraphs
            .get(task)
            .and_then(|rows| rows.get(position)?.get(variant))
            .copied()
            .unwrap_or(false)
    }

    /// Memory of the loaded subgraphs, bytes.
    #[must_use]
    pub const fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }

    /// Number of loaded subgraphs.
    #[must_use]
    pub fn count(&self) -> usize {
        self.subgraphs.iter().flatten().flatten().filter(|loaded| **loaded).count()
    }

    /// The loaded subgraphs, and all subgraphs of the tasks that cannot run in an order with the
    /// loaded ones: these have to be fetched.
    #[must_use]
    pub fn or_fetched(&self, zoo: &Zoo, order: &Order) -> Self {
        let mut usable = self.clone();
        for (task, found) in zoo.tasks().iter().enumerate() {
            let ready = |position: usize, variant: usize| {
                self.holds(task, position, variant)
                    && zoo.step_ns(task, order, position, variant).is_some()
            };
            let (positions, variants) = (zoo.positions(), found.variants.len());
            if !(0..positions).all(|position| (0..variants).any(|variant| ready(position, variant)))
            {
                (0..positions * variants)
                    .for_each(|at| usable.load(zoo, task, at / variants, at % variants));
            }
        }
        usable
    }
}
