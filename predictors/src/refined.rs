//! [`Refinements`]: kernels that were measured after training, to be sure about one model.
//!
//! A kernel is measured inside of a small network. What counts is the ratio of its latency there to
//! the forecast in that network's working set: this ratio scales every later forecast of the
//! kernel, so that models whose weights leave the caches are forecast as before, but for the ratio.

use crate::{Estimate, elementary};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use vitempo_graph::{OpSpec, PredictionSource};

/// Lower bound of the expected error of a measured kernel.
const LEAST_LOG_ERROR: f64 = 0.01;
/// Largest ratio of a measurement to a forecast, either way: beyond it something else was measured.
const LARGEST_LOG_RATIO: f64 = 12.0;

/// What one kernel's measurements say.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Correction {
    /// `ln(measured / forecast)`.
    #[serde(with = "crate::bits")]
    pub log_ratio: f64,
    /// Expected `|ln(actual / corrected forecast)|`.
    #[serde(with = "crate::bits")]
    pub log_error: f64,
    /// Networks it was measured in.
    pub networks: usize,
}

/// A model for which kernels were measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefinedModel {
    /// Readable name.
    pub name: String,
    /// Digest of its graph.
    pub architecture: String,
    /// Distinct kernels of it that have a correction.
    pub kernels: usize,
    /// Networks that were measured.
    pub networks: usize,
    /// What measuring took, s.
    pub seconds: u64,
    /// When it began, milliseconds since 1970.
    pub started_unix_ms: u64,
}

/// Corrections by kernel, and the models they were measured for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Stored", into = "Stored")]
pub struct Refinements {
    kernels: BTreeMap<OpSpec, Correction>,
    models: Vec<RefinedModel>,
}

/// As a file has them: keys of a JSON object are texts.
#[derive(Serialize, Deserialize)]
struct Stored {
    kernels: Vec<(OpSpec, Correction)>,
    models: Vec<RefinedModel>,
}

impl From<Stored> for Refinements {
    fn from(stored: Stored) -> Self {
        Self { kernels: stored.kernels.into_iter().collect(), models: stored.models }
    }
}

impl From<Refinements> for Stored {
    fn from(refinements: Refinements) -> Self {
        Self { kernels: refinements.kernels.into_iter().collect(), models: refinements.models }
    }
}

impl Refinements {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kernels.is_empty()
    }

    /// Corrections by kernel.
    #[must_use]
    pub fn kernels(&self) -> &BTreeMap<OpSpec, Correction> {
        &self.kernels
    }

    /// The models they were measured for, in the order of measuring.
    #[must_use]
    pub fn models(&self) -> &[RefinedModel] {
        &self.models
    }

    /// Adds or replaces the corrections of kernels. They relate to forecasts without corrections.
    pub fn add(
        &mut self,
        model: RefinedModel,
        kernels: impl IntoIterator<Item = (OpSpec, Correction)>,
    ) {
        let bounded = |c: Correction| Correction {
            log_ratio: c.log_ratio.clamp(-LARGEST_LOG_RATIO, LARGEST_LOG_RATIO),
            log_error: c.log_error.max(LEAST_LOG_ERROR),
            ..c
        };
        self.kernels.extend(kernels.into_iter().map(|(op, c)| (op, bounded(c))));
        self.models.push(model);
    }

    /// The estimate of a kernel, corrected where the kernel was measured.
    pub(crate) fn applied(&self, op: &OpSpec, estimate: Estimate) -> Estimate {
        self.kernels.get(op).map_or(estimate, |correction| correction.applied(estimate))
    }

    /// Whether every number is in its range.
    pub(crate) fn is_valid(&self) -> bool {
        self.kernels.values().all(|c| {
            c.log_ratio.abs() <= LARGEST_LOG_RATIO && (LEAST_LOG_ERROR..50.0).contains(&c.log_error)
        })
    }
}

impl Correction {
    pub(crate) fn applied(&self, estimate: Estimate) -> Estimate {
        Estimate {
            latency_ns: estimate.latency_ns * elementary::exp(self.log_ratio),
            source: PredictionSource::Model,
            extrapolating: false,
            in_distribution: true,
            log_error: self.log_error,
        }
    }
}
