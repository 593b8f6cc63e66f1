//! [`transfer`]: a bundle of one machine corrected for another one by a minute of measured operator
//! networks.
//!
//! What a kernel costs differs between machines mostly by factors: of its class (vector units that
//! one lacks), and of its work against its bytes (clocks, caches, memory). A regressor is a linear
//! base, a sum of unit costs times features, times trees. Each unit cost of the base is scaled by a
//! factor `s_j` that minimises over the measured rows
//!
//! ```text
//! sum_i w_i (1 - sum_j s_j a_ij / y_i)^2 + lambda sum_j (s_j - s)^2
//! ```
//!
//! where `a_ij` is the part of the forecast of row `i` that is due to unit cost `j`, and `s` the
//! factor of the class: the median of measured over forecast, shrunk towards that of the kind, and
//! that towards the median of everything. `lambda` is chosen by cross-validation over the networks;
//! so are the expected errors. Classes that were not measured get the factor of their kind, or of
//! everything. More trees follow those of the source where they lower the error of networks that
//! were left out (`transfer/residual_trees.rs`).
//!
//! How much the machine slows down with its reference workload is known from repeated model runs,
//! and networks have none: the source's exponent is used.
//!
//! The overhead between kernels is scaled by the factor of everything. Quantiles of the interval
//! stay those of the source, and expected errors grow until they would hold as many networks of
//! several kernels, each forecast by factors and trees that were fitted without it.

mod residual_trees;

use crate::{
    Drift, ErrorScale, Evaluation, FeatureSchema, KeyPredictor, PredictorBundle, PredictorError,
    PredictorKey, Predictors, TrainingRow, TrainingRows,
    bundle::{Provenance, SourceCounts},
    evaluate::{EndToEndModel, Forecasts, OfModel, evaluate_forecasts},
    held_out::{HeldOutForecasts, measured_sums},
    metrics,
    regressors::{Baseline, Fitted, dot},
    train::{created_by, libraries},
};
use std::collections::BTreeMap;
use vitempo_graph::{Environment, ModelProfile};

/// The number of rows that a broader class counts as.
const PRIOR_ROWS: f64 = 4.0;
/// Weights of the class's own factor, in rows: from unit costs that differ to one factor alone.
const RIDGES: [f64; 3] = [1.0, 10.0, f64::INFINITY];
/// A factor is at most this far from that of its class, either way.
const FARTHEST: f64 = 4.0;
/// No factor is larger, or smaller than one over it.
const LARGEST: f64 = 1e4;
const FOLDS: usize = 5;
const SWEEPS: usize = 200;
/// Relative residual at which a row counts half.
const FAR_OFF: f64 = 0.3;
/// Fewest held-out rows for an expected error of a class.
const FEWEST: usize = 5;
/// Largest expected error, as a logarithm.
const LARGEST_ERROR: f64 = 5.0;

/// What the measurements say of a kind of operator.
#[derive(Clone, Debug, PartialEq)]
pub struct KindTransfer {
    /// Name of the kind.
    pub kind: String,
    /// Measured rows.
    pub rows: usize,
    /// Median of measured over the source's forecast.
    pub ratio: f64,
}

/// A corrected bundle, and what is known of it.
#[derive(Debug)]
pub struct Transferred {
    /// Forecasts on the new machine.
    pub bundle: PredictorBundle,
    /// By kind, in the order of names.
    pub kinds: Vec<KindTransfer>,
    /// Rows of kernels that the source has a predictor for.
    pub rows: usize,
    /// Median of `|ln(measured / forecast)|` by the source's bundle.
    pub error_before: f64,
    /// The same of held-out rows by the corrected bundle.
    pub error_after: f64,
}

