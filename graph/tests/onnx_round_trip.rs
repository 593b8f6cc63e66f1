//! Graphs written as ONNX and read again are the same graphs: random chains of layers, and real
//! models.
#![allow(clippy::unwrap_used)]

mod growing;

use growing::environments;
use proptest::prelude::*;
use std::path::Path;
use vitempo_graph::lowering::lower;
use vitempo_graph::onnx::{ReadOptions, WriteOptions, read_bytes, read_file, to_bytes};
use vitempo_graph::quantize::{Conversion, Options};
use vitempo_graph::{
    Attribute, Attributes, Environment, Graph, GraphBuilder, GraphError, MemoryFormat, Node,
    OpKind, Precision, TensorSpec, ValueId, ValueSource, Work,
};

/// One step of a random network; a step that does not fit the current shape is adapted or left out.
fn step(
    b: &mut GraphBuilder,
    name: &str,
    x: ValueId,
    choice: u8,
    size: usize,
) -> Result<ValueId, GraphError> {
    let shape = b.tensor(x).unwrap().shape.clone();
    let image = shape.len() == 4;
    match (choice, image) {
        (0, true) => b.conv(name, x, size * 4, 3, 1 + size % 2, 1, 1, size.is_multiple_of(3)),
        (1, true) => b.conv(name, x, shape[1], 2 * (size % 3) + 1, 1, size % 3, shape[1], true),
        (2, true) => b.batch_norm(name, x),
        (3, true) => b.global_average_pool(name, x),
        (4, true) => {
            let tokens =
                b.reshape(&format!("{name}.flatten"), x, &[1, shape[1], shape[2] * shape[3]])?;
            b.transpose(name, tokens, &[0, 2, 1])
        }
        (5, true) => b.concat(name, &[x, x], 1),
        (0..=2, false) => b.linear(name, x, size * 4, size.is_multiple_of(2)),
        (3, false) => b.layer_norm(name, x),
        (4, false) => {
            let keys = b.transpose(&format!("{name}.keys"), x, &[0, 2, 1])?;
            let scores = b.matmul(&format!("{name}.scores"), x, keys)?;
            let weights = b.softmax(&format!("{name}.softmax"), scores, 2)?;
            b.matmul(name, weights, x)
        }
        (5, false) => b.reduce_mean(name, x, &[1], true),
        (6, _) => b.gelu_erf(name, x),
        (7, _) => b.silu(name, x),
        (8, _) => b.unary(
            name,
            [OpKind::Relu, OpKind::HardSwish, OpKind::Gelu, OpKind::GeluTanh, OpKind::Tanh]
                [size % 5]
                .clone(),
            x,
        ),
        (9, _) => b.binary(name, OpKind::Add, x, x),
        (10, _) => {
            let attributes = Attributes::new()
                .with("min", Attribute::Float(0.0))
                .with("max", Attribute::Float(size as f64 / 3.0));
            b.op(name, OpKind::Clip, attributes, &[x])
        }
        _ => {
            let slice = Attributes::new()
                .with_ints("starts", [-1])
                .with_ints("ends", [i64::MAX])
                .with_ints("axes", [1])
                .with_ints("steps", [1]);
            b.op(name, OpKind::Slice, slice, &[x])
        }
    }
}

fn network(steps: &[(u8, usize)]) -> Graph {
    let mut b = GraphBuilder::new("random");
    let mut x = b.input("x", TensorSpec::f32([1, 3, 16, 12]));
    for (index, &(choice, size)) in steps.iter().enumerate() {
        x = step(&mut b, &format!("layer{index}"), x, choice, size).unwrap();
    }
    b.finish(vec![x]).unwrap()
}

fn assert_same(graph: &Graph, read: &Graph) {
    let operators =
        |g: &Graph| g.nodes().iter().map(|n| (n.name.clone(), n.op.clone())).collect::<Vec<_>>();
    assert_eq!(operators(graph), operators(read), "{}", graph.name());
    assert_eq!(graph.architecture(), read.architecture(), "{}", graph.name());
    assert_eq!(Work::of_graph(graph), Work::of_graph(read), "{}", graph.name());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn random_networks(steps in prop::collection::vec((0u8..12, 1usize..9), 1..12), seed: u64) {
        let graph = network(&steps);
        let bytes = to_bytes(&graph, &WriteOptions::seeded(seed)).unwrap();
        prop_assert_eq!(&bytes, &to_bytes(&graph, &WriteOptions::seeded(seed)).unwrap());
        assert_same(&graph, &read_bytes("random", &bytes, &ReadOptions::default()).unwrap());
        let omitted = to_bytes(&graph, &WriteOptions::default()).unwrap();
        prop_assert!(omitted.len() <= bytes.len() + 200 * graph.values().len());
        assert_same(&graph, &read_bytes("random", &omitted, &ReadOptions::default()).unwrap());
    }
}

