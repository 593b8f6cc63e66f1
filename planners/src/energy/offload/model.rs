//! [`OffloadModel`]: a device, a server and the network between them, in terms of the phase model.
//!
//! Conversion and local inference are cycles of the device, remote inference is time of the server,
//! communication is a round trip and bytes over a bandwidth. A frame waits for the camera half a
//! period on average; base and camera draw power meanwhile.

use super::{Bounds, Choice, Least, OffloadError, Place, best};
use crate::energy::{Cycles, FrameEnergy, Phase, PowerLaw};
use serde::{Deserialize, Serialize};

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

/// A network at one input size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sized {
    /// Side of the square input, pixels.
    pub size_px: u32,
    /// Mean average precision, %.
    pub accuracy: f64,
    /// Work of one inference: 1e9 cycles of the device (local), or seconds of the server (remote).
    pub inference: Cycles,
    /// Data sent per frame, bytes; 0 for local networks.
    #[serde(default)]
    pub sent_bytes: u64,
}

/// A device, a server, and the network between them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OffloadModel {
    /// Conversion of a camera image into an input of any size: 1e9 cycles of the device.
    pub conversion: Cycles,
    /// Time of drawing results and other work, s; at the power of conversion.
    pub others_s: f64,
    /// Power of conversion.
    pub conversion_power: PowerLaw,
    /// Power of local inference.
    pub inference_power: PowerLaw,
    /// Power while communicating or waiting for the server, W.
    pub communication_w: f64,
    /// Power of system and screen for local execution (radio off).
    pub local_base: Background,
    /// Power of system and screen for remote execution (radio associated).
    pub remote_base: Background,
    /// Power of camera and preview.
    pub camera: Background,
    /// Power of camera and preview per frame per second, W s.
    #[serde(default)]
    pub camera_w_per_fps: f64,
    /// Round trip per sent frame, s.
    pub round_trip_s: f64,
    /// Bandwidth of the uplink, bytes per second.
    pub bandwidth_bytes_per_s: f64,
    /// Networks on the device.
    #[serde(default)]
    pub local: Vec<Sized>,
    /// Networks on the server.
    #[serde(default)]
    pub remote: Vec<Sized>,
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

impl OffloadModel {
    /// Checks the ranges of the constants.
    ///
    /// # Errors
    /// [`OffloadError`] naming the constant.
    pub fn check(&self) -> Result<(), OffloadError> {
        let networks = || self.local.iter().chain(&self.remote);
        if networks().next().is_none() {
            return Err(OffloadError::NoNetwork);
        }
        if self.bandwidth_bytes_per_s.is_nan() || self.bandwidth_bytes_per_s <= 0.0 {
            return Err(OffloadError::Constant {
                field: "bandwidth_bytes_per_s",
                value: self.bandwidth_bytes_per_s,
                wanted: "above 0",
            });
        }
        let constants = [
            ("conversion", self.conversion.0),
            ("others_s", self.others_s),
            ("conversion_power.a_w_per_ghz", self.conversion_power.a_w_per_ghz),
            ("conversion_power.b_w_per_ghz3", self.conversion_power.b_w_per_ghz3),
            ("inference_power.a_w_per_ghz", self.inference_power.a_w_per_ghz),
            ("inference_power.b_w_per_ghz3", self.inference_power.b_w_per_ghz3),
            ("communication_w", self.communication_w),
            ("local_base.fixed_w", self.local_base.fixed_w),
            ("local_base.w_per_ghz", self.local_base.w_per_ghz),
            ("remote_base.fixed_w", self.remote_base.fixed_w),
            ("remote_base.w_per_ghz", self.remote_base.w_per_ghz),
            ("camera.fixed_w", self.camera.fixed_w),
            ("camera.w_per_ghz", self.camera.w_per_ghz),
            ("camera_w_per_fps", self.camera_w_per_fps),
            ("round_trip_s", self.round_trip_s),
        ];
        let of_networks =
            networks().flat_map(|n| [("inference", n.inference.0), ("accuracy", n.accuracy)]);
        if let Some(network) = networks().find(|network| network.accuracy > 100.0) {
            let value = network.accuracy;
            let wanted = "a percentage, 0 to 100";
            return Err(OffloadError::Constant { field: "accuracy", value, wanted });
        }
        match constants
            .into_iter()
            .chain(of_networks)
            .find(|(_, value)| !value.is_finite() || *value < 0.0)
        {
            Some((field, value)) => {
                Err(OffloadError::Constant { field, value, wanted: "a number, 0 or more" })
            }
            None => Ok(()),
        }
    }

