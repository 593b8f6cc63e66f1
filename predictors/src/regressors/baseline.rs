//! The work-and-bytes baseline: latency = c0 + c1 x work + c2 x bytes + ..., every coefficient at
//! least 0, fitted to relative error.
//!
//! Minimises sum w (1 - (A c)_i / y_i)^2 over c >= 0 by coordinate descent on the Gram matrix,
//! twice: the second time, rows with large errors have smaller weights. The coefficients are then
//! scaled so that the median of actual over predicted is 1. Units: ns per unit of each column.

use super::dot;
use crate::metrics::median;
use serde::{Deserialize, Serialize};

/// Coefficients of some columns of a family.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// Constant term, ns.
    #[serde(with = "crate::bits")]
    pub constant_ns: f64,
    /// Column and nanoseconds per unit of it.
    #[serde(with = "crate::bits::by_column")]
    pub coefficients: Vec<(usize, f64)>,
    /// No forecast is smaller than this, ns; positive.
    #[serde(with = "crate::bits")]
    pub floor_ns: f64,
}

/// Relative residual at which a row counts half in the second pass.
const FAR_OFF: f64 = 0.5;
/// Factor by which a column varies if its coefficient is fitted.
const WIDELY: f64 = 4.0;
const SWEEPS: usize = 2000;

impl Baseline {
    /// Fits to rows of `columns` features each, using only the columns in `chosen`, and of these
    /// only such that vary widely: rows cannot separate the cost of any other from the constant, by
    /// which it would multiply the forecast of an operator with a hundred times as much of it.
    #[must_use]
    pub fn fit(x: &[f64], columns: usize, chosen: &[usize], y_ns: &[f64], weights: &[f64]) -> Self {
        let chosen = varying(x, columns, chosen);
        let design: Vec<Vec<f64>> = x
            .chunks_exact(columns.max(1))
            .zip(y_ns)
            .map(|(row, y)| {
                std::iter::once(1.0 / y)
                    .chain(chosen.iter().map(|&c| row.get(c).copied().unwrap_or(0.0) / y))
                    .collect()
            })
            .collect();
        let first = solve(&design, weights);
        let reweighted: Vec<f64> = design
            .iter()
            .zip(weights)
            .map(|(row, w)| w / (1.0 + ((dot(row, &first) - 1.0) / FAR_OFF).powi(2)))
            .collect();
        let second = solve(&design, &reweighted);
        let ratios: Vec<f64> =
            design.iter().map(|row| 1.0 / dot(row, &second)).filter(|r| r.is_finite()).collect();
        let scale = median(&ratios).unwrap_or(1.0);
        let least = y_ns.iter().copied().fold(f64::INFINITY, f64::min);
        let mut coefficients = chosen
            .iter()
            .copied()
            .zip(second.iter().skip(1).map(|c| c * scale))
            .collect::<Vec<_>>();
        coefficients.retain(|(_, c)| *c > 0.0);
        Self {
            constant_ns: second.first().copied().unwrap_or(0.0) * scale,
            coefficients,
            floor_ns: if least.is_finite() { least * 0.2 } else { 1.0 }.max(1.0),
        }
    }

    /// Latency in ns; positive.
    #[must_use]
    pub fn predict(&self, x: &[f64]) -> f64 {
        let sum: f64 = self
            .coefficients
            .iter()
            .map(|(column, c)| c * x.get(*column).copied().unwrap_or(0.0))
            .sum();
        (self.constant_ns + sum).max(self.floor_ns)
    }

    /// Whether every number is finite and in its range for rows of `columns` features.
    #[must_use]
    pub fn is_valid(&self, columns: usize) -> bool {
        let sane = |v: f64| v.is_finite() && v >= 0.0;
        sane(self.constant_ns)
            && sane(self.floor_ns)
            && self.floor_ns > 0.0
            && self.coefficients.iter().all(|(i, c)| *i < columns && sane(*c))
    }
}

/// Those of the columns whose largest value is at least [`WIDELY`] times the smallest.
fn varying(x: &[f64], columns: usize, chosen: &[usize]) -> Vec<usize> {
    let extremes = |column: usize| {
        x.chunks_exact(columns.max(1))
            .filter_map(|row| row.get(column))
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(*v), high.max(*v)))
    };
    let varies = |(low, high): (f64, f64)| high > low && high >= WIDELY * low;
    chosen.iter().copied().filter(|&column| varies(extremes(column))).collect()
}

