//! One model on OpenVINO: compiled, its inputs filled, run, profiled.

use super::{
    NAME, counter, device,
    engine::{Compiled, Engine, NodeTime, Request},
    execution::{self, Execution},
    label::Labels,
    runtime_model,
};
use crate::{
    backends::{
        engine::{Model, ModelSource, ProfiledRuns, Session},
        error::BackendError,
        options::RunOptions,
        values::OutputValues,
    },
    clock::{RunTime, Stopwatch},
    inputs,
};
use vitempo_graph::{Measurement, MemoryFormat, Precision, Processor, Samples, Status};

/// A model, and how to run it.
pub struct OvSession {
    engine: &'static Engine,
    model: Model,
    options: RunOptions,
    /// The model without profiling; made when it is needed.
    plain: Option<Request>,
    /// The engine's inputs in its order.
    ports: Vec<Port>,
    /// Values that replace those that inputs were filled with.
    given: Vec<OutputValues>,
}

/// One input of the engine.
struct Port {
    /// Its name in the graph.
    own: String,
    /// Given as N,H,W,C.
    is_image: bool,
}

impl OvSession {
    /// Compiles the model.
    ///
    /// # Errors
    /// [`BackendError::Load`] with the engine's reason.
    pub fn open(
        engine: &'static Engine,
        model: &Model,
        options: &RunOptions,
    ) -> Result<Self, BackendError> {
        let (model, options) = (model.clone(), options.clone());
        let (ports, given) = (Vec::new(), Vec::new());
        let mut session = Self { engine, model, options, plain: None, ports, given };
        let (_, request, inputs) = session.compile(false)?;
        session.plain = Some(request);
        let port = |input: Input| Port { own: input.own, is_image: input.is_image };
        session.ports = inputs.into_iter().map(port).collect();
        Ok(session)
    }

    /// The compiled model, and a request with its inputs.
    fn compile(&self, profiling: bool) -> Result<(Compiled, Request, Vec<Input>), BackendError> {
        let compile = || {
            let mut network = match &self.model.source {
                ModelSource::File(path) => self.engine.read_file(path)?,
                ModelSource::Bytes(bytes) => self.engine.read_bytes(bytes)?,
            };
            let inputs = self.inputs(&network.inputs()?)?;
            let images: Vec<usize> = (0..inputs.len()).filter(|&i| inputs[i].is_image).collect();
            if !images.is_empty() {
                network = network.with_channels_last_inputs(&images)?;
            }
            let compiled = self.engine.compile(
                &network,
                device::name(self.options.processor),
                &self.properties(profiling),
            )?;
            drop(network);
            self.check(&compiled)?;
            let mut request = compiled.request()?;
            for (index, input) in inputs.iter().enumerate() {
                let mut tensor = request.input(index)?;
                let place = tensor.bytes()?;
                if place.len() != input.bytes.len() {
                    return Err(format!(
                        "input `{}` takes {} bytes, not {}",
                        input.name,
                        place.len(),
                        input.bytes.len()
                    ));
                }
                place.copy_from_slice(&input.bytes);
            }
            Ok((compiled, request, inputs))
        };
        compile().map_err(|reason| BackendError::Load {
            backend: NAME,
            model: self.model.name.clone(),
            reason,
        })
    }

    fn properties(&self, profiling: bool) -> Vec<(&'static str, String)> {
        let mut properties = vec![
            ("PERFORMANCE_HINT", "LATENCY".to_owned()),
            ("INFERENCE_PRECISION_HINT", hint(self.options.precision).to_owned()),
            ("PERF_COUNT", if profiling { "YES" } else { "NO" }.to_owned()),
        ];
        if self.options.processor != Processor::Npu {
            properties.push(("NUM_STREAMS", "1".to_owned()));
        }
        if self.options.processor == Processor::Cpu {
            properties.push(("INFERENCE_NUM_THREADS", self.options.threads.to_string()));
            properties.push(("ENABLE_CPU_PINNING", "NO".to_owned()));
            // Threads that were asked for are not to be taken back on processors with two threads a
            // core.
            properties.push(("ENABLE_HYPER_THREADING", "YES".to_owned()));
        }
        properties
    }

    /// Refuses a compiled model whose settings differ from the requested ones.
    fn check(&self, compiled: &Compiled) -> Result<(), String> {
        let precision = compiled.property("INFERENCE_PRECISION_HINT")?;
        if precision != hint(self.options.precision) {
            return Err(format!(
                "the engine runs in {precision} instead of {}",
                self.options.precision
            ));
        }
        if self.options.processor == Processor::Cpu {
            let threads = compiled.property("INFERENCE_NUM_THREADS")?;
            if threads != self.options.threads.to_string() {
                return Err(format!(
                    "the engine runs {threads} threads instead of {}",
                    self.options.threads
                ));
            }
        }
        Ok(())
    }

