//! [`OffloadModel`]: a device, a server and the network between them, in terms of the phase model.
//!
//! Conversion and local inference are cycles of the device, remote inference is time of the server,
//! communication is a promotion of the radio, bytes over a bandwidth, and a round trip. Base and
//! camera draw power all the time, for frames that are detected and for those that are not.

use super::{OffloadError, Place};
use crate::energy::{Background, Camera, Conversion, Cycles, PowerLaw, Processor, Radio};
use serde::{Deserialize, Serialize};

/// A network at one input size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sized {
    /// Side of the square input, pixels.
    pub size_px: u32,
    /// Mean average precision, %; `None` where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// Work of one inference: 1e9 cycles of the device (local), or seconds of the server (remote).
    pub inference: Cycles,
    /// Data sent per frame, bytes; 0 for local networks.
    #[serde(default)]
    pub sent_bytes: u64,
}

/// Work of one inference as a straight line over the pixels of its input.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SizeLaw {
    /// At any size: 1e9 cycles of the device (local), or seconds of the server (remote).
    pub fixed: f64,
    /// The same per megapixel of the input.
    pub per_megapixel: f64,
}

/// Networks at any input size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BySize {
    /// On the device.
    #[serde(default)]
    pub local: Option<SizeLaw>,
    /// On the server.
    #[serde(default)]
    pub remote: Option<SizeLaw>,
    /// Data sent per pixel of the input, bytes.
    #[serde(default)]
    pub sent_bytes_per_pixel: f64,
}

/// A device, a server, and the network between them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OffloadModel {
    /// Methods of converting a camera image; the first is the default.
    pub conversion: Vec<Conversion>,
    /// Time of drawing results and other work, s; at the power of conversion.
    pub others_s: f64,
    /// Power of conversion.
    pub conversion_power: PowerLaw,
    /// Power of local inference.
    pub inference_power: PowerLaw,
    /// Power of system and screen, without any radio.
    pub base: Background,
    /// Camera and preview.
    pub camera: Camera,
    /// The wireless interface; it is off for local execution.
    #[serde(default)]
    pub radio: Radio,
    /// Round trip per sent frame, s.
    #[serde(default)]
    pub round_trip_s: f64,
    /// Bandwidth of the uplink, bytes per second.
    pub bandwidth_bytes_per_s: f64,
    /// Networks on the device.
    #[serde(default)]
    pub local: Vec<Sized>,
    /// Networks on the server.
    #[serde(default)]
    pub remote: Vec<Sized>,
    /// Networks at other input sizes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_size: Option<BySize>,
    /// Frequencies and loads, for governors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor: Option<Processor>,
}

impl SizeLaw {
    /// Work at an input of `size_px` by `size_px`.
    #[must_use]
    pub fn at(self, size_px: u32) -> Cycles {
        Cycles(self.fixed + self.per_megapixel * f64::from(size_px).powi(2) / 1e6)
    }
}

impl BySize {
    /// The network of a place at a size; `None` where the place has no law.
    #[must_use]
    pub fn network(&self, place: Place, size_px: u32) -> Option<Sized> {
        let (law, sent_bytes) = match place {
            Place::Local => (self.local?, 0.0),
            Place::Remote => (self.remote?, self.sent_bytes_per_pixel * f64::from(size_px).powi(2)),
        };
        let inference = law.at(size_px);
        Some(Sized { size_px, accuracy: None, inference, sent_bytes: sent_bytes.round() as u64 })
    }
}

