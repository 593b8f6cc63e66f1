//! `vitempo dataset`: inspects, validates, splits, merges, imports and exports datasets.

use super::{
    error::{CliError, CliResult},
    output::{self, Format, Report, Table, si, thousands},
    progress,
};
use clap::Subcommand;
use std::path::{Path, PathBuf};
use vitempo::datasets::{
    Dataset, ExportFormat, Family, FileFacts, Framework, Imported, Severity, Split, SplitSize,
    Summary, Tolerances, ValidationReport,
};
use vitempo::training;

/// Inspects, validates, splits, merges, imports and exports datasets
///
/// Example: vitempo dataset inspect data/
#[derive(Subcommand, Debug)]
pub enum DatasetCommand {
    /// Counts models, operators, environments, sessions and failures
    ///
    /// Example: vitempo dataset inspect data/
    Inspect {
        /// Dataset folder
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
        /// Dataset folder
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
    /// Imports published measurements; every row has its source and is marked as imported
    #[command(subcommand)]
    Import(ImportCommand),
    /// Joins datasets into a new one
    ///
    /// Example: vitempo dataset merge monday/ tuesday/ --out both/
    Merge {
        /// Dataset folders
        #[arg(required = true, value_name = "FOLDERS")]
        data: Vec<PathBuf>,
        /// New dataset folder
        #[arg(long, value_name = "FOLDER")]
        out: PathBuf,
    },
    /// Prints one table as CSV or JSON
    ///
    /// Example: vitempo dataset export data/ --table operators --format csv
    Export {
        /// Dataset folder
        #[arg(value_name = "FOLDER")]
        data: PathBuf,
        /// operators, operator_measurements, models, model_measurements or environments
        #[arg(long)]
        table: String,
        /// Format of the output
        #[arg(long, value_enum, default_value_t = Format::Csv)]
        format: Format,
    },
}

#[derive(Subcommand, Debug)]
pub enum ImportCommand {
    /// CNNs and vision transformers on six phones, from the CSV files of
    /// github.com/qed-usc/mobile-ml-benchmark
    ///
    /// Give all files at once: end-to-end and operator rows of the same models become one model
    /// run. Names such as tflite_vit_synthetic_ops_cpu.csv give framework and kind of models; for
    /// other names use the options below.
    ///
    /// Example: vitempo dataset import mobile-ml-benchmark dataset/vit/*.csv --out phones/
    MobileMlBenchmark(PhonesArgs),
    /// Models on Snapdragon processors: the perf.yaml files that Qualcomm AI Hub Models publishes,
    /// or the table aihub_latency.csv made of them, and graphs in aihub_graphs/
    ///
    /// MODEL/perf.yaml and MODEL.perf.yaml are read; graphs are ONNX files named as the models.
    ///
    /// Example: vitempo dataset import ai-hub ai-hub-models/ --out snapdragon/
    AiHub(FolderArgs),
    /// NAS-Bench-201 and FBNet cells on many devices: the .pt files that HELP publishes in its
    /// folder data/, or nb201_*.gz, fbnet_*.gz and devices.json made of them
    ///
    /// Example: vitempo dataset import cells HELP/data/ --out cells/
    Cells(FolderArgs),
}

#[derive(clap::Args, Debug)]
pub struct FolderArgs {
    /// Folder of the published files
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// New dataset folder
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
}

#[derive(clap::Args, Debug)]
pub struct PhonesArgs {
    /// CSV files
    #[arg(required = true, value_name = "FILES")]
    files: Vec<PathBuf>,
    /// New dataset folder
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
    /// tflite or torch, if the file's name does not give it
    #[arg(long, value_enum)]
    framework: Option<Engine>,
    /// cnn or vit, if the file's name does not give it
    #[arg(long, value_enum)]
    family: Option<Models>,
    /// The models of files whose names do not say it were sampled from a search space, and can be
    /// trained on
    #[arg(long)]
    synthetic: bool,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum Engine {
    Tflite,
    Torch,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum Models {
    Cnn,
    Vit,
}

#[derive(clap::Args, Debug)]
pub struct SplitArgs {
    /// Dataset folder
    #[arg(value_name = "FOLDER")]
    data: PathBuf,
    /// Share of the synthetic architectures in the test set; each stays on its side when models are
    /// added
    #[arg(long, default_value_t = 0.2, conflicts_with_all = ["train", "test"])]
    test_fraction: f64,
    /// Exact number of training architectures
    #[arg(long, requires = "test")]
    train: Option<usize>,
    /// Exact number of test architectures
    #[arg(long, requires = "train")]
    test: Option<usize>,
    /// The same seed gives the same split
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// File to write the split to
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Format of the output
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub fn run(command: &DatasetCommand) -> CliResult {
    match command {
        DatasetCommand::Inspect { data, format } => {
            output::print(&Inspected(vitempo::datasets::inspect(data)?), *format)
        }
        DatasetCommand::Validate { data, format } => validate(data, *format),
        DatasetCommand::Split(args) => split(args),
        DatasetCommand::Import(ImportCommand::MobileMlBenchmark(args)) => import_phones(args),
        DatasetCommand::Import(ImportCommand::AiHub(args)) => {
            imported(&vitempo::datasets::import_ai_hub(&args.folder, &args.out)?, &args.out)
        }
        DatasetCommand::Import(ImportCommand::Cells(args)) => {
            imported(&vitempo::datasets::import_cells(&args.folder, &args.out)?, &args.out)
        }
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
        DatasetCommand::Export { data, table, format } => {
            let format =
                if *format == Format::Json { ExportFormat::Json } else { ExportFormat::Csv };
            let mut text = Vec::new();
            vitempo::datasets::export(data, table, format, &mut text)?;
            output::write_stdout(&String::from_utf8_lossy(&text))
        }
    }
}

fn import_phones(args: &PhonesArgs) -> CliResult {
    let framework = args.framework.map(|engine| match engine {
        Engine::Tflite => Framework::TfLite,
        Engine::Torch => Framework::TorchMobile,
    });
    let family = args.family.map(|models| match models {
        Models::Cnn => Family::Cnn,
        Models::Vit => Family::Vit,
    });
    let files: Vec<&Path> = args.files.iter().map(PathBuf::as_path).collect();
    let facts = FileFacts { framework, family, synthetic: args.synthetic };
    let found = vitempo::datasets::import_mobile_ml_benchmark(&files, &facts, &args.out)?;
    for (what, rows) in &found.unsupported {
        progress::say(format!("warning: kept as an unsupported operator ({rows} x): {what}"));
    }
    output::write_stdout(&summary(&found, &args.out))
}

fn imported(found: &Imported, out: &Path) -> CliResult {
    for (what, rows) in &found.unsupported {
        progress::say(format!("warning: left out ({rows} x): {what}"));
    }
    output::write_stdout(&summary(found, out))
}

fn summary(found: &Imported, out: &Path) -> String {
    format!(
        "{} runs of {} models in {} environments, {} operator rows in {}\n",
        found.runs,
        found.models,
        found.environments,
        thousands(found.operator_rows as u64),
        out.display()
    )
}

/// Reads a dataset and warns of parts that were left out.
pub fn load(folder: &Path) -> CliResult<Dataset> {
    let dataset = Dataset::load(folder)?;
    dataset.warnings.iter().for_each(|w| progress::say(format!("warning: {w}")));
    Ok(dataset)
}

/// Reads the measurements of one environment, and warns of parts that were left out.
pub fn load_environment(folder: &Path, environment: Option<&str>) -> CliResult<Dataset> {
    let dataset = training::load_environment(folder, environment)?;
    dataset.warnings.iter().for_each(|w| progress::say(format!("warning: {w}")));
    Ok(dataset)
}

struct Inspected(Summary);

impl Inspected {
    fn environments(&self) -> Table {
        let mut table = Table::new(
            &[
                "Environment",
                "What",
                "Asked",
                "Executed",
                "Model runs",
                "Failed",
                "Architectures",
                "Sessions",
                "Peak memory",
            ],
            4,
        );
        for (id, e) in &self.0.environments {
            let counts =
                [e.runs, e.failed, e.architectures, e.sessions.len()].map(|n| n.to_string());
            let executed: Vec<&str> = e.executed.keys().map(String::as_str).collect();
            let executed = if executed.is_empty() { "-".to_owned() } else { executed.join("; ") };
            let peak = e.peak_memory_bytes.map_or_else(|| "-".to_owned(), |bytes| si(bytes) + "B");
            table.row(
                [id.clone(), e.description.clone(), e.asked.clone(), executed]
                    .into_iter()
                    .chain(counts)
                    .chain([peak]),
            );
        }
        table
    }

    fn kinds(&self) -> Table {
        let mut table = Table::new(&["Operator", "Distinct", "Rows", "Samples"], 1);
        for (kind, k) in &self.0.kinds {
            table.row([
                kind.clone(),
                thousands(k.distinct as u64),
                thousands(k.rows as u64),
                thousands(k.samples as u64),
            ]);
        }
        table
    }
}

impl Report for Inspected {
    fn table(&self) -> String {
        let s = &self.0;
        let size: u64 = s.size_bytes.values().sum();
        let origins: Vec<String> =
            s.origins.iter().map(|(origin, n)| format!("{n} {origin}")).collect();
        let mut text = format!(
            "{}   schema {}   {}B\n\nModel runs   {} ({}; {} not yet in the tables)\nModels       \
            {} synthetic, {} real; {} networks around single operators\nOperators    {} distinct, \
            {} rows\nSamples      {}\n",
            s.path.display(),
            s.schema_version,
            si(size),
            s.runs,
            origins.join(", "),
            s.runs_in_journal,
            s.synthetic_models,
            s.real_models,
            s.single_operators,
            s.distinct_operators,
            thousands(s.operator_rows as u64),
            thousands(s.samples as u64),
        );
        for (source, n) in &s.sources {
            text += &format!("Source       {source} ({n} model runs)\n");
        }
        text.push('\n');
        text += &self.environments().to_text();
        text.push('\n');
        text += &self.kinds().to_text();
        for (reason, n) in s.failed.iter().chain(&s.failed_operators) {
            text += &format!("failed ({n} x): {reason}\n");
        }
        for warning in &s.warnings {
            text += &format!("warning: {warning}\n");
        }
        text
    }

    fn csv(&self) -> CliResult<String> {
        self.environments().to_csv()
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        serde_json::to_value(&self.0).map_err(CliError::ours)
    }
}

fn validate(data: &Path, format: Format) -> CliResult {
    let report = vitempo::datasets::validate(data, &Tolerances::default())?;
    let valid = report.is_valid();
    let errors = report.of(Severity::Error).count();
    output::print(&Validated(report), format)?;
    if valid {
        Ok(())
    } else {
        Err(CliError::user(format!("{}: {errors} errors", data.display()))
            .hint("the rows named above are invalid; measure them again"))
    }
}

struct Validated(ValidationReport);

fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Note => "note",
        Severity::Warning => "warning",
        Severity::Error => "error",
    }
}

impl Report for Validated {
    fn table(&self) -> String {
        let r = &self.0;
        let mut text = String::new();
        for finding in &r.findings {
            text += &format!("{}: {finding}\n", severity(finding.severity));
        }
        for (check, n) in &r.unlisted {
            text += &format!("... and {n} more of {check}\n");
        }
        let rows: Vec<String> = r.rows.iter().map(|(table, n)| format!("{n} {table}")).collect();
        let count = |s| r.of(s).count();
        text += &format!(
            "checked {}: {} errors, {} warnings, {} notes\n",
            rows.join(", "),
            count(Severity::Error),
            count(Severity::Warning),
            count(Severity::Note)
        );
        let mut shares: Vec<f64> = r.operator_shares.iter().map(|s| s.share).collect();
        shares.sort_by(f64::total_cmp);
        if let (Some(low), Some(high)) = (shares.first(), shares.last()) {
            text += &format!(
                "sum over operators / end to end: median {:.3}, from {low:.3} to {high:.3}\n",
                shares[shares.len() / 2]
            );
        }
        text
    }

