//! Recall of the best stitched variants when some of them are measured, on tasks of which all were
//! measured.

use super::{
    ZooError,
    codes::Codes,
    sampling::{BEST, all_estimated, drawn, estimates, measured},
};
use vitempo_predictors::accuracy::top_recall;

/// Stitched variants that are measured, beside the originals.
pub const SAMPLES: usize = 100;
/// Number of samples drawn, each with its own seed.
pub const DRAWS: u64 = 20;

/// Recall over several samples.
#[derive(Clone, Debug)]
pub struct Recall {
    /// Shares of the best tenth that are in the best tenth by measured or estimated accuracy;
    /// rising.
    pub recall: Vec<f64>,
    /// The same by the paper's protocol: all samples drawn at random, and every accuracy estimated,
    /// also the measured ones; the mean.
    pub at_random: f64,
    /// Mean absolute error over all stitched variants, points.
    pub error: f64,
}

impl Recall {
    /// The recall of a task with this number of variants, given the accuracy of all stitched ones
    /// in basis points, the last position changing fastest.
    ///
    /// # Errors
    /// [`ZooError::Accuracy`] where there are too few variants for an estimator.
    pub fn of(accuracies_bp: &[u32], variants: usize, positions: usize) -> Result<Self, ZooError> {
        let codes = Codes { variants, positions };
        let actual: Vec<f64> = accuracies_bp.iter().map(|&bp| f64::from(bp) / 100.0).collect();
        let (mut recall, mut at_random, mut error) = (Vec::new(), 0.0, 0.0);
        for seed in 0..DRAWS {
            let accuracy = |code: usize| actual.get(code).copied().unwrap_or(0.0);
            let known = measured(codes, SAMPLES, seed, |asked| {
                Ok(asked.iter().copied().map(accuracy).collect())
            })?;
            let estimated = estimates(codes, &known, seed)?;
            recall.push(top_recall(&actual, &estimated, BEST));
            let random = drawn(codes, SAMPLES, seed)
                .into_iter()
                .map(|code| (code, accuracy(code)))
                .collect();
            let estimated_alone = all_estimated(codes, &random, seed)?;
            at_random += top_recall(&actual, &estimated_alone, BEST) / DRAWS as f64;
            error += actual.iter().zip(&estimated).map(|(a, e)| (a - e).abs()).sum::<f64>()
                / actual.len().max(1) as f64
                / DRAWS as f64;
        }
        recall.sort_by(f64::total_cmp);
        Ok(Self { recall, at_random, error })
    }

    /// Mean recall over all samples.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.recall.iter().sum::<f64>() / self.recall.len().max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_adds_up_is_found() {
        let truth = |code: usize| {
            9000 - [code / 100, code / 10 % 10, code % 10]
                .iter()
                .map(|&v| (v * v * 5) as u32)
                .sum::<u32>()
        };
        let found =
            Recall::of(&(0..1000).map(truth).collect::<Vec<_>>(), 10, 3).expect("an estimator");
        assert!(found.mean() > 0.93 && found.error < 0.6, "{} {}", found.mean(), found.error);
        assert_eq!(found.recall.len() as u64, DRAWS);
    }

    /// Accuracies of all stitched variants of the shipped transformer, computed on 5000 images.
    #[test]
    fn the_best_of_what_was_really_computed_is_found() {
        let path =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("datasets/stitching/stripes.csv");
        let mut reader = csv::Reader::from_path(path).expect("the table that ships");
        let rows: Vec<csv::StringRecord> =
            reader.records().collect::<Result<_, _>>().expect("rows");
        let bp: Vec<u32> = rows
            .iter()
            .map(|row| (row[3].parse::<f64>().expect("percent") * 100.0).round() as u32)
            .collect();
        let variants = rows
            .iter()
            .map(|row| row[2].to_owned())
            .collect::<std::collections::BTreeSet<_>>()
            .len();
        assert_eq!(rows.len(), variants.pow(3));
        let found = Recall::of(&bp, variants, 3).expect("an estimator");
        eprintln!(
            "recall {:.4}, {:?}; {:.3} points off; by the paper's protocol {:.4}",
            found.mean(),
            found.recall,
            found.error,
            found.at_random
        );
        assert!(found.mean() >= 0.93 && found.error < 2.0, "{} {}", found.mean(), found.error);
        assert!((0.8..found.mean()).contains(&found.at_random), "{}", found.at_random);
    }
}
