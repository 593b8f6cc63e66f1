//! The outputs of a node. ONNX lets a node leave out optional outputs, and any of a varying number,
//! by an empty name. The place of an output says what it is: those after it stay where they are.

use super::Reader;
use crate::onnx::OnnxError;
use crate::{OpKind, Precision, TensorSpec, ValueId, ValueSource};

impl<'a> Reader<'a> {
    /// Refuses a node without a name for one of the first outputs, which its operator always has.
    pub(super) fn check_outputs(&self, index: usize, always: usize) -> Result<(), OnnxError> {
        let names = &self.graph.node[index].output;
        let is_missing = |place: &usize| names.get(*place).is_none_or(|name| name.is_empty());
        match (0..always).find(is_missing) {
            Some(place) => {
                let reason = format!("has no name for its output {place}, which ONNX requires");
                Err(self.node_error(index, reason))
            }
            None => Ok(()),
        }
    }

    /// The values of a node's outputs, whose tensors are `tensors` as far as they are known. One
    /// without a name gets a name, unless it is optional and none follows.
    pub(super) fn provide(
        &mut self,
        index: usize,
        tensors: Vec<TensorSpec>,
    ) -> Result<Vec<ValueId>, OnnxError> {
        let source = ValueSource::Node(self.nodes.len() as u32);
        let names = &self.graph.node[index].output;
        let named = names.iter().rposition(|name| !name.is_empty()).map_or(0, |last| last + 1);
        let provided = named.max(tensors.len().min(names.len()));
        let first = tensors.first().cloned();
        let mut tensors = tensors.into_iter();
        let mut outputs = Vec::with_capacity(provided);
        for (place, &name) in names.iter().enumerate().take(provided) {
            let optional = first.as_ref().and_then(|first| self.optional(index, place, first));
            let known = tensors.next();
            outputs.push(if name.is_empty() {
                let name = self.unnamed(index, place);
                self.value(name, known.or(optional), source.clone())?
            } else {
                // What the file says of an optional output is in the precision of its models.
                let tensor = match known {
                    None => self.declared(index, name)?.or(optional),
                    known => known,
                };
                self.add(name, tensor, source.clone())?
            });
        }
        Ok(outputs)
    }

    /// An optional output of a node whose first output is `first`.
    fn optional(&self, index: usize, place: usize, first: &TensorSpec) -> Option<TensorSpec> {
        let node = &self.graph.node[index];
        let mut shape = first.shape.clone();
        let precision = match (node.op_type, place) {
            ("MaxPool", 1) => Precision::I64,
            ("Dropout", 1) => Precision::Bool,
            ("LayerNormalization", 1 | 2) => {
                let axis = node.int("axis").unwrap_or(-1);
                let from = if axis < 0 { axis.saturating_add(shape.len() as i64) } else { axis };
                shape.get_mut(usize::try_from(from).ok()?..)?.fill(1);
                Precision::F32
            }
            _ => return None,
        };
        Some(TensorSpec::new(shape, precision))
    }

    /// A name for an output that has none. It does not contain the node's own, which may be long.
    fn unnamed(&mut self, index: usize, place: usize) -> String {
        self.list_provided();
        let mut name = format!("{}_{index}/output_{place}", self.graph.node[index].op_type);
        while self.names_a_value(&name) {
            name.push('_');
        }
        name
    }

    /// Makes [`Self::names_a_value`] know the outputs of later nodes.
    pub(super) fn list_provided(&mut self) {
        let graph = self.graph;
        self.provided.get_or_insert_with(|| {
            graph.node.iter().flat_map(|node| node.output.iter().copied()).collect()
        });
    }

    /// Whether the file calls a value so.
    pub(super) fn names_a_value(&self, name: &str) -> bool {
        self.ids.contains_key(name)
            || self.provided.as_ref().is_some_and(|provided| provided.contains(name))
    }
}

/// How many outputs an operator always has: all before its optional ones. Those of a Split, however
/// many, may have no name.
pub(super) fn always(kind: &OpKind) -> usize {
    match kind {
        OpKind::Split => 0,
        OpKind::TopK => 2,
        OpKind::DynamicQuantize => 3,
        _ => 1,
    }
}
