//! Properties of samples of the hybrid ViT space: values in range, rising channels, encodings that
//! round-trip, graphs with the described shapes.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use std::collections::HashSet;
use vitempo_graph::onnx::{ReadOptions, WriteOptions, read_file, to_bytes};
use vitempo_graph::{Graph, OpKind, TensorSpec, Work};
use vitempo_search_space::hybrid_vit::{Architecture, TokenMixer};
use vitempo_search_space::{Architecture as AnyArchitecture, Generator, Norm, Space};

/// Of one stage: channels, MLP ratios, largest expansion, reductions.
type Ranges = ([u16; 2], [u8; 2], u8, &'static [u8]);

/// Section 4.1, retold.
const PAPER: [Ranges; 6] = [
    ([16, 32], [1, 4], 8, &[2, 4, 8, 16]),
    ([32, 80], [2, 10], 8, &[1, 2, 4]),
    ([64, 192], [2, 10], 8, &[1, 2]),
    ([192, 384], [1, 4], 8, &[1]),
    ([256, 768], [1, 4], 4, &[1]),
    ([384, 1024], [1, 2], 2, &[1]),
];

fn space() -> Space {
    Space::named("hybrid-vit").unwrap()
}

fn of_the_family(architecture: AnyArchitecture) -> Architecture {
    match architecture {
        AnyArchitecture::HybridVit(architecture) => architecture,
        other => panic!("{other} is of the family {}", other.family()),
    }
}

fn sample(seed: u64) -> Architecture {
    of_the_family(space().sample(seed))
}

fn sample_many(count: usize, seed: u64) -> Vec<Architecture> {
    space().sample_many(count, seed).unwrap().into_iter().map(of_the_family).collect()
}

fn assert_as_in_the_paper(a: &Architecture) {
    let first = usize::from(a.merged_stages);
    assert!((2..=4).contains(&first) && a.stages.len() == 7 - first, "{a}");
    assert!(
        [224, 256, 288, 384].contains(&a.height) && [224, 256, 288, 384].contains(&a.width),
        "{a}"
    );
    assert!(a.stages.windows(2).all(|pair| pair[0].channels < pair[1].channels), "{a}");
    for (stage, (channels, ratios, expansions, reductions)) in
        a.stages.iter().zip(&PAPER[first - 1..])
    {
        assert!(
            (channels[0]..=channels[1]).contains(&stage.channels) && stage.channels % 8 == 0,
            "{a}"
        );
        assert!((ratios[0]..=ratios[1]).contains(&stage.mlp_ratio) && stage.depth == 1, "{a}");
        match stage.token_mixer {
            TokenMixer::SepConv { kernel, expansion } => assert!(
                [1, 3, 5, 7].contains(&kernel) && (1..=*expansions).contains(&expansion),
                "{a}"
            ),
            TokenMixer::Attention { heads, reduction } => {
                assert!(
                    (1..=12).contains(&heads)
                        && stage.channels % u16::from(heads) == 0
                        && reductions.contains(&reduction),
                    "{a}"
                );
                assert!(heads == 1 || stage.channels / u16::from(heads) >= 16, "{a}");
            }
        }
    }
    assert_eq!(
        a.resolution(a.stages.len() - 1),
        (usize::from(a.height) / 64, usize::from(a.width) / 64),
        "{a}"
    );
}

fn shape_of<'a>(graph: &'a Graph, node: &str) -> &'a [usize] {
    let node =
        graph.nodes().iter().find(|n| n.name == node).unwrap_or_else(|| panic!("no node {node}"));
    &node.op.outputs[0].shape
}

