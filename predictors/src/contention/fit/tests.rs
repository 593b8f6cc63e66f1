//! Slowdowns from a known law are found again, and unusable rows are passed over.
#![allow(clippy::unwrap_used)]

use super::*;
use vitempo_graph::{
    Attributes, Environment, Measurement, ModelIdentity, OpKind, Operand, Origin, Precision,
    Protocol, ResourceRates, Samples, TensorSpec,
};

const PEAKS: Peaks = Peaks { flops_per_s: 1e11, bytes_per_s: 1e10, cache_bytes: 32e6 };

/// Name, FLOP/s, bytes/s and footprint of loads.
const LOADS: [(&str, u64, u64, u64); 5] = [
    ("stream", 1_600_000_000, 10_000_000_000, 128_000_000),
    ("stream:5GB/s", 800_000_000, 5_000_000_000, 128_000_000),
    ("matmul", 100_000_000_000, 2_000_000_000, 400_000),
    ("model:a@rten", 50_000_000_000, 4_000_000_000, 20_000_000),
    ("model:b@rten", 30_000_000_000, 6_000_000_000, 60_000_000),
];

fn op(rows: usize, columns: usize) -> OpSpec {
    let operand =
        |shape: [usize; 2], constant| Operand { tensor: TensorSpec::f32(shape), constant };
    OpSpec {
        kind: OpKind::Linear,
        attributes: Attributes::new(),
        inputs: vec![operand([rows, 256], false), operand([256, columns], true)],
        outputs: vec![TensorSpec::f32([rows, columns])],
    }
}

/// Arithmetic at one rate, then traffic at another.
fn alone_ns(op: &OpSpec) -> f64 {
    let kernel = Kernel::new(op, 1.0);
    (kernel.flops / 80.0 + kernel.bytes / 8.0).round() + 500.0
}

fn demand((_, flops, bytes, footprint): (&str, u64, u64, u64)) -> Demand {
    Demand {
        flops_per_s: flops as f64,
        bytes_per_s: bytes as f64,
        footprint_bytes: footprint as f64,
    }
}

/// The law: arithmetic 0.3, traffic 0.6.
fn slowdown(kernel: &Kernel, demand: &Demand) -> f64 {
    let products =
        Form::Shared.products(&Intensity::of(kernel, &PEAKS), &Pressure::of(demand, &PEAKS));
    1.0 + 0.3 * products[0] + 0.6 * products[1]
}

fn models() -> Vec<Vec<OpSpec>> {
    let model =
        |i: usize| (0..4).map(move |k| op(1 + 37 * ((i * 5 + k * 3) % 7), 64 << (k + i % 3)));
    (0..8).map(|i| model(i).collect()).collect()
}

fn profile(model: usize, ops: &[OpSpec], factor: &dyn Fn(&OpSpec) -> f64) -> ModelProfile {
    let samples = |ns: f64| Samples { wall_ns: vec![(ns * 1000.0) as u64; 5], cpu_ns: vec![] };
    let time = |op: &OpSpec| alone_ns(op) / 1000.0 * factor(op);
    let measured = |op: &OpSpec| Measurement {
        op: op.clone().into(),
        node: String::new(),
        kernel: String::new(),
        samples: samples(time(op)),
        memory_bytes: None,
        status: Status::Ok,
    };
    let total: f64 = ops.iter().map(time).sum();
    ModelProfile {
        model: ModelIdentity {
            name: format!("m{model}"),
            architecture: format!("m{model}"),
            space: None,
            encoding: None,
        },
        environment: Environment {
            device: "Simulated".into(),
            processor: Processor::Cpu,
            cores_available: 2,
            cores: vec![1],
            framework: "null".into(),
            framework_version: "1".into(),
            threads: 1,
            precision: Precision::F32,
            memory_format: None,
            power_mode: None,
            isa: String::new(),
            os: String::new(),
            beside: None,
            settings: Vec::new(),
            host: None,
        },
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
            seed: 0,
            input_distribution: String::new(),
        },
        e2e: samples(total),
        e2e_profiled: samples(total),
        reference: Samples::default(),
        operators: ops.iter().map(measured).collect(),
        executed: None,
        peak_memory_bytes: None,
        running_memory_bytes: None,
        energy_per_inference_uj: None,
        load: None,
        status: Status::Ok,
    }
}

fn data() -> (Vec<ModelProfile>, Vec<ModelProfile>) {
    let models = models();
    let alone = models.iter().enumerate().map(|(i, ops)| profile(i, ops, &|_| 1.0)).collect();
    let beside = |load: (&'static str, u64, u64, u64)| {
        let demand = demand(load);
        models.iter().enumerate().map(move |(i, ops)| {
            let factor = |op: &OpSpec| slowdown(&Kernel::new(op, alone_ns(op)), &demand);
            let mut profile = profile(i, ops, &factor);
            profile.environment.beside = Some(load.0.to_owned());
            let rates = ResourceRates { flops_per_s: load.1, bytes_per_s: load.2 };
            profile.load = Some(LoadRecord {
                cores: vec![0],
                footprint_bytes: load.3,
                cache_bytes: Some(32_000_000),
                alone: rates,
                during: ResourceRates { flops_per_s: load.1 / 2, bytes_per_s: load.2 / 2 },
                model_alone_ns: Vec::new(),
            });
            profile
        })
    };
    let beside: Vec<ModelProfile> = LOADS.into_iter().flat_map(beside).collect();
    (alone, beside)
}

