//! Constants as expressions over a model's weights: what the layout pass makes of them (transposed,
//! reshaped, folded together), without their values.

use super::TfliteError;
use super::weights::Weights;

/// Elements in row-major order, as 32-bit floats.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Array {
    pub shape: Vec<usize>,
    pub data: Vec<f32>,
}

/// How a constant is computed from weights.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expression {
    /// A value of the graph, by name, with its shape.
    Weight(String, Vec<usize>),
    /// Numbers that are known.
    Numbers(Vec<f32>, Vec<usize>),
    Reshape(Box<Self>, Vec<usize>),
    Transpose(Box<Self>, Vec<usize>),
    /// Axis, start, extent.
    Slice(Box<Self>, usize, usize, usize),
    /// Elementwise with broadcasting.
    Binary(Operator, Box<Self>, Box<Self>),
    /// 1 / sqrt(x + epsilon).
    Rsqrt(Box<Self>, f32),
}

/// Elementwise operators of expressions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Add,
    Sub,
    Mul,
}

impl Expression {
    pub(crate) fn scalar(value: f32) -> Self {
        Self::Numbers(vec![value], Vec::new())
    }

    pub(crate) fn reshape(self, shape: impl Into<Vec<usize>>) -> Self {
        let shape = shape.into();
        if self.shape() == shape { self } else { Self::Reshape(Box::new(self), shape) }
    }

    pub(crate) fn transpose(self, perm: &[usize]) -> Self {
        if perm.iter().enumerate().all(|(i, &p)| i == p) {
            self
        } else {
            Self::Transpose(Box::new(self), perm.to_vec())
        }
    }

    pub(crate) fn slice(self, axis: usize, start: usize, extent: usize) -> Self {
        Self::Slice(Box::new(self), axis, start, extent)
    }

    pub(crate) fn binary(self, operator: Operator, other: Self) -> Self {
        Self::Binary(operator, Box::new(self), Box::new(other))
    }

    /// Shape of the result.
    pub(crate) fn shape(&self) -> Vec<usize> {
        match self {
            Self::Weight(_, shape) | Self::Numbers(_, shape) | Self::Reshape(_, shape) => {
                shape.clone()
            }
            Self::Transpose(of, perm) => {
                let shape = of.shape();
                perm.iter().map(|&p| shape[p]).collect()
            }
            Self::Slice(of, axis, _, extent) => {
                let mut shape = of.shape();
                shape[*axis] = *extent;
                shape
            }
            Self::Binary(_, a, b) => {
                let (a, b) = (a.shape(), b.shape());
                crate::shape::broadcast(&a, &b).map_or(a, |shape| shape.to_vec())
            }
            Self::Rsqrt(of, _) => of.shape(),
        }
    }

    /// The values.
    ///
    /// # Errors
    /// [`TfliteError`] where a weight is absent.
    pub(crate) fn evaluate(&self, weights: &Weights) -> Result<Array, TfliteError> {
        Ok(match self {
            Self::Weight(name, shape) => weights.array(name, shape)?,
            Self::Numbers(data, shape) => Array { shape: shape.clone(), data: data.clone() },
            Self::Reshape(of, shape) => {
                Array { shape: shape.clone(), data: of.evaluate(weights)?.data }
            }
            Self::Transpose(of, perm) => of.evaluate(weights)?.transposed(perm),
            Self::Slice(of, axis, start, extent) => {
                of.evaluate(weights)?.sliced(*axis, *start, *extent)
            }
            Self::Binary(operator, a, b) => {
                a.evaluate(weights)?.combined(*operator, &b.evaluate(weights)?, self.shape())
            }
            Self::Rsqrt(of, epsilon) => {
                let mut of = of.evaluate(weights)?;
                of.data.iter_mut().for_each(|v| *v = (1.0 / f64::from(*v + epsilon).sqrt()) as f32);
                of
            }
        })
    }
}

fn strides(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    for i in (1..shape.len()).rev() {
        strides[i - 1] = strides[i] * shape[i];
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
        Expression::Numbers((0..count).map(|i| i as f32).collect(), shape.to_vec())
    }

    #[test]
    fn constants_are_moved_and_folded() {
        let value = |e: Expression| {
            let shape = e.shape();
            let array = e.evaluate(&Weights::default()).unwrap();
            assert_eq!(array.shape, shape);
            array.data
        };
        assert_eq!(value(counting(&[2, 3]).transpose(&[1, 0])), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
        assert_eq!(value(counting(&[2, 3]).slice(1, 1, 2)), [1.0, 2.0, 4.0, 5.0]);
        assert_eq!(
            value(counting(&[2, 1]).binary(Operator::Add, counting(&[2]))),
            [0.0, 1.0, 1.0, 2.0]
        );
        assert_eq!(
            value(Expression::Rsqrt(Box::new(counting(&[2])), 0.25)),
            [2.0, (1.0f64 / 1.25f64.sqrt()) as f32]
        );
    }
}
