//! Declared shapes: of the model's inputs, where every dimension must be known, and of values
//! behind unsupported operators.

use super::view::{DimensionView, TensorTypeView, ValueInfoView};
use super::{OnnxError, ReadNote, ReadOptions, payload};
use crate::{TensorSpec, shape};
use std::{collections::BTreeSet, path::Path};

/// The tensor of a model's input.
///
/// # Errors
/// [`OnnxError::Dynamic`] for a dimension without a value, [`OnnxError::Format`] for an input that
/// is not a tensor.
pub(super) fn input(
    path: &Path,
    info: &ValueInfoView<'_>,
    options: &ReadOptions,
) -> Result<TensorSpec, OnnxError> {
    let name = info.name;
    let wrong = |reason: String| OnnxError::Format {
        path: path.to_owned(),
        reason: format!("input `{name}` {reason}"),
    };
    let tensor = tensor_type(info).ok_or_else(|| wrong("is not a tensor".to_owned()))?;
    let precision = payload::precision(tensor.elem_type).ok_or_else(|| {
        wrong(format!("has element type {}, which is not supported", tensor.elem_type))
    })?;
    let declared = tensor.shape.as_ref().ok_or_else(|| wrong("has no shape".to_owned()))?;
    let mut dims = Vec::with_capacity(declared.dim.len());
    for (index, dim) in declared.dim.iter().enumerate() {
        let value = match dim.dim_value {
            Some(v) if v > 0 => usize::try_from(v).ok(),
            Some(v) if v < -1 => return Err(wrong(format!("has a dimension of {v}"))),
            _ => given(name, index, dim, options),
        };
        dims.push(value.ok_or_else(|| dynamic(path, name, index, dim))?);
    }
    shape::check(&dims).map_err(|reason| wrong(format!("cannot be: {reason}")))?;
    Ok(TensorSpec::new(dims, precision))
}

/// The tensor a value was declared to be, if every dimension is known.
pub(super) fn declared(info: &ValueInfoView<'_>, options: &ReadOptions) -> Option<TensorSpec> {
    let tensor = tensor_type(info)?;
    let dims =
        tensor.shape.as_ref()?.dim.iter().enumerate().map(|(index, dim)| match dim.dim_value {
            Some(v) => usize::try_from(v).ok(),
            None => given(info.name, index, dim, options),
        });
    let dims: Vec<usize> = dims.collect::<Option<_>>()?;
    shape::check(&dims).ok()?;
    Some(TensorSpec::new(dims, payload::precision(tensor.elem_type)?))
}

fn tensor_type<'a>(info: &'a ValueInfoView<'a>) -> Option<&'a TensorTypeView<'a>> {
    info.r#type.as_ref()?.tensor_type.as_ref()
}

/// The caller's value for a dimension: by its symbol, or by `input:index`.
fn given(
    input: &str,
    index: usize,
    dim: &DimensionView<'_>,
    options: &ReadOptions,
) -> Option<usize> {
    let by_symbol = dim.dim_param.and_then(|symbol| options.dimensions.get(symbol));
    by_symbol
        .or_else(|| options.dimensions.get(&format!("{input}:{index}")))
        .copied()
        .filter(|&v| v > 0)
}

/// A note on each value for a dimension that none of these tensors has.
pub(super) fn unused<'a>(
    infos: impl IntoIterator<Item = &'a ValueInfoView<'a>>,
    options: &ReadOptions,
) -> Vec<ReadNote> {
    let names: BTreeSet<String> = infos.into_iter().flat_map(open).collect();
    let open = match names.is_empty() {
        true => "all of its dimensions are fixed".to_owned(),
        false => format!(
            "without a value are {}",
            names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
        ),
    };
    let unused = options.dimensions.keys().filter(|name| !names.contains(*name));
    unused
        .map(|name| ReadNote::UnusedDimension { name: name.clone(), open: open.clone() })
        .collect()
}

/// What a caller can call the dimensions without a value: by symbol, and by `input:index`.
fn open(info: &ValueInfoView<'_>) -> impl Iterator<Item = String> {
    let shape = tensor_type(info).and_then(|tensor| tensor.shape.as_ref());
    let dims = shape.into_iter().flat_map(|shape| shape.dim.iter().enumerate());
    let without_value = dims.filter(|(_, dim)| dim.dim_value.is_none_or(|v| v <= 0));
    without_value.flat_map(|(index, dim)| {
        let symbol = dim.dim_param.filter(|symbol| !symbol.is_empty()).map(str::to_owned);
        symbol.into_iter().chain([format!("{}:{index}", info.name)])
    })
}

fn dynamic(path: &Path, input: &str, index: usize, dim: &DimensionView<'_>) -> OnnxError {
    let symbol = dim
        .dim_param
        .filter(|s| !s.is_empty())
        .map_or_else(|| format!("{input}:{index}"), str::to_owned);
    OnnxError::Dynamic { path: path.to_owned(), input: input.to_owned(), index, symbol }
}
