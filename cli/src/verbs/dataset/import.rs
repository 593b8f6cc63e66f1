//! `vitempo dataset import`: published measurements as datasets.

use crate::verbs::{
    error::CliResult,
    output::{self, thousands},
    progress,
};
use clap::Subcommand;
use std::path::{Path, PathBuf};
use vitempo::datasets::{Family, FileFacts, Framework, Imported};

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
    /// or aihub_latency.csv made of them, and graphs in aihub_graphs/
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
    /// The models of files whose names do not say so were sampled from a search space: they can be
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

pub fn run(command: &ImportCommand) -> CliResult {
    match command {
        ImportCommand::MobileMlBenchmark(args) => phones(args),
        ImportCommand::AiHub(FolderArgs { folder, out }) => {
            imported(&vitempo::datasets::import_ai_hub(folder, out)?, out)
        }
        ImportCommand::Cells(FolderArgs { folder, out }) => {
            imported(&vitempo::datasets::import_cells(folder, out)?, out)
        }
    }
}

fn phones(args: &PhonesArgs) -> CliResult {
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
