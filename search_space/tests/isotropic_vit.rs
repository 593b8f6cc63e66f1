//! Properties of samples of the isotropic ViT space: values in range, encodings that round-trip,
//! graphs with the described shapes and with the operators of an exporter.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use std::collections::{BTreeMap, HashSet};
use vitempo_graph::onnx::{ReadOptions, WriteOptions, read_file, to_bytes};
use vitempo_graph::{Attribute, Graph, OpKind, OpSpec, TensorSpec, Work};
use vitempo_search_space::isotropic_vit::{Architecture, Pooling};
use vitempo_search_space::{Activation, Architecture as AnyArchitecture, Generator, Norm, Space};

fn space() -> Space {
    Space::named("isotropic-vit").unwrap()
}

fn of_the_family(architecture: AnyArchitecture) -> Architecture {
    match architecture {
        AnyArchitecture::IsotropicVit(architecture) => architecture,
        other => panic!("{other} is of the family {}", other.family()),
    }
}

fn sample_many(count: usize, seed: u64) -> Vec<Architecture> {
    space().sample_many(count, seed).unwrap().into_iter().map(of_the_family).collect()
}

fn assert_in_range(a: &Architecture) {
    let text = a.encode();
    assert!([160, 192, 224, 256, 288, 320, 384].contains(&a.image_size), "{text}");
    assert!([14, 16, 32].contains(&a.patch_size), "{text}");
    assert_eq!(a.image_size % u16::from(a.patch_size), 0, "{text}");
    assert!((128..=768).contains(&a.channels) && a.channels.is_multiple_of(32), "{text}");
    assert!((1..=16).contains(&a.heads) && a.channels.is_multiple_of(a.heads.into()), "{text}");
    assert!(a.channels / u16::from(a.heads) >= 32, "{text}");
    assert!((4..=16).contains(&a.depth) && (1..=4).contains(&a.mlp_ratio), "{text}");
    assert!((a.input_channels, a.classes) == (3, 1000), "{text}");
}

fn shape_of<'a>(graph: &'a Graph, node: &str) -> &'a [usize] {
    let node =
        graph.nodes().iter().find(|n| n.name == node).unwrap_or_else(|| panic!("no node {node}"));
    &node.op.outputs[0].shape
}

fn assert_graph_as_promised(a: &Architecture) {
    let (graph, text) = (a.to_graph().unwrap(), a.encode());
    assert_eq!(graph.name(), text);
    assert_eq!(graph.unsupported().count(), 0);
    let output: Vec<&TensorSpec> =
        graph.outputs().iter().map(|&v| graph.value(v).tensor.as_ref().unwrap()).collect();
    assert_eq!(output, [&TensorSpec::f32([1, 1000])]);
    let names: HashSet<&str> = graph.values().iter().map(|v| v.name.as_str()).collect();
    assert_eq!(names.len(), graph.values().len(), "names of values repeat");
    let (grid, channels, heads) =
        (usize::from(a.grid()), usize::from(a.channels), usize::from(a.heads));
    let tokens = grid * grid + usize::from(a.pooling == Pooling::ClassToken);
    assert_eq!(a.tokens(), tokens);
    assert_eq!(shape_of(&graph, "patch_embed"), [1, channels, grid, grid], "{text}");
    for block in 0..a.depth {
        let shape = |part| shape_of(&graph, &format!("blocks.{block}.{part}"));
        assert_eq!(shape("attn.scores"), [1, heads, tokens, tokens], "{text}");
        assert_eq!(shape("mlp.fc1"), [1, tokens, channels * usize::from(a.mlp_ratio)], "{text}");
        assert_eq!(shape("residual2"), [1, tokens, channels], "{text}");
    }
    assert_eq!(shape_of(&graph, "pool"), [1, channels], "{text}");
    let kinds = graph.kinds();
    let count = |kind: OpKind| kinds.get(kind.name()).copied().unwrap_or(0);
    let (norms, depth) = (2 * usize::from(a.depth) + 1, usize::from(a.depth));
    assert_eq!(count(OpKind::Softmax), depth, "{text}");
    let (layer, batch) = if a.norm == Norm::LayerNorm { (norms, 0) } else { (0, norms) };
    assert_eq!((count(OpKind::LayerNorm), count(OpKind::BatchNorm)), (layer, batch), "{text}");
    let gelu = if a.activation == Activation::Gelu { depth } else { 0 };
    assert_eq!((count(OpKind::Erf), count(OpKind::Sigmoid)), (gelu, depth - gelu), "{text}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn samples_are_what_the_space_promises(seed: u64) {
        let space = space();
        let a = of_the_family(space.sample(seed));
        assert_in_range(&a);
        assert_graph_as_promised(&a);
        prop_assert!(space.contains(&a.into()).is_ok());
        prop_assert_eq!(of_the_family(space.decode(&a.encode()).unwrap()), a);
        prop_assert!(a.encode().len() <= 28, "{} is not compact", a.encode());
        prop_assert_eq!(AnyArchitecture::family_of(&a.encode()), Some("isotropic-vit"));
        let json = serde_json::to_string(&AnyArchitecture::from(a)).unwrap();
        prop_assert_eq!(serde_json::from_str::<AnyArchitecture>(&json).unwrap(), a.into());
        prop_assert_eq!(a.to_graph().unwrap(), a.to_graph().unwrap());
    }

    #[test]
    fn mutants_and_crosses_stay_in_the_space(seed: u64) {
        let space = space();
        let mut generator = Generator::new(seed);
        let mut parent = space.draw(&mut generator);
        for _ in 0..50 {
            let child = space.mutate(&parent, &mut generator).unwrap();
            assert_in_range(&of_the_family(child));
            prop_assert!(space.contains(&child).is_ok());
            prop_assert_ne!(child, parent);
            let other = space.draw(&mut generator);
            parent = space.cross(&child, &other, &mut generator);
            prop_assert!(space.contains(&parent).is_ok());
        }
    }

    #[test]
    fn no_text_makes_decoding_panic(text in "(iv1-)?[0-9p]{0,9}-?c?[0-9]{0,6}h?[0-9]{0,4}m?[0-9]{0,12}[bl]?[gs]?x?[0-9]{0,4}-?[ta]?\\PC{0,3}") {
        let _ = space().decode(&text);
    }

    #[test]
    fn changed_encodings_are_refused_or_are_their_own(seed: u64, at: prop::sample::Index, with in "[0-9a-z-]") {
        let space = space();
        let mut text = space.sample(seed).encode();
        let at = at.index(text.len());
        text.replace_range(at..=at, &with);
        if let Ok(architecture) = space.decode(&text) {
            prop_assert_eq!(architecture.encode(), text);
            assert_in_range(&of_the_family(architecture));
        }
    }
}

