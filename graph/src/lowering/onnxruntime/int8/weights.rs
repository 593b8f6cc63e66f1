//! Weights and biases behind DQs: constants while rules look for products with weights; what no
//! kernel on integers took is dequantised in every run.

use super::super::pairs;
use crate::{
    Attributes, ConstantData, OpKind, Precision, TensorSpec, ValueId,
    patterns::{
        readers::Reading,
        rewriter::{NodeIndex, Rewriter},
    },
};
use foldhash::HashSet;

/// Dequantised constants, in order: each with the operands and attributes of its DQ.
#[derive(Debug, Default)]
pub(in super::super) struct Weights {
    constants: Vec<(ValueId, Vec<ValueId>, Attributes)>,
    known: HashSet<ValueId>,
}

impl Weights {
    /// Takes the DQs of constants out of the graph, and those that the engine gives to the weights
    /// of transposed convolutions between a DQ and a Q.
    pub(in super::super) fn taken_from(graph: &mut Rewriter) -> Self {
        let mut weights = Self::default();
        let order = graph.order();
        for &index in &order {
            weights.take(graph, index);
        }
        for index in order {
            weights.quantize(graph, index);
        }
        weights
    }

    fn add(&mut self, floats: ValueId, operands: Vec<ValueId>, attributes: Attributes) {
        self.known.insert(floats);
        self.constants.push((floats, operands, attributes));
    }

    fn take(&mut self, graph: &mut Rewriter, index: NodeIndex) -> Option<()> {
        let node = graph.node(index).filter(|n| n.op.kind == OpKind::Dequantize)?;
        if !node.inputs.iter().all(|&v| graph.is_constant(v)) {
            return None;
        }
        let node = graph.remove(index)?;
        let floats = *node.outputs.first()?;
        graph.make_constant(floats, None);
        self.add(floats, node.inputs, node.op.attributes);
        Some(())
    }

    /// Rules after `weight_bias_quantization.cc` of ONNX Runtime.
    fn quantize(&mut self, graph: &mut Rewriter, index: NodeIndex) -> Option<()> {
        let node = graph.node(index).filter(|n| n.op.kind == OpKind::ConvTranspose)?;
        let (inputs, output) = (node.inputs.clone(), *node.outputs.first()?);
        let dequantize = pairs::dq_of(graph, *inputs.first()?)?;
        let constant = |&v: &ValueId| graph.is_constant(v);
        let fits = pairs::is_per_tensor(graph, dequantize)
            && leads_to_q(graph, output)
            && inputs.len() > 1
            && inputs[1..].iter().all(constant)
            && !self.known.contains(&inputs[1]);
        if !fits {
            return None;
        }
        let scale = graph.constant("scale", TensorSpec::f32([]), None);
        for (position, &value) in inputs.iter().enumerate().skip(1) {
            let precision = if position == 1 { Precision::I8 } else { Precision::I32 };
            let tensor = TensorSpec { precision, ..graph.tensor(value)?.clone() };
            let mut operands = vec![graph.constant("quantized", tensor, None), scale];
            if position == 1 {
                let zero = Some(ConstantData::Ints(vec![0]));
                operands.push(graph.constant("zero", TensorSpec::new([], precision), zero));
            }
            self.add(value, operands, Attributes::new());
        }
        Some(())
    }

    /// Puts a DQ before each reader of a constant that is still one of floats.
    pub(in super::super) fn put_back(&self, graph: &mut Rewriter) {
        for (floats, operands, attributes) in &self.constants {
            let readers: Vec<Reading> = graph.readings(*floats).collect();
            let Some(tensor) = graph.tensor(*floats).cloned() else { continue };
            for reading in readers {
                let own = graph.add_with_output(
                    "dequantize",
                    OpKind::Dequantize,
                    attributes.clone(),
                    operands.clone(),
                    Some(tensor.clone()),
                );
                graph.set_input(reading.node(), reading.position(), own);
            }
        }
    }
}

/// Whether only ReLUs and clips are between a value and a Q, and nothing else reads any of them.
fn leads_to_q(graph: &Rewriter, mut value: ValueId) -> bool {
    while let Some(reader) = graph.only_consumer(value).filter(|_| graph.spend(1)) {
        match graph.node(reader).map(|n| &n.op.kind) {
            Some(OpKind::Quantize) => return true,
            Some(OpKind::Relu | OpKind::Clip) => {}
            _ => return false,
        }
        let Some((_, next)) = graph.ends(reader) else { return false };
        value = next;
    }
    false
}
