//! Compares the shapes that the reader infers with those that the files declare, value by value:
//! for the models of the repository, and for every model in the folder that `VITEMPO_ZOO` names, if
//! it is set.
#![allow(clippy::unwrap_used)]

use prost::Message;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use vitempo_graph::onnx::{ReadOptions, proto::ModelProto, read_file};

fn models(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(models(&path));
        } else if path.extension().is_some_and(|e| e == "onnx") {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn declared(path: &Path) -> HashMap<String, Vec<usize>> {
    let graph = ModelProto::decode(std::fs::read(path).unwrap().as_slice()).unwrap().graph.unwrap();
    let infos = graph.value_info.into_iter().chain(graph.output).chain(graph.input);
    let shape = |info: vitempo_graph::onnx::proto::ValueInfoProto| {
        let dims = info
            .r#type?
            .tensor_type?
            .shape?
            .dim
            .into_iter()
            .map(|d| usize::try_from(d.dim_value?).ok());
        Some((info.name, dims.collect::<Option<Vec<usize>>>()?))
    };
    infos.filter_map(shape).collect()
}

/// Number of values compared.
fn check(path: &Path) -> usize {
    let graph = read_file(path, &ReadOptions::default()).unwrap();
    let unsupported: Vec<_> = graph.unsupported().collect();
    assert!(unsupported.is_empty(), "{}: {unsupported:?}", path.display());
    let declared = declared(path);
    let mut compared = 0;
    for value in graph.values() {
        let inferred = value
            .tensor
            .as_ref()
            .unwrap_or_else(|| panic!("{}: no shape for {}", path.display(), value.name));
        if let Some(shape) = declared.get(&value.name) {
            assert_eq!(inferred.shape[..], shape[..], "{}: {}", path.display(), value.name);
            compared += 1;
        }
    }
    assert!(
        compared > graph.nodes().len() / 2,
        "{}: only {compared} values were declared",
        path.display()
    );
    compared
}

#[test]
fn shapes_are_those_the_files_declare() {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models")];
    folders.extend(std::env::var_os("VITEMPO_ZOO").map(PathBuf::from));
    let files: Vec<PathBuf> = folders.iter().flat_map(|folder| models(folder)).collect();
    assert!(files.len() >= 3, "no models to read");
    let compared: usize = files.iter().map(|path| check(path)).sum();
    println!("{compared} values of {} models", files.len());
}
