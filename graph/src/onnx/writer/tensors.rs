//! Tensors and their descriptions as ONNX messages.

use crate::numbers::{bfloat_bits, half_bits, nearest};
use crate::onnx::payload::data_type;
use crate::onnx::proto::{
    DimensionProto, StringStringEntryProto, TensorProto, TensorShapeProto, TensorTypeProto,
    TypeProto, ValueInfoProto,
};
use crate::onnx::weights::fill::{self, Distribution};
use crate::{ConstantData, Precision, TensorSpec, Value};

/// Weights of floats of at most this many elements are always in the file, but for single numbers.
pub(super) const SMALL_ELEMENTS: u64 = 64;
/// The file of external data that weights refer to.
const WEIGHTS_FILE: &str = "weights.bin";

/// Name, type and shape of a value; the name alone where the tensor is unknown.
pub(in crate::onnx) fn info(value: &Value) -> ValueInfoProto {
    let dimension = |&d: &usize| DimensionProto {
        dim_value: Some(i64::try_from(d).unwrap_or(i64::MAX)),
        dim_param: None,
    };
    let tensor_type = value.tensor.as_ref().map(|tensor| TensorTypeProto {
        elem_type: data_type(tensor.precision),
        shape: Some(TensorShapeProto { dim: tensor.shape.iter().map(dimension).collect() }),
    });
    ValueInfoProto {
        name: value.name.clone(),
        r#type: tensor_type.map(|t| TypeProto { tensor_type: Some(t) }),
    }
}

/// Whether a constant without values gets random ones in every file: it is small, and neither an
/// integer nor a single number. Of these, rules of lowering read the value, and one that nobody
/// gave must stay unknown.
fn filled(tensor: &TensorSpec) -> bool {
    let elements = tensor.elements();
    elements <= SMALL_ELEMENTS && elements != 1 && (tensor.precision.is_float() || elements == 0)
}

/// A constant: its payload, random values when it is [`filled`], a reference to external data at
/// `offset` otherwise.
pub(super) fn weight(
    value: &Value,
    payload: Option<&ConstantData>,
    distribution: Distribution,
    seed: u64,
    offset: &mut u64,
) -> Result<TensorProto, String> {
    let tensor =
        value.tensor.as_ref().ok_or_else(|| format!("weight `{}` has no shape", value.name))?;
    let mut proto = empty(&value.name, tensor)?;
    match payload {
        Some(data) => {
            proto.raw_data = encode(data, tensor)
                .map_err(|reason| format!("constant `{}`: {reason}", value.name))?;
        }
        None if filled(tensor) => {
            fill::append(
                &mut proto.raw_data,
                tensor.elements() as usize,
                tensor.precision,
                distribution,
                seed,
                &value.name,
            );
        }
        None => {
            let entry =
                |key: &str, value: String| StringStringEntryProto { key: key.to_owned(), value };
            let length = tensor.size_bytes();
            proto.external_data = vec![
                entry("location", WEIGHTS_FILE.to_owned()),
                entry("offset", offset.to_string()),
                entry("length", length.to_string()),
            ];
            proto.data_location = 1;
            *offset = offset.saturating_add(length);
        }
    }
    Ok(proto)
}

/// A tensor of integers that steers an operator: a vector, or a scalar.
pub(super) fn integers(name: String, values: &[i64], scalar: bool) -> TensorProto {
    let dims = if scalar { Vec::new() } else { vec![values.len() as i64] };
    TensorProto {
        name,
        dims,
        data_type: data_type(Precision::I64),
        raw_data: bytes(values, i64::to_le_bytes),
        ..TensorProto::default()
    }
}

/// A tensor of numbers that steers an operator.
pub(super) fn numbers(
    name: String,
    values: &[f64],
    shape: &[usize],
    precision: Precision,
) -> Result<TensorProto, String> {
    let tensor = TensorSpec::new(shape, precision);
    let raw_data = encode(&ConstantData::Floats(values.to_vec()), &tensor)?;
    Ok(TensorProto { raw_data, ..empty(&name, &tensor)? })
}

fn empty(name: &str, tensor: &TensorSpec) -> Result<TensorProto, String> {
    let dims = tensor
        .shape
        .iter()
        .map(|&d| i64::try_from(d).map_err(|_| format!("weight `{name}` has a dimension of {d}")))
        .collect::<Result<_, _>>()?;
    Ok(TensorProto {
        name: name.to_owned(),
        dims,
        data_type: data_type(tensor.precision),
        ..TensorProto::default()
    })
}

/// Values as little-endian elements of the tensor's type.
pub(super) fn encode(data: &ConstantData, tensor: &TensorSpec) -> Result<Vec<u8>, String> {
    let integer = |&f: &f64| nearest(f, tensor.precision) as i64;
    let (length, floats, integers): (usize, Vec<f64>, Vec<i64>) = match data {
        ConstantData::Ints(v) => (v.len(), v.iter().map(|&i| i as f64).collect(), v.clone()),
        ConstantData::Floats(v) => (v.len(), v.clone(), v.iter().map(integer).collect()),
    };
    if length as u64 != tensor.elements() {
        return Err(format!("{length} values for a tensor {tensor}"));
    }
    Ok(match tensor.precision {
        Precision::F64 => bytes(&floats, f64::to_le_bytes),
        Precision::F32 => bytes(&floats, |v| (v as f32).to_le_bytes()),
        Precision::F16 => bytes(&floats, |v| half_bits(v as f32).to_le_bytes()),
        Precision::Bf16 => bytes(&floats, |v| bfloat_bits(v as f32).to_le_bytes()),
        Precision::I64 => bytes(&integers, i64::to_le_bytes),
        Precision::I32 => bytes(&integers, |v| (v as i32).to_le_bytes()),
        Precision::I16 => bytes(&integers, |v| (v as i16).to_le_bytes()),
        Precision::I8 | Precision::U8 => bytes(&integers, |v| (v as u8).to_le_bytes()),
        Precision::Bool => bytes(&integers, |v| [u8::from(v != 0)]),
    })
}

fn bytes<T: Copy, const WIDTH: usize>(values: &[T], one: impl Fn(T) -> [u8; WIDTH]) -> Vec<u8> {
    values.iter().flat_map(|&v| one(v)).collect()
}
