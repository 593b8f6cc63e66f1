//! [`ResolutionLadder`]: the resolution of the next full frame. The faster the camera moves,
//! compared with its earlier motion, the lower the resolution, so that the result is ready sooner;
//! and never higher than the processor can finish in time.
//!
//! The magnitude of a motion is a weighted sum of the camera's translation and rotation, each in
//! standard deviations of the history. The history's quantiles share the magnitudes among the
//! levels.

use super::{LatencyProfile, Reaction};
use crate::{AriaError, CameraMotion};
use std::collections::VecDeque;

/// What going and turning count; turning changes more of the picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MotionWeights {
    /// Per metre.
    pub translation: f64,
    /// Per radian.
    pub rotation: f64,
}

/// How resolutions are chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ResolutionSettings {
    /// Weights of the magnitude.
    pub weights: MotionWeights,
    /// Frames of history.
    pub window: usize,
    /// Longest time between full frames, ns.
    pub interval_ns: u64,
    /// Turns of less, rad per frame, together with ways of less than `still_m`, leave the
    /// resolution alone. Quantiles alone do not recognise a still camera: without this a trembling
    /// hand lowers the resolution of half of all frames.
    pub still_rad: f64,
    /// See `still_rad`; m per frame.
    pub still_m: f64,
}

impl ResolutionSettings {
    /// Four frame intervals between full frames, ten seconds of history at 30 frames a second, and
    /// no motion too small to count.
    #[must_use]
    pub fn for_frames_of(frame_ns: u64) -> Self {
        let weights = MotionWeights { translation: 0.3, rotation: 0.7 };
        Self {
            weights,
            window: 300,
            interval_ns: frame_ns.saturating_mul(4),
            still_rad: 0.0,
            still_m: 0.0,
        }
    }
}

/// Levels of resolution, the lowest first.
#[derive(Clone, Debug, PartialEq)]
pub struct ResolutionLadder {
    settings: ResolutionSettings,
    profile: LatencyProfile,
    /// Metres and radians per frame, the latest last.
    history: VecDeque<[f64; 2]>,
}

impl ResolutionLadder {
    /// Profiled latencies of full frames by level, ns, the lowest resolution first.
    ///
    /// # Errors
    /// When the profile or the settings are invalid.
    pub fn new(
        latency_ns: &[u64],
        reaction: Reaction,
        settings: ResolutionSettings,
    ) -> Result<Self, AriaError> {
        let MotionWeights { translation, rotation } = settings.weights;
        let numbers = [translation, rotation, settings.still_rad, settings.still_m];
        if settings.window == 0 || !numbers.iter().all(|x| *x >= 0.0 && x.is_finite()) {
            return Err(AriaError::setting(
                "the choice of resolutions",
                format!("{settings:?}"),
                "a window of 1 or more, and nothing negative",
            ));
        }
        Ok(Self {
            settings,
            profile: LatencyProfile::new(latency_ns, reaction)?,
            history: VecDeque::with_capacity(settings.window),
        })
    }

    /// The current latencies of the levels.
    #[must_use]
    pub fn profile(&self) -> &LatencyProfile {
        &self.profile
    }

    /// Adds the measured latency of a full frame of a level.
    pub fn observe(&mut self, level: usize, took_ns: u64) {
        self.profile.observe(level, took_ns);
    }

    /// The camera's motion since the last frame.
    pub fn moved(&mut self, motion: &CameraMotion) {
        let seen = [motion.distance_m(), motion.angle_rad()];
        if !seen.iter().all(|x| x.is_finite()) {
            return;
        }
        if self.history.len() == self.settings.window {
            self.history.pop_front();
        }
        self.history.push_back(seen);
    }

    /// The level of the next full frame: by the camera's motion, lowered to a level that is ready
    /// in time.
    #[must_use]
    pub fn level(&self) -> usize {
        self.level_for_motion().min(self.level_in_time())
    }

    /// The highest level that takes no longer than the interval now; the lowest if none does.
    #[must_use]
    pub fn level_in_time(&self) -> usize {
        let in_time =
            |level: &usize| self.profile.latency_ns(*level) <= self.settings.interval_ns as f64;
        (0..self.profile.levels()).rev().find(in_time).unwrap_or(0)
    }

