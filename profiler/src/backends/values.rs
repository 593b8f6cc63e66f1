//! [`OutputValues`]: a tensor that a model put out, or that it is handed.

use serde::{Deserialize, Serialize};

/// One output of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutputValues {
    /// Its name in the graph.
    pub name: String,
    /// Extent of each dimension, in the graph's order whatever the engine's.
    pub shape: Vec<usize>,
    /// The values, row by row; integers and booleans as floats.
    pub values: Vec<f32>,
}
