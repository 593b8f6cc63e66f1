//! Forecasts: a [`PredictorBundle`] as a `LatencyModel`. Source graph -> lowering -> one estimate
//! per kernel -> sum -> end to end with an interval.

use crate::{
    Calibration, ConformalInterval, Estimate, PredictorBundle, features::WorkingSet, memo::Memo,
};
use std::{
    collections::BTreeMap,
    sync::{MutexGuard, PoisonError},
};
use vitempo_graph::{
    Budget, Environment, Exceeded, Graph, GraphPrediction, Interval, Latency, LatencyModel, OpKind,
    OpSpec, Prediction, PredictionError, PredictionSource, lowering,
};

/// Kernels that are forecast between two checks of the budget.
const KERNELS_AT_A_TIME: usize = 1 << 10;
/// Steps of the budget for the forecast of one kernel.
const STEPS_PER_KERNEL: u64 = 16;

/// How a forecast of a model was made.
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
    /// Names of operators that vitempo does not support.
    pub unsupported: Vec<String>,
}

/// Sums over the kernels of one model.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Total {
    pub tally: Tally,
    pub fallback_ns: f64,
    pub extrapolating_ns: f64,
    pub kinds: BTreeMap<String, f64>,
}

impl Total {
    pub(crate) fn add(&mut self, kind: &OpKind, estimate: Estimate, count: usize) {
        let ns = estimate.latency_ns * count as f64;
        self.tally = self.tally.with(estimate, count);
        if estimate.extrapolating {
            self.extrapolating_ns += ns;
        }
        if estimate.source == PredictionSource::Fallback {
            self.fallback_ns += ns;
        }
        *self.kinds.entry(kind.name().to_owned()).or_default() += ns;
    }
}

/// The sums over kernels that the end-to-end forecast of a model needs. Sums of parts of a model
/// add up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    /// Latency of all kernels, ns.
    pub sum_ns: f64,
    /// Sum of latency times expected `|ln(actual / forecast)|`, ns.
    pub expected_error_ns: f64,
    /// Latency of kernels of out-of-distribution sizes, ns. Tables of queries have a tally per cache
    /// line; for a comparison with half of the sum, this precision is enough.
    pub out_of_distribution_ns: f32,
    /// Number of kernels.
    pub kernels: i32,
}

impl Tally {
    /// Adds this many kernels with one estimate.
    #[must_use]
    pub fn with(self, estimate: Estimate, count: usize) -> Self {
        let ns = estimate.latency_ns * count as f64;
        Self {
            sum_ns: self.sum_ns + ns,
            expected_error_ns: self.expected_error_ns + ns * estimate.log_error,
            out_of_distribution_ns: self.out_of_distribution_ns
                + if estimate.in_distribution { 0.0 } else { ns as f32 },
            kernels: self.kernels.saturating_add(i32::try_from(count).unwrap_or(i32::MAX)),
        }
    }

    /// `other` several times more; less where `times` is negative.
    #[must_use]
    pub fn plus(self, other: &Self, times: i64) -> Self {
        let factor = times as f64;
        let times = i32::try_from(times).unwrap_or(if times < 0 { i32::MIN } else { i32::MAX });
        Self {
            sum_ns: self.sum_ns + factor * other.sum_ns,
            expected_error_ns: self.expected_error_ns + factor * other.expected_error_ns,
            out_of_distribution_ns: self.out_of_distribution_ns
                + times as f32 * other.out_of_distribution_ns,
            kernels: self.kernels.saturating_add(times.saturating_mul(other.kernels)),
        }
    }

    /// Number of kernels where parts were only ever added.
    pub(crate) fn kernels(&self) -> usize {
        usize::try_from(self.kernels).unwrap_or(0)
    }

    /// Expected `|ln(actual / forecast)|` if the errors of all operators had one sign; 0 without
    /// operators.
    pub(crate) fn difficulty(&self) -> f64 {
        if self.sum_ns > 0.0 { self.expected_error_ns / self.sum_ns } else { 0.0 }
    }

    /// End to end, without an interval.
    pub(crate) fn point_ns(&self, calibration: &Calibration) -> f64 {
        calibration.end_to_end_ns(self.sum_ns, self.kernels())
    }

    pub(crate) fn end_to_end(
        &self,
        calibration: &Calibration,
        interval: &ConformalInterval,
    ) -> Prediction {
        let point = self.point_ns(calibration);
        let (lower, upper) = interval.around(point, self.difficulty());
        let ends = Interval::clamped(point, lower, upper).map(Latency::from_ns);
        Prediction::new(ends, interval.level)
    }
}

