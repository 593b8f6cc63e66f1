//! [`measure`]: computes the accuracy of stitched variants on labelled images; [`MeasureFiles`] does
//! so for a task of a file.
//!
//! Stitched variants with equal first subgraphs compute the same results there, so that each prefix
//! runs once for all of them: all 1000 stitched variants of 10 variants in 3 subgraphs take the
//! work of 370 whole models.

use super::{
    Progress, TasksFile, Variants, ZooError, codes::Codes, engine::Engine, labelled::Labelled,
    sampling::measured, tasks::write_whole, variants::Weights,
};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};
use vitempo_graph::onnx::ReadOptions;
use vitempo_profiler::{OutputValues, Session};

/// Accuracies of stitched variants, in percent.
#[derive(Clone, Debug)]
pub struct MeasuredAccuracies {
    /// The variant of each position, and the accuracy.
    pub rows: Vec<(Vec<usize>, f64)>,
}

/// A task's variants and labelled images, as files.
#[derive(Clone, Debug)]
pub struct MeasureFiles<'a> {
    /// Tasks and their variants.
    pub tasks: &'a Path,
    /// The task; `None` where there is only one.
    pub task: Option<&'a str>,
    /// Images, NPY.
    pub images: &'a Path,
    /// The class of each image, NPY.
    pub labels: &'a Path,
    /// Name of the engine that runs the variants.
    pub engine: &'a str,
    /// The options for reading models.
    pub read: &'a ReadOptions,
    /// Number of stitched variants to measure; `None`: all.
    pub samples: Option<usize>,
    /// The same seed draws the same variants.
    pub seed: u64,
}

/// The accuracies of one task.
#[derive(Debug)]
pub struct MeasuredTask {
    /// Accuracies of its variants, stitched or not.
    pub accuracies: MeasuredAccuracies,
    /// Its variants.
    pub variants: Variants,
    /// The tasks file that it is in.
    pub file: TasksFile,
    /// Number of images.
    pub images: usize,
}

impl MeasureFiles<'_> {
    /// Reads the files, checks that neighbouring subgraphs fit together, and measures by
    /// [`measure()`].
    ///
    /// # Errors
    /// [`ZooError`] names the file, the task or the engine.
    pub fn measure(
        &self,
        watch: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<MeasuredTask, ZooError> {
        let file = TasksFile::read(self.tasks)?;
        let entry = file.only_task(self.task)?;
        let variants = Variants::read(&file, entry, self.read, Weights::Values)?;
        variants
            .check_neighbours()
            .map_err(|e| file.refuse(&format!("task `{}`", entry.name), e))?;
        let labelled = Labelled::read(self.images, self.labels, &variants)?;
        let engine = Engine::find(self.engine, 1)?;
        let accuracies = measure(&variants, &labelled, &engine, self.samples, self.seed, watch)?;
        Ok(MeasuredTask { accuracies, variants, file, images: labelled.count() })
    }
}

impl MeasuredTask {
    /// Writes the accuracies into the tasks file, and those of stitched variants to a CSV file
    /// beside it.
    ///
    /// # Errors
    /// [`ZooError`] where a file cannot be written.
    pub fn update(&mut self) -> Result<(), ZooError> {
        self.accuracies.update(&self.variants, &mut self.file)
    }
}

/// Measures every original, and all stitched variants or a sample: half at random, then those
/// closest to the border of the best tenth. An image counts as correct if its class has the largest
/// logit. `watch` returns whether to continue; its progress restarts for each group of stitched
/// variants.
///
/// # Errors
/// [`ZooError::TooMany`] where the stitched variants cannot be listed, else with the engine's
/// reason.
pub fn measure(
    variants: &Variants,
    labelled: &Labelled,
    engine: &Engine,
    samples: Option<usize>,
    seed: u64,
    watch: &mut dyn FnMut(Progress) -> bool,
) -> Result<MeasuredAccuracies, ZooError> {
    let codes = Codes::of(variants);
    codes.check_few()?;
    let percent = |right: u64| 100.0 * right as f64 / labelled.count().max(1) as f64;
    let known = measured(codes, samples.unwrap_or(usize::MAX), seed, |asked| {
        let chosen: Vec<Vec<usize>> =
            asked.iter().map(|&code| codes.digits(code).collect()).collect();
        let right = Walk::new(variants, engine, &chosen)?.right(labelled, watch)?;
        Ok(right.into_iter().map(percent).collect())
    })?;
    let row = |(code, percent)| (codes.digits(code).collect(), percent);
    Ok(MeasuredAccuracies { rows: known.into_iter().map(row).collect() })
}

impl MeasuredAccuracies {
    /// The accuracy of a variant without stitching.
    #[must_use]
    pub fn original(&self, variant: usize) -> Option<f64> {
        self.rows
            .iter()
            .find(|(variants, _)| variants.iter().all(|&v| v == variant))
            .map(|(_, percent)| *percent)
    }

    /// As CSV: one row per stitched variant.
    ///
    /// # Errors
    /// As [`Variants::accuracies`].
    pub fn csv(&self, variants: &Variants) -> Result<String, ZooError> {
        variants.accuracies(
            self.rows.iter().map(|(stitched, percent)| (&stitched[..], format!("{percent:.2}"))),
        )
    }

