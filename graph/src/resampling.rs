//! The inputs of each output of ONNX's Resize: one index, or several with weights. Formulas of the
//! operator's specification; the cubic kernel is that of Keys (1981). Dimensions are sampled one
//! after the other.

use crate::{Attribute, Attributes};

/// How a Resize samples.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sampling {
    mode: String,
    coordinates: Coordinates,
    nearest: Rounding,
    cubic: f64,
    /// Inputs beyond the edge have no weight; else they are those at the edge.
    excludes_outside: bool,
    scales: Vec<f64>,
}

/// Where an output lies in the input.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Coordinates {
    HalfPixel,
    HalfPixelSymmetric,
    PytorchHalfPixel,
    /// TensorFlow's half pixels of `nearest`.
    HalfPixelForNearest,
    AlignCorners,
    Asymmetric,
}

impl Coordinates {
    fn of(name: &str) -> Result<Self, String> {
        Ok(match name {
            "half_pixel" => Self::HalfPixel,
            "half_pixel_symmetric" => Self::HalfPixelSymmetric,
            "pytorch_half_pixel" => Self::PytorchHalfPixel,
            "tf_half_pixel_for_nn" => Self::HalfPixelForNearest,
            "align_corners" => Self::AlignCorners,
            "asymmetric" => Self::Asymmetric,
            other => return Err(format!("a resize with coordinates `{other}` is not known")),
        })
    }
}

/// Which of its two neighbours a place between inputs is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Rounding {
    Floor,
    Ceil,
    PreferFloor,
    PreferCeil,
}

impl Rounding {
    fn of(name: &str) -> Result<Self, String> {
        Ok(match name {
            "floor" => Self::Floor,
            "ceil" => Self::Ceil,
            "round_prefer_floor" => Self::PreferFloor,
            "round_prefer_ceil" => Self::PreferCeil,
            other => return Err(format!("a resize that rounds by `{other}` is not known")),
        })
    }
}

impl Sampling {
    /// From a Resize's attributes.
    ///
    /// # Errors
    /// A sentence for a mode that is not computed here.
    pub(crate) fn of(a: &Attributes) -> Result<Self, String> {
        if a.int("antialias").unwrap_or(0) != 0 {
            return Err("an antialiased resize is not known".to_owned());
        }
        let text = |name: &str| a.text(name);
        let scales = match a.get("scales") {
            Some(Attribute::Floats(v)) => v.clone(),
            _ => Vec::new(),
        };
        Ok(Self {
            mode: text("mode").unwrap_or("nearest").to_owned(),
            coordinates: text("coordinate_transformation_mode")
                .map_or(Ok(Coordinates::HalfPixel), Coordinates::of)?,
            nearest: text("nearest_mode").map_or(Ok(Rounding::PreferFloor), Rounding::of)?,
            cubic: a.float("cubic_coeff_a").unwrap_or(-0.75),
            excludes_outside: a.int("exclude_outside").unwrap_or(0) != 0,
            scales,
        })
    }

    /// Where output `i` of dimension `d` lies in the input.
    fn position(&self, d: usize, i: usize, from: usize, to: usize) -> f64 {
        let scale = self.scales.get(d).copied().unwrap_or(to as f64 / from as f64);
        let i = i as f64;
        match self.coordinates {
            Coordinates::Asymmetric => i / scale,
            Coordinates::AlignCorners | Coordinates::PytorchHalfPixel if to == 1 => 0.0,
            Coordinates::AlignCorners => i * (from as f64 - 1.0) / (to as f64 - 1.0),
            Coordinates::HalfPixelForNearest => (i + 0.5) / scale,
            Coordinates::HalfPixel | Coordinates::PytorchHalfPixel => (i + 0.5) / scale - 0.5,
            Coordinates::HalfPixelSymmetric => {
                // Where the extent was rounded, the middle of the output stays that of the input.
                let rounded = to as f64 / (scale * from as f64);
                from as f64 / 2.0 * (1.0 - rounded) + (i + 0.5) / scale - 0.5
            }
        }
    }

    /// The input that output `i` of dimension `d` is a copy of.
    pub(crate) fn nearest(&self, d: usize, i: usize, from: usize, to: usize) -> usize {
        let x = self.position(d, i, from, to);
        let rounded = match self.nearest {
            Rounding::Floor => x.floor(),
            Rounding::Ceil => x.ceil(),
            Rounding::PreferCeil => (x + 0.5).floor(),
            Rounding::PreferFloor => (x - 0.5).ceil(),
        };
        (rounded.max(0.0) as usize).min(from.saturating_sub(1))
    }

    /// Whether outputs are weighted sums that [`Sampling::matrix`] computes.
    ///
    /// # Errors
    /// A sentence for an unknown mode.
    pub(crate) fn is_weighted(&self) -> Result<(), String> {
        match self.mode.as_str() {
            "linear" | "cubic" => Ok(()),
            mode => Err(format!("a resize by `{mode}` is not known")),
        }
    }

