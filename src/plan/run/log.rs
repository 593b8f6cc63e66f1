//! [`RunLog`]: what happened in a run, as JSON lines: a header, then one event a line. Times are ns
//! since the run began.

use super::{
    RunError,
    file::{is_no_deadline, no_deadline},
};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The field `format` of the header.
pub const FORMAT: &str = "vitempo run log";
/// The version of the format.
pub const VERSION: u32 = 1;

/// The first line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogHeader {
    /// Always `vitempo run log`.
    pub format: String,
    /// Version of the format.
    pub version: u32,
    /// The program that ran.
    pub made_by: String,
    /// The plan's file.
    pub plan: PathBuf,
    /// The processor's own name.
    pub device: String,
    /// Operating system and kernel release.
    pub os: String,
    /// Instruction set extensions.
    pub isa: String,
    /// The engines.
    pub processors: Vec<LogProcessor>,
    /// Names of the tasks.
    pub tasks: Vec<String>,
    /// The ways, by the number that queries name.
    pub lanes: Vec<LogLane>,
    /// The factor by which a processor is slower while another is busy, in the plan.
    pub slowdown: Option<Vec<Vec<f64>>>,
    /// Queries that may wait for a processor.
    pub bound: usize,
    /// Memory budget of loaded subgraphs.
    pub memory_bytes: Option<u64>,
    /// Whether nothing was loaded before the run.
    pub cold: bool,
    /// Whether the threads that hand tensors on ran before those that compute; `None`: a log of
    /// before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs_first: Option<bool>,
    /// Whether engines kept their cores awake while nothing ran.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kept_awake: bool,
}

/// An engine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogProcessor {
    /// Name in the plan.
    pub name: String,
    /// The engine.
    pub engine: String,
    /// Its version.
    pub engine_version: String,
    /// Cores that its threads are pinned to.
    pub cores: Vec<usize>,
    /// Number of threads.
    pub threads: usize,
    /// Identifier of the process that it started in; `None`: the program's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<u32>,
    /// Resident memory of that process with the engine started and nothing loaded; `None` where the
    /// system does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resident_bytes: Option<u64>,
}

/// A way of a task in a phase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogLane {
    /// Index of the task.
    pub task: usize,
    /// Index of the phase.
    pub phase: usize,
    /// Index among the task's ways.
    pub way: usize,
    /// 0 for the ways of the plan, then one for each fallback.
    #[serde(default)]
    pub level: usize,
    /// Names of variants by position.
    pub variants: Vec<String>,
    /// The lowest number is next.
    pub priority: u32,
    /// Whether it is as accurate as the objective asks.
    pub accurate: bool,
    /// Largest latency; [`super::NO_DEADLINE_NS`], which is left out of the file, is none.
    #[serde(default = "no_deadline", skip_serializing_if = "is_no_deadline")]
    pub slo_ns: u64,
    /// Index of the processor and planned time of each piece.
    pub steps: Vec<(usize, u64)>,
}

/// What became of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It is complete.
    Done,
    /// The queue was full.
    Refused,
    /// It ran on an engine that ended, or needed one that is not started again.
    Lost,
    /// Its engine reported an error.
    Failed,
    /// The run was interrupted.
    Interrupted,
}

/// One piece of a query. From `ready_ns` to `dispatched_ns` it waits; then it is handed to the
/// engine, which begins, loads, takes the inputs, runs and ends; then the runtime notices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PieceRecord {
    /// When the runtime had its inputs.
    pub ready_ns: u64,
    /// When its processor was free for it.
    pub dispatched_ns: u64,
    /// When the engine began.
    pub begun_ns: u64,
    /// How long it loaded subgraphs; before that, how long it was started again if it had ended.
    pub loading_ns: u64,
    /// How long it took the inputs.
    pub feed_ns: u64,
    /// How long it ran, with taking the outputs out of the engine.
    pub run_ns: u64,
    /// When the engine ended.
    pub ended_ns: u64,
    /// When the runtime noticed.
    pub noticed_ns: u64,
}

/// One query. Waiting, running, hand-over and loading add up to the latency.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueryRecord {
    /// Its number.
    pub query: usize,
    /// Its round, counted from 0.
    pub round: usize,
    /// Index of the task.
    pub task: usize,
    /// Number of its lane; `None` if no way was usable.
    pub lane: Option<usize>,
    /// When it arrived, by the schedule.
    pub arrived_ns: u64,
    /// What became of it.
    pub outcome: Outcome,
    /// Whether it violates its objective; everything that is not done does.
    pub violated: bool,
    /// From arrival to result.
    pub latency_ns: Option<u64>,
    /// Waiting for processors.
    pub waiting_ns: u64,
    /// Running.
    pub running_ns: u64,
    /// Hand-over of tensors and messages.
    pub handover_ns: u64,
    /// Loading of subgraphs.
    pub loading_ns: u64,
    /// Why it is not done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Its pieces that ended.
    pub pieces: Vec<PieceRecord>,
}

