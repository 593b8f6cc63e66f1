//! The AR energy study: object detection on a Nexus 6, locally or on an edge server; latency and
//! energy per phase, governor and input size.
//!
//! [`tables`] are its tables I to VIII with sums and reductions recomputed, [`claims`] those of the
//! text too; [`models`] compares the phase model, fitted at two frequencies, with the third;
//! [`options`] are its measured choices for the offloading planner, [`device`] is its phone as
//! constants.

mod claims;
mod phone;
mod printed;

pub use claims::claims;
pub use phone::{device, local_frame};
pub use printed::tables;

use super::{Reproduced, mtl_thesis::PaperError};
use crate::{
    Evidence,
    energy::{
        Cycles, PowerLaw,
        offload::{Choice, Place},
    },
};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Tables I and II; one entry per governor.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Local {
    pub latency_s: Vec<f64>,
    pub conversion_s: Vec<f64>,
    pub inference_s: Vec<f64>,
    pub others_s: Vec<f64>,
    pub power_w: Vec<f64>,
    pub energy_j: Vec<f64>,
    pub generation_and_preview_j: Vec<f64>,
    pub inference_j: Vec<f64>,
    pub conversion_j: Vec<f64>,
    pub base_j: Vec<f64>,
    pub others_j: Vec<f64>,
}

/// Tables III and VI; one entry per governor.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Remote {
    pub latency_s: Vec<f64>,
    pub conversion_s: Vec<f64>,
    pub inference_s: Vec<f64>,
    pub communication_s: Vec<f64>,
    pub others_s: Vec<f64>,
    pub latency_reduction_pct: Vec<f64>,
    pub power_w: Vec<f64>,
    pub energy_j: Vec<f64>,
    pub power_reduction_pct: Vec<f64>,
    pub energy_reduction_pct: Vec<f64>,
}

/// Table V.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Phone {
    pub name: String,
    pub local_s: f64,
    pub remote_s: f64,
    pub reduction_pct: f64,
}

/// Table VII.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct BySize {
    pub size_px: Vec<u32>,
    pub local_j: Vec<f64>,
    pub remote_j: Vec<f64>,
    pub reduction_pct: Vec<f64>,
}

/// Table VIII.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Conversion {
    pub resolution: Vec<String>,
    pub java_ms: Vec<f64>,
    pub c_ms: Vec<f64>,
    pub reduction_pct: Vec<f64>,
}

/// Section III-C.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Clock {
    pub monitor_flag_s: f64,
    pub device_flag_s: f64,
    pub device_s: [f64; 2],
    pub monitor_s: [f64; 2],
}

/// Section V-A.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Accuracy {
    pub local_map: f64,
    pub remote_map: f64,
}

/// The tables.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Tables {
    pub governors: Vec<String>,
    pub fixed_ghz: BTreeMap<String, f64>,
    pub local: Local,
    pub remote: Remote,
    pub phones: Vec<Phone>,
    pub by_size: BySize,
    pub conversion: Conversion,
    pub clock: Clock,
    pub accuracy: Accuracy,
}

impl Tables {
    /// The tables as shipped.
    ///
    /// # Errors
    /// [`PaperError::Table`] when the shipped file is damaged.
    pub fn shipped() -> Result<Self, PaperError> {
        Ok(toml::from_str(include_str!("../../data/ar_energy_study.toml"))?)
    }

    /// The column of a governor.
    fn column(&self, name: &str) -> Result<usize, PaperError> {
        self.governors.iter().position(|g| g == name).ok_or_else(|| {
            PaperError::Row(format!("governor {name} (there are {})", self.governors.join(", ")))
        })
    }

    /// The column of a governor, and its frequency in GHz.
    fn governor(&self, name: &str) -> Result<(usize, f64), PaperError> {
        let ghz = self
            .fixed_ghz
            .get(name)
            .ok_or_else(|| PaperError::Row(format!("the frequency of governor {name}")))?;
        Ok((self.column(name)?, *ghz))
    }
}

/// What the phase model says where it was not fitted: times as cycles over frequency from the
/// performance governor, power through the two end points.
///
/// # Errors
/// [`PaperError`] when the shipped tables are damaged.
pub fn models() -> Result<Vec<Reproduced>, PaperError> {
    let tables = Tables::shipped()?;
    let (local, remote) = (&tables.local, &tables.remote);
    let ((low, low_ghz), (mid, mid_ghz), (high, high_ghz)) = (
        tables.governor("powersave")?,
        tables.governor("userspace")?,
        tables.governor("performance")?,
    );
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

/// The study's measured choices: each governor, local and remote, with mean average precision as
/// printed for about this size. The two places run different networks (MobileNet-SSD at 300 px,
/// YOLOv3 at 320 px): keep accuracy in the objective.
///
/// # Errors
/// [`PaperError`] when the shipped tables are damaged.
pub fn options() -> Result<Vec<Choice>, PaperError> {
    let tables = Tables::shipped()?;
    let places = [
        (
            Place::Local,
            300,
            &tables.local.latency_s,
            &tables.local.energy_j,
            tables.accuracy.local_map,
        ),
        (
            Place::Remote,
            320,
            &tables.remote.latency_s,
            &tables.remote.energy_j,
            tables.accuracy.remote_map,
        ),
    ];
    let of =
        |(place, size_px, latency, energy, accuracy): (Place, u32, &Vec<f64>, &Vec<f64>, f64)| {
            let choice = |(g, setting): (usize, &String)| Choice {
                place,
                setting: setting.clone(),
                size_px,
                camera_fps: Some(15.0),
                latency_s: latency[g],
                energy_j: energy[g],
                accuracy,
            };
            tables.governors.iter().enumerate().map(choice).collect::<Vec<_>>()
        };
    Ok(places.into_iter().flat_map(of).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::energy::offload::{Bounds, Least, best, pareto};

    #[test]
    fn a_model_fitted_at_the_ends_holds_in_between() {
        for row in models().expect("the shipped tables") {
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
    fn the_study_s_best_governors_are_chosen() {
        let options = options().expect("the shipped tables");
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

    #[test]
    fn local_and_remote_cross_at_a_small_input() {
        let tables = Tables::shipped().expect("the shipped tables");
        let t = &tables.by_size;
        let gap = |i: usize| t.local_j[i] - t.remote_j[i];
        assert!(gap(0) < 0.0 && (1..t.size_px.len()).all(|i| gap(i) > 0.0));
        let crossover = f64::from(t.size_px[0])
            + f64::from(t.size_px[1] - t.size_px[0]) * -gap(0) / (gap(1) - gap(0));
        assert!((crossover - 128.3).abs() < 0.1, "{crossover}");
    }
}
