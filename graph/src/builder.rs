//! [`GraphBuilder`]: builds a [`Graph`] operator by operator and infers the shapes. Whole layers
//! are in [`layers`].

mod layers;

use crate::{
    Attributes, ConstantData, Graph, GraphError, Node, OpKind, Operand, TensorSpec, Value, ValueId,
    ValueSource, shape,
};

/// Collects values and nodes until [`GraphBuilder::finish`].
#[derive(Debug)]
pub struct GraphBuilder {
    name: String,
    values: Vec<Value>,
    nodes: Vec<Node>,
    inputs: Vec<ValueId>,
}

impl GraphBuilder {
    /// An empty graph.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), values: Vec::new(), nodes: Vec::new(), inputs: Vec::new() }
    }

    fn push(
        &mut self,
        name: impl Into<String>,
        tensor: TensorSpec,
        source: ValueSource,
    ) -> ValueId {
        self.values.push(Value { name: name.into(), tensor: Some(tensor), source });
        ValueId(self.values.len() as u32 - 1)
    }

    /// An input of the model.
    pub fn input(&mut self, name: impl Into<String>, tensor: TensorSpec) -> ValueId {
        let id = self.push(name, tensor, ValueSource::Input);
        self.inputs.push(id);
        id
    }

    /// A weight: constant, without a payload.
    pub fn weight(&mut self, name: impl Into<String>, tensor: TensorSpec) -> ValueId {
        self.push(name, tensor, ValueSource::Constant(None))
    }

    /// A small constant with its payload.
    pub fn constant(
        &mut self,
        name: impl Into<String>,
        tensor: TensorSpec,
        data: ConstantData,
    ) -> ValueId {
        self.push(name, tensor, ValueSource::Constant(Some(data)))
    }

    /// Shape and type of a value made so far.
    #[must_use]
    pub fn tensor(&self, id: ValueId) -> Option<&TensorSpec> {
        self.values.get(id.0 as usize)?.tensor.as_ref()
    }

    /// One operator with one output, called `NAME_out`; attributes become canonical (see
    /// [`shape::canonical`]).
    ///
    /// # Errors
    /// [`GraphError::Node`] when its inputs do not fit it.
    pub fn op(
        &mut self,
        name: &str,
        kind: OpKind,
        attributes: Attributes,
        inputs: &[ValueId],
    ) -> Result<ValueId, GraphError> {
        let outputs = self.op_many(name, kind, attributes, inputs)?;
        outputs.first().copied().ok_or_else(|| GraphError::Node {
            node: name.to_owned(),
            reason: "it has no output".to_owned(),
        })
    }

    /// One operator with all its outputs, called `NAME_out0`, `NAME_out1`... where there are
    /// several.
    ///
    /// # Errors
    /// [`GraphError::Node`] when its inputs do not fit it.
    pub fn op_many(
        &mut self,
        name: &str,
        kind: OpKind,
        attributes: Attributes,
        inputs: &[ValueId],
    ) -> Result<Vec<ValueId>, GraphError> {
        let operands: Vec<Operand> = inputs
            .iter()
            .filter_map(|id| {
                let value = &self.values[id.0 as usize];
                value.tensor.clone().map(|tensor| Operand {
                    tensor,
                    constant: matches!(value.source, ValueSource::Constant(_)),
                })
            })
            .collect();
        let refuse = |reason| GraphError::Node { node: name.to_owned(), reason };
        let attributes = shape::canonical(&kind, attributes, &operands).map_err(refuse)?;
        let tensors = shape::infer(&kind, &attributes, &operands).map_err(refuse)?;
        let single = tensors.len() == 1;
        let node = self.nodes.len() as u32;
        let outputs: Vec<ValueId> = tensors
            .into_iter()
            .enumerate()
            .map(|(i, tensor)| {
                self.push(
                    if single { format!("{name}_out") } else { format!("{name}_out{i}") },
                    tensor,
                    ValueSource::Node(node),
                )
            })
            .collect();
        self.nodes.push(Node::new(
            name,
            kind,
            attributes,
            &self.values,
            inputs.to_vec(),
            outputs.clone(),
        ));
        Ok(outputs)
    }

    /// The graph with these outputs.
    ///
    /// # Errors
    /// As [`Graph::new`].
    pub fn finish(self, outputs: Vec<ValueId>) -> Result<Graph, GraphError> {
        Graph::new(self.name, self.values, self.nodes, self.inputs, outputs)
    }
}
