//! tract on the CPU: a second pure Rust engine, compiled in by the cargo feature `tract`; a
//! cross-check for the others, channels first and last.
//!
//! Models run as tract optimises them. Channels last is a property of the model: its image inputs
//! enter as N, H, W, C through a transposition that tract fuses into its convolutions. Operators
//! are timed by evaluating the plan's nodes one by one. Single precision only: tract runs half
//! precision by scalar code here, and integer models as floats. More than one thread is refused,
//! because only its matrix products could use them.

use super::{
    availability::{Availability, Capabilities},
    engine::{Backend, Model, ModelSource, ProfiledRuns, Session},
    error::BackendError,
    options::RunOptions,
    values::OutputValues,
};
use crate::{
    clock::{RunTime, Stopwatch},
    inputs,
};
use std::{collections::BTreeMap, sync::Arc};
use tract_onnx::{
    prelude::*,
    tract_core::{self, internal::TypedNode},
};
use vitempo_graph::{
    Attribute, Attributes, Graph, Measurement, MemoryFormat, OpKind, OpSpec, Operand, Precision,
    Processor, Samples, Status, TensorSpec,
};

const NAME: &str = vitempo_graph::Framework::Tract.name();
/// The version of the crate this is compiled with; the workspace's manifest pins it.
const VERSION: &str = "0.23.9";

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Tract;

struct TractSession {
    name: String,
    plan: Arc<TypedRunnableModel>,
    inputs: TVec<TValue>,
    outputs: Vec<String>,
}

impl Backend for Tract {
    fn name(&self) -> &'static str {
        NAME
    }

    fn description(&self) -> &'static str {
        "tract on the CPU, compiled in; a cross-check"
    }

    fn probe(&self, _options: &RunOptions) -> Availability {
        Availability::Available(Capabilities {
            version: VERSION.to_owned(),
            path: None,
            devices: vec![Processor::Cpu],
            precisions: vec![Precision::F32],
            memory_formats: vec![MemoryFormat::ChannelsFirst, MemoryFormat::ChannelsLast],
            settings: Vec::new(),
            operator_timing: true,
        })
    }

    fn wants_images_channels_last(&self, options: &RunOptions) -> bool {
        options.memory_format == Some(MemoryFormat::ChannelsLast)
    }

    fn load(&self, model: &Model, options: &RunOptions) -> Result<Box<dyn Session>, BackendError> {
        self.probe(options).require(NAME)?.check(NAME, options)?;
        if options.threads != 1 {
            return Err(BackendError::Option {
                backend: NAME,
                asked: format!("{} threads", options.threads),
                offered: "1".to_owned(),
            });
        }
        let refuse = |reason: String| BackendError::Load {
            backend: NAME,
            model: model.name.clone(),
            reason,
        };
        let plan = optimized(&model.source).map_err(|e| refuse(format!("{e:#}")))?;
        let inputs = input_values(&plan, &model.graph, options).map_err(refuse)?;
        let outputs =
            model.graph.outputs().iter().map(|&id| model.graph.value(id).name.clone()).collect();
        Ok(Box::new(TractSession { name: model.name.clone(), plan, inputs, outputs }))
    }
}

fn optimized(source: &ModelSource) -> TractResult<Arc<TypedRunnableModel>> {
    let model = match source {
        ModelSource::File(path) => onnx().model_for_path(path)?,
        ModelSource::Bytes(bytes) => onnx().model_for_read(&mut bytes.as_slice())?,
    };
    model.into_optimized()?.into_runnable()
}

/// Values for the inputs the plan has kept, in its order.
fn input_values(
    plan: &TypedRunnableModel,
    graph: &Graph,
    options: &RunOptions,
) -> Result<TVec<TValue>, String> {
    let bytes = if options.memory_format == Some(MemoryFormat::ChannelsLast) {
        inputs::bytes_channels_last
    } else {
        inputs::bytes
    };
    let mut values = TVec::new();
    for outlet in &plan.model().inputs {
        let name = &plan.model().node(outlet.node).name;
        let place = graph
            .inputs()
            .iter()
            .position(|&id| graph.value(id).name == *name)
            .ok_or_else(|| format!("tract has an input `{name}` that the model lacks"))?;
        let spec = graph
            .value(graph.inputs()[place])
            .tensor
            .as_ref()
            .ok_or_else(|| format!("input `{name}` has no static shape"))?;
        let value = match spec.precision {
            Precision::F32 => {
                let bytes = bytes(spec, options.inputs, options.seed, place)
                    .map_err(|e| format!("input `{name}`: {e}"))?;
                let floats: Vec<f32> =
                    bytes.as_chunks().0.iter().map(|&four| f32::from_le_bytes(four)).collect();
                Tensor::from_shape(&spec.shape, &floats)
            }
            Precision::I64 => Tensor::zero_dt(i64::datum_type(), &spec.shape),
            Precision::I32 => Tensor::zero_dt(i32::datum_type(), &spec.shape),
            Precision::Bool => Tensor::zero_dt(bool::datum_type(), &spec.shape),
            other => {
                return Err(format!("input `{name}` is of type {other}, which tract is not given"));
            }
        };
        values.push(value.map_err(|e| format!("input `{name}`: {e}"))?.into_tvalue());
    }
    Ok(values)
}

