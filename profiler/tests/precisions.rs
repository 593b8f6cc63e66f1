//! Every precision that an engine offers runs, computes in that precision, and gives the results of
//! f32 within its tolerance.

#![allow(clippy::unwrap_used)]

mod here;

use std::path::PathBuf;
use vitempo_graph::{
    Attributes, Graph, GraphBuilder, MemoryFormat, OpKind, Precision, Processor, TensorSpec, onnx,
};
use vitempo_profiler::{
    Availability, Backend, RunOptions, backends,
    source::{self, Source},
};

/// Three convolutions, a depthwise one among them, a residual, pooling and a classifier.
fn convolutions() -> Graph {
    let mut b = GraphBuilder::new("convolutions");
    let image = b.input("image", TensorSpec::f32([1, 3, 32, 32]));
    let x = b.conv("stem", image, 16, 3, 2, 1, 1, true).unwrap();
    let x = b.unary("stem.relu", OpKind::Relu, x).unwrap();
    let y = b.conv("depthwise", x, 16, 3, 1, 1, 16, true).unwrap();
    let y = b.unary("depthwise.relu", OpKind::Relu, y).unwrap();
    let y = b.conv("pointwise", y, 16, 1, 1, 0, 1, true).unwrap();
    let x = b.binary("residual", OpKind::Add, x, y).unwrap();
    let x = b.unary("pool", OpKind::GlobalAveragePool, x).unwrap();
    let x = b.reshape("flat", x, &[1, 16]).unwrap();
    let logits = b.linear("head", x, 10, true).unwrap();
    b.finish(vec![logits]).unwrap()
}

/// Tokens through attention without a softmax's help and a perceptron.
fn tokens() -> Graph {
    let mut b = GraphBuilder::new("tokens");
    let x = b.input("tokens", TensorSpec::f32([1, 64, 96]));
    let q = b.linear("q", x, 96, true).unwrap();
    let k = b.linear("k", x, 96, true).unwrap();
    let k = b
        .op("k.t", OpKind::Transpose, Attributes::new().with_ints("perm", [0, 2, 1]), &[k])
        .unwrap();
    let scores = b.op("scores", OpKind::MatMul, Attributes::new(), &[q, k]).unwrap();
    let scores = b
        .op("softmax", OpKind::Softmax, Attributes::new().with_int("axis", -1), &[scores])
        .unwrap();
    let mixed = b.op("mix", OpKind::MatMul, Attributes::new(), &[scores, x]).unwrap();
    let x = b.binary("residual", OpKind::Add, x, mixed).unwrap();
    let x = b.linear("fc1", x, 192, true).unwrap();
    let x = b.gelu_erf("gelu", x).unwrap();
    let y = b.linear("fc2", x, 96, true).unwrap();
    b.finish(vec![y]).unwrap()
}

/// An engine, the precisions and the memory formats it offers.
type Offered = (Box<dyn Backend>, Vec<Precision>, Vec<MemoryFormat>);

fn available() -> Vec<Offered> {
    let capable = |backend: Box<dyn Backend>| {
        let c = here::offered(backend.as_ref(), &RunOptions::default())?;
        (c.devices.contains(&Processor::Cpu) && backend.name() != "null").then_some((
            backend,
            c.precisions,
            c.memory_formats,
        ))
    };
    backends::all().into_iter().filter_map(capable).collect()
}

fn outputs(
    backend: &dyn Backend,
    graph: &Graph,
    source: &Source,
    options: &RunOptions,
) -> Vec<f32> {
    let model = source::ready(graph.name(), source, graph, backend, options)
        .unwrap_or_else(|e| panic!("{} {}: {e}", backend.name(), options.precision));
    let mut session = backend.load(&model, options).unwrap_or_else(|e| panic!("{e}"));
    session.outputs().unwrap_or_else(|e| panic!("{e}")).swap_remove(0).values
}

/// |a - b| / |a|.
fn distance(a: &[f32], b: &[f32]) -> f64 {
    assert_eq!(a.len(), b.len());
    let norm = |v: &mut dyn Iterator<Item = f64>| v.map(|x| x * x).sum::<f64>().sqrt();
    norm(&mut a.iter().zip(b).map(|(x, y)| f64::from(x - y)))
        / norm(&mut a.iter().map(|&x| f64::from(x)))
}

fn tolerance(precision: Precision) -> f64 {
    match precision {
        Precision::I8 => 0.06,
        Precision::Bf16 => 0.02,
        Precision::F16 => 0.005,
        _ => 1e-4,
    }
}

