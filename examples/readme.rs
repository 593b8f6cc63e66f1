//! The program of the README.

use vitempo::prelude::*;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = models::read("vit.onnx".as_ref(), &ReadOptions::default())?;
    let bundle = Bundle::open("epyc-onnxruntime-f32-1t")?;
    let latency = bundle.predict(&model.graph)?.latency;
    println!("{} [{} .. {}]", latency.point(), latency.lower(), latency.upper());
    Ok(())
}
