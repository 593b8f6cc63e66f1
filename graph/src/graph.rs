//! [`Graph`]: an immutable, acyclic graph of operators in topological order. Weights are described,
//! not held.

use crate::{Attributes, Exceeded, OpKind, OpSpec, Operand, TensorSpec};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

/// Index of a value in its graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ValueId(pub u32);

/// Payload of a small constant: what shapes and pattern recognition need. Large weights have none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ConstantData {
    /// Integers and truth values.
    Ints(Vec<i64>),
    /// Floating-point numbers.
    Floats(#[serde(with = "crate::exact_floats")] Vec<f64>),
}

/// Who provides a value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ValueSource {
    /// The caller.
    Input,
    /// The model file: a weight, with its payload when it is small.
    Constant(Option<ConstantData>),
    /// The node with this index.
    Node(u32),
}

/// One tensor of a graph.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Value {
    /// Unique name.
    pub name: String,
    /// Shape and type; `None` where an unsupported operator makes them unknowable.
    pub tensor: Option<TensorSpec>,
    /// Who provides it.
    pub source: ValueSource,
}

/// The ONNX operator that a node was read from, if its kind represents several: they compute and
/// cost the same, but an engine's optimizer treats them differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Written {
    /// A reshape that takes dimensions of extent 1 away.
    Squeeze,
    /// A reshape that adds dimensions of extent 1.
    Unsqueeze,
    /// A reshape to two dimensions.
    Flatten,
    /// A reshape whose attribute `allowzero` is set.
    ReshapeAllowingZero,
    /// A padding whose optional input `constant_value` is listed, but empty.
    PadWithEmptyValue,
}

/// One operator at its place in a graph.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// Unique name.
    pub name: String,
    /// What it computes.
    pub op: OpSpec,
    /// The file's form of it; `None` if there is only one form, or no file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written: Option<Written>,
    /// The values behind `op.inputs`, in the same order (all of them, also where the tensor is
    /// unknown).
    pub inputs: Vec<ValueId>,
    /// The values it provides.
    pub outputs: Vec<ValueId>,
}

/// Why something is not a graph.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum GraphError {
    /// Nodes wait for each other.
    #[error("the graph has a cycle through node `{node}`")]
    Cycle {
        /// Name of the node.
        node: String,
    },
    /// A node reads what nothing provides.
    #[error("node `{node}` reads `{value}`, which nothing provides")]
    Dangling {
        /// Name of the node.
        node: String,
        /// Name of the value.
        value: String,
    },
    /// Two nodes provide one value.
    #[error("value `{value}` is provided twice")]
    Duplicate {
        /// Name of the value.
        value: String,
    },
    /// A node is wrong.
    #[error("node `{node}`: {reason}")]
    Node {
        /// Name of the node.
        node: String,
        /// What is wrong.
        reason: String,
    },
    /// The graph takes more than its budget.
    #[error(
        "{}the model {source}",
        node.as_ref().map_or_else(String::new, |node| format!("node `{node}`: "))
    )]
    Exceeded {
        /// Name of the node at which the budget ended, where it is one.
        node: Option<String>,
        /// The resource and its limit.
        source: Exceeded,
    },
}

impl From<Exceeded> for GraphError {
    fn from(source: Exceeded) -> Self {
        Self::Exceeded { node: None, source }
    }
}

impl GraphError {
    /// Its node, if there is one.
    #[must_use]
    pub fn node(&self) -> Option<&str> {
        match self {
            Self::Cycle { node } | Self::Dangling { node, .. } | Self::Node { node, .. } => {
                Some(node)
            }
            Self::Exceeded { node, .. } => node.as_deref(),
            Self::Duplicate { .. } => None,
        }
    }
}

/// An immutable graph of operators in topological order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Graph {
    name: String,
    values: Vec<Value>,
    nodes: Vec<Node>,
    inputs: Vec<ValueId>,
    outputs: Vec<ValueId>,
    /// Constants that have the numbers of another one, in another order or shape, and that one: as
    /// the file computes them from it. By the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    copies: Vec<(ValueId, ValueId)>,
}

impl Graph {
    /// Puts a graph together. `nodes` may come in any order; they are sorted topologically (stable:
    /// the given order is kept where it can be), and the `source` of every value a node provides is
    /// set to that node.
    ///
    /// # Errors
    /// [`GraphError`] for a cycle, a value that nothing provides, or one provided twice.
    pub fn new(
        name: impl Into<String>,
        mut values: Vec<Value>,
        nodes: Vec<Node>,
        inputs: Vec<ValueId>,
        outputs: Vec<ValueId>,
    ) -> Result<Self, GraphError> {
        let producer = producers(&values, &nodes)?;
        let nodes =
            if is_sorted(&values, &nodes, &producer)? { nodes } else { sort(nodes, &producer)? };
        for (index, node) in nodes.iter().enumerate() {
            for output in &node.outputs {
                values[output.0 as usize].source = ValueSource::Node(index as u32);
            }
        }
        Ok(Self { name: name.into(), values, nodes, inputs, outputs, copies: Vec::new() })
    }

