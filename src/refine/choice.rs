//! Which kernels of a model are measured, and what that costs.

use super::{PROFILED, REPEATS, ROUNDS, window::Windows};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use vitempo_graph::{Budget, Graph, LatencyModel, OpSpec, PredictionError, PredictionSource};
use vitempo_predictors::PredictorBundle;

/// Seconds that a model run takes besides its repeats: loading, warming up, the reference workload.
/// Of 3 400 networks around operators on two engines, a run took 0.04 to 0.06 s in all.
const RUN_SECONDS: f64 = 0.1;
/// Runs of a network in one round: warm-up, repeats end to end, repeats with timed kernels.
const RUNS: f64 = (2 + REPEATS + PROFILED) as f64;
/// Kernels that carry less than this share of the expected error are not worth measuring.
const LEAST_SHARE: f64 = 0.002;

/// A kernel that could be measured.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The kernel.
    pub op: OpSpec,
    /// Its place in the model: name of its node, the first where there are several.
    pub node: String,
    /// How many kernels of the model are this one.
    pub count: usize,
    /// What they take together by the forecast, ns.
    pub latency_ns: f64,
    /// Their share of the model's forecast, 0 to 1.
    pub share_of_time: f64,
    /// Their share of the interval's width: of the sum of latency times expected error; 0 to 1.
    pub share_of_width: f64,
    /// Whether a trained predictor forecasts it.
    pub trained: bool,
    /// Whether it lies outside of the training data.
    pub extrapolating: bool,
    /// The network around it.
    pub network: Graph,
    /// Kernels that the engine runs in the network.
    runs: Vec<OpSpec>,
    /// What measuring the network takes, as expected.
    pub cost: Duration,
    /// Whether it is measured within the time.
    pub is_chosen: bool,
    /// Whether the network of another chosen kernel has it as well.
    pub is_covered: bool,
}

/// What is measured of a model.
#[derive(Clone, Debug)]
pub struct Choice {
    /// Kernels with a network, those that bring most per second first.
    pub candidates: Vec<Candidate>,
    /// Share of the interval's width that is in kernels without a network, or in those that are not
    /// worth one.
    pub out_of_reach: f64,
    /// The time, where there is a bound.
    pub within: Option<Duration>,
}

impl Choice {
    /// The kernels whose networks are measured.
    pub fn chosen(&self) -> impl Iterator<Item = &Candidate> {
        self.candidates.iter().filter(|candidate| candidate.is_chosen)
    }

    /// What measuring takes, as expected.
    #[must_use]
    pub fn cost(&self) -> Duration {
        self.chosen().map(|candidate| candidate.cost).sum()
    }

    /// Share of the interval's width in kernels that are measured.
    #[must_use]
    pub fn covered(&self) -> f64 {
        let covered = self.candidates.iter().filter(|c| c.is_chosen || c.is_covered);
        covered.map(|c| c.share_of_width).sum()
    }

    /// What the cheapest network takes.
    pub(super) fn cheapest(&self) -> Duration {
        self.candidates.iter().map(|c| c.cost).min().unwrap_or_default()
    }
}

/// A distinct kernel of a model.
struct Distinct {
    first: usize,
    count: usize,
    latency_ns: f64,
    expected_error_ns: f64,
    trained: bool,
    extrapolating: bool,
}

/// The kernels of a model that have a network, those that bring most per second first, and the share
/// of the width in the others.
pub(super) fn candidates(
    bundle: &PredictorBundle,
    graph: &Graph,
    kernels: &Graph,
) -> Result<(Vec<Candidate>, f64), PredictionError> {
    let mut distinct: BTreeMap<&OpSpec, Distinct> = BTreeMap::new();
    for (index, (node, estimate)) in
        kernels.nodes().iter().zip(bundle.estimates_of(kernels)).enumerate()
    {
        let entry = distinct.entry(&node.op).or_insert(Distinct {
            first: index,
            count: 0,
            latency_ns: 0.0,
            expected_error_ns: 0.0,
            trained: estimate.source == PredictionSource::Model,
            extrapolating: estimate.extrapolating,
        });
        entry.count += 1;
        entry.latency_ns += estimate.latency_ns;
        entry.expected_error_ns += estimate.latency_ns * estimate.log_error;
    }
    let sum = |part: fn(&Distinct) -> f64| {
        distinct.values().map(part).sum::<f64>().max(f64::MIN_POSITIVE)
    };
    let (time, width) = (sum(|d| d.latency_ns), sum(|d| d.expected_error_ns));
    let windows = Windows::new(bundle, graph);
    let mut found = Vec::new();
    for (op, kernel) in distinct {
        let share_of_width = kernel.expected_error_ns / width;
        if share_of_width < LEAST_SHARE {
            continue;
        }
        let name = format!("{}-around-{}-{}", graph.name(), op.kind, op.id());
        let Some(network) = windows.around(kernels, kernel.first, &name) else { continue };
        let (lowered, forecast) = bundle.predict_lowered(&network, &Budget::default())?;
        let run = forecast.latency.point().ns() / 1e9;
        found.push(Candidate {
            op: op.clone(),
            node: kernels.nodes()[kernel.first].name.clone(),
            count: kernel.count,
            latency_ns: kernel.latency_ns,
            share_of_time: kernel.latency_ns / time,
            share_of_width,
            trained: kernel.trained,
            extrapolating: kernel.extrapolating,
            cost: Duration::from_secs_f64(ROUNDS as f64 * (RUN_SECONDS + RUNS * run)),
            network,
            runs: lowered.into_nodes().into_iter().map(|node| node.op).collect(),
            is_chosen: false,
            is_covered: false,
        });
    }
    let reached: f64 = found.iter().map(|c| c.share_of_width).sum();
    let value = |c: &Candidate| c.share_of_width / c.cost.as_secs_f64().max(1e-3);
    found.sort_by(|a, b| value(b).total_cmp(&value(a)));
    Ok((found, (1.0 - reached).max(0.0)))
}

/// Chooses in that order as long as the time allows; a kernel that a chosen network has already is
/// covered by it.
pub(super) fn choose(
    (mut candidates, out_of_reach): (Vec<Candidate>, f64),
    within: Option<Duration>,
) -> Choice {
    let mut left = within.unwrap_or(Duration::MAX);
    let mut covered: BTreeSet<&OpSpec> = BTreeSet::new();
    for Candidate { op, cost, runs, is_chosen, is_covered, .. } in &mut candidates {
        if covered.contains(&*op) {
            *is_covered = true;
        } else if *cost <= left {
            left -= *cost;
            *is_chosen = true;
            covered.extend(runs.iter());
        }
    }
    Choice { candidates, out_of_reach, within }
}
