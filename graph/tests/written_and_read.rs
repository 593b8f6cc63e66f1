//! Files that were read, and gave other operators after they were written: numbers that the element
//! type of a tensor does not have, Gemm of what is no matrix, and operators that are functions.
#![allow(clippy::unwrap_used)]

use prost::Message;
use vitempo_graph::onnx::proto::{
    AttributeProto, DimensionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto,
    TensorProto, TensorShapeProto, TensorTypeProto, TypeProto, ValueInfoProto,
};
use vitempo_graph::onnx::{
    OnnxError, ReadOptions, WriteOptions, read_bytes, read_bytes_with_notes, to_bytes,
};
use vitempo_graph::{Graph, OpKind, OpSpec, Precision, quantize};

/// Numbers of element types in a file.
const F32: i32 = 1;
const U8: i32 = 2;
const I32: i32 = 6;
const BOOL: i32 = 9;
const F16: i32 = 10;
const BF16: i32 = 16;

fn info(name: &str, elem_type: i32, shape: &[i64]) -> ValueInfoProto {
    let dim = |&d: &i64| DimensionProto { dim_value: Some(d), dim_param: None };
    let shape = Some(TensorShapeProto { dim: shape.iter().map(dim).collect() });
    let tensor_type = Some(TensorTypeProto { elem_type, shape });
    ValueInfoProto { name: name.to_owned(), r#type: Some(TypeProto { tensor_type }) }
}

fn float(name: &str, value: f32) -> AttributeProto {
    AttributeProto { name: name.to_owned(), r#type: 1, f: Some(value), ..Default::default() }
}

fn numbers(name: &str, data_type: i32, values: &[f32]) -> TensorProto {
    let mut tensor = TensorProto { name: name.to_owned(), data_type, ..TensorProto::default() };
    match data_type {
        F32 => tensor.float_data = values.to_vec(),
        _ => tensor.int32_data = values.iter().map(|&v| v as i32).collect(),
    }
    if values.len() > 1 {
        tensor.dims = vec![values.len() as i64];
    }
    tensor
}

/// A file of one operator that reads `x`, of that type and shape, and initializers.
fn file(
    (operator, opset): (&str, i64),
    (elem_type, shape): (i32, &[i64]),
    attribute: Vec<AttributeProto>,
    initializer: Vec<TensorProto>,
) -> Vec<u8> {
    let names = initializer.iter().map(|tensor| tensor.name.clone());
    let node = NodeProto {
        name: "node".to_owned(),
        op_type: operator.to_owned(),
        input: std::iter::once("x".to_owned()).chain(names).collect(),
        output: vec!["y".to_owned()],
        attribute,
        ..NodeProto::default()
    };
    let graph = GraphProto {
        node: vec![node],
        initializer,
        input: vec![info("x", elem_type, shape)],
        output: vec![info("y", elem_type, shape)],
        ..GraphProto::default()
    };
    let opset = OperatorSetIdProto { domain: String::new(), version: opset };
    ModelProto { graph: Some(graph), opset_import: vec![opset], ..ModelProto::default() }
        .encode_to_vec()
}

fn read(bytes: &[u8]) -> Result<Graph, OnnxError> {
    read_bytes("m", bytes, &ReadOptions::default())
}

fn operators(graph: &Graph) -> Vec<OpSpec> {
    graph.nodes().iter().map(|node| node.op.clone()).collect()
}

fn written(graph: &Graph) -> Graph {
    read(&to_bytes(graph, &WriteOptions::default()).unwrap()).unwrap()
}

/// The file's graph, which is that of what is written for it.
fn round_trip(bytes: &[u8]) -> Graph {
    let graph = read(bytes).unwrap();
    assert_eq!(operators(&graph), operators(&written(&graph)));
    graph
}

#[test]
fn numbers_are_those_that_the_element_type_has() {
    let bounds = |min: f32, max: f32| vec![float("min", min), float("max", max)];
    // Element type, bounds in the file, bounds that hold.
    let cases = [
        (F32, (0.1, 6.0), (Some(f64::from(0.1f32)), Some(6.0))),
        (F16, (5.96e-10, 1e6), (Some(0.0), None)),
        (F16, (-0.1, 0.1), (Some(-0.099_975_585_937_5), Some(0.099_975_585_937_5))),
        (BF16, (-257.0, f32::INFINITY), (Some(-256.0), None)),
        (I32, (0.4, 3e9), (Some(0.0), Some(2_147_483_648.0))),
        (U8, (-3.0, 300.0), (Some(0.0), Some(255.0))),
    ];
    for (elem_type, (min, max), expected) in cases {
        let graph = round_trip(&file(("Clip", 7), (elem_type, &[4]), bounds(min, max), vec![]));
        let attributes = &graph.nodes()[0].op.attributes;
        assert_eq!((attributes.float("min"), attributes.float("max")), expected, "{elem_type}");
    }
}

#[test]
fn a_model_in_f16_has_bounds_in_f16() {
    let graph = read(&file(("Clip", 7), (F32, &[4]), vec![float("max", 0.1)], vec![])).unwrap();
    let half = quantize::half(&graph).unwrap();
    assert_eq!(half.nodes()[0].op.inputs[0].tensor.precision, Precision::F16);
    assert_eq!(operators(&half), operators(&written(&half)));
}

/// Types that ONNX does not allow, and readers take all the same.
#[test]
fn products_of_other_types_are_quantised_as_far_as_they_are_floats() {
    let weight = TensorProto { dims: vec![4, 2], ..numbers("w", F32, &[1.0; 8]) };
    let bias = numbers("b", I32, &[1.0, 2.0]);
    let files = [
        file(("Gemm", 13), (F32, &[3, 4]), vec![], vec![weight.clone(), bias]),
        file(("MatMulInteger", 13), (F32, &[3, 4]), vec![], vec![weight]),
        file(("QuantizeLinear", 13), (F32, &[4]), vec![], {
            vec![numbers("scale", F32, &[1.0]), numbers("zero", F32, &[0.0])]
        }),
    ];
    for bytes in files {
        let graph = round_trip(&bytes);
        let options = quantize::Options::default();
        for converted in [
            quantize::qdq(&graph, &options).unwrap(),
            quantize::integer(&graph, &options).unwrap(),
            quantize::half(&graph).unwrap(),
        ] {
            assert_eq!(operators(&converted), operators(&written(&converted)));
        }
    }
    let sum = file(("Sum", 13), (BOOL, &[2]), vec![], vec![]);
    let message = read(&sum).unwrap_err().to_string();
    assert!(message.contains("bool"), "{message}");
}

#[test]
fn an_exponent_keeps_its_value_whatever_the_base_is() {
    for exponent in [2.0, 0.1, 1e-9, 70_000.0] {
        let weight = numbers("exponent", F32, &[exponent]);
        for base in [F32, F16, BF16, I32] {
            let graph = round_trip(&file(("Pow", 13), (base, &[4]), vec![], vec![weight.clone()]));
            let read = graph.nodes()[0].op.attributes.float("exponent");
            assert_eq!(read, Some(f64::from(exponent)));
        }
    }
}

#[test]
fn truth_values_are_zero_and_one() {
    let pads = AttributeProto {
        name: "pads".to_owned(),
        r#type: 7,
        ints: vec![1, 1],
        ..Default::default()
    };
    for (elem_type, value, expected) in
        [(BOOL, 2.0, Some(1.0)), (F16, 1e-9, None), (U8, 300.0, Some(255.0)), (F16, 1e6, None)]
    {
        let attributes = vec![pads.clone(), float("value", value)];
        let graph = round_trip(&file(("Pad", 7), (elem_type, &[4]), attributes, vec![]));
        assert_eq!(graph.nodes()[0].op.attributes.float("value"), expected, "{value}");
    }
    let truths = file(("Where", 16), (BOOL, &[2]), vec![], {
        vec![numbers("a", BOOL, &[2.0, 0.0]), numbers("b", BOOL, &[-1.0, 7.0])]
    });
    round_trip(&truths);
}

#[test]
fn gemm_takes_matrices() {
    for (shape, weight) in [(&[2, 3, 4][..], vec![4, 5]), (&[4], vec![4, 5]), (&[3, 4], vec![4])] {
        let elements = weight.iter().product::<i64>() as usize;
        let tensor = TensorProto { dims: weight, ..numbers("w", F32, &vec![1.0; elements]) };
        let bytes = file(("Gemm", 13), (F32, shape), vec![float("alpha", 0.5)], vec![tensor]);
        let message = read(&bytes).unwrap_err().to_string();
        assert!(message.contains("node `node`") && message.contains("matrices only"), "{message}");
    }
}

#[test]
fn a_value_for_a_dimension_that_no_tensor_has_is_noted() {
    let mut model =
        ModelProto::decode(&*file(("Relu", 13), (F32, &[1, 4]), vec![], vec![])).unwrap();
    let with = |model: &ModelProto, name: &str| {
        let dimensions = [(name.to_owned(), 8)].into_iter().collect();
        let options = ReadOptions { dimensions, ..ReadOptions::default() };
        let read = read_bytes_with_notes("m", &model.encode_to_vec(), &options).unwrap();
        read.with_all_dimensions_used().map_err(|e| e.to_string())
    };
    for name in ["batch", "x:0"] {
        let message = with(&model, name).unwrap_err();
        assert!(message.contains(name) && message.contains("fixed"), "{message}");
    }
    let input = &mut model.graph.as_mut().unwrap().input[0];
    let tensor = input.r#type.as_mut().unwrap().tensor_type.as_mut().unwrap();
    tensor.shape.as_mut().unwrap().dim[0] =
        DimensionProto { dim_value: None, dim_param: Some("batch".to_owned()) };
    for name in ["batch", "x:0"] {
        let graph = with(&model, name).unwrap().graph;
        assert_eq!(graph.nodes()[0].op.inputs[0].tensor.shape[..], [8, 4], "{name}");
    }
}

/// The same file, whose node reads these inputs.
fn reading(inputs: &[&str], bytes: &[u8]) -> Vec<u8> {
    let mut model = ModelProto::decode(bytes).unwrap();
    let graph = model.graph.as_mut().unwrap();
    graph.node[0].input = inputs.iter().map(|&name| name.to_owned()).collect();
    model.encode_to_vec()
}

#[test]
fn attributes_that_change_results_but_no_shape_are_kept() {
    let int = |name: &str, value: i64| AttributeProto {
        name: name.to_owned(),
        r#type: 2,
        i: Some(value),
        ..Default::default()
    };
    let integer = |name: &str, value: i64| TensorProto {
        name: name.to_owned(),
        data_type: 7,
        int64_data: vec![value],
        ..TensorProto::default()
    };
    let attribute = |operator, attributes, constant: TensorProto, name: &str| {
        let bytes = file((operator, 20), (F32, &[4, 4]), attributes, vec![constant]);
        let bytes = if operator == "TopK" { providing(&["y", "at"], &bytes) } else { bytes };
        round_trip(&bytes).nodes()[0].op.attributes.int(name)
    };
    let one = || integer("k", 1);
    assert_eq!(attribute("TopK", vec![int("largest", 0)], one(), "largest"), Some(0));
    assert_eq!(attribute("TopK", vec![int("largest", 1)], one(), "largest"), None);
    assert_eq!(attribute("CumSum", vec![int("reverse", 1)], one(), "reverse"), Some(1));
    assert_eq!(attribute("CumSum", vec![int("exclusive", 1)], one(), "exclusive"), Some(1));
    assert_eq!(attribute("Trilu", vec![], integer("k", -2), "k"), Some(-2));
    assert_eq!(attribute("Trilu", vec![], integer("k", 0), "k"), None);
}

#[test]
fn a_computed_bound_is_an_operand() {
    let clip = file(("Clip", 13), (F32, &[4]), vec![], vec![numbers("low", F32, &[0.0])]);
    let kind = |inputs: &[&str]| round_trip(&reading(inputs, &clip)).nodes()[0].op.kind.clone();
    assert_eq!(kind(&["x", "x"]), OpKind::Max);
    assert_eq!(kind(&["x", "", "x"]), OpKind::Min);
    assert_eq!(kind(&["x", "low"]), OpKind::Clip);
    let both = read(&reading(&["x", "low", "x"], &clip)).unwrap();
    assert_eq!(both.unsupported().count(), 1);
}

#[test]
fn resizing_multiplies_as_engines_do() {
    let extent = |shape: i64, factor: f32| {
        let scales = numbers("scales", F32, &[1.0, factor]);
        let bytes = file(("Resize", 13), (F32, &[1, shape]), vec![], vec![scales]);
        let graph = read(&reading(&["x", "", "scales"], &bytes)).unwrap();
        graph.value(graph.outputs()[0]).tensor.as_ref().unwrap().shape[1]
    };
    for (shape, size) in [(3, 7), (20, 7), (24, 10), (56, 60)] {
        assert_eq!(extent(shape, size as f32 / shape as f32), size as usize, "{shape}");
    }
}

#[test]
fn swish_is_the_function_that_defines_it() {
    let kinds = |alpha: Option<f32>| {
        let attributes = alpha.map(|alpha| float("alpha", alpha)).into_iter().collect();
        let graph = round_trip(&file(("Swish", 24), (F32, &[2, 3]), attributes, vec![]));
        assert_eq!(graph.value(graph.outputs()[0]).name, "y");
        graph.nodes().iter().map(|node| node.op.kind.clone()).collect::<Vec<_>>()
    };
    assert_eq!(kinds(None), [OpKind::Sigmoid, OpKind::Mul]);
    assert_eq!(kinds(Some(1.0)), [OpKind::Sigmoid, OpKind::Mul]);
    assert_eq!(kinds(Some(1.5)), [OpKind::Mul, OpKind::Sigmoid, OpKind::Mul]);
    let message = read(&file(("Swish", 24), (BOOL, &[2]), vec![], vec![])).unwrap_err().to_string();
    assert!(message.contains("node `node`") && message.contains("bool"), "{message}");
}

/// The same file, whose node has these outputs; `y` is the one of the model.
fn providing(outputs: &[&str], bytes: &[u8]) -> Vec<u8> {
    let mut model = ModelProto::decode(bytes).unwrap();
    let graph = model.graph.as_mut().unwrap();
    graph.node[0].output = outputs.iter().map(|&name| name.to_owned()).collect();
    model.encode_to_vec()
}

fn place_of_the_output(graph: &Graph) -> Option<usize> {
    graph.nodes()[0].outputs.iter().position(|id| graph.outputs() == [*id])
}

#[test]
fn an_output_keeps_its_place_where_one_before_it_has_no_name() {
    let parts = TensorProto {
        name: "parts".to_owned(),
        dims: vec![3],
        data_type: 7,
        int64_data: vec![1, 2, 3],
        ..TensorProto::default()
    };
    let split = file(("Split", 13), (F32, &[6, 4]), vec![], vec![parts]);
    let norm = file(("LayerNormalization", 17), (F32, &[6, 4]), vec![], {
        vec![numbers("scale", F32, &[1.0; 4])]
    });
    let dynamic = file(("DynamicQuantizeLinear", 11), (F32, &[4]), vec![], vec![]);
    // The file, its outputs, the place of `y`, how many outputs there are.
    let cases: [(&[u8], &[&str], usize, usize); 8] = [
        (&split, &["", "y", ""], 1, 3),
        (&split, &["", "", "y"], 2, 3),
        (&split, &["y", "", ""], 0, 3),
        (&norm, &["normed", "", "y"], 2, 3),
        (&norm, &["normed", "y", ""], 1, 2),
        (&norm, &["y", "", ""], 0, 1),
        (&dynamic, &["quantized", "y", "zero"], 1, 3),
        (&dynamic, &["y", "scale", "zero"], 0, 3),
    ];
    for (bytes, names, place, count) in cases {
        let graph = round_trip(&providing(names, bytes));
        for graph in [&graph, &written(&graph)] {
            assert_eq!(place_of_the_output(graph), Some(place), "{names:?}");
            assert_eq!(graph.nodes()[0].outputs.len(), count, "{names:?}");
        }
    }
    let graph = read(&providing(&["", "y", ""], &split)).unwrap();
    let rows = graph.nodes()[0].op.outputs.iter().map(|part| part.shape[0]);
    assert_eq!(rows.collect::<Vec<_>>(), [1, 2, 3]);
}

#[test]
fn a_name_for_an_output_is_of_no_other_value() {
    let bytes = file(("Split", 18), (F32, &[6, 4]), vec![], vec![]);
    let mut model = ModelProto::decode(&*providing(&["", "", "y"], &bytes)).unwrap();
    let graph = model.graph.as_mut().unwrap();
    graph.input.push(info("Split_0/output_0", F32, &[1]));
    let mut relu = graph.node[0].clone();
    (relu.name, relu.op_type) = ("relu".to_owned(), "Relu".to_owned());
    relu.output = vec!["Split_0/output_1".to_owned()];
    graph.node.push(relu);
    graph.output.push(info("Split_0/output_1", F32, &[6, 4]));
    let graph = round_trip(&model.encode_to_vec());
    let mut names: Vec<&str> = graph.values().iter().map(|value| value.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 6, "{names:?}");
}

#[test]
fn an_output_that_an_operator_always_has_needs_a_name() {
    let k = AttributeProto { name: "k".to_owned(), r#type: 2, i: Some(2), ..Default::default() };
    let window = AttributeProto {
        name: "kernel_shape".to_owned(),
        r#type: 7,
        ints: vec![2, 2],
        ..Default::default()
    };
    let top = file(("TopK", 9), (F32, &[4]), vec![k], vec![]);
    let pool = file(("MaxPool", 12), (F32, &[1, 2, 4, 4]), vec![window], vec![]);
    let dynamic = file(("DynamicQuantizeLinear", 11), (F32, &[4]), vec![], vec![]);
    let swish = file(("Swish", 24), (F32, &[4]), vec![], vec![]);
    let cases: [(&[u8], &[&str], usize); 6] = [
        (&top, &["", "y"], 0),
        (&top, &["y", ""], 1),
        (&top, &["y"], 1),
        (&pool, &["", "y"], 0),
        (&dynamic, &["quantized", "", "y"], 1),
        (&swish, &["", "y"], 0),
    ];
    for (bytes, names, place) in cases {
        let message = read(&providing(names, bytes)).unwrap_err().to_string();
        let expected = format!("has no name for its output {place}");
        assert!(message.contains("node `node`") && message.contains(&expected), "{message}");
    }
}
