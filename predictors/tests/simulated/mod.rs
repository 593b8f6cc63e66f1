//! Models and profiles from a known cost function with noise, so that the true latencies are known
//! exactly.

#![allow(clippy::unwrap_used, dead_code)]

use std::collections::BTreeMap;
use vitempo_graph::{
    Attributes, Environment, Graph, GraphBuilder, Measurement, ModelIdentity, ModelProfile, OpKind,
    OpSpec, Origin, Precision, Processor, Protocol, Samples, Status, TensorSpec,
};

/// A small generator of numbers between 0 and 1.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn between(&mut self, low: usize, high: usize) -> usize {
        low + (self.uniform() * (high - low + 1) as f64) as usize
    }

    /// Mean 0, standard deviation 1, by the sum of twelve.
    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}

pub fn environment(threads: usize) -> Environment {
    Environment {
        device: "Simulated".into(),
        processor: Processor::Cpu,
        cores_available: 2,
        cores: vec![1],
        framework: "null".into(),
        framework_version: "1.0".into(),
        threads,
        precision: Precision::F32,
        memory_format: None,
        power_mode: None,
        isa: "avx512f".into(),
        os: "Linux".into(),
        beside: None,
        settings: Vec::new(),
        host: None,
    }
}

/// Latency in ns of one operator: rates that depend on alignment and on caches, and a constant.
pub fn cost_ns(op: &OpSpec) -> f64 {
    let bytes: f64 = op
        .inputs
        .iter()
        .map(|i| i.tensor.size_bytes() as f64)
        .chain(op.outputs.iter().map(|t| t.size_bytes() as f64))
        .sum();
    let elements = op.outputs[0].elements() as f64;
    let memory = bytes * if bytes > 1e6 { 0.08 } else { 0.03 };
    let aligned = |n: usize, unit: usize| (n.div_ceil(unit) * unit) as f64 / n as f64;
    match op.kind {
        OpKind::Conv => {
            let weight = &op.inputs[1].tensor.shape;
            let macs = elements * weight[1..].iter().product::<usize>() as f64;
            let depthwise = op.attributes.int("group").unwrap_or(1) > 1;
            macs * aligned(weight[0], 16) * if depthwise { 0.12 } else { 0.012 } + memory + 2000.0
        }
        OpKind::Linear => {
            let weight = &op.inputs[1].tensor.shape;
            elements * weight[0] as f64 * aligned(weight[1], 16) * 0.009 + memory + 1500.0
        }
        OpKind::Gelu => elements * 1.1 + memory + 700.0,
        OpKind::Softmax => elements * 0.8 + memory + 900.0,
        OpKind::Transpose => elements * 0.5 + memory + 500.0,
        OpKind::Reshape => 0.0,
        _ => elements * 0.05 + memory + 600.0,
    }
}

pub fn graph(name: &str, seed: u64) -> Graph {
    let mut random = Numbers(seed.wrapping_mul(7919));
    let mut b = GraphBuilder::new(name);
    let side = [56, 64, 72][random.between(0, 2)];
    let mut channels = random.between(16, 40);
    let mut x = b.input("image", TensorSpec::f32(vec![1, 3, side * 2, side * 2]));
    let conv = |b: &mut GraphBuilder,
                name: &str,
                x,
                from: usize,
                to: usize,
                k: usize,
                stride: i64,
                group: usize| {
        let w = b.weight(format!("{name}_w"), TensorSpec::f32(vec![to, from / group, k, k]));
        let a = Attributes::new()
            .with_ints("kernel_shape", vec![k as i64; 2])
            .with_ints("strides", vec![stride; 2])
            .with_ints("pads", vec![(k / 2) as i64; 4])
            .with_ints("dilations", vec![1, 1])
            .with_int("group", group as i64);
        b.op(name, OpKind::Conv, a, &[x, w]).unwrap()
    };
    x = conv(&mut b, "stem", x, 3, channels, 3, 2, 1);
    for block in 0..random.between(3, 7) {
        let wide = channels + random.between(0, 48);
        let k = [1, 3, 5][random.between(0, 2)];
        x = conv(&mut b, &format!("depthwise{block}"), x, channels, channels, 5, 1, channels);
        x = conv(
            &mut b,
            &format!("conv{block}"),
            x,
            channels,
            wide,
            k,
            if block % 2 == 0 { 2 } else { 1 },
            1,
        );
        x = b.op(&format!("gelu{block}"), OpKind::Gelu, Attributes::new(), &[x]).unwrap();
        let again = b.op(&format!("add{block}"), OpKind::Add, Attributes::new(), &[x, x]).unwrap();
        x = again;
        channels = wide;
    }
    let shape = b.tensor(x).unwrap().shape.clone();
    let flat_shape = Attributes::new()
        .with_ints("shape", vec![1, shape[1] as i64, (shape[2] * shape[3]) as i64]);
    x = b.op("flat", OpKind::Reshape, flat_shape, &[x]).unwrap();
    x = b
        .op("tokens", OpKind::Transpose, Attributes::new().with_ints("perm", vec![0, 2, 1]), &[x])
        .unwrap();
    for block in 0..random.between(2, 6) {
        let wide = random.between(4, 30) * 8 + random.between(0, 7);
        let w = b.weight(format!("fc{block}_w"), TensorSpec::f32(vec![channels, wide]));
        x = b.op(&format!("fc{block}"), OpKind::Linear, Attributes::new(), &[x, w]).unwrap();
        x = b
            .op(
                &format!("softmax{block}"),
                OpKind::Softmax,
                Attributes::new().with_int("axis", 2),
                &[x],
            )
            .unwrap();
        channels = wide;
    }
    b.finish(vec![x]).unwrap()
}

