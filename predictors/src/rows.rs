//! [`TrainingRows`]: the rows that regressors are fitted to. One row is one distinct operator in
//! one model; its latency in ns is corrected for drift.
//!
//! One kernel in one model run is located by the model run's quieter runs (`location.rs`). Equal
//! kernels of a model are combined by their mean, model runs by the median. Raw samples are not
//! changed.

use crate::{
    Drift, PredictorError,
    evaluate::OfModel,
    features::{Surroundings, WorkingSet},
    interference::{ByInterference, by_interference},
    location,
    location::QuietRuns,
    metrics,
};
use foldhash::{HashMap, HashMapExt};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use vitempo_graph::{ModelProfile, OpSpec, Origin, Processor, Status};

/// Smallest latency a row may have, ns: operators that do nothing are measured as less than a
/// timer's tick.
pub const FLOOR_NS: f64 = 50.0;
/// A timer's tick, ns: rows around it count less, because their relative error is mostly the tick.
const TICK_NS: f64 = 1000.0;

/// One distinct operator in one model.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainingRow {
    /// The operator.
    pub op: Arc<OpSpec>,
    /// Index of its model in [`TrainingRows::models`].
    pub model: usize,
    /// The working set of its model.
    pub working_set: WorkingSet,
    /// How many kernels of the model are this operator.
    pub count: usize,
    /// Drift-corrected latency of one of them, ns; at least [`FLOOR_NS`].
    pub latency_ns: f64,
    /// How much the row counts: less near the timer's resolution.
    pub weight: f64,
}

/// One model: its identity and what it took end to end.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredModel {
    /// Readable name.
    pub name: String,
    /// Digest of the graph; models of one architecture are never split by cross-validation.
    pub architecture: String,
    /// Drift-corrected end-to-end latency, the median of all model runs, ns; `None` when it was not
    /// measured.
    pub e2e_ns: Option<f64>,
    /// End-to-end latency in each model run, ns, as measured and corrected, in the order of the
    /// model runs.
    pub runs: Vec<(f64, f64)>,
    /// Kernels executed.
    pub kernels: usize,
}

/// Something that could not be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Model and node.
    pub what: String,
    /// Why.
    pub reason: String,
}

/// Rows and models of one environment and one origin.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainingRows {
    /// All rows, sorted by model, then by first execution.
    pub rows: Vec<TrainingRow>,
    /// All models with at least one usable model run, sorted by name, then by architecture.
    pub models: Vec<MeasuredModel>,
    /// How drift was corrected.
    pub drift: Drift,
    /// Model runs, operators and samples that could not be used.
    pub skipped: Vec<Skipped>,
    /// Model runs that are used although others ran on their cores, because too few architectures
    /// would remain without them.
    pub disturbed: usize,
    /// Where the numbers come from.
    pub origin: Origin,
}

impl TrainingRows {
    /// Rows of profiles, without those of memory alone
    /// ([`ModelProfile::is_of_memory_alone`]); drift is measured among these profiles.
    ///
    /// # Errors
    /// [`PredictorError::MixedEnvironments`], [`PredictorError::MixedProcessors`],
    /// [`PredictorError::MixedOrigins`], [`PredictorError::NoRows`].
    pub fn from_profiles(profiles: &[ModelProfile]) -> Result<Self, PredictorError> {
        Self::with_drift(profiles, Drift::of(profiles))
    }

    /// Rows of profiles, corrected to the machine's speed by `drift`.
    ///
    /// # Errors
    /// As [`TrainingRows::from_profiles`].
    pub fn with_drift(profiles: &[ModelProfile], drift: Drift) -> Result<Self, PredictorError> {
        Self::of_part(profiles, drift, &|_| true)
    }