/// Corrects the bundle of another machine by measurements in the environment of `profiles`.
///
/// # Errors
/// [`PredictorError::OtherEnvironment`] where processor, framework, precision or threads differ:
/// then the kernels do; [`PredictorError::NoRows`] where the source has a predictor for none of the
/// measured kernels; as [`TrainingRows::from_profiles`].
pub fn transfer(
    source: &PredictorBundle,
    profiles: &[ModelProfile],
) -> Result<Transferred, PredictorError> {
    let drift = Drift::with_exponent(profiles, source.drift.exponent);
    let rows = TrainingRows::with_drift(profiles, drift)?;
    let environment = profiles.first().map(|p| p.environment.without_host());
    let environment = environment.ok_or_else(|| no_rows(&rows))?;
    check_environment(&source.environment, &environment)?;
    let samples = samples(&source.predictors, &rows);
    if samples.is_empty() {
        return Err(no_rows(&rows));
    }
    let all: Vec<&Sample<'_>> = samples.iter().collect();
    let (ridge, folds) = best_ridge(&samples);
    let factors = Factors::fit(&all, ridge);
    let mut predictors = corrected(&source.predictors, &factors);
    let mut folds: Vec<Predictors> =
        folds.iter().map(|factors| corrected(&source.predictors, factors)).collect();
    residual_trees::grow(&mut predictors, &mut folds, &all);
    let errors: Vec<f64> = samples.iter().filter_map(|s| s.held_out_error(&folds)).collect();
    let before: Vec<f64> = samples.iter().map(|s| s.log_ratio().abs()).collect();
    set_error_scales(&mut predictors, &samples, &errors);
    let forecasts = held_out(&rows, &mut folds, &predictors);
    let of_networks =
        HeldOutForecasts::new(&rows, &measured_sums(&rows), &forecasts, &source.calibration);
    let excess = of_networks.excess_over(&source.interval);
    predictors.keys.values_mut().for_each(|p| p.error_scale = grown(p.error_scale, excess));
    let mut bundle = bundle(source, environment, &rows, predictors, &factors)?;
    bundle.provenance = provenance(source, &rows, samples.len());
    let forecasts = held_out(&rows, &mut folds, &bundle.predictors);
    bundle.held_out = evaluation(&bundle, &rows, &forecasts)?;
    Ok(Transferred {
        bundle,
        kinds: kinds(&samples),
        rows: samples.len(),
        error_before: metrics::median(&before).unwrap_or_default(),
        error_after: metrics::median(&errors).unwrap_or_default(),
    })
}

fn no_rows(rows: &TrainingRows) -> PredictorError {
    PredictorError::NoRows {
        profiles: rows.models.len(),
        skipped: rows.skipped.len(),
        reasons: ": the bundle has a predictor for none of the measured kernels".to_owned(),
    }
}

/// Machines may differ, what runs on them must not.
fn check_environment(source: &Environment, target: &Environment) -> Result<(), PredictorError> {
    let kernels = |e: &Environment| {
        let settings = e.settings.clone();
        (e.processor, e.framework.clone(), e.precision, e.memory_format, e.threads, settings)
    };
    if kernels(source) == kernels(target) {
        return Ok(());
    }
    Err(PredictorError::OtherEnvironment { bundle: source.describe(), data: target.describe() })
}

/// A measured row with the source's forecast of it.
struct Sample<'r> {
    row: &'r TrainingRow,
    key: PredictorKey,
    fold: usize,
    /// Features.
    x: Vec<f64>,
    /// The source's forecast, ns.
    forecast_ns: f64,
    /// Share of each term of the base in it; the first is the constant.
    shares: Vec<f64>,
}

impl Sample<'_> {
    fn log_ratio(&self) -> f64 {
        (self.row.latency_ns / self.forecast_ns).ln()
    }

    /// `|ln(measured / forecast)|` by the factors that were fitted without its network.
    fn error(&self, folds: &[Factors]) -> f64 {
        let forecast_ns = folds.get(self.fold).map_or(self.forecast_ns, |f| f.forecast_ns(self));
        (self.row.latency_ns / forecast_ns).ln().abs()
    }

    /// The same by predictors of which one per fold was fitted without it.
    fn held_out_error(&self, folds: &[Predictors]) -> Option<f64> {
        Some(self.error_of(folds.get(self.fold)?.keys.get(&self.key)?))
    }

    fn error_of(&self, predictor: &KeyPredictor) -> f64 {
        (self.row.latency_ns / predictor.predict(&self.x)).ln().abs()
    }

    /// The forecast with scaled unit costs, ns.
    fn scaled_ns(&self, factors: &[f64]) -> f64 {
        self.forecast_ns * dot(&self.shares, factors).max(1.0 / LARGEST)
    }
}

fn samples<'r>(predictors: &Predictors, rows: &'r TrainingRows) -> Vec<Sample<'r>> {
    let sample = |row: &'r TrainingRow| {
        let key = PredictorKey::of(&row.op);
        let predictor = predictors.keys.get(&key)?;
        let op = predictor.as_trained(&row.op);
        let x = FeatureSchema::extract_within(&op, row.working_set).values;
        Some(Sample {
            row,
            fold: fold_of(rows, row.model),
            forecast_ns: predictor.predict(&x),
            shares: shares(predictor, &x),
            x,
            key,
        })
    };
    rows.rows.iter().filter_map(sample).collect()
}