impl TractSession {
    fn error(&self, error: &TractError) -> BackendError {
        BackendError::Run { backend: NAME, model: self.name.clone(), reason: format!("{error:#}") }
    }
}

impl Session for TractSession {
    fn run(&mut self) -> Result<RunTime, BackendError> {
        let mut state = self.plan.spawn().map_err(|e| self.error(&e))?;
        let watch = Stopwatch::start();
        let outputs = state.run(self.inputs.clone());
        let time = watch.stop();
        outputs.map(|_| time).map_err(|e| self.error(&e))
    }

    fn profile(&mut self, warmups: usize, repeats: usize) -> Result<ProfiledRuns, BackendError> {
        let plan = Arc::clone(&self.plan);
        let computes =
            |id: usize| !matches!(plan.model().node(id).op.name().as_ref(), "Source" | "Const");
        // In the plan's order; where each node's row is.
        let (mut rows, mut places) = (Vec::<Measurement>::new(), BTreeMap::<usize, usize>::new());
        let mut e2e = Samples::default();
        for repeat in 0..warmups.saturating_add(repeats) {
            let mut state = plan.spawn().map_err(|e| self.error(&e))?;
            let mut times: Vec<(usize, u64)> = Vec::new();
            let watch = Stopwatch::start();
            let outputs =
                state.run_plan_with_eval(self.inputs.clone(), |context, op_state, node, inputs| {
                    let watch = Stopwatch::start();
                    let result = tract_core::plan::eval(context, op_state, node, inputs);
                    times.push((node.id, watch.stop().wall_ns));
                    result
                });
            let time = watch.stop();
            outputs.map_err(|e| self.error(&e))?;
            if repeat < warmups {
                continue;
            }
            time.append_to(&mut e2e);
            for (id, ns) in times.into_iter().filter(|&(id, _)| computes(id)) {
                let place = *places.entry(id).or_insert_with(|| {
                    rows.push(row(&plan, id));
                    rows.len() - 1
                });
                rows[place].samples.wall_ns.push(ns);
            }
        }
        Ok(ProfiledRuns { e2e, operators: rows })
    }

    fn outputs(&mut self) -> Result<Vec<OutputValues>, BackendError> {
        let mut state = self.plan.spawn().map_err(|e| self.error(&e))?;
        let values = state.run(self.inputs.clone()).map_err(|e| self.error(&e))?;
        let read = |(name, value): (&String, &TValue)| -> TractResult<OutputValues> {
            let floats = value.cast_to::<f32>()?;
            Ok(OutputValues {
                name: name.clone(),
                shape: value.shape().to_vec(),
                values: floats.try_as_plain_ram()?.as_slice::<f32>()?.to_vec(),
            })
        };
        self.outputs
            .iter()
            .zip(&values)
            .map(read)
            .collect::<TractResult<_>>()
            .map_err(|e| self.error(&e))
    }
}

/// What a node of the plan is.
fn row(plan: &TypedRunnableModel, id: usize) -> Measurement {
    let node = plan.model().node(id);
    let kernel = node.op.name().into_owned();
    let (kind, attributes) = kind(&kernel);
    let constant = |outlet: &OutletId| plan.model().node(outlet.node).op.name() == "Const";
    let operand = |outlet: &OutletId| {
        let fact = plan.model().outlet_fact(*outlet).ok()?;
        Some(Operand { tensor: tensor(fact)?, constant: constant(outlet) })
    };
    let inputs: Vec<Operand> = node.inputs.iter().filter_map(operand).collect();
    // A packed operand is not a tensor of numbers: it represents its input.
    let outputs = Some(outputs(node))
        .filter(|o| !o.is_empty())
        .unwrap_or_else(|| inputs.first().map(|i| i.tensor.clone()).into_iter().collect());
    let op = OpSpec { kind, attributes, inputs, outputs };
    Measurement {
        op: op.into(),
        node: node.name.clone(),
        kernel,
        samples: Samples::default(),
        memory_bytes: None,
        status: Status::Ok,
    }
}

