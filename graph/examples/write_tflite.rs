//! `write_tflite IN.onnx OUT.tflite [SEED]`: the model for TensorFlow Lite, absent weights filled;
//! beside it OUT.onnx with the same weights, and OUT.json with how inputs and outputs are stored
//! and what each operator comes from.

use std::path::{Path, PathBuf};
use vitempo_graph::{onnx, tflite};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [input, output, rest @ ..] = arguments.as_slice() else {
        return Err("usage: write_tflite IN.onnx OUT.tflite [SEED]".into());
    };
    let seed = rest.first().map_or(Ok(0), |s| s.parse())?;
    let (input, output) = (Path::new(input), PathBuf::from(output));
    let bytes = onnx::materialize(input, seed)?;
    let graph = onnx::read_file(input, &onnx::ReadOptions::default())?;
    let written = tflite::write(&graph, &tflite::Weights::from_onnx(&bytes)?)?;
    std::fs::write(output.with_extension("onnx"), bytes)?;
    let port = |p: &tflite::Port| serde_json::json!({ "name": p.name, "shape": p.shape, "layout": p.layout });
    let operators: Vec<_> = written
        .operators
        .iter()
        .map(|o| serde_json::json!({ "code": o.code, "node": o.node, "op": o.op }))
        .collect();
    let ports = |ports: &[tflite::Port]| ports.iter().map(port).collect::<Vec<_>>();
    let account = serde_json::json!({ "inputs": ports(&written.inputs), "outputs": ports(&written.outputs), "operators": operators });
    std::fs::write(output.with_extension("json"), account.to_string())?;
    std::fs::write(output, written.bytes)?;
    Ok(())
}
