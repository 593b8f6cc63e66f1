//! [`Partition`]: a model divided by a plan, with its parts as graphs, with the model's own weights
//! if its file has them.

use crate::models::Model;
use std::collections::HashMap;
use vitempo_graph::{
    Graph,
    onnx::{OnnxError, ReadOptions},
};
use vitempo_planners::{PartsError, parts};

/// A model and its parts. Weights that the file lacks are seeded by name when a graph is written or
/// loaded, so that they are the same in both.
#[derive(Clone, Debug)]
pub struct Partition {
    /// The model.
    pub whole: Graph,
    /// Its parts, in the order in which they run.
    pub parts: Vec<Graph>,
}

/// Why a model cannot be divided like this.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PartitionError {
    /// Its file cannot be read again.
    #[error(transparent)]
    Onnx(#[from] OnnxError),
    /// A part is empty, or a tensor would flow back.
    #[error(transparent)]
    Parts(#[from] PartsError),
}

impl Partition {
    /// Divides a model into a part per name; `part_of` has the part of every node of the planned
    /// graph.
    ///
    /// # Errors
    /// [`PartitionError`] naming the file, or the node and part at fault.
    pub fn of(
        model: &Model,
        options: &ReadOptions,
        part_of: &[usize],
        names: &[&str],
    ) -> Result<Self, PartitionError> {
        let whole = model.weighted(options)?;
        let parts = Self::divide(&whole, model, part_of, names)?;
        Ok(Self { whole, parts })
    }

    /// The same of a model in memory, without the values of weights.
    ///
    /// # Errors
    /// [`PartsError`] naming the node and part at fault.
    pub fn of_graph(graph: &Graph, part_of: &[usize], names: &[&str]) -> Result<Self, PartsError> {
        Ok(Self { whole: graph.clone(), parts: parts(graph, part_of, names)? })
    }

    /// The parts of a model whose weights were read ([`Model::weighted`]); otherwise as [`Self::of`].
    pub(crate) fn divide(
        whole: &Graph,
        model: &Model,
        part_of: &[usize],
        names: &[&str],
    ) -> Result<Vec<Graph>, PartitionError> {
        let nodes = model.graph.nodes().iter().map(|node| node.name.as_str());
        let planned: HashMap<&str, usize> = nodes.zip(part_of.iter().copied()).collect();
        // Nodes that the planned graph lacks belong to the last part.
        let last = names.len().saturating_sub(1);
        let part = |name: &str| planned.get(name).copied().unwrap_or(last);
        let again: Vec<usize> = whole.nodes().iter().map(|node| part(&node.name)).collect();
        Ok(parts(whole, &again, names)?)
    }
}
