//! A device from a few end-to-end latencies, on the command line. Tests of whole published tables
//! are ignored: they run with `VITEMPO_PUBLISHED=FOLDER cargo test --test adapt -- --ignored`.

mod program;

use program::{text, vitempo_in as vitempo};
use serde_json::Value;
use std::{path::Path, process::Output};

fn json(folder: &Path, args: &[&str]) -> Value {
    let output = vitempo(folder, args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON on standard output")
}

fn dataset() -> String {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    folder.join("datasets/measured/epyc-engines-20-models").display().to_string()
}

fn models() -> String {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).join("tests/models").display().to_string()
}

/// Samples of published latencies.
fn samples(folder: &str) -> String {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .join("tests/published")
        .join(folder)
        .display()
        .to_string()
}

/// The folder of whole published tables that `VITEMPO_PUBLISHED` names.
fn published() -> String {
    std::env::var("VITEMPO_PUBLISHED").expect("VITEMPO_PUBLISHED=FOLDER")
}

/// Adapts to `csv` with the models that ship and these arguments.
fn adapt(folder: &Path, csv: &str, arguments: &[&str]) -> Output {
    std::fs::write(folder.join("board.csv"), csv).expect("a file");
    let models = models();
    let fixed = ["adapt", "--measured", "board.csv", "--models", &models, "--out", "board.vtb"];
    vitempo(folder, &[&fixed, arguments].concat())
}

fn stderr(output: &Output) -> String {
    text(&output.stderr)
}

#[test]
fn a_csv_becomes_a_bundle_that_forecasts() {
    let folder = tempfile::tempdir().expect("a folder");
    let csv = "model,latency_us\nedgenext_xx_small,10753\nmobilevit_xxs,17000\n\
        mobilevit_xxs,17100\nmobilevit_xxs,90000\n";
    std::fs::write(folder.path().join("board.csv"), csv).expect("a file");
    let adapt = [
        "adapt",
        "--measured",
        "board.csv",
        "--models",
        &models(),
        "--framework",
        "rten",
        "--out",
        "board.vtb",
        "--suggest",
        "5",
        "--format",
        "json",
    ];
    let made = json(folder.path(), &adapt);
    assert_eq!(made["measured"][1]["latency_ns"], 17.1e6, "the median of a model's samples");
    assert_eq!(
        made["suggested"],
        serde_json::json!(["vit_tiny_patch16_224"]),
        "the only model that was not measured"
    );
    let forecasts =
        json(folder.path(), &["predict", &models(), "--bundle", "board.vtb", "--format", "json"]);
    for forecast in forecasts.as_array().expect("a list") {
        let latency = |key: &str| forecast["latency_ns"][key].as_f64().expect("a number");
        assert!(
            0.0 < latency("lower")
                && latency("lower") < latency("point")
                && latency("point") < latency("upper"),
            "{forecast}"
        );
        if forecast["model"] == "edgenext_xx_small" {
            assert!(
                (latency("point") / 10.753e6).ln().abs() < 0.3,
                "a measured model is forecast near what was measured: {forecast}"
            );
        }
    }
    let inspected = json(folder.path(), &["bundle", "inspect", "board.vtb", "--format", "json"]);
    assert_eq!(
        (&inspected["method"], &inspected["origin"]),
        (&"adapted".into(), &"measured".into())
    );
    let again = vitempo(folder.path(), &adapt);
    assert!(again.status.success());
    let served =
        json(folder.path(), &["serve", "--bundle", "board.vtb", "--check", "--format", "json"]);
    assert_eq!(served["bundles"][0]["name"], "board");
    let refused = vitempo(folder.path(), &["evaluate", "board.vtb", "--on", &dataset()]);
    assert!(
        refused.status.code() == Some(1)
            && String::from_utf8_lossy(&refused.stderr).contains("has no predictors of kernels")
    );
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    let csv = format!("{}/latencies.csv", models());
    for out in ["a.vtb", "b.vtb"] {
        assert!(
            vitempo(
                folder.path(),
                &["adapt", "--measured", &csv, "--models", &models(), "--out", out]
            )
            .status
            .success()
        );
    }
    let bytes = |name: &str| std::fs::read(folder.path().join(name)).expect("a bundle");
    assert_eq!(bytes("a.vtb"), bytes("b.vtb"));
    let mut damaged = bytes("a.vtb");
    let last = damaged.len() - 1;
    damaged[last] ^= 1;
    std::fs::write(folder.path().join("c.vtb"), damaged).expect("a file");
    let refused = vitempo(folder.path(), &["predict", &models(), "--bundle", "c.vtb"]);
    assert!(
        !refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("c.vtb")
    );
}

