//! Files that list weights as inputs, without values, are read as the same files with weights.
#![allow(clippy::unwrap_used)]

use prost::Message;
use std::path::Path;
use vitempo_graph::onnx::proto::{
    DimensionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto,
    TensorShapeProto, TensorTypeProto, TypeProto, ValueInfoProto,
};
use vitempo_graph::onnx::{self, ReadModel, ReadNote, ReadOptions};
use vitempo_graph::{Graph, ValueSource};

fn node(op: &str, inputs: &[&str], output: &str) -> NodeProto {
    NodeProto {
        op_type: op.to_owned(),
        input: inputs.iter().map(|&s| s.to_owned()).collect(),
        output: vec![output.to_owned()],
        ..NodeProto::default()
    }
}

fn info(name: &str, dims: &[i64]) -> ValueInfoProto {
    let dim =
        dims.iter().map(|&d| DimensionProto { dim_value: Some(d), dim_param: None }).collect();
    let tensor = TensorTypeProto { elem_type: 1, shape: Some(TensorShapeProto { dim }) };
    ValueInfoProto { name: name.to_owned(), r#type: Some(TypeProto { tensor_type: Some(tensor) }) }
}

/// Name and shape.
type Input = (&'static str, &'static [i64]);

/// Inputs and nodes; the last node's output is the model's.
fn model(inputs: &[Input], node: Vec<NodeProto>) -> ModelProto {
    let output = node.last().unwrap().output.iter().map(|name| info(name, &[])).collect();
    let graph = GraphProto {
        name: "g".to_owned(),
        input: inputs.iter().map(|(name, dims)| info(name, dims)).collect(),
        node,
        output,
        ..GraphProto::default()
    };
    let opset_import = vec![OperatorSetIdProto { domain: String::new(), version: 17 }];
    ModelProto { ir_version: 8, graph: Some(graph), opset_import, ..ModelProto::default() }
}

fn read(model: &ModelProto) -> ReadModel {
    onnx::read_bytes_with_notes("m", &model.encode_to_vec(), &ReadOptions::default()).unwrap()
}

fn input_names(graph: &Graph) -> Vec<&str> {
    graph.inputs().iter().map(|&id| graph.value(id).name.as_str()).collect()
}

/// Floats of more than one element become inputs without values, behind those the model has.
fn without_parameters(path: &Path) -> (ModelProto, usize) {
    let mut model = ModelProto::decode(std::fs::read(path).unwrap().as_slice()).unwrap();
    let graph = model.graph.as_mut().unwrap();
    let is_parameter =
        |t: &TensorProto| t.data_type == 1 && !t.dims.is_empty() && t.dims.iter().any(|&d| d > 1);
    let (parameters, kept) = graph.initializer.drain(..).partition::<Vec<_>, _>(is_parameter);
    graph.initializer = kept;
    graph.input.extend(parameters.iter().map(|t| info(&t.name, &t.dims)));
    (model, parameters.len())
}

fn test_models() -> Vec<std::path::PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "onnx"))
        .collect();
    files.sort();
    files
}

#[test]
fn a_model_without_parameters_is_read_as_with_them() {
    for path in test_models() {
        let (model, moved) = without_parameters(&path);
        let whole = onnx::read_file_with_notes(&path, &ReadOptions::default()).unwrap();
        assert_eq!(whole.notes, [], "{}", path.display());
        let ReadModel { graph, notes } = read(&model);
        assert_eq!(graph.architecture(), whole.graph.architecture(), "{}", path.display());
        let [ReadNote::WeightsAsInputs { count, inputs, .. }] = notes.as_slice() else {
            panic!("{}: {notes:?}", path.display())
        };
        assert_eq!(*count, moved, "{}", path.display());
        assert_eq!(*inputs, format!("`{}`", input_names(&whole.graph)[0]));
    }
}