/// When a subgraph was loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadWhen {
    /// Before the run.
    Before,
    /// In a query.
    Query,
}

/// One line after the header.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case", deny_unknown_fields)]
pub enum RunEvent {
    /// An engine read, compiled and loaded a subgraph.
    Load {
        /// When it was loaded; 0 before the run.
        at_ns: u64,
        /// Index of the processor.
        processor: usize,
        /// Index of the task.
        task: usize,
        /// Position, counted from 1.
        position: usize,
        /// Name of the variant.
        variant: String,
        /// Memory of its weights.
        bytes: u64,
        /// How long it took.
        ns: u64,
        /// Before the run, or in a query.
        when: LoadWhen,
    },
    /// A subgraph was unloaded.
    Evict {
        /// When.
        at_ns: u64,
        /// Index of the processor.
        processor: usize,
        /// Index of the task.
        task: usize,
        /// Position, counted from 1.
        position: usize,
        /// Name of the variant.
        variant: String,
    },
    /// The resident memory of an engine's process, just after it loaded or unloaded a subgraph, or
    /// before the run after it ran whole models, whose results are compared.
    Resident {
        /// When; 0 before the run.
        at_ns: u64,
        /// Index of the processor.
        processor: usize,
        /// As the system reports it: the engine, its code, its buffers, and what it has loaded.
        resident_bytes: u64,
        /// Memory of the weights that it has loaded, which is what budgets count.
        loaded_bytes: u64,
    },
    /// Queries of a round begin to arrive.
    Round {
        /// Counted from 0.
        round: usize,
        /// When.
        at_ns: u64,
    },
    /// Objectives changed.
    Phase {
        /// Index of the phase that begins.
        phase: usize,
        /// When.
        at_ns: u64,
    },
    /// A task violated its objective repeatedly and falls back to a faster way, or returns: queries
    /// that arrive from now on take ways of another level.
    Switch {
        /// Index of the task.
        task: usize,
        /// When.
        at_ns: u64,
        /// The level before.
        from: usize,
        /// The level from now on.
        to: usize,
    },
    /// A query ended.
    Query(QueryRecord),
    /// An engine ended.
    EngineLost {
        /// Index of the processor.
        processor: usize,
        /// When the runtime noticed.
        at_ns: u64,
        /// Why.
        reason: String,
        /// Queries that were lost with it.
        queries: Vec<usize>,
        /// Whether the next piece starts it again.
        #[serde(default)]
        starts_again: bool,
    },
    /// An engine that had ended was started again, with nothing loaded.
    EngineStarted {
        /// Index of the processor.
        processor: usize,
        /// When.
        at_ns: u64,
        /// Identifier of the new process.
        process: Option<u32>,
        /// How long it took.
        ns: u64,
        /// Why the one before ended.
        reason: String,
    },
    /// The difference of a task's results from those of the whole model on one engine, as a share of
    /// the largest value; the last query of a lane counts.
    Apart {
        /// Number of the lane.
        lane: usize,
        /// The share.
        share: f64,
        /// The output that differs most.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        output: String,
        /// The share that the model's precision explains; `None`: a log of before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        most: Option<f64>,
    },
    /// The run ended.
    End {
        /// When.
        at_ns: u64,
        /// Whether the user interrupted it before all queries had arrived.
        interrupted: bool,
        /// Most memory of loaded subgraphs at one time, bytes.
        largest_bytes: u64,
    },
}

/// A whole log.
#[derive(Clone, Debug, PartialEq)]
pub struct RunLog {
    /// The first line.
    pub header: LogHeader,
    /// The others.
    pub events: Vec<RunEvent>,
    /// The path from which it was read; empty for a new log.
    pub path: PathBuf,
}

impl RunLog {
    /// The queries in the order in which they ended.
    pub fn queries(&self) -> impl Iterator<Item = &QueryRecord> {
        self.events.iter().filter_map(|event| match event {
            RunEvent::Query(query) => Some(query),
            _ => None,
        })
    }

    /// The text of the file.
    ///
    /// # Errors
    /// [`RunError::Invalid`] where a number cannot be written as JSON.
    pub fn text(&self) -> Result<String, RunError> {
        let failed = |e: serde_json::Error| self.invalid("log".to_owned(), e.to_string());
        let mut text = serde_json::to_string(&self.header).map_err(failed)? + "\n";
        for event in &self.events {
            text += &serde_json::to_string(event).map_err(failed)?;
            text.push('\n');
        }
        Ok(text)
    }

