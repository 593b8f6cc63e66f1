//! How far off forecasts are expected to be: [`Sizes`] that whole models have run, and a [`Doubt`]
//! for those and for all others.
//!
//! A forecast of what whole models ran much alike is an interpolation between many rows; any other
//! is not. Much alike: FLOPs and bytes of input, weights and output are the same to the half
//! octave. A space has far fewer sizes than lie between its smallest operator and its largest.
//!
//! Held-out rows of whole models tell the first error, networks around single operators, whose
//! shapes are spread widely, the second. Both are means of `|ln(actual / forecast)|`. An interval
//! is as wide as the doubts of its operators are large ([`Interval`](crate::Interval)).

use crate::{Estimate, PredictorKey, Predictors, TrainingRows, features::SIZES};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// FLOPs and bytes of input, weights and output, each to the half octave.
type Size = [u8; SIZES.len()];

/// Sizes of one key's operators in whole models.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Sizes(BTreeSet<Size>);

impl Sizes {
    /// Adds the size of a row of features.
    pub(crate) fn insert(&mut self, x: &[f64]) {
        self.0.insert(size(x));
    }

    /// Whether whole models have an operator of that size.
    #[must_use]
    pub fn contain(&self, x: &[f64]) -> bool {
        self.0.contains(&size(x))
    }
}

fn size(x: &[f64]) -> Size {
    let half_octaves = |column: usize| {
        x.get(column).map_or(0.0, |v| (2.0 * (v.max(0.0) + 1.0).log2()).round()) as u8
    };
    SIZES.map(half_octaves)
}

/// Expected errors of one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Doubt {
    /// Mean of `|ln(actual / forecast)|` at sizes that whole models have, rows weighted by their
    /// time.
    #[serde(with = "crate::bits")]
    pub near_log_error: f64,
    /// The same at any other size.
    #[serde(with = "crate::bits")]
    pub far_log_error: f64,
}

/// Fewest held-out rows that tell an error.
const FEWEST: f64 = 5.0;
/// Far over near error, where too few keys tell.
const USUAL_RATIO: f64 = 2.0;
/// How much larger the error is taken to be where a feature lies beyond every row.
const BEYOND: f64 = 2.0;
/// No error is smaller: regressors may fit a handful of held-out rows by luck.
const LEAST: f64 = 0.005;

impl Doubt {
    /// Expected `|ln(actual / forecast)|`, whether or not whole models have the size.
    pub(crate) fn log_error(&self, near: bool, extrapolating: bool) -> f64 {
        match (near, extrapolating) {
            (true, _) => self.near_log_error,
            (false, false) => self.far_log_error,
            (false, true) => BEYOND * self.far_log_error,
        }
    }

    /// Whether every number makes sense.
    pub(crate) fn is_valid(&self) -> bool {
        let sane = |v: f64| (0.0..50.0).contains(&v);
        sane(self.near_log_error) && sane(self.far_log_error)
    }
}

/// Errors of some rows.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    rows: f64,
    weight: f64,
    error: f64,
}

impl Tally {
    fn add(&mut self, log_error: f64, weight: f64) {
        self.rows += 1.0;
        self.weight += weight;
        self.error += weight * log_error;
    }

    fn mean(&self) -> Option<f64> {
        (self.rows >= FEWEST && self.weight > 0.0).then(|| (self.error / self.weight).max(LEAST))
    }
}

/// What held-out rows tell of one key.
#[derive(Default)]
struct Found {
    in_models: Tally,
    alone: Tally,
}

/// The doubts of every key of `predictors` from held-out forecasts, one per row.
pub(crate) fn learn(
    predictors: &Predictors,
    rows: &TrainingRows,
    held_out: &[Estimate],
) -> BTreeMap<PredictorKey, Doubt> {
    let mut found: BTreeMap<PredictorKey, Found> = BTreeMap::new();
    for (row, estimate) in rows.rows.iter().zip(held_out) {
        let log_error = (row.latency_ns / estimate.latency_ns).ln().abs();
        let of = found.entry(PredictorKey::of(&row.op)).or_default();
        if rows.is_whole(row.model) {
            of.in_models.add(log_error, row.weight * row.latency_ns * row.count as f64);
        } else {
            of.alone.add(log_error, row.weight);
        }
    }
    let ratios: Vec<f64> =
        found.values().filter_map(|f| Some(f.alone.mean()? / f.in_models.mean()?)).collect();
    let ratio = crate::metrics::median(&ratios).unwrap_or(USUAL_RATIO).max(1.0);
    let unknown = predictors.fallbacks.typical_log_error;
    let doubt = |of: &Found| {
        let (near, far) = match (of.in_models.mean(), of.alone.mean()) {
            (Some(near), Some(far)) => (near, far.max(near)),
            (Some(near), None) => (near, near * ratio),
            (None, Some(far)) => (far, far),
            (None, None) => (unknown, unknown),
        };
        Doubt { near_log_error: near, far_log_error: far }
    };
    found.iter().map(|(key, of)| (key.clone(), doubt(of))).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn doubt_grows_with_the_distance_from_what_was_measured() {
        let doubt = Doubt { near_log_error: 0.02, far_log_error: 0.1 };
        for (near, extrapolating, expected) in
            [(true, false, 0.02), (false, false, 0.1), (false, true, 0.2)]
        {
            assert!(
                (doubt.log_error(near, extrapolating) - expected).abs() < 1e-12,
                "{near} {extrapolating}"
            );
        }
        assert!(doubt.is_valid() && !Doubt { far_log_error: f64::NAN, ..doubt }.is_valid());
    }

    #[test]
    fn sizes_are_known_to_the_half_octave() {
        let columns = 1 + SIZES.iter().max().unwrap();
        let row = |flops: f64| {
            (0..columns)
                .map(|column| if column == SIZES[0] { flops } else { 1000.0 })
                .collect::<Vec<f64>>()
        };
        let mut sizes = Sizes::default();
        [1e6, 1e8].iter().for_each(|flops| sizes.insert(&row(*flops)));
        for (flops, known) in [(1.1e6, true), (1e7, false), (1e8, true), (1e9, false)] {
            assert_eq!(sizes.contain(&row(flops)), known, "{flops}");
        }
    }
}
