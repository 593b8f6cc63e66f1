//! [`train`]: trains a [`PredictorBundle`] on profiles.
//!
//! 1. Rows from profiles. 2. Cross-validation by architecture: every model is forecast by
//!    regressors that were fitted without its architecture.
//! 3. Error scales, the overhead and the interval are fitted to those held-out forecasts, which are
//!    also the bundle's held-out metrics. 4. Regressors on all rows.

use crate::{
    Batch, Boosting, Calibration, ConformalInterval, Estimate, MeasuredModel, Method,
    PredictorBundle, PredictorError, PredictorKey, Predictors, Provenance, TrainingRow,
    TrainingRows, blend_weight,
    calibration::Point,
    error_scale,
    evaluate::{EndToEndModel, Forecasts, OfModel, evaluate_forecasts, lowered},
    features::FeatureSchema,
    fitting::{Example, FitSettings, Model, examples, features_of, on_threads},
    forecast::Total,
    held_out::{HeldOutForecasts, measured_sums},
    shares::Fitted,
    unfamiliar::Intervals,
};
use std::collections::BTreeMap;
use vitempo_graph::{Graph, ModelProfile};

/// Folds at most where rows are very many: two thirds of them are enough to judge by.
const FOLDS_OF_MANY: usize = 3;
/// Rows that a thread takes at once.
const ROWS_AT_ONCE: usize = 4096;
/// Fewest distinct architectures.
const FEWEST_ARCHITECTURES: usize = 3;

/// How to train.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainOptions {
    /// Seed of everything random.
    pub seed: u64,
    /// Folds of the cross-validation; at least 2, at most the number of architectures, and 3 where
    /// there are more than 200 000 rows.
    pub folds: usize,
    /// Threads to fit on; the result does not depend on it.
    pub threads: usize,
    /// Level of the interval, e.g. 0.9.
    pub level: f64,
    /// Hyper-parameters of [`Method::Gbdt`]; the usual ones for every other method.
    pub boosting: Boosting,
}

impl Default for TrainOptions {
    fn default() -> Self {
        Self { seed: 1, folds: 5, threads: 2, level: 0.9, boosting: Boosting::USUAL }
    }
}

/// How far training is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// 1 to `fits`: the folds, then the final fit.
    pub fit: usize,
    /// Number of fits.
    pub fits: usize,
    /// Regressors fitted so far in this fit.
    pub done: usize,
    /// Regressors of this fit.
    pub regressors: usize,
}

fn check(method: Method, options: &TrainOptions) -> Result<(), PredictorError> {
    let wrong =
        |option, reason: &str| Err(PredictorError::Option { option, reason: reason.to_owned() });
    match options {
        o if !(o.level > 0.0 && o.level < 1.0) => wrong("level", "must lie between 0 and 1"),
        o if o.folds < 2 => wrong("folds", "must be at least 2"),
        o if method != Method::Gbdt && !o.boosting.is_usual() => {
            wrong("boosting", "has no effect on this method: only gbdt boosts trees")
        }
        o => o.boosting.check(),
    }
}

/// Fold of each model: architectures in an order that depends on the seed only, dealt out in turn.
fn folds(rows: &TrainingRows, seed: u64, most: usize) -> (Vec<usize>, usize) {
    let rank = |architecture: &str| {
        blake3::hash(format!("{seed}|{architecture}").as_bytes()).to_hex().to_string()
    };
    let mut order: Vec<(String, &str)> =
        rows.models.iter().map(|m| (rank(&m.architecture), m.architecture.as_str())).collect();
    order.sort_unstable();
    order.dedup();
    let folds = most.min(order.len()).max(1);
    let of: BTreeMap<&str, usize> =
        order.iter().enumerate().map(|(i, (_, a))| (*a, i % folds)).collect();
    (rows.models.iter().map(|m| of[m.architecture.as_str()]).collect(), folds)
}

/// The architecture of each model, by number, and whether it is a whole one. Where none is, all
/// count as whole.
fn models(rows: &TrainingRows) -> Vec<Model> {
    let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
    let any_whole = (0..rows.models.len()).any(|model| rows.is_whole(model));
    let mut number = |architecture| {
        let next = numbers.len();
        *numbers.entry(architecture).or_insert(next)
    };
    rows.models
        .iter()
        .enumerate()
        .map(|(model, m)| Model {
            group: number(&m.architecture),
            whole: rows.is_whole(model) || !any_whole,
        })
        .collect()
}

