//! [`spearman`]: Spearman's rank correlation of two lists.

/// Spearman's rank correlation, ties at their mean rank: 1 same order, -1 reversed. `None` for
/// fewer than two pairs, or where all are equal.
#[must_use]
pub fn spearman(a: &[f64], b: &[f64]) -> Option<f64> {
    let (a, b) = (ranks(a), ranks(b));
    if a.len() != b.len() || a.len() < 2 {
        return None;
    }
    let mean = (a.len() as f64 + 1.0) / 2.0;
    let sum =
        |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| (x - mean) * (y - mean)).sum::<f64>();
    let scale = (sum(&a, &a) * sum(&b, &b)).sqrt();
    (scale > 0.0).then(|| sum(&a, &b) / scale)
}

/// Ranks from 1; equal values share the mean of theirs.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&i, &j| values[i].total_cmp(&values[j]));
    let mut ranks = vec![0.0; values.len()];
    let mut from = 0;
    for equal in order.chunk_by(|&i, &j| values[i] == values[j]) {
        let rank = from as f64 + (equal.len() as f64 + 1.0) / 2.0;
        equal.iter().for_each(|&i| ranks[i] = rank);
        from += equal.len();
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        assert_eq!(ranks(&[30.0, 10.0, 20.0, 20.0]), [4.0, 1.0, 2.5, 2.5]);
        assert_eq!(spearman(&[1.0, 2.0, 3.0], &[10.0, 40.0, 90.0]), Some(1.0));
        assert_eq!(spearman(&[1.0, 2.0, 3.0], &[3.0, 2.0, 1.0]), Some(-1.0));
        // Differences of ranks 1, 1, 1, 1: 1 - 6 * 4 / (4 * 15).
        assert!(
            spearman(&[1.0, 2.0, 3.0, 4.0], &[2.0, 1.0, 4.0, 3.0])
                .is_some_and(|r| (r - 0.6).abs() < 1e-12)
        );
        assert!(
            spearman(&[1.0, 2.0, 2.0, 3.0], &[1.0, 2.0, 3.0, 4.0])
                .is_some_and(|r| (r - 0.948_683_298).abs() < 1e-6),
            "ties share their rank"
        );
        assert_eq!(spearman(&[1.0], &[1.0]), None);
        assert_eq!(spearman(&[1.0, 1.0], &[1.0, 2.0]), None);
        assert_eq!(spearman(&[1.0, 2.0], &[1.0]), None);
    }
}
