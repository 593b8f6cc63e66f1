//! Every method recovers a known cost function despite noise and drift, on models outside the
//! training data.

#![allow(clippy::unwrap_used)]

mod simulated;

use std::collections::BTreeMap;
use vitempo_graph::{
    Attributes, LatencyModel, ModelProfile, OpKind, OpSpec, Operand, PredictionSource, Samples,
    Setting, TensorSpec,
};
use vitempo_predictors::{
    Drift, Method, PredictorBundle, PredictorError, TrainOptions, TrainingRows, evaluate, train,
};

fn trained(method: Method) -> PredictorBundle {
    let (profiles, graphs) = simulated::data(60, 1, 0.02);
    train(
        &profiles,
        &graphs,
        method,
        &TrainOptions { folds: 3, ..TrainOptions::default() },
        &mut |_| {},
    )
    .unwrap()
}

#[test]
fn runs_of_memory_alone_are_no_training_data() {
    let (profiles, _) = simulated::data(6, 1, 0.02);
    let of_memory = |run: &ModelProfile| ModelProfile {
        round: 7,
        protocol: run.protocol.clone().of_memory_alone(),
        operators: Vec::new(),
        reference: Samples::default(),
        e2e_profiled: Samples::default(),
        e2e: Samples { wall_ns: vec![1, 1], cpu_ns: Vec::new() },
        running_memory_bytes: Some(1),
        ..run.clone()
    };
    let with_memory: Vec<ModelProfile> =
        profiles.iter().map(of_memory).chain(profiles.iter().cloned()).collect();
    let rows = TrainingRows::from_profiles(&profiles).unwrap();
    assert_eq!(TrainingRows::from_profiles(&with_memory).unwrap(), rows);
}

#[test]
fn held_out_models_are_forecast_far_better_than_by_their_mean() {
    let (profiles, graphs) = simulated::data(25, 1000, 0.02);
    for (method, most) in [(Method::Gbdt, 3.0), (Method::RandomForest, 3.0), (Method::Lasso, 8.0)] {
        let bundle = trained(method);
        let found = evaluate(&bundle, &profiles, &graphs).unwrap();
        let e2e = found.e2e.as_ref().unwrap();
        assert_eq!(e2e.models, 25);
        assert!(e2e.mape < most, "{method}: {e2e:?}");
        let actual: Vec<f64> = found.models.iter().map(|m| m.actual_ns).collect();
        let mean = actual.iter().sum::<f64>() / actual.len() as f64;
        let by_mean =
            vitempo_predictors::metrics::mape(&actual, &vec![mean; actual.len()]).unwrap();
        assert!(e2e.mape * 5.0 < by_mean, "{method}: {} against {by_mean}", e2e.mape);
        assert!(
            found.operators["conv"].mape < 3.0 * most,
            "{method}: {:?}",
            found.operators["conv"]
        );
        assert_eq!(
            found.e2e_executed.as_ref().map(|e| e.mape),
            Some(e2e.mape),
            "the null framework runs graphs as they are"
        );
        assert!(
            e2e.interval_coverage > 0.6 && (e2e.interval_level - 0.9).abs() < 1e-9,
            "{method}: {e2e:?}"
        );
        let held_out = bundle.held_out.e2e.as_ref().unwrap();
        assert!(held_out.mape < 1.5 * most && held_out.models == 60, "{method}: {held_out:?}");
    }
}

#[test]
fn drift_is_taken_out_by_the_reference() {
    let (profiles, graphs) = simulated::data(25, 1000, 0.005);
    let bundle = trained(Method::Lasso);
    let noise = evaluate(&bundle, &profiles, &graphs).unwrap().noise_floor.unwrap();
    assert_eq!(noise.models, 25);
    assert!(noise.mape < 1.0 && noise.mape_raw > 5.0, "{noise:?}");
    let mut without = profiles.clone();
    without.iter_mut().for_each(|p| p.reference.wall_ns.clear());
    assert_eq!(Drift::of(&without).reference_ns, None);
    let (drift, mut slower) = (Drift::of(&profiles), profiles.clone());
    slower.iter_mut().flat_map(|p| &mut p.reference.wall_ns).for_each(|ns| *ns *= 3);
    let ratio = drift.slowdown(&slower).unwrap() / drift.slowdown(&profiles).unwrap();
    assert!((ratio - 3.0).abs() < 1e-3, "{ratio}");
    assert_eq!((drift.slowdown(&[]), drift.slowdown(&without)), (None, None));
    let rows = TrainingRows::from_profiles(&without).unwrap();
    assert!(rows.models.iter().all(|m| m.runs.iter().all(|(raw, corrected)| raw == corrected)));
}

