//! Checks that an engine computes correct results in every precision and memory format it offers,
//! and that its operator times add up to the time of the run.
//!
//! Each engine runs a few small graphs ([`graphs`]) in a worker of its own. Weights and inputs are
//! the same for all engines (one seed). Outputs are compared with those of the embedded engine in
//! single precision: the largest difference of an output as a share of its largest value must stay
//! within [`tolerance`]. The times of the operators must add up to [`WHOLE`] of the run they were
//! taken in, in the run where they fit best. A run during which another program used the processor
//! does not count as a failure.

pub mod graphs;

use crate::{
    backends::{Capabilities, OutputValues, RunOptions},
    model_run::ModelRun,
    probe::{self, SweepError},
    protocol::RunProtocol,
    source::Source,
    worker::{Reply, Request, RunRequest, Worker, WorkerCommand},
};
use serde::Serialize;
use std::{collections::BTreeMap, ops::RangeInclusive, sync::atomic::AtomicBool, time::Duration};
use vitempo_graph::{Executed, Graph, MemoryFormat, OpKind, Precision, Processor, Setting, Status};

/// The engine whose outputs the others are held against.
pub const REFERENCE: &str = "rten";
/// Operator times as a share of the whole run.
pub const WHOLE: RangeInclusive<f64> = 0.5..=1.5;
/// The same of a CUDA graph, whose operators are timed on the device, and of its runs without
/// timing: these graphs take little more than their launch.
pub const LAUNCHED: RangeInclusive<f64> = 0.2..=1.5;
/// The least share of a run in which an engine on a CPU computes; with less, another program used
/// the processor.
const BUSY: f64 = 0.8;
/// How often a graph runs before operator times that do not add up count.
const ATTEMPTS: usize = 3;
/// Longest a graph may take; emulators of other processors are slow.
const TIMEOUT: Duration = Duration::from_secs(180);

/// Largest difference between outputs that a precision explains, as a share of the largest value:
/// its rounding, some hundred times over for the length of the sums; for 8 bits, what static scales
/// lose.
#[must_use]
pub fn tolerance(precision: Precision) -> f64 {
    match precision {
        Precision::F16 => 2e-2,
        Precision::Bf16 => 1e-1,
        Precision::I8 | Precision::U8 => 3e-1,
        _ => 1e-3,
    }
}

/// One graph on one engine in one precision and memory format.
#[derive(Clone, Debug, Serialize)]
pub struct Case {
    /// Name of the backend.
    pub backend: String,
    /// Precision asked for.
    pub precision: Precision,
    /// Asked for; `None`: the engine's own choice.
    pub memory_format: Option<MemoryFormat>,
    /// Settings asked for.
    pub settings: Vec<Setting>,
    /// Name of the graph.
    pub graph: String,
    /// What really ran, where operators were timed.
    pub executed: Option<Executed>,
    /// Largest difference of an output, as a share of its largest value; `None` where nothing was
    /// computed.
    pub apart: Option<f64>,
    /// What of it the precision explains.
    pub tolerance: f64,
    /// Operator times as a share of the whole run; `None` where the engine does not time operators,
    /// or all runs were disturbed.
    pub operators_share: Option<f64>,
    /// Operator times did not add up in any run, and another program used the processor in all of
    /// them: not compared.
    pub disturbed: bool,
    /// Kernels that ran.
    pub kernels: usize,
    /// Kernels whose operator is not known.
    pub unlabelled: usize,
    /// Why the engine does not conform.
    pub error: Option<String>,
}

impl Case {
    /// Nothing is known to be wrong but operator times, on which load on the machine falls.
    fn deserves_another_run(&self) -> bool {
        self.disturbed
            || self.operators_share.is_some_and(|share| !self.expected().contains(&share))
    }

    /// What operator times have to add up to.
    fn expected(&self) -> RangeInclusive<f64> {
        if self.settings.contains(&Setting::CudaGraph) { LAUNCHED } else { WHOLE }
    }
}

/// The conformance suite.
#[derive(Debug)]
pub struct Suite<'a> {
    worker: &'a WorkerCommand,
    options: RunOptions,
    graphs: Vec<Graph>,
    expected: BTreeMap<String, Vec<OutputValues>>,
    interrupted: &'a AtomicBool,
}

