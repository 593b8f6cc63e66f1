//! `vitempo demo`: all steps on this machine with the embedded engine: sample, profile, train
//! three methods, evaluate, forecast real models.

use super::{
    dataset,
    error::{CliError, CliResult, io_error},
    evaluate::Evaluations,
    output::{self, Format, Table},
    profile, progress,
    train::Training,
    worker::worker,
};
use std::{
    path::{Path, PathBuf},
    time::Instant,
};
use vitempo::demo::{self, Demo, DemoError, OPERATORS, RealForecast};
use vitempo::graph::Latency;
use vitempo::profiler::SweepModel;

/// Runs all steps on this machine: sample, profile, train, evaluate, forecast three real models
/// and measure them too
///
/// Example: vitempo demo --models 50 --out demo/
#[derive(clap::Args, Debug)]
pub struct DemoArgs {
    /// Synthetic models to measure; a fifth of them is held out
    #[arg(long, default_value_t = 50)]
    pub models: usize,

    /// Folder for models, data and bundles
    #[arg(long, default_value = "demo", value_name = "FOLDER")]
    pub out: PathBuf,

    /// Inference engine
    #[arg(long, default_value = "rten")]
    pub backend: String,

    #[arg(long, default_value_t = 7)]
    pub seed: u64,
}

pub fn run(args: &DemoArgs) -> CliResult {
    let demo =
        Demo { models: args.models, backend: &args.backend, seed: args.seed, out: &args.out };
    demo.check()?;
    let start = Instant::now();
    let data = args.out.join("data");
    step(
        1,
        "sample",
        &format!(
            "{} hybrid vision transformers, {OPERATORS} networks around single operators, three \
            real models",
            args.models
        ),
    );
    let models = demo.sample()?;
    step(
        2,
        "profile",
        &format!(
            "end to end and operator by operator on {}; two rounds, for the noise floor",
            args.backend
        ),
    );
    let environment = measure(&demo, models, &data)?;
    let dataset = dataset::load_environment(&data, Some(&environment))?;
    let split = demo.split(&dataset)?;
    step(
        3,
        "train",
        &format!(
            "Lasso, random forest and GBDT on {} models and {OPERATORS} single operators",
            split.train.len().saturating_sub(OPERATORS)
        ),
    );
    let bar = Training::start();
    let bundles = demo.train(&dataset, &split, &mut |method, p| bar.show(&p, method))?;
    drop(bar);
    step(
        4,
        "evaluate",
        &format!(
            "{} synthetic architectures held out, {} real models never trained on",
            split.test.len(),
            split.real.len()
        ),
    );
    let evaluated = demo::evaluate(&bundles, &dataset)?;
    output::print(&Evaluations { evaluated: &evaluated, models: false }, Format::Table)?;
    step(5, "forecast", "the real models, against what was measured");
    output::write_stdout(&table(&demo::forecasts(&bundles, &evaluated)?))?;
    progress::say(format!(
        "\nDone in {:.0} s. Models, data and bundles are in {}.",
        start.elapsed().as_secs_f64(),
        args.out.display()
    ));
    Ok(())
}

fn step(number: usize, verb: &str, what: &str) {
    progress::say(format!("\n[{number}/5] {verb}: {what}"));
}

/// Measures, and gives the environment it was measured in.
fn measure(demo: &Demo<'_>, models: Vec<SweepModel>, data: &Path) -> CliResult<String> {
    let outcome = profile::run_campaign(demo.campaign(models, data, worker()?))?;
    for (model, reason) in &outcome.summary.failed {
        progress::say(format!("warning: {model} was not measured: {reason}"));
    }
    if outcome.summary.interrupted {
        return Err(CliError::user("interrupted").hint("the same command goes on where it stopped"));
    }
    Ok(outcome.environment.id())
}

/// Forecast against measured, for every real model and method.
fn table(forecasts: &[RealForecast]) -> String {
    let mut table =
        Table::new(&["Model", "Method", "Forecast", "Interval", "Measured", "Error"], 2);
    for RealForecast { model, method, forecast, measured_ns: measured } in forecasts {
        let p = forecast.latency;
        let actual = measured.map_or_else(|| "-".to_owned(), |ns| Latency::from_ns(ns).to_string());
        let error = measured.map_or_else(
            || "-".to_owned(),
            |ns| format!("{:+.1} %", (p.point().ns() / ns - 1.0) * 100.0),
        );
        table.row([
            (*model).to_owned(),
            method.to_string(),
            p.point().to_string(),
            format!("[{} .. {}]", p.lower(), p.upper()),
            actual,
            error,
        ]);
    }
    table.to_text()
}

impl From<DemoError> for CliError {
    fn from(error: DemoError) -> Self {
        match error {
            DemoError::TooFewModels(_) => {
                Self::user(format!("{error} (--models)")).hint("use 10 or more")
            }
            DemoError::Io { action, path, source } => io_error(action, &path, &source),
            DemoError::Sampling(error) => error.into(),
            DemoError::Evaluation(error) => error.into(),
            DemoError::Prediction(error) => error.into(),
            other => Self::user(other),
        }
    }
}
