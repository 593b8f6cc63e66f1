//! Operators whose output is known without running the model: constants, shapes, ranges.

use super::super::call::{Call, Mapping, Outcome, Refusal};
use super::super::payload;
use crate::{Attribute, ConstantData, OpKind, Precision, TensorSpec, shape};

pub(super) fn map(call: &Call<'_>) -> Outcome {
    let (tensor, data) = match call.node.op_type {
        "Constant" => return constant(call),
        "Shape" => shape_of(call)?,
        "Size" => {
            let elements = i64::try_from(call.tensor(0)?.elements()).unwrap_or(i64::MAX);
            (TensorSpec::new([], Precision::I64), Some(ConstantData::Ints(vec![elements])))
        }
        "ConstantOfShape" => filled(call)?,
        "Range" => range(call)?,
        "NonZero" => non_zero(call)?,
        _ => return Ok(None),
    };
    Ok(Some(Mapping::Constant(tensor, data)))
}

fn constant(call: &Call<'_>) -> Outcome {
    let ints = |v: Vec<i64>, shape: Vec<usize>| {
        (TensorSpec::new(shape, Precision::I64), Some(ConstantData::Ints(v)))
    };
    let floats =
        |v: Vec<f64>, shape: Vec<usize>| (TensorSpec::f32(shape), Some(ConstantData::Floats(v)));
    let Some(a) = call.node.attribute.first() else {
        return Err(Refusal::Invalid("it has no value".to_owned()));
    };
    let (tensor, data) = match a.name {
        "value" => {
            let tensor =
                a.t.as_deref().ok_or_else(|| Refusal::Invalid("it has no value".to_owned()))?;
            let Some(spec) = payload::spec(tensor).map_err(Refusal::Invalid)? else {
                return Ok(None);
            };
            let data =
                payload::values(tensor, &spec, call.limits.elements).map_err(Refusal::Invalid)?;
            (spec, data)
        }
        "value_int" => ints(vec![a.i], vec![]),
        "value_ints" => ints(a.ints.clone(), vec![a.ints.len()]),
        "value_float" => floats(vec![f64::from(a.f)], vec![]),
        "value_floats" => {
            floats(a.floats.iter().map(|&v| f64::from(v)).collect(), vec![a.floats.len()])
        }
        _ => return Ok(None),
    };
    let small = tensor.elements() <= call.limits.elements;
    Ok(Some(Mapping::Constant(tensor, data.filter(|_| small))))
}

type Known = (TensorSpec, Option<ConstantData>);

fn shape_of(call: &Call<'_>) -> Result<Known, Refusal> {
    let shape = &call.tensor(0)?.shape;
    let range = call.node.shape_range(shape.len());
    let dims: Vec<i64> = shape.get(range).unwrap_or_default().iter().map(|&d| d as i64).collect();
    Ok((TensorSpec::new([dims.len()], Precision::I64), Some(ConstantData::Ints(dims))))
}

fn filled(call: &Call<'_>) -> Result<Known, Refusal> {
    let dims = call
        .steer_ints(0, "shape")?
        .ok_or_else(|| Refusal::Invalid("its input shape is missing".to_owned()))?;
    let mut spec = TensorSpec::f32([]);
    let mut fill = ConstantData::Floats(vec![0.0]);
    if let Some(value) = call.node.attribute("value").and_then(|a| a.t.as_deref()) {
        let Some(one) = payload::spec(value).map_err(Refusal::Invalid)? else {
            return Err(Refusal::RunTime(format!(
                "element type {} is not supported",
                value.data_type
            )));
        };
        fill = payload::values(value, &one, call.limits.elements)
            .map_err(Refusal::Invalid)?
            .unwrap_or(ConstantData::Floats(vec![]));
        spec.precision = one.precision;
    }
    let attributes = crate::Attributes::new()
        .with_ints("shape", dims)
        .with("to", Attribute::Text(spec.precision.name().to_owned()));
    let outputs =
        shape::infer(&OpKind::ConstantOfShape, &attributes, &[]).map_err(Refusal::Invalid)?;
    let spec = outputs.into_iter().next().unwrap_or(spec);
    let count = spec.elements();
    let data = (count <= call.limits.elements).then(|| match fill {
        ConstantData::Ints(v) => v.first().map(|&v| ConstantData::Ints(vec![v; count as usize])),
        ConstantData::Floats(v) => {
            v.first().map(|&v| ConstantData::Floats(vec![v; count as usize]))
        }
    });
    Ok((spec, data.flatten()))
}

fn range(call: &Call<'_>) -> Result<Known, Refusal> {
    let mut ends = [0.0; 3];
    for (index, what) in ["start", "limit", "delta"].into_iter().enumerate() {
        let given = call.steer_floats(index, what)?.unwrap_or_default();
        ends[index] = *given
            .first()
            .ok_or_else(|| Refusal::Invalid(format!("its input {what} is missing")))?;
    }
    let [start, limit, delta] = ends;
    let count = ((limit - start) / delta).ceil().max(0.0);
    if !count.is_finite() || count > shape::MAX_ELEMENTS as f64 {
        return Err(Refusal::Invalid(format!(
            "the range from {start} to {limit} by {delta} has too many elements"
        )));
    }
    let spec = TensorSpec::new([count as usize], call.tensor(0)?.precision);
    let steps = (count <= call.limits.elements as f64).then_some(0..count as usize);
    let data = steps.map(|steps| {
        if spec.precision.is_float() {
            ConstantData::Floats(steps.map(|i| start + delta * i as f64).collect())
        } else {
            ConstantData::Ints(steps.map(|i| (start + delta * i as f64) as i64).collect())
        }
    });
    Ok((spec, data))
}

fn non_zero(call: &Call<'_>) -> Result<Known, Refusal> {
    let shape = &call.tensor(0)?.shape;
    let values = call.steer_floats(0, "input")?.unwrap_or_default();
    let hits: Vec<usize> =
        values.iter().enumerate().filter(|(_, v)| **v != 0.0).map(|(i, _)| i).collect();
    let mut indices = Vec::with_capacity(hits.len() * shape.len());
    let mut stride: usize = shape.iter().product();
    for &d in shape {
        stride /= d.max(1);
        indices.extend(hits.iter().map(|hit| (hit / stride.max(1) % d.max(1)) as i64));
    }
    Ok((
        TensorSpec::new([shape.len(), hits.len()], Precision::I64),
        Some(ConstantData::Ints(indices)),
    ))
}