    /// Values of the engine's inputs, found by name, or by place where it calls them otherwise.
    fn inputs(&self, names: &[String]) -> Result<Vec<Input>, String> {
        let graph = &self.model.graph;
        let of = |(place, name): (usize, &String)| {
            let index = graph.inputs().iter().position(|&id| graph.value(id).name == *name);
            let index = index
                .or(Some(place).filter(|_| names.len() == graph.inputs().len()))
                .ok_or_else(|| format!("input `{name}` is not in the graph"))?;
            let tensor = graph
                .value(graph.inputs()[index])
                .tensor
                .as_ref()
                .ok_or_else(|| format!("input `{name}` has no static shape"))?;
            let own = graph.value(graph.inputs()[index]).name.clone();
            let bytes = match self.given.iter().find(|given| given.name == own) {
                Some(given) => inputs::encoded(&given.values, tensor.precision),
                None => inputs::bytes(tensor, self.options.inputs, self.options.seed, index)
                    .map_err(|e| format!("input `{name}`: {e}"))?,
            };
            let is_image = self.options.memory_format == Some(MemoryFormat::ChannelsLast)
                && tensor.rank() == 4
                && tensor.precision.is_float();
            let bytes = if is_image { inputs::channels_last(tensor, &bytes) } else { bytes };
            Ok(Input { name: name.clone(), own, bytes, is_image })
        };
        names.iter().enumerate().map(of).collect()
    }

    fn run_error(&self, reason: String) -> BackendError {
        BackendError::Run { backend: NAME, model: self.model.name.clone(), reason }
    }

    fn profile_error(&self, reason: String) -> BackendError {
        BackendError::Profile { backend: NAME, model: self.model.name.clone(), reason }
    }

    /// The request without profiling.
    fn plain(&mut self) -> Result<Request, BackendError> {
        match self.plain.take() {
            Some(request) => Ok(request),
            None => Ok(self.compile(false)?.1),
        }
    }

    /// The executed graph; without it kernels are described by their names only, and a warning says
    /// so.
    fn execution(&self, compiled: &Compiled, images: &[String]) -> Option<Execution> {
        let read = || {
            let folder = tempfile::Builder::new()
                .prefix("vitempo-openvino")
                .tempdir()
                .map_err(|e| format!("no temporary folder: {e}"))?;
            let (xml, weights) =
                (folder.path().join("executed.xml"), folder.path().join("executed.bin"));
            runtime_model::write(compiled, &xml, &weights)?;
            let text = std::fs::read_to_string(&xml)
                .map_err(|e| format!("the executed graph cannot be read: {e}"))?;
            execution::parse(&text, &images.iter().map(String::as_str).collect::<Vec<_>>())
        };
        read()
            .inspect_err(|e| {
                tracing::warn!(
                    "{}: kernels are described by their names only: {e}",
                    self.model.name
                );
            })
            .ok()
    }
}

/// The values of one input.
struct Input {
    name: String,
    /// Its name in the graph.
    own: String,
    bytes: Vec<u8>,
    /// Given as N,H,W,C.
    is_image: bool,
}

/// The engine's name of a precision.
fn hint(precision: Precision) -> &'static str {
    match precision {
        Precision::F16 => "f16",
        Precision::Bf16 => "bf16",
        // A quantised model defines what is int8; everything else runs in this precision.
        _ => "f32",
    }
}

fn timed_run(request: &mut Request) -> Result<RunTime, String> {
    let watch = Stopwatch::start();
    request.run()?;
    Ok(watch.stop())
}

impl Session for OvSession {
    fn run(&mut self) -> Result<RunTime, BackendError> {
        let mut request = self.plain()?;
        let time = timed_run(&mut request).map_err(|e| self.run_error(e));
        self.plain = Some(request);
        time
    }

    fn profile(&mut self, warmups: usize, repeats: usize) -> Result<ProfiledRuns, BackendError> {
        self.plain = None;
        let (compiled, mut request, inputs) = self.compile(true)?;
        let images: Vec<String> =
            inputs.into_iter().filter(|i| i.is_image).map(|i| i.name).collect();
        let execution = self.execution(&compiled, &images);
        let mut e2e = Samples::default();
        let mut reported: Vec<Vec<NodeTime>> = Vec::new();
        for repeat in 0..warmups.saturating_add(repeats) {
            let time = timed_run(&mut request).map_err(|e| self.run_error(e))?;
            reported.push(request.profile().map_err(|e| self.profile_error(e))?);
            if repeat >= warmups {
                time.append_to(&mut e2e);
            }
        }
        let averages = self.options.processor == Processor::Cpu;
        let mut labels = Labels::new(&self.model.graph, execution.as_ref());
        let operators =
            rows(&reported, warmups, averages, &mut labels).map_err(|e| self.profile_error(e))?;
        Ok(ProfiledRuns { e2e, operators })
    }

