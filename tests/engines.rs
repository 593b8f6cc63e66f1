//! Samples and real models on the engines found here: everything loads and runs, and the kernels that run are those that lowering forecast.

use std::{collections::HashMap, path::Path, process::Command};
use vitempo::{
    datasets::Dataset,
    graph::{ModelProfile, OpSpec, Status, lowering},
    profiler::{Availability, RunOptions, backends},
};

fn vitempo(args: &[&str]) {
    let output = Command::new(env!("CARGO_BIN_EXE_vitempo")).args(args).output().expect("vitempo starts");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Share of a model's kernel time whose kernels lowering forecast, with kind, attributes and shapes.
fn share_forecast(profile: &ModelProfile, dataset: &Dataset) -> f64 {
    let graph = &dataset.graphs[&profile.model.architecture];
    let kernels = lowering::lower(graph, &profile.environment).expect("lowering rules");
    let mut forecast: HashMap<&OpSpec, usize> = HashMap::new();
    kernels.nodes().iter().for_each(|n| *forecast.entry(&n.op).or_default() += 1);
    let (mut matched, mut all) = (0.0, 0.0);
    for operator in &profile.operators {
        let ns = operator.samples.median_ns().unwrap_or(0.0);
        all += ns;
        if let Some(left) = forecast.get_mut(&operator.op).filter(|left| **left > 0) {
            *left -= 1;
            matched += ns;
        }
    }
    matched / all
}

#[test]
fn samples_and_real_models_run_as_forecast_on_every_engine_found() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/models").display().to_string();
    vitempo(&["sample", "--count", "5", "--seed", "17", "--no-weights", "--out", &path("stripped")]);
    vitempo(&["sample", "--count", "2", "--seed", "18", "--out", &path("whole")]);
    let mut engines = 0;
    for backend in backends::all().iter().filter(|b| b.name() != "null") {
        if let Availability::Unavailable { reason, .. } = backend.probe(&RunOptions::default()) {
            println!("skipped: {} is not here: {reason}", backend.name());
            continue;
        }
        engines += 1;
        let data = path(backend.name());
        let models = [path("stripped"), path("whole"), shipped.clone()];
        let quick = ["--min-repeats", "2", "--max-repeats", "2", "--profiled-repeats", "3"];
        vitempo(&[&["profile", &models[0], &models[1], &models[2], "--backend", backend.name(), "--out", &data], &quick[..]].concat());
        let dataset = Dataset::load(Path::new(&data)).expect("a dataset");
        assert_eq!(dataset.profiles.len(), 10);
        for profile in &dataset.profiles {
            assert_eq!(profile.status, Status::Ok, "{} on {}", profile.model.name, backend.name());
            let share = share_forecast(profile, &dataset);
            assert!(share > 0.97, "{} on {}: {share:.3} of the time was forecast", profile.model.name, backend.name());
        }
    }
    assert!(engines > 0, "the embedded engine is always here");
}
