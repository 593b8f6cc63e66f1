//! Finds the external tensors of a file and plans how each is written.

use super::fill::Distribution;
use super::{Piece, Plan, too_large};
use crate::onnx::external::{self, Reference};
use crate::onnx::proto::TensorProto;
use crate::onnx::view::{self, ModelView};
use crate::onnx::wire::{self, Field, FieldValue};
use crate::onnx::{payload, weight_inputs};
use crate::{Precision, TensorSpec};
use prost::Message as _;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Graphs within attributes within graphs: deeper than this is no real model.
const DEEPEST: usize = 32;

/// Field numbers of a graph.
const INITIALIZER: u64 = 5;
const INPUT: u64 = 11;

/// Messages that lead to tensors.
#[derive(Clone, Copy)]
pub(super) enum Message {
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

/// Walks the messages of a file twice: for the consumers of weights, then for the weights.
pub(super) struct Reader<'a> {
    file: &'a [u8],
    /// Where external data may lie; `None`: nowhere.
    folder: Option<&'a Path>,
    /// By weight name.
    distributions: HashMap<String, Distribution>,
    /// Size of each file of external data; `None` where there is no such file.
    sizes: HashMap<PathBuf, Option<u64>>,
    /// Inputs that become initializers, in the order of their names.
    weight_inputs: BTreeMap<String, TensorSpec>,
    /// Whether tensors without data are not changed.
    keeps_absent: bool,
}

impl<'a> Reader<'a> {
    /// A walk through `file`, whose external data may lie in `folder`.
    pub(super) fn new(file: &'a [u8], folder: Option<&'a Path>) -> Self {
        Self {
            file,
            folder,
            distributions: HashMap::new(),
            sizes: HashMap::new(),
            weight_inputs: BTreeMap::new(),
            keeps_absent: false,
        }
    }

    /// The same; tensors whose data is absent are not changed.
    pub(super) fn keeping_absent(file: &'a [u8], folder: &'a Path) -> Self {
        Self { keeps_absent: true, ..Self::new(file, Some(folder)) }
    }

    /// Seeks weights among the inputs. A file that cannot be decoded has none: the walk says why.
    pub(super) fn weight_inputs(&mut self) {
        let Ok(ModelView { graph: Some(graph), .. }) = view::decode(self.file) else { return };
        let found = weight_inputs::find(&graph).into_iter();
        self.weight_inputs = found.map(|(name, tensor)| (name.to_owned(), tensor)).collect();
    }

    /// Notes which operators read which weights.
    pub(super) fn consumers(
        &mut self,
        message: Message,
        range: Range<usize>,
        depth: usize,
    ) -> Result<(), String> {
        let fields = self.fields(range, depth)?;
        if matches!(message, Message::Node) {
            let op_type =
                fields.iter().find(|f| f.number == 4).map_or(String::new(), |f| self.text(f));
            for (index, input) in fields.iter().filter(|f| f.number == 1).enumerate() {
                let asked = Distribution::of_input(&op_type, index);
                let slot = self.distributions.entry(self.text(input)).or_insert(asked);
                *slot = asked.max(*slot);
            }
        }
        for field in &fields {
            if let (Some(child), FieldValue::Bytes(inner)) =
                (message.child(field.number), &field.value)
                && !matches!(child, Message::Tensor)
            {
                self.consumers(child, inner.clone(), depth + 1)?;
            }
        }
        Ok(())
    }

    /// The message at `range` with its external tensors put inside.
    pub(super) fn rewrite(
        &mut self,
        message: Message,
        range: Range<usize>,
        depth: usize,
    ) -> Result<Plan, String> {
        let mut plan = Plan { pieces: Vec::new(), length: 0 };
        let is_main_graph = matches!(message, Message::Graph) && depth == 1;
        for field in self.fields(range, depth)? {
            if is_main_graph && self.is_weight_input(&field)? {
                continue;
            }
            match (message.child(field.number), &field.value) {
                (Some(child), FieldValue::Bytes(inner)) => {
                    let inner = match child {
                        Message::Tensor => self.tensor(inner.clone())?,
                        _ => Some(self.rewrite(child, inner.clone(), depth + 1)?),
                    };
                    match inner {
                        Some(inner)
                            if inner.pieces.iter().any(|p| !matches!(p, Piece::Copy(_))) =>
                        {
                            plan.nest(field.number, inner);
                        }
                        _ => plan.copy(field.whole),
                    }
                }
                _ => plan.copy(field.whole),
            }
        }
        if is_main_graph {
            for (name, tensor) in std::mem::take(&mut self.weight_inputs) {
                plan.nest(INITIALIZER, self.initializer(&name, &tensor)?);
            }
        }
        Ok(plan)
    }

