//! rten on the CPU: a pure Rust engine that is compiled in, so that vitempo can measure without an
//! installed engine.
//!
//! Models run with rten's defaults: all graph optimisations, weights packed while they are used.
//! Threads: one pool of its own per session; it inherits the cores the process is pinned to. rten
//! reports the times of its operators only as text: in profiled runs it writes, for each operator,
//! its shapes and its time (rounded to 1 us, the printing not included) to stdout, which
//! `capture` redirects to a file and `verbose` parses. [`vitempo_graph::lowering::rten`]
//! describes each kernel (`label`). Models that rten computes wrong without an error are refused
//! when they are loaded (`guard`).

mod guard;
mod label;
mod stdout;
mod verbose;

use super::{
    availability::{Availability, Capabilities},
    capture,
    engine::{Backend, Model, ModelSource, ProfiledRuns, Session},
    error::BackendError,
    options::RunOptions,
    values::OutputValues,
};
use crate::{
    clock::{RunTime, Stopwatch},
    inputs::{self, InputDistribution},
};
use label::Labels;
use rten::{ModelOptions, NodeId, ThreadPool, Value};
use rten_tensor::prelude::*;
use std::sync::Arc;
use vitempo_graph::{Graph, MemoryFormat, Precision, Processor, Samples, quantize::Conversion};

const NAME: &str = vitempo_graph::Framework::Rten.name();
/// The version of the crate this is compiled with; the workspace's manifest pins it.
const VERSION: &str = "0.27.0";

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Rten;

struct RtenSession {
    name: String,
    model: rten::Model,
    inputs: Vec<(NodeId, Value)>,
    outputs: Vec<NodeId>,
    run_options: rten::RunOptions,
    labels: Labels,
}

impl Backend for Rten {
    fn name(&self) -> &'static str {
        NAME
    }

    fn description(&self) -> &'static str {
        "rten on the CPU, compiled in; nothing to install"
    }

    fn probe(&self, _options: &RunOptions) -> Availability {
        Availability::Available(Capabilities {
            version: VERSION.to_owned(),
            path: None,
            devices: vec![Processor::Cpu],
            precisions: vec![Precision::F32, Precision::I8],
            memory_formats: vec![MemoryFormat::ChannelsFirst],
            settings: Vec::new(),
            operator_timing: true,
        })
    }

    fn conversion(&self, options: &RunOptions) -> Option<Conversion> {
        (options.precision == Precision::I8).then_some(Conversion::Integer)
    }

    fn load(&self, model: &Model, options: &RunOptions) -> Result<Box<dyn Session>, BackendError> {
        self.probe(options).require(NAME)?.check(NAME, options)?;
        let refuse = |reason: String| BackendError::Load {
            backend: NAME,
            model: model.name.clone(),
            reason,
        };
        guard::check(&model.graph).map_err(refuse)?;
        let engine = match &model.source {
            ModelSource::File(path) => ModelOptions::with_all_ops().load_file(path),
            ModelSource::Bytes(bytes) => ModelOptions::with_all_ops().load(bytes.clone()),
        };
        let engine = engine.map_err(|e| refuse(e.to_string()))?;
        let inputs =
            input_values(&engine, &model.graph, options.inputs, options.seed).map_err(refuse)?;
        let pool = stdout::without_capture(|| ThreadPool::with_num_threads(options.threads))
            .ok_or_else(|| refuse("cannot start its threads".to_owned()))?;
        Ok(Box::new(RtenSession {
            name: model.name.clone(),
            outputs: engine.output_ids().to_vec(),
            model: engine,
            inputs,
            run_options: rten::RunOptions::default().with_thread_pool(Some(Arc::new(pool))),
            labels: Labels::of(&model.graph),
        }))
    }
}

impl RtenSession {
    fn run_with(&self, options: rten::RunOptions) -> Result<RunTime, BackendError> {
        let inputs = self.inputs.iter().map(|(id, value)| (*id, value.as_view().into())).collect();
        let watch = Stopwatch::start();
        let outputs = self.model.run(inputs, &self.outputs, Some(options));
        let time = watch.stop();
        outputs.map(|_| time).map_err(|e| BackendError::Run {
            backend: NAME,
            model: self.name.clone(),
            reason: e.to_string(),
        })
    }
}

impl Session for RtenSession {
    fn run(&mut self) -> Result<RunTime, BackendError> {
        self.run_with(self.run_options.clone())
    }

    fn profile(&mut self, warmups: usize, repeats: usize) -> Result<ProfiledRuns, BackendError> {
        let unreadable = |reason: String| BackendError::Profile {
            backend: NAME,
            model: self.name.clone(),
            reason,
        };
        for _ in 0..warmups {
            self.run_with(self.run_options.clone())?;
        }
        let mut e2e = Samples::default();
        let mut runs = Vec::with_capacity(repeats);
        for _ in 0..repeats {
            let (time, steps) = self.accounted_run()?;
            time.append_to(&mut e2e);
            runs.push(steps);
        }
        Ok(ProfiledRuns { e2e, operators: self.labels.measurements(&runs).map_err(unreadable)? })
    }

