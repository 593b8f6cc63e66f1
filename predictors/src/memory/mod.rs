//! [`EngineMemory`]: the memory that an engine takes for a model, forecast from the kernels that it
//! runs:
//!
//! memory = base + a * weights of products + b * other weights + c * (activations + freed) + d * kernels
//!
//! Weights are read once, and some engines keep a second, packed copy of those of matrix products or
//! convolutions. Activations are the most that is alive at once ([`peak_alive_bytes`]), of which
//! engines need more where memory is fragmented, or, of ONNX Runtime, what its arena has
//! ([`onnxruntime::arena_bytes`]). Of ONNX Runtime, memory that loading frees and that stays with
//! the process counts too ([`onnxruntime::kept_bytes`]). The coefficients of an engine are fitted to
//! measured models ([`fit`]), by least squares of relative errors; none is below 0.
//!
//! Memory is the resident memory that loading and running add to a process in which the engine's
//! library is there already and nothing else runs. It depends on the engine, its version and its
//! precision, and hardly on the processor.

mod fit;
mod peak;

pub use fit::{MeasuredMemory, bounds, fit};

use crate::non_negative;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::LazyLock};
use vitempo_graph::{
    Environment, Framework, Graph, Interval, Precision, Processor, ValueId, ValueSource,
    lowering::onnxruntime, patterns, peak_alive_bytes,
};

/// Share of models whose memory lies in the interval.
pub const LEVEL: f64 = 0.9;
/// The upper end of a peak that has none.
pub const UNBOUNDED_BYTES: u64 = u64::MAX;
/// Number of coefficients.
const COEFFICIENTS: usize = 5;
/// The fits that the program has, as JSON.
const SHIPPED: &str = include_str!("engines.json");

/// What the memory of a model depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryDemand {
    /// Constants that matrix products read, bytes.
    pub product_weights_bytes: u64,
    /// All other constants, bytes.
    pub other_weights_bytes: u64,
    /// Memory for activations, bytes: what ONNX Runtime's arena has, or, of other engines, the most
    /// that is alive at once, inputs and outputs included.
    pub activations_bytes: u64,
    /// Memory that loading frees and that stays with the process, bytes; 0 for other engines than
    /// ONNX Runtime.
    #[serde(default)]
    pub freed_bytes: u64,
    /// Number of kernels.
    pub kernels: u64,
}

impl MemoryDemand {
    /// The demand of a model and the kernels that an engine runs for it.
    #[must_use]
    pub fn of(framework: &str, model: &Graph, kernels: &Graph) -> Self {
        let mut weights: BTreeMap<ValueId, (u64, bool)> = BTreeMap::new();
        for node in kernels.nodes() {
            let is_product = node.op.kind.is_matrix_product();
            for &id in &node.inputs {
                let value = kernels.value(id);
                if let (ValueSource::Constant(_), Some(tensor)) = (&value.source, &value.tensor) {
                    weights.entry(id).or_insert((tensor.size_bytes(), false)).1 |= is_product;
                }
            }
        }
        let bytes = |products: bool| {
            let these = weights.values().filter(|(_, is_product)| *is_product == products);
            these.fold(0, |sum: u64, (bytes, _)| sum.saturating_add(*bytes))
        };
        let (activations_bytes, freed_bytes) = beside_weights(framework, model, kernels);
        Self {
            product_weights_bytes: bytes(true),
            other_weights_bytes: bytes(false),
            activations_bytes,
            freed_bytes,
            kernels: kernels.nodes().len() as u64,
        }
    }

    /// All weights, bytes.
    #[must_use]
    pub const fn weights_bytes(&self) -> u64 {
        self.product_weights_bytes.saturating_add(self.other_weights_bytes)
    }

    /// Memory beside weights, bytes.
    #[must_use]
    pub const fn others_bytes(&self) -> u64 {
        self.activations_bytes.saturating_add(self.freed_bytes)
    }

    fn columns(&self) -> [f64; COEFFICIENTS] {
        let numbers = [
            self.product_weights_bytes,
            self.other_weights_bytes,
            self.others_bytes(),
            self.kernels,
        ];
        let [products, others, activations, kernels] = numbers.map(|number| number as f64);
        [1.0, products, others, activations, kernels]
    }
}

