//! Live runs of plans: [`LiveSession`] holds engines on cores of their own and the parts of one
//! model, and runs frames through stages. Results of a run have the simulator's type
//! ([`StreamOutcome`]), so that the two can be compared. Times are in ns.

use super::partition::Partition;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use vitempo_graph::{Graph, Precision, TensorSpec, quantize::is_quantized};
use vitempo_planners::{cost::Interval, simulator::StreamOutcome};
use vitempo_profiler::{
    OutputValues, RunOptions, conformance, inputs,
    live::{Arrivals, LiveError, LiveProcessor, Rig, Run, Stage, Task, Trial, named},
    statistics,
};

/// Warm-up frames, which are not measured.
pub const WARMUPS: usize = 3;

/// Errors of single operators add up over a whole model: results of two engines may differ by this
/// share of the largest value in any precision.
const LEAST_TOLERANCE: f64 = 1e-2;

/// One in so many samples is below an interval, and as many are above it.
const ONE_BELOW_IN: usize = 10;

/// A processor of a plan as an inference engine on cores of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Engine {
    /// The processor's name.
    pub name: String,
    /// Name of the backend.
    pub backend: String,
    /// The cores it runs on; if empty, one core that no other engine has.
    pub cores: Vec<usize>,
}

impl Engine {
    /// The engine with one thread per core; one thread where no core is named.
    #[must_use]
    pub fn processor(&self) -> LiveProcessor {
        let options = RunOptions {
            threads: self.cores.len().max(1),
            cores: self.cores.clone(),
            ..RunOptions::default()
        };
        LiveProcessor { name: self.name.clone(), backend: self.backend.clone(), options }
    }
}

/// Names of engines with a description: `onnxruntime on cores [0]`.
#[must_use]
pub fn described(engines: &[Engine], rig: &Rig) -> Vec<(String, String)> {
    let one = |(engine, cores): (&Engine, &[usize])| {
        (engine.name.clone(), format!("{} on cores {cores:?}", engine.backend))
    };
    engines.iter().zip(rig.cores()).map(one).collect()
}

/// How a plan is run.
#[derive(Clone, Debug)]
pub struct LiveOptions {
    /// One per processor.
    pub engines: Vec<Engine>,
    /// Frames that are measured.
    pub frames: usize,
    /// Frames per second of a camera; `None`: the next frame starts as soon as there is room.
    pub camera_fps: Option<f64>,
    /// A frame is late when its results come more than this after it was captured, ns.
    pub deadline_ns: Option<u64>,
    /// Set it from another thread to stop between two frames.
    pub interrupted: Arc<AtomicBool>,
}

/// Why a plan cannot run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LiveSessionError {
    /// An engine or a part fails, or the user interrupted.
    #[error(transparent)]
    Live(#[from] LiveError),
    /// The model's inputs cannot be filled.
    #[error("{0}")]
    Inputs(String),
    /// The camera's period is too long.
    #[error("a camera rate of {fps} frames per second is too low")]
    Camera {
        /// The given rate.
        fps: f64,
    },
    /// The plan uses a processor without an engine.
    #[error("processor `{processor}` has no engine")]
    NoEngine {
        /// The processor's name in the plan.
        processor: String,
    },
    /// The parts compute other outputs than the whole model.
    #[error("{0}")]
    Outputs(String),
    /// A measuring thread panicked.
    #[error("a measurement ended early")]
    Ended,
}

/// The result of a run of a plan.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Latencies, results, late and dropped frames.
    pub outcome: StreamOutcome,
    /// Difference of the results from the whole model's, as a share of the largest value; `None` if
    /// engines compute nothing.
    pub apart: Option<f64>,
}

/// Engines, ready to run the parts of one model, and one frame to send through them.
#[derive(Debug)]
pub struct LiveSession {
    rig: Rig,
    engines: Vec<Engine>,
    inputs: Vec<Arc<OutputValues>>,
    /// Index of the undivided model among the parts.
    whole: usize,
    outputs: Vec<String>,
    /// The results of the whole model for that frame.
    expected: Vec<OutputValues>,
    trial: Trial,
    deadline_ns: Option<u64>,
    interrupted: Arc<AtomicBool>,
}

