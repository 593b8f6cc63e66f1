//! [`evaluate`]: errors of a bundle's forecasts of measured models. Operators are evaluated on the
//! kernels that were executed; models end to end from their source graph through lowering (`e2e`)
//! and from the executed kernels (`e2e_executed`). The two separate errors of lowering from errors
//! of regressors.
//!
//! `mape`, `p90_ape` and `weighted_ape` are in percent, `within_*`, `*_share` and
//! `interval_coverage` between 0 and 1, latencies in ns.

use crate::{
    Calibration, ConformalInterval, MeasuredModel, Method, PredictorBundle, PredictorError,
    PredictorKey, Skipped, TrainingRows,
    features::{Surroundings, WorkingSet},
    forecast::Total,
    interval::HeldOut,
    metrics::{self, MetricError, mape, p90_ape, weighted_ape, within},
    predictors::Estimate,
    unfamiliar::{Intervals, Witness},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::{cmp::Ordering, collections::BTreeMap};
use vitempo_graph::{
    Environment, Graph, Interval, Latency, ModelProfile, OpKind, OpSpec, Origin, PredictionSource,
    lowering, lowering::LoweringError,
};

/// Errors on one operator kind or group of kinds; one row is one distinct operator in one model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KindMetrics {
    /// Number of rows.
    pub rows: usize,
    /// Mean absolute percentage error.
    pub mape: f64,
    /// 90th percentile of the absolute percentage error.
    pub p90_ape: f64,
    /// Share of rows whose error is at most 10 %.
    pub within_10pct: f64,
    /// Mean absolute percentage error, rows weighted by their time.
    pub weighted_ape: f64,
    /// Share of all operators' measured time.
    pub time_share: f64,
    /// Rows forecast by fallback.
    pub fallback_rows: usize,
}

/// Errors end to end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EndToEnd {
    /// Number of models.
    pub models: usize,
    /// Mean absolute percentage error.
    pub mape: f64,
    /// 90th percentile of the absolute percentage error.
    pub p90_ape: f64,
    /// Share of models whose error is at most 5 %.
    pub within_5pct: f64,
    /// Share of models whose error is at most 10 %.
    pub within_10pct: f64,
    /// Nominal coverage of the interval.
    pub interval_level: f64,
    /// Share of models whose latency is inside the interval.
    pub interval_coverage: f64,
    /// Mean of (upper - lower) / forecast.
    pub interval_width: f64,
    /// Coverage of the simplest valid interval, which is equally wide for every model.
    pub plain_coverage: f64,
    /// Its width.
    pub plain_width: f64,
}

/// How much the same models differ between model runs. Smaller differences between forecasts are
/// within measurement noise.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NoiseFloor {
    /// Models measured more than once.
    pub models: usize,
    /// Between a model run and the next, drift-corrected where the bundle corrects drift.
    pub mape: f64,
    /// As measured.
    pub mape_raw: f64,
}

/// Measured and forecast time of one kind within one model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Contribution {
    /// Name of the kind.
    pub kind: String,
    /// Sum of the measured kernels of this kind.
    pub actual_ns: f64,
    /// Sum of their forecasts.
    pub predicted_ns: f64,
}

/// One model, forecast against measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelRow {
    /// Readable name.
    pub name: String,
    /// The digest of its operators: two models may have one name.
    #[serde(default)]
    pub architecture: String,
    /// Measured end to end, drift-corrected.
    pub actual_ns: f64,
    /// Forecast from the source graph; from the executed kernels where there is no graph.
    #[serde(flatten, with = "row_interval")]
    pub predicted: Interval<Latency>,
    /// Expected `|ln(actual / forecast)|` if the errors of all operators had one sign.
    #[serde(rename = "doubt")]
    pub difficulty: f64,
    /// Whether more than half of the forecast is of operators of out-of-distribution sizes.
    #[serde(default, skip_serializing_if = "is_false")]
    pub unfamiliar: bool,
    /// Absolute percentage error; `None` where nothing but 0 was measured.
    pub ape: Option<f64>,
    /// Forecast from the executed kernels.
    pub predicted_executed_ns: f64,
    /// Sum of the measured kernels.
    pub measured_sum_ns: f64,
    /// Kernels executed.
    pub kernels: usize,
    /// Kernels according to lowering; `None` where they are not known.
    pub kernels_lowered: Option<usize>,
    /// Share of the forecast that comes from fallbacks.
    pub fallback_share: f64,
    /// Share of the forecast outside the range of the training rows, fallbacks included.
    pub extrapolating_share: f64,
    /// The kinds that contribute most to the error, largest first.
    pub contributions: Vec<Contribution>,
}

