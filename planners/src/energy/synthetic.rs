//! [`Recording`]: simulates the power trace and the application's log of frames that follow the
//! phase model.
//!
//! A recording is not a measurement: it allows trying the analysis without a monitor, and tests
//! that the analysis recovers its input. The device is quiet, then it is touched (the flag event),
//! the application starts, and frames follow each other without a gap. Phases called "others" are
//! not logged.

use super::{
    FrameEnergy,
    dissect::OTHERS,
    trace::{EventLog, LoggedPhase, PowerTrace},
};
use rand::{RngExt, SeedableRng, rngs::StdRng};

/// The time that the monitor records after the last frame, s.
const AFTERWARDS_S: f64 = 0.5;

/// The parameters of a recording.
#[derive(Clone, Debug, PartialEq)]
pub struct Recording {
    /// The frame; all frames are equal.
    pub frame: FrameEnergy,
    /// Number of frames.
    pub frames: u64,
    /// Time at which the device is touched, s on the monitor's clock.
    pub flag_s: f64,
    /// Time at which the first frame starts, s on the monitor's clock.
    pub start_s: f64,
    /// Power between the two, W.
    pub starting_w: f64,
    /// Time by which the device's clock is ahead of the monitor's, s.
    pub device_ahead_s: f64,
    /// Sampling rate of the monitor, 1/s.
    pub samples_per_s: f64,
    /// Noise of the monitor: uniform, at most this in either direction, W.
    pub noise_w: f64,
    /// Seed of the noise.
    pub seed: u64,
}

impl Recording {
    /// A device that is touched at 0.2 s and runs frames from 2 s on, recorded at 1 kHz.
    #[must_use]
    pub fn of(frame: FrameEnergy, frames: u64) -> Self {
        let starting_w = 1.5 * frame.mean_w();
        Self {
            frame,
            frames,
            flag_s: 0.2,
            start_s: 2.0,
            starting_w,
            device_ahead_s: 4716.0,
            samples_per_s: 1000.0,
            noise_w: 0.02,
            seed: 0,
        }
    }

    /// The monitor's trace and the application's log; `None` if there are no frames, no time or no
    /// samples.
    #[must_use]
    pub fn record(&self) -> Option<(PowerTrace, EventLog)> {
        let latency_s = self.frame.latency_s();
        let seconds = self.end_s() + AFTERWARDS_S;
        let samples = seconds * self.samples_per_s;
        let possible = latency_s > 0.0
            && self.frames > 0
            && samples.is_finite()
            && (2.0..1e8).contains(&samples);
        if !possible {
            return None;
        }
        let mut rng = StdRng::seed_from_u64(self.seed);
        let time: Vec<f64> =
            (0..=samples as u64).map(|index| index as f64 / self.samples_per_s).collect();
        let mut noisy = |watts: f64| watts + self.noise_w * (2.0 * rng.random::<f64>() - 1.0);
        let power = time.iter().map(|&at_s| noisy(self.watts(at_s))).collect();
        Some((PowerTrace::new(time, power)?, self.log()))
    }

    /// Time at which the last frame ends, s on the monitor's clock.
    fn end_s(&self) -> f64 {
        self.start_s + self.frames as f64 * self.frame.latency_s()
    }

    fn watts(&self, at_s: f64) -> f64 {
        match at_s {
            t if t < self.flag_s => self.frame.base_w,
            t if t < self.start_s => self.starting_w,
            t if t >= self.end_s() => self.frame.base_w + self.frame.camera_w,
            t => {
                self.frame.base_w
                    + self.frame.camera_w
                    + self.phase_w((t - self.start_s).rem_euclid(self.frame.latency_s()))
            }
        }
    }

    /// Power of the running phase at a time after a frame's start.
    fn phase_w(&self, mut within_s: f64) -> f64 {
        for phase in &self.frame.phases {
            if within_s < phase.seconds {
                return phase.watts;
            }
            within_s -= phase.seconds;
        }
        self.frame.phases.last().map_or(0.0, |phase| phase.watts)
    }

    fn log(&self) -> EventLog {
        let mut phases = Vec::new();
        for frame in 0..self.frames {
            let mut at_s =
                self.device_ahead_s + self.start_s + frame as f64 * self.frame.latency_s();
            for phase in &self.frame.phases {
                let (start_s, end_s) = (at_s, at_s + phase.seconds);
                if phase.name != OTHERS {
                    phases.push(LoggedPhase { frame, phase: phase.name.clone(), start_s, end_s });
                }
                at_s = end_s;
            }
        }
        EventLog { flag_s: self.device_ahead_s + self.flag_s, phases }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::energy::Phase;

    fn frame() -> FrameEnergy {
        let phase = |name: &str, seconds, watts| Phase { name: name.to_owned(), seconds, watts };
        FrameEnergy {
            phases: vec![
                phase("conversion", 0.4, 2.0),
                phase(OTHERS, 0.1, 0.5),
                phase("inference", 0.5, 3.0),
            ],
            base_w: 0.6,
            camera_w: 2.5,
        }
    }

    #[test]
    fn a_recording_holds_the_frame_s_energy() {
        let recording = Recording { noise_w: 0.0, ..Recording::of(frame(), 10) };
        let (trace, log) = recording.record().expect("a recording");
        assert_eq!((log.phases.len(), log.flag_s), (20, 4716.2));
        let joules = trace.energy_j(2.0, 12.0) / 10.0;
        assert!((joules - frame().energy_j()).abs() < 0.01 * joules, "{joules}");
        assert!(trace.first_rise_s(0.1).is_some_and(|t| (t - 0.2).abs() < 2e-3));
        assert_eq!(Recording::of(frame(), 10).record(), Recording::of(frame(), 10).record());
        assert_eq!(Recording::of(frame(), 0).record(), None);
    }
}
