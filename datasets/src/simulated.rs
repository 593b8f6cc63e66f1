//! Made-up measurements for tests, marked [`Origin::Simulated`].

use std::collections::BTreeMap;
use vitempo_graph::{
    Attribute, Attributes, Environment, Executed, Graph, Measurement, ModelIdentity, ModelProfile,
    Node, OpKind, Origin, Precision, Processor, Protocol, Samples, Status, TensorSpec, Value,
    ValueId, ValueSource,
};

pub(crate) fn environment() -> Environment {
    Environment {
        device: "Imaginary 9000".into(),
        processor: Processor::Cpu,
        cores_available: 4,
        cores: vec![1, 3],
        framework: "imaginary".into(),
        framework_version: "0.1".into(),
        threads: 1,
        precision: Precision::F32,
        memory_format: None,
        power_mode: Some("performance".into()),
        isa: "none".into(),
        os: "Linux".into(),
        beside: None,
        settings: Vec::new(),
        host: None,
    }
}

/// A chain of `length` operators whose widths depend on `index`: another index is another
/// architecture.
pub(crate) fn graph(index: usize, length: usize) -> Graph {
    let width = |i: usize| 8 + (index * 7 + i * 3) % 64 + index / 64;
    let mut values = vec![Value {
        name: "x".into(),
        tensor: Some(TensorSpec::f32([1, width(0)])),
        source: ValueSource::Input,
    }];
    let mut nodes = Vec::new();
    for i in 0..length {
        let input = ValueId(values.len() as u32 - 1);
        let shape =
            values[input.0 as usize].tensor.as_ref().map(|t| t.shape.clone()).unwrap_or_default();
        let name = format!("node_{i}");
        let mut inputs = vec![input];
        let (kind, attributes, columns) = match i % 3 {
            0 => {
                values.push(Value {
                    name: format!("w{i}"),
                    tensor: Some(TensorSpec::f32([shape[1], width(i + 1)])),
                    source: ValueSource::Constant(None),
                });
                inputs.push(ValueId(values.len() as u32 - 1));
                (OpKind::Linear, Attributes::new(), width(i + 1))
            }
            1 => (OpKind::Gelu, Attributes::new(), shape[1]),
            _ => (
                OpKind::Clip,
                Attributes::new()
                    .with("min", Attribute::Float(f64::NEG_INFINITY))
                    .with("max", Attribute::Float(0.1 + index as f64)),
                shape[1],
            ),
        };
        values.push(Value {
            name: format!("v{i}"),
            tensor: Some(TensorSpec::f32([1, columns])),
            source: ValueSource::Node(i as u32),
        });
        nodes.push(Node::new(
            name,
            kind,
            attributes,
            &values,
            inputs,
            vec![ValueId(values.len() as u32 - 1)],
        ));
    }
    let last = ValueId(values.len() as u32 - 1);
    Graph::new(format!("model_{index}"), values, nodes, vec![ValueId(0)], vec![last])
        .unwrap_or_else(|e| panic!("{e}"))
}

pub(crate) fn identity(index: usize, graph: &Graph) -> ModelIdentity {
    let synthetic = index % 10 != 9;
    ModelIdentity {
        name: format!("model_{index}"),
        architecture: graph.architecture(),
        space: synthetic.then(|| "simulated".to_owned()),
        encoding: synthetic.then(|| format!("s{index}")),
    }
}

