//! [`Evidence`]: how strong a figure is. Every figure that is printed says its level; figures of
//! different levels are not compared silently.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Where a figure comes from, weakest claim about this machine first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// Printed in a paper, or recomputed from what is printed there.
    PaperTable,
    /// A sum over given costs; nothing ran.
    CostModel,
    /// The discrete-event simulator, with stated constants.
    Simulation,
    /// Recorded latencies replayed under another policy; holds where choices do not interfere.
    TraceReplay,
    /// Run for real, on the machine that is named.
    Live,
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::PaperTable => "paper table",
            Self::CostModel => "cost model",
            Self::Simulation => "simulation",
            Self::TraceReplay => "trace replay",
            Self::Live => "live",
        })
    }
}
