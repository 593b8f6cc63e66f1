//! Published measurements of phones become a dataset, and a bundle is trained and evaluated on the
//! dataset. The files have the published layout and made-up latencies.

mod program;

use program::vitempo_in;
use std::{fmt::Write as _, path::Path};

/// Standard output and standard error of a run that must succeed.
fn ok(folder: &Path, args: &[&str]) -> (String, String) {
    let output = vitempo_in(folder, args);
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    );
    assert!(output.status.success(), "{args:?}: {err}");
    (out, err)
}

/// One row of a model: operation, its features in Python's words, FLOPs, and the bytes it moves.
type Row = (&'static str, String, f64, f64);

fn convolution(
    operation: &'static str,
    side: usize,
    channels: usize,
    filters: usize,
    kernel: usize,
) -> Row {
    let depthwise = operation == "DEPTHWISE_CONV_2D";
    let features = format!(
        "{{'Input_shape': '{side}', 'Input_channel': {channels}, 'Output_shape': '{side}', 'Stride': '1', 'Kernel': '{kernel}', 'Filter': '{}', 'Group': '1'}}",
        if depthwise { 1 } else { filters }
    );
    let per_output = if depthwise { kernel * kernel } else { kernel * kernel * channels };
    let outputs = side * side * filters;
    (
        operation,
        features,
        2.0 * (outputs * per_output) as f64,
        4.0 * (outputs + side * side * channels) as f64,
    )
}

/// A small network; another index is another width and resolution.
fn network(index: usize) -> Vec<Row> {
    let (width, side) = (16 + index * 5 % 48, 14 + index * 7 % 40);
    let mut rows = vec![convolution("CONV_2D", side, 3, width, 3)];
    for block in 0..3 + index % 3 {
        let wide = width * (block + 2);
        rows.push(convolution("CONV_2D", side, width, wide, 1));
        rows.push(convolution("DEPTHWISE_CONV_2D", side, wide, wide, 3));
        rows.push(convolution("CONV_2D", side, wide, width, 1));
        let elements = side * side * width;
        rows.push((
            "ADD",
            format!("{{'Input_shape': '{side}', 'Input_channel': {width}}}"),
            elements as f64,
            12.0 * elements as f64,
        ));
    }
    rows.push((
        "FULLY_CONNECTED",
        format!("{{'Input_shape': '-', 'Input_channel': {width}, 'Filter': '1000'}}"),
        2e3 * width as f64,
        4e3 * width as f64,
    ));
    rows
}

/// Microseconds on a made-up phone: `speed` times as fast as a made-up core.
fn microseconds((operation, _, flops, bytes): &Row, speed: f64) -> f64 {
    let rate = if *operation == "DEPTHWISE_CONV_2D" { 2e3 } else { 1.2e4 };
    (2.0 + flops / rate + bytes / 8e3) / speed
}

/// The files of one collection: `ops_cpu` and `e2e`.
fn write(folder: &Path, kind: &str, models: std::ops::Range<usize>) {
    const SPEEDS: [(&str, f64); 3] =
        [("pixel4|1large|float", 1.0), ("pixel4|1large|quant", 2.4), ("s10|4small|float", 0.4)];
    let header = SPEEDS.map(|(name, _)| name).join(",");
    let mut operators = format!("model,operation,feature,{header}\n");
    let mut e2e = format!(
        "model,FLOPS,size,{}\n",
        SPEEDS.map(|(name, _)| format!("{name}|mean,{name}|std")).join(",")
    );
    for index in models {
        let rows = network(index);
        for row in &rows {
            let times = SPEEDS.map(|(_, speed)| microseconds(row, speed).to_string()).join(",");
            writeln!(operators, "net{index},{},\"{}\",{times}", row.0, row.1).expect("a line");
        }
        let total =
            |speed: f64| rows.iter().map(|row| microseconds(row, speed)).sum::<f64>() * 1.03 + 15.0;
        let times =
            SPEEDS.map(|(_, speed)| format!("{},{}", total(speed), total(speed) / 100.0)).join(",");
        writeln!(e2e, "net{index},{},1000,{times}", rows.iter().map(|r| r.2).sum::<f64>())
            .expect("a line");
    }
    std::fs::write(folder.join(format!("tflite_cnn_{kind}_ops_cpu.csv")), operators)
        .expect("a file");
    std::fs::write(folder.join(format!("tflite_cnn_{kind}_e2e.csv")), e2e).expect("a file");
}

#[test]
fn published_files_become_a_bundle_for_a_phone() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    write(folder, "synthetic", 0..40);
    write(folder, "real", 40..46);
    let files = [
        "tflite_cnn_synthetic_ops_cpu.csv",
        "tflite_cnn_synthetic_e2e.csv",
        "tflite_cnn_real_ops_cpu.csv",
        "tflite_cnn_real_e2e.csv",
    ];
    let import =
        [&["dataset", "import", "mobile-ml-benchmark"], files.as_slice(), &["--out", "phones/"]]
            .concat();
    let (said, warned) = ok(folder, &import);
    assert!(
        said.starts_with("138 runs of 46 models in 3 environments") && warned.is_empty(),
        "{said}{warned}"
    );
    let (validated, _) = ok(folder, &["dataset", "validate", "phones/", "--format", "json"]);
    let report: serde_json::Value = serde_json::from_str(&validated).expect("JSON");
    assert_eq!(
        (&report["valid"], &report["origins"]),
        (&true.into(), &serde_json::json!({"imported": 138}))
    );
    let several = vitempo_in(folder, &["train", "phones/", "--out", "phone.vtb"]);
    let stderr = String::from_utf8_lossy(&several.stderr).into_owned();
    assert!(!several.status.success() && stderr.contains("holds 3 environments"), "{stderr}");
    let id = stderr
        .lines()
        .map(str::trim)
        .find(|line| line.starts_with("pixel4-1large-tflite-2.10.0-cpu-1t-i8"))
        .expect("the environment is listed");
    ok(
        folder,
        &["train", "phones/", "--environment", id, "--method", "lasso", "--out", "phone.vtb"],
    );
    let (evaluated, _) =
        ok(folder, &["evaluate", "phone.vtb", "--on", "phones/", "--format", "json"]);
    let report: serde_json::Value = serde_json::from_str(&evaluated).expect("JSON");
    assert_eq!((&report["environment"], &report["origin"]), (&id.into(), &"imported".into()));
    for set in ["synthetic", "real"] {
        let e2e = &report["sets"][set]["e2e_executed"];
        assert!(e2e["models"].as_u64().is_some_and(|n| n >= 5), "{set}: {e2e}");
        assert!(e2e["mape"].as_f64().is_some_and(|mape| mape < 15.0), "{set}: {e2e}");
    }
    let refused = vitempo_in(folder, &import);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("import into a new folder"));
}
