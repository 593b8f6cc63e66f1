//! How many cycles of the region encoder fit a frame: `K = floor((L_T - L_static) / c)`; and the
//! bounds on `c` and `L_static` that follow from printed pairs of target and `K`.

use super::{LatencyProfile, Reaction};
use crate::AriaError;

/// Cycles of `cycle_ns` that fit a frame of `target_ns` after `static_ns`; 0 if none fits or
/// `cycle_ns` is 0.
#[must_use]
pub fn cycles(target_ns: u64, static_ns: u64, cycle_ns: u64) -> u64 {
    target_ns.saturating_sub(static_ns).checked_div(cycle_ns).unwrap_or(0)
}

/// A range of latencies, ns; both ends may be excluded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// The value is larger than this, ns.
    pub above_ns: f64,
    /// The value is smaller than this, ns.
    pub below_ns: f64,
}

/// What cycle counts at several targets allow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CycleBounds {
    /// Of one cycle, both ends excluded.
    pub cycle: Bounds,
}

impl CycleBounds {
    /// The per-frame overhead if a cycle takes `cycle_ns`: the lower end excluded, the upper end
    /// included; none if no such time fits.
    #[must_use]
    pub fn rest(pairs: &[(f64, u64)], cycle_ns: f64) -> Option<Bounds> {
        let above_ns = pairs
            .iter()
            .map(|(target, count)| target - (count + 1) as f64 * cycle_ns)
            .fold(f64::NEG_INFINITY, f64::max);
        let below_ns = pairs
            .iter()
            .map(|(target, count)| target - *count as f64 * cycle_ns)
            .fold(f64::INFINITY, f64::min);
        (above_ns < below_ns && below_ns >= 0.0)
            .then_some(Bounds { above_ns: above_ns.max(0.0), below_ns })
    }
}

/// The cycle times for which some constant per-frame overhead gives `count` cycles at `target_ns`
/// for all pairs; `None` if there is none.
///
/// From `k c <= T - s < (k + 1) c` for two pairs: `(k2 - k1 - 1) c < T2 - T1 < (k2 - k1 + 1) c`.
#[must_use]
pub fn identified_by(pairs: &[(f64, u64)]) -> Option<CycleBounds> {
    let mut cycle = Bounds { above_ns: 0.0, below_ns: f64::INFINITY };
    for (a, first) in pairs {
        if *first > 0 {
            cycle.below_ns = cycle.below_ns.min(a / *first as f64);
        }
        for (b, second) in pairs {
            let (time, more) = (b - a, *second as f64 - *first as f64);
            if more + 1.0 > 0.0 {
                cycle.above_ns = cycle.above_ns.max(time / (more + 1.0));
            }
            if more - 1.0 > 0.0 {
                cycle.below_ns = cycle.below_ns.min(time / (more - 1.0));
            }
        }
    }
    (cycle.above_ns < cycle.below_ns).then_some(CycleBounds { cycle })
}

/// Frames without a cycle after which one runs although it does not fit: regions must not wait for
/// ever, and only a run shows that the encoder has become faster.
pub const MOST_FRAMES_WITHOUT_CYCLE: u32 = 30;

/// The cycles of each frame, from measured times of frames.
#[derive(Clone, Debug, PartialEq)]
pub struct CycleBudget {
    target_ns: u64,
    margin: f64,
    rest: LatencyProfile,
    cycle: LatencyProfile,
    /// Frames since the last one with a cycle.
    without: u32,
}