    fn outputs(&mut self) -> Result<Vec<OutputValues>, BackendError> {
        let error =
            |reason: String| BackendError::Run { backend: NAME, model: self.name.clone(), reason };
        let inputs = self.inputs.iter().map(|(id, value)| (*id, value.as_view().into())).collect();
        let values = self
            .model
            .run(inputs, &self.outputs, Some(self.run_options.clone()))
            .map_err(|e| error(e.to_string()))?;
        let named = |id: &NodeId| {
            self.model
                .node_info(*id)
                .and_then(|node| node.name().map(str::to_owned))
                .unwrap_or_default()
        };
        let results = self
            .outputs
            .iter()
            .map(named)
            .zip(values)
            .map(|(name, value)| output_values(name, value))
            .collect::<Result<_, _>>();
        results.map_err(error)
    }

    fn feed(&mut self, values: &[&OutputValues]) -> Result<(), BackendError> {
        for (id, input) in &mut self.inputs {
            let name = self.model.node_info(*id).and_then(|node| node.name().map(str::to_owned));
            let Some(given) = values.iter().find(|v| Some(v.name.as_str()) == name.as_deref())
            else {
                continue;
            };
            let refused = |reason: String| BackendError::Run {
                backend: NAME,
                model: self.name.clone(),
                reason: format!("input `{}`: {reason}", given.name),
            };
            *input = input_value(input, given).map_err(refused)?;
        }
        Ok(())
    }
}

/// Given values as a tensor of the type and shape that an input has.
fn input_value(input: &Value, given: &OutputValues) -> Result<Value, String> {
    let (shape, values) = (given.shape.as_slice(), &given.values);
    if input.shape().to_vec() != shape {
        return Err(format!(
            "it has shape {:?}, values of shape {shape:?} do not fit",
            input.shape().to_vec()
        ));
    }
    match input {
        Value::FloatTensor(_) => {
            Value::from_shape(shape, values.clone()).map_err(|e| e.to_string())
        }
        Value::Int32Tensor(_) => {
            Value::from_shape(shape, values.iter().map(|&v| v as i32).collect())
                .map_err(|e| e.to_string())
        }
        Value::Int8Tensor(_) => Value::from_shape(shape, values.iter().map(|&v| v as i8).collect())
            .map_err(|e| e.to_string()),
        Value::UInt8Tensor(_) => {
            Value::from_shape(shape, values.iter().map(|&v| v as u8).collect())
                .map_err(|e| e.to_string())
        }
        _ => Err("it is not a tensor of numbers".to_owned()),
    }
}

fn output_values(name: String, value: Value) -> Result<OutputValues, String> {
    let shape = value.shape().to_vec();
    let values = match value {
        Value::FloatTensor(t) => t.to_vec(),
        Value::Int32Tensor(t) => t.iter().map(|&v| v as f32).collect(),
        Value::Int8Tensor(t) => t.iter().map(|&v| f32::from(v)).collect(),
        Value::UInt8Tensor(t) => t.iter().map(|&v| f32::from(v)).collect(),
        _ => return Err(format!("output `{name}` is not a tensor of numbers")),
    };
    Ok(OutputValues { name, shape, values })
}

/// Output of other code within rten's log makes it unreadable; number of times that such a run is
/// repeated.
const ATTEMPTS: usize = 5;

impl RtenSession {
    /// One run and rten's account of it.
    fn accounted_run(&self) -> Result<(RunTime, Vec<verbose::Step>), BackendError> {
        let unreadable = |reason: String| BackendError::Profile {
            backend: NAME,
            model: self.name.clone(),
            reason,
        };
        let mut failure = String::new();
        for _ in 0..ATTEMPTS {
            let (time, text) =
                capture::stdout(|| self.run_with(self.run_options.clone().with_verbose(true)))
                    .map_err(|e| unreadable(e.to_string()))?;
            let time = time?;
            match verbose::parse(&text) {
                Ok(steps) => return Ok((time, steps)),
                Err(reason) => failure = reason,
            }
        }
        Err(unreadable(failure))
    }
}

fn input_values(
    engine: &rten::Model,
    graph: &Graph,
    distribution: InputDistribution,
    seed: u64,
) -> Result<Vec<(NodeId, Value)>, String> {
    let mut values = Vec::new();
    for (index, &id) in graph.inputs().iter().enumerate() {
        let value = graph.value(id);
        // An input that nothing reads may be gone.
        let Some(node) =
            engine.find_node(&value.name).filter(|node| engine.input_ids().contains(node))
        else {
            continue;
        };
        let tensor = value
            .tensor
            .as_ref()
            .ok_or_else(|| format!("input `{}` has no static shape", value.name))?;
        let count = usize::try_from(tensor.elements()).ok().filter(|&n| n <= 1 << 32);
        let count = count
            .ok_or_else(|| format!("input `{}` ({tensor}) does not fit into memory", value.name))?;
        let shape = tensor.shape.as_slice();
        let made = match tensor.precision {
            Precision::F32 | Precision::F64 => {
                let values = inputs::float_values(tensor, distribution, seed, index)
                    .map_err(|e| format!("input `{}`: {e}", value.name))?;
                Value::from_shape(shape, values).map_err(|e| e.to_string())
            }
            Precision::I64 | Precision::I32 | Precision::Bool => {
                Value::from_shape(shape, vec![0i32; count]).map_err(|e| e.to_string())
            }
            Precision::I8 => Value::from_shape(shape, vec![0i8; count]).map_err(|e| e.to_string()),
            Precision::U8 => Value::from_shape(shape, vec![0u8; count]).map_err(|e| e.to_string()),
            other => Err(format!("rten has no inputs of type {other}")),
        };
        values.push((node, made.map_err(|e| format!("input `{}`: {e}", value.name))?));
    }
    Ok(values)
}
