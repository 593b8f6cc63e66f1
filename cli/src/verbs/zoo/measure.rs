//! `vitempo zoo measure`: how accurate stitched variants are on labelled images, really computed.
//!
//! Stitched variants that begin alike compute the same until they part, so that a beginning runs
//! once for all of them: 10 variants in 3 subgraphs take the work of 370 whole models for all 1000
//! stitched ones.

use super::{
    super::{
        error::{CliError, CliResult},
        files,
        models::Dimensions,
        output::{self, Format, Report, Table},
        profile::{go_on, parse_positive},
        progress,
    },
    engine::Engine,
    labelled::Labelled,
    sampling::{Codes, measured},
    tasks::TasksFile,
    variants::{Variants, Weights},
};
use serde_json::json;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};
use vitempo::profiler::{OutputValues, Session};

/// Measures the accuracy of variants and stitched variants on labelled images
///
/// Example: vitempo zoo measure --tasks zoo/tasks.toml --images images.npy --labels labels.npy
/// --sample 100 --update
///
/// An image counts as right if its class has the largest logit. Every original is measured, and so
/// many stitched variants, or all of them.
#[derive(clap::Args, Debug)]
pub struct MeasureArgs {
    /// Tasks and their variants, as `vitempo zoo make` writes them
    #[arg(long, value_name = "FILE.toml")]
    pub tasks: PathBuf,

    /// Which task; the only one where there is one
    #[arg(long, value_name = "NAME")]
    pub task: Option<String>,

    /// Images, 32-bit floats as the model takes them: N, then the shape of one
    #[arg(long, value_name = "FILE.npy")]
    pub images: PathBuf,

    /// The class of each image, counted from 0
    #[arg(long, value_name = "FILE.npy")]
    pub labels: PathBuf,

    /// So many stitched variants: half at random (all, if fewer than 16), then those that may be
    /// among the best tenth or not; without it, all of them
    #[arg(long, value_name = "COUNT", value_parser = parse_positive)]
    pub sample: Option<usize>,

    /// Write the accuracies here: a variant per position in each row, then percent
    #[arg(long, value_name = "FILE.csv")]
    pub accuracies: Option<PathBuf>,

    /// Put the accuracies into the tasks file, those of stitched variants as a CSV file beside it
    #[arg(long)]
    pub update: bool,

    /// The engine that runs them
    #[arg(long, value_name = "BACKEND", default_value = "rten")]
    pub engine: String,

    /// The same seed draws the same variants
    #[arg(long, default_value_t = 0)]
    pub seed: u64,

    #[command(flatten)]
    pub dimensions: Dimensions,

    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

pub fn run(args: &MeasureArgs) -> CliResult {
    let mut file = TasksFile::read(&args.tasks)?;
    let entry = file.only_task(args.task.as_deref())?.clone();
    let variants = Variants::read(&file, &entry, &args.dimensions.read_options(), Weights::Values)?;
    variants.check_neighbours().map_err(|e| file.refuse(&format!("task `{}`", entry.name), e))?;
    let labelled = Labelled::read(&args.images, &args.labels, &variants)?;
    let codes = Codes::of(&variants);
    codes.check_few()?;
    let engine = Engine::find(&args.engine, 1)?;
    let known = measured(codes, args.sample.unwrap_or(usize::MAX), args.seed, |asked| {
        let chosen: Vec<Vec<usize>> =
            asked.iter().map(|&code| codes.digits(code).collect()).collect();
        let right = Walk::new(&variants, &engine, &chosen)?.right(&labelled)?;
        Ok(right
            .into_iter()
            .map(|right| 100.0 * right as f64 / labelled.count().max(1) as f64)
            .collect())
    })?;
    let rows: Vec<(Vec<usize>, f64)> =
        known.into_iter().map(|(code, percent)| (codes.digits(code).collect(), percent)).collect();
    let measured = Measured {
        rows,
        engine: args.engine.clone(),
        images: labelled.count(),
        variants: &variants,
    };
    if let Some(path) = &args.accuracies {
        files::write(path, measured.accuracies()?.as_bytes())?;
    }
    if args.update {
        measured.update(&mut file)?;
    }
    output::print(&measured, args.format)
}

/// Stitched variants as a tree of beginnings, and an engine with all their subgraphs.
struct Walk<'a> {
    /// By position, then variant; those that are needed.
    sessions: Vec<Vec<Option<Box<dyn Session>>>>,
    /// In lexicographic order.
    chosen: &'a [Vec<usize>],
}

impl<'a> Walk<'a> {
    fn new(variants: &Variants, engine: &Engine, chosen: &'a [Vec<usize>]) -> CliResult<Self> {
        let row = |position: usize| {
            let needed: BTreeSet<usize> =
                chosen.iter().filter_map(|variants| variants.get(position).copied()).collect();
            let load = |(variant, graph)| {
                needed.contains(&variant).then(|| engine.load(graph)).transpose()
            };
            variants.subgraphs[position].iter().enumerate().map(load).collect::<CliResult<Vec<_>>>()
        };
        Ok(Self {
            sessions: (0..variants.subgraphs.len()).map(row).collect::<CliResult<_>>()?,
            chosen,
        })
    }

