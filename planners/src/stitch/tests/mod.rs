//! Random zoos, small enough to enumerate, for all tests of stitching.

mod choosing;
mod counting;
mod fronts;
mod preloading;
mod serving;

use super::*;
use crate::cost::{Interval, Link};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::{collections::BTreeMap, sync::Arc};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Additive,
    Monotone,
    Table,
}

const KINDS: [Kind; 3] = [Kind::Additive, Kind::Monotone, Kind::Table];

/// Tasks, variants, positions, processors.
#[derive(Clone, Copy)]
struct Size(usize, usize, usize, usize);

fn random_accuracy(
    rng: &mut StdRng,
    kind: Kind,
    variants: usize,
    positions: usize,
) -> Arc<dyn Accuracy> {
    match kind {
        Kind::Additive => {
            let drops = (0..positions)
                .map(|_| (0..variants).map(|_| rng.random_range(0..30)).collect())
                .collect();
            Arc::new(Additive::new(9000, drops).expect("accuracies"))
        }
        Kind::Monotone => {
            // A mixture of mean and minimum: not a sum, and with plateaus.
            let estimate = |x: &[u32]| {
                (x.iter().sum::<u32>() / x.len() as u32 + x.iter().min().copied().unwrap_or(0)) / 2
            };
            Arc::new(
                Monotone::new(
                    (0..variants).map(|_| rng.random_range(8900..9000)).collect(),
                    positions,
                    Arc::new(estimate),
                )
                .expect("accuracies"),
            )
        }
        Kind::Table => {
            let count = variants.pow(positions as u32);
            Arc::new(
                Table::new(
                    positions,
                    variants,
                    (0..count).map(|_| rng.random_range(8900..9000)).collect(),
                )
                .expect("accuracies"),
            )
        }
    }
}

/// Latencies of some ns, so that sums tie; the first processor runs everything; links in every
/// other zoo.
fn random_zoo(
    rng: &mut StdRng,
    kind: Kind,
    Size(tasks, variants, positions, processors): Size,
) -> Zoo {
    let mut links = BTreeMap::new();
    if rng.random_bool(0.5) {
        for (from, to) in (0..processors)
            .flat_map(|from| (0..processors).map(move |to| (from, to)))
            .filter(|(from, to)| from != to)
        {
            let link = Link {
                message_ns: rng.random_range(0..4),
                setup_ns: rng.random_range(0..3),
                ..Link::of_bandwidth(1_000_000_000)
            };
            links.insert((from, to), link);
        }
    }
    let mut task = |index: usize| {
        let mut subgraph = || Subgraph {
            latency_ns: (0..processors)
                .map(|p| {
                    (p == 0 || rng.random_bool(0.9))
                        .then(|| Interval::within(rng.random_range(1..30), 0.2))
                })
                .collect(),
            memory_bytes: rng.random_range(0..9),
            boundary_bytes: rng.random_range(0..5),
            boundary_tensors: 1,
            load_ns: Vec::new(),
        };
        let subgraphs =
            (0..positions).map(|_| (0..variants).map(|_| subgraph()).collect()).collect();
        let accuracy = random_accuracy(rng, kind, variants, positions);
        Task {
            name: format!("task {index}"),
            variants: (0..variants).map(|v| format!("v{v}")).collect(),
            subgraphs,
            accuracy,
        }
    };
    let tasks = (0..tasks).map(&mut task).collect();
    Zoo::new((0..processors).map(|p| format!("p{p}")).collect(), links, tasks).expect("a zoo")
}

/// An objective that some variants meet and some violate.
fn random_slo(rng: &mut StdRng, positions: usize) -> Slo {
    Slo {
        accuracy_bp: rng.random_range(8900..9005),
        latency_ns: rng.random_range(1..25) * positions as u64,
    }
}

fn random_configurations(rng: &mut StdRng, zoo: &Zoo, count: usize) -> Vec<Vec<Slo>> {
    (0..count)
        .map(|_| zoo.tasks().iter().map(|_| random_slo(rng, zoo.positions())).collect())
        .collect()
}

/// Every stitched variant that runs, with latency and accuracy computed from the definition.
fn every_variant(zoo: &Zoo, task: usize, order: &Order) -> Vec<Stitched> {
    let found = &zoo.tasks()[task];
    let mut all = Vec::new();
    for code in 0..found.variants.len().pow(zoo.positions() as u32) {
        let variants: Vec<usize> = (0..zoo.positions())
            .rev()
            .map(|position| code / found.variants.len().pow(position as u32) % found.variants.len())
            .collect();
        if let Some(latency_ns) = zoo.latency_ns(task, order, &variants) {
            let accuracy_bp = found.accuracy.of(&variants);
            all.push(Stitched { variants, latency_ns: latency_ns.point(), accuracy_bp });
        }
    }
    all
}
