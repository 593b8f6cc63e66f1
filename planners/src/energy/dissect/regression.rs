//! Least squares for the mean power of each part of a frame from samples of a sensor.
//!
//! A sample is a power at a moment, or the mean power over a time, so that it can cover several
//! parts: sample = preview + sum of (share of the part in that time) x (power of the part). A part
//! that no sample covers, or that cannot be distinguished from others, has no solution. Each sample
//! counts as much as the time that it stands for.

use super::samples::Samples;

/// A time on one clock that belongs to a part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Segment {
    pub start_s: f64,
    pub end_s: f64,
    /// Index of the part.
    pub part: usize,
}

/// Powers of the parts, and how well they explain the samples.
#[derive(Clone, Debug)]
pub(super) struct Fit {
    /// By part, W above the preview.
    pub watts: Vec<f64>,
    /// Mean squared difference between samples and what the parts explain, W^2.
    pub residual: f64,
    /// Number of samples.
    pub count: usize,
}

/// Normal equations under construction.
struct Normal {
    width: usize,
    matrix: Vec<f64>,
    vector: Vec<f64>,
    squares: f64,
    weight: f64,
    count: usize,
}

impl Normal {
    fn new(width: usize) -> Self {
        Self {
            width,
            matrix: vec![0.0; width * width],
            vector: vec![0.0; width],
            squares: 0.0,
            weight: 0.0,
            count: 0,
        }
    }

    /// Adds one equation: a few columns with their factors.
    fn add(&mut self, row: &[(usize, f64)], value: f64, weight: f64) {
        for &(i, a) in row {
            self.vector[i] += weight * a * value;
            for &(j, b) in row {
                self.matrix[i * self.width + j] += weight * a * b;
            }
        }
        self.squares += weight * value * value;
        self.weight += weight;
        self.count += 1;
    }

    /// Gaussian elimination with pivoting; the index of a column that has no solution otherwise.
    fn solve(&self) -> Result<Fit, usize> {
        let n = self.width;
        let (mut m, mut v) = (self.matrix.clone(), self.vector.clone());
        let scale = m.iter().fold(0.0f64, |most, x| most.max(x.abs()));
        for column in 0..n {
            let order =
                |a: &usize, b: &usize| m[a * n + column].abs().total_cmp(&m[b * n + column].abs());
            let pivot = (column..n).max_by(order).unwrap_or(column);
            if m[pivot * n + column].abs() <= 1e-9 * scale || scale == 0.0 {
                return Err(column);
            }
            for k in 0..n {
                m.swap(column * n + k, pivot * n + k);
            }
            v.swap(column, pivot);
            for row in column + 1..n {
                let factor = m[row * n + column] / m[column * n + column];
                for k in column..n {
                    m[row * n + k] -= factor * m[column * n + k];
                }
                v[row] -= factor * v[column];
            }
        }
        let mut watts = vec![0.0; n];
        for row in (0..n).rev() {
            let known: f64 = (row + 1..n).map(|k| m[row * n + k] * watts[k]).sum();
            watts[row] = (v[row] - known) / m[row * n + row];
        }
        let explained: f64 = watts.iter().zip(&self.vector).map(|(w, v)| w * v).sum();
        let residual = (self.squares - explained).max(0.0) / self.weight;
        Ok(Fit { watts, residual, count: self.count })
    }
}

/// The powers of `parts` parts that explain the samples best, above `preview_w`; with `drift_from_s`
/// a last power is the sensor's drift since that time, W/s. The segments are on the samples' clock,
/// ascending, without gaps between them.
///
/// # Errors
/// The index of a part that the samples do not determine.
pub(super) fn fit(
    samples: &Samples,
    segments: &[Segment],
    parts: usize,
    preview_w: f64,
    drift_from_s: Option<f64>,
) -> Result<Fit, usize> {
    let mut normal = Normal::new(parts + usize::from(drift_from_s.is_some()));
    let (Some(first), Some(last)) = (segments.first(), segments.last()) else { return Err(0) };
    let mut at = 0;
    let mut row: Vec<(usize, f64)> = Vec::new();
    for (from_s, time_s, power_w, weight) in samples.iter() {
        if from_s < first.start_s || time_s >= last.end_s {
            continue;
        }
        while segments[at].end_s <= from_s && at + 1 < segments.len() {
            at += 1;
        }
        row.clear();
        shares(&segments[at..], from_s, time_s, &mut row);
        if let Some(since_s) = drift_from_s {
            row.push((parts, 0.5 * (from_s + time_s) - since_s));
        }
        normal.add(&row, power_w - preview_w, weight);
    }
    normal.solve()
}

/// The share of each part in a time that begins in the first segment.
fn shares(segments: &[Segment], from_s: f64, to_s: f64, row: &mut Vec<(usize, f64)>) {
    let whole_s = to_s - from_s;
    if whole_s <= 0.0 {
        row.extend(segments.first().map(|segment| (segment.part, 1.0)));
        return;
    }
    for segment in segments.iter().take_while(|segment| segment.start_s < to_s) {
        let within_s = segment.end_s.min(to_s) - segment.start_s.max(from_s);
        if within_s <= 0.0 {
            continue;
        }
        let share = within_s / whole_s;
        match row.iter_mut().find(|(part, _)| *part == segment.part) {
            Some((_, sum)) => *sum += share,
            None => row.push((segment.part, share)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::energy::trace::{Averaging, PowerTrace};

    fn segment(start_s: f64, end_s: f64, part: usize) -> Segment {
        Segment { start_s, end_s, part }
    }

    #[test]
    fn averages_over_two_parts_are_divided_between_them() {
        // Parts of 1 and 3 W in turn, 0.3 s each; a sensor that averages over 0.2 s.
        let segments: Vec<Segment> = (0..20)
            .map(|i| segment(0.3 * f64::from(i), 0.3 * f64::from(i + 1), i as usize % 2))
            .collect();
        let energy = |to_s: f64| {
            let of = |s: &Segment| (to_s.min(s.end_s) - s.start_s).max(0.0) * [1.0, 3.0][s.part];
            segments.iter().map(of).sum::<f64>()
        };
        let time_s: Vec<f64> = (1..29).map(|i| 0.2 * f64::from(i)).collect();
        let power_w: Vec<f64> = time_s
            .iter()
            .map(|&t| 5.0 + 0.1 * (t - 0.1) + (energy(t) - energy(t - 0.2)) / 0.2)
            .collect();
        let trace = PowerTrace::new(time_s, power_w).expect("a trace");
        let samples = Samples::of(&trace, Averaging::Over(0.2));
        let found = fit(&samples, &segments, 2, 5.0, Some(0.0)).expect("a solution");
        for (watts, expected) in found.watts.iter().zip([1.0, 3.0, 0.1]) {
            assert!((watts - expected).abs() < 1e-9, "{found:?}");
        }
        assert!(found.residual < 1e-12);
    }

    #[test]
    fn parts_that_samples_do_not_determine_are_named() {
        let segments = [segment(0.0, 1.0, 0), segment(1.0, 1.1, 1), segment(1.1, 2.0, 0)];
        let trace = PowerTrace::new(vec![0.5, 0.9, 1.5], vec![1.0; 3]).expect("a trace");
        let samples = Samples::of(&trace, Averaging::Moment);
        assert_eq!(fit(&samples, &segments, 2, 0.0, None).map(|f| f.watts), Err(1));
    }
}