    /// Reads and checks a file.
    ///
    /// # Errors
    /// [`RunError`] naming the file and the line.
    pub fn read(path: &Path) -> Result<Self, RunError> {
        let failed = |source| RunError::Io { action: "read", path: path.to_owned(), source };
        Self::parse(&vitempo_graph::files::read_text(path).map_err(failed)?, path)
    }

    /// The same from the text of a file.
    ///
    /// # Errors
    /// [`RunError`] naming the file and the line.
    pub fn parse(text: &str, path: &Path) -> Result<Self, RunError> {
        let refuse = |line: usize, reason: String| RunError::Invalid {
            path: path.to_owned(),
            field: format!("line {}", line + 1),
            reason,
        };
        let mut lines = text.lines().enumerate();
        let (_, first) = lines.next().ok_or_else(|| refuse(0, "it is empty".to_owned()))?;
        let header: LogHeader =
            serde_json::from_str(first).map_err(|e| refuse(0, e.to_string()))?;
        if header.format != FORMAT || header.version != VERSION {
            let reason = format!(
                "`{}` version {}; this program reads `{FORMAT}` version {VERSION}",
                header.format, header.version
            );
            return Err(refuse(0, reason));
        }
        let mut events = Vec::new();
        for (number, line) in lines {
            let event: RunEvent =
                serde_json::from_str(line).map_err(|e| refuse(number, e.to_string()))?;
            if let RunEvent::Query(query) = &event {
                check(&header, query).map_err(|reason| refuse(number, reason))?;
            }
            events.push(event);
        }
        let log = Self { header, events, path: path.to_owned() };
        log.check_lanes().map_err(|reason| refuse(0, reason))?;
        Ok(log)
    }

    fn check_lanes(&self) -> Result<(), String> {
        let (processors, tasks) = (self.header.processors.len(), self.header.tasks.len());
        for (number, lane) in self.header.lanes.iter().enumerate() {
            let known = lane.steps.iter().all(|(processor, _)| *processor < processors);
            if lane.task >= tasks || lane.steps.is_empty() || !known {
                return Err(format!("lanes[{number}] names an unknown task or processor"));
            }
        }
        Ok(())
    }

    pub(super) fn invalid(&self, field: String, reason: String) -> RunError {
        RunError::Invalid { path: self.path.clone(), field, reason }
    }
}

fn check(header: &LogHeader, query: &QueryRecord) -> Result<(), String> {
    if query.task >= header.tasks.len() {
        return Err(format!("there is no task {}", query.task));
    }
    let Some(lane) = query.lane else { return Ok(()) };
    let found = header.lanes.get(lane).ok_or_else(|| format!("there is no lane {lane}"))?;
    let (pieces, steps) = (query.pieces.len(), found.steps.len());
    let complete = query.outcome == Outcome::Done;
    if found.task != query.task || pieces > steps || (complete && pieces != steps) {
        return Err(format!(
            "query {}: {pieces} pieces for {steps} steps of lane {lane}",
            query.query
        ));
    }
    if complete && query.latency_ns.is_none() {
        return Err(format!("query {} is done without a latency", query.query));
    }
    Ok(())
}

impl QueryRecord {
    /// The record of a query from its pieces; its last piece ends the query.
    #[must_use]
    pub fn done(
        (query, round, task, lane): (usize, usize, usize, usize),
        arrived_ns: u64,
        pieces: Vec<PieceRecord>,
        (accurate, slo_ns): (bool, u64),
    ) -> Self {
        let end_ns = pieces.last().map_or(arrived_ns, |piece| piece.noticed_ns);
        let latency_ns = end_ns.saturating_sub(arrived_ns);
        let sum = |of: fn(&PieceRecord) -> u64| pieces.iter().map(of).sum::<u64>();
        let (running_ns, loading_ns) = (sum(|p| p.run_ns), sum(|p| p.loading_ns));
        let waiting_ns = sum(|p| p.dispatched_ns.saturating_sub(p.ready_ns));
        let rest = running_ns.saturating_add(loading_ns).saturating_add(waiting_ns);
        Self {
            query,
            round,
            task,
            lane: Some(lane),
            arrived_ns,
            outcome: Outcome::Done,
            violated: !accurate || latency_ns > slo_ns,
            latency_ns: Some(latency_ns),
            waiting_ns,
            running_ns,
            handover_ns: latency_ns.saturating_sub(rest),
            loading_ns,
            reason: None,
            pieces,
        }
    }
}
