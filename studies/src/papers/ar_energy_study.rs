//! The AR energy study: object detection on a Nexus 6, locally or on an edge server; latency and
//! energy per phase, governor and input size.
//!
//! [`tables`] are its tables I to VIII with sums and reductions recomputed, [`claims`] those of the
//! text too; [`models`] compares the phase model, fitted at two frequencies, with the third. Its
//! phone as constants is `vitempo::planners::energy::nexus6`.

mod claims;
mod printed;

pub use claims::claims;
pub use printed::tables;

use super::{PaperError, Reproduced};
use serde::Deserialize;
use vitempo::planners::{
    Evidence,
    energy::{Cycles, PowerLaw, nexus6::Measured},
};

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

/// Table VII.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BySize {
    /// Sides of the square input, pixels.
    pub size_px: Vec<u32>,
    /// Energy per frame on the phone, J.
    pub local_j: Vec<f64>,
    /// Energy per frame of the phone, with the network on the server, J.
    pub remote_j: Vec<f64>,
    /// How much less the latter is, %.
    pub reduction_pct: Vec<f64>,
}

/// Table VIII.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conversion {
    /// Width and height, pixels.
    pub resolution: Vec<String>,
    /// In Java, ms.
    pub java_ms: Vec<f64>,
    /// In C, ms.
    pub c_ms: Vec<f64>,
    /// How much less the latter is, %.
    pub reduction_pct: Vec<f64>,
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
    /// Tables I, II, III and VI.
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
    /// Table VII.
    pub by_size: BySize,
    /// Table VIII.
    pub conversion: Conversion,
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

/// What the phase model says where it was not fitted: times as cycles over frequency from the
/// performance governor, power through the two end points.
///
/// # Errors
/// [`PaperError`] when a file is damaged.
pub fn models() -> Result<Vec<Reproduced>, PaperError> {
    let tables = Tables::read()?;
    let Measured { local, remote, .. } = &tables.measured;
    let fixed = |governor: &str| tables.measured.fixed(governor);
    let ((low, low_ghz), (mid, mid_ghz), (high, high_ghz)) =
        (fixed("powersave")?, fixed("userspace")?, fixed("performance")?);
    let mut rows = Vec::new();
    let mut row = |what: String, printed, modelled| {
        rows.push(Reproduced { what, printed, modelled, evidence: Evidence::PaperTable });
    };
    for (phase, seconds) in [
        ("local conversion", &local.conversion_s),
        ("local inference", &local.inference_s),
        ("remote conversion", &remote.conversion_s),
    ] {
        let cycles = Cycles::measured(seconds[high], high_ghz);
        for (governor, ghz) in [(mid, mid_ghz), (low, low_ghz)] {
            row(format!("{phase} at {ghz} GHz, s"), seconds[governor], cycles.seconds(ghz));
        }
    }
    for (phase, joules, seconds) in [
        ("conversion", &local.conversion_j, &local.conversion_s),
        ("inference", &local.inference_j, &local.inference_s),
    ] {
        let watts = |governor: usize| joules[governor] / seconds[governor];
        let law = PowerLaw::through((low_ghz, watts(low)), (high_ghz, watts(high)))
            .ok_or_else(|| PaperError::Row("two frequencies".to_owned()))?;
        row(format!("{phase} power at {mid_ghz} GHz, W"), watts(mid), law.watts(mid_ghz));
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_fitted_at_the_ends_holds_in_between() {
        for row in models().expect("the tables") {
            let allowed = if row.what.contains("W") {
                0.01
            } else if row.what.contains("0.3 GHz") {
                0.15
            } else {
                0.025
            };
            assert!(row.error().abs() < allowed, "{}: {:+.3}", row.what, row.error());
        }
    }

    #[test]
    fn local_and_remote_cross_at_a_small_input() {
        let tables = Tables::read().expect("the tables");
        let t = &tables.others.by_size;
        let gap = |i: usize| t.local_j[i] - t.remote_j[i];
        assert!(gap(0) < 0.0 && (1..t.size_px.len()).all(|i| gap(i) > 0.0));
        let crossover = f64::from(t.size_px[0])
            + f64::from(t.size_px[1] - t.size_px[0]) * -gap(0) / (gap(1) - gap(0));
        assert!((crossover - 128.3).abs() < 0.1, "{crossover}");
    }
}
