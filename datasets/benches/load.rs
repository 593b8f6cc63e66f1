//! Times reading and writing a dataset, beside reading the bytes of its files: 300 models x 150
//! operators x 2 rounds x 20 samples.
//!
//! Run with `cargo bench -p vitempo-datasets`. Prints times of this machine; only the ratios can be
//! compared between machines.
#![allow(clippy::unwrap_used)]

use std::{collections::BTreeMap, fs, time::Instant};
use vitempo_datasets::{Dataset, Store, Tolerances, validate};
use vitempo_graph::{
    Attributes, Environment, Graph, Measurement, ModelIdentity, ModelProfile, Node, OpKind, Origin,
    Precision, Processor, Protocol, Samples, Status, TensorSpec, Value, ValueId, ValueSource,
};

const MODELS: usize = 300;
const OPERATORS: usize = 150;
const ROUNDS: usize = 2;
const REPEATS: usize = 20;

fn graph(index: usize) -> Graph {
    let mut values = vec![Value {
        name: "input".into(),
        tensor: Some(TensorSpec::f32([1, 8, 32, 32])),
        source: ValueSource::Input,
    }];
    let mut nodes = Vec::new();
    for i in 0..OPERATORS {
        let input = ValueId(values.len() as u32 - 1);
        let weight = TensorSpec::f32([8 + index % 40, 8 + i / 3, 3, 3]);
        values.push(Value {
            name: format!("/blocks.{i}/conv/weight"),
            tensor: Some(weight),
            source: ValueSource::Constant(None),
        });
        let output = TensorSpec::f32([1, 8 + index % 40, 32, 32]);
        values.push(Value {
            name: format!("/blocks.{i}/conv/Conv_output_0"),
            tensor: Some(output),
            source: ValueSource::Node(i as u32),
        });
        let attributes = Attributes::new()
            .with_ints("kernel_shape", [3, 3])
            .with_ints("strides", [1, 1])
            .with_ints("pads", [1, 1, 1, 1])
            .with_int("group", 1);
        let last = values.len() as u32 - 1;
        nodes.push(Node::new(
            format!("/blocks.{i}/conv/Conv"),
            OpKind::Conv,
            attributes,
            &values,
            vec![input, ValueId(last - 1)],
            vec![ValueId(last)],
        ));
    }
    let last = ValueId(values.len() as u32 - 1);
    Graph::new(format!("model_{index:04}"), values, nodes, vec![ValueId(0)], vec![last]).unwrap()
}

fn samples(seed: u64) -> Samples {
    let wall_ns: Vec<u64> = (0..REPEATS as u64)
        .map(|r| 200_000 + (seed * 2_654_435_761 + r * 40_503) % 30_000)
        .collect();
    Samples { cpu_ns: wall_ns.iter().map(|t| t - t % 977).collect(), wall_ns }
}

fn profile(index: usize, round: usize, graph: &Graph) -> ModelProfile {
    let measure = |(i, node): (usize, &Node)| Measurement {
        op: node.op.clone().into(),
        node: node.name.clone(),
        kernel: "Conv".into(),
        samples: samples((index * 1_000 + i + round) as u64),
        memory_bytes: None,
        status: Status::Ok,
    };
    ModelProfile {
        model: ModelIdentity {
            name: format!("model_{index:04}"),
            architecture: format!("{index:04}{}", graph.architecture()),
            space: Some("bench".into()),
            encoding: Some(index.to_string()),
        },
        environment: Environment {
            device: "bench".into(),
            processor: Processor::Cpu,
            cores_available: 2,
            cores: vec![0],
            framework: "null".into(),
            framework_version: "1".into(),
            threads: 1,
            precision: Precision::F32,
            memory_format: None,
            power_mode: None,
            isa: String::new(),
            os: "Linux".into(),
            beside: None,
            settings: Vec::new(),
            host: None,
        },
        session: "bench".into(),
        round,
        started_unix_ms: 0,
        origin: Origin::Simulated,
        source: None,
        protocol: Protocol {
            warmups: 2,
            min_repeats: 5,
            max_repeats: REPEATS,
            target_spread: 0.02,
            rounds: ROUNDS,
            seed: 1,
            input_distribution: "uniform(-1,1)".into(),
        },
        e2e: samples(index as u64),
        e2e_profiled: samples(index as u64),
        reference: Samples::default(),
        operators: graph.nodes().iter().enumerate().map(measure).collect(),
        executed: None,
        peak_memory_bytes: None,
        running_memory_bytes: None,
        energy_per_inference_uj: None,
        load: None,
        status: Status::Ok,
    }
}

fn timed<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = work();
    println!("{what:<34} {:>8.1} ms", start.elapsed().as_secs_f64() * 1e3);
    result
}

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let graphs: BTreeMap<usize, Graph> = (0..MODELS).map(|i| (i, graph(i))).collect();
    let mut store = Store::open_or_create(folder.path()).unwrap();
    timed("append (fsync per model run)", || {
        for round in 0..ROUNDS {
            for (&i, graph) in &graphs {
                let profile = profile(i, round, graph);
                store.append_model(&profile.model, graph).unwrap();
                store.append(&profile).unwrap();
            }
        }
    });
    timed("load from the journal", || Dataset::load(folder.path()).unwrap());
    timed("compact", || store.compact().unwrap());
    let size = |name: &str| fs::metadata(folder.path().join(name)).map(|m| m.len()).unwrap_or(0);
    for table in vitempo_datasets::table_names() {
        println!("{table:<34} {:>8.1} KiB", size(&format!("{table}.parquet")) as f64 / 1024.0);
    }
    let bytes = || {
        fs::read_dir(folder.path())
            .unwrap()
            .flatten()
            .filter_map(|e| fs::read(e.path()).ok())
            .map(|b| b.len())
            .sum::<usize>()
    };
    timed("read the bytes of all files", bytes);
    let dataset = timed("load from the tables", || Dataset::load(folder.path()).unwrap());
    timed("validate", || validate(folder.path(), &Tolerances::default()).unwrap());
    assert_eq!(dataset.profiles.len(), MODELS * ROUNDS);
}
