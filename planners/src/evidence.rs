//! [`Evidence`]: the level of evidence of a figure. Every printed figure has its level, so that a
//! comparison of different levels is visible.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The origin of a figure, weakest claim about this machine first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// Printed in a paper, or recomputed from printed figures.
    PaperTable,
    /// A sum over given costs; no model ran.
    CostModel,
    /// The discrete-event simulator, with stated constants.
    Simulation,
    /// Recorded latencies replayed under another policy; holds where choices do not interfere.
    TraceReplay,
    /// Measured by a run on the named machine.
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
