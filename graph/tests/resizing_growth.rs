//! The work of giving a model images of another size grows with its nodes, not with their square,
//! and it ends where its budget does. The tests count steps, which do not depend on the speed of
//! the machine.

#![allow(clippy::unwrap_used)]

use vitempo_graph::{
    Attributes, Budget, Exceeded, Graph, GraphBuilder, ImageSize, Limits, OpKind, ResizeError,
    Resource, TensorSpec, ValueId, with_image_size_within,
};

/// Nodes of the smaller and the larger model.
const SIZES: (usize, usize) = (1_000, 10_000);
/// As for lowering.
const LARGEST_EXPONENT: f64 = 1.2;

/// Name of a structure, and the model with about this many nodes.
type Case = (&'static str, fn(usize) -> Graph);

fn start() -> (GraphBuilder, ValueId) {
    let mut b = GraphBuilder::new("growing");
    let image = b.input("image", TensorSpec::f32([1, 3, 16, 24]));
    (b, image)
}

fn chain(n: usize) -> Graph {
    let (mut b, mut x) = start();
    for i in 0..n {
        x = b.unary(&format!("n{i}"), OpKind::Relu, x).unwrap();
    }
    b.finish(vec![x]).unwrap()
}

/// Every node has an image of a size that no other has.
fn pads(n: usize) -> Graph {
    let (mut b, mut x) = start();
    for i in 0..n {
        let pads = Attributes::new().with_ints("pads", [0, 0, 0, 0, 0, 0, 1, 1]);
        x = b.op(&format!("n{i}"), OpKind::Pad, pads, &[x]).unwrap();
    }
    b.finish(vec![x]).unwrap()
}

/// The image in one row and back, again and again.
fn rows(n: usize) -> Graph {
    let (mut b, mut x) = start();
    for i in 0..n / 2 {
        let shape = |shape: &[i64]| Attributes::new().with_ints("shape", shape);
        x = b.op(&format!("r{i}"), OpKind::Reshape, shape(&[1, 3, 384]), &[x]).unwrap();
        x = b.op(&format!("b{i}"), OpKind::Reshape, shape(&[1, 3, 16, 24]), &[x]).unwrap();
    }
    b.finish(vec![x]).unwrap()
}

/// One node that reads all others, between constants of the image's size.
fn fan_in(n: usize) -> Graph {
    let (mut b, image) = start();
    let parts: Vec<ValueId> =
        (0..n).map(|i| b.unary(&format!("n{i}"), OpKind::Relu, image).unwrap()).collect();
    let joined = b.op("all", OpKind::Concat, Attributes::new().with_int("axis", 1), &parts);
    let positions = b.weight("positions", TensorSpec::f32([1, 3 * n, 16, 24]));
    let sum = b.op("sum", OpKind::Add, Attributes::new(), &[joined.unwrap(), positions]).unwrap();
    b.finish(vec![sum]).unwrap()
}

fn steps(graph: &Graph, size: ImageSize) -> f64 {
    let budget = Budget::new(Limits::NONE);
    with_image_size_within(graph, size, &budget).unwrap();
    budget.steps_spent() as f64
}

#[test]
fn steps_grow_with_the_nodes() {
    let size = ImageSize::new(48, 40).unwrap();
    let cases: [Case; 4] = [("chain", chain), ("pads", pads), ("rows", rows), ("fan in", fan_in)];
    for (case, make) in cases {
        let (few, many) = (steps(&make(SIZES.0), size), steps(&make(SIZES.1), size));
        let exponent = (many / few).ln() / (SIZES.1 as f64 / SIZES.0 as f64).ln();
        assert!(exponent < LARGEST_EXPONENT, "{case}: {few} to {many} steps");
        assert!(few >= SIZES.0 as f64, "{case}: {few} steps are not what was done");
    }
}

#[test]
fn a_spent_budget_names_the_model_the_node_and_the_limit() {
    let (graph, size) = (chain(4_000), ImageSize::new(48, 40).unwrap());
    let within = |limits| with_image_size_within(&graph, size, &Budget::new(limits)).unwrap_err();
    for (limits, resource, limit) in [
        (Limits { steps: 9_000, ..Limits::NONE }, Resource::Steps, 9_000),
        (Limits { bytes: 1_000, ..Limits::NONE }, Resource::Bytes, 1_000),
        (Limits { nodes: 70, ..Limits::NONE }, Resource::Nodes, 70),
    ] {
        let error = within(limits);
        let ResizeError::Exceeded { model, node, source } = &error else { panic!("{error}") };
        assert_eq!((model.as_str(), source), ("growing", &Exceeded::Limit { resource, limit }));
        assert!(node.is_some() && error.to_string().contains("node `n"), "{error}");
    }
    let gone = Budget::new(Limits::NONE).stopped_by(|| true);
    let error = with_image_size_within(&graph, size, &gone).unwrap_err();
    assert!(error.to_string().contains("was stopped"), "{error}");
    assert!(gone.steps_spent() <= 3 << 14, "{} steps", gone.steps_spent());
}

/// The rows of the image become one, so that the factors of a row of pixels are one and itself.
#[test]
fn a_side_of_one_pixel_is_no_factor() {
    let mut b = GraphBuilder::new("line");
    let image = b.input("image", TensorSpec::f32([1, 3, 1, 8]));
    let halves = Attributes::new().with_ints("shape", [1, 3, 2, 4]);
    let x = b.op("halves", OpKind::Reshape, halves, &[image]).unwrap();
    let graph = b.finish(vec![x]).unwrap();
    let budget = Budget::new(Limits { steps: 10_000, ..Limits::NONE });
    let half = with_image_size_within(&graph, ImageSize::new(1, 4).unwrap(), &budget).unwrap();
    let output = half.value(half.outputs()[0]).tensor.clone().unwrap();
    assert_eq!(output.shape.iter().product::<usize>(), 3 * 4);
}
