//! Divides a model between a phone and a server behind a link of 20 Mbit/s, and prints the best
//! division for each range of bandwidths. Costs are forecasts of two shipped bundles.
//!
//! Run it in the repository: `cargo run --release --example plan_split --features plan`.

use vitempo::{
    Bundle,
    graph::onnx::{self, ReadOptions},
    plan::split::{self, Connection, DevicePower},
    planners::split::{Criterion, Objective},
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
    let best = split::best(&costs, &Objective::least(Criterion::Latency))?;
    println!("{}\n", best.plan);

    for planned in split::over_bandwidth(&costs, Criterion::Latency)? {
        let here = planned.range.on_device.iter().filter(|&&here| here).count();
        let (from, of) = (planned.range.from_bytes_per_s / 125e3, graph.nodes().len());
        println!("from {from:.3} Mbit/s on: {here} of {of} operators on the phone");
    }
    Ok(())
}