/// Non-negative least squares of `design * c = 1`, on columns scaled to unit root mean square.
fn solve(design: &[Vec<f64>], weights: &[f64]) -> Vec<f64> {
    let width = design.first().map_or(0, Vec::len);
    let total: f64 = weights.iter().sum::<f64>().max(f64::MIN_POSITIVE);
    let scales: Vec<f64> = (0..width)
        .map(|j| {
            (design.iter().zip(weights).map(|(r, w)| w * r[j] * r[j]).sum::<f64>() / total).sqrt()
        })
        .collect();
    let inverse: Vec<f64> = scales.iter().map(|s| if *s > 0.0 { 1.0 / s } else { 0.0 }).collect();
    let mut gram = vec![0.0; width * width];
    let mut target = vec![0.0; width];
    for (row, w) in design.iter().zip(weights) {
        for i in 0..width {
            let scaled = w * row[i] * inverse[i];
            target[i] += scaled;
            for j in 0..=i {
                gram[i * width + j] += scaled * row[j] * inverse[j];
            }
        }
    }
    for i in 0..width {
        for j in i + 1..width {
            gram[i * width + j] = gram[j * width + i];
        }
    }
    let scaled = descend(&gram, &target, width);
    scaled.iter().zip(&inverse).map(|(c, s)| c * s).collect()
}

fn descend(gram: &[f64], target: &[f64], width: usize) -> Vec<f64> {
    let mut c = vec![0.0; width];
    for _ in 0..SWEEPS {
        let mut moved = 0.0f64;
        for j in 0..width {
            let diagonal = gram[j * width + j];
            if diagonal <= 0.0 {
                continue;
            }
            let gradient = target[j] - dot(&gram[j * width..(j + 1) * width], &c);
            let next = (c[j] + gradient / (diagonal * (1.0 + 1e-9))).max(0.0);
            moved = moved.max((next - c[j]).abs());
            c[j] = next;
        }
        if moved < 1e-9 {
            break;
        }
    }
    c
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recovers_the_coefficients_of_a_known_law() {
        let rows: Vec<[f64; 3]> = (1..60)
            .map(|i| [f64::from(i) * 1e6, f64::from(i * i % 17 + 1) * 1e3, f64::from(i % 5)])
            .collect();
        let x: Vec<f64> = rows.iter().flatten().copied().collect();
        let y: Vec<f64> = rows.iter().map(|r| 500.0 + 0.01 * r[0] + 0.2 * r[1]).collect();
        let fit = Baseline::fit(&x, 3, &[0, 1, 2], &y, &vec![1.0; y.len()]);
        for (row, y) in rows.iter().zip(&y) {
            assert!((fit.predict(row) / y - 1.0).abs() < 1e-3, "{fit:?}");
        }
        assert!(
            (fit.predict(&[1e9, 0.0, 0.0]) / 1.00005e7 - 1.0).abs() < 1e-2,
            "it extrapolates along the work"
        );
    }

    #[test]
    fn a_column_that_hardly_varies_does_not_multiply_forecasts() {
        let rows: Vec<[f64; 2]> =
            (0..60).map(|i| [f64::from(2 + i % 2), f64::from(i + 1) * 1e5]).collect();
        let x: Vec<f64> = rows.iter().flatten().copied().collect();
        let y: Vec<f64> = rows.iter().map(|r| 3000.0 + 1000.0 * r[0] + 0.01 * r[1]).collect();
        let fit = Baseline::fit(&x, 2, &[0, 1], &y, &vec![1.0; y.len()]);
        assert_eq!(fit.coefficients.iter().map(|c| c.0).collect::<Vec<_>>(), [1]);
        assert!((fit.predict(&[300.0, 1e6]) / 15500.0 - 1.0).abs() < 0.1, "{fit:?}");
        assert!(fit.predict(&[2.0, 1e9]) > 9e6, "it extrapolates along the column that varies");
    }

    #[test]
    fn never_negative_and_never_zero() {
        let x = [1.0, 2.0, 3.0, 4.0];
        let fit = Baseline::fit(&x, 1, &[0], &[400.0, 300.0, 200.0, 100.0], &[1.0; 4]);
        assert!(fit.is_valid(1));
        assert!([0.0, 1.0, 1e9].iter().all(|v| fit.predict(&[*v]) > 0.0));
        assert!(Baseline::fit(&[], 1, &[0], &[], &[]).predict(&[1.0]) > 0.0);
    }
}