    fn outputs(&mut self) -> Result<Vec<OutputValues>, BackendError> {
        let mut request = self.plain()?;
        let graph = &self.model.graph;
        let names = graph.outputs().iter().map(|&id| graph.value(id).name.clone());
        let read = || {
            request.run()?;
            names
                .enumerate()
                .map(|(index, name)| output(&mut request, index, name))
                .collect::<Result<Vec<_>, String>>()
        };
        let outputs = read().map_err(|e| self.run_error(e));
        self.plain = Some(request);
        outputs
    }

    fn feed(&mut self, values: &[&OutputValues]) -> Result<(), BackendError> {
        let mut request = self.plain()?;
        let fed = self.place(&mut request, values);
        self.plain = Some(request);
        for value in fed.map_err(|e| self.run_error(e))? {
            self.given.retain(|given| given.name != value.name);
            self.given.push(value);
        }
        Ok(())
    }
}

impl OvSession {
    /// Writes values to the inputs of these names, and returns those.
    fn place(
        &self,
        request: &mut Request,
        values: &[&OutputValues],
    ) -> Result<Vec<OutputValues>, String> {
        let graph = &self.model.graph;
        let mut placed = Vec::new();
        for (index, port) in self.ports.iter().enumerate() {
            let Some(given) = values.iter().find(|given| given.name == port.own) else { continue };
            let input = graph.inputs().iter().map(|&id| graph.value(id));
            let tensor = input.into_iter().find(|value| value.name == port.own);
            let tensor = tensor
                .and_then(|value| value.tensor.as_ref())
                .ok_or_else(|| format!("input `{}` has no static shape", port.own))?;
            if tensor.shape.as_slice() != given.shape {
                return Err(format!(
                    "input `{}`: it has shape {:?}, values of shape {:?} do not fit",
                    port.own,
                    tensor.shape.as_slice(),
                    given.shape
                ));
            }
            let bytes = inputs::encoded(&given.values, tensor.precision);
            let bytes = if port.is_image { inputs::channels_last(tensor, &bytes) } else { bytes };
            let mut room = request.input(index)?;
            let room = room.bytes()?;
            if room.len() != bytes.len() {
                return Err(format!(
                    "input `{}` takes {} bytes, not {}",
                    port.own,
                    room.len(),
                    bytes.len()
                ));
            }
            room.copy_from_slice(&bytes);
            placed.push((*given).clone());
        }
        Ok(placed)
    }
}

/// One row per executed kernel. `reported`: the profile after each run; `averages`: of all runs so
/// far, else of the last run.
fn rows(
    reported: &[Vec<NodeTime>],
    warmups: usize,
    averages: bool,
    labels: &mut Labels<'_>,
) -> Result<Vec<Measurement>, String> {
    let last = reported.last().map(Vec::as_slice).unwrap_or_default();
    if reported.iter().any(|nodes| nodes.len() != last.len()) {
        return Err("the profiles of two runs name different nodes".to_owned());
    }
    let row = |(index, node): (usize, &NodeTime)| {
        let readings: Vec<u64> = reported.iter().map(|nodes| nodes[index].time_us).collect();
        let runs = if averages {
            counter::runs_ns(&readings)
        } else {
            readings.iter().map(|us| us * 1000).collect()
        };
        Measurement {
            op: labels.take(node).into(),
            node: node.node.clone(),
            kernel: format!("{} {}", node.node_type, node.exec_type),
            samples: Samples {
                wall_ns: runs.into_iter().skip(warmups).collect(),
                cpu_ns: Vec::new(),
            },
            memory_bytes: None,
            status: Status::Ok,
        }
    };
    Ok(last.iter().enumerate().filter(|(_, node)| node.executed).map(row).collect())
}

fn output(request: &mut Request, index: usize, name: String) -> Result<OutputValues, String> {
    let mut tensor = request.output(index)?;
    let (shape, element) = (tensor.shape()?, tensor.element_type()?);
    let values = floats(element, tensor.bytes()?)
        .ok_or_else(|| format!("output `{name}` has elements of type number {element}"))?;
    Ok(OutputValues { name, shape, values })
}

/// Values of elements of that type (`ov_element_type_e`).
fn floats(element: u32, bytes: &[u8]) -> Option<Vec<f32>> {
    macro_rules! read {
        ($type:ty, $convert:expr) => {
            bytes
                .as_chunks()
                .0
                .iter()
                .map(|&chunk| $convert(<$type>::from_le_bytes(chunk)))
                .collect()
        };
    }
    Some(match element {
        1 | 16 => bytes.iter().map(|&v| f32::from(v)).collect(),
        2 => read!(u16, |v: u16| half::bf16::from_bits(v).to_f32()),
        3 => read!(u16, |v: u16| half::f16::from_bits(v).to_f32()),
        4 => read!(f32, |v: f32| v),
        5 => read!(f64, |v: f64| v as f32),
        7 => read!(i8, f32::from),
        8 => read!(i16, f32::from),
        9 => read!(i32, |v: i32| v as f32),
        10 => read!(i64, |v: i64| v as f32),
        _ => return None,
    })
}