    /// Whether a field of the graph is an input that becomes an initializer.
    fn is_weight_input(&self, field: &Field) -> Result<bool, String> {
        let (INPUT, FieldValue::Bytes(range)) = (field.number, &field.value) else {
            return Ok(false);
        };
        let info = wire::fields(self.file, range.clone())?;
        let name = info.iter().find(|f| f.number == 1).map_or(String::new(), |f| self.text(f));
        Ok(self.weight_inputs.contains_key(&name))
    }

    /// A weight with random values.
    fn initializer(&self, name: &str, tensor: &TensorSpec) -> Result<Plan, String> {
        let described = TensorProto {
            name: name.to_owned(),
            dims: tensor.shape.iter().map(|&extent| extent as i64).collect(),
            data_type: payload::data_type(tensor.precision),
            ..TensorProto::default()
        };
        let mut plan = Plan { pieces: Vec::new(), length: 0 };
        plan.own(described.encode_to_vec());
        plan.own(wire::header(9, tensor.size_bytes()));
        let piece = Piece::Random {
            name: name.to_owned(),
            elements: usize::try_from(tensor.elements())
                .map_err(|_| too_large(tensor.size_bytes()))?,
            precision: tensor.precision,
            distribution: self.distributions.get(name).copied().unwrap_or(Distribution::Small),
        };
        plan.push(piece, tensor.size_bytes());
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
            FieldValue::Bytes(range) => {
                String::from_utf8_lossy(&self.file[range.clone()]).into_owned()
            }
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
        let (piece, bytes) =
            self.payload(&name, &fields).map_err(|reason| format!("weight `{name}`: {reason}"))?;
        if self.keeps_absent && matches!(piece, Piece::Random { .. }) {
            return Ok(None);
        }
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
        let data_type = fields
            .iter()
            .rev()
            .find_map(|f| {
                if let (2, FieldValue::Number(n)) = (f.number, &f.value) { Some(*n) } else { None }
            })
            .unwrap_or(0);
        let (precision, bits) = element(data_type)
            .ok_or_else(|| format!("element type {data_type} cannot be external data"))?;
        let elements = self.elements(fields)?;
        let bytes = elements.saturating_mul(bits).div_ceil(8);
        let entries = fields.iter().filter(|f| f.number == 13).filter_map(|f| match &f.value {
            FieldValue::Bytes(range) => Some(&self.file[range.clone()]),
            _ => None,
        });
        let reference = Reference::read(entries)?;
        let offset = reference.offset(bytes)?;
        let path = reference.path(self.folder.unwrap_or(Path::new("")))?;
        match self.folder.and_then(|_| self.size(&path)) {
            Some(size) if offset.saturating_add(bytes) <= size => {
                Ok((Piece::Stored { path, offset, length: bytes }, bytes))
            }
            Some(size) => Err(external::too_short(&path, size, bytes, offset)),
            None => {
                let distribution =
                    self.distributions.get(name).copied().unwrap_or(Distribution::Small);
                // Other types are not floats: zeros, byte by byte.
                let (precision, elements) =
                    precision.map_or((Precision::U8, bytes), |precision| (precision, elements));
                let elements = usize::try_from(elements).map_err(|_| too_large(bytes))?;
                Ok((
                    Piece::Random { name: name.to_owned(), elements, precision, distribution },
                    bytes,
                ))
            }
        }
    }

    /// Product of `dims`, packed or not.
    fn elements(&self, fields: &[Field]) -> Result<u64, String> {
        let mut dims = Vec::new();
        for field in fields.iter().filter(|f| f.number == 1) {
            match &field.value {
                FieldValue::Number(n) => dims.push(*n),
                FieldValue::Bytes(range) => {
                    for number in wire::packed(self.file, range.clone()) {
                        dims.push(number?);
                    }
                }
                FieldValue::Fixed(_) => return Err("its shape is damaged".to_owned()),
            }
        }
        match dims.iter().find(|&&d| d > i64::MAX as u64) {
            Some(&d) => Err(format!("a dimension is {}", d as i64)),
            None => Ok(dims.iter().fold(1, |n: u64, &d| n.saturating_mul(d))),
        }
    }

    fn size(&mut self, path: &Path) -> Option<u64> {
        *self.sizes.entry(path.to_owned()).or_insert_with(|| external::size(path))
    }
}

/// Size in bits of an ONNX element type (numbers of `TensorProto.DataType`), and its name here
/// where it has one.
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
