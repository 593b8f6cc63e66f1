//! Accuracies of stitched variants: measured ones where they exist; else those of an estimator
//! fitted to measured ones; else each original's drop, shared evenly among its subgraphs.

use super::{StitchingError, record::AccuracySource};
use crate::zoo::{
    codes::Codes,
    tasks::{TaskEntry, TasksFile, VariantEntry, basis_points},
    variants::Variants,
};
use std::{collections::BTreeMap, io, path::Path, sync::Arc};
use vitempo_planners::stitch::{Accuracy, Additive, Monotone, Table};
use vitempo_predictors::accuracy::{AccuracyEstimator, Sample};

/// Accuracies of a task's stitched variants, and their source.
pub type Known = (Arc<dyn Accuracy>, AccuracySource);

/// The accuracies of a task. The seed is the estimator's.
///
/// # Errors
/// [`StitchingError`] naming the variant whose accuracy is missing, or the line of the file of
/// measured accuracies that is wrong.
pub fn of_task(
    file: &TasksFile,
    entry: &TaskEntry,
    variants: &Variants,
    seed: u64,
) -> Result<Known, StitchingError> {
    let originals = entry
        .variants
        .iter()
        .map(|variant| original(file, entry, variant))
        .collect::<Result<Vec<u32>, _>>()?;
    let positions = variants.subgraphs.len();
    let Some(path) = &entry.stitched else {
        let how = "estimated: each variant's drop shared evenly among its subgraphs".to_owned();
        let accuracy = Arc::new(Additive::of_originals(&originals, positions)?);
        return Ok((accuracy, AccuracySource { how, measured: 0 }));
    };
    let path = file.resolve(path);
    let refused = |reason: String| StitchingError::Accuracies { task: entry.name.clone(), reason };
    let mut measured = read(&path, variants).map_err(refused)?;
    for (variant, &bp) in originals.iter().enumerate() {
        measured.entry(vec![variant; positions]).or_insert(bp);
    }
    if Codes::of(variants).are_few() && Codes::of(variants).all() == measured.len() {
        return all_measured(variants, measured);
    }
    Estimated::fit(originals, positions, measured, seed)
        .map_err(|e| refused(format!("{}: {e}", path.display())))?
        .known(Codes::of(variants))
}

fn original(
    file: &TasksFile,
    entry: &TaskEntry,
    variant: &VariantEntry,
) -> Result<u32, StitchingError> {
    variant.accuracy.map(basis_points).ok_or_else(|| StitchingError::NoAccuracy {
        path: file.path.clone(),
        task: entry.name.clone(),
        variant: variant.name.clone(),
    })
}

/// Accuracies in basis points by stitched variant (the variant of each position).
type Measured = BTreeMap<Vec<usize>, u32>;

fn all_measured(variants: &Variants, measured: Measured) -> Result<Known, StitchingError> {
    let codes = Codes::of(variants);
    let source = AccuracySource {
        how: format!("measured: all {} stitched variants", measured.len()),
        measured: measured.len(),
    };
    let table = Table::new(codes.positions, codes.variants, measured.into_values().collect())?;
    Ok((Arc::new(table), source))
}

/// An estimator of accuracies, fitted to those that were measured.
struct Estimated {
    originals: Vec<u32>,
    positions: usize,
    measured: Measured,
    estimator: AccuracyEstimator,
}

impl Estimated {
    fn fit(
        originals: Vec<u32>,
        positions: usize,
        measured: Measured,
        seed: u64,
    ) -> Result<Self, vitempo_predictors::accuracy::AccuracyError> {
        let sample = |(stitched, &bp): (&Vec<usize>, &u32)| Sample {
            subgraphs: of_originals(&originals, stitched).map(f64::from).collect(),
            accuracy: f64::from(bp),
        };
        let samples: Vec<Sample> = measured.iter().map(sample).collect();
        let estimator = AccuracyEstimator::fit(positions, &samples, seed)?;
        Ok(Self { originals, positions, measured, estimator })
    }

    fn source(&self) -> AccuracySource {
        let how = format!(
            "estimated: gradient boosting on {} measured variants, {:.2} points off in \
            cross-validation",
            self.measured.len(),
            self.estimator.error() / 100.0
        );
        AccuracySource { how, measured: self.measured.len() }
    }