/// Operators with how often they occur, without the epsilons of norms: timm's is smaller.
fn counted(graph: &Graph) -> BTreeMap<OpSpec, usize> {
    let mut counts = BTreeMap::new();
    for node in graph.nodes() {
        let mut op = node.op.clone();
        if op.attributes.float("epsilon").is_some() {
            op.attributes.set("epsilon", Attribute::Float(0.0));
        }
        *counts.entry(op).or_default() += 1;
    }
    counts
}

#[test]
fn the_tiny_vit_has_the_operators_that_timm_and_an_exporter_leave() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/models/vit_tiny_patch16_224.onnx");
    let exported = read_file(path.as_ref(), &ReadOptions::default()).unwrap();
    let ours = space().decode("iv1-224p16-c192h3m4lgx12-t").unwrap().to_graph().unwrap();
    let (exported, ours) = (counted(&exported), counted(&ours));
    for (op, count) in exported.iter().chain(&ours) {
        assert_eq!(
            (exported.get(op), ours.get(op)),
            (Some(count), Some(count)),
            "exported and ours: {op:?}"
        );
    }
}

#[test]
fn written_and_read_back_it_is_the_same_architecture() {
    let folder = tempfile::tempdir().unwrap();
    for architecture in sample_many(8, 3) {
        let text = architecture.encode();
        let graph = architecture.to_graph().unwrap();
        let path = folder.path().join(format!("{text}.onnx"));
        std::fs::write(&path, to_bytes(&graph, &WriteOptions::default()).unwrap()).unwrap();
        let read = read_file(&path, &ReadOptions::default()).unwrap();
        assert_eq!(read.name(), text);
        for (written, read) in graph.nodes().iter().zip(read.nodes()) {
            assert_eq!((&written.name, &written.op), (&read.name, &read.op), "{text}");
        }
        assert_eq!(read.architecture(), graph.architecture(), "{text}");
        assert_eq!(Work::of_graph(&read), Work::of_graph(&graph), "{text}");
    }
}

#[test]
fn a_thousand_samples_are_distinct_in_range_and_the_same_again() {
    let samples = sample_many(1000, 7);
    samples.iter().for_each(assert_in_range);
    assert_eq!(samples.iter().collect::<HashSet<_>>().len(), 1000);
    assert_eq!(samples.iter().map(Architecture::encode).collect::<HashSet<_>>().len(), 1000);
    assert_eq!(sample_many(10, 7), samples[..10]);
    assert_eq!(of_the_family(space().sample(7)), samples[0]);
    assert_ne!(sample_many(10, 8), samples[..10]);
}

#[test]
fn every_value_of_the_space_is_sampled_and_as_often_as_others() {
    let samples = sample_many(4000, 1);
    let seen = |what: fn(&Architecture) -> String| {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        samples.iter().for_each(|a| *counts.entry(what(a)).or_default() += 1);
        let expected = samples.len() / counts.len();
        assert!(
            counts.values().all(|n| (expected * 3 / 5..expected * 7 / 5).contains(n)),
            "{counts:?}"
        );
        counts.len()
    };
    assert_eq!(seen(|a| format!("{}p{}", a.image_size, a.patch_size)), 7 + 7 + 1);
    assert_eq!(seen(|a| a.channels.to_string()), 21);
    assert_eq!(seen(|a| a.depth.to_string()), 13);
    assert_eq!(seen(|a| a.mlp_ratio.to_string()), 4);
    assert_eq!(seen(|a| format!("{:?} {:?} {:?}", a.norm, a.activation, a.pooling)), 8);
    let heads: HashSet<u8> = samples.iter().map(|a| a.heads).collect();
    assert!(heads.contains(&1) && heads.contains(&16) && heads.len() >= 12, "{heads:?}");
}

#[test]
fn the_same_seed_gives_the_same_architectures_for_ever() {
    let texts: Vec<String> = sample_many(3, 7).iter().map(Architecture::encode).collect();
    let pinned =
        ["iv1-384p32-c704h16m3bgx4-a", "iv1-320p16-c736h4m4bgx12-a", "iv1-224p32-c608h2m2lgx5-a"];
    assert_eq!(texts, pinned);
}
