//! Times planners and simulator: `cargo bench --bench planners`. Times are medians; models are
//! random, of the sizes named. petgraph solves the same cuts for comparison.

mod timing;

use petgraph::{algo::dinics, graph::DiGraph};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::{collections::BTreeMap, hint::black_box, time::Instant};
use timing::median_us;
use vitempo::planners::{
    cost::{Costs, Interval, Link, NodeCosts, ProcessorCosts, TensorCosts},
    pipeline::{Pipeline, PipelineObjective},
    simulator::{ProcessorModel, Scenario, Source, StageModel, Stream, Task, simulate},
    split::{Criterion, Objective, Split},
};

fn main() {
    let mut rng = StdRng::seed_from_u64(1);
    println!("Split of a graph between device and server (budget for 350 operators: 1 ms)");
    println!(
        "{:>10} {:>12} {:>12} {:>12} {:>8}",
        "operators", "cut", "plan", "petgraph cut", "ratio"
    );
    for (operators, skips) in [(20, 0.3), (150, 0.1), (350, 0.3), (430, 0.9), (1000, 0.3)] {
        split(&random_costs(&mut rng, operators, 2, skips));
    }
    println!(
        "\nPipeline over heterogeneous processors, cuts and order (budget for 200 on 4: 5 ms)"
    );
    println!("{:>10} {:>12} {:>12} {:>16}", "operators", "processors", "best", "latency bounded");
    for (operators, processors) in [(100, 2), (200, 3), (200, 4), (200, 6)] {
        pipeline(&random_costs(&mut rng, operators, processors, 0.2));
    }
    println!("\nSimulator (budget: 1 million events a second)");
    for (name, cv) in [("without noise", 0.0), ("with noise", 0.1)] {
        simulation(name, cv);
    }
}

/// A spine with skips; sizes fall along it; the server is 8 to 14 times faster than the device,
/// further processors up to 3 times slower or faster.
fn random_costs(rng: &mut StdRng, operators: usize, processors: usize, skips: f64) -> Costs {
    let speed: Vec<f64> =
        (0..processors).map(|p| if p == 0 { 1.0 } else { rng.random_range(0.3..3.0) }).collect();
    let mut node = |index: usize| {
        let ns = rng.random_range(100_000..1_000_000) as f64;
        let server = ns / rng.random_range(8.0..14.0);
        let mut own = |p: usize| {
            if processors == 2 && p == 1 {
                server
            } else {
                ns / speed[p] * rng.random_range(0.7..1.4)
            }
        };
        let latency_ns =
            (0..processors).map(|p| Some(Interval::within(own(p) as u64, 0.05))).collect();
        NodeCosts {
            name: format!("n{index}"),
            latency_ns,
            energy_nj: vec![None; processors],
            memory_bytes: 0,
        }
    };
    let nodes: Vec<NodeCosts> = (0..operators).map(&mut node).collect();
    let size = |index: usize, rng: &mut StdRng| {
        (30e6 * (1.0 - 0.9 * index as f64 / operators as f64) * rng.random_range(0.2..1.2)) as u64
    };
    let tensor = |index: usize, rng: &mut StdRng| TensorCosts {
        name: format!("t{index}"),
        size_bytes: size(index, rng),
        producer: index.checked_sub(1),
        consumers: if index < operators { vec![index] } else { vec![] },
        output: index == operators,
        confined: false,
    };
    let mut tensors: Vec<TensorCosts> = (0..=operators).map(|index| tensor(index, rng)).collect();
    for reader in 3..operators {
        if rng.random_bool(skips) {
            let from = rng.random_range(reader.saturating_sub(7)..reader - 1);
            tensors[from].consumers.push(reader);
        }
    }
    // Only what the first processor sends counts for its energy.
    let link = |from: usize| Link {
        transmit_w: if from == 0 { 1.0 } else { 0.0 },
        ..Link::of_bandwidth(1_000_000_000)
    };
    let links: BTreeMap<_, _> = (0..processors)
        .flat_map(|a| (0..processors).filter(move |&b| a != b).map(move |b| ((a, b), link(a))))
        .collect();
    let names = (0..processors).map(|p| ProcessorCosts::named(format!("p{p}"))).collect();
    Costs::new("random", names, links, nodes, tensors, vec![]).expect("costs that fit")
}

