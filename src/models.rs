//! Models by file, folder and glob: [`files`] finds them in a stable order, [`read`] reads one,
//! [`read_all`] reads those that can be read. [`SHIPPED`] holds models that need no file.
//!
//! Files are ONNX; one that ends in `.tflite` is a TensorFlow Lite model, which can be forecast and
//! inspected ([`Model::is_onnx`]). Folders are searched for ONNX alone.
//!
//! A model's [`ModelIdentity`] has the search space and encoding of the folder's `index.csv`, which
//! [`sampling`] writes, where it names the model.

mod shipped;

pub use shipped::{SHIPPED, ShippedModel};

use crate::sampling::{self, Index, Sample};
use serde::Serialize;
use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};
use vitempo_graph::{
    Budget, Graph, ImageSize, Limits, ModelIdentity, ResizeError,
    onnx::{self, OnnxError, ReadModel, ReadNote, ReadOptions},
    tflite::{self, TfliteReadError},
    with_image_size_within,
};

/// A model that was read.
#[derive(Clone, Debug)]
pub struct Model {
    /// Its file.
    pub path: PathBuf,
    /// Name, architecture, and where it was sampled.
    pub identity: ModelIdentity,
    /// Its operators.
    pub graph: Graph,
    /// Differences between the graph and the file.
    pub notes: Vec<ReadNote>,
    /// The size of images, where it is not that of the file.
    pub size: Option<ImageSize>,
}

impl Model {
    /// Its graph with the values of weights, where the file has them.
    ///
    /// # Errors
    /// [`OnnxError`] naming the file, where it cannot be read again.
    pub fn weighted(&self, options: &ReadOptions) -> Result<Graph, OnnxError> {
        if !onnx::weights_present(&self.path)? {
            return Ok(self.graph.clone());
        }
        let bytes = onnx::materialize(&self.path, 0)?;
        onnx::read_weights(&self.identity.name, &bytes, options)
    }

    /// The same model for images of another size, which its name has behind an `@`.
    ///
    /// # Errors
    /// [`ModelError::Resize`] with the file, and the node that does not work at that size.
    pub fn with_image_size(&self, size: ImageSize) -> Result<Self, ModelError> {
        self.with_image_size_within(size, &Budget::new(Limits::NONE))
    }

    /// [`Model::with_image_size`] within a budget.
    ///
    /// # Errors
    /// As there, also where the budget is spent.
    pub fn with_image_size_within(
        &self,
        size: ImageSize,
        budget: &Budget,
    ) -> Result<Self, ModelError> {
        let graph = with_image_size_within(&self.graph, size, budget)
            .map_err(|e| ModelError::Resize { path: self.path.clone(), source: e.into() })?;
        let identity = ModelIdentity {
            name: format!("{}@{size}", self.identity.name),
            architecture: graph.architecture(),
            space: None,
            encoding: None,
        };
        Ok(Self {
            path: self.path.clone(),
            graph,
            identity,
            notes: self.notes.clone(),
            size: Some(size),
        })
    }

    /// Where it has no dimension of this name without a value: which it has.
    fn lacks_dimension(&self, dimension: &str) -> Option<&str> {
        self.notes.iter().find_map(|note| match note {
            ReadNote::UnusedDimension { name, open } if name == dimension => Some(open.as_str()),
            _ => None,
        })
    }

    /// Whether its file is ONNX: only such files are measured, quantised and divided.
    #[must_use]
    pub fn is_onnx(&self) -> bool {
        !is_tflite(&self.path)
    }

    /// A graph that was not read from a file, named like it.
    #[must_use]
    pub fn of_graph(graph: Graph) -> Self {
        let identity = ModelIdentity {
            name: graph.name().to_owned(),
            architecture: graph.architecture(),
            space: None,
            encoding: None,
        };
        Self { path: graph.name().into(), identity, graph, notes: Vec::new(), size: None }
    }

    /// A sample whose file is `path`.
    #[must_use]
    pub fn sampled(sample: Sample, path: PathBuf) -> Self {
        let identity = ModelIdentity {
            name: sample.name,
            architecture: sample.graph.architecture(),
            space: Some(sample.space),
            encoding: Some(sample.encoding),
        };
        Self { path, identity, graph: sample.graph, notes: Vec::new(), size: None }
    }
}

