//! [`WorkingSet`]: the memory that one run of the whole model touches, and the reuse distance of
//! its operators (Mattson et al. 1970, doi:10.1147/sj.92.0078). They determine how much of an
//! operator's data is still in the caches.
//!
//! In a network of a few small tensors, weights and buffers stay in the caches between runs. In a
//! model larger than the caches, each operator loads its weights from memory. An addition of 1 MB
//! runs at 73 GB/s alone and at 48 GB/s in models. The same holds for code: if an engine looks
//! kernels up by shape, the code of an operator that a model runs once is not in the caches, but
//! that of an operator that it runs twelve times is (torch's GELU of 128 to 256 KiB: 85 us in
//! synthetic models, which run it once or twice, 20 to 33 us in real models, which run it more
//! often). Most of this code is common to a kind, whatever the shape: torch's call of GELU costs
//! some 6 us where the model touches less than 1 MiB between two of them, 70 us where it touches
//! 32 MiB or more.

use foldhash::HashMap;
use serde::{Deserialize, Serialize};
use vitempo_graph::{Environment, Framework, OpKind, OpSpec, Processor, TensorSpec};

/// Largest exponent: 32 MiB, more than the caches hold.
const MOST: u8 = 25;
/// Exponent of 1 MiB, an L2 cache: code that was used within it is still there.
const LEAST: u8 = 20;
/// What a call costs with its code in the caches, beside one with its code in memory.
const WARM: f64 = 0.1;

/// The column behind those of each family.
pub(super) const COLUMNS: &[&str] = &["calls"];

/// Engines that look up code and plan of a kernel on the CPU by its shape whenever it runs, so that
/// the reuse distance matters. Other engines prepare every kernel before the first run, and what
/// runs on a GPU is there as a whole.
const BY_SHAPE: [Framework; 1] = [Framework::Torch];

fn by_shape(environment: &Environment) -> bool {
    environment.processor == Processor::Cpu
        && Framework::named(&environment.framework).is_some_and(|f| BY_SHAPE.contains(&f))
}

/// Working set and reuse distances as powers of two of bytes, up to 32 MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct WorkingSet {
    /// All weights, and the activations of the largest operator, whose memory the others reuse.
    model: u8,
    /// The part of it between two runs of equal operators, if the engine looks kernels up by shape.
    #[serde(rename = "apart")]
    reuse_distance: u8,
    /// The part of it between two runs of operators of one kind, if the engine looks kernels up by
    /// shape; [`MOST`] otherwise.
    #[serde(default = "most")]
    code_distance: u8,
}

fn most() -> u8 {
    MOST
}

/// Bytes that kernels add to a working set. They add up over kernels and over parts of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WorkingSetBytes {
    /// All weights.
    pub weights: f64,
    /// Activations of the largest kernel.
    pub largest: f64,
}

impl WorkingSetBytes {
    /// Of one kernel.
    #[must_use]
    pub fn of(op: &OpSpec) -> Self {
        Self { weights: bytes(op.weights()), largest: bytes(op.activations().chain(&op.outputs)) }
    }

    /// `other` several times more. A negative `times` subtracts its weights; the largest kernel is
    /// assumed to remain.
    #[must_use]
    pub fn plus(self, other: &Self, times: i64) -> Self {
        let largest = if times > 0 { self.largest.max(other.largest) } else { self.largest };
        Self { weights: self.weights + other.weights * times as f64, largest }
    }
}

fn bytes<'a>(tensors: impl Iterator<Item = &'a TensorSpec>) -> f64 {
    tensors.map(|t| t.size_bytes() as f64).sum()
}

impl WorkingSet {
    /// That of a model larger than the caches.
    pub const LARGE: Self = Self { model: MOST, reuse_distance: MOST, code_distance: MOST };

    /// Of kernels with these bytes.
    #[must_use]
    pub fn within(bytes: &WorkingSetBytes) -> Self {
        let model = exponent(bytes.weights + bytes.largest);
        Self { model, reuse_distance: model, code_distance: MOST }
    }

    /// What a call costs beside one whose code is in memory: [`WARM`] to 1, by the distance between
    /// two runs of its kind.
    pub(super) fn calls(self) -> f64 {
        let beyond = f64::from(self.code_distance.saturating_sub(LEAST));
        WARM + (1.0 - WARM) * beyond / f64::from(MOST - LEAST)
    }

    /// Exponents of the working set and of the reuse distance.
    pub(super) fn exponents(self) -> [f64; 2] {
        [self.model, self.reuse_distance].map(f64::from)
    }
}

/// The kernels of a model together.
#[derive(Clone, Debug)]
pub(crate) struct Surroundings<'a> {
    bytes: WorkingSetBytes,
    /// Kernels by kind; `None` if the engine prepares them before the first run.
    kinds: Option<HashMap<&'a OpKind, usize>>,
}

/// The largest power of two in a number of bytes, as far as caches matter.
fn exponent(bytes: f64) -> u8 {
    ((bytes.max(1.0) as u64).ilog2() as u8).min(MOST)
}

