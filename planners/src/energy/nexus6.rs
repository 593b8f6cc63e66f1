//! A phone with measured energy: the Nexus 6 of the AR energy study, which detected objects locally
//! or on an edge server, under six governors.
//!
//! [`choices`] are its measurements for [`super::offload`], [`device`] its constants in the terms
//! of the phase model, [`local_frame`] its frames. The study's other figures, and those that
//! contradict each other, are in the repository's `studies/`.

use super::{
    Cycles, FrameEnergy, Phase, PowerLaw,
    dissect::OTHERS,
    offload::{Background, Choice, OffloadModel, Place, Sized},
};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Camera frames per second of the study.
const CAMERA_FPS: f64 = 15.0;

/// Why the constants of the phone are not available.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Nexus6Error {
    /// The shipped file cannot be read.
    #[error("the shipped measurements of the Nexus 6 are damaged: {0}")]
    Table(#[from] toml::de::Error),
    /// The shipped file lacks an entry.
    #[error("the shipped measurements of the Nexus 6 lack {0}")]
    Row(&'static str),
    /// A governor that was not measured.
    #[error("the Nexus 6 was not measured under governor `{name}`: it was under {known}")]
    Governor {
        /// The given name.
        name: String,
        /// The measured governors.
        known: String,
    },
}

/// Local execution, 300 x 300 px: tables I and II; one entry per governor, means per frame.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Local {
    /// Sum of the phases, s.
    pub latency_s: Vec<f64>,
    /// Conversion of the image, s.
    pub conversion_s: Vec<f64>,
    /// The network, s.
    pub inference_s: Vec<f64>,
    /// Between the phases, s.
    pub others_s: Vec<f64>,
    /// Mean power, W.
    pub power_w: Vec<f64>,
    /// Sum of the parts, J.
    pub energy_j: Vec<f64>,
    /// Image generation and preview, J.
    pub generation_and_preview_j: Vec<f64>,
    /// The network, J.
    pub inference_j: Vec<f64>,
    /// Conversion of the image, J.
    pub conversion_j: Vec<f64>,
    /// System and screen, J.
    pub base_j: Vec<f64>,
    /// Between the phases, J.
    pub others_j: Vec<f64>,
}

/// Remote execution, 320 x 320 px: tables III and VI; one entry per governor, means per frame.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Remote {
    /// Sum of the phases, s.
    pub latency_s: Vec<f64>,
    /// Conversion of the image, s.
    pub conversion_s: Vec<f64>,
    /// The network on the server, s.
    pub inference_s: Vec<f64>,
    /// Sending and receiving, s.
    pub communication_s: Vec<f64>,
    /// Between the phases, s.
    pub others_s: Vec<f64>,
    /// Reduction of the latency relative to local execution, %.
    pub latency_reduction_pct: Vec<f64>,
    /// Mean power, W.
    pub power_w: Vec<f64>,
    /// Energy of the phone, J.
    pub energy_j: Vec<f64>,
    /// Reduction of the power relative to local execution, %.
    pub power_reduction_pct: Vec<f64>,
    /// Reduction of the energy relative to local execution, %.
    pub energy_reduction_pct: Vec<f64>,
}

/// Mean average precision near 300 x 300 px, %: section V-A.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Accuracy {
    /// MobileNet-SSD.
    pub local_map: f64,
    /// YOLOv3.
    pub remote_map: f64,
}

/// The measurements of the study.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// Names of the governors, in the order of the entries.
    pub governors: Vec<String>,
    /// Frequency of the governors that fix it, GHz.
    pub fixed_ghz: BTreeMap<String, f64>,
    /// Local execution.
    pub local: Local,
    /// Remote execution.
    pub remote: Remote,
    /// Accuracy of both networks.
    pub accuracy: Accuracy,
}

impl Measured {
    /// The measurements as printed.
    ///
    /// # Errors
    /// [`Nexus6Error::Table`] when the shipped file is damaged.
    pub fn shipped() -> Result<Self, Nexus6Error> {
        Ok(toml::from_str(include_str!("../../data/nexus6.toml"))?)
    }

