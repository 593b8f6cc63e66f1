//! Blend weights: the weight of the trees against the linear model at out-of-distribution sizes.
//!
//! Trees interpolate between many rows at in-distribution sizes
//! ([`Support`](crate::error_scale::Support)). At other sizes they repeat the values of rows of
//! other sizes, so their forecast is shrunk towards the linear model: the logarithm of the forecast
//! is the weighted mean of both logarithms. The weights are those with the least squared error on
//! held-out networks around single operators: the best linear combination of two estimates whose
//! errors are correlated (Bates and Granger, 1969, doi:10.1057/jors.1969.103), as both are fitted to
//! the same rows. A key without enough of these has the weights for operators of held-out models at
//! sizes that no other model has.

use crate::{PredictorKey, TrainingRow, TrainingRows, predictors::Unblended};
use std::collections::BTreeMap;

/// The weight without enough held-out rows.
pub(crate) const USUAL: f64 = 0.7;
/// Fewest held-out rows for a weight of its own.
const FEWEST: usize = 20;

/// Weighted products of the errors of the linear model and of trees.
#[derive(Default)]
struct Found {
    rows: usize,
    squares: [f64; 2],
    product: f64,
}

impl Found {
    fn add(&mut self, row: &TrainingRow, linear_and_tree_ns: [f64; 2]) {
        let errors = linear_and_tree_ns.map(|forecast_ns| (row.latency_ns / forecast_ns).ln());
        self.add_errors(row.weight, errors);
    }

    fn add_errors(&mut self, weight: f64, [linear, trees]: [f64; 2]) {
        self.rows += 1;
        self.squares[0] += weight * linear.powi(2);
        self.squares[1] += weight * trees.powi(2);
        self.product += weight * linear * trees;
    }

    fn blend_weight(&self) -> Option<f64> {
        let [linear, trees] = self.squares;
        let apart = linear + trees - 2.0 * self.product;
        (self.rows >= FEWEST && apart > 0.0)
            .then(|| ((linear - self.product) / apart).clamp(0.0, 1.0))
    }
}

/// Held-out rows of one key.
#[derive(Default)]
struct OfKey {
    networks: Found,
    unseen_sizes: Found,
}

impl OfKey {
    fn blend_weight(&self) -> Option<f64> {
        self.networks.blend_weight().or_else(|| self.unseen_sizes.blend_weight())
    }
}

/// The weight of the trees of every key, from 0 to 1; `forecast` gives a row's latency by
/// predictors that were not fitted to its model.
pub(crate) fn learn(
    rows: &TrainingRows,
    forecast: impl Fn(&TrainingRow) -> Option<Unblended>,
) -> BTreeMap<PredictorKey, f64> {
    let mut found: BTreeMap<PredictorKey, OfKey> = BTreeMap::new();
    for row in &rows.rows {
        let Some(forecast) = forecast(row) else { continue };
        let of = found.entry(PredictorKey::of(&row.op)).or_default();
        match (rows.is_whole(row.model), forecast.supported) {
            (false, _) => of.networks.add(row, forecast.linear_and_tree_ns),
            (true, false) => of.unseen_sizes.add(row, forecast.linear_and_tree_ns),
            (true, true) => {}
        }
    }
    found.into_iter().filter_map(|(key, of)| Some((key, of.blend_weight()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Twice this many rows.
    fn found(pairs: usize, errors: [[f64; 2]; 2]) -> Found {
        let mut found = Found::default();
        (0..pairs).for_each(|_| errors.iter().for_each(|&e| found.add_errors(1.0, e)));
        found
    }

    /// Errors of the linear model of `linear` and of trees of 0.2, without correlation.
    fn independent(pairs: usize, linear: f64) -> Found {
        found(pairs, [[linear, 0.2], [linear, -0.2]])
    }

    fn near(weight: Option<f64>, expected: f64) -> bool {
        weight.is_some_and(|weight| (weight - expected).abs() < 1e-12)
    }

    #[test]
    fn independent_errors_weigh_inversely_to_their_squares() {
        assert!(near(independent(FEWEST, 0.1).blend_weight(), 0.2));
        assert!(near(found(FEWEST, [[0.2, 0.0]; 2]).blend_weight(), 1.0));
        let too_few = found((FEWEST - 1) / 2, [[0.1, 0.2]; 2]);
        assert_eq!(
            [too_few.blend_weight(), found(FEWEST, [[0.0; 2]; 2]).blend_weight()],
            [None; 2]
        );
    }

    #[test]
    fn what_errs_in_the_same_way_and_more_has_no_weight() {
        assert!(near(found(FEWEST, [[0.2, 0.1], [-0.2, -0.1]]).blend_weight(), 1.0));
        assert!(near(found(FEWEST, [[0.1, 0.2], [-0.1, -0.2]]).blend_weight(), 0.0));
    }

    #[test]
    fn unseen_sizes_count_where_networks_are_too_few() {
        let weight = |networks, unseen_sizes| OfKey { networks, unseen_sizes }.blend_weight();
        assert!(near(weight(independent(FEWEST, 0.2), independent(FEWEST, 0.6)), 0.5));
        assert!(near(weight(independent(1, 0.2), independent(FEWEST, 0.6)), 0.9));
        assert_eq!(weight(Found::default(), independent(1, 0.6)), None);
    }
}
