//! Random zoos: the faster a subgraph, the less accurate are the variants that contain it.

use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::{collections::BTreeMap, ops::Range, sync::Arc};
use vitempo::planners::{
    cost::Interval,
    stitch::{Accuracy, Subgraph, Task, Zoo},
};

/// Latencies of subgraphs, ns.
const LATENCIES: Range<u64> = 1_000_000..10_000_000;

/// How large a zoo is.
#[derive(Clone, Copy)]
pub struct Sizes {
    pub tasks: usize,
    pub variants: usize,
    pub positions: usize,
    pub processors: usize,
}

/// A zoo in which a processor takes `percent` of a subgraph's latency. `accuracy` gets the
/// latencies of a task's subgraphs, by position and variant.
pub fn random(
    sizes: Sizes,
    percent: Range<u64>,
    accuracy: impl Fn(&mut StdRng, &[Vec<u64>]) -> Arc<dyn Accuracy>,
) -> Zoo {
    let mut rng = StdRng::seed_from_u64(1);
    let tasks = (0..sizes.tasks).map(|index| {
        let mut latencies = || rng.random_range(LATENCIES);
        let mut row = || (0..sizes.variants).map(|_| latencies()).collect();
        let ns: Vec<Vec<u64>> = (0..sizes.positions).map(|_| row()).collect();
        let accuracy = accuracy(&mut rng, &ns);
        let mut subgraph = |ns: &u64| Subgraph {
            latency_ns: (0..sizes.processors)
                .map(|_| Some(Interval::exact(ns * rng.random_range(percent.clone()) / 100)))
                .collect(),
            memory_bytes: rng.random_range(1_000_000..9_000_000),
            boundary_bytes: 0,
            boundary_tensors: 1,
            load_ns: Vec::new(),
        };
        Task {
            name: format!("task {index}"),
            variants: (0..sizes.variants).map(|v| v.to_string()).collect(),
            subgraphs: ns.iter().map(|row| row.iter().map(&mut subgraph).collect()).collect(),
            accuracy,
        }
    });
    let tasks = tasks.collect();
    let processors = (0..sizes.processors).map(|p| p.to_string()).collect();
    Zoo::new(processors, BTreeMap::new(), tasks).expect("a zoo")
}

/// Accuracy that each subgraph lowers, 0.01 %: by up to `most`, times `factor`, which is drawn anew
/// for each.
pub fn drops(ns: &[Vec<u64>], most: f64, mut factor: impl FnMut() -> f64) -> Vec<Vec<u32>> {
    let mut drop = |ns: &u64| {
        let share = (LATENCIES.end - ns) as f64 / (LATENCIES.end - LATENCIES.start) as f64;
        (share * share * factor() * most) as u32
    };
    ns.iter().map(|row| row.iter().map(&mut drop).collect()).collect()
}
