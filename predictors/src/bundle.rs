//! [`PredictorBundle`]: everything one environment's forecasts need, in one file.
//!
//! File: an [`envelope`](crate::envelope) around length (u64) and JSON of the head, then the trees
//! of every key that has some, in the order of the keys. It is written beside its place and moved
//! there, so that it exists whole or not at all. Everything is checked before anything is used.

use crate::{
    AdaptedBundle, Boosting, Calibration, ConformalInterval, Drift, ErrorScale, Evaluation,
    KeyPredictor, Method, PredictorError, PredictorKey, Predictors, Refinements, SlowdownModel,
    UnfamiliarInterval,
    envelope::{self, Envelope},
    error_scale::Support,
    features::{Family, FeatureSchema},
    memo::Memo,
    predictors::Fallbacks,
    refined::{Correction, RefinedModel},
    regressors::{Baseline, Fitted, Lasso, Trees},
};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex},
};
use vitempo_graph::{Environment, OpSpec, Origin};

/// Version of the file format. Bundles without an interval of unfamiliar models, without a
/// sensitivity of the interval, of environments without settings, without refinements, or without a
/// slowdown model are written in the versions before, which programs that do not know them read.
pub const BUNDLE_VERSION: u32 = 10;
/// The version without an interval of unfamiliar models.
const FAMILIAR_VERSION: u32 = 9;
/// The version without a sensitivity of the interval.
const INSENSITIVE_VERSION: u32 = 8;
/// The version without settings of the engine.
const DEFAULT_SETTINGS_VERSION: u32 = 7;
/// The version without refinements.
const UNREFINED_VERSION: u32 = 6;
/// The oldest version that is read: it has no slowdown model.
const OLDEST_VERSION: u32 = 5;
const ENVELOPE: Envelope =
    Envelope { magic: b"VTBUNDLE", version: BUNDLE_VERSION, oldest: OLDEST_VERSION };

/// Where a bundle comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// Program and version.
    pub created_by: String,
    /// The library the regressors come from.
    pub libraries: String,
    /// Digest of the training rows.
    pub data_digest: String,
    /// Seed of everything random.
    pub seed: u64,
    /// Hyper-parameters of boosted trees that are not the usual ones.
    #[serde(default, skip_serializing_if = "Boosting::is_usual")]
    pub boosting: Boosting,
    /// Folds of the cross-validation.
    pub folds: usize,
    /// Models trained on.
    pub models: usize,
    /// Distinct architectures among them.
    pub architectures: usize,
    /// Operator rows.
    pub rows: usize,
    /// Model runs and operators that could not be used.
    pub skipped: usize,
    /// Model runs that were used although others ran on their cores: too few would have remained.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub disturbed: usize,
    /// Identity of the environment whose bundle was corrected by the data
    /// ([`transfer`](crate::transfer)); `None`: it was trained on the data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transferred_from: Option<String>,
    /// What the bundle that was corrected had been trained on; also `None` in files of bundles
    /// corrected before 30 November 2026, whose other numbers are the source's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceCounts>,
    /// Architectures that the dataset had, where it was read as a sample of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampled_of: Option<usize>,
    /// Digests of the architectures trained on, sorted: none is used for evaluation.
    pub trained_on: Vec<String>,
}

/// What a bundle that was corrected had been trained on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceCounts {
    /// Models and networks.
    pub models: usize,
    /// Operator rows.
    pub rows: usize,
}

/// The signature is serde's.
#[allow(clippy::trivially_copy_pass_by_ref)]
const fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// All of a bundle but its regressors and metrics.
pub(crate) struct Parts {
    pub environment: Environment,
    pub origin: Origin,
    pub method: Method,
    pub schema: FeatureSchema,
    pub calibration: Calibration,
    pub interval: ConformalInterval,
    pub drift: Drift,
    pub provenance: Provenance,
}

