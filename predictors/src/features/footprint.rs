//! [`Footprint`]: how much memory one run of the whole model touches, which decides what an operator still finds in the caches.
//!
//! In a network of a few small tensors weights and buffers stay where the last run left them; in a model that fits no cache each operator fetches its
//! weights anew and writes to lines that were thrown out. The same addition of 1 MB was measured at 73 GB/s alone and at 48 GB/s in models.

use serde::{Deserialize, Serialize};
use vitempo_graph::{OpSpec, TensorSpec};

/// Bytes of all weights and of the activations of the largest operator, whose memory the others use again, as a power of two; cut where they fill no more caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Footprint(u8);

/// What kernels add to a footprint, bytes. It adds up over kernels as over parts of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Span {
    /// All weights.
    pub weights: f64,
    /// Activations of the largest kernel.
    pub largest: f64,
}

impl Span {
    /// Of one kernel.
    #[must_use]
    pub fn of(op: &OpSpec) -> Self {
        Self { weights: bytes(op.weights()), largest: bytes(op.activations().chain(&op.outputs)) }
    }

    /// `other` several times more. Where `times` is negative its weights are less; what remains is taken to have kernels as large.
    #[must_use]
    pub fn plus(self, other: &Self, times: i64) -> Self {
        let largest = if times > 0 { self.largest.max(other.largest) } else { self.largest };
        Self { weights: self.weights + other.weights * times as f64, largest }
    }
}

fn bytes<'a>(tensors: impl Iterator<Item = &'a TensorSpec>) -> f64 {
    tensors.map(|t| t.size_bytes() as f64).sum()
}

impl Footprint {
    /// That of a model that fits no cache.
    pub const LARGE: Self = Self(25);

    /// Of kernels and how often each runs.
    pub fn of<'a>(kernels: impl IntoIterator<Item = (&'a OpSpec, usize)>) -> Self {
        let plus = |span: Span, (op, count): (&OpSpec, usize)| span.plus(&Span::of(op), i64::try_from(count).unwrap_or(i64::MAX));
        Self::within(&kernels.into_iter().fold(Span::default(), plus))
    }

    /// Of kernels that come to `span`.
    #[must_use]
    pub fn within(span: &Span) -> Self {
        Self(((span.weights + span.largest).max(1.0).log2() as u8).min(Self::LARGE.0))
    }

    /// Power of two.
    pub(super) fn exponent(self) -> f64 {
        f64::from(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vitempo_graph::{Attributes, OpKind, Operand};

    fn linear(rows: usize, columns: usize) -> OpSpec {
        let operand = |shape: Vec<usize>, constant| Operand { tensor: TensorSpec::f32(shape), constant };
        let inputs = vec![operand(vec![1, rows], false), operand(vec![rows, columns], true)];
        OpSpec { kind: OpKind::Linear, attributes: Attributes::new(), inputs, outputs: vec![TensorSpec::f32([1, columns])] }
    }

    #[test]
    fn weights_add_up_and_activations_take_turns() {
        let op = linear(512, 512);
        let of = |count| Footprint::of([(&op, count)]).exponent();
        assert_eq!([of(1), of(4), of(4000)], [20.0, 22.0, Footprint::LARGE.exponent()], "1 MiB of weights and 4 KiB of activations");
        assert_eq!(Footprint::of([]).exponent(), 0.0);
    }
}
