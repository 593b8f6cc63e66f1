//! Properties of samples of the space of inverted residuals: values in range, encodings that
//! round-trip, graphs with the described shapes.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use std::collections::HashSet;
use vitempo_graph::{Graph, OpKind, TensorSpec};
use vitempo_search_space::mbconv::{Activation, Architecture, squeezed};
use vitempo_search_space::{Architecture as AnyArchitecture, Generator, Space};

fn space() -> Space {
    Space::named("mbconv").unwrap()
}

fn of_the_family(architecture: AnyArchitecture) -> Architecture {
    match architecture {
        AnyArchitecture::MbConv(architecture) => architecture,
        other => panic!("{other} is of the family {}", other.family()),
    }
}

fn assert_in_range(a: &Architecture) {
    let text = a.encode();
    assert!((128..=224).contains(&a.image_size) && a.image_size.is_multiple_of(16), "{text}");
    assert!([16, 24].contains(&a.stem) && a.head == 960, "{text}");
    assert!((a.input_channels, a.classes) == (3, 1000), "{text}");
    assert_eq!((a.stages.len(), a.activation), (6, Activation::HardSwish), "{text}");
    assert_eq!(a.stages.iter().map(|s| s.stride).collect::<Vec<_>>(), [1, 2, 2, 2, 1, 2]);
    for (number, stage) in a.stages.iter().enumerate().skip(1) {
        assert!((2..=4).contains(&stage.blocks.len()), "{text}");
        for block in stage.blocks.iter() {
            assert!([3, 5, 7].contains(&block.kernel()), "{text}");
            assert!([3, 4, 6].contains(&block.expansion()), "{text}");
            assert_eq!(block.squeeze(), [2, 4, 5].contains(&number), "{text}");
        }
    }
}

fn shape_of<'a>(graph: &'a Graph, node: &str) -> &'a [usize] {
    let node =
        graph.nodes().iter().find(|n| n.name == node).unwrap_or_else(|| panic!("no node {node}"));
    &node.op.outputs[0].shape
}

