//! Which operators XNNPACK runs without a kernel of their own: clamps behind products and pools,
//! padding before convolutions, reshapes before reshapes, squares before means, conversions around
//! a function of one number (of integers to integers it is a table). In half precision padding has
//! a kernel.

use crate::{Graph, ValueId, ValueSource};

/// Operators whose kernels clamp on the way out.
const CLAMPING: &[&str] = &[
    "CONV_2D",
    "DEPTHWISE_CONV_2D",
    "TRANSPOSE_CONV",
    "FULLY_CONNECTED",
    "MAX_POOL_2D",
    "AVERAGE_POOL_2D",
];

/// Functions of one number.
const TABLES: &[&str] = &[
    "ABS",
    "ELU",
    "EXP",
    "GELU",
    "HARD_SWISH",
    "LEAKY_RELU",
    "LOG",
    "LOGISTIC",
    "NEG",
    "RELU",
    "RELU6",
    "RSQRT",
    "SQRT",
    "SQUARE",
    "TANH",
];

/// The operators of a part that have a kernel, in its order; `half`: it computes in half precision.
#[must_use]
pub fn with_kernels(operators: &Graph, codes: &[&str], part: &[usize], half: bool) -> Vec<usize> {
    let neighbours =
        Neighbours { operators, codes, consumers: operators.consumers(), inside: part, half };
    part.iter().copied().filter(|&index| !neighbours.is_elided(index)).collect()
}

struct Neighbours<'a> {
    operators: &'a Graph,
    codes: &'a [&'a str],
    consumers: Vec<Vec<usize>>,
    inside: &'a [usize],
    half: bool,
}

impl Neighbours<'_> {
    fn is_elided(&self, index: usize) -> bool {
        match self.codes[index] {
            "RELU" | "RELU6" | "RELU_N1_TO_1" => self.clamps_a_product(index),
            "MAXIMUM" | "MINIMUM" => self.has_scalar(index) && self.clamps_a_product(index),
            "PAD" => {
                !self.half
                    && self.is_spatial_pad(index)
                    && self.only_consumer(index).is_some_and(|next| self.is_convolution(next))
            }
            "RESHAPE" => {
                self.only_consumer(index).is_some_and(|next| self.codes[next] == "RESHAPE")
            }
            "DEQUANTIZE" => self.only_consumer(index).is_some_and(|table| self.is_table(table)),
            "QUANTIZE" => {
                let before =
                    self.operators.nodes()[index].inputs.first().and_then(|&v| self.producer(v));
                before.is_some_and(|table| self.is_table(table))
            }
            "SQUARE" => self
                .only_consumer(index)
                .is_some_and(|next| matches!(self.codes[next], "MEAN" | "SUM")),
            "MUL" => {
                self.is_square(index)
                    && self
                        .only_consumer(index)
                        .is_some_and(|next| matches!(self.codes[next], "MEAN" | "SUM"))
            }
            _ => false,
        }
    }

    /// Whether a function stands alone between integers and integers.
    fn is_table(&self, index: usize) -> bool {
        let before = self.operators.nodes()[index].inputs.first().and_then(|&v| self.producer(v));
        TABLES.contains(&self.codes[index])
            && before.is_some_and(|b| {
                self.codes[b] == "DEQUANTIZE" && self.only_consumer(b) == Some(index)
            })
            && self.only_consumer(index).is_some_and(|next| self.codes[next] == "QUANTIZE")
    }

    /// Over other clamps back to the product.
    fn clamps_a_product(&self, index: usize) -> bool {
        let mut at = index;
        loop {
            let inputs = &self.operators.nodes()[at].inputs;
            let Some(before) = inputs
                .iter()
                .find_map(|&v| self.producer(v))
                .filter(|&p| self.only_consumer(p) == Some(at))
            else {
                return false;
            };
            match self.codes[before] {
                code if CLAMPING.contains(&code) => return true,
                "RELU" | "RELU6" | "RELU_N1_TO_1" => at = before,
                "MAXIMUM" | "MINIMUM" if self.has_scalar(before) => at = before,
                _ => return false,
            }
        }
    }

    fn has_scalar(&self, index: usize) -> bool {
        self.operators.nodes()[index]
            .op
            .inputs
            .iter()
            .any(|i| i.constant && i.tensor.elements() == 1)
    }

    fn is_square(&self, index: usize) -> bool {
        matches!(self.operators.nodes()[index].inputs[..], [a, b] if a == b)
    }

    fn is_convolution(&self, index: usize) -> bool {
        matches!(self.codes[index], "CONV_2D" | "DEPTHWISE_CONV_2D")
    }

    /// Images are padded in height and width only.
    fn is_spatial_pad(&self, index: usize) -> bool {
        matches!(self.operators.nodes()[index].op.attributes.ints("pads"), [0, 0, _, _, 0, 0, _, _])
    }

    fn producer(&self, value: ValueId) -> Option<usize> {
        match self.operators.value(value).source {
            ValueSource::Node(index) => Some(index as usize).filter(|i| self.inside.contains(i)),
            _ => None,
        }
    }

    /// The only operator that reads the output of one, in the same part; `None` when the caller
    /// gets it.
    fn only_consumer(&self, index: usize) -> Option<usize> {
        let [output] = self.operators.nodes()[index].outputs[..] else { return None };
        let mut readers = self.consumers[output.0 as usize].clone();
        readers.dedup();
        match readers[..] {
            [one] if !self.operators.outputs().contains(&output) => {
                Some(one).filter(|i| self.inside.contains(i))
            }
            _ => None,
        }
    }
}
