//! A bundle without an engine: sampled hybrid vision transformers whose kernels take a time that is
//! a function of their work.

use std::collections::BTreeMap;
use vitempo::{
    graph::{
        Environment, Graph, Measurement, ModelIdentity, ModelProfile, OpSpec, Origin, Precision,
        Processor, Protocol, Samples, Status, Work, lowering,
    },
    predictors::{Method, PredictorBundle, TrainOptions, train},
    search_space::Space,
};

pub fn environment(framework: &str, isa: &str) -> Environment {
    Environment {
        device: "Simulated".into(),
        processor: Processor::Cpu,
        cores_available: 2,
        cores: vec![1],
        framework: framework.into(),
        framework_version: "1.0".into(),
        threads: 1,
        precision: Precision::F32,
        memory_format: None,
        power_mode: None,
        isa: isa.into(),
        os: "Linux".into(),
        beside: None,
        settings: Vec::new(),
        host: None,
    }
}

/// Time of one kernel, ns: its work at a speed of its own kind.
fn cost_ns(op: &OpSpec) -> f64 {
    let work = Work::of_operator(op);
    let kind: u64 = op.kind.name().bytes().map(u64::from).sum();
    let speed = 10.0 + (kind % 23) as f64;
    work.flops as f64 / speed
        + (work.bytes_read + work.bytes_written) as f64 / 12.0
        + 400.0
        + (kind % 900) as f64
}

fn visit(graph: &Graph, environment: &Environment) -> ModelProfile {
    let samples = |ns: f64| Samples { wall_ns: vec![ns as u64; 5], cpu_ns: vec![] };
    let kernels = lowering::lower(graph, environment).expect("a framework with lowering rules");
    let measurement = |(op, node): (&OpSpec, &str)| Measurement {
        op: op.clone().into(),
        node: node.into(),
        kernel: String::new(),
        samples: samples(cost_ns(op)),
        memory_bytes: None,
        status: Status::Ok,
    };
    let total = kernels.nodes().iter().map(|n| cost_ns(&n.op)).sum::<f64>() + 8000.0;
    ModelProfile {
        model: ModelIdentity {
            name: graph.name().into(),
            architecture: graph.architecture(),
            space: None,
            encoding: None,
        },
        environment: environment.clone(),
        session: "one".into(),
        round: 0,
        started_unix_ms: 0,
        origin: Origin::Simulated,
        source: None,
        protocol: Protocol {
            warmups: 1,
            min_repeats: 5,
            max_repeats: 5,
            target_spread: 0.01,
            rounds: 1,
            seed: 1,
            input_distribution: "none".into(),
        },
        e2e: samples(total),
        e2e_profiled: samples(total),
        reference: Samples { wall_ns: vec![1_000_000; 5], cpu_ns: vec![] },
        operators: kernels.nodes().iter().map(|n| measurement((&n.op, &n.name))).collect(),
        executed: None,
        peak_memory_bytes: None,
        running_memory_bytes: None,
        energy_per_inference_uj: None,
        load: None,
        status: Status::Ok,
    }
}

/// A bundle for an environment, of so many models.
pub fn bundle(environment: &Environment, method: Method, models: usize) -> PredictorBundle {
    let space = Space::named("hybrid-vit").expect("a space");
    let architectures = space.sample_many(models, 1).expect("architectures");
    let graphs: Vec<Graph> = architectures.iter().map(|a| a.to_graph().expect("a graph")).collect();
    let profiles: Vec<ModelProfile> =
        graphs.iter().map(|graph| visit(graph, environment)).collect();
    let graphs: BTreeMap<String, Graph> =
        graphs.into_iter().map(|g| (g.name().to_owned(), g)).collect();
    train(
        &profiles,
        &graphs,
        method,
        &TrainOptions { folds: 2, ..TrainOptions::default() },
        &mut |_| {},
    )
    .expect("a bundle")
}
