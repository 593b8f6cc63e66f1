//! Shape inference: the outputs of an operator from its kind, attributes and inputs, and the
//! canonical form of its attributes.
//!
//! Shapes are in elements and channels first (N, C, H, W), whatever the memory format. Formulas are
//! those of the ONNX operator specification. Two operators that compute the same have the same
//! attributes after [`canonical`]: what an operator's entry in [`OpKind`] lists is always written
//! out, resolved (axes counted from the front and sorted, no `auto_pad`, no `-1`); switches that
//! are off (`trans_a`, `trans_b`, `alpha` = 1, `beta` = 1, `log`, `antialias`, `exclude_outside`,
//! those of fused kernels) are left out; single floats have the precision of 32 bits, and those that are operands
//! in ONNX (bounds of a clip, the value of a padding) that of the tensor. All arithmetic is
//! checked: absurd shapes are errors.

mod elementwise;
mod layout;
mod product;
mod quantization;
mod reduction;
mod resample;
mod selection;
mod window;

use crate::numbers::nearest;
use crate::{Attribute, Attributes, MemoryFormat, OpKind, Operand, Precision, Shape, TensorSpec};

pub(crate) use elementwise::{broadcast, is_broadcast};
pub(crate) use layout::ones_added;

/// The largest number of elements a tensor may have.
pub const MAX_ELEMENTS: u64 = 1 << 40;
/// The largest number of dimensions a tensor may have.
pub const MAX_RANK: usize = 32;

/// The output tensors of an operator. The attributes need not be canonical. The memory format is
/// that of the first computed input.
///
/// # Errors
/// A sentence saying what does not fit.
pub fn infer(
    kind: &OpKind,
    attributes: &Attributes,
    inputs: &[Operand],
) -> Result<Vec<TensorSpec>, String> {
    infer_canonical(kind, &canonical(kind, attributes.clone(), inputs)?, inputs)
}

/// The canonical attributes of an operator: defaults written out, everything resolved against its
/// inputs.
///
/// # Errors
/// A sentence saying what does not fit.
pub fn canonical(
    kind: &OpKind,
    mut attributes: Attributes,
    inputs: &[Operand],
) -> Result<Attributes, String> {
    let a = &mut attributes;
    for (_, value) in a.0.iter_mut() {
        if let Attribute::Float(v) = value {
            *v = f64::from(*v as f32);
        }
    }
    match kind {
        OpKind::Conv | OpKind::ConvTranspose | OpKind::MaxPool | OpKind::AveragePool => {
            window::canonical(kind, a, inputs)?;
        }
        OpKind::Linear | OpKind::MatMul => product::canonical(a),
        OpKind::Softmax
        | OpKind::LayerNorm
        | OpKind::RmsNorm
        | OpKind::BatchNorm
        | OpKind::InstanceNorm
        | OpKind::GroupNorm
        | OpKind::LpNorm
        | OpKind::ReduceMean
        | OpKind::ReduceSum
        | OpKind::ReduceMax
        | OpKind::ReduceMin
        | OpKind::ReduceL2
        | OpKind::ReduceProd
        | OpKind::ArgMax
        | OpKind::TopK
        | OpKind::CumSum => reduction::canonical(kind, a, inputs)?,
        OpKind::Transpose | OpKind::Reshape | OpKind::Concat | OpKind::Split | OpKind::Expand => {
            layout::canonical(kind, a, inputs)?;
        }
        OpKind::Slice | OpKind::Gather | OpKind::GatherNd | OpKind::GatherElements => {
            selection::canonical(kind, a, inputs)?;
        }
        OpKind::Quantize | OpKind::Dequantize => quantization::canonical(kind, a, inputs)?,
        OpKind::Clip => elementwise::canonical_clip(a, inputs)?,
        OpKind::Mod => elementwise::canonical_mod(a, inputs)?,
        OpKind::Pad
        | OpKind::Resize
        | OpKind::GridSample
        | OpKind::DepthToSpace
        | OpKind::Col2Im => {
            resample::canonical(kind, a, inputs)?;
        }
        OpKind::Trilu => drop_default(a, "k", 0.0),
        OpKind::ScatterNd if a.text("reduction") == Some("none") => {
            a.0.remove("reduction");
        }
        _ => {}
    }
    Ok(attributes)
}

