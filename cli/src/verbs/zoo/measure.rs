//! `vitempo zoo measure`: computes the accuracy of stitched variants on labelled images.

use super::watched;
use crate::verbs::{
    error::CliResult,
    files,
    models::Dimensions,
    output::{self, Format, Report, Table},
    quantity::positive,
};
use serde_json::json;
use std::path::PathBuf;
use vitempo::zoo::{
    TasksFile, Variants,
    engine::Engine,
    labelled::Labelled,
    measure::{self, MeasuredAccuracies},
    variants::Weights,
};

/// Measures the accuracy of variants and stitched variants on labelled images
///
/// Example: vitempo zoo measure --tasks zoo/tasks.toml --images images.npy --labels labels.npy
/// --sample 100 --update
///
/// An image counts as correct if its class has the largest logit. Every original is measured, and
/// all stitched variants or a sample of them.
#[derive(clap::Args, Debug)]
pub struct MeasureArgs {
    /// Tasks and their variants, as `vitempo zoo make` writes them
    #[arg(long, value_name = "FILE.toml")]
    pub tasks: PathBuf,

    /// The task; may be left out if there is only one
    #[arg(long, value_name = "NAME")]
    pub task: Option<String>,

    /// Images, 32-bit floats as the model reads them: dimension N, then the shape of one image
    #[arg(long, value_name = "FILE.npy")]
    pub images: PathBuf,

    /// The class of each image, counted from 0
    #[arg(long, value_name = "FILE.npy")]
    pub labels: PathBuf,

    /// Number of stitched variants to measure: half at random (all, if fewer than 16), then those
    /// closest to the border of the best tenth; without it, all of them
    #[arg(long, value_name = "COUNT", value_parser = positive)]
    pub sample: Option<usize>,

    /// Write the accuracies here: a variant per position in each row, then percent
    #[arg(long, value_name = "FILE.csv")]
    pub accuracies: Option<PathBuf>,

    /// Write the accuracies into the tasks file, and those of stitched variants to a CSV file
    /// beside it
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

    /// Format of the output
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

pub fn run(args: &MeasureArgs) -> CliResult {
    let mut file = TasksFile::read(&args.tasks)?;
    let entry = file.only_task(args.task.as_deref())?.clone();
    let variants = Variants::read(&file, &entry, &args.dimensions.read_options(), Weights::Values)?;
    variants.check_neighbours().map_err(|e| file.refuse(&format!("task `{}`", entry.name), e))?;
    let labelled = Labelled::read(&args.images, &args.labels, &variants)?;
    let engine = Engine::find(&args.engine, 1)?;
    let accuracies = watched("measuring", |watch| {
        measure::measure(&variants, &labelled, &engine, args.sample, args.seed, watch)
    })?;
    let measured = Measured {
        accuracies,
        engine: args.engine.clone(),
        images: labelled.count(),
        variants: &variants,
    };
    if let Some(path) = &args.accuracies {
        files::write(path, measured.csv()?.as_bytes())?;
    }
    if args.update {
        measured.accuracies.update(&variants, &mut file)?;
    }
    output::print(&measured, args.format)
}

/// The accuracies to print.
struct Measured<'a> {
    accuracies: MeasuredAccuracies,
    engine: String,
    images: usize,
    variants: &'a Variants,
}

impl Report for Measured<'_> {
    fn table(&self) -> String {
        let mut table = Table::new(&["Variant", "Accuracy"], 1);
        for (variant, name) in self.variants.names.iter().enumerate() {
            table.row([
                name.clone(),
                self.accuracies
                    .original(variant)
                    .map_or_else(|| "-".to_owned(), |percent| format!("{percent:.2} %")),
            ]);
        }
        let all = self.accuracies.rows.iter().map(|(_, percent)| *percent);
        let (least, most) = all
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), percent| {
                (least.min(percent), most.max(percent))
            });
        format!(
            "{}\n\n{}\n{} stitched variants: {least:.2} to {most:.2} %, on {} images by {}\n",
            self.variants.task,
            table.to_text(),
            self.accuracies.rows.len(),
            self.images,
            self.engine
        )
    }

    fn csv(&self) -> CliResult<String> {
        Ok(self.accuracies.csv(self.variants)?)
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        let row = |(variants, percent): &(Vec<usize>, f64)| json!({"variants": self.variants.named(variants), "accuracy": percent});
        let stitched: Vec<serde_json::Value> = self.accuracies.rows.iter().map(row).collect();
        Ok(
            json!({"task": self.variants.task, "engine": self.engine, "images": self.images, "stitched": stitched}),
        )
    }
}
