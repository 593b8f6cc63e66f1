//! [`Camera`]: power of image generation and preview over frame rate, preview resolution and
//! post-processing, whether a sampled frame is detected or not.
//!
//! P = (P_on(f) + (e_frame + e_preview x megapixels) x fps) x (1 - s), with s the share of
//! post-processing (3A, noise reduction, colour correction, edge enhancement) where it is off.
//! P_on is drawn while the camera is open; the other part grows with every sampled frame.

use super::Background;
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// Width and height of a preview, pixels; in files and on the command line `800x600`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Resolution {
    /// Columns.
    pub width: u32,
    /// Rows.
    pub height: u32,
}

/// A camera with its preview.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Camera {
    /// Power while the camera is open, without any frame.
    pub on: Background,
    /// Energy of a sampled frame at any resolution, J.
    #[serde(default)]
    pub frame_j: f64,
    /// Energy of a sampled frame per megapixel of the preview, J.
    #[serde(default)]
    pub frame_j_per_megapixel: f64,
    /// Share of the power that post-processing takes, 0 to 1.
    #[serde(default)]
    pub post_processing_share: f64,
    /// Resolution of the preview, unless another one is chosen.
    pub preview: Resolution,
}

/// How a camera is used.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CameraUse {
    /// Sampled frames per second.
    pub fps: f64,
    /// Resolution of the preview.
    pub preview: Resolution,
    /// Whether post-processing is on.
    pub post_processing: bool,
}

/// Longest side of a resolution, pixels.
const LARGEST_SIDE: u32 = 16_384;

impl Resolution {
    /// Pixels, 1e6.
    #[must_use]
    pub fn megapixels(self) -> f64 {
        f64::from(self.width) * f64::from(self.height) / 1e6
    }
}

impl fmt::Display for Resolution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.width, self.height)
    }
}

impl FromStr for Resolution {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let pixels = 1..=LARGEST_SIDE;
        let side = |side: &str| side.trim().parse().ok().filter(|side: &u32| pixels.contains(side));
        let sides = text.split_once(['x', 'X']).map(|(w, h)| (side(w), side(h)));
        match sides {
            Some((Some(width), Some(height))) => Ok(Self { width, height }),
            _ => Err(format!(
                "`{text}` is not a resolution: expected e.g. 800x600, up to {LARGEST_SIDE} pixels \
                a side"
            )),
        }
    }
}

impl TryFrom<String> for Resolution {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Resolution> for String {
    fn from(resolution: Resolution) -> Self {
        resolution.to_string()
    }
}

impl Camera {
    /// Power of camera and preview at a frequency of the processor (GHz), W.
    #[must_use]
    pub fn watts(&self, ghz: f64, with: CameraUse) -> f64 {
        (self.on.watts(ghz) + self.sampled_j(with.preview) * with.fps) * self.kept(with)
    }

    /// Energy of one detected frame's sampling, J.
    #[must_use]
    pub fn detected_j(&self, with: CameraUse) -> f64 {
        self.sampled_j(with.preview) * self.kept(with)
    }

    fn sampled_j(&self, preview: Resolution) -> f64 {
        self.frame_j + self.frame_j_per_megapixel * preview.megapixels()
    }

    fn kept(&self, with: CameraUse) -> f64 {
        if with.post_processing { 1.0 } else { 1.0 - self.post_processing_share }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn camera() -> Camera {
        Camera {
            on: Background { fixed_w: 1.0, w_per_ghz: 0.5 },
            frame_j: 0.01,
            frame_j_per_megapixel: 0.1,
            post_processing_share: 0.2,
            preview: Resolution { width: 800, height: 500 },
        }
    }

    #[test]
    fn rate_resolution_and_post_processing_each_cost() {
        let camera = camera();
        let with =
            |fps, post_processing| CameraUse { fps, preview: camera.preview, post_processing };
        // 1 + 0.5 x 2 + (0.01 + 0.1 x 0.4) x 10 = 2.5 W.
        assert!((camera.watts(2.0, with(10.0, true)) - 2.5).abs() < 1e-12);
        assert!((camera.watts(2.0, with(10.0, false)) - 2.0).abs() < 1e-12);
        assert!((camera.detected_j(with(10.0, true)) - 0.05).abs() < 1e-12);
        let large =
            CameraUse { preview: Resolution { width: 1600, height: 1000 }, ..with(10.0, true) };
        assert!((camera.watts(2.0, large) - 3.7).abs() < 1e-12);
    }

    #[test]
    fn resolutions_are_read_and_written() {
        assert_eq!("800x600".parse(), Ok(Resolution { width: 800, height: 600 }));
        assert_eq!(Resolution { width: 320, height: 240 }.to_string(), "320x240");
        for text in ["", "800", "800x", "0x600", "800x-1", "x", "800x600x3"] {
            assert!(text.parse::<Resolution>().is_err_and(|e| e.contains("800x600")), "{text}");
        }
    }
}
