//! The slowdown of kernels while another processor is busy: [`SlowdownModel`].
//!
//! `ModelProfile`s alone and beside loads -> [`fit()`] -> [`SlowdownModel`] -> the latency of a
//! model beside another one, which need not have been measured together.
//!
//! Both sides are described by what they demand of shared resources. A kernel has the shares of
//! peak arithmetic and peak memory traffic that it reaches alone ([`Intensity`]); its neighbour has
//! the same rates, averaged over time, and its share of the last-level cache ([`Pressure`]). The
//! excess of a kernel's slowdown over 1 is a sum of products of the two with coefficients of at
//! least 0 ([`Form`]). Cross-validation over loads chooses the products. PCCS (Xu et al., MICRO
//! 2021) and HaX-CoNN (Dagli and Belviranli, PPoPP 2024) have memory traffic alone, with three
//! regions; `excess` is the nearest form to theirs.
//!
//! | question | where |
//! |---|---|
//! | what do kernels and their neighbours demand? | [`Demand`], [`Kernel`], `form` |
//! | how is a model forecast beside another? | [`SlowdownModel`] |
//! | how is it fitted and chosen? | `fit`, `least_squares` |
//!
//! Times are ns, sizes bytes, rates per second.

#[cfg(feature = "train")]
mod fit;
mod form;
#[cfg(feature = "train")]
mod least_squares;
mod model;

#[cfg(feature = "train")]
pub use fit::{ContentionError, fit};
pub use form::{Form, Intensity, Pressure};
pub use model::{BesidePrediction, FittedLoad, FormError, Peaks, SlowdownModel};

use serde::{Deserialize, Serialize};
use vitempo_graph::{
    Budget, Graph, GraphPrediction, LatencyModel, LoadRecord, OpSpec, PredictionError, Work,
    footprint_bytes,
};

/// What a busy processor demands of resources that processors share, averaged over time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Demand {
    /// Floating-point operations per second.
    pub flops_per_s: f64,
    /// Bytes read and written per second, from caches or memory.
    pub bytes_per_s: f64,
    /// Memory touched over and over, bytes.
    pub footprint_bytes: f64,
}

/// A kernel that runs alone.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Kernel {
    /// Its latency alone, ns.
    pub ns: f64,
    /// Floating-point operations.
    pub flops: f64,
    /// Bytes read and written.
    pub bytes: f64,
    /// Bytes of weights among them.
    pub weight_bytes: f64,
}

impl Kernel {
    /// Of an operator as the framework runs it.
    #[must_use]
    pub fn new(op: &OpSpec, ns: f64) -> Self {
        let work = Work::of_operator(op);
        let bytes = work.bytes_read.saturating_add(work.bytes_written) as f64;
        let weights: f64 = op.weights().map(|weight| weight.size_bytes() as f64).sum();
        Self { ns, flops: work.flops as f64, bytes, weight_bytes: weights.min(bytes) }
    }

    /// The kernels of a forecast; `lowered` is the graph that it lists.
    #[must_use]
    pub fn of_forecast(lowered: &Graph, forecast: &GraphPrediction) -> Vec<Self> {
        let each = lowered.nodes().iter().zip(&forecast.operators);
        each.map(|(node, operator)| Self::new(&node.op, operator.latency_ns.ns())).collect()
    }
}

impl Demand {
    /// Of a load, by its rates alone.
    #[must_use]
    pub fn of_load(record: &LoadRecord) -> Self {
        Self {
            flops_per_s: record.alone.flops_per_s as f64,
            bytes_per_s: record.alone.bytes_per_s as f64,
            footprint_bytes: record.footprint_bytes as f64,
        }
    }

    /// Of a model that runs again and again in the forecaster's environment.
    ///
    /// # Errors
    /// [`PredictionError`] where it has no forecast.
    pub fn of_model(forecaster: &dyn LatencyModel, graph: &Graph) -> Result<Self, PredictionError> {
        let (lowered, forecast) = forecaster.predict_lowered(graph, &Budget::default())?;
        Ok(Self::of_kernels(&lowered, forecast.latency.point().ns()))
    }

    /// Of kernels that together take this long.
    #[must_use]
    pub fn of_kernels(lowered: &Graph, latency_ns: f64) -> Self {
        let ops = || lowered.nodes().iter().map(|node| &node.op);
        let work: Work = ops().map(Work::of_operator).sum();
        let per_s = |count: u64| count as f64 * 1e9 / latency_ns.max(1.0);
        Self {
            flops_per_s: per_s(work.flops),
            bytes_per_s: per_s(work.bytes_read.saturating_add(work.bytes_written)),
            footprint_bytes: footprint_bytes(ops()) as f64,
        }
    }

    /// The mean of several that take turns, each for its share of the time. `None` without any.
    #[must_use]
    pub fn mean(of: &[(f64, Self)]) -> Option<Self> {
        let total: f64 = of.iter().map(|(share, _)| share).sum();
        let mean = |value: fn(&Self) -> f64| {
            of.iter().map(|(share, demand)| share * value(demand)).sum::<f64>() / total
        };
        (total > 0.0).then(|| Self {
            flops_per_s: mean(|d| d.flops_per_s),
            bytes_per_s: mean(|d| d.bytes_per_s),
            footprint_bytes: mean(|d| d.footprint_bytes),
        })
    }

    pub(crate) fn is_valid(&self) -> bool {
        let numbers = [self.flops_per_s, self.bytes_per_s, self.footprint_bytes];
        numbers.iter().all(|n| n.is_finite() && *n >= 0.0 && *n < 1e18)
    }
}
