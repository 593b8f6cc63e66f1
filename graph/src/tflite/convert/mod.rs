//! Converts a graph to a program, node by node, in logical (channels first) terms. Operators
//! determine the layout in which each tensor is stored, and elements are moved only where two
//! operators need different layouts.
//!
//! A [`Var`] is a tensor in logical terms with the layouts in which it is stored so far. ONNX's
//! Transpose only gives it another view. An operator that needs a certain layout calls
//! [`Converter::stored`], which moves elements at most once per layout.

mod activation;
mod elementwise;
mod emit;
mod movement;
mod normalization;
mod product;
mod reduction;
mod resample;
mod selection;
mod volume;
mod window;

use super::TfliteError;
use super::expression::Expression;
use super::generated::Integers;
use super::layout::{self, Layout};
use super::program::{Payload, Port, Program, Tensor, TensorId};
use crate::{
    Attributes, Budget, ConstantData, Exceeded, Graph, Node, OpKind, Precision, Value, ValueId,
    ValueSource,
};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Index of a tensor in logical terms.
type VarId = usize;

/// A tensor in logical terms.
#[derive(Clone, Debug)]
struct Var {
    shape: Vec<usize>,
    precision: Precision,
    /// Of a constant.
    constant: Option<Constant>,
    /// Where it is stored, and how.
    stored: Vec<(Layout, TensorId)>,
}

#[derive(Clone, Debug)]
enum Constant {
    Floats(Expression),
    Ints(Arc<Integers>),
}

/// A node while it is converted.
struct Call<'a> {
    node: &'a Node,
    attributes: &'a Attributes,
    inputs: Vec<VarId>,
}

/// Why a node cannot be expressed.
type Refusal = String;

/// Most expressions of a constant inside of each other.
const DEEPEST: usize = 256;

pub(super) struct Converter<'a> {
    graph: &'a Graph,
    consumers: Vec<Vec<usize>>,
    /// For each value, whether the caller gets it.
    returned: Vec<bool>,
    budget: &'a Budget,
    program: Program,
    vars: Vec<Var>,
    values: HashMap<ValueId, VarId>,
    /// Nodes that were taken into another one.
    absorbed: HashSet<usize>,
    /// Tensors of more than one value: no operator can be fused into them.
    shared: HashSet<TensorId>,
    /// The operation that provides a tensor.
    producer: HashMap<TensorId, usize>,
    read: HashSet<TensorId>,
    /// Name of the node that is converted.
    node: String,
}

/// The program of a graph.
///
/// # Errors
/// [`TfliteError::Node`] for a node that cannot be expressed.
pub(super) fn convert(graph: &Graph, budget: &Budget) -> Result<Program, TfliteError> {
    let mut returned = vec![false; graph.values().len()];
    graph.outputs().iter().for_each(|id| returned[id.0 as usize] = true);
    let program = Program { name: graph.name().to_owned(), ..Program::default() };
    let mut converter = Converter {
        graph,
        consumers: graph.consumers(),
        returned,
        budget,
        program,
        vars: Vec::new(),
        values: HashMap::new(),
        absorbed: HashSet::new(),
        shared: HashSet::new(),
        producer: HashMap::new(),
        read: HashSet::new(),
        node: String::new(),
    };
    converter.inputs()?;
    for index in 0..graph.nodes().len() {
        converter.visit(index)?;
    }
    converter.outputs()?;
    converter.program.sweep();
    Ok(converter.program)
}

impl<'a> Converter<'a> {
    fn inputs(&mut self) -> Result<(), TfliteError> {
        let feeds_window = self.feeding_windows();
        for &id in self.graph.inputs() {
            let value = self.graph.value(id);
            let tensor = value
                .tensor
                .as_ref()
                .ok_or_else(|| TfliteError::Unknown { value: value.name.clone() })?;
            let rank = tensor.rank();
            let layout = if feeds_window[id.0 as usize] {
                layout::channels_last(rank)
            } else {
                layout::plain(rank)
            };
            let precision = engine_precision(tensor.precision);
            let port = Port {
                name: value.name.clone(),
                shape: tensor.shape.to_vec(),
                layout: layout.clone(),
                precision,
            };
            let at = self.tensor(
                &value.name,
                layout::stored(&layout, &tensor.shape),
                precision,
                is_image(&layout),
            );
            self.program.inputs.push((at, port));
            let var = self.var(tensor.shape.to_vec(), precision, vec![(layout, at)]);
            self.values.insert(id, var);
        }
        Ok(())
    }

