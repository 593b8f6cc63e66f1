//! [`Rewriter`]: a graph while it is being rewritten. [`crate::patterns`] and [`crate::lowering`]
//! use it.
//!
//! A pass walks [`Rewriter::order`], looks at producers and consumers, and replaces nodes. Nodes
//! keep their index until the end; a removed node leaves a gap. The values hold the shapes of
//! tensors; operators have none until [`Rewriter::finish`], which drops unread nodes and fills the
//! shapes in.
//!
//! Names of values identify the place of a kernel in the model. A new value that takes the place of
//! an old one (in another memory format or element type) gets the old one's name in the end, if the
//! old one has been removed by then.
//!
//! Each node that is read, and each edge that is followed or changed, is a step of the rewriter's
//! [`Budget`]. When the budget is used up, [`Rewriter::order`] is empty, so that passes do nothing,
//! and [`Rewriter::finish`] returns the error.

pub(crate) use super::readers::NodeIndex;

use super::readers::{Readers, Reading, Readings};
use crate::spending::Spending;
use crate::{
    Attributes, Budget, ConstantData, Graph, GraphError, Limits, Node, OpKind, OpSpec, TensorSpec,
    Value, ValueId, ValueSource,
};
use foldhash::HashMap;
use smallvec::SmallVec;
use std::{borrow::Cow, cell::RefCell, cmp::Reverse, collections::BinaryHeap};

/// A mutable graph.
#[derive(Clone, Debug)]
pub(crate) struct Rewriter {
    name: String,
    values: Vec<Value>,
    nodes: Vec<Option<Node>>,
    inputs: Vec<ValueId>,
    outputs: Vec<ValueId>,
    producer: Vec<Option<NodeIndex>>,
    consumers: Vec<Readers>,
    /// For each value, whether the caller gets it.
    is_output: Vec<bool>,
    /// Where in `outputs` a value stands.
    output_places: HashMap<ValueId, SmallVec<[usize; 1]>>,
    /// For each value, the first one whose place it took.
    predecessor: Vec<Option<ValueId>>,
    /// How many values the graph had to begin with.
    given: usize,
    /// The last result of [`Rewriter::order`], until edges change.
    order: RefCell<Option<Vec<NodeIndex>>>,
    spending: Spending,
    /// Nodes that are left, and the most there ever were.
    nodes_left: u64,
    most_nodes: u64,
}

/// How far back the values that one took the place of are followed.
const MOST_PREDECESSORS: usize = 16;

impl Rewriter {
    /// A copy of `graph`, open for changes without a bound.
    pub(crate) fn new(graph: &Graph) -> Self {
        Self::within(graph, &Budget::new(Limits::NONE))
    }

    /// A copy of `graph`, open for changes as long as the budget lasts.
    pub(crate) fn within(graph: &Graph, budget: &Budget) -> Self {
        // Passes add as they remove: room for that from the start.
        let mut values = Vec::with_capacity(2 * graph.values().len());
        values.extend_from_slice(graph.values());
        let mut rewriter = Self::empty(graph.name().to_owned(), values, budget);
        rewriter.begin(graph.inputs().to_vec(), graph.outputs().to_vec(), graph.nodes().len());
        for Node { name, op, written, inputs, outputs } in graph.nodes() {
            let node = Node::in_parts(
                name,
                op.kind.clone(),
                op.attributes.clone(),
                inputs.clone(),
                outputs.clone(),
            );
            rewriter.push(Node { written: *written, ..node });
        }
        rewriter
    }

    /// `graph` itself, open for changes as long as the budget lasts.
    pub(crate) fn owning(graph: Graph, budget: &Budget) -> Self {
        let (name, values, nodes, inputs, outputs) = graph.into_parts();
        let mut rewriter = Self::empty(name, values, budget);
        rewriter.begin(inputs, outputs, nodes.len());
        for mut node in nodes {
            node.op.inputs = Default::default();
            node.op.outputs = Default::default();
            rewriter.push(node);
        }
        rewriter
    }

