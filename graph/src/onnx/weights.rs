//! Weights for models that come without: any ONNX file in, one self-contained file out.
//!
//! Works on protobuf's wire format: everything but the external tensors is copied byte for byte, so that no field is lost. External data that is
//! there (beside the model) is read; absent data becomes seeded random values that keep every operator's result finite:
//!
//! | weight | values |
//! |---|---|
//! | floating point | normal, mean 0, standard deviation 0.02 |
//! | scale of a normalisation | normal, mean 1, standard deviation 0.02 |
//! | variance; divisor; what Sqrt, Log, Reciprocal, Pow are applied to | uniform in 0.5 to 1.5 |
//! | integers and booleans | 0: a valid index and mask everywhere |

pub(super) mod fill;
mod wire;

use super::OnnxError;
use crate::Precision;
use fill::Distribution;
use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Component, Path, PathBuf};
use wire::{Field, FieldValue};

/// The largest message protobuf's readers take.
pub(super) const MOST_BYTES: u64 = i32::MAX as u64;
/// Graphs within attributes within graphs: deeper than this is no real model.
const DEEPEST: usize = 32;

/// A model's bytes with all its weights inside; `seed` decides those that are absent.
///
/// # Errors
/// [`OnnxError`] when the file cannot be read, is not ONNX, names data outside its folder, or would be larger than protobuf's 2 GB.
pub fn materialize(path: &Path, seed: u64) -> Result<Vec<u8>, OnnxError> {
    let file = read(path)?;
    let plan = plan(path, &file)?;
    plan.run(path, &file, seed)
}

/// Whether the data of every weight is there, in the file or beside it.
///
/// # Errors
/// [`OnnxError`] as [`materialize`].
pub fn weights_present(path: &Path) -> Result<bool, OnnxError> {
    let file = read(path)?;
    Ok(!plan(path, &file)?.pieces.iter().any(|piece| matches!(piece, Piece::Random { .. })))
}

/// Fills all external tensors of a model in memory with random values; nothing is read from the disk.
pub(super) fn fill_in(model: &[u8], seed: u64) -> Result<Vec<u8>, String> {
    let plan = Plan::of(None, model)?;
    plan.run(Path::new(""), model, seed).map_err(|error| match error {
        OnnxError::Format { reason, .. } => reason,
        other => other.to_string(),
    })
}

fn plan(path: &Path, file: &[u8]) -> Result<Plan, OnnxError> {
    let folder = path.parent().unwrap_or(Path::new(""));
    Plan::of(Some(folder), file).map_err(|reason| OnnxError::Format { path: path.to_owned(), reason })
}

fn read(path: &Path) -> Result<Vec<u8>, OnnxError> {
    std::fs::read(path).map_err(|source| OnnxError::Io { path: path.to_owned(), source })
}

/// A stretch of the file to write.
enum Piece {
    Copy(Range<usize>),
    Owned(Vec<u8>),
    Stored { path: PathBuf, offset: u64, length: u64 },
    Random { name: String, elements: usize, precision: Precision, distribution: Distribution },
}

/// Messages that lead to tensors.
#[derive(Clone, Copy)]
enum Message {
    Model,
    Graph,
    Function,
    Node,
    Attribute,
    Tensor,
}

impl Message {
    /// The message in field `number`, if tensors may be in it (field numbers of `onnx.proto`).
    fn child(self, number: u64) -> Option<Self> {
        match (self, number) {
            (Self::Model, 7) | (Self::Attribute, 6 | 11) => Some(Self::Graph),
            (Self::Model, 25) => Some(Self::Function),
            (Self::Graph, 1) | (Self::Function, 7) => Some(Self::Node),
            (Self::Node, 5) => Some(Self::Attribute),
            (Self::Graph, 5) | (Self::Attribute, 5 | 10) => Some(Self::Tensor),
            _ => None,
        }
    }
}

/// What the self-contained file is put together from.
struct Plan {
    pieces: Vec<Piece>,
    length: u64,
}

impl Plan {
    fn of(folder: Option<&Path>, file: &[u8]) -> Result<Self, String> {
        let mut reader = Reader { file, folder, distributions: HashMap::new(), sizes: HashMap::new() };
        reader.consumers(Message::Model, 0..file.len(), 0)?;
        reader.rewrite(Message::Model, 0..file.len(), 0)
    }

    fn run(&self, path: &Path, file: &[u8], seed: u64) -> Result<Vec<u8>, OnnxError> {
        let refuse = |reason: String| OnnxError::Format { path: path.to_owned(), reason };
        if self.length > MOST_BYTES {
            return Err(refuse(too_large(self.length)));
        }
        let length = self.length as usize;
        let mut out = Vec::new();
        out.try_reserve_exact(length).map_err(|_| refuse(format!("not enough memory for {length} bytes of weights")))?;
        for piece in &self.pieces {
            match piece {
                Piece::Copy(range) => out.extend_from_slice(&file[range.clone()]),
                Piece::Owned(bytes) => out.extend_from_slice(bytes),
                Piece::Stored { path, offset, length } => {
                    append_stored(&mut out, path, *offset, *length).map_err(|source| OnnxError::Io { path: path.clone(), source })?;
                }
                Piece::Random { name, elements, precision, distribution } => fill::append(&mut out, *elements, *precision, *distribution, seed, name),
            }
        }
        Ok(out)
    }
}