impl ModelRow {
    /// By percentage error, smallest first; models without one come before all others.
    #[must_use]
    pub fn by_error(&self, other: &Self) -> Ordering {
        let ape = |row: &Self| row.ape.unwrap_or(f64::NEG_INFINITY);
        ape(self).total_cmp(&ape(other))
    }
}

/// A forecast and its interval as three fields of a row.
mod row_interval {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
    use vitempo_graph::{Interval, Latency};

    #[derive(Serialize, Deserialize)]
    struct Fields {
        predicted_ns: f64,
        lower_ns: f64,
        upper_ns: f64,
    }

    pub(super) fn serialize<S: Serializer>(
        interval: &Interval<Latency>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let [predicted_ns, lower_ns, upper_ns] =
            [interval.point(), interval.lower(), interval.upper()].map(Latency::ns);
        Fields { predicted_ns, lower_ns, upper_ns }.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Interval<Latency>, D::Error> {
        let Fields { predicted_ns, lower_ns, upper_ns } = Fields::deserialize(deserializer)?;
        let interval = Interval::checked(predicted_ns, lower_ns, upper_ns);
        Ok(interval.map_err(D::Error::custom)?.map(Latency::from_ns))
    }
}

/// Everything `evaluate` finds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// Method of the bundle.
    pub method: Method,
    /// Identifier of the environment.
    pub environment: String,
    /// Where the actual values come from.
    pub origin: Origin,
    /// By operator kind.
    pub operators: BTreeMap<String, KindMetrics>,
    /// The paper's groups: conv, linear, matmul, elementwise, pooling, normalization, activation.
    pub groups: BTreeMap<String, KindMetrics>,
    /// From source graphs through lowering; `None` when no model has both a graph and an end-to-end
    /// measurement.
    pub e2e: Option<EndToEnd>,
    /// From executed kernels, of models whose kernels were timed.
    pub e2e_executed: Option<EndToEnd>,
    /// `None` when no model was measured twice.
    pub noise_floor: Option<NoiseFloor>,
    /// By model, in the order of names.
    pub models: Vec<ModelRow>,
    /// Rows that cannot be used.
    pub skipped: Vec<(String, String)>,
}

/// Most contributions listed per model.
const CONTRIBUTIONS: usize = 4;

/// A distinct operator of a graph after lowering.
pub(crate) struct Kernel {
    op: OpSpec,
    count: usize,
    working_set: WorkingSet,
}

/// Kernels of a graph in order of first appearance.
pub(crate) type Kernels = Vec<Kernel>;

/// The kernels of each model, whose graph is found by name, else by architecture; or the reason why
/// they are unknown.
pub(crate) fn lowered(
    rows: &TrainingRows,
    graphs: &BTreeMap<String, Graph>,
    environment: &Environment,
) -> Vec<Result<Kernels, String>> {
    let graph = |m: &MeasuredModel| {
        let found = graphs.get(&m.name).or_else(|| graphs.get(&m.architecture));
        found.ok_or_else(|| "no graph".to_owned())
    };
    rows.models.iter().map(|m| kernels(graph(m)?, environment).map_err(|e| e.to_string())).collect()
}