#[test]
fn errors_name_file_line_and_what_to_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let cases = [
        ("model,latency\nvit_tiny_patch16_224,3\n", "no column of latencies"),
        ("name,latency_ms\nvit_tiny_patch16_224,3\n", "no column `model`"),
        ("model,latency_ms\nvit_tiny_patch16_224,fast\n", "line 2"),
        ("model,latency_ms\nvit_tiny_patch16_224,-3\n", "line 2"),
        ("model,latency_ms\nmobilevit_xxs,3\nresnet999,3\n", "line 3"),
        ("model,latency_ms\n", "no latency"),
        ("model,latency_ms,latency_us\nmobilevit_xxs,3,3000\n", "two columns"),
        ("model;latency_ms\nmobilevit_xxs;3\n", "separated by `;`, expected `,`"),
        ("model,latency_ms\nmobilevit_xxs,100\nmobilevit_xxs,2\n", "lines 2 and 3"),
        ("model,latency_ms\nmobilevit_xs,3\n", "did you mean `mobilevit_xxs`?"),
        ("model,latency_ms\n\n\nmobilevit_xxs,fast\n", "line 4"),
        ("model,latency_ms\n\nmobilevit_xxs,3,4\n", "line 3: it has 3 columns, expected 2"),
        ("model,latency_ms,latency_ms\nmobilevit_xxs,3,4\n", "two columns `latency_ms`"),
        ("model,latency_ms\nmobilevit_xxs,1e-9\n", "line 2: the latency of `mobilevit_xxs`"),
        ("model,latency_ms\n\nmobilevit_xxs,1e300\n", "line 3: the latency of `mobilevit_xxs`"),
    ];
    for (csv, expected) in cases {
        std::fs::write(folder.path().join("board.csv"), csv).expect("a file");
        let output = vitempo(
            folder.path(),
            &["adapt", "--measured", "board.csv", "--models", &models(), "--out", "board.vtb"],
        );
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{csv}: {stderr}");
        assert!(
            stderr.contains("board.csv") && stderr.contains(expected) && stderr.contains("hint:"),
            "{csv}: {stderr}"
        );
        assert!(!folder.path().join("board.vtb").exists());
    }
}

#[test]
fn one_latency_gives_no_error_figure() {
    let folder = tempfile::tempdir().expect("a folder");
    let csv = "model,latency_ms\nmobilevit_xxs,17\n";
    let printed = adapt(folder.path(), csv, &[]);
    let printed = String::from_utf8_lossy(&printed.stdout).into_owned();
    assert!(
        printed.contains("cannot be cross-validated") && !printed.contains("mean error"),
        "{printed}"
    );
    let printed = adapt(folder.path(), csv, &["--format", "json"]);
    let printed: Value = serde_json::from_slice(&printed.stdout).expect("JSON");
    assert!(
        printed["left_out_mape"].is_null() && printed["left_out_inside"].is_null(),
        "{printed}"
    );
}