#[test]
fn a_known_law_is_found_and_forecasts_neighbours_never_measured() {
    let (alone, beside) = data();
    let model = fit(&alone, &beside, 0.9).unwrap();
    assert_eq!(model.peaks, PEAKS);
    assert!(model.is_valid(), "{model:?}");
    let (error, none) = model.errors();
    assert!(error < 0.01 && error < none / 5.0, "{error} {none} {:?}", model.forms);
    let shared = model.forms.iter().find(|f| f.form == Form::Shared).unwrap();
    let busy = model.forms.iter().find(|f| f.form == Form::Busy).unwrap();
    assert!(shared.error < 0.005 && busy.error > 5.0 * shared.error, "{:?}", model.forms);
    let names: Vec<&str> = model.loads.iter().map(|load| load.load.as_str()).collect();
    assert_eq!(names, ["matmul", "model:a@rten", "model:b@rten", "stream", "stream:5GB/s"]);
    assert_eq!(model.load("stream").unwrap().demand, demand(LOADS[0]));
    let never = Demand { flops_per_s: 7e10, bytes_per_s: 7e9, footprint_bytes: 30e6 };
    for ops in models() {
        let kernels: Vec<Kernel> = ops.iter().map(|op| Kernel::new(op, alone_ns(op))).collect();
        let total: f64 = kernels.iter().map(|k| k.ns).sum();
        let actual = kernels.iter().map(|k| k.ns * slowdown(k, &never)).sum::<f64>() / total;
        let forecast = model.of_kernels(&kernels, &never);
        assert!((forecast.point() / actual - 1.0).abs() < 0.02, "{forecast:?} {actual}");
        assert!(forecast.lower() >= 1.0 && forecast.lower() <= forecast.point());
        let idle = Demand { flops_per_s: 0.0, bytes_per_s: 0.0, footprint_bytes: 0.0 };
        assert!(model.of_kernels(&kernels, &idle).point() < 1.02);
    }
    assert_eq!(model.of_kernels(&[], &never).point(), 1.0);
}

#[test]
fn the_same_rows_give_the_same_model() {
    let (alone, beside) = data();
    let one = serde_json::to_string(&fit(&alone, &beside, 0.9).unwrap()).unwrap();
    let other = serde_json::to_string(&fit(&alone, &beside, 0.9).unwrap()).unwrap();
    assert_eq!(one, other);
}

#[test]
fn latencies_just_before_cancel_the_speed_of_the_machine() {
    let (alone, mut beside) = data();
    let model = fit(&alone, &beside, 0.9).unwrap();
    // Half of the loads came while everything took 1.25 times as long.
    let slow = |ns: u64| (ns as f64 * 1.25) as u64;
    for profile in beside.iter_mut().filter(|p| p.environment.beside.as_deref() < Some("n")) {
        profile.e2e.wall_ns.iter_mut().for_each(|ns| *ns = slow(*ns));
        for wall_ns in profile.operators.iter_mut().map(|m| &mut m.samples.wall_ns) {
            wall_ns.iter_mut().for_each(|ns| *ns = slow(*ns));
        }
        let before = alone.iter().find(|a| a.model == profile.model).unwrap();
        let load = profile.load.as_mut().unwrap();
        load.model_alone_ns = before.e2e.wall_ns.iter().map(|&ns| slow(ns)).collect();
    }
    let corrected = fit(&alone, &beside, 0.9).unwrap();
    assert_eq!(corrected.form, model.form);
    for (one, other) in corrected.coefficients.iter().zip(&model.coefficients) {
        assert!((one - other).abs() < 0.01, "{corrected:?} {model:?}");
    }
    let loads = beside.iter_mut().filter_map(|p| p.load.as_mut());
    loads.for_each(|load| load.model_alone_ns.clear());
    let uncorrected = fit(&alone, &beside, 0.9).unwrap();
    assert!(uncorrected.errors().0 > 5.0 * corrected.errors().0, "{uncorrected:?}");
}

#[test]
fn too_few_loads_or_models_are_refused() {
    let (alone, beside) = data();
    let of = |names: &[&str], most: usize| -> Vec<ModelProfile> {
        let wanted = |p: &&ModelProfile| names.contains(&p.environment.beside.as_deref().unwrap());
        let few = |p: &&ModelProfile| p.model.name < format!("m{most}");
        beside.iter().filter(wanted).filter(few).cloned().collect()
    };
    let found = |beside: &[ModelProfile]| fit(&alone, beside, 0.9).map(|_| ());
    assert_eq!(found(&[]), Err(ContentionError::TooFewLoads { found: 0 }));
    assert_eq!(found(&of(&["stream"], 9)), Err(ContentionError::TooFewLoads { found: 1 }));
    let two = ["stream", "matmul"];
    assert_eq!(found(&of(&two, 2)), Err(ContentionError::TooFewLoads { found: 0 }));
    assert_eq!(found(&of(&two, 3)), Ok(()));
    let mut failed = of(&two, 9);
    failed.iter_mut().for_each(|p| p.status = Status::Failed("the load died".into()));
    assert_eq!(found(&failed), Err(ContentionError::TooFewLoads { found: 0 }));
    let none: &[ModelProfile] = &[];
    let unknown = fit(none, &beside, 0.9).map(|_| ());
    assert_eq!(unknown, Err(ContentionError::TooFewLoads { found: 0 }));
}

#[test]
fn intervals_cover_a_further_value() {
    let errors: Vec<f64> = (1..=19).map(f64::from).map(|e| e / 100.0).collect();
    assert_eq!(covering(&errors, 0.9), 0.18);
    assert_eq!(covering(&errors[..3], 0.9), 0.03);
    assert_eq!(covering(&[], 0.9), 0.0);
}
