//! Compares a predicted list of kernels with the kernels that an engine ran, weighted by their
//! times.
//!
//! A kernel counts as predicted when the prediction has one of the same kind with the same shapes:
//! those of its activation inputs and of its outputs, each as a multiset, as often as it ran and in
//! any order. Equality of the whole [`OpSpec`], with attributes, precisions, memory formats and
//! weights, is stricter and counted separately. Kernels that were not predicted are listed with the
//! nearest unmatched kernel of the prediction. Times are nanoseconds: medians.

use crate::{Graph, Measurement, Node, OpKind, OpSpec};
use std::collections::BTreeMap;

/// A kernel of the prediction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Predicted {
    /// The node it comes from.
    pub node: String,
    /// What it is.
    pub op: OpSpec,
}

/// A kernel that ran and was not predicted, or not in everything.
#[derive(Clone, Debug, PartialEq)]
pub struct Mismatch {
    /// The engine's name for it.
    pub kernel: String,
    /// The node it comes from, as the engine reports.
    pub node: String,
    /// The executed kernel.
    pub executed: OpSpec,
    /// Time it took.
    pub ns: f64,
    /// The most similar kernel of the prediction that did not run.
    pub nearest: Option<Predicted>,
}

/// Agreement of a prediction with a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    /// Kernels that ran.
    pub executed: usize,
    /// Kernels of the prediction.
    pub predicted: usize,
    /// Time of all kernels that ran.
    pub executed_ns: f64,
    /// Time of those predicted in kind and shapes.
    pub matched_ns: f64,
    /// Time of those predicted in everything.
    pub equal_ns: f64,
    /// Ran, but were not predicted; longest first.
    pub mismatches: Vec<Mismatch>,
    /// Predicted in kind and shapes, but not in everything; longest first.
    pub differing: Vec<Mismatch>,
    /// Predicted, but did not run.
    pub only_predicted: Vec<Predicted>,
}

impl Comparison {
    /// Share of the executed time whose kernels were predicted in kind and shapes; 1 when nothing
    /// ran.
    #[must_use]
    pub fn time_matched(&self) -> f64 {
        share(self.matched_ns, self.executed_ns)
    }

    /// Share of the executed time whose kernels were predicted in everything; 1 when nothing ran.
    #[must_use]
    pub fn time_equal(&self) -> f64 {
        share(self.equal_ns, self.executed_ns)
    }
}

/// `part` of `whole`; 1 where there is nothing.
#[must_use]
pub fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 1.0 }
}

/// Compares a predicted graph of kernels with the kernels that ran.
#[must_use]
pub fn compare(predicted: &Graph, executed: &[Measurement]) -> Comparison {
    let mut open = Open { nodes: predicted.nodes(), free: vec![true; predicted.nodes().len()] };
    let (mut by_op, mut by_shapes) = (BTreeMap::<_, Vec<_>>::new(), BTreeMap::<_, Vec<_>>::new());
    for (index, node) in predicted.nodes().iter().enumerate() {
        by_op.entry(&node.op).or_default().push(index);
        by_shapes.entry(Shapes::of(&node.op)).or_default().push(index);
    }
    let mut comparison = Comparison {
        executed: executed.len(),
        predicted: open.nodes.len(),
        ..Comparison::default()
    };
    let mut rest = Vec::new();
    let equal = executed
        .iter()
        .map(|row| by_op.get(&*row.op).and_then(|same| open.take_named(same, &row.node)))
        .collect::<Vec<_>>();
    for (row, named) in executed.iter().zip(equal) {
        let ns = row.samples.median_ns().unwrap_or(0.0);
        comparison.executed_ns += ns;
        if named.or_else(|| by_op.get(&*row.op).and_then(|same| open.take(same))).is_some() {
            comparison.matched_ns += ns;
            comparison.equal_ns += ns;
        } else {
            rest.push((row, ns));
        }
    }
    rest.sort_by(|a, b| b.1.total_cmp(&a.1));
    let mut unmatched = Vec::new();
    for (row, ns) in rest {
        let equal = by_shapes.get(&Shapes::of(&row.op)).map(Vec::as_slice).unwrap_or_default();
        match open.take_named(equal, &row.node).or_else(|| open.take(equal)) {
            Some(index) => {
                comparison.matched_ns += ns;
                comparison.differing.push(mismatch(row, ns, Some(open.kernel(index))));
            }
            None => unmatched.push((row, ns)),
        }
    }
    comparison.only_predicted = open.left().map(|index| open.kernel(index)).collect();
    for (row, ns) in unmatched {
        let nearest = open.take_nearest(row).map(|index| open.kernel(index));
        comparison.mismatches.push(mismatch(row, ns, nearest));
    }
    comparison
}