impl CycleBudget {
    /// A target for the whole frame; profiled latencies of everything but cycles by level of
    /// resolution, the lowest first (`rest_ns`), and of one cycle. They are taken to be longer by
    /// `margin` (0.05: by 5 %), so that jitter does not miss the deadline.
    ///
    /// # Errors
    /// When a latency is 0 or the margin negative.
    pub fn new(
        target_ns: u64,
        rest_ns: &[u64],
        cycle_ns: u64,
        margin: f64,
        reaction: Reaction,
    ) -> Result<Self, AriaError> {
        if !(margin >= 0.0 && margin.is_finite()) {
            return Err(AriaError::setting("the margin on latencies", margin, "0 or more"));
        }
        Ok(Self {
            target_ns,
            margin,
            rest: LatencyProfile::new(rest_ns, reaction)?,
            cycle: LatencyProfile::new(&[cycle_ns], reaction)?,
            without: 0,
        })
    }

    /// Cycles of the next frame, at a level of resolution: those that fit; after
    /// [`MOST_FRAMES_WITHOUT_CYCLE`] frames without any, one nevertheless.
    #[must_use]
    pub fn cycles(&self, level: usize) -> u64 {
        self.fitting(level).max(u64::from(self.without >= MOST_FRAMES_WITHOUT_CYCLE))
    }

    /// The highest level up to `wanted` at which a cycle fits; the lowest if there is none. A full
    /// frame of more patches would leave no time to update any.
    #[must_use]
    pub fn level(&self, wanted: usize) -> usize {
        (0..=wanted).rev().find(|level| self.fitting(*level) > 0).unwrap_or(0)
    }

    fn fitting(&self, level: usize) -> u64 {
        let longer = |ns: f64| (ns * (1.0 + self.margin)).ceil() as u64;
        cycles(
            self.target_ns,
            longer(self.rest.latency_ns(level)),
            longer(self.cycle.latency_ns(0)),
        )
    }

    /// The target, ns.
    #[must_use]
    pub fn target_ns(&self) -> u64 {
        self.target_ns
    }

