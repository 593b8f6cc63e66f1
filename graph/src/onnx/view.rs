//! The parts of a file that the reader needs, borrowed from its bytes: neither names nor raw data
//! are copied, and unused fields are skipped. Field numbers are those of [`super::proto`].

mod captured;

use super::proto::TensorProto;
use super::wire::{FieldValue, Fields, packed};
use crate::spending::Spending;
use crate::{Budget, Limits};
pub(super) use captured::TOO_DEEP;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::ops::Range;

/// A file.
#[derive(Debug, Default)]
pub(crate) struct ModelView<'a> {
    pub graph: Option<GraphView<'a>>,
    pub opset_import: Vec<OperatorSetView<'a>>,
    pub metadata: Vec<EntryView<'a>>,
    pub functions: Vec<FunctionView<'a>>,
}

/// The name of a function that nodes call as an operator.
#[derive(Debug, Default)]
pub(crate) struct FunctionView<'a> {
    pub domain: &'a str,
    pub name: &'a str,
}

#[derive(Debug, Default)]
pub(crate) struct EntryView<'a> {
    pub key: &'a str,
    pub value: &'a str,
}

#[derive(Debug, Default)]
pub(crate) struct OperatorSetView<'a> {
    pub domain: &'a str,
    pub version: i64,
}

#[derive(Debug, Default)]
pub(crate) struct GraphView<'a> {
    pub node: Vec<NodeView<'a>>,
    pub initializer: Vec<TensorView<'a>>,
    pub sparse_initializer: Vec<SparseTensorView<'a>>,
    pub input: Vec<ValueInfoView<'a>>,
    pub output: Vec<ValueInfoView<'a>>,
    /// Each a [`ValueInfoView`], left encoded: only outputs of unknown operators are looked up.
    pub value_info: Vec<&'a [u8]>,
}

#[derive(Debug, Default)]
pub(crate) struct NodeView<'a> {
    pub input: Vec<&'a str>,
    pub output: Vec<&'a str>,
    pub name: &'a str,
    pub op_type: &'a str,
    pub domain: &'a str,
    pub attribute: Vec<AttributeView<'a>>,
}

#[derive(Debug, Default)]
pub(crate) struct AttributeView<'a> {
    pub name: &'a str,
    pub f: f32,
    pub i: i64,
    pub s: &'a [u8],
    pub t: Option<Box<TensorView<'a>>>,
    pub floats: Vec<f32>,
    pub ints: Vec<i64>,
    /// What graphs in it read from around them.
    pub captured: Vec<&'a str>,
}

#[derive(Debug, Default)]
pub(crate) struct TensorView<'a> {
    pub dims: SmallVec<[i64; 4]>,
    pub data_type: i32,
    pub name: &'a str,
    pub raw_data: &'a [u8],
    pub float_data: Cow<'a, [f32]>,
    pub int32_data: Cow<'a, [i32]>,
    pub int64_data: Cow<'a, [i64]>,
    pub double_data: Cow<'a, [f64]>,
    pub uint64_data: Cow<'a, [u64]>,
    /// Whether the data lies elsewhere.
    pub external: bool,
    /// Where: each a `StringStringEntryProto`, left encoded.
    pub external_data: Vec<&'a [u8]>,
}