    /// [`Rewriter::owning`] of an owned graph, [`Rewriter::within`] of another.
    pub(crate) fn of(graph: Cow<'_, Graph>, budget: &Budget) -> Self {
        match graph {
            Cow::Borrowed(graph) => Self::within(graph, budget),
            Cow::Owned(graph) => Self::owning(graph, budget),
        }
    }

    /// Values that nothing reads.
    fn empty(name: String, values: Vec<Value>, budget: &Budget) -> Self {
        let count = values.len();
        Self {
            name,
            producer: vec![None; count],
            consumers: vec![Readers::default(); count],
            is_output: vec![false; count],
            output_places: HashMap::default(),
            predecessor: vec![None; count],
            given: count,
            values,
            nodes: Vec::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            order: RefCell::new(None),
            spending: Spending::new(budget),
            nodes_left: 0,
            most_nodes: 0,
        }
    }

    /// Inputs and outputs, and room for the nodes that come next.
    fn begin(&mut self, inputs: Vec<ValueId>, outputs: Vec<ValueId>, nodes: usize) {
        self.nodes.reserve(2 * nodes);
        self.most_nodes = nodes as u64;
        for (place, &output) in outputs.iter().enumerate() {
            self.is_output[output.0 as usize] = true;
            self.output_places.entry(output).or_default().push(place);
        }
        (self.inputs, self.outputs) = (inputs, outputs);
    }

    fn push(&mut self, node: Node) -> NodeIndex {
        let index = self.nodes.len();
        self.order.take();
        self.spend_at(&node, node.inputs.len() + node.outputs.len());
        for (position, input) in node.inputs.iter().enumerate() {
            self.consumers[input.0 as usize].push(Reading::new(index, position));
        }
        for output in &node.outputs {
            self.producer[output.0 as usize] = Some(index);
        }
        self.nodes_left += 1;
        if self.nodes_left > self.most_nodes {
            self.most_nodes = self.nodes_left;
            if !self.spending.node() {
                self.spending.at(&node.name);
            }
        }
        self.nodes.push(Some(node));
        index
    }

    /// Takes steps from the budget, and returns whether it had them. A pass that follows edges
    /// without bound ends if it has not.
    pub(crate) fn spend(&self, steps: usize) -> bool {
        self.spending.steps(steps as u64)
    }

    fn spend_at(&self, node: &Node, steps: usize) {
        if !self.spend(steps) {
            self.spending.at(&node.name);
        }
    }

    /// The nodes that are left, producers first; where that leaves a choice, in the order of their
    /// indices. None when the budget is spent.
    pub(crate) fn order(&self) -> Vec<NodeIndex> {
        if !(self.spend(self.nodes_left as usize) && self.spending.settle()) {
            if let Some((_, first)) = self.live().next() {
                self.spending.at(&first.name);
            }
            return Vec::new();
        }
        self.order.borrow_mut().get_or_insert_with(|| self.sorted()).clone()
    }

    fn sorted(&self) -> Vec<NodeIndex> {
        let earlier = |index: NodeIndex, producer: NodeIndex| {
            producer < index && self.node(producer).is_some()
        };
        let in_order = |(index, node): (NodeIndex, &Node)| {
            node.inputs
                .iter()
                .filter_map(|&v| self.producer(v))
                .all(|producer| earlier(index, producer))
        };
        if self.live().all(in_order) {
            return self.live().map(|(index, _)| index).collect();
        }
        let mut waits = vec![0usize; self.nodes.len()];
        for (index, node) in self.live() {
            waits[index] = node.inputs.iter().filter(|&&v| self.producer(v).is_some()).count();
        }
        let mut ready: BinaryHeap<_> =
            self.live().filter(|(i, _)| waits[*i] == 0).map(|(i, _)| Reverse(i)).collect();
        let mut order = Vec::with_capacity(self.nodes.len());
        while let Some(Reverse(index)) = ready.pop() {
            order.push(index);
            let Some(node) = self.node(index) else { continue };
            for reader in node.outputs.iter().flat_map(|&v| self.consumers(v)) {
                waits[reader] -= 1;
                if waits[reader] == 0 {
                    ready.push(Reverse(reader));
                }
            }
        }
        order
    }

