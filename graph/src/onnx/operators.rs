//! Maps ONNX operators to [`crate::OpKind`], one file per family. Attributes may keep ONNX's form;
//! [`crate::shape::canonical`] normalises them afterwards.

mod elementwise;
mod layout;
mod product;
mod quantization;
mod reduction;
mod resample;
mod selection;
mod source;
mod window;

use super::call::{Call, Outcome};

/// The operator of a node of ONNX's own domain.
pub(super) fn map(call: &Call<'_>) -> Outcome {
    let families = [
        elementwise::map,
        product::map,
        window::map,
        layout::map,
        reduction::map,
        selection::map,
        source::map,
        resample::map,
        quantization::map,
    ];
    for family in families {
        if let Some(mapping) = family(call)? {
            return Ok(Some(mapping));
        }
    }
    Ok(None)
}
