//! The reader's errors for invalid files, and its results for small models that compute shapes.
#![allow(clippy::unwrap_used)]

use prost::Message;
use vitempo_graph::onnx::proto::{
    AttributeProto, DimensionProto, FunctionProto, GraphProto, ModelProto, NodeProto,
    OperatorSetIdProto, TensorProto, TensorShapeProto, TensorTypeProto, TypeProto, ValueInfoProto,
};
use vitempo_graph::onnx::{OnnxError, ReadOptions, read_bytes, read_file};
use vitempo_graph::{ConstantData, Graph, OpKind, ValueSource};

fn node(op: &str, inputs: &[&str], outputs: &[&str]) -> NodeProto {
    let names = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect();
    NodeProto {
        op_type: op.to_owned(),
        input: names(inputs),
        output: names(outputs),
        ..Default::default()
    }
}

fn with_ints(mut node: NodeProto, name: &str, ints: &[i64]) -> NodeProto {
    let i = ints.first().copied().unwrap_or(0);
    node.attribute.push(AttributeProto {
        name: name.to_owned(),
        i: Some(i),
        ints: ints.to_vec(),
        ..Default::default()
    });
    node
}

fn info(name: &str, dims: &[i64]) -> ValueInfoProto {
    let dim =
        dims.iter().map(|&d| DimensionProto { dim_value: Some(d), dim_param: None }).collect();
    let tensor = TensorTypeProto { elem_type: 1, shape: Some(TensorShapeProto { dim }) };
    ValueInfoProto { name: name.to_owned(), r#type: Some(TypeProto { tensor_type: Some(tensor) }) }
}

fn ints(name: &str, values: &[i64]) -> TensorProto {
    TensorProto {
        name: name.to_owned(),
        dims: vec![values.len() as i64],
        data_type: 7,
        int64_data: values.to_vec(),
        ..Default::default()
    }
}

fn weight(name: &str, dims: &[i64]) -> TensorProto {
    TensorProto {
        name: name.to_owned(),
        dims: dims.to_vec(),
        data_type: 1,
        data_location: 1,
        ..Default::default()
    }
}

/// A model with input `x` and output `y`.
fn model(input: &[i64], initializer: Vec<TensorProto>, node: Vec<NodeProto>) -> ModelProto {
    let graph = GraphProto {
        name: "g".to_owned(),
        node,
        initializer,
        input: vec![info("x", input)],
        output: vec![info("y", &[])],
        ..Default::default()
    };
    let opset_import = vec![OperatorSetIdProto { domain: String::new(), version: 17 }];
    ModelProto { ir_version: 8, graph: Some(graph), opset_import, ..Default::default() }
}

fn read(model: &ModelProto) -> Result<Graph, OnnxError> {
    read_bytes("m.onnx", &model.encode_to_vec(), &ReadOptions::default())
}

#[test]
fn wrong_models_are_refused_by_name() {
    let relu = || node("Relu", &["x"], &["y"]);
    let mut symbolic = model(&[1, 3], vec![], vec![relu()]);
    symbolic.graph.as_mut().unwrap().input[0]
        .r#type
        .as_mut()
        .unwrap()
        .tensor_type
        .as_mut()
        .unwrap()
        .shape
        .as_mut()
        .unwrap()
        .dim[0] = DimensionProto { dim_value: None, dim_param: Some("batch".to_owned()) };
    let mut silent = model(&[1], vec![], vec![relu()]);
    silent.graph.as_mut().unwrap().output.clear();
    let mut old = model(&[1], vec![], vec![relu()]);
    old.opset_import[0].version = 3;
    let reshape = |target: TensorProto| {
        model(&[2, 3], vec![target], vec![node("Reshape", &["x", "s"], &["y"])])
    };
    let filled = |dims: &[i64]| {
        model(
            &[1],
            vec![ints("s", dims)],
            vec![node("ConstantOfShape", &["s"], &["c"]), node("Add", &["x", "c"], &["y"])],
        )
    };
    let cases: Vec<(ModelProto, &[&str])> = vec![
        (ModelProto { ir_version: 8, ..Default::default() }, &["not an ONNX model", "no graph"]),
        (symbolic, &["dimension 0", "`x`", "`batch` has no value"]),
        (model(&[0, 3], vec![], vec![relu()]), &["dimension 0", "`x:0` has no value"]),
        (model(&[-7, 3], vec![], vec![relu()]), &["`x`", "dimension of -7"]),
        (model(&[1 << 30, 1 << 30], vec![], vec![relu()]), &["`x`", "2^40"]),
        (model(&[1; 40], vec![], vec![relu()]), &["40 dimensions"]),
        (silent, &["no outputs"]),
        (old, &["operator set 3"]),
        (model(&[1], vec![], vec![node("Relu", &["x"], &["z"])]), &["output `y`"]),
        (model(&[1], vec![], vec![node("Add", &["x", "lost"], &["y"])]), &["Add_0", "lost"]),
        (model(&[1], vec![], vec![relu(), relu()]), &["`y`", "twice"]),
        (
            model(
                &[1],
                vec![],
                vec![node("Add", &["x", "y"], &["z"]), node("Relu", &["z"], &["y"])],
            ),
            &["cycle"],
        ),
        (
            model(&[1, 3], vec![weight("w", &[4, 5])], vec![node("MatMul", &["x", "w"], &["y"])]),
            &["MatMul_0", "1x3 and 4x5"],
        ),
        (
            model(&[1, 3], vec![weight("w", &[4, -5])], vec![node("MatMul", &["x", "w"], &["y"])]),
            &["`w`", "dimension of -5"],
        ),
        (reshape(ints("s", &[7])), &["Reshape_0", "2x3"]),
        (
            reshape(TensorProto { data_location: 1, int64_data: vec![], ..ints("s", &[3, 2]) }),
            &["Reshape_0", "`s`", "not in the file"],
        ),
        (reshape(TensorProto { dims: vec![3], ..ints("s", &[3, 2]) }), &["`s`", "2 values"]),
        (filled(&[1 << 40, 2]), &["ConstantOfShape_0"]),
        (filled(&[-1]), &["ConstantOfShape_0"]),
    ];
    for (model, expected) in cases {
        let error = read(&model).expect_err(expected[0]).to_string();
        assert!(
            error.contains("m.onnx") && expected.iter().all(|e| error.contains(e)),
            "{error} should name {expected:?}"
        );
    }
}

/// A length-delimited protobuf field.
fn field(tag: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![tag << 3 | 2];
    prost::encode_length_delimiter(payload.len(), &mut bytes).unwrap();
    bytes.extend_from_slice(payload);
    bytes
}

#[test]
fn what_is_not_onnx_is_recognised() {
    // Subgraphs in attributes of nodes, a thousand deep, which the reader refuses:
    // GraphProto.node (1) > NodeProto.attribute (5) > AttributeProto.g (6).
    let mut deep = Vec::new();
    for _ in 0..1000 {
        for tag in [6, 5, 1] {
            deep = field(tag, &deep);
        }
    }
    let deep = field(7, &deep);
    let good = model(&[1], vec![], vec![node("Relu", &["x"], &["y"])]).encode_to_vec();
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (vec![], "an empty file"),
        (b"<html></html>".to_vec(), "HTML"),
        (b"\x1c\0\0\0TFL3\x14\0 ".to_vec(), "TFLite"),
        (b"PK\x03\x04 archive/data.pkl".to_vec(), "zip"),
        (good[..good.len() - 3].to_vec(), "truncated"),
        ([good.as_slice(), b"\0\0garbage"].concat(), "damaged"),
        (deep, "nested deeper than 32"),
    ];
    for (bytes, expected) in cases {
        let error =
            read_bytes("m.onnx", &bytes, &ReadOptions::default()).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error} should name {expected}");
    }
    assert!(matches!(
        read_file(std::path::Path::new("no/such.onnx"), &ReadOptions::default()),
        Err(OnnxError::Io { .. })
    ));
}

