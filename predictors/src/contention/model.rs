//! [`SlowdownModel`]: how much longer kernels take while another processor is busy.

use super::{Demand, Form, Intensity, Kernel, Pressure};
use crate::elementary;
use serde::{Deserialize, Serialize};
use vitempo_graph::{
    Graph, GraphPrediction, Interval, Latency, OperatorPrediction, Prediction, Processor,
};

/// No kernel was ever measured to be slowed down so much.
const MOST: f64 = 100.0;

/// The rates that count as 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Peaks {
    /// Arithmetic.
    pub flops_per_s: f64,
    /// Memory traffic.
    pub bytes_per_s: f64,
    /// The last-level cache.
    pub cache_bytes: f64,
}

/// A load that the model was fitted to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FittedLoad {
    /// Its name in [`vitempo_graph::Environment::beside`].
    pub load: String,
    /// What it demands alone.
    pub demand: Demand,
    /// Models measured beside it.
    pub models: usize,
    /// Their mean slowdown.
    pub slowdown: f64,
    /// Mean error of the slowdown when this load is left out of the fit, a share.
    pub error: f64,
    /// The same where no contention is assumed.
    pub error_of_none: f64,
}

/// The error of a form in cross-validation over loads.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FormError {
    /// The form.
    pub form: Form,
    /// Mean error of the slowdown, a share.
    pub error: f64,
}

/// How much longer the kernels of one environment take while another processor is busy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SlowdownModel {
    /// The other processor, of the same device.
    pub other: Processor,
    /// The form with the least error in cross-validation over loads.
    pub form: Form,
    /// Of each product of the form, at least 0.
    pub coefficients: Vec<f64>,
    /// What counts as 1.
    pub peaks: Peaks,
    /// The largest slowdown of a kernel or model in the fit; no forecast is above it.
    pub largest: f64,
    /// Forecasts of slowdowns cover the truth with this probability, within `log_error`.
    pub level: f64,
    /// Quantile of `|ln(actual / forecast)|` of models beside loads left out of the fit.
    pub log_error: f64,
    /// The loads.
    pub loads: Vec<FittedLoad>,
    /// Every form's error.
    pub forms: Vec<FormError>,
}

/// A model's forecast beside a neighbour.
#[derive(Clone, Debug, PartialEq)]
pub struct BesidePrediction {
    /// The factor by which the whole model is slower than alone.
    pub slowdown: Interval<f64>,
    /// Its forecast beside the neighbour.
    pub prediction: GraphPrediction,
}

impl SlowdownModel {
    /// The slowdown of one kernel beside a neighbour; at least 1.
    #[must_use]
    pub fn of_kernel(&self, kernel: &Kernel, beside: &Demand) -> f64 {
        self.factor(kernel, &Pressure::of(beside, &self.peaks))
    }

    fn factor(&self, kernel: &Kernel, by: &Pressure) -> f64 {
        let products = self.form.products(&Intensity::of(kernel, &self.peaks), by);
        let excess: f64 = products.iter().zip(&self.coefficients).map(|(p, c)| p * c).sum();
        (1.0 + excess).min(self.largest)
    }

    /// The slowdown of kernels that run one after the other: the mean over their time, with its
    /// interval. 1 without kernels.
    #[must_use]
    pub fn of_kernels(&self, kernels: &[Kernel], beside: &Demand) -> Interval<f64> {
        let by = Pressure::of(beside, &self.peaks);
        let (alone, slower) = kernels.iter().fold((0.0, 0.0), |(alone, slower), kernel| {
            (alone + kernel.ns, slower + kernel.ns * self.factor(kernel, &by))
        });
        let point = if alone > 0.0 { slower / alone } else { 1.0 };
        let spread = elementary::exp(self.log_error);
        Interval::clamped(point, (point / spread).max(1.0), point * spread)
    }

    /// A forecast beside a neighbour. `lowered` is the graph that the forecast lists. The ends of the
    /// interval are those of latency and slowdown together, as if their errors had the same sign.
    #[must_use]
    pub fn beside(
        &self,
        lowered: &Graph,
        alone: &GraphPrediction,
        beside: &Demand,
    ) -> BesidePrediction {
        let kernels = Kernel::of_forecast(lowered, alone);
        let slowdown = self.of_kernels(&kernels, beside);
        let by = Pressure::of(beside, &self.peaks);
        let slower = |(operator, kernel): (&OperatorPrediction, &Kernel)| OperatorPrediction {
            latency_ns: Latency::from_ns(operator.latency_ns.ns() * self.factor(kernel, &by)),
            ..operator.clone()
        };
        let times = |end: Latency, factor: f64| end.ns() * factor;
        let latency = &alone.latency;
        let ends = Interval::clamped(
            times(latency.point(), slowdown.point()),
            times(latency.lower(), slowdown.lower()),
            times(latency.upper(), slowdown.upper()),
        );
        let prediction = GraphPrediction {
            latency: Prediction::new(ends.map(Latency::from_ns), latency.level),
            operators: alone.operators.iter().zip(&kernels).map(slower).collect(),
            overhead: Latency::from_ns(times(alone.overhead, slowdown.point())),
        };
        BesidePrediction { slowdown, prediction }
    }

    /// The demand of a load of that name, where the model was fitted to it.
    #[must_use]
    pub fn load(&self, name: &str) -> Option<&FittedLoad> {
        self.loads.iter().find(|fitted| fitted.load == name)
    }

    /// Mean error of slowdowns beside loads left out of the fit, and of assuming no contention, as
    /// shares.
    #[must_use]
    pub fn errors(&self) -> (f64, f64) {
        let models: usize = self.loads.iter().map(|load| load.models).sum();
        let mean = |error: fn(&FittedLoad) -> f64| {
            let sum: f64 = self.loads.iter().map(|load| error(load) * load.models as f64).sum();
            sum / models.max(1) as f64
        };
        (mean(|load| load.error), mean(|load| load.error_of_none))
    }

    /// Whether every number is finite and in its range.
    pub(crate) fn is_valid(&self) -> bool {
        let Peaks { flops_per_s, bytes_per_s, cache_bytes } = self.peaks;
        let peaks = [flops_per_s, bytes_per_s, cache_bytes];
        let share = |value: f64| value.is_finite() && (0.0..MOST).contains(&value);
        self.coefficients.len() == self.form.width()
            && self.coefficients.iter().all(|c| (0.0..1e6).contains(c))
            && peaks.iter().all(|peak| peak.is_finite() && *peak >= 0.0 && *peak < 1e18)
            && (1.0..=MOST).contains(&self.largest)
            && self.level > 0.0
            && self.level < 1.0
            && (0.0..5.0).contains(&self.log_error)
            && self.forms.iter().all(|form| share(form.error))
            && self.loads.iter().all(|load| {
                load.demand.is_valid()
                    && share(load.slowdown)
                    && share(load.error)
                    && share(load.error_of_none)
            })
    }
}
