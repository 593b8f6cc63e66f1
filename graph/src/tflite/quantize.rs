//! A program in 8-bit integers, as static quantisers of TensorFlow Lite write it: products and the
//! operators between them compute on integers, with QUANTIZE and DEQUANTIZE at the borders to
//! floats.
//!
//! | operator | computes on integers |
//! |---|---|
//! | convolution, depthwise convolution, linear layer with constant weights | always; weights one scale per output channel, bias i32 |
//! | sum of two computed tensors | where one of them is integers already |
//! | padding before convolutions | always; the output has the same scale |
//! | maximum pool, other padding, movement | where its input is integers already; the output has the same scale |
//! | mean over an image | where its input is integers already |
//!
//! A ReLU behind a sum of integers is the lower end of the range that the sum is written in.
//! Activations are i8 with a zero point; ranges are those of [`crate::quantize`]. Everything else
//! stays in floats, and so do inputs and outputs of the model.

use super::TfliteError;
use super::program::{Operation, Payload, Program, Quantization, Tensor, TensorId};
use super::schema::{Code, Fused, Options};
use super::weights::Weights;
use crate::quantize::moments::{self, Moments};
use crate::quantize::scale;
use crate::{Attribute, Attributes, Budget, ConstantData, OpKind, Precision};
use std::collections::{HashMap, HashSet};

/// The program in integers. `values`: the weights, and the range of the model's inputs; without
/// them only its structure is right.
///
/// # Errors
/// [`TfliteError`] where a weight is absent.
pub(super) fn quantize(
    program: Program,
    values: Option<(&Weights, (f64, f64))>,
    budget: &Budget,
) -> Result<Program, TfliteError> {
    budget.steps(program.operations.len() as u64)?;
    let moments = match values {
        Some((weights, input)) => ranges(&program, weights, input, budget)?,
        None => vec![None; program.tensors.len()],
    };
    let mut readers = vec![Vec::new(); program.tensors.len()];
    for (index, operation) in program.operations.iter().enumerate() {
        operation.inputs.iter().for_each(|&id| readers[id].push(index));
    }
    let Program { name, tensors, operations, inputs, outputs } = program;
    let kept: HashSet<TensorId> = outputs.iter().map(|(id, _)| *id).collect();
    let floats = inputs.iter().map(|(id, _)| *id).collect();
    let program = Program {
        name,
        tensors,
        operations: Vec::with_capacity(2 * operations.len()),
        inputs,
        outputs,
    };
    let mut pass = Pass {
        program,
        weights: values.map(|(w, _)| w),
        budget,
        moments,
        floats,
        integers: HashMap::new(),
        native: HashSet::new(),
        constants: HashMap::new(),
    };
    let mut absorbed = HashSet::new();
    for (index, operation) in operations.iter().enumerate().filter(|(_, o)| !o.outputs.is_empty()) {
        if absorbed.contains(&index) {
            continue;
        }
        let products = |id: TensorId| {
            readers[id]
                .iter()
                .all(|&r| matches!(operations[r].code, Code::Conv | Code::DepthwiseConv))
        };
        if operation.code == Code::Pad
            && products(operation.outputs[0])
            && !kept.contains(&operation.outputs[0])
        {
            pass.pad(operation);
            continue;
        }
        match pass.role(operation) {
            Role::Product(axis) => pass.product(operation, axis)?,
            Role::Sum => {
                let sum = operation.outputs[0];
                let clamp = match readers[sum][..] {
                    [one]
                        if !kept.contains(&sum)
                            && matches!(operations[one].code, Code::Relu | Code::Relu6) =>
                    {
                        Some(one)
                    }
                    _ => None,
                };
                absorbed.extend(clamp);
                pass.sum(operation, clamp.map_or(sum, |one| operations[one].outputs[0]));
            }
            Role::Mean => pass.written(operation, &operation.outputs, |pass, id| pass.native(id)),
            Role::Movement => {
                pass.written(operation, &operation.outputs, |pass, _| pass.given(operation));
            }
            Role::Floats => pass.in_floats(operation),
        }
    }
    let outputs: Vec<(TensorId, String)> =
        pass.program.outputs.iter().map(|(id, port)| (*id, port.name.clone())).collect();
    outputs.into_iter().for_each(|(id, name)| pass.float(id, &name));
    pass.program.sweep();
    Ok(pass.program)
}

/// How an operator computes.
enum Role {
    /// On integers; its weight's scales lie along this axis.
    Product(usize),
    Sum,
    Mean,
    /// Integers in, the same integers out.
    Movement,
    Floats,
}

struct Pass<'a> {
    /// The program so far. A tensor of the old program has the same index here, in floats.
    program: Program,
    weights: Option<&'a Weights>,
    budget: &'a Budget,
    moments: Vec<Option<Moments>>,
    /// Tensors that exist in floats.
    floats: HashSet<TensorId>,
    /// Their form in integers.
    integers: HashMap<TensorId, TensorId>,
    /// Those an operator on integers computes.
    native: HashSet<TensorId>,
    /// Weights in integers, and their scales.
    constants: HashMap<TensorId, (TensorId, Vec<f64>)>,
}

