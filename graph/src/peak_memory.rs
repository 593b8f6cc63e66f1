//! [`PeakFault`]: why a peak of resident memory is not a measurement of a model's run. In bytes.
//!
//! A worker that reuses memory of an earlier model adds little or nothing to its resident memory,
//! so that the peak is too low. A peak of 0, or one below the weights alone, shows that.

use crate::{Graph, Precision, work::weights_bytes};

/// Why a peak is not a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeakFault {
    /// Nothing was added to the resident memory.
    #[error("a peak memory of 0 B is not a measurement")]
    Zero,
    /// The weights alone take more.
    #[error(
        "a peak memory of {peak_bytes} B is below the {weights_bytes} B of the model's weights"
    )]
    BelowWeights {
        /// The peak.
        peak_bytes: u64,
        /// The least that the weights take.
        weights_bytes: u64,
    },
}

impl PeakFault {
    /// Of the peak of a model that ran in `precision`; without its graph only 0 is a fault.
    #[must_use]
    pub fn of(peak_bytes: u64, graph: Option<&Graph>, precision: Precision) -> Option<Self> {
        let weights_bytes = graph.map_or(0, |graph| weights_bytes(graph, precision));
        match peak_bytes {
            0 => Some(Self::Zero),
            _ if peak_bytes < weights_bytes => {
                Some(Self::BelowWeights { peak_bytes, weights_bytes })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GraphBuilder, OpKind, TensorSpec};

    #[test]
    fn a_peak_holds_the_weights_at_least() {
        let mut b = GraphBuilder::new("scaled");
        let x = b.input("x", TensorSpec::f32([2, 8]));
        let weight = b.weight("w", TensorSpec::f32([8]));
        let Ok(y) = b.binary("scale", OpKind::Mul, x, weight) else { panic!("Mul broadcasts") };
        let Ok(graph) = b.finish(vec![y]) else { panic!("one node is a graph") };
        let below =
            |peak_bytes, weights_bytes| Some(PeakFault::BelowWeights { peak_bytes, weights_bytes });
        for (peak, graph, precision, fault) in [
            (0, None, Precision::F32, Some(PeakFault::Zero)),
            (1, None, Precision::F32, None),
            (0, Some(&graph), Precision::F32, Some(PeakFault::Zero)),
            (31, Some(&graph), Precision::F32, below(31, 32)),
            (32, Some(&graph), Precision::F32, None),
            (31, Some(&graph), Precision::I8, None),
            (7, Some(&graph), Precision::I8, below(7, 8)),
            (31, Some(&graph), Precision::I64, below(31, 32)),
        ] {
            assert_eq!(PeakFault::of(peak, graph, precision), fault, "{peak} {precision}");
        }
    }
}
