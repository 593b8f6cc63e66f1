//! Operators that ONNX defines by a function, read as the operators of its body: engines without a
//! kernel for such an operator run these, and rules of lowering match their pattern.

use super::Reader;
use crate::onnx::OnnxError;
use crate::{
    Attributes, ConstantData, GraphError, Node, OpKind, OpSpec, Shape, TensorSpec, Value, ValueId,
    ValueSource, shape,
};

impl<'a> Reader<'a> {
    /// Reads a node as the operators that `body` makes; it returns the values of the node's
    /// outputs, in order.
    pub(super) fn spell_out(
        &mut self,
        index: usize,
        body: impl FnOnce(&mut Spelling<'_, 'a>) -> Result<Vec<ValueId>, String>,
    ) -> Result<(), OnnxError> {
        self.check_outputs(index, 1)?;
        let (given, graph) = (self.values.len(), self.graph);
        let name = self.node_name(index);
        self.list_provided();
        let provided = body(&mut Spelling { reader: self, index, name });
        let provided =
            provided.map_err(|reason| self.node_error(index, format!("is wrong: {reason}")))?;
        let mut named = Vec::new();
        for (output, id) in graph.node[index].output.iter().zip(provided) {
            if !output.is_empty() {
                let is_fresh = id.0 as usize >= given && !named.contains(&id);
                named.push(id);
                self.call(output, id, is_fresh, index)?;
            }
        }
        Ok(())
    }

    /// Gives a value of this node the name that the file has for it. One that is not fresh, because
    /// it was there before the node or has a name already, is copied.
    fn call(
        &mut self,
        name: &'a str,
        id: ValueId,
        is_fresh: bool,
        index: usize,
    ) -> Result<(), OnnxError> {
        let id = if is_fresh {
            id
        } else {
            let copy = Spelling { reader: self, index, name: name.to_owned() }.step(
                "copy",
                OpKind::Identity,
                Attributes::new(),
                &[id],
            );
            copy.map_err(|reason| self.node_error(index, reason))?
        };
        if self.ids.insert(name, id).is_some() {
            return Err(self.graph_error(GraphError::Duplicate { value: name.to_owned() }));
        }
        name.clone_into(&mut self.values[id.0 as usize].name);
        Ok(())
    }
}

/// A node on its way to single operators.
pub(super) struct Spelling<'r, 'a> {
    pub reader: &'r mut Reader<'a>,
    pub index: usize,
    /// The node's name: names of operators and values begin with it.
    name: String,
}

impl Spelling<'_, '_> {
    pub(super) fn int(&self, name: &str, default: i64) -> i64 {
        self.reader.graph.node[self.index].int(name).unwrap_or(default)
    }

    pub(super) fn float(&self, name: &str) -> Option<f64> {
        self.reader.graph.node[self.index].float(name)
    }

    pub(super) fn tensor(&self, id: ValueId) -> Result<&TensorSpec, String> {
        let value = &self.reader.values[id.0 as usize];
        value.tensor.as_ref().ok_or_else(|| format!("the shape of `{}` is not known", value.name))
    }

    pub(super) fn shape(&self, id: ValueId) -> Result<Shape, String> {
        self.tensor(id).map(|tensor| tensor.shape.clone())
    }

    /// An elementwise operator with one number.
    pub(super) fn with_number(
        &mut self,
        what: &str,
        kind: OpKind,
        id: ValueId,
        number: f64,
    ) -> Result<ValueId, String> {
        let tensor = TensorSpec::new([], self.tensor(id)?.precision);
        let data = ConstantData::Floats(vec![number]);
        let number = self.constant(&format!("{what}_by"), tensor, data);
        self.step(what, kind, Attributes::new(), &[id, number])
    }

    pub(super) fn constant(
        &mut self,
        what: &str,
        tensor: TensorSpec,
        data: ConstantData,
    ) -> ValueId {
        self.value(what, tensor, ValueSource::Constant(Some(data)))
    }

    pub(super) fn weight(&mut self, what: &str, tensor: TensorSpec) -> ValueId {
        self.value(what, tensor, ValueSource::Constant(None))
    }

    /// One operator with one output; a constant where all its inputs are.
    pub(super) fn step(
        &mut self,
        what: &str,
        kind: OpKind,
        attributes: Attributes,
        inputs: &[ValueId],
    ) -> Result<ValueId, String> {
        let operands: Vec<_> = inputs.iter().filter_map(|id| self.reader.operand(*id)).collect();
        let attributes = shape::canonical(&kind, attributes, &operands)?;
        let mut outputs = shape::infer_canonical(&kind, &attributes, &operands)?;
        let tensor = outputs.pop().ok_or_else(|| format!("{kind} has no output"))?;
        if operands.iter().all(|operand| operand.constant) {
            return Ok(self.weight(what, tensor));
        }
        let source = ValueSource::Node(self.reader.nodes.len() as u32);
        let output = self.value(what, tensor.clone(), source);
        let op = OpSpec { kind, attributes, inputs: operands, outputs: vec![tensor] };
        let name = self.unused(what, |reader, name| reader.names.contains_key(name));
        let (inputs, outputs) = (inputs.to_vec(), vec![output]);
        self.reader.nodes.push(Node { name, op, written: None, inputs, outputs });
        Ok(output)
    }

    /// A name that nothing in the file has.
    fn unused(&self, what: &str, is_used: impl Fn(&Reader<'_>, &str) -> bool) -> String {
        let mut name = format!("{}/{what}", self.name);
        while is_used(self.reader, &name) {
            name.push('_');
        }
        name
    }

    fn value(&mut self, what: &str, tensor: TensorSpec, source: ValueSource) -> ValueId {
        let name = self.unused(what, |reader, name| reader.names_a_value(name));
        let id = ValueId(self.reader.values.len() as u32);
        self.reader.values.push(Value { name, tensor: Some(tensor), source });
        id
    }
}
