//! The AR energy study: object detection on a Nexus 6, locally or on an edge server; latency and energy per phase, governor and input size.
//!
//! [`claims`] recomputes sums and reductions of its tables I to VIII; [`models`] compares the phase model, fitted at two frequencies, with the third, and
//! energies with power times latency; [`options`] are its measured choices for the offloading planner.

use super::{
    claim::{Claim, Figure, Reproduced},
    mtl_thesis::PaperError,
};
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

    fn governor(&self, name: &str) -> Result<(usize, f64), PaperError> {
        let missing = || PaperError::Row(format!("governor {name}"));
        let index = self.governors.iter().position(|g| g == name).ok_or_else(missing)?;
        Ok((index, *self.fixed_ghz.get(name).ok_or_else(missing)?))
    }
}

const DIGITS: i32 = 3;
/// The same condition measured twice (interactive, remote, 320 x 320: tables VI and VII) differs by this share.
const REPEATABILITY: f64 = 0.008;

fn milli(values: &[f64], index: usize) -> Figure {
    Figure::new(values.get(index).copied().unwrap_or(f64::NAN), DIGITS)
}

fn sum(x: &[f64]) -> f64 {
    x.iter().sum()
}

/// How much less the second is than the first, %.
fn reduction(x: &[f64]) -> f64 {
    100.0 * (1.0 - x[1] / x[0])
}

/// Every sum, product and percentage of the tables, and of the text about them.
///
/// # Errors
/// [`PaperError`] when the shipped tables are damaged.
pub fn claims() -> Result<Vec<Claim>, PaperError> {
    let tables = Tables::shipped()?;
    let mut claims = by_governor(&tables);
    claims.extend(other_tables(&tables));
    claims.extend(text(&tables)?);
    Ok(claims)
}

/// Tables I, II, III and VI.
fn by_governor(tables: &Tables) -> Vec<Claim> {
    let (local, remote) = (&tables.local, &tables.remote);
    let mut claims = Vec::new();
    for (g, governor) in tables.governors.iter().enumerate() {
        let at = |columns: &[&Vec<f64>]| columns.iter().map(|c| milli(c, g)).collect::<Vec<Figure>>();
        let pct = |values: &[f64]| Figure::new(values.get(g).copied().unwrap_or(f64::NAN), 1);
        let mut claim = |place: &str, what: &str, printed: Figure, inputs: &[Figure], formula: fn(&[f64]) -> f64| {
            claims.push(Claim::new(place, format!("{what}, {governor}"), printed, inputs, formula));
        };
        let (l, r) = (local, remote);
        claim("table I", "latency is the sum of its phases", milli(&l.latency_s, g), &at(&[&l.conversion_s, &l.inference_s, &l.others_s]), sum);
        let parts = at(&[&l.generation_and_preview_j, &l.inference_j, &l.conversion_j, &l.base_j, &l.others_j]);
        claim("table II", "energy is the sum of its parts", milli(&l.energy_j, g), &parts, sum);
        let phases = at(&[&r.conversion_s, &r.inference_s, &r.communication_s, &r.others_s]);
        claim("table III", "latency is the sum of its phases", milli(&r.latency_s, g), &phases, sum);
        claim("table III", "latency reduction, %", pct(&r.latency_reduction_pct), &at(&[&l.latency_s, &r.latency_s]), reduction);
        claim("table VI", "power reduction, %", pct(&r.power_reduction_pct), &at(&[&l.power_w, &r.power_w]), reduction);
        claim("table VI", "energy reduction, %", pct(&r.energy_reduction_pct), &at(&[&l.energy_j, &r.energy_j]), reduction);
        let product = |x: &[f64]| x[0] * x[1];
        for (place, energy, factors) in [("table II", &l.energy_j, at(&[&l.power_w, &l.latency_s])), ("table VI", &r.energy_j, at(&[&r.power_w, &r.latency_s]))]
        {
            let what = format!("energy is power times latency, {governor}");
            claims.push(Claim::new(place, what, milli(energy, g), &factors, product).repeatable_to(REPEATABILITY));
        }
    }
    claims
}

