//! Compares MACs and parameters of real models with the counts of another program.
//!
//! With `VITEMPO_ZOO` naming a folder that has an `index.csv` (columns name, set, .., params, macs)
//! and the models as `SET/NAME.onnx`, all of them are compared.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use vitempo_graph::{Work, onnx};

/// A model with its known parameters and MACs.
struct Known {
    path: PathBuf,
    params: u64,
    macs: u64,
}

fn work(path: &Path) -> Work {
    Work::of_graph(&onnx::read_file(path, &onnx::ReadOptions::default()).unwrap())
}

/// Relative difference.
fn off(counted: u64, known: u64) -> f64 {
    (counted as f64 / known as f64 - 1.0).abs()
}

/// Models whose files hold other constants than the architecture has parameters, and why.
const EXPLAINED: &[(&str, &str)] = &[
    ("coatnet_nano_rw_224", BIAS_TABLES),
    ("efficientformerv2_s0", BIAS_TABLES),
    ("hf_swin_tiny_224", BIAS_TABLES),
    ("hf_upernet_swin_tiny_512", BIAS_TABLES),
    ("levit_128", BIAS_TABLES),
    ("levit_256", BIAS_TABLES),
    ("maxvit_pico_rw_256", BIAS_TABLES),
    ("swinv2_tiny_window8_256", BIAS_TABLES),
    ("tiny_vit_5m_224", BIAS_TABLES),
    (
        "edgenext_xx_small",
        "its position encoding, computed from 3120 parameters, is written out for all 1024 tokens",
    ),
    ("repvit_m1", "its second, distillation classifier is merged into the first"),
];
/// Each head's small table of relative position biases is spread over all pairs of positions.
const BIAS_TABLES: &str =
    "exporters spread the tables of relative position biases over all pairs of tokens";

#[test]
fn models_that_ship() {
    // (model, MACs, parameters and how far the file's constants may be from them)
    let cases = [
        ("vit_tiny_patch16_224", 1_253_683_200, 5_717_416, 0.001),
        ("mobilevit_xxs", 407_364_096, 1_272_024, 0.002),
        ("edgenext_xx_small", 254_759_360, 1_327_216, 0.035),
    ];
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models");
    for (name, macs, params, tolerance) in cases {
        let work = work(&folder.join(format!("{name}.onnx")));
        assert_eq!(work.macs, macs, "{name}");
        assert!(
            off(work.params, params) < tolerance,
            "{name}: {} parameters, not {params}",
            work.params
        );
        assert!(
            work.flops > 2 * work.macs && work.bytes_read > 4 * work.params,
            "{name}: {work:?}"
        );
    }
}

fn zoo(folder: &Path) -> Vec<Known> {
    let index = std::fs::read_to_string(folder.join("index.csv")).unwrap();
    let row = |line: &str| {
        let columns: Vec<&str> = line.splitn(8, ',').collect();
        let path = folder.join(columns[1]).join(format!("{}.onnx", columns[0]));
        Known { path, params: columns[5].parse().unwrap(), macs: columns[6].parse().unwrap() }
    };
    index.lines().skip(1).map(row).collect()
}

#[test]
#[ignore = "reads the models of the folder that VITEMPO_ZOO names"]
fn models_of_the_zoo() {
    let folder = std::env::var_os("VITEMPO_ZOO").expect("VITEMPO_ZOO names a folder of models");
    let models = zoo(Path::new(&folder));
    let (mut exact, mut far_macs, mut far_params) = (0, Vec::new(), Vec::new());
    for known in &models {
        let work = work(&known.path);
        let name = known.path.file_stem().unwrap().to_string_lossy().into_owned();
        let (macs, params) = (off(work.macs, known.macs), off(work.params, known.params));
        println!(
            "{name:35} MACs {:14} off by {:.3} %, parameters {:10} off by {:.3} %",
            work.macs,
            100.0 * macs,
            work.params,
            100.0 * params
        );
        exact += usize::from(work.macs == known.macs);
        if macs > 0.02 {
            far_macs.push(name.clone());
        }
        match EXPLAINED.iter().find(|(explained, _)| *explained == name) {
            Some((_, why)) => println!("{:35} {why}", ""),
            None if params > 0.02 => far_params.push(name),
            None => {}
        }
    }
    println!("MACs of {exact} of {} models are exact", models.len());
    assert!(far_macs.len() * 20 <= models.len(), "MACs off by more than 2 %: {far_macs:?}");
    assert!(
        far_params.is_empty(),
        "parameters off by more than 2 % without a reason: {far_params:?}"
    );
}