    fn live(&self) -> impl Iterator<Item = (NodeIndex, &Node)> {
        self.nodes.iter().enumerate().filter_map(|(i, n)| n.as_ref().map(|n| (i, n)))
    }

    /// The node at `index`, unless it was removed.
    pub(crate) fn node(&self, index: NodeIndex) -> Option<&Node> {
        self.nodes.get(index)?.as_ref()
    }

    /// Whether the node at `index` exists and is of that kind.
    pub(crate) fn is(&self, index: NodeIndex, kind: &OpKind) -> bool {
        self.node(index).is_some_and(|n| n.op.kind == *kind)
    }

    /// The node that provides `value`.
    pub(crate) fn producer(&self, value: ValueId) -> Option<NodeIndex> {
        self.producer[value.0 as usize]
    }

    /// The node that provides `value`, when it is of that kind.
    pub(crate) fn producer_of(&self, value: ValueId, kind: &OpKind) -> Option<NodeIndex> {
        self.producer(value).filter(|&i| self.is(i, kind))
    }

    /// The nodes that read `value`; one that reads it twice is listed twice.
    pub(crate) fn consumers(
        &self,
        value: ValueId,
    ) -> impl ExactSizeIterator<Item = NodeIndex> + Clone {
        self.readings(value).map(Reading::node)
    }