/// [`infer`] for attributes that are canonical.
pub(crate) fn infer_canonical(
    kind: &OpKind,
    a: &Attributes,
    inputs: &[Operand],
) -> Result<Vec<TensorSpec>, String> {
    let mut outputs = match kind {
        OpKind::Conv
        | OpKind::ConvTranspose
        | OpKind::MaxPool
        | OpKind::AveragePool
        | OpKind::GlobalAveragePool
        | OpKind::GlobalMaxPool => window::infer(kind, a, inputs)?,
        OpKind::Linear | OpKind::MatMul | OpKind::Einsum | OpKind::Attention => {
            product::infer(kind, a, inputs)?
        }
        OpKind::ReduceMean
        | OpKind::ReduceSum
        | OpKind::ReduceMax
        | OpKind::ReduceMin
        | OpKind::ReduceL2
        | OpKind::ReduceProd
        | OpKind::ArgMax
        | OpKind::TopK => reduction::infer(kind, a, inputs)?,
        OpKind::Transpose
        | OpKind::Reshape
        | OpKind::Concat
        | OpKind::Split
        | OpKind::Expand
        | OpKind::Tile => layout::infer(kind, a, inputs)?,
        OpKind::Slice
        | OpKind::Gather
        | OpKind::GatherNd
        | OpKind::GatherElements
        | OpKind::ScatterNd => selection::infer(kind, a, inputs)?,
        OpKind::Pad
        | OpKind::Resize
        | OpKind::GridSample
        | OpKind::DepthToSpace
        | OpKind::SpaceToDepth
        | OpKind::Col2Im => resample::infer(kind, a, inputs)?,
        OpKind::Quantize | OpKind::Dequantize | OpKind::DynamicQuantize => {
            quantization::infer(kind, a, inputs)?
        }
        OpKind::ConstantOfShape => {
            vec![TensorSpec::new(sizes(a, "shape")?, precision(a)?.unwrap_or(Precision::F32))]
        }
        OpKind::Shape => vec![TensorSpec::new([operand(inputs, 0)?.rank()], Precision::I64)],
        OpKind::Range | OpKind::NonZero => {
            return Err("the shape of its output depends on the values of its inputs".to_owned());
        }
        OpKind::Unsupported(_) => return Err("vitempo does not support this operator".to_owned()),
        _ => elementwise::infer(kind, a, inputs)?,
    };
    let format = inputs.iter().find(|i| !i.constant).map(|i| i.tensor.format).unwrap_or_default();
    for output in &mut outputs {
        check(&output.shape)?;
        if a.int("integer") == Some(1) {
            output.precision = Precision::I32;
        }
        if output.format == MemoryFormat::ChannelsFirst
            && output.rank() > 2
            && *kind != OpKind::Reorder
        {
            output.format = format;
        }
    }
    Ok(outputs)
}

/// Whether a shape is one vitempo computes with.
pub(crate) fn check(shape: &[usize]) -> Result<(), String> {
    if shape.len() > MAX_RANK {
        return Err(format!("a tensor of {} dimensions is beyond {MAX_RANK}", shape.len()));
    }
    let elements = shape
        .iter()
        .try_fold(1u64, |n, &d| n.checked_mul(d.max(1) as u64).filter(|&n| n <= MAX_ELEMENTS));
    elements
        .map(|_| ())
        .ok_or_else(|| format!("a tensor of shape {} has more than 2^40 elements", text(shape)))
}

fn operand(inputs: &[Operand], index: usize) -> Result<&TensorSpec, String> {
    inputs.get(index).map(|o| &o.tensor).ok_or_else(|| format!("input {index} is missing"))
}

/// An output like `like` but for its shape; the memory format is set at the end.
fn like(tensor: &TensorSpec, shape: impl AsRef<[usize]>) -> TensorSpec {
    TensorSpec::new(shape, tensor.precision)
}

/// `axis` counted from the front.
fn axis(axis: i64, rank: usize) -> Result<usize, String> {
    let from_front = if axis < 0 { i128::from(axis) + rank as i128 } else { i128::from(axis) };
    usize::try_from(from_front)
        .ok()
        .filter(|&a| a < rank)
        .ok_or_else(|| format!("axis {axis} is outside of a tensor of {rank} dimensions"))
}

fn dimension(value: i128) -> Result<usize, String> {
    match u64::try_from(value) {
        Ok(v) if v <= MAX_ELEMENTS => Ok(v as usize),
        _ => Err(format!("a dimension would become {value}")),
    }
}

/// The non-negative integers of attribute `name`; an error if it is absent.
fn sizes(a: &Attributes, name: &str) -> Result<Shape, String> {
    match a.get(name) {
        Some(Attribute::Ints(v)) => v.iter().map(|&d| dimension(i128::from(d))).collect(),
        _ => Err(format!("attribute `{name}` is missing or not a list of integers")),
    }
}

/// The element type in attribute `to`.
fn precision(a: &Attributes) -> Result<Option<Precision>, String> {
    let Some(name) = a.text("to") else { return Ok(None) };
    Precision::ALL
        .into_iter()
        .find(|p| p.name() == name)
        .map(Some)
        .ok_or_else(|| format!("`{name}` is not an element type"))
}

/// Removes attribute `name` where it has its default.
fn drop_default(a: &mut Attributes, name: &str, default: f64) {
    if a.float(name) == Some(default) {
        a.0.remove(name);
    }
}

/// Attribute `name` is an operand in ONNX, of the same type as `x`: the number that this type has.
/// Removed where it is infinite there.
fn round_operand(a: &mut Attributes, name: &str, x: &TensorSpec) {
    let Some(value) = a.float(name) else { return };
    let nearest = nearest(value, x.precision) as f32;
    if nearest.is_finite() {
        a.set(name, Attribute::Float(f64::from(nearest)));
    } else {
        a.0.remove(name);
    }
}

fn default_int(a: &mut Attributes, name: &str, default: i64) {
    if a.int(name).is_none() {
        a.set(name, Attribute::Int(default));
    }
}

fn default_text(a: &mut Attributes, name: &str, default: &str) {
    if a.text(name).is_none() {
        a.set(name, Attribute::Text(default.to_owned()));
    }
}

fn text(shape: &[usize]) -> String {
    if shape.is_empty() {
        "scalar".to_owned()
    } else {
        shape.iter().map(usize::to_string).collect::<Vec<_>>().join("x")
    }
}

#[cfg(test)]
mod tests;
