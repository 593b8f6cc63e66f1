//! Adapts to a device by the end-to-end latencies of three models in a CSV file, with what a bundle
//! forecasts for another device.

use std::{error::Error, path::Path};
use vitempo::{
    Bundle,
    graph::{LatencyModel, onnx},
    predictors::adapt::{DevicePrior, Measured, Source, Trait, Workload, adapt},
};

const LATENCIES: &str = "model,latency_ms\nvit_tiny_patch16_224,41.5\nmobilevit_xxs,34.1\n\
    edgenext_xx_small,21.5\n";

/// Prints what the adapted device takes for each model, as forecast.
pub fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let csv = folder.path().join("latencies.csv");
    std::fs::write(&csv, LATENCIES)?;
    let other = Bundle::open("bundles/epyc-onnxruntime-f32-1t.vtb")?;
    let kind = Trait("onnxruntime f32 cpu".to_owned());
    let device = other.environment().device.clone();
    let mut source = Source { device, kind: kind.clone(), latencies_ns: [].into() };
    let (mut names, mut workloads, mut measured) = (Vec::new(), Vec::new(), Vec::new());
    for (model, row) in csv::Reader::from_path(&csv)?.deserialize().enumerate() {
        let (name, ms): (String, f64) = row?;
        let file = Path::new("tests/models").join(format!("{name}.onnx"));
        let graph = onnx::read_file(&file, &onnx::ReadOptions::default())?;
        source.latencies_ns.insert(model, other.predict(&graph)?.latency.point().ns());
        workloads.push(Workload::of(&graph));
        measured.push(Measured { model, ns: ms * 1e6 });
        names.push(name);
    }
    let prior = DevicePrior::learn(&workloads, &[source]);
    let adapted = adapt(&prior, &workloads, &measured, Some(&kind));
    for (name, workload) in names.iter().zip(&workloads) {
        let latency = adapted.forecast(workload, None).latency();
        println!("{name}: {} [{} .. {}]", latency.point(), latency.lower(), latency.upper());
    }
    Ok(())
}
