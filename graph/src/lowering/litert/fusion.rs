//! Adds operators without a kernel of their own to the kernels of their neighbours: clamps to the
//! operator before them, padding to the convolution after it, reshapes to the operator next to
//! them.

use super::readership::Readership;
use crate::{Attribute, Graph, OpKind, OpSpec, Operand, ValueId};
use std::{borrow::Cow, collections::BTreeMap};

/// The operators that have kernels, each with what was fused into it.
#[derive(Debug)]
pub struct Fused<'a> {
    operators: &'a Graph,
    codes: &'a [&'a str],
    readership: Cow<'a, Readership>,
    /// By operator: what its kernel computes, and the values it reads.
    kernels: BTreeMap<usize, (OpSpec, Vec<ValueId>)>,
    /// The operator whose kernel an operator was fused into.
    owner: BTreeMap<usize, usize>,
}

impl<'a> Fused<'a> {
    /// `codes` are TensorFlow Lite's names of the operators; `with_kernels` those that have a
    /// kernel, all others of `part` are fused.
    #[must_use]
    pub fn new(
        operators: &'a Graph,
        codes: &'a [&'a str],
        part: &[usize],
        with_kernels: &[usize],
    ) -> Self {
        Self::among(operators, Cow::Owned(Readership::of(operators)), codes, part, with_kernels)
    }

    /// [`Fused::new`] where the readers are known already.
    pub(super) fn among(
        operators: &'a Graph,
        readership: Cow<'a, Readership>,
        codes: &'a [&'a str],
        part: &[usize],
        with_kernels: &[usize],
    ) -> Self {
        let nodes = operators.nodes();
        let kernels: BTreeMap<_, _> = with_kernels
            .iter()
            .map(|&i| (i, (nodes[i].op.clone(), nodes[i].inputs.clone())))
            .collect();
        let owner = with_kernels.iter().map(|&i| (i, i)).collect();
        let mut this = Self { operators, codes, readership, kernels, owner };
        let fused: Vec<usize> =
            part.iter().copied().filter(|i| !this.kernels.contains_key(i)).collect();
        let left: Vec<usize> = fused.into_iter().filter(|&i| !this.join_producer(i)).collect();
        left.into_iter().rev().for_each(|i| this.join_consumer(i));
        this
    }

    /// The kernel of operator `index`.
    #[must_use]
    pub fn spec(&self, index: usize) -> Option<&OpSpec> {
        self.kernels.get(&index).map(|(spec, _)| spec)
    }

    fn join_producer(&mut self, index: usize) -> bool {
        let activation = match self.codes[index] {
            "RELU" => Some("relu"),
            "RELU6" | "RELU_N1_TO_1" | "MAXIMUM" | "MINIMUM" => Some("clip"),
            "RESHAPE" | "QUANTIZE" => None,
            _ => return false,
        };
        let node = &self.operators.nodes()[index];
        let producer = node
            .inputs
            .iter()
            .find_map(|&input| self.producer_index(input))
            .and_then(|p| self.owner.get(&p).copied());
        let Some(owner) = producer.filter(|p| {
            activation.is_some() || self.codes[index] == "QUANTIZE" || self.codes[*p] == "RESHAPE"
        }) else {
            return false;
        };
        let Some((spec, _)) = self.kernels.get_mut(&owner) else { return false };
        spec.outputs.clone_from(&node.op.outputs);
        match activation {
            Some(name) => {
                let both = spec.attributes.text("activation").is_some_and(|before| before != name);
                spec.attributes.set(
                    "activation",
                    Attribute::Text(if both { "clip" } else { name }.to_owned()),
                );
            }
            None if self.codes[index] == "QUANTIZE" => {}
            None => spec.attributes.clone_from(&node.op.attributes),
        }
        self.owner.insert(index, owner);
        true
    }

    fn producer_index(&self, value: ValueId) -> Option<usize> {
        match self.operators.value(value).source {
            crate::ValueSource::Node(index) => Some(index as usize),
            _ => None,
        }
    }

    fn join_consumer(&mut self, index: usize) {
        let node = &self.operators.nodes()[index];
        let Some(&output) = node.outputs.first() else { return };
        let [consumer] = self.readership.readers(output)[..] else { return };
        let Some(&owner) = self.owner.get(&consumer) else { return };
        let (from, operand) = match (node.inputs.first(), node.op.inputs.first()) {
            (Some(&from), Some(operand)) => (from, operand.clone()),
            _ => return,
        };
        let Some((spec, inputs)) = self.kernels.get_mut(&owner) else { return };
        for (id, place) in inputs.iter_mut().zip(&mut spec.inputs).filter(|(id, _)| **id == output)
        {
            *id = from;
            *place = Operand { constant: operand.constant, tensor: operand.tensor.clone() };
        }
        match node.op.kind {
            OpKind::Pad => pad(spec, node.op.attributes.ints("pads")),
            _ if matches!(self.codes[index], "MUL" | "SQUARE")
                && matches!(spec.kind, OpKind::ReduceMean | OpKind::ReduceSum) =>
            {
                spec.attributes.set("squared", Attribute::Int(1));
            }
            _ => {}
        }
        self.owner.insert(index, owner);
    }
}

