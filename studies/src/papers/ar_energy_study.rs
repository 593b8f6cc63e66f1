//! The AR energy study: object detection on a Nexus 6, locally or on an edge server; latency and
//! energy per phase, governor and input size.
//!
//! [`tables`] are its tables I to VIII with sums and reductions recomputed, [`claims`] those of the
//! text too; [`models`] puts the model of its phone (`vitempo::planners::energy::nexus6`) beside
//! every figure, whether it was fitted to it or not, and [`observations`] beside its numbered
//! observations.

mod claims;
mod models;
mod observations;
mod phone;
mod printed;

pub use claims::claims;
pub use models::models;
pub use observations::observations;
pub use printed::tables;

use super::PaperError;
use serde::Deserialize;
use vitempo::planners::energy::nexus6::Measured;

/// Table V.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phone {
    /// Name of the phone.
    pub name: String,
    /// Latency per frame on the phone, s.
    pub local_s: f64,
    /// Latency per frame on the server, s.
    pub remote_s: f64,
    /// How much less the latter is, %.
    pub reduction_pct: f64,
}

/// Section III-C.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clock {
    /// A touch in the monitor's clock, s.
    pub monitor_flag_s: f64,
    /// The same touch in the device's clock, s.
    pub device_flag_s: f64,
    /// Start and end of a conversion in the device's clock, s.
    pub device_s: [f64; 2],
    /// The same in the monitor's clock, s.
    pub monitor_s: [f64; 2],
}

/// What the study prints.
#[derive(Clone, Debug, PartialEq)]
pub struct Tables {
    /// Tables I, II, III, VI, VII and VIII.
    pub measured: Measured,
    /// The others.
    pub others: Others,
}

/// The tables that planners do not plan with.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Others {
    /// Table V.
    pub phones: Vec<Phone>,
    /// Section III-C.
    pub clock: Clock,
}

impl Tables {
    /// The tables as printed.
    ///
    /// # Errors
    /// [`PaperError`] when a file is damaged.
    pub fn read() -> Result<Self, PaperError> {
        let others = toml::from_str(include_str!("../../data/ar_energy_study.toml"))?;
        Ok(Self { measured: Measured::shipped()?, others })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_and_remote_cross_at_a_small_input() {
        let tables = Tables::read().expect("the tables");
        let t = &tables.measured.by_size;
        let gap = |i: usize| t.local_j[i] - t.remote_j[i];
        assert!(gap(0) < 0.0 && (1..t.size_px.len()).all(|i| gap(i) > 0.0));
        let crossover = f64::from(t.size_px[0])
            + f64::from(t.size_px[1] - t.size_px[0]) * -gap(0) / (gap(1) - gap(0));
        assert!((crossover - 128.3).abs() < 0.1, "{crossover}");
    }
}
