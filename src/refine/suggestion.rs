//! Whether a forecast is so uncertain that measuring its kernels is worth seconds: [`Suggestion`].
//!
//! The interval has to be wide in itself, and wider than nine tenths of those of the models that
//! were held out in training: what is usual for a bundle is not changed by measuring one model.

use crate::{bundle::Bundle, models::Model};
use vitempo_graph::Prediction;
use vitempo_predictors::metrics;

/// An interval of less than this share of the point is narrow.
const WIDE: f64 = 0.2;
/// Share of the held-out models whose intervals are narrower.
const NARROWER: f64 = 0.9;

/// A forecast that `refine` would narrow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Suggestion {
    /// Width of its interval as a share of its point.
    pub width: f64,
    /// The width that nine tenths of the held-out models do not exceed; `None` where the bundle
    /// records none.
    pub usual_width: Option<f64>,
}

impl Suggestion {
    /// For a forecast of a bundle; `None` where the interval is not wide, or the bundle or the
    /// model cannot be refined.
    #[must_use]
    pub fn of(bundle: &Bundle, model: &Model, latency: Prediction) -> Option<Self> {
        let trained = bundle.trained().filter(|_| model.is_onnx())?;
        let held_out: Vec<f64> =
            trained.held_out.models.iter().map(|row| row.predicted.relative_width()).collect();
        Self::among(latency.interval.relative_width(), &held_out)
    }

    fn among(width: f64, held_out: &[f64]) -> Option<Self> {
        let usual_width = metrics::quantile(held_out, NARROWER);
        let is_wide = width > WIDE && usual_width.is_none_or(|usual| width > usual);
        is_wide.then_some(Self { width, usual_width })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_wide_in_itself_and_among_those_held_out() {
        let held_out: Vec<f64> = (0..=100).map(|percent| f64::from(percent) / 200.0).collect();
        for (width, held_out, suggested) in [
            (0.5, &held_out[..], true),
            (0.44, &held_out, false),
            (0.15, &held_out[..20], false),
            (0.21, &held_out[..20], true),
            (0.21, &[], true),
            (0.19, &[], false),
        ] {
            assert_eq!(Suggestion::among(width, held_out).is_some(), suggested, "{width}");
        }
    }
}
