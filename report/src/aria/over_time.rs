//! Temperature, frequency, resolution and latency over time: figures 7 and 16.

use super::{
    sheet::{Sheet, of, simulation},
    words::resolutions,
};
use crate::{
    chart::{Axis, Chart, Mark, Series},
    table::{Cell, Table},
};
use vitempo::{
    plan::aria::Simulated,
    planners::{
        Evidence,
        aria::{AriaOutcome, Moment, System},
    },
};

fn line(o: &AriaOutcome, name: &str, of: impl Fn(&Moment) -> Option<f64>) -> Series {
    Series::new(
        name,
        Mark::Line,
        o.moments.iter().filter_map(|m| Some((m.time_s, of(m)?))).collect(),
    )
}

pub fn time() -> Axis {
    Axis::linear("time, s")
}

/// Figure 16: temperature, frequency, resolution and latency over time.
pub fn over_time(page: &mut Sheet, simulated: &Simulated) {
    page.heading("Over time: heat, frequency, resolution, latency (figure 16)");
    let systems = [System::Aria, System::Base];
    type Quantity = fn(&Moment) -> Option<f64>;
    let plots: [(&str, &str, &str, Quantity); 5] = [
        ("temperature", "Temperature of the chip.", "degrees Celsius", |m| {
            m.temperature_c.is_finite().then_some(m.temperature_c)
        }),
        ("frequency", "Frequency of the processor of full frames.", "GHz", |m| {
            Some(m.full_frames_ghz)
        }),
        ("resolution", "Pixels of the latest full frame.", "thousand pixels", |m| {
            Some((m.height? * m.width?) as f64 / 1e3)
        }),
        ("full-frame", "What the latest full frame took.", "ms", |m| m.full_frame_ms),
        ("frame", "Longest latency of the frames in each second.", "ms", |m| {
            m.latency_ms.map(|l| l[1])
        }),
    ];
    for (name, caption, unit, quantity) in plots {
        let series = systems
            .iter()
            .filter_map(|system| {
                Some(line(of(&simulated.outcomes.outcomes, *system)?, system.name(), quantity))
            })
            .collect();
        page.figure(name, caption, &Chart::Points { x: time(), y: Axis::linear(unit), series });
    }
    let headings = [
        "System",
        "Hottest, C",
        "Processor of full frames works",
        "Slowdown of full frames",
        "Resolutions of full frames",
    ];
    let mut table = Table::new(
        "heat",
        simulation(
            "Heat and what it does. The paper prints a slowdown of up to 3.7 for full frames \
            without a scheduler.",
        ),
        headings,
    );
    for o in &simulated.outcomes.outcomes {
        table.rows.push(vec![
            Cell::text(o.system.name()),
            Cell::number(o.hottest_c),
            Cell::share(o.busy[1]),
            Cell::times(o.throttled),
            Cell::text(resolutions(o)),
        ]);
    }
    page.table(&table);
}

/// Figure 7: latencies over time without a scheduler.
pub fn throttling(page: &mut Sheet, simulated: &Simulated) {
    page.heading("Latencies over time without a scheduler (figure 7)");
    let [high, low] = &simulated.outcomes.ends;
    let series = vec![
        line(high, "full frames, highest resolution", |m| m.full_frame_ms),
        line(low, "full frames, lowest resolution", |m| m.full_frame_ms),
        line(high, "frames beside the highest", |m| m.latency_ms.map(|l| l[0])),
    ];
    page.figure(
        "throttling",
        "Full frames without end at one resolution, in separate runs, and the camera's frames \
        beside them.",
        &Chart::Points { x: time(), y: Axis::linear("ms"), series },
    );
    let shown = |o: &AriaOutcome| {
        o.throttled.map_or_else(|| "none".to_owned(), |t| format!("{t:.2} times"))
    };
    page.words(&format!(
        "Slowdown of full frames: {} at the highest resolution, {} at the lowest (evidence: {}). \
        The paper prints up to 3.7 times (evidence: {}).",
        shown(high),
        shown(low),
        Evidence::Simulation,
        Evidence::PaperTable
    ));
}
