//! Live runs of plans: the engines of `--live`, and the results of a run as JSON.

use super::super::{
    error::{CliError, CliResult},
    interrupt::interrupted,
    quantity::{self, positive},
};
use serde::Serialize;
use serde_json::{Value, json};
use vitempo::graph::Graph;
use vitempo::plan::{
    live::{Engine, LiveOptions, LiveSession, LiveSessionError, tolerance},
    partition::{Partition, PartitionError},
};
use vitempo::planners::{Evidence, simulator::StreamOutcome};
use vitempo::profiler::live::LiveError;

/// Live runs of a plan.
#[derive(clap::Args, Clone, Debug)]
pub struct LiveArgs {
    /// Run the plan with this engine, on cores of its own, as a processor, e.g.
    /// `npu=onnxruntime@0,1`; may be repeated
    #[arg(long = "live", value_name = "NAME=BACKEND[@CORES]", value_parser = parse_engine)]
    pub engines: Vec<Engine>,

    /// Number of measured frames, for every plan and for every part alone
    #[arg(long, value_name = "COUNT", default_value = "30", value_parser = positive, requires = "engines")]
    pub frames: usize,

    /// Frames per second of a camera; without it the next frame starts as soon as the first queue
    /// has room
    #[arg(long, value_name = "FPS", value_parser = quantity::above_zero)]
    pub camera: Option<f64>,

    /// Deadline from capture to result; later frames are counted
    #[arg(long, value_name = "TIME", value_parser = quantity::time_ns)]
    pub deadline: Option<u64>,
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

/// Engines in one line: `a: onnxruntime on cores [0]; b: rten on cores [1]`.
pub fn in_a_line(described: &[(String, String)]) -> String {
    let engines = described.iter().map(|(name, what)| format!("{name}: {what}"));
    engines.collect::<Vec<_>>().join("; ")
}

/// How far results are from those of the whole model, as a line.
pub fn difference(apart: f64) -> String {
    let share = share(apart);
    format!("results differ from the whole model's by at most {share} of the largest value")
}

/// A difference as a share; the largest number stands for an infinite one.
pub fn share(apart: f64) -> String {
    let apart = if apart < f64::MAX { apart } else { f64::INFINITY };
    format!("{apart:.1e}")
}

/// The error of an output that is further from the whole model's than its precision explains.
pub fn other_results(output: &str, [apart, most]: [f64; 2], engines: &str) -> CliError {
    let apart = share(apart);
    CliError::user(format!(
        "output `{output}` differs from the whole model's by {apart} of its largest value, its \
        precision explains {most:.1e}: {engines}"
    ))
    .hint("one engine computes something else; see `vitempo backends check`")
}

/// Refuses results that are further from the whole model's than its precision explains.
pub fn check_results(apart: Option<f64>, model: &Graph, engines: &str) -> CliResult {
    let most = tolerance(model);
    match apart.filter(|apart| *apart > most) {
        Some(apart) => {
            let found = difference(apart);
            let error = format!("{found}, its precision explains {most:.1e}: {engines}");
            Err(CliError::user(error)
                .hint("one engine computes something else; see `vitempo backends check`"))
        }
        None => Ok(()),
    }
}

impl From<LiveError> for CliError {
    fn from(error: LiveError) -> Self {
        match error {
            LiveError::Pinning(error) => error.into(),
            other => Self::user(other),
        }
    }
}

impl From<PartitionError> for CliError {
    fn from(error: PartitionError) -> Self {
        match error {
            PartitionError::Onnx(error) => error.into(),
            other => Self::user(other),
        }
    }
}

impl From<LiveSessionError> for CliError {
    fn from(error: LiveSessionError) -> Self {
        match &error {
            LiveSessionError::NoEngine { processor } => {
                let hint = format!("add --live {processor}=rten");
                Self::user(error).hint(hint)
            }
            LiveSessionError::Camera { .. } => Self::user("--camera: this rate is too low"),
            LiveSessionError::Outputs(_) | LiveSessionError::Ended => Self::ours(error),
            _ => Self::user(error),
        }
    }
}

impl LiveArgs {
    /// Starts the engines with the parts of a model.
    pub fn start(&self, partition: Partition) -> CliResult<LiveSession> {
        let options = LiveOptions {
            engines: self.engines.clone(),
            frames: self.frames,
            camera_fps: self.camera,
            deadline_ns: self.deadline,
            interrupted: interrupted(),
        };
        Ok(LiveSession::start(options, partition)?)
    }
}

/// The outcome of a stream, as JSON.
pub fn outcome_json(outcome: &StreamOutcome, evidence: Evidence) -> Value {
    let latency_ns = [0.5, 0.99].map(|share| outcome.latency_quantile(share));
    figures(
        outcome.period_ns(),
        latency_ns,
        [outcome.completed, outcome.late, outcome.dropped],
        evidence,
    )
}

/// The same: period, p50 and p99 of latency, and the numbers of frames that finished, were late,
/// and were dropped.
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
    use vitempo::graph::{GraphBuilder, GraphError, OpKind, TensorSpec};

    #[test]
    fn other_results_than_the_whole_models_are_an_error() -> Result<(), GraphError> {
        let mut b = GraphBuilder::new("m");
        let x = b.input("x", TensorSpec::f32([1, 4]));
        let y = b.unary("relu", OpKind::Relu, x)?;
        let graph = b.finish(vec![y])?;
        let engines = "a: rten on cores [0]; b: onnxruntime on cores [1]";
        for fine in [None, Some(0.0), Some(1e-3)] {
            assert!(check_results(fine, &graph, engines).is_ok(), "{fine:?}");
        }
        let refused = check_results(Some(1.1), &graph, engines).map_err(|e| e.to_string());
        assert_eq!(
            refused,
            Err(format!(
                "results differ from the whole model's by at most 1.1e0 of the largest value, its \
                precision explains 1.0e-2: {engines}"
            ))
        );
        Ok(())
    }

    #[test]
    fn an_output_that_differs_is_named() {
        let said = |apart| other_results("y", [apart, 0.01], "a: rten").to_string();
        assert_eq!(
            said(0.5),
            "output `y` differs from the whole model's by 5.0e-1 of its largest value, its \
            precision explains 1.0e-2: a: rten"
        );
        assert!(said(f64::MAX).contains("by inf of its"), "NaN on one side");
    }

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
