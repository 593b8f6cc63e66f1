//! Samples and real models on the engines found here: everything loads and runs, and the kernels
//! that run are those that lowering forecast.

mod program;

use program::{ok, vitempo};
use std::path::Path;
use vitempo::{
    datasets::Dataset,
    graph::{
        Status,
        lowering::{FRAMEWORKS, compare::compare, lower},
    },
    profiler::{Availability, RunOptions, backends},
};

/// Least share of a model's kernel time that must be forecast.
fn least(engine: &str) -> f64 {
    if matches!(engine, "onnxruntime" | "openvino") { 0.97 } else { 0.95 }
}

#[test]
fn samples_and_real_models_run_as_forecast_on_every_engine_found() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let shipped = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .join("tests/models")
        .display()
        .to_string();
    ok(&["sample", "--count", "5", "--seed", "17", "--no-weights", "--out", &path("stripped")]);
    ok(&["sample", "--count", "2", "--seed", "18", "--out", &path("whole")]);
    let mut engines = 0;
    for backend in backends::all().iter().filter(|b| FRAMEWORKS.contains(&b.name())) {
        if let Availability::Unavailable { reason, .. } = backend.probe(&RunOptions::default()) {
            eprintln!("skipped: {} is not here: {reason}", backend.name());
            continue;
        }
        engines += 1;
        let data = path(backend.name());
        let models = [path("stripped"), path("whole"), shipped.clone()];
        let quick = ["--min-repeats", "2", "--max-repeats", "2", "--profiled-repeats", "3"];
        ok(&[
            &[
                "profile",
                &models[0],
                &models[1],
                &models[2],
                "--backend",
                backend.name(),
                "--out",
                &data,
            ],
            &quick[..],
        ]
        .concat());
        let dataset = Dataset::load(Path::new(&data)).expect("a dataset");
        assert_eq!(dataset.profiles.len(), 10);
        for profile in &dataset.profiles {
            let what = format!("{} on {}", profile.model.name, backend.name());
            assert_eq!(profile.status, Status::Ok, "{what}");
            let kernels = lower(&dataset.graphs[&profile.model.architecture], &profile.environment)
                .expect("lowering rules");
            let comparison = compare(&kernels, &profile.operators);
            let share = comparison.time_matched();
            assert!(
                share > least(backend.name()),
                "{what}: {share:.3} of the time was forecast, but not {:?}",
                comparison.mismatches.first()
            );
        }
    }
    assert!(engines > 0, "the embedded engine is always here");
}

#[test]
fn lowering_is_judged_by_the_time_it_forecast() {
    let shipped = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .join("tests/models/edgenext_xx_small.onnx")
        .display()
        .to_string();
    let check =
        ["backends", "check", "--lowering", &shipped, "--backend", "rten", "--format", "json"];
    let output = vitempo(&check);
    let judgement: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(
        (&judgement["engine"], &judgement["models"]),
        (&"rten".into(), &1.into()),
        "{judgement}"
    );
    let share = judgement["time_matched"].as_f64().expect("a share");
    assert!(share > least("rten") && share <= 1.0, "{judgement}");
    assert_eq!(judgement["by_family"]["vit"], share);
    assert!(judgement["mismatches"].is_array());
}

#[test]
fn what_an_npu_takes_is_told_per_model_and_what_cannot_be_read_has_a_reason() {
    if let Availability::Unavailable { reason, .. } =
        backends::by_name("qnn").expect("compiled in").probe(&RunOptions::default())
    {
        eprintln!("skipped: qnn is not here: {reason}");
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let broken = path("broken.onnx");
    std::fs::write(&broken, b"no model").expect("a file");
    ok(&["sample", "--count", "1", "--seed", "3", "--no-weights", "--out", &path("models")]);
    let check = [
        "backends",
        "check",
        "--backend",
        "qnn",
        &broken,
        &path("models"),
        "--precision",
        "int8",
        "--format",
        "json",
    ];
    let output = vitempo(&check);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let models = report["models"].as_array().expect("rows");
    assert_eq!((models.len(), &report["precision"]), (2, &serde_json::json!("i8")), "{report}");
    assert!(
        models[0]["compiles"] == false
            && models[0]["reason"].as_str().is_some_and(|r| r.contains("broken.onnx")),
        "{report}"
    );
    assert!(models[1]["compiles"] == true || models[1]["reason"].is_string(), "{report}");
    assert!(!report.to_string().contains("_ns"), "no latency: {report}");
}
