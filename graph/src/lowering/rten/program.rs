//! [`Program`]: the graph while it is rewritten, and the driver that tries the rules on it as
//! rten's optimiser does.

use super::{plan, product, transpose};
use crate::{
    Attributes, ConstantData, Graph, GraphError, Node, OpKind, Precision, TensorSpec, Value,
    ValueId, ValueSource,
};
use std::collections::HashSet;

/// One operator of a [`Program`].
#[derive(Clone, Debug)]
pub(super) struct Op {
    pub name: String,
    pub kind: OpKind,
    pub attributes: Attributes,
    pub inputs: Vec<ValueId>,
    pub outputs: Vec<ValueId>,
    /// A kernel that fusions made: rten's name for it, under which no pattern finds it again unless
    /// it asks for it.
    pub fused: Option<&'static str>,
    /// Inputs read through a permutation: position and order of dimensions.
    pub permuted: Vec<(usize, Vec<usize>)>,
}

/// What a rule puts in the place of the operators between its inputs and its outputs.
#[derive(Debug)]
pub(super) enum Fusion {
    /// One kernel; `weights` are constants that come into being with it, appended to its inputs.
    Kernel { op: Op, weights: Vec<TensorSpec> },
    /// Nothing: readers of `output` read `input`.
    Identity { input: ValueId, output: ValueId },
}

/// Looks at the operator with this index, the last one of what it would replace.
pub(super) type Rule<'a> = dyn Fn(&Program, usize) -> Option<Fusion> + 'a;

/// A graph being rewritten.
#[derive(Debug)]
pub(super) struct Program {
    name: String,
    pub values: Vec<Value>,
    /// Removed operators leave a hole.
    pub ops: Vec<Option<Op>>,
    pub inputs: Vec<ValueId>,
    pub outputs: Vec<ValueId>,
    /// For each value, the operator that makes it.
    source: Vec<Option<usize>>,
    /// For each value, the operators that read it.
    readers: Vec<Vec<usize>>,
}

impl Fusion {
    /// A kernel without weights of its own.
    pub fn kernel(op: Op) -> Option<Self> {
        Some(Self::Kernel { op, weights: Vec::new() })
    }

    fn inputs(&self) -> &[ValueId] {
        match self {
            Self::Kernel { op, .. } => &op.inputs,
            Self::Identity { input, .. } => std::slice::from_ref(input),
        }
    }

    fn outputs(&self) -> &[ValueId] {
        match self {
            Self::Kernel { op, .. } => &op.outputs,
            Self::Identity { output, .. } => std::slice::from_ref(output),
        }
    }
}

impl Op {
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
    pub fn from_graph(graph: &Graph) -> Self {
        let op = |node: &Node| Op {
            name: node.name.clone(),
            kind: node.op.kind.clone(),
            attributes: node.op.attributes.clone(),
            inputs: node.inputs.clone(),
            outputs: node.outputs.clone(),
            fused: None,
            permuted: Vec::new(),
        };
        let mut program = Self {
            name: graph.name().to_owned(),
            values: graph.values().to_vec(),
            ops: graph.nodes().iter().map(|node| Some(op(node))).collect(),
            inputs: graph.inputs().to_vec(),
            outputs: graph.outputs().to_vec(),
            source: Vec::new(),
            readers: Vec::new(),
        };
        program.link();
        program
    }

