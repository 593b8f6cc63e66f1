//! [`Doubt`]: how far off a key's forecasts are expected to be, told by rows that were held out when they were forecast.
//!
//! Two errors, because a forecast within the range of what whole models run is an interpolation between many rows, and one beyond it is not: rows of
//! whole models tell the first, networks around single operators, whose shapes are spread widely, the second. Both are means of `|ln(actual / forecast)|`.
//! An interval is as wide as the doubts of its operators are large ([`Interval`](crate::Interval)).

use crate::{Estimate, PredictorKey, Predictors, TrainingRows, features::FeatureSchema};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Expected errors of one key.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Doubt {
    /// Smallest and largest value of each column among rows of whole models; empty where no model has the key.
    #[serde(with = "crate::bits::ranges")]
    pub near: Vec<(f64, f64)>,
    /// Mean of `|ln(actual / forecast)|` within that range, rows weighted by their time.
    #[serde(with = "crate::bits")]
    pub near_log_error: f64,
    /// The same beyond it.
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
    /// Expected `|ln(actual / forecast)|` for one row of features.
    pub(crate) fn log_error(&self, x: &[f64], extrapolating: bool) -> f64 {
        let near = !self.near.is_empty() && x.iter().zip(&self.near).all(|(v, (low, high))| low <= v && v <= high);
        match (near, extrapolating) {
            (true, _) => self.near_log_error,
            (false, false) => self.far_log_error,
            (false, true) => BEYOND * self.far_log_error,
        }
    }

    /// Whether every number makes sense for rows of `columns` features.
    pub(crate) fn is_valid(&self, columns: usize) -> bool {
        let sane = |v: f64| (0.0..50.0).contains(&v);
        sane(self.near_log_error) && sane(self.far_log_error) && (self.near.is_empty() || self.near.len() == columns)
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
    near: Vec<(f64, f64)>,
    in_models: Tally,
    alone: Tally,
}

/// Fills in the doubts of every key from held-out forecasts, one per row.
pub(crate) fn learn(predictors: &mut Predictors, rows: &TrainingRows, held_out: &[Estimate]) {
    let mut found: BTreeMap<PredictorKey, Found> = BTreeMap::new();
    for (row, estimate) in rows.rows.iter().zip(held_out) {
        let log_error = (row.latency_ns / estimate.latency_ns).ln().abs();
        let of = found.entry(PredictorKey::of(&row.op)).or_default();
        if rows.models.get(row.model).is_some_and(|m| m.e2e_ns.is_some()) {
            of.in_models.add(log_error, row.weight * row.latency_ns * row.count as f64);
            widen(&mut of.near, &FeatureSchema::extract_within(&row.op, row.footprint).values);
        } else {
            of.alone.add(log_error, row.weight);
        }
    }
    let ratios: Vec<f64> = found.values().filter_map(|f| Some(f.alone.mean()? / f.in_models.mean()?)).collect();
    let ratio = crate::metrics::median(&ratios).unwrap_or(USUAL_RATIO).max(1.0);
    let unknown = predictors.fallbacks.typical_log_error;
    for (key, predictor) in &mut predictors.keys {
        let Some(of) = found.remove(key) else { continue };
        let (near, far) = match (of.in_models.mean(), of.alone.mean()) {
            (Some(near), Some(far)) => (near, far.max(near)),
            (Some(near), None) => (near, near * ratio),
            (None, Some(far)) => (far, far),
            (None, None) => (unknown, unknown),
        };
        predictor.doubt = Doubt { near: of.near, near_log_error: near, far_log_error: far };
    }
}

fn widen(ranges: &mut Vec<(f64, f64)>, x: &[f64]) {
    if ranges.is_empty() {
        ranges.extend(x.iter().map(|v| (*v, *v)));
    }
    ranges.iter_mut().zip(x).for_each(|(r, v)| *r = (r.0.min(*v), r.1.max(*v)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubt_grows_with_the_distance_from_what_was_measured() {
        let doubt = Doubt { near: vec![(1.0, 4.0), (0.0, 0.0)], near_log_error: 0.02, far_log_error: 0.1 };
        for (x, extrapolating, expected) in [([2.0, 0.0], false, 0.02), ([2.0, 1.0], false, 0.1), ([5.0, 0.0], true, 0.2)] {
            assert!((doubt.log_error(&x, extrapolating) - expected).abs() < 1e-12, "{x:?}");
        }
        let unseen = Doubt { near: Vec::new(), ..doubt.clone() };
        assert!((unseen.log_error(&[2.0, 0.0], false) - 0.1).abs() < 1e-12, "no model has it");
        assert!(doubt.is_valid(2) && !doubt.is_valid(3) && unseen.is_valid(3));
        assert!(!Doubt { far_log_error: f64::NAN, ..unseen }.is_valid(3));
    }
}