    /// Every combination of place, size, frequency (GHz) and camera rate (1/s).
    #[must_use]
    pub fn options(&self, frequencies_ghz: &[f64], camera_fps: &[f64]) -> Vec<Choice> {
        let networks = self
            .local
            .iter()
            .map(|n| (Place::Local, n))
            .chain(self.remote.iter().map(|n| (Place::Remote, n)));
        let settings = |network| {
            frequencies_ghz
                .iter()
                .flat_map(move |&ghz| camera_fps.iter().map(move |&fps| (network, ghz, fps)))
        };
        networks
            .flat_map(settings)
            .map(|((place, network), ghz, fps)| self.option(place, network, ghz, fps))
            .collect()
    }

    fn option(&self, place: Place, network: &Sized, ghz: f64, fps: f64) -> Choice {
        let frame = self.frame(place, network, ghz, fps);
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
        let busy_w = self.conversion_power.watts(ghz);
        let (work, base) = match place {
            Place::Local => (
                vec![phase(
                    "inference",
                    network.inference.seconds(ghz),
                    self.inference_power.watts(ghz),
                )],
                self.local_base,
            ),
            Place::Remote => {
                let sending =
                    self.round_trip_s + network.sent_bytes as f64 / self.bandwidth_bytes_per_s;
                let phases =
                    [("communication", sending), ("waiting", network.inference.seconds(1.0))];
                (
                    phases
                        .map(|(name, seconds)| phase(name, seconds, self.communication_w))
                        .to_vec(),
                    self.remote_base,
                )
            }
        };
        let conversion = phase("conversion", self.conversion.seconds(ghz), busy_w);
        let phases = std::iter::once(conversion)
            .chain(work)
            .chain(std::iter::once(phase("others", self.others_s, busy_w)))
            .collect();
        FrameEnergy {
            phases,
            base_w: base.watts(ghz),
            camera_w: self.camera.watts(ghz) + self.camera_w_per_fps * fps,
        }
    }

