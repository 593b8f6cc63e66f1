//! [`Predictors`]: the fitted regressors of one environment, and what stands in for kinds that have
//! none.
//!
//! An operator is forecast by the regressor of its [`PredictorKey`]. Failing that by the
//! work-and-bytes baseline of its kind, of its kin (kinds that follow the same law), or by the
//! roofline of the whole environment (ns per FLOP and per byte); all of these are marked as
//! fallback.

use crate::{
    Doubt, Method, PredictorKey, Skipped,
    doubt::Sizes,
    features::{CONSTANT_INPUTS, Family, FeatureSchema, Footprint, kin},
    forest::ForestError,
    metrics,
    regressors::{Baseline, FitData, Fitted},
    rows::TrainingRow,
    trust,
};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicUsize, Ordering},
    sync::mpsc,
};
use vitempo_graph::{OpSpec, PredictionSource};

/// Fewest rows for a regressor; with fewer a key has its baseline only.
pub const FEWEST_ROWS: usize = 8;
/// A key with fewer rows shares the baseline of its kind.
const ENOUGH_ROWS: usize = 500;
/// How many rows of its own the law of its kind counts as.
const PRIOR_ROWS: f64 = 10.0;
/// Features this far outside the range of the training rows count as extrapolating.
const SLACK: f64 = 1.25;
/// Columns of the roofline: FLOPs, bytes, elements written. They are totals, the same in every
/// family.
const ROOFLINE: [&str; 3] = ["flops", "bytes_total", "elements_out"];

/// The regressor of one key.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyPredictor {
    /// Whose columns it reads.
    pub family: Family,
    /// Rows it was fitted to.
    pub rows: usize,
    /// Work-and-bytes baseline.
    pub baseline: Baseline,
    /// What was learnt on top.
    pub fitted: Fitted,
    /// Smallest and largest value of each column among the training rows.
    pub ranges: Vec<(f64, f64)>,
    /// Smallest and largest forecast relative to the baseline seen in training, as logarithms;
    /// forecasts stay near them.
    pub log_bounds: (f64, f64),
    /// Sizes that whole models have.
    pub sizes: Sizes,
    /// How far trees are followed away from the law at any other size (`trust.rs`).
    pub trust: f64,
    /// How far off its forecasts are expected to be.
    pub doubt: Doubt,
}

/// The forecast for one operator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Latency, ns; positive.
    pub latency_ns: f64,
    /// Regressor or fallback.
    pub source: PredictionSource,
    /// Whether a feature lies outside what the regressor was fitted to.
    pub extrapolating: bool,
    /// Expected `|ln(actual / forecast)|`.
    pub log_error: f64,
}

/// Baselines of a kind over all its classes and formats, of its kin, and of everything.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fallbacks {
    /// By operator kind.
    pub kinds: BTreeMap<String, Baseline>,
    /// By [`kin`], for kinds that have none.
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
    /// What stands in.
    pub fallbacks: Fallbacks,
}

/// Where a row comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Model {
    /// Number of its architecture.
    pub group: usize,
    /// Whether it is a whole model, and what it runs tells what models run.
    pub whole: bool,
}

/// Columns of the rows of one key or kind.
#[derive(Default)]
struct Table {
    x: Vec<f64>,
    y: Vec<f64>,
    weights: Vec<f64>,
    groups: Vec<usize>,
    sizes: Sizes,
}

impl Table {
    fn push(&mut self, x: &[f64], row: &TrainingRow, from: &Model) {
        self.x.extend_from_slice(x);
        self.y.push(row.latency_ns);
        self.weights.push(row.weight);
        self.groups.push(from.group);
        if from.whole {
            self.sizes.insert(x);
        }
    }
}

/// How to fit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FitSettings {
    pub method: Method,
    pub seed: u64,
    pub threads: usize,
}

