//! `vitempo export`: models that ship and architectures by their encodings, as ONNX files.

use super::{
    error::{CliError, CliResult},
    output::{self, Format, Report, Table, si},
};
use serde_json::json;
use std::path::PathBuf;
use vitempo::export::{self, ExportError};
use vitempo::graph::{
    Graph, Work,
    onnx::{self, WeightFill, WriteOptions},
};
use vitempo::models::SHIPPED;
use vitempo::search_space::Space;

/// Writes models that ship, and architectures by their encodings, as ONNX files
///
/// Example: vitempo export mobilevit_xxs --out models/
#[derive(clap::Args, Debug)]
pub struct ExportArgs {
    /// Names of models that ship (vit_tiny_patch16_224, mobilevit_xxs, edgenext_xx_small),
    /// encodings of architectures, or all: every model that ships
    #[arg(required = true, value_name = "MODELS")]
    pub models: Vec<String>,

    /// Search space of the encodings, where it is not one that ships: a TOML file
    #[arg(long, value_name = "FILE.toml")]
    pub space: Option<String>,

    /// Folder for the ONNX files
    #[arg(long, value_name = "FOLDER")]
    pub out: PathBuf,

    /// Decides the weights, which are random: the same seed gives the same files
    #[arg(long, default_value_t = 0, conflicts_with = "no_weights")]
    pub seed: u64,

    /// Leave the weights out: the files have kilobytes; every verb of vitempo reads them, but other
    /// programs cannot run them
    #[arg(long)]
    pub no_weights: bool,

    /// Format of the output
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

impl From<ExportError> for CliError {
    fn from(error: ExportError) -> Self {
        match error {
            ExportError::Unknown { .. } => {
                let names: Vec<&str> = SHIPPED.iter().map(|model| model.name).collect();
                Self::user(error).hint(format!(
                    "these models ship: {}; `vitempo sample` writes encodings into its index",
                    names.join(", ")
                ))
            }
            ExportError::MultiTask { .. } => {
                Self::user(error).hint("`vitempo sample --decoders` makes multi-task models")
            }
            ExportError::Onnx(error) => Self::ours(error),
            other => Self::user(other),
        }
    }
}

pub fn run(args: &ExportArgs) -> CliResult {
    let space = args.space.as_deref().map(Space::find).transpose()?;
    let is_all = args.models.iter().any(|name| name == "all");
    let shipped = SHIPPED.iter().filter(|_| is_all).map(|model| model.name);
    let named: Vec<&str> =
        args.models.iter().map(String::as_str).filter(|name| *name != "all").collect();
    let is_shipped = |name: &&str| SHIPPED.iter().any(|model| model.name == *name);
    if args.space.is_some() && named.iter().all(is_shipped) {
        let error = "--space is about encodings, and these models ship: it has no effect";
        return Err(CliError::user(error).hint("leave --space out, or give an encoding"));
    }
    let mut models = Vec::new();
    for name in shipped.chain(named) {
        models.push(export::find(name, space.as_ref())?);
    }
    let weights = match args.no_weights {
        true => WeightFill::Omitted,
        false => WeightFill::Seeded(args.seed),
    };
    std::fs::create_dir_all(&args.out)
        .map_err(|e| super::error::io_error("make folder", &args.out, &e))?;
    let mut exported = Vec::new();
    for graph in models {
        let file = args.out.join(format!("{}.onnx", graph.name()));
        onnx::write_file(&file, &graph, &WriteOptions { weights })?;
        exported.push((file, graph));
    }
    output::print(&Exported(exported), args.format)
}

struct Exported(Vec<(PathBuf, Graph)>);

impl Report for Exported {
    fn table(&self) -> String {
        let mut table = Table::new(&["File", "MACs", "Parameters", "Operators"], 1);
        for (file, graph) in &self.0 {
            let work = Work::of_graph(graph);
            table.row([
                file.display().to_string(),
                si(work.macs),
                si(work.params),
                graph.nodes().len().to_string(),
            ]);
        }
        table.to_text()
    }

    fn csv(&self) -> CliResult<String> {
        let mut table = Table::new(&["model", "file", "macs", "params", "operators"], 2);
        for (file, graph) in &self.0 {
            let work = Work::of_graph(graph);
            let numbers = [work.macs, work.params, graph.nodes().len() as u64];
            let words = [graph.name().to_owned(), file.display().to_string()];
            table.row(words.into_iter().chain(numbers.map(|number| number.to_string())));
        }
        table.to_csv()
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        let row = |(file, graph): &(PathBuf, Graph)| {
            let work = Work::of_graph(graph);
            json!({
                "model": graph.name(),
                "file": file,
                "macs": work.macs,
                "params": work.params,
                "operators": graph.nodes().len(),
            })
        };
        Ok(self.0.iter().map(row).collect())
    }
}