fn kernels(graph: &Graph, environment: &Environment) -> Result<Kernels, LoweringError> {
    let lowered = lowering::lower(graph, environment)?;
    let mut place = std::collections::HashMap::new();
    let mut found: Vec<(&OpSpec, usize)> = Vec::new();
    for node in lowered.nodes() {
        let index = *place.entry(&node.op).or_insert(found.len());
        match found.get_mut(index) {
            Some(entry) => entry.1 += 1,
            None => found.push((&node.op, 1)),
        }
    }
    let around = Surroundings::of(found.iter().copied(), environment);
    Ok(found
        .into_iter()
        .map(|(op, count)| Kernel {
            op: op.clone(),
            count,
            working_set: around.working_set(op, count),
        })
        .collect())
}

/// A kernel of a model, which is the first.
pub(crate) type OfModel<'o> = (usize, &'o OpSpec, WorkingSet);

/// Forecasts for every row and every model, by whichever predictor is chosen for a model.
pub(crate) struct Forecasts {
    pub rows: Vec<Estimate>,
    pub executed: Vec<Total>,
    /// By model; or why its kernels are not known.
    pub lowered: Vec<Result<Total, String>>,
}

impl Forecasts {
    /// `forecast` gives an estimate of each kernel.
    pub(crate) fn new(
        rows: &TrainingRows,
        lowered: &[Result<Kernels, String>],
        forecast: &dyn Fn(&[OfModel<'_>]) -> Vec<Estimate>,
    ) -> Self {
        let estimates = forecast(&rows.kernels());
        let mut executed = vec![Total::default(); rows.models.len()];
        for (row, e) in rows.rows.iter().zip(&estimates) {
            executed[row.model].add(&row.op.kind, *e, row.count);
        }
        let mut of_lowered: Vec<OfModel<'_>> = Vec::new();
        for (model, kernels) in lowered.iter().enumerate() {
            let kernels = kernels.iter().flatten();
            of_lowered.extend(kernels.map(|k| (model, &k.op, k.working_set)));
        }
        let mut of_lowered = forecast(&of_lowered).into_iter();
        let mut total = |kernels: &Kernels| {
            let mut total = Total::default();
            kernels.iter().zip(of_lowered.by_ref()).for_each(|(kernel, estimate)| {
                total.add(&kernel.op.kind, estimate, kernel.count);
            });
            total
        };
        let lowered =
            lowered.iter().map(|kernels| kernels.as_ref().map(&mut total).map_err(Clone::clone));
        Self { rows: estimates, executed, lowered: lowered.collect() }
    }
}

/// What turns sums into forecasts.
#[derive(Clone, Copy)]
pub(crate) struct EndToEndModel<'a> {
    pub calibration: &'a Calibration,
    pub intervals: Intervals<'a>,
}

impl<'a> EndToEndModel<'a> {
    pub(crate) fn of(bundle: &'a PredictorBundle) -> Self {
        Self { calibration: &bundle.calibration, intervals: bundle.intervals() }
    }
}

/// Evaluates a bundle on profiles. Graphs are looked up by model name, else by architecture.
///
/// # Errors
/// [`PredictorError::OtherEnvironment`] when the profiles come from another environment than the
/// bundle; [`PredictorError::Metric`] naming the model whose forecast is not a finite number; as
/// [`TrainingRows::from_profiles`].
pub fn evaluate(
    bundle: &PredictorBundle,
    profiles: &[ModelProfile],
    graphs: &BTreeMap<String, Graph>,
) -> Result<Evaluation, PredictorError> {
    evaluate_part(bundle, profiles, graphs, &|_| true)
}

/// [`evaluate`] of the profiles for which `is_part` holds. Which model runs were interfered with is
/// decided among all, so that parts have the runs of the whole.
///
/// # Errors
/// As [`evaluate`].
pub fn evaluate_part(
    bundle: &PredictorBundle,
    profiles: &[ModelProfile],
    graphs: &BTreeMap<String, Graph>,
    is_part: &dyn Fn(&ModelProfile) -> bool,
) -> Result<Evaluation, PredictorError> {
    let (rows, forecasts) = forecast_measured(bundle, profiles, graphs, is_part)?;
    let model = EndToEndModel::of(bundle);
    evaluate_forecasts(&rows, &forecasts, model, bundle.method, bundle.environment.id())
}

/// The unfamiliar models among the measured ones, with their forecasts.
///
/// # Errors
/// As [`evaluate`].
pub(crate) fn unfamiliar_models(
    bundle: &PredictorBundle,
    profiles: &[ModelProfile],
    graphs: &BTreeMap<String, Graph>,
) -> Result<Vec<Witness>, PredictorError> {
    let (rows, forecasts) = forecast_measured(bundle, profiles, graphs, &|_| true)?;
    let witness = |(model, total): (&MeasuredModel, &Result<Total, String>)| {
        let tally = total.as_ref().ok()?.tally;
        let forecast = HeldOut {
            actual_ns: model.e2e_ns?,
            forecast_ns: tally.point_ns(&bundle.calibration),
            difficulty: tally.difficulty(),
        };
        tally.is_unfamiliar().then(|| Witness { name: model.name.clone(), forecast })
    };
    Ok(rows.models.iter().zip(&forecasts.lowered).filter_map(witness).collect())
}

fn forecast_measured(
    bundle: &PredictorBundle,
    profiles: &[ModelProfile],
    graphs: &BTreeMap<String, Graph>,
    is_part: &dyn Fn(&ModelProfile) -> bool,
) -> Result<(TrainingRows, Forecasts), PredictorError> {
    let id = bundle.environment.id();
    if let Some(other) = profiles.iter().map(|p| p.environment.id()).find(|other| *other != id) {
        return Err(PredictorError::OtherEnvironment { bundle: id, data: other });
    }
    let rows = TrainingRows::of_part(profiles, bundle.drift, is_part)?;
    let lowered = lowered(&rows, graphs, &bundle.environment);
    let forecasts = Forecasts::new(&rows, &lowered, &|kernels| {
        kernels.iter().map(|(_, op, working_set)| bundle.estimate(op, *working_set)).collect()
    });
    Ok((rows, forecasts))
}

/// Six decimals: metrics read well and survive JSON unchanged.
fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

pub(crate) fn evaluate_forecasts(
    rows: &TrainingRows,
    forecasts: &Forecasts,
    model: EndToEndModel<'_>,
    method: Method,
    environment: String,
) -> Result<Evaluation, PredictorError> {
    let mut kinds: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    let mut groups: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (i, row) in rows.rows.iter().enumerate() {
        kinds.entry(row.op.kind.name().to_owned()).or_default().push(i);
        if let Some(group) = group(&row.op.kind) {
            groups.entry(group.to_owned()).or_default().push(i);
        }
    }
    let metrics = |by: BTreeMap<String, Vec<usize>>| {
        by.into_iter()
            .map(|(kind, members)| {
                let found = kind_metrics(rows, forecasts, &members);
                let found =
                    found.map_err(|source| named(source, &kind, |i| row_name(rows, members[i])))?;
                Ok((kind, found))
            })
            .collect::<Result<BTreeMap<String, KindMetrics>, PredictorError>>()
    };
    let familiar = model.intervals.familiar;
    let measured: Vec<usize> =
        (0..rows.models.len()).filter(|&m| rows.models[m].e2e_ns.is_some()).collect();
    let models: Vec<ModelRow> = measured
        .iter()
        .map(|&m| model_row(rows, forecasts, model, m))
        .collect::<Result<_, PredictorError>>()?;
    Ok(Evaluation {
        method,
        environment,
        origin: rows.origin,
        operators: metrics(kinds)?,
        groups: metrics(groups)?,
        e2e: from_graphs(&models, familiar)?,
        e2e_executed: from_kernels(&models, familiar)?,
        noise_floor: noise_floor(rows)?,
        skipped: skipped(rows, forecasts),
        models,
    })
}

fn from_graphs(
    models: &[ModelRow],
    familiar: &ConformalInterval,
) -> Result<Option<EndToEnd>, PredictorError> {
    let with_graph: Vec<&ModelRow> =
        models.iter().filter(|m| m.kernels_lowered.is_some()).collect();
    end_to_end(&with_graph, |m| m.predicted.point().ns(), familiar)
}

fn from_kernels(
    models: &[ModelRow],
    familiar: &ConformalInterval,
) -> Result<Option<EndToEnd>, PredictorError> {
    let with_kernels: Vec<&ModelRow> = models.iter().filter(|m| m.kernels > 0).collect();
    end_to_end(&with_kernels, |m| m.predicted_executed_ns, familiar)
}

impl Evaluation {
    /// Everything but the models, as the program and the Python package write it; MAPE and p90 in
    /// percent, shares between 0 and 1.
    #[must_use]
    pub fn summary(&self) -> Value {
        json!({
            "method": self.method,
            "environment": self.environment,
            "origin": self.origin,
            "operators": self.operators,
            "groups": self.groups,
            "e2e": self.e2e,
            "e2e_executed": self.e2e_executed,
            "noise_floor": self.noise_floor,
            "skipped": self.skipped,
        })
    }