impl Predictors {
    /// Fits one regressor per key; `models` are those that rows name. Keys whose regressor cannot
    /// be fitted keep their baseline and are reported.
    pub(crate) fn fit(
        rows: &[&TrainingRow],
        models: &[Model],
        settings: FitSettings,
        done: &mut dyn FnMut(usize, usize),
    ) -> (Self, Vec<Skipped>) {
        let mut tables: BTreeMap<PredictorKey, (Family, Table)> = BTreeMap::new();
        let mut kinds: BTreeMap<String, (Family, Table)> = BTreeMap::new();
        let mut kindred: BTreeMap<String, (Family, Table)> = BTreeMap::new();
        let mut everything = Table::default();
        for row in rows {
            let features = FeatureSchema::extract_within(&row.op, row.footprint);
            let key = PredictorKey::of(&row.op);
            let model = &models[row.model];
            everything.push(&features.values[..totals_width()], row, model);
            let relatives = kindred
                .entry(kin(&row.op.kind).to_owned())
                .or_insert_with(|| (features.family, Table::default()));
            relatives.1.push(&features.values, row, model);
            kinds
                .entry(key.kind.to_string())
                .or_insert_with(|| (features.family, Table::default()))
                .1
                .push(&features.values, row, model);
            tables.entry(key).or_insert_with(|| (features.family, Table::default())).1.push(
                &features.values,
                row,
                model,
            );
        }
        let fallbacks = fallbacks(&kinds, &kindred, &everything);
        let jobs: Vec<Job<'_>> = tables
            .iter()
            .map(|(key, (family, table))| Job {
                key,
                family: *family,
                table,
                kind: kinds.get(&*key.kind).map(|k| &k.1),
            })
            .collect();
        let (keys, skipped) = fit_all(&jobs, settings, done);
        (Self { keys, fallbacks }, skipped)
    }

    /// How far each key's trees are followed at sizes that no whole model has.
    pub(crate) fn set_trusts(&mut self, trusts: &BTreeMap<PredictorKey, f64>) {
        for (key, predictor) in &mut self.keys {
            predictor.trust = trusts.get(key).copied().unwrap_or(trust::USUAL);
        }
    }

    /// How far off forecasts of each key are expected to be.
    pub(crate) fn set_doubts(&mut self, doubts: &BTreeMap<PredictorKey, Doubt>) {
        for (key, predictor) in &mut self.keys {
            predictor.doubt = doubts.get(key).copied().unwrap_or_default();
        }
    }

    /// Forecast of one operator as the framework runs it in a model of that footprint; always
    /// positive.
    #[must_use]
    pub fn estimate(&self, op: &OpSpec, footprint: Footprint) -> Estimate {
        let key = PredictorKey::of(op);
        if let Some(predictor) = self.keys.get(&key) {
            let op = predictor.as_trained(op);
            return predictor.estimate(&FeatureSchema::extract_within(&op, footprint).values);
        }
        self.fallback(op, &key, &FeatureSchema::extract_within(op, footprint).values)
    }

    /// Latencies of one operator by the law alone and by trees alone, ns; `None` where it has no
    /// predictor.
    pub(crate) fn by_law_and_by_trees(
        &self,
        op: &OpSpec,
        footprint: Footprint,
    ) -> Option<[f64; 2]> {
        let predictor = self.keys.get(&PredictorKey::of(op))?;
        let features = FeatureSchema::extract_within(op, footprint);
        let baseline = predictor.baseline.predict(&features.values);
        Some(
            predictor
                .fitted
                .by_law_and_by_trees(&features.values, baseline)
                .map(|latency| predictor.bounded(latency, baseline)),
        )
    }
}

impl KeyPredictor {
    /// Latency in ns of one row of features; positive.
    #[must_use]
    pub fn predict(&self, x: &[f64]) -> f64 {
        self.trusting(x, self.trust(self.sizes.contain(x)))
    }

    /// Latencies in ns of rows of features that lie one after the other, exactly those of
    /// [`KeyPredictor::predict`] and many times as fast.
    ///
    /// # Errors
    /// [`ForestError::Shape`] when `x` is not whole rows of the family's width.
    pub fn predict_batch(&self, x: &[f64]) -> Result<Vec<f64>, ForestError> {
        self.predict_near(x, &self.near(x))
    }

