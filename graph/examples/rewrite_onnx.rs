//! Reads an ONNX model as vitempo sees it and writes it again with seeded random weights: `cargo
//! run --release -p vitempo-graph --example rewrite_onnx -- IN.onnx OUT.onnx [SEED]`. A third file
//! beside them, `OUT.original.onnx`, is the model itself with absent weights filled in: both
//! compute the same.

use std::path::PathBuf;
use vitempo_graph::onnx;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (input, output, seed) = match arguments.as_slice() {
        [input, output] => (PathBuf::from(input), PathBuf::from(output), 0),
        [input, output, seed] => (PathBuf::from(input), PathBuf::from(output), seed.parse()?),
        _ => {
            return Err(
                "give the model to read and the file to write, and a seed if it is not 0".into()
            );
        }
    };
    let graph = onnx::read_file(&input, &onnx::ReadOptions::default())?;
    onnx::write_file(&output, &graph, &onnx::WriteOptions::seeded(seed))?;
    std::fs::write(output.with_extension("original.onnx"), onnx::materialize(&input, seed)?)?;
    eprintln!("{}: {} operators", graph.name(), graph.nodes().len());
    Ok(())
}
