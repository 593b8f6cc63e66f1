//! Which network is measured next: the one that shrinks the expected error of models most per
//! second.
//!
//! [`Targets`] are models of search spaces that nobody measures. Each kernel `t` of theirs has a
//! weight `W_t`, its mean share of their latency, an expected error `E_t`, from a bundle trained on
//! what was measured so far, and `n_t`, how many measured kernels resemble it:
//!
//! ```text
//! n_t = sum over measured kernels m of one class of exp(-d(t, m)^2 / 2)
//! ```
//!
//! where `d` is the distance of the logarithms of the features. The error is taken to fall with the
//! root of what resembles the kernel, as that of a mean, so that a network with kernels `c` brings
//!
//! ```text
//! sum over t of W_t E_t (1 - sqrt((1 + n_t) / (1 + n_t + k(t, c)))) / seconds
//! ```
//!
//! Networks are chosen one after the other, and each adds to `n_t`: a second one like it brings
//! less, which spreads a batch over what models consist of. Between batches the bundle is trained
//! anew, and [`Targets::learn`] takes its expected errors and shares.
//!
//! The targets are sampled; no real model decides what is measured.

use crate::sampling::{self, SamplingError};
use std::collections::{BTreeMap, BTreeSet};
use vitempo_graph::{
    Environment, Graph, OpSpec, Work,
    lowering::{self, LoweringError},
};
use vitempo_predictors::{FeatureSchema, PredictorBundle, PredictorKey, WorkingSet};

/// Spaces of the targets, how many models of each, and the seed: none is in the standard set.
const TARGETS: (&[&str], usize, u64) = (&["hybrid-vit", "isotropic-vit", "mbconv"], 40, 4242);
/// Distance of features at which two kernels resemble each other by exp(-1/2), as the root of the
/// mean square of differences of logarithms.
const SIMILAR_DISTANCE: f64 = 0.35;
/// Kernels that resemble each other by less do not count.
const LEAST_SIMILARITY: f64 = 0.02;
/// Expected error of a kernel of which nothing is known, and of the sum over kernels against a
/// whole model, as logarithms.
const UNKNOWN: f64 = 0.7;
const OF_SUMS: f64 = 0.05;
/// Rates by which shares are estimated before anything is trained: FLOP and bytes per second, and
/// seconds of any kernel.
const RATES: (f64, f64, f64) = (3e10, 8e9, 2e-6);
/// Seconds that a model run takes besides its runs.
const RUN_SECONDS: f64 = 0.05;

/// Why nothing can be chosen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ActiveError {
    /// The targets cannot be sampled.
    #[error(transparent)]
    Sampling(#[from] SamplingError),
    /// The kernels of a target are not known.
    #[error(transparent)]
    Lowering(#[from] LoweringError),
}

/// A kernel of the targets.
struct Target {
    op: OpSpec,
    place: Place,
    /// By target model: how many kernels it has of it.
    counts: Vec<(usize, f64)>,
    /// Mean share of the models' latency.
    weight: f64,
    log_error: f64,
    /// How many measured kernels resemble it.
    known: f64,
}

/// Where a kernel lies among those of its class.
struct Place {
    key: PredictorKey,
    log_features: Vec<f64>,
}

impl Place {
    fn of(op: &OpSpec) -> Self {
        let features = FeatureSchema::extract(op).values;
        let log_features = features.iter().map(|v| v.abs().ln_1p()).collect();
        Self { key: PredictorKey::of(op), log_features }
    }

    /// How much two kernels of one class resemble each other, 0 to 1.
    fn similarity(&self, other: &Self) -> f64 {
        let squares =
            self.log_features.iter().zip(&other.log_features).map(|(a, b)| (a - b).powi(2));
        let mean = squares.sum::<f64>() / self.log_features.len().max(1) as f64;
        (-0.5 * mean / SIMILAR_DISTANCE.powi(2)).exp()
    }
}

/// A network or model that could be measured.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Targets that its kernels resemble, and how much.
    similar: Vec<(usize, f64)>,
    /// Whether its sum over kernels is measured against a whole model.
    is_whole: bool,
    /// What measuring it takes, as expected, s.
    pub seconds: f64,
}

/// The kernels of models to be forecast, and what is known of them.
pub struct Targets {
    environment: Environment,
    targets: Vec<Target>,
    by_key: BTreeMap<PredictorKey, Vec<usize>>,
    models: usize,
    /// Whole models that were measured.
    whole: f64,
}

impl Targets {
    /// Models of several spaces, as the environment's engine runs them. Nothing is measured yet.
    ///
    /// # Errors
    /// [`ActiveError`], which a test rules out for the engines.
    pub fn sampled(environment: &Environment) -> Result<Self, ActiveError> {
        let (spaces, count, seed) = TARGETS;
        let mut graphs = Vec::new();
        for space in spaces {
            graphs.extend(sampling::sample_named(space, count, seed)?.into_iter().map(|s| s.graph));
        }
        Self::of(environment, &graphs)
    }

    /// These models.
    ///
    /// # Errors
    /// [`ActiveError::Lowering`] where the kernels of one are not known.
    pub fn of(environment: &Environment, graphs: &[Graph]) -> Result<Self, ActiveError> {
        let mut found: BTreeMap<OpSpec, BTreeMap<usize, f64>> = BTreeMap::new();
        for (model, graph) in graphs.iter().enumerate() {
            for node in lowering::lower(graph, environment)?.into_nodes() {
                *found.entry(node.op).or_default().entry(model).or_default() += 1.0;
            }
        }
        let mut by_key: BTreeMap<PredictorKey, Vec<usize>> = BTreeMap::new();
        let mut targets = Vec::new();
        for (op, counts) in found {
            let place = Place::of(&op);
            by_key.entry(place.key.clone()).or_default().push(targets.len());
            let counts = counts.into_iter().collect();
            targets.push(Target { op, place, counts, weight: 0.0, log_error: UNKNOWN, known: 0.0 });
        }
        let mut of = Self {
            environment: environment.clone(),
            targets,
            by_key,
            models: graphs.len(),
            whole: 0.0,
        };
        let latencies: Vec<f64> = of.targets.iter().map(|t| 1e9 * roofline_s(&t.op)).collect();
        of.weigh(&latencies);
        Ok(of)
    }