/// Regressors, overhead and interval of one environment.
#[derive(Debug)]
pub struct PredictorBundle {
    /// Where its forecasts hold.
    pub environment: Environment,
    /// Where its training data comes from.
    pub origin: Origin,
    /// What was fitted.
    pub method: Method,
    /// The columns its regressors read.
    pub schema: FeatureSchema,
    /// From sum to end to end.
    pub calibration: Calibration,
    /// How sure.
    pub interval: ConformalInterval,
    /// How sure for models unlike those it was trained on; `None`: not known, `interval` holds for
    /// them as well, and is too narrow for many.
    pub unfamiliar: Option<UnfamiliarInterval>,
    /// Speed of the reference workload during training.
    pub drift: Drift,
    /// Where it comes from.
    pub provenance: Provenance,
    /// Metrics from cross-validation by architecture.
    pub held_out: Evaluation,
    /// Metrics on models that come from no search space, which are never training data; the caller
    /// of training fills this in.
    pub on_real: Option<Evaluation>,
    /// How much longer kernels take while another processor is busy; `None`: not known.
    pub contention: Option<SlowdownModel>,
    /// The regressors.
    pub predictors: Predictors,
    pub(crate) memo: Mutex<Memo>,
}

#[derive(Serialize, Deserialize)]
struct Head {
    environment: Environment,
    origin: Origin,
    method: Method,
    schema: FeatureSchema,
    calibration: Calibration,
    interval: ConformalInterval,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unfamiliar: Option<UnfamiliarInterval>,
    reference_ns_bits: Option<u64>,
    #[serde(with = "crate::bits")]
    drift_exponent: f64,
    provenance: Provenance,
    held_out: Evaluation,
    on_real: Option<Evaluation>,
    fallbacks: Fallbacks,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    contention: Option<SlowdownModel>,
    #[serde(default, skip_serializing_if = "Refinements::is_empty")]
    refinements: Refinements,
    keys: Vec<KeyHead>,
}

impl Head {
    fn drift(&self) -> Drift {
        Drift {
            reference_ns: self.reference_ns_bits.map(f64::from_bits),
            exponent: self.drift_exponent,
        }
    }
}

/// One key's regressor but for its trees, whose bytes follow.
#[derive(Serialize, Deserialize)]
pub(crate) struct KeyHead {
    key: PredictorKey,
    family: Family,
    rows: usize,
    baseline: Baseline,
    trees: bool,
    lasso: Option<Lasso>,
    #[serde(with = "crate::bits::ranges")]
    ranges: Vec<(f64, f64)>,
    #[serde(with = "crate::bits::ranges")]
    log_bounds: Vec<(f64, f64)>,
    #[serde(rename = "sizes")]
    support: Support,
    #[serde(rename = "trust", with = "crate::bits")]
    blend_weight: f64,
    #[serde(rename = "doubt")]
    error_scale: ErrorScale,
}

impl KeyHead {
    pub(crate) fn of(key: &PredictorKey, p: &KeyPredictor) -> Self {
        Self {
            key: key.clone(),
            family: p.family,
            rows: p.rows,
            baseline: p.baseline.clone(),
            trees: matches!(p.fitted, Fitted::Trees { .. }),
            lasso: p.fitted.linear().cloned(),
            ranges: p.ranges.clone(),
            log_bounds: vec![p.log_bounds],
            support: p.support.clone(),
            blend_weight: p.blend_weight,
            error_scale: p.error_scale,
        }
    }
}

impl PredictorBundle {
    pub(crate) fn new(parts: Parts, predictors: Predictors, held_out: Evaluation) -> Self {
        let Parts { environment, origin, method, schema, calibration, interval, drift, provenance } =
            parts;
        Self {
            environment,
            origin,
            method,
            schema,
            calibration,
            interval,
            unfamiliar: None,
            drift,
            provenance,
            held_out,
            on_real: None,
            contention: None,
            predictors,
            memo: Mutex::default(),
        }
    }

    /// A copy with an empty cache.
    ///
    /// # Errors
    /// As [`PredictorBundle::to_bytes`].
    pub fn copied(&self) -> Result<Self, PredictorError> {
        Self::from_bytes(&self.to_bytes()?).map_err(PredictorError::Encode)
    }

    /// Corrects the forecasts of kernels that were measured for a model.
    pub fn refine(
        &mut self,
        model: RefinedModel,
        kernels: impl IntoIterator<Item = (OpSpec, Correction)>,
    ) {
        self.predictors.refinements.add(model, kernels);
        self.memo = Mutex::default();
    }

