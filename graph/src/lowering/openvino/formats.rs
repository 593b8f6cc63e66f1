//! Memory formats: convolutions work channels last, many operators in either format, the rest
//! channels first; a Reorder runs where they meet.
//!
//! Formats are chosen in topological order: an operator that works in either format takes that of
//! most of its inputs. A Reorder next to a Transpose that undoes it disappears together with it.

use super::{movement, place};
use crate::{
    Attributes, MemoryFormat, OpKind, ValueId,
    patterns::rewriter::{NodeIndex, Rewriter},
};
use MemoryFormat::{ChannelsFirst, ChannelsLast};
use std::collections::HashMap;

/// Lets the images that go in be channels last: each enters as N, H, W, C and is transposed, which
/// costs nothing in front of a convolution.
pub(super) fn enter_channels_last(graph: &mut Rewriter) {
    for input in graph.input_values() {
        let Some(tensor) =
            graph.tensor(input).filter(|t| t.rank() == 4 && t.precision.is_float()).cloned()
        else {
            continue;
        };
        let image = graph.value("image", Some(tensor));
        graph.replace_value(input, image);
        if let Some(tensor) = graph.tensor_mut(input) {
            tensor.shape[1..].rotate_left(1);
        }
        graph.add(
            "to_channels_first",
            OpKind::Transpose,
            Attributes::new().with_ints("perm", [0, 3, 1, 2]),
            vec![input],
            vec![image],
        );
    }
}

/// Chooses formats and adds the Reorders between them.
pub(super) fn choose(graph: &mut Rewriter) {
    let mut shared: HashMap<(ValueId, MemoryFormat), ValueId> = HashMap::new();
    for index in graph.order() {
        let Some(node) = graph.node(index) else { continue };
        let (inputs, outputs) = (node.inputs.clone(), node.outputs.clone());
        let format = wanted(graph, index);
        for (position, &input) in inputs.iter().enumerate() {
            let differs = graph.tensor(input).is_some_and(|t| t.format != format);
            if !differs
                || graph.is_constant(input)
                || is_the_same(graph.shape(input))
                || graph.shape(input).len() < 3
            {
                continue;
            }
            if undone_before(graph, input, format) || undone_after(graph, index, input) {
                continue;
            }
            let reordered =
                *shared.entry((input, format)).or_insert_with(|| reorder(graph, input, format));
            graph.set_input(index, position, reordered);
        }
        for output in outputs {
            let image = graph.shape(output).len() > 3
                || matches!(
                    graph.node(index).map(|n| &n.op.kind),
                    Some(OpKind::Conv | OpKind::ConvTranspose)
                );
            set_format(graph, output, if image { format } else { ChannelsFirst });
        }
    }
    outputs(graph);
}

fn set_format(graph: &mut Rewriter, value: ValueId, format: MemoryFormat) {
    if let Some(tensor) = graph.tensor_mut(value) {
        tensor.format = format;
    }
}

fn reorder(graph: &mut Rewriter, value: ValueId, format: MemoryFormat) -> ValueId {
    let tensor = graph.tensor(value).cloned().map(|t| t.with_format(format));
    graph.add_with_output("reorder", OpKind::Reorder, Attributes::new(), vec![value], tensor)
}

/// The caller gets channels first.
fn outputs(graph: &mut Rewriter) {
    for value in graph.output_values() {
        let last = graph.tensor(value).is_some_and(|t| t.format == ChannelsLast);
        if !last || is_the_same(graph.shape(value)) {
            continue;
        }
        let Some(index) = graph.producer(value) else { continue };
        let position = graph.node(index).and_then(|n| n.outputs.iter().position(|&o| o == value));
        let Some(position) = position else { continue };
        let inner = graph.value("channels_last", graph.tensor(value).cloned());
        graph.set_output(index, position, inner);
        for reader in graph.readings(value).collect::<Vec<_>>() {
            graph.set_input(reader.node(), reader.position(), inner);
        }
        set_format(graph, value, ChannelsFirst);
        graph.add("reorder", OpKind::Reorder, Attributes::new(), vec![inner], vec![value]);
    }
}

/// Whether both formats are the same bytes.
fn is_the_same(shape: &[usize]) -> bool {
    shape.len() < 3 || shape[1] == 1 || shape[2..].iter().product::<usize>() == 1
}

/// The format a kernel works in.
fn wanted(graph: &Rewriter, index: NodeIndex) -> MemoryFormat {
    use OpKind as K;
    let Some(node) = graph.node(index) else { return ChannelsFirst };
    match node.op.kind {
        K::Conv | K::ConvTranspose => ChannelsLast,
        K::Resize if node.inputs.first().is_some_and(|&v| graph.shape(v).len() > 3) => ChannelsLast,
        K::Elementwise => {
            let rank = node.outputs.first().map_or(0, |&v| graph.shape(v).len());
            let same_rank = node.inputs.iter().all(|&v| graph.shape(v).len() == rank);
            if same_rank { majority(graph, index) } else { ChannelsFirst }
        }
        K::Unsupported(ref name) if name == movement::SHUFFLE => majority(graph, index),
        K::AveragePool
        | K::MaxPool
        | K::Concat
        | K::Split
        | K::Slice
        | K::Pad
        | K::LayerNorm
        | K::Transpose
        | K::LpNorm => majority(graph, index),
        K::ReduceMean
        | K::ReduceSum
        | K::ReduceMax
        | K::ReduceMin
        | K::ReduceL2
        | K::ReduceProd => majority(graph, index),
        _ => ChannelsFirst,
    }
}