    /// The same of the profiles for which `is_part` holds; which runs were interfered with is
    /// decided among all.
    ///
    /// # Errors
    /// As [`TrainingRows::from_profiles`].
    pub(crate) fn of_part(
        profiles: &[ModelProfile],
        drift: Drift,
        is_part: &dyn Fn(&ModelProfile) -> bool,
    ) -> Result<Self, PredictorError> {
        let origin = check_same(profiles)?;
        let mut runs: BTreeMap<(&str, &str), Vec<&ModelProfile>> = BTreeMap::new();
        let part = || profiles.iter().filter(|profile| is_part(profile));
        let failed = part().filter_map(|profile| match &profile.status {
            Status::Failed(reason) => {
                Some(Skipped { what: profile.model.name.clone(), reason: reason.clone() })
            }
            Status::Ok => None,
        });
        let mut skipped: Vec<Skipped> = failed.collect();
        let ByInterference { used, disturbed, left_out } = by_interference(profiles);
        skipped.extend(left_out.into_iter().filter(|profile| is_part(profile)).map(|profile| {
            Skipped {
                what: format!("{} / round {}", profile.model.name, profile.round),
                reason: "interfered with: it had far less of its cores than the other model runs"
                    .to_owned(),
            }
        }));
        for profile in used.into_iter().filter(|profile| is_part(profile)) {
            runs.entry((&profile.model.name, &profile.model.architecture))
                .or_default()
                .push(profile);
        }
        let (mut rows, mut models) = (Vec::new(), Vec::new());
        for ((name, architecture), mut runs) in runs {
            runs.sort_by(|a, b| {
                (a.started_unix_ms, &a.session, a.round).cmp(&(
                    b.started_unix_ms,
                    &b.session,
                    b.round,
                ))
            });
            let own = operators(&runs, drift, models.len(), &mut skipped);
            let e2e = end_to_end(&runs, drift);
            let corrected: Vec<f64> = e2e.iter().map(|(_, corrected)| *corrected).collect();
            if own.is_empty() && e2e.is_empty() {
                skipped.push(Skipped {
                    what: name.to_owned(),
                    reason: "no samples at all".to_owned(),
                });
                continue;
            }
            rows.extend(own);
            let kernels = runs.iter().map(|v| v.operators.len()).max().unwrap_or(0);
            models.push(MeasuredModel {
                name: name.to_owned(),
                architecture: architecture.to_owned(),
                e2e_ns: metrics::median(&corrected),
                runs: e2e,
                kernels,
            });
        }
        if rows.is_empty() {
            return Err(PredictorError::NoRows {
                profiles: part().count(),
                skipped: skipped.len(),
                reasons: reasons(&skipped),
            });
        }
        Ok(Self { rows, models, drift, skipped, disturbed, origin })
    }

    /// The rows of a model.
    pub(crate) fn of_model(&self, model: usize) -> &[TrainingRow] {
        let first = self.rows.partition_point(|row| row.model < model);
        let end = self.rows.partition_point(|row| row.model <= model);
        self.rows.get(first..end).unwrap_or_default()
    }

    /// The kernels of the rows, each with its model.
    pub(crate) fn kernels(&self) -> Vec<OfModel<'_>> {
        self.rows.iter().map(|row| (row.model, &*row.op, row.working_set)).collect()
    }

    /// Whether a model was measured end to end; if not, it is a network around an operator or a
    /// few.
    #[must_use]
    pub fn is_whole(&self, model: usize) -> bool {
        self.models.get(model).is_some_and(|m| m.e2e_ns.is_some())
    }

    /// Number of distinct architectures.
    #[must_use]
    pub fn architectures(&self) -> usize {
        self.models.iter().map(|m| &m.architecture).collect::<BTreeSet<_>>().len()
    }

    /// Digests of the architectures.
    pub(crate) fn architecture_digests(&self) -> BTreeSet<String> {
        self.models.iter().map(|m| m.architecture.clone()).collect()
    }

    /// Digest of everything regressors see: operators, latencies and models. 64 hexadecimal digits.
    #[must_use]
    pub fn digest(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        for model in &self.models {
            hasher.update(model.name.as_bytes()).update(model.architecture.as_bytes());
            hasher.update(&model.e2e_ns.unwrap_or(-1.0).to_bits().to_le_bytes());
        }
        for row in &self.rows {
            hasher.update(row.op.to_json().as_bytes()).update(&(row.model as u64).to_le_bytes());
            hasher
                .update(&(row.count as u64).to_le_bytes())
                .update(&row.latency_ns.to_bits().to_le_bytes());
        }
        hasher.finalize().to_hex().to_string()
    }
}

/// Family and model of the CPU that ran, where they are known.
fn processor(profile: &ModelProfile) -> Option<&str> {
    let environment = &profile.environment;
    environment.host.as_ref().filter(|_| environment.processor == Processor::Cpu)?.processor_model()
}

