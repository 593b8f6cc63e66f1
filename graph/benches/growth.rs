//! Measures how lowering grows with the nodes of a model: steps of the budget and seconds for every
//! growing structure and framework.
//!
//! `cargo bench -p vitempo-graph --bench growth [-- STRUCTURE [FRAMEWORK [NODES...]]]`

#[path = "../tests/growing/mod.rs"]
mod growing;

use growing::{CASES, environments};
use std::time::Instant;
use vitempo_graph::{Budget, Limits, lowering::lower_within};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let wanted = |at: usize, name: &str| {
        words.get(at).is_none_or(|word| word == "all" || name.starts_with(word.as_str()))
    };
    let mut sizes: Vec<usize> = words.iter().skip(2).filter_map(|w| w.parse().ok()).collect();
    if sizes.is_empty() {
        sizes = vec![1_000, 10_000, 100_000];
    }
    println!("{:24} {:30} {:>8} {:>12} {:>9}", "structure", "framework", "nodes", "steps", "s");
    for (case, make) in CASES.iter().filter(|(case, _)| wanted(0, case)) {
        for &size in &sizes {
            let graph = make(size);
            for (name, environment) in environments() {
                if !wanted(1, &name) {
                    continue;
                }
                let budget = Budget::new(Limits::NONE);
                let started = Instant::now();
                let lowered = lower_within(&graph, &environment, &budget);
                let seconds = started.elapsed().as_secs_f64();
                let refused = lowered.err().map_or_else(String::new, |error| error.to_string());
                println!(
                    "{case:24} {name:30} {:8} {:12} {seconds:9.3} {refused}",
                    graph.nodes().len(),
                    budget.steps_spent(),
                );
            }
        }
    }
}