    /// The same graph, of which some constants have the numbers of another one each. Pairs whose
    /// number of elements or element type differs are left out.
    pub(crate) fn with_copies(
        mut self,
        copies: impl IntoIterator<Item = (ValueId, ValueId)>,
    ) -> Self {
        let constant = |id: ValueId| match self.values.get(id.0 as usize)? {
            Value { tensor: Some(t), source: ValueSource::Constant(_), .. } => {
                Some((t.elements(), t.precision))
            }
            _ => None,
        };
        let is_copy = |&(copy, of): &(ValueId, ValueId)| {
            copy != of && constant(copy).is_some() && constant(copy) == constant(of)
        };
        self.copies = copies.into_iter().filter(is_copy).collect();
        self.copies.sort_unstable();
        self.copies.dedup_by_key(|(copy, _)| *copy);
        self
    }

    /// Constants that have the numbers of another one, and that one.
    pub(crate) fn copies(&self) -> &[(ValueId, ValueId)] {
        &self.copies
    }

    /// The constant whose numbers a constant has, in another order or shape (a transposed weight
    /// that the file reads as it is, too); of all other values the value itself.
    #[must_use]
    pub fn original(&self, id: ValueId) -> ValueId {
        let found = self.copies.binary_search_by_key(&id, |(copy, _)| *copy);
        found.map_or(id, |index| self.copies[index].1)
    }

    /// The model's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same graph under another name.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Operators in topological order.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The same, by value.
    #[must_use]
    pub fn into_nodes(self) -> Vec<Node> {
        self.nodes
    }

    /// All values; a [`ValueId`] indexes here.
    #[must_use]
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    /// One value.
    #[must_use]
    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.0 as usize]
    }

    /// The inputs.
    #[must_use]
    pub fn inputs(&self) -> &[ValueId] {
        &self.inputs
    }

    /// The outputs.
    #[must_use]
    pub fn outputs(&self) -> &[ValueId] {
        &self.outputs
    }

    /// The same graph with each operator described anew; what it reads and provides stays.
    pub(crate) fn with_each_operator(mut self, describe: impl Fn(&mut OpSpec)) -> Self {
        self.nodes.iter_mut().for_each(|node| describe(&mut node.op));
        self
    }

    /// Name, values, nodes, inputs and outputs.
    pub(crate) fn into_parts(self) -> (String, Vec<Value>, Vec<Node>, Vec<ValueId>, Vec<ValueId>) {
        (self.name, self.values, self.nodes, self.inputs, self.outputs)
    }

    /// For each value, the indices of the nodes that read it.
    #[must_use]
    pub fn consumers(&self) -> Vec<Vec<usize>> {
        let mut consumers = vec![Vec::new(); self.values.len()];
        for (index, node) in self.nodes.iter().enumerate() {
            for input in &node.inputs {
                consumers[input.0 as usize].push(index);
            }
        }
        consumers
    }

    /// For each value, how often nodes read it.
    pub(crate) fn reads(&self) -> Vec<usize> {
        let mut reads = vec![0; self.values.len()];
        for input in self.nodes.iter().flat_map(|node| &node.inputs) {
            reads[input.0 as usize] += 1;
        }
        reads
    }

    /// The node that provides a value, if one does.
    #[must_use]
    pub fn producer(&self, id: ValueId) -> Option<&Node> {
        match self.value(id).source {
            ValueSource::Node(index) => self.nodes.get(index as usize),
            _ => None,
        }
    }

    /// Unsupported operators: node name and operator name.
    pub fn unsupported(&self) -> impl Iterator<Item = (&str, &str)> {
        self.nodes.iter().filter_map(|n| match &n.op.kind {
            OpKind::Unsupported(op) => Some((n.name.as_str(), op.as_str())),
            _ => None,
        })
    }

    /// Number of operators of each kind.
    #[must_use]
    pub fn kinds(&self) -> BTreeMap<String, usize> {
        let mut kinds = BTreeMap::new();
        for node in &self.nodes {
            *kinds.entry(node.op.kind.name().to_owned()).or_insert(0) += 1;
        }
        kinds
    }

    /// Digest of the floating-point constants, one after another; names and shapes do not count. 16
    /// hexadecimal digits. `None` where one has no payload, as in a graph read without its weights.
    #[must_use]
    pub fn weights(&self) -> Option<String> {
        let mut hasher = blake3::Hasher::new();
        for value in &self.values {
            match &value.source {
                ValueSource::Constant(None) => return None,
                ValueSource::Constant(Some(ConstantData::Floats(numbers))) => {
                    numbers.iter().for_each(|number| {
                        hasher.update(&number.to_le_bytes());
                    });
                }
                _ => {}
            }
        }
        Some(hasher.finalize().to_hex()[..16].to_owned())
    }

    /// Digest of structure, attributes and shapes; names and weights do not count. 16 hexadecimal
    /// digits.
    #[must_use]
    pub fn architecture(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        let mut number = HashMap::new();
        for input in &self.inputs {
            let next = number.len();
            number.insert(*input, next);
        }
        for node in &self.nodes {
            hasher.update(node.op.to_json().as_bytes());
            for input in &node.inputs {
                hasher.update(&number.get(input).map_or(u64::MAX, |&n| n as u64).to_le_bytes());
            }
            for output in &node.outputs {
                let next = number.len();
                number.insert(*output, next);
            }
        }
        hasher.finalize().to_hex()[..16].to_owned()
    }
}

