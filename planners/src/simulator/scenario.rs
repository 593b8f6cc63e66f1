//! [`Scenario`]: processors, and streams of frames through stages of tasks.

use super::{device::Contention, device::ProcessorModel, thermal::Thermal};
use serde::{Deserialize, Serialize};

/// Why a scenario cannot be simulated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScenarioError {
    /// A task for a processor that does not exist.
    #[error(
        "stream `{stream}`, stage `{stage}`: there is no processor {processor}; there are {count}"
    )]
    Processor {
        /// Name of the stream.
        stream: String,
        /// Name of the stage.
        stage: String,
        /// Index of the processor.
        processor: usize,
        /// Number of processors.
        count: usize,
    },
    /// A stream that cannot run.
    #[error("stream `{stream}`: {reason}")]
    Stream {
        /// Its name.
        stream: String,
        /// What is wrong.
        reason: String,
    },
    /// A processor with invalid constants.
    #[error("processor `{processor}`: {reason}")]
    ProcessorModel {
        /// Its name.
        processor: String,
        /// What is wrong.
        reason: String,
    },
    /// The scenario as a whole cannot run.
    #[error("{reason}")]
    Scenario {
        /// What is wrong.
        reason: String,
    },
}

/// Work for one processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// Index of the processor or link.
    pub processor: usize,
    /// Time that scales with the frequency, ns at the highest.
    pub compute_ns: u64,
    /// Time that does not scale with the frequency, ns: waiting for memory, or a transfer.
    #[serde(default)]
    pub memory_ns: u64,
    /// Spread of both: coefficient of variation.
    #[serde(default)]
    pub cv: f64,
    /// The model that it belongs to: a processor that changes models takes additional time.
    #[serde(default)]
    pub model: u32,
}

/// A worker that takes one frame at a time through steps; the tasks of one step run at the same
/// time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageModel {
    /// Name for pictures.
    pub name: String,
    /// Frames that may wait before it; not used by the first stage.
    #[serde(default)]
    pub queue: usize,
    /// The steps, one after the other.
    pub steps: Vec<Vec<Task>>,
}

/// Which frame of a camera's grid the application takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gate {
    /// The next frame: frames that arrive while the application is busy are dropped.
    Next,
    /// The latest frame, if it was not taken yet; else the next one.
    Latest,
}

/// A camera delivers frames on a grid, starting at a random time within its first period.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Camera {
    /// Time between frames.
    pub period_ns: u64,
    /// Which frame the application takes.
    pub gate: Gate,
}

/// The source of frames.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Frames on a grid.
    Camera(Camera),
    /// Another frame as soon as the first stage is free.
    Closed,
    /// Requests at these times, ns, rising; all of them wait.
    Arrivals(Vec<u64>),
    /// The frames of an [`super::Application`]; the only stage has no steps of its own.
    Application,
}

/// Which of a stream's alternatives the next frame takes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// Always the first.
    First,
    /// The next alternative whenever the skin is warmer than a threshold at a check (thesis,
    /// section 4.1.1: found harmful; a negative control).
    SwitchAbove {
        /// The threshold, degrees Celsius.
        skin_c: f64,
        /// Time between checks.
        check_ns: u64,
    },
    /// At each check, the first alternative none of whose processors has worked for other streams
    /// for more than a share of the time since the check before; if there is none, no change.
    SwitchAboveLoad {
        /// The share, 0 to 1.
        busy_share: f64,
        /// Time between checks.
        check_ns: u64,
    },
}

/// A stream of frames and their work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stream {
    /// Name for tables and pictures.
    pub name: String,
    /// The source of its frames.
    pub source: Source,
    /// Alternative sequences of stages; all have the same number of stages.
    pub alternatives: Vec<Vec<StageModel>>,
    /// The policy that selects a frame's alternative.
    pub policy: Policy,
    /// A frame is late if its latency from capture to results exceeds this, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ns: Option<u64>,
    /// Priority of its tasks where they wait for a processor: the lowest is next, among equals the
    /// first that arrived. A running task is never interrupted.
    #[serde(default)]
    pub priority: u32,
}

impl Stream {
    /// A stream with one alternative.
    #[must_use]
    pub fn new(name: impl Into<String>, source: Source, stages: Vec<StageModel>) -> Self {
        Self {
            name: name.into(),
            source,
            alternatives: vec![stages],
            policy: Policy::First,
            deadline_ns: None,
            priority: 0,
        }
    }
}

/// The input of a simulation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Processors and links.
    pub processors: Vec<ProcessorModel>,
    /// Streams of frames.
    pub streams: Vec<Stream>,
    /// The slowdown by other busy processors.
    pub contention: Contention,
    /// The factor by which a processor is slower while another is busy, by processor, then other
    /// processor, each at least 1. The total factor is 1 + the sum of (factor - 1) over the busy
    /// ones, in addition to `contention`; empty: no slowdown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slowdown: Vec<Vec<f64>>,
    /// Constant power, W: system, screen, camera.
    #[serde(default)]
    pub base_w: f64,
    /// The thermal model, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thermal: Option<Thermal>,
    /// Step of temperatures, governors and policies, ns.
    pub tick_ns: u64,
    /// Simulated time, ns.
    pub duration_ns: u64,
    /// Number of task executions to record for a picture.
    #[serde(default)]
    pub keep_spans: usize,
}

impl Scenario {
    /// A scenario of processors and streams, without contention, power or temperatures.
    #[must_use]
    pub fn new(processors: Vec<ProcessorModel>, streams: Vec<Stream>, duration_ns: u64) -> Self {
        let (contention, tick_ns) = (Contention::NONE, 100_000_000);
        Self {
            processors,
            streams,
            contention,
            slowdown: Vec::new(),
            base_w: 0.0,
            thermal: None,
            tick_ns,
            duration_ns,
            keep_spans: 0,
        }
    }