/// Memory for activations, and what loading frees and the process keeps. Kernels that are a list without connections (LiteRT's) say nothing about
/// what is alive: then it is that of the model's operators.
fn beside_weights(framework: &str, model: &Graph, kernels: &Graph) -> (u64, u64) {
    if framework == Framework::OnnxRuntime.name() {
        let arena_bytes = onnxruntime::arena_bytes(kernels);
        return (arena_bytes, onnxruntime::kept_bytes(kernels, arena_bytes));
    }
    let is_list = kernels.inputs().len() > model.inputs().len();
    let alive_bytes = match is_list {
        true => peak_alive_bytes(&patterns::canonicalize(model)),
        false => peak_alive_bytes(kernels),
    };
    (alive_bytes, 0)
}

/// The memory of a model, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MemoryForecast {
    /// What it is forecast from.
    pub demand: MemoryDemand,
    /// Most resident memory that loading and running add to the process. The upper end is
    /// [`UNBOUNDED_BYTES`], in JSON `null`, where it has none.
    #[serde(with = "peak")]
    pub peak_bytes: Interval<u64>,
    /// Share of models whose memory lies in the interval, 0 to 1.
    pub level: f64,
}

impl MemoryForecast {
    /// Upper end of the interval, bytes; `None` where vitempo does not know an operator of the
    /// model.
    #[must_use]
    pub fn upper_bytes(&self) -> Option<u64> {
        Some(self.peak_bytes.upper()).filter(|&bytes| bytes != UNBOUNDED_BYTES)
    }

    /// The same, without an upper end where vitempo does not know an operator of `model`: nothing
    /// of what that needs is in the forecast.
    fn bounded_for(self, model: &Graph) -> Self {
        if model.unsupported().next().is_none() {
            return self;
        }
        let (point, lower) = (self.peak_bytes.point(), self.peak_bytes.lower());
        Self { peak_bytes: Interval::clamped(point, lower, UNBOUNDED_BYTES), ..self }
    }
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EngineMemory {
    /// Name of the engine.
    pub framework: String,
    /// Version that was measured.
    pub framework_version: String,
    /// Precision in which it ran.
    pub precision: Precision,
    /// Models it was fitted to.
    pub models: usize,
    /// Memory of every model, bytes.
    pub base_bytes: f64,
    /// Bytes per byte of the weights of matrix products.
    pub per_product_weight: f64,
    /// Bytes per byte of other weights.
    pub per_other_weight: f64,
    /// Bytes per byte of activations, and of memory that was freed and stays.
    pub per_activation: f64,
    /// Bytes per kernel.
    pub per_kernel_bytes: f64,
    /// Measured / forecast of models left out of the fit: the [`LEVEL`] in the middle of them lies
    /// between these two.
    pub measured_over_forecast: (f64, f64),
}

impl EngineMemory {
    /// The fits that the program has.
    #[must_use]
    pub fn shipped() -> &'static [Self] {
        static SHIPPED_FITS: LazyLock<Vec<EngineMemory>> =
            LazyLock::new(|| serde_json::from_str(SHIPPED).unwrap_or_default());
        &SHIPPED_FITS
    }

    /// The fit that the program has for an environment; `None` where its engine was not measured in
    /// this precision, or its memory is not that of the process.
    #[must_use]
    pub fn of(environment: &Environment) -> Option<&'static Self> {
        let is_host = environment.processor == Processor::Cpu;
        is_host.then(|| Self::named(&environment.framework, environment.precision)).flatten()
    }

    /// The fit that the program has for an engine on a CPU.
    #[must_use]
    pub fn named(framework: &str, precision: Precision) -> Option<&'static Self> {
        Self::shipped().iter().find(|e| e.framework == framework && e.precision == precision)
    }

    /// The memory of a model, from the kernels that the engine runs for it.
    #[must_use]
    pub fn forecast(&self, model: &Graph, kernels: &Graph) -> MemoryForecast {
        self.forecast_of(MemoryDemand::of(&self.framework, model, kernels)).bounded_for(model)
    }

    /// The memory of a model with this demand.
    #[must_use]
    pub fn forecast_of(&self, demand: MemoryDemand) -> MemoryForecast {
        let bytes = self.bytes(&demand);
        let scaled = |factor: f64| (bytes * factor) as u64;
        let (lower, upper) = self.measured_over_forecast;
        let (point, lower, upper) = (scaled(1.0), scaled(lower), scaled(upper));
        MemoryForecast { demand, peak_bytes: Interval::clamped(point, lower, upper), level: LEVEL }
    }

    fn bytes(&self, demand: &MemoryDemand) -> f64 {
        let coefficients = [
            self.base_bytes,
            self.per_product_weight,
            self.per_other_weight,
            self.per_activation,
            self.per_kernel_bytes,
        ];
        non_negative::forecast(&demand.columns(), &coefficients)
    }
}

#[cfg(test)]
mod tests;
