//! The values of a model's weights, from the ONNX bytes that ONNX engines load.

use super::TfliteError;
use crate::onnx::proto::{ModelProto, TensorProto};
use crate::onnx::{ReadOptions, WriteOptions, read_weights, tensor_values, to_bytes};
use crate::{ConstantData, Graph, ValueSource};
use prost::Message;
use std::{cell::OnceCell, collections::HashMap};

/// Elements in row-major order, as 32-bit floats.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Array {
    pub shape: Vec<usize>,
    pub data: Vec<f32>,
}

/// The weights of one model, by name.
#[derive(Clone, Debug, Default)]
pub struct Weights {
    tensors: HashMap<String, TensorProto>,
    onnx: Vec<u8>,
    /// Constants that are computed from constants, found on first use.
    folded: OnceCell<HashMap<String, ConstantData>>,
}

impl Weights {
    /// Of a self-contained ONNX file's bytes.
    ///
    /// # Errors
    /// [`TfliteError::Weights`] when they are none.
    pub fn from_onnx(bytes: &[u8]) -> Result<Self, TfliteError> {
        let model = ModelProto::decode(bytes).map_err(|e| TfliteError::Weights {
            reason: format!("the model's bytes are damaged ({e})"),
        })?;
        let tensors = model
            .graph
            .unwrap_or_default()
            .initializer
            .into_iter()
            .map(|t| (t.name.clone(), t))
            .collect();
        Ok(Self { tensors, onnx: bytes.to_vec(), folded: OnceCell::new() })
    }

    /// Seeded random ones for a graph: those that [`crate::onnx::to_bytes`] writes.
    ///
    /// # Errors
    /// [`TfliteError::Weights`] where the graph has no ONNX form.
    pub fn seeded(graph: &Graph, seed: u64) -> Result<Self, TfliteError> {
        let bytes = to_bytes(graph, &WriteOptions::seeded(seed))
            .map_err(|e| TfliteError::Weights { reason: e.to_string() })?;
        Self::from_onnx(&bytes)
    }

    /// A value as floats, under the shape the graph gives it.
    ///
    /// # Errors
    /// [`TfliteError::Weights`] where it is not in the model.
    pub(super) fn array(&self, name: &str, shape: &[usize]) -> Result<Array, TfliteError> {
        let refuse =
            |reason: String| TfliteError::Weights { reason: format!("weight `{name}`: {reason}") };
        let data = match self.tensors.get(name) {
            Some(tensor) => decoded(tensor).map_err(refuse)?,
            None => self.computed(name).map(floats).ok_or_else(|| {
                refuse(
                    "it is not in the model and cannot be computed from its constants".to_owned(),
                )
            })?,
        };
        if data.len() != shape.iter().product::<usize>() {
            return Err(refuse(format!(
                "it has {} elements, its shape needs {shape:?}",
                data.len()
            )));
        }
        Ok(Array { shape: shape.to_vec(), data })
    }

    fn computed(&self, name: &str) -> Option<&ConstantData> {
        let folded = self.folded.get_or_init(|| {
            let Ok(graph) = read_weights("weights", &self.onnx, &ReadOptions::default()) else {
                return HashMap::new();
            };
            let known = |value: &crate::Value| match &value.source {
                ValueSource::Constant(Some(data)) if !self.tensors.contains_key(&value.name) => {
                    Some((value.name.clone(), data.clone()))
                }
                _ => None,
            };
            graph.values().iter().filter_map(known).collect()
        });
        folded.get(name)
    }
}

fn decoded(tensor: &TensorProto) -> Result<Vec<f32>, String> {
    if tensor.data_type == 1 && !tensor.raw_data.is_empty() {
        return Ok(tensor
            .raw_data
            .as_chunks::<4>()
            .0
            .iter()
            .map(|b| f32::from_le_bytes(*b))
            .collect());
    }
    tensor_values(tensor).map(|data| floats(&data))
}

fn floats(data: &ConstantData) -> Vec<f32> {
    match data {
        ConstantData::Floats(v) => v.iter().map(|&v| v as f32).collect(),
        ConstantData::Ints(v) => v.iter().map(|&v| v as f32).collect(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::{Attributes, GraphBuilder, OpKind, TensorSpec};

    #[test]
    fn weights_are_found_by_name_and_absent_ones_are_told() {
        let mut b = GraphBuilder::new("m");
        let x = b.input("x", TensorSpec::f32([2, 100]));
        let y = b.linear("fc", x, 7, true).unwrap();
        let y = b.op("relu", OpKind::Relu, Attributes::new(), &[y]).unwrap();
        let weights = Weights::seeded(&b.finish(vec![y]).unwrap(), 3).unwrap();
        let weight = weights.array("fc.weight", &[7, 100]).unwrap();
        assert!(weight.data.len() == 700 && weight.data.iter().any(|&v| v != 0.0));
        let message =
            |r: Result<Array, TfliteError>| r.err().map(|e| e.to_string()).unwrap_or_default();
        assert!(message(weights.array("nope", &[1])).contains("`nope`"));
        assert!(message(weights.array("fc.weight", &[3])).contains("700"));
        assert!(message(Weights::from_onnx(b"no model").map(|_| weight)).contains("damaged"));
    }
}