/// One model run: noise of `spread` on every kernel and on the whole, everything slower by `drift`;
/// 8 us per run on top of the kernels.
pub fn run(graph: &Graph, round: usize, spread: f64, drift: f64) -> ModelProfile {
    let mut random = Numbers(
        round as u64 * 1000
            + graph.nodes().len() as u64 * 31
            + graph.name().bytes().map(u64::from).sum::<u64>(),
    );
    let mut samples = |ns: f64| Samples {
        wall_ns: (0..9)
            .map(|_| (ns * drift * (1.0 + spread * random.normal())).max(0.0) as u64)
            .collect(),
        cpu_ns: vec![],
    };
    let measurement = |op: &OpSpec, node: &str, samples| Measurement {
        op: op.clone().into(),
        node: node.into(),
        kernel: String::new(),
        samples,
        memory_bytes: None,
        status: Status::Ok,
    };
    let operators: Vec<Measurement> = graph
        .nodes()
        .iter()
        .map(|n| measurement(&n.op, &n.name, samples(cost_ns(&n.op))))
        .collect();
    let total: f64 = graph.nodes().iter().map(|n| cost_ns(&n.op)).sum::<f64>() + 8000.0;
    ModelProfile {
        model: ModelIdentity {
            name: graph.name().into(),
            architecture: graph.architecture(),
            space: None,
            encoding: None,
        },
        environment: environment(1),
        session: "one".into(),
        round,
        started_unix_ms: round as u64,
        origin: Origin::Simulated,
        source: None,
        protocol: Protocol {
            warmups: 1,
            min_repeats: 9,
            max_repeats: 9,
            target_spread: 0.01,
            rounds: 2,
            seed: 1,
            input_distribution: "none".into(),
        },
        e2e: samples(total),
        e2e_profiled: samples(total),
        reference: Samples { wall_ns: vec![(1e6 * drift) as u64; 5], cpu_ns: vec![] },
        operators,
        executed: None,
        peak_memory_bytes: None,
        running_memory_bytes: None,
        energy_per_inference_uj: None,
        load: None,
        status: Status::Ok,
    }
}

/// `count` models, two model runs each, and their graphs by name.
pub fn data(
    count: u64,
    first_seed: u64,
    spread: f64,
) -> (Vec<ModelProfile>, BTreeMap<String, Graph>) {
    let graphs: Vec<Graph> =
        (0..count).map(|i| graph(&format!("m{}", first_seed + i), first_seed + i)).collect();
    let drift = |i: usize, round: usize| 1.0 + 0.1 * ((i * 7 + round * 3) as f64).sin();
    let runs = graphs
        .iter()
        .enumerate()
        .flat_map(|(i, g)| (0..2).map(move |round| run(g, round, spread, drift(i, round))))
        .collect();
    (runs, graphs.into_iter().map(|g| (g.name().to_owned(), g)).collect())
}