    fn link(&mut self) {
        self.source = vec![None; self.values.len()];
        self.readers = vec![Vec::new(); self.values.len()];
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

    /// A constant float of one element; NaN when its payload is not there.
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

    /// Evaluates what depends on constants alone: its values become constants.
    pub fn fold_constants(&mut self) {
        for index in plan::depth_first(self) {
            let Some(op) = self.op(index) else { continue };
            let unknown = matches!(op.kind, OpKind::Unsupported(_)) && op.inputs.is_empty();
            if unknown || !op.inputs.iter().all(|&input| self.is_constant(input)) {
                continue;
            }
            for output in op.outputs.clone() {
                self.values[output.0 as usize].source = ValueSource::Constant(None);
            }
            self.ops[index] = None;
        }
        self.link();
        for index in 0..self.ops.len() {
            let kind = match self.op(index) {
                Some(Op { kind: OpKind::MatMul, inputs, .. }) => {
                    inputs.get(1).map(|&right| product::kind(self, right))
                }
                _ => None,
            };
            if let (Some(op), Some(kind)) = (&mut self.ops[index], kind) {
                op.kind = kind;
            }
        }
    }

    /// Tries the rules once on every operator, last operators first; of several that fit, the first
    /// is taken. Returns how many fusions were made.
    pub fn pass(&mut self, rules: &[&Rule]) -> usize {
        let mut taken = HashSet::new();
        let mut fusions = Vec::new();
        for index in plan::depth_first(self).into_iter().rev() {
            if taken.contains(&index) {
                continue;
            }
            let Some(fusion) = rules.iter().find_map(|rule| rule(self, index)) else { continue };
            let replaced = self.between(fusion.inputs(), fusion.outputs());
            // As in rten, operators stay taken for this pass even if the fusion is then refused.
            let free = replaced.iter().all(|&op| taken.insert(op));
            if free && !self.leaks(&replaced, fusion.outputs()) {
                fusions.push((fusion, replaced));
            }
        }
        let count = fusions.len();
        self.apply(fusions);
        count
    }

    /// The operators that are needed to get from `inputs` to `outputs`.
    fn between(&self, inputs: &[ValueId], outputs: &[ValueId]) -> Vec<usize> {
        let (mut found, mut open) = (Vec::new(), outputs.to_vec());
        while let Some(value) = open.pop() {
            if inputs.contains(&value) {
                continue;
            }
            if let Some((index, op)) = self.source(value)
                && !found.contains(&index)
            {
                found.push(index);
                open.extend(&op.inputs);
            }
        }
        found
    }

    /// Whether something outside reads what the replaced operators make on the way.
    fn leaks(&self, replaced: &[usize], outputs: &[ValueId]) -> bool {
        let inner = replaced
            .iter()
            .filter_map(|&index| self.op(index))
            .flat_map(|op| &op.outputs)
            .filter(|value| !outputs.contains(value));
        inner.into_iter().any(|&value| {
            self.outputs.contains(&value)
                || self.readers(value).iter().any(|reader| !replaced.contains(reader))
        })
    }

    fn apply(&mut self, fusions: Vec<(Fusion, Vec<usize>)>) {
        for index in fusions.iter().flat_map(|(_, replaced)| replaced) {
            self.ops[*index] = None;
        }
        for (fusion, _) in fusions {
            match fusion {
                Fusion::Kernel { mut op, weights } => {
                    for (position, tensor) in weights.into_iter().enumerate() {
                        op.inputs.push(ValueId(self.values.len() as u32));
                        let name = format!("{}.folded{position}", op.name);
                        self.values.push(Value {
                            name,
                            tensor: Some(tensor),
                            source: ValueSource::Constant(None),
                        });
                    }
                    self.ops.push(Some(op));
                }
                Fusion::Identity { input, output } if self.outputs.contains(&output) => {
                    self.ops.push(Some(Op {
                        name: format!("{}/identity", self.values[output.0 as usize].name),
                        kind: OpKind::Identity,
                        attributes: Attributes::new(),
                        inputs: vec![input],
                        outputs: vec![output],
                        fused: None,
                        permuted: Vec::new(),
                    }))
                }
                Fusion::Identity { input, output } => {
                    for read in self
                        .ops
                        .iter_mut()
                        .flatten()
                        .flat_map(|op| &mut op.inputs)
                        .filter(|read| **read == output)
                    {
                        *read = input;
                    }
                }
            }
        }
        self.link();
    }

    /// The program as a graph, in execution order.
    ///
    /// # Errors
    /// As [`Graph::new`].
    pub fn into_graph(mut self) -> Result<Graph, GraphError> {
        let order = plan::execution_order(&self);
        let copying = plan::copying_reshapes(&self, &order);
        let nodes = order.iter().zip(copying).filter_map(|(&index, copies)| {
            let mut op = self.ops[index].take()?;
            if copies {
                op.attributes.set("copy", crate::Attribute::Int(1));
            }
            let mut node =
                Node::new(op.name, op.kind, op.attributes, &self.values, op.inputs, op.outputs);
            transpose::describe(&mut node, &op.permuted);
            Some(node)
        });
        let nodes: Vec<Node> = nodes.collect();
        for value in &mut self.values {
            if matches!(value.source, ValueSource::Node(_)) {
                value.source = ValueSource::Constant(None);
            }
        }
        Graph::new(self.name, self.values, nodes, self.inputs, self.outputs)
    }
}