impl Pass<'_> {
    fn role(&self, operation: &Operation) -> Role {
        let tensor =
            |index: usize| operation.inputs.get(index).map(|&id| &self.program.tensors[id]);
        let computed = |index: usize| {
            tensor(index)
                .is_some_and(|t| t.payload == Payload::Activation && t.precision == Precision::F32)
        };
        let constant =
            |index: usize| tensor(index).is_some_and(|t| matches!(t.payload, Payload::Weight(_)));
        let whole =
            |index: usize| operation.inputs.get(index).is_some_and(|id| self.native.contains(id));
        let product =
            operation.fused != Fused::ReluN1To1 && computed(0) && constant(1) && constant(2);
        match operation.code {
            Code::Conv | Code::FullyConnected if product => Role::Product(0),
            Code::DepthwiseConv if product => Role::Product(3),
            Code::Add
                if operation.fused == Fused::None
                    && computed(0)
                    && computed(1)
                    && (whole(0) || whole(1)) =>
            {
                Role::Sum
            }
            Code::Mean if whole(0) && tensor(0).is_some_and(|t| t.channels_last) => Role::Mean,
            Code::MaxPool
            | Code::Reshape
            | Code::Transpose
            | Code::Pad
            | Code::Slice
            | Code::StridedSlice
                if whole(0) && operation.fused == Fused::None =>
            {
                Role::Movement
            }
            _ => Role::Floats,
        }
    }

    fn product(&mut self, operation: &Operation, axis: usize) -> Result<(), TfliteError> {
        let input = self.integer(operation.inputs[0], &operation.node);
        let x = self.program.tensors[input].quantization.as_ref().map_or(1.0, |q| q.scales[0]);
        let (weight, scales) = self.weight(operation.inputs[1], axis)?;
        let sums: Vec<f64> = scales.iter().map(|w| f64::from((w * x) as f32)).collect();
        let bias = self.bias(operation.inputs[2], &sums)?;
        let output = self.native(operation.outputs[0]);
        self.program.operations.push(Operation {
            inputs: vec![input, weight, bias],
            outputs: vec![output],
            ..operation.clone()
        });
        Ok(())
    }

    fn sum(&mut self, operation: &Operation, output: TensorId) {
        let inputs = operation.inputs.iter().map(|&id| self.integer(id, &operation.node)).collect();
        let outputs = vec![self.native(output)];
        self.program.operations.push(Operation { inputs, outputs, ..operation.clone() });
    }

    /// Padding before convolutions: it is integers that are padded.
    fn pad(&mut self, operation: &Operation) {
        self.integer(operation.inputs[0], &operation.node);
        self.written(operation, &operation.outputs, |pass, _| pass.given(operation));
    }

    /// An operator of one computed tensor that is integers already.
    fn written(
        &mut self,
        operation: &Operation,
        outputs: &[TensorId],
        quantized: impl Fn(&mut Self, TensorId) -> TensorId,
    ) {
        let inputs = operation
            .inputs
            .iter()
            .map(|id| self.integers.get(id).copied().unwrap_or(*id))
            .collect();
        let outputs = outputs.iter().map(|&id| quantized(self, id)).collect();
        self.program.operations.push(Operation { inputs, outputs, ..operation.clone() });
    }

    /// The output in integers of the same scale as the input's.
    fn given(&mut self, operation: &Operation) -> TensorId {
        let input = self.integers.get(&operation.inputs[0]).copied();
        let quantization = input.and_then(|id| self.program.tensors[id].quantization.clone());
        let output = operation.outputs[0];
        let at = self.native(output);
        self.program.tensors[at].quantization = quantization;
        at
    }

    fn in_floats(&mut self, operation: &Operation) {
        operation.inputs.iter().for_each(|&id| self.float(id, &operation.node));
        self.floats.extend(&operation.outputs);
        self.program.operations.push(operation.clone());
    }

    /// Ensures that a computed tensor exists in floats.
    fn float(&mut self, id: TensorId, node: &str) {
        if let Some(&integers) = self.integers.get(&id)
            && self.floats.insert(id)
        {
            self.convert(Code::Dequantize, integers, id, node);
        }
    }

    /// A computed tensor in integers.
    fn integer(&mut self, id: TensorId, node: &str) -> TensorId {
        if let Some(&integers) = self.integers.get(&id) {
            return integers;
        }
        let integers = self.activation(id);
        self.convert(Code::Quantize, id, integers, node);
        integers
    }

    fn convert(&mut self, code: Code, from: TensorId, to: TensorId, node: &str) {
        let (kind, attributes) = match code {
            Code::Quantize => (
                OpKind::Quantize,
                Attributes::new().with("to", Attribute::Text(Precision::I8.name().to_owned())),
            ),
            _ => (OpKind::Dequantize, Attributes::new()),
        };
        let (options, fused, node) = (Options::None, Fused::None, node.to_owned());
        self.program.operations.push(Operation {
            code,
            options,
            fused,
            inputs: vec![from],
            outputs: vec![to],
            node,
            kind,
            attributes,
        });
    }

    /// A new tensor for the integers that an operator computes in the place of floats.
    fn native(&mut self, id: TensorId) -> TensorId {
        self.native.insert(id);
        self.activation(id)
    }

    /// A new tensor for the integers of a computed one.
    fn activation(&mut self, id: TensorId) -> TensorId {
        let affine = self.moments.get(id).copied().flatten().map(Moments::affine);
        let (scale, zero_point) = affine.map_or((1.0, 0), |a| (a.scale, a.zero_point - 128));
        let quantization = Some(Quantization { scales: vec![scale], zero_point, axis: 0 });
        let at = self.like(id, Precision::I8, Payload::Activation, quantization);
        self.integers.insert(id, at);
        at
    }

    fn like(
        &mut self,
        id: TensorId,
        precision: Precision,
        payload: Payload,
        quantization: Option<Quantization>,
    ) -> TensorId {
        let old = &self.program.tensors[id];
        let name = format!("{}/{}", old.name, precision.name());
        self.program.tensors.push(Tensor { name, precision, payload, quantization, ..old.clone() });
        self.program.tensors.len() - 1
    }

    fn values(&self, id: TensorId) -> Result<Option<Vec<f64>>, TfliteError> {
        self.weights
            .and_then(|weights| {
                numbers(&self.program.tensors[id], weights, self.budget).transpose()
            })
            .transpose()
    }

    fn weight(&mut self, id: TensorId, axis: usize) -> Result<(TensorId, Vec<f64>), TfliteError> {
        if let Some(made) = self.constants.get(&id) {
            return Ok(made.clone());
        }
        let shape = self.program.tensors[id].shape.clone();
        // Without values there is a single scale.
        let count = self.weights.map_or(1, |_| shape.get(axis).copied().unwrap_or(1));
        let (mut scales, mut payload) =
            (vec![1.0; count], self.program.tensors[id].payload.clone());
        if let Some(floats) = self.values(id)? {
            scales = scale::symmetric_scales(
                &floats,
                scale::slices(&shape, axis),
                count,
                scale::Most::Full,
            );
            let integers = floats
                .iter()
                .zip(scale::slices(&shape, axis))
                .map(|(&v, slice)| scale::to_i8(v, scales[slice]) as i8 as u8);
            payload = Payload::Bytes(integers.collect());
        }
        let at = self.like(
            id,
            Precision::I8,
            payload,
            Some(Quantization { scales: scales.clone(), zero_point: 0, axis }),
        );
        self.constants.insert(id, (at, scales.clone()));
        Ok((at, scales))
    }

    fn bias(&mut self, id: TensorId, sums: &[f64]) -> Result<TensorId, TfliteError> {
        let mut payload = self.program.tensors[id].payload.clone();
        if let Some(floats) = self.values(id)? {
            let integers = floats
                .iter()
                .zip(sums)
                .flat_map(|(&v, &s)| (scale::to_i32(v, s) as i32).to_le_bytes());
            payload = Payload::Bytes(integers.collect());
        }
        Ok(self.like(
            id,
            Precision::I32,
            payload,
            Some(Quantization { scales: sums.to_vec(), zero_point: 0, axis: 0 }),
        ))
    }
}