/// Fold of a network; equal architectures are in one.
fn fold_of(rows: &TrainingRows, model: usize) -> usize {
    let architecture = rows.models.get(model).map_or("", |m| m.architecture.as_str());
    usize::from(blake3::hash(architecture.as_bytes()).as_bytes()[0]) % FOLDS
}

/// Unit costs that a predictor's forecasts are proportional to, beside a constant.
fn coefficients(predictor: &KeyPredictor) -> &[(usize, f64)] {
    let linear = predictor.fitted.linear();
    linear.map_or(&predictor.baseline.coefficients, |linear| &linear.coefficients)
}

fn shares(predictor: &KeyPredictor, x: &[f64]) -> Vec<f64> {
    let linear = predictor.fitted.linear();
    let constant =
        linear.map_or_else(|| predictor.baseline.constant_for(x), |linear| linear.constant_for(x));
    let term = |(column, cost): &(usize, f64)| cost * x.get(*column).copied().unwrap_or(0.0);
    let terms: Vec<f64> =
        std::iter::once(constant).chain(coefficients(predictor).iter().map(term)).collect();
    let sum: f64 = terms.iter().sum();
    if sum > 0.0 && terms.iter().all(|t| t.abs() < 20.0 * sum) {
        return terms.into_iter().map(|t| t / sum).collect();
    }
    // The forecast is a floor, or terms cancel each other: unit costs say nothing of this row.
    vec![1.0 / terms.len() as f64; terms.len()]
}

/// Factors of everything that was measured.
struct Factors {
    everything: f64,
    kinds: BTreeMap<String, f64>,
    keys: BTreeMap<PredictorKey, Vec<f64>>,
}

