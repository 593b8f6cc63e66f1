//! `vitempo demo`: the whole line on this machine with the embedded engine: sample, profile, train
//! three methods, evaluate, forecast real models.

use super::{
    dataset,
    error::{CliError, CliResult, io_error},
    evaluate::Judgement,
    models::Model,
    output::{self, Format, Table},
    profile, progress,
    train::Training,
};
use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};
use vitempo::datasets::{Dataset, Split, SplitSize};
use vitempo::graph::{GraphPrediction, Latency, LatencyModel, ModelIdentity, ModelProfile, onnx};
use vitempo::predictors::{Method, PredictorBundle, TrainOptions};
use vitempo::profiler::{RunOptions, RunProtocol, Source, Sweep, SweepModel};
use vitempo::{
    campaign::{self, Campaign},
    evaluation::Evaluated,
    models::{SHIPPED, ShippedModel},
    sampling,
    search_space::Space,
    training,
};

/// Networks around single operators: kinds that real models have and the synthetic ones lack.
const OPERATORS: usize = 189;

/// Runs the whole line: sample, profile, train, evaluate, forecast three real models and measure
/// them too
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
    if args.models < 10 {
        return Err(CliError::user(format!(
            "{} models are too few to train and to judge (--models)",
            args.models
        ))
        .hint("use 10 or more"));
    }
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
    let models = models(args)?;
    step(
        2,
        "profile",
        &format!(
            "end to end and operator by operator on {}; two rounds, for the noise floor",
            args.backend
        ),
    );
    let environment = measure(args, models, &data)?;
    let dataset = dataset::load_environment(&data, Some(&environment))?;
    let profiles = &dataset.profiles;
    let split = vitempo::datasets::split(&dataset, SplitSize::TestFraction(0.2), args.seed)?;
    step(
        3,
        "train",
        &format!(
            "Lasso, random forest and GBDT on {} models and {OPERATORS} single operators",
            split.train.len().saturating_sub(OPERATORS)
        ),
    );
    let bundles = train_all(args, &dataset, profiles, &split)?;
    step(
        4,
        "evaluate",
        &format!(
            "{} synthetic architectures held out, {} real models never trained on",
            split.test.len(),
            split.real.len()
        ),
    );
    let judged = judge_all(&bundles, profiles, &dataset)?;
    output::print(&Judgement { judged: &judged, models: false }, Format::Table)?;
    step(5, "forecast", "the real models, against what was measured");
    output::write_stdout(&Forecasts::new(&bundles, &judged)?.table())?;
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

fn models(args: &DemoArgs) -> CliResult<Vec<SweepModel>> {
    let folder = args.out.join("models");
    std::fs::create_dir_all(&folder).map_err(|e| io_error("make folder", &folder, &e))?;
    let space = Space::find("hybrid-vit")?;
    let mut models = Vec::new();
    for s in sampling::sample(&space, args.models, args.seed)?
        .into_iter()
        .chain(sampling::sample_operators(OPERATORS, args.seed)?)
    {
        let path = folder.join(format!("{}.onnx", s.name));
        onnx::write_file(
            &path,
            &s.graph,
            &onnx::WriteOptions { weights: onnx::WeightFill::Omitted },
        )?;
        let identity = ModelIdentity {
            name: s.name,
            architecture: s.graph.architecture(),
            space: Some(s.space),
            encoding: Some(s.encoding),
        };
        models.push(SweepModel { identity, graph: s.graph, source: Source::File(path) });
    }
    for model in &SHIPPED {
        models.push(real(&folder, model)?);
    }
    Ok(models)
}

fn real(folder: &Path, model: &ShippedModel) -> CliResult<SweepModel> {
    let path = folder.join(format!("{}.onnx", model.name));
    std::fs::write(&path, model.bytes).map_err(|e| io_error("write", &path, &e))?;
    let graph = onnx::read_file(&path, &onnx::ReadOptions::default())?;
    let identity = ModelIdentity {
        name: model.name.to_owned(),
        architecture: graph.architecture(),
        space: None,
        encoding: None,
    };
    Ok(campaign::sweep_models(vec![Model { path, identity, graph, notes: Vec::new() }]).remove(0))
}

