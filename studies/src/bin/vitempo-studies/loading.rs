//! `vitempo-studies loading`: how long engines take to load models, and the forecasts of models that
//! were left out of the fit.

use super::{
    arguments,
    print::{self, Failure, Format, Table, percent},
};
use serde_json::json;
use std::{path::PathBuf, sync::atomic::AtomicBool};
use vitempo::{
    graph::{Graph, Latency},
    plan::{
        live::Engine,
        loading::{LoadingModel, MeasuredLoad, measure, read, write},
    },
};

/// Loads models with engines, keeps the times, and forecasts each model from the others
///
/// Nothing else should run on the machine. Times of a model that an engine has loaded before replace
/// those of the record. Without models, the record is only evaluated; without a record, the times
/// that the program has.
///
/// Example: vitempo-studies loading models/ --engine rten@1 --engine onnxruntime@1 --record
/// loads.csv
#[derive(clap::Args, Debug)]
pub struct LoadingArgs {
    /// ONNX files, folders of them, or globs
    #[arg(value_name = "MODELS", requires = "record", requires = "engines")]
    models: Vec<String>,
    /// An engine and its core; may be repeated
    #[arg(long = "engine", value_name = "BACKEND@CORE", value_parser = engine)]
    engines: Vec<Engine>,
    /// Loads of each model, of which the fastest counts
    #[arg(long, value_name = "COUNT", default_value_t = 5)]
    repeats: usize,
    /// The times
    #[arg(long, value_name = "FILE.csv")]
    record: Option<PathBuf>,
    /// Format of the output
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

fn engine(text: &str) -> Result<Engine, String> {
    let parse = || {
        let (backend, core) = text.split_once('@')?;
        let cores = vec![core.parse().ok()?];
        Some(Engine { name: backend.to_owned(), backend: backend.to_owned(), cores })
    };
    parse().ok_or_else(|| "expected BACKEND@CORE".to_owned())
}

pub fn run(args: &LoadingArgs) -> Result<(), Failure> {
    let mut loads = match &args.record {
        Some(path) if path.exists() => {
            let text = std::fs::read_to_string(path);
            let text = text.map_err(|e| Failure::new(format!("{}: {e}", path.display())))?;
            read(&text).map_err(|e| Failure::new(format!("{}: {e}", path.display())))?
        }
        Some(_) => Vec::new(),
        None => read(vitempo::plan::loading::LOADS).map_err(Failure::new)?,
    };
    if let (Some(path), false) = (&args.record, args.models.is_empty()) {
        let models = arguments::models(&args.models)?;
        let graphs: Vec<Graph> =
            models.into_iter().map(|model| model.graph.with_name(&model.identity.name)).collect();
        for engine in &args.engines {
            let never = AtomicBool::new(false);
            let new = measure(engine, &graphs, args.repeats, &never, &mut |name, result| {
                let what = match result {
                    Ok(ns) => Latency::from_ns(ns as f64).to_string(),
                    Err(reason) => format!("left out: {reason}"),
                };
                eprintln!("{} {name}: {what}", engine.backend);
            });
            replace(&mut loads, new.map_err(Failure::new)?);
            std::fs::write(path, write(&loads))
                .map_err(|e| Failure::new(format!("{}: {e}", path.display())))?;
        }
    }
    let (fit, errors) = (LoadingModel::fit(&loads), LoadingModel::held_out(&loads));
    if args.format == Format::Json {
        return print::write_json(&json!({"engines": fit.engines, "held_out": errors}));
    }
    let headings =
        ["Engine", "Models", "Base", "Per operator", "Per MB", "Mean error", "Largest error"];
    let mut table = Table::new(&headings, 1);
    for (engine, found) in &fit.engines {
        let error = errors.get(engine);
        let time = |ns: f64| Latency::from_ns(ns).to_string();
        table.row([
            engine.clone(),
            error.map_or(0, |error| error.models).to_string(),
            time(found.base_ns),
            time(found.per_operator_ns),
            time(1e6 * found.per_byte_ns),
            error.map_or_else(|| "-".to_owned(), |error| percent(error.mean_error)),
            error.map_or_else(|| "-".to_owned(), |error| percent(error.largest_error)),
        ]);
    }
    match args.format {
        Format::Csv => print::write(&table.to_csv()?),
        _ => print::write(&table.to_text()),
    }
}

fn replace(loads: &mut Vec<MeasuredLoad>, new: Vec<MeasuredLoad>) {
    let is_same =
        |a: &MeasuredLoad, b: &MeasuredLoad| (&a.engine, &a.model) == (&b.engine, &b.model);
    loads.retain(|old| !new.iter().any(|new| is_same(old, new)));
    loads.extend(new);
}
