//! `vitempo zoo make`: makes variants of base models, and the tasks file with their cuts.

use crate::verbs::{
    error::CliResult,
    models::ModelArgs,
    output::{self, Format, Report, Table, si, thousands},
    progress,
    quantity::positive,
};
use serde_json::json;
use std::path::PathBuf;
use vitempo::zoo::{
    Recipe,
    make::{self, MadeVariant, MadeZoo, MakeOptions},
    tasks::TaskEntry,
};

/// Makes variants of base models without training, cut at the same tensors, for `vitempo plan
/// stitch`
///
/// Example: vitempo zoo make vit.onnx --variant dense,int8,structured=50% --positions 3 --compare
/// rten --out zoo/
///
/// Writes NAME.VARIANT.onnx for every model and variant, and tasks.toml with the tensors at which
/// all variants of a model are cut. Weights that a model lacks are seeded. Write accuracies
/// measured on your data into tasks.toml; --compare writes the similarity of the results to the
/// base model's instead.
#[derive(clap::Args, Debug)]
pub struct MakeArgs {
    #[command(flatten)]
    pub models: ModelArgs,

    /// Variants: dense, int8 (Q/DQ pairs), integer (ranges computed at run time), structured=50%
    /// (channels and features removed), masked=80% (smallest weights set to 0), or several of these
    /// joined by `+`
    #[arg(
        long = "variant",
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "dense,int8,structured=25%,structured=50%,masked=50%,masked=80%"
    )]
    pub variants: Vec<Recipe>,

    /// Subgraphs per variant
    #[arg(long, value_name = "COUNT", default_value = "3", value_parser = positive, conflicts_with = "cuts")]
    pub positions: usize,

    /// Cut at this tensor instead of where the subgraphs have equal work; may be repeated, in the
    /// order of computation
    #[arg(long = "cut", value_name = "TENSOR")]
    pub cuts: Vec<String>,

    /// Run every variant on this engine, and measure the similarity of its results to the base
    /// model's
    #[arg(long, value_name = "BACKEND")]
    pub compare: Option<String>,

    /// Number of seeded inputs for `--compare`
    #[arg(long, value_name = "COUNT", default_value = "4", value_parser = positive, requires = "compare")]
    pub inputs: usize,

    /// Seed of weights that a model lacks
    #[arg(long, default_value_t = 0)]
    pub seed: u64,

    /// Folder for the variants and their tasks file
    #[arg(long, value_name = "FOLDER")]
    pub out: PathBuf,

    /// Format of the output
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

pub fn run(args: &MakeArgs) -> CliResult {
    let options = MakeOptions {
        recipes: &args.variants,
        positions: args.positions,
        cuts: &args.cuts,
        compare: args.compare.as_deref(),
        inputs: args.inputs,
        seed: args.seed,
        read: &args.models.read_options(),
        out: &args.out,
    };
    let made = make::make(&args.models.read()?, &options, &mut |file, engine| {
        progress::say(format!("{file} on {engine}"));
    })?;
    output::print(&made, args.format)
}

impl Report for MadeZoo {
    fn table(&self) -> String {
        let mut table = Table::new(
            &["Model", "Variant", "FLOPs", "Parameters", "Not 0", "Weights", "Similarity"],
            2,
        );
        for m in &self.variants {
            let similarity = m
                .similarity
                .map_or_else(|| "-".to_owned(), |share| format!("{:.2} %", 100.0 * share));
            table.row([
                m.model.clone(),
                m.variant.clone(),
                si(m.flops),
                si(m.params),
                si(m.nonzero),
                format!("{} kB", thousands(m.weights_bytes / 1000)),
                similarity,
            ]);
        }
        let cut = |task: &TaskEntry| match task.cuts.as_deref().unwrap_or_default() {
            [] => format!("{} is not cut: it has one position\n", task.name),
            cuts => format!("{} is cut at {}\n", task.name, cuts.join(", ")),
        };
        let cuts: String = self.file.tasks.iter().map(cut).collect();
        let unknown = self.variants.iter().any(|m| m.similarity.is_none());
        let hint = if unknown { "; put accuracies into it before you plan" } else { "" };
        format!("{}\n{cuts}{}{hint}\n", table.to_text(), self.file.path.display())
    }

    fn csv(&self) -> CliResult<String> {
        let mut table = Table::new(
            &[
                "model",
                "variant",
                "file",
                "flops",
                "params",
                "nonzero",
                "weights_bytes",
                "similarity",
            ],
            3,
        );
        for m in &self.variants {
            let counts = [m.flops, m.params, m.nonzero, m.weights_bytes].map(|n| n.to_string());
            let similarity = m.similarity.map_or_else(String::new, |share| share.to_string());
            table.row(
                [m.model.clone(), m.variant.clone(), m.file.clone()]
                    .into_iter()
                    .chain(counts)
                    .chain([similarity]),
            );
        }
        table.to_csv()
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        let row = |m: &MadeVariant| {
            json!({"model": m.model, "variant": m.variant, "file": m.file, "flops": m.flops, "params": m.params, "nonzero": m.nonzero,
                "weights_bytes": m.weights_bytes, "similarity": m.similarity})
        };
        let cuts: serde_json::Map<String, serde_json::Value> =
            self.file.tasks.iter().map(|task| (task.name.clone(), json!(task.cuts))).collect();
        Ok(
            json!({"variants": self.variants.iter().map(row).collect::<Vec<_>>(), "cuts": cuts, "tasks": self.file.path}),
        )
    }
}
