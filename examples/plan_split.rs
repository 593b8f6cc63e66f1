//! Divides a model between a phone and a server behind a link of 20 Mbit/s, and prints the best
//! division for each range of bandwidths. Costs are forecasts of two shipped bundles.
//!
//! Run it in the repository: `cargo run --release --example plan_split --features plan`.

use vitempo::{
    Bundle,
    graph::onnx::{self, ReadOptions},
    plan::split::{self, Connection, DevicePower},
    planners::{
        self,
        split::{Criterion, Objective},
    },
};

/// Plans a split and prints it.
pub fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = "tests/models/mobilevit_xxs.onnx".as_ref();
    let graph = onnx::read_file(model, &ReadOptions::default())?;
    let phone = Bundle::open("bundles/adapted/pixel4-tflite-cpu-f32.vtb")?;
    let server = Bundle::open("bundles/epyc-onnxruntime-f32-2t.vtb")?;

    let link = Connection::of_bandwidth(2_500_000);
    let power = DevicePower::default();
    let costs = split::costs(&graph, &phone, &server, &link, power)?.costs;
    let least = Objective::least(Criterion::Latency);
    let best = split::best(&costs, &least, split::budget())?;
    println!("{}\n", best.plan);

    for range in split::over_bandwidth(&costs, &least, split::budget())? {
        let here = range.on_device.iter().filter(|&&here| here).count();
        let (from, of) = (planners::rate(range.from_bytes_per_s), graph.nodes().len());
        println!("from {from} on: {here} of {of} operators on the phone");
    }
    Ok(())
}
