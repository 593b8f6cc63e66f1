//! [`LatencyProfile`]: the current latency of each level of a processor: profiled beforehand,
//! corrected by measured latencies (section 4.4: profiles are updated when they deviate
//! significantly).
//!
//! Small deviations move a level's latency by an exponential average. A deviation that exceeds a
//! threshold for several samples indicates throttling, or its end: all levels change by the mean
//! factor of those samples, because all run at the same clock.

use crate::AriaError;

/// When and how much a profile reacts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reaction {
    /// Weight of an ordinary sample.
    pub smoothing: f64,
    /// Relative deviation that is significant.
    pub deviation: f64,
    /// Samples in a row that must deviate, in the same direction.
    pub samples: usize,
}

impl Default for Reaction {
    fn default() -> Self {
        Self { smoothing: 0.1, deviation: 0.2, samples: 3 }
    }
}

/// Latencies by level.
#[derive(Clone, Debug, PartialEq)]
pub struct LatencyProfile {
    reaction: Reaction,
    latency_ns: Vec<f64>,
    /// By which factors the latest samples deviate.
    deviating: Vec<f64>,
}

impl LatencyProfile {
    /// Profiled latencies, ns.
    ///
    /// # Errors
    /// When there is none or one is 0, or the reaction is invalid.
    pub fn new(latency_ns: &[u64], reaction: Reaction) -> Result<Self, AriaError> {
        if latency_ns.is_empty() || latency_ns.contains(&0) {
            return Err(AriaError::setting(
                "the profiled latencies",
                format!("{latency_ns:?}"),
                "one or more, in ns, none 0",
            ));
        }
        if !(0.0..=1.0).contains(&reaction.smoothing)
            || reaction.deviation.is_nan()
            || reaction.deviation <= 0.0
            || reaction.samples == 0
        {
            return Err(AriaError::setting(
                "the reaction of a profile",
                format!("{reaction:?}"),
                "smoothing 0 to 1, deviation above 0, samples 1 or more",
            ));
        }
        Ok(Self {
            reaction,
            latency_ns: latency_ns.iter().map(|ns| *ns as f64).collect(),
            deviating: Vec::new(),
        })
    }

    /// Number of levels.
    #[must_use]
    pub fn levels(&self) -> usize {
        self.latency_ns.len()
    }

    /// The current latency of a level, ns; infinite for one that does not exist.
    #[must_use]
    pub fn latency_ns(&self, level: usize) -> f64 {
        self.latency_ns.get(level).copied().unwrap_or(f64::INFINITY)
    }

    /// Adds a measured latency of a level. A level that does not exist and a time of 0 are ignored.
    pub fn observe(&mut self, level: usize, took_ns: u64) {
        let Some(&known) = self.latency_ns.get(level) else { return };
        if took_ns == 0 {
            return;
        }
        let (took, ratio) = (took_ns as f64, took_ns as f64 / known);
        let significant = (ratio - 1.0).abs() > self.reaction.deviation;
        let continues = self.deviating.iter().all(|other| (*other > 1.0) == (ratio > 1.0));
        if !(significant && continues) {
            self.deviating.clear();
        }
        if !significant {
            self.latency_ns[level] = known + self.reaction.smoothing * (took - known);
            return;
        }
        self.deviating.push(ratio);
        if self.deviating.len() >= self.reaction.samples {
            let mean = self.deviating.iter().sum::<f64>() / self.deviating.len() as f64;
            self.latency_ns.iter_mut().for_each(|ns| *ns *= mean);
            self.deviating.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile() -> LatencyProfile {
        LatencyProfile::new(&[20_000, 40_000, 100_000], Reaction::default()).expect("a profile")
    }

    #[test]
    fn throttling_shows_after_three_samples_on_all_levels_and_goes_again() {
        let mut profile = profile();
        for seen in 1..=3 {
            assert_eq!(profile.latency_ns(2), 100_000.0, "{seen}");
            profile.observe(2, 370_000);
        }
        assert_eq!(
            [0, 1, 2].map(|level| profile.latency_ns(level).round()),
            [74_000.0, 148_000.0, 370_000.0]
        );
        for _ in 0..3 {
            profile.observe(0, 20_000);
        }
        assert_eq!(
            [0, 1, 2].map(|level| profile.latency_ns(level).round()),
            [20_000.0, 40_000.0, 100_000.0]
        );
    }

    #[test]
    fn outliers_change_nothing_and_drift_is_followed() {
        let mut profile = profile();
        for took in [300_000, 300_000, 100_000, 300_000, 20_000, 300_000, 20_000] {
            profile.observe(2, took);
            assert_eq!(
                profile.latency_ns(2),
                100_000.0,
                "two in a row, or in different directions, are no throttling"
            );
        }
        profile.observe(2, 110_000);
        assert!((profile.latency_ns(2) - 101_000.0).abs() < 1e-6);
        assert_eq!(profile.latency_ns(0), 20_000.0);
        profile.observe(7, 1);
        profile.observe(2, 0);
        assert_eq!(profile.latency_ns(7), f64::INFINITY);
        assert!(
            LatencyProfile::new(&[], Reaction::default()).is_err()
                && LatencyProfile::new(&[0], Reaction::default()).is_err()
        );
    }
}