    /// What a row of features is forecast to take, and what that rests on.
    pub(crate) fn estimate(&self, x: &[f64]) -> Estimate {
        let near = self.sizes.contain(x);
        self.resting(x, near, self.trusting(x, self.trust(near)))
    }

    /// The same for whole rows of features that lie one after the other.
    pub(crate) fn estimates(&self, x: &[f64]) -> Vec<Estimate> {
        let rows = || x.chunks_exact(self.family.width());
        let near = self.near(x);
        let Ok(latencies) = self.predict_near(x, &near) else {
            return rows().map(|row| self.estimate(row)).collect();
        };
        rows()
            .zip(near)
            .zip(latencies)
            .map(|((row, near), latency_ns)| self.resting(row, near, latency_ns))
            .collect()
    }

    /// Whether whole models have operators of each row's size.
    fn near(&self, x: &[f64]) -> Vec<bool> {
        x.chunks_exact(self.family.width()).map(|row| self.sizes.contain(row)).collect()
    }

    fn predict_near(&self, x: &[f64], near: &[bool]) -> Result<Vec<f64>, ForestError> {
        let width = self.family.width();
        let baselines: Vec<f64> =
            x.chunks_exact(width).map(|row| self.baseline.predict(row)).collect();
        let trust: Vec<f64> = near.iter().map(|near| self.trust(*near)).collect();
        let latencies = self.fitted.predict_batch(x, width, &baselines, &trust)?;
        Ok(latencies
            .into_iter()
            .zip(baselines)
            .map(|(latency, baseline)| self.bounded(latency, baseline))
            .collect())
    }

    fn resting(&self, x: &[f64], near: bool, latency_ns: f64) -> Estimate {
        let extrapolating = self.extrapolates(x);
        Estimate {
            latency_ns,
            source: PredictionSource::Model,
            extrapolating,
            log_error: self.doubt.log_error(near, extrapolating),
        }
    }

    /// How far trees are followed away from the law, whether or not whole models have the size.
    fn trust(&self, near: bool) -> f64 {
        if near { 1.0 } else { self.trust }
    }

    /// With trees followed so far.
    fn trusting(&self, x: &[f64], trust: f64) -> f64 {
        let baseline = self.baseline.predict(x);
        self.bounded(self.fitted.predict(x, baseline, trust), baseline)
    }

