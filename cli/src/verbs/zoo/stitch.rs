//! `vitempo zoo stitch`: stitched variants as models: put together, written, run, and held against
//! their subgraphs and the first variant.

use super::{
    super::{
        error::{CliError, CliResult},
        files,
        models::Dimensions,
        output::{self, Format, Report, percent},
        profile::{go_on, parse_positive},
        progress,
    },
    engine::{Engine, Results, similarity},
    sampling::Codes,
    tasks::TasksFile,
    variants::{Variants, Weights},
};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde_json::json;
use std::{collections::BTreeSet, path::PathBuf};
use vitempo::graph::{
    Graph,
    onnx::{self, WriteOptions},
};
use vitempo::profiler::conformance;

/// Puts stitched variants together as models, and checks that they run
///
/// Example: vitempo zoo stitch --tasks zoo/tasks.toml --variants dense,int8,dense --out
/// stitched.onnx
///
/// What a stitched variant computes is held against what its subgraphs compute one after the other,
/// and against the task's first variant. Neighbours whose shapes differ are refused with the
/// reason.
#[derive(clap::Args, Debug)]
pub struct StitchArgs {
    /// Tasks and their variants, as `vitempo zoo make` writes them
    #[arg(long, value_name = "FILE.toml")]
    pub tasks: PathBuf,

    /// Which task; the only one where there is one
    #[arg(long, value_name = "NAME")]
    pub task: Option<String>,

    /// The variant that each position is taken from
    #[arg(long, value_name = "LIST", value_delimiter = ',', required_unless_present = "sample")]
    pub variants: Vec<String>,

    /// Write the stitched variant here
    #[arg(long, value_name = "FILE.onnx", conflicts_with = "sample")]
    pub out: Option<PathBuf>,

    /// So many stitched variants, drawn at random, or all of them where there are no more
    #[arg(long, value_name = "COUNT", value_parser = parse_positive, conflicts_with = "variants")]
    pub sample: Option<usize>,

    /// Write how alike results are to the first variant's, as measured accuracies that a task can
    /// name as `stitched`
    #[arg(long, value_name = "FILE.csv", requires = "sample")]
    pub accuracies: Option<PathBuf>,

    /// The engine that runs them
    #[arg(long, value_name = "BACKEND", default_value = "rten")]
    pub engine: String,

    /// Seeded inputs that each is given
    #[arg(long, value_name = "COUNT", default_value = "4", value_parser = parse_positive)]
    pub inputs: usize,

    /// The same seed draws the same variants
    #[arg(long, default_value_t = 0)]
    pub seed: u64,

    #[command(flatten)]
    pub dimensions: Dimensions,

    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

pub fn run(args: &StitchArgs) -> CliResult {
    let file = TasksFile::read(&args.tasks)?;
    let entry = file.only_task(args.task.as_deref())?;
    let variants = Variants::read(&file, entry, &args.dimensions.read_options(), Weights::Values)?;
    let bench = Bench::new(&variants, Engine::find(&args.engine, args.inputs)?)?;
    let chosen = match args.sample {
        Some(count) => sampled(&variants, count, args.seed)?,
        None => vec![named(&file, &variants, &args.variants)?],
    };
    let mut rows = Vec::with_capacity(chosen.len());
    let bar = progress::bar(chosen.len() as u64, "running");
    for choice in chosen {
        go_on()?;
        let stitched = variants.stitched(&choice);
        if let (Some(out), Ok(graph)) = (&args.out, &stitched) {
            onnx::write_file(out, graph, &WriteOptions::seeded(0))?;
        }
        let outcome = match stitched {
            Ok(graph) => bench.try_out(&choice, &graph).map_err(|e| e.to_string()),
            Err(misfit) => Err(misfit.to_string()),
        };
        rows.push((choice, outcome));
        bar.inc(1);
    }
    bar.finish_and_clear();
    let stitches =
        Stitches { variants: &variants, rows, engine: args.engine.clone(), inputs: args.inputs };
    if let [(choice, Err(reason))] = &stitches.rows[..] {
        return Err(CliError::user(format!(
            "{} does not run: {reason}",
            variants.describe(choice, "|")
        )));
    }
    if let Some(path) = &args.accuracies {
        files::write(path, stitches.accuracies()?.as_bytes())?;
    }
    output::print(&stitches, args.format)
}

/// Indices of the variants named.
fn named(file: &TasksFile, variants: &Variants, names: &[String]) -> CliResult<Vec<usize>> {
    let of = || format!("task `{}`", variants.task);
    if names.len() != variants.subgraphs.len() {
        let reason = format!(
            "--variants names {}, there are {} positions",
            names.len(),
            variants.subgraphs.len()
        );
        return Err(file.refuse(&of(), reason));
    }
    let index = |name: &String| {
        let found = variants.names.iter().position(|known| known == name);
        found.ok_or_else(|| {
            file.refuse(&of(), format!("there is no variant `{name}`"))
                .hint(format!("there are {}", variants.names.join(", ")))
        })
    };
    names.iter().map(index).collect()
}

/// Distinct stitched variants: all in their order where there are no more than asked for, else
/// drawn at random.
fn sampled(variants: &Variants, count: usize, seed: u64) -> CliResult<Vec<Vec<usize>>> {
    let codes = Codes::of(variants);
    codes.check_few()?;
    let decode = |code: usize| -> Vec<usize> { codes.digits(code).collect() };
    if count >= codes.all() {
        return Ok((0..codes.all()).map(decode).collect());
    }
    let mut random = StdRng::seed_from_u64(seed);
    let mut drawn = BTreeSet::new();
    while drawn.len() < count {
        // Of this width, so that a seed draws what it always has.
        drawn.insert(random.random_range(0..codes.all() as u128) as usize);
    }
    Ok(drawn.into_iter().map(decode).collect())
}

/// What one stitched variant computed.
struct Outcome {
    /// Largest difference from its subgraphs run one after the other, as a share of the largest
    /// value.
    apart: f64,
    /// To the first variant's results.
    similarity: f64,
}

/// An engine, and what the first variant computes on it.
struct Bench<'a> {
    variants: &'a Variants,
    engine: Engine,
    first: Results,
}

