//! The values of a model's constants, for engines that take tensors instead of a file.
//!
//! [`Constants::bytes`] returns values that the file stores. A constant that the file computes from
//! others (the transpose of a weight, a table lookup) is folded away in the [`Graph`], and its
//! values are not stored: [`Constants::computed`] returns the graph that computes it, which the
//! engine runs once.

use super::proto::{
    DimensionProto, GraphProto, ModelProto, TensorProto, TensorShapeProto, TensorTypeProto,
    TypeProto, ValueInfoProto,
};
use super::prune::{Copies, prune};
use super::{OnnxError, ReadOptions, payload};
use crate::{Graph, GraphError, Precision, TensorSpec, ValueId};
use prost::Message;
use std::{
    borrow::Cow,
    collections::{BTreeSet, HashMap, HashSet},
    path::Path,
};

/// The constants of one model.
#[derive(Debug)]
pub struct Constants {
    graph: GraphProto,
    model: ModelProto,
    /// Index of each initializer.
    initializers: HashMap<String, usize>,
    /// Index of the node that provides a value.
    producers: HashMap<String, usize>,
}

impl Constants {
    /// Of a model whose weights are inside ([`super::materialize`]); errors show `name` as the
    /// file.
    ///
    /// # Errors
    /// [`OnnxError::NotOnnx`].
    pub fn read(name: &str, bytes: &[u8]) -> Result<Self, OnnxError> {
        let foreign = |reason: String| OnnxError::NotOnnx { path: name.into(), reason };
        let mut model = ModelProto::decode(bytes)
            .map_err(|error| foreign(format!("the file is damaged or truncated ({error})")))?;
        let graph = model.graph.take().ok_or_else(|| foreign("it holds no graph".to_owned()))?;
        let initializers =
            graph.initializer.iter().enumerate().map(|(i, t)| (t.name.clone(), i)).collect();
        let outputs = |(i, node): (usize, &super::proto::NodeProto)| {
            node.output.iter().map(move |o| (o.clone(), i)).collect::<Vec<_>>()
        };
        let producers = graph.node.iter().enumerate().flat_map(outputs).collect();
        Ok(Self { graph, model, initializers, producers })
    }

    /// Type and values of an initializer or a Constant node, row by row, little-endian; `None`
    /// where the file does not hold them.
    #[must_use]
    pub fn bytes(&self, name: &str) -> Option<(TensorSpec, Cow<'_, [u8]>)> {
        let tensor = self.tensor(name)?;
        let spec = payload::spec(&tensor.into()).ok().flatten()?;
        let bytes = if tensor.raw_data.is_empty() {
            Cow::Owned(typed(tensor, spec.precision))
        } else {
            Cow::Borrowed(tensor.raw_data.as_slice())
        };
        (bytes.len() as u64 == spec.size_bytes()).then_some((spec, bytes))
    }

