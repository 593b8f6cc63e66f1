//! `vitempo-studies contention`: pairs of models on two engines, and their forecast slowdown.

use super::{
    arguments,
    print::{self, Failure, Format, Table, percent},
};
use serde_json::json;
use std::{path::PathBuf, time::Duration};
use vitempo::{Bundle, models::Model, profiler::WorkerCommand, quantity};
use vitempo_studies::{
    contention::{
        Record,
        measure::{ContentionStudyError, Engine, Protocol, measure},
        score::{Classes, Means, Score, classes, means, score},
    },
    record::RecordError,
};

/// Runs models alone, in pairs on two engines and beside a stream, and compares the slowdowns with
/// those that the bundles forecast
///
/// Nothing else should run on the machine. A second run goes on where the first one stopped; with a
/// complete record it only prints.
///
/// Example: vitempo-studies contention models/ --engine rten@1,a.vtb
/// --engine onnxruntime@0,b.vtb --budget 8m --record pairs.json
#[derive(clap::Args, Debug)]
pub struct ContentionArgs {
    /// ONNX files, folders of them, or globs: models that the bundles were not trained on
    #[arg(value_name = "MODELS", required = true)]
    models: Vec<String>,
    /// An engine, its core, and the bundle that forecasts it; twice
    #[arg(long = "engine", value_name = "BACKEND@CORE,BUNDLE", value_parser = engine)]
    engines: Vec<(String, usize, String)>,
    /// Least time for which a pair is sampled, after it settled; alone it is half of it
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "800ms")]
    window: Duration,
    /// No pair begins after this time
    #[arg(long, value_name = "TIME", value_parser = time)]
    budget: Option<Duration>,
    /// Raw samples, kept after every pair
    #[arg(long, value_name = "FILE.json")]
    record: PathBuf,
    /// A row per model and neighbour instead of means
    #[arg(long)]
    each: bool,
    /// Format of the output
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

fn engine(text: &str) -> Result<(String, usize, String), String> {
    let parse = || {
        let (engine, bundle) = text.split_once(',')?;
        let (backend, core) = engine.split_once('@')?;
        Some((backend.to_owned(), core.parse().ok()?, bundle.to_owned()))
    };
    parse().ok_or_else(|| "expected BACKEND@CORE,BUNDLE".to_owned())
}

fn time(text: &str) -> Result<Duration, String> {
    quantity::duration(text, "800ms").map_err(|e| e.to_string())
}

pub fn run(args: &ContentionArgs) -> Result<(), Failure> {
    let models = arguments::models(&args.models)?;
    let [one, other] = &args.engines[..] else {
        return Err(Failure::new("pairs need two engines")
            .hint("--engine rten@1,BUNDLE --engine onnxruntime@0,BUNDLE"));
    };
    let open = |(backend, core, bundle): &(String, usize, String)| -> Result<Engine, Failure> {
        let bundle = Bundle::open(bundle).map_err(Failure::new)?;
        Ok(Engine { backend: backend.clone(), core: *core, bundle })
    };
    let engines = [open(one)?, open(other)?];
    engines.iter().for_each(|engine| warn(engine, &models));
    let protocol = Protocol {
        engines,
        window: args.window,
        budget: args.budget,
        record: &args.record,
        worker: WorkerCommand::this_program(["worker"]).map_err(Failure::new)?,
    };
    let say = |next: &str| eprintln!("{next} ...");
    let record = measure(&models, &protocol, &say).map_err(|error| {
        let failure = Failure::new(&error);
        match error {
            ContentionStudyError::Record(RecordError::OtherProtocol { .. }) => {
                failure.hint("repeat its engines and --window, or name another --record")
            }
            _ => failure,
        }
    })?;
    let bundles = protocol.engines.each_ref().map(|engine| &engine.bundle);
    let scores = score(&record, &models, bundles).map_err(Failure::new)?;
    let classes = classes(&record, &models);
    match args.format {
        Format::Table => print::write(&text(&record, &scores, &classes, args.each)),
        Format::Csv => print::write(&each(&record, &scores).to_csv()?),
        Format::Json => print::write_json(&json!({
            "engines": record.engines,
            "means": (0..2).map(|e| means(&record, &scores, Some(e))).collect::<Vec<_>>(),
            "all": means(&record, &scores, None),
            "stream": classes,
            "scores": scores,
        })),
    }
}

