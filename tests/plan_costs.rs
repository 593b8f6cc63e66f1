//! Costs of plans against forecasts of the same models: the cost of a model on one processor equals
//! the forecast of `predict`, and the cost of a part equals the forecast of that part alone, for
//! every form of the model and every framework. Models are shipped without weights; the quantised
//! one has the form that ONNX Runtime's `quantize_static` writes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use vitempo::plan::costs::{OperatorCosts, of_operators};
use vitempo::{
    graph::{
        Attributes, Graph, GraphBuilder, LatencyModel, OpKind, PredictionError, TensorSpec,
        ValueSource, onnx, quantize,
    },
    planners::{
        cost::{Attribution, Costs, End, Interval, Link, ProcessorCosts},
        parts,
        split::{Criterion, Objective, Split},
    },
    predictors::{AdaptedBundle, PredictorBundle},
};

/// Parts of each model that are forecast alone.
const CUTS: usize = 5;
/// Fusions and memory formats differ at the ends of a part: how far shares of a model may be apart.
const TOLERANCE: f64 = 0.1;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn read(file: &str) -> Graph {
    onnx::read_file(&folder("tests").join(file), &onnx::ReadOptions::default()).expect(file)
}

fn quantized() -> Graph {
    read("quantized/resnet18_qdq.onnx")
}

/// Models as their files have them, and quantised.
fn models() -> Vec<(String, Graph)> {
    let mut models = vec![("resnet18 as QDQ of ONNX Runtime".to_owned(), quantized())];
    for name in ["edgenext_xx_small", "mobilevit_xxs", "vit_tiny_patch16_224"] {
        let graph = read(&format!("models/{name}.onnx"));
        let options = quantize::Options::default();
        let qdq = quantize::qdq(&graph, &options).expect("a quantised graph");
        let integer = quantize::integer(&graph, &options).expect("a quantised graph");
        models.push((format!("{name} as QDQ"), qdq));
        models.push((format!("{name} with integer products"), integer));
        models.push((name.to_owned(), graph));
    }
    models
}

/// Bundles of all frameworks.
fn trained() -> Vec<(String, PredictorBundle)> {
    let files = std::fs::read_dir(folder("bundles")).expect("bundles").flatten();
    let mut files: Vec<PathBuf> = files.map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "vtb"));
    files.sort();
    let name = |path: &Path| path.file_stem().expect("a name").to_string_lossy().into_owned();
    files.iter().map(|path| (name(path), PredictorBundle::load(path).expect("a bundle"))).collect()
}

/// One bundle of the other kind.
fn adapted() -> AdaptedBundle {
    let path = folder("bundles/adapted/samsung-galaxy-s24-tflite-npu-f16.vtb");
    AdaptedBundle::load(&path).expect("a file").expect("an adapted bundle")
}