    /// The index of a governor.
    ///
    /// # Errors
    /// [`Nexus6Error::Governor`] for one that was not measured.
    pub fn governor(&self, name: &str) -> Result<usize, Nexus6Error> {
        self.governors.iter().position(|g| g == name).ok_or_else(|| Nexus6Error::Governor {
            name: name.to_owned(),
            known: self.governors.join(", "),
        })
    }

    /// The index of a governor, and the frequency that it fixes, GHz.
    ///
    /// # Errors
    /// [`Nexus6Error`] for one that was not measured or fixes none.
    pub fn fixed(&self, name: &str) -> Result<(usize, f64), Nexus6Error> {
        let ghz = self.fixed_ghz.get(name);
        Ok((self.governor(name)?, *ghz.ok_or(Nexus6Error::Row("the frequency of a governor"))?))
    }
}

/// The study's measured choices: each governor, local and remote, with mean average precision as
/// printed for about this size. The two places run different networks (MobileNet-SSD at 300 px,
/// YOLOv3 at 320 px), so accuracy must be part of the comparison.
///
/// # Errors
/// [`Nexus6Error`] when the shipped measurements are damaged.
pub fn choices() -> Result<Vec<Choice>, Nexus6Error> {
    let Measured { governors, local, remote, accuracy, .. } = Measured::shipped()?;
    let places = [
        (Place::Local, 300, &local.latency_s, &local.energy_j, accuracy.local_map),
        (Place::Remote, 320, &remote.latency_s, &remote.energy_j, accuracy.remote_map),
    ];
    let mut all = Vec::new();
    for (place, size_px, latency, energy, accuracy) in places {
        for ((setting, &latency_s), &energy_j) in governors.iter().zip(latency).zip(energy) {
            let (setting, camera_fps) = (setting.clone(), Some(CAMERA_FPS));
            all.push(Choice { place, setting, size_px, camera_fps, latency_s, energy_j, accuracy });
        }
    }
    Ok(all)
}

/// A frame of local execution under a governor, from tables I and II.
///
/// # Errors
/// [`Nexus6Error::Governor`] for a governor that the study did not measure.
pub fn local_frame(governor: &str) -> Result<FrameEnergy, Nexus6Error> {
    let measured = Measured::shipped()?;
    let (l, g) = (&measured.local, measured.governor(governor)?);
    let phase = |name: &str, seconds: f64, joules: f64| Phase {
        name: name.to_owned(),
        seconds,
        watts: joules / seconds,
    };
    let phases = vec![
        phase("conversion", l.conversion_s[g], l.conversion_j[g]),
        phase(OTHERS, l.others_s[g], l.others_j[g]),
        phase("inference", l.inference_s[g], l.inference_j[g]),
    ];
    Ok(FrameEnergy {
        phases,
        base_w: l.base_j[g] / l.latency_s[g],
        camera_w: l.generation_and_preview_j[g] / l.latency_s[g],
    })
}

