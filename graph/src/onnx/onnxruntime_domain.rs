//! Operators of the domains `com.microsoft` and `com.microsoft.nchwc`: what ONNX Runtime's optimizer leaves in a saved model.

use super::proto::NodeProto;
use crate::{Attributes, OpKind, TensorSpec, Value};

/// What a node of a foreign domain is in vitempo's terms.
#[derive(Clone, Debug)]
pub(super) struct Mapped {
    /// What it computes.
    pub kind: OpKind,
    /// Its attributes; the reader fills in defaults by [`crate::shape::canonical`] when `outputs` is `None`.
    pub attributes: Attributes,
    /// Positions in `node.input` of the real operands, in the order [`OpKind`] wants; inputs that only steer are left out.
    pub operands: Vec<usize>,
    /// The outputs, where [`crate::shape::infer`] cannot find them (blocked formats, packed weights); `None`: infer them.
    pub outputs: Option<Vec<TensorSpec>>,
}

/// Maps one node. `inputs` are parallel to `node.input`, `None` for an omitted optional input; the payload of a small constant is in its
/// [`crate::ValueSource`]. All inputs that are there have a known tensor. `None`: not known here; the node is then unsupported, by name.
pub(super) fn map(node: &NodeProto, inputs: &[Option<&Value>]) -> Option<Mapped> {
    let _ = (node, inputs);
    None
}
