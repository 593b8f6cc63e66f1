//! What the study's tables and its text say about them, recomputed.

use super::{
    Tables,
    printed::{reduction, tables},
};
use crate::papers::{
    PaperError,
    claim::{Claim, Figure},
};
use vitempo::planners::energy::dissect::to_monitor_s;

const DIGITS: i32 = 3;

fn milli(values: &[f64], index: usize) -> Figure {
    Figure::new(values.get(index).copied().unwrap_or(f64::NAN), DIGITS)
}

/// Every sum, product and percentage of the tables, and of the text about them.
///
/// # Errors
/// [`PaperError`] when a file is damaged.
pub fn claims() -> Result<Vec<Claim>, PaperError> {
    let mut claims: Vec<Claim> =
        tables()?.iter().flat_map(|table| table.claims()).cloned().collect();
    claims.extend(text(&Tables::read()?)?);
    Ok(claims)
}

/// What the text says about the tables.
fn text(tables: &Tables) -> Result<Vec<Claim>, PaperError> {
    let Tables { measured, others } = tables;
    let (local, by_size) = (&measured.local, &measured.by_size);
    let conversion = &measured.conversion;
    let (powersave, performance) =
        (measured.governor("powersave")?, measured.governor("performance")?);
    let slower = [milli(&local.latency_s, powersave), milli(&local.latency_s, performance)];
    let share = |g: usize| 100.0 * local.generation_and_preview_j[g] / local.energy_j[g];
    let shares: Vec<f64> = (0..measured.governors.len()).map(share).collect();
    let extreme = |of: fn(f64, f64) -> f64| shares.iter().copied().reduce(of).unwrap_or(f64::NAN);
    let two_phases =
        |g: usize| 100.0 * (local.conversion_s[g] + local.inference_s[g]) / local.latency_s[g];
    let most = (0..measured.governors.len()).map(two_phases).fold(0.0, f64::max);
    let printed = |value, decimals| Figure::new(value, decimals);
    let clock = &others.clock;
    let moment = |index: usize| {
        let inputs = [
            printed(clock.monitor_flag_s, 3),
            printed(clock.device_flag_s, 6),
            printed(clock.device_s[index], 3),
        ];
        let what = [
            "conversion starts in the monitor's clock, s",
            "conversion ends in the monitor's clock, s",
        ][index];
        Claim::new("section III-C", what, printed(clock.monitor_s[index], 3), &inputs, |x| {
            to_monitor_s(x[0], x[1], x[2])
        })
    };
    let (large, smallest) = (by_size.size_px.len() - 1, conversion.c_ms.len() - 7);
    let faster = [printed(conversion.java_ms[smallest], 1), printed(conversion.c_ms[smallest], 1)];
    let at_least_90 = printed(90.0, 0);
    Ok(vec![
        moment(0),
        moment(1),
        Claim::new(
            "section IV-A",
            "powersave slower than performance, times",
            printed(8.0, 0),
            &slower,
            |x| x[0] / x[1],
        ),
        Claim::new(
            "section IV-A",
            "least share of image generation and preview, %",
            printed(45.3, 1),
            &[],
            |_| extreme(f64::min),
        ),
        Claim::new(
            "section IV-A",
            "largest share of image generation and preview, %",
            printed(70.0, 1),
            &[],
            |_| extreme(f64::max),
        ),
        Claim::new(
            "section IV-A",
            "largest share of conversion and inference in latency, %",
            printed(95.0, 0),
            &[],
            |_| most,
        ),
        Claim::new(
            "section V-B",
            "energy reduction at 608 px, %",
            printed(52.5, 1),
            &[milli(&by_size.local_j, large), milli(&by_size.remote_j, large)],
            reduction,
        ),
        Claim::new(
            "section V-D",
            "conversion in C faster at every resolution, 320x240 least, %",
            at_least_90,
            &faster,
            reduction,
        ),
        Claim::new(
            "tables I and VIII",
            "conversion at 800x600 in Java, performance, s",
            milli(&local.conversion_s, performance),
            &[],
            |_| conversion.java_ms[5] / 1e3,
        ),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_add_up_and_contradictions_are_listed() {
        let claims = claims().expect("the tables");
        let contradicted: Vec<String> = claims
            .iter()
            .filter(|c| !c.holds())
            .map(|c| format!("{}: {}", c.place, c.what))
            .collect();
        let expected = [
            "table II: energy is power times latency, conservative",
            "table II: energy is power times latency, performance",
            "table VI: energy reduction, %, powersave",
            "section IV-A: powersave slower than performance, times",
            "section IV-A: largest share of conversion and inference in latency, %",
            "section V-D: conversion in C faster at every resolution, 320x240 least, %",
            "tables I and VIII: conversion at 800x600 in Java, performance, s",
        ];
        assert_eq!(contradicted, expected);
        for table in
            ["table I", "table II", "table III", "table V", "table VI", "table VII", "table VIII"]
        {
            assert!(claims.iter().any(|c| c.place == table), "{table}");
        }
    }
}
