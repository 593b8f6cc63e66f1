use super::*;
use crate::onnx::proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, StringStringEntryProto, TensorProto,
};
use prost::Message as _;

fn external(
    name: &str,
    dims: &[i64],
    data_type: i32,
    location: &str,
    offset: u64,
    length: u64,
) -> TensorProto {
    let entry = |key: &str, value: String| StringStringEntryProto { key: key.to_owned(), value };
    let external_data = vec![
        entry("location", location.to_owned()),
        entry("offset", offset.to_string()),
        entry("length", length.to_string()),
    ];
    TensorProto {
        dims: dims.to_vec(),
        data_type,
        name: name.to_owned(),
        external_data,
        data_location: 1,
        ..TensorProto::default()
    }
}

fn node(op_type: &str, inputs: &[&str], output: &str) -> NodeProto {
    let input = inputs.iter().map(|&i| i.to_owned()).collect();
    NodeProto {
        input,
        output: vec![output.to_owned()],
        op_type: op_type.to_owned(),
        ..NodeProto::default()
    }
}

fn model(node: Vec<NodeProto>, initializer: Vec<TensorProto>) -> ModelProto {
    let graph = GraphProto { node, initializer, name: "g".to_owned(), ..GraphProto::default() };
    ModelProto { ir_version: 9, graph: Some(graph), ..ModelProto::default() }
}

fn stored(model: &ModelProto) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.onnx");
    std::fs::write(&path, model.encode_to_vec()).unwrap();
    (folder, path)
}

fn floats(tensor: &TensorProto) -> Vec<f32> {
    tensor.raw_data.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
}

fn initializers(bytes: &[u8]) -> Vec<TensorProto> {
    ModelProto::decode(bytes).unwrap().graph.unwrap().initializer
}

#[test]
fn absent_weights_follow_their_consumer() {
    let nodes = vec![
        node("BatchNormalization", &["x", "scale", "shift", "mean", "variance"], "a"),
        node("Mul", &["a", "variance"], "b"),
        node("Div", &["b", "divisor"], "c"),
        node("Gather", &["table", "index"], "d"),
    ];
    let names = ["scale", "shift", "mean", "variance", "divisor", "table"];
    let mut tensors: Vec<_> =
        names.iter().map(|name| external(name, &[10, 20], 1, "weights.bin", 0, 800)).collect();
    tensors.push(external("index", &[200], 7, "weights.bin", 0, 1600));
    let (_folder, path) = stored(&model(nodes, tensors));
    assert!(!weights_present(&path).unwrap());
    let filled = initializers(&materialize(&path, 3).unwrap());
    for (tensor, (least, most)) in filled.iter().zip([
        (0.9, 1.1),
        (-0.1, 0.1),
        (-0.1, 0.1),
        (0.5, 1.5),
        (0.5, 1.5),
        (-0.1, 0.1),
    ]) {
        let values = floats(tensor);
        assert_eq!(
            (values.len(), tensor.data_location, tensor.external_data.len()),
            (200, 0, 0),
            "{}",
            tensor.name
        );
        assert!(values.iter().all(|v| (least..=most).contains(v)), "{}", tensor.name);
        assert!(values.iter().any(|v| *v != values[0]), "{}", tensor.name);
    }
    assert!(filled[6].raw_data.len() == 1600 && filled[6].raw_data.iter().all(|&b| b == 0));
}

#[test]
fn same_seed_same_bytes() {
    let (_folder, path) =
        stored(&model(vec![], vec![external("w", &[100], 1, "weights.bin", 0, 400)]));
    assert_eq!(materialize(&path, 1).unwrap(), materialize(&path, 1).unwrap());
    assert_ne!(materialize(&path, 1).unwrap(), materialize(&path, 2).unwrap());
}

#[test]
fn stored_data_is_read() {
    let (folder, path) = stored(&model(
        vec![],
        vec![
            external("w", &[2], 1, "data/w.bin", 4, 8),
            external("lost", &[3], 1, "lost.bin", 0, 12),
        ],
    ));
    std::fs::create_dir(folder.path().join("data")).unwrap();
    let numbers = [9.0f32, 1.5, -2.5];
    std::fs::write(folder.path().join("data/w.bin"), numbers.map(f32::to_le_bytes).concat())
        .unwrap();
    let filled = initializers(&materialize(&path, 0).unwrap());
    assert_eq!(floats(&filled[0]), [1.5, -2.5]);
    assert_eq!(floats(&filled[1]).len(), 3);
    assert!(!weights_present(&path).unwrap());
    std::fs::write(folder.path().join("lost.bin"), [0; 12]).unwrap();
    assert!(weights_present(&path).unwrap());
    assert_eq!(self_contained(&path, 0).unwrap(), materialize(&path, 0).unwrap());
    std::fs::remove_file(folder.path().join("lost.bin")).unwrap();
    std::fs::remove_file(folder.path().join("data/w.bin")).unwrap();
    assert_eq!(
        self_contained(&path, 0).unwrap(),
        std::fs::read(&path).unwrap(),
        "what is absent stays absent"
    );
}

