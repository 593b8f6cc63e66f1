//! A graph while it is being rewritten: the old values, and new ones with new names.

use super::Values;
use crate::spending::Spending;
use crate::{
    Attributes, Budget, ConstantData, Graph, GraphError, Node, OpKind, TensorSpec, Value, ValueId,
    ValueSource, onnx,
};
use foldhash::fast::FixedState;
use foldhash::{HashMap, HashMapExt, HashSet};
use std::borrow::Cow;
use std::hash::BuildHasher;

/// Collects nodes until [`Draft::finish`].
pub(super) struct Draft<'a> {
    pub graph: &'a Graph,
    pub values: Vec<Value>,
    pub nodes: Vec<Node>,
    pub outputs: Vec<ValueId>,
    seed: Option<u64>,
    spending: Spending,
    /// Hashes of names that are taken. Two names with one hash cost an underscore.
    names: HashSet<u64>,
    /// How often a name was taken already.
    taken: HashMap<String, usize>,
}

/// The same in every run.
fn hash(name: &str) -> u64 {
    FixedState::default().hash_one(name)
}

/// The name of something that belongs to `owner`.
pub(super) fn named(owner: &str, what: &str) -> String {
    [owner, what].concat()
}

/// Underscores behind a name at most.
const MOST_UNDERSCORES: usize = 64;

impl<'a> Draft<'a> {
    /// No nodes yet. The payloads of `replaced` constants are not taken over: nothing will read
    /// them.
    pub(super) fn new(
        graph: &'a Graph,
        values: Values,
        replaced: &HashSet<ValueId>,
        budget: &Budget,
    ) -> Self {
        let spending = Spending::new(budget);
        spending.steps((graph.values().len() + graph.nodes().len()) as u64);
        let seed = match values {
            Values::Shapes => None,
            Values::Seeded(seed) => Some(seed),
        };
        let copy = |(i, value): (usize, &Value)| match replaced.contains(&ValueId(i as u32)) {
            true => Value {
                name: value.name.clone(),
                tensor: value.tensor.clone(),
                source: ValueSource::Constant(None),
            },
            false => value.clone(),
        };
        let names = graph
            .values()
            .iter()
            .map(|v| &v.name)
            .chain(graph.nodes().iter().map(|n| &n.name))
            .map(|name| hash(name))
            .collect();
        let values = graph.values().iter().enumerate().map(copy).collect();
        Self {
            graph,
            values,
            nodes: Vec::with_capacity(3 * graph.nodes().len()),
            outputs: graph.outputs().to_vec(),
            seed,
            spending,
            names,
            taken: HashMap::new(),
        }
    }

    /// The graph, named like the old one.
    ///
    /// # Errors
    /// [`GraphError`] when the budget was spent on the way, or the nodes make up no graph.
    pub(super) fn finish(self) -> Result<Graph, GraphError> {
        self.spending.finish()?;
        Graph::new(
            self.graph.name(),
            self.values,
            self.nodes,
            self.graph.inputs().to_vec(),
            self.outputs,
        )
    }

    /// Takes the steps and the memory of so many new numbers, made for the node or value of that
    /// name. Whether the budget had them.
    fn numbers(&self, name: &str, count: u64) -> bool {
        let bytes = count.saturating_mul(size_of::<f64>() as u64);
        let granted = self.spending.steps(count) && self.spending.bytes(bytes);
        if !granted {
            self.spending.at(name);
        }
        granted
    }

    /// Takes the steps of a node and its edges. Whether the budget had them: where not, the rest of
    /// the work is in vain.
    pub(super) fn look_at(&self, node: &Node) -> bool {
        let granted = self.spending.steps(1 + (node.inputs.len() + node.outputs.len()) as u64);
        if !granted {
            self.spending.at(&node.name);
        }
        granted
    }

    /// The values of an old constant: its own or seeded ones; `None` where only shapes are asked
    /// for, and where the budget does not have them and the integers made of them.
    pub(super) fn floats(&self, id: ValueId) -> Option<Cow<'a, [f64]>> {
        let seed = self.seed?;
        let value = self.graph.value(id);
        let elements = value.tensor.as_ref().map_or(0, TensorSpec::elements);
        if !self.numbers(&value.name, elements.saturating_mul(2)) {
            return None;
        }
        match &value.source {
            ValueSource::Constant(Some(ConstantData::Floats(v))) => Some(v.into()),
            ValueSource::Constant(Some(ConstantData::Ints(v))) => {
                Some(v.iter().map(|&i| i as f64).collect())
            }
            _ => Some(onnx::seeded_weight(&value.name, value.tensor.as_ref()?, seed).into()),
        }
    }

    /// A new constant; without its data if only shapes are requested.
    pub(super) fn constant(
        &mut self,
        name: String,
        tensor: TensorSpec,
        data: Option<ConstantData>,
    ) -> ValueId {
        self.value(name, tensor, ValueSource::Constant(data))
    }

    /// A new value that a node will provide.
    pub(super) fn computed(&mut self, name: String, tensor: TensorSpec) -> ValueId {
        self.value(name, tensor, ValueSource::Node(0))
    }

    fn value(&mut self, name: String, tensor: TensorSpec, source: ValueSource) -> ValueId {
        let name = self.unique(name);
        self.values.push(Value { name, tensor: Some(tensor), source });
        ValueId(self.values.len() as u32 - 1)
    }

    /// A new operator.
    pub(super) fn step(
        &mut self,
        name: String,
        kind: OpKind,
        attributes: Attributes,
        inputs: Vec<ValueId>,
        outputs: Vec<ValueId>,
    ) {
        let name = self.unique(name);
        if !self.spending.node() {
            self.spending.at(&name);
        }
        self.nodes.push(Node::new(name, kind, attributes, &self.values, inputs, outputs));
    }

    /// An operator in the place of an old one, under its name.
    pub(super) fn instead_of(
        &mut self,
        old: &Node,
        attributes: Attributes,
        inputs: Vec<ValueId>,
        outputs: Vec<ValueId>,
    ) {
        let node = Node::new(
            old.name.clone(),
            old.op.kind.clone(),
            attributes,
            &self.values,
            inputs,
            outputs,
        );
        self.nodes.push(Node { written: old.written, ..node });
    }

    /// The name, or if it is taken the name with underscores appended: a few, then a number.
    fn unique(&mut self, name: String) -> String {
        if self.names.insert(hash(&name)) {
            return name;
        }
        let taken = self.taken.entry(name.clone()).or_insert(0);
        loop {
            *taken += 1;
            let other = match *taken {
                few @ ..=MOST_UNDERSCORES => [name.as_str(), &"_".repeat(few)].concat(),
                number => format!("{name}_{number}"),
            };
            if self.names.insert(hash(&other)) {
                return other;
            }
        }
    }
}
