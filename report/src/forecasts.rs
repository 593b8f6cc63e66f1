//! [`BundleEvaluation`]: one bundle on models that it was not trained on, for the section on
//! accuracy; [`ModelForecast`]: one of these models.

use super::{group::Group, survey::FAMILIES};
use std::collections::BTreeMap;
use vitempo::predictors::{Drift, Evaluation, Method, ModelRow};

/// One bundle, and its errors.
#[derive(Clone, Debug, PartialEq)]
pub struct BundleEvaluation {
    /// What was fitted.
    pub method: Method,
    /// Synthetic models it was trained on.
    pub models: usize,
    /// Networks around single operators it was trained on as well.
    pub operators: usize,
    /// How it corrects the latencies that its forecasts are held against.
    pub drift: Drift,
    /// Models never trained on, the same for every bundle of an environment.
    pub sets: BTreeMap<Group, Evaluation>,
    /// The real ones among them, one by one; only for the bundle that was trained on the most.
    pub forecasts: Vec<ModelForecast>,
}

/// The forecast of a model by a bundle that was not trained on it.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelForecast {
    /// Forecast and interval beside the measured latency.
    pub row: ModelRow,
    /// By operator family; `None` where the kernels of the engine are not known.
    pub parts: Option<ForecastParts>,
}

/// What the point forecast of a model adds up from, ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ForecastParts {
    /// Time by operator family, in the order of `OpFamily::ALL`.
    pub families: [f64; FAMILIES],
    /// What the engine takes besides its kernels, and what timing them costs: negative where that
    /// is more.
    pub overhead: f64,
}

impl BundleEvaluation {
    /// End to end from the models' files; from executed kernels where there is no file.
    pub fn mape(&self, group: Group) -> Option<f64> {
        let evaluation = self.sets.get(&group)?;
        evaluation.e2e.as_ref().or(evaluation.e2e_executed.as_ref()).map(|e| e.mape)
    }
}
