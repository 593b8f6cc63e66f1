//! [`Fetching`]: the time of compiling and loading a subgraph that is not in memory.

use super::{Zoo, loaded::Loaded};
use crate::{cost::Interval, simulator::constants::Constants};

/// Time of fetching a subgraph, in multiples of its run time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fetching {
    /// Compiling; 0 where all subgraphs are already compiled and stored.
    pub compile: f64,
    /// Loading a compiled subgraph.
    pub load: f64,
}

impl From<&Constants> for Fetching {
    fn from(constants: &Constants) -> Self {
        Self { compile: constants.compile_inferences, load: constants.switch_inferences }
    }
}

impl Zoo {
    /// The same tasks, in which the latency of a subgraph that is not loaded includes fetching it:
    /// its measured time, else multiples of its run time.
    #[must_use]
    pub fn with_fetching(&self, loaded: &Loaded, fetching: Fetching) -> Self {
        let mut zoo = self.clone();
        for (task, found) in zoo.tasks.iter_mut().enumerate() {
            for (position, row) in found.subgraphs.iter_mut().enumerate() {
                for (variant, subgraph) in row.iter_mut().enumerate() {
                    if !loaded.holds(task, position, variant) {
                        let multiple = 1.0 + fetching.compile + fetching.load;
                        let measured =
                            subgraph.load_ns.iter().copied().chain(std::iter::repeat(None));
                        for (ns, measured) in subgraph.latency_ns.iter_mut().zip(measured) {
                            *ns = ns.map(|ns| match measured {
                                Some(load) => ns + Interval::exact(load),
                                None => ns.times(multiple),
                            });
                        }
                    }
                }
            }
        }
        zoo
    }
}