fn mismatch(row: &Measurement, ns: f64, nearest: Option<Predicted>) -> Mismatch {
    Mismatch {
        kernel: row.kernel.clone(),
        node: row.node.clone(),
        executed: OpSpec::clone(&row.op),
        ns,
        nearest,
    }
}

/// Kind and shapes of a kernel; shapes as multisets.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Shapes<'a> {
    kind: &'a OpKind,
    inputs: Vec<&'a [usize]>,
    outputs: Vec<&'a [usize]>,
}

impl<'a> Shapes<'a> {
    fn of(op: &'a OpSpec) -> Self {
        let mut inputs: Vec<&[usize]> = op.activations().map(|t| &t.shape[..]).collect();
        let mut outputs: Vec<&[usize]> = op.outputs.iter().map(|t| &t.shape[..]).collect();
        inputs.sort_unstable();
        outputs.sort_unstable();
        Self { kind: &op.kind, inputs, outputs }
    }
}

/// Predicted kernels, and which of them have not been found among the executed ones.
struct Open<'a> {
    nodes: &'a [Node],
    free: Vec<bool>,
}

impl Open<'_> {
    fn left(&self) -> impl Iterator<Item = usize> {
        (0..self.nodes.len()).filter(|&index| self.free[index])
    }

    fn kernel(&self, index: usize) -> Predicted {
        let node = &self.nodes[index];
        Predicted { node: node.name.clone(), op: node.op.clone() }
    }

    /// The free one of `candidates` with this name.
    fn take_named(&mut self, candidates: &[usize], name: &str) -> Option<usize> {
        let index = candidates
            .iter()
            .copied()
            .find(|&index| self.free[index] && self.nodes[index].name == name)?;
        self.free[index] = false;
        Some(index)
    }

    /// The first free one of `candidates`.
    fn take(&mut self, candidates: &[usize]) -> Option<usize> {
        let index = candidates.iter().copied().find(|&index| self.free[index])?;
        self.free[index] = false;
        Some(index)
    }

    /// The free one that has most in common with `row`: the node before the kind before the shapes;
    /// none where nothing is the same.
    fn take_nearest(&mut self, row: &Measurement) -> Option<usize> {
        let shapes = Shapes::of(&row.op);
        let common = |index: usize| {
            let node = &self.nodes[index];
            let other = Shapes::of(&node.op);
            let weigh = |same: bool, weight: usize| if same { weight } else { 0 };
            weigh(node.name == row.node, 8)
                + weigh(other.kind == shapes.kind, 4)
                + weigh(other.outputs == shapes.outputs, 2)
                + weigh(other.inputs == shapes.inputs, 1)
        };
        let (_, index) = self
            .left()
            .map(|index| (common(index), index))
            .filter(|&(common, _)| common > 1)
            .max_by_key(|&(common, index)| (common, usize::MAX - index))?;
        self.free[index] = false;
        Some(index)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::{Attributes, GraphBuilder, Samples, Status, TensorSpec};

    /// Sigmoid, softmax, sigmoid, each of 4 x 8.
    fn predicted() -> Graph {
        let mut b = GraphBuilder::new("t");
        let mut x = b.input("x", TensorSpec::f32([4, 8]));
        for (name, kind) in [("a", OpKind::Sigmoid), ("b", OpKind::Softmax), ("c", OpKind::Sigmoid)]
        {
            let attributes = if kind == OpKind::Softmax {
                Attributes::new().with_int("axis", 1)
            } else {
                Attributes::new()
            };
            x = b.op(name, kind, attributes, &[x]).unwrap();
        }
        b.finish(vec![x]).unwrap()
    }

    fn ran(node: &str, op: &OpSpec, ns: u64) -> Measurement {
        let samples = Samples { wall_ns: vec![ns], cpu_ns: Vec::new() };
        Measurement {
            op: op.clone().into(),
            node: node.to_owned(),
            kernel: op.kind.name().to_owned(),
            samples,
            memory_bytes: None,
            status: Status::Ok,
        }
    }

    #[test]
    fn time_is_matched_by_kind_and_shapes_as_often_as_it_was_predicted() {
        let graph = predicted();
        let op = |i: usize| graph.nodes()[i].op.clone();
        let (sigmoid, softmax) = (op(0), op(1));
        let other_axis =
            OpSpec { attributes: Attributes::new().with_int("axis", 0), ..softmax.clone() };
        let tanh = OpSpec { kind: OpKind::Tanh, ..sigmoid.clone() };
        let mut turned = sigmoid.clone();
        turned.outputs[0].shape = [8, 4].as_slice().into();
        for (rows, matched, equal, mismatched, left) in [
            (vec![("c", &sigmoid), ("b", &softmax), ("a", &sigmoid)], 1.0, 1.0, vec![], vec![]),
            (
                vec![("a", &sigmoid), ("b", &other_axis), ("c", &sigmoid)],
                1.0,
                2.0 / 3.0,
                vec![],
                vec![],
            ),
            (
                vec![("a", &sigmoid), ("x", &softmax), ("b", &softmax), ("c", &tanh)],
                0.5,
                0.5,
                vec![("x", Some("c")), ("c", None)],
                vec!["c"],
            ),
            (vec![("a", &turned)], 0.0, 0.0, vec![("a", Some("a"))], vec!["a", "b", "c"]),
            (vec![], 1.0, 1.0, vec![], vec!["a", "b", "c"]),
        ] {
            let rows: Vec<_> = rows.into_iter().map(|(node, op)| ran(node, op, 10)).collect();
            let c = compare(&graph, &rows);
            assert_eq!((c.time_matched(), c.time_equal()), (matched, equal), "{rows:?}");
            let nearest = |m: &Mismatch| m.nearest.as_ref().map(|p| p.node.clone());
            let found: Vec<_> = c.mismatches.iter().map(|m| (m.node.clone(), nearest(m))).collect();
            let expected: Vec<_> = mismatched
                .iter()
                .map(|(node, near)| ((*node).to_owned(), near.map(str::to_owned)))
                .collect();
            assert_eq!(found, expected);
            assert_eq!(c.only_predicted.iter().map(|p| p.node.as_str()).collect::<Vec<_>>(), left);
        }
    }

    #[test]
    fn mismatches_weigh_by_time_and_come_longest_first() {
        let graph = predicted();
        let sigmoid = graph.nodes()[0].op.clone();
        let tanh = OpSpec { kind: OpKind::Tanh, ..sigmoid.clone() };
        let c = compare(&graph, &[ran("t", &tanh, 1), ran("a", &sigmoid, 6), ran("u", &tanh, 3)]);
        assert_eq!((c.time_matched(), c.executed, c.predicted), (0.6, 3, 3));
        assert_eq!(c.mismatches.iter().map(|m| m.ns).collect::<Vec<_>>(), [3.0, 1.0]);
    }
}
