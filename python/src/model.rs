//! [`Model`]: a model that was read, for several forecasts; [`Input`]: whatever `predict` takes.

use crate::{
    encodings::Encodings, export, failure::Failure, interrupt::Interrupt, space::Space,
    whole::Whole,
};
use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
    types::{PyBytes, PyDict, PyString, PyType},
};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};
use vitempo::{
    graph::{
        Budget, Graph, ImageSize, Stop, Work,
        onnx::{self, ReadModel, ReadOptions},
        tflite, with_image_size,
    },
    models,
    search_space::Architecture,
};

/// A model that was read: its operators, without weights.
#[pyclass(frozen, module = "vitempo")]
pub struct Model {
    pub graph: Graph,
    notes: Vec<String>,
}

/// What is to be forecast.
pub enum Input {
    /// A model.
    Model(Py<Model>),
    /// An architecture of a search space.
    Encoding(String),
    /// Several.
    Encodings(Encodings),
}

/// How to read a model.
pub struct Reading<'a, 'py> {
    /// Inputs to export a module with.
    pub inputs: Option<&'a Bound<'py, PyAny>>,
    /// Extents of symbolic dimensions.
    pub dims: Option<BTreeMap<String, usize>>,
}

impl<'a, 'py> Reading<'a, 'py> {
    /// Refuses dimensions that are not extents.
    pub fn new(
        inputs: Option<&'a Bound<'py, PyAny>>,
        dims: Option<BTreeMap<String, Whole>>,
    ) -> PyResult<Self> {
        let extent = |(name, extent): (String, Whole)| {
            let found = extent.value().and_then(|extent| usize::try_from(extent).ok());
            let found = found.filter(|&extent| extent > 0).ok_or_else(|| {
                let what = "expected an extent of at least 1";
                PyValueError::new_err(format!("dims: `{name}` is {extent}, {what}"))
            });
            found.map(|extent| (name, extent))
        };
        let dims = dims.filter(|dims| !dims.is_empty());
        let dims = dims.map(|dims| dims.into_iter().map(extent).collect()).transpose()?;
        Ok(Self { inputs, dims })
    }

    /// Refuses options of modules and files: `what` is neither.
    fn refused_for(&self, what: &str) -> PyResult<()> {
        let given = match (self.inputs, &self.dims) {
            (Some(_), _) => "`inputs` is for modules of torch",
            (_, Some(_)) => "`dims` is for symbolic dimensions of an ONNX model",
            (None, None) => return Ok(()),
        };
        Err(PyTypeError::new_err(format!("{given}, not for {what}")))
    }

    /// Refuses inputs of a file, whose inputs are in it.
    fn inputs_refused(&self) -> PyResult<()> {
        match self.inputs {
            Some(_) => {
                let message = "`inputs` is for modules of torch; a file has its inputs, and `dims` \
                    gives the extents of its symbolic dimensions";
                Err(PyTypeError::new_err(message))
            }
            None => Ok(()),
        }
    }
}

/// What the bytes of a TensorFlow Lite file have at the place of a flatbuffer's identifier.
const TFLITE: &[u8] = b"TFL3";

#[pymethods]
impl Model {
    /// A model that ships, by its name, or an architecture of a search space, by its encoding.
    ///
    /// Args:
    ///     name: One of `vitempo.models()`, or an encoding.
    ///     space: The space of the encoding, its name, or the path of its definition; by default
    ///         the one that comes with vitempo and has such encodings.
    ///
    /// Raises:
    ///     ModelNotFound: No model of this name ships.
    ///     InvalidEncoding: The encoding is not one of the space.
    #[classmethod]
    #[pyo3(signature = (name, *, space=None))]
    fn load(
        _: &Bound<'_, PyType>,
        name: &str,
        space: Option<&Bound<'_, PyAny>>,
    ) -> Result<Self, Failure> {
        let space = space.map(Space::from_any).transpose()?;
        if space.is_some() && export::models().contains(&name) {
            let message = "`space` is for encodings, not for a model that ships";
            return Err(PyTypeError::new_err(message).into());
        }
        let graph = export::found(name, space.as_ref().map(Bound::get))?;
        Ok(Self { graph, notes: Vec::new() })
    }

