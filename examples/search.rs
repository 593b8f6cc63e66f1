//! Searches 2000 architectures of a space for the one with the most FLOPs within a latency ceiling.

use std::error::Error;
use vitempo::{
    Bundle,
    graph::Latency,
    search::{
        Device, Options,
        objective::{Measure, StandIn},
        search,
    },
    search_space::Space,
};

/// Prints the best architecture with its forecast.
pub fn main() -> Result<(), Box<dyn Error>> {
    let space = Space::named("hybrid-vit")?;
    let bundle = Bundle::open("bundles/epyc-onnxruntime-f32-1t.vtb")?;
    let devices =
        [Device { bundle: &bundle, ceiling: Some(Latency::from_ns(20e6)), memory_ceiling: None }];
    let mut objective = StandIn::new(&space, Measure::Flops);
    let options = Options { candidates: 2000, population: 100, seed: 0, upper: false };
    let found = search(&space, &devices, &mut objective, options, &mut |_| true)?;
    println!("{} architectures evaluated, {} on the front", found.candidates, found.front.len());
    if let Some(best) = found.front.first() {
        println!("{:.2e} FLOPs: {}", best.score, best.architecture.encode());
        for latency in &best.latencies {
            println!("{} [{} .. {}]", latency.point(), latency.lower(), latency.upper());
        }
    }
    Ok(())
}
