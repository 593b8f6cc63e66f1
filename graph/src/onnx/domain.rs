//! [`Domain`]: what operators beside ONNX's own mean. A framework's domains are described beside
//! its lowering; a reader gets them with [`ReadOptions`](super::ReadOptions).

use super::view::{GraphView, NodeView};
use crate::{Attributes, OpKind, TensorSpec, Value};

/// The operators that one framework adds to ONNX.
#[derive(Clone, Copy, Debug)]
pub struct Domain {
    /// The operator of a node; `None` if it is not of this framework, or unknown: the node is then
    /// unsupported, with its name.
    pub(crate) map: fn(&DomainNode<'_>) -> Option<Mapped>,
}

/// A node of another domain than ONNX's, and its inputs.
pub(crate) struct DomainNode<'a> {
    pub node: &'a NodeView<'a>,
    /// Parallel to `node.input`, `None` for an omitted optional input; the payload of a small
    /// constant is in its [`crate::ValueSource`]. All present inputs have a known tensor.
    pub inputs: &'a [Option<&'a Value>],
    /// The file that it is in.
    pub graph: &'a GraphView<'a>,
}

/// The operator of a node.
#[derive(Clone, Debug)]
pub(crate) struct Mapped {
    /// What it computes.
    pub kind: OpKind,
    /// Its attributes; the reader fills in defaults by [`crate::shape::canonical`] when `outputs`
    /// is `None`.
    pub attributes: Attributes,
    /// Positions in `node.input` of the real operands, in the order [`OpKind`] wants; inputs that
    /// only parametrise it are left out.
    pub operands: Vec<usize>,
    /// The outputs, where [`crate::shape::infer`] cannot find them (blocked formats, packed
    /// weights); `None`: infer them.
    pub outputs: Option<Vec<TensorSpec>>,
}
