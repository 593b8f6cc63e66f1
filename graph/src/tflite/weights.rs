//! The values of a model's weights, out of the ONNX bytes that engines of ONNX get.

use super::TfliteError;
use super::expression::Array;
use crate::onnx::proto::{AttributeProto, ModelProto, NodeProto, TensorProto};
use crate::onnx::{WriteOptions, tensor_values, to_bytes};
use crate::{ConstantData, Graph};
use prost::Message;
use std::collections::HashMap;

/// The weights of one model, by name.
#[derive(Clone, Debug, Default)]
pub struct Weights {
    tensors: HashMap<String, TensorProto>,
    /// Nodes by output: some compute constants from constants.
    nodes: HashMap<String, NodeProto>,
}

/// Constants computed from constants computed from constants: deeper than this is no real model.
const DEEPEST: usize = 64;

impl Weights {
    /// Of a self-contained ONNX file's bytes.
    ///
    /// # Errors
    /// [`TfliteError::Weights`] when they are none.
    pub fn from_onnx(bytes: &[u8]) -> Result<Self, TfliteError> {
        let model = ModelProto::decode(bytes).map_err(|e| TfliteError::Weights { reason: format!("the model's bytes are damaged ({e})") })?;
        let graph = model.graph.unwrap_or_default();
        let mut nodes = HashMap::new();
        for node in graph.node {
            for output in node.output.clone() {
                nodes.insert(output, node.clone());
            }
        }
        Ok(Self { tensors: graph.initializer.into_iter().map(|t| (t.name.clone(), t)).collect(), nodes })
    }

    /// Seeded random ones for a graph: those that [`crate::onnx::to_bytes`] writes.
    ///
    /// # Errors
    /// [`TfliteError::Weights`] where the graph has no ONNX form.
    pub fn seeded(graph: &Graph, seed: u64) -> Result<Self, TfliteError> {
        let bytes = to_bytes(graph, &WriteOptions::seeded(seed)).map_err(|e| TfliteError::Weights { reason: e.to_string() })?;
        Self::from_onnx(&bytes)
    }

    /// A value as floats, under the shape the graph gives it.
    pub(super) fn array(&self, name: &str, shape: &[usize]) -> Result<Array, TfliteError> {
        let array = self.value(name, 0).map_err(|reason| TfliteError::Weights { reason: format!("weight `{name}`: {reason}") })?;
        if array.data.len() != shape.iter().product::<usize>() {
            return Err(TfliteError::Weights { reason: format!("weight `{name}` has {} elements, its shape wants {shape:?}", array.data.len()) });
        }
        Ok(Array { shape: shape.to_vec(), data: array.data })
    }

    fn value(&self, name: &str, depth: usize) -> Result<Array, String> {
        if let Some(tensor) = self.tensors.get(name) {
            return decoded(tensor);
        }
        let node = self.nodes.get(name).filter(|_| depth < DEEPEST).ok_or("it is not in the model")?;
        computed(self, node, name, depth)
    }
}

fn decoded(tensor: &TensorProto) -> Result<Array, String> {
    let shape = tensor.dims.iter().map(|&d| usize::try_from(d).map_err(|_| format!("it has a dimension of {d}"))).collect::<Result<Vec<_>, _>>()?;
    let count: usize = shape.iter().product();
    if tensor.data_type == 1 && tensor.raw_data.len() == count * 4 {
        let data = tensor.raw_data.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
        return Ok(Array { shape, data });
    }
    let data = match tensor_values(tensor)? {
        ConstantData::Floats(v) => v.into_iter().map(|v| v as f32).collect(),
        ConstantData::Ints(v) => v.into_iter().map(|v| v as f32).collect(),
    };
    Ok(Array { shape, data })
}

fn attribute<'a>(node: &'a NodeProto, name: &str) -> Option<&'a AttributeProto> {
    node.attribute.iter().find(|a| a.name == name)
}

