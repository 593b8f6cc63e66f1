//! `MODELS...`: files, folders and globs of ONNX, in a stable order.

use super::{
    error::{CliError, CliResult, io_error},
    progress,
};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};
use vitempo_graph::{
    Graph, ModelIdentity,
    onnx::{self, ReadModel, ReadNote, ReadOptions},
};

/// Arguments that name models.
#[derive(clap::Args, Clone, Debug)]
pub struct ModelArgs {
    /// ONNX files, folders of them, or globs; weights may be absent
    #[arg(required = true, value_name = "MODELS")]
    pub models: Vec<String>,

    /// Value of a symbolic dimension, e.g. `--dim batch=1`; may be repeated
    #[arg(long = "dim", value_name = "NAME=SIZE", value_parser = parse_dimension)]
    pub dimensions: Vec<(String, usize)>,
}

/// Sizes of symbolic dimensions, where models are named in another way.
#[derive(clap::Args, Clone, Debug)]
pub struct Dimensions {
    /// Value of a symbolic dimension, e.g. `--dim batch=1`; may be repeated
    #[arg(long = "dim", value_name = "NAME=SIZE", value_parser = parse_dimension)]
    pub dimensions: Vec<(String, usize)>,
}

impl Dimensions {
    pub fn read_options(&self) -> ReadOptions {
        ReadOptions { dimensions: self.dimensions.iter().cloned().collect() }
    }
}

pub fn parse_dimension(text: &str) -> Result<(String, usize), String> {
    let (name, size) = text.split_once('=').ok_or("expected NAME=SIZE, e.g. batch=1")?;
    match size.parse::<usize>() {
        Ok(size) if size > 0 => Ok((name.to_owned(), size)),
        _ => Err(format!("`{size}` is not a size; expected a whole number above zero")),
    }
}

/// One model that was read.
#[derive(Clone, Debug)]
pub struct Model {
    pub path: PathBuf,
    pub identity: ModelIdentity,
    pub graph: Graph,
}

/// A file that is no model, and why.
type Unreadable = (PathBuf, CliError);

impl ModelArgs {
    pub fn read_options(&self) -> ReadOptions {
        ReadOptions { dimensions: self.dimensions.iter().cloned().collect() }
    }

    /// The files named, each once, folders and globs sorted.
    pub fn files(&self) -> CliResult<Vec<PathBuf>> {
        let mut files = Vec::new();
        for argument in &self.models {
            for file in expand(argument)? {
                if !files.contains(&file) {
                    files.push(file);
                }
            }
        }
        Ok(files)
    }

    /// Reads all of them, or says which one cannot be read.
    pub fn read(&self) -> CliResult<Vec<Model>> {
        let options = self.read_options();
        let mut indexes = BTreeMap::new();
        self.files()?.into_iter().map(|path| read_model(path, &options, &mut indexes)).collect()
    }

    /// Reads those that can be read; the others come with the reason. An error when none can.
    pub fn read_all(&self) -> CliResult<(Vec<Model>, Vec<Unreadable>)> {
        let options = self.read_options();
        let mut indexes = BTreeMap::new();
        let (mut models, mut unreadable) = (Vec::new(), Vec::new());
        for path in self.files()? {
            match read_model(path.clone(), &options, &mut indexes) {
                Ok(model) => models.push(model),
                Err(error) => unreadable.push((path, error)),
            }
        }
        if models.is_empty() && !unreadable.is_empty() {
            return Err(unreadable.swap_remove(0).1);
        }
        Ok((models, unreadable))
    }
}

fn expand(argument: &str) -> CliResult<Vec<PathBuf>> {
    let path = Path::new(argument);
    if path.is_dir() {
        return non_empty(onnx_files(path)?, || format!("no .onnx file in folder {argument}"));
    }
    if path.exists() || !argument.contains(['*', '?', '[']) {
        return Ok(vec![path.to_owned()]);
    }
    let paths = glob::glob(argument)
        .map_err(|e| CliError::user(format!("`{argument}` is not a glob: {e}")))?;
    let mut files: Vec<PathBuf> = paths.flatten().filter(|p| p.is_file()).collect();
    files.sort();
    non_empty(files, || format!("no file matches {argument}"))
}

fn onnx_files(folder: &Path) -> CliResult<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).map_err(|e| io_error("read", folder, &e))?;
    let mut files: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|p| p.extension().is_some_and(|e| e == "onnx"))
        .collect();
    files.sort();
    Ok(files)
}

fn non_empty(files: Vec<PathBuf>, message: impl Fn() -> String) -> CliResult<Vec<PathBuf>> {
    if files.is_empty() {
        Err(CliError::user(message()).hint("give ONNX files, folders that hold some, or a glob"))
    } else {
        Ok(files)
    }
}

fn warn(path: &Path, note: &ReadNote) {
    let hint = match note {
        ReadNote::WeightsAsInputs { .. } => {
            "export the model with its weights (`torch.onnx.export(..., export_params=True)`) to \
            have inputs and weights told apart by the file"
        }
    };
    progress::say(format!("warning: {}: {note}\nhint: {hint}", path.display()));
}

type Indexes = BTreeMap<PathBuf, BTreeMap<String, (String, String)>>;

fn read_model(path: PathBuf, options: &ReadOptions, indexes: &mut Indexes) -> CliResult<Model> {
    let ReadModel { graph, notes } = onnx::read_file_with_notes(&path, options)?;
    notes.iter().for_each(|note| warn(&path, note));
    let name =
        path.file_stem().map_or_else(|| "model".to_owned(), |s| s.to_string_lossy().into_owned());
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    let index = indexes
        .entry(folder.clone())
        .or_insert_with(|| super::sample::read_index(&folder).unwrap_or_default());
    let (space, encoding) = index.get(&name).cloned().unzip();
    let identity = ModelIdentity { name, architecture: graph.architecture(), space, encoding };
    Ok(Model { path, identity, graph })
}