impl<'a> Suite<'a> {
    /// The suite for these options; their precision and memory format do not count. Runs the graphs
    /// on [`REFERENCE`].
    ///
    /// # Errors
    /// A sentence, when a graph does not run there.
    pub fn new(
        worker: &'a WorkerCommand,
        options: &RunOptions,
        interrupted: &'a AtomicBool,
    ) -> Result<Self, String> {
        let graphs = graphs::all().map_err(|e| e.to_string())?;
        let mut suite = Self {
            worker,
            options: options.clone(),
            graphs,
            expected: BTreeMap::new(),
            interrupted,
        };
        let plain = RunOptions {
            precision: Precision::F32,
            memory_format: None,
            library: None,
            ..RunOptions { seed: options.seed, inputs: options.inputs, ..RunOptions::default() }
        };
        for graph in &suite.graphs {
            let run = suite
                .run_model(REFERENCE, &plain, graph, false)
                .map_err(|reason| format!("`{}` on {REFERENCE}: {reason}", graph.name()))?;
            suite.expected.insert(graph.name().to_owned(), run.outputs);
        }
        Ok(suite)
    }

    /// What an engine offers here.
    ///
    /// # Errors
    /// [`SweepError`] when it is not here.
    pub fn capabilities(&self, backend: &str) -> Result<Capabilities, SweepError> {
        probe::capabilities(self.worker, backend, &self.options)
    }

    /// Every graph in every precision and memory format that the engine offers; `done` receives
    /// each case as soon as it ends. A combination that the engine refuses with a reason is not a
    /// case.
    pub fn run(
        &self,
        backend: &str,
        offered: &Capabilities,
        mut done: impl FnMut(&Case),
    ) -> Vec<Case> {
        let formats: Vec<Option<MemoryFormat>> = if offered.memory_formats.len() > 1 {
            offered.memory_formats.iter().copied().map(Some).collect()
        } else {
            vec![None]
        };
        let wanted = self.options.processor;
        let processor = if offered.devices.contains(&wanted) {
            wanted
        } else {
            offered.devices.first().copied().unwrap_or(wanted)
        };
        let mut cases = Vec::new();
        for &precision in &offered.precisions {
            for &memory_format in &formats {
                let options =
                    RunOptions { precision, memory_format, processor, ..self.options.clone() };
                match probe::probe(self.worker, backend, &options) {
                    Err(SweepError::Option(_)) => continue,
                    _ if self.interrupted.load(std::sync::atomic::Ordering::Relaxed) => {
                        return cases;
                    }
                    _ => {}
                }
                for graph in &self.graphs {
                    let attempt = || self.case(backend, &options, graph, offered.operator_timing);
                    let case = (1..ATTEMPTS).fold(attempt(), |case, _| {
                        if case.deserves_another_run() { attempt() } else { case }
                    });
                    done(&case);
                    cases.push(case);
                }
            }
        }
        cases
    }