    /// The same with another interval of its unfamiliar models.
    pub(crate) fn with_unfamiliar(
        mut self,
        intervals: Intervals<'_>,
    ) -> Result<Self, PredictorError> {
        for row in self.models.iter_mut().filter(|row| row.unfamiliar) {
            let interval = intervals.judged(true, &row.name);
            let point = row.predicted.point().ns();
            let (lower, upper) = interval.around(point, row.difficulty);
            row.predicted =
                Interval::clamped(point, lower, upper).map(|ns| Latency::from_ns(rounded(ns)));
        }
        self.e2e = from_graphs(&self.models, intervals.familiar)?;
        self.e2e_executed = from_kernels(&self.models, intervals.familiar)?;
        Ok(self)
    }
}

/// The signature is serde's.
#[allow(clippy::trivially_copy_pass_by_ref)]
const fn is_false(flag: &bool) -> bool {
    !*flag
}

/// The error with the name of the pair it is about, or of `all` pairs.
fn named(source: MetricError, all: &str, pair: impl Fn(usize) -> String) -> PredictorError {
    let what = match source {
        MetricError::NotFinite { index, .. } => pair(index),
        MetricError::NoPairs | MetricError::Unpaired { .. } => all.to_owned(),
    };
    PredictorError::Metric { what, source }
}

fn row_name(rows: &TrainingRows, row: usize) -> String {
    let row = &rows.rows[row];
    format!("model `{}`, operator {}", rows.models[row.model].name, PredictorKey::of(&row.op))
}

fn model_name(name: &str) -> String {
    format!("model `{name}`")
}

fn skipped(rows: &TrainingRows, forecasts: &Forecasts) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = rows
        .skipped
        .iter()
        .map(|Skipped { what, reason }| (what.clone(), reason.clone()))
        .collect();
    for (model, lowered) in rows.models.iter().zip(&forecasts.lowered) {
        if let Err(reason) = lowered {
            all.push((model.name.clone(), format!("{reason}: not part of e2e")));
        }
        if model.e2e_ns.is_none() {
            all.push((model.name.clone(), "no end-to-end samples".to_owned()));
        }
    }
    all
}