/// Says what makes a score dishonest or empty.
fn warn(engine: &Engine, models: &[Model]) {
    let name = engine.bundle.name();
    if engine.bundle.contention().is_none() {
        eprintln!("warning: `{name}` does not know contention: there are no forecasts of it");
    }
    let trained_on = engine.bundle.trained().map(|bundle| &bundle.provenance.trained_on);
    for model in models {
        if trained_on.is_some_and(|of| of.contains(&model.identity.architecture)) {
            eprintln!("warning: `{name}` was trained on `{}`", model.identity.name);
        }
    }
}

fn share(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), percent)
}

fn each(record: &Record, scores: &[Score]) -> Table {
    let headings = ["Model", "On", "Beside", "Measured", "Forecast", "Error", "If none"];
    let mut table = Table::new(&headings, 3);
    for score in scores {
        let engine = record.engines.get(score.engine).map_or("", |e| e.framework.as_str());
        let times = |factor: f64| format!("{factor:.3}");
        table.row(vec![
            score.model.clone(),
            engine.to_owned(),
            score.beside.clone(),
            times(score.measured),
            score.forecast.map_or("-".to_owned(), |f| times(f.point())),
            share(score.error()),
            percent((1.0 / score.measured - 1.0).abs()),
        ]);
    }
    table
}

fn summary(record: &Record, scores: &[Score]) -> Table {
    let headings = [
        "Engine",
        "Pairs",
        "Slowdown",
        "Forecast off",
        "If none",
        "Within interval",
        "Halves differ",
        "Noise alone",
    ];
    let mut table = Table::new(&headings, 1);
    let engines = record.engines.iter().enumerate();
    let rows = engines.map(|(index, engine)| (engine.framework.clone(), Some(index)));
    for (name, engine) in rows.chain([("both".to_owned(), None)]) {
        let Some(Means { pairs, slowdown, error, error_of_none, covered, halves, noise }) =
            means(record, scores, engine)
        else {
            continue;
        };
        table.row(vec![
            name,
            pairs.to_string(),
            format!("{slowdown:.3}"),
            share(error),
            percent(error_of_none),
            share(covered),
            percent(halves),
            percent(noise),
        ]);
    }
    table
}

fn verdict(record: &Record, scores: &[Score]) -> String {
    let Some((error, none)) =
        means(record, scores, None).and_then(|m| Some((m.error?, m.error_of_none)))
    else {
        return String::new();
    };
    format!(
        "the mean error of forecasts is {:.2} x that of no contention (aim: at most 0.33)\n",
        error / none
    )
}

fn stream_text(record: &Record, classes: &[Classes]) -> String {
    let mut text = String::new();
    for class in classes {
        let engine = record.engines.get(class.engine).map_or("", |e| e.framework.as_str());
        let confirmed = class.attention_slowdown > class.other_slowdown && class.hit_harder > 0.5;
        text += &format!(
            "beside a stream, {engine}: {} models with attention take {:.3} x as long, {} others \
            {:.3} x; of a model of each, the one with attention is hit harder in {}: figure 6 of \
            the mobile ViT study is {}\n",
            class.with_attention,
            class.attention_slowdown,
            class.without,
            class.other_slowdown,
            percent(class.hit_harder),
            if confirmed { "confirmed" } else { "not confirmed" }
        );
    }
    text
}

fn text(record: &Record, scores: &[Score], classes: &[Classes], rows: bool) -> String {
    let engines: String = record.engines.iter().map(|e| e.describe() + "\n").collect();
    let table = if rows { each(record, scores) } else { summary(record, scores) };
    format!(
        "{engines}\n{}\n{}{}live; slowdowns are medians beside a neighbour over medians alone just \
        before; halves: those of the first half of the runs and of the second\n",
        table.to_text(),
        verdict(record, scores),
        stream_text(record, classes)
    )
}