impl Factors {
    fn fit(samples: &[&Sample<'_>], ridge: f64) -> Self {
        let of = |samples: &[&Sample<'_>]| {
            metrics::median(&samples.iter().map(|s| s.log_ratio()).collect::<Vec<f64>>())
        };
        let shrunk = |samples: &[&Sample<'_>], towards: f64| {
            let n = samples.len() as f64;
            (n * of(samples).unwrap_or(towards) + PRIOR_ROWS * towards) / (n + PRIOR_ROWS)
        };
        let everything = of(samples).unwrap_or(0.0);
        let by_kind = grouped(samples, |s| s.key.kind.to_string());
        let kinds: BTreeMap<String, f64> =
            by_kind.into_iter().map(|(kind, of)| (kind, shrunk(&of, everything))).collect();
        let keys = grouped(samples, |s| s.key.clone()).into_iter().map(|(key, of)| {
            let kind = kinds.get(&*key.kind).copied().unwrap_or(everything);
            let factors = unit_costs(&of, shrunk(&of, kind), ridge);
            (key, factors)
        });
        let keys = keys.collect();
        let factor = |log: f64| log.exp().clamp(1.0 / LARGEST, LARGEST);
        Self {
            everything: factor(everything),
            kinds: kinds.into_iter().map(|(kind, log)| (kind, factor(log))).collect(),
            keys,
        }
    }

    fn of_kind(&self, kind: &str) -> f64 {
        self.kinds.get(kind).copied().unwrap_or(self.everything)
    }

    fn forecast_ns(&self, sample: &Sample<'_>) -> f64 {
        match self.keys.get(&sample.key) {
            Some(factors) => sample.scaled_ns(factors),
            None => sample.forecast_ns * self.of_kind(&sample.key.kind),
        }
    }
}

fn grouped<'s, 'r, K: Ord>(
    samples: &[&'s Sample<'r>],
    key: impl Fn(&Sample<'r>) -> K,
) -> BTreeMap<K, Vec<&'s Sample<'r>>> {
    let mut groups: BTreeMap<K, Vec<&Sample<'_>>> = BTreeMap::new();
    for sample in samples {
        groups.entry(key(sample)).or_default().push(sample);
    }
    groups
}

/// A factor for each term of the base of one key: coordinate descent on reweighted squares, then
/// scaled to a median ratio of 1.
fn unit_costs(samples: &[&Sample<'_>], log_factor: f64, ridge: f64) -> Vec<f64> {
    let factor = log_factor.exp().clamp(1.0 / LARGEST, LARGEST);
    let terms = samples.first().map_or(0, |s| s.shares.len());
    let mut factors = vec![factor; terms];
    if ridge.is_infinite() {
        return factors;
    }
    for _ in 0..SWEEPS {
        let mut moved = 0.0f64;
        for j in 0..terms {
            let (mut with, mut square) = (ridge, ridge);
            for sample in samples {
                let scale = factor * sample.forecast_ns / sample.row.latency_ns;
                let residual = 1.0 - sample.scaled_ns(&factors) / sample.row.latency_ns;
                let weight = sample.row.weight / (1.0 + (residual / FAR_OFF).powi(2));
                let part = scale * sample.shares[j];
                with += weight * part * (residual + part * factors[j] / factor);
                square += weight * part * part;
            }
            let next = (with / square).clamp(1.0 / FARTHEST, FARTHEST) * factor;
            moved = moved.max((next / factors[j] - 1.0).abs());
            factors[j] = next;
        }
        if moved < 1e-6 {
            break;
        }
    }
    let ratios = samples.iter().map(|s| (s.row.latency_ns / s.scaled_ns(&factors)).ln());
    let n = samples.len() as f64;
    let middle = metrics::median(&ratios.collect::<Vec<f64>>()).unwrap_or(0.0);
    let scale = (middle * n / (n + PRIOR_ROWS)).exp();
    factors.into_iter().map(|f| (f * scale).clamp(1.0 / LARGEST, LARGEST)).collect()
}

/// The ridge with the least error on networks that were left out, and the factors without each
/// fold.
fn best_ridge(samples: &[Sample<'_>]) -> (f64, Vec<Factors>) {
    let without = |fold: usize, ridge: f64| {
        let kept: Vec<&Sample<'_>> = samples.iter().filter(|s| s.fold != fold).collect();
        Factors::fit(&kept, ridge)
    };
    let candidates = RIDGES.map(|ridge| {
        let folds: Vec<Factors> = (0..FOLDS).map(|fold| without(fold, ridge)).collect();
        let errors: Vec<f64> = samples.iter().map(|s| s.error(&folds)).collect();
        (metrics::interquartile_mean(&errors).unwrap_or(f64::INFINITY), ridge, folds)
    });
    let best = candidates.into_iter().min_by(|a, b| a.0.total_cmp(&b.0));
    best.map_or((f64::INFINITY, Vec::new()), |(_, ridge, folds)| (ridge, folds))
}

fn corrected(source: &Predictors, factors: &Factors) -> Predictors {
    let mut corrected = Predictors { refinements: crate::Refinements::default(), ..source.clone() };
    for (key, predictor) in &mut corrected.keys {
        let usual = factors.of_kind(&key.kind);
        let columns: Vec<usize> =
            coefficients(predictor).iter().map(|(column, _)| *column).collect();
        let of_key = factors.keys.get(key);
        let constant = of_key.and_then(|f| f.first()).copied().unwrap_or(usual);
        let of_column = |column: usize| {
            let place = columns.iter().position(|c| *c == column).map(|place| place + 1);
            let found = place.and_then(|place| of_key?.get(place));
            found.or_else(|| of_key?.first()).copied().unwrap_or(usual)
        };
        scale_baseline(&mut predictor.baseline, constant, of_column);
        if let Fitted::Lasso(linear) | Fitted::Trees { linear: Some(linear), .. } =
            &mut predictor.fitted
        {
            linear.constant_ns *= constant;
            linear.per_call.iter_mut().for_each(|(_, cost)| *cost *= constant);
            linear.coefficients.iter_mut().for_each(|(column, cost)| *cost *= of_column(*column));
        }
    }
    let fallbacks = &mut corrected.fallbacks;
    for (name, baseline) in fallbacks.classes.iter_mut().chain(&mut fallbacks.kinds) {
        let kind = name.split_once('/').map_or(&**name, |(kind, _)| kind);
        let factor = factors.of_kind(kind);
        scale_baseline(baseline, factor, |_| factor);
    }
    let others = fallbacks.kin.values_mut().chain([&mut fallbacks.roofline]);
    others.for_each(|b| scale_baseline(b, factors.everything, |_| factors.everything));
    corrected
}

fn scale_baseline(baseline: &mut Baseline, constant: f64, of_column: impl Fn(usize) -> f64) {
    baseline.constant_ns *= constant;
    baseline.per_call.iter_mut().for_each(|(_, cost)| *cost *= constant);
    baseline.floor_ns = (baseline.floor_ns * constant).max(1.0);
    baseline.coefficients.iter_mut().for_each(|(column, cost)| *cost *= of_column(*column));
}

/// Expected errors from those of held-out rows; classes with few rows share the usual growth of the
/// error from machine to machine.
fn set_error_scales(predictors: &mut Predictors, samples: &[Sample<'_>], errors: &[f64]) {
    let mut by_key: BTreeMap<&PredictorKey, Vec<f64>> = BTreeMap::new();
    for (sample, error) in samples.iter().zip(errors) {
        by_key.entry(&sample.key).or_default().push(*error);
    }
    by_key.retain(|_, errors| errors.len() >= FEWEST);
    let growth = |key: &PredictorKey, errors: &[f64]| {
        let before = predictors.keys.get(key)?.error_scale.out_of_distribution;
        let own = metrics::mean(errors).filter(|_| before > 0.0)?;
        Some((own / before).max(1.0))
    };
    let growths: Vec<f64> = by_key.iter().filter_map(|(key, errors)| growth(key, errors)).collect();
    let usual = metrics::median(&growths).unwrap_or(2.0);
    let scales: BTreeMap<PredictorKey, ErrorScale> = predictors
        .keys
        .iter()
        .map(|(key, predictor)| {
            let own = by_key.get(key).and_then(|errors| growth(key, errors));
            (key.clone(), grown(predictor.error_scale, own.unwrap_or(usual)))
        })
        .collect();
    for (key, predictor) in &mut predictors.keys {
        predictor.error_scale = scales.get(key).copied().unwrap_or_default();
    }
}

fn bundle(
    source: &PredictorBundle,
    environment: Environment,
    rows: &TrainingRows,
    predictors: Predictors,
    factors: &Factors,
) -> Result<PredictorBundle, PredictorError> {
    let mut bundle = source.copied()?;
    bundle.environment = environment;
    bundle.origin = rows.origin;
    bundle.drift = rows.drift;
    bundle.calibration = source.calibration.scaled(factors.everything);
    bundle.on_real = None;
    bundle.contention = None;
    bundle.predictors = predictors;
    bundle.copied()
}

/// Counts are of the measurements here, of which `used` rows were used; architectures are those of
/// both machines.
fn provenance(source: &PredictorBundle, rows: &TrainingRows, used: usize) -> Provenance {
    let before = &source.provenance;
    let mut trained_on = rows.architecture_digests();
    trained_on.extend(before.trained_on.iter().cloned());
    Provenance {
        created_by: created_by(),
        libraries: libraries(source.method),
        data_digest: rows.digest(),
        seed: residual_trees::SEED,
        boosting: before.boosting,
        folds: FOLDS,
        models: rows.models.len(),
        architectures: rows.architectures(),
        rows: used,
        skipped: rows.skipped.len() + rows.rows.len() - used,
        disturbed: rows.disturbed,
        transferred_from: Some(source.environment.id()),
        source: Some(SourceCounts { models: before.models, rows: before.rows }),
        sampled_of: None,
        trained_on: trained_on.into_iter().collect(),
    }
}

/// Both expected errors, multiplied by a factor.
fn grown(scale: ErrorScale, factor: f64) -> ErrorScale {
    let grown = |error: f64| (error * factor).min(LARGEST_ERROR);
    ErrorScale {
        in_distribution: grown(scale.in_distribution),
        out_of_distribution: grown(scale.out_of_distribution),
    }
}

/// Forecasts of the measured rows and networks, each by the predictors of `folds` that were fitted
/// without its network, with the expected errors of `predictors`.
fn held_out(rows: &TrainingRows, folds: &mut [Predictors], predictors: &Predictors) -> Forecasts {
    let lowered: Vec<_> =
        rows.models.iter().map(|_| Err("it was not forecast from its graph".to_owned())).collect();
    for (key, fold) in folds.iter_mut().flat_map(|fold| &mut fold.keys) {
        fold.error_scale = predictors.keys.get(key).map(|p| p.error_scale).unwrap_or_default();
    }
    let estimate = |&(model, op, within): &OfModel<'_>| {
        folds.get(fold_of(rows, model)).unwrap_or(predictors).estimate(op, within)
    };
    Forecasts::new(rows, &lowered, &|kernels| kernels.iter().map(estimate).collect())
}

/// Errors on the measured rows by kind, and end to end where whole models were measured.
fn evaluation(
    bundle: &PredictorBundle,
    rows: &TrainingRows,
    forecasts: &Forecasts,
) -> Result<Evaluation, PredictorError> {
    let model = EndToEndModel::of(bundle);
    evaluate_forecasts(rows, forecasts, model, bundle.method, bundle.environment.id())
}

fn kinds(samples: &[Sample<'_>]) -> Vec<KindTransfer> {
    let all: Vec<&Sample<'_>> = samples.iter().collect();
    let kind = |(kind, of): (String, Vec<&Sample<'_>>)| {
        let ratios: Vec<f64> = of.iter().map(|s| s.log_ratio()).collect();
        let ratio = metrics::median(&ratios).unwrap_or(0.0).exp();
        KindTransfer { kind, rows: of.len(), ratio }
    };
    grouped(&all, |s| s.key.kind.to_string()).into_iter().map(kind).collect()
}
