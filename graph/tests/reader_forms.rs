//! What the reader makes of element types, of graphs within operators, and of forms of operators
//! that few models have.
#![allow(clippy::unwrap_used)]

use prost::Message;
use vitempo_graph::onnx::proto::{
    AttributeProto, DimensionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto,
    TensorProto, TensorShapeProto, TensorTypeProto, TypeProto, ValueInfoProto,
};
use vitempo_graph::onnx::{ReadOptions, WriteOptions, read_bytes, to_bytes};
use vitempo_graph::{ConstantData, Graph, OpKind, Precision, ValueSource, Work};

const FLOAT: i32 = 1;
const UINT8: i32 = 2;
const INT8: i32 = 3;
const INT32: i32 = 6;
const INT64: i32 = 7;
const FLOAT16: i32 = 10;
const UINT32: i32 = 12;

fn node(op: &str, inputs: &[&str], outputs: &[&str]) -> NodeProto {
    let names = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect();
    NodeProto {
        op_type: op.to_owned(),
        input: names(inputs),
        output: names(outputs),
        ..NodeProto::default()
    }
}

fn with(mut node: NodeProto, name: &str, value: i64) -> NodeProto {
    let name = name.to_owned();
    node.attribute.push(AttributeProto { name, i: Some(value), ..AttributeProto::default() });
    node
}

fn with_ints(mut node: NodeProto, name: &str, ints: &[i64]) -> NodeProto {
    let (name, ints) = (name.to_owned(), ints.to_vec());
    node.attribute.push(AttributeProto { name, ints, ..AttributeProto::default() });
    node
}

fn with_text(mut node: NodeProto, name: &str, text: &str) -> NodeProto {
    let (name, s) = (name.to_owned(), text.as_bytes().to_vec());
    node.attribute.push(AttributeProto { name, s, ..AttributeProto::default() });
    node
}

fn with_graph(mut node: NodeProto, name: &str, graph: GraphProto) -> NodeProto {
    let (name, g) = (name.to_owned(), Some(Box::new(graph)));
    node.attribute.push(AttributeProto { name, g, ..AttributeProto::default() });
    node
}

fn cast(from: &str, to: i32, name: &str) -> NodeProto {
    with(node("Cast", &[from], &[name]), "to", to.into())
}

