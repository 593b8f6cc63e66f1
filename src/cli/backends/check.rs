//! `vitempo backends check`: whether an engine loads, runs and accounts for its time.

use super::lowering;
use crate::cli::{
    error::{CliError, CliResult},
    models::ModelArgs,
    output::{self, Format, Report, Table},
    profile::{RunArgs, parse_positive},
};
use serde_json::json;
use vitempo_graph::Status;
use vitempo_profiler::{Availability, Model, ModelSource, RunOptions, VisitProtocol, backends, reference, source, visit};

/// Checks every engine found, or how well the kernels it runs are predicted
///
/// Example: vitempo backends check --lowering models/ --backend onnxruntime --format json
///
/// Without --lowering: a small model loads and runs on every engine found, and its operator times add up to the whole.
/// With it: the models run with operator timing, and what ran is compared with the kernels that lowering predicts.
#[derive(clap::Args, Debug)]
pub struct CheckArgs {
    /// Only this engine
    #[arg(long, value_name = "NAME")]
    backend: Option<String>,

    /// Judge lowering by these models instead: ONNX files, folders of them, or globs; weights may be absent
    #[arg(long, value_name = "MODELS", num_args = 1.., requires = "backend")]
    lowering: Vec<String>,

    /// Runs of a model in which the operators are timed, to judge lowering
    #[arg(long, default_value = "3", value_parser = parse_positive, requires = "lowering")]
    profiled_repeats: usize,

    /// Fail when less of the time of a family of models was predicted, in percent
    #[arg(long, value_name = "PERCENT", requires = "lowering")]
    min_time_matched: Option<f64>,

    #[command(flatten)]
    run: RunArgs,

    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// What the check of one engine found.
struct Checked {
    backend: &'static str,
    e2e_ns: f64,
    operators_ns: f64,
    kernels: usize,
    unlabelled: usize,
    error: Option<String>,
}

pub fn run(args: &CheckArgs) -> CliResult {
    let only = args.backend.as_deref();
    if let Some(backend) = only.filter(|_| !args.lowering.is_empty()) {
        let models = ModelArgs { models: args.lowering.clone(), dimensions: Vec::new() };
        let question = lowering::Question { models, backend, options: args.run.options(), repeats: args.profiled_repeats };
        return lowering::run(question, args.min_time_matched, args.format);
    }
    let chosen = match only {
        Some(name) => vec![backends::by_name(name).map_err(CliError::user)?],
        None => backends::all(),
    };
    let options = args.run.options();
    let mut checked = Vec::new();
    for backend in &chosen {
        if let Availability::Unavailable { reason, hint } = backend.probe(&options) {
            if only.is_some() {
                return Err(CliError::user(format!("backend `{}` is not available: {reason}", backend.name())).hint(hint));
            }
            continue;
        }
        checked.push(check_one(backend.as_ref(), &options));
    }
    let failed: Vec<&str> = checked.iter().filter(|c| c.error.is_some()).map(|c| c.backend).collect();
    let message = format!("failed: {}", failed.join(", "));
    let passed = failed.is_empty();
    output::print(&Checks(checked), args.format)?;
    if passed { Ok(()) } else { Err(CliError::user(message)) }
}

fn check_one(backend: &dyn backends::Backend, options: &RunOptions) -> Checked {
    let mut checked = Checked { backend: backend.name(), e2e_ns: 0.0, operators_ns: 0.0, kernels: 0, unlabelled: 0, error: None };
    let mut measure = || -> Result<(), String> {
        let reference = reference::model().map_err(|e| e.to_string())?;
        let bytes = source::bytes_of_graph(&reference.graph, options.seed)?;
        let model = Model { source: ModelSource::Bytes(bytes), ..reference };
        let visited = visit::visit(backend, &model, options, &VisitProtocol::default(), None).map_err(|e| e.to_string())?;
        checked.e2e_ns = visited.e2e_profiled.median_ns().unwrap_or(0.0);
        checked.operators_ns = visited.operators.iter().filter_map(|o| o.samples.median_ns()).sum();
        checked.kernels = visited.operators.len();
        checked.unlabelled = visited.operators.iter().filter(|o| matches!(o.op.kind, vitempo_graph::OpKind::Unsupported(_))).count();
        match visited.operators.iter().find_map(|o| if let Status::Failed(reason) = &o.status { Some(reason.clone()) } else { None }) {
            Some(reason) => Err(reason),
            None if visited.e2e.wall_ns.is_empty() => Err("no end-to-end sample".to_owned()),
            None => Ok(()),
        }
    };
    checked.error = measure().err();
    checked
}

struct Checks(Vec<Checked>);

impl Checks {
    fn rows(&self) -> Table {
        let mut table = Table::new(&["Engine", "Result", "e2e", "Sum over operators", "Kernels", "Without a label"], 2);
        for c in &self.0 {
            let times = [c.e2e_ns, c.operators_ns].map(|ns| vitempo_graph::Latency::from_ns(ns).to_string());
            let result = c.error.as_deref().unwrap_or("ok").to_owned();
            table.row([c.backend.to_owned(), result].into_iter().chain(times).chain([c.kernels.to_string(), c.unlabelled.to_string()]));
        }
        table
    }
}

impl Report for Checks {
    fn table(&self) -> String {
        self.rows().to_text()
    }

    fn csv(&self) -> CliResult<String> {
        self.rows().to_csv()
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        let row = |c: &Checked| {
            json!({"backend": c.backend, "ok": c.error.is_none(), "error": c.error, "e2e_ns": c.e2e_ns, "operators_ns": c.operators_ns,
                "kernels": c.kernels, "unlabelled": c.unlabelled})
        };
        Ok(self.0.iter().map(row).collect())
    }
}
