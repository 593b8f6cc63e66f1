//! Removes what the optimisers of all engines remove first: operators that pass their input on,
//! operators on constants, and repeated work. The caller says which operators its engine removes.

use crate::{
    ConstantData, Node, OpKind, ValueId,
    patterns::rewriter::{NodeIndex, Rewriter},
};
use foldhash::{HashMap, fast::FixedState};
use smallvec::SmallVec;
use std::hash::{BuildHasher, Hash, Hasher};

/// Removes operators for which `passed_on` returns the input that they pass on unchanged. Returns
/// whether anything changed.
///
/// An operator remains if the graph's output would get the name of a graph's input or constant, or
/// if it changes the tensor.
pub(super) fn bypass(
    graph: &mut Rewriter,
    passed_on: impl Fn(&Rewriter, NodeIndex) -> Option<ValueId>,
) -> bool {
    let mut changed = false;
    for index in graph.order() {
        let Some(kept) = passed_on(graph, index) else { continue };
        let Some((_, output)) = graph.ends(index) else { continue };
        let renames_an_output = graph.is_output(output) && graph.producer(kept).is_none();
        if renames_an_output || graph.tensor(kept) != graph.tensor(output) {
            continue;
        }
        graph.remove(index);
        graph.replace_value(output, kept);
        changed = true;
    }
    changed
}

/// Replaces the operators that `foldable` names by constants. Of those that `copies` names, the
/// payload stays known. Whether anything changed.
pub(super) fn fold(
    graph: &mut Rewriter,
    foldable: impl Fn(&Rewriter, NodeIndex) -> bool,
    copies: impl Fn(&OpKind) -> bool,
) -> bool {
    let mut changed = false;
    for index in graph.order() {
        let Some(node) = graph.node(index).filter(|_| foldable(graph, index)) else { continue };
        if node.outputs.iter().any(|&v| graph.tensor(v).is_none()) {
            continue;
        }
        let data = payload(graph, index, &copies);
        let Some(node) = graph.remove(index) else { continue };
        for output in node.outputs {
            graph.make_constant(output, data.clone());
        }
        changed = true;
    }
    changed
}

/// The values of a folded operator, as far as patterns need them: scalars, and copies.
fn payload(
    graph: &Rewriter,
    index: NodeIndex,
    copies: impl Fn(&OpKind) -> bool,
) -> Option<ConstantData> {
    let node = graph.node(index)?;
    let (input, _) = graph.ends(index)?;
    let pair = || Some((graph.scalar(input)?, graph.scalar(*node.inputs.get(1)?)?));
    let scalar = match node.op.kind {
        ref kind if copies(kind) => return graph.data(input).cloned(),
        OpKind::Mul => pair().map(|(a, b)| a * b),
        OpKind::Div => pair().map(|(a, b)| a / b),
        OpKind::Add => pair().map(|(a, b)| a + b),
        OpKind::Sub => pair().map(|(a, b)| a - b),
        OpKind::Sqrt => graph.scalar(input).map(f64::sqrt),
        _ => None,
    };
    scalar.map(|number| ConstantData::Floats(vec![number]))
}

/// Merges equal operators on equal inputs; `private` ones are not merged, and `same` returns the
/// representative of a value. Returns whether anything changed.
pub(super) fn share(
    graph: &mut Rewriter,
    private: impl Fn(&Node) -> bool,
    same: impl Fn(ValueId) -> ValueId,
) -> bool {
    let equal = |graph: &Rewriter, a: &Node, b: &Node| {
        let outputs = a
            .outputs
            .iter()
            .map(|&v| graph.tensor(v))
            .eq(b.outputs.iter().map(|&v| graph.tensor(v)));
        let inputs = a.inputs.iter().map(|&v| same(v)).eq(b.inputs.iter().map(|&v| same(v)));
        inputs && outputs && a.op.kind == b.op.kind && a.op.attributes == b.op.attributes
    };
    let mut seen: HashMap<u64, SmallVec<[NodeIndex; 2]>> = HashMap::default();
    let mut changed = false;
    for index in graph.order() {
        let Some(node) = graph.node(index) else { continue };
        if private(node)
            || matches!(node.op.kind, OpKind::Unsupported(_))
            || node.outputs.iter().any(|&v| graph.is_output(v))
        {
            continue;
        }
        let mut hasher = FixedState::default().build_hasher();
        (&node.op.kind, &node.op.attributes).hash(&mut hasher);
        node.inputs.iter().for_each(|&v| same(v).hash(&mut hasher));
        let candidates = seen.entry(hasher.finish()).or_default();
        let Some(twin) = candidates
            .iter()
            .copied()
            .find(|&twin| graph.node(twin).is_some_and(|twin| equal(graph, twin, node)))
        else {
            candidates.push(index);
            continue;
        };
        let outputs = graph.node(twin).map(|n| n.outputs.clone()).unwrap_or_default();
        let Some(node) = graph.remove(index) else { continue };
        for (old, new) in node.outputs.into_iter().zip(outputs) {
            graph.replace_value(old, new);
        }
        changed = true;
    }
    changed
}
