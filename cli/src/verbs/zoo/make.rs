//! `vitempo zoo make`: variants of base models, and the tasks file that says where they are cut.

use super::{
    super::{
        error::{CliError, CliResult, io_error},
        files,
        models::{Model, ModelArgs},
        output::{self, Format, Report, Table, si, thousands},
        profile::parse_positive,
        progress,
    },
    engine::{Engine, Results, similarity},
    recipe::Recipe,
    tasks::{TaskEntry, TasksFile, VariantEntry},
    variants::{Variants, Weights},
};
use serde_json::json;
use std::{collections::BTreeSet, path::PathBuf};
use vitempo::graph::{
    ConstantData, Graph, Precision, TensorSpec, Value, ValueId, ValueSource, Work,
    onnx::{self, ReadOptions},
};
use vitempo::planners::stitch::{CutError, cut};

/// Name of the tasks file in the folder of variants.
const TASKS: &str = "tasks.toml";

/// Makes variants of base models without training, cut alike, for `vitempo plan stitch`
///
/// Example: vitempo zoo make vit.onnx --variant dense,int8,structured=50% --positions 3 --compare
/// rten --out zoo/
///
/// Writes NAME.VARIANT.onnx for every model and variant, and tasks.toml with the tensors at which
/// all variants of a model are cut. Weights that a model lacks are seeded. Put accuracies measured
/// on your data into tasks.toml; --compare puts in how alike the results are to the base model's.
#[derive(clap::Args, Debug)]
pub struct MakeArgs {
    #[command(flatten)]
    pub models: ModelArgs,

    /// Which variants: dense, int8 (Q/DQ pairs), integer (ranges found at run time), structured=50%
    /// (channels and features taken out), masked=80% (smallest weights set to 0), or several of
    /// these joined by `+`
    #[arg(
        long = "variant",
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "dense,int8,structured=25%,structured=50%,masked=50%,masked=80%"
    )]
    pub variants: Vec<Recipe>,

    /// Subgraphs per variant
    #[arg(long, value_name = "COUNT", default_value = "3", value_parser = parse_positive)]
    pub positions: usize,

    /// Cut at this tensor instead of where the work is shared out evenly; may be repeated, in the
    /// order they are computed
    #[arg(long = "cut", value_name = "TENSOR")]
    pub cuts: Vec<String>,

    /// Run every variant on this engine, and measure how alike its results are to the base model's
    #[arg(long, value_name = "BACKEND")]
    pub compare: Option<String>,

    /// Seeded inputs that are compared
    #[arg(long, value_name = "COUNT", default_value = "4", value_parser = parse_positive, requires = "compare")]
    pub inputs: usize,

    /// Of weights that a model lacks
    #[arg(long, default_value_t = 0)]
    pub seed: u64,

    /// Folder for the variants and their tasks file
    #[arg(long, value_name = "FOLDER")]
    pub out: PathBuf,

    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// One variant that was made.
struct Made {
    model: String,
    variant: String,
    file: String,
    flops: u64,
    params: u64,
    /// Weights that are not 0.
    nonzero: u64,
    weights_bytes: u64,
    similarity: Option<f64>,
}

pub fn run(args: &MakeArgs) -> CliResult {
    let models = args.models.read()?;
    if models.len() > 1 && !args.cuts.is_empty() {
        return Err(CliError::user(format!(
            "--cut names tensors of one model, there are {}",
            models.len()
        ))
        .hint("make their variants one by one"));
    }
    distinct("variant", args.variants.iter().map(ToString::to_string))?;
    distinct("model", models.iter().map(|model| model.identity.name.clone()))?;
    let engine = args.compare.as_ref().map(|name| Engine::find(name, args.inputs)).transpose()?;
    std::fs::create_dir_all(&args.out).map_err(|e| io_error("make folder", &args.out, &e))?;
    let accuracy_is = engine.as_ref().map(|engine| {
        format!(
            "similarity of results to the base model's ({}, {} seeded inputs), %",
            engine.name(),
            args.inputs
        )
    });
    let positions = if args.cuts.is_empty() { args.positions } else { args.cuts.len() + 1 };
    let mut file = TasksFile {
        positions,
        accuracy_is,
        processors: Vec::new(),
        tasks: Vec::new(),
        path: args.out.join(TASKS),
    };
    let mut made = Vec::new();
    for model in &models {
        let (rows, task) =
            make(args, model, engine.as_ref()).map_err(|e| e.about(model.path.display()))?;
        // As whoever plans will read them.
        let variants = Variants::read(&file, &task, &ReadOptions::default(), Weights::Shapes)?;
        variants.check_neighbours().map_err(|e| CliError::user(e).about(model.path.display()))?;
        file.tasks.push(task);
        made.extend(rows);
    }
    files::write(&file.path, file.text()?.as_bytes())?;
    output::print(&Zoo { made, file }, args.format)
}

fn distinct(what: &str, names: impl Iterator<Item = String>) -> CliResult {
    let mut seen = BTreeSet::new();
    for name in names {
        if !seen.insert(name.clone()) {
            return Err(CliError::user(format!("{what} `{name}` is asked for twice"))
                .hint("its files would overwrite each other"));
        }
    }
    Ok(())
}

