//! [`AccuracyEstimator`]: estimates the accuracy of a model that is stitched from subgraphs of
//! several variants, from the accuracies of these variants. (Eqs. 2 to 4 of "Multi-DNN Inference of
//! Sparse Models on Edge SoCs".)
//!
//! Each position's feature is the accuracy of the variant its subgraph is taken from (eqs. 2 and
//! 3); boosted trees minimise the squared error (eq. 4). Monotone constraints keep the estimate
//! from falling where a subgraph is taken from a more accurate variant, so that planners need not
//! enumerate all combinations. The paper gives neither trees nor samples: 100 trees of depth 4
//! here. Features and estimates are in one unit of the caller's, such as percent.

use crate::forest::CompiledForest;
use lightgbm::{Booster, Dataset};
use serde_json::json;

const TREES: usize = 100;
const DEPTH: usize = 4;
const LEARNING_RATE: f64 = 0.1;
const FEWEST_IN_LEAF: usize = 3;
/// Rows are repeated until there are this many: LightGBM's bins ignore columns that cannot split
/// off 20 rows.
const ENOUGH_ROWS: usize = 600;
/// Fewest samples to fit to.
const FEWEST_SAMPLES: usize = 8;
const FOLDS: usize = 5;

/// One measured combination.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// By position, the accuracy of the variant that its subgraph is taken from.
    pub subgraphs: Vec<f64>,
    /// Of the whole.
    pub accuracy: f64,
}

/// Why there is no estimator.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AccuracyError {
    /// There are too few combinations.
    #[error(
        "{found} measured combinations; at least {FEWEST_SAMPLES} are needed to fit an estimator"
    )]
    TooFew {
        /// Combinations there are.
        found: usize,
    },
    /// A combination has another length.
    #[error("combination {index} has {found} subgraphs instead of {expected}")]
    Positions {
        /// Which one, counted from 0.
        index: usize,
        /// Its subgraphs.
        found: usize,
        /// Subgraphs of the first.
        expected: usize,
    },
    /// An accuracy is not finite.
    #[error("combination {index} has an accuracy that is not a number")]
    NotFinite {
        /// Which one, counted from 0.
        index: usize,
    },
    /// LightGBM failed.
    #[error("LightGBM: {0}")]
    Fit(String),
}

/// Boosted trees that rise with each of their features.
#[derive(Clone, Debug)]
pub struct AccuracyEstimator {
    mean: f64,
    /// What is added to the mean; nothing where all samples are equal.
    trees: Option<CompiledForest>,
    error: f64,
}

impl AccuracyEstimator {
    /// Fits to combinations of so many subgraphs. The same samples and seed give the same
    /// estimator.
    ///
    /// # Errors
    /// [`AccuracyError`] for too few samples, and for invalid samples.
    pub fn fit(positions: usize, samples: &[Sample], seed: u64) -> Result<Self, AccuracyError> {
        if samples.len() < FEWEST_SAMPLES {
            return Err(AccuracyError::TooFew { found: samples.len() });
        }
        for (index, sample) in samples.iter().enumerate() {
            if sample.subgraphs.len() != positions || positions == 0 {
                return Err(AccuracyError::Positions {
                    index,
                    found: sample.subgraphs.len(),
                    expected: positions,
                });
            }
            if !sample.subgraphs.iter().chain([&sample.accuracy]).all(|value| value.is_finite()) {
                return Err(AccuracyError::NotFinite { index });
            }
        }
        let all: Vec<&Sample> = samples.iter().collect();
        let (mean, trees) = boosted(&all, seed)?;
        Ok(Self { mean, trees, error: cross_validated(&all, seed)? })
    }

    /// The accuracy of a combination.
    #[must_use]
    pub fn estimate(&self, subgraphs: &[f64]) -> f64 {
        estimate(self.mean, self.trees.as_ref(), subgraphs)
    }

    /// Mean absolute error on samples held out, five-fold.
    #[must_use]
    pub const fn error(&self) -> f64 {
        self.error
    }
}

fn estimate(mean: f64, trees: Option<&CompiledForest>, subgraphs: &[f64]) -> f64 {
    mean + trees.map_or(0.0, |trees| trees.predict(subgraphs))
}