    fn case(&self, backend: &str, options: &RunOptions, graph: &Graph, timed: bool) -> Case {
        let (precision, memory_format) = (options.precision, options.memory_format);
        let mut case = Case {
            backend: backend.to_owned(),
            precision,
            memory_format,
            settings: options.settings.clone(),
            graph: graph.name().to_owned(),
            executed: None,
            apart: None,
            tolerance: tolerance(precision),
            operators_share: None,
            disturbed: false,
            kernels: 0,
            unlabelled: 0,
            error: None,
        };
        let mut check = || -> Result<(), String> {
            let run = self.run_model(backend, options, graph, timed)?;
            case.kernels = run.operators.len();
            case.unlabelled = run
                .operators
                .iter()
                .filter(|o| matches!(o.op.kind, OpKind::Unsupported(_)))
                .count();
            case.executed = Executed::of(&run.operators);
            let share = if options.settings.contains(&Setting::CudaGraph) {
                launched_share(&run)
            } else {
                operators_share(&run, options.processor)
            };
            case.operators_share = share.filter(|_| timed);
            if !run.outputs.is_empty() {
                let expected =
                    self.expected.get(graph.name()).map(Vec::as_slice).unwrap_or_default();
                let (apart, output) = difference(expected, &run.outputs)?;
                case.apart = Some(apart);
                if apart > case.tolerance {
                    return Err(format!(
                        "output `{output}` is {apart:.2e} of its largest value away from \
                        {REFERENCE}'s, {:.0e} are allowed",
                        case.tolerance
                    ));
                }
            }
            if let Some((node, reason)) = run.operators.iter().find_map(|o| {
                if let Status::Failed(reason) = &o.status { Some((&o.node, reason)) } else { None }
            }) {
                return Err(format!("kernel `{node}` {reason}"));
            }
            if timed && run.operators.is_empty() {
                return Err("no operator was timed".to_owned());
            }
            case.disturbed = timed && case.operators_share.is_none();
            match case.operators_share {
                Some(share) if !case.expected().contains(&share) => {
                    Err(format!("operator times add up to {share:.2} of the run"))
                }
                _ => Ok(()),
            }
        };
        case.error = check().err();
        case
    }

    /// `timed`: also the operators, not only the outputs.
    fn run_model(
        &self,
        backend: &str,
        options: &RunOptions,
        graph: &Graph,
        timed: bool,
    ) -> Result<ModelRun, String> {
        let mut protocol = RunProtocol {
            profiled_repeats: 9,
            reference_repeats: 0,
            outputs: true,
            ..RunProtocol::default()
        };
        protocol.protocol.warmups = 1;
        let repeats = if options.settings.contains(&Setting::CudaGraph) { 5 } else { 1 };
        (protocol.protocol.min_repeats, protocol.protocol.max_repeats) = (repeats, repeats);
        if !timed {
            (protocol.profiled_repeats, protocol.protocol.max_repeats) = (0, 0);
        }
        let request = RunRequest {
            backend: backend.to_owned(),
            options: options.clone(),
            protocol,
            name: graph.name().to_owned(),
            graph: graph.clone(),
            source: Source::Graph,
        };
        let mut worker = Worker::start(self.worker).map_err(|e| e.to_string())?;
        match worker
            .ask(&Request::Run(Box::new(request)), TIMEOUT, self.interrupted)
            .map_err(|e| e.to_string())?
        {
            Reply::Ran(run) => Ok(*run),
            Reply::Failed { reason, .. } => Err(reason),
            _ => Err("the worker answered another question".to_owned()),
        }
    }
}

/// Of the profiled runs that add up or had the processor, the share nearest to one; `None` where
/// there is no such run.
fn operators_share(run: &ModelRun, processor: Processor) -> Option<f64> {
    let runs = &run.e2e_profiled;
    let sum = |index: usize| {
        run.operators
            .iter()
            .filter_map(|o| o.samples.wall_ns.get(index))
            .map(|&ns| ns as f64)
            .sum::<f64>()
    };
    let shares = runs
        .wall_ns
        .iter()
        .enumerate()
        .map(|(run, &wall)| (run, sum(run) / (wall as f64).max(1.0)));
    let had_it = |run: usize| {
        processor != Processor::Cpu
            || runs.cpu_ns.get(run).is_none_or(|&cpu| cpu as f64 >= BUSY * runs.wall_ns[run] as f64)
    };
    let valid =
        shares.filter(|(run, share)| WHOLE.contains(share) || had_it(*run)).map(|(_, share)| share);
    valid
        .filter(|_| !run.operators.is_empty())
        .min_by(|a, b| (a - 1.0).abs().total_cmp(&(b - 1.0).abs()))
}

/// The operators of a CUDA graph beside its runs without timing: the records that time operators
/// make launches slow.
fn launched_share(run: &ModelRun) -> Option<f64> {
    let sum: f64 = run.operators.iter().filter_map(|o| o.samples.median_ns()).sum();
    Some(sum / run.e2e.median_ns()?.max(1.0)).filter(|_| !run.operators.is_empty())
}

