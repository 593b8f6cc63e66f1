//! How accurate stitched variants are: as measured, where they were; by an estimator fitted to
//! those that were; else each original's drop shared evenly among its subgraphs.

use super::super::super::{
    error::{CliError, CliResult},
    zoo::{
        codes::Codes,
        tasks::{TaskEntry, TasksFile, VariantEntry, basis_points},
        variants::Variants,
    },
};
use std::{collections::BTreeMap, path::Path, sync::Arc};
use vitempo::planners::stitch::{Accuracy, Additive, Monotone, Table};
use vitempo::predictors::accuracy::{AccuracyEstimator, Sample};

/// Accuracies of a task's stitched variants, and how they are known.
pub struct Known {
    pub accuracy: Arc<dyn Accuracy>,
    pub how: String,
    /// Stitched variants that were measured.
    pub measured: usize,
}

/// What is known of a task.
pub fn of_task(
    file: &TasksFile,
    entry: &TaskEntry,
    variants: &Variants,
    seed: u64,
) -> CliResult<Known> {
    let originals = entry
        .variants
        .iter()
        .map(|variant| original(file, entry, variant))
        .collect::<CliResult<Vec<u32>>>()?;
    let positions = variants.subgraphs.len();
    let Some(path) = &entry.stitched else {
        let accuracy = Arc::new(Additive::of_originals(&originals, positions)?);
        return Ok(Known {
            accuracy,
            how: "estimated: each variant's drop shared evenly among its subgraphs".to_owned(),
            measured: 0,
        });
    };
    let path = file.resolve(path);
    let about = |e: CliError| e.about(format!("task `{}`", entry.name));
    let mut measured = read(&path, variants).map_err(about)?;
    for (variant, &bp) in originals.iter().enumerate() {
        measured.entry(vec![variant; positions]).or_insert(bp);
    }
    let codes = Codes::of(variants);
    let listed = codes.are_few();
    if listed && codes.all() == measured.len() {
        let count = measured.len();
        let accuracy =
            Arc::new(Table::new(positions, codes.variants, measured.into_values().collect())?);
        return Ok(Known {
            accuracy,
            how: format!("measured: all {count} stitched variants"),
            measured: count,
        });
    }
    let sample = |(stitched, &bp): (&Vec<usize>, &u32)| {
        let originals = stitched
            .iter()
            .map(|&variant| f64::from(originals.get(variant).copied().unwrap_or(0)))
            .collect();
        Sample { subgraphs: originals, accuracy: f64::from(bp) }
    };
    let samples: Vec<Sample> = measured.iter().map(sample).collect();
    let estimator = AccuracyEstimator::fit(positions, &samples, seed)
        .map_err(|e| about(CliError::user(format!("{}: {e}", path.display()))))?;
    let how = format!(
        "estimated: gradient boosting on {} measured variants, {:.2} points off in \
        cross-validation",
        samples.len(),
        estimator.error() / 100.0
    );
    let estimate = move |subgraphs: &[u32]| {
        estimator
            .estimate(&subgraphs.iter().map(|&bp| f64::from(bp)).collect::<Vec<_>>())
            .round()
            .clamp(0.0, 10_000.0) as u32
    };
    if !listed {
        return Ok(Known {
            accuracy: Arc::new(Monotone::new(originals, positions, Arc::new(estimate))?),
            how,
            measured: samples.len(),
        });
    }
    let of = |code: usize| {
        let stitched: Vec<usize> = codes.digits(code).collect();
        let estimated = || {
            estimate(
                &stitched
                    .iter()
                    .map(|&variant| originals.get(variant).copied().unwrap_or(0))
                    .collect::<Vec<_>>(),
            )
        };
        measured.get(&stitched).copied().unwrap_or_else(estimated)
    };
    let accuracy = Table::new(positions, codes.variants, (0..codes.all()).map(of).collect())?;
    Ok(Known { accuracy: Arc::new(accuracy), how, measured: samples.len() })
}

fn original(file: &TasksFile, entry: &TaskEntry, variant: &VariantEntry) -> CliResult<u32> {
    let of = || format!("task `{}`, variant `{}`", entry.name, variant.name);
    let missing = || {
        CliError::from(file.refuse(&of(), "its accuracy is not known")).hint(
            "measure it, and add accuracy = \
            PERCENT; `vitempo zoo make --compare rten` measures similarity",
        )
    };
    variant.accuracy.map(basis_points).ok_or_else(missing)
}

/// Basis points by stitched variant: a CSV file with a variant per position in each row, then its
/// accuracy in percent.
fn read(path: &Path, variants: &Variants) -> CliResult<BTreeMap<Vec<usize>, u32>> {
    let refuse = |line: u64, reason: String| {
        CliError::user(format!("{}, line {line}: {reason}", path.display()))
    };
    let mut reader = csv::Reader::from_path(path)
        .map_err(|e| CliError::user(format!("cannot read {}: {e}", path.display())))?;
    let positions = variants.subgraphs.len();
    let mut measured = BTreeMap::new();
    for record in reader.records() {
        let record = record.map_err(|e| CliError::user(format!("{}: {e}", path.display())))?;
        let line = record.position().map_or(0, csv::Position::line);
        if record.len() != positions + 1 {
            return Err(refuse(
                line,
                format!("{} fields; expected {positions} variants and an accuracy", record.len()),
            ));
        }
        let index = |name: &str| {
            variants
                .names
                .iter()
                .position(|known| known == name)
                .ok_or_else(|| refuse(line, format!("there is no variant `{name}`")))
        };
        let stitched = record
            .iter()
            .take(positions)
            .map(|name| index(name.trim()))
            .collect::<CliResult<Vec<usize>>>()?;
        let text = record.get(positions).unwrap_or_default().trim();
        let percent = text.parse::<f64>().ok().filter(|percent| (0.0..=100.0).contains(percent));
        let percent = percent
            .ok_or_else(|| refuse(line, format!("`{text}` is no accuracy between 0 and 100 %")))?;
        if measured.insert(stitched, basis_points(percent)).is_some() {
            return Err(refuse(line, "this variant is there twice".to_owned()));
        }
    }
    Ok(measured)
}
