//! Blend weights: the weight of the trees against the linear model at out-of-distribution sizes.
//!
//! Trees interpolate between many rows at in-distribution sizes
//! ([`Support`](crate::error_scale::Support)). At other sizes they repeat the values of rows of
//! other sizes, so their forecast is shrunk towards the linear model: the logarithm of the forecast
//! is the weighted mean of both logarithms. The weights are inverse to the mean squared errors of
//! both on held-out networks around single operators, the best linear combination of two estimates
//! with independent errors (Bates and Granger, 1969, doi:10.1057/jors.1969.103). Their errors are
//! correlated; weights by their covariance are nearly the trees' alone, and worse on models that
//! differ from the sampled ones in more than size (decision 0057). A key without enough of these
//! networks has the weights for operators of held-out models at sizes that no other model has.

use crate::{PredictorKey, TrainingRow, TrainingRows};
use std::collections::BTreeMap;

/// The weight without enough held-out rows.
pub(crate) const USUAL: f64 = 0.7;
/// Fewest held-out rows for a weight of its own.
const FEWEST: usize = 20;

/// Weighted squared errors of the linear model and of trees.
#[derive(Default)]
struct Found {
    rows: usize,
    squares: [f64; 2],
}

impl Found {
    fn add(&mut self, row: &TrainingRow, linear_and_tree_ns: [f64; 2]) {
        self.rows += 1;
        for (square, forecast_ns) in self.squares.iter_mut().zip(linear_and_tree_ns) {
            *square += row.weight * (row.latency_ns / forecast_ns).ln().powi(2);
        }
    }

    fn blend_weight(&self) -> Option<f64> {
        let [linear, trees] = self.squares;
        (self.rows >= FEWEST && linear + trees > 0.0).then(|| linear / (linear + trees))
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

/// The weight of the trees of every key, from 0 to 1. `forecasts` has each row's latency by linear
/// model and trees that were not fitted to its model, ns; of whole models where its size is out of
/// distribution.
pub(crate) fn learn(
    rows: &TrainingRows,
    forecasts: &[Option<[f64; 2]>],
) -> BTreeMap<PredictorKey, f64> {
    let mut found: BTreeMap<PredictorKey, OfKey> = BTreeMap::new();
    for (row, forecast) in rows.rows.iter().zip(forecasts) {
        let Some(linear_and_tree_ns) = *forecast else { continue };
        let of = found.entry(PredictorKey::of(&row.op)).or_default();
        match rows.is_whole(row.model) {
            false => of.networks.add(row, linear_and_tree_ns),
            true => of.unseen_sizes.add(row, linear_and_tree_ns),
        }
    }
    found.into_iter().filter_map(|(key, of)| Some((key, of.blend_weight()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twice_the_error_has_a_fifth_of_the_weight() {
        let found = |rows, linear: f64, trees: f64| {
            Found { rows, squares: [linear.powi(2), trees.powi(2)] }.blend_weight()
        };
        assert!(found(FEWEST, 0.1, 0.2).is_some_and(|weight| (weight - 0.2).abs() < 1e-12));
        assert!(found(FEWEST, 0.2, 0.0).is_some_and(|weight| (weight - 1.0).abs() < 1e-12));
        assert_eq!([found(FEWEST - 1, 0.1, 0.2), found(FEWEST, 0.0, 0.0)], [None, None]);
    }

    #[test]
    fn unseen_sizes_count_where_networks_are_too_few() {
        let found = |rows, linear: f64| Found { rows, squares: [linear.powi(2), 0.04] };
        let weight = |networks, unseen_sizes| OfKey { networks, unseen_sizes }.blend_weight();
        assert_eq!(weight(found(FEWEST, 0.2), found(FEWEST, 0.6)), Some(0.5));
        assert!(
            weight(found(FEWEST - 1, 0.2), found(FEWEST, 0.6))
                .is_some_and(|weight| (weight - 0.9).abs() < 1e-12)
        );
        assert_eq!(weight(Found::default(), found(FEWEST - 1, 0.6)), None);
    }
}
