//! [`Fitted`]: regressors that were fitted apart, on another core or another machine, each for one
//! key and one fit of the cross-validation. [`crate::train_with`] makes the bundle of them that
//! [`crate::train`] makes alone, byte for byte.
//!
//! A [`Share`] is one of several that together fit everything once. Keys go to the share with the
//! least work so far, those with most rows first.
//!
//! The file: as a bundle's ([`crate::PredictorBundle`]), with a head in JSON and the trees of each
//! regressor.

use crate::{
    FeatureSchema, Method, PredictorError, PredictorKey, Predictors, TrainOptions,
    bundle::{KeyHead, read_key},
    envelope::{self, Envelope},
    fitting::KeyFit,
    regressors,
    train::Fits,
};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
};
use vitempo_graph::ModelProfile;

const ENVELOPE: Envelope = Envelope { magic: b"VTFITTED", version: 1, oldest: 1 };
/// Rows that fitting any key takes the time of.
const LEAST_WORK: usize = 600;

/// One of several shares of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Which one, from 0.
    pub index: usize,
    /// How many there are.
    pub of: usize,
}

/// Regressors by fit, from 0, and key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fitted {
    /// Of the rows and options that they were fitted to; empty where there are none.
    digest: String,
    fits: BTreeMap<(usize, PredictorKey), KeyFit>,
}

#[derive(Serialize, Deserialize)]
struct Head {
    digest: String,
    fits: Vec<FitHead>,
}

#[derive(Serialize, Deserialize)]
struct FitHead {
    fit: usize,
    reason: Option<String>,
    key: KeyHead,
}

fn digest(fits: &Fits) -> String {
    let text = format!(
        "{}|{}|{}|{}|{}|{}",
        fits.rows.digest(),
        fits.settings.method,
        fits.settings.boosting,
        fits.settings.seed,
        fits.count(),
        env!("CARGO_PKG_VERSION")
    );
    blake3::hash(text.as_bytes()).to_hex().to_string()
}

fn wrong(option: &'static str, reason: String) -> PredictorError {
    PredictorError::Option { option, reason }
}

impl Fitted {
    /// Fits a share.
    ///
    /// # Errors
    /// As [`crate::train`]; [`PredictorError::Option`] for a share that is none of them.
    pub fn fit(
        profiles: &[ModelProfile],
        method: Method,
        options: &TrainOptions,
        share: Share,
    ) -> Result<Self, PredictorError> {
        if share.index >= share.of {
            let reason = format!("{} of {} is not one of them", share.index + 1, share.of);
            return Err(wrong("share", reason));
        }
        let all = Fits::of(profiles, method, options)?;
        let wanted = keys_of(&all, share);
        let mut fits = BTreeMap::new();
        for (number, keys) in &wanted {
            let examples = all.examples_of(*number);
            let found = Predictors::fit_keys(&examples, all.settings, &|key| keys.contains(key));
            fits.extend(found.into_iter().map(|(key, fit)| ((*number, key), fit)));
        }
        Ok(Self { digest: digest(&all), fits })
    }

    /// Adds those of another share.
    ///
    /// # Errors
    /// [`PredictorError::Option`] where they are of other rows or options.
    pub fn add(&mut self, other: Self) -> Result<(), PredictorError> {
        if !self.digest.is_empty() && self.digest != other.digest {
            return Err(wrong("shares", "are of different rows or options".to_owned()));
        }
        self.digest = other.digest;
        self.fits.extend(other.fits);
        Ok(())
    }

    /// How many regressors there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.fits.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fits.is_empty()
    }

    /// # Errors
    /// [`PredictorError::Option`] where they are of other rows or options.
    pub(crate) fn check(&self, fits: &Fits) -> Result<(), PredictorError> {
        if self.digest.is_empty() || self.digest == digest(fits) {
            return Ok(());
        }
        Err(wrong("shares", "are of other rows or options than these".to_owned()))
    }

    pub(crate) fn get(&self, fit: usize, key: &PredictorKey) -> Option<KeyFit> {
        self.fits.get(&(fit, key.clone())).cloned()
    }

    /// The file's bytes; the same regressors always give the same.
    ///
    /// # Errors
    /// [`PredictorError::Encode`], which is a fault of ours.
    pub fn to_bytes(&self) -> Result<Vec<u8>, PredictorError> {
        let of = |((fit, key), (predictor, reason)): (&(usize, PredictorKey), &KeyFit)| FitHead {
            fit: *fit,
            reason: reason.clone(),
            key: KeyHead::of(key, predictor),
        };
        let head = Head { digest: self.digest.clone(), fits: self.fits.iter().map(of).collect() };
        let json = serde_json::to_vec(&head).map_err(|e| PredictorError::Encode(e.to_string()))?;
        let mut plain = (json.len() as u64).to_le_bytes().to_vec();
        plain.extend_from_slice(&json);
        for (predictor, _) in self.fits.values() {
            if let regressors::Fitted::Trees { trees, .. } = &predictor.fitted {
                trees.encode(&mut plain);
            }
        }
        ENVELOPE.seal(&plain)
    }

    /// Reads what [`Fitted::to_bytes`] wrote, checking all of it.
    ///
    /// # Errors
    /// A sentence saying what does not fit.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        if !ENVELOPE.is_on(bytes) {
            return Err("it is not a share of a training".to_owned());
        }
        let body = Arc::new(ENVELOPE.open(bytes)?);
        let (length, rest) = body.split_first_chunk::<8>().ok_or("the body ends too early")?;
        let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|e| e.to_string())?;
        let (json, trees) = rest.split_at_checked(length).ok_or("the body ends too early")?;
        let head: Head =
            serde_json::from_slice(json).map_err(|e| format!("its head cannot be read: {e}"))?;
        let schema = FeatureSchema::current();
        let mut at = body.len() - trees.len();
        let mut fits = BTreeMap::new();
        for FitHead { fit, reason, key } in head.fits {
            let (key, predictor) = read_key(key, &schema, &body, &mut at)?;
            fits.insert((fit, key), (predictor, reason));
        }
        match at == body.len() {
            true => Ok(Self { digest: head.digest, fits }),
            false => Err(format!("{} bytes too many", body.len() - at)),
        }
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
    /// usable share.
    pub fn load(path: &Path) -> Result<Self, PredictorError> {
        Self::from_bytes(&envelope::read(path)?)
            .map_err(|reason| PredictorError::Format { path: path.to_owned(), reason })
    }
}

/// The keys that a share fits, by fit.
fn keys_of(fits: &Fits, share: Share) -> BTreeMap<usize, BTreeSet<PredictorKey>> {
    let mut jobs: Vec<(usize, usize, PredictorKey)> = Vec::new();
    for number in 0..fits.count() {
        let mut rows: BTreeMap<PredictorKey, usize> = BTreeMap::new();
        for example in fits.examples_of(number) {
            *rows.entry(PredictorKey::of(example.op)).or_default() += 1;
        }
        jobs.extend(rows.into_iter().map(|(key, rows)| (rows.max(LEAST_WORK), number, key)));
    }
    jobs.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| (a.1, &a.2).cmp(&(b.1, &b.2))));
    // With more shares than regressors, the last ones have nothing.
    let mut work = vec![0; share.of.min(jobs.len())];
    let mut ours: BTreeMap<usize, BTreeSet<PredictorKey>> = BTreeMap::new();
    for (rows, number, key) in jobs {
        let least = (0..work.len()).min_by_key(|&of| work[of]).unwrap_or(0);
        work[least] += rows;
        if least == share.index {
            ours.entry(number).or_default().insert(key);
        }
    }
    ours
}