fn assert_graph_as_promised(a: &Architecture) {
    let graph = a.to_graph().unwrap();
    assert_eq!(graph.name(), a.encode());
    assert_eq!(graph.unsupported().count(), 0);
    let output: Vec<&TensorSpec> =
        graph.outputs().iter().map(|&v| graph.value(v).tensor.as_ref().unwrap()).collect();
    assert_eq!(output, [&TensorSpec::f32([1, 1000])]);
    let names: HashSet<&str> = graph.values().iter().map(|v| v.name.as_str()).collect();
    assert_eq!(names.len(), graph.values().len(), "names of values repeat");
    for (i, stage) in a.stages.iter().enumerate() {
        let (height, width) = a.resolution(i);
        let channels = usize::from(stage.channels);
        let name = format!("stages.{}", usize::from(a.merged_stages) + i);
        assert_eq!(
            shape_of(&graph, &format!("{name}.patch_embed")),
            [1, channels, height, width],
            "{a}"
        );
        let features = shape_of(&graph, &format!("{name}.blocks.0.residual2"));
        match stage.token_mixer {
            TokenMixer::SepConv { .. } => assert_eq!(features, [1, channels, height, width], "{a}"),
            TokenMixer::Attention { heads, reduction } => {
                assert_eq!(features, [1, height * width, channels], "{a}");
                let keys = (height / usize::from(reduction)) * (width / usize::from(reduction));
                let scores = shape_of(&graph, &format!("{name}.blocks.0.token_mixer.scores"));
                assert_eq!(scores, [1, usize::from(heads), height * width, keys], "{a}");
            }
        }
    }
    assert_eq!(
        graph.kinds().get(OpKind::Softmax.name()).copied().unwrap_or(0),
        attention_blocks(a),
        "{a}"
    );
    assert!(Work::of_graph(&graph).macs > 1_000_000, "{a}");
}

fn attention_blocks(a: &Architecture) -> usize {
    a.stages.iter().filter(|s| matches!(s.token_mixer, TokenMixer::Attention { .. })).count()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn samples_are_what_the_space_promises(seed: u64) {
        let space = space();
        let a = sample(seed);
        assert_as_in_the_paper(&a);
        assert_graph_as_promised(&a);
        prop_assert!(space.contains(&a.into()).is_ok());
        prop_assert_eq!(of_the_family(space.decode(&a.encode()).unwrap()), a);
        prop_assert_eq!(AnyArchitecture::family_of(&a.encode()), Some("hybrid-vit"));
        let json = serde_json::to_string(&AnyArchitecture::from(a)).unwrap();
        prop_assert_eq!(serde_json::from_str::<AnyArchitecture>(&json).unwrap(), a.into());
        prop_assert_eq!(a.to_graph().unwrap(), a.to_graph().unwrap());
    }

    #[test]
    fn mutants_stay_in_the_space(seed: u64) {
        let space = space();
        let mut generator = Generator::new(seed);
        let mut parent = space.draw(&mut generator);
        for _ in 0..50 {
            let child = space.mutate(&parent, &mut generator).unwrap();
            assert_as_in_the_paper(&of_the_family(child));
            prop_assert!(space.contains(&child).is_ok());
            prop_assert_ne!(child, parent);
            parent = child;
        }
    }

    #[test]
    fn no_text_makes_decoding_panic(text in "(hv1-)?[0-9x]{0,9}-?k?[0-9]{0,3}(-[sa]?[0-9]{0,6}[kehrx]?[0-9]{0,4}[ek]?[0-9]{0,3}m?[0-9]{0,12}[bl]?[gs]?){0,10}\\PC{0,3}") {
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
            assert_as_in_the_paper(&of_the_family(architecture));
        }
    }
}

#[test]
fn written_and_read_back_it_is_the_same_architecture() {
    let folder = tempfile::tempdir().unwrap();
    for architecture in space().sample_many(50, 3).unwrap() {
        let graph = architecture.to_graph().unwrap();
        let path = folder.path().join(format!("{architecture}.onnx"));
        std::fs::write(&path, to_bytes(&graph, &WriteOptions::default()).unwrap()).unwrap();
        let read = read_file(&path, &ReadOptions::default()).unwrap();
        assert_eq!(read.name(), architecture.encode());
        for (written, read) in graph.nodes().iter().zip(read.nodes()) {
            assert_eq!((&written.name, &written.op), (&read.name, &read.op), "{architecture}");
        }
        assert_eq!(read.architecture(), graph.architecture(), "{architecture}");
        assert_eq!(Work::of_graph(&read), Work::of_graph(&graph), "{architecture}");
    }
}

