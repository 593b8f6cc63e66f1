//! [`Class`]: the classes of operators of ARIA's table 2; [`PerClass`]: a number for each.

use std::ops::Index;
use vitempo::graph::{ImageSize, OpKind, OpSpec, median};

/// A class of operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Products of two computed tensors; attention that an engine computes in one kernel.
    Matmul,
    /// Softmax.
    Softmax,
    /// Reshapes.
    Reshape,
    /// Transposes.
    Transpose,
    /// Products with weights.
    Linear,
    /// All others, without convolutions.
    Misc,
}

impl Class {
    /// In the paper's order.
    pub const ALL: [Self; 6] =
        [Self::Matmul, Self::Softmax, Self::Reshape, Self::Transpose, Self::Linear, Self::Misc];

    /// Its name in the paper.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Matmul => "Matmul",
            Self::Softmax => "Softmax",
            Self::Reshape => "Reshape",
            Self::Transpose => "Transpose",
            Self::Linear => "Linear",
            Self::Misc => "Misc",
        }
    }

    /// `None` for a convolution, which no layer has.
    fn of(op: &OpSpec) -> Option<Self> {
        Some(match op.kind {
            OpKind::Conv => return None,
            OpKind::Linear => Self::Linear,
            OpKind::MatMul if op.inputs.iter().any(|input| input.constant) => Self::Linear,
            OpKind::MatMul | OpKind::Attention | OpKind::Einsum => Self::Matmul,
            OpKind::Softmax => Self::Softmax,
            OpKind::Reshape => Self::Reshape,
            OpKind::Transpose | OpKind::Reorder => Self::Transpose,
            _ => Self::Misc,
        })
    }
}

/// A number for each class.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PerClass([f64; 6]);

impl Index<Class> for PerClass {
    type Output = f64;

    fn index(&self, class: Class) -> &f64 {
        &self.0[class as usize]
    }
}

impl PerClass {
    /// The sum.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.0.iter().sum()
    }

    /// Each class's median; `None` without any.
    pub(super) fn median(all: &[Self]) -> Option<Self> {
        let mut found = Self::default();
        for (class, value) in found.0.iter_mut().enumerate() {
            // Milliseconds, to the nanosecond.
            let ns: Vec<u64> = all.iter().map(|one| (one.0[class] * 1e6).round() as u64).collect();
            *value = median(&ns)? / 1e6;
        }
        Some(found)
    }
}

/// Sums by class, over the layers.
pub(super) fn per_layer<'a>(
    each: impl Iterator<Item = (&'a OpSpec, f64)>,
    layers: usize,
) -> PerClass {
    let mut sums = PerClass::default();
    for (op, amount) in each {
        if let Some(class) = Class::of(op) {
            sums.0[class as usize] += amount / layers as f64;
        }
    }
    sums
}

/// The paper's table 2: memory access of a FP16 ViT layer on the NPU of a Galaxy S24, MB.
const TABLE_2: [(usize, usize, [f64; 6]); 3] = [
    (238, 322, [31.99, 4.15, 2.72, 12.06, 26.66, 28.60]),
    (294, 490, [73.82, 13.00, 3.39, 19.22, 64.67, 51.84]),
    (406, 658, [1664.55, 395.80, 35.36, 37.37, 225.83, 202.52]),
];

pub(super) fn printed(size: ImageSize) -> Option<PerClass> {
    let found = TABLE_2.iter().find(|row| (row.0, row.1) == (size.height(), size.width()));
    found.map(|(_, _, megabytes)| PerClass(*megabytes))
}