    /// Measured times of a frame of a level: everything except its cycles, and the mean of its
    /// cycles if it had any.
    pub fn observe(&mut self, level: usize, rest_ns: u64, cycle_ns: Option<u64>) {
        self.rest.observe(level, rest_ns);
        match cycle_ns {
            Some(cycle_ns) => {
                self.cycle.observe(0, cycle_ns);
                self.without = 0;
            }
            None => self.without = self.without.saturating_add(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    const MS: f64 = 1e6;
    /// Section 6.5: cycles of the paper's phone at two targets.
    const PRINTED: [(f64, u64); 2] = [(33.3 * MS, 1), (66.6 * MS, 4)];

    #[test]
    fn the_papers_counts_bound_the_cycle_to_8_325_and_16_65_ms() {
        let cycle = identified_by(&PRINTED).expect("bounds").cycle;
        assert!(
            (cycle.above_ns - 8.325 * MS).abs() < 1.0 && (cycle.below_ns - 16.65 * MS).abs() < 1.0,
            "{cycle:?}"
        );
        let rest = CycleBounds::rest(&PRINTED, 10.0 * MS).expect("bounds");
        assert!(
            (rest.above_ns - 16.6 * MS).abs() < 1.0 && (rest.below_ns - 23.3 * MS).abs() < 1.0,
            "{rest:?}"
        );
    }

    #[test]
    fn within_the_bounds_some_rest_gives_the_counts_and_outside_none_does() {
        let mut random = Random::new(7);
        let mut inside = 0;
        for _ in 0..20_000 {
            let cycle_ns = random.between(1.0, 40.0) * MS;
            let allowed = cycle_ns > 8.325 * MS + 1.0 && cycle_ns < 16.65 * MS - 1.0;
            match CycleBounds::rest(&PRINTED, cycle_ns) {
                Some(rest) => {
                    assert!(cycle_ns > 8.325 * MS - 1.0 && cycle_ns < 16.65 * MS + 1.0);
                    let rest_ns = rest.above_ns
                        + (rest.below_ns - rest.above_ns) * random.between(0.01, 0.99);
                    let counts = PRINTED
                        .map(|(target, _)| cycles(target as u64, rest_ns as u64, cycle_ns as u64));
                    if rest.below_ns - rest.above_ns > 1000.0 {
                        assert_eq!(counts, [1, 4], "{cycle_ns} {rest_ns}");
                        inside += 1;
                    }
                }
                None => assert!(!allowed, "{cycle_ns}"),
            }
        }
        assert!(inside > 3000);
    }

    #[test]
    fn bounds_hold_for_the_times_that_made_the_counts() {
        let mut random = Random::new(8);
        for _ in 0..5000 {
            let (cycle, rest) = (random.between(2.0, 20.0) * MS, random.between(0.0, 30.0) * MS);
            let targets = [16.6, 33.3, 50.0, 66.6].map(|t| t * MS);
            let pairs: Vec<(f64, u64)> = targets
                .iter()
                .map(|t| (*t, cycles(*t as u64, rest as u64, cycle as u64)))
                .filter(|(_, k)| *k > 0)
                .collect();
            if pairs.is_empty() {
                continue;
            }
            let bounds = identified_by(&pairs).expect("bounds").cycle;
            assert!(bounds.above_ns < cycle + 2.0 && cycle < bounds.below_ns + 2.0);
        }
    }

    #[test]
    fn counts_follow_what_frames_take() {
        let mut budget =
            CycleBudget::new(66_600_000, &[20_000_000], 10_000_000, 0.05, Reaction::default())
                .expect("a budget");
        assert_eq!(budget.cycles(0), 4);
        for _ in 0..3 {
            budget.observe(0, 20_000_000, Some(20_000_000));
        }
        assert_eq!(budget.cycles(0), 2);
        for _ in 0..10 {
            budget.observe(0, 20_000_000, Some(10_000_000));
        }
        assert_eq!(budget.cycles(0), 4);
        assert_eq!(cycles(10, 20, 5), 0);
        assert_eq!(cycles(10, 5, 0), 0);
        assert!(
            CycleBudget::new(1, &[0], 1, 0.0, Reaction::default()).is_err()
                && CycleBudget::new(1, &[], 1, 0.0, Reaction::default()).is_err()
        );
        assert!(CycleBudget::new(1, &[1], 1, f64::NAN, Reaction::default()).is_err());
    }

    #[test]
    fn where_no_cycle_fits_a_lower_level_leaves_time_for_one_and_patience_ends() {
        let mut budget = CycleBudget::new(
            33_300_000,
            &[10_000_000, 15_000_000, 19_000_000],
            10_000_000,
            0.08,
            Reaction::default(),
        )
        .expect("a budget");
        assert_eq!([0, 1, 2].map(|wanted| budget.level(wanted)), [0, 1, 2]);
        assert_eq!([0, 1, 2].map(|level| budget.cycles(level)), [2, 1, 1]);
        for _ in 0..3 {
            budget.observe(2, 19_000_000, Some(13_000_000));
        }
        assert_eq!((budget.cycles(2), budget.level(2), budget.cycles(1)), (0, 1, 1));
        for _ in 0..3 {
            budget.observe(1, 15_000_000, Some(40_000_000));
        }
        let mut waits = Vec::new();
        let mut since = 0;
        for _ in 0..200 {
            assert_eq!(budget.level(2), 0, "nothing fits");
            let runs = budget.cycles(0);
            since = if runs > 0 { 0 } else { since + 1 };
            waits.push(since);
            budget.observe(0, 10_000_000, (runs > 0).then_some(40_000_000));
        }
        assert_eq!(waits.iter().max(), Some(&MOST_FRAMES_WITHOUT_CYCLE));
        // Occasional runs show that it recovers.
        for _ in 0..10 * MOST_FRAMES_WITHOUT_CYCLE {
            let runs = budget.cycles(2);
            budget.observe(2, 19_000_000, (runs > 0).then_some(10_000_000));
        }
        assert_eq!((budget.level(2), budget.cycles(2)), (2, 1));
    }
}