pub(super) fn too_large(bytes: u64) -> String {
    format!("with its weights the model has {bytes} bytes; one ONNX file holds at most {MOST_BYTES}")
}

fn append_stored(out: &mut Vec<u8>, path: &Path, offset: u64, length: u64) -> std::io::Result<()> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(offset))?;
    let read = file.take(length).read_to_end(out)?;
    if read as u64 == length { Ok(()) } else { Err(std::io::ErrorKind::UnexpectedEof.into()) }
}

struct Reader<'a> {
    file: &'a [u8],
    /// Where external data may lie; `None`: nowhere.
    folder: Option<&'a Path>,
    /// By weight name.
    distributions: HashMap<String, Distribution>,
    /// Size of each file of external data; `None` where there is no such file.
    sizes: HashMap<PathBuf, Option<u64>>,
}

impl Reader<'_> {
    /// Notes which operators read which weights.
    fn consumers(&mut self, message: Message, range: Range<usize>, depth: usize) -> Result<(), String> {
        let fields = self.fields(range, depth)?;
        if matches!(message, Message::Node) {
            let op_type = fields.iter().find(|f| f.number == 4).map_or(String::new(), |f| self.text(f));
            for (index, input) in fields.iter().filter(|f| f.number == 1).enumerate() {
                let asked = Distribution::of_input(&op_type, index);
                let slot = self.distributions.entry(self.text(input)).or_insert(asked);
                *slot = asked.max(*slot);
            }
        }
        for field in &fields {
            if let (Some(child), FieldValue::Bytes(inner)) = (message.child(field.number), &field.value)
                && !matches!(child, Message::Tensor)
            {
                self.consumers(child, inner.clone(), depth + 1)?;
            }
        }
        Ok(())
    }

    /// The message at `range` with its external tensors put inside.
    fn rewrite(&mut self, message: Message, range: Range<usize>, depth: usize) -> Result<Plan, String> {
        let mut plan = Plan { pieces: Vec::new(), length: 0 };
        for field in self.fields(range, depth)? {
            match (message.child(field.number), &field.value) {
                (Some(child), FieldValue::Bytes(inner)) => {
                    let inner = match child {
                        Message::Tensor => self.tensor(inner.clone())?,
                        _ => Some(self.rewrite(child, inner.clone(), depth + 1)?),
                    };
                    match inner {
                        Some(inner) if inner.pieces.iter().any(|p| !matches!(p, Piece::Copy(_))) => plan.nest(field.number, inner),
                        _ => plan.copy(field.whole),
                    }
                }
                _ => plan.copy(field.whole),
            }
        }
        Ok(plan)
    }

    fn fields(&self, range: Range<usize>, depth: usize) -> Result<Vec<Field>, String> {
        if depth > 3 * DEEPEST {
            return Err(format!("graphs are nested deeper than {DEEPEST}"));
        }
        wire::fields(self.file, range)
    }

    fn text(&self, field: &Field) -> String {
        match &field.value {
            FieldValue::Bytes(range) => String::from_utf8_lossy(&self.file[range.clone()]).into_owned(),
            _ => String::new(),
        }
    }

    /// A tensor with its data inside; `None` where it is already.
    fn tensor(&mut self, range: Range<usize>) -> Result<Option<Plan>, String> {
        let fields = wire::fields(self.file, range)?;
        if !fields.iter().any(|f| f.number == 14 && matches!(f.value, FieldValue::Number(1))) {
            return Ok(None);
        }
        let name = fields.iter().find(|f| f.number == 8).map_or(String::new(), |f| self.text(f));
        let (piece, bytes) = self.payload(&name, &fields).map_err(|reason| format!("weight `{name}`: {reason}"))?;
        let mut plan = Plan { pieces: Vec::new(), length: 0 };
        for field in fields.into_iter().filter(|f| !matches!(f.number, 9 | 13 | 14)) {
            plan.copy(field.whole);
        }
        plan.own(wire::header(9, bytes));
        plan.push(piece, bytes);
        Ok(Some(plan))
    }

    /// The data of an external tensor and its size in bytes.
    fn payload(&mut self, name: &str, fields: &[Field]) -> Result<(Piece, u64), String> {
        let data_type = fields.iter().rev().find_map(|f| if let (2, FieldValue::Number(n)) = (f.number, &f.value) { Some(*n) } else { None }).unwrap_or(0);
        let (precision, bits) = element(data_type).ok_or_else(|| format!("element type {data_type} cannot be external data"))?;
        let elements = self.elements(fields)?;
        let bytes = elements.saturating_mul(bits).div_ceil(8);
        let entries = self.entries(fields)?;
        let number = |key: &str| entries.get(key).map(|text| text.parse::<u64>().map_err(|_| format!("external data has the {key} `{text}`"))).transpose();
        if let Some(length) = number("length")?.filter(|&length| length != bytes) {
            return Err(format!("external data of {length} bytes for a tensor of {bytes}"));
        }
        let offset = number("offset")?.unwrap_or(0);
        let path = self.location(entries.get("location").map_or("", String::as_str))?;
        match self.folder.and_then(|_| self.size(&path)) {
            Some(size) if offset.saturating_add(bytes) <= size => Ok((Piece::Stored { path, offset, length: bytes }, bytes)),
            Some(size) => Err(format!("{} has {size} bytes, too few for {bytes} bytes at {offset}", path.display())),
            None => {
                let distribution = self.distributions.get(name).copied().unwrap_or(Distribution::Small);
                // Types without a name of their own are no floats: zeros, byte by byte.
                let (precision, elements) = precision.map_or((Precision::U8, bytes), |precision| (precision, elements));
                let elements = usize::try_from(elements).map_err(|_| too_large(bytes))?;
                Ok((Piece::Random { name: name.to_owned(), elements, precision, distribution }, bytes))
            }
        }
    }

    /// Product of `dims`, packed or not.
    fn elements(&self, fields: &[Field]) -> Result<u64, String> {
        let mut dims = Vec::new();
        for field in fields.iter().filter(|f| f.number == 1) {
            match &field.value {
                FieldValue::Number(n) => dims.push(*n),
                FieldValue::Bytes(range) => dims.extend(wire::packed(self.file, range.clone())?),
                FieldValue::Fixed => return Err("its shape is damaged".to_owned()),
            }
        }
        match dims.iter().find(|&&d| d > i64::MAX as u64) {
            Some(&d) => Err(format!("a dimension is {}", d as i64)),
            None => Ok(dims.iter().fold(1, |n: u64, &d| n.saturating_mul(d))),
        }
    }

    fn entries(&self, fields: &[Field]) -> Result<HashMap<String, String>, String> {
        let mut entries = HashMap::new();
        for field in fields.iter().filter(|f| f.number == 13) {
            let FieldValue::Bytes(range) = &field.value else { continue };
            let pair = wire::fields(self.file, range.clone())?;
            let part = |number| pair.iter().find(|f| f.number == number).map_or(String::new(), |f| self.text(f));
            entries.insert(part(1), part(2));
        }
        Ok(entries)
    }

    /// The file of external data, which has to be in the model's folder or below.
    fn location(&self, location: &str) -> Result<PathBuf, String> {
        let relative = Path::new(location);
        let inside = !location.is_empty() && relative.components().all(|c| matches!(c, Component::Normal(_) | Component::CurDir));
        if inside { Ok(self.folder.unwrap_or(Path::new("")).join(relative)) } else { Err(format!("external data `{location}` is not in the model's folder")) }
    }

    fn size(&mut self, path: &Path) -> Option<u64> {
        *self.sizes.entry(path.to_owned()).or_insert_with(|| std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file).map(|m| m.len()))
    }
}