    /// # Errors
    /// [`ScenarioError`] naming what cannot be simulated.
    pub fn check(&self) -> Result<(), ScenarioError> {
        let scenario = |reason: &str| Err(ScenarioError::Scenario { reason: reason.to_owned() });
        if self.processors.is_empty() || self.streams.is_empty() {
            return scenario("a scenario needs a processor and a stream");
        }
        if self.tick_ns == 0 || self.duration_ns == 0 || self.duration_ns > 1 << 60 {
            return scenario(
                "the tick and the duration are at least 1 ns, the duration at most 36 years",
            );
        }
        if !is_power(self.base_w) {
            let base_w = self.base_w;
            return scenario(&format!("`base_w` is {base_w}; it must be 0 or more, below 10^6"));
        }
        let tick_s = self.tick_ns as f64 / 1e9;
        if let Some(reason) = self.thermal.as_ref().and_then(|model| model.refusal(tick_s)) {
            return scenario(&reason);
        }
        self.processors.iter().try_for_each(check_processor)?;
        if !self.slowdown_fits() {
            return scenario("slowdown has a row and a column for each processor, of at least 1");
        }
        self.streams.iter().try_for_each(|stream| self.check_stream(stream))
    }

    fn slowdown_fits(&self) -> bool {
        let count = self.processors.len();
        let square = self.slowdown.len() == count && self.slowdown.iter().all(|r| r.len() == count);
        let slower = |factor: &f64| factor.is_finite() && *factor >= 1.0;
        self.slowdown.is_empty() || (square && self.slowdown.iter().flatten().all(slower))
    }

    fn check_stream(&self, stream: &Stream) -> Result<(), ScenarioError> {
        let refuse = |reason: &str| {
            Err(ScenarioError::Stream { stream: stream.name.clone(), reason: reason.to_owned() })
        };
        let stages = stream.alternatives.first().map_or(0, Vec::len);
        if stages == 0 || stream.alternatives.iter().any(|a| a.len() != stages) {
            return refuse("it needs stages, as many in every alternative");
        }
        match &stream.source {
            Source::Camera(camera) if camera.period_ns == 0 => {
                return refuse("the camera's period is 0");
            }
            Source::Arrivals(times) if !times.is_sorted() => {
                return refuse("arrivals are not in rising order");
            }
            Source::Application if stages != 1 || stream.policy != Policy::First => {
                return refuse("what an application decides has one stage and no policy");
            }
            Source::Closed if stream.alternatives.iter().any(|a| busy_ns(a) == 0) => {
                return refuse("frames that take no time never end");
            }
            _ => {}
        }
        if let Policy::SwitchAbove { check_ns, skin_c } = stream.policy
            && (check_ns == 0 || !skin_c.is_finite() || self.thermal.is_none())
        {
            return refuse(
                "switching by temperature needs a thermal model, a threshold and a time between \
                checks",
            );
        }
        if let Policy::SwitchAboveLoad { check_ns, busy_share } = stream.policy
            && (check_ns == 0 || !(0.0..=1.0).contains(&busy_share))
        {
            return refuse("switching by load needs a share from 0 to 1 and a time between checks");
        }
        for stage in stream.alternatives.iter().flatten() {
            for task in stage.steps.iter().flatten() {
                if task.processor >= self.processors.len() {
                    let (stream, stage) = (stream.name.clone(), stage.name.clone());
                    return Err(ScenarioError::Processor {
                        stream,
                        stage,
                        processor: task.processor,
                        count: self.processors.len(),
                    });
                }
                if !task.cv.is_finite() || task.cv < 0.0 {
                    return refuse("a coefficient of variation is a number, 0 or more");
                }
            }
        }
        Ok(())
    }
}

fn busy_ns(stages: &[StageModel]) -> u64 {
    stages
        .iter()
        .flat_map(|s| s.steps.iter().flatten())
        .map(|t| t.compute_ns.saturating_add(t.memory_ns))
        .fold(0, u64::saturating_add)
}

fn is_power(watts: f64) -> bool {
    (0.0..1e6).contains(&watts)
}

/// An hour: no processor takes longer to start a task.
const MOST_OVERHEAD_NS: u64 = 3_600_000_000_000;

fn check_processor(processor: &ProcessorModel) -> Result<(), ScenarioError> {
    let refuse = |reason: &str| {
        Err(ScenarioError::ProcessorModel {
            processor: processor.name.clone(),
            reason: reason.to_owned(),
        })
    };
    let numbers = [processor.active_w, processor.idle_w, processor.bandwidth_share];
    let powers = processor.dvfs.iter().flat_map(|dvfs| [dvfs.a_w_per_ghz, dvfs.b_w_per_ghz3]);
    if !numbers.into_iter().chain(powers).all(is_power) {
        return refuse("power and bandwidth are numbers, 0 or more and below 10^6");
    }
    if processor.dispatch_ns.max(processor.switch_ns) > MOST_OVERHEAD_NS {
        return refuse("the times per task and per change of models are at most an hour");
    }
    match &processor.dvfs {
        Some(dvfs)
            if dvfs.levels_ghz.is_empty()
                || !dvfs.levels_ghz.is_sorted()
                || dvfs.levels_ghz.iter().any(|f| !f.is_finite() || *f <= 0.0) =>
        {
            refuse("frequencies are above 0 and rise")
        }
        _ => Ok(()),
    }
}
