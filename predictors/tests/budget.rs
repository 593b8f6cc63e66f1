//! Forecasts within a budget: the same as without one, and no forecast once it is spent.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use vitempo_graph::{
    Budget, Graph, GraphBuilder, LatencyModel, Limits, OpKind, PredictionError, TensorSpec,
};
use vitempo_predictors::{AdaptedBundle, PredictorBundle};

fn bundle(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../bundles").join(name)
}

fn models() -> Vec<Box<dyn LatencyModel>> {
    let trained = |name| PredictorBundle::load(&bundle(name)).expect("a trained bundle");
    let adapted = AdaptedBundle::load(&bundle("adapted/pixel4-tflite-cpu-f32.vtb"));
    vec![
        Box::new(trained("epyc-rten-f32-1t.vtb")),
        Box::new(trained("epyc-onnxruntime-int8-1t.vtb")),
        Box::new(adapted.expect("a file").expect("an adapted bundle")),
    ]
}

fn chain(nodes: usize) -> Graph {
    let mut b = GraphBuilder::new("chain");
    let mut x = b.input("x", TensorSpec::f32([1, 4, 8, 8]));
    for i in 0..nodes {
        let kind = if i % 2 == 0 { OpKind::Relu } else { OpKind::Sigmoid };
        x = b.unary(&format!("n{i}"), kind, x).expect("a chain");
    }
    b.finish(vec![x]).expect("a graph")
}

#[test]
fn a_budget_that_is_not_spent_changes_nothing() {
    let graph = chain(3_000);
    for model in models() {
        let budget = Budget::new(Limits::NONE);
        let forecast = model.predict_within(&graph, &budget).expect("a forecast");
        assert_eq!(forecast, model.predict(&graph).expect("a forecast"));
        assert!(budget.steps_spent() >= 3_000);
    }
}

#[test]
fn who_does_not_wait_gets_no_forecast() {
    let nodes = 30_000;
    let graph = chain(nodes);
    for model in models() {
        let spent = Budget::new(Limits::NONE);
        model.predict_within(&graph, &spent).expect("a forecast");
        let questions = spent.steps_spent() / (1 << 14);
        // Stopped at the first question, and later.
        for asked in [0, questions / 16, questions / 8] {
            let (count, stopped_at) = (AtomicU64::new(0), Arc::new(AtomicU64::new(0)));
            let (budget, seen) = (Budget::new(Limits::NONE), stopped_at.clone());
            let spent = budget.clone();
            let budget = budget.stopped_by(move || {
                let stops = count.fetch_add(1, Relaxed) >= asked;
                if stops {
                    seen.fetch_max(spent.steps_spent(), Relaxed);
                }
                stops
            });
            let error = model.predict_within(&graph, &budget).expect_err("it was stopped");
            assert!(error.to_string().contains("was stopped"), "{error}");
            assert!(error.to_string().contains("`chain`"), "{error}");
            let later = budget.steps_spent() - stopped_at.load(Relaxed);
            assert!(later <= nodes as u64, "{later} steps after the end");
        }
        let few = Budget::new(Limits { steps: 10, ..Limits::NONE });
        let error = model.predict_within(&graph, &few).expect_err("too many steps");
        assert!(
            matches!(error, PredictionError::Exceeded { .. } | PredictionError::Lowering(_)),
            "{error}"
        );
        assert!(error.to_string().contains("10 steps"), "{error}");
    }
}
