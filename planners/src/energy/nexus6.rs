//! A phone with measured energy: the Nexus 6 of the AR energy study, which detected objects locally
//! or on an edge server, under six governors.
//!
//! [`choices`] are its measurements for [`super::offload`], [`device`] its constants in the terms
//! of the phase model, [`local_frame`] its frames. The study's other figures, those that contradict
//! each other, and its observations are in the repository's `studies/`.

mod fit;

pub use fit::{FITTED_RESOLUTIONS, FITTED_SIZES_PX, as_measured, device};

use super::{
    CameraUse, FrameEnergy, Phase, Processor, Radio, Resolution,
    dissect::OTHERS,
    offload::{Choice, Place},
};
use serde::Deserialize;
use std::collections::BTreeMap;

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

/// Energy by input size, interactive governor: table VII.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnergyBySize {
    /// Sides of the square input, pixels.
    pub size_px: Vec<u32>,
    /// Energy per frame on the phone, J.
    pub local_j: Vec<f64>,
    /// Energy per frame of the phone, with the network on the server, J.
    pub remote_j: Vec<f64>,
    /// Reduction of the latter relative to the former, %.
    pub reduction_pct: Vec<f64>,
}

/// Conversion of an image: table VIII.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConversionLatency {
    /// Resolutions of the preview.
    pub resolution: Vec<Resolution>,
    /// In Java, ms.
    pub java_ms: Vec<f64>,
    /// In C, ms.
    pub c_ms: Vec<f64>,
    /// Reduction of the latter relative to the former, %.
    pub reduction_pct: Vec<f64>,
}

/// The camera: sections III-B and V-C.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CameraFigures {
    /// Frames per second where nothing else is said.
    pub fps: f64,
    /// The same of the preview.
    pub preview: Resolution,
    /// Share of post-processing in the power of image generation and preview, %.
    pub post_processing_pct: f64,
    /// Reduction of a remote frame's energy without post-processing, both at 30 frames/s, %.
    pub off_at_30_fps_pct: f64,
    /// The same at 5 frames/s, relative to all enabled at 30, %.
    pub off_at_5_fps_pct: f64,
}

/// The phases of a phone's WiFi, from another paper.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wifi {
    promotion_s: f64,
    promotion_w: f64,
    tail_s: f64,
    tail_w: f64,
    idle_w: f64,
}

impl Wifi {
    /// The interface, with the power of sending, W.
    #[must_use]
    pub fn radio(self, transmit_w: f64) -> Radio {
        let Self { promotion_s, promotion_w, tail_s, tail_w, idle_w } = self;
        Radio { promotion_s, promotion_w, transmit_w, tail_s, tail_w, idle_w }
    }
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
    /// Energy by input size.
    pub by_size: EnergyBySize,
    /// Latency of conversion by method and resolution.
    pub conversion: ConversionLatency,
    /// The camera.
    pub camera: CameraFigures,
    /// The radio's phases, from another paper.
    pub wifi: Wifi,
    /// Frequencies, and loads that governors see.
    pub processor: Processor,
}

/// Camera frames per second up to which the study measured the camera (figure of section V-C).
pub const MOST_CAMERA_FPS: f64 = 30.0;

impl CameraFigures {
    /// The camera as the study used it.
    #[must_use]
    pub fn as_used(&self) -> CameraUse {
        CameraUse { fps: self.fps, preview: self.preview, post_processing: true }
    }
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
    let Measured { governors, local, remote, accuracy, camera, .. } = Measured::shipped()?;
    let places = [
        (Place::Local, 300, &local.latency_s, &local.energy_j, accuracy.local_map),
        (Place::Remote, 320, &remote.latency_s, &remote.energy_j, accuracy.remote_map),
    ];
    let mut all = Vec::new();
    for (place, size_px, latency, energy, accuracy) in places {
        for ((setting, &latency_s), &energy_j) in governors.iter().zip(latency).zip(energy) {
            all.push(Choice {
                place,
                setting: setting.clone(),
                size_px,
                camera_fps: Some(camera.fps),
                latency_s,
                energy_j,
                accuracy: Some(accuracy),
                modelled: None,
            });
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
