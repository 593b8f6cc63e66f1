//! Multi-task models: an architecture's features with decoders and postprocessing.
#![allow(clippy::unwrap_used)]

use vitempo_graph::{Graph, TensorSpec};
use vitempo_search_space::{DenseTask, Space, SpaceError};

fn outputs(graph: &Graph) -> Vec<(String, TensorSpec)> {
    let output = |&id| {
        let value = graph.value(id);
        (value.name.clone(), value.tensor.clone().unwrap())
    };
    graph.outputs().iter().map(output).collect()
}

#[test]
fn each_task_gives_a_picture_as_large_as_the_image() {
    for space in ["hybrid-vit", "isotropic-vit", "mbconv"].map(|name| Space::named(name).unwrap()) {
        for architecture in space.sample_many(20, 3).unwrap() {
            let graph = architecture.to_multi_task_graph(&DenseTask::ALL).unwrap();
            let image = graph.value(graph.inputs()[0]).tensor.clone().unwrap();
            let [_, _, height, width] = image.shape[..] else { panic!("no image: {image}") };
            let channels_first = TensorSpec::f32([1, 3, height, width]);
            let channels_last = TensorSpec::f32([1, height, width, 3]);
            assert_eq!(
                outputs(&graph),
                [
                    ("depth_out".to_owned(), channels_first.clone()),
                    ("segmentation_out".to_owned(), channels_last),
                    ("normals_out".to_owned(), channels_first),
                ],
                "{architecture}"
            );
            assert!(graph.nodes().iter().all(|node| !node.name.starts_with("head")));
        }
    }
}

#[test]
fn each_task_is_named_once_and_there_is_one() {
    let architecture = Space::named("isotropic-vit").unwrap().sample(1);
    for tasks in [&[][..], &[DenseTask::Depth, DenseTask::Depth]] {
        let refused = architecture.to_multi_task_graph(tasks);
        assert!(matches!(refused, Err(SpaceError::Decoders { .. })), "{tasks:?}");
    }
}
