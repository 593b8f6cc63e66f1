//! Many forecasts at once: distinct operators are forecast together, by predictor, through the
//! compiled forests' batch evaluation.
//!
//! Latencies in ns. Results equal those of single forecasts to the bit: compiled forests return the
//! same bits for any size of batch, and sums run over the kernels in the same order.

use crate::{
    Estimate, KeyPredictor, PredictorBundle, PredictorKey, Predictors,
    features::{FeatureSchema, WorkingSet},
    forecast::Tally,
    refined::Correction,
};
use foldhash::{HashMap, HashMapExt};
use vitempo_graph::{
    Budget, Graph, GraphPrediction, Latency, OpSpec, OperatorPrediction, Prediction,
    PredictionError, PredictionSource,
};

/// Graphs whose kernels are held at the same time.
const GRAPHS: usize = 64;
/// Stands where a forecast is yet to come.
const NOTHING: Estimate = Estimate {
    latency_ns: 0.0,
    source: PredictionSource::Fallback,
    extrapolating: true,
    in_distribution: false,
    log_error: 0.0,
};

/// Operators to be forecast together. Each is read when it is added, and none is kept.
#[derive(Debug)]
pub struct Batch<'p> {
    predictors: &'p Predictors,
    estimates: Vec<Estimate>,
    rows: Vec<Rows<'p>>,
    /// Corrections of operators that were measured after training, with their places.
    corrections: Vec<(usize, Correction)>,
    /// Which of `rows` a key has.
    known: HashMap<PredictorKey, usize>,
    /// Which of `rows` the operator before had: the next one often is of the same key.
    last: usize,
}

/// Operators of one key: where their forecasts go, and their features one row after the other.
/// Without a predictor they are forecast when they are added.
#[derive(Debug)]
struct Rows<'p> {
    key: PredictorKey,
    predictor: Option<&'p KeyPredictor>,
    places: Vec<usize>,
    x: Vec<f64>,
}

impl<'p> Batch<'p> {
    /// An empty one.
    #[must_use]
    pub fn new(predictors: &'p Predictors) -> Self {
        Self {
            predictors,
            estimates: Vec::new(),
            rows: Vec::new(),
            corrections: Vec::new(),
            known: HashMap::new(),
            last: 0,
        }
    }

    /// Adds an operator as the framework runs it in a model of that working set.
    pub fn push(&mut self, op: &OpSpec, working_set: WorkingSet) {
        let index = self.rows_of(PredictorKey::of(op));
        let Some(rows) = self.rows.get_mut(index) else { return };
        if let Some(correction) = self.predictors.refinements.kernels().get(op) {
            self.corrections.push((self.estimates.len(), *correction));
        }
        if let Some(predictor) = rows.predictor {
            FeatureSchema::append(&predictor.as_trained(op), working_set, &mut rows.x);
            rows.places.push(self.estimates.len());
            self.estimates.push(NOTHING);
        } else {
            FeatureSchema::append(op, working_set, &mut rows.x);
            self.estimates.push(self.predictors.fallback(op, &rows.key, &rows.x));
            rows.x.clear();
        }
    }

    fn rows_of(&mut self, key: PredictorKey) -> usize {
        if self.rows.get(self.last).is_none_or(|rows| rows.key != key) {
            self.last = self.known.get(&key).copied().unwrap_or(self.rows.len());
            if self.last == self.rows.len() {
                self.known.insert(key.clone(), self.last);
                self.rows.push(Rows {
                    predictor: self.predictors.keys.get(&key),
                    key,
                    places: Vec::new(),
                    x: Vec::new(),
                });
            }
        }
        self.last
    }

    /// The forecasts, in the order in which operators were added; exactly those of
    /// [`Predictors::estimate`].
    #[must_use]
    pub fn estimates(self) -> Vec<Estimate> {
        let mut estimates = self.estimates;
        for rows in &self.rows {
            let Some(predictor) = rows.predictor else { continue };
            for (place, estimate) in rows.places.iter().zip(predictor.estimates(&rows.x)) {
                estimates[*place] = estimate;
            }
        }
        for (place, correction) in self.corrections {
            estimates[place] = correction.applied(estimates[place]);
        }
        estimates
    }
}

impl Predictors {
    /// Forecasts of operators as the framework runs them in a model of that working set, in their
    /// order; exactly those of [`Predictors::estimate`].
    #[must_use]
    pub fn estimate_batch(&self, ops: &[&OpSpec], working_set: WorkingSet) -> Vec<Estimate> {
        let mut batch = Batch::new(self);
        ops.iter().for_each(|op| batch.push(op, working_set));
        batch.estimates()
    }

    /// The fallback for a predictor: the baseline of the kind, of related kinds, or the roofline.
    pub(crate) fn fallback(&self, op: &OpSpec, key: &PredictorKey, features: &[f64]) -> Estimate {
        let latency_ns = self.stand_in(op, key).1.predict(features);
        Estimate {
            latency_ns,
            source: PredictionSource::Fallback,
            extrapolating: true,
            in_distribution: false,
            log_error: self.fallbacks.typical_log_error,
        }
    }
}

impl PredictorBundle {
    /// Forecasts for kernels in a model of that working set, with their sources, cached by
    /// operator; equal to those of [`PredictorBundle::estimate`].
    #[must_use]
    pub fn estimate_batch(&self, ops: &[&OpSpec], working_set: WorkingSet) -> Vec<Estimate> {
        self.estimate_each(&ops.iter().map(|op| (*op, working_set)).collect::<Vec<_>>())
    }

