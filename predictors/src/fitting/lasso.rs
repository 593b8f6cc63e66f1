//! Lasso by linfa-elasticnet, fitted to relative error.
//!
//! Rows of X and y are divided by y, so the target is 1 and the squared error is the squared
//! relative error; the constant becomes the column 1/y. Columns are scaled to unit root mean square
//! after that, and there is no intercept. The penalty is chosen by cross-validation over groups.
//!
//! n rows are replaced by as many rows as there are columns: the Cholesky factor of X'X, which has
//! the same least-squares objective up to a constant. That makes every fit of the penalty path
//! cheap and changes nothing else.

use super::Fit;
use crate::regressors::{Baseline, FitData, Lasso, constant_of, dot};
use linfa::{Dataset, traits::Fit as _};
use linfa_elasticnet::ElasticNet;
use ndarray::{Array1, Array2};

/// Penalties tried, as shares of the smallest one that selects nothing.
const PENALTIES: [f64; 6] = [1e-1, 1e-2, 3e-3, 1e-3, 1e-4, 1e-5];
const FOLDS: usize = 5;
/// X'WX and X'W1 of rows divided by y, and the sum of weights.
#[derive(Clone)]
struct Gram {
    width: usize,
    matrix: Vec<f64>,
    target: Vec<f64>,
    weight: f64,
}

impl Gram {
    fn new(width: usize) -> Self {
        Self { width, matrix: vec![0.0; width * width], target: vec![0.0; width], weight: 0.0 }
    }

    fn add(&mut self, row: &[f64], weight: f64) {
        for i in 0..self.width {
            let scaled = weight * row[i];
            self.target[i] += scaled;
            for (m, r) in self.matrix[i * self.width..(i + 1) * self.width].iter_mut().zip(row) {
                *m += scaled * r;
            }
        }
        self.weight += weight;
    }

    fn minus(&self, other: &Self) -> Self {
        let less = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x - y).collect();
        Self {
            width: self.width,
            matrix: less(&self.matrix, &other.matrix),
            target: less(&self.target, &other.target),
            weight: self.weight - other.weight,
        }
    }

    /// Sum of squared relative errors of coefficients `w`.
    fn error(&self, w: &[f64]) -> f64 {
        let quadratic: f64 = (0..self.width)
            .map(|i| w[i] * dot(&self.matrix[i * self.width..(i + 1) * self.width], w))
            .sum();
        self.weight - 2.0 * dot(&self.target, w) + quadratic
    }

    /// Upper Cholesky factor R of the matrix with a little on its diagonal, and c with R'c =
    /// target.
    fn factor(&self) -> Option<(Vec<f64>, Vec<f64>)> {
        let n = self.width;
        let mut lower = vec![0.0; n * n];
        for i in 0..n {
            for j in 0..=i {
                let dots = dot(&lower[i * n..i * n + j], &lower[j * n..j * n + j]);
                let value = self.matrix[i * n + j] - dots;
                if i == j {
                    lower[i * n + i] = (value + 1e-9 * self.weight).max(1e-12 * self.weight).sqrt();
                } else {
                    lower[i * n + j] = value / lower[j * n + j];
                }
            }
        }
        let mut c = vec![0.0; n];
        for i in 0..n {
            c[i] = (self.target[i] - dot(&lower[i * n..i * n + i], &c[..i])) / lower[i * n + i];
        }
        let upper = (0..n * n).map(|k| lower[(k % n) * n + k / n]).collect();
        c.iter().all(|v| v.is_finite()).then_some((upper, c))
    }
}

