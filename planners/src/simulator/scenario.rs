//! [`Scenario`]: processors, and streams of frames through stages of tasks.

use super::{device::Contention, device::ProcessorModel, thermal::Thermal};
use serde::{Deserialize, Serialize};

/// Why a scenario cannot be simulated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScenarioError {
    /// A task for a processor that is not there.
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
        /// How many processors there are.
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
    /// Time that does not, ns: waiting for memory, or a transfer.
    #[serde(default)]
    pub memory_ns: u64,
    /// Spread of both: coefficient of variation.
    #[serde(default)]
    pub cv: f64,
    /// Which model it belongs to: a processor that changes models pays for switching.
    #[serde(default)]
    pub model: u32,
}

/// A worker that takes one frame at a time through steps; the tasks of one step run at the same
/// time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageModel {
    /// For pictures.
    pub name: String,
    /// Frames that may wait before it; not used by the first stage.
    #[serde(default)]
    pub queue: usize,
    /// One after the other.
    pub steps: Vec<Vec<Task>>,
}

/// Which frame of a camera's grid is taken when the application asks for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gate {
    /// The next to come: frames that come while the application is busy are dropped.
    Next,
    /// The latest there is, if it was not taken yet; else the next to come.
    Latest,
}

/// A camera delivers frames on a grid, starting somewhere within its first period.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Camera {
    /// From frame to frame.
    pub period_ns: u64,
    /// Which frame is taken.
    pub gate: Gate,
}

/// Where frames come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Frames on a grid.
    Camera(Camera),
    /// Another frame as soon as the first stage is free.
    Closed,
    /// Requests at these times, ns, rising; all of them wait.
    Arrivals(Vec<u64>),
    /// What an [`super::Application`] says; the one stage has no steps of its own.
    Application,
}

/// Which of a stream's alternatives the next frame takes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// The first, always.
    First,
    /// Whenever the skin is warmer than this at a check: the next alternative (thesis, section
    /// 4.1.1: found harmful; a negative control).
    SwitchAbove {
        /// The threshold, degrees Celsius.
        skin_c: f64,
        /// From check to check.
        check_ns: u64,
    },
}

/// Frames and what is done with them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stream {
    /// For tables and pictures.
    pub name: String,
    /// Where its frames come from.
    pub source: Source,
    /// Ways through stages; all have the same number of stages.
    pub alternatives: Vec<Vec<StageModel>>,
    /// Which alternative a frame takes.
    pub policy: Policy,
    /// A frame is late when its results come more than this after it was captured, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ns: Option<u64>,
}

impl Stream {
    /// A stream with one way through.
    #[must_use]
    pub fn new(name: impl Into<String>, source: Source, stages: Vec<StageModel>) -> Self {
        Self {
            name: name.into(),
            source,
            alternatives: vec![stages],
            policy: Policy::First,
            deadline_ns: None,
        }
    }
}

/// Everything that is simulated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Processors and links.
    pub processors: Vec<ProcessorModel>,
    /// Sources of work.
    pub streams: Vec<Stream>,
    /// How busy neighbours slow each other down.
    pub contention: Contention,
    /// Power that is always drawn, W: system, screen, camera.
    #[serde(default)]
    pub base_w: f64,
    /// Temperatures, where they matter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thermal: Option<Thermal>,
    /// Step of temperatures, governors and policies, ns.
    pub tick_ns: u64,
    /// How long to simulate, ns.
    pub duration_ns: u64,
    /// How many task executions to keep for a picture.
    #[serde(default)]
    pub keep_spans: usize,
}

impl Scenario {
    /// Processors and streams for some time, without contention, power or temperatures.
    #[must_use]
    pub fn new(processors: Vec<ProcessorModel>, streams: Vec<Stream>, duration_ns: u64) -> Self {
        let (contention, tick_ns) = (Contention::NONE, 100_000_000);
        Self {
            processors,
            streams,
            contention,
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
        self.processors.iter().try_for_each(check_processor)?;
        self.streams.iter().try_for_each(|stream| self.check_stream(stream))
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

fn check_processor(processor: &ProcessorModel) -> Result<(), ScenarioError> {
    let refuse = |reason: &str| {
        Err(ScenarioError::ProcessorModel {
            processor: processor.name.clone(),
            reason: reason.to_owned(),
        })
    };
    let watts = [processor.active_w, processor.idle_w, processor.bandwidth_share];
    if watts.iter().any(|w| !w.is_finite() || *w < 0.0) {
        return refuse("power and bandwidth are numbers, 0 or more");
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