#[test]
fn models_to_measure_first_need_no_latency() {
    let folder = tempfile::tempdir().expect("a folder");
    let models = models();
    let first = |more: &[&'static str]| -> Vec<String> {
        let words = [&["adapt", "--models", &models, "--suggest", "2"], more].concat();
        words.into_iter().map(str::to_owned).collect()
    };
    let run = |words: Vec<String>| {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let output = vitempo(folder.path(), &words);
        assert!(output.status.success(), "{words:?}: {}", stderr(&output));
        text(&output.stdout)
    };
    let names = |value: &Value| -> Vec<String> {
        let names = value["suggested"].as_array().expect("names").iter();
        names.map(|name| name.as_str().expect("a name").to_owned()).collect()
    };
    for from in [&[][..], &["--from", "epyc-onnxruntime-f32-1t"]] {
        let printed = run(first(&[from, &["--format", "json"]].concat()));
        let names = names(&serde_json::from_str(&printed).expect("JSON"));
        assert!(names.len() == 2 && names[0] != names[1], "{printed}");
        let table = run(first(from));
        assert!(names.iter().all(|name| table.contains(name)), "{table}");
    }
    let csv = run(first(&["--format", "csv"]));
    assert_eq!(csv.lines().count(), 3, "{csv}");
    let cases: [(&[&str], &str); 3] = [
        (&["--out", "board.vtb", "--suggest", "2"], "--measured"),
        (&["--suggest", "0"], "--suggest 10"),
        (&[], "--measured"),
    ];
    for (arguments, expected) in cases {
        let refused =
            vitempo(folder.path(), &[&["adapt", "--models", &models], arguments].concat());
        assert!(!refused.status.success() && stderr(&refused).contains(expected), "{arguments:?}");
    }
}

#[test]
fn what_has_no_effect_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let csv = "model,latency_ms\nmobilevit_xxs,17\nedgenext_xx_small,11\n";
    let source = "epyc-onnxruntime-f32-1t";
    let other = folder.path().join("mobilevit_xxs.onnx");
    std::fs::copy(Path::new(&models()).join("edgenext_xx_small.onnx"), &other).expect("a copy");
    let other = other.display().to_string();
    let cases: [(&[&str], &str); 7] = [
        (&["--from", source, source], "it is a source already"),
        (&["--threads", "0"], "--threads"),
        (&["--name", ""], "--name"),
        (&["--framework", " "], "--framework"),
        (&["--source", ""], "--source"),
        (&["--models", &other], "called `mobilevit_xxs`"),
        (&["--suggest=-1"], "--suggest"),
    ];
    for (arguments, expected) in cases {
        let refused = adapt(folder.path(), csv, arguments);
        let stderr = stderr(&refused);
        assert_eq!(refused.status.code(), Some(1), "{arguments:?}: {stderr}");
        assert!(stderr.contains(expected), "{arguments:?}: {stderr}");
        assert!(!folder.path().join("board.vtb").exists(), "{arguments:?}");
    }
    let refused =
        vitempo(folder.path(), &["adapt", "--models", &models(), &other, "--suggest", "1"]);
    let stderr = stderr(&refused);
    assert!(stderr.contains("called `mobilevit_xxs`") && stderr.contains(&other), "{stderr}");
}

#[test]
fn models_of_one_graph_are_one_model() {
    let folder = tempfile::tempdir().expect("a folder");
    let (model, copy) = (Path::new(&models()).join("mobilevit_xxs.onnx"), "copy.onnx");
    std::fs::copy(model, folder.path().join(copy)).expect("a copy");
    let run = |csv: &str| adapt(folder.path(), csv, &["--models", copy, "--format", "json"]);
    let made = run("model,latency_ms\nmobilevit_xxs,17.2\ncopy,17\n");
    let warning = stderr(&made);
    let json: Value = serde_json::from_slice(&made.stdout).expect("JSON");
    assert_eq!(json["measured"].as_array().map(Vec::len), Some(1), "{json}");
    assert_eq!(json["left_out_mape"], Value::Null, "one model is not forecast from itself");
    assert!(warning.contains("`copy`") && warning.contains("the same graph"), "{warning}");
    let refused = run("model,latency_ms\nmobilevit_xxs,17\ncopy,1700\n");
    let error = stderr(&refused);
    assert_eq!(refused.status.code(), Some(1), "{error}");
    assert!(error.contains("lines 2 and 3: `mobilevit_xxs` and `copy`"), "{error}");
}