/// Coefficients of every penalty in [`PENALTIES`].
fn path(gram: &Gram) -> Result<Vec<Vec<f64>>, String> {
    let n = gram.width;
    let (upper, c) = gram.factor().ok_or("the rows are not finite")?;
    // linfa minimises |c - Rw|^2 / (2 rows): scaling by sqrt(rows / weight) makes that the weighted
    // mean over all rows.
    let scale = (n as f64 / gram.weight).sqrt();
    let x = Array2::from_shape_vec((n, n), upper.iter().map(|v| v * scale).collect())
        .map_err(|e| e.to_string())?;
    let y = Array1::from_vec(c.iter().map(|v| v * scale).collect());
    let largest = gram.target.iter().fold(0.0f64, |m, t| m.max(t.abs())) / gram.weight;
    let dataset = Dataset::new(x, y);
    PENALTIES
        .iter()
        .map(|share| {
            let parameters = ElasticNet::params()
                .penalty(share * largest)
                .l1_ratio(1.0)
                .with_intercept(false)
                .tolerance(1e-5)
                .max_iterations(400);
            parameters.fit(&dataset).map(|fit| fit.hyperplane().to_vec()).map_err(|e| e.to_string())
        })
        .collect()
}

impl Fit for Lasso {
    fn fit(data: &FitData<'_>, _seed: u64) -> Result<Self, String> {
        let rows = data.rows();
        let varying: Vec<usize> = (0..data.columns)
            .filter(|c| !data.inseparable.contains(c) && data.constant_per != Some(*c))
            .filter(|&c| data.x.iter().skip(c).step_by(data.columns).any(|v| *v != data.x[c]))
            .collect();
        let is_per_call = |column| data.per_call.contains(&column) || hardly_varies(data, column);
        let per: Vec<Option<usize>> =
            varying.iter().map(|&c| data.constant_per.filter(|_| is_per_call(c))).collect();
        let raw = |i: usize| -> Vec<f64> {
            let row = &data.x[i * data.columns..(i + 1) * data.columns];
            std::iter::once(constant_of(1.0, data.constant_per, row))
                .chain(varying.iter().zip(&per).map(|(&c, &per)| constant_of(row[c], per, row)))
                .map(|v| v / data.y_ns[i])
                .collect()
        };
        let width = varying.len() + 1;
        let mut squares = vec![0.0; width];
        for i in 0..rows {
            raw(i).iter().zip(&mut squares).for_each(|(v, s)| *s += data.weights[i] * v * v);
        }
        let total: f64 = data.weights.iter().sum();
        let scales: Vec<f64> = squares
            .iter()
            .map(|s| (s / total).sqrt())
            .map(|s| if s > 0.0 { 1.0 / s } else { 0.0 })
            .collect();
        let mut folds = vec![Gram::new(width); FOLDS];
        for i in 0..rows {
            let scaled: Vec<f64> = raw(i).iter().zip(&scales).map(|(v, s)| v * s).collect();
            folds[data.groups[i] % FOLDS].add(&scaled, data.weights[i]);
        }
        let coefficients = choose(&folds)?;
        let ns: Vec<f64> = coefficients.iter().zip(&scales).map(|(w, s)| w * s).collect();
        let costs = varying.iter().copied().zip(ns.iter().skip(1).copied());
        let (per_call, coefficients): (Vec<_>, Vec<_>) =
            costs.zip(&per).filter(|((_, ns), _)| *ns != 0.0).partition(|(_, per)| per.is_some());
        let without_per = |costs: Vec<(_, _)>| costs.into_iter().map(|(cost, _)| cost).collect();
        Ok(Self {
            constant_ns: ns.first().copied().unwrap_or(0.0),
            constant_per: data.constant_per,
            per_call: without_per(per_call),
            coefficients: without_per(coefficients),
        })
    }
}

/// Whether rows cannot separate the cost of a column from the constant.
fn hardly_varies(data: &FitData<'_>, column: usize) -> bool {
    Baseline::inseparable(data.x, data.columns, &[column]) == [column]
}

