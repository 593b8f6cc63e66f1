//! Summaries of samples: median and its interval, spread.
//!
//! All functions take nanoseconds (or any other unit) and give the same unit; none assumes a
//! distribution. Timings have a hard floor and a long upper tail, so order statistics are used
//! throughout.

pub use vitempo_graph::median;

/// Median absolute deviation from the median, not scaled. `None` without samples.
#[must_use]
pub fn median_absolute_deviation(samples: &[u64]) -> Option<f64> {
    let center = median(samples)?;
    let mut deviations: Vec<f64> = samples.iter().map(|&s| (s as f64 - center).abs()).collect();
    deviations.sort_by(f64::total_cmp);
    quantile_sorted(&deviations, 0.5)
}

/// The 95 % confidence interval of the median by order statistics: sample number k from below and
/// number k from above, with the largest k for which P(Binomial(n, 1/2) < k) <= 2.5 %. `None` for
/// fewer than 6 samples: their whole range covers the median less often than that.
#[must_use]
pub fn median_interval(samples: &[u64]) -> Option<(u64, u64)> {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    let rank = interval_rank(sorted.len())?;
    Some((sorted[rank - 1], sorted[sorted.len() - rank]))
}

/// Half the width of [`median_interval`] as a share of the median. `None` where there is no
/// interval; 0 when the median is 0.
#[must_use]
pub fn relative_half_width(samples: &[u64]) -> Option<f64> {
    let (low, high) = median_interval(samples)?;
    let center = median(samples)?;
    Some(if center > 0.0 { (high - low) as f64 / 2.0 / center } else { 0.0 })
}

/// The k of [`median_interval`], counted from 1.
fn interval_rank(n: usize) -> Option<usize> {
    if n < 6 {
        return None;
    }
    if n > 1000 {
        let half_width = 1.959_964 * (n as f64).sqrt() / 2.0;
        return Some(((n as f64 / 2.0 - half_width).floor() as usize).max(1));
    }
    let mut probability = 0.5f64.powi(i32::try_from(n).unwrap_or(i32::MAX));
    let mut below = 0.0;
    for k in 0..n {
        below += probability;
        if below > 0.025 {
            return (k > 0).then_some(k);
        }
        probability *= (n - k) as f64 / (k + 1) as f64;
    }
    None
}

/// Linear interpolation between the two nearest ranks.
fn quantile_sorted(sorted: &[f64], share: f64) -> Option<f64> {
    let position = share * sorted.len().checked_sub(1)? as f64;
    let (low, high) = (position.floor() as usize, position.ceil() as usize);
    Some(sorted[low] + (sorted[high] - sorted[low]) * (position - low as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_by_hand() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[7]), Some(7.0));
        assert_eq!(median(&[4, 1, 3, 2]), Some(2.5));
        assert_eq!(median_absolute_deviation(&[1, 1, 2, 2, 4, 6, 9]), Some(1.0));
    }

    #[test]
    fn interval_ranks_are_those_of_the_tables() {
        // Conover, Practical Nonparametric Statistics: n = 6..8 take the 1st, 9..11 the 2nd, 12..14
        // the 3rd, 15, 16 the 4th, 20 the 6th, 30 the 10th.
        for (n, rank) in [
            (5, None),
            (6, Some(1)),
            (8, Some(1)),
            (9, Some(2)),
            (12, Some(3)),
            (15, Some(4)),
            (20, Some(6)),
            (30, Some(10)),
            (100, Some(40)),
        ] {
            assert_eq!(interval_rank(n), rank, "{n}");
        }
        assert_eq!(interval_rank(1001), Some(469));
        assert_eq!(median_interval(&[5, 3, 1, 4, 2, 6]), Some((1, 6)));
        assert_eq!(median_interval(&[9, 8, 7, 6, 5, 4, 3, 2, 1]), Some((2, 8)));
        assert_eq!(relative_half_width(&[9, 8, 7, 6, 5, 4, 3, 2, 1]), Some(0.6));
        assert_eq!(relative_half_width(&[0; 6]), Some(0.0));
    }
}