/// Whether a kernel works in this format for any format of its inputs.
fn insists(graph: &Rewriter, index: NodeIndex, format: MemoryFormat) -> bool {
    use OpKind as K;
    graph.node(index).is_some_and(|n| match n.op.kind {
        K::Conv | K::ConvTranspose | K::Resize => format == ChannelsLast,
        K::Linear | K::MatMul | K::Attention | K::Reshape | K::Softmax | K::RmsNorm | K::Gather => {
            format == ChannelsFirst
        }
        _ => false,
    })
}

/// The format of most computed inputs; channels last when there are as many of either.
fn majority(graph: &Rewriter, index: NodeIndex) -> MemoryFormat {
    let inputs = graph.node(index).map(|n| n.inputs.as_slice()).unwrap_or_default();
    let images = inputs.iter().filter(|&&v| !graph.is_constant(v) && graph.shape(v).len() > 3);
    let balance: i64 = images
        .map(|&v| if graph.tensor(v).is_some_and(|t| t.format == ChannelsLast) { 1 } else { -1 })
        .sum();
    let any = inputs.iter().any(|&v| graph.tensor(v).is_some_and(|t| t.format == ChannelsLast));
    if any && balance >= 0 { ChannelsLast } else { ChannelsFirst }
}

fn perm(graph: &Rewriter, index: NodeIndex) -> &[i64] {
    graph.node(index).map(|n| n.op.attributes.ints("perm")).unwrap_or_default()
}

/// A Transpose, perhaps with a Reshape behind it, that only this Reorder reads and that the Reorder
/// undoes: neither runs.
fn undone_before(graph: &mut Rewriter, value: ValueId, format: MemoryFormat) -> bool {
    if graph.is_output(value) {
        return false;
    }
    let Some(producer) = graph.producer(value) else { return false };
    let (transpose, source_format) = if graph.is(producer, &OpKind::Reshape) {
        let Some((flat, _)) = graph.ends(producer) else { return false };
        let unfolds = matches!((graph.shape(flat), graph.shape(value)), ([n, c, _], [m, d, ..]) if (n, c) == (m, d));
        let Some(transpose) = graph.producer_of(flat, &OpKind::Transpose) else { return false };
        if !unfolds || graph.only_consumer(flat).is_none() || perm(graph, transpose) != [0, 2, 1] {
            return false;
        }
        (transpose, ChannelsFirst)
    } else {
        let first_to_last = [0, 3, 1, 2];
        let last_to_first = [0, 2, 3, 1];
        match perm(graph, producer) {
            p if graph.is(producer, &OpKind::Transpose)
                && p == first_to_last
                && format == ChannelsLast =>
            {
                (producer, ChannelsFirst)
            }
            p if graph.is(producer, &OpKind::Transpose)
                && p == last_to_first
                && format == ChannelsFirst =>
            {
                (producer, ChannelsLast)
            }
            _ => return false,
        }
    };
    let fits = graph
        .ends(transpose)
        .and_then(|(x, _)| graph.tensor(x))
        .is_some_and(|t| t.format == source_format);
    if fits
        && (format == ChannelsLast || source_format == ChannelsLast)
        && all_insist(graph, value, format)
    {
        place::forget(graph, transpose);
        set_format(graph, value, format);
        return true;
    }
    false
}

/// Whether a value has one reader, or all readers work in this format for any format of their
/// inputs.
fn all_insist(graph: &Rewriter, value: ValueId, format: MemoryFormat) -> bool {
    let mut readers = graph.consumers(value);
    graph.spend(readers.len());
    readers.len() <= 1 || readers.all(|r| insists(graph, r, format))
}

/// A Reshape of a channels last image to tokens, that a Transpose follows: together with the
/// Reorder before them, they change nothing.
fn undone_after(graph: &mut Rewriter, index: NodeIndex, image: ValueId) -> bool {
    let Some((_, flat)) = graph.ends(index).filter(|_| graph.is(index, &OpKind::Reshape)) else {
        return false;
    };
    let folds = matches!((graph.shape(image), graph.shape(flat)), ([n, c, _, ..], [m, d, _]) if (n, c) == (m, d));
    let Some(transpose) = graph
        .only_consumer(flat)
        .filter(|&t| folds && graph.is(t, &OpKind::Transpose) && perm(graph, t) == [0, 2, 1])
    else {
        return false;
    };
    if graph.ends(transpose).is_none_or(|(_, tokens)| graph.only_consumer(tokens).is_none()) {
        return false;
    }
    place::forget(graph, transpose);
    true
}