impl LiveSession {
    /// Starts the engines. The first one runs the whole model once, which gives the results that
    /// those of the parts are compared with.
    ///
    /// # Errors
    /// [`LiveSessionError`] naming the processor that does not start.
    pub fn start(options: LiveOptions, partition: Partition) -> Result<Self, LiveSessionError> {
        let processors: Vec<LiveProcessor> =
            options.engines.iter().map(Engine::processor).collect();
        let Partition { whole, mut parts } = partition;
        let defaults = RunOptions::default();
        let inputs = inputs::of_graph(&whole, defaults.inputs, defaults.seed)
            .map_err(LiveSessionError::Inputs)?;
        let outputs = whole.outputs().iter().map(|&id| whole.value(id).name.clone()).collect();
        parts.push(whole);
        let last = parts.len() - 1;
        let arrivals = options.camera_fps.map_or(Ok(Arrivals::Closed), camera)?;
        let mut session = Self {
            rig: Rig::start(&processors, parts)?,
            engines: options.engines,
            inputs: inputs.into_iter().map(Arc::new).collect(),
            whole: last,
            outputs,
            expected: Vec::new(),
            trial: Trial { arrivals, warmups: WARMUPS, frames: options.frames },
            deadline_ns: options.deadline_ns,
            interrupted: options.interrupted,
        };
        let run = session.once(vec![vec![Task { part: last, processor: 0 }]])?;
        session.expected = session.results(&run);
        Ok(session)
    }

    /// The engines, by the index that tasks name.
    #[must_use]
    pub fn engines(&self) -> &[Engine] {
        &self.engines
    }

    /// Frames that are measured.
    #[must_use]
    pub fn frames(&self) -> usize {
        self.trial.frames
    }

    /// Index of the engine of a processor of the plan.
    ///
    /// # Errors
    /// [`LiveSessionError::NoEngine`].
    pub fn engine(&self, processor: &str) -> Result<usize, LiveSessionError> {
        let found = self.engines.iter().position(|engine| engine.name == processor);
        found.ok_or_else(|| LiveSessionError::NoEngine { processor: processor.to_owned() })
    }

    /// Names of the engines with a description: `onnxruntime on cores [0]`.
    #[must_use]
    pub fn described(&self) -> Vec<(String, String)> {
        described(&self.engines, &self.rig)
    }

    /// Runs frames through stages, and compares the results with those of the whole model.
    ///
    /// # Errors
    /// [`LiveSessionError::Live`] naming the part and processor that failed, or
    /// [`LiveSessionError::Outputs`].
    pub fn measure(&self, stages: &[Stage]) -> Result<Measured, LiveSessionError> {
        let run = self.rig.run(stages, &self.inputs, &self.trial, &self.interrupted)?;
        Ok(Measured { outcome: self.outcome(&run), apart: self.apart(&run)? })
    }

    /// Latencies of one part alone on one processor, ns; `values` are the inputs of the part.
    ///
    /// # Errors
    /// [`LiveSessionError::Live`] naming the part and processor that failed.
    pub fn alone(
        &self,
        part: usize,
        processor: usize,
        values: &[Arc<OutputValues>],
        frames: usize,
    ) -> Result<Vec<u64>, LiveSessionError> {
        let trial = Trial { arrivals: Arrivals::Closed, warmups: WARMUPS, frames };
        let stage = unqueued(vec![vec![Task { part, processor }]]);
        let mut run = self.rig.run(&[stage], values, &trial, &self.interrupted)?;
        Ok(run.busy_ns.remove(&(part, processor)).unwrap_or_default())
    }

    /// Latencies of the undivided model alone on one processor, ns.
    ///
    /// # Errors
    /// As [`LiveSession::alone`].
    pub fn whole(&self, processor: usize, frames: usize) -> Result<Vec<u64>, LiveSessionError> {
        self.alone(self.whole, processor, &self.inputs, frames)
    }

    /// Every tensor of a frame after these parts have run, one after the other, on one processor.
    ///
    /// # Errors
    /// [`LiveSessionError::Live`] naming the part that failed.
    pub fn computed(
        &self,
        parts: &[usize],
        processor: usize,
    ) -> Result<Vec<Arc<OutputValues>>, LiveSessionError> {
        let steps = parts.iter().map(|&part| vec![Task { part, processor }]).collect();
        Ok(self.once(steps)?.values)
    }

    /// Returns an error if the user interrupted.
    ///
    /// # Errors
    /// [`LiveError::Interrupted`].
    pub fn go_on(&self) -> Result<(), LiveSessionError> {
        let is_interrupted = self.interrupted.load(Ordering::Relaxed);
        if is_interrupted { Err(LiveError::Interrupted.into()) } else { Ok(()) }
    }

