//! Difficulty estimates of operators: the expected `|ln(actual / forecast)|`, by key.
//!
//! An [`ErrorScale`] has two values per key: one for in-distribution sizes ([`Support`]), one for
//! out-of-distribution sizes. A size is FLOPs and the bytes of input, weights and output, each
//! rounded to the half octave. It is in distribution if an operator of a whole training model has
//! it.
//!
//! The first value is the mean error on held-out rows of whole models, the second the mean error on
//! held-out networks around single operators, whose shapes are spread widely. The interval of a
//! model is scaled by the difficulty estimates of its operators: normalised conformal prediction
//! (Papadopoulos et al., arXiv:1401.3880; [`ConformalInterval`](crate::ConformalInterval)).

use crate::{Estimate, PredictorKey, Predictors, TrainingRows, elementary::log2, features::SIZES};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// FLOPs and bytes of input, weights and output, each to the half octave.
type Size = [u8; SIZES.len()];

/// In-distribution sizes of one key: those of its operators in whole training models.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Support(BTreeSet<Size>);

impl Support {
    /// Adds the size of a row of features.
    pub(crate) fn insert(&mut self, x: &[f64]) {
        self.0.insert(size(x));
    }

    /// Whether an operator of a whole training model has the size of that row.
    #[must_use]
    pub fn contains(&self, x: &[f64]) -> bool {
        self.0.contains(&size(x))
    }
}

fn size(x: &[f64]) -> Size {
    let half_octaves =
        |column: usize| x.get(column).map_or(0.0, |v| (2.0 * log2(v.max(0.0) + 1.0)).round()) as u8;
    SIZES.map(half_octaves)
}

/// Expected errors of one key. Bundles store them as `near_log_error` and `far_log_error`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ErrorScale {
    /// Mean of `|ln(actual / forecast)|` at in-distribution sizes, rows weighted by their time.
    #[serde(rename = "near_log_error", with = "crate::bits")]
    pub in_distribution: f64,
    /// The same at out-of-distribution sizes.
    #[serde(rename = "far_log_error", with = "crate::bits")]
    pub out_of_distribution: f64,
}

/// Fewest held-out rows for a mean.
const FEWEST: f64 = 5.0;
/// Ratio of the out-of-distribution error to the in-distribution error without enough keys.
const USUAL_RATIO: f64 = 2.0;
/// Factor on the error if a feature lies outside the range of the training rows.
const EXTRAPOLATION: f64 = 2.0;
/// Lower bound of an error: a few held-out rows can have small errors by chance.
const LEAST: f64 = 0.005;

impl ErrorScale {
    /// Expected `|ln(actual / forecast)|`; `supported`: the size is in distribution.
    pub(crate) fn log_error(&self, supported: bool, extrapolating: bool) -> f64 {
        match (supported, extrapolating) {
            (true, _) => self.in_distribution,
            (false, false) => self.out_of_distribution,
            (false, true) => EXTRAPOLATION * self.out_of_distribution,
        }
    }

    /// Whether both errors are in the valid range.
    pub(crate) fn is_valid(&self) -> bool {
        let valid = |v: f64| (0.0..50.0).contains(&v);
        valid(self.in_distribution) && valid(self.out_of_distribution)
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

/// Errors of the held-out rows of one key.
#[derive(Default)]
struct Found {
    in_models: Tally,
    alone: Tally,
}

/// The error scale of every key of `predictors`; `held_out` has one forecast per row.
pub(crate) fn learn(
    predictors: &Predictors,
    rows: &TrainingRows,
    held_out: &[Estimate],
) -> BTreeMap<PredictorKey, ErrorScale> {
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
    let error_scale = |of: &Found| {
        let (inside, outside) = match (of.in_models.mean(), of.alone.mean()) {
            (Some(inside), Some(outside)) => (inside, outside.max(inside)),
            (Some(inside), None) => (inside, inside * ratio),
            (None, Some(outside)) => (outside, outside),
            (None, None) => (unknown, unknown),
        };
        ErrorScale { in_distribution: inside, out_of_distribution: outside }
    };
    found.iter().map(|(key, of)| (key.clone(), error_scale(of))).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn expected_errors_grow_outside_the_support_and_outside_the_range() {
        let scale = ErrorScale { in_distribution: 0.02, out_of_distribution: 0.1 };
        for (supported, extrapolating, expected) in
            [(true, false, 0.02), (false, false, 0.1), (false, true, 0.2)]
        {
            assert!(
                (scale.log_error(supported, extrapolating) - expected).abs() < 1e-12,
                "{supported} {extrapolating}"
            );
        }
        assert!(scale.is_valid());
        assert!(!ErrorScale { out_of_distribution: f64::NAN, ..scale }.is_valid());
    }

    #[test]
    fn sizes_are_compared_to_the_half_octave() {
        let columns = 1 + SIZES.iter().max().unwrap();
        let row = |flops: f64| {
            (0..columns)
                .map(|column| if column == SIZES[0] { flops } else { 1000.0 })
                .collect::<Vec<f64>>()
        };
        let mut support = Support::default();
        [1e6, 1e8].iter().for_each(|flops| support.insert(&row(*flops)));
        for (flops, supported) in [(1.1e6, true), (1e7, false), (1e8, true), (1e9, false)] {
            assert_eq!(support.contains(&row(flops)), supported, "{flops}");
        }
    }
}
