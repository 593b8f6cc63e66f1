//! How far trees are followed away from the linear law at sizes that no whole model has.
//!
//! At sizes of whole models trees interpolate between many rows. At any other they repeat what rows
//! of other sizes showed, and a part of that is those rows' own. Held-out networks around single
//! operators tell, per key, how wrong the law and the trees are by themselves; of two guesses whose
//! errors know nothing of each other the best mean weighs each by the inverse of its squared error.
//! As forecasts are logarithms, that is a share of the way.

use crate::{PredictorKey, TrainingRow, TrainingRows};
use std::collections::BTreeMap;

/// Where too few rows tell.
pub(crate) const USUAL: f64 = 0.7;
/// Fewest held-out rows that tell.
const FEWEST: usize = 20;

/// Weighted squared errors of the law and of trees.
#[derive(Default)]
struct Found {
    rows: usize,
    squares: [f64; 2],
}

impl Found {
    fn trust(&self) -> Option<f64> {
        let [law, trees] = self.squares;
        (self.rows >= FEWEST && law + trees > 0.0).then(|| law / (law + trees))
    }
}

/// Trust in the trees of every key, from 0 to 1; `forecast` gives a row's latency by the law and by
/// trees, ns, by predictors that did not see its model.
pub(crate) fn learn(
    rows: &TrainingRows,
    forecast: impl Fn(&TrainingRow) -> Option<[f64; 2]>,
) -> BTreeMap<PredictorKey, f64> {
    let mut found: BTreeMap<PredictorKey, Found> = BTreeMap::new();
    for row in rows.rows.iter().filter(|row| !rows.is_whole(row.model)) {
        let Some(forecasts) = forecast(row) else { continue };
        let of = found.entry(PredictorKey::of(&row.op)).or_default();
        of.rows += 1;
        for (square, forecast_ns) in of.squares.iter_mut().zip(forecasts) {
            *square += row.weight * (row.latency_ns / forecast_ns).ln().powi(2);
        }
    }
    found.into_iter().filter_map(|(key, of)| Some((key, of.trust()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_errs_twice_as_much_is_followed_a_fifth_of_the_way() {
        let found = |rows, law: f64, trees: f64| {
            Found { rows, squares: [law.powi(2), trees.powi(2)] }.trust()
        };
        assert!(found(FEWEST, 0.1, 0.2).is_some_and(|trust| (trust - 0.2).abs() < 1e-12));
        assert!(found(FEWEST, 0.2, 0.0).is_some_and(|trust| (trust - 1.0).abs() < 1e-12));
        assert_eq!([found(FEWEST - 1, 0.1, 0.2), found(FEWEST, 0.0, 0.0)], [None, None]);
    }
}
