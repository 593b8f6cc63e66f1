//! Moves elementwise operators with one computed input before the reshapes and transposes that they
//! read.

use super::pattern::is_elementwise;
use crate::{
    OpKind, ValueId,
    patterns::rewriter::{NodeIndex, Rewriter},
};
use foldhash::HashMap;

/// Moves all of them.
pub(super) fn lift_elementwise(graph: &mut Rewriter) {
    let mut chains = Chains::default();
    for index in graph.order() {
        let Some((_, output)) = graph.ends(index) else { continue };
        let Some(node) = graph.node(index).filter(|n| is_elementwise(&n.op.kind)) else { continue };
        let turned = node
            .inputs
            .first()
            .is_some_and(|&v| graph.producer_of(v, &OpKind::Transpose).is_some());
        if node.op.kind == OpKind::Quantize && !turned {
            continue;
        }
        let scalars = node
            .inputs
            .iter()
            .filter(|&&v| graph.is_constant(v))
            .all(|&v| graph.shape(v).iter().all(|&d| d == 1));
        let mut computed = node.inputs.iter().copied().filter(|&v| !graph.is_constant(v));
        let (Some(x), None) = (computed.next(), computed.next()) else { continue };
        if !scalars
            || graph.shape(x) != graph.shape(output)
            || graph.is_output(output) && graph.uses(output) > 1
        {
            continue;
        }
        let Some(chain) = chains.before(graph, x) else { continue };
        let top = chains.all[chain].top;
        // The conversion of quantised numbers to floats comes after the movers and blocks the lift.
        let bytes = graph.producer_of(top, &OpKind::Quantize).is_some();
        if !graph.is_constant(top) && !bytes {
            lift(graph, index, x, output, &mut chains.all[chain]);
        }
    }
}

/// A chain of reshapes and transposes, each the only reader of the one before.
struct Chain {
    /// The input of the first one.
    top: ValueId,
    first: NodeIndex,
}

/// The chains that were followed so far.
#[derive(Default)]
struct Chains {
    all: Vec<Chain>,
    /// The chain that a value is made by.
    of: HashMap<ValueId, usize>,
}

impl Chains {
    /// The chain in front of a value, if there is one.
    fn before(&mut self, graph: &Rewriter, value: ValueId) -> Option<usize> {
        let mut passed = Vec::new();
        let mut top = value;
        let mut known = None;
        let mut first = None;
        while let Some(mover) = graph
            .producer(top)
            .filter(|&i| graph.is(i, &OpKind::Reshape) || graph.is(i, &OpKind::Transpose))
            .filter(|_| graph.only_consumer(top).is_some() && graph.spend(1))
        {
            known = self.of.get(&top).copied();
            if known.is_some() {
                break;
            }
            let Some((above, _)) = graph.ends(mover) else { break };
            passed.push(top);
            (top, first) = (above, Some(mover));
        }
        let chain = match known {
            Some(chain) => chain,
            None => {
                self.all.push(Chain { top, first: first? });
                self.all.len() - 1
            }
        };
        self.of.extend(passed.into_iter().map(|value| (value, chain)));
        Some(chain)
    }
}

fn lift(graph: &mut Rewriter, index: NodeIndex, x: ValueId, output: ValueId, chain: &mut Chain) {
    let Some(node) = graph.remove(index) else { return };
    let top = chain.top;
    let tensor = graph.tensor(top).cloned();
    // Constants of one element have at most the rank of the other operand.
    let inputs: Vec<ValueId> = node.inputs.iter().map(|&v| if v == x { top } else { v }).collect();
    let lifted =
        graph.add_with_output(&node.name, node.op.kind, node.op.attributes, inputs, tensor);
    graph.set_input(chain.first, 0, lifted);
    graph.replace_value(output, x);
    chain.top = lifted;
}
