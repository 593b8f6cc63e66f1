//! [`Program`]: the graph while it is rewritten.

use crate::{
    Attributes, Budget, ConstantData, Graph, GraphError, Node, OpKind, Precision, TensorSpec,
    Value, ValueId, ValueSource,
};
use smallvec::SmallVec;
use std::borrow::Cow;

/// One operator of a [`Program`].
#[derive(Clone, Debug)]
pub(super) struct Op {
    pub name: String,
    pub kind: OpKind,
    pub attributes: Attributes,
    pub inputs: Vec<ValueId>,
    pub outputs: Vec<ValueId>,
    /// A fused kernel with rten's name, which patterns match only by that name.
    pub fused: Option<&'static str>,
    /// Inputs read through a permutation: position and order of dimensions.
    pub permuted: Vec<(usize, Vec<usize>)>,
}

/// The replacement of the operators between a rule's inputs and outputs.
#[derive(Debug)]
pub(super) enum Fusion {
    /// One kernel; `weights` are constants that come into being with it, appended to its inputs.
    Kernel { op: Op, weights: Vec<TensorSpec> },
    /// Nothing: readers of `output` read `input`.
    Identity { input: ValueId, output: ValueId },
}

/// Tries the rule at the operator with this index, the last one of those it would replace.
pub(super) type Rule<'a> = dyn Fn(&Program, usize) -> Option<Fusion> + 'a;

/// A graph being rewritten.
#[derive(Debug)]
pub(super) struct Program {
    pub name: String,
    pub values: Vec<Value>,
    /// Removed operators leave a hole.
    pub ops: Vec<Option<Op>>,
    pub inputs: Vec<ValueId>,
    pub outputs: Vec<ValueId>,
    /// For each value, the operator that makes it.
    source: Vec<Option<usize>>,
    /// For each value, the operators that read it.
    readers: Vec<SmallVec<[usize; 2]>>,
    /// For each value, whether the caller gets it.
    returned: Vec<bool>,
    budget: Budget,
}

impl Fusion {
    /// A kernel without weights of its own.
    pub fn kernel(op: Op) -> Option<Self> {
        Some(Self::Kernel { op, weights: Vec::new() })
    }

    pub fn inputs(&self) -> &[ValueId] {
        match self {
            Self::Kernel { op, .. } => &op.inputs,
            Self::Identity { input, .. } => std::slice::from_ref(input),
        }
    }

    pub fn outputs(&self) -> &[ValueId] {
        match self {
            Self::Kernel { op, .. } => &op.outputs,
            Self::Identity { output, .. } => std::slice::from_ref(output),
        }
    }
}

impl Op {
    /// An operator of the model.
    fn read(
        name: String,
        kind: OpKind,
        attributes: Attributes,
        inputs: Vec<ValueId>,
        outputs: Vec<ValueId>,
    ) -> Self {
        Self { name, kind, attributes, inputs, outputs, fused: None, permuted: Vec::new() }
    }

    /// The same outputs and name, made by another kernel.
    pub fn replaced_by(
        &self,
        fused: &'static str,
        kind: OpKind,
        attributes: Attributes,
        inputs: Vec<ValueId>,
    ) -> Self {
        Self {
            name: self.name.clone(),
            kind,
            attributes,
            inputs,
            outputs: self.outputs.clone(),
            fused: Some(fused),
            permuted: Vec::new(),
        }
    }
}

