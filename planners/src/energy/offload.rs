//! Here or on the server, at which frequency, how large an input, how fast a camera: every combination, and those worth considering.
//!
//! An [`OffloadModel`] is a device and a server in the terms of the phase model: conversion and local inference are cycles of the device, remote inference
//! is time of the server, communication is bytes over a bandwidth. [`OffloadModel::options`] evaluates all combinations; measured options, from a table, go
//! through the same [`pareto`].

use super::phases::{Cycles, FrameEnergy, Phase, PowerLaw};
use serde::{Deserialize, Serialize};

/// Where a frame is inferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Place {
    Local,
    Remote,
}

/// One way to run, and what it costs and gives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Choice {
    pub place: Place,
    /// Governor, or frequency.
    pub setting: String,
    /// Side of the square input, pixels.
    pub size_px: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub camera_fps: Option<f64>,
    pub latency_s: f64,
    pub energy_j: f64,
    /// Mean average precision, %.
    pub accuracy: f64,
}

/// What the planner minimises among choices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Least {
    Latency,
    Energy,
    EnergyDelay,
    /// Mean power.
    Power,
}

/// Constants of a network at some input sizes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Sized {
    pub size_px: u32,
    /// Mean average precision, %.
    pub accuracy: f64,
    /// Cycles of the device (local), or 1e9 cycles at 1 GHz, that is seconds, of the server (remote).
    pub inference: Cycles,
    /// Sent per frame, bytes; 0 for local networks.
    #[serde(default)]
    pub sent_bytes: u64,
}

/// A device, a server, and the way between them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OffloadModel {
    /// Turning a camera's image into an input, whatever its size.
    pub conversion: Cycles,
    /// Drawing results and the rest, s.
    pub others_s: f64,
    /// Power of conversion.
    pub conversion_power: PowerLaw,
    /// Power of local inference.
    pub inference_power: PowerLaw,
    /// Power while communicating or waiting for the server, W.
    pub communication_w: f64,
    /// Base power when local (radio off), W.
    pub local_base_w: f64,
    /// Base power when remote (radio associated), W.
    pub remote_base_w: f64,
    /// Camera and preview, W: fixed part, and per frame per second.
    pub camera_w: (f64, f64),
    /// Once per frame sent, s.
    pub round_trip_s: f64,
    /// Of the uplink, bytes per second.
    pub bandwidth_bytes_per_s: f64,
    /// Networks on the device.
    pub local: Vec<Sized>,
    /// Networks on the server.
    pub remote: Vec<Sized>,
}

impl OffloadModel {
    /// Every combination of place, size, frequency (GHz) and camera rate (1/s).
    #[must_use]
    pub fn options(&self, frequencies_ghz: &[f64], camera_fps: &[f64]) -> Vec<Choice> {
        let networks = self.local.iter().map(|n| (Place::Local, n)).chain(self.remote.iter().map(|n| (Place::Remote, n)));
        let settings = |network| frequencies_ghz.iter().flat_map(move |&ghz| camera_fps.iter().map(move |&fps| (network, ghz, fps)));
        networks.flat_map(settings).map(|((place, network), ghz, fps)| self.option(place, network, ghz, fps)).collect()
    }

    fn option(&self, place: Place, network: &Sized, ghz: f64, fps: f64) -> Choice {
        let frame = self.frame(place, network, ghz, fps);
        // A frame waits for the camera half a period on average; the device draws base and camera power meanwhile.
        let waiting_s = 0.5 / fps;
        Choice {
            place,
            setting: format!("{ghz} GHz"),
            size_px: network.size_px,
            camera_fps: Some(fps),
            latency_s: frame.latency_s() + waiting_s,
            energy_j: frame.energy_j() + (frame.base_w + frame.camera_w) * waiting_s,
            accuracy: network.accuracy,
        }
    }

    /// One frame's phases.
    #[must_use]
    pub fn frame(&self, place: Place, network: &Sized, ghz: f64, fps: f64) -> FrameEnergy {
        let phase = |name: &str, seconds, watts| Phase { name: name.to_owned(), seconds, watts };
        let conversion = phase("conversion", self.conversion.seconds(ghz), self.conversion_power.watts(ghz));
        let (work, base_w) = match place {
            Place::Local => (vec![phase("inference", network.inference.seconds(ghz), self.inference_power.watts(ghz))], self.local_base_w),
            Place::Remote => {
                let sending = self.round_trip_s + network.sent_bytes as f64 / self.bandwidth_bytes_per_s;
                let phases = [("communication", sending), ("waiting", network.inference.seconds(1.0))];
                (phases.map(|(name, seconds)| phase(name, seconds, self.communication_w)).to_vec(), self.remote_base_w)
            }
        };
        let phases = std::iter::once(conversion).chain(work).chain(std::iter::once(phase("others", self.others_s, 0.0))).collect();
        FrameEnergy { phases, base_w, camera_w: self.camera_w.0 + self.camera_w.1 * fps }
    }
}

