//! The work of lowering grows with the nodes of a model, not with their square, on every framework,
//! and it ends soon after its budget is used up. The tests count steps, which do not depend on the
//! speed of the machine.

#![allow(clippy::unwrap_used)]

mod growing;

use growing::{CASES, environments};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use vitempo_graph::lowering::{LoweringError, lower_within};
use vitempo_graph::{Budget, Environment, Exceeded, Graph, Limits, Precision, Resource};

/// Nodes of the smaller and the larger model.
const SIZES: (usize, usize) = (1_000, 10_000);
/// Linear work has 1, n log n at these sizes less than 1.2, quadratic work 2.
const LARGEST_EXPONENT: f64 = 1.2;

fn steps(graph: &Graph, environment: &Environment) -> f64 {
    let budget = Budget::new(Limits::NONE);
    match lower_within(graph, environment, &budget) {
        Ok(_) | Err(LoweringError::Inexpressible { .. }) => budget.steps_spent() as f64,
        Err(error) => panic!("{}: {error}", graph.name()),
    }
}

fn grows_linearly(framework: &str) {
    let of_framework = |environment: &Environment| environment.framework == framework;
    let environments: Vec<_> =
        environments().into_iter().filter(|(_, e)| of_framework(e)).collect();
    assert!(!environments.is_empty());
    for (case, make) in CASES {
        let (small, large) = (make(SIZES.0), make(SIZES.1));
        for (name, environment) in &environments {
            let (few, many) = (steps(&small, environment), steps(&large, environment));
            let exponent = (many / few).ln() / (SIZES.1 as f64 / SIZES.0 as f64).ln();
            assert!(exponent < LARGEST_EXPONENT, "{case} {name}: {few} to {many} steps");
            assert!(few >= 100.0, "{case} {name}: {few} steps are not what was done");
        }
    }
}

#[test]
fn litert() {
    grows_linearly("litert");
    grows_linearly("litert-builtin");
}

#[test]
fn onnxruntime() {
    grows_linearly("onnxruntime");
}

#[test]
fn openvino() {
    grows_linearly("openvino");
}

#[test]
fn rten() {
    grows_linearly("rten");
}

#[test]
fn torch() {
    grows_linearly("torch");
}

fn chain(nodes: usize) -> Graph {
    CASES.iter().find(|(name, _)| *name == "chain").unwrap().1(nodes)
}

#[test]
fn a_spent_budget_names_framework_model_resource_and_limit() {
    for (name, environment) in environments() {
        let budget = Budget::new(Limits { steps: 5_000, ..Limits::NONE });
        let error = lower_within(&chain(6_000), &environment, &budget).unwrap_err();
        let LoweringError::Exceeded { framework, model, source, .. } = &error else {
            panic!("{name}: {error}")
        };
        assert_eq!((framework.as_str(), model.as_str()), (&*environment.framework, "growing"));
        assert_eq!(*source, Exceeded::Limit { resource: Resource::Steps, limit: 5_000 });
        let message = error.to_string();
        assert!(message.contains("5000 steps") && message.contains("`growing`"), "{message}");
    }
}

#[test]
fn nodes_that_rewriting_adds_are_counted() {
    let environment = environments().remove(0).1;
    let budget = Budget::new(Limits { nodes: 50, ..Limits::NONE });
    let graph = CASES.iter().find(|(name, _)| *name == "norms").unwrap().1(1_000);
    let error = lower_within(&graph, &environment, &budget).unwrap_err();
    assert!(error.to_string().contains("50 nodes"), "{error}");
    assert!(error.node().is_some(), "{error}");
}

/// A stopped lowering ends within one pass over the nodes.
#[test]
fn work_that_is_stopped_ends_within_a_pass() {
    let nodes = 20_000;
    let graph = chain(nodes);
    for (name, environment) in
        environments().into_iter().filter(|(_, e)| e.precision != Precision::I8)
    {
        let asked = Arc::new(AtomicU64::new(0));
        let counted = asked.clone();
        let budget =
            Budget::new(Limits::NONE).stopped_by(move || counted.fetch_add(1, Relaxed) >= 1);
        let error = lower_within(&graph, &environment, &budget).unwrap_err();
        assert!(error.to_string().contains("was stopped"), "{name}: {error}");
        let distance = 4 * nodes as u64 + 2 * (1 << 14);
        assert!(budget.steps_spent() <= distance, "{name}: {} steps", budget.steps_spent());
        assert!(asked.load(Relaxed) <= 3, "{name}: asked again and again");
    }
}
