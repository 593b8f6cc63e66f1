//! [`OperatorClasses`]: which classes of operators a set of models contains. Latencies give
//! information on an operator only if a measured model contains one of its class.
//!
//! A class is the operator's kind, the resources that it demands (which separate depthwise from
//! full convolutions, and elementwise operators on images from those on tokens), and for linear
//! layers whether they run on one row (a classifier behind pooling, bound by its weights) or on
//! many (tokens, bound by arithmetic). Padding and tensors that do not stay on chip are left out:
//! they depend on the size.

use super::{
    kernel::Catalogue,
    resource_demand::{Group, UnitCost, resource_demand},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use vitempo_graph::{Graph, OpKind, OpSpec};

/// Classes of operators.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OperatorClasses(BTreeSet<String>);

impl OperatorClasses {
    /// Those of these graphs.
    #[must_use]
    pub fn of<'a>(graphs: impl IntoIterator<Item = &'a Graph>) -> Self {
        let operators = graphs.into_iter().flat_map(|graph| graph.nodes().iter());
        Self(operators.filter_map(|node| class(&node.op)).collect())
    }

    /// Whether an operator of this class is among them; operators that cost nothing always are.
    #[must_use]
    pub fn contain(&self, op: &OpSpec) -> bool {
        class(op).is_none_or(|class| self.0.contains(&class))
    }
}

/// Whether the catalogue has an operator that demands the same resources: the test for files that
/// lack the classes of their measured models.
pub(crate) fn catalogue_contains(catalogue: &Catalogue, op: &OpSpec) -> bool {
    let demand = resource_demand(op);
    demand.is_empty() || catalogue.has_costs(&costs(&demand))
}

/// `None` where the operator costs nothing.
fn class(op: &OpSpec) -> Option<String> {
    let demand = resource_demand(op);
    if demand.is_empty() {
        return None;
    }
    let costs: Vec<String> = costs(&demand).iter().map(|cost| format!("{cost:?}")).collect();
    let rows = if op.kind == OpKind::Linear && rows(op) > 1 { " rows" } else { "" };
    Some(format!("{} {}{rows}", op.kind.name(), costs.join(" ")))
}

/// The resources that an operator demands, whatever its size.
fn costs(demand: &[(UnitCost, f64)]) -> Vec<UnitCost> {
    let kept = |cost: &UnitCost| cost.group() != Group::Padding && *cost != UnitCost::Spill;
    demand.iter().map(|(cost, _)| *cost).filter(kept).collect()
}

/// Rows of a linear layer's result.
fn rows(op: &OpSpec) -> usize {
    let shape = op.outputs.first().map_or(&[][..], |t| &t.shape);
    shape.split_last().map_or(1, |(_, rows)| rows.iter().copied().fold(1, usize::saturating_mul))
}

#[cfg(test)]
mod tests {
    use super::*;
    use vitempo_graph::{Attributes, Operand, TensorSpec};

    fn op(kind: OpKind, shape: &[usize]) -> OpSpec {
        let x = Operand { tensor: TensorSpec::f32(shape), constant: false };
        OpSpec {
            kind,
            attributes: Attributes::new(),
            inputs: vec![x],
            outputs: vec![TensorSpec::f32(shape)],
        }
    }

    #[test]
    fn kind_costs_and_rows_make_a_class_and_sizes_do_not() {
        let same = |a: &OpSpec, b: &OpSpec| class(a) == class(b);
        let (small, large) = ([1, 64, 8, 8], [1, 512, 128, 128]);
        assert!(same(&op(OpKind::Add, &small), &op(OpKind::Add, &large)), "a size is not a class");
        let tokens = [1, 197, 64];
        assert!(!same(&op(OpKind::Add, &small), &op(OpKind::Add, &tokens)), "images and tokens");
        assert!(!same(&op(OpKind::Erf, &tokens), &op(OpKind::Sigmoid, &tokens)), "kinds differ");
        let linear = |rows: usize| {
            let mut op = op(OpKind::Linear, &[rows, 64]);
            op.inputs.push(Operand { tensor: TensorSpec::f32([64, 64]), constant: true });
            op
        };
        assert!(!same(&linear(1), &linear(197)), "a classifier and a layer of tokens");
        let known = OperatorClasses([&linear(1)].into_iter().filter_map(class).collect());
        assert!(known.contain(&linear(1)) && !known.contain(&linear(197)));
        assert!(known.contain(&op(OpKind::Identity, &tokens)), "what costs nothing is known");
    }
}
