//! Estimates the memory of an uploaded model before it is decoded. Two bytes of a file can take
//! hundreds in memory, so a pass over protobuf's wire format counts them first. The sizes are those
//! of [`proto`]; the reader keeps less of a file.

use super::problem::Problem;
use std::ops::Range;
use vitempo::graph::onnx::{
    proto,
    wire::{Field, FieldValue, Fields},
};

/// Most memory for nodes, attributes, names and numbers, in bytes; a model of 100,000 nodes needs
/// less. The memory of weights is bounded by the body's size.
const MOST: usize = 256 << 20;
/// Nested graphs: no model is deeper than this.
const DEEPEST: usize = 90;
/// A string or a list, without its contents.
const LIST: usize = size_of::<String>();
const NUMBER: usize = 8;

/// Messages of `onnx.proto` that contain others, or lists that are longer in memory than in the
/// file.
#[derive(Clone, Copy)]
enum Message {
    Model,
    Graph,
    Node,
    Attribute,
    Tensor,
    Info,
    Type,
    TensorType,
    Shape,
    Leaf,
}

impl Message {
    /// The message in field `number`, and its size in memory.
    fn child(self, number: u64) -> Option<(Self, usize)> {
        Some(match (self, number) {
            (Self::Model, 7) | (Self::Attribute, 6) => {
                (Self::Graph, size_of::<proto::GraphProto>())
            }
            (Self::Model, 8) => (Self::Leaf, size_of::<proto::OperatorSetIdProto>()),
            (Self::Model, 25) => (Self::Leaf, size_of::<proto::FunctionProto>()),
            (Self::Model, 14) | (Self::Tensor, 13) => {
                (Self::Leaf, size_of::<proto::StringStringEntryProto>())
            }
            (Self::Graph, 1) => (Self::Node, size_of::<proto::NodeProto>()),
            (Self::Graph, 5) | (Self::Attribute, 5) => {
                (Self::Tensor, size_of::<proto::TensorProto>())
            }
            (Self::Graph, 11..=13) => (Self::Info, size_of::<proto::ValueInfoProto>()),
            (Self::Node, 5) => (Self::Attribute, size_of::<proto::AttributeProto>()),
            (Self::Info, 2) => (Self::Type, size_of::<proto::TypeProto>()),
            (Self::Type, 1) => (Self::TensorType, size_of::<proto::TensorTypeProto>()),
            (Self::TensorType, 2) => (Self::Shape, size_of::<proto::TensorShapeProto>()),
            (Self::Shape, 1) => (Self::Leaf, size_of::<proto::DimensionProto>()),
            _ => return None,
        })
    }

    /// Bytes in memory for one byte of packed numbers.
    fn factor(self, number: u64) -> usize {
        match (self, number) {
            (Self::Tensor, 1 | 7 | 11) | (Self::Attribute, 8) => NUMBER,
            (Self::Tensor, 5) => NUMBER / 2,
            _ => 0,
        }
    }
}

/// Accepts files that decode to a reasonable size, and files that are not models, for which the
/// decoder has better errors.
///
/// # Errors
/// 422 for a file that would take far more memory than it is long.
pub fn check(file: &[u8]) -> Result<(), Problem> {
    let mut left = MOST;
    walk(Message::Model, file, 0..file.len(), 0, &mut left)
}

fn walk(
    message: Message,
    file: &[u8],
    range: Range<usize>,
    depth: usize,
    left: &mut usize,
) -> Result<(), Problem> {
    if depth > DEEPEST {
        return Err(Problem::unprocessable("its graphs are nested too deeply for a model"));
    }
    for field in Fields::new(file, range) {
        let Ok(Field { number, value, .. }) = field else { return Ok(()) };
        let size = match value {
            FieldValue::Number(_) | FieldValue::Fixed(_) => NUMBER,
            FieldValue::Bytes(inner) => match message.child(number) {
                Some((child, size)) => {
                    walk(child, file, inner, depth + 1, left)?;
                    size
                }
                None => LIST + inner.len().saturating_mul(message.factor(number)),
            },
        };
        *left = left.checked_sub(size).ok_or_else(|| {
            Problem::unprocessable("it would take far more memory than a model of its length does")
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field that holds bytes.
    fn field(number: u8, inner: &[u8]) -> Vec<u8> {
        let mut out = vec![number << 3 | 2];
        let mut length = inner.len();
        while length > 0x7f {
            out.push(length as u8 & 0x7f | 0x80);
            length >>= 7;
        }
        out.push(length as u8);
        out.extend_from_slice(inner);
        out
    }

    #[test]
    fn small_files_that_would_become_large_are_refused() {
        let nodes = field(7, &field(1, &[]).repeat(3 << 20));
        assert!(check(&nodes).is_err_and(|p| p.detail().contains("memory")));
        let attributes = field(7, &field(1, &field(5, &[]).repeat(1 << 20)));
        assert!(check(&attributes).is_err_and(|p| p.detail().contains("memory")));
        let numbers = field(7, &field(5, &field(7, &vec![1; 1 << 25])));
        assert!(check(&numbers).is_err_and(|p| p.detail().contains("memory")));
    }

    #[test]
    fn endless_nesting_is_refused() {
        let mut graph = Vec::new();
        for _ in 0..60 {
            graph = field(1, &field(5, &field(6, &graph)));
        }
        assert!(check(&field(7, &graph)).is_err_and(|p| p.detail().contains("nested")));
    }

    #[test]
    fn models_pass_and_so_does_what_is_none() {
        for name in ["mobilevit_xxs", "edgenext_xx_small"] {
            let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("../tests/models")
                .join(format!("{name}.onnx"));
            assert!(check(&std::fs::read(path).unwrap_or_else(|e| panic!("{e}"))).is_ok());
        }
        let weights = field(7, &field(5, &field(9, &vec![0; 1 << 20])));
        assert!(
            check(&weights).is_ok()
                && check(b"").is_ok()
                && check(&[0xff; 40]).is_ok()
                && check(&[7 << 3 | 2, 200]).is_ok()
        );
    }
}