/// Tables V, VII and VIII.
fn other_tables(tables: &Tables) -> Vec<Claim> {
    let phones = tables.phones.iter().map(|p| {
        let inputs = [Figure::new(p.local_s, DIGITS), Figure::new(p.remote_s, DIGITS)];
        Claim::new("table V", format!("latency reduction, {}, %", p.name), Figure::new(p.reduction_pct, 1), &inputs, reduction)
    });
    let sizes = &tables.by_size;
    let by_size = sizes.size_px.iter().enumerate().map(|(i, size)| {
        let inputs = [milli(&sizes.local_j, i), milli(&sizes.remote_j, i)];
        // The first is printed as 0.
        let printed = sizes.reduction_pct.get(i).copied().unwrap_or(f64::NAN);
        let decimals = i32::from(printed != 0.0);
        Claim::new("table VII", format!("energy reduction, {size} px, %"), Figure::new(printed, decimals), &inputs, reduction)
    });
    let conversion = &tables.conversion;
    let conversions = conversion.resolution.iter().enumerate().map(|(i, resolution)| {
        let of = |values: &[f64]| Figure::new(values.get(i).copied().unwrap_or(f64::NAN), 1);
        let inputs = [of(&conversion.java_ms), of(&conversion.c_ms)];
        Claim::new("table VIII", format!("latency reduction, {resolution}, %"), of(&conversion.reduction_pct), &inputs, reduction)
    });
    phones.chain(by_size).chain(conversions).collect()
}

/// What the text says about the tables.
fn text(tables: &Tables) -> Result<Vec<Claim>, PaperError> {
    let (local, by_size) = (&tables.local, &tables.by_size);
    let (powersave, performance) = (tables.governor("powersave")?.0, tables.governor("performance")?.0);
    let slower = [milli(&local.latency_s, powersave), milli(&local.latency_s, performance)];
    let share = |g: usize| 100.0 * local.generation_and_preview_j[g] / local.energy_j[g];
    let shares: Vec<f64> = (0..tables.governors.len()).map(share).collect();
    let extreme = |of: fn(f64, f64) -> f64| shares.iter().copied().reduce(of).unwrap_or(f64::NAN);
    let two_phases = |g: usize| 100.0 * (local.conversion_s[g] + local.inference_s[g]) / local.latency_s[g];
    let most = (0..tables.governors.len()).map(two_phases).fold(0.0, f64::max);
    let printed = |value, decimals| Figure::new(value, decimals);
    let clock = &tables.clock;
    let moment = |index: usize| {
        let inputs = [printed(clock.monitor_flag_s, 3), printed(clock.device_flag_s, 6), printed(clock.device_s[index], 3)];
        let what = ["conversion starts in the monitor's clock, s", "conversion ends in the monitor's clock, s"][index];
        Claim::new("section III-C", what, printed(clock.monitor_s[index], 3), &inputs, |x| crate::energy::dissect::to_monitor_s(x[0], x[1], x[2]))
    };
    let (large, smallest) = (by_size.size_px.len() - 1, tables.conversion.c_ms.len() - 7);
    let faster = [printed(tables.conversion.java_ms[smallest], 1), printed(tables.conversion.c_ms[smallest], 1)];
    let at_least_90 = printed(90.0, 0);
    Ok(vec![
        moment(0),
        moment(1),
        Claim::new("section IV-A", "powersave slower than performance, times", printed(8.0, 0), &slower, |x| x[0] / x[1]),
        Claim::new("section IV-A", "least share of image generation and preview, %", printed(45.3, 1), &[], |_| extreme(f64::min)),
        Claim::new("section IV-A", "largest share of image generation and preview, %", printed(70.0, 1), &[], |_| extreme(f64::max)),
        Claim::new("section IV-A", "largest share of conversion and inference in latency, %", printed(95.0, 0), &[], |_| most),
        Claim::new(
            "section V-B",
            "energy reduction at 608 px, %",
            printed(52.5, 1),
            &[milli(&by_size.local_j, large), milli(&by_size.remote_j, large)],
            reduction,
        ),
        Claim::new("section V-D", "conversion in C faster at every resolution, 320x240 least, %", at_least_90, &faster, reduction),
        Claim::new("tables I and VIII", "conversion at 800x600 in Java, performance, s", milli(&local.conversion_s, performance), &[], |_| {
            tables.conversion.java_ms[5] / 1e3
        }),
    ])
}

