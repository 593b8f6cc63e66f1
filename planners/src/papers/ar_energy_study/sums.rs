//! The study's sums, products and percentages, recomputed from its tables.

use super::{PaperError, Tables};
use crate::papers::claim::{Claim, Figure};

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