/// The groups of the paper's tables.
fn group(kind: &OpKind) -> Option<&'static str> {
    use OpKind as K;
    Some(match kind {
        K::Conv => "conv",
        K::Linear => "linear",
        K::MatMul => "matmul",
        K::Add | K::Sub | K::Mul | K::Div | K::Pow => "elementwise",
        K::MaxPool | K::AveragePool | K::GlobalAveragePool | K::GlobalMaxPool => "pooling",
        K::LayerNorm | K::BatchNorm | K::InstanceNorm | K::GroupNorm | K::RmsNorm => {
            "normalization"
        }
        K::Relu
        | K::LeakyRelu
        | K::PRelu
        | K::Elu
        | K::Clip
        | K::Sigmoid
        | K::HardSigmoid
        | K::HardSwish
        | K::Silu => "activation",
        K::Gelu | K::GeluTanh | K::Mish | K::Softplus | K::Tanh | K::Erf => "activation",
        _ => return None,
    })
}

fn kind_metrics(
    rows: &TrainingRows,
    forecasts: &Forecasts,
    members: &[usize],
) -> Result<KindMetrics, MetricError> {
    let actual: Vec<f64> = members.iter().map(|&i| rows.rows[i].latency_ns).collect();
    let predicted: Vec<f64> = members.iter().map(|&i| forecasts.rows[i].latency_ns).collect();
    let times_count = |ns: &[f64]| -> Vec<f64> {
        ns.iter().zip(members).map(|(ns, &i)| ns * rows.rows[i].count as f64).collect()
    };
    let all: f64 = rows.rows.iter().map(|r| r.latency_ns * r.count as f64).sum();
    let own: f64 =
        members.iter().map(|&i| rows.rows[i].latency_ns * rows.rows[i].count as f64).sum();
    Ok(KindMetrics {
        rows: members.len(),
        mape: rounded(mape(&actual, &predicted)?),
        p90_ape: rounded(p90_ape(&actual, &predicted)?),
        within_10pct: rounded(within(&actual, &predicted, 10.0)?),
        weighted_ape: rounded(weighted_ape(&times_count(&actual), &times_count(&predicted))?),
        time_share: rounded(if all > 0.0 { own / all } else { 0.0 }),
        fallback_rows: members
            .iter()
            .filter(|&&i| forecasts.rows[i].source == PredictionSource::Fallback)
            .count(),
    })
}

