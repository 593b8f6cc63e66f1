//! Texts for the figures of a plan within a deadline.

use vitempo::planners::aria::{AriaOutcome, Resolution, Truth};

/// A share close to 1 in percent, with as many digits as it takes to distinguish it from 1.
#[must_use]
pub fn success(share: f64) -> String {
    match share {
        share if share > 0.99 && share < 1.0 - 5e-7 => format!("{:.4} %", 100.0 * share),
        share if share.is_finite() => format!("{:.1} %", 100.0 * share),
        _ => "-".to_owned(),
    }
}

/// The shares of full frames at each resolution, px, the highest first.
#[must_use]
pub fn resolutions(outcome: &AriaOutcome) -> String {
    let shares = outcome.resolutions.iter().rev();
    let one = |of: &Resolution| format!("{}x{}: {:.0} %", of.height, of.width, 100.0 * of.share);
    let shares: Vec<String> = shares.map(one).collect();
    if shares.is_empty() { "-".to_owned() } else { shares.join(", ") }
}

/// The confidence of a plan, as text.
#[must_use]
pub fn planned_at(confidence: Option<f64>) -> String {
    confidence
        .map_or_else(|| "point forecasts".to_owned(), |c| format!("{:.0} % confidence", 100.0 * c))
}

/// The bias of forecasts, as text.
#[must_use]
pub fn truth(truth: Truth) -> String {
    match truth {
        Truth::Longer(share) => format!("{:+.0} %", 100.0 * share),
        Truth::Deviations(z) => format!("{z:+.2} standard deviations"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_near_one_keep_their_digits() {
        let shown = [0.5, 0.99991, 1.0, f64::NAN].map(success);
        assert_eq!(shown, ["50.0 %", "99.9910 %", "100.0 %", "-"]);
        assert_eq!(truth(Truth::Longer(-0.05)), "-5 %");
        assert_eq!(truth(Truth::Deviations(1.645)), "+1.65 standard deviations");
        assert_eq!([None, Some(0.9)].map(planned_at), ["point forecasts", "90 % confidence"]);
    }
}