/// Constants of the study's phone and server: cycles from the performance governor, powers through
/// 0.3 and 2.649 GHz; local 300 px, remote 320 px. The study does not print the amount of data sent
/// or the bandwidth: communication is one round trip, independent of the bandwidth.
///
/// # Errors
/// [`Nexus6Error`] when the shipped measurements are damaged.
pub fn device() -> Result<OffloadModel, Nexus6Error> {
    let measured = Measured::shipped()?;
    let (local, remote) = (&measured.local, &measured.remote);
    let ((low, low_ghz), (high, high_ghz)) =
        (measured.fixed("powersave")?, measured.fixed("performance")?);
    let law = |joules: &[f64], seconds: &[f64]| {
        let watts = |g: usize| joules[g] / seconds[g];
        PowerLaw::through((low_ghz, watts(low)), (high_ghz, watts(high)))
            .ok_or(Nexus6Error::Row("two frequencies"))
    };
    let background = |joules: &[f64]| {
        let watts = |g: usize| joules[g] / local.latency_s[g];
        Background::through((low_ghz, watts(low)), (high_ghz, watts(high)))
    };
    let (base, camera) = (background(&local.base_j), background(&local.generation_and_preview_j));
    let conversion_power = law(&local.conversion_j, &local.conversion_s)?;
    // The energy of a remote frame without background, conversion and others, divided by the time
    // of communication and waiting.
    let busy_s = remote.conversion_s[high] + remote.others_s[high];
    let always_w = base.watts(high_ghz) + camera.watts(high_ghz);
    let rest_j = remote.energy_j[high]
        - always_w * remote.latency_s[high]
        - conversion_power.watts(high_ghz) * busy_s;
    Ok(OffloadModel {
        conversion: Cycles::measured(local.conversion_s[high], high_ghz),
        others_s: local.others_s[high],
        conversion_power,
        inference_power: law(&local.inference_j, &local.inference_s)?,
        communication_w: rest_j / (remote.inference_s[high] + remote.communication_s[high]),
        local_base: base,
        remote_base: base,
        camera,
        camera_w_per_fps: 0.0,
        round_trip_s: remote.communication_s[high],
        bandwidth_bytes_per_s: f64::INFINITY,
        local: vec![Sized {
            size_px: 300,
            accuracy: measured.accuracy.local_map,
            inference: Cycles::measured(local.inference_s[high], high_ghz),
            sent_bytes: 0,
        }],
        remote: vec![Sized {
            size_px: 320,
            accuracy: measured.accuracy.remote_map,
            inference: Cycles(remote.inference_s[high]),
            sent_bytes: 0,
        }],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::energy::offload::{Bounds, Least, best, pareto};

    #[test]
    fn a_frame_has_the_printed_energy() {
        // 5.037 J in 0.823 s.
        let frame = local_frame("performance").expect("a frame");
        assert!(
            (frame.latency_s() - 0.823).abs() < 1e-9 && (frame.energy_j() - 5.037).abs() < 1e-9
        );
        assert!(local_frame("turbo").is_err_and(|e| e.to_string().contains("governor `turbo`")));
    }

    #[test]
    fn constants_fitted_at_the_ends_hold_in_between() {
        let measured = Measured::shipped().expect("the shipped measurements");
        let (g, ghz) = measured.fixed("userspace").expect("a governor");
        let device = device().expect("a device");
        assert!(device.check().is_ok());
        for (place, network, latency_s, energy_j) in [
            (
                Place::Local,
                &device.local[0],
                measured.local.latency_s[g],
                measured.local.energy_j[g],
            ),
            (
                Place::Remote,
                &device.remote[0],
                measured.remote.latency_s[g],
                measured.remote.energy_j[g],
            ),
        ] {
            let frame = device.frame(place, network, ghz, 15.0);
            let apart = |modelled: f64, printed: f64| (modelled / printed - 1.0).abs();
            assert!(
                apart(frame.latency_s(), latency_s) < 0.06,
                "{place:?}: {} s instead of {latency_s} s",
                frame.latency_s()
            );
            assert!(
                apart(frame.energy_j(), energy_j) < 0.06,
                "{place:?}: {} J instead of {energy_j} J",
                frame.energy_j()
            );
        }
    }

    #[test]
    fn the_study_s_best_governors_are_chosen() {
        let options = choices().expect("the shipped measurements");
        let choose = |place: Place, least| {
            let here: Vec<Choice> = options.iter().filter(|c| c.place == place).cloned().collect();
            best(&here, least, &Bounds::default()).map(|c| c.setting.clone()).unwrap_or_default()
        };
        for (place, least, governor) in [
            (Place::Local, Least::Energy, "performance"),
            (Place::Remote, Least::Energy, "userspace"),
            (Place::Local, Least::Latency, "performance"),
            (Place::Remote, Least::Latency, "performance"),
            (Place::Local, Least::EnergyDelay, "performance"),
            (Place::Remote, Least::EnergyDelay, "performance"),
            (Place::Local, Least::Power, "powersave"),
        ] {
            assert_eq!(choose(place, least), governor, "{place:?} {least:?}");
        }
        // Remote is faster, takes less energy and is more accurate under the same governor, but for
        // latency under `conservative`.
        let front = pareto(&options);
        assert!(front.iter().all(|c| c.place == Place::Remote), "{front:?}");
        assert_eq!(
            front.iter().map(|c| c.setting.as_str()).collect::<Vec<_>>(),
            ["userspace", "interactive", "ondemand", "performance"]
        );
    }
}