    fn once(&self, steps: Vec<Vec<Task>>) -> Result<Run, LiveSessionError> {
        let once = Trial { arrivals: Arrivals::Closed, warmups: 1, frames: 1 };
        Ok(self.rig.run(&[unqueued(steps)], &self.inputs, &once, &self.interrupted)?)
    }

    fn apart(&self, run: &Run) -> Result<Option<f64>, LiveSessionError> {
        if self.expected.is_empty() {
            return Ok(None);
        }
        let found = conformance::difference(&self.expected, &self.results(run));
        found.map(|(apart, _)| Some(apart)).map_err(LiveSessionError::Outputs)
    }

    /// A run as the simulator reports it.
    fn outcome(&self, run: &Run) -> StreamOutcome {
        let is_late = |ns: &&u64| self.deadline_ns.is_some_and(|deadline| **ns > deadline);
        StreamOutcome {
            name: "frames".to_owned(),
            completed: run.latency_ns.len() as u64,
            dropped: run.dropped,
            latency_ns: run.latency_ns.clone(),
            completed_ns: run.completed_ns.clone(),
            late: run.latency_ns.iter().filter(is_late).count() as u64,
        }
    }

    fn results(&self, run: &Run) -> Vec<OutputValues> {
        self.outputs.iter().filter_map(|name| named(&run.values, name).cloned()).collect()
    }
}

fn camera(fps: f64) -> Result<Arrivals, LiveSessionError> {
    let period = Duration::try_from_secs_f64(1.0 / fps);
    period.map(Arrivals::Camera).map_err(|_| LiveSessionError::Camera { fps })
}

/// A stage of these steps before which no frame waits.
fn unqueued(steps: Vec<Vec<Task>>) -> Stage {
    Stage { name: "alone".to_owned(), queue: 0, steps }
}

/// Largest difference that the precision of a model explains between its results on two engines, as
/// a share of the largest value.
#[must_use]
pub fn tolerance(graph: &Graph) -> f64 {
    let of = |tensor: &TensorSpec| match tensor.precision {
        low @ (Precision::F16 | Precision::Bf16) => conformance::tolerance(low),
        _ => 0.0,
    };
    let integers =
        if is_quantized(graph) { conformance::tolerance(Precision::I8) } else { LEAST_TOLERANCE };
    let tensors = graph.values().iter().filter_map(|value| value.tensor.as_ref());
    tensors.map(of).fold(integers, f64::max)
}

/// Median, and the middle four fifths of the samples.
#[must_use]
pub fn interval(samples: &[u64]) -> Option<Interval> {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    let point = statistics::median(samples)? as u64;
    let below = sorted.len() / ONE_BELOW_IN;
    let (least, most) = (sorted.get(below)?, sorted.iter().rev().nth(below)?);
    Some(Interval::clamped(point, *least, *most))
}

#[cfg(test)]
mod tests {
    use super::*;
    use vitempo_graph::{GraphBuilder, GraphError, OpKind};

    #[test]
    fn low_precisions_explain_larger_differences() -> Result<(), GraphError> {
        let of = |precision| -> Result<f64, GraphError> {
            let mut b = GraphBuilder::new("m");
            let x = b.input("x", TensorSpec::new([1, 4], precision));
            let y = b.unary("relu", OpKind::Relu, x)?;
            Ok(tolerance(&b.finish(vec![y])?))
        };
        assert_eq!([of(Precision::F32)?, of(Precision::F64)?], [LEAST_TOLERANCE; 2]);
        assert_eq!([of(Precision::F16)?, of(Precision::Bf16)?], [2e-2, 1e-1]);
        Ok(())
    }

    #[test]
    fn intervals_hold_the_middle_of_the_samples() {
        let samples: Vec<u64> = (1..=10).map(|i| 100 * i).collect();
        assert_eq!(interval(&samples), Interval::new(550, 200, 900));
        let samples: Vec<u64> = (1..=25).collect();
        assert_eq!(interval(&samples), Interval::new(13, 3, 23));
        assert_eq!(interval(&[7]), Some(Interval::exact(7)));
        assert_eq!(interval(&[]), None);
    }

    #[test]
    fn a_camera_that_is_too_slow_is_refused() {
        assert!(matches!(camera(30.0), Ok(Arrivals::Camera(period)) if period.as_millis() == 33));
        assert!(matches!(camera(1e-300), Err(LiveSessionError::Camera { .. })));
    }
}