/// A tensor of `dims` of which only some elements are in the file.
#[derive(Debug, Default)]
pub(crate) struct SparseTensorView<'a> {
    /// Those elements; the tensor's name and element type are theirs.
    pub values: TensorView<'a>,
    pub dims: SmallVec<[i64; 4]>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct ValueInfoView<'a> {
    pub name: &'a str,
    pub r#type: Option<TypeView<'a>>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct TypeView<'a> {
    pub tensor_type: Option<TensorTypeView<'a>>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct TensorTypeView<'a> {
    pub elem_type: i32,
    pub shape: Option<ShapeView<'a>>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct ShapeView<'a> {
    pub dim: Vec<DimensionView<'a>>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct DimensionView<'a> {
    pub dim_value: Option<i64>,
    pub dim_param: Option<&'a str>,
}

impl<'a> NodeView<'a> {
    /// The attribute of that name.
    pub fn attribute(&self, name: &str) -> Option<&AttributeView<'a>> {
        self.attribute.iter().find(|a| a.name == name)
    }

    /// The integer of that name.
    pub fn int(&self, name: &str) -> Option<i64> {
        self.attribute(name).map(|a| a.i)
    }

    /// The number of that name.
    pub fn float(&self, name: &str) -> Option<f64> {
        self.attribute(name).map(|a| f64::from(a.f))
    }

    /// The integers of that name; empty when there are none.
    pub fn ints(&self, name: &str) -> &[i64] {
        self.attribute(name).map_or(&[], |a| &a.ints)
    }

    /// Of a Shape node: which dimensions of a tensor of that rank it gives.
    pub fn shape_range(&self, rank: usize) -> Range<usize> {
        let rank = rank as i64;
        let bound = |name: &str, default: i64| {
            let v = self.int(name).unwrap_or(default);
            (if v < 0 { v.saturating_add(rank) } else { v }).clamp(0, rank) as usize
        };
        bound("start", 0)..bound("end", rank)
    }

    /// What it reads: its inputs, then what graphs in its attributes read from around them.
    pub fn reads(&self) -> impl Iterator<Item = &'a str> {
        self.input.iter().chain(self.captured()).copied().filter(|name| !name.is_empty())
    }

    /// What graphs in its attributes read from around them.
    pub fn captured(&self) -> impl Iterator<Item = &&'a str> {
        self.attribute.iter().flat_map(|a| &a.captured)
    }

    /// The text of that name, when it is text.
    pub fn text(&self, name: &str) -> Option<&'a str> {
        self.attribute(name).and_then(|a| std::str::from_utf8(a.s).ok())
    }
}

/// A message, read field by field.
///
/// # Errors
/// A sentence that names the byte where it is damaged.
pub(super) fn decode<'a, M: Message<'a>>(bytes: &'a [u8]) -> Result<M, String> {
    let mut message = M::default();
    decode_into(&mut message, bytes, &Spending::new(&Budget::new(Limits::NONE)))?;
    Ok(message)
}

/// [`decode`] of the message at `range` of a file, so that errors name the byte of the file.
///
/// # Errors
/// As [`decode`].
pub(super) fn decode_at<'a, M: Message<'a>>(
    file: &'a [u8],
    range: Range<usize>,
) -> Result<M, String> {
    let spending = Spending::new(&Budget::new(Limits::NONE));
    Found { file, value: FieldValue::Bytes(range), spending: &spending }.message()
}

/// [`decode`] as long as there is something to spend: a step for each field and each number of a
/// list. After an error, `message` holds what was read until then.
///
/// # Errors
/// As [`decode`]; where the budget ended, `spending` says so.
pub(super) fn decode_into<'a, M: Message<'a>>(
    message: &mut M,
    bytes: &'a [u8],
    spending: &Spending,
) -> Result<(), String> {
    let value = FieldValue::Bytes(0..bytes.len());
    merge(message, Found { file: bytes, value, spending })
}

/// A message that takes in one field after the other.
pub(super) trait Message<'a>: Default {
    /// Takes in the field with that number. Of fields that hold one value the last one counts,
    /// messages in them grow together.
    fn take(&mut self, number: u64, found: Found<'a, '_>) -> Result<(), String>;
}

fn merge<'a, M: Message<'a>>(message: &mut M, found: Found<'a, '_>) -> Result<(), String> {
    each_field(found, |number, found| message.take(number, found))
}

/// Passes each field of a message to `take`, with its number.
fn each_field<'a, 's>(
    found: Found<'a, 's>,
    mut take: impl FnMut(u64, Found<'a, 's>) -> Result<(), String>,
) -> Result<(), String> {
    let FieldValue::Bytes(range) = found.value else { return Err(found.damaged("message")) };
    let Found { file, spending, .. } = found;
    Fields::new(file, range).try_for_each(|field| {
        let field = field?;
        spend(spending, 1)?;
        take(field.number, Found { file, value: field.value, spending })
    })
}