/// The choices that no other beats in energy, latency and accuracy together, least energy first.
#[must_use]
pub fn pareto(choices: &[Choice]) -> Vec<Choice> {
    let no_worse = |a: &Choice, b: &Choice| a.energy_j <= b.energy_j && a.latency_s <= b.latency_s && a.accuracy >= b.accuracy;
    let beaten = |c: &Choice| choices.iter().any(|other| no_worse(other, c) && !no_worse(c, other));
    let mut front: Vec<Choice> = choices.iter().filter(|c| !beaten(c)).cloned().collect();
    front.sort_by(|a, b| a.energy_j.total_cmp(&b.energy_j).then(a.latency_s.total_cmp(&b.latency_s)));
    front
}

/// The best choice with at least this accuracy, within this latency; `None` when there is none.
#[must_use]
pub fn best(choices: &[Choice], least: Least, accuracy_at_least: f64, latency_at_most_s: f64) -> Option<&Choice> {
    let value = |c: &Choice| match least {
        Least::Latency => c.latency_s,
        Least::Energy => c.energy_j,
        Least::EnergyDelay => c.energy_j * c.latency_s,
        Least::Power => c.energy_j / c.latency_s,
    };
    let allowed = choices.iter().filter(|c| c.accuracy >= accuracy_at_least && c.latency_s <= latency_at_most_s);
    allowed.min_by(|a, b| value(a).total_cmp(&value(b)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model() -> OffloadModel {
        let law = PowerLaw { a_w_per_ghz: 0.35, b_w_per_ghz3: 0.12 };
        let local = |size_px: u32, accuracy| Sized { size_px, accuracy, inference: Cycles(1.0 * f64::from(size_px * size_px) / 90_000.0), sent_bytes: 0 };
        let remote = |size_px: u32, accuracy| Sized { size_px, accuracy, inference: Cycles(0.19), sent_bytes: u64::from(size_px * size_px) / 4 };
        OffloadModel {
            conversion: Cycles(1.03),
            others_s: 0.05,
            conversion_power: law,
            inference_power: law,
            communication_w: 1.5,
            local_base_w: 0.6,
            remote_base_w: 0.75,
            camera_w: (1.6, 0.08),
            round_trip_s: 0.15,
            bandwidth_bytes_per_s: 1e6,
            local: vec![local(100, 10.0), local(300, 19.3), local(600, 22.0)],
            remote: vec![remote(320, 51.5), remote(608, 57.9)],
        }
    }

    #[test]
    fn size_and_bandwidth_decide_where() {
        let mut model = model();
        let place = |model: &OffloadModel, sizes: (usize, usize)| {
            let choices = OffloadModel { local: vec![model.local[sizes.0]], remote: vec![model.remote[sizes.1]], ..model.clone() }.options(&[2.0], &[15.0]);
            best(&choices, Least::Energy, 0.0, f64::INFINITY).map(|c| c.place)
        };
        assert_eq!(place(&model, (0, 0)), Some(Place::Local));
        assert_eq!(place(&model, (2, 1)), Some(Place::Remote));
        model.bandwidth_bytes_per_s = 2e4;
        assert_eq!(place(&model, (2, 1)), Some(Place::Local));
    }

    #[test]
    fn the_front_is_what_nobody_beats() {
        let choices = model().options(&[0.3, 1.0, 1.5, 2.26, 2.65], &[5.0, 15.0, 30.0]);
        assert_eq!(choices.len(), 5 * 5 * 3);
        let front = pareto(&choices);
        let beats = |a: &Choice, b: &Choice| {
            a.energy_j <= b.energy_j
                && a.latency_s <= b.latency_s
                && a.accuracy >= b.accuracy
                && (a.energy_j, a.latency_s, a.accuracy) != (b.energy_j, b.latency_s, b.accuracy)
        };
        for choice in &choices {
            assert_eq!(front.contains(choice), !choices.iter().any(|other| beats(other, choice)));
        }
        let fastest = best(&choices, Least::Latency, 50.0, f64::INFINITY).expect("a remote choice");
        assert!(front.contains(fastest) && fastest.place == Place::Remote);
        assert_eq!(best(&choices, Least::Energy, 99.0, f64::INFINITY), None);
        // Neither the slowest nor the fastest clock takes the least energy: base and camera go on meanwhile.
        let frugal = best(&choices, Least::Energy, 50.0, f64::INFINITY).expect("a choice");
        assert!(!["0.3 GHz", "2.65 GHz"].contains(&frugal.setting.as_str()), "{frugal:?}");
    }
}
