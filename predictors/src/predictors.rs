//! [`Predictors`]: the fitted regressors of one environment, and the fallback for kinds without
//! one.
//!
//! An operator is forecast by the regressor of its [`PredictorKey`]. Failing that by the
//! work-and-bytes baseline of its kind, of related kinds (whose times depend on work and bytes
//! similarly), or by the roofline of the whole environment (ns per FLOP and per byte); all of these
//! are marked as fallback.

use crate::{
    ErrorScale, PredictorKey, Refinements,
    elementary::{exp, ln},
    error_scale::Support,
    features::{CONSTANT_INPUTS, Family, FeatureSchema, WorkingSet},
    forest::ForestError,
    regressors::{Baseline, Fitted},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use vitempo_graph::{OpSpec, PredictionSource};

/// Features this far outside the range of the training rows count as extrapolating.
const SLACK: f64 = 1.25;
/// How far beyond what was measured a forecast may lie relative to its baseline, as a logarithm.
const BEYOND_MEASURED: f64 = 0.2;

/// The regressor of one key.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyPredictor {
    /// Whose columns it reads.
    pub family: Family,
    /// Rows it was fitted to.
    pub rows: usize,
    /// Work-and-bytes baseline.
    pub baseline: Baseline,
    /// The regressor on top of it.
    pub fitted: Fitted,
    /// Smallest and largest value of each column among the training rows.
    pub ranges: Vec<(f64, f64)>,
    /// Smallest and largest forecast relative to the baseline seen in training, as logarithms;
    /// forecasts stay near them.
    pub log_bounds: (f64, f64),
    /// In-distribution sizes.
    pub support: Support,
    /// Weight of the trees against the linear model at out-of-distribution sizes, 0 to 1
    /// (`blend_weight.rs`).
    pub blend_weight: f64,
    /// Expected errors of its forecasts.
    pub error_scale: ErrorScale,
}

/// The forecast for one operator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Latency, ns; positive.
    pub latency_ns: f64,
    /// Regressor or fallback.
    pub source: PredictionSource,
    /// Whether a feature lies outside the training range of the regressor.
    pub extrapolating: bool,
    /// Whether an operator of a whole training model has its size, or it was measured itself.
    pub in_distribution: bool,
    /// Expected `|ln(actual / forecast)|`.
    pub log_error: f64,
}

impl Estimate {
    /// Whether there is a predictor, and the operator lies outside the range of what that was fitted
    /// to.
    #[must_use]
    pub fn is_extrapolating(&self) -> bool {
        self.extrapolating && self.source != PredictionSource::Fallback
    }
}

/// Baselines of a kind over all its classes and formats, of its kin, and of everything.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fallbacks {
    /// By kind and class, `conv/depthwise`, over all formats: of families whose classes take about
    /// as long in one format as in another.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub classes: BTreeMap<String, Baseline>,
    /// By operator kind.
    pub kinds: BTreeMap<String, Baseline>,
    /// By [`kin`](crate::features::kin), for kinds that have none.
    pub kin: BTreeMap<String, Baseline>,
    /// For every other kind: coefficients of the roofline's columns.
    pub roofline: Baseline,
    /// Median of `|ln(actual / fallback)|` over training rows: how far off a fallback typically is.
    #[serde(with = "crate::bits")]
    pub typical_log_error: f64,
}

/// All regressors of one environment.
#[derive(Clone, Debug, PartialEq)]
pub struct Predictors {
    /// By key.
    pub keys: BTreeMap<PredictorKey, KeyPredictor>,
    /// The fallback.
    pub fallbacks: Fallbacks,
    /// Kernels that were measured after training.
    pub refinements: Refinements,
}

impl Predictors {
    /// Forecast of one operator as the framework runs it in a model of that working set; always
    /// positive.
    #[must_use]
    pub fn estimate(&self, op: &OpSpec, working_set: WorkingSet) -> Estimate {
        self.refinements.applied(op, self.estimate_unrefined(op, working_set))
    }

    /// The same by what was learned in training alone.
    #[must_use]
    pub fn estimate_unrefined(&self, op: &OpSpec, working_set: WorkingSet) -> Estimate {
        let key = PredictorKey::of(op);
        if let Some(predictor) = self.keys.get(&key) {
            let op = predictor.as_trained(op);
            return predictor.estimate(&FeatureSchema::extract_within(&op, working_set).values);
        }
        self.fallback(op, &key, &FeatureSchema::extract_within(op, working_set).values)
    }