/// The mean accuracy, and trees for the differences from it.
fn boosted(samples: &[&Sample], seed: u64) -> Result<(f64, Option<CompiledForest>), AccuracyError> {
    let mean =
        samples.iter().map(|sample| sample.accuracy).sum::<f64>() / samples.len().max(1) as f64;
    let equal = samples.windows(2).all(|pair| pair[0].accuracy == pair[1].accuracy)
        || samples.windows(2).all(|pair| pair[0].subgraphs == pair[1].subgraphs);
    if equal {
        return Ok((mean, None));
    }
    let text = train(samples, mean, seed).map_err(|e| AccuracyError::Fit(e.to_string()))?;
    let trees =
        CompiledForest::from_lightgbm(&text).map_err(|e| AccuracyError::Fit(e.to_string()))?;
    Ok((mean, Some(trees)))
}

/// LightGBM's text of the trees.
fn train(samples: &[&Sample], mean: f64, seed: u64) -> Result<String, lightgbm::Error> {
    let copies = ENOUGH_ROWS.div_ceil(samples.len().max(1));
    let positions = samples.first().map_or(0, |sample| sample.subgraphs.len());
    let x: Vec<f64> = samples.iter().flat_map(|sample| sample.subgraphs.iter().copied()).collect();
    let y: Vec<f32> = samples.iter().map(|sample| (sample.accuracy - mean) as f32).collect();
    let dataset =
        Dataset::from_slice(&x.repeat(copies), &y.repeat(copies), positions as i32, true)?;
    let parameters = json!({
        "objective": "regression",
        "boost_from_average": false,
        "num_iterations": TREES,
        "learning_rate": LEARNING_RATE,
        "max_depth": DEPTH,
        "num_leaves": 1 << DEPTH,
        "min_data_in_leaf": FEWEST_IN_LEAF * copies,
        "min_sum_hessian_in_leaf": 1e-6,
        "monotone_constraints": vec!["1"; positions].join(","),
        "deterministic": true,
        "force_row_wise": true,
        "num_threads": 1,
        "seed": seed % (1 << 30),
        "verbosity": -1,
    });
    Booster::train(dataset, &parameters)?.save_string()
}

fn cross_validated(samples: &[&Sample], seed: u64) -> Result<f64, AccuracyError> {
    let mut errors = Vec::with_capacity(samples.len());
    for fold in 0..FOLDS {
        let (held, used): (Vec<_>, Vec<_>) =
            samples.iter().enumerate().partition(|(index, _)| index % FOLDS == fold);
        let (mean, trees) =
            boosted(&used.into_iter().map(|(_, sample)| *sample).collect::<Vec<_>>(), seed)?;
        errors.extend(held.into_iter().map(|(_, sample)| {
            (estimate(mean, trees.as_ref(), &sample.subgraphs) - sample.accuracy).abs()
        }));
    }
    Ok(errors.iter().sum::<f64>() / errors.len().max(1) as f64)
}