#[test]
fn dimensions_are_given_by_symbol_or_by_place() {
    let mut m = model(&[0, 3], vec![], vec![node("Relu", &["x"], &["y"])]);
    let options = |key: &str| ReadOptions {
        dimensions: [(key.to_owned(), 4)].into(),
        ..ReadOptions::default()
    };
    let by_place = read_bytes("m", &m.encode_to_vec(), &options("x:0")).unwrap();
    let dims = &mut m.graph.as_mut().unwrap().input[0]
        .r#type
        .as_mut()
        .unwrap()
        .tensor_type
        .as_mut()
        .unwrap()
        .shape
        .as_mut()
        .unwrap()
        .dim;
    dims[0] = DimensionProto { dim_value: None, dim_param: Some("batch".to_owned()) };
    let by_symbol = read_bytes("m", &m.encode_to_vec(), &options("batch")).unwrap();
    for graph in [by_place, by_symbol] {
        assert_eq!(graph.nodes()[0].op.outputs[0].shape[..], [4, 3]);
    }
}

/// `x` reshaped to [dim 0, dim 1 / 2, -1], as exporters spell it.
fn computed_reshape() -> Vec<NodeProto> {
    vec![
        node("Shape", &["x"], &["shape"]),
        with_ints(node("Gather", &["shape", "zero"], &["batch"]), "axis", &[0]),
        with_ints(node("Gather", &["shape", "one"], &["width"]), "axis", &[0]),
        node("Div", &["width", "two"], &["half"]),
        with_ints(node("Concat", &["batch", "half", "rest"], &["target"]), "axis", &[0]),
        node("Reshape", &["x", "target"], &["y"]),
    ]
}

