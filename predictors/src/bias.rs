//! Products without a bias where every training row has one.
//!
//! Exporters leave out biases that are zero. A bias never takes work away, so that the same
//! operator with one bounds the latency from above, by less than the columns of one operand. Such
//! an operator is forecast as with a bias: it lies within the training data where that does.

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