impl PredictorBundle {
    /// What kernels of a model as the framework runs it notice of the model, in their order.
    #[must_use]
    pub fn working_sets<'o>(
        &self,
        kernels: impl IntoIterator<Item = &'o OpSpec>,
    ) -> Vec<WorkingSet> {
        WorkingSet::of_each(&kernels.into_iter().collect::<Vec<_>>(), &self.environment)
    }

    /// An estimate of each kernel of a graph as the framework runs it.
    #[must_use]
    pub fn estimates_of(&self, lowered: &Graph) -> Vec<Estimate> {
        self.estimate_each(&self.with_working_sets(lowered))
    }

    /// The same within a budget.
    fn estimates_within(
        &self,
        lowered: &Graph,
        budget: &Budget,
    ) -> Result<Vec<Estimate>, Exceeded> {
        let mut estimates = Vec::with_capacity(lowered.nodes().len());
        for kernels in self.with_working_sets(lowered).chunks(KERNELS_AT_A_TIME) {
            budget.steps(STEPS_PER_KERNEL * kernels.len() as u64)?;
            estimates.extend(self.estimate_each(kernels));
        }
        Ok(estimates)
    }

    /// The kernels of a graph as the framework runs it, with what each notices of the model.
    pub(crate) fn with_working_sets<'g>(
        &self,
        lowered: &'g Graph,
    ) -> Vec<(&'g OpSpec, WorkingSet)> {
        let kernels: Vec<&OpSpec> = lowered.nodes().iter().map(|node| &node.op).collect();
        let working_sets = WorkingSet::of_each(&kernels, &self.environment);
        kernels.into_iter().zip(working_sets).collect()
    }

    /// The forecast for one kernel in a model of that working set, with its source; cached by
    /// operator.
    #[must_use]
    pub fn estimate(&self, op: &OpSpec, working_set: WorkingSet) -> Estimate {
        if let Some(known) = self.memo().within(working_set).and_then(|known| known.get(op)) {
            return *known;
        }
        let estimate = self.predictors.estimate(op, working_set);
        self.remember([((op, working_set), estimate)]);
        estimate
    }

    fn memo(&self) -> MutexGuard<'_, Memo> {
        self.memo.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The cache of kernels in their working sets.
    pub(crate) fn recall(&self, kernels: &[(&OpSpec, WorkingSet)]) -> Vec<Option<Estimate>> {
        let memo = self.memo();
        let mut recalled = Vec::with_capacity(kernels.len());
        for equal in kernels.chunk_by(|a, b| a.1 == b.1) {
            let known = equal.first().and_then(|(_, working_set)| memo.within(*working_set));
            recalled.extend(equal.iter().map(|(op, _)| known?.get(*op).copied()));
        }
        recalled
    }

    pub(crate) fn remember<'o>(
        &self,
        estimates: impl IntoIterator<Item = ((&'o OpSpec, WorkingSet), Estimate)>,
    ) {
        let mut memo = self.memo();
        for ((op, working_set), estimate) in estimates {
            memo.insert(op, working_set, estimate);
        }
    }

    pub(crate) fn lower_within(
        &self,
        graph: &Graph,
        budget: &Budget,
    ) -> Result<Graph, PredictionError> {
        Ok(lowering::lower_within(graph, &self.environment, budget)?)
    }

    pub(crate) fn lower(&self, graph: &Graph) -> Result<Graph, PredictionError> {
        Ok(lowering::lower(graph, &self.environment)?)
    }

    /// How the kernels of `graph` are forecast.
    ///
    /// # Errors
    /// [`PredictionError::Lowering`] when the kernels that the framework runs are not known.
    pub fn coverage(&self, graph: &Graph) -> Result<Coverage, PredictionError> {
        let lowered = self.lower(graph)?;
        let mut coverage = Coverage { operators: lowered.nodes().len(), ..Coverage::default() };
        for estimate in self.estimates_of(&lowered) {
            match estimate.source {
                PredictionSource::Fallback => coverage.fallback += 1,
                PredictionSource::Model => {
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

    fn predict_operator(&self, op: &OpSpec) -> (Latency, PredictionSource) {
        let estimate = self.estimate(op, WorkingSet::LARGE);
        (Latency::from_ns(estimate.latency_ns), estimate.source)
    }

    fn predict_within(
        &self,
        graph: &Graph,
        budget: &Budget,
    ) -> Result<GraphPrediction, PredictionError> {
        Ok(self.predict_lowered(graph, budget)?.1)
    }

    fn predict_lowered(
        &self,
        graph: &Graph,
        budget: &Budget,
    ) -> Result<(Graph, GraphPrediction), PredictionError> {
        let lowered = self.lower_within(graph, budget)?;
        let ended = |source| PredictionError::Exceeded { model: graph.name().to_owned(), source };
        let estimates = self.estimates_within(&lowered, budget).map_err(ended)?;
        let prediction = self.explained(&lowered, &estimates);
        Ok((lowered, prediction))
    }

    fn lowered(&self, graph: &Graph) -> Result<Graph, PredictionError> {
        self.lower(graph)
    }
}
