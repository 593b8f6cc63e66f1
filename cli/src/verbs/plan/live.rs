//! Running plans for real: engines named on the command line, and what a run brings, in the
//! simulator's terms.

use super::{
    super::{
        error::{CliError, CliResult},
        profile::{interrupted, parse_positive},
        quantity,
    },
    division::Divided,
};
use serde::Serialize;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use vitempo::planners::{Evidence, simulator::StreamOutcome};
use vitempo::profiler::{
    OutputValues, RunOptions, conformance, inputs,
    live::{Arrivals, LiveError, LiveProcessor, Rig, Run, Stage, Task, Trial, named},
};

/// Frames before those that count.
pub const WARMUPS: usize = 3;

/// Running a plan for real.
#[derive(clap::Args, Clone, Debug)]
pub struct LiveArgs {
    /// Run it for real: a processor as an engine on cores of its own, e.g. `npu=onnxruntime@0,1`;
    /// may be repeated
    #[arg(long = "live", value_name = "NAME=BACKEND[@CORES]", value_parser = parse_engine)]
    pub engines: Vec<Engine>,

    /// Frames that are measured, of every plan and of every part alone
    #[arg(long, value_name = "COUNT", default_value = "30", value_parser = parse_positive, requires = "engines")]
    pub frames: usize,

    /// Frames per second of a camera; without it the next frame is there as soon as there is room
    #[arg(long, value_name = "FPS", value_parser = quantity::above_zero)]
    pub camera: Option<f64>,

    /// Count frames whose results come later than this after they were captured
    #[arg(long, value_name = "TIME", value_parser = quantity::time_ns)]
    pub deadline: Option<u64>,
}

/// `--live`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Engine {
    pub name: String,
    pub backend: String,
    pub cores: Vec<usize>,
}

impl Engine {
    /// One thread per core, or one.
    pub fn processor(&self) -> LiveProcessor {
        let options = RunOptions {
            threads: self.cores.len().max(1),
            cores: self.cores.clone(),
            ..RunOptions::default()
        };
        LiveProcessor { name: self.name.clone(), backend: self.backend.clone(), options }
    }
}

/// `npu=onnxruntime@0,1`.
pub fn parse_engine(text: &str) -> Result<Engine, String> {
    const EXPECTED: &str = "expected NAME=BACKEND or NAME=BACKEND@CORES, e.g. npu=onnxruntime@0,1";
    let (name, engine) = text.split_once('=').ok_or(EXPECTED)?;
    let (backend, cores) =
        engine.split_once('@').map_or((engine, ""), |(backend, cores)| (backend, cores));
    let cores: Result<Vec<usize>, _> =
        cores.split(',').filter(|core| !core.is_empty()).map(|core| core.trim().parse()).collect();
    match cores {
        Ok(cores) if !name.is_empty() && !backend.is_empty() => {
            Ok(Engine { name: name.to_owned(), backend: backend.to_owned(), cores })
        }
        _ => Err(EXPECTED.to_owned()),
    }
}

/// Names of engines and what they are: `onnxruntime on cores [0]`.
pub fn described(engines: &[Engine], rig: &Rig) -> Vec<(String, String)> {
    let one = |(engine, cores): (&Engine, &[usize])| {
        (engine.name.clone(), format!("{} on cores {cores:?}", engine.backend))
    };
    engines.iter().zip(rig.cores()).map(one).collect()
}

/// The same in one line.
pub fn in_a_line(engines: &[Engine], rig: &Rig) -> String {
    described(engines, rig)
        .into_iter()
        .map(|(name, what)| format!("{name}: {what}"))
        .collect::<Vec<_>>()
        .join("; ")
}

impl From<LiveError> for CliError {
    fn from(error: LiveError) -> Self {
        Self::user(error)
    }
}

impl LiveArgs {
    /// The engine of a processor of the plan.
    pub fn index_of(&self, processor: &str) -> CliResult<usize> {
        let found = self.engines.iter().position(|engine| engine.name == processor);
        found.ok_or_else(|| {
            CliError::user(format!("processor `{processor}` has no engine"))
                .hint(format!("add --live {processor}=rten"))
        })
    }
}

/// Engines, ready to run the parts of one model, and one frame to send through them.
pub struct Stand {
    rig: Rig,
    inputs: Vec<Arc<OutputValues>>,
    outputs: Vec<String>,
    /// What the whole model computes from that frame.
    expected: Vec<OutputValues>,
    trial: Trial,
    deadline_ns: Option<u64>,
}

