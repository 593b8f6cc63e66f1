use super::*;
use vitempo_graph::{Attributes, GraphBuilder, OpKind, TensorSpec};

/// A product and an addition of vectors, with weights of 1 kB and 40 B.
fn graph() -> Graph {
    let mut b = GraphBuilder::new("g");
    let x = b.input("x", TensorSpec::f32([1, 25]));
    let weight = b.weight("weight", TensorSpec::f32([25, 10]));
    let bias = b.weight("bias", TensorSpec::f32([10]));
    let y = b.op("product", OpKind::Linear, Attributes::new(), &[x, weight]).expect("a product");
    let z = b.op("add", OpKind::Add, Attributes::new(), &[y, bias]).expect("an addition");
    let z = b.op("again", OpKind::Add, Attributes::new(), &[z, bias]).expect("an addition");
    b.finish(vec![z]).expect("a graph")
}

fn model(space: Option<&str>, index: u64, factor: f64) -> MeasuredMemory {
    let demand = MemoryDemand {
        product_weights_bytes: 1_000_000 * (1 + index % 7),
        other_weights_bytes: 300_000 * (1 + index % 5),
        activations_bytes: 100_000 * (1 + index % 11),
        freed_bytes: 0,
        kernels: 50 + 13 * (index % 3),
    };
    let d = demand.columns();
    let bytes = 5e6 + 2.0 * d[1] + d[2] + 1.5 * d[3] + 1000.0 * d[4];
    MeasuredMemory {
        framework: "engine".to_owned(),
        framework_version: "1".to_owned(),
        precision: Precision::F32,
        model: format!("model {index}"),
        space: space.map(str::to_owned),
        demand,
        peak_bytes: factor * bytes,
        runs: 1,
        spread: 1.0,
    }
}

fn sampled(factor: impl Fn(u64) -> f64) -> Vec<MeasuredMemory> {
    let space = |index: u64| if index.is_multiple_of(2) { "one" } else { "other" };
    (0..80).map(|index| model(Some(space(index)), index, factor(index))).collect()
}

#[test]
fn a_demand_counts_each_weight_once() {
    let demand = MemoryDemand::of("rten", &graph(), &graph());
    let expected = MemoryDemand {
        product_weights_bytes: 1000,
        other_weights_bytes: 40,
        activations_bytes: 100 + 40,
        freed_bytes: 0,
        kernels: 3,
    };
    assert_eq!((demand, demand.weights_bytes()), (expected, 1040));
}

#[test]
fn coefficients_are_found_again_from_sampled_models_alone() {
    let real = model(None, 3, 9.0);
    let mut models = sampled(|_| 1.0);
    models.push(real.clone());
    let [engine] = &fit(&models)[..] else { panic!("one engine") };
    assert_eq!((engine.framework.as_str(), engine.models), ("engine", 80));
    for (found, expected) in [
        (engine.base_bytes, 5e6),
        (engine.per_product_weight, 2.0),
        (engine.per_other_weight, 1.0),
        (engine.per_activation, 1.5),
        (engine.per_kernel_bytes, 1000.0),
    ] {
        assert!((found / expected - 1.0).abs() < 1e-3, "{engine:?}");
    }
    let forecast = engine.forecast_of(real.demand);
    let truth = real.peak_bytes / 9.0;
    assert!((forecast.peak_bytes.point() as f64 / truth - 1.0).abs() < 1e-3, "{forecast:?}");
}

#[test]
fn intervals_are_as_wide_as_errors_of_models_of_another_space() {
    let noisy = |index: u64| 1.0 + 0.1 * ((index * 7 % 10) as f64 / 4.5 - 1.0);
    let models = sampled(noisy);
    let [engine] = &fit(&models)[..] else { panic!("one engine") };
    let (lower, upper) = engine.measured_over_forecast;
    assert!((0.85..0.95).contains(&lower) && (1.05..1.15).contains(&upper), "{engine:?}");
    let inside = models.iter().filter(|model| {
        let peak = engine.forecast_of(model.demand).peak_bytes;
        peak.contains(model.peak_bytes as u64)
    });
    let share = inside.count() as f64 / models.len() as f64;
    assert!((LEVEL - 0.06..=1.0).contains(&share), "{share}");
    assert!(fit(&models[..1]).is_empty() && fit(&[]).is_empty());
}

#[test]
fn real_models_move_the_interval_and_no_coefficient() {
    let mut models = sampled(|_| 1.0);
    let [before] = &fit(&models)[..] else { panic!("one engine") };
    assert_eq!(before.measured_over_forecast.0.min(0.999), 0.999);
    models.extend((0..40).map(|index| model(None, index, if index % 2 == 0 { 0.8 } else { 1.3 })));
    let [after] = &fit(&models)[..] else { panic!("one engine") };
    assert_eq!((after.models, after.base_bytes), (80, before.base_bytes));
    let (lower, upper) = after.measured_over_forecast;
    assert!((lower - 0.8).abs() < 1e-3 && (upper - 1.3).abs() < 1e-3, "{after:?}");
}

#[test]
fn shipped_engines_forecast_models_on_cpus_alone() {
    let names: Vec<&str> = EngineMemory::shipped().iter().map(|e| e.framework.as_str()).collect();
    assert_eq!(names, ["litert", "onnxruntime", "openvino", "rten"]);
    for engine in EngineMemory::shipped() {
        let peak = engine.forecast(&graph(), &graph()).peak_bytes;
        assert!(peak.lower() <= peak.point() && peak.point() <= peak.upper());
        assert!(peak.point() > 1040, "more than the weights: {engine:?}");
    }
    assert_eq!(EngineMemory::named("rten", Precision::I8), None);
}

#[test]
fn a_model_with_an_operator_that_is_not_known_has_no_upper_end() {
    let known = graph();
    let mut nodes = known.nodes().to_vec();
    nodes[1].op.kind = OpKind::Unsupported("Strange".to_owned());
    let (values, ends) = (known.values().to_vec(), [known.inputs(), known.outputs()]);
    let [inputs, outputs] = ends.map(<[_]>::to_vec);
    let unknown = Graph::new("g", values, nodes, inputs, outputs).expect("a graph");
    let engine = EngineMemory::named("rten", Precision::F32).expect("a fit");
    let of = |graph: &Graph| engine.forecast(graph, graph);
    assert_eq!(of(&known).upper_bytes(), Some(of(&known).peak_bytes.upper()));
    let forecast = of(&unknown);
    assert_eq!((forecast.upper_bytes(), forecast.peak_bytes.upper()), (None, UNBOUNDED_BYTES));
    let json = serde_json::to_string(&forecast).expect("JSON");
    assert!(json.contains(r#""upper":null"#), "{json}");
    assert_eq!(serde_json::from_str::<MemoryForecast>(&json).ok(), Some(forecast));
}
