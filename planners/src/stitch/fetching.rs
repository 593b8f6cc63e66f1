//! Costs with fetching: reading, compiling and loading subgraphs that are not in memory.

use super::{Order, StitchError, Zoo, loaded::Loaded};
use crate::cost::Interval;

impl Zoo {
    /// The same tasks, in which the latency of a usable subgraph that is not loaded includes fetching
    /// it.
    ///
    /// # Errors
    /// [`StitchError::LoadingUnknown`] naming a subgraph whose time of loading is not known.
    pub fn with_fetching(&self, loaded: &Loaded, usable: &Loaded) -> Result<Self, StitchError> {
        let mut zoo = self.clone();
        for (task, found) in zoo.tasks.iter_mut().enumerate() {
            for (position, row) in found.subgraphs.iter_mut().enumerate() {
                for (variant, subgraph) in row.iter_mut().enumerate() {
                    let is_fetched = usable.holds(task, position, variant)
                        && !loaded.holds(task, position, variant);
                    if !is_fetched {
                        continue;
                    }
                    for (processor, ns) in subgraph.latency_ns.iter_mut().enumerate() {
                        let fetch = self.fetch_ns((task, position, variant), processor)?;
                        *ns = ns.map(|ns| ns + Interval::exact(fetch));
                    }
                }
            }
        }
        Ok(zoo)
    }

    /// The same tasks for plans in one order, in which a subgraph that is not loaded can be used as
    /// well: its latency includes fetching it. One whose time of loading is not known runs only
    /// where it is loaded.
    ///
    /// # Errors
    /// [`StitchError::Zoo`] for an order that does not fit; [`StitchError::LoadingUnknown`] for a
    /// task that can run in the order only with a subgraph whose time of loading is not known.
    pub fn fetching_in(&self, order: &Order, loaded: &Loaded) -> Result<Self, StitchError> {
        self.check_order(order)?;
        let zoo = self.with_known_fetches(order, loaded);
        for task in 0..self.tasks.len() {
            let (all, known) = (self.parts(task, order), zoo.parts(task, order));
            for (position, (all, known)) in all.iter().zip(&known).enumerate() {
                if let (Some(part), true) = (all.first(), known.is_empty()) {
                    let processor = order.processors()[position];
                    self.fetch_ns((task, position, part.variant), processor)?;
                }
            }
        }
        Ok(zoo)
    }

    /// [`Zoo::fetching_in`], also where a task cannot run.
    pub(super) fn with_known_fetches(&self, order: &Order, loaded: &Loaded) -> Self {
        let mut zoo = self.clone();
        for (task, found) in zoo.tasks.iter_mut().enumerate() {
            for (position, (row, &processor)) in
                found.subgraphs.iter_mut().zip(order.processors()).enumerate()
            {
                for (variant, subgraph) in row.iter_mut().enumerate() {
                    if loaded.holds(task, position, variant) {
                        continue;
                    }
                    let fetch = subgraph.fetch_ns(processor).map(Interval::exact);
                    if let Some(ns) = subgraph.latency_ns.get_mut(processor) {
                        *ns = ns.zip(fetch).map(|(ns, fetch)| ns + fetch);
                    }
                }
            }
        }
        zoo
    }
}
