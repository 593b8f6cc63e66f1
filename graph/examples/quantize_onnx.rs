//! Writes a model in another precision: `quantize_onnx qdq|qdq-results|integer|half MODEL.onnx
//! OUT.onnx`. Weights that the file lacks are seeded random numbers.

use std::{error::Error, path::Path};
use vitempo_graph::{onnx, quantize::Conversion};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [conversion, from, to] = arguments.as_slice() else {
        return Err("usage: quantize_onnx qdq|qdq-results|integer|half MODEL.onnx OUT.onnx".into());
    };
    let conversion = match conversion.as_str() {
        "qdq" => Conversion::Qdq,
        "qdq-results" => Conversion::QdqResults,
        "integer" => Conversion::Integer,
        "half" => Conversion::Half,
        other => return Err(format!("`{other}` is none of qdq, qdq-results, integer, half").into()),
    };
    let bytes = onnx::materialize(Path::new(from), 0)?;
    let graph = onnx::read_weights(from, &bytes, &onnx::ReadOptions::default())?;
    drop(bytes);
    std::fs::write(to, conversion.model_bytes(&graph, 0, (-1.0, 1.0))?)?;
    Ok(())
}