/// Adds padding of the images (`pads` of all dimensions: begins, then ends) to a convolution's.
fn pad(spec: &mut OpSpec, pads: &[i64]) {
    let spatial = pads.len() / 2;
    let (Some(begins), Some(ends)) = (pads.get(2..spatial), pads.get(spatial + 2..)) else {
        return;
    };
    let more: Vec<i64> = begins.iter().chain(ends).copied().collect();
    let own = spec.attributes.ints("pads");
    let sum = if own.len() == more.len() {
        own.iter().zip(&more).map(|(a, b)| a + b).collect()
    } else {
        more
    };
    spec.attributes.set("pads", Attribute::Ints(sum.into()));
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::{Attributes, GraphBuilder, TensorSpec};

    #[test]
    fn padding_and_clamps_belong_to_the_convolution() {
        let mut b = GraphBuilder::new("m");
        let x = b.input("x", TensorSpec::f32([1, 4, 8, 8]));
        let pads = Attributes::new()
            .with_ints("pads", [0, 0, 1, 0, 0, 0, 1, 1])
            .with("mode", Attribute::Text("constant".into()));
        let padded = b.op("pad", OpKind::Pad, pads, &[x]).unwrap();
        let y = b.conv("conv", padded, 6, 3, 1, 0, 1, true).unwrap();
        let r = b.op("relu", OpKind::Relu, Attributes::new(), &[y]).unwrap();
        let one = b.reshape("one", r, &[1, 6, 56]).unwrap();
        let two = b.reshape("two", one, &[1, 6, 8, 7]).unwrap();
        let graph = b.finish(vec![two]).unwrap();
        let codes = ["PAD", "CONV_2D", "RELU", "RESHAPE", "RESHAPE"];
        let fused = Fused::new(&graph, &codes, &[0, 1, 2, 3, 4], &[1, 3]);
        let conv = fused.spec(1).unwrap();
        assert_eq!(conv.attributes.ints("pads"), [1, 0, 1, 1]);
        assert_eq!(conv.attributes.text("activation"), Some("relu"));
        assert_eq!(conv.inputs[0].tensor.shape[..], [1, 4, 8, 8]);
        assert_eq!(fused.spec(3).unwrap().outputs[0].shape[..], [1, 6, 8, 7]);
        // The kernel of a chain of reshapes may be counted to its last operator, too.
        let fused = Fused::new(&graph, &codes, &[0, 1, 2, 3, 4], &[1, 4]);
        assert_eq!(fused.spec(4).unwrap().inputs[0].tensor.shape[..], [1, 6, 8, 7]);
        assert_eq!(fused.spec(4).unwrap().inputs[0].tensor, graph.nodes()[3].op.inputs[0].tensor);
    }
}
