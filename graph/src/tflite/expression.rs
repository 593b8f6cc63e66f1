//! Constants as expressions over a model's weights: the results of the layout pass (transposed,
//! reshaped, folded together), without their values.
//!
//! The memory of an expression depends on its operations, not on its shape: values are computed
//! when a file is written, within the budget's bytes.

use super::TfliteError;
use super::generated::Generated;
use super::weights::{Array, Weights};
use crate::Budget;
use std::sync::Arc;

/// How a constant is computed from weights. Clones share their parts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Expression {
    shape: Vec<usize>,
    /// How many expressions lie inside of each other.
    depth: usize,
    source: Arc<Source>,
}

#[derive(Debug, PartialEq)]
enum Source {
    /// A value of the graph, by name.
    Weight(String),
    /// Numbers that are known.
    Numbers(Vec<f32>),
    /// Numbers that follow from a rule.
    Generated(Generated),
    Reshape(Expression),
    Transpose(Expression, Vec<usize>),
    /// Axis, start, extent.
    Slice(Expression, usize, usize, usize),
    /// Elementwise with broadcasting.
    Binary(Operator, Expression, Expression),
    /// 1 / sqrt(x + epsilon).
    Rsqrt(Expression, f32),
}

/// Elementwise operators of expressions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Add,
    Sub,
    Mul,
}

/// Number of elements; saturates instead of overflowing.
pub(crate) fn elements(shape: &[usize]) -> usize {
    shape.iter().fold(1, |count: usize, &extent| count.saturating_mul(extent))
}

impl Expression {
    fn new(source: Source, shape: Vec<usize>) -> Self {
        let depth = match &source {
            Source::Weight(_) | Source::Numbers(_) | Source::Generated(_) => 0,
            Source::Reshape(of)
            | Source::Transpose(of, _)
            | Source::Slice(of, ..)
            | Source::Rsqrt(of, _) => of.depth,
            Source::Binary(_, a, b) => a.depth.max(b.depth),
        };
        Self { shape, depth: depth + 1, source: Arc::new(source) }
    }

    /// A value of the graph.
    pub(crate) fn weight(name: &str, shape: Vec<usize>) -> Self {
        Self::new(Source::Weight(name.to_owned()), shape)
    }

    /// Numbers that are known.
    pub(crate) fn numbers(data: Vec<f32>, shape: impl Into<Vec<usize>>) -> Self {
        Self::new(Source::Numbers(data), shape.into())
    }

    /// Numbers that follow from a rule.
    pub(crate) fn generated(generated: Generated, shape: impl Into<Vec<usize>>) -> Self {
        Self::new(Source::Generated(generated), shape.into())
    }

    /// The same number everywhere.
    pub(crate) fn filled(value: f32, shape: impl Into<Vec<usize>>) -> Self {
        Self::generated(Generated::Fill(value), shape)
    }

    pub(crate) fn scalar(value: f32) -> Self {
        Self::numbers(vec![value], Vec::new())
    }

    pub(crate) fn reshape(self, shape: impl Into<Vec<usize>>) -> Self {
        let shape = shape.into();
        if self.shape == shape {
            return self;
        }
        match &*self.source {
            Source::Reshape(of) => of.clone().reshape(shape),
            _ => Self::new(Source::Reshape(self), shape),
        }
    }

    pub(crate) fn transpose(self, perm: &[usize]) -> Self {
        if perm.iter().enumerate().all(|(i, &p)| i == p) {
            return self;
        }
        if let Source::Transpose(of, first) = &*self.source {
            let both: Vec<usize> = perm.iter().map(|&p| first[p]).collect();
            return of.clone().transpose(&both);
        }
        let shape = perm.iter().map(|&p| self.shape[p]).collect();
        Self::new(Source::Transpose(self, perm.to_vec()), shape)
    }

    pub(crate) fn slice(self, axis: usize, start: usize, extent: usize) -> Self {
        let mut shape = self.shape.clone();
        shape[axis] = extent;
        Self::new(Source::Slice(self, axis, start, extent), shape)
    }

    pub(crate) fn binary(self, operator: Operator, other: Self) -> Self {
        let shape = crate::shape::broadcast(&self.shape, &other.shape)
            .map_or_else(|_| self.shape.clone(), |shape| shape.to_vec());
        Self::new(Source::Binary(operator, self, other), shape)
    }

    /// 1 / sqrt(x + epsilon).
    pub(crate) fn rsqrt(self, epsilon: f32) -> Self {
        let shape = self.shape.clone();
        Self::new(Source::Rsqrt(self, epsilon), shape)
    }

    /// Shape of the result.
    pub(crate) fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Number of elements; saturates instead of overflowing.
    pub(crate) fn elements(&self) -> usize {
        elements(&self.shape)
    }

    /// How many expressions lie inside of each other.
    pub(crate) const fn depth(&self) -> usize {
        self.depth
    }

