//! [`compare`]: the forecast of a split beside its measurement.

use super::{MeasuredSplit, between_ns};
use crate::plan::split::Forecast;
use vitempo_planners::cost::Interval;

/// The forecast of a split beside its measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// What is compared.
    pub what: &'static str,
    /// What the costs say, ns.
    pub forecast_ns: Interval,
    /// What was measured, ns; `None` without samples.
    pub measured_ns: Option<Interval>,
}

impl Compared {
    /// The measurement relative to the forecast: 0.1 for 10 % more.
    #[must_use]
    pub fn off(&self) -> Option<f64> {
        let forecast = self.forecast_ns.point();
        let measured = self.measured_ns?.point() as f64;
        (forecast > 0).then(|| measured / forecast as f64 - 1.0)
    }
}

/// Latency, period, and the parts of the latency.
#[must_use]
pub fn compare(forecast: &Forecast, measured: &MeasuredSplit) -> Vec<Compared> {
    let row = |what, forecast_ns, measured_ns| Compared { what, forecast_ns, measured_ns };
    vec![
        row("latency", forecast.latency_ns, measured.alone(|t| t.latency_ns)),
        row("period", forecast.period_ns, measured.period_ns()),
        row("device", forecast.device_ns, measured.alone(|t| t.device_ns)),
        row("link", forecast.there_ns + forecast.back_ns, measured.alone(between_ns)),
        row("server", forecast.server_ns, measured.alone(|t| t.server_ns)),
    ]
}