impl Plan {
    fn push(&mut self, piece: Piece, bytes: u64) {
        self.length = self.length.saturating_add(bytes);
        self.pieces.push(piece);
    }

    fn copy(&mut self, range: Range<usize>) {
        let bytes = range.len() as u64;
        if let Some(Piece::Copy(last)) = self.pieces.last_mut()
            && last.end == range.start
        {
            last.end = range.end;
            self.length += bytes;
            return;
        }
        self.push(Piece::Copy(range), bytes);
    }

    fn own(&mut self, bytes: Vec<u8>) {
        let length = bytes.len() as u64;
        self.push(Piece::Owned(bytes), length);
    }

    fn nest(&mut self, number: u64, inner: Self) {
        self.own(wire::header(number, inner.length));
        self.length = self.length.saturating_add(inner.length);
        self.pieces.extend(inner.pieces);
    }
}

/// Size in bits of an ONNX element type (numbers of `TensorProto.DataType`), and its name here where it has one.
fn element(data_type: u64) -> Option<(Option<Precision>, u64)> {
    Some(match data_type {
        1 => (Some(Precision::F32), 32),
        10 => (Some(Precision::F16), 16),
        11 => (Some(Precision::F64), 64),
        16 => (Some(Precision::Bf16), 16),
        2 | 3 | 9 | 17..=20 | 24 => (None, 8),
        4 | 5 => (None, 16),
        6 | 12 => (None, 32),
        7 | 13 | 14 => (None, 64),
        15 => (None, 128),
        21..=23 => (None, 4),
        _ => return None,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
