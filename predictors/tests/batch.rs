//! Forecasts in batches equal single forecasts to the bit, for every method, order and state of the
//! caches.

#![allow(clippy::unwrap_used)]

mod simulated;

use std::{cell::Cell, collections::BTreeMap};
use vitempo_graph::{
    Budget, Graph, LatencyModel, Limits, OpKind, OpSpec, Operand, PredictionSource, TensorSpec,
};
use vitempo_predictors::{
    FeatureSchema, Method, PredictorBundle, PredictorKey, Tally, TrainOptions, WorkingSet, train,
};

fn bundle(method: Method) -> PredictorBundle {
    let (profiles, graphs) = simulated::data(12, 1, 0.02);
    train(
        &profiles,
        &graphs,
        method,
        &TrainOptions { folds: 2, ..TrainOptions::default() },
        &mut |_| {},
    )
    .unwrap()
}

/// A second copy that remembers nothing.
fn fresh(bundle: &PredictorBundle) -> PredictorBundle {
    PredictorBundle::from_bytes(&bundle.to_bytes().unwrap()).unwrap()
}

#[test]
fn batches_forecast_what_single_calls_do() {
    let (_, graphs) = simulated::data(40, 50, 0.0);
    let graphs: Vec<&Graph> = graphs.values().collect();
    for method in Method::ALL {
        let bundle = bundle(method);
        let single: Vec<_> =
            graphs.iter().map(|graph| bundle.predict(graph).unwrap().latency).collect();
        for (bundle, what) in
            [(&fresh(&bundle), "nothing remembered"), (&bundle, "everything remembered")]
        {
            assert_eq!(
                bundle.predict_batch(graphs.iter().copied()).unwrap(),
                single,
                "{method}, {what}"
            );
        }
        let twice = fresh(&bundle);
        let backwards = twice.predict_batch(graphs.iter().rev().chain(&graphs).copied()).unwrap();
        assert!(backwards.iter().eq(single.iter().rev().chain(&single)), "{method}");
    }
}

#[test]
fn a_graph_without_a_forecast_takes_none_from_the_others() {
    let mut bundle = bundle(Method::Lasso);
    // An engine whose kernels have rules, which take steps.
    bundle.environment.framework = "rten".to_owned();
    let (_, graphs) = simulated::data(70, 50, 0.0);
    let asked = Cell::new(0);
    let budget = || {
        let is_poor = asked.replace(asked.get() + 1) % 3 == 1;
        Budget::new(Limits { steps: if is_poor { 1 } else { u64::MAX }, ..Limits::NONE })
    };
    let found = bundle.predict_each_within(graphs.values(), &budget);
    assert_eq!(found.len(), graphs.len());
    for (index, (graph, found)) in graphs.values().zip(found).enumerate() {
        let expected = (index % 3 != 1).then(|| bundle.predict(graph).unwrap());
        assert_eq!(found.ok(), expected, "graph {index}");
    }
}

#[test]
fn operators_without_a_predictor_are_estimated_the_same_way() {
    let bundle = bundle(Method::Gbdt);
    let (_, graphs) = simulated::data(3, 50, 0.0);
    let mut ops: Vec<OpSpec> =
        graphs.values().flat_map(|g| g.nodes().iter().map(|n| n.op.clone())).collect();
    ops.iter_mut().step_by(3).for_each(|op| op.kind = OpKind::GridSample);
    ops.iter_mut()
        .skip(1)
        .step_by(5)
        .for_each(|op| op.kind = OpKind::Unsupported("Foo".to_owned()));
    let ops: Vec<&OpSpec> = ops.iter().collect();
    let working_set = bundle.working_sets(ops.iter().copied())[0];
    let batch = fresh(&bundle).estimate_batch(&ops, working_set);
    let single: Vec<_> = ops.iter().map(|op| bundle.predictors.estimate(op, working_set)).collect();
    assert_eq!(batch, single);
    assert!(
        batch.iter().any(|e| e.source == PredictionSource::Fallback)
            && batch.iter().any(|e| e.source == PredictionSource::Model)
    );
}

#[test]
fn tallies_add_up_and_take_away() {
    let bundle = bundle(Method::Lasso);
    let (_, graphs) = simulated::data(3, 50, 0.0);
    for graph in graphs.values() {
        let ops = bundle.kernels(graph).unwrap();
        let working_set = bundle.working_sets(&ops)[0];
        let whole = bundle
            .estimate_batch(&ops.iter().collect::<Vec<_>>(), working_set)
            .into_iter()
            .fold(Tally::default(), |tally, estimate| tally.with(estimate, 1));
        assert_eq!(bundle.end_to_end(&whole), bundle.predict(graph).unwrap().latency);
        let doubled = whole.plus(&whole, 1);
        assert_eq!((doubled.kernels, doubled.sum_ns), (2 * whole.kernels, 2.0 * whole.sum_ns));
        assert_eq!(doubled.plus(&whole, -2), Tally::default());
    }
}

#[test]
fn no_graphs_no_forecasts() {
    assert_eq!(bundle(Method::Lasso).predict_batch([]).unwrap(), []);
}

/// The same operator with a bias, where it is a convolution.
fn biased(op: &OpSpec) -> OpSpec {
    let mut biased = op.clone();
    if op.kind == OpKind::Conv {
        let tensor = TensorSpec::f32([op.outputs[0].shape[1]]);
        biased.inputs.push(Operand { tensor, constant: true });
    }
    biased
}

#[test]
fn a_convolution_without_a_bias_is_forecast_as_with_one_where_all_rows_have_one() {
    let (mut profiles, _) = simulated::data(12, 1, 0.02);
    for measurement in profiles.iter_mut().flat_map(|profile| &mut profile.operators) {
        measurement.op = biased(&measurement.op).into();
    }
    let options = TrainOptions { folds: 2, ..TrainOptions::default() };
    let bundle = train(&profiles, &BTreeMap::new(), Method::Gbdt, &options, &mut |_| {}).unwrap();
    let (_, graphs) = simulated::data(3, 50, 0.0);
    let ops: Vec<&OpSpec> = graphs.values().flat_map(Graph::nodes).map(|node| &node.op).collect();
    let convolutions: Vec<&OpSpec> =
        ops.iter().copied().filter(|op| op.kind == OpKind::Conv).collect();
    assert!(!convolutions.is_empty());
    let expected: Vec<_> =
        convolutions.iter().map(|op| bundle.estimate(&biased(op), WorkingSet::LARGE)).collect();
    let single: Vec<_> =
        convolutions.iter().map(|op| bundle.estimate(op, WorkingSet::LARGE)).collect();
    assert_eq!(single, expected);
    assert_eq!(fresh(&bundle).estimate_batch(&convolutions, WorkingSet::LARGE), expected);
    // The other operators' rows have no constant that these lack.
    let linear = ops.into_iter().find(|op| op.kind == OpKind::Linear).unwrap();
    let key = &bundle.predictors.keys[&PredictorKey::of(linear)];
    let features = FeatureSchema::extract(linear);
    assert_eq!(
        bundle.estimate(linear, WorkingSet::LARGE).latency_ns,
        key.predict(&features.values)
    );
}
