//! [`Meter`]: the quantity that is added up over the kernels of an architecture: latency in the
//! environment of a bundle, or work.

use super::QueryError;
use std::{borrow::Borrow, fmt::Debug};
use vitempo_graph::{Framework, Graph, OpSpec, Prediction, Work};
use vitempo_predictors::{
    AdaptedBundle, Batch, Estimate, PredictorBundle, Tally, WorkingSet, WorkingSetBytes,
    adapt::Sums,
};

/// Relative difference by which sums in another order may differ.
const ROUNDING: f64 = 1e-12;
/// The same of sums in single precision.
const SINGLE_ROUNDING: f32 = 1e-5;

/// Frameworks of which every compared answer agreed: 3500 of ONNX Runtime, 300 of LiteRT, 40 000
/// transformers of rten, 4000 `mbconv` networks of each; `null` lowers nothing.
const LOCAL: [Framework; 5] = [
    Framework::LiteRt,
    Framework::LiteRtBuiltin,
    Framework::Null,
    Framework::OnnxRuntime,
    Framework::Rten,
];

/// Something that adds up over kernels.
pub trait Amount: Clone + Default + Debug {
    /// `other` so many times more.
    #[must_use]
    fn plus(self, other: &Self, times: i64) -> Self;

    /// Whether they are equal but for the rounding of sums in another order.
    fn agrees(&self, other: &Self) -> bool;

    /// Bytes that it takes outside of itself.
    fn heap_bytes(&self) -> usize {
        0
    }
}

/// Gets kernels from graphs, and the amount of each kernel.
pub trait Meter {
    /// What is added up.
    type Amount: Amount;

    /// What of the whole model decides the amounts of its kernels.
    type Context: Copy + Ord + std::hash::Hash + Debug;

    /// The kernels that count, of a model as its file has it.
    ///
    /// # Errors
    /// [`QueryError::Prediction`] where what an engine runs is not known.
    fn kernels(&self, graph: Graph) -> Result<Vec<OpSpec>, QueryError>;

    /// Whether what a part adds depends on no more than what it follows. Otherwise every
    /// answer comes from a graph.
    fn is_local(&self) -> bool {
        true
    }

    /// The context that kernels of that bytes make.
    fn context(&self, bytes: &WorkingSetBytes) -> Self::Context;

    /// The context of each kernel of a model; where [`Meter::is_local`], that of all of them
    /// together.
    fn contexts(&self, kernels: &[OpSpec]) -> Vec<Self::Context>;

    /// What kernels amount to, each in its context, in the order in which `kernels` passes them.
    fn measure(
        &self,
        kernels: impl FnOnce(&mut dyn FnMut(&OpSpec, Self::Context)),
    ) -> Vec<Self::Amount>;
}

/// A meter whose sums give the latency of a model.
pub trait Forecasting: Meter {
    /// The end-to-end latency of a model of whose kernels this is the sum.
    fn end_to_end(&self, sum: &Self::Amount) -> Prediction;
}

/// Whether sums are equal but for rounding; `size` is what they are small or large beside.
fn close(a: f64, b: f64, size: f64) -> bool {
    (a - b).abs() <= ROUNDING * size.abs()
}

impl Amount for Tally {
    fn plus(self, other: &Self, times: i64) -> Self {
        self.plus(other, times)
    }

    fn agrees(&self, other: &Self) -> bool {
        self.kernels == other.kernels
            && close(self.sum_ns, other.sum_ns, other.sum_ns)
            && close(self.expected_error_ns, other.expected_error_ns, other.expected_error_ns)
            && (self.out_of_distribution_ns - other.out_of_distribution_ns).abs()
                <= SINGLE_ROUNDING * other.sum_ns as f32
    }
}

/// Latency as a bundle forecasts it, borrowed or shared.
#[derive(Clone, Copy, Debug)]
pub struct Latencies<B>(pub B);

impl<B: Borrow<PredictorBundle> + Debug> Meter for Latencies<B> {
    type Amount = Tally;
    type Context = WorkingSet;

    fn kernels(&self, graph: Graph) -> Result<Vec<OpSpec>, QueryError> {
        Ok(self.bundle().kernels(&graph)?)
    }

    fn is_local(&self) -> bool {
        Framework::named(&self.bundle().environment.framework)
            .is_some_and(|framework| LOCAL.contains(&framework))
    }

    fn context(&self, bytes: &WorkingSetBytes) -> WorkingSet {
        WorkingSet::within(bytes)
    }