    fn weigh(&mut self, latencies_ns: &[f64]) {
        let mut totals = vec![0.0; self.models];
        for (target, ns) in self.targets.iter().zip(latencies_ns) {
            target.counts.iter().for_each(|(model, count)| totals[*model] += count * ns);
        }
        let models = self.models.max(1) as f64;
        for (target, ns) in self.targets.iter_mut().zip(latencies_ns) {
            let share = |(model, count): &(usize, f64)| count * ns / totals[*model].max(1.0);
            target.weight = target.counts.iter().map(share).sum::<f64>() / models;
        }
    }

    /// Takes shares and expected errors from a bundle trained on what was measured so far.
    pub fn learn(&mut self, bundle: &PredictorBundle) {
        let estimates: Vec<_> =
            self.targets.iter().map(|t| bundle.estimate(&t.op, WorkingSet::LARGE)).collect();
        let latencies: Vec<f64> = estimates.iter().map(|e| e.latency_ns).collect();
        self.weigh(&latencies);
        for (target, estimate) in self.targets.iter_mut().zip(estimates) {
            target.log_error = estimate.log_error;
        }
    }

    /// A network or model to choose from. `runs` is how often the protocol runs it.
    ///
    /// # Errors
    /// [`ActiveError::Lowering`] where its kernels are not known.
    pub fn candidate(
        &self,
        graph: &Graph,
        is_whole: bool,
        runs: usize,
    ) -> Result<Candidate, ActiveError> {
        let lowered = lowering::lower(graph, &self.environment)?.into_nodes();
        let seconds: f64 = lowered.iter().map(|node| roofline_s(&node.op)).sum();
        let kernels: BTreeSet<OpSpec> = lowered.into_iter().map(|node| node.op).collect();
        let mut similar: BTreeMap<usize, f64> = BTreeMap::new();
        for kernel in &kernels {
            let place = Place::of(kernel);
            for &target in self.by_key.get(&place.key).into_iter().flatten() {
                let similarity = self.targets[target].place.similarity(&place);
                let most = similar.entry(target).or_default();
                *most = most.max(similarity);
            }
        }
        similar.retain(|_, similarity| *similarity > LEAST_SIMILARITY);
        Ok(Candidate {
            similar: similar.into_iter().collect(),
            is_whole,
            seconds: RUN_SECONDS + runs as f64 * seconds,
        })
    }

    /// Chooses among the candidates that are not `done`, best first, until their expected time
    /// reaches `seconds`, and marks them as done.
    pub fn choose(
        &mut self,
        candidates: &[Candidate],
        done: &mut BTreeSet<usize>,
        seconds: f64,
    ) -> Vec<usize> {
        let mut gains: Vec<(f64, usize)> = (0..candidates.len())
            .filter(|index| !done.contains(index))
            .map(|index| (self.gain(&candidates[index]), index))
            .collect();
        gains.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (mut chosen, mut spent) = (Vec::new(), 0.0);
        while spent < seconds {
            // A gain only falls as more is known: the best of the old ones, if it is still the best
            // when computed anew, is the best of all.
            let Some((_, index)) = gains.pop() else { break };
            let gain = self.gain(&candidates[index]);
            if gains.last().is_some_and(|(next, _)| gain < *next) {
                let place = gains.partition_point(|(other, _)| *other < gain);
                gains.insert(place, (gain, index));
                continue;
            }
            self.add(&candidates[index]);
            spent += candidates[index].seconds;
            done.insert(index);
            chosen.push(index);
        }
        chosen
    }

    /// Counts a candidate as measured.
    pub fn add(&mut self, candidate: &Candidate) {
        for (target, similarity) in &candidate.similar {
            self.targets[*target].known += similarity;
        }
        self.whole += f64::from(u8::from(candidate.is_whole));
    }

    /// By how much the expected error of a model falls, per second.
    fn gain(&self, candidate: &Candidate) -> f64 {
        let fall = |known: f64, more: f64| 1.0 - ((1.0 + known) / (1.0 + known + more)).sqrt();
        let of_kernel = |(target, similarity): &(usize, f64)| {
            let target = &self.targets[*target];
            target.weight * target.log_error * fall(target.known, *similarity)
        };
        let kernels: f64 = candidate.similar.iter().map(of_kernel).sum();
        let sum = if candidate.is_whole { OF_SUMS * fall(self.whole, 1.0) } else { 0.0 };
        (kernels + sum) / candidate.seconds
    }

    /// The expected error of the targets' mean, as a logarithm, by what resembles their kernels.
    #[must_use]
    pub fn expected_error(&self) -> f64 {
        let of = |t: &Target| t.weight * t.log_error / (1.0 + t.known).sqrt();
        self.targets.iter().map(of).sum::<f64>() + OF_SUMS / (1.0 + self.whole).sqrt()
    }
}

/// Seconds of a kernel by its work alone.
fn roofline_s(op: &OpSpec) -> f64 {
    let work = Work::of_operator(op);
    let (flops, bytes, least) = RATES;
    least + (work.flops as f64 / flops).max((work.bytes_read + work.bytes_written) as f64 / bytes)
}
