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
use vitempo::zoo::measure::{MeasureFiles, MeasuredTask};

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
    let request = MeasureFiles {
        tasks: &args.tasks,
        task: args.task.as_deref(),
        images: &args.images,
        labels: &args.labels,
        engine: &args.engine,
        read: &args.dimensions.read_options(),
        samples: args.sample,
        seed: args.seed,
    };
    let task = watched("measuring", |watch| request.measure(watch))?;
    let mut measured = Measured { task, engine: &args.engine };
    if let Some(path) = &args.accuracies {
        files::write(path, measured.csv()?.as_bytes())?;
    }
    if args.update {
        measured.task.update()?;
    }
    output::print(&measured, args.format)
}

/// The accuracies to print.
struct Measured<'a> {
    task: MeasuredTask,
    engine: &'a str,
}

impl Report for Measured<'_> {
    fn table(&self) -> String {
        let mut table = Table::new(&["Variant", "Accuracy"], 1);
        for (variant, name) in self.task.variants.names.iter().enumerate() {
            table.row([
                name.clone(),
                self.task
                    .accuracies
                    .original(variant)
                    .map_or_else(|| "-".to_owned(), |percent| format!("{percent:.2} %")),
            ]);
        }
        let all = self.task.accuracies.rows.iter().map(|(_, percent)| *percent);
        let (least, most) = all
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), percent| {
                (least.min(percent), most.max(percent))
            });
        format!(
            "{}\n\n{}\n{} stitched variants: {least:.2} to {most:.2} %, on {} images by {}\n",
            self.task.variants.task,
            table.to_text(),
            self.task.accuracies.rows.len(),
            self.task.images,
            self.engine
        )
    }

    fn csv(&self) -> CliResult<String> {
        Ok(self.task.accuracies.csv(&self.task.variants)?)
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        let row = |(variants, percent): &(Vec<usize>, f64)| json!({"variants": self.task.variants.named(variants), "accuracy": percent});
        let stitched: Vec<serde_json::Value> = self.task.accuracies.rows.iter().map(row).collect();
        Ok(
            json!({"task": self.task.variants.task, "engine": self.engine, "images": self.task.images, "stitched": stitched}),
        )
    }
}