    /// The values. Those that are not the model's own are taken from the budget's bytes.
    ///
    /// # Errors
    /// [`TfliteError`] where a weight is absent, or the budget is spent.
    pub(crate) fn evaluate(
        &self,
        weights: &Weights,
        budget: &Budget,
    ) -> Result<Array, TfliteError> {
        let shape = self.shape.clone();
        let grown = || budget.bytes((self.elements() as u64).saturating_mul(4));
        Ok(match &*self.source {
            Source::Weight(name) => weights.array(name, &shape)?,
            Source::Numbers(data) => Array { shape, data: data.clone() },
            Source::Generated(generated) => {
                grown()?;
                let data = generated.values(&shape);
                Array { shape, data }
            }
            Source::Reshape(of) => Array { shape, data: of.evaluate(weights, budget)?.data },
            Source::Transpose(of, perm) => of.evaluate(weights, budget)?.transposed(perm),
            Source::Slice(of, axis, start, extent) => {
                of.evaluate(weights, budget)?.sliced(*axis, *start, *extent)
            }
            Source::Binary(operator, a, b) => {
                let (a, b) = (a.evaluate(weights, budget)?, b.evaluate(weights, budget)?);
                if self.elements() > a.data.len().max(b.data.len()) {
                    grown()?;
                }
                a.combined(*operator, &b, shape)
            }
            Source::Rsqrt(of, epsilon) => {
                let mut of = of.evaluate(weights, budget)?;
                of.data.iter_mut().for_each(|v| *v = (1.0 / f64::from(*v + epsilon).sqrt()) as f32);
                of
            }
        })
    }
}

fn strides(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1usize; shape.len()];
    for i in (1..shape.len()).rev() {
        strides[i - 1] = strides[i].saturating_mul(shape[i]);
    }
    strides
}

impl Array {
    /// The elements at offset + the sum of index * stride, over all indices of `shape`.
    fn strided(&self, shape: Vec<usize>, strides: &[usize], offset: usize) -> Self {
        let count: usize = shape.iter().product();
        let mut data = Vec::with_capacity(count);
        let mut index = vec![0; shape.len()];
        let mut at = offset;
        for _ in 0..count {
            data.push(self.data.get(at).copied().unwrap_or(0.0));
            for d in (0..shape.len()).rev() {
                index[d] += 1;
                at += strides[d];
                if index[d] < shape[d] {
                    break;
                }
                at -= strides[d] * shape[d];
                index[d] = 0;
            }
        }
        Self { shape, data }
    }

    pub(super) fn transposed(&self, perm: &[usize]) -> Self {
        let own = strides(&self.shape);
        let strides: Vec<usize> = perm.iter().map(|&p| own[p]).collect();
        self.strided(perm.iter().map(|&p| self.shape[p]).collect(), &strides, 0)
    }

    fn sliced(&self, axis: usize, start: usize, extent: usize) -> Self {
        let own = strides(&self.shape);
        let mut shape = self.shape.clone();
        shape[axis] = extent;
        self.strided(shape, &own, start * own[axis])
    }

    pub(super) fn broadcast(&self, shape: &[usize]) -> Self {
        if self.shape == shape {
            return self.clone();
        }
        let own = strides(&self.shape);
        let more = shape.len() - self.shape.len().min(shape.len());
        let along =
            |d: usize| if d < more || self.shape[d - more] == 1 { 0 } else { own[d - more] };
        let strides: Vec<usize> = (0..shape.len()).map(along).collect();
        self.strided(shape.to_vec(), &strides, 0)
    }

    pub(super) fn combined(&self, operator: Operator, other: &Self, shape: Vec<usize>) -> Self {
        let (a, b) = (self.broadcast(&shape), other.broadcast(&shape));
        let one = |(&a, &b): (&f32, &f32)| match operator {
            Operator::Add => a + b,
            Operator::Sub => a - b,
            Operator::Mul => a * b,
        };
        let data = a.data.iter().zip(&b.data).map(one).collect();
        Self { shape, data }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn counting(shape: &[usize]) -> Expression {
        let count: usize = shape.iter().product();
        Expression::numbers((0..count).map(|i| i as f32).collect(), shape)
    }

    #[test]
    fn constants_are_moved_and_folded() {
        let value = |e: Expression| {
            let shape = e.shape().to_vec();
            let array = e.evaluate(&Weights::default(), &Budget::default()).unwrap();
            assert_eq!(array.shape, shape);
            array.data
        };
        assert_eq!(value(counting(&[2, 3]).transpose(&[1, 0])), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
        assert_eq!(value(counting(&[2, 3]).slice(1, 1, 2)), [1.0, 2.0, 4.0, 5.0]);
        assert_eq!(
            value(counting(&[2, 1]).binary(Operator::Add, counting(&[2]))),
            [0.0, 1.0, 1.0, 2.0]
        );
        assert_eq!(value(counting(&[2]).rsqrt(0.25)), [2.0, (1.0f64 / 1.25f64.sqrt()) as f32]);
    }
}