#[test]
fn shape_arithmetic_is_folded_away() {
    let constants =
        vec![ints("zero", &[0]), ints("one", &[1]), ints("two", &[2]), ints("rest", &[-1])];
    let graph = read(&model(&[5, 8, 3], constants.clone(), computed_reshape())).unwrap();
    assert_eq!(graph.nodes().len(), 1);
    assert_eq!(graph.nodes()[0].op.outputs[0].shape[..], [5, 4, 6]);
    assert_eq!(graph.values().len(), 2, "unused constants are dropped");
    let backwards: Vec<NodeProto> = computed_reshape().into_iter().rev().collect();
    let sorted = read(&model(&[5, 8, 3], constants, backwards)).unwrap();
    assert_eq!(sorted.architecture(), graph.architecture(), "nodes may come in any order");
}

#[test]
fn weights_without_values_fold_to_weights_without_values() {
    let nodes = vec![
        with_ints(node("Transpose", &["w"], &["wt"]), "perm", &[1, 0]),
        node("MatMul", &["x", "wt"], &["y"]),
    ];
    let graph = read(&model(&[1, 3], vec![weight("w", &[5, 3])], nodes)).unwrap();
    assert_eq!(graph.nodes().len(), 1);
    assert_eq!(graph.nodes()[0].op.kind, OpKind::Linear);
    let right = graph.value(graph.nodes()[0].inputs[1]);
    assert_eq!((right.name.as_str(), &right.source), ("wt", &ValueSource::Constant(None)));
    assert_eq!(right.tensor.as_ref().unwrap().shape[..], [3, 5]);
}

/// Folded values, computed by hand: nodes that make `y` from integer constants `a`, `b`.
#[test]
fn folded_values_are_right() {
    let cases: Vec<(Vec<NodeProto>, &[i64])> = vec![
        (vec![node("Add", &["a", "b"], &["y"])], &[11, 22, 33]),
        (vec![node("Sub", &["b", "a"], &["y"])], &[9, 18, 27]),
        (vec![node("Div", &["b", "a"], &["y"])], &[10, 10, 10]),
        (vec![node("Mod", &["b", "three"], &["y"])], &[1, 2, 0]),
        (vec![node("Max", &["a", "two"], &["y"])], &[2, 2, 3]),
        (vec![with_ints(node("Concat", &["a", "two"], &["y"]), "axis", &[0])], &[1, 2, 3, 2]),
        (vec![node("Slice", &["b", "minus", "far"], &["y"])], &[30]),
        (vec![node("Tile", &["a", "two"], &["y"])], &[1, 2, 3, 1, 2, 3]),
        (vec![node("Expand", &["two", "three"], &["y"])], &[2, 2, 2]),
        (
            vec![node("Equal", &["a", "two"], &["c"]), node("Where", &["c", "b", "a"], &["y"])],
            &[1, 20, 3],
        ),
        (vec![with_ints(node("ReduceProd", &["a"], &["y"]), "keepdims", &[1])], &[6]),
        (
            vec![
                with_ints(node("Cast", &["a"], &["f"]), "to", &[1]),
                node("Sqrt", &["f"], &["r"]),
                with_ints(node("Cast", &["r"], &["y"]), "to", &[7]),
            ],
            &[1, 1, 1],
        ),
        (vec![node("Range", &["zero", "three", "one"], &["y"])], &[0, 1, 2]),
        (
            vec![node("NonZero", &["a"], &["n"]), node("Reshape", &["n", "minus"], &["y"])],
            &[0, 1, 2],
        ),
        (vec![with_ints(node("Gather", &["b", "two"], &["y"]), "axis", &[0])], &[30]),
        (
            vec![
                node("Shape", &["x"], &["s"]),
                node("Size", &["x"], &["n"]),
                node("Mul", &["s", "n"], &["y"]),
            ],
            &[12, 18],
        ),
    ];
    for (nodes, expected) in cases {
        let op = nodes.last().unwrap().op_type.clone();
        let constants = vec![
            ints("a", &[1, 2, 3]),
            ints("b", &[10, 20, 30]),
            ints("zero", &[0]),
            ints("one", &[1]),
            ints("two", &[2]),
            ints("three", &[3]),
            ints("minus", &[-1]),
            ints("far", &[i64::MAX]),
        ];
        let graph = read(&model(&[2, 3], constants, nodes)).unwrap_or_else(|e| panic!("{op}: {e}"));
        assert!(graph.nodes().is_empty(), "{op}");
        let y = graph.value(graph.outputs()[0]);
        assert_eq!(
            y.source,
            ValueSource::Constant(Some(ConstantData::Ints(expected.to_vec()))),
            "{op}"
        );
    }
}