    /// The estimates, as a table where there are few enough stitched variants to be listed.
    fn known(self, codes: Codes) -> Result<Known, StitchingError> {
        let source = self.source();
        if codes.are_few() {
            let of = |code: usize| self.accuracy_bp(&codes.digits(code).collect::<Vec<_>>());
            let all = (0..codes.all()).map(of).collect();
            let table = Table::new(self.positions, codes.variants, all)?;
            return Ok((Arc::new(table), source));
        }
        let Self { originals, positions, estimator, .. } = self;
        let estimate = move |subgraphs: &[u32]| estimate_bp(&estimator, subgraphs);
        Ok((Arc::new(Monotone::new(originals, positions, Arc::new(estimate))?), source))
    }

    /// The accuracy as measured, else as estimated.
    fn accuracy_bp(&self, stitched: &[usize]) -> u32 {
        let estimated = || {
            let subgraphs: Vec<u32> = of_originals(&self.originals, stitched).collect();
            estimate_bp(&self.estimator, &subgraphs)
        };
        self.measured.get(stitched).copied().unwrap_or_else(estimated)
    }
}

/// The accuracy of each position's original, basis points.
fn of_originals(originals: &[u32], stitched: &[usize]) -> impl Iterator<Item = u32> {
    stitched.iter().map(|&variant| originals.get(variant).copied().unwrap_or(0))
}

fn estimate_bp(estimator: &AccuracyEstimator, subgraphs: &[u32]) -> u32 {
    let subgraphs: Vec<f64> = subgraphs.iter().copied().map(f64::from).collect();
    estimator.estimate(&subgraphs).floor().clamp(0.0, 10_000.0) as u32
}

/// Reads a CSV file with a variant per position in each row, then the accuracy in percent. The
/// error names the file and the line.
fn read(path: &Path, variants: &Variants) -> Result<Measured, String> {
    let mut reader =
        csv::Reader::from_path(path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
    check_headings(path, &mut reader, variants.subgraphs.len())?;
    let mut measured = BTreeMap::new();
    for record in reader.records() {
        let record = record.map_err(|e| format!("{}: {e}", path.display()))?;
        let refuse = |reason: String| {
            let line = record.position().map_or(0, csv::Position::line);
            format!("{}, line {line}: {reason}", path.display())
        };
        let (stitched, bp) = row(&record, variants).map_err(refuse)?;
        if measured.insert(stitched, bp).is_some() {
            return Err(refuse("this variant is listed twice".to_owned()));
        }
    }
    Ok(measured)
}

/// Refuses other columns than `s1`, `s2`, ... and `accuracy`, in this order.
fn check_headings<R: io::Read>(
    path: &Path,
    reader: &mut csv::Reader<R>,
    positions: usize,
) -> Result<(), String> {
    let headings = reader.headers().map_err(|e| format!("{}: {e}", path.display()))?;
    let found: Vec<&str> = headings.iter().map(str::trim).collect();
    let last = ["accuracy".to_owned()];
    let expected: Vec<_> = (1..=positions).map(|at| format!("s{at}")).chain(last).collect();
    if found == expected {
        return Ok(());
    }
    let [found, expected] = [found.join(","), expected.join(",")];
    Err(format!("{}: the columns are `{found}`; expected `{expected}`", path.display()))
}

/// Reads a stitched variant and its accuracy in basis points from a row.
fn row(record: &csv::StringRecord, variants: &Variants) -> Result<(Vec<usize>, u32), String> {
    let positions = variants.subgraphs.len();
    if record.len() != positions + 1 {
        let fields = record.len();
        return Err(format!("{fields} fields; expected {positions} variants and an accuracy"));
    }
    let index = |name: &str| {
        let known = variants.names.iter().position(|known| known == name);
        known.ok_or_else(|| format!("there is no variant `{name}`"))
    };
    let stitched = record
        .iter()
        .take(positions)
        .map(|name| index(name.trim()))
        .collect::<Result<Vec<usize>, String>>()?;
    let text = record.get(positions).unwrap_or_default().trim();
    let percent = text.parse::<f64>().ok().filter(|percent| (0.0..=100.0).contains(percent));
    let percent =
        percent.ok_or_else(|| format!("`{text}` is not an accuracy between 0 and 100 %"))?;
    Ok((stitched, basis_points(percent)))
}