#[test]
fn nothing_else_changes() {
    // An unknown field (number 1000) and a subgraph with an external tensor in an attribute.
    let inner = GraphProto {
        initializer: vec![external("inner", &[5], 1, "w", 0, 20)],
        ..GraphProto::default()
    };
    let attribute = AttributeProto {
        name: "body".to_owned(),
        g: Some(Box::new(inner)),
        r#type: 5,
        ..AttributeProto::default()
    };
    let looped = NodeProto { attribute: vec![attribute], ..node("Loop", &["x"], "y") };
    let whole = TensorProto {
        dims: vec![1],
        data_type: 1,
        name: "whole".to_owned(),
        raw_data: vec![1, 2, 3, 4],
        ..TensorProto::default()
    };
    let mut bytes = model(vec![looped], vec![whole.clone()]).encode_to_vec();
    let foreign = [0xc2, 0x3e, 3, b'a', b'b', b'c'];
    bytes.extend(foreign);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.onnx");
    std::fs::write(&path, &bytes).unwrap();
    let filled = materialize(&path, 0).unwrap();
    assert!(filled.ends_with(&foreign));
    assert_eq!(initializers(&filled), [whole]);
    let graph = ModelProto::decode(filled.as_slice()).unwrap().graph.unwrap();
    assert_eq!(graph.node[0].attribute[0].g.as_ref().unwrap().initializer[0].raw_data.len(), 20);
    let (_folder, path) = stored(&model(vec![node("Relu", &["x"], "y")], vec![]));
    assert_eq!(materialize(&path, 0).unwrap(), std::fs::read(&path).unwrap());
}

#[test]
fn bad_files_are_refused() {
    let cases = [
        (external("w", &[3], 1, "../secret", 0, 12), "not in the model's folder"),
        (external("w", &[3], 1, "/etc/hostname", 0, 12), "not in the model's folder"),
        (external("w", &[3], 1, "", 0, 12), "not in the model's folder"),
        (external("w", &[3], 1, "weights.bin", 0, 11), "11 bytes for a tensor of 12"),
        (external("w", &[-3], 1, "weights.bin", 0, 12), "a dimension is -3"),
        (external("w", &[3], 8, "weights.bin", 0, 12), "element type 8"),
        (external("w", &[3], 1, "short.bin", 2, 12), "too few"),
        (external("w", &[1 << 30], 1, "weights.bin", 0, 1 << 32), "at most 2147483647"),
        (
            external("w", &[i64::MAX, i64::MAX, 8], 7, "weights.bin", 0, u64::MAX / 8 + 1),
            "at most 2147483647",
        ),
    ];
    for (tensor, says) in cases {
        let (folder, path) = stored(&model(vec![], vec![tensor]));
        std::fs::write(folder.path().join("short.bin"), [0; 12]).unwrap();
        let error = materialize(&path, 0).unwrap_err().to_string();
        assert!(error.contains(says) && error.contains("model.onnx"), "{error}");
    }
    let (_folder, path) = stored(&model(vec![], vec![]));
    std::fs::write(&path, b"Not a model at all").unwrap();
    assert!(matches!(materialize(&path, 0), Err(OnnxError::Format { .. })));
    assert!(matches!(weights_present(&path.with_extension("gone")), Err(OnnxError::Io { .. })));
}

proptest::proptest! {
    #[test]
    fn mutated_files_never_panic(at in 0usize..400, byte: u8, cut in 0usize..400) {
        let tensors = vec![external("w", &[4, 5], 1, "weights.bin", 0, 80), external("v", &[7], 10, "weights.bin", 80, 14)];
        let mut bytes = model(vec![node("Div", &["x", "w"], "y")], tensors).encode_to_vec();
        let length = bytes.len();
        bytes[at % length] = byte;
        bytes.truncate(length - cut % 3 * (cut % length) / 3);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.onnx");
        std::fs::write(&path, &bytes).unwrap();
        if let Ok(filled) = materialize(&path, 0) {
            proptest::prop_assert!(filled.len() as u64 <= MOST_BYTES);
        }
    }
}