impl Node {
    /// A node whose [`OpSpec`] is put together from the values it reads and provides.
    #[must_use]
    pub fn new(
        name: impl Into<String>,
        kind: OpKind,
        attributes: Attributes,
        values: &[Value],
        inputs: Vec<ValueId>,
        outputs: Vec<ValueId>,
    ) -> Self {
        let mut node = Self::in_parts(name, kind, attributes, inputs, outputs);
        node.put_together(values);
        node
    }

    /// A node whose [`OpSpec`] has no tensors before it is [put together](Self::put_together).
    pub(crate) fn in_parts(
        name: impl Into<String>,
        kind: OpKind,
        attributes: Attributes,
        inputs: Vec<ValueId>,
        outputs: Vec<ValueId>,
    ) -> Self {
        let op = OpSpec { kind, attributes, inputs: Vec::new(), outputs: Vec::new() };
        Self { name: name.into(), op, written: None, inputs, outputs }
    }

    /// Updates the tensors of its [`OpSpec`] from its input and output values, and drops the file's
    /// form of it.
    pub(crate) fn put_together(&mut self, values: &[Value]) {
        let operand = |v: &Value| {
            v.tensor.clone().map(|tensor| Operand {
                tensor,
                constant: matches!(v.source, ValueSource::Constant(_)),
            })
        };
        self.op.inputs.clear();
        self.op.inputs.reserve_exact(self.inputs.len());
        self.op.inputs.extend(self.inputs.iter().filter_map(|id| operand(&values[id.0 as usize])));
        self.op.outputs.clear();
        self.op.outputs.reserve_exact(self.outputs.len());
        self.op
            .outputs
            .extend(self.outputs.iter().filter_map(|id| values[id.0 as usize].tensor.clone()));
        self.written = None;
    }
}

fn producers(values: &[Value], nodes: &[Node]) -> Result<Vec<Option<usize>>, GraphError> {
    let mut producer = vec![None; values.len()];
    for (index, node) in nodes.iter().enumerate() {
        for output in &node.outputs {
            let slot = &mut producer[output.0 as usize];
            if slot.replace(index).is_some() {
                return Err(GraphError::Duplicate {
                    value: values[output.0 as usize].name.clone(),
                });
            }
        }
    }
    Ok(producer)
}

/// Whether each node comes after those it reads from.
fn is_sorted(
    values: &[Value],
    nodes: &[Node],
    producer: &[Option<usize>],
) -> Result<bool, GraphError> {
    let mut sorted = true;
    for (index, node) in nodes.iter().enumerate() {
        for input in &node.inputs {
            let value = &values[input.0 as usize];
            match producer[input.0 as usize] {
                Some(from) => sorted &= from < index,
                None if matches!(value.source, ValueSource::Node(_)) => {
                    return Err(GraphError::Dangling {
                        node: node.name.clone(),
                        value: value.name.clone(),
                    });
                }
                None => {}
            }
        }
    }
    Ok(sorted)
}

fn sort(nodes: Vec<Node>, producer: &[Option<usize>]) -> Result<Vec<Node>, GraphError> {
    let mut waits = vec![0usize; nodes.len()];
    let mut readers = vec![Vec::new(); nodes.len()];
    for (index, node) in nodes.iter().enumerate() {
        for from in node.inputs.iter().filter_map(|input| producer[input.0 as usize]) {
            waits[index] += 1;
            readers[from].push(index);
        }
    }
    let mut ready: std::collections::BinaryHeap<_> =
        (0..nodes.len()).filter(|&i| waits[i] == 0).map(std::cmp::Reverse).collect();
    let mut order = Vec::with_capacity(nodes.len());
    while let Some(std::cmp::Reverse(index)) = ready.pop() {
        order.push(index);
        for &reader in &readers[index] {
            waits[reader] -= 1;
            if waits[reader] == 0 {
                ready.push(std::cmp::Reverse(reader));
            }
        }
    }
    if order.len() < nodes.len() {
        let stuck = (0..nodes.len()).find(|&i| waits[i] > 0).unwrap_or(0);
        return Err(GraphError::Cycle { node: nodes[stuck].name.clone() });
    }
    let mut slots: Vec<Option<Node>> = nodes.into_iter().map(Some).collect();
    Ok(order.into_iter().filter_map(|i| slots[i].take()).collect())
}