/// The difference of two values: none where both are no numbers, infinite where one of them is.
fn apart(x: f32, y: f32) -> f32 {
    if x == y || x.is_nan() && y.is_nan() {
        return 0.0;
    }
    let apart = (x - y).abs();
    if apart.is_nan() { f32::INFINITY } else { apart }
}

/// The largest difference between outputs, as a share of the largest value of that output, and the
/// output's name.
///
/// # Errors
/// A sentence, when they are not the same outputs.
pub fn difference(
    expected: &[OutputValues],
    found: &[OutputValues],
) -> Result<(f64, String), String> {
    if expected.len() != found.len() {
        return Err(format!("{} outputs instead of {}", found.len(), expected.len()));
    }
    let mut worst = (0.0, String::new());
    for (a, b) in expected.iter().zip(found) {
        if a.shape != b.shape || a.values.len() != b.values.len() {
            return Err(format!(
                "output `{}` has shape {:?} instead of {:?}",
                a.name, b.shape, a.shape
            ));
        }
        let finite = a.values.iter().filter(|v| v.is_finite());
        let largest = finite.fold(0f32, |m, v| m.max(v.abs()));
        let apart = a.values.iter().zip(&b.values).map(|(x, y)| apart(*x, *y)).fold(0f32, f32::max);
        let share = f64::from(apart) / f64::from(largest.max(f32::MIN_POSITIVE));
        if share >= worst.0 {
            worst = (share, a.name.clone());
        }
    }
    Ok(worst)
}

#[cfg(test)]
mod tests {
    use super::*;
    use vitempo_graph::{Attributes, Measurement, OpSpec, Samples, TensorSpec};

    fn output(shape: &[usize], values: &[f32]) -> Vec<OutputValues> {
        vec![OutputValues { name: "y".into(), shape: shape.to_vec(), values: values.to_vec() }]
    }

    #[test]
    fn runs_that_did_not_have_the_processor_prove_nothing() {
        let op = OpSpec {
            kind: OpKind::Relu,
            attributes: Attributes::new(),
            inputs: Vec::new(),
            outputs: vec![TensorSpec::f32([4])],
        };
        let samples = |wall_ns, cpu_ns| Samples { wall_ns, cpu_ns };
        let kernel = Measurement {
            op: op.into(),
            node: String::new(),
            kernel: String::new(),
            samples: samples(vec![80; 3], Vec::new()),
            memory_bytes: None,
            status: Status::Ok,
        };
        let run = |wall_ns: &[u64], cpu_ns: &[u64]| ModelRun {
            e2e_profiled: samples(wall_ns.to_vec(), cpu_ns.to_vec()),
            operators: vec![kernel.clone()],
            ..ModelRun::default()
        };
        let short = [200, 400, 250];
        assert_eq!(operators_share(&run(&short, &[100, 400, 200]), Processor::Cpu), Some(0.32));
        assert_eq!(operators_share(&run(&short, &[100, 200, 100]), Processor::Cpu), None);
        assert_eq!(
            operators_share(&run(&short, &[100, 200, 100]), Processor::Npu),
            Some(0.4),
            "a CPU waits for others"
        );
        assert_eq!(
            operators_share(&run(&short, &[]), Processor::Cpu),
            Some(0.4),
            "where the system does not report it"
        );
        assert_eq!(
            operators_share(&run(&[100, 400, 250], &[50, 200, 100]), Processor::Cpu),
            Some(0.8),
            "what adds up does, disturbed or not"
        );
    }

    #[test]
    fn differences_are_shares_of_the_largest_value() {
        let expected = output(&[2], &[2.0, -4.0]);
        assert_eq!(difference(&expected, &output(&[2], &[2.0, -3.0])), Ok((0.25, "y".into())));
        assert_eq!(difference(&expected, &expected), Ok((0.0, "y".into())));
        let nothing = output(&[2], &[2.0, f32::NAN]);
        assert_eq!(difference(&nothing, &nothing), Ok((0.0, "y".into())));
        assert_eq!(difference(&expected, &nothing), Ok((f64::INFINITY, "y".into())));
        assert!(difference(&expected, &output(&[1, 2], &[2.0, -4.0])).is_err());
        assert!(difference(&expected, &[]).is_err());
    }
}