    /// The latency of one operator by the linear model alone and by trees alone, ns; `None` without a predictor, and, where only
    /// sizes out of distribution are wanted, of any other.
    pub(crate) fn unblended(
        &self,
        op: &OpSpec,
        working_set: WorkingSet,
        any_size: bool,
    ) -> Option<[f64; 2]> {
        let predictor = self.keys.get(&PredictorKey::of(op))?;
        let features = FeatureSchema::extract_within(op, working_set);
        let supported = predictor.support.contains(&features.values);
        if supported && !any_size {
            return None;
        }
        let baseline = predictor.baseline.predict(&features.values);
        let both = predictor.fitted.linear_and_tree_ns(&features.values, baseline);
        Some(both.map(|latency_ns| predictor.bounded(latency_ns, baseline)))
    }
}

impl KeyPredictor {
    /// The range of a column that did not exist in training: any value is in it.
    pub(crate) const UNREAD: (f64, f64) = (f64::MIN, f64::MAX);

    /// Latency in ns of one row of features; positive.
    #[must_use]
    pub fn predict(&self, x: &[f64]) -> f64 {
        self.blended(x, self.blend_weight(self.support.contains(x)))
    }

    /// Latencies in ns of rows of features that lie one after the other, exactly those of
    /// [`KeyPredictor::predict`] and many times as fast.
    ///
    /// # Errors
    /// [`ForestError::Shape`] when `x` is not whole rows of the family's width.
    pub fn predict_batch(&self, x: &[f64]) -> Result<Vec<f64>, ForestError> {
        self.predict_supported(x, &self.supported(x))
    }

    /// The forecast of a row of features, with its source and expected error.
    pub(crate) fn estimate(&self, x: &[f64]) -> Estimate {
        let supported = self.support.contains(x);
        self.as_estimate(x, supported, self.blended(x, self.blend_weight(supported)))
    }

    /// The same for whole rows of features that lie one after the other.
    pub(crate) fn estimates(&self, x: &[f64]) -> Vec<Estimate> {
        let rows = || x.chunks_exact(self.family.width());
        let supported = self.supported(x);
        let Ok(latencies) = self.predict_supported(x, &supported) else {
            return rows().map(|row| self.estimate(row)).collect();
        };
        rows()
            .zip(supported)
            .zip(latencies)
            .map(|((row, supported), latency_ns)| self.as_estimate(row, supported, latency_ns))
            .collect()
    }

    /// Whether each row's size is in distribution.
    fn supported(&self, x: &[f64]) -> Vec<bool> {
        x.chunks_exact(self.family.width()).map(|row| self.support.contains(row)).collect()
    }

    fn predict_supported(&self, x: &[f64], supported: &[bool]) -> Result<Vec<f64>, ForestError> {
        let width = self.family.width();
        let baselines: Vec<f64> =
            x.chunks_exact(width).map(|row| self.baseline.predict(row)).collect();
        let weights: Vec<f64> = supported.iter().map(|s| self.blend_weight(*s)).collect();
        let latencies = self.fitted.predict_batch(x, width, &baselines, &weights)?;
        Ok(latencies
            .into_iter()
            .zip(baselines)
            .map(|(latency, baseline)| self.bounded(latency, baseline))
            .collect())
    }

    fn as_estimate(&self, x: &[f64], supported: bool, latency_ns: f64) -> Estimate {
        let extrapolating = self.extrapolates(x);
        Estimate {
            latency_ns,
            source: PredictionSource::Model,
            extrapolating,
            in_distribution: supported,
            log_error: self.error_scale.log_error(supported, extrapolating),
        }
    }

    /// Weight of the trees; `supported`: the size is in distribution.
    fn blend_weight(&self, supported: bool) -> f64 {
        if supported { 1.0 } else { self.blend_weight }
    }

    /// With that weight of the trees.
    fn blended(&self, x: &[f64], weight: f64) -> f64 {
        let baseline = self.baseline.predict(x);
        self.bounded(self.fitted.predict(x, baseline, weight), baseline)
    }

    fn bounded(&self, latency_ns: f64, baseline_ns: f64) -> f64 {
        baseline_ns * exp(ln(latency_ns / baseline_ns).clamp(self.log_bounds.0, self.log_bounds.1))
    }

    /// [`Self::log_bounds`] from ratios of what was measured to the baseline, as logarithms.
    pub(crate) fn log_bounds_of(ratios: impl IntoIterator<Item = f64>) -> (f64, f64) {
        let (low, high) = ratios
            .into_iter()
            .fold((0.0_f64, 0.0_f64), |(low, high), ratio| (low.min(ratio), high.max(ratio)));
        (low - BEYOND_MEASURED, high + BEYOND_MEASURED)
    }

    /// Fewest constant operands of a training row.
    pub(crate) fn fewest_constants(&self) -> Option<f64> {
        self.ranges.get(CONSTANT_INPUTS).map(|range| range.0)
    }

    /// Whether a column lies outside the training rows.
    #[must_use]
    pub fn extrapolates(&self, x: &[f64]) -> bool {
        x.iter().zip(&self.ranges).any(|(v, (low, high))| *v < low / SLACK || *v > high * SLACK)
    }
}