/// Measures, and gives the environment it was measured in.
fn measure(args: &DemoArgs, models: Vec<SweepModel>, data: &Path) -> CliResult<String> {
    let mut protocol = RunProtocol::default();
    protocol.protocol.rounds = 2;
    protocol.protocol.seed = args.seed;
    protocol.protocol.max_repeats = 15;
    protocol.sampling_budget = Duration::from_millis(800);
    let sweep = Sweep {
        models,
        backend: args.backend.clone(),
        options: RunOptions { seed: args.seed, ..RunOptions::default() },
        protocol,
        budget: None,
        run_timeout: Duration::from_secs(120),
        target: profile::worker()?.into(),
        session: campaign::session_name(),
    };
    let outcome = profile::keep(Campaign { sweep, out: data, retry_failed: true, resume: true })?;
    for (model, reason) in &outcome.summary.failed {
        progress::say(format!("warning: {model} was not measured: {reason}"));
    }
    if outcome.summary.interrupted {
        return Err(CliError::user("interrupted").hint("the same command goes on where it stopped"));
    }
    Ok(outcome.environment.id())
}

fn train_all(
    args: &DemoArgs,
    dataset: &Dataset,
    profiles: &[ModelProfile],
    split: &Split,
) -> CliResult<Vec<PredictorBundle>> {
    let training = training::training_side(profiles, split);
    let options = TrainOptions { seed: args.seed, ..TrainOptions::default() };
    let bar = Training::start();
    let one = |method: Method| -> CliResult<PredictorBundle> {
        let bundle = training::train_on(&training, dataset, method, &options, &mut |p| {
            bar.show(&p, method);
        })?;
        bundle.save(&args.out.join(format!("{method}.vtb")))?;
        Ok(bundle)
    };
    Method::ALL.into_iter().map(one).collect()
}

fn judge_all(
    bundles: &[PredictorBundle],
    profiles: &[ModelProfile],
    dataset: &Dataset,
) -> CliResult<Vec<Evaluated>> {
    let one = |b: &PredictorBundle| Ok(Evaluated::new(b.method.to_string(), b, profiles, dataset)?);
    bundles.iter().map(one).collect()
}

/// Forecast against measured, for every real model and method.
struct Forecasts {
    rows: Vec<(String, String, GraphPrediction, Option<f64>)>,
}

impl Forecasts {
    fn new(bundles: &[PredictorBundle], judged: &[Evaluated]) -> CliResult<Self> {
        let mut rows = Vec::new();
        for model in &SHIPPED {
            let graph = model.graph()?;
            for (bundle, judged) in bundles.iter().zip(judged) {
                let measured =
                    judged.all.models.iter().find(|m| m.name == model.name).map(|m| m.actual_ns);
                rows.push((
                    model.name.to_owned(),
                    bundle.method.to_string(),
                    bundle.predict(&graph)?,
                    measured,
                ));
            }
        }
        Ok(Self { rows })
    }
}

impl Forecasts {
    fn table(&self) -> String {
        let mut table =
            Table::new(&["Model", "Method", "Forecast", "Interval", "Measured", "Error"], 2);
        for (model, method, prediction, measured) in &self.rows {
            let p = prediction.latency;
            let actual =
                measured.map_or_else(|| "-".to_owned(), |ns| Latency::from_ns(ns).to_string());
            let error = measured.map_or_else(
                || "-".to_owned(),
                |ns| format!("{:+.1} %", (p.point.ns() / ns - 1.0) * 100.0),
            );
            table.row([
                model.clone(),
                method.clone(),
                p.point.to_string(),
                format!("[{} .. {}]", p.lower, p.upper),
                actual,
                error,
            ]);
        }
        table.to_text()
    }
}
