//! Many forecasts at once: distinct operators are forecast together, by predictor, through the compiled forests' batch evaluation.
//!
//! Latencies in ns. Every number is the one that forecasting alone gives: compiled forests return the same bits whatever the size of the batch, and
//! sums run over the kernels in the same order.

use crate::{
    Estimate, KeyPredictor, PredictorBundle, PredictorKey, Predictors,
    features::{FeatureSchema, FeatureVector, Footprint, kin},
    forecast::{Tally, footprint},
};
use std::collections::{BTreeMap, HashMap};
use vitempo_graph::{Graph, OpSpec, Prediction, PredictionError, PredictionSource};

/// Graphs whose kernels are held at the same time.
const GRAPHS: usize = 64;

/// Rows of one predictor: where their forecasts go, and their features one after the other.
#[derive(Default)]
struct Rows {
    places: Vec<usize>,
    x: Vec<f64>,
}

impl Predictors {
    /// Forecasts of operators as the framework runs them in a model of that footprint, in their order; exactly those of [`Predictors::estimate`].
    #[must_use]
    pub fn estimate_batch(&self, ops: &[&OpSpec], footprint: Footprint) -> Vec<Estimate> {
        let nothing = Estimate { latency_ns: 0.0, source: PredictionSource::Fallback, extrapolating: true, log_error: 0.0 };
        let mut estimates = vec![nothing; ops.len()];
        let mut tables: HashMap<PredictorKey, Rows> = HashMap::new();
        for (place, op) in ops.iter().enumerate() {
            let (features, key) = (FeatureSchema::extract_within(op, footprint), PredictorKey::of(op));
            if self.keys.contains_key(&key) {
                let rows = tables.entry(key).or_default();
                rows.places.push(place);
                rows.x.extend_from_slice(&features.values);
            } else {
                estimates[place] = self.fallback(op, &key, &features);
            }
        }
        for (key, rows) in &tables {
            let Some(predictor) = self.keys.get(key) else { continue };
            for (place, estimate) in rows.places.iter().zip(predictor.estimates(&rows.x)) {
                estimates[*place] = estimate;
            }
        }
        estimates
    }

    /// What stands in for a predictor: the baseline of the kind, of its kin, or the roofline.
    pub(crate) fn fallback(&self, op: &OpSpec, key: &PredictorKey, features: &FeatureVector) -> Estimate {
        let known = self.fallbacks.kinds.get(&key.kind).or_else(|| self.fallbacks.kin.get(kin(&op.kind)));
        let latency_ns = known.unwrap_or(&self.fallbacks.roofline).predict(&features.values);
        Estimate { latency_ns, source: PredictionSource::Fallback, extrapolating: true, log_error: self.fallbacks.typical_log_error }
    }
}

impl KeyPredictor {
    /// What a latency in ns, forecast from a row of features, rests on.
    pub(crate) fn estimate(&self, x: &[f64], latency_ns: f64) -> Estimate {
        let extrapolating = self.extrapolates(x);
        Estimate { latency_ns, source: PredictionSource::Model, extrapolating, log_error: self.doubt.log_error(x, extrapolating) }
    }

    /// Expected `|ln(actual / forecast)|` for a row of features.
    pub(crate) fn log_error(&self, x: &[f64]) -> f64 {
        self.doubt.log_error(x, self.extrapolates(x))
    }

    /// Forecasts for whole rows of features that lie one after the other.
    fn estimates(&self, x: &[f64]) -> Vec<Estimate> {
        let rows = || x.chunks_exact(self.family.width());
        let latencies = self.predict_batch(x).unwrap_or_else(|_| rows().map(|row| self.predict(row)).collect());
        rows().zip(latencies).map(|(row, latency_ns)| self.estimate(row, latency_ns)).collect()
    }
}

impl PredictorBundle {
    /// Forecasts for kernels in a model of that footprint, and what they rest on, remembered by operator; exactly those of [`PredictorBundle::estimate`].
    #[must_use]
    pub fn estimate_batch(&self, ops: &[&OpSpec], footprint: Footprint) -> Vec<Estimate> {
        let mut known: HashMap<&OpSpec, Option<Estimate>> = HashMap::with_capacity(ops.len());
        self.recall(footprint, ops, &mut known);
        let unknown: Vec<&OpSpec> = known.iter().filter(|(_, estimate)| estimate.is_none()).map(|(op, _)| *op).collect();
        let estimates = self.predictors.estimate_batch(&unknown, footprint);
        self.remember(footprint, unknown.iter().copied().zip(estimates.iter().copied()));
        known.extend(unknown.into_iter().zip(estimates.into_iter().map(Some)));
        ops.iter().filter_map(|op| known.get(op).copied().flatten()).collect()
    }

    /// End-to-end forecasts for models as their files have them, in their order; exactly those of `predict`.
    ///
    /// # Errors
    /// [`PredictionError::NoLowering`] when the framework has no lowering rules.
    pub fn predict_batch<'g>(&self, graphs: impl IntoIterator<Item = &'g Graph>) -> Result<Vec<Prediction>, PredictionError> {
        let mut graphs = graphs.into_iter();
        let mut predictions = Vec::new();
        loop {
            let lowered = graphs.by_ref().take(GRAPHS).map(|graph| self.lower(graph)).collect::<Result<Vec<Graph>, _>>()?;
            if lowered.is_empty() {
                return Ok(predictions);
            }
            predictions.extend(self.together(&lowered));
        }
    }

    /// Forecasts of lowered graphs: those of one footprint in one batch.
    fn together(&self, lowered: &[Graph]) -> Vec<Prediction> {
        let mut tallies = vec![Tally::default(); lowered.len()];
        let mut alike: BTreeMap<Footprint, Vec<usize>> = BTreeMap::new();
        lowered.iter().enumerate().for_each(|(index, graph)| alike.entry(footprint(graph)).or_default().push(index));
        for (footprint, indices) in alike {
            let ops: Vec<&OpSpec> = indices.iter().flat_map(|&index| lowered[index].nodes().iter().map(|node| &node.op)).collect();
            let mut estimates = self.estimate_batch(&ops, footprint).into_iter();
            for index in indices {
                tallies[index] = estimates.by_ref().take(lowered[index].nodes().len()).fold(Tally::default(), |tally, estimate| tally.with(estimate, 1));
            }
        }
        tallies.iter().map(|tally| self.end_to_end(tally)).collect()
    }

    /// The forecast of a model whose kernels come to `tally`.
    #[must_use]
    pub fn end_to_end(&self, tally: &Tally) -> Prediction {
        tally.end_to_end(&self.calibration, &self.interval)
    }

    /// The kernels that the bundle's framework runs for a model as its file has it, in their order.
    ///
    /// # Errors
    /// [`PredictionError::NoLowering`] when the framework has no lowering rules.
    pub fn kernels(&self, graph: &Graph) -> Result<Vec<OpSpec>, PredictionError> {
        Ok(self.lower(graph)?.nodes().iter().map(|node| node.op.clone()).collect())
    }
}