#[test]
fn real_models() {
    for name in ["vit_tiny_patch16_224", "mobilevit_xxs", "edgenext_xx_small"] {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../tests/models/{name}.onnx"));
        let graph = read_file(&path, &ReadOptions::default()).unwrap();
        let written = to_bytes(&graph, &WriteOptions::default()).unwrap();
        assert_same(&graph, &read_bytes(name, &written, &ReadOptions::default()).unwrap());
    }
}

/// A forecast adds up kernels: the same ones are the same forecast. Which environments lower the
/// models.
fn assert_same_kernels(graph: &Graph, again: &Graph) -> usize {
    let mut lowered = 0;
    for (name, environment) in environments() {
        let kernels = |graph: &Graph| {
            let kernels = lower(graph, &environment).map_err(|e| e.to_string())?;
            let one = |node: &Node| (node.name.clone(), node.op.clone());
            Ok::<_, String>(kernels.nodes().iter().map(one).collect::<Vec<_>>())
        };
        let before = kernels(graph);
        lowered += usize::from(before.is_ok());
        assert!(before == kernels(again), "{} on {name}", graph.name());
    }
    lowered
}

#[test]
fn kernels_of_real_models() {
    for name in ["vit_tiny_patch16_224", "mobilevit_xxs", "edgenext_xx_small"] {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../tests/models/{name}.onnx"));
        let graph = read_file(&path, &ReadOptions::default()).unwrap();
        let written = to_bytes(&graph, &WriteOptions::default()).unwrap();
        let again = read_bytes(name, &written, &ReadOptions::default()).unwrap();
        let lowered = assert_same_kernels(&graph, &again);
        assert!(lowered > 15, "{name}: {lowered} environments");
    }
}

/// What ONNX Runtime's optimizer saves are kernels, in its own formats: lowering leaves them alone.
#[test]
fn kernels_of_onnxruntime_are_lowered_to_themselves() {
    for name in ["vit_tiny_patch16_224", "mobilevit_xxs", "edgenext_xx_small"] {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../tests/models/{name}.onnx"));
        let graph = read_file(&path, &ReadOptions::default()).unwrap();
        // Channels last, images would be transposed a second time. In int8, the engine moves
        // transposes that it left between integers when it loads its own kernels, and so do the
        // rules.
        let repeats = |environment: &Environment| {
            environment.framework == "onnxruntime"
                && environment.memory_format != Some(MemoryFormat::ChannelsLast)
                && environment.precision == Precision::F32
        };
        for (asked, environment) in environments().into_iter().filter(|(_, e)| repeats(e)) {
            let kernels = lower(&graph, &environment).unwrap();
            let again = lower(&kernels, &environment).unwrap();
            let operators = |graph: &Graph| -> Vec<_> {
                graph.nodes().iter().map(|node| node.op.clone()).collect()
            };
            assert!(operators(&kernels) == operators(&again), "{name} on {asked}");
        }
    }
}

/// The form of a reshape or padding decides about ONNX Runtime's fusions.
#[test]
fn forms_of_the_file_are_written() {
    let written_of = |graph: &Graph| -> Vec<_> {
        graph.nodes().iter().map(|node| (node.name.clone(), node.written)).collect()
    };
    let mut forms = std::collections::BTreeSet::new();
    for name in ["vit_tiny_patch16_224", "mobilevit_xxs", "edgenext_xx_small"] {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../tests/models/{name}.onnx"));
        let graph = read_file(&path, &ReadOptions::default()).unwrap();
        let half = Conversion::Half.apply(&graph, &Options::default()).unwrap();
        assert!(written_of(&graph) == written_of(&half), "{name} in f16");
        let bytes = to_bytes(&graph, &WriteOptions::default()).unwrap();
        let again = read_bytes(name, &bytes, &ReadOptions::default()).unwrap();
        assert!(written_of(&graph) == written_of(&again), "{name}");
        forms
            .extend(graph.nodes().iter().filter_map(|node| node.written).map(|w| format!("{w:?}")));
    }
    assert!(forms.len() > 1, "{forms:?}");
}

/// Models in int8 and f16 as well.
#[test]
fn real_models_in_other_precisions() {
    for name in ["vit_tiny_patch16_224", "mobilevit_xxs", "edgenext_xx_small"] {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../tests/models/{name}.onnx"));
        let graph = read_file(&path, &ReadOptions::default()).unwrap();
        for conversion in
            [Conversion::Qdq, Conversion::QdqResults, Conversion::Integer, Conversion::Half]
        {
            let converted = conversion.apply(&graph, &Options::default()).unwrap();
            let written = to_bytes(&converted, &WriteOptions::default()).unwrap();
            assert_same(&converted, &read_bytes(name, &written, &ReadOptions::default()).unwrap());
        }
    }
}