    /// The file's bytes; the same bundle always gives the same.
    ///
    /// # Errors
    /// [`PredictorError::Encode`], which is a fault of ours.
    pub fn to_bytes(&self) -> Result<Vec<u8>, PredictorError> {
        let json =
            serde_json::to_vec(&self.head()).map_err(|e| PredictorError::Encode(e.to_string()))?;
        let mut plain = (json.len() as u64).to_le_bytes().to_vec();
        plain.extend_from_slice(&json);
        for predictor in self.predictors.keys.values() {
            if let Fitted::Trees { trees, .. } = &predictor.fitted {
                trees.encode(&mut plain);
            }
        }
        let version = match (self.predictors.refinements.is_empty(), &self.contention) {
            _ if self.unfamiliar.is_some() => BUNDLE_VERSION,
            _ if self.interval.sensitivity > 0.0 => FAMILIAR_VERSION,
            _ if !self.environment.settings.is_empty() => INSENSITIVE_VERSION,
            (false, _) => DEFAULT_SETTINGS_VERSION,
            (true, Some(_)) => UNREFINED_VERSION,
            (true, None) => OLDEST_VERSION,
        };
        Envelope { version, ..ENVELOPE }.seal(&plain)
    }

    fn head(&self) -> Head {
        Head {
            environment: self.environment.clone(),
            origin: self.origin,
            method: self.method,
            schema: self.schema.clone(),
            calibration: self.calibration,
            interval: self.interval,
            unfamiliar: self.unfamiliar.clone(),
            reference_ns_bits: self.drift.reference_ns.map(f64::to_bits),
            drift_exponent: self.drift.exponent,
            provenance: self.provenance.clone(),
            held_out: self.held_out.clone(),
            on_real: self.on_real.clone(),
            fallbacks: self.predictors.fallbacks.clone(),
            contention: self.contention.clone(),
            refinements: self.predictors.refinements.clone(),
            keys: self.predictors.keys.iter().map(|(key, p)| KeyHead::of(key, p)).collect(),
        }
    }

    /// Reads what [`PredictorBundle::to_bytes`] wrote, checking all of it.
    ///
    /// # Errors
    /// A sentence saying what does not fit.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        if AdaptedBundle::is_on(bytes) {
            return Err(
                "it was adapted from end-to-end latencies and has no regressors of operators"
                    .to_owned(),
            );
        }
        let body = Arc::new(ENVELOPE.open(bytes)?);
        let (length, rest) = body.split_first_chunk::<8>().ok_or("the body ends too early")?;
        let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|e| e.to_string())?;
        let (json, trees) = rest.split_at_checked(length).ok_or("the body ends too early")?;
        let head: Head =
            serde_json::from_slice(json).map_err(|e| format!("its head cannot be read: {e}"))?;
        check_head(&head)?;
        let drift = head.drift();
        let mut keys = BTreeMap::new();
        let mut at = body.len() - trees.len();
        for key in head.keys {
            let (name, predictor) = read_key(key, &head.schema, &body, &mut at)?;
            keys.insert(name, predictor);
        }
        if at != body.len() {
            return Err(format!("{} bytes too many", body.len() - at));
        }
        let parts = Parts {
            environment: head.environment,
            origin: head.origin,
            method: head.method,
            schema: FeatureSchema::current(),
            calibration: head.calibration,
            interval: head.interval,
            drift,
            provenance: head.provenance,
        };
        let predictors =
            Predictors { keys, fallbacks: head.fallbacks, refinements: head.refinements };
        Ok(Self {
            unfamiliar: head.unfamiliar,
            on_real: head.on_real,
            contention: head.contention,
            ..Self::new(parts, predictors, head.held_out)
        })
    }

    /// Whether a predictor was fitted without some of today's features: training again on the same
    /// rows can give other forecasts.
    #[must_use]
    pub fn has_unread_features(&self) -> bool {
        self.predictors.keys.values().any(|key| key.ranges.contains(&KeyPredictor::UNREAD))
    }

    /// Writes the file whole or not at all.
    ///
    /// # Errors
    /// [`PredictorError::Io`] naming the path.
    pub fn save(&self, path: &Path) -> Result<(), PredictorError> {
        envelope::write(path, &self.to_bytes()?)
    }

    /// Reads and checks a file.
    ///
    /// # Errors
    /// [`PredictorError::Io`] when it cannot be read, [`PredictorError::Format`] when it is not a
    /// usable bundle.
    pub fn load(path: &Path) -> Result<Self, PredictorError> {
        let bytes = envelope::read(path)?;
        Self::from_bytes(&bytes)
            .map_err(|reason| PredictorError::Format { path: path.to_owned(), reason })
    }
}

