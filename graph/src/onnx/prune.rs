//! Drops unused parts of a file: nodes that no output depends on, constants without a reader,
//! values too large to keep.

use crate::{ConstantData, Node, OpKind, Value, ValueId, ValueSource};
use foldhash::{HashMap, HashMapExt};

/// The parts of a graph.
pub(super) struct Pruned {
    pub values: Vec<Value>,
    pub nodes: Vec<Node>,
    pub inputs: Vec<ValueId>,
    pub outputs: Vec<ValueId>,
    /// Constants with the numbers of another one that is left, and that one.
    pub copies: Vec<(ValueId, ValueId)>,
}

/// Constants that the file computes from another one: the same numbers in another order or shape.
pub(super) type Copies = HashMap<ValueId, ValueId>;

/// Keeps what the outputs need, unsupported operators with what they need, and all inputs; of float
/// payloads those of at most `kept_floats`. `nodes` are in topological order.
pub(super) fn prune(
    values: Vec<Value>,
    mut nodes: Vec<Node>,
    inputs: Vec<ValueId>,
    outputs: Vec<ValueId>,
    (copies, kept_floats): (&Copies, usize),
) -> Pruned {
    let mut needed = vec![false; values.len()];
    for id in outputs.iter().chain(&inputs) {
        needed[id.0 as usize] = true;
    }
    let mut wanted = vec![false; nodes.len()];
    for (node, wanted) in nodes.iter_mut().zip(&mut wanted).rev() {
        drop_optional_outputs(node, &values, &needed);
        *wanted = node.outputs.iter().any(|o| needed[o.0 as usize])
            || matches!(node.op.kind, OpKind::Unsupported(_));
        if *wanted {
            for id in node.inputs.iter().chain(&node.outputs) {
                needed[id.0 as usize] = true;
            }
        }
    }
    keep(&mut nodes, &wanted);
    let copies = copies_left(copies, &needed);
    let pruned = Pruned { values, nodes, inputs, outputs, copies };
    renumber(pruned, &needed, kept_floats)
}

/// Of all constants with the same numbers, the others and the first that is left.
fn copies_left(copies: &Copies, needed: &[bool]) -> Vec<(ValueId, ValueId)> {
    let mut members: Vec<(ValueId, ValueId)> = copies
        .iter()
        .flat_map(|(&copy, &original)| [(original, original), (original, copy)])
        .filter(|(_, member)| needed[member.0 as usize])
        .collect();
    members.sort_unstable();
    members.dedup();
    let mut first = HashMap::new();
    let pair = |(original, member)| (member, *first.entry(original).or_insert(member));
    let mut pairs: Vec<(ValueId, ValueId)> = members.into_iter().map(pair).collect();
    pairs.retain(|(member, first)| member != first);
    pairs
}

/// Keeps the items with a mark.
fn keep<T>(items: &mut Vec<T>, marks: &[bool]) {
    let mut marks = marks.iter();
    items.retain(|_| marks.next().is_some_and(|mark| *mark));
}

/// Outputs after the first and after the last one with a reader are not computed (the mask of a
/// Dropout), except for operators that always have several. Those before it stay: the place of an
/// output says what it is.
fn drop_optional_outputs(node: &mut Node, values: &[Value], needed: &[bool]) {
    let several = matches!(
        node.op.kind,
        OpKind::Split | OpKind::TopK | OpKind::DynamicQuantize | OpKind::Unsupported(_)
    );
    let last = node.outputs.iter().rposition(|o| needed[o.0 as usize]);
    let kept = last.map_or(1, |last| last + 1);
    if several || node.outputs.len() <= kept {
        return;
    }
    node.outputs.truncate(kept);
    node.op.outputs =
        node.outputs.iter().filter_map(|o| values[o.0 as usize].tensor.clone()).collect();
}

fn renumber(pruned: Pruned, needed: &[bool], kept_floats: usize) -> Pruned {
    let Pruned { mut values, mut nodes, mut inputs, mut outputs, mut copies } = pruned;
    let mut next = 0;
    let new: Vec<u32> = needed
        .iter()
        .map(|&needed| {
            let id = next;
            next += u32::from(needed);
            id
        })
        .collect();
    let renew = |ids: &mut Vec<ValueId>| ids.iter_mut().for_each(|id| id.0 = new[id.0 as usize]);
    for node in &mut nodes {
        renew(&mut node.inputs);
        renew(&mut node.outputs);
    }
    renew(&mut inputs);
    renew(&mut outputs);
    for id in copies.iter_mut().flat_map(|(copy, of)| [copy, of]) {
        id.0 = new[id.0 as usize];
    }
    keep(&mut values, needed);
    for value in &mut values {
        if let ValueSource::Constant(Some(ConstantData::Floats(v))) = &value.source
            && v.len() > kept_floats
        {
            value.source = ValueSource::Constant(None);
        }
    }
    Pruned { values, nodes, inputs, outputs, copies }
}