/// One model run; its operators add up to its end-to-end time.
pub(crate) fn profile(
    index: usize,
    graph: &Graph,
    session: &str,
    round: usize,
    repeats: usize,
) -> ModelProfile {
    let time = |node: usize, repeat: usize| {
        1_000 + (index * 31 + node * 17 + repeat * 5 + round) as u64 % 900
    };
    let operators: Vec<Measurement> = graph
        .nodes()
        .iter()
        .enumerate()
        .map(|(n, node)| Measurement {
            op: node.op.clone().into(),
            node: node.name.clone(),
            kernel: format!("{}_kernel", node.op.kind),
            samples: samples((0..repeats).map(|r| time(n, r)).collect()),
            memory_bytes: (n % 2 == 0).then_some(1 << n),
            status: Status::Ok,
        })
        .collect();
    let total: Vec<u64> =
        (0..repeats).map(|r| (0..operators.len()).map(|n| time(n, r)).sum()).collect();
    ModelProfile {
        model: identity(index, graph),
        environment: environment(),
        session: session.to_owned(),
        round,
        started_unix_ms: 1_790_000_000_000 + index as u64,
        origin: Origin::Simulated,
        source: None,
        protocol: Protocol {
            warmups: 2,
            min_repeats: 5,
            max_repeats: 50,
            target_spread: 0.017,
            rounds: 2,
            seed: 7,
            input_distribution: "uniform(-1,1)".into(),
        },
        e2e: samples(total.clone()),
        e2e_profiled: samples(total.iter().map(|t| t + 10).collect()),
        reference: Samples { wall_ns: vec![500, 510], cpu_ns: Vec::new() },
        executed: Executed::of(&operators),
        operators,
        peak_memory_bytes: index.is_multiple_of(3).then_some(1 << 20),
        running_memory_bytes: index.is_multiple_of(6).then_some(1 << 19),
        energy_per_inference_uj: index.is_multiple_of(2).then_some(40_000),
        load: None,
        status: Status::Ok,
    }
}

fn samples(wall_ns: Vec<u64>) -> Samples {
    let cpu_ns = wall_ns.iter().map(|t| t - 1).collect();
    Samples { wall_ns, cpu_ns }
}

/// A model run that failed.
pub(crate) fn failed(
    index: usize,
    graph: &Graph,
    session: &str,
    round: usize,
    reason: &str,
) -> ModelProfile {
    let profile = profile(index, graph, session, round, 0);
    ModelProfile {
        operators: Vec::new(),
        executed: None,
        peak_memory_bytes: None,
        running_memory_bytes: None,
        energy_per_inference_uj: None,
        load: None,
        e2e_profiled: Samples::default(),
        status: Status::Failed(reason.to_owned()),
        ..profile
    }
}

/// The same of memory alone.
pub(crate) fn of_memory_alone(run: &ModelProfile) -> ModelProfile {
    ModelProfile {
        protocol: run.protocol.clone().of_memory_alone(),
        e2e: samples(vec![3_000, 2_000]),
        e2e_profiled: Samples::default(),
        reference: Samples::default(),
        operators: Vec::new(),
        executed: None,
        peak_memory_bytes: Some(1 << 20),
        running_memory_bytes: Some(1 << 19),
        ..run.clone()
    }
}

/// `models` models measured in two rounds; every seventh failed in the second.
pub(crate) fn sweep(
    models: usize,
    length: usize,
    repeats: usize,
) -> (Vec<ModelProfile>, BTreeMap<String, Graph>) {
    let graphs: Vec<Graph> = (0..models).map(|i| graph(i, length)).collect();
    let mut profiles = Vec::new();
    for round in 0..2 {
        for (i, graph) in graphs.iter().enumerate() {
            let fails = round == 1 && i % 7 == 6;
            profiles.push(if fails {
                failed(i, graph, "monday", round, "out of memory")
            } else {
                profile(i, graph, "monday", round, repeats)
            });
        }
    }
    (profiles, graphs.into_iter().map(|g| (g.architecture(), g)).collect())
}

/// A dataset in `folder` with that sweep, compacted.
pub(crate) fn stored(
    folder: &std::path::Path,
    models: usize,
) -> (Vec<ModelProfile>, BTreeMap<String, Graph>) {
    let (profiles, graphs) = sweep(models, 6, 5);
    let mut store = crate::Store::open_or_create(folder).unwrap_or_else(|e| panic!("{e}"));
    append_all(&mut store, &profiles, &graphs);
    store.compact().unwrap_or_else(|e| panic!("{e}"));
    (profiles, graphs)
}

pub(crate) fn append_all(
    store: &mut crate::Store,
    profiles: &[ModelProfile],
    graphs: &BTreeMap<String, Graph>,
) {
    for profile in profiles {
        store
            .append_model(&profile.model, &graphs[&profile.model.architecture])
            .unwrap_or_else(|e| panic!("{e}"));
        store.append(profile).unwrap_or_else(|e| panic!("{e}"));
    }
}
