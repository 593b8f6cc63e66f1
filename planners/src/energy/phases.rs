//! A frame as phases: latency, power and energy as functions of the processor's frequency.
//!
//! t = C / f; P = a f + b f^3 for a busy processor, a + b f for the background; E = (base + camera) L + sum of P_i t_i, with L the sum of t_i.
//! Units: GHz, 1e9 cycles, s, W, J.

use serde::{Deserialize, Serialize};

/// Work that takes C / f seconds at f GHz.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cycles(
    /// The number of cycles, 1e9.
    pub f64,
);

impl Cycles {
    /// The cycles of one measurement: seconds at a frequency in GHz.
    #[must_use]
    pub fn measured(seconds: f64, ghz: f64) -> Self {
        Self(seconds * ghz)
    }

    /// Time at a frequency, s.
    #[must_use]
    pub fn seconds(self, ghz: f64) -> f64 {
        self.0 / ghz
    }
}

/// Power of a busy processor: a f + b f^3.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PowerLaw {
    /// a, W/GHz.
    pub a_w_per_ghz: f64,
    /// b, W/GHz^3.
    pub b_w_per_ghz3: f64,
}

impl PowerLaw {
    /// The power law through two measurements (GHz, W); `None` when they are at the same or no
    /// frequency.
    #[must_use]
    pub fn through(low: (f64, f64), high: (f64, f64)) -> Option<Self> {
        let ((f, p), (g, q)) = (low, high);
        let determinant = f * g.powi(3) - g * f.powi(3);
        let law = Self {
            a_w_per_ghz: (p * g.powi(3) - q * f.powi(3)) / determinant,
            b_w_per_ghz3: (f * q - g * p) / determinant,
        };
        (determinant.abs() > f64::EPSILON).then_some(law)
    }

    /// Power at a frequency, W.
    #[must_use]
    pub fn watts(self, ghz: f64) -> f64 {
        self.a_w_per_ghz * ghz + self.b_w_per_ghz3 * ghz.powi(3)
    }
}

/// Background power: a fixed part, and a part proportional to the processor's frequency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Background {
    /// The fixed part, W.
    pub fixed_w: f64,
    /// Additional power per GHz, W.
    #[serde(default)]
    pub w_per_ghz: f64,
}

impl Background {
    /// Power at a frequency, W.
    #[must_use]
    pub fn watts(self, ghz: f64) -> f64 {
        self.fixed_w + self.w_per_ghz * ghz
    }

    /// The straight line through two measurements (GHz, W) at different frequencies.
    #[must_use]
    pub fn through(low: (f64, f64), high: (f64, f64)) -> Self {
        let w_per_ghz = (high.1 - low.1) / (high.0 - low.0);
        Self { fixed_w: low.1 - w_per_ghz * low.0, w_per_ghz }
    }
}

/// One phase of a frame, above base and camera.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// Name of the phase.
    pub name: String,
    /// Duration, s.
    pub seconds: f64,
    /// Power above base and camera, W.
    pub watts: f64,
}

/// The phases of a frame, and the background power.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrameEnergy {
    /// The phases, one after the other.
    pub phases: Vec<Phase>,
    /// Power of system, screen and idle radio, W.
    pub base_w: f64,
    /// Power of image generation and preview, W.
    pub camera_w: f64,
}

impl FrameEnergy {
    /// Time from frame to result, s.
    #[must_use]
    pub fn latency_s(&self) -> f64 {
        self.phases.iter().map(|p| p.seconds).sum()
    }

    /// Energy of one frame, J.
    #[must_use]
    pub fn energy_j(&self) -> f64 {
        (self.base_w + self.camera_w) * self.latency_s()
            + self.phases.iter().map(|p| p.watts * p.seconds).sum::<f64>()
    }

    /// Mean power, W.
    #[must_use]
    pub fn mean_w(&self) -> f64 {
        self.energy_j() / self.latency_s()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_law_goes_through_its_two_points() {
        let law = PowerLaw::through((0.5, 0.4), (2.0, 3.1)).expect("a law");
        assert!((law.watts(0.5) - 0.4).abs() < 1e-12 && (law.watts(2.0) - 3.1).abs() < 1e-12);
        assert_eq!(PowerLaw::through((1.0, 1.0), (1.0, 2.0)), None);
    }

    #[test]
    fn a_frame_adds_up() {
        let phase = |name: &str, seconds, watts| Phase { name: name.to_owned(), seconds, watts };
        let frame = FrameEnergy {
            phases: vec![phase("conversion", 0.4, 2.0), phase("inference", 0.6, 3.0)],
            base_w: 0.7,
            camera_w: 1.3,
        };
        assert!((frame.energy_j() - (2.0 + 0.8 + 1.8)).abs() < 1e-12);
        assert!((frame.mean_w() - 4.6).abs() < 1e-12);
        assert!((Cycles::measured(0.5, 2.0).seconds(0.25) - 4.0).abs() < 1e-12);
    }
}
