//! The inputs of each output of ONNX's Resize: one index, or several with weights. Formulas of the
//! operator's specification; the cubic kernel is that of Keys (1981). Dimensions are sampled one
//! after the other.

use crate::{Attribute, Attributes};

/// How a Resize samples.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sampling {
    mode: String,
    coordinates: String,
    nearest: String,
    cubic: f64,
    scales: Vec<f64>,
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
        let text = |name: &str, default: &str| a.text(name).unwrap_or(default).to_owned();
        let scales = match a.get("scales") {
            Some(Attribute::Floats(v)) => v.clone(),
            _ => Vec::new(),
        };
        Ok(Self {
            mode: text("mode", "nearest"),
            coordinates: text("coordinate_transformation_mode", "half_pixel"),
            nearest: text("nearest_mode", "round_prefer_floor"),
            cubic: a.float("cubic_coeff_a").unwrap_or(-0.75),
            scales,
        })
    }

    /// Where output `i` of dimension `d` lies in the input.
    fn position(&self, d: usize, i: usize, from: usize, to: usize) -> f64 {
        let scale = self.scales.get(d).copied().unwrap_or(to as f64 / from as f64);
        let i = i as f64;
        match self.coordinates.as_str() {
            "asymmetric" => i / scale,
            "align_corners" if to == 1 => 0.0,
            "align_corners" => i * (from as f64 - 1.0) / (to as f64 - 1.0),
            "pytorch_half_pixel" if to == 1 => 0.0,
            _ => (i + 0.5) / scale - 0.5,
        }
    }

    /// The input that output `i` of dimension `d` is a copy of.
    pub(crate) fn nearest(&self, d: usize, i: usize, from: usize, to: usize) -> usize {
        let x = self.position(d, i, from, to);
        let rounded = match self.nearest.as_str() {
            "floor" => x.floor(),
            "ceil" => x.ceil(),
            "round_prefer_ceil" => (x + 0.5).floor(),
            _ => (x - 0.5).ceil(),
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
            for (at, weight) in taps {
                let at = (at.max(0.0) as usize).min(from - 1);
                matrix[i * from + at] += weight as f32;
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
}