fn spend(spending: &Spending, steps: usize) -> Result<(), String> {
    if spending.steps(steps as u64) { Ok(()) } else { Err("the budget is spent".to_owned()) }
}

/// What a field holds.
pub(crate) struct Found<'a, 's> {
    file: &'a [u8],
    value: FieldValue,
    spending: &'s Spending,
}

impl<'a> Found<'a, '_> {
    fn damaged(&self, expected: &str) -> String {
        match &self.value {
            FieldValue::Number(number) => format!("{number} where a {expected} should be"),
            FieldValue::Bytes(range) | FieldValue::Fixed(range) => {
                format!("no {expected} at byte {}", range.start)
            }
        }
    }

    fn number(self) -> Result<u64, String> {
        match self.value {
            FieldValue::Number(number) => Ok(number),
            _ => Err(self.damaged("number")),
        }
    }

    fn int(self) -> Result<i64, String> {
        self.number().map(|number| number as i64)
    }

    fn small_int(self) -> Result<i32, String> {
        self.number().map(|number| number as i32)
    }

    fn bytes(self) -> Result<&'a [u8], String> {
        match self.value {
            FieldValue::Bytes(range) => Ok(&self.file[range]),
            _ => Err(self.damaged("list of bytes")),
        }
    }

    fn text(self) -> Result<&'a str, String> {
        let start = if let FieldValue::Bytes(range) = &self.value { range.start } else { 0 };
        std::str::from_utf8(self.bytes()?)
            .map_err(|error| format!("the text at byte {start} is invalid ({error})"))
    }

    fn float(self) -> Result<f32, String> {
        let bytes = if let FieldValue::Fixed(range) = &self.value {
            self.file[range.clone()].try_into().ok()
        } else {
            None
        };
        bytes.map(f32::from_le_bytes).ok_or_else(|| self.damaged("32-bit number"))
    }

    fn message<M: Message<'a>>(self) -> Result<M, String> {
        let mut message = M::default();
        merge(&mut message, self)?;
        Ok(message)
    }

    /// Adds a number, or a packed list of them.
    fn numbers<T>(self, list: &mut impl Extend<T>, of: fn(u64) -> T) -> Result<(), String> {
        match self.value {
            FieldValue::Number(number) => list.extend([of(number)]),
            FieldValue::Bytes(range) => {
                spend(self.spending, range.len())?;
                for number in packed(self.file, range) {
                    list.extend([of(number?)]);
                }
            }
            FieldValue::Fixed(_) => return Err(self.damaged("number")),
        }
        Ok(())
    }

    /// Adds numbers of `N` bytes: one, or a packed list of them.
    fn fixed<const N: usize, T>(
        self,
        list: &mut Vec<T>,
        of: fn([u8; N]) -> T,
    ) -> Result<(), String> {
        let (FieldValue::Bytes(range) | FieldValue::Fixed(range)) = &self.value else {
            return Err(self.damaged("list of numbers"));
        };
        let (numbers, rest) = self.file[range.clone()].as_chunks::<N>();
        spend(self.spending, numbers.len())?;
        if !rest.is_empty() {
            return Err(self.damaged("list of numbers"));
        }
        list.extend(numbers.iter().map(|&bytes| of(bytes)));
        Ok(())
    }
}

impl<'a> Message<'a> for ModelView<'a> {
    fn take(&mut self, number: u64, found: Found<'a, '_>) -> Result<(), String> {
        match number {
            7 => merge(self.graph.get_or_insert_default(), found)?,
            8 => self.opset_import.push(found.message()?),
            14 => self.metadata.push(found.message()?),
            25 => self.functions.push(found.message()?),
            _ => {}
        }
        Ok(())
    }
}

impl<'a> Message<'a> for FunctionView<'a> {
    fn take(&mut self, number: u64, found: Found<'a, '_>) -> Result<(), String> {
        match number {
            1 => self.name = found.text()?,
            10 => self.domain = found.text()?,
            _ => {}
        }
        Ok(())
    }
}