    /// For each value, whether it is an image that leads to a window, over operators that take any
    /// layout.
    fn feeding_windows(&self) -> Vec<bool> {
        let graph = self.graph;
        let mut nodes = vec![false; graph.nodes().len()];
        let mut values = vec![false; graph.values().len()];
        let feeds = |nodes: &[bool], id: ValueId| {
            graph.value(id).tensor.as_ref().is_some_and(|t| t.rank() == 4)
                && self.consumers[id.0 as usize].iter().any(|&reader| nodes[reader])
        };
        for (index, node) in graph.nodes().iter().enumerate().rev() {
            for &output in &node.outputs {
                values[output.0 as usize] = feeds(&nodes, output);
            }
            nodes[index] = match node.op.kind {
                OpKind::Resize
                | OpKind::BatchNorm
                | OpKind::DepthToSpace
                | OpKind::SpaceToDepth
                | OpKind::InstanceNorm
                | OpKind::GroupNorm => true,
                OpKind::Reshape | OpKind::Transpose | OpKind::MatMul | OpKind::Linear => false,
                ref kind => kind.is_window() || node.outputs.iter().any(|id| values[id.0 as usize]),
            };
        }
        for &input in graph.inputs() {
            values[input.0 as usize] = feeds(&nodes, input);
        }
        values
    }

    fn outputs(&mut self) -> Result<(), TfliteError> {
        for &id in self.graph.outputs() {
            let value = self.graph.value(id);
            let wrong = |reason: String| TfliteError::Node { node: value.name.clone(), reason };
            let var = self.var_of(id)?;
            if self.vars[var].stored.is_empty() {
                let plain = layout::plain(self.vars[var].shape.len());
                self.stored(var, &plain).map_err(wrong)?;
            }
            let Var { shape, precision, stored, .. } = self.vars[var].clone();
            let Some((layout, at)) = stored.into_iter().next() else { continue };
            self.program
                .outputs
                .push((at, Port { name: value.name.clone(), shape, layout, precision }));
        }
        Ok(())
    }

    fn visit(&mut self, index: usize) -> Result<(), TfliteError> {
        if self.absorbed.contains(&index) {
            return Ok(());
        }
        let graph = self.graph;
        let node = &graph.nodes()[index];
        let before = self.program.operations.len();
        let spent = |spent: Result<(), Exceeded>| {
            spent.map_err(|source| TfliteError::Exceeded { node: Some(node.name.clone()), source })
        };
        spent(self.budget.steps(1 + (node.inputs.len() + node.outputs.len()) as u64))?;
        self.node.clone_from(&node.name);
        let inputs =
            node.inputs.iter().map(|&id| self.var_of(id)).collect::<Result<Vec<_>, _>>()?;
        let call = Call { node, attributes: &node.op.attributes, inputs };
        let outputs = self
            .dispatch(&call)
            .map_err(|reason| TfliteError::Node { node: node.name.clone(), reason })?;
        let more = (self.program.operations.len() - before) as u64;
        spent(self.budget.steps(more).and_then(|()| self.budget.nodes(more.saturating_sub(1))))?;
        for (&id, var) in node.outputs.iter().zip(outputs) {
            self.shallow(node, var)?;
            self.values.entry(id).or_insert(var);
        }
        Ok(())
    }

