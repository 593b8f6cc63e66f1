//! Prepares a model for an engine: weights that the file lacks are filled with seeded random
//! values, and the model is converted to another precision where the engine needs that
//! ([`Backend::conversion`]).

use crate::{
    backends::{
        engine::{Backend, Model, ModelSource},
        options::RunOptions,
    },
    inputs::InputDistribution,
};
use serde::{Deserialize, Serialize};
use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};
use tempfile::TempPath;
use vitempo_graph::{Graph, images_channels_last, onnx, quantize::Conversion};

/// The source of a model to be measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// An ONNX file, with or without its weights.
    File(PathBuf),
    /// An ONNX file that has its weights: nothing but the engine reads it.
    WholeFile(PathBuf),
    /// The graph itself, written as ONNX when it is needed.
    Graph,
}

/// A model this engine can load at these options, weights included.
///
/// # Errors
/// A sentence with the file's or the node's name.
pub fn ready(
    name: &str,
    source: &Source,
    graph: &Graph,
    backend: &dyn Backend,
    options: &RunOptions,
) -> Result<Model, String> {
    let (conversion, last) =
        (backend.conversion(options), backend.wants_images_channels_last(options));
    if conversion.is_some() || last {
        return rewritten(name, source, graph, conversion, last, options);
    }
    let source = match source {
        Source::Graph => ModelSource::Bytes(bytes_of_graph(graph, options.seed)?),
        Source::WholeFile(path) => ModelSource::File(path.clone()),
        Source::File(path) if onnx::weights_present(path).map_err(|e| e.to_string())? => {
            ModelSource::File(path.clone())
        }
        Source::File(path) => ModelSource::Bytes(materialized(path, options.seed)?),
    };
    Ok(Model { name: name.to_owned(), graph: graph.clone(), source })
}

impl Model {
    /// Moves its bytes from memory into a temporary file, which lives as long as what is returned.
    ///
    /// # Errors
    /// A sentence with the reason.
    pub(crate) fn move_to_file(&mut self) -> Result<Option<TempPath>, String> {
        let ModelSource::Bytes(bytes) = &self.source else { return Ok(None) };
        let path = in_temporary_file(bytes, ".onnx")?;
        self.source = ModelSource::File(path.to_path_buf());
        Ok(Some(path))
    }
}

impl Source {
    /// A file that has its weights, which lives as long as the path that is returned with it.
    ///
    /// # Errors
    /// As [`ready`].
    pub(crate) fn in_file(
        self,
        graph: &Graph,
        seed: u64,
    ) -> Result<(Self, Option<TempPath>), String> {
        let bytes = match self {
            Self::WholeFile(_) => return Ok((self, None)),
            Self::File(path) if onnx::weights_present(&path).map_err(|e| e.to_string())? => {
                return Ok((Self::WholeFile(path), None));
            }
            Self::File(path) => materialized(&path, seed)?,
            Self::Graph => bytes_of_graph(graph, seed)?,
        };
        let path = in_temporary_file(&bytes, ".onnx")?;
        Ok((Self::WholeFile(path.to_path_buf()), Some(path)))
    }
}

/// A temporary file with a model.
///
/// # Errors
/// A sentence with the reason.
pub(crate) fn in_temporary_file(bytes: &[u8], suffix: &str) -> Result<TempPath, String> {
    let store = || -> io::Result<TempPath> {
        let mut file = tempfile::Builder::new().suffix(suffix).tempfile()?;
        file.write_all(bytes)?;
        Ok(file.into_temp_path())
    };
    store().map_err(|e| format!("no temporary file for the model: {e}"))
}

/// The graph as ONNX with seeded random weights.
///
/// # Errors
/// A sentence with the node's name, when something has no ONNX form.
pub fn bytes_of_graph(graph: &Graph, seed: u64) -> Result<Vec<u8>, String> {
    onnx::to_bytes(graph, &onnx::WriteOptions::seeded(seed)).map_err(|e| e.to_string())
}

/// The model in another precision or with transposed inputs; its graph is that of the new file.
fn rewritten(
    name: &str,
    source: &Source,
    graph: &Graph,
    conversion: Option<Conversion>,
    last: bool,
    options: &RunOptions,
) -> Result<Model, String> {
    let mut weighted = match source {
        Source::Graph => graph.clone(),
        Source::File(path) | Source::WholeFile(path) => with_weights(path, graph, options.seed)?,
    };
    if last {
        weighted = images_channels_last(&weighted).map_err(|e| e.to_string())?;
    }
    let bytes = match conversion {
        Some(conversion) => {
            conversion.model_bytes(&weighted, options.seed, range(options.inputs))?
        }
        None => bytes_of_graph(&weighted, options.seed)?,
    };
    drop(weighted);
    let graph = onnx::read_bytes(graph.name(), &bytes, &onnx::ReadOptions::default())
        .map_err(|e| e.to_string())?;
    Ok(Model { name: name.to_owned(), graph, source: ModelSource::Bytes(bytes) })
}

/// The file's graph with the values of its weights, and with the input shapes of `graph`.
fn with_weights(path: &Path, graph: &Graph, seed: u64) -> Result<Graph, String> {
    let inputs = graph.inputs().iter().map(|&id| graph.value(id));
    let extents = inputs.flat_map(|value| {
        let shape = value.tensor.iter().flat_map(|tensor| tensor.shape.iter().copied().enumerate());
        shape.map(|(index, extent)| (format!("{}:{index}", value.name), extent))
    });
    let options = onnx::ReadOptions { dimensions: extents.collect(), ..Default::default() };
    onnx::read_weights(graph.name(), &materialized(path, seed)?, &options)
        .map_err(|e| e.to_string())
}

fn materialized(path: &Path, seed: u64) -> Result<Vec<u8>, String> {
    onnx::materialize(path, seed).map_err(|e| e.to_string())
}

/// Where the values of a distribution lie: all of them, or those within four standard deviations.
pub(crate) fn range(distribution: InputDistribution) -> (f64, f64) {
    let (low, high) = match distribution {
        InputDistribution::Uniform(low, high) => (low, high),
        InputDistribution::Normal(scale) => (-4.0 * scale, 4.0 * scale),
        InputDistribution::Constant(value) => (value.min(0.0), value.max(0.0)),
    };
    (f64::from(low), f64::from(high))
}
