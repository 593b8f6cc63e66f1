//! [`Footprint`]: how much memory one run of the whole model touches, which decides what an
//! operator still finds in the caches.
//!
//! In a network of a few small tensors weights and buffers stay where the last run left them; in a
//! model that fits no cache each operator fetches its weights anew and writes to lines that were
//! thrown out. The same addition of 1 MB was measured at 73 GB/s alone and at 48 GB/s in models. So
//! it is with code: where an engine looks kernels up by their shape, an operator that a model runs
//! once finds nothing of it, one that it runs twelve times does (torch's GELU of 128 to 256 KiB: 85
//! us in synthetic models, which run it once or twice, 20 to 33 us in real ones that run it more
//! often).

use foldhash::HashMap;
use serde::{Deserialize, Serialize};
use vitempo_graph::{Framework, OpSpec, TensorSpec};

/// Exponent of what fits no cache.
const MOST: u8 = 25;
/// Engines that look up code and plan of a kernel by its shape whenever it runs. What of these is
/// still in the caches depends on what ran since an equal kernel did; other engines have made all
/// of it for every kernel before the first run.
const BY_SHAPE: [Framework; 1] = [Framework::Torch];

/// Powers of two of bytes, cut where they fill no more caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Footprint {
    /// All weights, and the activations of the largest operator, whose memory the others use again.
    model: u8,
    /// What of that lies between one run of the operator and the next one of an equal operator,
    /// where the engine looks kernels up by shape.
    apart: u8,
}

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

    /// `other` several times more. Where `times` is negative its weights are less; what remains is
    /// taken to have kernels as large.
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
    pub const LARGE: Self = Self { model: MOST, apart: MOST };

    /// Of kernels that come to `span`.
    #[must_use]
    pub fn within(span: &Span) -> Self {
        Surroundings { span: *span, by_shape: false }.footprint(1)
    }

    /// Of the model, and of what lies between equal operators.
    pub(super) fn exponents(self) -> [f64; 2] {
        [self.model, self.apart].map(f64::from)
    }
}

/// What surrounds the kernels of a model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Surroundings {
    span: Span,
    by_shape: bool,
}

impl Surroundings {
    /// Of kernels and how often each runs.
    pub(crate) fn of<'a>(
        kernels: impl IntoIterator<Item = (&'a OpSpec, usize)>,
        framework: &str,
    ) -> Self {
        let plus = |span: Span, (op, count): (&OpSpec, usize)| {
            span.plus(&Span::of(op), i64::try_from(count).unwrap_or(i64::MAX))
        };
        let span = kernels.into_iter().fold(Span::default(), plus);
        Self { span, by_shape: Framework::named(framework).is_some_and(|f| BY_SHAPE.contains(&f)) }
    }

    /// The footprint that a kernel notices of which the model runs so many.
    pub(crate) fn footprint(&self, count: usize) -> Footprint {
        let runs = if self.by_shape { count.max(1) } else { 1 };
        let bytes = self.span.weights + self.span.largest;
        let exponent = |bytes: f64| (bytes.max(1.0).log2() as u8).min(MOST);
        Footprint { model: exponent(bytes), apart: exponent(bytes / runs as f64) }
    }
}

impl Footprint {
    /// Those that a model's kernels notice, in their order.
    pub(crate) fn of_each(kernels: &[&OpSpec], framework: &str) -> Vec<Self> {
        let around = Surroundings::of(kernels.iter().map(|op| (*op, 1)), framework);
        if !around.by_shape {
            return vec![around.footprint(1); kernels.len()];
        }
        let mut counts: HashMap<&OpSpec, usize> = HashMap::default();
        kernels.iter().for_each(|op| *counts.entry(op).or_default() += 1);
        kernels.iter().map(|op| around.footprint(counts.get(op).copied().unwrap_or(1))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vitempo_graph::{Attributes, OpKind, Operand};

    fn linear(rows: usize, columns: usize) -> OpSpec {
        let operand =
            |shape: Vec<usize>, constant| Operand { tensor: TensorSpec::f32(shape), constant };
        let inputs = vec![operand(vec![1, rows], false), operand(vec![rows, columns], true)];
        OpSpec {
            kind: OpKind::Linear,
            attributes: Attributes::new(),
            inputs,
            outputs: vec![TensorSpec::f32([1, columns])],
        }
    }

    #[test]
    fn weights_add_up_and_activations_take_turns() {
        let op = linear(512, 512);
        let of = |count| Surroundings::of([(&op, count)], "litert").footprint(count).exponents();
        let most = f64::from(MOST);
        assert_eq!(
            [of(1), of(4), of(4000)],
            [[20.0; 2], [22.0; 2], [most; 2]],
            "1 MiB of weights and 4 KiB of activations"
        );
        assert_eq!(Surroundings::of([], "litert").footprint(1).exponents(), [0.0; 2]);
    }

    #[test]
    fn what_is_looked_up_by_shape_was_last_needed_when_an_equal_kernel_ran() {
        let (often, once) = (linear(512, 512), linear(512, 256));
        let kernels = [&often, &once, &often, &often, &often];
        let of_each = |framework| {
            Footprint::of_each(&kernels, framework)
                .iter()
                .map(|f| f.exponents())
                .collect::<Vec<_>>()
        };
        let (hot, cold) = ([22.0, 20.0], [22.0; 2]);
        assert_eq!(
            of_each("torch"),
            [hot, cold, hot, hot, hot],
            "4.5 MiB, a quarter of it between runs"
        );
        assert_eq!(of_each("onnxruntime"), [cold; 5]);
    }
}