#[test]
fn what_is_a_weight_and_what_is_an_input() {
    let conv = || node("Conv", &["x", "w"], "a");
    let image: Input = ("x", &[1, 3, 8, 8]);
    let filter: Input = ("w", &[4, 3, 3, 3]);
    let rows: Input = ("x", &[1, 5, 8]);
    // (inputs, nodes, names of those that stay inputs)
    let cases: Vec<(Vec<Input>, Vec<NodeProto>, Vec<&str>)> = vec![
        (vec![image, filter], vec![conv()], vec!["x"]),
        (
            vec![image, filter, ("s", &[4, 1, 1])],
            vec![conv(), node("Mul", &["a", "s"], "b")],
            vec!["x"],
        ),
        // The scale stands before every weight and has no parameter's name.
        (
            vec![image, ("s", &[4, 1, 1]), filter],
            vec![conv(), node("Mul", &["a", "s"], "b")],
            vec!["x", "s"],
        ),
        (
            vec![image, ("blocks.0.gamma", &[4, 1, 1]), filter],
            vec![conv(), node("Mul", &["a", "blocks.0.gamma"], "b")],
            vec!["x"],
        ),
        // The other operand of a product of two computed tensors.
        (vec![rows, ("y", &[8, 4])], vec![node("MatMul", &["x", "y"], "b")], vec!["x", "y"]),
        (
            vec![rows, ("fc.weight", &[4, 8])],
            vec![node("Transpose", &["fc.weight"], "t"), node("MatMul", &["x", "t"], "b")],
            vec!["x"],
        ),
        (
            vec![("x", &[1, 8]), ("w1", &[8, 4]), ("b1", &[4])],
            vec![node("Gemm", &["x", "w1", "b1"], "b")],
            vec!["x"],
        ),
        // A second image.
        (
            vec![image, ("z", &[1, 3, 8, 8]), filter],
            vec![conv(), node("Conv", &["z", "w"], "c"), node("Add", &["a", "c"], "b")],
            vec!["x", "z"],
        ),
        // A mask of a softmax, even behind weights.
        (
            vec![("x", &[1, 5, 5]), ("ln", &[5]), ("mask", &[5, 5])],
            vec![
                node("LayerNormalization", &["x", "ln"], "n"),
                node("Add", &["n", "mask"], "s"),
                node("Softmax", &["s"], "b"),
            ],
            vec!["x", "mask"],
        ),
    ];
    for (inputs, nodes, expected) in cases {
        let read = read(&model(&inputs, nodes));
        assert_eq!(input_names(&read.graph), expected, "{inputs:?}");
        assert_eq!(read.notes.is_empty(), inputs.len() == expected.len(), "{inputs:?}");
    }
}

#[test]
fn a_filter_beside_stored_weights_stays_an_input() {
    let mut dynamic = model(
        &[("x", &[1, 3, 8, 8]), ("filter", &[4, 4, 3, 3])],
        vec![node("Conv", &["x", "stem"], "a"), node("Conv", &["a", "filter"], "b")],
    );
    dynamic.graph.as_mut().unwrap().initializer.push(TensorProto {
        name: "stem".to_owned(),
        dims: vec![4, 3, 3, 3],
        data_type: 1,
        data_location: 1,
        ..TensorProto::default()
    });
    let read = read(&dynamic);
    assert_eq!((input_names(&read.graph), read.notes.len()), (vec!["x", "filter"], 0));
}

#[test]
fn materialized_files_have_weights_and_no_such_inputs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.onnx");
    let listed =
        model(&[("x", &[1, 3, 8, 8]), ("w", &[4, 3, 3, 3])], vec![node("Conv", &["x", "w"], "y")]);
    std::fs::write(&path, listed.encode_to_vec()).unwrap();
    assert!(!onnx::weights_present(&path).unwrap());
    let bytes = onnx::materialize(&path, 1).unwrap();
    let graph = ModelProto::decode(bytes.as_slice()).unwrap().graph.unwrap();
    let names: Vec<&str> = graph.input.iter().map(|i| i.name.as_str()).collect();
    assert_eq!(names, ["x"]);
    let [weight] = graph.initializer.as_slice() else { panic!("one weight") };
    assert_eq!((weight.name.as_str(), weight.raw_data.len()), ("w", 4 * 4 * 27));
    assert!(weight.raw_data.iter().any(|&byte| byte != 0));
    let read = onnx::read_weights("m", &bytes, &ReadOptions::default()).unwrap();
    assert!(read.values().iter().any(|v| matches!(v.source, ValueSource::Constant(Some(_)))));
}
