//! bfloat16: the plugin converts the inputs, computes everything except reductions in bfloat16, and
//! returns 32-bit floats.

use super::place::is_view;
use crate::{
    Attribute, Attributes, OpKind, Precision, ValueId,
    patterns::rewriter::{NodeIndex, Rewriter},
};
use std::collections::HashMap;

/// Puts a lowered graph into bfloat16, with the Casts it takes.
pub(super) fn convert(graph: &mut Rewriter) {
    let mut converted: HashMap<ValueId, ValueId> = HashMap::new();
    for index in graph.order() {
        let Some(node) = graph.node(index) else { continue };
        let (view, reorder, reduction) =
            (is_view(node), node.op.kind == OpKind::Reorder, is_reduction(&node.op.kind));
        let (inputs, outputs) = (node.inputs.clone(), node.outputs.clone());
        let whole = inputs.iter().any(|&v| !graph.is_constant(v) && is(graph, v, Precision::F32));
        if whole && !view && !reorder {
            for (position, &input) in inputs.iter().enumerate() {
                if !graph.is_constant(input) && is(graph, input, Precision::F32) {
                    let half = *converted.entry(input).or_insert_with(|| cast(graph, input));
                    graph.set_input(index, position, half);
                }
            }
        }
        let weighs = graph.node(index).is_some_and(|n| {
            matches!(n.op.kind, OpKind::Conv | OpKind::ConvTranspose | OpKind::Linear)
        });
        for &input in &inputs {
            if weighs && graph.is_constant(input) {
                set(graph, input, Precision::F32, Precision::Bf16);
            }
        }
        if reduction || (view && whole) {
            continue;
        }
        for output in outputs {
            set(graph, output, Precision::F32, Precision::Bf16);
        }
    }
    for output in graph.output_values() {
        give_back(graph, output);
    }
}

fn is_reduction(kind: &OpKind) -> bool {
    use OpKind as K;
    matches!(
        kind,
        K::ReduceMean | K::ReduceSum | K::ReduceMax | K::ReduceMin | K::ReduceL2 | K::ReduceProd
    )
}

fn is(graph: &Rewriter, value: ValueId, precision: Precision) -> bool {
    graph.tensor(value).is_some_and(|t| t.precision == precision)
}

fn set(graph: &mut Rewriter, value: ValueId, from: Precision, to: Precision) {
    if let Some(tensor) = graph.tensor_mut(value).filter(|t| t.precision == from) {
        tensor.precision = to;
    }
}

fn cast(graph: &mut Rewriter, value: ValueId) -> ValueId {
    let mut tensor = graph.tensor(value).cloned();
    if let Some(tensor) = &mut tensor {
        tensor.precision = Precision::Bf16;
    }
    let to = Attribute::Text(Precision::Bf16.name().to_owned());
    graph.add_with_output(
        "cast",
        OpKind::Cast,
        Attributes::new().with("to", to),
        vec![value],
        tensor,
    )
}

/// The kernel that writes an output writes it in 32 bits.
fn give_back(graph: &mut Rewriter, output: ValueId) {
    let mut value = output;
    loop {
        set(graph, value, Precision::Bf16, Precision::F32);
        let behind: Option<NodeIndex> =
            graph.producer(value).filter(|&i| graph.node(i).is_some_and(is_view));
        let Some((source, _)) = behind.and_then(|i| graph.ends(i)) else { return };
        value = source;
    }
}