/// Costs, where the framework can express the model.
fn expressible(graph: &Graph, bundle: &dyn LatencyModel) -> Option<OperatorCosts> {
    match of_operators(graph, bundle) {
        Ok(costs) => Some(costs),
        Err(PredictionError::Lowering(error)) => {
            assert!(error.node().is_some(), "{error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn assert_whole(what: &str, graph: &Graph, bundle: &dyn LatencyModel) {
    let Some(costs) = expressible(graph, bundle) else { return };
    let whole = costs.prediction.latency;
    let charged: Interval = costs.attribution.latency_ns.iter().copied().sum();
    let ends =
        [(End::Point, whole.point()), (End::Lower, whole.lower()), (End::Upper, whole.upper())];
    let rounding = costs.prediction.operators.len() as f64;
    for (end, expected) in ends {
        let apart = (charged.at(end) as f64 - expected.ns()).abs();
        assert!(apart <= rounding, "{what}: {end:?} {} for {expected}", charged.at(end));
    }
}

#[test]
fn a_model_on_one_processor_costs_what_is_forecast_for_it() {
    let (models, adapted) = (models(), adapted());
    for (model, graph) in &models {
        assert_whole(&format!("{model}, adapted"), graph, &adapted);
    }
    for (name, bundle) in trained() {
        for (model, graph) in &models {
            assert_whole(&format!("{model}, {name}"), graph, &bundle);
        }
    }
}

#[test]
fn every_kernel_counts_for_an_operator() {
    let models = models();
    for (name, bundle) in trained() {
        for (model, graph) in &models {
            let Ok(kernels) = bundle.lowered(graph) else { continue };
            let count = kernels.nodes().len() as u64;
            let each: Vec<Interval> = (1..=count).map(Interval::exact).collect();
            let found = Attribution::of(graph, &kernels, &each);
            let sum: u64 = found.latency_ns.iter().map(|ns| ns.point()).sum();
            assert_eq!(sum, count * (count + 1) / 2, "{model}, {name}");
        }
    }
}

/// ReLUs that ONNX Runtime computes within a convolution, whose result it keeps in another memory
/// format: for the next convolution, or reordered for other operators.
#[test]
fn what_a_blocked_convolution_computes_stays_together() {
    let mut builder = GraphBuilder::new("blocked");
    let mut value = builder.input("x", TensorSpec::f32([1, 32, 16, 16]));
    for (conv, relu) in [("conv1", "relu1"), ("conv2", "relu2")] {
        let weight = builder.weight(format!("{conv}.weight"), TensorSpec::f32([32, 32, 3, 3]));
        let padding = Attributes::new().with_ints("pads", [1, 1, 1, 1]);
        value = builder.op(conv, OpKind::Conv, padding, &[value, weight]).expect("a convolution");
        value = builder.op(relu, OpKind::Relu, Attributes::new(), &[value]).expect("a ReLU");
    }
    let last = Attributes::new().with_int("axis", -1);
    let end = builder.op("softmax", OpKind::Softmax, last, &[value]).expect("an operator");
    let graph = builder.finish(vec![end]).expect("a graph");
    let file = folder("bundles/epyc-onnxruntime-f32-1t.vtb");
    let bundle = PredictorBundle::load(&file).expect("a bundle");
    let kernels = bundle.lowered(&graph).expect("kernels");
    let each = vec![Interval::exact(1); kernels.nodes().len()];
    let mut found = Attribution::of(&graph, &kernels, &each).together;
    found.iter_mut().for_each(|group| group.sort_unstable());
    assert_eq!(found, [[0, 1], [2, 3]]);
}

/// What the first nodes on paths from the inputs compute, up to the node `last`: whether each node
/// is among them. Nodes that stay together are on one side.
fn up_to(graph: &Graph, together: &[Vec<usize>], last: usize) -> Vec<bool> {
    let mut inside = vec![false; graph.nodes().len()];
    let mut open = vec![last];
    while let Some(node) = open.pop() {
        if std::mem::replace(&mut inside[node], true) {
            continue;
        }
        open.extend(graph.nodes()[node].inputs.iter().filter_map(|&id| {
            if let ValueSource::Node(before) = graph.value(id).source {
                Some(before as usize)
            } else {
                None
            }
        }));
        open.extend(together.iter().filter(|group| group.contains(&node)).flatten());
    }
    inside
}

/// Parts of a model that end at nodes throughout it.
fn cuts(graph: &Graph, together: &[Vec<usize>]) -> BTreeSet<Vec<bool>> {
    let count = graph.nodes().len();
    (1..=CUTS)
        .map(|cut| up_to(graph, together, count * cut / (CUTS + 1)))
        .filter(|inside| inside.contains(&false))
        .collect()
}

/// Sum of the kernels of a part, if it ran alone, ns.
fn alone(part: &Graph, bundle: &PredictorBundle) -> f64 {
    let prediction = bundle.predict(part).expect("a forecast");
    prediction.operators.iter().map(|o| o.latency_ns.ns()).sum()
}

#[test]
fn a_part_costs_what_is_forecast_for_it_alone() {
    let models = models();
    for (name, bundle) in trained() {
        for (model, graph) in &models {
            let Some(costs) = expressible(graph, &bundle) else { continue };
            let ns: Vec<u64> = costs.attribution.latency_ns.iter().map(|ns| ns.point()).collect();
            let whole: u64 = ns.iter().sum();
            for inside in cuts(graph, &costs.attribution.together) {
                let part_of: Vec<usize> =
                    inside.iter().map(|&inside| usize::from(!inside)).collect();
                let halves = parts(graph, &part_of, &["a", "b"]).expect("two parts");
                let [a, b] = [0, 1].map(|half| alone(&halves[half], &bundle));
                let charged: u64 =
                    ns.iter().zip(&inside).filter(|(_, inside)| **inside).map(|(ns, _)| ns).sum();
                let (charged, alone) = (charged as f64 / whole as f64, a / (a + b));
                let nodes = inside.iter().filter(|inside| **inside).count();
                assert!(
                    (charged - alone).abs() < TOLERANCE,
                    "{model}, {name}: {nodes} of {} nodes cost {charged:.3} of the model, alone \
                    they are forecast {alone:.3}",
                    inside.len()
                );
            }
        }
    }
}

/// A server of integers behind a fast link is no shortcut: it is charged for what it runs.
#[test]
fn a_quantised_model_is_split_at_its_real_costs() {
    let graph = quantized();
    let load = |name: &str| {
        PredictorBundle::load(&folder("bundles").join(format!("{name}.vtb"))).expect("a bundle")
    };
    let bundles = [load("epyc-rten-f32-1t"), load("epyc-onnxruntime-int8-1t")];
    let costs = bundles.each_ref().map(|bundle| of_operators(&graph, bundle).expect("costs"));
    let together = costs.iter().flat_map(|c| c.attribution.together.clone()).collect();
    let link = Link::of_bandwidth(125_000_000);
    let found = Costs::of_graph(
        &graph,
        vec![ProcessorCosts::named("device"), ProcessorCosts::named("server")],
        BTreeMap::from([((0, 1), link), ((1, 0), link)]),
        |node, processor| costs[processor].attribution.latency_ns.get(node).copied(),
        together,
    );
    let found = found.expect("costs");
    let objective = Objective { minimise: Criterion::Latency, bounds: vec![] };
    let best = Split::new(&found, 0, 1).expect("a split").best(&objective).expect("a plan");
    let on_server: u64 = best
        .on_device
        .iter()
        .zip(&costs[1].attribution.latency_ns)
        .filter(|(here, _)| !**here)
        .map(|(_, ns)| ns.point())
        .sum();
    let whole = costs[1].prediction.latency.point().ns();
    assert!(on_server as f64 > 0.95 * whole, "{on_server} ns of {whole} ns");
}
