//! Sensitivity of a ranking to estimated constants. Each estimated constant is changed down and up
//! by a share, one at a time, and the ranking is computed again. A constant that has no effect on
//! any score is reported as such, because it is no evidence for the ranking.

use super::constants::{Constant, Constants, Provenance};
use serde::Serialize;

/// The effect of one constant on a ranking.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sensitivity {
    /// The constant.
    pub constant: Constant,
    /// Scores with the constant low and high, in the order of the candidates.
    pub low: Vec<f64>,
    /// As `low`.
    pub high: Vec<f64>,
    /// Whether any score changed: a constant without an effect is no evidence for the ranking.
    pub took_part: bool,
    /// Whether the best candidate is the same in both cases.
    pub best_survives: bool,
    /// Whether the whole order is the same in both cases.
    pub ranking_survives: bool,
}

/// Changes each estimate by `share` (0.3 for 30 %) down and up, and scores the candidates again;
/// more is better. Constants with a source do not change.
pub fn sweep(
    defaults: &Constants,
    share: f64,
    score: impl Fn(&Constants) -> Vec<f64>,
) -> Vec<Sensitivity> {
    let before = score(defaults);
    let order = ranking(&before);
    let moved = |constant: &Constant, factor: f64| {
        let mut constants = defaults.clone();
        if let Some(value) = constants.by_name(constant.name) {
            *value *= factor;
        }
        score(&constants)
    };
    let estimates =
        Constants::ALL.iter().filter(|c| matches!(c.provenance, Provenance::Estimate(_)));
    estimates
        .map(|constant| {
            let (low, high) = (moved(constant, 1.0 - share), moved(constant, 1.0 + share));
            let orders = [ranking(&low), ranking(&high)];
            let took_part = low != before || high != before;
            let best_survives = orders.iter().all(|o| o.first() == order.first());
            Sensitivity {
                constant: *constant,
                low,
                high,
                took_part,
                best_survives,
                ranking_survives: orders.iter().all(|o| *o == order),
            }
        })
        .collect()
}

/// Candidates from best to worst; equal scores keep their order.
fn ranking(scores: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ranking_that_hangs_on_an_estimate_is_found_out() {
        // The second candidate is better only while the camera is faster than 25 frames a second.
        let found = sweep(&Constants::default(), 0.3, |c| vec![25.0, c.camera_fps]);
        let fails: Vec<&str> =
            found.iter().filter(|s| !s.ranking_survives).map(|s| s.constant.name).collect();
        assert_eq!(fails, ["camera_fps"]);
        assert!(found.iter().all(|s| s.best_survives == s.ranking_survives));
        assert!(found.iter().all(|s| s.took_part == (s.constant.name == "camera_fps")));
        assert!(found.iter().all(|s| s.constant.name != "cpu_a_w_per_ghz"));
    }
}