#[test]
fn suspicious_latencies_are_warned_of() {
    let folder = tempfile::tempdir().expect("a folder");
    let from = ["--from", "epyc-onnxruntime-f32-1t"];
    let printed = |csv: &str| {
        let output = adapt(folder.path(), csv, &from);
        assert!(output.status.success(), "{}", stderr(&output));
        stderr(&output)
    };
    let right = printed("model,latency_ms\nmobilevit_xxs,17\nedgenext_xx_small,11\n");
    assert!(!right.contains("warning"), "{right}");
    let microseconds = printed("model,latency_ms\nmobilevit_xxs,17000\nedgenext_xx_small,11000\n");
    assert!(
        microseconds.contains("longer than the sources forecast")
            && microseconds.contains("`latency_us` instead of `latency_ms`"),
        "{microseconds}"
    );
    let seconds = printed("model,latency_ms\nmobilevit_xxs,0.017\nedgenext_xx_small,0.011\n");
    assert!(
        seconds.contains("shorter than the sources forecast")
            && seconds.contains("`latency_s` instead of `latency_ms`"),
        "{seconds}"
    );
    let equal = printed("model,latency_ms\nmobilevit_xxs,15\nedgenext_xx_small,15\n");
    assert!(equal.contains("all 2 models have the same latency"), "{equal}");
    let rows = "mobilevit_xxs,17\nedgenext_xx_small,1.1e6\nvit_tiny_patch16_224,23\n";
    let alone = printed(&format!("model,latency_ms\n{rows}"));
    assert!(alone.contains("line 3: the latency of `edgenext_xx_small` is"), "{alone}");
    assert_eq!(alone.matches("warning").count(), 1, "{alone}");
    let apart = printed("model,latency_ms\nmobilevit_xxs,10\nmobilevit_xxs,30\n");
    assert!(apart.contains("lines 2 and 3") && apart.contains("factor of 3.0"), "{apart}");
}