fn model_row(
    rows: &TrainingRows,
    forecasts: &Forecasts,
    model: EndToEndModel<'_>,
    index: usize,
) -> Result<ModelRow, PredictorError> {
    let measured = &rows.models[index];
    let executed = &forecasts.executed[index];
    let total = forecasts.lowered[index].as_ref().unwrap_or(executed);
    let interval = model.intervals.judged(total.tally.is_unfamiliar(), &measured.name);
    let prediction = total.tally.end_to_end(model.calibration, &interval);
    let mut kinds: BTreeMap<&str, (f64, f64)> =
        total.kinds.iter().map(|(k, ns)| (k.as_str(), (0.0, *ns))).collect();
    let own = rows.of_model(index);
    own.iter().for_each(|r| {
        kinds.entry(r.op.kind.name()).or_default().0 += r.latency_ns * r.count as f64;
    });
    let contribution = |(kind, (actual, predicted)): (&str, (f64, f64))| Contribution {
        kind: kind.to_owned(),
        actual_ns: rounded(actual),
        predicted_ns: rounded(predicted),
    };
    let mut contributions: Vec<Contribution> = kinds.into_iter().map(contribution).collect();
    contributions.sort_by(|a, b| {
        (b.actual_ns - b.predicted_ns).abs().total_cmp(&(a.actual_ns - a.predicted_ns).abs())
    });
    contributions.truncate(CONTRIBUTIONS);
    let actual = measured.e2e_ns.unwrap_or(0.0);
    let share =
        |ns: f64| rounded(if total.tally.sum_ns > 0.0 { ns / total.tally.sum_ns } else { 0.0 });
    let ape = metrics::where_paired(mape(&[actual], &[prediction.point().ns()]))
        .map_err(|source| PredictorError::Metric { what: model_name(&measured.name), source })?;
    Ok(ModelRow {
        name: measured.name.clone(),
        architecture: measured.architecture.clone(),
        actual_ns: rounded(actual),
        predicted: prediction.interval.map(|latency| Latency::from_ns(rounded(latency.ns()))),
        difficulty: rounded(total.tally.difficulty()),
        unfamiliar: total.tally.is_unfamiliar(),
        ape: ape.map(rounded),
        predicted_executed_ns: rounded(executed.tally.point_ns(model.calibration)),
        measured_sum_ns: rounded(own.iter().map(|r| r.latency_ns * r.count as f64).sum()),
        kernels: measured.kernels,
        kernels_lowered: forecasts.lowered[index].as_ref().ok().map(|t| t.tally.kernels()),
        fallback_share: share(total.fallback_ns),
        extrapolating_share: share(total.extrapolating_ns),
        contributions,
    })
}