    fn bounded(&self, latency_ns: f64, baseline_ns: f64) -> f64 {
        baseline_ns
            * (latency_ns / baseline_ns).ln().clamp(self.log_bounds.0, self.log_bounds.1).exp()
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

fn totals_width() -> usize {
    crate::features::TOTALS_WIDTH
}

fn fallbacks(
    kinds: &BTreeMap<String, (Family, Table)>,
    kindred: &BTreeMap<String, (Family, Table)>,
    everything: &Table,
) -> Fallbacks {
    let fit = |(kind, (family, t)): (&String, &(Family, Table))| {
        (
            kind.clone(),
            Baseline::fit(&t.x, family.width(), &family.baseline_columns(), &t.y, &t.weights),
        )
    };
    let columns: Vec<usize> = ROOFLINE
        .iter()
        .filter_map(|name| Family::Movement.columns().position(|c| c == *name))
        .collect();
    let roofline =
        Baseline::fit(&everything.x, totals_width(), &columns, &everything.y, &everything.weights);
    let errors: Vec<f64> = everything
        .x
        .chunks_exact(totals_width())
        .zip(&everything.y)
        .map(|(x, y)| (y / roofline.predict(x)).ln().abs())
        .collect();
    Fallbacks {
        kinds: kinds.iter().map(fit).collect(),
        kin: kindred.iter().map(fit).collect(),
        roofline,
        typical_log_error: metrics::median(&errors).unwrap_or(0.7).min(5.0),
    }
}

/// One key to fit: its rows, and those of its kind, to which they belong.
struct Job<'a> {
    key: &'a PredictorKey,
    family: Family,
    table: &'a Table,
    kind: Option<&'a Table>,
}

/// Fits every key on `threads` threads; the result does not depend on how many.
fn fit_all(
    jobs: &[Job<'_>],
    settings: FitSettings,
    done: &mut dyn FnMut(usize, usize),
) -> (BTreeMap<PredictorKey, KeyPredictor>, Vec<Skipped>) {
    let next = AtomicUsize::new(0);
    let (send, receive) = mpsc::channel();
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by_key(|&i| std::cmp::Reverse(jobs[i].table.y.len()));
    let mut fits: Vec<Option<(KeyPredictor, Option<String>)>> = jobs.iter().map(|_| None).collect();
    std::thread::scope(|scope| {
        for _ in 0..settings.threads.clamp(1, jobs.len().max(1)) {
            let (send, next, order) = (send.clone(), &next, &order);
            scope.spawn(move || {
                while let Some(&job) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if send.send((job, fit_key(&jobs[job], settings))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(send);
        for (finished, (job, fit)) in receive.iter().enumerate() {
            fits[job] = Some(fit);
            done(finished + 1, jobs.len());
        }
    });
    let mut skipped = Vec::new();
    let mut keys = BTreeMap::new();
    for (Job { key, .. }, fit) in jobs.iter().zip(fits) {
        let Some((predictor, reason)) = fit else { continue };
        skipped.extend(reason.map(|reason| Skipped { what: key.to_string(), reason }));
        keys.insert((*key).clone(), predictor);
    }
    (keys, skipped)
}

/// The baseline of a key. A key with few rows, perhaps all of them small, shares the law of its
/// kind: its own rows outweigh that more the more there are.
fn baseline(&Job { family, table, kind, .. }: &Job<'_>) -> Baseline {
    let (columns, chosen) = (family.width(), family.baseline_columns());
    let Some(kind) =
        kind.filter(|kind| table.y.len() < ENOUGH_ROWS && kind.y.len() > table.y.len())
    else {
        return Baseline::fit(&table.x, columns, &chosen, &table.y, &table.weights);
    };
    let share = PRIOR_ROWS / kind.y.len() as f64;
    let weights: Vec<f64> =
        table.weights.iter().copied().chain(kind.weights.iter().map(|w| w * share)).collect();
    Baseline::fit(
        &[&table.x[..], &kind.x].concat(),
        columns,
        &chosen,
        &[&table.y[..], &kind.y].concat(),
        &weights,
    )
}

fn fit_key(job: &Job<'_>, settings: FitSettings) -> (KeyPredictor, Option<String>) {
    let &Job { family, table, .. } = job;
    let columns = family.width();
    let baseline = baseline(job);
    let baseline_ns: Vec<f64> =
        table.x.chunks_exact(columns).map(|row| baseline.predict(row)).collect();
    let data = FitData {
        columns,
        x: &table.x,
        y_ns: &table.y,
        baseline_ns: &baseline_ns,
        weights: &table.weights,
        groups: &table.groups,
    };
    let (fitted, reason) = if table.y.len() < FEWEST_ROWS {
        (Fitted::BaselineOnly, None)
    } else {
        match Fitted::fit(settings.method, &data, settings.seed) {
            Ok(fitted) => (fitted, None),
            Err(reason) => {
                (Fitted::BaselineOnly, Some(format!("{reason}; its baseline stands in")))
            }
        }
    };
    let mut ranges = vec![(f64::INFINITY, f64::NEG_INFINITY); columns];
    for row in table.x.chunks_exact(columns) {
        row.iter().zip(&mut ranges).for_each(|(v, r)| *r = (r.0.min(*v), r.1.max(*v)));
    }
    let ratios: Vec<f64> = table.y.iter().zip(&baseline_ns).map(|(y, b)| (y / b).ln()).collect();
    let log_bounds = (
        ratios.iter().copied().fold(0.0, f64::min) - 0.2,
        ratios.iter().copied().fold(0.0, f64::max) + 0.2,
    );
    (
        KeyPredictor {
            family,
            rows: table.y.len(),
            baseline,
            fitted,
            ranges,
            log_bounds,
            sizes: table.sizes.clone(),
            trust: trust::USUAL,
            doubt: Doubt::default(),
        },
        reason,
    )
}
