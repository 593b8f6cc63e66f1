//! Initializers: shape and element type, and the values where they are few and in the file.

use super::{proto::TensorProto, view::TensorView};
use crate::numbers::{bfloat, half};
use crate::{ConstantData, Precision, TensorSpec, shape};

/// Which values of constants a reader keeps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Elements of one constant.
    pub elements: u64,
    /// Steps that evaluating one node may take; beyond, its outputs have shapes only.
    pub work: u64,
    /// Elements of values folded in one model, after which only shapes are: a small file must not
    /// become large.
    pub folded: usize,
    /// Float payloads up to this length stay in the graph; integers always do.
    pub kept_floats: usize,
    /// Whether weights are sought among the inputs.
    pub weight_inputs: bool,
}

impl Limits {
    /// What shapes and pattern recognition need.
    pub const SHAPES: Self = Self {
        elements: 4096,
        work: 1 << 24,
        folded: 1 << 22,
        kept_floats: 64,
        weight_inputs: true,
    };
    /// Constants that are computed from integers that steer operators.
    pub const COMPUTED: Self = Self {
        elements: 1 << 26,
        work: 1 << 28,
        folded: 1 << 27,
        kept_floats: usize::MAX,
        weight_inputs: false,
    };
    /// All weights.
    pub const WEIGHTS: Self = Self {
        elements: 1 << 31,
        work: 1 << 31,
        folded: 1 << 30,
        kept_floats: usize::MAX,
        weight_inputs: true,
    };
}

/// Number of an element type in `TensorProto.DataType`.
pub(super) const fn data_type(precision: Precision) -> i32 {
    match precision {
        Precision::F32 => 1,
        Precision::U8 => 2,
        Precision::I8 => 3,
        Precision::I16 => 5,
        Precision::I32 => 6,
        Precision::I64 => 7,
        Precision::Bool => 9,
        Precision::F16 => 10,
        Precision::F64 => 11,
        Precision::Bf16 => 16,
    }
}

/// The element type with ONNX's number `data_type`. Unsigned 16, 32 and 64 bit integers are taken
/// as the signed ones of that width.
pub(super) fn precision(data_type: i32) -> Option<Precision> {
    Some(match data_type {
        1 => Precision::F32,
        2 => Precision::U8,
        3 => Precision::I8,
        4 | 5 => Precision::I16,
        6 | 12 => Precision::I32,
        7 | 13 => Precision::I64,
        9 => Precision::Bool,
        10 => Precision::F16,
        11 => Precision::F64,
        16 => Precision::Bf16,
        _ => return None,
    })
}

/// Shape and type of an initializer; `None` for an element type vitempo does not compute with
/// (strings, complex numbers).
///
/// # Errors
/// A sentence about a shape that cannot be.
pub(super) fn spec(tensor: &TensorView<'_>) -> Result<Option<TensorSpec>, String> {
    let dims: Result<Vec<usize>, _> = tensor
        .dims
        .iter()
        .map(|&d| usize::try_from(d).map_err(|_| format!("it has a dimension of {d}")))
        .collect();
    let dims = dims?;
    shape::check(&dims)?;
    Ok(precision(tensor.data_type).map(|p| TensorSpec::new(dims, p)))
}

/// The values of an initializer of that shape and type, if they are in the file and at most `most`
/// elements.
///
/// # Errors
/// A sentence when there are too few or too many of them.
pub(super) fn values(
    tensor: &TensorView<'_>,
    spec: &TensorSpec,
    most: u64,
) -> Result<Option<ConstantData>, String> {
    if spec.elements() > most || tensor.external {
        return Ok(None);
    }
    let data = data(tensor, spec)?;
    match length(&data) as u64 {
        n if n == spec.elements() => Ok(Some(data)),
        0 => Ok(None),
        n => Err(format!("it holds {n} values, its shape wants {}", spec.elements())),
    }
}

/// All values of a tensor whose data is in the file, however many.
///
/// # Errors
/// A sentence if they are absent or too few.
pub(crate) fn tensor_values(tensor: &TensorProto) -> Result<ConstantData, String> {
    let tensor = &TensorView::from(tensor);
    let spec = spec(tensor)?
        .ok_or_else(|| format!("element type {} is not supported", tensor.data_type))?;
    let data = data(tensor, &spec)?;
    match length(&data) as u64 {
        n if n == spec.elements() => Ok(data),
        n => Err(format!("it holds {n} values, its shape wants {}", spec.elements())),
    }
}

/// The values of a tensor, as raw bytes or typed.
fn data(tensor: &TensorView<'_>, spec: &TensorSpec) -> Result<ConstantData, String> {
    if tensor.raw_data.is_empty() {
        Ok(typed(tensor, spec.precision))
    } else {
        raw(tensor.raw_data, spec)
    }
}