fn outputs(node: &TypedNode) -> Vec<TensorSpec> {
    node.outputs.iter().filter_map(|outlet| tensor(&outlet.fact)).collect()
}

/// `None` for packed operands, which are not tensors of numbers.
fn tensor(fact: &TypedFact) -> Option<TensorSpec> {
    let shape = fact.shape.as_concrete()?.to_vec();
    let precision = match fact.datum_type {
        DatumType::F64 => Precision::F64,
        DatumType::F32 => Precision::F32,
        DatumType::F16 => Precision::F16,
        DatumType::I64 => Precision::I64,
        DatumType::I32 => Precision::I32,
        DatumType::I16 => Precision::I16,
        DatumType::I8 => Precision::I8,
        DatumType::U8 => Precision::U8,
        DatumType::Bool => Precision::Bool,
        _ => return None,
    };
    Some(TensorSpec::new(shape, precision))
}

/// The kind of tract's operator; `None` for parts of operators that tract splits.
fn kind(kernel: &str) -> (OpKind, Attributes) {
    if let Some(chain) = kernel.strip_prefix("OptBinChain(").and_then(|rest| rest.strip_suffix(')'))
    {
        return (
            OpKind::Elementwise,
            Attributes::new().with("ops", Attribute::Text(chain.to_lowercase())),
        );
    }
    let kind = match kernel {
        "OptMatMulPack" => OpKind::Reorder,
        "Conv" | "DepthWiseConv" | "Im2col" | "LazyIm2col" => OpKind::Conv,
        "Deconv" => OpKind::ConvTranspose,
        "OptMatMul" | "EinSum" | "MatMul" => OpKind::MatMul,
        "MaxPool" => OpKind::MaxPool,
        "SumPool" => OpKind::AveragePool,
        "Softmax" => OpKind::Softmax,
        "RmsNorm" => OpKind::RmsNorm,
        "GeluApproximate" => OpKind::GeluTanh,
        "GeluExact" => OpKind::Gelu,
        "Silu" => OpKind::Silu,
        "HardSwish" => OpKind::HardSwish,
        "Sigmoid" => OpKind::Sigmoid,
        "Tanh" => OpKind::Tanh,
        "Erf" => OpKind::Erf,
        "Cast" => OpKind::Cast,
        "Gather" => OpKind::Gather,
        "Slice" => OpKind::Slice,
        "Pad" => OpKind::Pad,
        "Resize" => OpKind::Resize,
        "TypedConcat" => OpKind::Concat,
        "MultiBroadcastTo" => OpKind::Expand,
        "Add" | "OptAdd" | "OptAddByScalar" | "OptAddUnicast" => OpKind::Add,
        "Sub" | "OptSub" | "OptSubByScalar" | "OptSubUnicast" => OpKind::Sub,
        "Mul" | "OptMul" | "OptMulByScalar" | "OptMulUnicast" => OpKind::Mul,
        "Div" | "OptDiv" | "OptDivByScalar" | "OptDivUnicast" => OpKind::Div,
        moved if moved.starts_with("Move") || moved.starts_with("IntoShape") => OpKind::Transpose,
        reshaped
            if reshaped.starts_with("Reshape")
                || reshaped.starts_with("AddAxis")
                || reshaped.starts_with("RmAxis") =>
        {
            OpKind::Reshape
        }
        "Reduce<Sum>" => OpKind::ReduceSum,
        "Reduce<Max>" => OpKind::ReduceMax,
        "Reduce<MeanOfSquares>" => OpKind::ReduceMean,
        other => OpKind::Unsupported(other.to_owned()),
    };
    (kind, Attributes::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_are_named() {
        for (kernel, expected) in [
            ("OptMatMul", OpKind::MatMul),
            ("OptMatMulPack", OpKind::Reorder),
            ("OptBinChain(Mul+Add)", OpKind::Elementwise),
            ("Move", OpKind::Transpose),
            ("AddAxis", OpKind::Reshape),
            ("Something", OpKind::Unsupported("Something".into())),
        ] {
            assert_eq!(kind(kernel).0, expected, "{kernel}");
        }
        assert_eq!(kind("OptBinChain(Mul+Add)").1.text("ops"), Some("mul+add"));
    }
}