impl Program {
    /// The operators of a graph, as they are.
    pub fn from_graph(graph: Cow<'_, Graph>, budget: &Budget) -> Self {
        match graph {
            Cow::Borrowed(graph) => {
                let op = |node: &Node| {
                    let (kind, attributes) = (node.op.kind.clone(), node.op.attributes.clone());
                    let (inputs, outputs) = (node.inputs.clone(), node.outputs.clone());
                    Some(Op::read(node.name.clone(), kind, attributes, inputs, outputs))
                };
                Self::linked(
                    graph.name().to_owned(),
                    graph.values().to_vec(),
                    graph.nodes().iter().map(op).collect(),
                    (graph.inputs().to_vec(), graph.outputs().to_vec()),
                    budget,
                )
            }
            Cow::Owned(graph) => {
                let (name, values, nodes, inputs, outputs) = graph.into_parts();
                let op = |Node { name, op, inputs, outputs, .. }: Node| {
                    Some(Op::read(name, op.kind, op.attributes, inputs, outputs))
                };
                let ops = nodes.into_iter().map(op).collect();
                Self::linked(name, values, ops, (inputs, outputs), budget)
            }
        }
    }

    fn linked(
        name: String,
        values: Vec<Value>,
        ops: Vec<Option<Op>>,
        (inputs, outputs): (Vec<ValueId>, Vec<ValueId>),
        budget: &Budget,
    ) -> Self {
        let mut returned = vec![false; values.len()];
        outputs.iter().for_each(|id| returned[id.0 as usize] = true);
        let mut program = Self {
            name,
            values,
            ops,
            inputs,
            outputs,
            source: Vec::new(),
            readers: Vec::new(),
            returned,
            budget: budget.clone(),
        };
        program.link();
        program
    }

    /// Finds sources and readers again, after operators have changed.
    pub fn link(&mut self) {
        self.source = vec![None; self.values.len()];
        self.readers = vec![SmallVec::new(); self.values.len()];
        for (index, op) in self.ops.iter().enumerate() {
            for output in op.iter().flat_map(|op| &op.outputs) {
                self.source[output.0 as usize] = Some(index);
            }
            for input in op.iter().flat_map(|op| &op.inputs) {
                self.readers[input.0 as usize].push(index);
            }
        }
    }

    /// The operator with this index.
    pub fn op(&self, index: usize) -> Option<&Op> {
        self.ops.get(index)?.as_ref()
    }

    /// The operator that makes a value.
    pub fn source(&self, value: ValueId) -> Option<(usize, &Op)> {
        let index = self.source[value.0 as usize]?;
        Some((index, self.op(index)?))
    }

    /// Whether the caller gets a value.
    pub fn is_returned(&self, value: ValueId) -> bool {
        self.returned.get(value.0 as usize) == Some(&true)
    }

    /// Takes a step of the budget for each operator and edge that a pass reads.
    ///
    /// # Errors
    /// [`GraphError::Exceeded`] at `op` when the budget is spent.
    pub fn spend(&self, op: &Op, steps: usize) -> Result<(), GraphError> {
        let at = |source| GraphError::Exceeded { node: Some(op.name.clone()), source };
        self.budget.steps(steps as u64).map_err(at)
    }

    /// The operators that read a value.
    pub fn readers(&self, value: ValueId) -> &[usize] {
        &self.readers[value.0 as usize]
    }

    /// Shape and type of a value.
    pub fn tensor(&self, value: ValueId) -> Option<&TensorSpec> {
        self.values[value.0 as usize].tensor.as_ref()
    }

    /// Whether a value is known before the model runs.
    pub fn is_constant(&self, value: ValueId) -> bool {
        matches!(self.values[value.0 as usize].source, ValueSource::Constant(_))
    }

    /// A constant float of one element; NaN without a value.
    pub fn scalar(&self, value: ValueId) -> Option<f32> {
        let tensor = self.tensor(value)?;
        if tensor.elements() != 1
            || !matches!(tensor.precision, Precision::F32 | Precision::F64 | Precision::F16)
        {
            return None;
        }
        match &self.values[value.0 as usize].source {
            ValueSource::Constant(Some(ConstantData::Floats(data))) => {
                Some(data.first().map_or(f32::NAN, |&v| v as f32))
            }
            ValueSource::Constant(_) => Some(f32::NAN),
            _ => None,
        }
    }
}