/// What is fitted: rows, and which of them each fit leaves out.
pub(crate) struct Fits {
    pub(crate) rows: TrainingRows,
    models: Vec<Model>,
    /// By row, the number of its features, where rows are very many.
    features: Option<Vec<u32>>,
    fold_of: Vec<usize>,
    folds: usize,
    pub(crate) settings: FitSettings,
}

impl Fits {
    /// Of profiles of one environment.
    ///
    /// # Errors
    /// As [`train`].
    pub(crate) fn of(
        profiles: &[ModelProfile],
        method: Method,
        options: &TrainOptions,
    ) -> Result<Self, PredictorError> {
        check(method, options)?;
        let rows = TrainingRows::from_profiles(profiles)?;
        if rows.architectures() < FEWEST_ARCHITECTURES {
            return Err(PredictorError::TooFewModels {
                found: rows.architectures(),
                needed: FEWEST_ARCHITECTURES,
            });
        }
        let features = features_of(&rows.rows);
        let most = if features.is_some() { FOLDS_OF_MANY } else { usize::MAX };
        let (fold_of, folds) = folds(&rows, options.seed, options.folds.min(most));
        let models = models(&rows);
        let settings = FitSettings {
            method,
            boosting: options.boosting,
            seed: options.seed,
            threads: options.threads,
        };
        Ok(Self { rows, models, features, fold_of, folds, settings })
    }

    /// How many fits there are: one for each fold, without its models, and one of all.
    pub(crate) fn count(&self) -> usize {
        self.folds + 1
    }

    /// What a fit, from 0, is fitted to.
    pub(crate) fn examples_of(&self, fit: usize) -> Vec<Example<'_>> {
        let rows = self.rows.rows.iter().enumerate();
        let rows = rows.filter(|(_, row)| self.fold_of[row.model] != fit);
        examples(rows, &self.models, self.features.as_deref())
    }
}

