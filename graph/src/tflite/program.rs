//! A TensorFlow Lite model before it is bytes: tensors and operators in execution order. Constants
//! hold the source of their values, not the values, so that a program can be made without weights.

use super::expression::Expression;
use super::generated::Integers;
use super::schema::{Code, Fused, Options};
use crate::{
    Attribute, Attributes, ConstantData, Graph, GraphError, MemoryFormat, Node, OpKind, OpSpec,
    Operand, Precision, TensorSpec, Value, ValueId, ValueSource,
};
use std::sync::Arc;

/// Index of a tensor in its program.
pub(crate) type TensorId = usize;

/// Where a tensor's values come from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Payload {
    /// Computed, or given by the caller.
    Activation,
    /// Known while writing: axes, shapes, permutations, indices.
    Ints(Arc<Integers>),
    /// From the weights.
    Weight(Expression),
    /// The bytes themselves.
    Bytes(Vec<u8>),
}

/// The quantisation of a tensor: its values are scale * (integer - zero point).
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Quantization {
    /// One, or one per slice along `axis`.
    pub scales: Vec<f64>,
    pub zero_point: i64,
    pub axis: usize,
}

/// One tensor as the engine stores it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tensor {
    pub name: String,
    /// Stored shape.
    pub shape: Vec<usize>,
    pub precision: Precision,
    pub payload: Payload,
    /// Whether this is an image N, C, H, W stored channels last.
    pub channels_last: bool,
    /// Whether it only steers the operator that reads it.
    pub steering: bool,
    /// The quantisation of integers that represent floats.
    pub quantization: Option<Quantization>,
}

/// One operator.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Operation {
    pub code: Code,
    pub options: Options,
    pub fused: Fused,
    pub inputs: Vec<TensorId>,
    pub outputs: Vec<TensorId>,
    /// Name of the node it comes from.
    pub node: String,
    pub kind: OpKind,
    pub attributes: Attributes,
}

/// An input or output of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// The value's name in the graph.
    pub name: String,
    /// Shape in the graph.
    pub shape: Vec<usize>,
    /// The graph's dimensions in the order the engine stores them: `[0, 2, 3, 1]` for an image
    /// stored channels last.
    pub layout: Vec<usize>,
    /// Element type the engine takes or gives.
    pub precision: Precision,
}

impl Port {
    /// Shape in the engine.
    #[must_use]
    pub fn stored_shape(&self) -> Vec<usize> {
        super::layout::stored(&self.layout, &self.shape)
    }
}

/// Tensors and operators in execution order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Program {
    pub name: String,
    pub tensors: Vec<Tensor>,
    pub operations: Vec<Operation>,
    pub inputs: Vec<(TensorId, Port)>,
    pub outputs: Vec<(TensorId, Port)>,
}

impl Tensor {
    /// Shape channels first, type and memory format.
    pub(crate) fn spec(&self) -> TensorSpec {
        let mut shape = self.shape.clone();
        if !self.channels_last || shape.len() < 3 {
            return TensorSpec::new(shape, self.precision);
        }
        shape[1..].rotate_right(1);
        TensorSpec::new(shape, self.precision).with_format(MemoryFormat::ChannelsLast)
    }
}

impl Program {
    /// Drops operations without readers, and the tensors that are then unused.
    pub(crate) fn sweep(&mut self) {
        let mut needed = vec![false; self.tensors.len()];
        self.inputs.iter().chain(&self.outputs).for_each(|(id, _)| needed[*id] = true);
        let mut kept = Vec::with_capacity(self.operations.len());
        for operation in std::mem::take(&mut self.operations).into_iter().rev() {
            if operation.outputs.iter().any(|&id| needed[id]) {
                operation.inputs.iter().chain(&operation.outputs).for_each(|&id| needed[id] = true);
                kept.push(operation);
            }
        }
        kept.reverse();
        let mut next = 0;
        let mut numbered = |&needed: &bool| {
            let own = next;
            next += usize::from(needed);
            own
        };
        let number: Vec<TensorId> = needed.iter().map(&mut numbered).collect();
        for operation in &mut kept {
            operation
                .inputs
                .iter_mut()
                .chain(&mut operation.outputs)
                .for_each(|id| *id = number[*id]);
        }
        self.inputs.iter_mut().chain(&mut self.outputs).for_each(|(id, _)| *id = number[*id]);
        let mut needed = needed.into_iter();
        self.tensors.retain(|_| needed.next().unwrap_or(false));
        self.operations = kept;
    }

    /// The operators as a graph: node k is operation k, named after the node it comes from. Tensors
    /// that only parametrise an operation are left out.
    ///
    /// # Errors
    /// [`GraphError`] when operations are not in the order of execution.
    pub(crate) fn graph(&self) -> Result<Graph, GraphError> {
        self.graph_of(|_| None)
    }

    /// The same with the values of constants.
    pub(super) fn graph_of(
        &self,
        values: impl Fn(TensorId) -> Option<ConstantData>,
    ) -> Result<Graph, GraphError> {
        let id = |tensor: TensorId| ValueId(tensor as u32);
        let source = |at: TensorId, tensor: &Tensor| {
            if tensor.payload == Payload::Activation {
                ValueSource::Input
            } else {
                ValueSource::Constant(values(at))
            }
        };
        let value = |(at, t): (TensorId, &Tensor)| Value {
            name: t.name.clone(),
            tensor: Some(t.spec()),
            source: source(at, t),
        };
        let values = self.tensors.iter().enumerate().map(value).collect();
        let node = |operation: &Operation| Node {
            name: operation.node.clone(),
            op: self.spec(operation),
            written: None,
            inputs: operation
                .inputs
                .iter()
                .copied()
                .filter(|&t| !self.tensors[t].steering)
                .map(id)
                .collect(),
            outputs: operation.outputs.iter().copied().map(id).collect(),
        };
        let ports =
            |ports: &[(TensorId, Port)]| ports.iter().map(|(tensor, _)| id(*tensor)).collect();
        Graph::new(
            self.name.clone(),
            values,
            self.operations.iter().map(node).collect(),
            ports(&self.inputs),
            ports(&self.outputs),
        )
    }

    /// The operator of an operation, as in all graphs.
    pub(crate) fn spec(&self, operation: &Operation) -> OpSpec {
        let mut attributes = operation.attributes.clone();
        let activation = match operation.fused {
            Fused::None => None,
            Fused::Relu => Some("relu"),
            Fused::ReluN1To1 | Fused::Relu6 => Some("clip"),
        };
        if let Some(name) = activation {
            attributes.set("activation", Attribute::Text(name.to_owned()));
        }
        let data = operation.inputs.iter().map(|&id| &self.tensors[id]).filter(|t| !t.steering);
        let inputs = data
            .map(|t| Operand { tensor: t.spec(), constant: t.payload != Payload::Activation })
            .collect();
        let mut spec = OpSpec {
            kind: operation.kind.clone(),
            attributes,
            inputs,
            outputs: operation.outputs.iter().map(|&id| self.tensors[id].spec()).collect(),
        };
        if operation.code == Code::DepthwiseConv
            && let Some(weight) = spec.inputs.get_mut(1)
            && weight.tensor.rank() == 4
        {
            weight.tensor.shape.swap(0, 1);
        }
        spec
    }
}
