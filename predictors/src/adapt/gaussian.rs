//! Small dense matrices for Gaussian conditioning: products and the Cholesky factor.

pub(crate) use crate::regressors::dot;
use serde::{Deserialize, Serialize};

/// A matrix, row after row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Matrix {
    pub rows: usize,
    pub columns: usize,
    #[serde(with = "super::adapted::single")]
    pub data: Vec<f64>,
}

impl Matrix {
    pub fn zeros(rows: usize, columns: usize) -> Self {
        Self { rows, columns, data: vec![0.0; rows * columns] }
    }

    pub fn diagonal(size: usize, value: f64) -> Self {
        let mut out = Self::zeros(size, size);
        (0..size).for_each(|i| out.data[i * size + i] = value);
        out
    }

    pub fn from_rows(rows: &[Vec<f64>]) -> Self {
        let columns = rows.first().map_or(0, Vec::len);
        Self { rows: rows.len(), columns, data: rows.concat() }
    }

    pub fn row(&self, i: usize) -> &[f64] {
        &self.data[i * self.columns..(i + 1) * self.columns]
    }

    pub fn at(&self, i: usize, j: usize) -> f64 {
        self.data[i * self.columns + j]
    }

    /// `self x other^T`.
    pub fn times_transposed(&self, other: &Self) -> Self {
        let data = (0..self.rows)
            .flat_map(|i| (0..other.rows).map(move |j| (i, j)))
            .map(|(i, j)| dot(self.row(i), other.row(j)))
            .collect();
        Self { rows: self.rows, columns: other.rows, data }
    }

    /// `self x vector`.
    pub fn times(&self, vector: &[f64]) -> Vec<f64> {
        (0..self.rows).map(|i| dot(self.row(i), vector)).collect()
    }

    /// `self^T x vector`.
    pub fn transposed_times(&self, vector: &[f64]) -> Vec<f64> {
        let mut out = vec![0.0; self.columns];
        for (i, v) in vector.iter().enumerate() {
            out.iter_mut().zip(self.row(i)).for_each(|(o, x)| *o += v * x);
        }
        out
    }

    /// Adds `factor x other`.
    pub fn add(&mut self, other: &Self, factor: f64) {
        self.data.iter_mut().zip(&other.data).for_each(|(a, b)| *a += factor * b);
    }

    /// Adds a smaller square matrix to the first rows and columns.
    pub fn add_corner(&mut self, other: &Self) {
        for i in 0..other.rows {
            let row = &mut self.data[i * self.columns..][..other.columns];
            row.iter_mut().zip(other.row(i)).for_each(|(a, b)| *a += b);
        }
    }

    /// The first `size` rows and columns.
    pub fn corner(&self, size: usize) -> Self {
        let data = (0..size).flat_map(|i| self.row(i)[..size].iter().copied()).collect();
        Self { rows: size, columns: size, data }
    }

    /// Adds `factor x v v^T`.
    pub fn add_outer(&mut self, v: &[f64], factor: f64) {
        for (i, a) in v.iter().enumerate().filter(|(_, a)| **a != 0.0) {
            let row = &mut self.data[i * self.columns..(i + 1) * self.columns];
            row.iter_mut().zip(v).for_each(|(x, b)| *x += factor * a * b);
        }
    }
}

/// The lower triangular factor of a symmetric positive definite matrix.
#[derive(Clone, Debug)]
pub(crate) struct Cholesky {
    factor: Matrix,
}

impl Cholesky {
    /// A pivot that rounding made too small counts as a tiny part of the largest, so that there is
    /// always a factor.
    pub fn new(matrix: &Matrix) -> Self {
        let n = matrix.rows;
        let mut factor = Matrix::zeros(n, n);
        let least = (0..n).map(|i| matrix.at(i, i)).fold(0.0, f64::max) * 1e-12 + f64::MIN_POSITIVE;
        for i in 0..n {
            for j in 0..=i {
                let rest = matrix.at(i, j) - dot(&factor.row(i)[..j], &factor.row(j)[..j]);
                factor.data[i * n + j] =
                    if i == j { rest.max(least).sqrt() } else { rest / factor.at(j, j) };
            }
        }
        Self { factor }
    }

    /// `L^-1 b`.
    pub fn forward(&self, b: &[f64]) -> Vec<f64> {
        let mut x: Vec<f64> = Vec::with_capacity(b.len());
        for (i, v) in b.iter().enumerate() {
            let done = dot(&self.factor.row(i)[..i], &x);
            x.push((v - done) / self.factor.at(i, i));
        }
        x
    }

    /// `(L L^T)^-1 b`.
    pub fn solve(&self, b: &[f64]) -> Vec<f64> {
        let mut x = self.forward(b);
        for i in (0..x.len()).rev() {
            let later: f64 = (i + 1..x.len()).map(|k| self.factor.at(k, i) * x[k]).sum();
            x[i] = (x[i] - later) / self.factor.at(i, i);
        }
        x
    }

    /// Half the logarithm of the determinant.
    pub fn half_log_determinant(&self) -> f64 {
        (0..self.factor.rows).map(|i| self.factor.at(i, i).ln()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn solves_by_hand() {
        let matrix = Matrix { rows: 2, columns: 2, data: vec![4.0, 2.0, 2.0, 3.0] };
        let cholesky = Cholesky::new(&matrix);
        let x = cholesky.solve(&[8.0, 8.0]);
        assert!((x[0] - 1.0).abs() < 1e-12 && (x[1] - 2.0).abs() < 1e-12, "{x:?}");
        assert!((cholesky.half_log_determinant() - 8.0_f64.ln() / 2.0).abs() < 1e-12);
        assert_eq!(matrix.times(&[1.0, 2.0]), [8.0, 8.0]);
        assert_eq!(matrix.times_transposed(&matrix).data, [20.0, 14.0, 14.0, 13.0]);
    }

    #[test]
    fn a_singular_matrix_still_has_a_factor() {
        let x = Cholesky::new(&Matrix { rows: 2, columns: 2, data: vec![1.0, 1.0, 1.0, 1.0] })
            .solve(&[1.0, 1.0]);
        assert!(x.iter().all(|v| v.is_finite()));
    }
}