    /// The model as the bytes of an ONNX file. The weights that it was read with are not kept.
    ///
    /// Args:
    ///     seed: Decides the random weights of the file. Without a seed the file has no weights:
    ///         vitempo reads it, engines cannot run it.
    ///
    /// Raises:
    ///     UnsupportedOperator: ONNX has no form for a node.
    #[pyo3(signature = (*, seed=None))]
    fn to_onnx<'py>(
        &self,
        py: Python<'py>,
        seed: Option<Whole>,
    ) -> Result<Bound<'py, PyBytes>, Failure> {
        let seed = seed.map(|seed| seed.named("seed")).transpose()?;
        export::to_onnx(py, &self.graph, seed)
    }

    /// The model as the bytes of a TensorFlow Lite file, with random weights, to be measured on a
    /// phone.
    ///
    /// Args:
    ///     seed: Decides the weights.
    ///
    /// Raises:
    ///     UnsupportedOperator: TensorFlow Lite has no form for a node.
    #[pyo3(signature = (*, seed=Whole::ZERO), text_signature = "($self, *, seed=0)")]
    fn to_tflite<'py>(&self, py: Python<'py>, seed: Whole) -> Result<Bound<'py, PyBytes>, Failure> {
        export::to_tflite(py, &self.graph, seed.named("seed")?)
    }

    /// The same model for images of another size, in pixels: every input of four dimensions is an
    /// image. Constants of the image's size, such as position embeddings, are resized as well.
    ///
    /// Args:
    ///     height: Rows.
    ///     width: Columns; by default as many.
    ///
    /// Raises:
    ///     ValueError: A side has no pixels, or more than 65536.
    ///     InvalidModel: A node does not work at that size, or no input is an image.
    #[pyo3(signature = (height, width=None))]
    fn with_image_size(
        &self,
        py: Python<'_>,
        height: Whole,
        width: Option<Whole>,
    ) -> Result<Self, Failure> {
        let height = height.named("height")?;
        let width = width.map(|width| width.named("width")).transpose()?;
        let size = ImageSize::new(height, width.unwrap_or(height))?;
        let graph = py.detach(|| with_image_size(&self.graph, size))?;
        Ok(Self { graph, notes: self.notes.clone() })
    }

    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        self.graph.name()
    }

    /// Digest of structure, attributes and shapes; names and weights do not count.
    #[getter]
    fn architecture(&self) -> String {
        self.graph.architecture()
    }

    /// Differences between the operators and the file.
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    /// Operators of each kind.
    #[getter]
    fn kinds(&self) -> BTreeMap<String, usize> {
        self.graph.kinds()
    }

    /// Multiply-accumulate operations of one run.
    #[getter]
    fn macs(&self) -> u64 {
        Work::of_graph(&self.graph).macs
    }

    /// Elements of all weights.
    #[getter]
    fn parameters(&self) -> u64 {
        Work::of_graph(&self.graph).params
    }

    /// Nodes whose operator vitempo does not support: name and operator.
    #[getter]
    fn unsupported(&self) -> Vec<(String, String)> {
        let owned = |(node, operator): (&str, &str)| (node.to_owned(), operator.to_owned());
        self.graph.unsupported().map(owned).collect()
    }

    fn __len__(&self) -> usize {
        self.graph.nodes().len()
    }

    fn __repr__(&self) -> String {
        format!("Model({}: {} operators)", self.graph.name(), self.graph.nodes().len())
    }
}

/// Reads a model once, for several forecasts.
#[pyfunction]
#[pyo3(signature = (model, *, inputs=None, dims=None))]
pub fn read(
    model: &Bound<'_, PyAny>,
    inputs: Option<&Bound<'_, PyAny>>,
    dims: Option<BTreeMap<String, Whole>>,
) -> Result<Py<Model>, Failure> {
    match Input::of(model, Reading::new(inputs, dims)?)? {
        Input::Model(model) => Ok(model),
        Input::Encoding(text) => {
            let space = vitempo::search_space::Space::of_encoding(&text)?;
            let graph = space.decode(&text)?.to_graph()?;
            Ok(Py::new(model.py(), Model { graph, notes: Vec::new() })?)
        }
        Input::Encodings(_) => {
            Err(PyTypeError::new_err("one model is read at a time; give one encoding").into())
        }
    }
}

/// Reads the bytes of a model that has no file, under a name: for `vitempo/_torch.py`.
#[pyfunction]
pub fn read_named(py: Python<'_>, name: &str, content: &[u8]) -> Result<Py<Model>, Failure> {
    bytes(py, name, content, None)
}

/// Whether a text is an encoding rather than the path of a file.
pub fn is_encoding(text: &str) -> bool {
    let is_file = [".onnx", ".tflite"].iter().any(|ending| text.ends_with(ending));
    Architecture::family_of(text).is_some() && !is_file
}