fn info(name: &str, elem_type: i32, dims: &[i64]) -> ValueInfoProto {
    let dim =
        dims.iter().map(|&d| DimensionProto { dim_value: Some(d), dim_param: None }).collect();
    let tensor = TensorTypeProto { elem_type, shape: Some(TensorShapeProto { dim }) };
    ValueInfoProto { name: name.to_owned(), r#type: Some(TypeProto { tensor_type: Some(tensor) }) }
}

fn ints(name: &str, values: &[i64]) -> TensorProto {
    TensorProto {
        name: name.to_owned(),
        dims: vec![values.len() as i64],
        data_type: INT64,
        int64_data: values.to_vec(),
        ..TensorProto::default()
    }
}

fn floats(name: &str, dims: &[i64], values: &[f32]) -> TensorProto {
    TensorProto {
        name: name.to_owned(),
        dims: dims.to_vec(),
        data_type: FLOAT,
        float_data: values.to_vec(),
        ..TensorProto::default()
    }
}

fn weight(name: &str, data_type: i32, dims: &[i64]) -> TensorProto {
    TensorProto {
        name: name.to_owned(),
        dims: dims.to_vec(),
        data_type,
        data_location: 1,
        ..TensorProto::default()
    }
}

/// A model that makes `outputs`.
fn model(
    input: Vec<ValueInfoProto>,
    initializer: Vec<TensorProto>,
    node: Vec<NodeProto>,
    outputs: &[&str],
) -> ModelProto {
    let graph = GraphProto {
        name: "g".to_owned(),
        node,
        initializer,
        input,
        output: outputs.iter().map(|name| info(name, FLOAT, &[])).collect(),
        ..GraphProto::default()
    };
    let opset_import = vec![OperatorSetIdProto { domain: String::new(), version: 21 }];
    ModelProto { ir_version: 10, graph: Some(graph), opset_import, ..ModelProto::default() }
}

fn read(model: &ModelProto) -> Graph {
    read_bytes("m", &model.encode_to_vec(), &ReadOptions::default()).unwrap()
}

/// The constant that nodes make `y` of.
fn folded(constants: &[TensorProto], nodes: Vec<NodeProto>) -> Option<Vec<i64>> {
    let model = model(vec![info("x", FLOAT, &[1])], constants.to_vec(), nodes, &["y"]);
    let graph = read(&model);
    assert!(graph.nodes().is_empty());
    match &graph.value(graph.outputs()[0]).source {
        ValueSource::Constant(Some(ConstantData::Ints(values))) => Some(values.clone()),
        ValueSource::Constant(None) => None,
        other => panic!("{other:?}"),
    }
}

/// One integer, cast to a type on which `step` works.
fn stepped(value: i64, to: i32, step: NodeProto) -> Option<Vec<i64>> {
    folded(&[ints("a", &[value])], vec![cast("a", to, "u"), step, cast("v", INT64, "y")])
}

#[test]
fn every_folded_step_has_numbers_of_its_type() {
    let same = || node("Identity", &["u"], &["v"]);
    let doubled = || node("Add", &["u", "u"], &["v"]);
    // (value, type, step, result)
    let cases = [
        (300, UINT8, same(), Some(44)),
        (250, INT8, same(), Some(-6)),
        (i64::MAX, INT32, same(), Some(-1)),
        (2049, FLOAT16, same(), Some(2048)),
        (130, UINT8, doubled(), Some(4)),
        (250, INT8, node("Neg", &["u"], &["v"]), Some(6)),
        (65536, INT32, node("Mul", &["u", "u"], &["v"]), Some(0)),
        (i64::MAX, INT64, node("Abs", &["u"], &["v"]), None),
        (i64::MAX, INT64, doubled(), None),
        (i64::MAX, UINT32, same(), None),
    ];
    for (value, to, step, expected) in cases {
        let name = format!("{value} {to} {}", step.op_type);
        assert_eq!(stepped(value, to, step), expected.map(|v| vec![v]), "{name}");
    }
    let numbers = [
        floats("a", &[1], &[16_777_216.0]),
        floats("b", &[1], &[1.0]),
        floats("c", &[1], &[-16_777_211.0]),
    ];
    let sum = vec![node("Sum", &["a", "b", "c"], &["s"]), cast("s", INT64, "y")];
    assert_eq!(folded(&numbers, sum), Some(vec![5]));
    let beyond = [floats("a", &[1], &[300.0])];
    assert_eq!(folded(&beyond, vec![cast("a", UINT8, "y")]), None, "engines differ");
    let bytes = TensorProto {
        name: "a".to_owned(),
        dims: vec![2],
        data_type: UINT8,
        int32_data: vec![200, 100],
        ..TensorProto::default()
    };
    let axis = TensorProto { dims: vec![], ..ints("axis", &[0]) };
    let sums = vec![node("CumSum", &["a", "axis"], &["y"])];
    assert_eq!(folded(&[bytes, axis], sums), Some(vec![200, 44]));
}

#[test]
fn a_remainder_has_the_sign_that_fmod_says() {
    let constants = [ints("a", &[-7, 7]), ints("b", &[3, -3])];
    let modulo = |fmod: i64| with(node("Mod", &["a", "b"], &["y"]), "fmod", fmod);
    assert_eq!(folded(&constants, vec![modulo(0)]), Some(vec![2, -2]));
    assert_eq!(folded(&constants, vec![modulo(1)]), Some(vec![-1, 1]));
    for (data_type, fmod, kept) in
        [(INT64, 1, Some(1)), (INT64, 0, None), (FLOAT, 1, None), (FLOAT, 0, None)]
    {
        let inputs = vec![info("a", data_type, &[2]), info("b", data_type, &[2])];
        let graph = read(&model(inputs, vec![], vec![modulo(fmod)], &["y"]));
        assert_eq!(graph.nodes()[0].op.attributes.int("fmod"), kept, "{data_type}");
        let written = to_bytes(&graph, &WriteOptions::seeded(1)).unwrap();
        let written = ModelProto::decode(&*written).unwrap().graph.unwrap();
        let is_fmod = i64::from(fmod == 1 || data_type == FLOAT);
        assert_eq!(written.node[0].attribute[0].i, Some(is_fmod), "{data_type}");
    }
}

/// An `If` whose branches both read `w` and the convolution before it, one of them in a graph
/// within it.
fn branches() -> ModelProto {
    let branch = |nodes: Vec<NodeProto>| GraphProto {
        name: "branch".to_owned(),
        node: nodes,
        output: vec![info("b", FLOAT, &[])],
        ..GraphProto::default()
    };
    let inner = branch(vec![node("Mul", &["own", "w"], &["b"])]);
    let nested = || {
        let chosen = node("If", &["cond"], &["b"]);
        let chosen = with_graph(chosen, "then_branch", inner.clone());
        vec![node("Relu", &["c"], &["own"]), with_graph(chosen, "else_branch", inner.clone())]
    };
    let chosen = node("If", &["cond"], &["y"]);
    let chosen = with_graph(chosen, "then_branch", branch(nested()));
    let chosen = with_graph(chosen, "else_branch", branch(vec![node("Identity", &["c"], &["b"])]));
    model(
        vec![info("x", FLOAT, &[1, 4, 6, 6]), info("cond", 9, &[])],
        vec![weight("k", FLOAT, &[8, 4, 3, 3]), weight("w", FLOAT, &[8, 1, 1])],
        vec![with_ints(node("Conv", &["x", "k"], &["c"]), "pads", &[1; 4]), chosen],
        &["y"],
    )
}

#[test]
fn what_only_a_branch_reads_stays() {
    let mut model = branches();
    for _ in 0..2 {
        let graph = read(&model);
        let name = |id: &_| graph.value(*id).name.clone();
        let chosen = graph.nodes().last().unwrap();
        assert_eq!(chosen.inputs.iter().map(name).collect::<Vec<_>>(), ["cond", "c", "w"]);
        let work = Work::of_graph(&graph);
        assert_eq!((graph.nodes().len(), work.macs), (2, 8 * 36 * 36));
        assert_eq!(work.params, 8 * 36 + 8);
        model.graph.as_mut().unwrap().node.reverse();
    }
    let file = model.graph.as_mut().unwrap();
    file.node.retain(|node| node.op_type == "If");
    let error = read_bytes("m", &model.encode_to_vec(), &ReadOptions::default()).unwrap_err();
    assert!(error.to_string().contains("`c`"), "{error}");
}

/// An `If` with so many graphs within one another, the innermost of which reads `c`.
fn nested(depth: usize) -> ModelProto {
    let innermost = vec![node("Relu", &["c"], &["b"])];
    let mut graph = GraphProto { node: innermost, ..GraphProto::default() };
    for _ in 1..depth {
        let node = with_graph(node("If", &["cond"], &["b"]), "then_branch", graph);
        graph = GraphProto { node: vec![node], ..GraphProto::default() };
    }
    let nodes = vec![
        node("Relu", &["x"], &["c"]),
        with_graph(node("If", &["cond"], &["y"]), "then_branch", graph),
    ];
    model(vec![info("x", FLOAT, &[2]), info("cond", 9, &[])], vec![], nodes, &["y"])
}

/// A product, a sum and a second product with weights that are one initializer: `w` of 8 by 4.
fn tied(reads_it_directly: bool) -> ModelProto {
    let mut nodes = vec![
        node("Identity", &["w"], &["same"]),
        node("Reshape", &["same", "shape"], &["flat"]),
        with_ints(node("Transpose", &["same"], &["turned"]), "perm", &[1, 0]),
        node("Add", &["x", "flat"], &["a"]),
        node("Reshape", &["a", "rows"], &["b"]),
        node("MatMul", &["b", "turned"], &["c"]),
        node("MatMul", &["c", "other"], &["d"]),
    ];
    let last = if reads_it_directly { &["d", "w"] } else { &["d", "same"] };
    nodes.push(node("MatMul", last, &["y"]));
    let weights = vec![
        weight("w", FLOAT, &[8, 4]),
        weight("other", FLOAT, &[8, 8]),
        ints("shape", &[1, 32]),
        ints("rows", &[8, 4]),
    ];
    model(vec![info("x", FLOAT, &[1, 32])], weights, nodes, &["y"])
}

#[test]
fn tied_weights_count_once() {
    for reads_it_directly in [true, false] {
        let mut model = tied(reads_it_directly);
        for _ in 0..2 {
            let graph = read(&model);
            assert_eq!(graph.nodes().len(), 5, "the rest is folded");
            assert_eq!(Work::of_graph(&graph).params, 8 * 4 + 8 * 8, "{reads_it_directly}");
            let written = to_bytes(&graph, &WriteOptions::default()).unwrap();
            let again = read_bytes("m", &written, &ReadOptions::default()).unwrap();
            assert_eq!(Work::of_graph(&again), Work::of_graph(&graph));
            let json = serde_json::to_string(&graph).unwrap();
            assert_eq!(serde_json::from_str::<Graph>(&json).unwrap(), graph);
            model.graph.as_mut().unwrap().node.reverse();
        }
    }
}

#[test]
fn graphs_nested_too_deep_are_refused() {
    assert_eq!(read(&nested(32)).nodes()[1].inputs.len(), 2);
    let bytes = nested(33).encode_to_vec();
    let error = read_bytes("m", &bytes, &ReadOptions::default()).unwrap_err();
    assert_eq!(error.to_string(), "m: graphs are nested deeper than 32");
}

#[test]
fn forms_of_a_resize() {
    let resize = |mode: &str, coordinates: &str| {
        let node = with_text(node("Resize", &["x", "roi", "", "sizes"], &["y"]), "mode", mode);
        let node = with_text(node, "coordinate_transformation_mode", coordinates);
        let node = with(node, "exclude_outside", 1);
        let constants = vec![floats("roi", &[8], &[0.5; 8]), ints("sizes", &[1, 2, 8, 8])];
        read(&model(vec![info("x", FLOAT, &[1, 2, 4, 4])], constants, vec![node], &["y"]))
    };
    let cubic = resize("cubic", "half_pixel");
    assert_eq!(cubic.nodes()[0].op.attributes.int("exclude_outside"), Some(1));
    let written = to_bytes(&cubic, &WriteOptions::seeded(1)).unwrap();
    let again = read_bytes("m", &written, &ReadOptions::default()).unwrap();
    assert_eq!(again.nodes()[0].op.attributes.int("exclude_outside"), Some(1));
    let linear = resize("linear", "half_pixel");
    assert!(!linear.nodes()[0].op.attributes.has("exclude_outside"), "it reads nothing outside");
    let cropped = resize("linear", "tf_crop_and_resize");
    let op = &cropped.nodes()[0].op;
    assert_eq!(op.kind, OpKind::Unsupported("Resize".to_owned()));
    assert!(op.attributes.text("reason").unwrap().contains("tf_crop_and_resize"));
    assert_eq!(op.outputs[0].shape[..], [1, 2, 8, 8]);
}

#[test]
fn types_and_blocks_of_quantisation() {
    let scale = || TensorProto { dims: vec![], ..floats("s", &[1], &[0.1]) };
    let quantise = |to: i64| with(node("QuantizeLinear", &["x", "s"], &["y"]), "output_dtype", to);
    let input = || vec![info("x", FLOAT, &[2, 8])];
    for (to, precision) in [(2, Precision::U8), (3, Precision::I8), (5, Precision::I16)] {
        let graph = read(&model(input(), vec![scale()], vec![quantise(to)], &["y"]));
        assert_eq!(graph.nodes()[0].op.outputs[0].precision, precision);
    }
    let unknown = read(&model(input(), vec![scale()], vec![quantise(17)], &["y"]));
    let reason = unknown.nodes()[0].op.attributes.text("reason").unwrap().to_owned();
    assert!(reason.contains("element type 17"), "{reason}");
    let blocked = with(node("DequantizeLinear", &["w", "s"], &["d"]), "block_size", 4);
    let nodes = vec![with(blocked, "axis", 0), node("MatMul", &["x", "d"], &["y"])];
    let weights = vec![weight("w", INT8, &[8, 4]), weight("s", FLOAT, &[2, 4])];
    let graph = read(&model(input(), weights, nodes, &["y"]));
    let blocked = &graph.nodes()[0].op;
    assert_eq!(blocked.kind, OpKind::Unsupported("DequantizeLinear".to_owned()));
    assert!(blocked.attributes.text("reason").unwrap().contains("blocks of 4"));
    let work = Work::of_graph(&graph);
    assert_eq!((work.macs, work.params), (2 * 4 * 8, 32));
}

#[test]
fn a_mean_is_a_sum_and_a_division() {
    let input = vec![info("x", FLOAT, &[2, 8]), info("z", FLOAT, &[8])];
    let graph = read(&model(input, vec![], vec![node("Mean", &["x", "z"], &["y"])], &["y"]));
    let kinds: Vec<_> = graph.nodes().iter().map(|n| n.op.kind.clone()).collect();
    assert_eq!(kinds, [OpKind::Add, OpKind::Div]);
    assert_eq!(graph.value(graph.outputs()[0]).tensor.as_ref().unwrap().shape[..], [2, 8]);
    let input = vec![info("x", FLOAT, &[2, 8])];
    let one = read(&model(input, vec![], vec![node("Mean", &["x"], &["y"])], &["y"]));
    assert_eq!(one.nodes()[0].op.kind, OpKind::Identity);
}

#[test]
fn optional_outputs_have_shapes() {
    let pool = with_ints(node("MaxPool", &["x"], &["y", "o"]), "kernel_shape", &[2, 2]);
    let norm = with(node("LayerNormalization", &["x", "w"], &["y", "o"]), "axis", 2);
    let cases: [(_, &[usize], _); 3] = [
        (pool, &[1, 4, 5, 7], Precision::I64),
        (norm, &[1, 4, 1, 1], Precision::F32),
        (node("Dropout", &["x"], &["y", "o"]), &[1, 4, 6, 8], Precision::Bool),
    ];
    for (node, shape, precision) in cases {
        let input = vec![info("x", FLOAT, &[1, 4, 6, 8])];
        let mut model = model(input, vec![weight("w", FLOAT, &[6, 8])], vec![node], &["y", "o"]);
        // Outputs have no declared shapes.
        for output in &mut model.graph.as_mut().unwrap().output {
            output.r#type = None;
        }
        let graph = read(&model);
        let tensor = graph.value(graph.outputs()[1]).tensor.as_ref().unwrap();
        assert_eq!((&tensor.shape[..], tensor.precision), (shape, precision));
    }
}

#[test]
fn a_sparse_weight_is_a_dense_one() {
    let nodes = vec![node("MatMul", &["x", "w"], &["y"])];
    let mut bytes = model(vec![info("x", FLOAT, &[3, 8])], vec![], nodes, &["y"]).encode_to_vec();
    // `GraphProto.sparse_initializer` (15): its `values` (1) with their name, its `dims` (3).
    let values = floats("w", &[1], &[0.5]).encode_to_vec();
    let mut sparse = vec![0x0a, values.len() as u8];
    sparse.extend(values);
    sparse.extend([0x1a, 2, 8, 4]);
    let mut graph = vec![0x7a, sparse.len() as u8];
    graph.extend(sparse);
    // A second part of the graph (7).
    bytes.extend([0x3a, graph.len() as u8]);
    bytes.extend(graph);
    let graph = read_bytes("m", &bytes, &ReadOptions::default()).unwrap();
    let work = Work::of_graph(&graph);
    assert_eq!((work.macs, work.params), (3 * 8 * 4, 32));
}