/// Why models cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// A folder without models.
    #[error("no .onnx file in folder {}", .0.display())]
    EmptyFolder(PathBuf),
    /// A glob that matches nothing.
    #[error("no file matches {0}")]
    NoMatch(String),
    /// A pattern that is not a glob.
    #[error("`{pattern}` is not a glob: {reason}")]
    Glob {
        /// As it was given.
        pattern: String,
        /// What the parser reports.
        reason: String,
    },
    /// A folder that cannot be read.
    #[error("cannot read {}: {source}", .path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system reports.
        source: io::Error,
    },
    /// A file that is not a model.
    #[error(transparent)]
    Onnx(#[from] OnnxError),
    /// A file that is not a TensorFlow Lite model.
    #[error(transparent)]
    Tflite(#[from] TfliteReadError),
    /// A value for a dimension that none of the models has.
    #[error("no model has a dimension `{name}` to give a value: {open}")]
    Dimension {
        /// Its name.
        name: String,
        /// Which dimensions have no value in the first file.
        open: String,
    },
    /// A model that does not work for images of another size.
    #[error("{}: {source}", .path.display())]
    Resize {
        /// Its file.
        path: PathBuf,
        /// What does not work.
        source: Box<ResizeError>,
    },
}

fn is_tflite(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("tflite"))
}

/// The models named, and those that cannot be read.
#[derive(Debug, Default)]
pub struct Models {
    /// In the order of their names.
    pub read: Vec<Model>,
    /// Files that were left out, with the reason.
    pub unreadable: Vec<(PathBuf, ModelError)>,
}

impl Models {
    /// Each model for images of each of these sizes ([`Model::with_image_size`]), and as it is where
    /// there is no size; those that do not work at a size are left out. Each has the budget of
    /// `options` anew.
    #[must_use]
    pub fn with_image_sizes(self, sizes: &[ImageSize], options: &ReadOptions) -> Self {
        if sizes.is_empty() {
            return self;
        }
        let mut resized = Self { unreadable: self.unreadable, ..Self::default() };
        for model in &self.read {
            for size in sizes {
                match model.with_image_size_within(*size, &options.budget()) {
                    Ok(model) => resized.read.push(model),
                    Err(error) => resized.unreadable.push((model.path.clone(), error)),
                }
            }
        }
        resized
    }
}

/// The files that these arguments name (files, folders, globs), each once; folders and globs
/// sorted.
///
/// # Errors
/// [`ModelError`] where a folder or glob holds none. Whether a file exists is seen when it is read.
pub fn files<S: AsRef<str>>(arguments: &[S]) -> Result<Vec<PathBuf>, ModelError> {
    let mut files = Vec::new();
    for argument in arguments {
        for file in expand(argument.as_ref())? {
            if !files.contains(&file) {
                files.push(file);
            }
        }
    }
    Ok(files)
}

/// Reads one model.
///
/// # Errors
/// [`ModelError::Onnx`] and [`ModelError::Tflite`] name the file, and the node where one is at
/// fault.
pub fn read(path: &Path, options: &ReadOptions) -> Result<Model, ModelError> {
    Reader::new(options).read(path.to_owned())
}

/// Reads a model whose bytes the caller has, for example of an upload; `path` names it, in errors as
/// well, and is not read. It was not sampled.
///
/// # Errors
/// As [`read`].
pub fn read_bytes(path: &Path, bytes: &[u8], options: &ReadOptions) -> Result<Model, ModelError> {
    let name = name_of(path);
    let ReadModel { graph, notes } = if is_tflite(path) {
        let graph = tflite::read_bytes(&name, bytes, &options.budget())?;
        ReadModel::of_fixed(graph, options)
    } else {
        onnx::read_bytes_with_notes(&name, bytes, options)?
    };
    let architecture = graph.architecture();
    let identity = ModelIdentity { name, architecture, space: None, encoding: None };
    Ok(Model { path: path.to_owned(), identity, graph, notes, size: None })
}

/// A dimension of an input that the file leaves open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SymbolicDimension {
    /// The name to give it a value by, in [`ReadOptions::dimensions`].
    pub symbol: String,
    /// The first input that has it.
    pub input: String,
    /// Which dimension of that input, counted from 0.
    pub index: usize,
}

