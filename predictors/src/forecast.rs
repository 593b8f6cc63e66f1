//! Forecasts: a [`PredictorBundle`] as a `LatencyModel`. Source graph -> lowering -> one estimate per kernel -> sum -> end to end with an interval.

use crate::{Calibration, Estimate, Interval, PredictorBundle, features::Footprint};
use std::collections::BTreeMap;
use vitempo_graph::{
    Environment, Graph, GraphPrediction, Latency, LatencyModel, OpKind, OpSpec, OperatorPrediction, Prediction, PredictionError, PredictionSource, lowering,
};

/// Estimates remembered per bundle and footprint; more distinct operators are computed every time.
const REMEMBERED: usize = 1 << 18;

/// What a forecast of a model rests on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Kernels the framework runs.
    pub operators: usize,
    /// Of these, by a trained regressor.
    pub trained: usize,
    /// By an estimate from their work alone.
    pub fallback: usize,
    /// By a trained regressor outside the range it was fitted to.
    pub extrapolating: usize,
    /// Names of operators vitempo does not know.
    pub unsupported: Vec<String>,
}

/// Sums over the kernels of one model.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Total {
    pub sum_ns: f64,
    /// Sum of latency times expected `|ln(actual / forecast)|`.
    pub doubt_ns: f64,
    pub fallback_ns: f64,
    pub extrapolating_ns: f64,
    pub kernels: usize,
    pub kinds: BTreeMap<String, f64>,
}

impl Total {
    pub(crate) fn add(&mut self, kind: &OpKind, estimate: Estimate, count: usize) {
        let ns = estimate.latency_ns * count as f64;
        self.sum_ns += ns;
        self.doubt_ns += ns * estimate.log_error;
        self.kernels += count;
        if estimate.extrapolating {
            self.extrapolating_ns += ns;
        }
        if estimate.source == PredictionSource::Fallback {
            self.fallback_ns += ns;
        }
        *self.kinds.entry(kind.name().to_owned()).or_default() += ns;
    }

    /// Expected `|ln(actual / forecast)|` if the errors of all operators had one sign; 0 without operators.
    pub(crate) fn doubt(&self) -> f64 {
        if self.sum_ns > 0.0 { self.doubt_ns / self.sum_ns } else { 0.0 }
    }

    /// End to end.
    pub(crate) fn end_to_end(&self, calibration: &Calibration, interval: &Interval) -> Prediction {
        let point = calibration.end_to_end_ns(self.sum_ns, self.kernels);
        let (lower, upper) = interval.around(point, self.doubt());
        Prediction { point: Latency::from_ns(point), lower: Latency::from_ns(lower), upper: Latency::from_ns(upper), level: interval.level }
    }
}

/// Of a graph as the framework runs it.
fn footprint(lowered: &Graph) -> Footprint {
    Footprint::of(lowered.nodes().iter().map(|node| (&node.op, 1)))
}

impl PredictorBundle {
    /// The forecast for one kernel in a model of that footprint, and what it rests on; remembered by operator.
    #[must_use]
    pub fn estimate(&self, op: &OpSpec, footprint: Footprint) -> Estimate {
        let mut memo = self.memo.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let memo = memo.entry(footprint).or_default();
        if let Some(known) = memo.get(op) {
            return *known;
        }
        let estimate = self.predictors.estimate(op, footprint);
        if memo.len() < REMEMBERED {
            memo.insert(op.clone(), estimate);
        }
        estimate
    }

    fn lower(&self, graph: &Graph) -> Result<Graph, PredictionError> {
        lowering::lower(graph, &self.environment).ok_or_else(|| PredictionError::NoLowering { framework: self.environment.framework.clone() })
    }

    /// What a forecast of `graph` rests on.
    ///
    /// # Errors
    /// [`PredictionError::NoLowering`] when the framework has no lowering rules.
    pub fn coverage(&self, graph: &Graph) -> Result<Coverage, PredictionError> {
        let lowered = self.lower(graph)?;
        let footprint = footprint(&lowered);
        let mut coverage = Coverage { operators: lowered.nodes().len(), ..Coverage::default() };
        for node in lowered.nodes() {
            let estimate = self.estimate(&node.op, footprint);
            match estimate.source {
                PredictionSource::Fallback => coverage.fallback += 1,
                PredictionSource::Model | PredictionSource::Table => {
                    coverage.trained += 1;
                    coverage.extrapolating += usize::from(estimate.extrapolating);
                }
            }
        }
        coverage.unsupported = lowered.unsupported().map(|(_, op)| op.to_owned()).collect();
        coverage.unsupported.sort();
        coverage.unsupported.dedup();
        Ok(coverage)
    }
}

impl LatencyModel for PredictorBundle {
    fn environment(&self) -> &Environment {
        &self.environment
    }

    fn predict_operator(&self, op: &OpSpec) -> Result<(Latency, PredictionSource), PredictionError> {
        let estimate = self.estimate(op, Footprint::LARGE);
        Ok((Latency::from_ns(estimate.latency_ns), estimate.source))
    }

    fn predict(&self, graph: &Graph) -> Result<GraphPrediction, PredictionError> {
        let lowered = self.lower(graph)?;
        let footprint = footprint(&lowered);
        let mut total = Total::default();
        let mut operators = Vec::with_capacity(lowered.nodes().len());
        for node in lowered.nodes() {
            let estimate = self.estimate(&node.op, footprint);
            total.add(&node.op.kind, estimate, 1);
            let latency_ns = Latency::from_ns(estimate.latency_ns);
            let Estimate { source, extrapolating, .. } = estimate;
            operators.push(OperatorPrediction { name: node.name.clone(), kind: node.op.kind.clone(), latency_ns, source, extrapolating });
        }
        let latency = total.end_to_end(&self.calibration, &self.interval);
        Ok(GraphPrediction { latency, operators, overhead: Latency::from_ns(latency.point.ns() - total.sum_ns) })
    }
}
