//! Chooses the stitched variants to measure when not all can be measured: half of them at random,
//! then those whose estimate is closest to the border of the best.
//!
//! Planners need the set of the best variants. Near its border, measured accuracies are used,
//! elsewhere estimates.

use super::{ZooError, codes::Codes};
use rand::{SeedableRng, rngs::StdRng, seq::index};
use std::collections::BTreeMap;
use vitempo_predictors::accuracy::{AccuracyEstimator, Sample};

/// Share of stitched variants that counts as the best.
pub const BEST: f64 = 0.1;
/// Below this number, all are drawn at random: half of them are too few for the estimator.
const FEW: usize = 16;
/// Number of measurements between two updates of the estimates.
const AT_ONCE: usize = 10;

/// Accuracies in percent by code, of the originals and of this number of stitched variants.
/// `measure` is called with several at a time.
///
/// # Errors
/// Those of `measure`, and [`ZooError::Accuracy`].
pub fn measured(
    codes: Codes,
    samples: usize,
    seed: u64,
    mut measure: impl FnMut(&[usize]) -> Result<Vec<f64>, ZooError>,
) -> Result<BTreeMap<usize, f64>, ZooError> {
    let all = codes.all();
    let at_random = match samples {
        samples if samples >= all => all,
        FEW.. => samples.div_ceil(2),
        _ => samples,
    };
    let first = drawn(codes, at_random, seed);
    let mut known: BTreeMap<usize, f64> = first.iter().copied().zip(measure(&first)?).collect();
    let mut left = samples.saturating_sub(at_random);
    while left > 0 && known.len() < all {
        let next = undecided(&estimates(codes, &known, seed)?, &known, left.min(AT_ONCE));
        known.extend(next.iter().copied().zip(measure(&next)?));
        left -= next.len().max(1).min(left);
    }
    Ok(known)
}

/// The codes of the originals and of this number of random stitched variants; each once, rising.
#[must_use]
pub fn drawn(codes: Codes, samples: usize, seed: u64) -> Vec<usize> {
    let all = codes.all();
    let random = index::sample(&mut StdRng::seed_from_u64(seed), all, samples.min(all));
    let originals = (0..codes.variants).map(|variant| codes.original(variant));
    let mut drawn: Vec<usize> = originals.chain(random).collect();
    drawn.sort_unstable();
    drawn.dedup();
    drawn
}

/// Accuracies of all stitched variants in percent: as measured, else estimated.
///
/// # Errors
/// [`ZooError::Accuracy`] where too few are known.
pub fn estimates(
    codes: Codes,
    known: &BTreeMap<usize, f64>,
    seed: u64,
) -> Result<Vec<f64>, ZooError> {
    let mut accuracies = all_estimated(codes, known, seed)?;
    for (&code, &accuracy) in known {
        if let Some(estimate) = accuracies.get_mut(code) {
            *estimate = accuracy;
        }
    }
    Ok(accuracies)
}

/// Accuracies of all stitched variants in percent, all estimated from the known ones, including
/// these.
///
/// # Errors
/// [`ZooError::Accuracy`] where too few are known.
pub fn all_estimated(
    codes: Codes,
    known: &BTreeMap<usize, f64>,
    seed: u64,
) -> Result<Vec<f64>, ZooError> {
    let originals: Vec<f64> = (0..codes.variants)
        .map(|variant| known.get(&codes.original(variant)).copied().unwrap_or(0.0))
        .collect();
    let subgraphs = |code: usize| -> Vec<f64> {
        codes.digits(code).map(|variant| originals[variant]).collect()
    };
    let samples: Vec<Sample> = known
        .iter()
        .map(|(&code, &accuracy)| Sample { subgraphs: subgraphs(code), accuracy })
        .collect();
    let estimator = AccuracyEstimator::fit(codes.positions, &samples, seed)?;
    Ok((0..codes.all()).map(|code| estimator.estimate(&subgraphs(code))).collect())
}

/// The stitched variants that are not measured and are nearest to the border of the best, by rank.
fn undecided(estimated: &[f64], known: &BTreeMap<usize, f64>, count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..estimated.len()).collect();
    order.sort_by(|&a, &b| estimated[b].total_cmp(&estimated[a]).then(a.cmp(&b)));
    let border = (BEST * estimated.len() as f64).round() as usize;
    let mut open: Vec<(usize, usize)> = order
        .iter()
        .enumerate()
        .filter(|(_, code)| !known.contains_key(code))
        .map(|(rank, &code)| (rank.abs_diff(border), code))
        .collect();
    open.sort_unstable();
    let mut chosen: Vec<usize> = open.into_iter().take(count).map(|(_, code)| code).collect();
    chosen.sort_unstable();
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_as_asked_for_are_measured_once_and_the_rest_estimated() {
        let codes = Codes { variants: 5, positions: 3 };
        let truth = |code: usize| 90.0 - codes.digits(code).map(|v| (v * v) as f64).sum::<f64>();
        for samples in [1, 8, 30, 125, 400] {
            let mut asked = Vec::new();
            let known = measured(codes, samples, 1, |codes| {
                asked.extend_from_slice(codes);
                Ok(codes.iter().map(|&code| truth(code)).collect())
            })
            .expect("accuracies");
            assert_eq!(asked.len(), known.len(), "{samples}: nothing twice");
            assert!(
                known.len() >= samples.min(120) && known.len() <= (samples + 5).min(125),
                "{samples}: {}",
                known.len()
            );
            assert!((0..5).all(|variant| known.contains_key(&codes.original(variant))));
        }
    }

    #[test]
    fn a_few_need_no_estimator() {
        let codes = Codes { variants: 2, positions: 4 };
        for samples in 1..=16 {
            let known = measured(codes, samples, 1, |asked| Ok(vec![50.0; asked.len()]))
                .expect("accuracies");
            assert!((samples..=samples + 2).contains(&known.len()), "{samples}: {}", known.len());
        }
    }
}