/// Of this share of combinations with the highest actual accuracy, how many are among as many with
/// the highest estimate; a share. Ties go to the first.
#[must_use]
pub fn top_recall(actual: &[f64], estimated: &[f64], share: f64) -> f64 {
    let count = ((actual.len() as f64 * share).round() as usize)
        .clamp(usize::from(!actual.is_empty()), actual.len());
    let top = |values: &[f64]| -> Vec<usize> {
        let mut order: Vec<usize> = (0..values.len().min(actual.len())).collect();
        order.sort_by(|&a, &b| values[b].total_cmp(&values[a]).then(a.cmp(&b)));
        order.truncate(count);
        order.sort_unstable();
        order
    };
    let (best, found) = (top(actual), top(estimated));
    best.iter().filter(|index| found.binary_search(index).is_ok()).count() as f64
        / count.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten variants, three positions that matter differently, drops that add up and a little more
    /// where several are deep.
    fn truth(stitched: &[usize]) -> f64 {
        let drop = |variant: usize| 0.3 * (variant as f64).powf(1.5);
        let total: f64 = stitched
            .iter()
            .zip([0.5, 0.3, 0.2])
            .map(|(&variant, weight)| weight * drop(variant))
            .sum();
        85.0 - total - 0.02 * total * total
    }

    fn original(variant: usize) -> f64 {
        truth(&[variant; 3])
    }

    fn sample(stitched: &[usize]) -> Sample {
        Sample {
            subgraphs: stitched.iter().map(|&variant| original(variant)).collect(),
            accuracy: truth(stitched),
        }
    }

    fn all() -> Vec<[usize; 3]> {
        (0..1000).map(|code| [code / 100, code / 10 % 10, code % 10]).collect()
    }

    /// The originals and every n-th combination of a permuted list.
    fn hundred() -> Vec<Sample> {
        let originals = (0..10).map(|variant| sample(&[variant; 3]));
        originals.chain((0..100).map(|i| sample(&all()[(i * 367 + 11) % 1000]))).collect()
    }

    #[test]
    fn a_hundred_samples_find_the_best_combinations() {
        let estimator = AccuracyEstimator::fit(3, &hundred(), 1).expect("fits");
        let actual: Vec<f64> = all().iter().map(|stitched| truth(stitched)).collect();
        let estimated: Vec<f64> =
            all().iter().map(|stitched| estimator.estimate(&sample(stitched).subgraphs)).collect();
        let recall = top_recall(&actual, &estimated, 0.1);
        let off = actual.iter().zip(&estimated).map(|(a, e)| (a - e).abs()).sum::<f64>() / 1000.0;
        eprintln!(
            "recall of the best tenth {recall:.3}, mean error {off:.3} points, {:.3} in \
            cross-validation",
            estimator.error()
        );
        assert!(recall > 0.75, "recall {recall}");
        assert!(off < 0.5, "{off} points off");
        assert!(estimator.error() < 1.0);
    }

    #[test]
    fn estimates_never_fall_with_a_better_subgraph() {
        // Noise that a free fit would follow.
        let noisy: Vec<Sample> = hundred()
            .into_iter()
            .enumerate()
            .map(|(i, s)| Sample { accuracy: s.accuracy + (i as f64 * 1.7).sin(), ..s })
            .collect();
        let estimator = AccuracyEstimator::fit(3, &noisy, 1).expect("fits");
        for stitched in all() {
            for position in 0..3 {
                let better = stitched[position].saturating_sub(1);
                let mut other = stitched;
                other[position] = better;
                assert!(
                    estimator.estimate(&sample(&other).subgraphs)
                        >= estimator.estimate(&sample(&stitched).subgraphs) - 1e-9,
                    "{stitched:?}"
                );
            }
        }
    }

    #[test]
    fn the_same_samples_give_the_same_estimates_and_bad_ones_are_refused() {
        let estimate = |seed| {
            AccuracyEstimator::fit(3, &hundred(), seed)
                .map(|e| e.estimate(&[80.0, 81.0, 82.0]))
                .expect("fits")
        };
        assert_eq!(estimate(3).to_bits(), estimate(3).to_bits());
        let refused = |samples: &[Sample]| {
            AccuracyEstimator::fit(3, samples, 1).map_or_else(|e| e.to_string(), |_| String::new())
        };
        assert!(refused(&hundred()[..5]).starts_with("5 measured combinations; at least 8"));
        let mut odd = hundred();
        odd[4].subgraphs.pop();
        assert_eq!(refused(&odd), "combination 4 has 2 subgraphs instead of 3");
        odd[4].subgraphs.push(f64::NAN);
        assert_eq!(refused(&odd), "combination 4 has an accuracy that is not a number");
    }

    #[test]
    fn samples_that_are_alike_give_their_mean() {
        let same = vec![Sample { subgraphs: vec![80.0, 81.0], accuracy: 75.5 }; 9];
        let estimator = AccuracyEstimator::fit(2, &same, 1).expect("fits");
        assert_eq!((estimator.estimate(&[1.0, 2.0]), estimator.error()), (75.5, 0.0));
    }

    #[test]
    fn recall_by_hand() {
        let actual = [1.0, 9.0, 8.0, 2.0, 7.0, 3.0, 4.0, 5.0, 6.0, 0.0];
        let mut estimated = actual;
        assert!((top_recall(&actual, &estimated, 0.3) - 1.0).abs() < 1e-12);
        estimated[1] = 0.5;
        assert!((top_recall(&actual, &estimated, 0.3) - 2.0 / 3.0).abs() < 1e-12);
        assert!(
            (top_recall(&actual, &estimated, 0.0) - 0.0).abs() < 1e-12,
            "at least one is looked for"
        );
        assert!((top_recall(&[], &[], 0.3) - 0.0).abs() < 1e-12);
    }
}
