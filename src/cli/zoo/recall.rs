//! How well the accuracy estimator finds the best stitched variants from some that were measured, where all of them were.

use super::super::error::CliResult;
use rand::{SeedableRng, rngs::StdRng, seq::index};
use vitempo_predictors::accuracy::{AccuracyEstimator, Sample, top_recall};

/// Stitched variants that the estimator is fitted to, beside the originals.
pub const SAMPLES: usize = 100;
/// Samples of them, each drawn with its own seed.
pub const DRAWS: u64 = 20;
/// Share of stitched variants that counts as the best.
const BEST: f64 = 0.1;

/// Over several draws of samples.
pub struct Recall {
    /// Of the best tenth, how many are in the best tenth by estimate; shares, rising.
    pub recall: Vec<f64>,
    /// Mean absolute error over all stitched variants, points.
    pub error: f64,
}

impl Recall {
    /// Of a task with so many variants, given the accuracy of all stitched ones in basis points, the last position counting fastest.
    pub fn of(accuracies_bp: &[u32], variants: usize, positions: usize) -> CliResult<Self> {
        let digits = |code: usize| (0..positions).rev().map(move |position| code / variants.pow(position as u32) % variants);
        let original = |variant: usize| (0..positions).fold(0, |code, _| code * variants + variant);
        let percent = |code: usize| f64::from(accuracies_bp.get(code).copied().unwrap_or(0)) / 100.0;
        let sample = |code: usize| Sample { subgraphs: digits(code).map(|variant| percent(original(variant))).collect(), accuracy: percent(code) };
        let all: Vec<Sample> = (0..accuracies_bp.len()).map(sample).collect();
        let actual: Vec<f64> = all.iter().map(|sample| sample.accuracy).collect();
        let (mut recall, mut error) = (Vec::new(), 0.0);
        for seed in 0..DRAWS {
            let mut random = StdRng::seed_from_u64(seed);
            let drawn = index::sample(&mut random, all.len(), SAMPLES.min(all.len()));
            let known = drawn.into_iter().chain((0..variants).map(original));
            let known: Vec<Sample> = known.filter_map(|code| all.get(code).cloned()).collect();
            let estimator = AccuracyEstimator::fit(positions, &known, seed).map_err(super::super::error::CliError::user)?;
            let estimated: Vec<f64> = all.iter().map(|sample| estimator.estimate(&sample.subgraphs)).collect();
            recall.push(top_recall(&actual, &estimated, BEST));
            error += actual.iter().zip(&estimated).map(|(a, e)| (a - e).abs()).sum::<f64>() / actual.len().max(1) as f64 / DRAWS as f64;
        }
        recall.sort_by(f64::total_cmp);
        Ok(Self { recall, error })
    }

    /// Over all draws.
    pub fn mean(&self) -> f64 {
        self.recall.iter().sum::<f64>() / self.recall.len().max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_adds_up_is_found() {
        let truth = |code: usize| 9000 - [code / 100, code / 10 % 10, code % 10].iter().map(|&v| (v * v * 5) as u32).sum::<u32>();
        let found = Recall::of(&(0..1000).map(truth).collect::<Vec<_>>(), 10, 3).expect("an estimator");
        assert!(found.mean() > 0.85 && found.error < 0.5, "{} {}", found.mean(), found.error);
        assert_eq!(found.recall.len() as u64, DRAWS);
    }
    /// Of every stitched variant of the transformer that ships, the accuracy was computed on 5000 images.
    #[test]
    fn the_best_of_what_was_really_computed_is_found() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("datasets/stitching/stripes.csv");
        let mut reader = csv::Reader::from_path(path).expect("the table that ships");
        let rows: Vec<csv::StringRecord> = reader.records().collect::<Result<_, _>>().expect("rows");
        let bp: Vec<u32> = rows.iter().map(|row| (row[3].parse::<f64>().expect("percent") * 100.0).round() as u32).collect();
        let variants = rows.iter().map(|row| row[2].to_owned()).collect::<std::collections::BTreeSet<_>>().len();
        assert_eq!(rows.len(), variants.pow(3));
        let found = Recall::of(&bp, variants, 3).expect("an estimator");
        eprintln!("recall {:.4}, {:?}; {:.3} points off", found.mean(), found.recall, found.error);
        assert!(found.mean() >= 0.85 && found.error < 1.5, "{} {}", found.mean(), found.error);
    }
}