impl Stand {
    /// Starts the engines; the first one runs the whole model once, to have something to compare
    /// results with.
    pub fn start(args: &LiveArgs, divided: Divided) -> CliResult<Self> {
        let processors: Vec<LiveProcessor> = args.engines.iter().map(Engine::processor).collect();
        let Divided { whole, mut parts } = divided;
        let defaults = RunOptions::default();
        let inputs =
            inputs::of_graph(&whole, defaults.inputs, defaults.seed).map_err(CliError::user)?;
        let outputs = whole.outputs().iter().map(|&id| whole.value(id).name.clone()).collect();
        parts.push(whole);
        let last = parts.len() - 1;
        let too_slow = |_| CliError::user("--camera: that is too slow to wait for");
        let period = args
            .camera
            .map(|fps| Duration::try_from_secs_f64(1.0 / fps))
            .transpose()
            .map_err(too_slow)?;
        let arrivals = period.map_or(Arrivals::Closed, Arrivals::Camera);
        let trial = Trial { arrivals, warmups: WARMUPS, frames: args.frames };
        let inputs = inputs.into_iter().map(Arc::new).collect();
        let mut stand = Self {
            rig: Rig::start(&processors, parts)?,
            inputs,
            outputs,
            expected: Vec::new(),
            trial,
            deadline_ns: args.deadline,
        };
        let once = Trial { arrivals: Arrivals::Closed, warmups: 1, frames: 1 };
        let run = stand.rig.run(&[alone(last, 0)], &stand.inputs, &once, &interrupted())?;
        stand.expected = stand.results(&run);
        Ok(stand)
    }

    /// Runs a frame through stages as often as asked for.
    pub fn run(&self, stages: &[Stage]) -> CliResult<Run> {
        Ok(self.rig.run(stages, &self.inputs, &self.trial, &interrupted())?)
    }

    /// How long one part takes on one processor with nothing beside it, ns; `values` is what it
    /// needs.
    pub fn alone(
        &self,
        part: usize,
        processor: usize,
        values: &[Arc<OutputValues>],
        frames: usize,
    ) -> CliResult<Vec<u64>> {
        let trial = Trial { arrivals: Arrivals::Closed, warmups: WARMUPS, frames };
        let mut run = self.rig.run(&[alone(part, processor)], values, &trial, &interrupted())?;
        Ok(run.busy_ns.remove(&(part, processor)).unwrap_or_default())
    }

    /// Everything that is known of a frame after these parts have run, one after the other, on one
    /// processor.
    pub fn computed(&self, parts: &[usize], processor: usize) -> CliResult<Vec<Arc<OutputValues>>> {
        let steps = parts.iter().map(|&part| vec![Task { part, processor }]).collect();
        let stage = Stage { name: "once".to_owned(), queue: 0, steps };
        let once = Trial { arrivals: Arrivals::Closed, warmups: 1, frames: 1 };
        Ok(self.rig.run(&[stage], &self.inputs, &once, &interrupted())?.values)
    }

    /// How far the results are from the whole model's, as a share of the largest value; `None`
    /// where engines compute nothing.
    pub fn apart(&self, run: &Run) -> CliResult<Option<f64>> {
        if self.expected.is_empty() {
            return Ok(None);
        }
        let (apart, _) =
            conformance::difference(&self.expected, &self.results(run)).map_err(CliError::ours)?;
        Ok(Some(apart))
    }

    /// A run as the simulator would tell it.
    pub fn outcome(&self, run: &Run) -> StreamOutcome {
        let late = run
            .latency_ns
            .iter()
            .filter(|&&ns| self.deadline_ns.is_some_and(|deadline| ns > deadline))
            .count();
        StreamOutcome {
            name: "frames".to_owned(),
            completed: run.latency_ns.len() as u64,
            dropped: run.dropped,
            latency_ns: run.latency_ns.clone(),
            completed_ns: run.completed_ns.clone(),
            late: late as u64,
        }
    }

    /// `a: onnxruntime on cores [0]`, for every processor.
    pub fn describe(&self, args: &LiveArgs) -> String {
        in_a_line(&args.engines, &self.rig)
    }

    fn results(&self, run: &Run) -> Vec<OutputValues> {
        self.outputs.iter().filter_map(|name| named(&run.values, name).cloned()).collect()
    }
}

fn alone(part: usize, processor: usize) -> Stage {
    Stage { name: "alone".to_owned(), queue: 0, steps: vec![vec![Task { part, processor }]] }
}

/// What a stream got, as JSON.
pub fn told(outcome: &StreamOutcome, evidence: Evidence) -> Value {
    let latency_ns = [0.5, 0.99].map(|share| outcome.latency_quantile(share));
    figures(
        outcome.period_ns(),
        latency_ns,
        [outcome.completed, outcome.late, outcome.dropped],
        evidence,
    )
}

/// The same: period, half and 99 of 100 latencies, and how many frames came, were late, and were
/// dropped.
pub fn figures<L: Serialize>(
    period_ns: Option<f64>,
    [p50, p99]: [L; 2],
    [frames, late, dropped]: [u64; 3],
    evidence: Evidence,
) -> Value {
    json!({"period_ns": period_ns, "latency_p50_ns": p50, "latency_p99_ns": p99, "frames": frames, "late": late, "dropped": dropped, "evidence": evidence})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_are_read_with_and_without_cores() {
        let engine = |name: &str, backend: &str, cores: &[usize]| Engine {
            name: name.to_owned(),
            backend: backend.to_owned(),
            cores: cores.to_vec(),
        };
        assert_eq!(parse_engine("npu=onnxruntime@0,1"), Ok(engine("npu", "onnxruntime", &[0, 1])));
        assert_eq!(parse_engine("cpu=rten"), Ok(engine("cpu", "rten", &[])));
        for text in ["rten", "=rten", "cpu=", "cpu=@1", "cpu=rten@one"] {
            assert!(parse_engine(text).is_err_and(|e| e.contains("NAME=BACKEND")), "{text}");
        }
    }
}