#[test]
fn kernels_of_a_cuda_graph_do_not_drift_with_the_cpu() {
    let (mut profiles, _) = simulated::data(25, 1000, 0.005);
    let latencies = |profiles: &[ModelProfile], drift| -> Vec<f64> {
        let rows = TrainingRows::with_drift(profiles, drift).unwrap().rows;
        rows.iter().map(|row| row.latency_ns).collect()
    };
    let drift = Drift::of(&profiles);
    assert_ne!(latencies(&profiles, drift), latencies(&profiles, Drift::default()));
    profiles.iter_mut().for_each(|p| p.environment.settings = vec![Setting::CudaGraph]);
    assert_eq!(latencies(&profiles, drift), latencies(&profiles, Drift::default()));
    let rows = TrainingRows::with_drift(&profiles, drift).unwrap();
    let corrected = |(raw, corrected): &(f64, f64)| raw != corrected;
    assert!(rows.models.iter().flat_map(|m| &m.runs).any(corrected), "the host's part does");
}

#[test]
fn unknown_kinds_are_estimated_marked_and_never_free() {
    let bundle = trained(Method::Lasso);
    let x = TensorSpec::f32(vec![1, 64, 56, 56]);
    for kind in [OpKind::Resize, OpKind::Unsupported("Foo".into()), OpKind::MatMul] {
        let op = OpSpec {
            kind,
            attributes: Attributes::new(),
            inputs: vec![Operand { tensor: x.clone(), constant: false }],
            outputs: vec![x.clone()],
        };
        let (latency, source) = bundle.predict_operator(&op);
        assert_eq!(source, PredictionSource::Fallback);
        assert!(latency.ns() > 1000.0 && latency.ns() < 1e8, "{latency}");
    }
    let (_, graphs) = simulated::data(1, 77, 0.0);
    let graph = &graphs["m77"];
    let forecast = bundle.predict(graph).unwrap();
    let sum: f64 = forecast.operators.iter().map(|o| o.latency_ns.ns()).sum();
    assert_eq!(forecast.operators.len(), graph.nodes().len());
    assert!((sum + forecast.overhead.ns() - forecast.latency.point().ns()).abs() < 1e-3);
    assert!(
        forecast.latency.lower() < forecast.latency.point()
            && forecast.latency.point() < forecast.latency.upper()
    );
    assert!(
        forecast
            .operators
            .iter()
            .all(|o| o.latency_ns.ns() > 0.0 && o.source == PredictionSource::Model)
    );
    assert_eq!(bundle.coverage(graph).unwrap().fallback, 0);
}

#[test]
fn models_without_a_graph_count_by_their_executed_kernels_only() {
    let (profiles, _) = simulated::data(5, 1000, 0.02);
    let found = evaluate(&trained(Method::Lasso), &profiles, &BTreeMap::new()).unwrap();
    assert!(found.e2e.is_none());
    assert_eq!(found.e2e_executed.map(|e| e.models), Some(5));
    assert_eq!(found.skipped.len(), 5);
}

#[test]
fn a_forecast_that_is_no_finite_number_is_an_error_that_names_the_model() {
    let (profiles, graphs) = simulated::data(3, 1000, 0.02);
    let mut bundle = trained(Method::Lasso);
    bundle.calibration.scale = f64::INFINITY;
    let error = evaluate(&bundle, &profiles, &graphs).unwrap_err();
    assert!(matches!(error, PredictorError::Metric { .. }), "{error}");
    let text = error.to_string();
    assert!(text.starts_with("model `m1000`: ") && text.contains("finite number"), "{text}");
}