/// Coefficients for all rows with the penalty that has the least cross-validated error.
fn choose(folds: &[Gram]) -> Result<Vec<f64>, String> {
    let width = folds.first().map_or(0, |f| f.width);
    let mut all = Gram::new(width);
    for fold in folds {
        all.matrix.iter_mut().zip(&fold.matrix).for_each(|(a, b)| *a += b);
        all.target.iter_mut().zip(&fold.target).for_each(|(a, b)| *a += b);
        all.weight += fold.weight;
    }
    let mut errors = [0.0; PENALTIES.len()];
    for fold in folds.iter().filter(|f| f.weight > 0.0 && f.weight < all.weight) {
        for (error, w) in errors.iter_mut().zip(path(&all.minus(fold))?) {
            *error += fold.error(&w);
        }
    }
    let best = errors.iter().enumerate().min_by(|a, b| a.1.total_cmp(b.1)).map_or(0, |(i, _)| i);
    path(&all)?.into_iter().nth(best).ok_or_else(|| "no penalty was tried".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_few_columns_that_matter() {
        let n = 400;
        let x: Vec<f64> = (0..n)
            .flat_map(|i: usize| {
                (0..8usize).map(move |j| {
                    ((i * (j + 3) * 7919 + j * 31) % 97 + 1) as f64 * 10f64.powi(j as i32)
                })
            })
            .collect();
        let y: Vec<f64> = x.chunks(8).map(|r| 200.0 + 3.0 * r[0] + 1e-4 * r[5]).collect();
        let groups: Vec<usize> = (0..n).map(|i| i % 13).collect();
        let data = FitData {
            columns: 8,
            x: &x,
            y_ns: &y,
            baseline_ns: &vec![1.0; n],
            weights: &vec![1.0; n],
            groups: &groups,
            inseparable: &[],
            constant_per: None,
            per_call: &[],
        };
        let lasso = Lasso::fit(&data, 0).expect("fits");
        let error: f64 =
            x.chunks(8).zip(&y).map(|(r, y)| (lasso.predict(r, 1.0) / y - 1.0).abs()).sum::<f64>()
                / n as f64;
        assert!(error < 0.01, "{error} {lasso:?}");
        assert!(lasso.is_valid(8) && !lasso.is_valid(3));
    }

    #[test]
    fn what_hardly_varies_is_paid_per_call() {
        // Column 1 is 24 or 25, as working sets of sampled models are.
        let rows: Vec<[f64; 3]> = (0..300)
            .map(|i| {
                let calls = 0.3 + 0.1 * f64::from(i % 7);
                [calls, f64::from(24 + i % 2), f64::from(i % 89 + 1) * 1e4]
            })
            .collect();
        let x: Vec<f64> = rows.iter().flatten().copied().collect();
        let y: Vec<f64> = rows.iter().map(|r| r[0] * 4e3 * r[1] + 0.1 * r[2]).collect();
        let groups: Vec<usize> = (0..rows.len()).map(|i| i % 13).collect();
        let data = FitData {
            columns: 3,
            x: &x,
            y_ns: &y,
            baseline_ns: &[1.0; 300],
            weights: &[1.0; 300],
            groups: &groups,
            inseparable: &[],
            constant_per: Some(0),
            per_call: &[],
        };
        let lasso = Lasso::fit(&data, 0).expect("fits");
        let warm = lasso.predict(&[0.1, 24.0, 1e4], 1.0);
        assert!((warm / 10.6e3 - 1.0).abs() < 0.1, "{warm} {lasso:?}");
        assert!(lasso.coefficients.iter().all(|(column, _)| *column == 2), "{lasso:?}");
        assert!(lasso.is_valid(3) && !lasso.is_valid(1));
    }

    #[test]
    fn forecasts_stay_positive() {
        let lasso = Lasso {
            constant_ns: -5.0,
            constant_per: None,
            per_call: vec![],
            coefficients: vec![(0, -1.0)],
        };
        assert!((lasso.predict(&[100.0], 50.0) - 5.0).abs() < 1e-12);
    }
}