#[test]
fn what_no_measured_model_contains_is_extrapolating() {
    let folder = tempfile::tempdir().expect("a folder");
    let vit = Path::new(&models()).join("vit_tiny_patch16_224.onnx").display().to_string();
    let forecast = |bundle: &str| {
        let predict = ["predict", &vit, "--bundle", bundle, "--breakdown", "--format", "json"];
        json(folder.path(), &predict)[0].clone()
    };
    let of_cnns = forecast("pixel4-tflite-cpu-f32");
    let extrapolates = |forecast: &Value, kind: &str| -> Vec<bool> {
        let operators = forecast["operators"].as_array().expect("a breakdown");
        let of = operators.iter().filter(|o| o["kind"] == kind);
        of.map(|o| o["extrapolating"].as_bool().expect("a boolean")).collect()
    };
    for kind in ["linear", "matmul", "layer_norm", "softmax", "erf"] {
        let marks = extrapolates(&of_cnns, kind);
        let most = marks.iter().filter(|m| **m).count();
        assert!(!marks.is_empty() && most + 1 >= marks.len(), "{kind}: {most} of {}", marks.len());
    }
    let text = vitempo(folder.path(), &["predict", &vit, "--bundle", "pixel4-tflite-cpu-f32"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("that no measured model contains") && text.contains("softmax"), "{text}");
    let csv = "model,latency_ms\nvit_tiny_patch16_224,40\nmobilevit_xxs,17\n";
    assert!(adapt(folder.path(), csv, &[]).status.success());
    assert_eq!(forecast("board.vtb")["coverage"]["extrapolating"], 0, "it was measured itself");
}

#[test]
fn listed_latencies_belong_to_their_graphs() {
    let folder = tempfile::tempdir().expect("a folder");
    let csv = "model,latency_ms\nmobilevit_xxs,17\nedgenext_xx_small,11\n";
    assert!(adapt(folder.path(), csv, &[]).status.success());
    let bundle = json(folder.path(), &["bundle", "inspect", "board.vtb", "--format", "json"]);
    let model = Path::new(&models()).join("mobilevit_xxs.onnx").display().to_string();
    let predict = ["predict", &model, "--bundle", "board.vtb", "--format", "json"];
    let forecast = json(folder.path(), &predict);
    let listed = &bundle["measured"][1];
    assert_eq!((&listed["name"], &listed["latency_ns"]), (&"mobilevit_xxs".into(), &17e6.into()));
    assert_eq!(listed["forecast"], forecast[0]["latency_ns"], "of the graph adapted from");
    assert_eq!(forecast[0]["measured_ns"], 17e6);
    std::fs::copy(
        Path::new(&models()).join("vit_tiny_patch16_224.onnx"),
        folder.path().join("mobilevit_xxs.onnx"),
    )
    .expect("a copy");
    let other = vitempo(folder.path(), &["predict", "mobilevit_xxs.onnx", "--bundle", "board.vtb"]);
    assert!(stderr(&other).contains("measured on another graph"), "{}", stderr(&other));
}

#[test]
fn rows_of_the_device_itself_are_left_out_in_every_precision() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = samples("ai_hub");
    let import = ["dataset", "import", "ai-hub", &data, "--out", "snapdragon"];
    assert!(vitempo(folder.path(), &import).status.success());
    let graphs = format!("{data}/aihub_graphs");
    std::fs::write(folder.path().join("s24.csv"), "model,latency_ms\nmobilenet_v2,0.594\n")
        .expect("a file");
    let adapt = ["adapt", "--measured", "s24.csv", "--models", &graphs, "--out", "s24.vtb"];
    let more = ["--from", "snapdragon", "--name", "Samsung Galaxy S24", "--format", "json"];
    let printed = json(folder.path(), &[&adapt[..], &more].concat());
    let names = |key: &str| -> Vec<String> {
        let names = printed[key].as_array().expect("names");
        names.iter().map(|n| n.as_str().expect("a name").to_owned()).collect()
    };
    let (sources, left_out) = (names("sources"), names("left_out"));
    let of_device =
        |name: &&String| name.contains("Samsung Galaxy S24,") || name.contains("S24 w8");
    assert_eq!(sources.iter().find(of_device), None);
    assert!(left_out.iter().any(|name| name.contains("S24 w8a16")), "{left_out:?}");
    assert!(!sources.is_empty());
}

#[test]
fn samples_of_snapdragon_latencies_become_a_dataset() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = samples("ai_hub");
    let import = ["dataset", "import", "ai-hub", &data, "--out", "snapdragon"];
    assert!(vitempo(folder.path(), &import).status.success());
    assert_imported(folder.path(), 50);
    let cells = ["dataset", "import", "cells", &samples("help"), "--out", "cells"];
    assert!(vitempo(folder.path(), &cells).status.success());
    assert!(vitempo(folder.path(), &["dataset", "validate", "cells"]).status.success());
}

#[test]
#[ignore = "needs published tables: VITEMPO_PUBLISHED=FOLDER"]
fn all_snapdragon_latencies_become_a_dataset() {
    let folder = tempfile::tempdir().expect("a folder");
    let import = ["dataset", "import", "ai-hub", &published(), "--out", "snapdragon"];
    assert!(vitempo(folder.path(), &import).status.success());
    assert_imported(folder.path(), 1000);
}

/// The dataset `snapdragon` is valid, and source and licence are in each of its many rows.
fn assert_imported(folder: &Path, more_than: usize) {
    let report = vitempo(folder, &["dataset", "validate", "snapdragon"]);
    let printed = String::from_utf8_lossy(&report.stdout).into_owned();
    assert!(report.status.success(), "{printed}{}", stderr(&report));
    let table = ["--table", "model_measurements", "--format", "json"];
    let rows = json(folder, &[&["dataset", "export", "snapdragon"], &table[..]].concat());
    let rows = rows.as_array().expect("a list");
    assert!(rows.len() > more_than, "{} rows", rows.len());
    let source = |r: &Value| r["source"].as_str().is_some_and(|s| s.contains("BSD-3-Clause"));
    assert!(rows.iter().all(|r| r["origin"] == "imported" && source(r)));
}
