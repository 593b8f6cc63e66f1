//! [`fitted`]: least squares with coefficients that are not negative. With three coefficients, the
//! best fit is the best of those in which a subset is free and the others are 0, and none comes out
//! below 0.
//!
//! An error counts as a share of the geometric mean of forecast and measured time, so that half of a
//! time is as wrong as twice of it; relative to the measured time alone, forecasts would be too low.
//! The forecasts are those of the fit before, from the measured times on.

use super::{Coefficients, MeasuredLoad};

/// Number of fits, each with the forecasts of the one before.
const FITS: usize = 12;
/// Forecasts below this share of the measured time count as this share.
const LEAST: f64 = 0.05;

/// The best fit; `None` without times.
pub(super) fn fitted(loads: &[&MeasuredLoad]) -> Option<Coefficients> {
    let measured = |load: &MeasuredLoad| load.load_ns.max(1) as f64;
    let mut forecasts: Vec<f64> = loads.iter().map(|load| measured(load)).collect();
    let mut found = None;
    for _ in 0..FITS {
        let row = |(load, forecast): (&&MeasuredLoad, &f64)| {
            let ns = measured(load);
            let mean = (forecast.max(LEAST * ns) * ns).sqrt();
            let size = load.size;
            [1.0, size.operators as f64, size.weight_bytes as f64, ns].map(|x| x / mean)
        };
        let rows: Vec<[f64; 4]> = loads.iter().zip(&forecasts).map(row).collect();
        let coefficients = best(&rows)?;
        forecasts = loads.iter().map(|load| coefficients.forecast_ns(load.size)).collect();
        found = Some(coefficients);
    }
    found
}

/// The best of the fits to these rows: three columns, and what they add up to.
fn best(rows: &[[f64; 4]]) -> Option<Coefficients> {
    let error = |of: &[f64; 3]| {
        let one =
            |row: &[f64; 4]| (row.iter().zip(of).map(|(x, c)| x * c).sum::<f64>() - row[3]).powi(2);
        rows.iter().map(one).sum::<f64>()
    };
    let candidates = (1u8..8).filter_map(|mask| least_squares(rows, mask));
    let allowed = candidates.filter(|found| found.iter().all(|c| c.is_finite() && *c >= 0.0));
    let [base_ns, per_operator_ns, per_byte_ns] =
        allowed.min_by(|a, b| error(a).total_cmp(&error(b)))?;
    Some(Coefficients { base_ns, per_operator_ns, per_byte_ns })
}

/// Coefficients in the subset `mask` that bring every row closest to its sum; `None` where they are not
/// determined.
fn least_squares(rows: &[[f64; 4]], mask: u8) -> Option<[f64; 3]> {
    let free: Vec<usize> = (0..3).filter(|index| mask >> index & 1 == 1).collect();
    // Columns of very different sizes: each is scaled to length 1.
    let length = |&c: &usize| rows.iter().map(|row| row[c] * row[c]).sum::<f64>().sqrt();
    let scale: Vec<f64> = free.iter().map(length).collect();
    if rows.len() < free.len() || scale.contains(&0.0) {
        return None;
    }
    let n = free.len();
    let mut system = vec![vec![0.0; n + 1]; n];
    for row in rows {
        let x: Vec<f64> = free.iter().zip(&scale).map(|(&c, scale)| row[c] / scale).collect();
        for (i, equation) in system.iter_mut().enumerate() {
            (0..n).for_each(|j| equation[j] += x[i] * x[j]);
            equation[n] += x[i] * row[3];
        }
    }
    let solution = solved(system)?;
    let mut coefficients = [0.0; 3];
    for ((&c, scale), value) in free.iter().zip(&scale).zip(solution) {
        coefficients[c] = value / scale;
    }
    Some(coefficients)
}

/// Gaussian elimination with the largest pivot.
fn solved(mut system: Vec<Vec<f64>>) -> Option<Vec<f64>> {
    let n = system.len();
    for column in 0..n {
        let size = |row: &usize| system[*row][column].abs();
        let pivot = (column..n).max_by(|a, b| size(a).total_cmp(&size(b)))?;
        if system[pivot][column].abs() < 1e-12 {
            return None;
        }
        system.swap(column, pivot);
        let (above, below) = system.split_at_mut(column + 1);
        let used = &above[column];
        for row in below {
            let factor = row[column] / used[column];
            (column..=n).for_each(|k| row[k] -= factor * used[k]);
        }
    }
    let mut solution = vec![0.0; n];
    for row in (0..n).rev() {
        let known: f64 = (row + 1..n).map(|k| system[row][k] * solution[k]).sum();
        solution[row] = (system[row][n] - known) / system[row][row];
    }
    Some(solution)
}