    /// Constants are computed from others when a file is written, one inside of the other.
    fn shallow(&self, node: &Node, var: VarId) -> Result<(), TfliteError> {
        match &self.vars[var].constant {
            Some(Constant::Floats(expression)) if expression.depth() > DEEPEST => {
                let reason = format!("it is the end of more than {DEEPEST} operators on constants");
                Err(TfliteError::Node { node: node.name.clone(), reason })
            }
            _ => Ok(()),
        }
    }

    /// The tensor of a value; constants are created when they are first read.
    fn var_of(&mut self, id: ValueId) -> Result<VarId, TfliteError> {
        if let Some(&var) = self.values.get(&id) {
            return Ok(var);
        }
        let value = self.graph.value(id);
        let Value { name, tensor: Some(tensor), source: ValueSource::Constant(data) } = value
        else {
            return Err(TfliteError::Unknown { value: value.name.clone() });
        };
        let precision = engine_precision(tensor.precision);
        let shape = tensor.shape.clone();
        let floats = || Expression::weight(name, shape.to_vec());
        let constant = match data {
            Some(ConstantData::Ints(v)) if !precision.is_float() => {
                Constant::Ints(Arc::new(Integers::Listed(v.clone())))
            }
            Some(ConstantData::Ints(v)) => Constant::Floats(Expression::numbers(
                v.iter().map(|&i| i as f32).collect(),
                shape.to_vec(),
            )),
            Some(ConstantData::Floats(v)) => Constant::Floats(Expression::numbers(
                v.iter().map(|&f| f as f32).collect(),
                shape.to_vec(),
            )),
            None => Constant::Floats(floats()),
        };
        let var = self.var(shape.to_vec(), precision, Vec::new());
        self.vars[var].constant = Some(constant);
        self.values.insert(id, var);
        Ok(var)
    }

    /// The only node that reads a value, when the caller does not get it.
    fn follower(&self, id: ValueId) -> Option<(usize, &'a Node)> {
        match self.consumers[id.0 as usize][..] {
            [one] if !self.returned[id.0 as usize] => Some((one, &self.graph.nodes()[one])),
            _ => None,
        }
    }

    /// Lets a node disappear: its output is that of the node that takes it in.
    fn absorb(&mut self, index: usize, var: VarId) {
        self.absorbed.insert(index);
        if let Some(&output) = self.graph.nodes()[index].outputs.first() {
            self.values.insert(output, var);
        }
    }