impl OffloadModel {
    /// Checks the ranges of the constants.
    ///
    /// # Errors
    /// [`OffloadError`] naming the constant.
    pub fn check(&self) -> Result<(), OffloadError> {
        let laws = self.by_size.iter().flat_map(|law| [law.local, law.remote]).flatten();
        if self.local.is_empty() && self.remote.is_empty() && laws.count() == 0 {
            return Err(OffloadError::NoNetwork);
        }
        if self.conversion.is_empty() {
            return Err(OffloadError::NoConversion);
        }
        let constant = |field, value, wanted| Err(OffloadError::Constant { field, value, wanted });
        let above_zero = [
            ("bandwidth_bytes_per_s", self.bandwidth_bytes_per_s),
            ("camera.preview", self.camera.preview.megapixels()),
        ];
        if let Some((field, value)) = above_zero.into_iter().find(|(_, v)| v.is_nan() || *v <= 0.0)
        {
            return constant(field, value, "above 0");
        }
        let at_least_zero =
            self.constants().into_iter().find(|(_, value)| !value.is_finite() || *value < 0.0);
        if let Some((field, value)) = at_least_zero {
            return constant(field, value, "a number, 0 or more");
        }
        let networks = self.local.iter().chain(&self.remote);
        let accuracies = networks.filter_map(|n| n.accuracy).map(|value| ("accuracy", value));
        if let Some((field, value)) = accuracies.into_iter().find(|(_, value)| *value > 100.0) {
            return constant(field, value, "a percentage, 0 to 100");
        }
        if let Some((field, value)) = self.shares().into_iter().find(|(_, share)| *share > 1.0) {
            return constant(field, value, "a share, 0 to 1");
        }
        self.check_steps()
    }

    fn check_steps(&self) -> Result<(), OffloadError> {
        let steps = self.processor.iter().flat_map(|p| &p.steps_ghz);
        let mut below = 0.0;
        for &value in steps {
            if !value.is_finite() || value <= below {
                let (field, wanted) =
                    ("processor.steps_ghz", "above 0 and above the one before it");
                return Err(OffloadError::Constant { field, value, wanted });
            }
            below = value;
        }
        Ok(())
    }

    /// Constants that are shares.
    fn shares(&self) -> Vec<(&'static str, f64)> {
        let mut shares = vec![("camera.post_processing_share", self.camera.post_processing_share)];
        if let Some(processor) = &self.processor {
            let loads = processor.loads;
            shares.extend([
                ("processor.loads.conversion", loads.conversion),
                ("processor.loads.inference", loads.inference),
                ("processor.loads.waiting", loads.waiting),
            ]);
        }
        shares
    }

