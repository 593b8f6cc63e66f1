//! Finds the operators that XNNPACK runs without a kernel of their own: clamps behind products and
//! pools, padding before convolutions, reshapes before reshapes, squares before means, conversions
//! around a function of one number (of integers to integers it is a table). In half precision
//! padding has a kernel.

use super::readership::{Inside, Readership};
use crate::Graph;
use std::collections::HashMap;

/// Operators whose kernels clamp their results.
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
    with_kernels_among(operators, &Readership::of(operators), codes, part, half)
}

/// [`with_kernels`] where the readers are known already.
pub(super) fn with_kernels_among(
    operators: &Graph,
    readership: &Readership,
    codes: &[&str],
    part: &[usize],
    half: bool,
) -> Vec<usize> {
    let inside = Inside::of(operators, readership, part);
    let mut neighbours = Neighbours { operators, codes, inside, half, clamps: HashMap::new() };
    neighbours.find_clamps(part);
    part.iter().copied().filter(|&index| !neighbours.is_elided(index)).collect()
}

struct Neighbours<'a> {
    operators: &'a Graph,
    codes: &'a [&'a str],
    inside: Inside<'a>,
    half: bool,
    /// For each operator that can be a clamp, whether it clamps a product.
    clamps: HashMap<usize, bool>,
}

impl Neighbours<'_> {
    fn is_elided(&self, index: usize) -> bool {
        match self.codes[index] {
            code if is_clamp(code) => self.clamps.get(&index) == Some(&true),
            "PAD" => {
                !self.half
                    && self.is_spatial_pad(index)
                    && self
                        .inside
                        .only_consumer(index)
                        .is_some_and(|next| self.is_convolution(next))
            }
            "RESHAPE" => {
                self.inside.only_consumer(index).is_some_and(|next| self.codes[next] == "RESHAPE")
            }
            "DEQUANTIZE" => {
                self.inside.only_consumer(index).is_some_and(|table| self.is_table(table))
            }
            "QUANTIZE" => {
                let before = self.operators.nodes()[index]
                    .inputs
                    .first()
                    .and_then(|&v| self.inside.producer(v));
                before.is_some_and(|table| self.is_table(table))
            }
            "SQUARE" => self
                .inside
                .only_consumer(index)
                .is_some_and(|next| matches!(self.codes[next], "MEAN" | "SUM")),
            "MUL" => {
                self.is_square(index)
                    && self
                        .inside
                        .only_consumer(index)
                        .is_some_and(|next| matches!(self.codes[next], "MEAN" | "SUM"))
            }
            _ => false,
        }
    }

    /// Whether a function stands alone between integers and integers.
    fn is_table(&self, index: usize) -> bool {
        let before =
            self.operators.nodes()[index].inputs.first().and_then(|&v| self.inside.producer(v));
        TABLES.contains(&self.codes[index])
            && before.is_some_and(|b| {
                self.codes[b] == "DEQUANTIZE" && self.inside.only_consumer(b) == Some(index)
            })
            && self.inside.only_consumer(index).is_some_and(|next| self.codes[next] == "QUANTIZE")
    }

    /// Finds the clamps that go over other clamps back to a product.
    fn find_clamps(&mut self, part: &[usize]) {
        for &index in part {
            let bounds = matches!(self.codes[index], "MAXIMUM" | "MINIMUM");
            if is_clamp(self.codes[index]) && (!bounds || self.has_scalar(index)) {
                let clamps = self.clamps_a_product(index);
                self.clamps.insert(index, clamps);
            }
        }
    }

    /// The operators before an operator precede it in a part.
    fn clamps_a_product(&self, index: usize) -> bool {
        let inputs = &self.operators.nodes()[index].inputs;
        let before = inputs
            .iter()
            .find_map(|&v| self.inside.producer(v))
            .filter(|&p| self.inside.only_consumer(p) == Some(index));
        before.is_some_and(|before| {
            CLAMPING.contains(&self.codes[before]) || self.clamps.get(&before) == Some(&true)
        })
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
}

fn is_clamp(code: &str) -> bool {
    matches!(code, "RELU" | "RELU6" | "RELU_N1_TO_1" | "MAXIMUM" | "MINIMUM")
}