fn check_same(profiles: &[ModelProfile]) -> Result<Origin, PredictorError> {
    let Some(first) = profiles.first() else {
        return Err(PredictorError::NoRows { profiles: 0, skipped: 0, reasons: String::new() });
    };
    let id = first.environment.id();
    let known = profiles.iter().find_map(processor);
    for profile in profiles {
        let other = profile.environment.id();
        if other != id {
            return Err(PredictorError::MixedEnvironments {
                first: id,
                other,
                model: profile.model.name.clone(),
            });
        }
        if let Some((first, other)) = known.zip(processor(profile)).filter(|(a, b)| a != b) {
            let (first, other) = (first.to_owned(), other.to_owned());
            let model = profile.model.name.clone();
            return Err(PredictorError::MixedProcessors { first, other, model });
        }
        if profile.origin != first.origin {
            return Err(PredictorError::MixedOrigins { model: profile.model.name.clone() });
        }
    }
    Ok(first.origin)
}

/// The three most frequent reasons, for an error message.
fn reasons(skipped: &[Skipped]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    skipped.iter().for_each(|s| *counts.entry(&s.reason).or_default() += 1);
    let mut sorted: Vec<_> = counts.into_iter().collect();
    sorted.sort_by_key(|(reason, n)| (std::cmp::Reverse(*n), *reason));
    sorted.iter().take(3).map(|(reason, n)| format!("; {n} x {reason}")).collect()
}

fn end_to_end(runs: &[&ModelProfile], drift: Drift) -> Vec<(f64, f64)> {
    let located =
        |v: &&ModelProfile| location::end_to_end_ns(v).map(|ns| (ns, ns / drift.factor(v)));
    runs.iter().filter_map(located).collect()
}

/// Sums over the kernels of one model run that are the same operator.
#[derive(Default)]
struct Tally {
    count: usize,
    sum_ns: f64,
}

fn operators(
    runs: &[&ModelProfile],
    drift: Drift,
    model: usize,
    skipped: &mut Vec<Skipped>,
) -> Vec<TrainingRow> {
    let mut order: Vec<&Arc<OpSpec>> = Vec::new();
    let mut found: HashMap<&Arc<OpSpec>, (usize, Vec<f64>)> = HashMap::new();
    for run in runs {
        let factor = drift.operator_factor(run);
        let quiet = QuietRuns::of(run);
        let mut tallies: HashMap<&Arc<OpSpec>, Tally> = HashMap::new();
        let mut seen: Vec<&Arc<OpSpec>> = Vec::new();
        for measurement in &run.operators {
            let what = || format!("{} / {}", run.model.name, measurement.node);
            if let Status::Failed(reason) = &measurement.status {
                skipped.push(Skipped { what: what(), reason: reason.clone() });
                continue;
            }
            let Some(location) = quiet.operator_ns(measurement) else {
                skipped.push(Skipped { what: what(), reason: "no samples".to_owned() });
                continue;
            };
            let tally = tallies.entry(&measurement.op).or_insert_with(|| {
                seen.push(&measurement.op);
                Tally::default()
            });
            tally.count += 1;
            tally.sum_ns += location / factor;
        }
        for op in seen {
            let tally = &tallies[op];
            let entry = found.entry(op).or_insert_with(|| {
                order.push(op);
                (0, Vec::new())
            });
            entry.0 = entry.0.max(tally.count);
            entry.1.push(tally.sum_ns / tally.count as f64);
        }
    }
    let around = runs.first().map(|run| {
        Surroundings::of(order.iter().map(|op| (&***op, found[op].0)), &run.environment)
    });
    let row = |op: &Arc<OpSpec>| {
        let (count, latencies) = &found[op];
        let latency_ns = metrics::median(latencies).unwrap_or(0.0).max(FLOOR_NS);
        let weight = (latency_ns / (latency_ns + TICK_NS)).powi(2).max(1e-3);
        let working_set =
            around.as_ref().map_or(WorkingSet::LARGE, |around| around.working_set(op, *count));
        TrainingRow { op: Arc::clone(op), model, working_set, count: *count, latency_ns, weight }
    };
    order.into_iter().map(row).collect()
}