fn check_head(head: &Head) -> Result<(), String> {
    let ours = FeatureSchema::current();
    if !ours.extends(&head.schema) {
        return Err(format!(
            "its features (schema {}) are not those of this program (schema {}): train it again",
            head.schema.version, ours.version
        ));
    }
    let fallbacks = &head.fallbacks;
    let widest = Family::ALL.iter().map(|f| f.width()).max().unwrap_or(0);
    let kinds =
        fallbacks.kinds.values().chain(fallbacks.kin.values()).chain(fallbacks.classes.values());
    let fields = [
        ("interval", head.interval.is_valid()),
        ("unfamiliar", head.unfamiliar.as_ref().is_none_or(UnfamiliarInterval::is_valid)),
        ("calibration", head.calibration.is_valid()),
        ("fallbacks.roofline", fallbacks.roofline.is_valid(crate::features::TOTALS_WIDTH)),
        (
            "fallbacks.classes, fallbacks.kinds or fallbacks.kin",
            kinds.into_iter().all(|b| b.is_valid(widest)),
        ),
        ("fallbacks.typical_log_error", (0.0..50.0).contains(&fallbacks.typical_log_error)),
        ("contention", head.contention.as_ref().is_none_or(SlowdownModel::is_valid)),
        ("refinements", head.refinements.is_valid()),
        ("reference_ns_bits or drift_exponent", head.drift().is_valid()),
    ];
    match fields.iter().find(|(_, valid)| !valid) {
        Some((field, _)) => Err(format!("invalid header field `{field}`: out of range")),
        None => Ok(()),
    }
}

/// `schema`: the columns that it was trained with, which nothing but these reads. `at`: where in the
/// body the trees of this key begin, then those of the next.
pub(crate) fn read_key(
    mut head: KeyHead,
    schema: &FeatureSchema,
    body: &Arc<Vec<u8>>,
    at: &mut usize,
) -> Result<(PredictorKey, KeyPredictor), String> {
    let columns = head.family.width();
    let trained = schema.columns.get(&head.family).map_or(0, Vec::len);
    let named = |reason: String| format!("{}: {reason}", head.key);
    let fitted = match (head.trees, head.lasso.clone()) {
        (true, linear) => {
            let trees = Trees::read(body, at, trained).map_err(named)?;
            Fitted::Trees { linear, trees: trees.widened(columns) }
        }
        (false, Some(lasso)) => Fitted::Lasso(lasso),
        (false, None) => Fitted::BaselineOnly,
    };
    let linear_fits = fitted.linear().is_none_or(|linear| linear.is_valid(trained));
    let bounds = head.log_bounds.first().copied().filter(|(a, b)| {
        a.is_finite() && b.is_finite() && a <= b && a.abs() < 50.0 && b.abs() < 50.0
    });
    let errors_fit = head.error_scale.is_valid() && (0.0..=1.0).contains(&head.blend_weight);
    let family_fits = Family::of(&head.key.kind.to_string().into()) == head.family;
    match bounds {
        Some(log_bounds)
            if linear_fits
                && errors_fit
                && family_fits
                && head.baseline.is_valid(trained)
                && head.ranges.len() == trained =>
        {
            head.ranges.resize(columns, KeyPredictor::UNREAD);
            let KeyHead {
                key,
                family,
                rows,
                baseline,
                ranges,
                support,
                blend_weight,
                error_scale,
                ..
            } = head;
            Ok((
                key,
                KeyPredictor {
                    family,
                    rows,
                    baseline,
                    fitted,
                    ranges,
                    log_bounds,
                    support,
                    blend_weight,
                    error_scale,
                },
            ))
        }
        _ => Err(format!(
            "{}: invalid regressor: a number is out of range, or does not fit its features",
            head.key
        )),
    }
}
