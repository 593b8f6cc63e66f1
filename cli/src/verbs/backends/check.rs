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
use indicatif::ProgressBar;
use serde_json::json;
use vitempo::{
    campaign,
    engines::check::{CheckError, CheckProgress, check},
    profiler::conformance::Case,
};

/// Checks every engine found, how well the kernels it runs are predicted, or what an NPU takes
///
/// Example: vitempo backends check --lowering models/ --backend onnxruntime --format json
///
/// Without --lowering: small graphs run on every engine found, in every precision and memory format
/// it offers; outputs must equal those of the embedded engine within what the precision explains,
/// and operator times must add up to the whole. Where they do not because something else had the
/// processor, they are not compared, and a note says so.
///
/// With it: the models run with operator timing, and what ran is compared with the kernels that
/// lowering predicts.
///
/// With MODELS, for engine qnn: the models are compiled, and the output lists which operators the
/// NPU takes, which are left, and to which processor. Nothing is timed.
#[derive(clap::Args, Debug)]
pub struct CheckArgs {
    /// Models to compile for an NPU: ONNX files, folders of them, or globs; weights may be absent
    #[arg(value_name = "MODELS", requires = "backend", conflicts_with = "lowering")]
    models: Vec<String>,

    /// Only this engine
    #[arg(long, value_name = "NAME")]
    backend: Option<String>,

    /// Evaluate lowering on these models instead: ONNX files, folders of them, or globs; weights
    /// may be absent
    #[arg(long, value_name = "MODELS", num_args = 1.., requires = "backend")]
    lowering: Vec<String>,

    /// Runs of a model in which the operators are timed, to evaluate lowering
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
    if let Some(backend) = &args.backend {
        campaign::check_library(&worker()?.into(), backend, &options)?;
    }
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
    let mut bar = None::<ProgressBar>;
    let show = &mut |event: CheckProgress<'_>| match event {
        CheckProgress::Skipped(error) => {
            bar.take().iter().for_each(ProgressBar::finish_and_clear);
            progress::say(format!("skipped: {error}"));
        }
        CheckProgress::Engine(_) => {
            bar.take().iter().for_each(ProgressBar::finish_and_clear);
            bar = Some(progress::bar(0, "checking"));
        }
        CheckProgress::Case(case) => bar.iter().for_each(|bar| {
            bar.set_message(format!("{} {} {}", case.backend, case.precision, case.graph));
        }),
    };
    let checked = check(args.backend.as_deref(), &worker()?, &options, &interrupted(), show);
    bar.iter().for_each(ProgressBar::finish_and_clear);
    let checked = checked?;
    output::print(&Cases(&checked.cases), args.format)?;
    let disturbed = checked.disturbed();
    if disturbed > 0 {
        progress::say(format!(
            "note: the machine was busy; operator times of {disturbed} of {} checks were not \
            compared",
            checked.cases.len()
        ));
    }
    Ok(checked.verdict()?)
}

impl From<CheckError> for CliError {
    fn from(error: CheckError) -> Self {
        match error {
            CheckError::Reference(_) => Self::ours(error),
            CheckError::Engine(error) => error.into(),
            other => Self::user(other),
        }
    }
}

struct Cases<'a>(&'a [Case]);

impl Cases<'_> {
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
        for c in self.0 {
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

impl Report for Cases<'_> {
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