/// The value of a node whose inputs are constants, of the operators exporters leave behind.
fn computed(weights: &Weights, node: &NodeProto, output: &str, depth: usize) -> Result<Array, String> {
    let input = |index: usize| {
        let name = node.input.get(index).ok_or_else(|| format!("{} lacks an input", node.op_type))?;
        weights.value(name, depth + 1)
    };
    let zip = |f: fn(f32, f32) -> f32| -> Result<Array, String> { Ok(input(0)?.zipped(&input(1)?, f)) };
    let map = |f: fn(f32) -> f32| -> Result<Array, String> {
        let mut x = input(0)?;
        x.data.iter_mut().for_each(|v| *v = f(*v));
        Ok(x)
    };
    match node.op_type.as_str() {
        "Constant" => match node.attribute.first() {
            Some(AttributeProto { t: Some(tensor), .. }) => decoded(tensor),
            Some(a) if a.name == "value_float" => Ok(Array { shape: Vec::new(), data: vec![a.f] }),
            Some(a) if a.name == "value_int" => Ok(Array { shape: Vec::new(), data: vec![a.i as f32] }),
            Some(a) if a.name == "value_floats" => Ok(Array { shape: vec![a.floats.len()], data: a.floats.clone() }),
            Some(a) if a.name == "value_ints" => Ok(Array { shape: vec![a.ints.len()], data: a.ints.iter().map(|&v| v as f32).collect() }),
            _ => Err("its Constant has no value".to_owned()),
        },
        "Identity" | "Cast" | "Dropout" => input(0),
        // The elements stay in order; shapes are the graph's business, unless something between needs them.
        "Reshape" | "Flatten" | "Squeeze" | "Unsqueeze" => input(0).and_then(|x| x.reshaped(node, &|i| input(i))),
        "Transpose" => {
            let x = input(0)?;
            let perm: Vec<usize> = match attribute(node, "perm") {
                Some(a) => a.ints.iter().map(|&p| p as usize).collect(),
                None => (0..x.shape.len()).rev().collect(),
            };
            if perm.len() != x.shape.len() || perm.iter().any(|&p| p >= perm.len()) {
                return Err("its permutation does not fit".to_owned());
            }
            Ok(x.transposed(&perm))
        }
        "Add" => zip(|a, b| a + b),
        "Sub" => zip(|a, b| a - b),
        "Mul" => zip(|a, b| a * b),
        "Div" => zip(|a, b| a / b),
        "Pow" => zip(f32::powf),
        "Sqrt" => map(f32::sqrt),
        "Exp" => map(f32::exp),
        "Neg" => map(|v| -v),
        "Reciprocal" => map(|v| 1.0 / v),
        "Sigmoid" => map(|v| 1.0 / (1.0 + (-v).exp())),
        "Tanh" => map(f32::tanh),
        "Relu" => map(|v| v.max(0.0)),
        other => Err(format!("`{output}` is computed by {other} from constants; fold constants when exporting")),
    }
}

impl Array {
    fn zipped(&self, other: &Self, f: fn(f32, f32) -> f32) -> Self {
        let shape = crate::shape::broadcast(&self.shape, &other.shape).unwrap_or_else(|_| self.shape.clone());
        let (a, b) = (self.broadcast(&shape), other.broadcast(&shape));
        Self { shape, data: a.data.iter().zip(&b.data).map(|(&a, &b)| f(a, b)).collect() }
    }

    /// The shape ONNX gives the elements.
    fn reshaped(self, node: &NodeProto, input: &dyn Fn(usize) -> Result<Self, String>) -> Result<Self, String> {
        let ints = |index: usize, name: &str| -> Result<Option<Vec<i64>>, String> {
            match attribute(node, name) {
                Some(a) => Ok(Some(a.ints.clone())),
                None if node.input.len() > index => Ok(Some(input(index)?.data.iter().map(|&v| v as i64).collect())),
                None => Ok(None),
            }
        };
        let old = self.shape.clone();
        let from_front = |a: i64, rank: usize| usize::try_from(if a < 0 { a + rank as i64 } else { a }).unwrap_or(0);
        let shape: Vec<usize> = match node.op_type.as_str() {
            "Reshape" => {
                let wanted = ints(1, "shape")?.ok_or("its shape is missing")?;
                let mut shape: Vec<usize> =
                    wanted.iter().enumerate().map(|(i, &d)| if d == 0 { old.get(i).copied().unwrap_or(1) } else { d.max(1) as usize }).collect();
                if let Some(open) = wanted.iter().position(|&d| d == -1) {
                    shape[open] = self.data.len() / shape.iter().product::<usize>().max(1);
                }
                shape
            }
            "Flatten" => {
                let axis = attribute(node, "axis").map_or(1, |a| from_front(a.i, old.len())).min(old.len());
                vec![old[..axis].iter().product(), old[axis..].iter().product()]
            }
            "Squeeze" => match ints(1, "axes")? {
                Some(axes) => {
                    let gone: Vec<usize> = axes.iter().map(|&a| from_front(a, old.len())).collect();
                    old.iter().enumerate().filter(|(d, _)| !gone.contains(d)).map(|(_, &s)| s).collect()
                }
                None => old.iter().copied().filter(|&d| d != 1).collect(),
            },
            _ => {
                let axes = ints(1, "axes")?.unwrap_or_default();
                let rank = old.len() + axes.len();
                let new: Vec<usize> = axes.iter().map(|&a| from_front(a, rank)).collect();
                let mut rest = old.iter();
                (0..rank).map(|d| if new.contains(&d) { 1 } else { rest.next().copied().unwrap_or(1) }).collect()
            }
        };
        if shape.iter().product::<usize>() != self.data.len() {
            return Err(format!("{} elements do not fit {shape:?}", self.data.len()));
        }
        Ok(Self { shape, data: self.data })
    }
}