#[test]
fn a_call_of_a_function_of_the_file_says_what_to_do() {
    let mut call = node("Block", &["x"], &["y"]);
    call.domain = "own".to_owned();
    let mut m = model(&[2, 3], vec![], vec![call]);
    let reason = |m: &ModelProto| {
        let attributes = read(m).unwrap().nodes()[0].op.attributes.clone();
        attributes.text("reason").map(str::to_owned)
    };
    m.functions = vec![FunctionProto { name: "Other".to_owned(), domain: "own".to_owned() }];
    assert_eq!(reason(&m), None);
    m.functions[0].name = "Block".to_owned();
    assert!(reason(&m).unwrap().contains("inline_local_functions"));
}

#[test]
fn unknown_operators_stay_by_name() {
    let mut m = model(
        &[2, 3],
        vec![],
        vec![
            node("Frobnicate", &["x"], &["u"]),
            node("Relu", &["u"], &["v"]),
            node("Relu", &["v"], &["y"]),
        ],
    );
    m.graph.as_mut().unwrap().value_info.push(info("v", &[2, 9]));
    let graph = read(&m).unwrap();
    let unsupported: Vec<_> = graph.unsupported().collect();
    assert_eq!(unsupported, [("Frobnicate_0", "Frobnicate"), ("Relu_1", "Relu")]);
    assert!(graph.nodes()[1].op.attributes.text("reason").unwrap().contains("`u`"));
    assert_eq!(graph.nodes()[2].op.kind, OpKind::Relu);
    assert_eq!(graph.nodes()[2].op.outputs[0].shape[..], [2, 9]);
    m.graph.as_mut().unwrap().value_info.push(info("damaged", &[1]));
    let mut bytes = m.encode_to_vec();
    let at = bytes.windows(7).position(|name| name == b"damaged").unwrap();
    bytes[at] = 0xff;
    let error = read_bytes("m.onnx", &bytes, &ReadOptions::default()).unwrap_err().to_string();
    assert!(error.contains("the shapes it declares are damaged"), "{error}");
}

#[test]
fn names_are_kept_where_they_are_unique() {
    let named = |name: &str, from: &str, to: &str| NodeProto {
        name: name.to_owned(),
        ..node("Relu", &[from], &[to])
    };
    let graph = read(&model(
        &[1],
        vec![],
        vec![
            named("a", "x", "b"),
            named("twice", "b", "c"),
            named("twice", "c", "d"),
            named("", "d", "y"),
        ],
    ))
    .unwrap();
    let names: Vec<&str> = graph.nodes().iter().map(|n| n.name.as_str()).collect();
    assert_eq!(names, ["a", "Relu_1", "Relu_2", "Relu_3"]);
}

#[test]
fn small_files_do_not_become_large() {
    let names: Vec<String> = (0..3000).map(|i| format!("c{i}")).collect();
    let fill =
        AttributeProto { name: "value".to_owned(), t: Some(ints("", &[7])), ..Default::default() };
    let one = |name: &String| NodeProto {
        attribute: vec![fill.clone()],
        ..node("ConstantOfShape", &["many"], &[name.as_str()])
    };
    let mut nodes: Vec<NodeProto> = names.iter().map(one).collect();
    let mut all: Vec<&str> = vec!["x"];
    all.extend(names.iter().map(String::as_str));
    nodes.push(node("Sum", &all, &["y"]));
    let graph = read(&model(&[4096], vec![ints("many", &[4096])], nodes)).unwrap();
    let kept = |source: &ValueSource| match source {
        ValueSource::Constant(Some(ConstantData::Floats(v))) => v.len(),
        ValueSource::Constant(Some(ConstantData::Ints(v))) => v.len(),
        _ => 0,
    };
    let total: usize = graph.values().iter().map(|v| kept(&v.source)).sum();
    assert!(total > 0 && total <= 1 << 22, "{total}");
    assert_eq!(graph.nodes()[0].op.inputs.len(), 3001);
}