fn split(costs: &Costs) {
    let problem = Split::new(costs, 0, 1).expect("a problem");
    let objective = Objective::least(Criterion::Latency);
    let best = problem.best(&objective).expect("a split");
    let network = network(costs);
    let (flow, _) = dinics(&network.0, network.1, network.2);
    assert_eq!(
        flow,
        problem.value(Criterion::Latency, &best.on_device),
        "petgraph finds the same latency"
    );
    let cut = median_us(51, || drop(black_box(problem.cut(Criterion::Latency))));
    let plan = median_us(51, || {
        drop(black_box(Split::new(costs, 0, 1).expect("a problem").best(&objective)));
    });
    let peer = median_us(11, || drop(black_box(dinics(&network.0, network.1, network.2))));
    println!(
        "{:>10} {cut:>9.0} us {plan:>9.0} us {peer:>9.0} us {:>8.1}",
        costs.nodes().len(),
        peer / cut
    );
}

type Network = (DiGraph<(), u64>, petgraph::graph::NodeIndex, petgraph::graph::NodeIndex);

/// The same cut, put down anew: one vertex per node and tensor.
fn network(costs: &Costs) -> Network {
    const NEVER: u64 = 1 << 50;
    let mut graph = DiGraph::new();
    let (source, sink) = (graph.add_node(()), graph.add_node(()));
    let vertices: Vec<_> = costs.nodes().iter().map(|_| graph.add_node(())).collect();
    let ns = |interval: Option<Interval>| interval.map_or(NEVER, Interval::point);
    let link = costs.link(0, 1).expect("a link");
    let back = |node: usize| -> u64 {
        let results = costs.tensors().iter().filter(|t| t.output && t.producer == Some(node));
        results
            .filter_map(|t| costs.link(1, 0).and_then(|l| l.transfer_ns(t.size_bytes)))
            .map(Interval::point)
            .sum()
    };
    for (index, node) in costs.nodes().iter().enumerate() {
        graph.add_edge(source, vertices[index], ns(node.latency_ns[1]) + back(index));
        graph.add_edge(vertices[index], sink, ns(node.latency_ns[0]));
    }
    for tensor in costs.tensors().iter().filter(|t| !t.consumers.is_empty()) {
        let vertex = graph.add_node(());
        let producer = tensor.producer.map_or(source, |p| vertices[p]);
        graph.add_edge(producer, vertex, ns(link.transfer_ns(tensor.size_bytes)));
        for &consumer in &tensor.consumers {
            graph.add_edge(vertex, vertices[consumer], NEVER);
            if tensor.producer.is_some() {
                graph.add_edge(vertices[consumer], producer, NEVER);
            }
        }
    }
    (graph, source, sink)
}

fn pipeline(costs: &Costs) {
    let problem = Pipeline::new(costs, 0).expect("a problem");
    let best =
        problem.best(PipelineObjective::Throughput { latency_at_most: None }).expect("a pipeline");
    let shortest =
        problem.best(PipelineObjective::Latency { period_at_most: None }).expect("a pipeline");
    let bound =
        (best.plan.predicted.latency_ns.point() + shortest.plan.predicted.latency_ns.point()) / 2;
    let unbounded = median_us(11, || {
        drop(black_box(problem.cuts(PipelineObjective::Throughput { latency_at_most: None })));
    });
    let bounded = median_us(5, || {
        drop(black_box(
            problem.cuts(PipelineObjective::Throughput { latency_at_most: Some(bound) }),
        ));
    });
    println!(
        "{:>10} {:>12} {unbounded:>9.0} us {bounded:>13.0} us",
        costs.nodes().len(),
        costs.processors().len()
    );
}

fn simulation(name: &str, cv: f64) {
    let task =
        |processor, us: u64| Task { processor, compute_ns: us * 1000, cv, ..Task::default() };
    let stage = |name: &str, steps| StageModel { name: name.to_owned(), queue: 1, steps };
    let stages = vec![
        stage("encoder", vec![vec![task(0, 900)]]),
        stage("decoders", vec![vec![task(1, 500), task(2, 700)]]),
    ];
    let processors = ["npu", "cpu", "gpu"].map(ProcessorModel::named).to_vec();
    let scenario = Scenario::new(
        processors,
        vec![Stream::new("frames", Source::Closed, stages)],
        600_000_000_000,
    );
    let start = Instant::now();
    let outcome = simulate(&scenario, 1).expect("an outcome");
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{name:>14}: {:.1} million events a second ({} events, {:.0} s simulated in {seconds:.2} \
        s)",
        outcome.events as f64 / seconds / 1e6,
        outcome.events,
        600.0
    );
}
