//! [`Conversion`]: converting a camera image for a network, by method and resolution.
//!
//! Cycles = c_image + c_pixel x megapixels of the preview; the input size of the network does not
//! matter (AR energy study, observation 12).

use super::{Cycles, Resolution};
use serde::{Deserialize, Serialize};

/// A method of converting images.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conversion {
    /// Its name.
    pub method: String,
    /// Work per image, 1e9 cycles.
    #[serde(default)]
    pub image: f64,
    /// Work per megapixel, 1e9 cycles.
    pub per_megapixel: f64,
}

impl Conversion {
    /// Work for an image of a resolution.
    #[must_use]
    pub fn cycles(&self, resolution: Resolution) -> Cycles {
        Cycles(self.image + self.per_megapixel * resolution.megapixels())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_pixels_take_more_cycles() {
        let method = Conversion { method: "java".to_owned(), image: 0.1, per_megapixel: 2.0 };
        let at = |width, height| method.cycles(Resolution { width, height }).0;
        assert!((at(1000, 500) - 1.1).abs() < 1e-12 && at(320, 240) < at(640, 480));
    }
}