impl<'a> Surroundings<'a> {
    /// Of kernels and how often each runs.
    pub(crate) fn of(
        kernels: impl IntoIterator<Item = (&'a OpSpec, usize)>,
        environment: &Environment,
    ) -> Self {
        Self::looked_up(kernels, by_shape(environment))
    }

    fn looked_up(kernels: impl IntoIterator<Item = (&'a OpSpec, usize)>, by_shape: bool) -> Self {
        let mut around =
            Self { bytes: WorkingSetBytes::default(), kinds: by_shape.then(HashMap::default) };
        for (op, count) in kernels {
            let times = i64::try_from(count).unwrap_or(i64::MAX);
            around.bytes = around.bytes.plus(&WorkingSetBytes::of(op), times);
            if let Some(kinds) = &mut around.kinds {
                *kinds.entry(&op.kind).or_default() += count;
            }
        }
        around
    }

    /// The working set for a kernel that the model runs this many times.
    pub(crate) fn working_set(&self, op: &OpSpec, count: usize) -> WorkingSet {
        let model = WorkingSet::within(&self.bytes);
        let Some(kinds) = &self.kinds else { return model };
        let bytes = self.bytes.weights + self.bytes.largest;
        let between = |runs: usize| exponent(bytes / runs.max(1) as f64);
        WorkingSet {
            reuse_distance: between(count),
            code_distance: between(kinds.get(&op.kind).copied().unwrap_or(1)),
            ..model
        }
    }
}

impl WorkingSet {
    /// Those of a model's kernels, in their order.
    pub(crate) fn of_each(kernels: &[&OpSpec], environment: &Environment) -> Vec<Self> {
        Self::looked_up(kernels, by_shape(environment))
    }

    fn looked_up(kernels: &[&OpSpec], by_shape: bool) -> Vec<Self> {
        let around = Surroundings::looked_up(kernels.iter().map(|op| (*op, 1)), by_shape);
        if !by_shape {
            return vec![Self::within(&around.bytes); kernels.len()];
        }
        let mut counts: HashMap<&OpSpec, usize> = HashMap::default();
        kernels.iter().for_each(|op| *counts.entry(op).or_default() += 1);
        let count = |op: &OpSpec| counts.get(op).copied().unwrap_or(1);
        kernels.iter().map(|op| around.working_set(op, count(op))).collect()
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
    fn weights_add_up_and_activations_share_memory() {
        let op = linear(512, 512);
        let of = |count| {
            Surroundings::looked_up([(&op, count)], false).working_set(&op, count).exponents()
        };
        let most = f64::from(MOST);
        assert_eq!(
            [of(1), of(4), of(4000)],
            [[20.0; 2], [22.0; 2], [most; 2]],
            "1 MiB of weights and 4 KiB of activations"
        );
        assert_eq!(Surroundings::looked_up([], false).working_set(&op, 1).exponents(), [0.0; 2]);
    }

    #[test]
    fn the_reuse_distance_counts_for_engines_that_look_kernels_up_by_shape() {
        let (often, once) = (linear(512, 512), linear(512, 256));
        let kernels = [&often, &once, &often, &often, &often];
        let of_each = |by_shape| {
            WorkingSet::looked_up(&kernels, by_shape)
                .iter()
                .map(|f| f.exponents())
                .collect::<Vec<_>>()
        };
        let (hot, cold) = ([22.0, 20.0], [22.0; 2]);
        assert_eq!(
            of_each(true),
            [hot, cold, hot, hot, hot],
            "4.5 MiB, a quarter of it between runs"
        );
        assert_eq!(of_each(false), [cold; 5]);
    }

    #[test]
    fn a_call_costs_less_the_sooner_its_kind_runs_again() {
        let softmax = OpSpec { kind: OpKind::Softmax, ..linear(8, 8) };
        // 16 MiB of weights in all, and no shape twice.
        let calls = |parts: usize, by_shape| {
            let linears: Vec<OpSpec> = (0..parts).map(|i| linear(4096 / parts, 1024 + i)).collect();
            let kernels: Vec<&OpSpec> = linears.iter().chain([&softmax]).collect();
            let sets = WorkingSet::looked_up(&kernels, by_shape);
            (sets[0].calls(), sets[parts].calls())
        };
        let beyond = |levels: f64| WARM + (1.0 - WARM) * levels / 5.0;
        let near = |(a, b): (f64, f64), (c, d): (f64, f64)| (a - c).abs() + (b - d).abs() < 1e-12;
        assert!(near(calls(1, true), (beyond(4.0), beyond(4.0))));
        assert!(near(calls(4, true), (beyond(2.0), beyond(4.0))), "of its kind, not of its shape");
        assert!(near(calls(64, true), (WARM, beyond(4.0))));
        assert_eq!(calls(64, false), (1.0, 1.0), "prepared before the first run");
        assert_eq!(WorkingSet::LARGE.calls(), 1.0);
    }
}