    /// The bandwidth, bytes per second, above which some remote choice within the bounds is better
    /// than every local one; 0 if this holds at every bandwidth, `None` if it holds at none or if
    /// there is nothing to compare. Mean power does not decrease with the bandwidth, so it has no
    /// such point.
    #[must_use]
    pub fn break_even_bandwidth(
        &self,
        least: Least,
        bounds: &Bounds,
        frequencies_ghz: &[f64],
        camera_fps: &[f64],
    ) -> Option<f64> {
        if least == Least::Power {
            return None;
        }
        let at = |bytes_per_s: f64| Self { bandwidth_bytes_per_s: bytes_per_s, ..self.clone() };
        let value = |model: Self| {
            best(&model.options(frequencies_ghz, camera_fps), least, bounds).map(|c| least.of(c))
        };
        let local = value(Self { remote: Vec::new(), ..self.clone() })?;
        let remote_wins = |bytes_per_s: f64| {
            value(Self { local: Vec::new(), ..at(bytes_per_s) })
                .is_some_and(|remote| remote < local)
        };
        let (mut slow, mut fast) = (1.0f64, 1e12);
        if !remote_wins(fast) {
            return None;
        }
        if remote_wins(slow) {
            return Some(0.0);
        }
        // A higher bandwidth never makes a remote choice worse: bisection finds the only crossing,
        // to a relative precision of 1e-9.
        while fast / slow > 1.0 + 1e-9 {
            let middle = (slow * fast).sqrt();
            if remote_wins(middle) { fast = middle } else { slow = middle }
        }
        Some(fast)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::energy::offload::pareto;

    fn model() -> OffloadModel {
        let law = PowerLaw { a_w_per_ghz: 0.35, b_w_per_ghz3: 0.12 };
        let local = |size_px: u32, accuracy| Sized {
            size_px,
            accuracy,
            inference: Cycles(1.0 * f64::from(size_px * size_px) / 90_000.0),
            sent_bytes: 0,
        };
        let remote = |size_px: u32, accuracy| Sized {
            size_px,
            accuracy,
            inference: Cycles(0.19),
            sent_bytes: u64::from(size_px * size_px) / 4,
        };
        OffloadModel {
            conversion: Cycles(1.03),
            others_s: 0.05,
            conversion_power: law,
            inference_power: law,
            communication_w: 1.5,
            local_base: Background { fixed_w: 0.6, w_per_ghz: 0.0 },
            remote_base: Background { fixed_w: 0.75, w_per_ghz: 0.0 },
            camera: Background { fixed_w: 1.6, w_per_ghz: 0.0 },
            camera_w_per_fps: 0.08,
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
            let choices = OffloadModel {
                local: vec![model.local[sizes.0]],
                remote: vec![model.remote[sizes.1]],
                ..model.clone()
            }
            .options(&[2.0], &[15.0]);
            best(&choices, Least::Energy, &Bounds::default()).map(|c| c.place)
        };
        assert_eq!(place(&model, (0, 0)), Some(Place::Local));
        assert_eq!(place(&model, (2, 1)), Some(Place::Remote));
        model.bandwidth_bytes_per_s = 2e4;
        assert_eq!(place(&model, (2, 1)), Some(Place::Local));
    }

    #[test]
    fn the_break_even_bandwidth_is_where_the_answer_flips() {
        let model = model();
        let bounds = Bounds { accuracy_at_least: 15.0, ..Bounds::default() };
        let place = |bandwidth_bytes_per_s: f64, least| {
            let choices = OffloadModel { bandwidth_bytes_per_s, ..model.clone() }
                .options(&[1.0, 2.0], &[15.0]);
            best(&choices, least, &bounds).map(|c| c.place)
        };
        for least in [Least::Energy, Least::Latency, Least::EnergyDelay] {
            let point = model
                .break_even_bandwidth(least, &bounds, &[1.0, 2.0], &[15.0])
                .expect("the server wins when it is near");
            assert_eq!(
                (place(0.99 * point, least), place(1.01 * point, least)),
                (Some(Place::Local), Some(Place::Remote)),
                "{least:?}"
            );
        }
        let alone = OffloadModel { remote: Vec::new(), ..model.clone() };
        assert_eq!(alone.break_even_bandwidth(Least::Energy, &bounds, &[1.0], &[15.0]), None);
        let strict = Bounds { accuracy_at_least: 99.0, ..bounds };
        assert_eq!(model.break_even_bandwidth(Least::Energy, &strict, &[1.0], &[15.0]), None);
    }

    #[test]
    fn neither_the_slowest_nor_the_fastest_clock_is_frugal() {
        let choices = model().options(&[0.3, 1.0, 1.5, 2.26, 2.65], &[5.0, 15.0, 30.0]);
        assert_eq!(choices.len(), 5 * 5 * 3);
        let accurate = Bounds { accuracy_at_least: 50.0, ..Bounds::default() };
        let fastest = best(&choices, Least::Latency, &accurate).expect("a remote choice");
        assert!(pareto(&choices).contains(fastest) && fastest.place == Place::Remote);
        // Base and camera draw power during the longer computation at a low frequency.
        let frugal = best(&choices, Least::Energy, &accurate).expect("a choice");
        assert!(!["0.3 GHz", "2.65 GHz"].contains(&frugal.setting.as_str()), "{frugal:?}");
    }

    #[test]
    fn constants_that_mean_nothing_are_named() {
        let message = |model: OffloadModel| {
            model.check().map_or_else(|e| e.to_string(), |()| "accepted".to_owned())
        };
        assert_eq!(message(model()), "accepted");
        assert_eq!(
            message(OffloadModel { round_trip_s: -1.0, ..model() }),
            "`round_trip_s` is -1; it must be a number, 0 or more"
        );
        assert_eq!(
            message(OffloadModel { bandwidth_bytes_per_s: 0.0, ..model() }),
            "`bandwidth_bytes_per_s` is 0; it must be above 0"
        );
        assert!(
            message(OffloadModel { local: vec![], remote: vec![], ..model() })
                .starts_with("no network")
        );
    }
}
