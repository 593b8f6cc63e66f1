//! Input and output tensors of the engine.

use crate::{
    backends::OutputValues,
    inputs::{self, InputDistribution},
};
use ort::{
    memory::Allocator,
    session::SessionInputValue,
    value::{DynTensor, TensorElementType},
};
use vitempo_graph::{Graph, Precision, TensorSpec};

/// Values of a model's inputs by name. `last`: images are N, H, W, C, with the same values as in N,
/// C, H, W.
pub(super) fn input_values(
    graph: &Graph,
    distribution: InputDistribution,
    seed: u64,
    last: bool,
) -> Result<Vec<(String, DynTensor)>, String> {
    let mut values = Vec::new();
    for (index, &id) in graph.inputs().iter().enumerate() {
        let value = graph.value(id);
        let tensor = value
            .tensor
            .as_ref()
            .ok_or_else(|| format!("input `{}` has no static shape", value.name))?;
        let bytes = if last { inputs::bytes_channels_last } else { inputs::bytes };
        let bytes = bytes(tensor, distribution, seed, index);
        let bytes = bytes.map_err(|e| format!("input `{}`: {e}", value.name))?;
        values.push((
            value.name.clone(),
            dyn_tensor(tensor, &bytes).map_err(|e| format!("input `{}`: {e}", value.name))?,
        ));
    }
    Ok(values)
}

/// Given values as the tensor that an input takes.
pub(super) fn given_value(
    wanted: Option<&TensorSpec>,
    given: &OutputValues,
) -> Result<DynTensor, String> {
    let wanted = wanted.ok_or("it has no static shape")?;
    if wanted.shape[..] != given.shape[..] || wanted.elements() != given.values.len() as u64 {
        return Err(format!(
            "it has shape {:?}, {} values of shape {:?} do not fit",
            wanted.shape,
            given.values.len(),
            given.shape
        ));
    }
    dyn_tensor(wanted, &inputs::encoded(&given.values, wanted.precision)).map_err(|e| e.to_string())
}

fn dyn_tensor(tensor: &TensorSpec, bytes: &[u8]) -> Result<DynTensor, ort::Error> {
    let mut value = DynTensor::new(
        &Allocator::default(),
        element_type(tensor.precision),
        tensor.shape.to_vec(),
    )?;
    let place = value.data_ptr_mut().cast::<u8>();
    if !bytes.is_empty() && !place.is_null() {
        // SAFETY: the tensor was just made with this shape and element type, so it has room for
        // exactly `bytes`, which `inputs::bytes` made for the same specification; the two do not
        // overlap.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len()) };
    }
    Ok(value)
}

fn element_type(precision: Precision) -> TensorElementType {
    match precision {
        Precision::F64 => TensorElementType::Float64,
        Precision::F32 => TensorElementType::Float32,
        Precision::F16 => TensorElementType::Float16,
        Precision::Bf16 => TensorElementType::Bfloat16,
        Precision::I64 => TensorElementType::Int64,
        Precision::I32 => TensorElementType::Int32,
        Precision::I16 => TensorElementType::Int16,
        Precision::I8 => TensorElementType::Int8,
        Precision::U8 => TensorElementType::Uint8,
        Precision::Bool => TensorElementType::Bool,
    }
}

/// The inputs of a session: one that nothing reads may have been removed.
pub(super) fn input_list<'a>(
    session: &ort::session::Session,
    inputs: &'a [(String, DynTensor)],
) -> Vec<(&'a str, SessionInputValue<'a>)> {
    let wanted = |name: &str| session.inputs().iter().any(|input| input.name() == name);
    inputs
        .iter()
        .filter(|(name, _)| wanted(name))
        .map(|(name, value)| (name.as_str(), value.into()))
        .collect()
}

/// An output as floats.
pub(super) fn output_values(
    name: String,
    value: &ort::value::ValueRef<'_>,
) -> Result<OutputValues, String> {
    let dtype =
        value.dtype().tensor_type().ok_or_else(|| format!("output `{name}` is not a tensor"))?;
    let extract = || -> ort::Result<Option<(Vec<i64>, Vec<f32>)>> {
        macro_rules! floats {
            ($type:ty, $convert:expr) => {{
                let (shape, data) = value.try_extract_tensor::<$type>()?;
                (shape.to_vec(), data.iter().map($convert).collect())
            }};
        }
        Ok(Some(match dtype {
            TensorElementType::Float32 => floats!(f32, |&v| v),
            TensorElementType::Float64 => floats!(f64, |&v| v as f32),
            TensorElementType::Float16 => floats!(half::f16, |v| v.to_f32()),
            TensorElementType::Int64 => floats!(i64, |&v| v as f32),
            TensorElementType::Int32 => floats!(i32, |&v| v as f32),
            TensorElementType::Int8 => floats!(i8, |&v| f32::from(v)),
            TensorElementType::Uint8 => floats!(u8, |&v| f32::from(v)),
            TensorElementType::Bool => floats!(bool, |&v| f32::from(u8::from(v))),
            _ => return Ok(None),
        }))
    };
    let (shape, values) = extract()
        .map_err(|e| format!("output `{name}`: {e}"))?
        .ok_or_else(|| format!("output `{name}` is of type {dtype}"))?;
    Ok(OutputValues {
        name,
        shape: shape.into_iter().map(|d| usize::try_from(d).unwrap_or(0)).collect(),
        values,
    })
}
