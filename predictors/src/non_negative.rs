//! [`fitted`]: least squares with coefficients that are not negative. With few coefficients, the best
//! fit is the best of those in which a subset is free and the others are 0, and none comes out below
//! 0.
//!
//! An error counts as a share of the geometric mean of forecast and measured value, so that half of a
//! value is as wrong as twice of it; relative to the measured value alone, forecasts would be too
//! low. The forecasts are those of the fit before, from the measured values on.

/// Number of fits, each with the forecasts of the one before.
const FITS: usize = 12;
/// Forecasts below this share of the measured value count as this share.
const LEAST: f64 = 0.05;

/// What a value depends on, and the value measured, above 0.
pub type Row<const N: usize> = ([f64; N], f64);

/// The sum of the columns times their coefficients.
#[must_use]
pub fn forecast<const N: usize>(columns: &[f64; N], coefficients: &[f64; N]) -> f64 {
    columns.iter().zip(coefficients).map(|(x, c)| x * c).sum()
}

/// The best fit; `None` where there are too few rows.
#[must_use]
pub fn fitted<const N: usize>(rows: &[Row<N>]) -> Option<[f64; N]> {
    let mut forecasts: Vec<f64> = rows.iter().map(|(_, measured)| *measured).collect();
    let mut found = None;
    for _ in 0..FITS {
        let scaled = |((columns, measured), forecast): (&Row<N>, &f64)| {
            let mean = (forecast.max(LEAST * measured) * measured).sqrt();
            (columns.map(|x| x / mean), measured / mean)
        };
        let scaled: Vec<Row<N>> = rows.iter().zip(&forecasts).map(scaled).collect();
        let coefficients = best(&scaled)?;
        forecasts = rows.iter().map(|(columns, _)| forecast(columns, &coefficients)).collect();
        found = Some(coefficients);
    }
    found
}

/// The best of the fits to these rows.
fn best<const N: usize>(rows: &[Row<N>]) -> Option<[f64; N]> {
    let error = |coefficients: &[f64; N]| {
        rows.iter().map(|(x, y)| (forecast(x, coefficients) - y).powi(2)).sum::<f64>()
    };
    let candidates = (1u32..1 << N).filter_map(|mask| least_squares(rows, mask));
    let allowed = candidates.filter(|found| found.iter().all(|c| c.is_finite() && *c >= 0.0));
    allowed.min_by(|a, b| error(a).total_cmp(&error(b)))
}

/// Coefficients in the subset `mask` that bring every row closest to its sum; `None` where they are not
/// determined.
fn least_squares<const N: usize>(rows: &[Row<N>], mask: u32) -> Option<[f64; N]> {
    let free: Vec<usize> = (0..N).filter(|index| mask >> index & 1 == 1).collect();
    // Columns of very different sizes: each is scaled to length 1.
    let length = |&c: &usize| rows.iter().map(|(x, _)| x[c] * x[c]).sum::<f64>().sqrt();
    let scale: Vec<f64> = free.iter().map(length).collect();
    if rows.len() < free.len() || scale.contains(&0.0) {
        return None;
    }
    let n = free.len();
    let mut system = vec![vec![0.0; n + 1]; n];
    for (columns, value) in rows {
        let x: Vec<f64> = free.iter().zip(&scale).map(|(&c, scale)| columns[c] / scale).collect();
        for (i, equation) in system.iter_mut().enumerate() {
            (0..n).for_each(|j| equation[j] += x[i] * x[j]);
            equation[n] += x[i] * value;
        }
    }
    let solution = solved(system)?;
    let mut coefficients = [0.0; N];
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