/// All variants of one model as files, and its entry in the tasks file.
fn make(
    args: &MakeArgs,
    model: &Model,
    engine: Option<&Engine>,
) -> CliResult<(Vec<Made>, TaskEntry)> {
    let name = &model.identity.name;
    let bytes = onnx::materialize(&model.path, args.seed)?;
    let base = onnx::read_weights(name, &bytes, &args.models.read_options())?;
    let cuts = if args.cuts.is_empty() {
        cut::shared(&[&model.graph], args.positions)?
    } else {
        args.cuts.clone()
    };
    cut::subgraphs(&model.graph, &cuts)?;
    let expected = engine.map(|engine| engine.results(&base)).transpose()?;
    let compare = engine.zip(expected.as_ref());
    let rows = args
        .variants
        .iter()
        .map(|recipe| write(args, name, &recipe.apply(&base, &cuts, args.seed)?, compare))
        .collect::<CliResult<Vec<Made>>>()?;
    let task = entry(name, &rows, cuts);
    Ok((rows, task))
}

/// Writes one variant, and compares it.
fn write(
    args: &MakeArgs,
    model: &str,
    graph: &Graph,
    compare: Option<(&Engine, &Results)>,
) -> CliResult<Made> {
    let file = format!("{model}.{}.onnx", graph.name());
    onnx::write_file(&args.out.join(&file), graph, &onnx::WriteOptions::seeded(args.seed))?;
    let mut similar = None;
    if let Some((engine, expected)) = compare {
        progress::say(format!("{file} on {}", engine.name()));
        similar = Some(similarity(expected, &engine.results(graph)?));
    }
    let work = Work::of_graph(graph);
    let weights_bytes =
        weights(graph).map(|(tensor, _)| tensor.size_bytes()).fold(0, u64::saturating_add);
    let zeros: u64 = weights(graph)
        .filter(|(tensor, _)| is_matrix(tensor))
        .filter_map(|(_, data)| data)
        .map(zeros)
        .sum();
    let nonzero = work.params.saturating_sub(zeros);
    Ok(Made {
        model: model.to_owned(),
        variant: graph.name().to_owned(),
        file,
        flops: work.flops,
        params: work.params,
        nonzero,
        weights_bytes,
        similarity: similar,
    })
}

/// Constants that a model's nodes read, each once.
pub fn weights(graph: &Graph) -> impl Iterator<Item = (&TensorSpec, Option<&ConstantData>)> {
    let read: BTreeSet<ValueId> =
        graph.nodes().iter().flat_map(|node| node.inputs.iter().copied()).collect();
    read.into_iter().filter_map(move |id| match graph.value(id) {
        Value { tensor: Some(tensor), source: ValueSource::Constant(data), .. } => {
            Some((tensor, data.as_ref()))
        }
        _ => None,
    })
}

/// Kernels and matrices, quantised or not.
fn is_matrix(tensor: &TensorSpec) -> bool {
    tensor.rank() >= 2
        && (tensor.precision.is_float()
            || matches!(tensor.precision, Precision::I8 | Precision::U8))
}

/// How many values are 0.
fn zeros(data: &ConstantData) -> u64 {
    let count = match data {
        ConstantData::Floats(v) => v.iter().filter(|v| **v == 0.0).count(),
        ConstantData::Ints(v) => v.iter().filter(|v| **v == 0).count(),
    };
    count as u64
}

fn entry(model: &str, rows: &[Made], cuts: Vec<String>) -> TaskEntry {
    let variant = |made: &Made| VariantEntry {
        name: made.variant.clone(),
        model: PathBuf::from(&made.file),
        accuracy: made.similarity.map(|share| (share * 1e4).round() / 1e2),
    };
    TaskEntry {
        name: model.to_owned(),
        cuts: Some(cuts),
        stitched: None,
        slo: None,
        variants: rows.iter().map(variant).collect(),
    }
}

impl From<CutError> for CliError {
    fn from(error: CutError) -> Self {
        Self::user(error)
    }
}

/// What was made.
struct Zoo {
    made: Vec<Made>,
    file: TasksFile,
}

impl Report for Zoo {
    fn table(&self) -> String {
        let mut table = Table::new(
            &["Model", "Variant", "FLOPs", "Parameters", "Not 0", "Weights", "Similarity"],
            2,
        );
        for m in &self.made {
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
        let cut = |task: &TaskEntry| {
            format!(
                "{} is cut at {}\n",
                task.name,
                task.cuts.as_deref().unwrap_or_default().join(", ")
            )
        };
        let cuts: String = self.file.tasks.iter().map(cut).collect();
        let unknown = self.made.iter().any(|m| m.similarity.is_none());
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
        for m in &self.made {
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
        let row = |m: &Made| {
            json!({"model": m.model, "variant": m.variant, "file": m.file, "flops": m.flops, "params": m.params, "nonzero": m.nonzero,
                "weights_bytes": m.weights_bytes, "similarity": m.similarity})
        };
        let cuts: serde_json::Map<String, serde_json::Value> =
            self.file.tasks.iter().map(|task| (task.name.clone(), json!(task.cuts))).collect();
        Ok(
            json!({"variants": self.made.iter().map(row).collect::<Vec<_>>(), "cuts": cuts, "tasks": self.file.path}),
        )
    }
}