#[test]
fn a_thousand_samples_are_distinct_in_range_and_the_same_again() {
    let samples = sample_many(1000, 7);
    samples.iter().for_each(assert_as_in_the_paper);
    assert_eq!(samples.iter().collect::<HashSet<_>>().len(), 1000);
    assert_eq!(samples.iter().map(Architecture::encode).collect::<HashSet<_>>().len(), 1000);
    assert_eq!(sample_many(10, 7), samples[..10]);
    assert_eq!(sample(7), samples[0]);
    assert_ne!(sample_many(10, 8), samples[..10]);
}

#[test]
fn every_value_of_the_paper_is_sampled() {
    let samples = sample_many(4000, 1);
    let seen = |what: fn(&Architecture) -> Vec<String>| {
        samples.iter().flat_map(what).collect::<HashSet<_>>().len()
    };
    assert_eq!(seen(|a| vec![format!("{}x{}", a.height, a.width)]), 16);
    assert_eq!(seen(|a| vec![a.merged_stages.to_string()]), 3);
    assert_eq!(
        seen(|a| a
            .stages
            .iter()
            .enumerate()
            .map(|(i, s)| format!("{} {}", stage_number(a, i), s.mlp_ratio))
            .collect()),
        9 + 9 + 4 + 4 + 2
    );
    let mixers: HashSet<(usize, TokenMixer)> = samples
        .iter()
        .flat_map(|a| {
            a.stages.iter().enumerate().map(move |(i, s)| (stage_number(a, i), s.token_mixer))
        })
        .collect();
    let sep_convs = mixers.iter().filter(|(_, m)| matches!(m, TokenMixer::SepConv { .. })).count();
    assert_eq!(sep_convs, 4 * (8 + 8 + 8 + 4 + 2));
    let heads: HashSet<u8> = mixers
        .iter()
        .filter_map(
            |(_, m)| if let TokenMixer::Attention { heads, .. } = m { Some(*heads) } else { None },
        )
        .collect();
    assert!(heads.contains(&1) && heads.contains(&12) && heads.len() >= 10, "{heads:?}");
}

fn stage_number(a: &Architecture, i: usize) -> usize {
    usize::from(a.merged_stages) + i
}

#[test]
fn halves_of_choices_are_even() {
    let samples = sample_many(2000, 5);
    let stages: Vec<_> = samples.iter().flat_map(|a| a.stages.to_vec()).collect();
    let share = |n: usize| n as f64 / stages.len() as f64;
    let attention = share(
        stages.iter().filter(|s| matches!(s.token_mixer, TokenMixer::Attention { .. })).count(),
    );
    let batch_norm = share(stages.iter().filter(|s| s.norm == Norm::BatchNorm).count());
    assert!(
        (0.47..0.53).contains(&attention) && (0.47..0.53).contains(&batch_norm),
        "{attention} {batch_norm}"
    );
}

#[test]
fn the_same_seed_gives_the_same_architectures_for_ever() {
    let samples = sample_many(3, 7);
    let texts: Vec<String> = samples.iter().map(Architecture::encode).collect();
    let pinned = [
        "hv1-384x384-k4-s368k1e6m2ls-a448h1r1m3lg-s544k7e2m2bg",
        "hv1-384x288-k4-s248k1e6m4bs-s328k1e4m4bg-s416k1e2m2bs",
        "hv1-288x256-k3-a184h2r2m8bs-a280h2r1m4bg-a720h4r1m2ls-a848h2r1m2bg",
    ];
    assert_eq!(texts, pinned);
}
