//! The driver that tries rules on a [`Program`] as rten's optimiser does, and writes the result as
//! a graph in execution order.

use super::{
    plan, product,
    program::{Fusion, Op, Program, Rule},
    transpose,
};
use crate::{Attributes, Exceeded, Graph, GraphError, Node, OpKind, Value, ValueId, ValueSource};
use std::collections::{HashMap, HashSet};

/// A few values, or many.
enum Members<'a> {
    Few(&'a [ValueId]),
    Many(HashSet<ValueId>),
}

impl<'a> Members<'a> {
    fn of(values: &'a [ValueId]) -> Self {
        const FEW: usize = 16;
        if values.len() <= FEW {
            Self::Few(values)
        } else {
            Self::Many(values.iter().copied().collect())
        }
    }

    fn has(&self, value: ValueId) -> bool {
        match self {
            Self::Few(values) => values.contains(&value),
            Self::Many(values) => values.contains(&value),
        }
    }
}

/// The final replacement of a value, with path compression.
fn resolved(instead: &mut HashMap<ValueId, ValueId>, value: ValueId) -> ValueId {
    let mut end = value;
    while let Some(&next) = instead.get(&end) {
        end = next;
    }
    let mut at = value;
    while let Some(next) = instead.get_mut(&at).filter(|next| **next != end) {
        at = std::mem::replace(next, end);
    }
    end
}

impl Program {
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
    ///
    /// # Errors
    /// [`Exceeded`] when the budget is spent.
    pub fn pass(&mut self, rules: &[&Rule]) -> Result<usize, Exceeded> {
        let mut taken = HashSet::new();
        let mut fusions = Vec::new();
        for index in plan::depth_first(self).into_iter().rev() {
            if taken.contains(&index) {
                continue;
            }
            self.spend(1 + self.op(index).map_or(0, |op| op.inputs.len()))?;
            let Some(fusion) = rules.iter().find_map(|rule| rule(self, index)) else { continue };
            let replaced = self.between(fusion.inputs(), fusion.outputs())?;
            // As in rten, operators stay taken for this pass even if the fusion is then refused.
            let free = replaced.iter().all(|&op| taken.insert(op));
            if free && !self.leaks(&replaced, fusion.outputs()) {
                fusions.push((fusion, replaced));
            }
        }
        let count = fusions.len();
        self.apply(fusions);
        Ok(count)
    }

    /// The operators that are needed to get from `inputs` to `outputs`.
    fn between(&self, inputs: &[ValueId], outputs: &[ValueId]) -> Result<Vec<usize>, Exceeded> {
        let ends = Members::of(inputs);
        let (mut found, mut open) = (Vec::new(), outputs.to_vec());
        let mut seen = HashSet::new();
        while let Some(value) = open.pop() {
            if ends.has(value) {
                continue;
            }
            if let Some((index, op)) = self.source(value)
                && seen.insert(index)
            {
                self.spend(op.inputs.len())?;
                found.push(index);
                open.extend(&op.inputs);
            }
        }
        Ok(found)
    }

    /// Whether other operators read intermediate values of the replaced ones.
    fn leaks(&self, replaced: &[usize], outputs: &[ValueId]) -> bool {
        let inner = replaced
            .iter()
            .filter_map(|&index| self.op(index))
            .flat_map(|op| &op.outputs)
            .filter(|value| !outputs.contains(value));
        inner.into_iter().any(|&value| {
            self.is_returned(value)
                || self.readers(value).iter().any(|reader| !replaced.contains(reader))
        })
    }

    fn apply(&mut self, fusions: Vec<(Fusion, Vec<usize>)>) {
        for index in fusions.iter().flat_map(|(_, replaced)| replaced) {
            self.ops[*index] = None;
        }
        let mut instead = HashMap::new();
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
                Fusion::Identity { input, output } if self.is_returned(output) => {
                    self.ops.push(Some(Op {
                        name: format!("{}/identity", self.values[output.0 as usize].name),
                        kind: OpKind::Identity,
                        attributes: Attributes::new(),
                        inputs: vec![input],
                        outputs: vec![output],
                        fused: None,
                        permuted: Vec::new(),
                    }));
                }
                Fusion::Identity { input, output } => {
                    instead.insert(output, input);
                }
            }
        }
        if !instead.is_empty() {
            for read in self.ops.iter_mut().flatten().flat_map(|op| &mut op.inputs) {
                *read = resolved(&mut instead, *read);
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