    /// The same for kernels of different models: kernels that are not cached are forecast in one
    /// batch.
    pub(crate) fn estimate_each(&self, kernels: &[(&OpSpec, WorkingSet)]) -> Vec<Estimate> {
        let recalled = self.recall(kernels);
        let mut batch = Batch::new(&self.predictors);
        let (mut fresh, mut places) = (Vec::new(), HashMap::new());
        for (kernel, _) in kernels.iter().zip(&recalled).filter(|(_, estimate)| estimate.is_none())
        {
            places.entry(*kernel).or_insert_with(|| {
                batch.push(kernel.0, kernel.1);
                fresh.push(*kernel);
                fresh.len() - 1
            });
        }
        let estimates = batch.estimates();
        let remember = |(kernel, recalled): (&(&OpSpec, WorkingSet), Option<Estimate>)| {
            recalled.or_else(|| estimates.get(*places.get(kernel)?).copied()).unwrap_or(NOTHING)
        };
        let all = kernels.iter().zip(recalled).map(remember).collect();
        self.remember(fresh.into_iter().zip(estimates));
        all
    }

    /// End-to-end forecasts for models as their files have them, in their order; exactly those of
    /// `predict`.
    ///
    /// # Errors
    /// [`PredictionError::Lowering`] when the kernels that the framework runs are not known.
    pub fn predict_batch<'g>(
        &self,
        graphs: impl IntoIterator<Item = &'g Graph>,
    ) -> Result<Vec<Prediction>, PredictionError> {
        let say = |lowered: &Graph, estimates: &[Estimate]| {
            self.end_to_end(&tally(estimates)).bounded_for(lowered)
        };
        self.predict_together(graphs, &Budget::default, say).into_iter().collect()
    }

    /// The same with every operator, as `predict` forecasts each; the error of a graph,
    /// [`PredictionError::Lowering`], is in its place, and the others have their forecasts.
    pub fn predict_each<'g>(
        &self,
        graphs: impl IntoIterator<Item = &'g Graph>,
    ) -> Vec<Result<GraphPrediction, PredictionError>> {
        self.predict_each_within(graphs, &Budget::default)
    }

    /// The same, each graph within a budget of its own; [`PredictionError::Lowering`] as well where
    /// a budget ends.
    pub fn predict_each_within<'g>(
        &self,
        graphs: impl IntoIterator<Item = &'g Graph>,
        budget: &dyn Fn() -> Budget,
    ) -> Vec<Result<GraphPrediction, PredictionError>> {
        let say = |lowered: &Graph, estimates: &[Estimate]| self.explained(lowered, estimates);
        self.predict_together(graphs, budget, say)
    }

    /// The results of `say` for each lowered graph and its estimates, or why the graph cannot be
    /// lowered; several graphs at a time.
    fn predict_together<'g, T>(
        &self,
        graphs: impl IntoIterator<Item = &'g Graph>,
        budget: &dyn Fn() -> Budget,
        say: impl Fn(&Graph, &[Estimate]) -> T,
    ) -> Vec<Result<T, PredictionError>> {
        let mut graphs = graphs.into_iter();
        let mut said = Vec::new();
        loop {
            let lowered: Vec<Result<Graph, PredictionError>> = graphs
                .by_ref()
                .take(GRAPHS)
                .map(|graph| self.lower_within(graph, &budget()))
                .collect();
            if lowered.is_empty() {
                return said;
            }
            let mut estimates = self.together(lowered.iter().flatten()).into_iter();
            said.extend(lowered.into_iter().map(|lowered| {
                let graph = lowered?;
                Ok(say(&graph, &estimates.next().unwrap_or_default()))
            }));
        }
    }

    /// Estimates of the kernels of lowered graphs, graph by graph, all in one batch.
    fn together<'g>(&self, lowered: impl Iterator<Item = &'g Graph> + Clone) -> Vec<Vec<Estimate>> {
        let kernels: Vec<(&OpSpec, WorkingSet)> =
            lowered.clone().flat_map(|graph| self.with_working_sets(graph)).collect();
        let mut estimates = self.estimate_each(&kernels).into_iter();
        lowered.map(|graph| estimates.by_ref().take(graph.nodes().len()).collect()).collect()
    }

    /// The forecast of a lowered graph from the estimates of its kernels.
    pub(crate) fn explained(&self, lowered: &Graph, estimates: &[Estimate]) -> GraphPrediction {
        let tally = tally(estimates);
        let latency = self.end_to_end(&tally).bounded_for(lowered);
        let operators =
            lowered.nodes().iter().zip(estimates).map(|(node, estimate)| OperatorPrediction {
                name: node.name.clone(),
                kind: node.op.kind.clone(),
                latency_ns: Latency::from_ns(estimate.latency_ns),
                source: estimate.source,
                extrapolating: estimate.is_extrapolating(),
            });
        GraphPrediction {
            latency,
            operators: operators.collect(),
            overhead: Latency::from_ns(latency.point().ns() - tally.sum_ns),
        }
    }

    /// The forecast of a model whose kernels come to `tally`.
    #[must_use]
    pub fn end_to_end(&self, tally: &Tally) -> Prediction {
        tally.end_to_end(&self.calibration, self.intervals().of(tally))
    }

    /// The kernels that the bundle's framework runs for a model as its file has it, in their order.
    ///
    /// # Errors
    /// [`PredictionError::Lowering`] when the kernels that the framework runs are not known.
    pub fn kernels(&self, graph: &Graph) -> Result<Vec<OpSpec>, PredictionError> {
        Ok(self.lower(graph)?.into_nodes().into_iter().map(|node| node.op).collect())
    }
}

/// The sums over kernels, in their order.
fn tally(estimates: &[Estimate]) -> Tally {
    estimates.iter().fold(Tally::default(), |sum, estimate| sum.with(*estimate, 1))
}
