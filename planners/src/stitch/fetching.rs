//! Costs with fetching: reading, compiling and loading subgraphs that are not in memory.

use super::{StitchError, Zoo, loaded::Loaded};
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
}
