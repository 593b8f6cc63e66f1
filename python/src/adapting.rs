//! Adaptation and evaluation for `vitempo/_adapt.py` and `vitempo/_evaluate.py`: results as JSON.

use crate::{bundle::Bundle, failure::Failure, model::Model};
use pyo3::{exceptions::PyValueError, prelude::*};
use serde::Deserialize;
use serde_json::{Value, json};
use std::{collections::BTreeMap, path::PathBuf};
use vitempo::{
    adaptation::{self, Adaptation, Adapter, CrossValidation, FirstModels, Latencies, NewDevice},
    datasets::Dataset,
    evaluation::{Evaluated, Evaluator},
    graph::{Graph, LatencyModel, Precision, Prediction, Processor},
};

/// What is known of the device beside its latencies, and what to write.
#[derive(Deserialize)]
struct AdaptOptions {
    /// The bundle to write.
    out: PathBuf,
    source: Option<String>,
    #[serde(flatten)]
    device: DeviceOptions,
}

/// What is known of a device before its latencies, and what to learn from.
#[derive(Deserialize)]
struct DeviceOptions {
    /// The file of the latencies, for messages.
    file: PathBuf,
    /// Other devices: folders of datasets.
    datasets: Vec<PathBuf>,
    name: Option<String>,
    processor: Processor,
    framework: String,
    threads: usize,
    precision: Precision,
    suggest: usize,
}

/// Writes the bundle that is adapted to the latencies in the text of a CSV.
#[pyfunction]
pub fn adapt(
    py: Python<'_>,
    latencies: &[u8],
    models: Vec<(String, Bound<'_, Model>)>,
    bundles: Vec<Bound<'_, Bundle>>,
    json: &str,
) -> Result<String, Failure> {
    let options: AdaptOptions =
        serde_json::from_str(json).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let graphs: Vec<(&str, &Graph)> =
        models.iter().map(|(name, model)| (name.as_str(), &model.get().graph)).collect();
    let bundles: Vec<&vitempo::Bundle> = bundles.iter().map(|b| &b.get().bundle).collect();
    let adapted = py.detach(|| -> Result<Adaptation, Failure> {
        let adapted = adapted(latencies, &graphs, &bundles, &options)?;
        adapted.bundle.save(&options.out)?;
        Ok(adapted)
    });
    Ok(adaptation_json(&adapted?).to_string())
}

fn adapted(
    latencies: &[u8],
    graphs: &[(&str, &Graph)],
    bundles: &[&vitempo::Bundle],
    options: &AdaptOptions,
) -> Result<Adaptation, Failure> {
    let models = at_hand(graphs);
    let latencies = Latencies::parse(latencies, &models)
        .map_err(|problem| Failure::of_latencies(&options.device.file, problem))?;
    let adapter = adapter(&models, bundles, &options.device)?;
    Ok(adapter.published_by(options.source.clone()).adapt(&latencies))
}

fn at_hand<'a>(graphs: &[(&'a str, &'a Graph)]) -> Vec<adaptation::Model<'a>> {
    graphs.iter().map(|&(name, graph)| adaptation::Model { name, graph }).collect()
}

/// With all sources.
fn adapter<'a>(
    models: &'a [adaptation::Model<'a>],
    bundles: &[&vitempo::Bundle],
    options: &DeviceOptions,
) -> Result<Adapter<'a>, Failure> {
    let device = NewDevice {
        name: options.name.clone(),
        processor: options.processor,
        framework: options.framework.clone(),
        threads: options.threads,
        precision: options.precision,
    };
    let mut adapter = Adapter::new(device.environment(&options.file), models)
        .suggestions(options.suggest)
        .threads(vitempo::processors());
    for &bundle in bundles {
        let added = adapter.add_bundle(bundle);
        added.map_err(|error| Failure::from(error).of(bundle.name()))?;
    }
    for folder in &options.datasets {
        let added = adapter.add_dataset(&Dataset::load(folder)?);
        added.map_err(|error| Failure::from(error).of(folder))?;
    }
    Ok(adapter)
}

/// The models to measure before a latency of the device is known, as JSON.
#[pyfunction]
pub fn first_models(
    py: Python<'_>,
    models: Vec<(String, Bound<'_, Model>)>,
    bundles: Vec<Bound<'_, Bundle>>,
    json: &str,
) -> Result<String, Failure> {
    let options: DeviceOptions =
        serde_json::from_str(json).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let graphs: Vec<(&str, &Graph)> =
        models.iter().map(|(name, model)| (name.as_str(), &model.get().graph)).collect();
    let bundles: Vec<&vitempo::Bundle> = bundles.iter().map(|b| &b.get().bundle).collect();
    py.detach(|| {
        let models = at_hand(&graphs);
        let first = adapter(&models, &bundles, &options)?.first_models()?;
        let FirstModels { suggested, sources, left_out } = first;
        Ok(json!({"suggested": suggested, "sources": sources, "left_out": left_out}).to_string())
    })
}

fn adaptation_json(of: &Adaptation) -> Value {
    let ends = |p: Prediction| [p.point(), p.lower(), p.upper()].map(|latency| latency.ms());
    let measured = of.bundle.measured.iter().map(|model| {
        let others = model.from_others.map(ends);
        json!({
            "model": model.name,
            "ms": model.latency_ns / 1e6,
            "from_others": others,
            "latency_ns": model.latency_ns,
            "from_others_ns": model.from_others,
        })
    });
    let unconstrained: BTreeMap<&str, f64> =
        of.unconstrained.iter().map(|(cost, share)| (cost.name(), *share)).collect();
    let validation = of.cross_validation.as_ref();
    json!({
        "environment": of.bundle.environment(),
        "measured": measured.collect::<Vec<Value>>(),
        "mape": validation.map(CrossValidation::mape).filter(|mape| mape.is_finite()),
        "inside": validation.map(CrossValidation::inside),
        "unconstrained": unconstrained,
        "suggested": of.suggested,
        "warnings": of.warnings.iter().map(ToString::to_string).collect::<Vec<String>>(),
        "sources": of.bundle.sources,
        "left_out": of.left_out,
    })
}

/// Evaluates a bundle on the measurements of its environment in a dataset.
#[pyfunction]
pub fn evaluate(
    py: Python<'_>,
    bundle: &Bound<'_, Bundle>,
    folder: PathBuf,
) -> Result<String, Failure> {
    let bundle = &bundle.get().bundle;
    let Some(trained) = bundle.trained() else {
        let message = format!(
            "{}: it was adapted from end-to-end latencies and has no predictors of kernels, which \
            are what is evaluated",
            bundle.name()
        );
        return Err(Failure::new("InvalidBundle", message)
            .hint("the result of vitempo.adapt has the error of each model from the others"));
    };
    let mut warnings = Vec::new();
    let evaluated = py.detach(|| -> Result<Evaluated, Failure> {
        let mut warn = |warning: &vitempo::datasets::Warning| warnings.push(warning.to_string());
        let mut evaluator = Evaluator::new(&folder)?;
        Ok(evaluator.evaluate(bundle.name().to_owned(), trained, &mut warn)?)
    })?;
    Ok(json!({
        "all": evaluated.all,
        "synthetic": evaluated.synthetic,
        "real": evaluated.real,
        "warnings": warnings,
        "json": evaluated.json(),
    })
    .to_string())
}