/// Trains one bundle. `graphs` holds the models' source graphs by name or by architecture; a model
/// without one counts by its executed kernels.
///
/// # Errors
/// [`PredictorError`] when profiles mix environments or origins, or are too few.
pub fn train(
    profiles: &[ModelProfile],
    graphs: &BTreeMap<String, Graph>,
    method: Method,
    options: &TrainOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<PredictorBundle, PredictorError> {
    train_with(profiles, graphs, method, options, &Fitted::default(), progress)
}

/// The same, with regressors that are fitted already: the bundle is the same, byte for byte.
///
/// # Errors
/// As [`train`]; [`PredictorError::Option`] where they are of other rows or options.
pub fn train_with(
    profiles: &[ModelProfile],
    graphs: &BTreeMap<String, Graph>,
    method: Method,
    options: &TrainOptions,
    fitted: &Fitted,
    progress: &mut dyn FnMut(Progress),
) -> Result<PredictorBundle, PredictorError> {
    let fits = Fits::of(profiles, method, options)?;
    fitted.check(&fits)?;
    let environment = profiles.first().map(|p| p.environment.without_host()).ok_or_else(no_rows)?;
    let mut fit = |number: usize| {
        let mut report = |done, regressors| {
            progress(Progress { fit: number + 1, fits: fits.count(), done, regressors });
        };
        let of = |key: &PredictorKey| fitted.get(number, key);
        Predictors::fit(&fits.examples_of(number), fits.settings, &of, &mut report)
    };
    let mut held_out: Vec<Predictors> = (0..fits.folds).map(|fold| fit(fold).0).collect();
    let (mut predictors, unfitted) = fit(fits.folds);
    let Fits { rows, fold_of, folds, .. } = fits;
    let weights = blend_weight::learn(&rows, &unblended(&rows, &held_out, &fold_of, options));
    held_out.iter_mut().chain([&mut predictors]).for_each(|p| p.set_blend_weights(&weights));
    let estimates = estimates(&rows.kernels(), &held_out, &fold_of, options);
    let (lowered, measured) = (lowered(&rows, graphs, &environment), measured_sums(&rows));
    let mut scales = error_scale::learn(&predictors, &rows, &estimates);
    let forecast_held_out = |held_out: &[Predictors]| {
        let forecasts = Forecasts::new(&rows, &lowered, &|kernels| {
            self::estimates(kernels, held_out, &fold_of, options)
        });
        let calibration = calibrate(&rows, &measured, &forecasts);
        (HeldOutForecasts::new(&rows, &measured, &forecasts, &calibration), forecasts, calibration)
    };
    held_out.iter_mut().for_each(|p| p.set_error_scales(&scales));
    let excess = forecast_held_out(&held_out).0.excess(options.level);
    scales.values_mut().for_each(|scale| scale.out_of_distribution *= excess);
    held_out.iter_mut().chain([&mut predictors]).for_each(|p| p.set_error_scales(&scales));
    let (held, forecasts, calibration) = forecast_held_out(&held_out);
    let interval = ConformalInterval::fit(&held.models, options.level);
    let intervals = Intervals { familiar: &interval, unfamiliar: None };
    let model = EndToEndModel { calibration: &calibration, intervals };
    let mut evaluation = evaluate_forecasts(&rows, &forecasts, model, method, environment.id())?;
    evaluation.skipped.extend(unfitted.into_iter().map(|s| (s.what, s.reason)));
    let provenance = Provenance {
        created_by: created_by(),
        libraries: libraries(method),
        data_digest: rows.digest(),
        seed: options.seed,
        boosting: options.boosting,
        folds,
        models: rows.models.len(),
        architectures: rows.architectures(),
        rows: rows.rows.len(),
        skipped: rows.skipped.len(),
        disturbed: rows.disturbed,
        transferred_from: None,
        source: None,
        sampled_of: None,
        trained_on: rows.architecture_digests().into_iter().collect(),
    };
    let parts = crate::bundle::Parts {
        environment,
        origin: rows.origin,
        method,
        schema: FeatureSchema::current(),
        calibration,
        interval,
        drift: rows.drift,
        provenance,
    };
    Ok(PredictorBundle::new(parts, predictors, evaluation))
}

/// Estimates by predictors that were not fitted to the kernel's model.
fn estimates(
    kernels: &[OfModel<'_>],
    held_out: &[Predictors],
    fold_of: &[usize],
    options: &TrainOptions,
) -> Vec<Estimate> {
    let of_each = on_threads(options.threads, held_out.len(), |fold| {
        let mut batch = Batch::new(&held_out[fold]);
        let own = kernels.iter().filter(|(model, ..)| fold_of[*model] == fold);
        own.for_each(|(_, op, working_set)| batch.push(op, *working_set));
        batch.estimates()
    });
    let mut of_each: Vec<_> = of_each.into_iter().map(Vec::into_iter).collect();
    kernels.iter().filter_map(|(model, ..)| of_each[fold_of[*model]].next()).collect()
}

/// What [`blend_weight::learn`] needs of each row.
fn unblended(
    rows: &TrainingRows,
    held_out: &[Predictors],
    fold_of: &[usize],
    options: &TrainOptions,
) -> Vec<Option<[f64; 2]>> {
    let some: Vec<&[TrainingRow]> = rows.rows.chunks(ROWS_AT_ONCE).collect();
    let of_row = |row: &TrainingRow| {
        let any_size = !rows.is_whole(row.model);
        held_out[fold_of[row.model]].unblended(&row.op, row.working_set, any_size)
    };
    on_threads(options.threads, some.len(), |chunk| {
        some[chunk].iter().map(of_row).collect::<Vec<_>>()
    })
    .concat()
}

fn no_rows() -> PredictorError {
    PredictorError::NoRows { profiles: 0, skipped: 0, reasons: String::new() }
}

/// Program and version.
pub(crate) fn created_by() -> String {
    format!("vitempo-predictors {}", env!("CARGO_PKG_VERSION"))
}

pub(crate) fn libraries(method: Method) -> String {
    match method {
        Method::Lasso => "linfa-elasticnet 0.8",
        Method::RandomForest => "smartcore 0.7",
        Method::Gbdt => "LightGBM 4.7 (lightgbm3 1.0.11)",
    }
    .to_owned()
}

/// From sums over the executed kernels, so that the fit describes the engine's overhead and not
/// errors of lowering.
fn calibrate(rows: &TrainingRows, measured: &[f64], forecasts: &Forecasts) -> Calibration {
    let point = |((m, &measured_ns), Total { tally, .. }): ((&MeasuredModel, &f64), &Total)| {
        let e2e_ns = m.e2e_ns.filter(|_| tally.sum_ns > 0.0 && measured_ns > 0.0)?;
        Some(Point { measured_ns, forecast_ns: tally.sum_ns, kernels: tally.kernels(), e2e_ns })
    };
    let points: Vec<_> =
        rows.models.iter().zip(measured).zip(&forecasts.executed).filter_map(point).collect();
    Calibration::fit(&points)
}
