//! A device from a few end-to-end latencies, on the command line; and, where published latencies
//! lie beside the repository, how well that works.

mod program;

use program::vitempo_in;
use serde_json::Value;
use std::path::{Path, PathBuf};

fn json(folder: &Path, args: &[&str]) -> Value {
    let output = vitempo_in(folder, args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON on standard output")
}

fn models() -> String {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).join("tests/models").display().to_string()
}

fn dataset() -> String {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    folder.join("datasets/measured/epyc-engines-20-models").display().to_string()
}

/// Published latencies, which the project does not ship.
fn published() -> Option<PathBuf> {
    let folder =
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).join("../shared/data/realdevices");
    if folder.exists() {
        return Some(folder);
    }
    eprintln!("skipped: no published latencies in {}", folder.display());
    None
}

#[test]
fn a_csv_becomes_a_bundle_that_forecasts() {
    let folder = tempfile::tempdir().expect("a folder");
    let csv = "model,latency_us\nedgenext_xx_small,10753\nmobilevit_xxs,17000\nmobilevit_xxs,17100\nmobilevit_xxs,90000\n";
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
    let again = vitempo_in(folder.path(), &adapt);
    assert!(again.status.success());
    let served =
        json(folder.path(), &["serve", "--bundle", "board.vtb", "--check", "--format", "json"]);
    assert_eq!(served["bundles"][0]["name"], "board");
    let refused = vitempo_in(folder.path(), &["evaluate", "board.vtb", "--on", &dataset()]);
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
            vitempo_in(
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
    let refused = vitempo_in(folder.path(), &["predict", &models(), "--bundle", "c.vtb"]);
    assert!(
        !refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("c.vtb")
    );
}

#[test]
fn errors_name_file_line_and_what_to_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let cases = [
        ("model,latency\nvit_tiny_patch16_224,3\n", "unit"),
        ("name,latency_ms\nvit_tiny_patch16_224,3\n", "no column `model`"),
        ("model,latency_ms\nvit_tiny_patch16_224,fast\n", "line 2"),
        ("model,latency_ms\nvit_tiny_patch16_224,-3\n", "line 2"),
        ("model,latency_ms\nmobilevit_xxs,3\nresnet999,3\n", "line 3"),
        ("model,latency_ms\n", "no latency"),
        ("model,latency_ms,latency_us\nmobilevit_xxs,3,3000\n", "two columns"),
    ];
    for (csv, expected) in cases {
        std::fs::write(folder.path().join("board.csv"), csv).expect("a file");
        let output = vitempo_in(
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
fn phones_are_forecast_from_ten_models() {
    let Some(data) = published() else { return };
    let data = data.display().to_string();
    let folder = tempfile::tempdir().expect("a folder");
    let rows = json(
        folder.path(),
        &["adapt", "published", &data, "--only", "phones", "--seeds", "1", "--format", "json"],
    );
    let row = |measure: &str| {
        rows.as_array()
            .expect("a list")
            .iter()
            .find(|r| r["measure"].as_str().is_some_and(|m| m.contains(measure)))
            .expect("a row")
    };
    let number = |measure: &str| row(measure)["score"].as_f64().expect("a number");
    assert!(number("MAPE") < 10.0, "{} %", number("MAPE"));
    assert!((75.0..=100.0).contains(&number("coverage")), "{} %", number("coverage"));
}

#[test]
fn published_snapdragon_latencies_become_a_dataset() {
    let Some(data) = published() else { return };
    let data = data.display().to_string();
    let folder = tempfile::tempdir().expect("a folder");
    assert!(
        vitempo_in(folder.path(), &["dataset", "import", "ai-hub", &data, "--out", "snapdragon"])
            .status
            .success()
    );
    let report = vitempo_in(folder.path(), &["dataset", "validate", "snapdragon"]);
    assert!(
        report.status.success(),
        "{}{}",
        String::from_utf8_lossy(&report.stdout),
        String::from_utf8_lossy(&report.stderr)
    );
    let rows = vitempo_in(
        folder.path(),
        &["dataset", "export", "snapdragon", "--table", "model_measurements", "--format", "json"],
    );
    let rows: Value = serde_json::from_slice(&rows.stdout).expect("JSON");
    let rows = rows.as_array().expect("a list");
    assert!(rows.len() > 1000);
    assert!(
        rows.iter().all(|r| r["origin"] == "imported"
            && r["source"].as_str().is_some_and(|s| s.contains("BSD-3-Clause"))),
        "source and licence in every row"
    );
}
