//! Forecasts a model by a bundle: latency with its interval, and the three slowest operators.

use std::{error::Error, path::Path};
use vitempo::{
    Bundle,
    graph::{LatencyModel, onnx},
};

/// Prints the forecast.
pub fn main() -> Result<(), Box<dyn Error>> {
    let file = Path::new("tests/models/vit_tiny_patch16_224.onnx");
    let model = onnx::read_file(file, &onnx::ReadOptions::default())?;
    let bundle = Bundle::open("bundles/epyc-onnxruntime-f32-1t.vtb")?;
    let mut forecast = bundle.predict(&model)?;
    let latency = forecast.latency;
    println!("{} on {}", model.name(), bundle.environment().describe());
    println!("{} [{} .. {}]", latency.point(), latency.lower(), latency.upper());
    forecast.operators.sort_by(|a, b| b.latency_ns.ns().total_cmp(&a.latency_ns.ns()));
    for operator in forecast.operators.iter().take(3) {
        println!("{} {}: {}", operator.kind, operator.name, operator.latency_ns);
    }
    Ok(())
}
