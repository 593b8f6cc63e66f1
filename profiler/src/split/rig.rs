//! [`SplitRig`]: the device's engine here, the server's elsewhere, and the halves of one or several
//! splits of one model.

use super::{
    SplitRunError,
    features::Features,
    layout::Layout,
    pass::{Ended, Frames, Pass},
    server::{Reach, ServerEnd, Shapes, Upload, go_on},
    throughput::{self, Throughput},
};
use crate::{
    backends::OutputValues,
    live::{LiveProcessor, Rig, own_cores},
    pinning, source,
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use vitempo_graph::{Environment, Graph, ValueId};

/// Losses of the server after which the rest of the frames is not run.
const MOST_LOSSES: usize = 3;

/// How a split model runs.
#[derive(Clone, Debug)]
pub struct SplitSettings {
    /// The device's engine, in this process.
    pub device: LiveProcessor,
    /// The server's engine.
    pub server: LiveProcessor,
    /// How the server is reached.
    pub reach: Reach,
    /// The precision in which tensors are sent to the server.
    pub features: Features,
    /// A server that has not answered for so long, beyond what the link takes, is lost. The first
    /// answer of each half, for which the engine loads it, may take ten times as long.
    pub timeout: Duration,
}

/// One split: what runs where. `None` where nothing does.
#[derive(Clone, Debug)]
pub struct Halves {
    /// The device's half.
    pub device: Option<Graph>,
    /// The server's half.
    pub server: Option<Graph>,
}

/// One split, ready to run.
pub(super) struct Split {
    /// Index of the device's half among the parts here.
    pub device: Option<usize>,
    pub server: Option<OnServer>,
    /// Whether it has run, and its halves are loaded.
    pub is_loaded: AtomicBool,
}

/// The server's half of a split.
pub(super) struct OnServer {
    /// Its index among the parts that the server holds.
    pub part: usize,
    pub inputs: Layout,
    pub outputs: Layout,
}

/// Engines with the halves of a model, and the link between them.
pub struct SplitRig {
    settings: SplitSettings,
    device: Rig,
    splits: Vec<Split>,
    uploads: Vec<Upload>,
    shapes: Shapes,
    server: Option<ServerEnd>,
    /// The server that was last there.
    known: Option<(Environment, Vec<usize>)>,
}

impl std::fmt::Debug for SplitRig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SplitRig").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl SplitRig {
    /// Starts both engines, each on cores of its own, and sends the server its halves. A server
    /// that no split needs is not started.
    ///
    /// # Errors
    /// [`SplitRunError`] naming the end that does not start.
    pub fn start(
        mut settings: SplitSettings,
        whole: Graph,
        splits: Vec<Halves>,
        shapes: Shapes,
        interrupted: &AtomicBool,
    ) -> Result<Self, SplitRunError> {
        let needs_server = splits.iter().any(|split| split.server.is_some());
        if needs_server && settings.reach.is_here() {
            let ends = [settings.device.clone(), settings.server.clone()];
            let cores = own_cores(&ends, &pinning::usable())?;
            let mut cores = cores.into_iter();
            settings.device.options.cores = cores.next().unwrap_or_default();
            settings.server.options.cores = cores.next().unwrap_or_default();
        }
        let kept: Vec<ValueId> = whole.outputs().to_vec();
        let results: Vec<String> = kept.iter().map(|&id| whole.value(id).name.clone()).collect();
        let (mut parts, mut uploads, mut ready) = (vec![whole], Vec::new(), Vec::new());
        for Halves { device, server } in splits {
            let device = device.map(|graph| {
                parts.push(graph);
                parts.len() - 1
            });
            let server = match server {
                Some(graph) => Some(on_server(&graph, &settings, &results, &mut uploads)?),
                None => None,
            };
            ready.push(Split { device, server, is_loaded: AtomicBool::new(false) });
        }
        let device = Rig::start(std::slice::from_ref(&settings.device), parts)?;
        let mut rig =
            Self { settings, device, splits: ready, uploads, shapes, server: None, known: None };
        if needs_server {
            rig.reach(interrupted)?;
        }
        Ok(rig)
    }

    /// Cores of the device's engine.
    #[must_use]
    pub fn device_cores(&self) -> Vec<usize> {
        self.device.cores().next().map(<[usize]>::to_vec).unwrap_or_default()
    }

    /// The environment of the server's engine and its cores, where a split needs the server.
    #[must_use]
    pub fn server(&self) -> Option<(&Environment, &[usize])> {
        self.known.as_ref().map(|(environment, cores)| (environment, cores.as_slice()))
    }

    /// Identifier of the process that leads to the server, while it is there.
    #[must_use]
    pub fn server_process(&mut self) -> Option<u32> {
        self.server.as_mut()?.connection.link().ends().2.process_id()
    }

    /// Bytes of the tensors that a split sends per frame, and of the results that come back.
    #[must_use]
    pub fn tensor_bytes(&self, split: usize) -> [u64; 2] {
        let server = self.splits.get(split).and_then(|split| split.server.as_ref());
        server.map_or([0; 2], |s| [s.inputs.size_bytes(), s.outputs.size_bytes()])
    }

    /// Shapes the link from now on.
    ///
    /// # Errors
    /// [`SplitRunError`] when the server is gone.
    pub fn shape(&mut self, shapes: Shapes, interrupted: &AtomicBool) -> Result<(), SplitRunError> {
        self.shapes = shapes;
        match &mut self.server {
            Some(server) if server.is_fresh() => server.shape(shapes, interrupted),
            _ => Ok(()),
        }
    }

    /// The results of the whole model on the device's engine.
    ///
    /// # Errors
    /// [`SplitRunError::Device`].
    pub fn whole(&self, inputs: &[Arc<OutputValues>]) -> Result<Vec<OutputValues>, SplitRunError> {
        Ok(self.device.ask(0, 0, inputs)?.wait()?.values)
    }

    /// Runs frames with these inputs, each by the split that `sequence` has for it, at most
    /// `in_flight` of them at a time. Frames that are under way when the server is lost are lost
    /// too; the server is started again for the others.
    ///
    /// # Errors
    /// [`SplitRunError`] when an engine refuses or fails, or no frame was completed.
    pub fn run(
        &mut self,
        sequence: &[usize],
        inputs: &[Arc<OutputValues>],
        in_flight: usize,
        interrupted: &AtomicBool,
    ) -> Result<Pass, SplitRunError> {
        if let Some(split) = sequence.iter().find(|&&split| split >= self.splits.len()) {
            return Err(SplitRunError::Parts(format!("there is no split {split}")));
        }
        let mut pass = Pass::default();
        let (mut at, mut losses) = (0, 0);
        while let Some(rest) = sequence.get(at..).filter(|rest| !rest.is_empty()) {
            let ended = match self.once(rest, inputs, in_flight, interrupted) {
                Ok(ended) => ended,
                Err(SplitRunError::Unreached(error)) if losses > 0 => {
                    pass.gave_up = Some(format!("it does not start again: {error}"));
                    break;
                }
                Err(error) => {
                    self.server = None;
                    return Err(error);
                }
            };
            let lost = pass.append(at, &ended);
            at += ended.begun;
            let Some(reason) = ended.loss else { break };
            self.server = None;
            losses += 1;
            if lost == 0 && at < sequence.len() {
                // Nothing was under way: the frame that would have been next is lost.
                pass.lose(at, &reason);
                at += 1;
            }
            if losses == MOST_LOSSES {
                pass.gave_up = Some(reason);
                break;
            }
        }
        pass.not_run = sequence.len() - at;
        match pass.gave_up.take_if(|_| pass.frames.is_empty()) {
            Some(reason) => Err(SplitRunError::Lost { times: losses, reason }),
            None => Ok(pass),
        }
    }

    /// Measures both directions of the link as it is shaped.
    ///
    /// # Errors
    /// [`SplitRunError`] when the server is lost.
    pub fn throughput(
        &mut self,
        interrupted: &AtomicBool,
    ) -> Result<Option<Throughput>, SplitRunError> {
        if self.uploads.is_empty() {
            return Ok(None);
        }
        self.reach(interrupted)?;
        let (shapes, timeout) = (self.shapes, self.settings.timeout);
        let Some(server) = self.server.as_mut() else { return Ok(None) };
        let measured = throughput::measure(server, shapes, timeout, interrupted);
        if measured.is_err() {
            self.server = None;
        }
        measured.map(Some)
    }

    fn once(
        &mut self,
        sequence: &[usize],
        inputs: &[Arc<OutputValues>],
        in_flight: usize,
        interrupted: &AtomicBool,
    ) -> Result<Ended, SplitRunError> {
        go_on(interrupted)?;
        let needs_server = sequence.iter().any(|&split| self.splits[split].server.is_some());
        if needs_server {
            self.reach(interrupted)?;
        }
        let frames = Frames {
            device: &self.device,
            splits: &self.splits,
            sequence,
            inputs,
            shapes: self.shapes,
            timeout: self.settings.timeout,
            interrupted,
        };
        match self.server.as_mut().filter(|_| needs_server) {
            Some(server) => frames.run(server, in_flight.max(1)),
            None => frames.run_here(),
        }
    }

    /// A server that is there and holds the halves.
    fn reach(&mut self, interrupted: &AtomicBool) -> Result<(), SplitRunError> {
        if self.server.as_ref().is_some_and(ServerEnd::is_fresh) {
            return Ok(());
        }
        self.server = None;
        for split in &self.splits {
            split.is_loaded.store(false, Ordering::Relaxed);
        }
        let SplitSettings { reach, server, .. } = &self.settings;
        let server = ServerEnd::open(reach, server, &self.uploads, self.shapes, interrupted)?;
        self.known = Some((server.environment.clone(), server.cores.clone()));
        self.server = Some(server);
        Ok(())
    }
}

/// The server's half of a split; tensors that are results of the model keep their precision.
fn on_server(
    part: &Graph,
    settings: &SplitSettings,
    results: &[String],
    uploads: &mut Vec<Upload>,
) -> Result<OnServer, SplitRunError> {
    let encoding = |&id: &ValueId| {
        let value = part.value(id);
        let tensor = value.tensor.as_ref().ok_or_else(|| {
            SplitRunError::Parts(format!("tensor `{}` has no static shape", value.name))
        })?;
        let is_result = results.contains(&value.name);
        let features = if is_result { Features::F32 } else { settings.features };
        Ok::<_, SplitRunError>(features.encoding(tensor.precision))
    };
    let encodings = part.inputs().iter().map(encoding).collect::<Result<Vec<_>, _>>()?;
    let bytes = source::bytes_of_graph(part, settings.server.options.seed);
    let bytes = bytes.map_err(SplitRunError::Parts)?;
    let inputs = Layout::of_inputs(part, &encodings).map_err(SplitRunError::Parts)?;
    let outputs = Layout::of_outputs(part).map_err(SplitRunError::Parts)?;
    uploads.push(Upload::new(part.name(), bytes, encodings));
    Ok(OnServer { part: uploads.len() - 1, inputs, outputs })
}
