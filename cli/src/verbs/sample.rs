//! `vitempo sample`: architectures of a search space as ONNX files, with an index.

use super::{
    error::{CliError, CliResult},
    output::{self, Format, Report, Table, si},
    progress,
};
use std::path::PathBuf;
use vitempo::{
    graph::{Work, onnx::WeightFill},
    sampling::{self, Sample},
    search_space::{DenseTask, Space},
};

/// Samples architectures of a search space
///
/// Example: vitempo sample --space hybrid-vit --count 100 --seed 7 --out models/
#[derive(clap::Args, Debug)]
pub struct SampleArgs {
    /// Name of a space that ships with vitempo (hybrid-vit, isotropic-vit, mbconv), a TOML file,
    /// `operators` (small networks around single operators), `operator-blocks` (blocks of several),
    /// `rare-operators` (operators that few models have), `operator-ends` (shapes at which the
    /// others end), `operator-series` (networks that differ in one property alone), `study-series`
    /// (the sweeps of the mobile ViT study), or `small-models` (transformers and convolutional
    /// networks of a few milliseconds at most)
    #[arg(long, default_value = "hybrid-vit")]
    pub space: String,

    /// Make multi-task models: replace the head by a decoder for each of these tasks, with
    /// postprocessing that makes a picture of its prediction
    #[arg(long, value_name = "TASKS", value_delimiter = ',', value_parser = parse_task)]
    pub decoders: Vec<DenseTask>,

    /// Number of distinct architectures; by default 10
    #[arg(long)]
    pub count: Option<usize>,

    /// The same seed gives the same files; by default 0
    #[arg(long)]
    pub seed: Option<u64>,

    /// Folder for the ONNX files and their index
    #[arg(long, value_name = "FOLDER")]
    pub out: PathBuf,

    /// Leave the weights out: the files have kilobytes; every verb of vitempo reads them, but other
    /// programs cannot run them
    #[arg(long)]
    pub no_weights: bool,

    /// Format of the output
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

fn parse_task(text: &str) -> Result<DenseTask, String> {
    let names = DenseTask::ALL.map(DenseTask::name).join(", ");
    let known = DenseTask::ALL.into_iter().find(|task| task.name() == text);
    known.ok_or_else(|| format!("the tasks are {names}"))
}

/// The usual `--count`.
const COUNT: usize = 10;

/// An argument that would change nothing about networks that are always the same; their weights
/// have a seed.
fn without_effect(args: &SampleArgs) -> Option<&'static str> {
    let given =
        [("--count", args.count.is_some()), ("--seed", args.seed.is_some() && args.no_weights)];
    let mut given = given.into_iter().filter(|_| sampling::is_fixed(&args.space));
    given.find_map(|(flag, is_given)| is_given.then_some(flag))
}

pub fn run(args: &SampleArgs) -> CliResult {
    let space = &args.space;
    if let Some(flag) = without_effect(args) {
        let error = format!("{flag} has no effect: the networks of {space} are always the same");
        return Err(CliError::user(error).hint(format!("leave {flag} out")));
    }
    if !args.decoders.is_empty() && sampling::is_inventory(space) {
        let error = format!("the networks of {space} have no heads that decoders could replace");
        return Err(CliError::user(error).hint("leave --decoders out, or name a search space"));
    }
    let (count, seed) = (args.count.unwrap_or(COUNT), args.seed.unwrap_or_default());
    let samples = match args.decoders.as_slice() {
        [] => sampling::sample_named(space, count, seed)?,
        tasks => sampling::sample_multi_task(&Space::find(space)?, tasks, count, seed)?,
    };
    let weights = if args.no_weights { WeightFill::Omitted } else { WeightFill::Seeded(seed) };
    let bar = progress::bar(samples.len() as u64, "writing");
    sampling::write(&args.out, &samples, weights, &mut || bar.inc(1))?;
    bar.finish_and_clear();
    output::print(&Index { samples: &samples }, args.format)
}

struct Index<'a> {
    samples: &'a [Sample],
}

impl Report for Index<'_> {
    fn table(&self) -> String {
        let mut table = Table::new(&["Model", "Encoding", "MACs", "Parameters"], 2);
        for s in self.samples.iter().take(20) {
            let work = Work::of_graph(&s.graph);
            table.row([s.name.clone(), s.encoding.clone(), si(work.macs), si(work.params)]);
        }
        let rest = self.samples.len().saturating_sub(20);
        table.to_text()
            + &if rest > 0 { format!("... and {rest} more in the index\n") } else { String::new() }
    }

    fn csv(&self) -> CliResult<String> {
        let mut table = Table::new(&sampling::COLUMNS, 4);
        self.samples.iter().for_each(|sample| table.row(sampling::row(sample)));
        table.to_csv()
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        let row = |s: &Sample| {
            let work = Work::of_graph(&s.graph);
            serde_json::json!({
                "name": s.name,
                "space": s.space,
                "encoding": s.encoding,
                "architecture": s.graph.architecture(),
                "macs": work.macs,
                "params": work.params,
                "operators": s.graph.nodes().len(),
            })
        };
        Ok(self.samples.iter().map(row).collect())
    }
}