/// A file that was read, and gave another graph after it was written.
#[test]
fn a_function_of_booleans_is_refused_by_name() {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hostile/roundtrip_work_differs.onnx");
    let message = read_file(&path, &ReadOptions::default()).unwrap_err().to_string();
    assert!(message.contains("node `") && message.contains("bool"), "{message}");
}

#[test]
#[ignore = "reads the models of the folder that VITEMPO_ZOO names"]
fn models_of_the_zoo() {
    let folder = std::env::var_os("VITEMPO_ZOO").expect("VITEMPO_ZOO names a folder of models");
    let (mut folders, mut read) = (vec![std::path::PathBuf::from(folder)], 0);
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "onnx") {
                let graph = read_file(&path, &ReadOptions::default()).unwrap();
                let written = to_bytes(&graph, &WriteOptions::default()).unwrap();
                let again = read_bytes(graph.name(), &written, &ReadOptions::default()).unwrap();
                assert_same(&graph, &again);
                assert!(assert_same_kernels(&graph, &again) > 0, "{}", path.display());
                read += 1;
            }
        }
    }
    assert!(read > 0, "no model was read");
}

/// Inputs of these are read where weights stand, beside weights that the file stores: quantised,
/// they are stored as well.
#[test]
fn forms_of_models_with_inputs_in_the_place_of_weights() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/onnx_lower");
    let mut read = 0;
    for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if !path.file_name().unwrap().to_string_lossy().starts_with("forms_differ") {
            continue;
        }
        let graph = read_file(&path, &ReadOptions::default()).unwrap();
        for conversion in
            [Conversion::Qdq, Conversion::QdqResults, Conversion::Integer, Conversion::Half]
        {
            let converted = conversion.apply(&graph, &Options::default()).unwrap();
            let written = to_bytes(&converted, &WriteOptions::default()).unwrap();
            assert_same(
                &converted,
                &read_bytes("form", &written, &ReadOptions::default()).unwrap(),
            );
            read += 1;
        }
    }
    assert_eq!(read, 24);
}

/// Without values, a number or an integer is as unknown after writing as before.
#[test]
fn numbers_without_values_stay_unknown() {
    let mut b = GraphBuilder::new("unknown");
    let x = b.input("x", TensorSpec::f32([1, 4, 8]));
    let factor = b.weight("factor", TensorSpec::f32([]));
    let bias = b.weight("bias", TensorSpec::f32([8]));
    let rows = b.weight("rows", TensorSpec::new([2], Precision::I64));
    let y = b.binary("scaled", OpKind::Mul, x, factor).unwrap();
    let y = b.binary("sum", OpKind::Add, y, bias).unwrap();
    let picked = Attributes::new().with_int("axis", 1);
    let y = b.op("picked", OpKind::Gather, picked, &[y, rows]).unwrap();
    let graph = b.finish(vec![y]).unwrap();
    let bytes = to_bytes(&graph, &WriteOptions::default()).unwrap();
    let again = read_bytes("unknown", &bytes, &ReadOptions::default()).unwrap();
    assert_same(&graph, &again);
    let known = |name: &str| {
        let value = again.values().iter().find(|value| value.name == name).unwrap();
        matches!(value.source, ValueSource::Constant(Some(_)))
    };
    assert_eq!(["factor", "bias", "rows"].map(known), [false, true, false]);
    assert!(assert_same_kernels(&graph, &again) > 0);
    // A file with weights has them all.
    let seeded = to_bytes(&graph, &WriteOptions::seeded(1)).unwrap();
    let seeded = read_bytes("seeded", &seeded, &ReadOptions::default()).unwrap();
    assert!(seeded.values().iter().all(|v| v.source != ValueSource::Constant(None)));
}

/// A model that fuzzing found: a sum with a number that the file does not have.
#[test]
fn kernels_of_a_sum_with_an_unknown_number() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../fuzz/corpus/onnx_lower/number_without_value_2031.onnx");
    let graph = read_file(&path, &ReadOptions::default()).unwrap();
    let written = to_bytes(&graph, &WriteOptions::default()).unwrap();
    let again = read_bytes(graph.name(), &written, &ReadOptions::default()).unwrap();
    assert!(assert_same_kernels(&graph, &again) > 0);
}

/// Another: the scale of a DynamicQuantizeLinear is f32, and would have become f16.
#[test]
fn a_model_that_quantises_while_it_runs_stays_in_32_bits() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../fuzz/corpus/onnx_lower/half_of_dynamic_quantize_177407.onnx");
    let graph = read_file(&path, &ReadOptions::default()).unwrap();
    let half = Conversion::Half.apply(&graph, &Options::default()).unwrap();
    let written = to_bytes(&half, &WriteOptions::default()).unwrap();
    assert_same(&half, &read_bytes("half", &written, &ReadOptions::default()).unwrap());
}