/// The values of a constant of floats.
fn numbers(
    tensor: &Tensor,
    weights: &Weights,
    budget: &Budget,
) -> Result<Option<Vec<f64>>, TfliteError> {
    let Payload::Weight(expression) = &tensor.payload else { return Ok(None) };
    Ok(Some(expression.evaluate(weights, budget)?.data.into_iter().map(f64::from).collect()))
}

/// The range of every computed tensor.
fn ranges(
    program: &Program,
    weights: &Weights,
    input: (f64, f64),
    budget: &Budget,
) -> Result<Vec<Option<Moments>>, TfliteError> {
    let mut constants: HashMap<TensorId, ConstantData> = HashMap::new();
    for (id, tensor) in program.tensors.iter().enumerate() {
        constants.extend(
            numbers(tensor, weights, budget)?.map(|values| (id, ConstantData::Floats(values))),
        );
    }
    // Filters of depthwise convolutions are stored with the output channels last and spoken of with
    // them first.
    let filters: HashSet<TensorId> = program
        .operations
        .iter()
        .filter(|o| o.code == Code::DepthwiseConv)
        .map(|o| o.inputs[1])
        .collect();
    for filter in filters {
        if let (Some(ConstantData::Floats(values)), Some(&channels)) =
            (constants.get_mut(&filter), program.tensors[filter].shape.last())
        {
            *values = (0..channels)
                .flat_map(|c| values.iter().skip(c).step_by(channels.max(1)).copied())
                .collect();
        }
    }
    let graph = program.graph_of(|id| constants.get(&id).cloned())?;
    Ok(moments::propagate(&graph, input, budget)?)
}
