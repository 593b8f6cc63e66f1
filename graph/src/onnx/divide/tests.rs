//! Division of a file with fields that vitempo's own writer leaves out.

use super::*;
use crate::onnx::proto::{
    AttributeProto, DimensionProto, FunctionProto, GraphProto, ModelProto, NodeProto,
    OperatorSetIdProto, StringStringEntryProto, TensorShapeProto, TensorTypeProto, TypeProto,
};
use crate::onnx::{ReadOptions, read_bytes, read_file};

const FLOAT: i32 = 1;

fn node(op_type: &str, input: &[&str], output: &str) -> NodeProto {
    NodeProto {
        name: format!("the {output}"),
        op_type: op_type.to_owned(),
        input: input.iter().map(|&name| name.to_owned()).collect(),
        output: vec![output.to_owned()],
        ..NodeProto::default()
    }
}

/// `batch` by 4 numbers.
fn described(name: &str) -> ValueInfoProto {
    let batch = DimensionProto { dim_param: Some("batch".to_owned()), ..Default::default() };
    let width = DimensionProto { dim_value: Some(4), ..Default::default() };
    let shape = Some(TensorShapeProto { dim: vec![batch, width] });
    let tensor_type = Some(TensorTypeProto { elem_type: FLOAT, shape });
    ValueInfoProto { name: name.to_owned(), r#type: Some(TypeProto { tensor_type }) }
}

fn entry(key: &str, value: &str) -> StringStringEntryProto {
    StringStringEntryProto { key: key.to_owned(), value: value.to_owned() }
}

fn weight() -> TensorProto {
    TensorProto {
        name: "w".to_owned(),
        dims: vec![4, 4],
        data_type: FLOAT,
        float_data: vec![0.5; 16],
        ..TensorProto::default()
    }
}

/// Two products with one weight. Shapes of a value that is sent, of one that is not, and a constant
/// lead to reshapes and a sum.
fn model(weight: TensorProto) -> ModelProto {
    let one = TensorProto { data_type: FLOAT, float_data: vec![1.0], ..TensorProto::default() };
    let value = AttributeProto {
        name: "value".to_owned(),
        t: Some(one),
        r#type: 4,
        ..AttributeProto::default()
    };
    let constant = NodeProto { attribute: vec![value], ..node("Constant", &[], "one") };
    let nodes = vec![
        node("MatMul", &["x", "w"], "a"),
        node("Relu", &["a"], "b"),
        node("Shape", &["a"], "shape of a"),
        node("Reshape", &["b", "shape of a"], "c"),
        constant,
        node("Add", &["c", "one"], "d"),
        node("MatMul", &["d", "w"], "e"),
        node("Shape", &["b"], "shape of b"),
        node("Reshape", &["e", "shape of b"], "y"),
    ];
    let graph = GraphProto {
        node: nodes,
        name: "network".to_owned(),
        doc_string: "about the graph".to_owned(),
        initializer: vec![weight],
        input: vec![described("x")],
        output: vec![described("y")],
        value_info: ["a", "b", "c"].map(described).to_vec(),
    };
    let operators =
        |domain: &str, version| OperatorSetIdProto { domain: domain.to_owned(), version };
    ModelProto {
        ir_version: 7,
        producer_name: "somebody".to_owned(),
        doc_string: "about the model".to_owned(),
        graph: Some(graph),
        opset_import: vec![operators("", 13), operators("com.example", 3)],
        metadata_props: vec![entry("author", "nobody")],
        functions: vec![FunctionProto { name: "f".to_owned(), domain: "com.example".to_owned() }],
        ..ModelProto::default()
    }
}

fn options() -> ReadOptions {
    ReadOptions { dimensions: [("batch".to_owned(), 2)].into(), ..ReadOptions::default() }
}

/// The two parts with this many nodes in the first one.
fn halves(file: &[u8], first: usize) -> Result<Vec<ModelProto>, String> {
    let graph = read_bytes("m", file, &options()).unwrap();
    let part_of: Vec<usize> = (0..graph.nodes().len()).map(|i| usize::from(i >= first)).collect();
    let parts = divide_bytes(file, &graph, &part_of, &["device", "server"])?;
    Ok(parts.iter().map(|part| ModelProto::decode(&part[..]).unwrap()).collect())
}

fn names(infos: &[ValueInfoProto]) -> Vec<&str> {
    infos.iter().map(|info| info.name.as_str()).collect()
}

#[test]
fn parts_have_their_nodes_as_the_file_has_them_and_all_that_it_says_of_the_model() {
    let whole = model(weight());
    let halves = halves(&whole.encode_to_vec(), 2).unwrap();
    for half in &halves {
        let rest = |m: &ModelProto| ModelProto { graph: None, ..m.clone() };
        assert_eq!(rest(half), rest(&whole));
        let graph = half.graph.as_ref().unwrap();
        assert_eq!(graph.doc_string, "about the graph");
        let given = whole.graph.as_ref().unwrap();
        assert!(graph.node.iter().all(|node| given.node.contains(node)));
        assert!(graph.initializer.contains(&given.initializer[0]));
    }
    let [device, server] = &halves[..] else { panic!("{} halves", halves.len()) };
    let (device, server) = (device.graph.as_ref().unwrap(), server.graph.as_ref().unwrap());
    assert_eq!((names(&device.input), names(&device.output)), (vec!["x"], vec!["b"]));
    assert_eq!((names(&server.input), names(&server.output)), (vec!["b"], vec!["y"]));
    assert_eq!(device.output[0], described("b"), "as the file describes it");
    assert_eq!((names(&device.value_info), names(&server.value_info)), (vec!["a"], vec!["c"]));
    let types = |graph: &GraphProto| -> String {
        graph.node.iter().map(|node| node.op_type.clone()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(types(device), "MatMul Relu");
    assert_eq!(types(server), "Reshape Constant Add MatMul Shape Reshape");
    let shape = &server.initializer[1];
    assert_eq!((shape.name.as_str(), &shape.int64_data[..]), ("shape of a", &[2, 4][..]));
}

#[test]
fn parts_are_models_that_can_be_read() {
    let file = model(weight()).encode_to_vec();
    let whole = read_bytes("m", &file, &options()).unwrap();
    for first in 1..whole.nodes().len() {
        let halves = halves(&file, first).unwrap();
        let nodes = halves.iter().map(|half| {
            let graph = read_bytes("half", &half.encode_to_vec(), &options()).unwrap();
            graph.nodes().len()
        });
        assert_eq!(nodes.sum::<usize>(), whole.nodes().len(), "{first} in the first half");
    }
}

#[test]
fn tensors_between_parts_have_the_element_type_of_the_file() {
    let cast = |input: &str, to: i32, output: &str| NodeProto {
        attribute: vec![AttributeProto {
            name: "to".to_owned(),
            i: Some(i64::from(to)),
            r#type: 2,
            ..AttributeProto::default()
        }],
        ..node("Cast", &[input], output)
    };
    for unsigned in [4, 12, 13, 6, 7] {
        let mut model = model(weight());
        let graph = model.graph.as_mut().unwrap();
        graph.node = vec![
            cast("x", unsigned, "u"),
            node("Neg", &["u"], "v"),
            node("Reshape", &["v", "to"], "w"),
            cast("w", FLOAT, "z"),
            node("Relu", &["z"], "y"),
        ];
        graph.initializer = vec![TensorProto {
            name: "to".to_owned(),
            dims: vec![2],
            data_type: 7,
            int64_data: vec![2, 4],
            ..TensorProto::default()
        }];
        graph.value_info.clear();
        for first in 1..=3 {
            let halves = halves(&model.encode_to_vec(), first).unwrap();
            let of = |infos: &[ValueInfoProto]| {
                infos[0].r#type.as_ref().unwrap().tensor_type.as_ref().unwrap().elem_type
            };
            let [device, server] = &halves[..] else { panic!("{} halves", halves.len()) };
            assert_eq!(of(&device.graph.as_ref().unwrap().output), unsigned, "{first}");
            assert_eq!(of(&server.graph.as_ref().unwrap().input), unsigned, "{first}");
        }
    }
}

#[test]
fn what_flows_back_or_is_missing_is_refused() {
    let file = model(weight()).encode_to_vec();
    let graph = read_bytes("m", &file, &options()).unwrap();
    let count = graph.nodes().len();
    let refused = |part_of: &[usize]| {
        divide_bytes(&file, &graph, part_of, &["device", "server"]).unwrap_err()
    };
    let mut part_of = vec![0; count];
    part_of[1] = 1;
    assert_eq!(
        refused(&part_of),
        "the part `device` reads `b`, which the later part `server` computes"
    );
    assert_eq!(refused(&vec![0; count]), "no node is in the part `server`");
    assert_eq!(refused(&[0]), format!("1 places for {count} nodes"));
    assert!(refused(&vec![7; count]).contains("in part 7, of 2"));
    let mut other = model(weight());
    other.graph.as_mut().unwrap().node[1].output[0] = "z".to_owned();
    let refused = divide_bytes(&other.encode_to_vec(), &graph, &part_of, &["device", "server"]);
    assert_eq!(refused.unwrap_err(), "it has no node `the b`");
}

#[test]
fn external_data_comes_inside_where_it_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.onnx");
    let external = TensorProto {
        float_data: vec![],
        data_location: 1,
        external_data: vec![entry("location", "w.bin"), entry("length", "64")],
        ..weight()
    };
    std::fs::write(&path, model(external.clone()).encode_to_vec()).unwrap();
    let weights = || -> Vec<TensorProto> {
        let graph = read_file(&path, &options()).unwrap();
        let part_of: Vec<usize> = (0..graph.nodes().len()).map(|i| usize::from(i > 1)).collect();
        let parts = divide(&path, &graph, &part_of, &["device", "server"]).unwrap();
        let graph = |part: &Vec<u8>| ModelProto::decode(&part[..]).unwrap().graph.unwrap();
        parts.iter().map(|part| graph(part).initializer[0].clone()).collect()
    };
    assert_eq!(weights(), [external.clone(), external], "absent data stays absent");
    let data: Vec<u8> = (0..64).collect();
    std::fs::write(folder.path().join("w.bin"), &data).unwrap();
    for weight in weights() {
        assert_eq!((weight.data_location, &weight.raw_data), (0, &data));
    }
}

#[test]
fn what_graphs_inside_a_node_read_comes_along() {
    let inner = GraphProto {
        node: vec![node("Add", &["inside", "a"], "sum")],
        output: vec![described("sum")],
        initializer: vec![TensorProto { name: "inside".to_owned(), ..weight() }],
        ..GraphProto::default()
    };
    let branch = AttributeProto {
        name: "then_branch".to_owned(),
        g: Some(Box::new(inner)),
        r#type: 5,
        ..AttributeProto::default()
    };
    let file = NodeProto { attribute: vec![branch], ..node("If", &["c"], "y") }.encode_to_vec();
    let mut written = Written { file: &file, ..Written::default() };
    written.node(0..file.len(), 0..file.len()).unwrap();
    let node = &written.nodes[0];
    assert_eq!((&node.reads[..], &node.outputs[..]), (&["c", "a"][..], &["y"][..]));
}

#[test]
fn sparse_initializers_are_initializers() {
    // `SparseTensorProto`: its `values` (1) with their name, its `dims` (3).
    let values = TensorProto { name: "w".to_owned(), data_type: FLOAT, ..TensorProto::default() };
    let mut sparse = Vec::new();
    put(&mut sparse, 1, &values.encode_to_vec());
    sparse.extend([0x1a, 2, 4, 4]);
    let mut graph = Vec::new();
    put(&mut graph, field::SPARSE_INITIALIZER, &sparse);
    let mut dense = model(weight());
    dense.graph.as_mut().unwrap().initializer.clear();
    let mut file = dense.encode_to_vec();
    put(&mut file, GRAPH, &graph);
    let whole = read_bytes("m", &file, &options()).unwrap();
    let part_of: Vec<usize> = (0..whole.nodes().len()).map(|i| usize::from(i > 1)).collect();
    for half in divide_bytes(&file, &whole, &part_of, &["device", "server"]).unwrap() {
        assert_eq!(half.windows(sparse.len()).filter(|bytes| *bytes == sparse).count(), 1);
    }
    let mut branch = Vec::new();
    put(&mut branch, field::SPARSE_INITIALIZER, &sparse);
    put(&mut branch, field::NODE, &node("MatMul", &["a", "w"], "y").encode_to_vec());
    let (mut attribute, mut chosen) = (Vec::new(), node("If", &["c"], "y").encode_to_vec());
    put(&mut attribute, 6, &branch);
    put(&mut chosen, 5, &attribute);
    let mut written = Written { file: &chosen, ..Written::default() };
    written.node(0..chosen.len(), 0..chosen.len()).unwrap();
    assert_eq!(written.nodes[0].reads, ["c", "a"]);
}