    /// Writes the accuracies into the tasks file, and those of stitched variants to a CSV file
    /// beside it.
    ///
    /// # Errors
    /// [`ZooError::Io`] where one of them cannot be written.
    pub fn update(&self, variants: &Variants, file: &mut TasksFile) -> Result<(), ZooError> {
        let csv = format!("{}.csv", variants.task);
        write_whole(&file.resolve(Path::new(&csv)), self.csv(variants)?.as_bytes())?;
        file.accuracy_is = Some("top-1 accuracy on labelled images, %".to_owned());
        for entry in file.tasks.iter_mut().filter(|entry| entry.name == variants.task) {
            entry.stitched = Some(PathBuf::from(&csv));
            for (variant, of) in entry.variants.iter_mut().enumerate() {
                of.accuracy =
                    self.original(variant).map(|percent| (percent * 100.0).round() / 100.0);
            }
        }
        file.write()
    }
}

/// Stitched variants as a tree of prefixes, and an engine with all their subgraphs.
struct Walk<'a> {
    /// The sessions that are needed, by position, then variant.
    sessions: Vec<Vec<Option<Box<dyn Session>>>>,
    /// The stitched variants, in lexicographic order.
    chosen: &'a [Vec<usize>],
}

impl<'a> Walk<'a> {
    fn new(
        variants: &Variants,
        engine: &Engine,
        chosen: &'a [Vec<usize>],
    ) -> Result<Self, ZooError> {
        let row = |position: usize| {
            let needed: BTreeSet<usize> =
                chosen.iter().filter_map(|variants| variants.get(position).copied()).collect();
            let load = |(variant, graph)| {
                needed.contains(&variant).then(|| engine.load(graph)).transpose()
            };
            variants.subgraphs[position]
                .iter()
                .enumerate()
                .map(load)
                .collect::<Result<Vec<_>, ZooError>>()
        };
        Ok(Self {
            sessions: (0..variants.subgraphs.len()).map(row).collect::<Result<_, _>>()?,
            chosen,
        })
    }

    /// Number of images that each stitched variant classifies correctly.
    fn right(
        mut self,
        labelled: &Labelled,
        watch: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<Vec<u64>, ZooError> {
        let mut right = vec![0; self.chosen.len()];
        let total = labelled.batches();
        for done in 0..total {
            let (images, labels) = labelled.batch(done);
            let mut batch = Batch { labels, progress: Progress { done, total }, watch };
            batch.descend(&mut self.sessions, self.chosen, 0, &[images], &mut right)?;
        }
        Ok(right)
    }
}

/// A batch of labelled images.
struct Batch<'a> {
    labels: &'a [i64],
    progress: Progress,
    watch: &'a mut dyn FnMut(Progress) -> bool,
}

impl Batch<'_> {
    /// Runs the next subgraphs of stitched variants with one prefix, and counts correct images at
    /// the end; `given` is the result of the prefix.
    fn descend(
        &mut self,
        sessions: &mut [Vec<Option<Box<dyn Session>>>],
        chosen: &[Vec<usize>],
        position: usize,
        given: &[OutputValues],
        right: &mut [u64],
    ) -> Result<(), ZooError> {
        let Some((row, rest)) = sessions.split_first_mut() else {
            let found = given.first().map_or(Ok(0), |logits| rightly(logits, self.labels));
            let found = found.map_err(|row| {
                let batch = given.first().and_then(|logits| logits.shape.first());
                let image = self.progress.done * batch.unwrap_or(&0) + row;
                ZooError::NotRunnable(format!("the result for image {image} is not a number"))
            })?;
            right.iter_mut().for_each(|count| *count += found);
            return Ok(());
        };
        let mut from = 0;
        for group in chosen.chunk_by(|a, b| a[position] == b[position]) {
            self.progress.check(self.watch)?;
            let variant = group.first().map_or(0, |variants| variants[position]);
            let session = row.get_mut(variant).and_then(Option::as_mut).ok_or_else(|| {
                ZooError::Internal("a subgraph that is needed was not loaded".to_owned())
            })?;
            session.feed(&given.iter().collect::<Vec<_>>())?;
            let computed = session.outputs()?;
            let counts = &mut right[from..from + group.len()];
            self.descend(rest, group, position + 1, &computed, counts)?;
            from += group.len();
        }
        Ok(())
    }
}

/// Number of rows of logits whose largest value is at the label.
///
/// # Errors
/// The first row with a value that is not a number.
fn rightly(logits: &OutputValues, labels: &[i64]) -> Result<u64, usize> {
    let classes = logits.shape.last().copied().unwrap_or(0).max(1);
    let mut labelled = logits.values.chunks(classes).zip(labels);
    if let Some(row) = labelled.position(|(row, _)| row.iter().any(|logit| logit.is_nan())) {
        return Err(row);
    }
    let largest = |row: &[f32]| {
        row.iter()
            .enumerate()
            .max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(&a.0)))
            .map(|(index, _)| index as i64)
    };
    let labelled = logits.values.chunks(classes).zip(labels);
    Ok(labelled.filter(|(row, label)| largest(row) == Some(**label)).count() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_logit_counts() {
        let logits = OutputValues {
            name: "y".to_owned(),
            shape: vec![3, 2],
            values: vec![0.1, 0.9, 2.0, -1.0, 0.5, 0.5],
        };
        assert_eq!(
            (rightly(&logits, &[1, 0, 0]), rightly(&logits, &[0, 1, 1]), rightly(&logits, &[1])),
            (Ok(3), Ok(0), Ok(1))
        );
        let values = vec![0.1, 0.9, f32::NAN, -1.0, 0.5, 0.5];
        assert_eq!(rightly(&OutputValues { values, ..logits }, &[1, 0, 0]), Err(1));
    }
}