/// Other metadata than vitempo's own need not be text.
impl<'a> Message<'a> for EntryView<'a> {
    fn take(&mut self, number: u64, found: Found<'a, '_>) -> Result<(), String> {
        match number {
            1 => self.key = std::str::from_utf8(found.bytes()?).unwrap_or_default(),
            2 => self.value = std::str::from_utf8(found.bytes()?).unwrap_or_default(),
            _ => {}
        }
        Ok(())
    }
}

impl<'a> Message<'a> for OperatorSetView<'a> {
    fn take(&mut self, number: u64, found: Found<'a, '_>) -> Result<(), String> {
        match number {
            1 => self.domain = found.text()?,
            2 => self.version = found.int()?,
            _ => {}
        }
        Ok(())
    }
}

impl<'a> Message<'a> for GraphView<'a> {
    fn take(&mut self, number: u64, found: Found<'a, '_>) -> Result<(), String> {
        match number {
            1 => self.node.push(found.message()?),
            5 => self.initializer.push(found.message()?),
            11 => self.input.push(found.message()?),
            12 => self.output.push(found.message()?),
            15 => self.sparse_initializer.push(found.message()?),
            13 => self.value_info.push(found.bytes()?),
            _ => {}
        }
        Ok(())
    }
}

impl<'a> Message<'a> for NodeView<'a> {
    fn take(&mut self, number: u64, found: Found<'a, '_>) -> Result<(), String> {
        match number {
            1 => self.input.push(found.text()?),
            2 => self.output.push(found.text()?),
            3 => self.name = found.text()?,
            4 => self.op_type = found.text()?,
            5 => self.attribute.push(found.message()?),
            7 => self.domain = found.text()?,
            _ => {}
        }
        Ok(())
    }
}

impl<'a> Message<'a> for AttributeView<'a> {
    fn take(&mut self, number: u64, found: Found<'a, '_>) -> Result<(), String> {
        match number {
            1 => self.name = found.text()?,
            2 => self.f = found.float()?,
            3 => self.i = found.int()?,
            4 => self.s = found.bytes()?,
            5 => merge(self.t.get_or_insert_default().as_mut(), found)?,
            6 | 11 => captured::add(&mut self.captured, found)?,
            7 => found.fixed(&mut self.floats, f32::from_le_bytes)?,
            8 => found.numbers(&mut self.ints, |number| number as i64)?,
            _ => {}
        }
        Ok(())
    }
}

impl<'a> Message<'a> for TensorView<'a> {
    fn take(&mut self, number: u64, found: Found<'a, '_>) -> Result<(), String> {
        match number {
            1 => found.numbers(&mut self.dims, |number| number as i64)?,
            2 => self.data_type = found.small_int()?,
            4 => found.fixed(self.float_data.to_mut(), f32::from_le_bytes)?,
            5 => found.numbers(self.int32_data.to_mut(), |number| number as i32)?,
            7 => found.numbers(self.int64_data.to_mut(), |number| number as i64)?,
            8 => self.name = found.text()?,
            9 => self.raw_data = found.bytes()?,
            10 => found.fixed(self.double_data.to_mut(), f64::from_le_bytes)?,
            11 => found.numbers(self.uint64_data.to_mut(), |number| number)?,
            13 => {
                self.external = true;
                self.external_data.push(found.bytes()?);
            }
            14 => self.external |= found.number()? == 1,
            _ => {}
        }
        Ok(())
    }
}

impl<'a> Message<'a> for SparseTensorView<'a> {
    fn take(&mut self, number: u64, found: Found<'a, '_>) -> Result<(), String> {
        match number {
            1 => merge(&mut self.values, found),
            3 => found.numbers(&mut self.dims, |number| number as i64),
            _ => Ok(()),
        }
    }
}

impl TensorView<'_> {
    /// How many numbers are in the file at most.
    pub fn numbers(&self) -> usize {
        self.raw_data.len()
            + self.float_data.len()
            + self.int32_data.len()
            + self.int64_data.len()
            + self.double_data.len()
            + self.uint64_data.len()
    }
}

