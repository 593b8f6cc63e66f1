//! Summaries of samples that tables and figures are made of. Medians are those of
//! `vitempo::predictors::metrics`.

use vitempo::planners::simulator::nearest_rank;

/// Geometric mean of the positive values; `None` without one.
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    let logs: Vec<f64> =
        values.iter().filter(|v| v.is_finite() && **v > 0.0).map(|v| v.ln()).collect();
    (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
}

/// The value below which a share `q` of the values lies (nearest rank); `None` without values.
pub fn quantile(values: &[f64], q: f64) -> Option<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    nearest_rank(&sorted, q)
}

/// Least squares: y = intercept + slope x.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    pub slope: f64,
    pub intercept: f64,
    /// Share of the variance of y that the line explains.
    pub r2: f64,
}

impl Line {
    /// `None` for fewer than three points, or where all have the same x or the same y.
    pub fn fit(points: &[(f64, f64)]) -> Option<Self> {
        let n = points.len() as f64;
        let (mean_x, mean_y) = (
            points.iter().map(|p| p.0).sum::<f64>() / n,
            points.iter().map(|p| p.1).sum::<f64>() / n,
        );
        let sum = |of: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>();
        let (xx, xy, yy) = (
            sum(&|p| (p.0 - mean_x).powi(2)),
            sum(&|p| (p.0 - mean_x) * (p.1 - mean_y)),
            sum(&|p| (p.1 - mean_y).powi(2)),
        );
        if points.len() < 3 || xx <= 0.0 || yy <= 0.0 {
            return None;
        }
        let slope = xy / xx;
        Some(Self { slope, intercept: mean_y - slope * mean_x, r2: xy * xy / (xx * yy) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        assert_eq!(geometric_mean(&[1.0, 4.0, f64::NAN, 0.0]), Some(2.0));
        assert_eq!(geometric_mean(&[]), None);
        assert_eq!(quantile(&[4.0, 1.0, 3.0, 2.0], 0.5), Some(2.0));
        assert_eq!(quantile(&[4.0, 1.0, 3.0, 2.0], 1.0), Some(4.0));
        assert_eq!(quantile(&[], 0.5), None);
        let line = Line::fit(&[(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)]).expect("three points");
        assert!(
            (line.slope - 2.0).abs() < 1e-12
                && (line.intercept - 1.0).abs() < 1e-12
                && (line.r2 - 1.0).abs() < 1e-12
        );
        assert_eq!(Line::fit(&[(1.0, 1.0), (1.0, 2.0), (1.0, 3.0)]), None);
    }
}
