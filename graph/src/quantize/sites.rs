//! Selects what is quantised in a model: tensors, and operands of operators.

use crate::{Graph, Node, OpKind, Precision, Value, ValueId, ValueSource};
use std::collections::{BTreeSet, HashMap, HashSet};

/// A constant operand that becomes integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WeightSite {
    /// Which operand.
    pub operand: usize,
    /// The axis whose slices have scales of their own; `None`: one scale.
    pub axis: Option<usize>,
    /// Whether operand 2 is a bias that becomes integers too.
    pub bias: bool,
}

/// The quantised tensors and operands of a graph.
#[derive(Debug, Default)]
pub(super) struct Sites {
    /// Computed tensors.
    pub activations: BTreeSet<ValueId>,
    /// Constant operands by node.
    pub weights: HashMap<usize, WeightSite>,
    /// Products of two computed tensors, by node.
    pub products: BTreeSet<usize>,
    /// Additions that are the bias of a linear layer, by node.
    pub biases: HashMap<usize, BiasSite>,
}

/// The constant operand of an addition that is a bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BiasSite {
    /// Which operand is the bias.
    pub operand: usize,
    /// The node of the linear layer.
    pub product: usize,
}

impl Sites {
    /// The constants that become integers.
    pub(super) fn replaced(&self, graph: &Graph) -> HashSet<ValueId> {
        let weight = |(index, site): (&usize, &WeightSite)| {
            graph.nodes().get(*index)?.inputs.get(site.operand).copied()
        };
        self.weights.iter().filter_map(weight).collect()
    }
}

/// Which results of products are quantised, besides what products read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Results {
    /// Those that engines fuse with their Q where they fuse anything.
    Fused,
    /// All of them: a processor of integers has no product that leaves floats.
    All,
}

/// Convolutions and matrix products in 32-bit floats.
pub(super) fn sites(graph: &Graph, results: Results) -> Sites {
    let consumers = graph.consumers();
    let mut sites = Sites::default();
    for (index, node) in graph.nodes().iter().enumerate() {
        let Some(weight) = site(graph, node) else { continue };
        let operands = node.inputs.iter().take(2).filter(|&&id| !is_constant(graph.value(id)));
        sites.activations.extend(operands.copied());
        match weight {
            Some(weight) => {
                sites.weights.insert(index, weight);
                sites
                    .biases
                    .extend(bias(graph, &consumers, index).filter(|_| results == Results::Fused));
            }
            None => {
                sites.products.insert(index);
            }
        }
        let written = written(graph, &consumers, node);
        // An engine fuses a product with a clip only together with its Q.
        if results == Results::All
            || node.op.kind == OpKind::Conv
            || written != node.outputs.first().copied()
        {
            sites.activations.extend(written);
        }
    }
    sites
}

fn is_constant(value: &Value) -> bool {
    matches!(value.source, ValueSource::Constant(_))
}

/// `None`: not quantised; `Some(None)`: a product of two computed tensors.
#[allow(clippy::option_option)]
pub(super) fn site(graph: &Graph, node: &Node) -> Option<Option<WeightSite>> {
    let op = &node.op;
    let floats = op.inputs.iter().take(2).all(|i| i.tensor.precision == Precision::F32)
        && op.inputs.len() == node.inputs.len();
    let constant = |i: usize| node.inputs.get(i).is_some_and(|&id| is_constant(graph.value(id)));
    if !floats || node.inputs.len() < 2 || (constant(0) && constant(1)) {
        return None;
    }
    let set = |name: &str| op.attributes.has(name);
    match op.kind {
        OpKind::Conv if constant(1) && !set("activation") && !set("residual") => {
            Some(Some(WeightSite { operand: 1, axis: Some(0), bias: constant(2) }))
        }
        OpKind::Linear
            if constant(1) && !["alpha", "beta", "trans_a", "activation"].into_iter().any(set) =>
        {
            let matrix = op.inputs[0].tensor.rank() == 2;
            let axis =
                if set("trans_b") { 0 } else { op.inputs[1].tensor.rank().checked_sub(1)? };
            Some(Some(WeightSite { operand: 1, axis: Some(axis), bias: matrix && constant(2) }))
        }
        OpKind::MatMul if op.attributes.0.is_empty() && node.inputs.len() == 2 => {
            let operand = (0..2).find(|&i| constant(i));
            Some(operand.map(|operand| WeightSite { operand, axis: None, bias: false }))
        }
        _ => None,
    }
}

/// The output of a product: after a ReLU or clip that is its only reader.
fn written(graph: &Graph, consumers: &[Vec<usize>], node: &Node) -> Option<ValueId> {
    let own = *node.outputs.first()?;
    let [only] = consumers[own.0 as usize].as_slice() else { return Some(own) };
    let next = graph.nodes().get(*only)?;
    let clips =
        matches!(next.op.kind, OpKind::Relu | OpKind::Clip) && !graph.outputs().contains(&own);
    if clips { next.outputs.first().copied() } else { Some(own) }
}

/// Exporters write a linear layer over more than two dimensions as a product and an addition;
/// engines fuse both into one operator, which needs an integer bias.
fn bias(graph: &Graph, consumers: &[Vec<usize>], index: usize) -> Option<(usize, BiasSite)> {
    let product = graph.nodes().get(index)?;
    let output = *product.outputs.first()?;
    let (OpKind::Linear, 2, &[next]) =
        (&product.op.kind, product.inputs.len(), consumers[output.0 as usize].as_slice())
    else {
        return None;
    };
    let (addition, features) =
        (graph.nodes().get(next)?, *product.op.outputs.first()?.shape.last()?);
    let is_bias = |id: &ValueId| {
        let value = graph.value(*id);
        is_constant(value)
            && value
                .tensor
                .as_ref()
                .is_some_and(|t| t.precision == Precision::F32 && *t.shape == [features])
    };
    let operand = addition.inputs.iter().position(is_bias)?;
    let plain = addition.op.kind == OpKind::Add
        && addition.inputs.len() == 2
        && !graph.outputs().contains(&output);
    plain.then_some((next, BiasSite { operand, product: index }))
}
