//! Torch makes the calls that its lowering forecasts, and computes the results of ONNX Runtime. On
//! the models that ship with the project, and on those under `VITEMPO_ZOO` where that is set.

#![cfg(all(feature = "torch", feature = "onnxruntime"))]
#![allow(clippy::unwrap_used)]

mod here;

use std::path::{Path, PathBuf};
use vitempo_graph::{MemoryFormat, OpSpec, Precision, Processor, Setting, lowering, onnx};
use vitempo_profiler::{Backend, Model, ModelSource, OutputValues, RunOptions, backends::by_name};

fn models() -> Vec<PathBuf> {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models");
    let folder = std::env::var_os("VITEMPO_ZOO").map_or(shipped, PathBuf::from);
    let mut found: Vec<PathBuf> =
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.extension().is_some_and(|e| e == "onnx"));
    found.sort();
    assert!(!found.is_empty(), "no models in {}", folder.display());
    found
}

fn model(path: &Path) -> Model {
    let graph = onnx::read_file(path, &onnx::ReadOptions::default()).unwrap();
    Model {
        name: path.file_stem().unwrap().to_string_lossy().into_owned(),
        graph,
        source: ModelSource::Bytes(onnx::materialize(path, 0).unwrap()),
    }
}

fn available(backend: &dyn Backend) -> bool {
    here::offered(backend, &RunOptions::default()).is_some()
}

/// Calls torch made that were not predicted, and calls predicted that it did not make.
fn differences(model: &Model, options: &RunOptions, executed: Vec<OpSpec>) -> Vec<String> {
    let format = options.memory_format.unwrap_or_default();
    let mut predicted: Vec<OpSpec> =
        lowering::torch::program(&model.graph, options.precision, format)
            .unwrap()
            .nodes()
            .iter()
            .map(|n| n.op.clone())
            .collect();
    let mut differences = Vec::new();
    for op in executed {
        match predicted.iter().position(|f| *f == op) {
            Some(position) => drop(predicted.swap_remove(position)),
            None => differences.push(format!("executed {}", op.to_json())),
        }
    }
    differences.extend(predicted.iter().map(|op| format!("predicted {}", op.to_json())));
    differences
}

/// Greatest distance as a share of the greatest value.
fn distance(expected: &[OutputValues], found: &[OutputValues]) -> f32 {
    assert_eq!(expected.len(), found.len());
    let pairs = expected.iter().zip(found);
    let one = |(a, b): (&OutputValues, &OutputValues)| {
        assert_eq!((&a.name, &a.shape), (&b.name, &b.shape));
        let largest = a.values.iter().fold(f32::MIN_POSITIVE, |m, v| m.max(v.abs()));
        a.values.iter().zip(&b.values).map(|(x, y)| (x - y).abs()).fold(0f32, f32::max) / largest
    };
    pairs.map(one).fold(0f32, f32::max)
}

#[test]
fn calls_are_foretold_and_outputs_agree() {
    let (torch, reference) = (by_name("torch").unwrap(), by_name("onnxruntime").unwrap());
    if !available(torch.as_ref()) {
        return;
    }
    let strict = std::env::var_os("VITEMPO_ZOO").is_none();
    let compare = available(reference.as_ref());
    for path in models() {
        let model = model(&path);
        let expected = if compare {
            reference.load(&model, &RunOptions::default()).ok().and_then(|mut s| s.outputs().ok())
        } else {
            None
        };
        for (precision, format) in [
            (Precision::F32, MemoryFormat::ChannelsFirst),
            (Precision::F32, MemoryFormat::ChannelsLast),
            (Precision::Bf16, MemoryFormat::ChannelsLast),
        ] {
            let options =
                RunOptions { precision, memory_format: Some(format), ..RunOptions::default() };
            let case = format!("{} {precision} {format}", model.name);
            let mut session = match torch.load(&model, &options) {
                Ok(session) => session,
                Err(error) if !strict => {
                    eprintln!("{case}: {error}");
                    continue;
                }
                Err(error) => panic!("{error}"),
            };
            let rows = session.profile(0, 1).unwrap().operators;
            let count = rows.len();
            let wrong = differences(
                &model,
                &options,
                rows.into_iter().map(|r| r.op.as_ref().clone()).collect(),
            );
            let apart = expected.as_ref().map(|e| distance(e, &session.outputs().unwrap()));
            eprintln!(
                "{case}: {count} calls, {} not as predicted, outputs {apart:?} apart {}",
                wrong.len(),
                wrong.join("\n  ")
            );
            let tolerance = if precision == Precision::F32 { 1e-3 } else { 0.1 };
            assert!(
                !strict || (wrong.is_empty() && apart.is_none_or(|a| a <= tolerance)),
                "{case}: {wrong:#?}"
            );
        }
    }
}

/// An absent GPU is refused with the engine's own message, and half precision on a CPU is refused.
#[test]
fn what_is_not_there_is_refused() {
    let torch = by_name("torch").unwrap();
    if !available(torch.as_ref()) {
        return;
    }
    let model = model(&models()[0]);
    let load = |options: RunOptions| {
        torch.load(&model, &options).err().map(|e| e.to_string()).unwrap_or_default()
    };
    let half = load(RunOptions { precision: Precision::F16, ..RunOptions::default() });
    assert!(half.contains("precision f16") && half.contains("bf16"), "{half}");
    let graph = load(RunOptions { settings: vec![Setting::CudaGraph], ..RunOptions::default() });
    assert!(graph.contains("setting cuda-graph") && graph.contains("no settings"), "{graph}");
    if !torch.absent_devices(&RunOptions::default()).is_empty() {
        let gpu = load(RunOptions { processor: Processor::Gpu, ..RunOptions::default() });
        assert!(gpu.contains("not available") && gpu.contains("CUDA"), "{gpu}");
    }
}
