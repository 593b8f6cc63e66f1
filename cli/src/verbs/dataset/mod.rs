//! `vitempo dataset`: inspects, validates, splits, merges, imports and exports datasets; appends
//! them to lakes.

mod import;
mod inspect;
mod lake;
mod split;
mod validate;

use super::{
    error::CliResult,
    output::{self, Format},
    progress,
};
use clap::Subcommand;
use import::ImportCommand;
use inspect::Inspected;
use lake::{AppendArgs, CompactArgs, FilesArgs, FilterArgs};
use split::SplitArgs;
use std::path::{Path, PathBuf};
use vitempo::datasets::{Dataset, ExportFormat};
use vitempo::training;

/// Inspects, validates, splits, merges, imports and exports datasets, and appends them to lakes
///
/// Example: vitempo dataset inspect data/
#[derive(Subcommand, Debug)]
pub enum DatasetCommand {
    /// Counts what is there: models, operators, environments, sessions, failures
    ///
    /// Example: vitempo dataset inspect data/
    Inspect {
        /// Dataset folder or lake
        #[arg(value_name = "FOLDER")]
        data: PathBuf,
        /// Format of the output
        #[arg(long, value_enum, default_value_t)]
        format: Format,
    },
    /// Checks files, keys, samples and sums; exit code 1 when the data is invalid
    ///
    /// Example: vitempo dataset validate data/
    Validate {
        /// Dataset folder or lake
        #[arg(value_name = "FOLDER")]
        data: PathBuf,
        /// Format of the output
        #[arg(long, value_enum, default_value_t)]
        format: Format,
    },
    /// Divides the architectures into training and test; real models are always test
    ///
    /// Example: vitempo dataset split data/ --train 240 --test 60 --seed 1 --out split.json
    Split(SplitArgs),
    /// Reads measurements that others published; every row keeps its source and is marked as
    /// imported
    #[command(subcommand)]
    Import(ImportCommand),
    /// Joins datasets into a new one
    ///
    /// Example: vitempo dataset merge monday/ tuesday/ --out both/
    Merge {
        /// Dataset folders or lakes
        #[arg(required = true, value_name = "FOLDERS")]
        data: Vec<PathBuf>,
        /// New dataset folder
        #[arg(long, value_name = "FOLDER")]
        out: PathBuf,
    },
    /// Adds datasets to a lake, a folder or `s3://BUCKET/PREFIX`, which is made if it is not there
    ///
    /// Example: vitempo dataset append monday/ tuesday/ --to s3://latencies/phones
    Append(AppendArgs),
    /// Joins the small files of a lake
    ///
    /// Example: vitempo dataset compact s3://latencies/phones
    Compact(CompactArgs),
    /// Prints the files of a lake, those of its last commit, for other programs
    ///
    /// Example: vitempo dataset files lake/ --table operator_measurements --kind conv
    Files(FilesArgs),
    /// Prints one table as CSV or JSON
    ///
    /// Example: vitempo dataset export data/ --table operators --format csv
    Export {
        /// Dataset folder or lake
        #[arg(value_name = "FOLDER")]
        data: PathBuf,
        /// operators, operator_measurements, models, model_measurements or environments
        #[arg(long)]
        table: String,
        #[command(flatten)]
        filter: FilterArgs,
        /// Format of the output
        #[arg(long, value_enum, default_value_t = Format::Csv)]
        format: Format,
    },
}

pub fn run(command: &DatasetCommand) -> CliResult {
    match command {
        DatasetCommand::Inspect { data, format } => {
            output::print(&Inspected(vitempo::datasets::inspect(data)?), *format)
        }
        DatasetCommand::Validate { data, format } => validate::run(data, *format),
        DatasetCommand::Split(args) => split::run(args),
        DatasetCommand::Import(command) => import::run(command),
        DatasetCommand::Merge { data, out } => {
            let folders: Vec<&Path> = data.iter().map(PathBuf::as_path).collect();
            let merged = vitempo::datasets::merge(&folders, out)?;
            output::write_stdout(&format!(
                "{} model runs, {} models in {}\n",
                merged.profiles.len(),
                merged.models.len(),
                out.display()
            ))
        }
        DatasetCommand::Append(args) => lake::append(args),
        DatasetCommand::Compact(args) => lake::compact(args),
        DatasetCommand::Files(args) => lake::files(args),
        DatasetCommand::Export { data, table, filter, format } => {
            let format =
                if *format == Format::Json { ExportFormat::Json } else { ExportFormat::Csv };
            let mut text = Vec::new();
            vitempo::datasets::export(data, table, &filter.filter(), format, &mut text)?;
            output::write_stdout(&String::from_utf8_lossy(&text))
        }
    }
}

/// Reads a dataset and says what had to be left out.
pub fn load(folder: &Path) -> CliResult<Dataset> {
    Ok(warned(Dataset::load(folder)?))
}

/// Reads the measurements of one environment, and says what had to be left out.
pub fn load_environment(folder: &Path, environment: Option<&str>) -> CliResult<Dataset> {
    Ok(warned(training::load_environment(folder, environment)?))
}

fn warned(dataset: Dataset) -> Dataset {
    dataset.warnings.iter().for_each(|w| progress::say(format!("warning: {w}")));
    dataset
}

/// The same, but of a sample of the architectures where all of them have more than `rows` rows of
/// operators.
pub fn load_sample(
    folder: &Path,
    environment: Option<&str>,
    rows: u64,
    seed: u64,
) -> CliResult<Dataset> {
    let dataset = warned(training::load_sample(folder, environment, rows, seed)?);
    if let Some(sampled) = dataset.sampled {
        progress::say(format!(
            "a sample of {} of {} architectures, with at most {rows} rows of operators",
            sampled.architectures, sampled.of
        ));
    }
    Ok(dataset)
}
