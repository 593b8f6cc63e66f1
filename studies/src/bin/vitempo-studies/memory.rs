//! `vitempo-studies memory`: the memory that engines take for models, and its forecasts.

use super::print::{self, Failure, Format, Table, percent};
use std::path::PathBuf;
use vitempo::memory::EngineMemory;
use vitempo_studies::{
    memory::{EngineScore, measured, scores},
    record,
};

/// Fits the memory of engines to the sampled models of datasets, and compares forecasts with the
/// memory of the real ones
///
/// The datasets are those of `vitempo profile MODELS --peak-memory`.
///
/// Example: vitempo-studies memory datasets/memory
#[derive(clap::Args, Debug)]
pub struct MemoryArgs {
    /// Datasets with memory
    #[arg(value_name = "DATA", required = true)]
    data: Vec<PathBuf>,
    /// Keep the fits in this file
    #[arg(long, value_name = "FILE.json")]
    out: Option<PathBuf>,
    /// A row per real model instead of means
    #[arg(long)]
    each: bool,
    /// Format of the output
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub fn run(args: &MemoryArgs) -> Result<(), Failure> {
    let measured = measured(&args.data).map_err(Failure::new)?;
    let scores = scores(&measured);
    if scores.is_empty() {
        return Err(Failure::new("no engine has the memory of models of two search spaces")
            .hint("vitempo profile MODELS --peak-memory --out DATA"));
    }
    if let Some(path) = &args.out {
        let engines: Vec<&EngineMemory> = scores.iter().map(|score| &score.engine).collect();
        record::write(&engines, path).map_err(Failure::new)?;
    }
    if args.format == Format::Json {
        let value = serde_json::to_value(&scores).map_err(Failure::new)?;
        return print::write_json(&value);
    }
    let table = if args.each { each(&scores) } else { means(&scores) };
    match args.format {
        Format::Csv => print::write(&table.to_csv()?),
        _ => print::write(&table.to_text()),
    }
}

fn megabytes(bytes: f64) -> String {
    format!("{:.1} MB", bytes / 1e6)
}

fn means(scores: &[EngineScore]) -> Table {
    let mut table = Table::new(
        &[
            "Engine",
            "Version",
            "Precision",
            "Fitted to",
            "Base",
            "Products",
            "Other weights",
            "Activations",
            "Per kernel",
            "Real models",
            "Mean error",
            "Rank",
            "Covered",
            "Interval",
            "Repeats differ",
        ],
        3,
    );
    let optional = |share: Option<f64>| share.map_or_else(|| "-".to_owned(), percent);
    for score in scores {
        let engine = &score.engine;
        let (lower, upper) = engine.measured_over_forecast;
        table.row([
            engine.framework.clone(),
            engine.framework_version.clone(),
            engine.precision.to_string(),
            engine.models.to_string(),
            megabytes(engine.base_bytes),
            format!("{:.2} x", engine.per_product_weight),
            format!("{:.2} x", engine.per_other_weight),
            format!("{:.2} x", engine.per_activation),
            format!("{:.1} kB", engine.per_kernel_bytes / 1e3),
            score.models.len().to_string(),
            optional(score.mean_error),
            score.rank_correlation.map_or_else(|| "-".to_owned(), |rank| format!("{rank:.3}")),
            percent(score.covered),
            format!("x {lower:.2} .. {upper:.2}"),
            optional(score.repeats_differ),
        ]);
    }
    table
}

fn each(scores: &[EngineScore]) -> Table {
    let mut table = Table::new(&["Engine", "Model", "Measured", "Forecast", "Error"], 2);
    for score in scores {
        for model in &score.models {
            table.row([
                score.engine.framework.clone(),
                model.model.clone(),
                megabytes(model.measured_bytes),
                megabytes(model.forecast_bytes as f64),
                percent(model.error()),
            ]);
        }
    }
    table
}
