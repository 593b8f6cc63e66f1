//! `vitempo zoo stitch`: assembles stitched variants as models, writes and runs them, and compares
//! them with their subgraphs and with the first variant.

use super::{table::table, watched};
use crate::verbs::{
    error::{CliError, CliResult},
    files,
    models::Dimensions,
    output::{self, Format, Report, percent},
    quantity::positive,
};
use serde_json::json;
use std::path::PathBuf;
use vitempo::zoo::{
    TasksFile, Variants,
    engine::Engine,
    stitch::{self, Stitched, StitchedRun},
    variants::Weights,
};

/// Assembles stitched variants as models, and checks that they run
///
/// Example: vitempo zoo stitch --tasks zoo/tasks.toml --variants dense,int8,dense --out
/// stitched.onnx
///
/// The results of a stitched variant are compared with those of its subgraphs run one after the
/// other, and with those of the task's first variant. Neighbours whose shapes differ are refused
/// with the reason.
#[derive(clap::Args, Debug)]
pub struct StitchArgs {
    /// Tasks and their variants, as `vitempo zoo make` writes them
    #[arg(long, value_name = "FILE.toml")]
    pub tasks: PathBuf,

    /// The task; may be left out if there is only one
    #[arg(long, value_name = "NAME")]
    pub task: Option<String>,

    /// The variant of each position
    #[arg(long, value_name = "LIST", value_delimiter = ',', required_unless_present = "sample")]
    pub variants: Vec<String>,

    /// Write the stitched variant here
    #[arg(long, value_name = "FILE.onnx", conflicts_with = "sample")]
    pub out: Option<PathBuf>,

    /// Number of stitched variants to draw at random; all of them if there are no more
    #[arg(long, value_name = "COUNT", value_parser = positive, conflicts_with = "variants")]
    pub sample: Option<usize>,

    /// Write the similarity of results to the first variant's, as measured accuracies that a task
    /// can name as `stitched`
    #[arg(long, value_name = "FILE.csv", requires = "sample")]
    pub accuracies: Option<PathBuf>,

    /// The engine that runs them
    #[arg(long, value_name = "BACKEND", default_value = "rten")]
    pub engine: String,

    /// Number of seeded inputs of each
    #[arg(long, value_name = "COUNT", default_value = "4", value_parser = positive)]
    pub inputs: usize,

    /// The same seed draws the same variants
    #[arg(long, default_value_t = 0)]
    pub seed: u64,

    #[command(flatten)]
    pub dimensions: Dimensions,

    /// Format of the output
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

pub fn run(args: &StitchArgs) -> CliResult {
    let file = TasksFile::read(&args.tasks)?;
    let entry = file.only_task(args.task.as_deref())?;
    let variants = Variants::read(&file, entry, &args.dimensions.read_options(), Weights::Values)?;
    let engine = Engine::find(&args.engine, args.inputs)?;
    let chosen = match args.sample {
        Some(count) => stitch::sampled(&variants, count, args.seed)?,
        None => vec![stitch::named(&file, &variants, &args.variants)?],
    };
    let rows = watched("running", |watch| {
        stitch::stitch(&variants, &engine, chosen, args.out.as_deref(), watch)
    })?;
    if let [Stitched { variants: choice, run: Err(reason) }] = &rows[..] {
        return Err(CliError::user(format!(
            "{} does not run: {reason}",
            variants.describe(choice, "|")
        )));
    }
    if let Some(path) = &args.accuracies {
        files::write(path, stitch::similarities(&variants, &rows)?.as_bytes())?;
    }
    let stitches =
        Stitches { variants: &variants, rows, engine: args.engine.clone(), inputs: args.inputs };
    output::print(&stitches, args.format)
}

/// Stitched variants and their results.
struct Stitches<'a> {
    variants: &'a Variants,
    rows: Vec<Stitched>,
    engine: String,
    inputs: usize,
}

impl Report for Stitches<'_> {
    fn table(&self) -> String {
        let cells = |outcome: &Result<StitchedRun, String>| match outcome {
            Ok(outcome) => {
                ["yes".to_owned(), percent(outcome.similarity), format!("{:.1e}", outcome.apart)]
            }
            Err(reason) => [reason.clone(), "-".to_owned(), "-".to_owned()],
        };
        let rows = self.rows.iter().map(|row| (&row.variants[..], cells(&row.run)));
        let table = table(self.variants, &["Runs", "Similarity", "Apart"], 1, rows);
        let first = self.variants.names.first().map_or("", String::as_str);
        format!(
            "{}\n\n{}\nSimilarity: of results to those of `{first}`, {} seeded inputs on {}. \
            Apart: from the same subgraphs run one after the other, as a share of the largest \
            value.\n",
            self.variants.task,
            table.to_text(),
            self.inputs,
            self.engine,
        )
    }

    fn csv(&self) -> CliResult<String> {
        let cells = |outcome: &Result<StitchedRun, String>| match outcome {
            Ok(outcome) => {
                [outcome.similarity.to_string(), outcome.apart.to_string(), String::new()]
            }
            Err(reason) => [String::new(), String::new(), reason.clone()],
        };
        let rows = self.rows.iter().map(|row| (&row.variants[..], cells(&row.run)));
        table(self.variants, &["similarity", "apart", "refused"], 0, rows).to_csv()
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        let row = |row: &Stitched| {
            let (ran, refused) = (row.run.as_ref().ok(), row.run.as_ref().err());
            json!({"variants": self.variants.named(&row.variants), "similarity": ran.map(|o| o.similarity), "apart": ran.map(|o| o.apart), "refused": refused})
        };
        let stitched: Vec<serde_json::Value> = self.rows.iter().map(row).collect();
        Ok(
            json!({"task": self.variants.task, "engine": self.engine, "inputs": self.inputs, "cuts": self.variants.cuts, "stitched": stitched}),
        )
    }
}