    fn dispatch(&mut self, call: &Call<'a>) -> Result<Vec<VarId>, Refusal> {
        let one = |var: Result<VarId, Refusal>| var.map(|v| vec![v]);
        match &call.node.op.kind {
            OpKind::Conv => one(self.conv(call)),
            OpKind::ConvTranspose => one(self.conv_transpose(call)),
            OpKind::MaxPool => one(self.max_pool(call)),
            OpKind::AveragePool => one(self.average_pool(call)),
            OpKind::GlobalAveragePool | OpKind::GlobalMaxPool => one(self.global_pool(call)),
            OpKind::Linear => one(self.linear(call)),
            OpKind::MatMul => one(self.matmul(call)),
            OpKind::Einsum => one(self.einsum(call)),
            OpKind::Add
            | OpKind::Sub
            | OpKind::Mul
            | OpKind::Div
            | OpKind::Min
            | OpKind::Max
            | OpKind::Mod => one(self.arithmetic(call)),
            OpKind::Pow => one(self.power(call)),
            OpKind::Compare | OpKind::Logical | OpKind::Where => one(self.logic(call)),
            OpKind::Relu
            | OpKind::LeakyRelu
            | OpKind::PRelu
            | OpKind::Elu
            | OpKind::Clip
            | OpKind::Sigmoid
            | OpKind::HardSigmoid
            | OpKind::HardSwish
            | OpKind::Silu
            | OpKind::Gelu
            | OpKind::GeluTanh
            | OpKind::Mish
            | OpKind::Softplus
            | OpKind::Erf => one(self.activation(call)),
            OpKind::Tanh
            | OpKind::Exp
            | OpKind::Log
            | OpKind::Sqrt
            | OpKind::Reciprocal
            | OpKind::Neg
            | OpKind::Abs
            | OpKind::Sin
            | OpKind::Cos
            | OpKind::Round
            | OpKind::Cast => one(self.single(call)),
            OpKind::Softmax => one(self.softmax(call)),
            OpKind::LayerNorm | OpKind::RmsNorm => one(self.layer_norm(call)),
            OpKind::BatchNorm => one(self.batch_norm(call)),
            OpKind::InstanceNorm | OpKind::GroupNorm => one(self.group_norm(call)),
            OpKind::LpNorm => one(self.lp_norm(call)),
            OpKind::ReduceMean
            | OpKind::ReduceSum
            | OpKind::ReduceMax
            | OpKind::ReduceMin
            | OpKind::ReduceL2
            | OpKind::ReduceProd => one(self.reduction(call)),
            OpKind::ArgMax => one(self.arg_max(call)),
            OpKind::TopK => self.top_k(call),
            OpKind::CumSum => one(self.cum_sum(call)),
            OpKind::Transpose => {
                let perm: Vec<usize> = numbers(call.attributes.ints("perm"))?;
                one(self.transpose(call.inputs[0], &perm))
            }
            OpKind::Reshape => {
                let shape = self.output_shape(call)?;
                one(self.reshape(call.inputs[0], &shape))
            }
            OpKind::Identity => one(Ok(self.alias(call.inputs[0]))),
            OpKind::Concat => one(self.concat(call)),
            OpKind::Split => self.split(call),
            OpKind::Slice => one(self.cut(call)),
            OpKind::Pad => one(self.padded(call)),
            OpKind::Expand => one(self.expand(call)),
            OpKind::Tile => one(self.tile(call)),
            OpKind::Gather => one(self.gather(call)),
            OpKind::GatherNd => one(self.gather_nd(call)),
            OpKind::ScatterNd => one(self.scatter_nd(call)),
            OpKind::Trilu => one(self.triangle(call)),
            OpKind::Resize => one(self.resize(call)),
            OpKind::DepthToSpace => one(self.depth_to_space(call)),
            OpKind::SpaceToDepth => one(self.space_to_depth(call)),
            OpKind::Unsupported(name) => {
                Err(format!("vitempo does not support the operator `{name}`"))
            }
            other => Err(format!("TensorFlow Lite has no operator for `{other}`")),
        }
    }

    fn output_shape(&self, call: &Call<'_>) -> Result<Vec<usize>, Refusal> {
        let output = call.node.op.outputs.first().ok_or("the shape of its output is not known")?;
        Ok(output.shape.to_vec())
    }
}

/// The element type the engine computes in for one of the graph's: 32-bit floats, 32-bit integers,
/// booleans.
fn engine_precision(precision: Precision) -> Precision {
    match precision {
        Precision::Bool => Precision::Bool,
        p if p.is_float() => Precision::F32,
        _ => Precision::I32,
    }
}

/// Whether a layout is that of an image stored channels last.
fn is_image(layout: &[usize]) -> bool {
    layout.len() >= 4 && *layout == layout::channels_last(layout.len())
}

/// Attributes that count or index, as such.
fn numbers(values: &[i64]) -> Result<Vec<usize>, Refusal> {
    values
        .iter()
        .map(|&v| usize::try_from(v).map_err(|_| format!("an attribute holds {v}")))
        .collect()
}

impl Converter<'_> {
    fn var(
        &mut self,
        shape: Vec<usize>,
        precision: Precision,
        stored: Vec<(Layout, TensorId)>,
    ) -> VarId {
        self.vars.push(Var { shape, precision, constant: None, stored });
        self.vars.len() - 1
    }

    fn tensor(
        &mut self,
        name: &str,
        shape: Vec<usize>,
        precision: Precision,
        channels_last: bool,
    ) -> TensorId {
        let (name, payload) = (name.to_owned(), Payload::Activation);
        self.program.tensors.push(Tensor {
            name,
            shape,
            precision,
            payload,
            channels_last,
            steering: false,
            quantization: None,
        });
        self.program.tensors.len() - 1
    }
}
