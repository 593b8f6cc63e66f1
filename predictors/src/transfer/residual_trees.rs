//! Trees on what scaled unit costs leave: kernels differ between machines by sizes and alignments,
//! too. They follow the trees of the source, class by class, where they lower the error of networks
//! that were left out.

use super::{Sample, grouped};
use crate::{
    Boosting, KeyPredictor, Predictors,
    fitting::gbdt,
    regressors::{FitData, Fitted},
};

/// Fewest measured rows of a class.
const FEWEST_ROWS: usize = 20;
/// Few small trees: a minute has few rows, and those of the source know the rest.
const BOOSTING: Boosting = Boosting {
    trees: Some(60),
    leaves: Some(6),
    learning_rate: Some(0.1),
    rows_in_leaf: Some(4),
    l2: Some(2.0),
    columns: None,
};
/// Of everything random here.
pub(super) const SEED: u64 = 1;

/// Grows trees for the classes of `predictors` that they help, and for these of each fold's
/// predictors, to the samples of the other folds.
pub(super) fn grow(predictors: &mut Predictors, folds: &mut [Predictors], samples: &[&Sample<'_>]) {
    for (key, of_key) in grouped(samples, |sample| sample.key.clone()) {
        if of_key.len() < FEWEST_ROWS {
            continue;
        }
        let without = |fold: usize| -> Vec<&Sample<'_>> {
            of_key.iter().copied().filter(|sample| sample.fold != fold).collect()
        };
        let grown: Option<Vec<KeyPredictor>> = folds
            .iter()
            .enumerate()
            .map(|(fold, plain)| with_trees(plain.keys.get(&key)?, &without(fold)))
            .collect();
        let Some(grown) = grown else { continue };
        let error: f64 = of_key.iter().map(|sample| sample.error_of(&grown[sample.fold])).sum();
        let plain: f64 = of_key.iter().filter_map(|sample| sample.held_out_error(folds)).sum();
        let all = predictors.keys.get(&key).and_then(|plain| with_trees(plain, &of_key));
        let Some(all) = all.filter(|_| error < plain) else { continue };
        for (fold, grown) in folds.iter_mut().zip(grown) {
            fold.keys.insert(key.clone(), grown);
        }
        predictors.keys.insert(key, all);
    }
}

/// A predictor with more trees; `None` where it has none, or none can be fitted.
fn with_trees(predictor: &KeyPredictor, samples: &[&Sample<'_>]) -> Option<KeyPredictor> {
    let Fitted::Trees { linear, trees } = &predictor.fitted else { return None };
    let column = |of: &dyn Fn(&Sample<'_>) -> f64| -> Vec<f64> {
        samples.iter().map(|sample| of(sample)).collect()
    };
    let y_ns = column(&|sample| sample.row.latency_ns);
    let data = FitData {
        columns: predictor.family.width(),
        x: &samples.iter().flat_map(|sample| sample.x.iter().copied()).collect::<Vec<_>>(),
        y_ns: &y_ns,
        baseline_ns: &column(&|sample| predictor.predict(&sample.x)),
        weights: &column(&|sample| sample.row.weight),
        groups: &vec![0; samples.len()],
        inseparable: &[],
        constant_per: None,
        per_call: &[],
    };
    let trees = trees.followed_by(&gbdt::fit(&data, &BOOSTING, SEED).ok()?).ok()?;
    let ratio =
        |(sample, y): (&&Sample<'_>, &f64)| (y / predictor.baseline.predict(&sample.x)).ln();
    let here = KeyPredictor::log_bounds_of(samples.iter().zip(&y_ns).map(ratio));
    let log_bounds = (predictor.log_bounds.0.min(here.0), predictor.log_bounds.1.max(here.1));
    let fitted = Fitted::Trees { linear: linear.clone(), trees };
    Some(KeyPredictor { fitted, log_bounds, ..predictor.clone() })
}