fn assert_graph_as_promised(a: &Architecture) {
    let (graph, text) = (a.to_graph().unwrap(), a.encode());
    assert_eq!((graph.name(), graph.unsupported().count()), (text.as_str(), 0));
    let output: Vec<&TensorSpec> =
        graph.outputs().iter().map(|&v| graph.value(v).tensor.as_ref().unwrap()).collect();
    assert_eq!(output, [&TensorSpec::f32([1, 1000])]);
    let names: HashSet<&str> = graph.values().iter().map(|v| v.name.as_str()).collect();
    assert_eq!(names.len(), graph.values().len(), "names of values repeat");
    let side = usize::from(a.image_size).div_ceil(2);
    assert_eq!(shape_of(&graph, "stem.conv"), [1, a.stem.into(), side, side], "{text}");
    let (mut residuals, mut squeezes, mut position, mut before) = (0, 0, 0, 0);
    for (stage, placed) in a.placed() {
        position = if stage == before { position } else { 0 };
        before = stage;
        let shape = |part: &str| {
            shape_of(&graph, &format!("stages.{stage}.blocks.{position}.{part}")).to_vec()
        };
        let hidden = usize::from(placed.channels_in) * usize::from(placed.block.expansion());
        let size = usize::from(placed.size);
        assert_eq!(shape("depthwise"), [1, hidden, size, size], "{text}");
        assert_eq!(shape("project"), [1, placed.channels.into(), size, size], "{text}");
        if placed.block.squeeze() {
            assert_eq!(shape("squeeze.reduce"), [1, squeezed(hidden), 1, 1], "{text}");
            squeezes += 1;
        }
        residuals += usize::from(placed.is_residual());
        position += 1;
    }
    let kinds = graph.kinds();
    let count = |kind: OpKind| kinds.get(kind.name()).copied().unwrap_or(0);
    assert_eq!((count(OpKind::Add), count(OpKind::HardSigmoid)), (residuals, squeezes), "{text}");
    assert_eq!(shape_of(&graph, "head.pool"), [1, 960, 1, 1], "{text}");
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
        prop_assert!(a.encode().len() <= 180, "{} is not compact", a.encode());
        prop_assert_eq!(AnyArchitecture::family_of(&a.encode()), Some("mbconv"));
        let json = serde_json::to_string(&AnyArchitecture::from(a)).unwrap();
        prop_assert_eq!(serde_json::from_str::<AnyArchitecture>(&json).unwrap(), a.into());
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
    fn no_text_makes_decoding_panic(text in "(mb1-)?[0-9]{0,5}-?s?[0-9]{0,6}[rchs]?(-c[0-9]{0,3}s[0-9][rchs](k[0-9]{1,2}e[0-9]{1,3}q?){0,9}){0,9}\\PC{0,3}") {
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

/// MobileNetV2's stages: the multiply-accumulates of its paper (300 M at 224 pixels).
#[test]
fn a_published_architecture_is_a_member_of_a_space_that_lists_it() {
    let stages = [(16, 1, 1, 1), (24, 2, 6, 2), (32, 2, 6, 3), (64, 2, 6, 4)];
    let stages = stages.into_iter().chain([(96, 1, 6, 3), (160, 2, 6, 3), (320, 1, 6, 1)]);
    let stage = |(channels, stride, expansion, depth): (u16, u8, u8, u8)| {
        format!(
            "[[stages]]\nchannels = [{channels}]\nstride = {stride}\ndepths = [{depth}]\n\
            activations = [\"relu6\"]\nkernels = [3]\nexpansions = [{expansion}]\n\
            squeeze = [false]\n"
        )
    };
    let text = format!(
        "family = \"mbconv\"\nname = \"mobilenet-v2\"\nclasses = 1000\nstem = [32]\nhead = 1280\n\
        activations = [\"relu6\"]\n[input]\nchannels = 3\nsizes = [224]\n{}",
        stages.map(stage).collect::<String>()
    );
    let space = Space::parse("mobilenet-v2.toml", &text).unwrap();
    assert_eq!(space.size(), 1);
    let graph = space.sample(1).to_graph().unwrap();
    let work = vitempo_graph::Work::of_graph(&graph);
    assert!((300_000_000..302_000_000).contains(&work.macs), "{} MACs", work.macs);
    // 3 504 872 parameters with two per channel of each batch norm, which here is one bias.
    assert!((3_480_000..3_505_000).contains(&work.params), "{} parameters", work.params);
}

#[test]
fn what_is_not_in_the_space_is_named() {
    let space = space();
    let good = space.sample(0).encode();
    let last = good.rsplit_once('-').unwrap().0;
    let cases = [
        ("mb1".to_owned(), "SIZE is missing"),
        ("mb1-224".to_owned(), "sSTEM is missing"),
        ("mb1-224-s16x".to_owned(), "here comes `r` (relu)"),
        ("mb1-224-s16h".to_owned(), "the number of stages is 0; allowed: 6"),
        ("mb1-225-s16h".to_owned(), "image_size is 225; allowed: 128, 144"),
        ("mb1-224-s16h-c16s1rk4e1".to_owned(), "kernels are odd"),
        (format!("mb1-224-s16h-c16s1r{}", "k3e1".repeat(8)), "more than 7 blocks"),
        (format!("mb1-224-s16h{}", "-c16s1rk3e1".repeat(8)), "more than 7 stages"),
        (format!("{last}-c999s2hk3e3qk3e3q"), "channels of stage 6 is 999; allowed: 160, 192"),
        (format!("{last}-c160s1hk3e3qk3e3q"), "stride of stage 6 is 1; allowed: 2"),
        (format!("{last}-c160s2rk3e3qk3e3q"), "activation of stage 6 is relu"),
        (format!("{last}-c160s2hk3e3q"), "depth of stage 6 is 1; allowed: 2, 3, 4"),
        (format!("{last}-c160s2hk9e3qk3e3q"), "kernel of stage 6 is 9; allowed: 3, 5, 7"),
        (format!("{last}-c160s2hk3e5qk3e3q"), "expansion of stage 6 is 5; allowed: 3, 4, 6"),
        (format!("{last}-c160s2hk3e3k3e3q"), "squeeze of stage 6 is false; allowed: true"),
        (format!("{last}-c160s2hk03e3qk3e3q"), "write `mb1-"),
    ];
    for (text, part) in cases {
        let message = space.decode(&text).unwrap_err().to_string();
        assert!(message.contains(part), "{text}: no `{part}` in: {message}");
    }
}

#[test]
fn mistakes_in_a_definition_are_named() {
    let toml = Space::toml("mbconv").unwrap();
    let cases = [
        ("stride = 1", "stride = 3", "`stride` of [[stages]] number `1` is 3; allowed: 1 to 2"),
        ("kernels = [3]", "kernels = [4]", "`kernels` of [[stages]] number `1` has 4"),
        ("kernels = [3]", "kernels = [17]", "allowed: 3 to 15"),
        ("expansions = [1]", "expansions = [17]", "allowed: 1 to 16"),
        ("depths = [1]", "depths = [8]", "allowed: 1 to 7"),
        ("squeeze = [false]", "squeeze = []", "`squeeze` of [[stages]] number `1` is empty"),
        ("activations = [\"relu\"]", "activations = [\"gelu\"]", "unknown variant `gelu`"),
        ("head = 960", "", "missing field `head`"),
        ("stem = [16, 24]", "stem = [0]", "`stem` has 0; allowed: 1 to 16384"),
    ];
    for (from, to, part) in cases {
        let changed = toml.replacen(from, to, 1);
        assert_ne!(changed, toml, "{from}");
        let message = Space::parse("mine.toml", &changed).unwrap_err().to_string();
        assert!(message.contains(part), "no `{part}` in: {message}");
    }
}
