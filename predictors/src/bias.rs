//! Forecasts of products without a bias, where every training row has one.
//!
//! Exporters leave out biases that are zero. A bias only adds work, so the same operator with one
//! bounds the latency from above, by less than the work on the columns of one operand. Such an
//! operator is forecast as if it had a bias, and is extrapolating only if that operator is.

use crate::KeyPredictor;
use std::borrow::Cow;
use vitempo_graph::{OpKind, OpSpec, Operand, Precision, TensorSpec};

impl KeyPredictor {
    /// The operator that is forecast in place of `op`: itself, or with a bias.
    pub(crate) fn as_trained<'o>(&self, op: &'o OpSpec) -> Cow<'o, OpSpec> {
        let lacks_one_constant =
            op.weights().count() as f64 + 1.0 == self.fewest_constants().unwrap_or(0.0);
        lacks_one_constant.then(|| with_bias(op)).flatten().map_or(Cow::Borrowed(op), Cow::Owned)
    }
}

/// The same product with a bias as its third operand; `None` of any other operator.
fn with_bias(op: &OpSpec) -> Option<OpSpec> {
    let weight = op.inputs.get(1).filter(|weight| weight.constant)?;
    let shape = &op.outputs.first()?.shape;
    let channels = match op.kind {
        OpKind::Conv | OpKind::ConvTranspose => *shape.get(1)?,
        OpKind::Linear => *shape.last()?,
        _ => return None,
    };
    let precision = match weight.tensor.precision {
        float if float.is_float() => float,
        _ => Precision::I32,
    };
    let mut biased = op.clone();
    let tensor = TensorSpec::new([channels], precision);
    biased.inputs.insert(2, Operand { tensor, constant: true });
    Some(biased)
}