    /// Rows of weights, one per output, one weight per input.
    ///
    /// # Errors
    /// A sentence for an unknown mode.
    pub(crate) fn matrix(&self, d: usize, from: usize, to: usize) -> Result<Vec<f32>, String> {
        let mut matrix = vec![0.0; from * to];
        for i in 0..to {
            let x = self.position(d, i, from, to);
            let x = if self.mode == "linear" { x.clamp(0.0, from as f64 - 1.0) } else { x };
            let whole = x.floor();
            let taps: Vec<(f64, f64)> = match self.mode.as_str() {
                "linear" => vec![(whole, 1.0 - (x - whole)), (whole + 1.0, x - whole)],
                "cubic" => (-1..=2)
                    .map(|t| (whole + f64::from(t), cubic(x - whole - f64::from(t), self.cubic)))
                    .collect(),
                mode => return Err(format!("a resize by `{mode}` is not known")),
            };
            let counts = |at: f64| !self.excludes_outside || (0.0..from as f64).contains(&at);
            let counted = taps.iter().filter(|(at, _)| counts(*at));
            let total: f64 = if self.excludes_outside { counted.map(|t| t.1).sum() } else { 1.0 };
            for (at, weight) in taps.into_iter().filter(|(at, _)| counts(*at)) {
                let at = (at.max(0.0) as usize).min(from - 1);
                matrix[i * from + at] += (weight / total) as f32;
            }
        }
        Ok(matrix)
    }
}

/// Keys' cubic convolution kernel.
fn cubic(distance: f64, a: f64) -> f64 {
    let t = distance.abs();
    match t {
        _ if t <= 1.0 => ((a + 2.0) * t - (a + 3.0)) * t * t + 1.0,
        _ if t < 2.0 => ((a * t - 5.0 * a) * t + 8.0 * a) * t - 4.0 * a,
        _ => 0.0,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn sampling(mode: &str, coordinates: &str) -> Sampling {
        let text = |t: &str| Attribute::Text(t.to_owned());
        Sampling::of(
            &Attributes::new()
                .with("mode", text(mode))
                .with("coordinate_transformation_mode", text(coordinates)),
        )
        .unwrap()
    }

    #[test]
    fn weights_of_each_mode() {
        assert_eq!(
            sampling("linear", "half_pixel").matrix(0, 2, 4).unwrap(),
            [1.0, 0.0, 0.75, 0.25, 0.25, 0.75, 0.0, 1.0]
        );
        assert_eq!(
            sampling("linear", "align_corners").matrix(0, 2, 3).unwrap(),
            [1.0, 0.0, 0.5, 0.5, 0.0, 1.0]
        );
        let cubic = sampling("cubic", "half_pixel").matrix(0, 4, 8).unwrap();
        assert!(
            cubic.chunks(4).all(|row| (row.iter().sum::<f32>() - 1.0).abs() < 1e-6),
            "{cubic:?}"
        );
        assert_eq!(
            (0..4)
                .map(|i| sampling("nearest", "half_pixel").nearest(0, i, 2, 4))
                .collect::<Vec<_>>(),
            [0, 0, 1, 1]
        );
        assert_eq!(
            (0..2)
                .map(|i| sampling("nearest", "asymmetric").nearest(0, i, 4, 2))
                .collect::<Vec<_>>(),
            [0, 2]
        );
        assert!(sampling("magic", "half_pixel").matrix(0, 2, 4).is_err());
    }

    #[test]
    fn coordinates_are_those_of_the_specification() {
        let positions = |coordinates: &str, scale: f64, from: usize, to: usize| {
            let sampling = Sampling { scales: vec![scale], ..sampling("nearest", coordinates) };
            (0..to).map(|i| sampling.position(0, i, from, to)).collect::<Vec<_>>()
        };
        assert_eq!(positions("half_pixel", 2.0, 2, 4), [-0.25, 0.25, 0.75, 1.25]);
        assert_eq!(positions("half_pixel_symmetric", 2.0, 2, 4), [-0.25, 0.25, 0.75, 1.25]);
        let rounded = positions("half_pixel_symmetric", 0.75, 2, 1)[0];
        assert!((rounded - 0.5).abs() < 1e-12, "{rounded}");
        assert_eq!(positions("tf_half_pixel_for_nn", 2.0, 2, 4), [0.25, 0.75, 1.25, 1.75]);
        for (name, value) in [
            ("coordinate_transformation_mode", "tf_crop_and_resize"),
            ("coordinate_transformation_mode", "quarter_pixel"),
            ("nearest_mode", "simple"),
        ] {
            let attributes = Attributes::new().with(name, Attribute::Text(value.to_owned()));
            assert!(Sampling::of(&attributes).is_err_and(|e| e.contains(value)), "{value}");
        }
    }

    #[test]
    fn inputs_beyond_the_edge_may_count_for_nothing() {
        let text = |t: &str| Attribute::Text(t.to_owned());
        let attributes =
            Attributes::new().with("mode", text("cubic")).with_int("exclude_outside", 1);
        let matrix = Sampling::of(&attributes).unwrap().matrix(0, 2, 4).unwrap();
        // At -0.25: cubic weights of 0 and 1, whose sum is 1.
        let (at_0, at_1) = (cubic(0.25, -0.75), cubic(1.25, -0.75));
        let expected = [at_0 / (at_0 + at_1), at_1 / (at_0 + at_1)].map(|w| w as f32);
        assert_eq!(matrix[..2], expected);
    }
}