    fn csv(&self) -> CliResult<String> {
        let mut table = Table::new(&["severity", "check", "file", "row", "what"], 5);
        for f in &self.0.findings {
            let row = f.row.map(|r| r.to_string()).unwrap_or_default();
            table.row([
                severity(f.severity).to_owned(),
                f.check.to_owned(),
                f.file.clone(),
                row,
                f.what.clone(),
            ]);
        }
        table.to_csv()
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        let mut json = serde_json::to_value(&self.0).map_err(CliError::ours)?;
        json["valid"] = self.0.is_valid().into();
        Ok(json)
    }
}

fn split(args: &SplitArgs) -> CliResult {
    let size = match (args.train, args.test) {
        (Some(train), Some(test)) => SplitSize::Counts { train, test },
        _ => SplitSize::TestFraction(args.test_fraction),
    };
    let split = vitempo::datasets::split(&load(&args.data)?, size, args.seed)?;
    split.save(&args.out)?;
    output::print(&Divided(split), args.format)
}

struct Divided(Split);

impl Report for Divided {
    fn table(&self) -> String {
        let s = &self.0;
        format!(
            "{} architectures to train on, {} synthetic and {} real ones to test on (seed {})\n",
            s.train.len(),
            s.test.len(),
            s.real.len(),
            s.seed
        )
    }

    fn csv(&self) -> CliResult<String> {
        let mut table = Table::new(&["architecture", "side"], 2);
        for (side, architectures) in
            [("train", &self.0.train), ("test", &self.0.test), ("real", &self.0.real)]
        {
            architectures.iter().for_each(|a| table.row([a.clone(), side.to_owned()]));
        }
        table.to_csv()
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        serde_json::to_value(&self.0).map_err(CliError::ours)
    }
}
