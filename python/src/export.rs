//! Models that ship, and models as files of ONNX and TensorFlow Lite.

use crate::{failure::Failure, model::Model, space::Space};
use pyo3::{exceptions::PyOSError, prelude::*, types::PyBytes};
use std::path::{Path, PathBuf};
use vitempo::{
    export::{self, ExportError},
    graph::{
        Graph, files,
        onnx::{self, WeightFill, WriteOptions},
        tflite::{self, Weights},
    },
    models::SHIPPED,
};

/// Names of the models that ship, sorted.
#[pyfunction]
pub fn models() -> Vec<&'static str> {
    let mut names: Vec<&str> = SHIPPED.iter().map(|model| model.name).collect();
    names.sort_unstable();
    names
}

/// Writes a model to a file, whole or not at all: TensorFlow Lite where its name ends in `.tflite`,
/// else ONNX. Weights are random by `seed`; ONNX has none where there is no seed.
#[pyfunction]
pub fn write_model(
    py: Python<'_>,
    model: &Bound<'_, Model>,
    path: PathBuf,
    seed: Option<u64>,
) -> Result<(), Failure> {
    let graph = &model.get().graph;
    py.detach(|| {
        let bytes = match is_tflite(&path) {
            true => tflite_bytes(graph, seed.unwrap_or_default())?,
            false => onnx_bytes(graph, seed)?,
        };
        files::write_whole(&path, &bytes).map_err(|error| not_written(&path, &error))
    })
}

/// The model of this name, or the architecture of this encoding.
pub fn found(name: &str, space: Option<&Space>) -> Result<Graph, Failure> {
    Ok(export::find(name, space.map(|space| space.space.as_ref()))?)
}

/// A model as ONNX.
pub fn to_onnx<'py>(
    py: Python<'py>,
    graph: &Graph,
    seed: Option<u64>,
) -> Result<Bound<'py, PyBytes>, Failure> {
    let bytes = py.detach(|| onnx_bytes(graph, seed))?;
    Ok(PyBytes::new(py, &bytes))
}

/// A model as TensorFlow Lite.
pub fn to_tflite<'py>(
    py: Python<'py>,
    graph: &Graph,
    seed: u64,
) -> Result<Bound<'py, PyBytes>, Failure> {
    let bytes = py.detach(|| tflite_bytes(graph, seed))?;
    Ok(PyBytes::new(py, &bytes))
}

fn onnx_bytes(graph: &Graph, seed: Option<u64>) -> Result<Vec<u8>, Failure> {
    let weights = seed.map_or(WeightFill::Omitted, WeightFill::Seeded);
    Ok(onnx::to_bytes(graph, &WriteOptions { weights })?)
}

fn tflite_bytes(graph: &Graph, seed: u64) -> Result<Vec<u8>, Failure> {
    Ok(tflite::write(graph, &Weights::seeded(graph, seed)?)?.bytes)
}

/// Whether a file's name is one of TensorFlow Lite.
fn is_tflite(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("tflite"))
}

/// Python's own exception of files.
fn not_written(path: &Path, error: &std::io::Error) -> Failure {
    let number = error.raw_os_error().unwrap_or_else(|| number_of(error.kind()));
    let what = format!("the model cannot be written: {error}");
    PyOSError::new_err((number, what, path.display().to_string())).into()
}

/// The number of a kind of error (POSIX), for an error whose source has none: Python chooses the
/// class of the exception by it.
fn number_of(kind: std::io::ErrorKind) -> i32 {
    use std::io::ErrorKind as K;
    match kind {
        K::NotFound => 2,
        K::PermissionDenied => 13,
        K::NotADirectory => 20,
        K::IsADirectory => 21,
        _ => 5,
    }
}

impl From<ExportError> for Failure {
    fn from(error: ExportError) -> Self {
        match error {
            ExportError::Unknown { .. } => Self::new("ModelNotFound", error).hint(format!(
                "vitempo.models() lists the models that ship: {}",
                models().join(", ")
            )),
            ExportError::Space(error) => error.into(),
            ExportError::Onnx(error) => error.into(),
            other => Self::new("InvalidModel", other),
        }
    }
}
