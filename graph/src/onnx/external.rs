//! Data of tensors that lie outside of the model's file: where they are, and small ones read from
//! there.

use super::payload;
use super::view::TensorView;
use super::wire::{self, FieldValue};
use crate::{ConstantData, TensorSpec};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};

/// What a tensor says of the place of its data (`TensorProto.external_data`).
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Reference {
    entries: HashMap<String, String>,
}

impl Reference {
    /// From the encoded entries, each a key and a value; of equal keys the last one counts.
    ///
    /// # Errors
    /// A sentence where one is damaged.
    pub fn read<'a>(entries: impl IntoIterator<Item = &'a [u8]>) -> Result<Self, String> {
        let mut reference = Self::default();
        for entry in entries {
            let fields = wire::fields(entry, 0..entry.len())?;
            let text = |number| {
                let field = fields.iter().find(|f| f.number == number);
                field.map_or(String::new(), |f| match &f.value {
                    FieldValue::Bytes(range) => {
                        String::from_utf8_lossy(&entry[range.clone()]).into_owned()
                    }
                    _ => String::new(),
                })
            };
            reference.entries.insert(text(1), text(2));
        }
        Ok(reference)
    }

    /// Where the data begins in its file.
    ///
    /// # Errors
    /// A sentence about an entry that is wrong for a tensor of `bytes`.
    pub fn offset(&self, bytes: u64) -> Result<u64, String> {
        if let Some(length) = self.number("length")?.filter(|&length| length != bytes) {
            return Err(format!("external data of {length} bytes for a tensor of {bytes}"));
        }
        Ok(self.number("offset")?.unwrap_or(0))
    }

    fn number(&self, key: &str) -> Result<Option<u64>, String> {
        let parsed = |text: &String| {
            text.parse().map_err(|_| format!("external data has the {key} `{text}`"))
        };
        self.entries.get(key).map(parsed).transpose()
    }

    /// The file of the data, which has to be in the model's folder or below.
    ///
    /// # Errors
    /// A sentence where it is elsewhere.
    pub fn path(&self, folder: &Path) -> Result<PathBuf, String> {
        let location = self.entries.get("location").map_or("", String::as_str);
        let relative = Path::new(location);
        let inside = !location.is_empty()
            && relative.components().all(|c| matches!(c, Component::Normal(_) | Component::CurDir));
        if inside {
            Ok(folder.join(relative))
        } else {
            Err(format!("external data `{location}` is not in the model's folder"))
        }
    }
}

/// Why a file is too short for a tensor.
pub(super) fn too_short(path: &Path, size: u64, bytes: u64, offset: u64) -> String {
    format!("{} has {size} bytes, too few for {bytes} bytes at {offset}", path.display())
}

/// The size of a file; `None` where there is none, or something else.
pub(super) fn size(path: &Path) -> Option<u64> {
    std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file).map(|found| found.len())
}

/// Values of small tensors whose data lies beside the model: integers, which are shapes, axes and
/// the like, and the few floats that a graph keeps.
pub(super) struct Beside<'a> {
    /// The model's folder; `None` for a model without one, beside which nothing is read.
    folder: Option<&'a Path>,
    limits: payload::Limits,
    files: HashMap<PathBuf, Option<(File, u64)>>,
    /// Elements that are still read: a small file must not become large.
    left: u64,
}

impl<'a> Beside<'a> {
    pub fn new(folder: Option<&'a Path>, limits: payload::Limits) -> Self {
        Self { folder, limits, files: HashMap::new(), left: limits.folded as u64 }
    }

    /// The values of an external tensor; `None` where it is too large, or not in a file in the
    /// model's folder or below.
    ///
    /// # Errors
    /// A sentence when the file is there and its data does not fit the tensor.
    pub fn values(
        &mut self,
        tensor: &TensorView<'_>,
        spec: &TensorSpec,
    ) -> Result<Option<ConstantData>, String> {
        let (elements, bytes) = (spec.elements(), spec.size_bytes());
        let most = match spec.precision.is_float() {
            true => self.limits.elements.min(self.limits.kept_floats as u64),
            false => self.limits.elements,
        };
        let is_read = tensor.external && (1..=most.min(self.left)).contains(&elements);
        let Some(folder) = self.folder.filter(|_| is_read) else { return Ok(None) };
        let reference = Reference::read(tensor.external_data.iter().copied())?;
        let Ok(path) = reference.path(folder) else { return Ok(None) };
        let Some((file, size)) = self.file(&path) else { return Ok(None) };
        let offset = reference.offset(bytes)?;
        if offset.saturating_add(bytes) > *size {
            return Err(too_short(&path, *size, bytes, offset));
        }
        let mut raw = vec![0; usize::try_from(bytes).unwrap_or(usize::MAX)];
        file.seek(SeekFrom::Start(offset))
            .and_then(|_| file.read_exact(&mut raw))
            .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        self.left -= elements;
        let stored =
            TensorView { data_type: tensor.data_type, raw_data: &raw, ..TensorView::default() };
        payload::values(&stored, spec, most)
    }