    /// The level that the quantiles of the history give the latest motion; the highest while there
    /// are fewer motions than levels.
    #[must_use]
    pub fn level_for_motion(&self) -> usize {
        let levels = self.profile.levels();
        let highest = levels - 1;
        let Some(latest) = self.history.back().filter(|_| self.history.len() >= levels) else {
            return highest;
        };
        if latest[0] < self.settings.still_m && latest[1] < self.settings.still_rad {
            return highest;
        }
        let units = [0, 1].map(|i| self.deviation(i));
        let weights = [self.settings.weights.translation, self.settings.weights.rotation];
        let magnitude = |seen: &[f64; 2]| -> f64 {
            (0..2).filter(|i| units[*i] > 0.0).map(|i| weights[i] * seen[i] / units[i]).sum()
        };
        let now = magnitude(latest);
        let smaller = self.history.iter().filter(|seen| magnitude(seen) < now).count();
        highest - (smaller * levels / self.history.len()).min(highest)
    }

    /// Standard deviation of one part of the history; `None` if it never changes.
    fn deviation(&self, part: usize) -> f64 {
        let count = self.history.len() as f64;
        let mean = self.history.iter().map(|seen| seen[part]).sum::<f64>() / count;
        (self.history.iter().map(|seen| (seen[part] - mean).powi(2)).sum::<f64>() / count).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Pose, random::Random};

    const MS: u64 = 1_000_000;

    fn ladder(settings: ResolutionSettings) -> ResolutionLadder {
        ResolutionLadder::new(&[20 * MS, 40 * MS, 80 * MS, 120 * MS], Reaction::default(), settings)
            .expect("a ladder")
    }

    fn turn(angle: f64) -> CameraMotion {
        CameraMotion::between(&Pose::default(), &Pose::looking([0.0; 3], angle, 0.0, 0.0))
    }

    #[test]
    fn quantiles_share_the_motions_among_the_levels() {
        let mut ladder = ladder(ResolutionSettings::for_frames_of(33_333_333));
        assert_eq!(ladder.level(), 3, "nothing is known yet");
        let mut random = Random::new(1);
        let mut counts = [0; 4];
        for frame in 0..3000 {
            ladder.moved(&turn(random.between(0.0, 0.1)));
            if frame >= 300 {
                counts[ladder.level()] += 1;
            }
        }
        assert!(counts.iter().all(|count| (500..850).contains(count)), "{counts:?}");
        ladder.moved(&turn(0.2));
        assert_eq!(ladder.level(), 0);
        ladder.moved(&turn(0.0));
        assert_eq!(ladder.level(), 3);
    }

    #[test]
    fn turning_counts_more_than_going() {
        let mut random = Random::new(2);
        let mut ladder = ladder(ResolutionSettings::for_frames_of(33_333_333));
        for _ in 0..300 {
            let (turned, way) = (random.between(0.0, 0.1), random.between(0.0, 0.1));
            ladder.moved(&CameraMotion { translation: [way, 0.0, 0.0], ..turn(turned) });
        }
        let mut only_way = ladder.clone();
        only_way.moved(&CameraMotion { translation: [0.1, 0.0, 0.0], ..turn(0.0) });
        ladder.moved(&turn(0.1));
        assert!(ladder.level() < only_way.level());
    }

    #[test]
    fn throttling_lowers_the_level_and_recovery_raises_it() {
        let mut ladder = ladder(ResolutionSettings::for_frames_of(33_333_333));
        assert_eq!(ladder.level_in_time(), 3);
        for _ in 0..3 {
            ladder.observe(3, 444 * MS);
        }
        assert_eq!(ladder.level_in_time(), 0, "3.7 times as slow: only 74 ms are in time");
        for _ in 0..3 {
            ladder.observe(0, 20 * MS);
        }
        assert_eq!(ladder.level_in_time(), 3);
        for _ in 0..3 {
            ladder.observe(3, 10_000 * MS);
        }
        assert_eq!(ladder.level(), 0, "nothing is in time: the lowest");
    }

    #[test]
    fn a_trembling_hand_is_still_if_one_says_so() {
        let settings = ResolutionSettings::for_frames_of(33_333_333);
        let mut literal = ladder(settings);
        let mut mended = ladder(ResolutionSettings { still_rad: 1e-3, still_m: 1e-3, ..settings });
        let mut random = Random::new(3);
        let mut lowered = [0; 2];
        for frame in 0..1000 {
            let motion = turn(1e-4 * random.uniform());
            for (ladder, lowered) in [&mut literal, &mut mended].into_iter().zip(&mut lowered) {
                ladder.moved(&motion);
                *lowered += usize::from(frame >= 300 && ladder.level() < 3);
            }
        }
        assert!(lowered[0] > 400 && lowered[1] == 0, "{lowered:?}");
    }
}