    fn contexts(&self, kernels: &[OpSpec]) -> Vec<WorkingSet> {
        self.bundle().working_sets(kernels)
    }

    fn measure(&self, kernels: impl FnOnce(&mut dyn FnMut(&OpSpec, WorkingSet))) -> Vec<Tally> {
        self.estimates(kernels)
            .into_iter()
            .map(|estimate| Tally::default().with(estimate, 1))
            .collect()
    }
}

impl<B: Borrow<PredictorBundle>> Latencies<B> {
    /// The bundle.
    #[must_use]
    pub fn bundle(&self) -> &PredictorBundle {
        self.0.borrow()
    }

    /// As [`Meter::measure`], before anything is added up.
    pub fn estimates(
        &self,
        kernels: impl FnOnce(&mut dyn FnMut(&OpSpec, WorkingSet)),
    ) -> Vec<Estimate> {
        let mut batch = Batch::new(&self.bundle().predictors);
        kernels(&mut |kernel, working_set| batch.push(kernel, working_set));
        batch.estimates()
    }
}

impl<B: Borrow<PredictorBundle> + Debug> Forecasting for Latencies<B> {
    fn end_to_end(&self, sum: &Tally) -> Prediction {
        self.bundle().end_to_end(sum)
    }
}

impl Amount for Sums {
    fn plus(self, other: &Self, times: i64) -> Self {
        self.plus(other, times as f64)
    }

    fn agrees(&self, other: &Self) -> bool {
        self.agrees(other)
    }

    fn heap_bytes(&self) -> usize {
        self.heap_bytes()
    }
}

/// Latency as an adapted bundle forecasts it, borrowed or shared: what each hypothesis about the
/// device says of the operators, as the model's file has them.
#[derive(Clone, Copy, Debug)]
pub struct AdaptedLatencies<B>(pub B);

impl<B: Borrow<AdaptedBundle> + Debug> Meter for AdaptedLatencies<B> {
    type Amount = Sums;
    type Context = ();

    fn kernels(&self, graph: Graph) -> Result<Vec<OpSpec>, QueryError> {
        Ok(self.0.borrow().operators(graph)?)
    }

    fn context(&self, _: &WorkingSetBytes) {}

    fn contexts(&self, kernels: &[OpSpec]) -> Vec<()> {
        vec![(); kernels.len()]
    }

    fn measure(&self, kernels: impl FnOnce(&mut dyn FnMut(&OpSpec, ()))) -> Vec<Sums> {
        let charges = self.0.borrow().charges();
        let mut sums = Vec::new();
        kernels(&mut |kernel, ()| sums.push(charges.operator(kernel)));
        sums
    }
}

impl<B: Borrow<AdaptedBundle> + Debug> Forecasting for AdaptedLatencies<B> {
    fn end_to_end(&self, sum: &Sums) -> Prediction {
        self.0.borrow().end_to_end(sum)
    }
}

/// FLOPs and parameters of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Size {
    /// Floating-point operations, as [`Work`] counts them.
    pub flops: f64,
    /// Elements of weights.
    pub parameters: f64,
}

impl Amount for Size {
    fn plus(self, other: &Self, times: i64) -> Self {
        let factor = times as f64;
        Self {
            flops: self.flops + factor * other.flops,
            parameters: self.parameters + factor * other.parameters,
        }
    }

    fn agrees(&self, other: &Self) -> bool {
        close(self.flops, other.flops, other.flops)
            && close(self.parameters, other.parameters, other.parameters)
    }
}

/// Work, whatever runs it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sizes;

impl Meter for Sizes {
    type Amount = Size;
    type Context = ();

    fn kernels(&self, graph: Graph) -> Result<Vec<OpSpec>, QueryError> {
        Ok(graph.into_nodes().into_iter().map(|node| node.op).collect())
    }

    fn context(&self, _: &WorkingSetBytes) {}

    fn contexts(&self, kernels: &[OpSpec]) -> Vec<()> {
        vec![(); kernels.len()]
    }

    fn measure(&self, kernels: impl FnOnce(&mut dyn FnMut(&OpSpec, ()))) -> Vec<Size> {
        let mut sizes = Vec::new();
        kernels(&mut |kernel, ()| {
            let work = Work::of_operator(kernel);
            sizes.push(Size { flops: work.flops as f64, parameters: work.params as f64 });
        });
        sizes
    }
}