    /// Constants that are 0 or more.
    fn constants(&self) -> Vec<(&'static str, f64)> {
        let radio = self.radio;
        let mut all = vec![
            ("others_s", self.others_s),
            ("conversion_power.a_w_per_ghz", self.conversion_power.a_w_per_ghz),
            ("conversion_power.b_w_per_ghz3", self.conversion_power.b_w_per_ghz3),
            ("inference_power.a_w_per_ghz", self.inference_power.a_w_per_ghz),
            ("inference_power.b_w_per_ghz3", self.inference_power.b_w_per_ghz3),
            ("base.fixed_w", self.base.fixed_w),
            ("base.w_per_ghz", self.base.w_per_ghz),
            ("camera.on.fixed_w", self.camera.on.fixed_w),
            ("camera.on.w_per_ghz", self.camera.on.w_per_ghz),
            ("camera.frame_j", self.camera.frame_j),
            ("camera.frame_j_per_megapixel", self.camera.frame_j_per_megapixel),
            ("radio.promotion_s", radio.promotion_s),
            ("radio.promotion_w", radio.promotion_w),
            ("radio.transmit_w", radio.transmit_w),
            ("radio.tail_s", radio.tail_s),
            ("radio.tail_w", radio.tail_w),
            ("radio.idle_w", radio.idle_w),
            ("round_trip_s", self.round_trip_s),
        ];
        all.extend(self.conversion.iter().flat_map(|method| {
            [("conversion.image", method.image), ("conversion.per_megapixel", method.per_megapixel)]
        }));
        all.extend(self.local.iter().chain(&self.remote).flat_map(|network| {
            [("inference", network.inference.0), ("accuracy", network.accuracy.unwrap_or(0.0))]
        }));
        if let Some(by_size) = &self.by_size {
            all.push(("by_size.sent_bytes_per_pixel", by_size.sent_bytes_per_pixel));
            for law in [by_size.local, by_size.remote].into_iter().flatten() {
                all.extend([
                    ("by_size.fixed", law.fixed),
                    ("by_size.per_megapixel", law.per_megapixel),
                ]);
            }
        }
        all.extend(self.shares());
        all
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::energy::Resolution;

    pub fn model() -> OffloadModel {
        let law = PowerLaw { a_w_per_ghz: 0.35, b_w_per_ghz3: 0.12 };
        let local = |size_px: u32, accuracy| Sized {
            size_px,
            accuracy: Some(accuracy),
            inference: Cycles(1.0 * f64::from(size_px * size_px) / 90_000.0),
            sent_bytes: 0,
        };
        let remote = |size_px: u32, accuracy| Sized {
            size_px,
            accuracy: Some(accuracy),
            inference: Cycles(0.19),
            sent_bytes: u64::from(size_px * size_px) / 4,
        };
        let java = Conversion { method: "java".to_owned(), image: 0.03, per_megapixel: 1.0 / 0.48 };
        let c = Conversion { method: "c".to_owned(), image: 0.0, per_megapixel: 0.2 };
        OffloadModel {
            conversion: vec![java, c],
            others_s: 0.05,
            conversion_power: law,
            inference_power: law,
            base: Background { fixed_w: 0.6, w_per_ghz: 0.0 },
            camera: Camera {
                on: Background { fixed_w: 1.6, w_per_ghz: 0.0 },
                frame_j: 0.0,
                frame_j_per_megapixel: 0.08 / 0.48,
                post_processing_share: 0.15,
                preview: Resolution { width: 800, height: 600 },
            },
            radio: Radio {
                promotion_s: 0.08,
                promotion_w: 0.2,
                transmit_w: 2.0,
                tail_s: 0.24,
                tail_w: 0.2,
                idle_w: 0.01,
            },
            round_trip_s: 0.05,
            bandwidth_bytes_per_s: 1e6,
            local: vec![local(100, 10.0), local(300, 19.3), local(600, 22.0)],
            remote: vec![remote(320, 51.5), remote(608, 57.9)],
            by_size: None,
            processor: None,
        }
    }

    #[test]
    fn constants_that_mean_nothing_are_named() {
        let message = |model: OffloadModel| {
            model.check().map_or_else(|e| e.to_string(), |()| "accepted".to_owned())
        };
        let camera = |share| Camera { post_processing_share: share, ..model().camera };
        let loads = crate::energy::Loads { conversion: 0.9, inference: 0.9, waiting: 1.5 };
        let processor =
            |steps_ghz: &[f64], loads| Some(Processor { steps_ghz: steps_ghz.to_vec(), loads });
        let by_size = |fixed| {
            let law = SizeLaw { fixed, per_megapixel: 1.0 };
            Some(BySize { local: Some(law), remote: None, sent_bytes_per_pixel: 0.0 })
        };
        let idle = crate::energy::Loads { waiting: 0.1, ..loads };
        for (altered, expected) in [
            (model(), "accepted"),
            (
                OffloadModel { round_trip_s: -1.0, ..model() },
                "`round_trip_s` is -1; it must be a number, 0 or more",
            ),
            (
                OffloadModel { bandwidth_bytes_per_s: 0.0, ..model() },
                "`bandwidth_bytes_per_s` is 0; it must be above 0",
            ),
            (
                OffloadModel { local: vec![], remote: vec![], ..model() },
                "no network is listed, neither under `local` nor under `remote`, and there is no \
                 `by_size`",
            ),
            (
                OffloadModel { conversion: vec![], ..model() },
                "`conversion` lists no method of converting images",
            ),
            (
                OffloadModel { camera: camera(1.2), ..model() },
                "`camera.post_processing_share` is 1.2; it must be a share, 0 to 1",
            ),
            (
                OffloadModel { radio: Radio { tail_s: f64::NAN, ..model().radio }, ..model() },
                "`radio.tail_s` is NaN; it must be a number, 0 or more",
            ),
            (
                OffloadModel { processor: processor(&[1.0], loads), ..model() },
                "`processor.loads.waiting` is 1.5; it must be a share, 0 to 1",
            ),
            (
                OffloadModel { processor: processor(&[1.0, 0.5], idle), ..model() },
                "`processor.steps_ghz` is 0.5; it must be above 0 and above the one before it",
            ),
            (
                OffloadModel { by_size: by_size(-1.0), ..model() },
                "`by_size.fixed` is -1; it must be a number, 0 or more",
            ),
        ] {
            assert_eq!(message(altered), expected);
        }
    }
}