impl<'a> From<&'a TensorProto> for TensorView<'a> {
    fn from(tensor: &'a TensorProto) -> Self {
        Self {
            dims: tensor.dims.as_slice().into(),
            data_type: tensor.data_type,
            name: &tensor.name,
            raw_data: &tensor.raw_data,
            float_data: tensor.float_data.as_slice().into(),
            int32_data: tensor.int32_data.as_slice().into(),
            int64_data: tensor.int64_data.as_slice().into(),
            double_data: tensor.double_data.as_slice().into(),
            uint64_data: tensor.uint64_data.as_slice().into(),
            external: tensor.data_location == 1 || !tensor.external_data.is_empty(),
            external_data: Vec::new(),
        }
    }
}

impl<'a> Message<'a> for ValueInfoView<'a> {
    fn take(&mut self, number: u64, found: Found<'a, '_>) -> Result<(), String> {
        match number {
            1 => self.name = found.text()?,
            2 => merge(self.r#type.get_or_insert_default(), found)?,
            _ => {}
        }
        Ok(())
    }
}

impl<'a> Message<'a> for TypeView<'a> {
    fn take(&mut self, number: u64, found: Found<'a, '_>) -> Result<(), String> {
        if number == 1 { merge(self.tensor_type.get_or_insert_default(), found) } else { Ok(()) }
    }
}

impl<'a> Message<'a> for TensorTypeView<'a> {
    fn take(&mut self, number: u64, found: Found<'a, '_>) -> Result<(), String> {
        match number {
            1 => self.elem_type = found.small_int()?,
            2 => merge(self.shape.get_or_insert_default(), found)?,
            _ => {}
        }
        Ok(())
    }
}

impl<'a> Message<'a> for ShapeView<'a> {
    fn take(&mut self, number: u64, found: Found<'a, '_>) -> Result<(), String> {
        if number == 1 {
            self.dim.push(found.message()?);
        }
        Ok(())
    }
}