    /// How many images each stitched variant gets right.
    fn right(mut self, labelled: &Labelled) -> CliResult<Vec<u64>> {
        let mut right = vec![0; self.chosen.len()];
        let bar = progress::bar(labelled.batches() as u64, "measuring");
        for batch in 0..labelled.batches() {
            let (images, labels) = labelled.batch(batch);
            descend(&mut self.sessions, self.chosen, 0, &[images], labels, &mut right)?;
            bar.inc(1);
        }
        bar.finish_and_clear();
        Ok(right)
    }
}

/// Runs what stitched variants of one beginning have next, and counts what is right at the end;
/// `given` is what the beginning computes.
fn descend(
    sessions: &mut [Vec<Option<Box<dyn Session>>>],
    chosen: &[Vec<usize>],
    position: usize,
    given: &[OutputValues],
    labels: &[i64],
    right: &mut [u64],
) -> CliResult {
    let Some((row, rest)) = sessions.split_first_mut() else {
        let found = given.first().map_or(0, |logits| rightly(logits, labels));
        right.iter_mut().for_each(|count| *count += found);
        return Ok(());
    };
    let mut from = 0;
    for group in chosen.chunk_by(|a, b| a[position] == b[position]) {
        go_on()?;
        let variant = group.first().map_or(0, |variants| variants[position]);
        let session = row
            .get_mut(variant)
            .and_then(Option::as_mut)
            .ok_or_else(|| CliError::ours("a subgraph that is needed was not loaded"))?;
        session.feed(&given.iter().collect::<Vec<_>>()).map_err(CliError::user)?;
        let computed = session.outputs().map_err(CliError::user)?;
        descend(
            rest,
            group,
            position + 1,
            &computed,
            labels,
            &mut right[from..from + group.len()],
        )?;
        from += group.len();
    }
    Ok(())
}

/// How many rows of logits have their largest at the label.
fn rightly(logits: &OutputValues, labels: &[i64]) -> u64 {
    let classes = logits.shape.last().copied().unwrap_or(0).max(1);
    let largest = |row: &[f32]| {
        row.iter()
            .enumerate()
            .max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(&a.0)))
            .map(|(index, _)| index as i64)
    };
    logits
        .values
        .chunks(classes)
        .zip(labels)
        .filter(|(row, label)| largest(row) == Some(**label))
        .count() as u64
}

/// Accuracies in percent.
struct Measured<'a> {
    rows: Vec<(Vec<usize>, f64)>,
    engine: String,
    images: usize,
    variants: &'a Variants,
}

impl Measured<'_> {
    fn original(&self, variant: usize) -> Option<f64> {
        self.rows
            .iter()
            .find(|(variants, _)| variants.iter().all(|&v| v == variant))
            .map(|(_, percent)| *percent)
    }

    /// One row per stitched variant.
    fn accuracies(&self) -> CliResult<String> {
        self.variants
            .table(
                &["accuracy"],
                0,
                self.rows
                    .iter()
                    .map(|(variants, percent)| (&variants[..], [format!("{percent:.2}")])),
            )
            .to_csv()
    }

    /// Puts the accuracies into the tasks file.
    fn update(&self, file: &mut TasksFile) -> CliResult {
        let csv = format!("{}.csv", self.variants.task);
        files::write(&file.resolve(Path::new(&csv)), self.accuracies()?.as_bytes())?;
        file.accuracy_is = Some("top-1 accuracy on labelled images, %".to_owned());
        for entry in file.tasks.iter_mut().filter(|entry| entry.name == self.variants.task) {
            entry.stitched = Some(PathBuf::from(&csv));
            for (variant, of) in entry.variants.iter_mut().enumerate() {
                of.accuracy =
                    self.original(variant).map(|percent| (percent * 100.0).round() / 100.0);
            }
        }
        files::write(&file.path, file.text()?.as_bytes())
    }
}

impl Report for Measured<'_> {
    fn table(&self) -> String {
        let mut table = Table::new(&["Variant", "Accuracy"], 1);
        for (variant, name) in self.variants.names.iter().enumerate() {
            table.row([
                name.clone(),
                self.original(variant)
                    .map_or_else(|| "-".to_owned(), |percent| format!("{percent:.2} %")),
            ]);
        }
        let all = self.rows.iter().map(|(_, percent)| *percent);
        let (least, most) = all
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), percent| {
                (least.min(percent), most.max(percent))
            });
        format!(
            "{}\n\n{}\n{} stitched variants: {least:.2} to {most:.2} %, on {} images by {}\n",
            self.variants.task,
            table.to_text(),
            self.rows.len(),
            self.images,
            self.engine
        )
    }

    fn csv(&self) -> CliResult<String> {
        self.accuracies()
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        let row = |(variants, percent): &(Vec<usize>, f64)| json!({"variants": self.variants.named(variants), "accuracy": percent});
        let stitched: Vec<serde_json::Value> = self.rows.iter().map(row).collect();
        Ok(
            json!({"task": self.variants.task, "engine": self.engine, "images": self.images, "stitched": stitched}),
        )
    }
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
            (3, 0, 1)
        );
    }
}