    /// An open file and its size; `None` where there is none.
    fn file(&mut self, path: &Path) -> Option<&mut (File, u64)> {
        let file = match self.files.entry(path.to_owned()) {
            Entry::Occupied(found) => found.into_mut(),
            Entry::Vacant(new) => {
                new.insert(size(path).and_then(|size| Some((File::open(path).ok()?, size))))
            }
        };
        file.as_mut()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::onnx::proto::{
        AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto,
        StringStringEntryProto, TensorProto, ValueInfoProto,
    };
    use crate::onnx::{OnnxError, ReadOptions, read_bytes, read_file};
    use crate::{Graph, TensorSpec};
    use prost::Message;
    use std::path::Path;

    /// A reshape of 64 ones, to the shape of two integers that is at `offset` of a file: an
    /// initializer, or the value of a `Constant`.
    fn model_with(location: &str, offset: &str, as_node: bool) -> Vec<u8> {
        let entry = |key: &str, value: &str| StringStringEntryProto {
            key: key.to_owned(),
            value: value.to_owned(),
        };
        let shape = TensorProto {
            name: "shape".to_owned(),
            dims: vec![2],
            data_type: 7,
            data_location: 1,
            external_data: vec![
                entry("location", location),
                entry("offset", offset),
                entry("length", "16"),
            ],
            ..TensorProto::default()
        };
        let ones = TensorProto {
            name: "ones".to_owned(),
            dims: vec![64],
            data_type: 1,
            float_data: vec![1.0; 64],
            ..TensorProto::default()
        };
        let node = NodeProto {
            op_type: "Reshape".to_owned(),
            input: vec!["ones".to_owned(), "shape".to_owned()],
            output: vec!["y".to_owned()],
            ..NodeProto::default()
        };
        let (mut node, mut initializer) = (vec![node], vec![ones]);
        if as_node {
            let value = AttributeProto {
                name: "value".to_owned(),
                t: Some(shape),
                ..AttributeProto::default()
            };
            let constant = NodeProto {
                op_type: "Constant".to_owned(),
                output: vec!["shape".to_owned()],
                attribute: vec![value],
                ..NodeProto::default()
            };
            node.insert(0, constant);
        } else {
            initializer.push(shape);
        }
        let graph = GraphProto {
            node,
            initializer,
            output: vec![ValueInfoProto { name: "y".to_owned(), r#type: None }],
            ..GraphProto::default()
        };
        let opset_import =
            vec![OperatorSetIdProto { version: 17, ..OperatorSetIdProto::default() }];
        ModelProto { graph: Some(graph), opset_import, ..ModelProto::default() }.encode_to_vec()
    }

    fn model(location: &str, offset: &str) -> Vec<u8> {
        model_with(location, offset, false)
    }

    fn read(folder: &Path, location: &str, offset: &str) -> Result<Graph, OnnxError> {
        let path = folder.join("m.onnx");
        std::fs::write(&path, model(location, offset)).unwrap();
        read_file(&path, &ReadOptions::default())
    }

    fn ints(values: &[i64]) -> Vec<u8> {
        values.iter().flat_map(|v| v.to_le_bytes()).collect()
    }

    #[test]
    fn shapes_beside_a_model_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        std::fs::create_dir(folder.join("data")).unwrap();
        std::fs::write(folder.join("data/w.bin"), ints(&[7, 16, 4])).unwrap();
        let graph = read(folder, "./data/w.bin", "8").unwrap();
        let output = graph.value(graph.outputs()[0]);
        assert_eq!(output.tensor, Some(TensorSpec::f32([16, 4])));
        let bytes = model("data/w.bin", "8");
        let from_memory = read_bytes("m", &bytes, &ReadOptions::default());
        assert!(matches!(from_memory, Err(OnnxError::AbsentValues { .. })));
    }

    #[test]
    fn the_value_of_a_constant_may_lie_beside_a_model() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("w.bin"), ints(&[16, 4])).unwrap();
        let read = |location: &str, offset: &str| {
            let path = folder.path().join("m.onnx");
            std::fs::write(&path, model_with(location, offset, true)).unwrap();
            read_file(&path, &ReadOptions::default())
        };
        let graph = read("w.bin", "0").unwrap();
        assert_eq!(graph.value(graph.outputs()[0]).tensor, Some(TensorSpec::f32([16, 4])));
        let short = read("w.bin", "8").unwrap_err().to_string();
        assert!(short.contains("m.onnx: node `Constant_0`: "), "{short}");
        assert!(short.contains("w.bin has 16 bytes, too few for 16 bytes at 8"), "{short}");
        assert!(read("lost.bin", "0").is_err());
    }

    #[test]
    fn what_is_absent_or_outside_of_the_folder_is_not_known() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("inside");
        std::fs::create_dir(&inside).unwrap();
        let outside = folder.path().join("w.bin");
        std::fs::write(&outside, ints(&[16, 4])).unwrap();
        for location in ["w.bin", "", ".", "../w.bin", outside.to_str().unwrap()] {
            let absent = read(&inside, location, "0");
            assert!(matches!(absent, Err(OnnxError::AbsentValues { .. })), "{location}");
        }
    }

    #[test]
    fn data_that_does_not_fit_is_refused_with_file_and_tensor() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("w.bin"), ints(&[16, 4])).unwrap();
        let refused = |offset: &str| read(folder.path(), "w.bin", offset).unwrap_err().to_string();
        let short = refused("8");
        assert!(short.contains("m.onnx: initializer `shape`: "), "{short}");
        assert!(short.contains("w.bin has 16 bytes, too few for 16 bytes at 8"), "{short}");
        assert!(refused(&u64::MAX.to_string()).contains("too few"));
        assert!(refused("-1").contains("the offset `-1`"));
    }
}