impl Input {
    /// Reads a model, or recognises encodings. `vitempo/_inputs.py` reduces what other libraries
    /// have to a file, bytes, a model, or encodings.
    pub fn of(value: &Bound<'_, PyAny>, reading: Reading<'_, '_>) -> Result<Self, Failure> {
        let py = value.py();
        if let Ok(text) = value.cast::<PyString>() {
            let Ok(text) = text.to_cow() else {
                reading.inputs_refused()?;
                return file(py, &value.extract::<PathBuf>()?, reading.dims).map(Self::Model);
            };
            return if is_encoding(&text) {
                reading.refused_for("an encoding")?;
                Ok(Self::Encoding(text.into_owned()))
            } else {
                reading.inputs_refused()?;
                file(py, text.as_ref().as_ref(), reading.dims).map(Self::Model)
            };
        }
        if let Ok(model) = value.cast::<Model>() {
            reading.refused_for("a model that was read")?;
            return Ok(Self::Model(model.clone().unbind()));
        }
        let reduce = py.import("vitempo._inputs")?.getattr("reduce")?;
        let (kind, name, content): (String, Bound<'_, PyAny>, Bound<'_, PyAny>) =
            reduce.call1((value, reading.inputs))?.extract()?;
        match kind.as_str() {
            "file" => {
                reading.inputs_refused()?;
                file(py, &name.extract::<PathBuf>()?, reading.dims).map(Self::Model)
            }
            "bytes" => {
                reading.inputs_refused()?;
                let content = content.cast::<PyBytes>().map_err(PyErr::from)?.as_bytes();
                bytes(py, &name.extract::<String>()?, content, reading.dims).map(Self::Model)
            }
            "model" if reading.dims.is_some() => {
                let message = "`dims` is for symbolic dimensions of an ONNX model; give a module \
                    example inputs of the extents that it runs with";
                Err(PyTypeError::new_err(message).into())
            }
            "model" => {
                let model = content.cast_into::<Model>().map_err(PyErr::from)?;
                Ok(Self::Model(model.unbind()))
            }
            _ => {
                reading.refused_for("encodings")?;
                Encodings::of(&content).map(Self::Encodings)
            }
        }
    }
}

/// Options of a read that Ctrl-C ends.
fn options(dims: Option<BTreeMap<String, usize>>, interrupt: &Interrupt) -> ReadOptions {
    let interrupt = interrupt.clone();
    let stop = Stop::when(move || interrupt.is_pending());
    ReadOptions { dimensions: dims.unwrap_or_default(), stop, ..ReadOptions::default() }
}

/// A budget for one forecast that Ctrl-C ends.
pub fn budget(interrupt: &Interrupt) -> Budget {
    options(None, interrupt).budget()
}

fn file(
    py: Python<'_>,
    path: &Path,
    dims: Option<BTreeMap<String, usize>>,
) -> Result<Py<Model>, Failure> {
    let interrupt = Interrupt::default();
    let options = options(dims, &interrupt);
    let read = interrupt.or(py.detach(|| models::read_graph(path, &options)));
    let read = read.map_err(|failure| failure.of_format(path))?;
    let read = read.with_all_dimensions_used()?;
    noted(py, read.graph, read.notes)
}

fn bytes(
    py: Python<'_>,
    name: &str,
    content: &[u8],
    dims: Option<BTreeMap<String, usize>>,
) -> Result<Py<Model>, Failure> {
    let interrupt = Interrupt::default();
    let options = options(dims, &interrupt);
    let read = py.detach(|| -> Result<ReadModel, Failure> {
        if content.get(4..8) == Some(TFLITE) {
            let graph = tflite::read_bytes(name, content, &options.budget())?;
            return Ok(ReadModel::of_fixed(graph, &options));
        }
        Ok(onnx::read_bytes_with_notes(name, content, &options)?)
    });
    let read = interrupt.or(read)?.with_all_dimensions_used()?;
    noted(py, read.graph, read.notes)
}

/// The model; notes on it go to Python's log.
fn noted(py: Python<'_>, graph: Graph, notes: Vec<onnx::ReadNote>) -> Result<Py<Model>, Failure> {
    let notes: Vec<String> = notes.iter().map(ToString::to_string).collect();
    if !notes.is_empty() {
        let arguments = PyDict::new(py);
        arguments.set_item("stacklevel", 2)?;
        let log = py.import("logging")?.call_method1("getLogger", ("vitempo",))?;
        for note in &notes {
            log.call_method("info", ("%s: %s", graph.name(), note), Some(&arguments))?;
        }
    }
    Ok(Py::new(py, Model { graph, notes })?)
}