/// The relative interval is the same for both forecasts: that of the kernels according to lowering.
/// The plain interval is that of `familiar`. `None` without a model that took time.
fn end_to_end(
    models: &[&ModelRow],
    predicted: impl Fn(&ModelRow) -> f64,
    familiar: &ConformalInterval,
) -> Result<Option<EndToEnd>, PredictorError> {
    let actual: Vec<f64> = models.iter().map(|m| m.actual_ns).collect();
    let predicted: Vec<f64> = models.iter().map(|m| predicted(m)).collect();
    let around = |(m, p): (&&ModelRow, &f64)| {
        let scale = p / m.predicted.point().ns();
        (scale * m.predicted.lower().ns(), scale * m.predicted.upper().ns())
    };
    let bounds: Vec<(f64, f64)> = models.iter().zip(&predicted).map(around).collect();
    let plain: Vec<(f64, f64)> = predicted.iter().map(|p| familiar.plain.around(*p, 1.0)).collect();
    let covered = |bounds: &[(f64, f64)]| {
        bounds.iter().zip(&actual).filter(|((low, high), a)| low <= *a && *a <= high).count() as f64
            / models.len() as f64
    };
    let width = |bounds: &[(f64, f64)]| {
        bounds.iter().zip(&predicted).map(|((low, high), p)| (high - low) / p).sum::<f64>()
            / models.len() as f64
    };
    let found = || -> Result<EndToEnd, MetricError> {
        Ok(EndToEnd {
            models: models.len(),
            mape: rounded(mape(&actual, &predicted)?),
            p90_ape: rounded(p90_ape(&actual, &predicted)?),
            within_5pct: rounded(within(&actual, &predicted, 5.0)?),
            within_10pct: rounded(within(&actual, &predicted, 10.0)?),
            interval_level: rounded(familiar.level),
            interval_coverage: rounded(covered(&bounds)),
            interval_width: rounded(width(&bounds)),
            plain_coverage: rounded(covered(&plain)),
            plain_width: rounded(width(&plain)),
        })
    };
    metrics::where_paired(found())
        .map_err(|source| named(source, "end to end", |i| model_name(&models[i].name)))
}

/// `None` where no model was measured twice.
fn noise_floor(rows: &TrainingRows) -> Result<Option<NoiseFloor>, PredictorError> {
    let again: Vec<_> = rows.models.iter().filter(|m| m.runs.len() > 1).collect();
    let pairs: Vec<_> = again
        .iter()
        .flat_map(|model| model.runs.windows(2).map(|pair| (model.name.as_str(), pair)))
        .collect();
    let side = |i: usize, corrected: bool| {
        let of = |run: (f64, f64)| if corrected { run.1 } else { run.0 };
        pairs.iter().map(|(_, pair)| of(pair[i])).collect::<Vec<f64>>()
    };
    let between = |corrected| mape(&side(0, corrected), &side(1, corrected)).map(rounded);
    let found = || -> Result<NoiseFloor, MetricError> {
        Ok(NoiseFloor { models: again.len(), mape: between(true)?, mape_raw: between(false)? })
    };
    metrics::where_paired(found())
        .map_err(|source| named(source, "repeated measurements", |i| model_name(pairs[i].0)))
}
