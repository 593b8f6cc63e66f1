//! `vitempo backends check`: does each engine compute what it should, and do its operator times
//! account for the whole?

use super::{coverage, lowering};
use crate::verbs::{
    error::{CliError, CliResult},
    interrupt::interrupted,
    models::ModelArgs,
    output::{self, Format, Report, Table},
    profile::RunArgs,
    progress,
    quantity::positive,
    worker::worker,
};
use serde_json::json;
use std::sync::atomic::Ordering;
use vitempo::profiler::{
    backends,
    conformance::{Case, Suite},
};

/// Checks every engine found, how well the kernels it runs are predicted, or what an NPU takes
///
/// Example: vitempo backends check --lowering models/ --backend onnxruntime --format json
///
/// Without --lowering: small graphs run on every engine found, in every precision and memory format
/// it offers; outputs must equal those of the embedded engine within what the precision explains,
/// and operator times must add up to the whole. Where they do not because something else had the
/// processor, they are not judged, and a note says so.
///
/// With it: the models run with operator timing, and what ran is compared with the kernels that
/// lowering predicts.
///
/// With MODELS, for engine qnn: the models are compiled, and it is told which operators the NPU
/// takes, which are left and to whom. Nothing is timed.
#[derive(clap::Args, Debug)]
pub struct CheckArgs {
    /// Models to compile for an NPU: ONNX files, folders of them, or globs; weights may be absent
    #[arg(value_name = "MODELS", requires = "backend", conflicts_with = "lowering")]
    models: Vec<String>,

    /// Only this engine
    #[arg(long, value_name = "NAME")]
    backend: Option<String>,

    /// Judge lowering by these models instead: ONNX files, folders of them, or globs; weights may
    /// be absent
    #[arg(long, value_name = "MODELS", num_args = 1.., requires = "backend")]
    lowering: Vec<String>,

    /// Runs of a model in which the operators are timed, to judge lowering
    #[arg(long, default_value = "3", value_parser = positive, requires = "lowering")]
    profiled_repeats: usize,

    /// Fail when less of the time of a family of models was predicted, in percent
    #[arg(long, value_name = "PERCENT", requires = "lowering")]
    min_time_matched: Option<f64>,

    #[command(flatten)]
    run: RunArgs,

    /// Format of the output
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub fn run(args: &CheckArgs) -> CliResult {
    let options = args.run.options();
    let named = |models: &[String]| ModelArgs::of(models.to_vec(), Vec::new());
    if let Some(backend) = args.backend.as_deref().filter(|_| !args.models.is_empty()) {
        return coverage::run(&named(&args.models), backend, &options, args.format);
    }
    if let Some(backend) = args.backend.as_deref().filter(|_| !args.lowering.is_empty()) {
        let models = named(&args.lowering);
        let question =
            lowering::Question { models, backend, options, repeats: args.profiled_repeats };
        return lowering::run(question, args.min_time_matched, args.format);
    }
    let (worker, interrupted) = (worker()?, interrupted());
    let suite = Suite::new(&worker, &options, &interrupted).map_err(CliError::ours)?;
    let mut cases = Vec::new();
    for backend in chosen(args.backend.as_deref())? {
        let offered = match suite.capabilities(backend) {
            Ok(offered) => offered,
            Err(error) if args.backend.is_some() => return Err(error.into()),
            Err(error) => {
                progress::say(format!("skipped: {error}"));
                continue;
            }
        };
        let bar = progress::bar(0, "checking");
        cases.extend(suite.run(backend, &offered, |case| {
            bar.set_message(format!("{} {} {}", case.backend, case.precision, case.graph));
        }));
        bar.finish_and_clear();
    }
    let count = |of: fn(&Case) -> bool| cases.iter().filter(|c| of(c)).count();
    let (all, failed, disturbed) =
        (cases.len(), count(|c| c.error.is_some()), count(|c| c.disturbed));
    output::print(&Cases(cases), args.format)?;
    if disturbed > 0 {
        progress::say(format!(
            "note: the machine was busy; operator times of {disturbed} of {all} checks were not \
            judged"
        ));
    }
    if interrupted.load(Ordering::Relaxed) {
        return Err(CliError::user("interrupted: some engines were not checked"));
    }
    if failed == 0 {
        Ok(())
    } else {
        Err(CliError::user(format!("{failed} of {all} checks failed")))
    }
}

/// The engine asked for, or all that compute.
fn chosen(only: Option<&str>) -> CliResult<Vec<&'static str>> {
    match only {
        Some(name) => Ok(vec![backends::by_name(name).map_err(CliError::user)?.name()]),
        None => {
            Ok(backends::all().iter().map(|b| b.name()).filter(|&name| name != "null").collect())
        }
    }
}

struct Cases(Vec<Case>);

impl Cases {
    fn rows(&self) -> Table {
        let headings = [
            "Engine",
            "Precision",
            "Memory format",
            "Graph",
            "Result",
            "Apart",
            "allowed",
            "Operators / run",
            "Kernels",
            "unknown",
        ];
        let mut table = Table::new(&headings, 5);
        for c in &self.0 {
            let format = c.memory_format.map_or("-", |f| f.name()).to_owned();
            let result = c.error.clone().unwrap_or_else(|| "ok".to_owned());
            let apart = c.apart.map_or_else(|| "-".to_owned(), |a| format!("{a:.1e}"));
            let share = c.operators_share.map_or_else(|| "-".to_owned(), |s| format!("{s:.2}"));
            let texts = [
                c.backend.clone(),
                c.precision.to_string(),
                format,
                c.graph.clone(),
                result,
                apart,
                format!("{:.0e}", c.tolerance),
                share,
            ];
            table.row(texts.into_iter().chain([c.kernels.to_string(), c.unlabelled.to_string()]));
        }
        table
    }
}

impl Report for Cases {
    fn table(&self) -> String {
        self.rows().to_text()
    }

    fn csv(&self) -> CliResult<String> {
        self.rows().to_csv()
    }

    fn json(&self) -> CliResult<serde_json::Value> {
        let row = |c: &Case| {
            let mut row = serde_json::to_value(c)?;
            row["ok"] = json!(c.error.is_none());
            Ok(row)
        };
        self.0.iter().map(row).collect::<Result<_, serde_json::Error>>().map_err(CliError::ours)
    }
}