/// What the phase model says where it was not fitted: times as cycles over frequency from the performance governor, power through the two end points.
///
/// # Errors
/// [`PaperError`] when the shipped tables are damaged.
pub fn models() -> Result<Vec<Reproduced>, PaperError> {
    let tables = Tables::shipped()?;
    let (local, remote) = (&tables.local, &tables.remote);
    let ((low, low_ghz), (mid, mid_ghz), (high, high_ghz)) = (tables.governor("powersave")?, tables.governor("userspace")?, tables.governor("performance")?);
    let mut rows = Vec::new();
    let mut row = |what: String, printed, modelled| rows.push(Reproduced { what, printed, modelled, evidence: Evidence::PaperTable });
    for (phase, seconds) in [("local conversion", &local.conversion_s), ("local inference", &local.inference_s), ("remote conversion", &remote.conversion_s)] {
        let cycles = Cycles::measured(seconds[high], high_ghz);
        for (governor, ghz) in [(mid, mid_ghz), (low, low_ghz)] {
            row(format!("{phase} at {ghz} GHz, s"), seconds[governor], cycles.seconds(ghz));
        }
    }
    for (phase, joules, seconds) in [("conversion", &local.conversion_j, &local.conversion_s), ("inference", &local.inference_j, &local.inference_s)] {
        let watts = |governor: usize| joules[governor] / seconds[governor];
        let law = PowerLaw::through((low_ghz, watts(low)), (high_ghz, watts(high))).ok_or_else(|| PaperError::Row("two frequencies".to_owned()))?;
        row(format!("{phase} power at {mid_ghz} GHz, W"), watts(mid), law.watts(mid_ghz));
    }
    Ok(rows)
}

/// The study's measured choices: each governor, local and remote, with mean average precision as printed for about this size. The two places run different
/// networks (MobileNet-SSD at 300 px, YOLOv3 at 320 px): keep accuracy in the objective.
///
/// # Errors
/// [`PaperError`] when the shipped tables are damaged.
pub fn options() -> Result<Vec<Choice>, PaperError> {
    let tables = Tables::shipped()?;
    let places = [
        (Place::Local, 300, &tables.local.latency_s, &tables.local.energy_j, tables.accuracy.local_map),
        (Place::Remote, 320, &tables.remote.latency_s, &tables.remote.energy_j, tables.accuracy.remote_map),
    ];
    let of = |(place, size_px, latency, energy, accuracy): (Place, u32, &Vec<f64>, &Vec<f64>, f64)| {
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
    use crate::energy::offload::{Least, best, pareto};

    #[test]
    fn tables_add_up_and_contradictions_are_listed() {
        let claims = claims().expect("the shipped tables");
        let contradicted: Vec<String> = claims.iter().filter(|c| !c.holds()).map(|c| format!("{}: {}", c.place, c.what)).collect();
        let expected = [
            "table II: energy is power times latency, conservative",
            "table VI: energy reduction, %, powersave",
            "section IV-A: powersave slower than performance, times",
            "section IV-A: largest share of conversion and inference in latency, %",
            "section V-D: conversion in C faster at every resolution, 320x240 least, %",
            "tables I and VIII: conversion at 800x600 in Java, performance, s",
        ];
        assert_eq!(contradicted, expected);
        for table in ["table I", "table II", "table III", "table V", "table VI", "table VII", "table VIII"] {
            assert!(claims.iter().any(|c| c.place == table), "{table}");
        }
    }

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
            best(&here, least, 0.0, f64::INFINITY).map(|c| c.setting.clone()).unwrap_or_default()
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
        // Remote is faster, takes less energy and is more accurate under the same governor, but for latency under `conservative`.
        let front = pareto(&options);
        assert!(front.iter().all(|c| c.place == Place::Remote), "{front:?}");
        assert_eq!(front.iter().map(|c| c.setting.as_str()).collect::<Vec<_>>(), ["userspace", "interactive", "ondemand", "performance"]);
    }

    #[test]
    fn local_and_remote_cross_at_a_small_input() {
        let tables = Tables::shipped().expect("the shipped tables");
        let t = &tables.by_size;
        let gap = |i: usize| t.local_j[i] - t.remote_j[i];
        assert!(gap(0) < 0.0 && (1..t.size_px.len()).all(|i| gap(i) > 0.0));
        let crossover = f64::from(t.size_px[0]) + f64::from(t.size_px[1] - t.size_px[0]) * -gap(0) / (gap(1) - gap(0));
        assert!((crossover - 128.3).abs() < 0.1, "{crossover}");
    }
}