impl<'a> Message<'a> for DimensionView<'a> {
    fn take(&mut self, number: u64, found: Found<'a, '_>) -> Result<(), String> {
        match number {
            1 => self.dim_value = Some(found.int()?),
            2 => self.dim_param = Some(found.text()?),
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::onnx::proto::{
        AttributeProto, DimensionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto,
        ValueInfoProto,
    };
    use crate::onnx::proto::{TensorShapeProto, TensorTypeProto, TypeProto};
    use prost::Message as _;

    fn model() -> ModelProto {
        let tensor = TensorProto {
            dims: vec![2, 1],
            data_type: 1,
            float_data: vec![0.5, -1.5],
            int32_data: vec![-3],
            int64_data: vec![-4, 1 << 40],
            double_data: vec![2.5],
            uint64_data: vec![u64::MAX],
            name: "w".to_owned(),
            raw_data: vec![1, 2],
            ..TensorProto::default()
        };
        let attribute = AttributeProto {
            name: "a".to_owned(),
            f: Some(1.25),
            i: Some(-7),
            s: b"text".to_vec(),
            t: Some(tensor.clone()),
            floats: vec![3.5],
            ints: vec![-1, 300],
            r#type: 7,
            ..AttributeProto::default()
        };
        let node = NodeProto {
            input: vec!["x".to_owned(), String::new()],
            output: vec!["y".to_owned()],
            attribute: vec![attribute],
            ..NodeProto::default()
        };
        let dim = vec![
            DimensionProto { dim_value: Some(3), dim_param: None },
            DimensionProto { dim_value: None, dim_param: Some("n".to_owned()) },
        ];
        let tensor_type =
            Some(TensorTypeProto { elem_type: 1, shape: Some(TensorShapeProto { dim }) });
        let info = ValueInfoProto { name: "x".to_owned(), r#type: Some(TypeProto { tensor_type }) };
        let away = TensorProto { data_location: 1, ..TensorProto::default() };
        let graph = GraphProto {
            node: vec![node],
            initializer: vec![tensor, away],
            input: vec![info.clone()],
            value_info: vec![info],
            ..GraphProto::default()
        };
        ModelProto {
            graph: Some(graph),
            opset_import: vec![OperatorSetIdProto { version: 17, ..OperatorSetIdProto::default() }],
            ..ModelProto::default()
        }
    }

    /// `vitempo serve` bounds the memory of an upload by the messages' sizes.
    #[test]
    fn a_view_is_no_larger_than_its_message() {
        assert!(size_of::<NodeView<'_>>() <= size_of::<NodeProto>());
        assert!(size_of::<AttributeView<'_>>() <= size_of::<AttributeProto>());
        assert!(size_of::<TensorView<'_>>() <= size_of::<TensorProto>());
        assert!(size_of::<ValueInfoView<'_>>() <= size_of::<ValueInfoProto>());
        assert!(size_of::<DimensionView<'_>>() <= size_of::<DimensionProto>());
        assert!(size_of::<OperatorSetView<'_>>() <= size_of::<OperatorSetIdProto>());
    }

    #[test]
    fn a_view_shows_what_was_written() {
        let bytes = model().encode_to_vec();
        let model: ModelView<'_> = decode(&bytes).unwrap();
        assert_eq!(model.opset_import[0].version, 17);
        let graph = model.graph.unwrap();
        let node = &graph.node[0];
        assert_eq!((node.input.as_slice(), node.output.as_slice()), (&["x", ""][..], &["y"][..]));
        let a = &node.attribute[0];
        assert_eq!(
            (a.name, a.f, a.i, a.s, a.floats.as_slice(), a.ints.as_slice()),
            ("a", 1.25, -7, &b"text"[..], &[3.5][..], &[-1, 300][..])
        );
        for tensor in [&graph.initializer[0], a.t.as_ref().unwrap()] {
            assert_eq!(
                (tensor.dims.as_slice(), tensor.data_type, tensor.name, tensor.raw_data),
                (&[2, 1][..], 1, "w", &[1, 2][..])
            );
            assert_eq!((&*tensor.float_data, &*tensor.double_data), (&[0.5, -1.5][..], &[2.5][..]));
            assert_eq!(
                (&*tensor.int32_data, &*tensor.int64_data, &*tensor.uint64_data),
                (&[-3][..], &[-4, 1 << 40][..], &[u64::MAX][..])
            );
        }
        assert_eq!([graph.initializer[0].external, graph.initializer[1].external], [false, true]);
        for info in [graph.input[0].clone(), decode(graph.value_info[0]).unwrap()] {
            let dims = info.r#type.unwrap().tensor_type.unwrap().shape.unwrap().dim;
            assert_eq!(
                (info.name, dims[0].dim_value, dims[1].dim_param),
                ("x", Some(3), Some("n"))
            );
        }
    }

    #[test]
    fn a_list_may_be_packed_or_not() {
        let ints: AttributeView<'_> = decode(&[0x42, 3, 1, 0x96, 1, 0x40, 7]).unwrap();
        assert_eq!(ints.ints, [1, 150, 7]);
        let floats: AttributeView<'_> =
            decode(&[0x3d, 0, 0, 0x80, 0x3f, 0x3a, 4, 0, 0, 0, 0x40]).unwrap();
        assert_eq!(floats.floats, [1.0, 2.0]);
    }

    #[test]
    fn damaged_messages_are_refused() {
        let whole = model().encode_to_vec();
        for length in 1..whole.len() {
            _ = decode::<ModelView<'_>>(&whole[..length]);
        }
        for (bytes, says) in [
            (&[0x38, 1][..], "message"),
            (&[0x3a, 2, 0x0a, 5][..], "promises 5"),
            (&[0x3a, 4, 0x0a, 2, 0x0a, 9][..], "promises 9"),
        ] {
            let reason = decode::<ModelView<'_>>(bytes).unwrap_err();
            assert!(reason.contains(says), "{reason}");
        }
        assert!(decode::<NodeView<'_>>(&[0x0a, 1, 0xff]).unwrap_err().contains("text"));
        assert!(decode::<NodeView<'_>>(&[0x08, 1]).unwrap_err().contains("bytes"));
        assert!(decode::<AttributeView<'_>>(&[0x15, 0]).unwrap_err().contains("promises 4"));
        assert!(
            decode::<AttributeView<'_>>(&[0x3a, 3, 0, 0, 0])
                .unwrap_err()
                .contains("list of numbers")
        );
    }
}
