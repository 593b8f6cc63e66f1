//! Members of every built-in space and multi-task models of them, written as ONNX and read again, are the same graphs.
#![allow(clippy::unwrap_used)]

use vitempo_graph::onnx::{ReadOptions, WriteOptions, read_bytes, to_bytes};
use vitempo_graph::{Graph, Node, OpSpec, Work};
use vitempo_search_space::{DenseTask, Generator, Space};

const DRAWS: usize = 12;

fn operators(graph: &Graph) -> Vec<(String, OpSpec)> {
    let one = |node: &Node| (node.name.clone(), node.op.clone());
    graph.nodes().iter().map(one).collect()
}

#[test]
fn members_of_every_space() {
    for name in Space::names() {
        let space = Space::named(name).unwrap();
        let mut generator = Generator::new(11);
        for _ in 0..DRAWS {
            let architecture = space.draw(&mut generator);
            agree(&architecture.to_graph().unwrap());
            agree(&architecture.to_multi_task_graph(&DenseTask::ALL).unwrap());
        }
    }
}

fn agree(graph: &Graph) {
    let bytes = to_bytes(graph, &WriteOptions::default()).unwrap();
    let again = read_bytes(graph.name(), &bytes, &ReadOptions::default()).unwrap();
    let encoding = graph.name();
    assert!(operators(graph) == operators(&again), "{encoding}");
    assert_eq!(Work::of_graph(graph), Work::of_graph(&again), "{encoding}");
    assert_eq!(graph.architecture(), again.architecture(), "{encoding}");
}