/// One test: engines that count on standard output must have it for themselves.
#[test]
fn precisions_compute_what_they_should() {
    for (backend, precisions, formats) in available() {
        for graph in [convolutions(), tokens()] {
            let f32 = RunOptions::default();
            let expected = outputs(backend.as_ref(), &graph, &Source::Graph, &f32);
            for &precision in &precisions {
                let options = RunOptions { precision, ..f32.clone() };
                let got = outputs(backend.as_ref(), &graph, &Source::Graph, &options);
                let far = distance(&expected, &got);
                eprintln!("{} {} {precision}: {far:.5}", backend.name(), graph.name());
                assert!(
                    far < tolerance(precision),
                    "{} {} {precision}: {far}",
                    backend.name(),
                    graph.name()
                );
                in_that_precision(backend.as_ref(), &graph, &options);
            }
            for &format in &formats {
                let options = RunOptions { memory_format: Some(format), ..f32.clone() };
                let far = distance(
                    &expected,
                    &outputs(backend.as_ref(), &graph, &Source::Graph, &options),
                );
                assert!(far < 1e-4, "{} {} {format}: {far}", backend.name(), graph.name());
            }
        }
    }
}

/// Every convolution and linear layer ran in the precision asked for. Products of two activations
/// are left to the engine: few have integer kernels for them.
fn in_that_precision(backend: &dyn Backend, graph: &Graph, options: &RunOptions) {
    let model = source::ready(graph.name(), &Source::Graph, graph, backend, options).unwrap();
    let rows = backend.load(&model, options).unwrap().profile(1, 3).unwrap().operators;
    let same = |computed: Precision| match options.precision {
        Precision::I8 => matches!(computed, Precision::I8 | Precision::U8),
        other => computed == other,
    };
    let layers = rows.iter().filter(|r| r.op.kind.is_product() && r.op.weights().next().is_some());
    let computed: Vec<_> = layers.map(|r| (&r.kernel, r.op.precision_computed())).collect();
    let context =
        format!("{} {} {}: {computed:?}", backend.name(), graph.name(), options.precision);
    assert!(!computed.is_empty() && computed.iter().all(|(_, p)| same(*p)), "{context}");
}

#[test]
fn a_file_keeps_its_own_weights() {
    let folder = tempfile::tempdir().unwrap();
    let graph = tokens();
    let path: PathBuf = folder.path().join("tokens.onnx");
    onnx::write_file(&path, &graph, &onnx::WriteOptions::seeded(77)).unwrap();
    for (backend, precisions, _) in available() {
        if !precisions.contains(&Precision::I8) || backend.name() == "rten" {
            continue;
        }
        let source = Source::File(path.clone());
        let expected = outputs(backend.as_ref(), &graph, &source, &RunOptions::default());
        let options = RunOptions { precision: Precision::I8, seed: 5, ..RunOptions::default() };
        // Another seed: inputs differ, so only the weights of the file can make both equal.
        let same_inputs = RunOptions { seed: 5, ..RunOptions::default() };
        let plain = outputs(backend.as_ref(), &graph, &source, &same_inputs);
        assert!(distance(&expected, &plain) > 0.1);
        let far = distance(&plain, &outputs(backend.as_ref(), &graph, &source, &options));
        assert!(far < tolerance(Precision::I8), "{}: {far}", backend.name());
    }
}

#[test]
fn what_an_engine_would_fake_is_refused() {
    for (backend, ..) in available().into_iter().filter(|(b, ..)| b.name() == "onnxruntime") {
        let graph = tokens();
        let options = RunOptions { precision: Precision::F16, ..RunOptions::default() };
        let model =
            source::ready("tokens", &Source::Graph, &graph, backend.as_ref(), &options).unwrap();
        let error = backend.load(&model, &options).err().map(|e| e.to_string()).unwrap_or_default();
        assert!(error.contains("f16") && error.contains("cast to f32"), "{error}");
        let gpu = RunOptions { processor: Processor::Gpu, ..RunOptions::default() };
        match backend.probe(&gpu) {
            Availability::Unavailable { reason, hint } => {
                assert!(!reason.is_empty() && hint.contains("onnxruntime-gpu"), "{reason}; {hint}");
            }
            Availability::Available(c) => assert!(
                c.devices.contains(&Processor::Gpu) && c.precisions.contains(&Precision::F16)
            ),
        }
    }
}
