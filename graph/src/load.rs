//! [`LoadRecord`]: the load that ran on other cores while a model was measured, and the traffic and
//! arithmetic that it did. Rates are per second of wall-clock time.

use crate::{OpSpec, TensorSpec};
use serde::{Deserialize, Serialize};

/// Memory traffic and arithmetic per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceRates {
    /// Bytes that operators read and write per second. Of a stream these come from memory; of a
    /// model, part of them are in caches.
    pub bytes_per_s: u64,
    /// Floating-point operations per second.
    pub flops_per_s: u64,
}

/// What ran beside a model run. [`Environment::beside`](crate::Environment::beside) names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadRecord {
    /// Logical cores that it was pinned to; none of them is a core of the measured model.
    pub cores: Vec<usize>,
    /// Memory that one pass of it touches, bytes.
    pub footprint_bytes: u64,
    /// Last-level cache of its core, bytes; `None` where the system does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_bytes: Option<u64>,
    /// Its rates before anything was measured beside it.
    pub alone: ResourceRates,
    /// Its rates during this model run.
    pub during: ResourceRates,
    /// End-to-end latencies of the model just before this model run, while the load rested, ns;
    /// empty where they were not measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub model_alone_ns: Vec<u64>,
}

/// Memory that one run of these kernels touches, bytes: all weights, and the activations of the
/// largest kernel, whose memory the others reuse.
#[must_use]
pub fn footprint_bytes<'o>(kernels: impl IntoIterator<Item = &'o OpSpec>) -> u64 {
    let total = |tensors: &mut dyn Iterator<Item = &TensorSpec>| {
        tensors.map(TensorSpec::size_bytes).fold(0, u64::saturating_add)
    };
    let (mut weights, mut largest) = (0_u64, 0);
    for op in kernels {
        weights = weights.saturating_add(total(&mut op.weights()));
        largest = total(&mut op.activations().chain(&op.outputs)).max(largest);
    }
    weights.saturating_add(largest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Attributes, OpKind, Operand};

    #[test]
    fn weights_add_up_and_activations_share_memory() {
        let operand =
            |shape: [usize; 2], constant| Operand { tensor: TensorSpec::f32(shape), constant };
        let linear = |columns: usize| OpSpec {
            kind: OpKind::Linear,
            attributes: Attributes::new(),
            inputs: vec![operand([1, 64], false), operand([64, columns], true)],
            outputs: vec![TensorSpec::f32([1, columns])],
        };
        let (small, large) = (linear(16), linear(256));
        let weights = 4 * 64 * (16 + 256);
        assert_eq!(footprint_bytes([&small, &large]), weights + 4 * (64 + 256));
        assert_eq!(footprint_bytes([]), 0);
    }
}