    /// The nodes that read `value`, each with the position of the input.
    pub(crate) fn readings(&self, value: ValueId) -> Readings<'_> {
        self.consumers[value.0 as usize].iter()
    }

    /// How many nodes ever read `value`, where they are many: as long as it stays, none was added.
    pub(crate) fn many_readings(&self, value: ValueId) -> Option<u64> {
        self.consumers[value.0 as usize].many()
    }

    /// Whether a node still reads `value` there.
    pub(crate) fn has_reading(&self, value: ValueId, reading: Reading) -> bool {
        self.consumers[value.0 as usize].has(reading)
    }

    /// The only reader of `value`, when it has one reading and the caller does not get it.
    pub(crate) fn only_consumer(&self, value: ValueId) -> Option<NodeIndex> {
        let mut readers = self.consumers(value);
        match (readers.next(), readers.next()) {
            (Some(one), None) if !self.is_output(value) => Some(one),
            _ => None,
        }
    }

    /// Number of uses of `value`: readings, and one more if it is an output of the graph.
    pub(crate) fn uses(&self, value: ValueId) -> usize {
        self.consumers(value).len() + usize::from(self.is_output(value))
    }

    /// Whether the caller gets `value`.
    pub(crate) fn is_output(&self, value: ValueId) -> bool {
        self.is_output[value.0 as usize]
    }

    /// The graph's inputs.
    pub(crate) fn input_values(&self) -> Vec<ValueId> {
        self.inputs.clone()
    }

    /// The graph's outputs.
    pub(crate) fn output_values(&self) -> Vec<ValueId> {
        self.outputs.clone()
    }

    /// Shape and type of `value`.
    pub(crate) fn tensor(&self, value: ValueId) -> Option<&TensorSpec> {
        self.values[value.0 as usize].tensor.as_ref()
    }

    /// Shape and type of `value`, to be changed.
    pub(crate) fn tensor_mut(&mut self, value: ValueId) -> Option<&mut TensorSpec> {
        self.values[value.0 as usize].tensor.as_mut()
    }

    /// Shape of `value`; empty when it is unknown.
    pub(crate) fn shape(&self, value: ValueId) -> &[usize] {
        self.tensor(value).map_or(&[], |t| &t.shape)
    }

    /// Whether `value` is known before the model runs.
    pub(crate) fn is_constant(&self, value: ValueId) -> bool {
        matches!(self.values[value.0 as usize].source, ValueSource::Constant(_))
    }

    /// The payload of a small constant.
    pub(crate) fn data(&self, value: ValueId) -> Option<&ConstantData> {
        match &self.values[value.0 as usize].source {
            ValueSource::Constant(data) => data.as_ref(),
            _ => None,
        }
    }

    /// The number in a constant of one element, of any rank.
    pub(crate) fn scalar(&self, value: ValueId) -> Option<f64> {
        match self.data(value)? {
            ConstantData::Floats(v) if v.len() == 1 => Some(v[0]),
            ConstantData::Ints(v) if v.len() == 1 => Some(v[0] as f64),
            _ => None,
        }
    }

    /// The first input and the first output of a node.
    pub(crate) fn ends(&self, index: NodeIndex) -> Option<(ValueId, ValueId)> {
        let node = self.node(index)?;
        Some((*node.inputs.first()?, *node.outputs.first()?))
    }

    /// For a node of two inputs: the constant one's number and the other input.
    pub(crate) fn scalar_operand(&self, index: NodeIndex) -> Option<(f64, ValueId)> {
        let [a, b] = self.node(index)?.inputs[..] else { return None };
        match (self.scalar(a), self.scalar(b)) {
            (_, Some(number)) => Some((number, a)),
            (Some(number), None) => Some((number, b)),
            _ => None,
        }
    }

    /// For a node of two inputs that reads `value`: the other one.
    pub(crate) fn other_input(&self, index: NodeIndex, value: ValueId) -> Option<ValueId> {
        match self.node(index)?.inputs[..] {
            [a, b] if a == value => Some(b),
            [a, b] if b == value => Some(a),
            _ => None,
        }
    }

    /// A new value without a provider yet.
    pub(crate) fn value(&mut self, name: &str, tensor: Option<TensorSpec>) -> ValueId {
        self.new_value(name, tensor, ValueSource::Node(u32::MAX))
    }

    /// A new constant.
    pub(crate) fn constant(
        &mut self,
        name: &str,
        tensor: TensorSpec,
        data: Option<ConstantData>,
    ) -> ValueId {
        self.new_value(name, Some(tensor), ValueSource::Constant(data))
    }

    fn new_value(
        &mut self,
        name: &str,
        tensor: Option<TensorSpec>,
        source: ValueSource,
    ) -> ValueId {
        let id = ValueId(u32::try_from(self.values.len()).unwrap_or(u32::MAX));
        self.values.push(Value { name: [name, "#", &id.0.to_string()].concat(), tensor, source });
        self.producer.push(None);
        self.consumers.push(Readers::default());
        self.is_output.push(false);
        self.predecessor.push(None);
        id
    }

    /// Turns a value into a constant; its provider must have been removed.
    pub(crate) fn make_constant(&mut self, value: ValueId, data: Option<ConstantData>) {
        self.values[value.0 as usize].source = ValueSource::Constant(data);
    }

    /// Adds a node that provides `outputs`, which must have no provider.
    pub(crate) fn add(
        &mut self,
        name: &str,
        kind: OpKind,
        attributes: Attributes,
        inputs: Vec<ValueId>,
        outputs: Vec<ValueId>,
    ) -> NodeIndex {
        for output in &outputs {
            self.values[output.0 as usize].source = ValueSource::Node(u32::MAX);
        }
        self.push(Node::in_parts(name, kind, attributes, inputs, outputs))
    }

    /// Adds a node with one new output like `tensor`; returns the output.
    pub(crate) fn add_with_output(
        &mut self,
        name: &str,
        kind: OpKind,
        attributes: Attributes,
        inputs: Vec<ValueId>,
        tensor: Option<TensorSpec>,
    ) -> ValueId {
        let output = self.value(name, tensor);
        self.add(name, kind, attributes, inputs, vec![output]);
        output
    }

    /// Removes a node; its outputs then have no provider.
    pub(crate) fn remove(&mut self, index: NodeIndex) -> Option<Node> {
        let node = self.nodes.get_mut(index)?.take()?;
        self.order.take();
        self.nodes_left -= 1;
        self.spend_at(&node, node.inputs.len() + node.outputs.len());
        for (position, input) in node.inputs.iter().enumerate() {
            self.consumers[input.0 as usize].remove(Reading::new(index, position));
        }
        for output in &node.outputs {
            if self.producer[output.0 as usize] == Some(index) {
                self.producer[output.0 as usize] = None;
            }
        }
        Some(node)
    }

    /// Removes a node and then everything that only it needed.
    pub(crate) fn remove_with_inputs(&mut self, index: NodeIndex) {
        self.remove_back_to(index, &[]);
    }

    /// Removes a node and then everything that only it needed, but for what provides the `kept`
    /// values.
    fn remove_back_to(&mut self, index: NodeIndex, kept: &[ValueId]) {
        let mut doomed = vec![index];
        while let Some(index) = doomed.pop() {
            let Some(node) = self.remove(index) else { continue };
            let providers = node.inputs.iter().filter_map(|&v| self.producer(v));
            let unused = |v: &ValueId| self.uses(*v) == 0 && !kept.contains(v);
            doomed.extend(
                providers.filter(|&p| self.node(p).is_some_and(|n| n.outputs.iter().all(unused))),
            );
        }
    }

    /// Lets a node read `value` at `position`.
    pub(crate) fn set_input(&mut self, index: NodeIndex, position: usize, value: ValueId) {
        let Some(node) = self.nodes.get_mut(index).and_then(Option::as_mut) else { return };
        let Some(slot) = node.inputs.get_mut(position) else { return };
        let old = std::mem::replace(slot, value);
        self.order.take();
        self.spend(1);
        let reading = Reading::new(index, position);
        self.consumers[old.0 as usize].remove(reading);
        self.consumers[value.0 as usize].push(reading);
    }

    /// Adds one more input to a node.
    pub(crate) fn push_input(&mut self, index: NodeIndex, value: ValueId) {
        if let Some(node) = self.nodes.get_mut(index).and_then(Option::as_mut) {
            let reading = Reading::new(index, node.inputs.len());
            node.inputs.push(value);
            self.order.take();
            self.spend(1);
            self.consumers[value.0 as usize].push(reading);
        }
    }

    /// Replaces the output of a node at `position` by `value`.
    pub(crate) fn set_output(&mut self, index: NodeIndex, position: usize, value: ValueId) {
        let Some(node) = self.nodes.get_mut(index).and_then(Option::as_mut) else { return };
        let Some(slot) = node.outputs.get_mut(position) else { return };
        let old = std::mem::replace(slot, value);
        self.order.take();
        self.predecessor[value.0 as usize].get_or_insert(old);
        if self.producer[old.0 as usize] == Some(index) {
            self.producer[old.0 as usize] = None;
        }
        self.producer[value.0 as usize] = Some(index);
        self.values[value.0 as usize].source = ValueSource::Node(u32::MAX);
    }

    /// Lets `value` be what `later` was, instead of what it replaced before: its provider computes
    /// `later` now, so that the value is none of those that the graph's own `later` replaced.
    pub(crate) fn stands_for(&mut self, value: ValueId, later: ValueId) {
        self.predecessor[value.0 as usize] = Some(later);
        if (later.0 as usize) < self.given {
            self.predecessor[later.0 as usize] = None;
        }
    }

    /// Changes kind and attributes of a node in place.
    pub(crate) fn change(&mut self, index: NodeIndex, kind: OpKind, attributes: Attributes) {
        if let Some(node) = self.nodes.get_mut(index).and_then(Option::as_mut) {
            node.op.kind = kind;
            node.op.attributes = attributes;
        }
    }

    /// The attributes of a node, to be changed.
    pub(crate) fn attributes_mut(&mut self, index: NodeIndex) -> Option<&mut Attributes> {
        Some(&mut self.nodes.get_mut(index)?.as_mut()?.op.attributes)
    }

    /// Lets every reader of `old`, and the caller, get `new`.
    pub(crate) fn replace_value(&mut self, old: ValueId, new: ValueId) {
        self.order.take();
        self.predecessor[new.0 as usize].get_or_insert(old);
        let readers = std::mem::take(&mut self.consumers[old.0 as usize]);
        self.spend(readers.iter().len());
        for reading in readers.iter() {
            let slot = self.nodes[reading.node()]
                .as_mut()
                .and_then(|node| node.inputs.get_mut(reading.position()));
            if let Some(slot) = slot {
                *slot = new;
                self.consumers[new.0 as usize].push(reading);
            }
        }
        if let Some(places) = self.output_places.remove(&old) {
            self.is_output[old.0 as usize] = false;
            self.is_output[new.0 as usize] = true;
            places.iter().for_each(|&place| self.outputs[place] = new);
            self.output_places.entry(new).or_default().extend(places);
        }
    }

    /// Replaces the nodes that compute `output` from the given inputs by one node; inner nodes
    /// without other readers are removed.
    pub(crate) fn fuse(
        &mut self,
        name: &str,
        kind: OpKind,
        attributes: Attributes,
        inputs: Vec<ValueId>,
        output: ValueId,
    ) -> Option<NodeIndex> {
        let last = self.producer(output)?;
        self.remove_back_to(last, &inputs);
        Some(self.add(name, kind, attributes, inputs, vec![output]))
    }

    /// The current graph, without nodes and values that lead to no output.
    ///
    /// # Errors
    /// [`GraphError`] when the budget is spent, or if a pass left a cycle or a value without a
    /// producer.
    pub(crate) fn finish(self) -> Result<Graph, GraphError> {
        self.finish_with(|_| {})
    }

    /// [`Rewriter::finish`], where `seal` has the last word about each operator.
    ///
    /// # Errors
    /// As [`Rewriter::finish`].
    pub(crate) fn finish_with(mut self, seal: impl Fn(&mut OpSpec)) -> Result<Graph, GraphError> {
        self.sweep();
        let order = self.order();
        self.spending.finish()?;
        let mut used: Vec<bool> = vec![false; self.values.len()];
        let wanted = self
            .inputs
            .iter()
            .chain(&self.outputs)
            .chain(self.nodes.iter().flatten().flat_map(|n| n.inputs.iter().chain(&n.outputs)));
        for id in wanted {
            used[id.0 as usize] = true;
        }
        self.inherit_names(&order, &used);
        let mut number = vec![ValueId(0); self.values.len()];
        let mut values = Vec::with_capacity(self.values.len());
        for (index, value) in self.values.into_iter().enumerate() {
            if used[index] {
                number[index] = ValueId(values.len() as u32);
                values.push(value);
            }
        }
        let renumber =
            |ids: &mut [ValueId]| ids.iter_mut().for_each(|id| *id = number[id.0 as usize]);
        let mut nodes: Vec<Node> =
            order.into_iter().filter_map(|index| self.nodes[index].take()).collect();
        // The remaining nodes are on a cycle.
        nodes.extend(self.nodes.into_iter().flatten());
        for node in &mut nodes {
            renumber(&mut node.inputs);
            renumber(&mut node.outputs);
            node.put_together(&values);
            seal(&mut node.op);
        }
        renumber(&mut self.inputs);
        renumber(&mut self.outputs);
        Graph::new(self.name, values, nodes, self.inputs, self.outputs)
    }

    /// Gives new results of nodes the names of the values they replaced: of removed ones, the
    /// latest.
    fn inherit_names(&mut self, order: &[NodeIndex], used: &[bool]) {
        let mut free: Vec<bool> = used[..self.given].iter().map(|used| !used).collect();
        for node in order.iter().filter_map(|&index| self.nodes[index].as_ref()) {
            for &output in node.outputs.iter().filter(|v| v.0 as usize >= self.given) {
                let before = |value: &ValueId| self.predecessor[value.0 as usize];
                let name_of = std::iter::successors(before(&output), before)
                    .take(MOST_PREDECESSORS)
                    .map(|value| value.0 as usize)
                    .find(|&value| free.get(value).is_some_and(|&free| free));
                if let Some(gone) = name_of {
                    free[gone] = false;
                    let name = std::mem::take(&mut self.values[gone].name);
                    self.values[output.0 as usize].name = name;
                }
            }
        }
    }

    fn sweep(&mut self) {
        for index in self.order().into_iter().rev() {
            let dead = self.node(index).is_some_and(|n| {
                !n.outputs.is_empty() && n.outputs.iter().all(|&v| self.uses(v) == 0)
            });
            if dead {
                self.remove(index);
            }
        }
    }
}