pub(super) fn length(data: &ConstantData) -> usize {
    match data {
        ConstantData::Ints(v) => v.len(),
        ConstantData::Floats(v) => v.len(),
    }
}

/// Little-endian bytes.
fn raw(bytes: &[u8], spec: &TensorSpec) -> Result<ConstantData, String> {
    if bytes.len() as u64 != spec.size_bytes() {
        return Err(format!(
            "it holds {} bytes, its shape wants {}",
            bytes.len(),
            spec.size_bytes()
        ));
    }
    Ok(match spec.precision {
        Precision::F64 => ConstantData::Floats(each(bytes, f64::from_le_bytes)),
        Precision::F32 => ConstantData::Floats(each(bytes, |b| f64::from(f32::from_le_bytes(b)))),
        Precision::F16 => ConstantData::Floats(each(bytes, |b| half(u16::from_le_bytes(b)))),
        Precision::Bf16 => ConstantData::Floats(each(bytes, |b| bfloat(u16::from_le_bytes(b)))),
        Precision::I64 => ConstantData::Ints(each(bytes, i64::from_le_bytes)),
        Precision::I32 => ConstantData::Ints(each(bytes, |b| i64::from(i32::from_le_bytes(b)))),
        Precision::I16 => ConstantData::Ints(each(bytes, |b| i64::from(i16::from_le_bytes(b)))),
        Precision::I8 => ConstantData::Ints(each(bytes, |b| i64::from(i8::from_le_bytes(b)))),
        Precision::U8 => ConstantData::Ints(bytes.iter().map(|&b| i64::from(b)).collect()),
        Precision::Bool => ConstantData::Ints(bytes.iter().map(|&b| i64::from(b != 0)).collect()),
    })
}

fn each<const N: usize, T>(bytes: &[u8], read: impl Fn([u8; N]) -> T) -> Vec<T> {
    bytes.as_chunks::<N>().0.iter().map(|&chunk| read(chunk)).collect()
}

/// The typed fields an exporter may use instead of raw bytes.
fn typed(tensor: &TensorView<'_>, precision: Precision) -> ConstantData {
    let from_bits = |convert: fn(u16) -> f64| {
        ConstantData::Floats(tensor.int32_data.iter().map(|&v| convert(v as u16)).collect())
    };
    match precision {
        Precision::F64 => ConstantData::Floats(tensor.double_data.to_vec()),
        Precision::F32 => {
            ConstantData::Floats(tensor.float_data.iter().map(|&v| f64::from(v)).collect())
        }
        Precision::F16 => from_bits(half),
        Precision::Bf16 => from_bits(bfloat),
        Precision::I64 | Precision::I32 if !tensor.uint64_data.is_empty() => {
            let one = |&v: &u64| in_range(v as i64, precision);
            ConstantData::Ints(tensor.uint64_data.iter().map(one).collect())
        }
        Precision::I64 => ConstantData::Ints(tensor.int64_data.to_vec()),
        _ => {
            let one = |&v: &i32| in_range(i64::from(v), precision);
            ConstantData::Ints(tensor.int32_data.iter().map(one).collect())
        }
    }
}

/// Whether one of the values is below zero.
pub(super) fn is_negative(data: &ConstantData) -> bool {
    match data {
        ConstantData::Ints(v) => v.iter().any(|&i| i < 0),
        ConstantData::Floats(v) => v.iter().any(|&f| f < 0.0),
    }
}

/// What an element of that type keeps of a number: its lowest bits.
pub(super) const fn in_range(value: i64, precision: Precision) -> i64 {
    match precision {
        Precision::I32 => value as i32 as i64,
        Precision::I16 => value as i16 as i64,
        Precision::I8 => value as i8 as i64,
        Precision::U8 => value as u8 as i64,
        Precision::Bool => (value != 0) as i64,
        _ => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_raw_typed_or_not_at_all() {
        let tensor = |raw: &[u8], ints: &[i64]| TensorProto {
            dims: vec![2],
            data_type: 7,
            raw_data: raw.to_vec(),
            int64_data: ints.to_vec(),
            ..Default::default()
        };
        let raw: Vec<u8> = [5i64, -1].iter().flat_map(|v| v.to_le_bytes()).collect();
        let read = |t: TensorProto| {
            let t = TensorView::from(&t);
            values(&t, &spec(&t).ok().flatten().ok_or("no spec")?, 4096)
        };
        assert_eq!(read(tensor(&raw, &[])), Ok(Some(ConstantData::Ints(vec![5, -1]))));
        assert_eq!(read(tensor(&[], &[7, 8])), Ok(Some(ConstantData::Ints(vec![7, 8]))));
        assert_eq!(read(tensor(&[], &[])), Ok(None));
        assert!(read(tensor(&raw[..9], &[])).is_err());
        assert!(read(tensor(&[], &[1])).is_err());
    }
}