/// The dimensions that have to get a value before [`read_bytes`] reads a model, in the order of its
/// inputs; none where the bytes are no ONNX model, which reading then reports.
#[must_use]
pub fn symbolic_dimensions(bytes: &[u8], options: &ReadOptions) -> Vec<SymbolicDimension> {
    let mut options = options.clone();
    let mut found = Vec::new();
    while let Err(OnnxError::Dynamic { input, index, symbol, .. }) =
        onnx::read_bytes("model", bytes, &options)
    {
        if options.dimensions.insert(symbol.clone(), 1).is_some() {
            break;
        }
        found.push(SymbolicDimension { symbol, input, index });
    }
    found
}

fn name_of(path: &Path) -> String {
    path.file_stem().map_or_else(|| "model".to_owned(), |stem| stem.to_string_lossy().into_owned())
}

/// Reads the operators of one model and nothing else: neither its identity nor its folder's index.
///
/// # Errors
/// As [`read`].
pub fn read_graph(path: &Path, options: &ReadOptions) -> Result<ReadModel, ModelError> {
    if is_tflite(path) {
        let graph = tflite::read_file(path, &options.budget())?;
        return Ok(ReadModel::of_fixed(graph, options));
    }
    Ok(onnx::read_file_with_notes(path, options)?)
}

/// Reads the models that these arguments name; those that cannot be read come with the reason.
///
/// # Errors
/// As [`files`].
pub fn read_all<S: AsRef<str>>(
    arguments: &[S],
    options: &ReadOptions,
) -> Result<Models, ModelError> {
    let mut reader = Reader::new(options);
    let mut models = Models::default();
    for path in files(arguments)? {
        match reader.read(path.clone()) {
            Ok(model) => models.read.push(model),
            Err(error) => models.unreadable.push((path, error)),
        }
    }
    for name in options.dimensions.keys() {
        let mut open = models.read.iter().map(|model| model.lacks_dimension(name));
        if let Some(Some(open)) = open.next().filter(|_| open.all(|lacks| lacks.is_some())) {
            return Err(ModelError::Dimension { name: name.clone(), open: open.to_owned() });
        }
    }
    Ok(models)
}

fn expand(argument: &str) -> Result<Vec<PathBuf>, ModelError> {
    let path = Path::new(argument);
    if path.is_dir() {
        let files = onnx_files(path)?;
        let empty = || ModelError::EmptyFolder(path.to_owned());
        return if files.is_empty() { Err(empty()) } else { Ok(files) };
    }
    if path.exists() || !argument.contains(['*', '?', '[']) {
        return Ok(vec![path.to_owned()]);
    }
    let paths = glob::glob(argument)
        .map_err(|e| ModelError::Glob { pattern: argument.to_owned(), reason: e.to_string() })?;
    let mut files: Vec<PathBuf> = paths.flatten().filter(|p| p.is_file()).collect();
    files.sort();
    if files.is_empty() { Err(ModelError::NoMatch(argument.to_owned())) } else { Ok(files) }
}

fn onnx_files(folder: &Path) -> Result<Vec<PathBuf>, ModelError> {
    let entries = std::fs::read_dir(folder)
        .map_err(|source| ModelError::Folder { path: folder.to_owned(), source })?;
    let is_model = |path: &PathBuf| path.extension().is_some_and(|e| e == "onnx");
    let mut files: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(is_model).collect();
    files.sort();
    Ok(files)
}

/// Reads models and, once each, the indexes of their folders.
struct Reader<'a> {
    options: &'a ReadOptions,
    indexes: BTreeMap<PathBuf, Index>,
}

impl<'a> Reader<'a> {
    fn new(options: &'a ReadOptions) -> Self {
        Self { options, indexes: BTreeMap::new() }
    }

    fn read(&mut self, path: PathBuf) -> Result<Model, ModelError> {
        let ReadModel { graph, notes } = read_graph(&path, self.options)?;
        let name = name_of(&path);
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        let index = self
            .indexes
            .entry(folder)
            .or_insert_with_key(|folder| sampling::read_index(folder).unwrap_or_default());
        let (space, encoding) = index.get(&name).cloned().unzip();
        let identity = ModelIdentity { name, architecture: graph.architecture(), space, encoding };
        Ok(Model { path, identity, graph, notes, size: None })
    }
}