    /// The graph that computes these constants: its outputs are the constants, its inputs their
    /// values in the file, except small integers that only parametrise operators.
    ///
    /// # Errors
    /// [`OnnxError`] as for any model.
    pub fn computed(&self, name: &str, outputs: &[String]) -> Result<Graph, OnnxError> {
        let mut graph = GraphProto {
            output: outputs
                .iter()
                .map(|name| ValueInfoProto { name: name.clone(), r#type: None })
                .collect(),
            ..Default::default()
        };
        let (mut seen, mut nodes) = (HashSet::new(), BTreeSet::new());
        let mut open: Vec<&str> = outputs.iter().map(String::as_str).collect();
        while let Some(value) = open.pop() {
            if !seen.insert(value) {
                continue;
            }
            match (self.tensor(value), self.producers.get(value)) {
                (Some(tensor), _) if !steers(tensor) => graph.input.push(declared(value, tensor)),
                (Some(tensor), None) => graph.initializer.push(tensor.clone()),
                (_, Some(&index)) => {
                    nodes.insert(index);
                    open.extend(self.graph.node[index].input.iter().map(String::as_str));
                }
                (None, None) => {}
            }
        }
        graph.node = nodes.into_iter().map(|index| self.graph.node[index].clone()).collect();
        graph.input.extend(
            self.graph
                .input
                .iter()
                .filter(|i| {
                    seen.contains(i.name.as_str()) && !self.initializers.contains_key(&i.name)
                })
                .cloned(),
        );
        let model = ModelProto { graph: Some(graph), ..self.model.clone() };
        let read = super::read(
            (Path::new(name), None),
            name,
            &model.encode_to_vec(),
            &ReadOptions::default(),
            payload::Limits::COMPUTED,
        )?;
        only_inputs_that_are_read(read.graph)
            .map_err(|source| OnnxError::Graph { path: name.into(), source })
    }

    /// The tensor of an initializer or a Constant node.
    fn tensor(&self, name: &str) -> Option<&TensorProto> {
        if let Some(&index) = self.initializers.get(name) {
            return Some(&self.graph.initializer[index]);
        }
        let node = &self.graph.node[*self.producers.get(name)?];
        node.attribute.iter().find(|a| node.op_type == "Constant" && a.name == "value")?.t.as_ref()
    }
}

/// Of inputs of the model a constant takes the shape at most: nodes that read them are folded away.
fn only_inputs_that_are_read(graph: Graph) -> Result<Graph, GraphError> {
    let consumers = graph.consumers();
    let read = |id: &ValueId| !consumers[id.0 as usize].is_empty() || graph.outputs().contains(id);
    let inputs = graph.inputs().iter().copied().filter(read).collect();
    let kept = prune(
        graph.values().to_vec(),
        graph.nodes().to_vec(),
        inputs,
        graph.outputs().to_vec(),
        (&Copies::default(), usize::MAX),
    );
    Graph::new(graph.name(), kept.values, kept.nodes, kept.inputs, kept.outputs)
}

/// Integers that are few enough to be shapes, axes and the like.
fn steers(tensor: &TensorProto) -> bool {
    let few = tensor.dims.iter().try_fold(1i64, |n, &d| n.checked_mul(d)).is_some_and(|n| n <= 64);
    few && payload::precision(tensor.data_type).is_some_and(|p| !p.is_float())
}

/// An initializer as an input.
fn declared(name: &str, tensor: &TensorProto) -> ValueInfoProto {
    let dim = tensor
        .dims
        .iter()
        .map(|&d| DimensionProto { dim_value: Some(d), dim_param: None })
        .collect();
    let tensor_type =
        TensorTypeProto { elem_type: tensor.data_type, shape: Some(TensorShapeProto { dim }) };
    ValueInfoProto {
        name: name.to_owned(),
        r#type: Some(TypeProto { tensor_type: Some(tensor_type) }),
    }
}

/// Values that are not raw; 16-bit floats and small integers are kept in `int32_data`.
fn typed(tensor: &TensorProto, precision: Precision) -> Vec<u8> {
    match precision {
        Precision::F32 => tensor.float_data.iter().flat_map(|v| v.to_le_bytes()).collect(),
        Precision::F64 => tensor.double_data.iter().flat_map(|v| v.to_le_bytes()).collect(),
        Precision::I64 if !tensor.uint64_data.is_empty() => {
            tensor.uint64_data.iter().flat_map(|v| v.to_le_bytes()).collect()
        }
        Precision::I64 => tensor.int64_data.iter().flat_map(|v| v.to_le_bytes()).collect(),
        Precision::I32 if tensor.int32_data.is_empty() => {
            tensor.uint64_data.iter().flat_map(|&v| (v as u32).to_le_bytes()).collect()
        }
        Precision::I32 => tensor.int32_data.iter().flat_map(|v| v.to_le_bytes()).collect(),
        Precision::F16 | Precision::Bf16 | Precision::I16 => {
            tensor.int32_data.iter().flat_map(|&v| (v as u16).to_le_bytes()).collect()
        }
        Precision::I8 | Precision::U8 | Precision::Bool => {
            tensor.int32_data.iter().map(|&v| v as u8).collect()
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::{ConstantData, OpKind, ValueSource, onnx::proto::NodeProto};

    fn tensor(name: &str, data_type: i32, dims: &[i64]) -> TensorProto {
        TensorProto { name: name.to_owned(), data_type, dims: dims.to_vec(), ..Default::default() }
    }

    fn node(op_type: &str, inputs: &[&str], output: &str) -> NodeProto {
        let input = inputs.iter().map(|&i| i.to_owned()).collect();
        NodeProto {
            op_type: op_type.to_owned(),
            input,
            output: vec![output.to_owned()],
            ..Default::default()
        }
    }

    #[test]
    fn stored_and_computed_constants() {
        let weight = TensorProto { float_data: vec![1.0, 2.0], ..tensor("w", 1, &[1, 2]) };
        let shape = TensorProto { int64_data: vec![2, 1], ..tensor("shape", 7, &[2]) };
        let half = TensorProto { int32_data: vec![0x3c00], ..tensor("half", 10, &[1]) };
        let graph = GraphProto {
            initializer: vec![weight, shape, half, tensor("absent", 1, &[3])],
            node: vec![
                node("Reshape", &["w", "shape"], "column"),
                node("Relu", &["column"], "unused"),
            ],
            output: vec![ValueInfoProto { name: "unused".to_owned(), r#type: None }],
            ..Default::default()
        };
        let opset = crate::onnx::proto::OperatorSetIdProto { version: 17, ..Default::default() };
        let model = ModelProto {
            graph: Some(graph),
            opset_import: vec![opset],
            ir_version: 8,
            ..Default::default()
        };
        let constants = Constants::read("m", &model.encode_to_vec()).unwrap();
        let (spec, bytes) = constants.bytes("w").unwrap();
        assert_eq!((spec, &bytes[4..]), (TensorSpec::f32([1, 2]), &2f32.to_le_bytes()[..]));
        assert_eq!(&*constants.bytes("half").unwrap().1, [0x00, 0x3c]);
        assert!(constants.bytes("absent").is_none() && constants.bytes("column").is_none());
        let column = constants.computed("m", &["column".to_owned()]).unwrap();
        assert_eq!(
            column.nodes().iter().map(|n| n.op.kind.clone()).collect::<Vec<_>>(),
            [OpKind::Reshape]
        );
        assert_eq!(
            column.inputs().iter().map(|&i| column.value(i).name.as_str()).collect::<Vec<_>>(),
            ["w"]
        );
        assert_eq!(column.value(column.outputs()[0]).tensor, Some(TensorSpec::f32([2, 1])));
        assert!(Constants::read("m", b"no").is_err());
    }

    #[test]
    fn constants_of_an_inputs_shape_do_not_need_the_input() {
        let ints = |name: &str, values: &[i64]| TensorProto {
            int64_data: values.to_vec(),
            ..tensor(name, 7, &[values.len() as i64])
        };
        let shape = [node("Relu", &["x"], "y"), node("Shape", &["y"], "rows")];
        let expanded = [
            node("Slice", &["rows", "zero", "one"], "first"),
            node("Expand", &["first", "size"], "many"),
        ];
        let graph = GraphProto {
            initializer: vec![ints("size", &[100, 100]), ints("zero", &[0]), ints("one", &[1])],
            input: vec![declared("x", &tensor("x", 1, &[7, 9]))],
            node: [shape, expanded].concat(),
            ..Default::default()
        };
        let opset = crate::onnx::proto::OperatorSetIdProto { version: 17, ..Default::default() };
        let model = ModelProto {
            graph: Some(graph),
            opset_import: vec![opset],
            ir_version: 8,
            ..Default::default()
        };
        let constants = Constants::read("m", &model.encode_to_vec()).unwrap();
        let many = constants.computed("m", &["many".to_owned()]).unwrap();
        assert!(many.inputs().is_empty() && many.nodes().is_empty());
        assert_eq!(
            many.value(many.outputs()[0]).source,
            ValueSource::Constant(Some(ConstantData::Ints(vec![7; 10_000])))
        );
    }
}