impl<'a> Bench<'a> {
    fn new(variants: &'a Variants, engine: Engine) -> CliResult<Self> {
        let first =
            variants.stitched(&vec![0; variants.subgraphs.len()]).map_err(CliError::user)?;
        let first =
            engine.results(&first).map_err(|e| e.about(format!("task `{}`", variants.task)))?;
        Ok(Self { variants, engine, first })
    }

    fn try_out(&self, choice: &[usize], graph: &Graph) -> CliResult<Outcome> {
        let found = self.engine.results(graph)?;
        let mut handed: Option<Results> = None;
        for (row, &variant) in self.variants.subgraphs.iter().zip(choice) {
            let Some(subgraph) = row.get(variant) else { continue };
            handed = Some(self.engine.results_from(subgraph, handed.as_ref())?);
        }
        let mut apart = 0.0f64;
        for (whole, parts) in found.iter().zip(handed.iter().flatten()) {
            apart = apart.max(conformance::difference(whole, parts).map_err(CliError::ours)?.0);
        }
        Ok(Outcome { apart, similarity: similarity(&self.first, &found) })
    }
}

/// Stitched variants and how they went.
struct Stitches<'a> {
    variants: &'a Variants,
    rows: Vec<(Vec<usize>, Result<Outcome, String>)>,
    engine: String,
    inputs: usize,
}

impl Stitches<'_> {
    /// One row per variant that ran: its variants by position, and its similarity in percent.
    fn accuracies(&self) -> CliResult<String> {
        let ran = self
            .rows
            .iter()
            .filter_map(|(choice, outcome)| Some((&choice[..], outcome.as_ref().ok()?)));
        self.variants
            .table(
                &["accuracy"],
                0,
                ran.map(|(choice, outcome)| {
                    (choice, [format!("{:.4}", 100.0 * outcome.similarity)])
                }),
            )
            .to_csv()
    }
}

impl Report for Stitches<'_> {
    fn table(&self) -> String {
        let cells = |outcome: &Result<Outcome, String>| match outcome {
            Ok(outcome) => {
                ["yes".to_owned(), percent(outcome.similarity), format!("{:.1e}", outcome.apart)]
            }
            Err(reason) => [reason.clone(), "-".to_owned(), "-".to_owned()],
        };
        let rows = self.rows.iter().map(|(choice, outcome)| (&choice[..], cells(outcome)));
        let table = self.variants.table(&["Runs", "Similarity", "Apart"], 1, rows);
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
        let cells = |outcome: &Result<Outcome, String>| match outcome {
            Ok(outcome) => {
                [outcome.similarity.to_string(), outcome.apart.to_string(), String::new()]
            }
            Err(reason) => [String::new(), String::new(), reason.clone()],
        };
        let rows = self.rows.iter().map(|(choice, outcome)| (&choice[..], cells(outcome)));
        self.variants.table(&["similarity", "apart", "refused"], 0, rows).to_csv()
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        let row = |(choice, outcome): &(Vec<usize>, Result<Outcome, String>)| {
            let (ran, refused) = (outcome.as_ref().ok(), outcome.as_ref().err());
            json!({"variants": self.variants.named(choice), "similarity": ran.map(|o| o.similarity), "apart": ran.map(|o| o.apart), "refused": refused})
        };
        let stitched: Vec<serde_json::Value> = self.rows.iter().map(row).collect();
        Ok(
            json!({"task": self.variants.task, "engine": self.engine, "inputs": self.inputs, "cuts": self.variants.cuts, "stitched": stitched}),
        )
    }
}
