//! ONNX's `Attention` is read as the operators that define it.
#![allow(clippy::unwrap_used)]

use prost::Message;
use vitempo_graph::onnx::proto::{
    AttributeProto, DimensionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto,
    TensorShapeProto, TensorTypeProto, TypeProto, ValueInfoProto,
};
use vitempo_graph::onnx::{ReadOptions, WriteOptions, read_bytes, to_bytes};
use vitempo_graph::{Graph, OpKind, Work, lowering, patterns};

fn info(name: &str, data_type: i32, dims: &[i64]) -> ValueInfoProto {
    let dim =
        dims.iter().map(|&d| DimensionProto { dim_value: Some(d), dim_param: None }).collect();
    let tensor = TensorTypeProto { elem_type: data_type, shape: Some(TensorShapeProto { dim }) };
    ValueInfoProto { name: name.to_owned(), r#type: Some(TypeProto { tensor_type: Some(tensor) }) }
}

/// Inputs in the operator's order; of no dimensions where one is left out.
struct Case {
    opset: i64,
    inputs: Vec<(i32, Vec<i64>)>,
    attributes: Vec<(&'static str, i64)>,
    outputs: usize,
}

const INPUTS: [&str; 7] = ["q", "k", "v", "mask", "past_k", "past_v", "lengths"];
const OUTPUTS: [&str; 4] = ["y", "present_k", "present_v", "scores"];

fn read(case: &Case) -> Result<Graph, String> {
    let given: Vec<_> = INPUTS.iter().zip(&case.inputs).collect();
    let name = |(name, (_, dims)): &(&&str, &(i32, Vec<i64>))| {
        if dims.is_empty() { String::new() } else { (**name).to_owned() }
    };
    let attribute = |&(name, value): &(&str, i64)| AttributeProto {
        name: name.to_owned(),
        i: Some(value),
        f: Some(value as f32),
        ..AttributeProto::default()
    };
    let node = NodeProto {
        op_type: "Attention".to_owned(),
        name: "attention".to_owned(),
        input: given.iter().map(name).collect(),
        output: OUTPUTS[..case.outputs].iter().map(|&s| s.to_owned()).collect(),
        attribute: case.attributes.iter().map(attribute).collect(),
        ..NodeProto::default()
    };
    let graph = GraphProto {
        name: "g".to_owned(),
        node: vec![node],
        input: given
            .iter()
            .filter(|(_, (_, dims))| !dims.is_empty())
            .map(|(name, (data_type, dims))| info(name, *data_type, dims))
            .collect(),
        output: OUTPUTS[..case.outputs].iter().map(|name| info(name, 1, &[])).collect(),
        ..GraphProto::default()
    };
    let opset_import = vec![OperatorSetIdProto { domain: String::new(), version: case.opset }];
    let model =
        ModelProto { ir_version: 11, graph: Some(graph), opset_import, ..ModelProto::default() };
    read_bytes("m", &model.encode_to_vec(), &ReadOptions::default()).map_err(|e| e.to_string())
}

fn floats(shapes: &[&[i64]]) -> Vec<(i32, Vec<i64>)> {
    shapes.iter().map(|shape| (1, shape.to_vec())).collect()
}

fn output_shapes(graph: &Graph) -> Vec<Vec<usize>> {
    let shape = |id: &_| graph.value(*id).tensor.as_ref().unwrap().shape.to_vec();
    graph.outputs().iter().map(shape).collect()
}

#[test]
fn work_and_shapes_of_each_variant() {
    let plain = floats(&[&[1, 6, 50, 64], &[1, 6, 50, 64], &[1, 6, 50, 64]]);
    let flat = floats(&[&[2, 10, 64], &[2, 20, 32], &[2, 20, 48]]);
    let grouped = vec![("q_num_heads", 4), ("kv_num_heads", 2)];
    let with = |extra: &[(i32, Vec<i64>)]| plain.iter().chain(extra).cloned().collect::<Vec<_>>();
    let past: Vec<i64> = vec![1, 6, 7, 64];
    // (case, shapes of the outputs, multiply-accumulates)
    let cases = [
        (
            Case { opset: 23, inputs: plain.clone(), attributes: vec![], outputs: 1 },
            vec![vec![1, 6, 50, 64]],
            6 * 50 * 50 * (64 + 64),
        ),
        // A causal mask leaves no score out.
        (
            Case {
                opset: 24,
                inputs: plain.clone(),
                attributes: vec![("is_causal", 1)],
                outputs: 1,
            },
            vec![vec![1, 6, 50, 64]],
            6 * 50 * 50 * (64 + 64),
        ),
        // Four heads of queries share two heads of keys (16 wide) and values (24 wide).
        (
            Case { opset: 23, inputs: flat.clone(), attributes: grouped.clone(), outputs: 1 },
            vec![vec![2, 10, 4 * 24]],
            2 * 4 * 10 * 20 * (16 + 24),
        ),
        // 7 keys from before, a mask of booleans, and all outputs.
        (
            Case {
                opset: 23,
                inputs: with(&[(9, vec![50, 57]), (1, past.clone()), (1, past.clone())]),
                attributes: vec![("qk_matmul_output_mode", 3), ("softcap", 20)],
                outputs: 4,
            },
            vec![vec![1, 6, 50, 64], vec![1, 6, 57, 64], vec![1, 6, 57, 64], vec![1, 6, 50, 57]],
            6 * 50 * 57 * (64 + 64),
        ),
        // Keys without a past are copied out; lengths and a narrow mask of operator set 24.
        (
            Case {
                opset: 24,
                inputs: with(&[(1, vec![50, 40]), (1, vec![]), (1, vec![]), (7, vec![1])]),
                attributes: vec![("softmax_precision", 11)],
                outputs: 2,
            },
            vec![vec![1, 6, 50, 64], vec![1, 6, 50, 64]],
            6 * 50 * 50 * (64 + 64),
        ),
    ];
    for (case, shapes, macs) in cases {
        let graph = read(&case).unwrap();
        assert_eq!(graph.unsupported().count(), 0, "{:?}", case.attributes);
        assert_eq!(output_shapes(&graph), shapes, "{:?}", case.attributes);
        let work = Work::of_graph(&graph);
        assert_eq!(work.macs, macs, "{:?}", case.attributes);
        assert!(work.flops > 2 * macs, "the softmax counts too");
        let again = read_bytes(
            "m",
            &to_bytes(&graph, &WriteOptions::seeded(1)).unwrap(),
            &ReadOptions::default(),
        )
        .unwrap();
        assert_eq!(Work::of_graph(&again), work, "{:?}", case.attributes);
    }
}

#[test]
fn engines_run_it_as_the_pattern_they_know() {
    let inputs = floats(&[&[1, 50, 384], &[1, 50, 384], &[1, 50, 384]]);
    let attributes = vec![("q_num_heads", 6), ("kv_num_heads", 6)];
    let graph = read(&Case { opset: 23, inputs, attributes, outputs: 1 }).unwrap();
    let found = patterns::attention(&graph);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].heads, found[0].queries, found[0].keys), (6, 50, 50));
    let kernels = lowering::onnxruntime::lower(&graph, 16).unwrap();
    let count = |kind: OpKind| kernels.nodes().iter().filter(|n| n.op.kind == kind).count();
    assert_eq!([count(OpKind::MatMul), count(OpKind::Softmax), count(OpKind::Mul)], [2, 1, 0]);
}

#[test]
fn what_does_not_fit_is_refused() {
    let three = |shape: &[i64]| floats(&[shape, shape, shape]);
    // (inputs, attributes, what the error says)
    for (inputs, attributes, expected) in [
        (three(&[1, 50, 384]), vec![], "q_num_heads = 0 does not divide 384"),
        (three(&[1, 50, 384]), vec![("q_num_heads", 7)], "q_num_heads = 7 does not divide 384"),
        (three(&[50, 384]), vec![], "has 2 dimensions, not 3 or 4"),
        (
            floats(&[&[1, 6, 5, 8], &[1, 4, 5, 8], &[1, 4, 5, 8]]),
            vec![],
            "6 heads of queries do not share 4 heads of keys",
        ),
        (three(&[1, 2, 5, 8]), vec![("qk_matmul_output_mode", 9)], "qk_matmul_output_mode is 9"),
        (floats(&[&[1, 2, 5, 8], &[1, 2, 5, 8]]), vec![], "input 2 is missing"),
    ] {
        let error = read(&Case { opset: 23, inputs, attributes, outputs: 1 }).unwrap_err();
        assert!(error.contains("node `attention`") && error.contains(expected), "{error}");
    }
}
