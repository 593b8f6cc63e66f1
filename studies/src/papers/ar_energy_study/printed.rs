//! Tables I to VIII as printed, every sum, product and percentage recomputed. Table IV lists
//! hardware: nothing in it follows from anything else.

use super::{Others, Tables};
use crate::papers::{PaperError, claim::Figure, table::PaperTable};
use vitempo::planners::energy::nexus6::Measured;

/// The same condition measured twice (interactive, remote, 320 x 320: tables VI and VII) differs by
/// this share.
const REPEATABILITY: f64 = 0.008;

/// The tables in the paper's order.
///
/// # Errors
/// [`PaperError`] when a file is damaged.
pub fn tables() -> Result<Vec<PaperTable>, PaperError> {
    let Tables { measured, others } = Tables::read()?;
    Ok(vec![
        local_latency(&measured),
        local_energy(&measured),
        remote_latency(&measured),
        phones(&others),
        remote_energy(&measured),
        by_size(&measured),
        conversion(&measured),
    ])
}

fn figures(values: &[f64], decimals: i32) -> Vec<Figure> {
    values.iter().map(|&value| Figure::new(value, decimals)).collect()
}

fn milli(values: &[f64]) -> Vec<Figure> {
    figures(values, 3)
}

fn sum(x: &[f64]) -> f64 {
    x.iter().sum()
}

fn product(x: &[f64]) -> f64 {
    x.iter().product()
}

/// How much less the second is than the first, %.
pub(super) fn reduction(x: &[f64]) -> f64 {
    100.0 * (1.0 - x[1] / x[0])
}

fn local_latency(t: &Measured) -> PaperTable {
    let l = &t.local;
    let phases = [milli(&l.conversion_s), milli(&l.inference_s), milli(&l.others_s)];
    PaperTable::new("table I", "local execution, 300 x 300: latency per frame", t.governors.clone())
        .row("latency, s", milli(&l.latency_s))
        .follows("latency is the sum of its phases", &phases, sum)
        .row("conversion, s", milli(&l.conversion_s))
        .row("inference, s", milli(&l.inference_s))
        .row("others, s", milli(&l.others_s))
}

fn local_energy(t: &Measured) -> PaperTable {
    let l = &t.local;
    let parts =
        [&l.generation_and_preview_j, &l.inference_j, &l.conversion_j, &l.base_j, &l.others_j]
            .map(|part| milli(part));
    PaperTable::new(
        "table II",
        "local execution, 300 x 300: power, and energy per frame",
        t.governors.clone(),
    )
    .row("power, W", milli(&l.power_w))
    .row("energy, J", milli(&l.energy_j))
    .follows("energy is the sum of its parts", &parts, sum)
    .follows("energy is power times latency", &[milli(&l.power_w), milli(&l.latency_s)], product)
    .row("generation and preview, J", milli(&l.generation_and_preview_j))
    .row("inference, J", milli(&l.inference_j))
    .row("conversion, J", milli(&l.conversion_j))
    .row("base, J", milli(&l.base_j))
    .row("others, J", milli(&l.others_j))
}

fn remote_latency(t: &Measured) -> PaperTable {
    let r = &t.remote;
    let phases = [&r.conversion_s, &r.inference_s, &r.communication_s, &r.others_s]
        .map(|phase| milli(phase));
    PaperTable::new(
        "table III",
        "remote execution, 320 x 320: latency per frame",
        t.governors.clone(),
    )
    .row("latency, s", milli(&r.latency_s))
    .follows("latency is the sum of its phases", &phases, sum)
    .row("conversion, s", milli(&r.conversion_s))
    .row("inference, s", milli(&r.inference_s))
    .row("communication, s", milli(&r.communication_s))
    .row("others, s", milli(&r.others_s))
    .row("latency reduction, %", figures(&r.latency_reduction_pct, 1))
    .follows(
        "latency reduction, %",
        &[milli(&t.local.latency_s), milli(&r.latency_s)],
        reduction,
    )
}

fn phones(t: &Others) -> PaperTable {
    let of = |value: fn(&super::Phone) -> f64| t.phones.iter().map(value).collect::<Vec<f64>>();
    let (local, remote) = (milli(&of(|p| p.local_s)), milli(&of(|p| p.remote_s)));
    PaperTable::new(
        "table V",
        "interactive governor: latency per frame",
        t.phones.iter().map(|p| p.name.clone()).collect(),
    )
    .row("local, s", local.clone())
    .row("remote, s", remote.clone())
    .row("latency reduction, %", figures(&of(|p| p.reduction_pct), 1))
    .follows("latency reduction, %", &[local, remote], reduction)
}

fn remote_energy(t: &Measured) -> PaperTable {
    let (l, r) = (&t.local, &t.remote);
    PaperTable::new(
        "table VI",
        "remote execution, 320 x 320: power, and energy per frame",
        t.governors.clone(),
    )
    .row("power, W", milli(&r.power_w))
    .row("power reduction, %", figures(&r.power_reduction_pct, 1))
    .follows("power reduction, %", &[milli(&l.power_w), milli(&r.power_w)], reduction)
    .row("energy, J", milli(&r.energy_j))
    .follows_within(
        REPEATABILITY,
        "energy is power times latency",
        &[milli(&r.power_w), milli(&r.latency_s)],
        product,
    )
    .row("energy reduction, %", figures(&r.energy_reduction_pct, 1))
    .follows("energy reduction, %", &[milli(&l.energy_j), milli(&r.energy_j)], reduction)
}

fn by_size(t: &Measured) -> PaperTable {
    let s = &t.by_size;
    // The first is printed as 0.
    let printed =
        s.reduction_pct.iter().map(|&value| Figure::new(value, i32::from(value != 0.0))).collect();
    PaperTable::new(
        "table VII",
        "interactive governor: energy per frame by input size",
        s.size_px.iter().map(|px| format!("{px} px")).collect(),
    )
    .row("local, J", milli(&s.local_j))
    .row("remote, J", milli(&s.remote_j))
    .row("energy reduction, %", printed)
    .follows("energy reduction, %", &[milli(&s.local_j), milli(&s.remote_j)], reduction)
}

fn conversion(t: &Measured) -> PaperTable {
    let c = &t.conversion;
    let columns = c.resolution.iter().map(ToString::to_string).collect();
    PaperTable::new("table VIII", "image conversion", columns)
        .row("in Java, ms", figures(&c.java_ms, 1))
        .row("in C, ms", figures(&c.c_ms, 1))
        .row("latency reduction, %", figures(&c.reduction_pct, 1))
        .follows("latency reduction, %", &[figures(&c.java_ms, 1), figures(&c.c_ms, 1)], reduction)
}
