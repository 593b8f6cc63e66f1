//! The standard normal distribution: its distribution function and its quantiles.

/// The probability that a standard normal variable is below `z`, by a series and a continued
/// fraction (Abramowitz and Stegun 26.2.11, 26.2.14).
pub fn share_below(z: f64) -> f64 {
    if z.is_nan() {
        return f64::NAN;
    }
    let (x, density) = (z.abs(), (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt());
    let upper = if x > 4.0 {
        // 1 / (x + 1 / (x + 2 / (x + 3 / ...))).
        density / (1..=60).rev().fold(x, |rest, k| x + f64::from(k) / rest)
    } else {
        let (mut term, mut sum, mut k) = (x, x, 1.0);
        while term > 1e-17 {
            k += 2.0;
            term *= x * x / k;
            sum += term;
        }
        0.5 - density * sum
    };
    if z > 0.0 { 1.0 - upper } else { upper }
}

/// The quantile of the standard normal distribution, by bisection; infinite at 0 and 1.
pub fn quantile(share: f64) -> f64 {
    if share <= 0.0 || share >= 1.0 || share.is_nan() {
        return if share <= 0.0 { f64::NEG_INFINITY } else { f64::INFINITY };
    }
    let (mut low, mut high) = (-40.0, 40.0);
    for _ in 0..80 {
        let middle = 0.5 * (low + high);
        if share_below(middle) < share { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_values_of_the_normal_distribution_come_out() {
        for (z, share) in [
            (0.0, 0.5),
            (1.0, 0.841_344_746_068_542_9),
            (1.959_963_984_540_054, 0.975),
            (-3.090_232_306_167_813, 0.001),
            (5.0, 0.999_999_713_348_428),
        ] {
            assert!((share_below(z) - share).abs() < 1e-13, "{z}: {}", share_below(z));
        }
        for share in [1e-9, 0.001, 0.05, 0.5, 0.9, 0.999_99] {
            assert!((share_below(quantile(share)) / share - 1.0).abs() < 1e-9, "{share}");
        }
        assert_eq!((quantile(0.0), quantile(1.0)), (f64::NEG_INFINITY, f64::INFINITY));
    }
}
