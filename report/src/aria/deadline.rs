//! Deadline success rate and latency: figure 12.

use super::{
    sheet::{Sheet, of, simulation},
    words::success,
};
use crate::{
    chart::{BarSeries, Chart},
    hue::Hue,
    table::{Cell, Table},
};
use vitempo::{
    plan::aria::Simulated,
    planners::{
        Evidence,
        aria::{AriaOutcome, System},
    },
};

/// Figure 12: deadline success rate and latency.
pub fn deadline(page: &mut Sheet, simulated: &Simulated) {
    page.heading("Frames in time, and end-to-end latency (figure 12)");
    let printed = |system: System| match system {
        System::MobiSrLike => "misses 93.1 to 97.7 %",
        System::Base => "misses 2.4 % (S24), 5.0 % (S22) at 33.3 ms",
        System::S1 => "misses 0.009 % (S22)",
        System::Aria => "99.9 % in time, mean",
        _ => "-",
    };
    for (outcomes, factor) in
        [(&simulated.outcomes.outcomes, 1.0), (&simulated.outcomes.relaxed, 2.0)]
    {
        let target = factor * simulated.scenario.requirements.target_ns / 1e6;
        let caption = simulation(&format!(
            "Target {target:.1} ms. The last column is printed in the paper, for its phones and \
            videos (evidence: {}).",
            Evidence::PaperTable
        ));
        let headings = [
            "System",
            "In time",
            "Late",
            "Not run",
            "Median, ms",
            "99 of 100, ms",
            "Longest, ms",
            "Cycles",
            "Printed",
        ];
        let mut table = Table::new("deadline", caption, headings);
        for o in outcomes {
            let [median, most, longest] = o.latency_ns.map(|ns| Cell::number(ns as f64 / 1e6));
            let late = Cell::Count(o.executed - o.in_time);
            let rate = Cell::text(success(o.success_rate()));
            let printed = Cell::text(printed(o.system));
            table.rows.push(vec![
                Cell::text(o.system.name()),
                rate,
                late,
                Cell::Count(o.dropped as usize),
                median,
                most,
                longest,
                Cell::number(o.cycles),
                printed,
            ]);
        }
        page.table(&table);
    }
    shared_blocks(page, simulated);
    let bars = |name: &str, rank: usize, outcomes: &[AriaOutcome]| BarSeries {
        name: name.to_owned(),
        values: outcomes.iter().map(|o| Some(o.latency_ns[rank] as f64 / 1e6)).collect(),
        floors: Vec::new(),
        hue: Hue::Place,
    };
    let chart = Chart::Bars {
        value: "latency, ms".to_owned(),
        groups: simulated.outcomes.outcomes.iter().map(|o| o.system.name().to_owned()).collect(),
        series: vec![
            bars("median", 0, &simulated.outcomes.outcomes),
            bars("99 of 100", 1, &simulated.outcomes.outcomes),
        ],
        reference: Some(simulated.scenario.requirements.target_ns / 1e6),
    };
    page.figure("latency", "End-to-end latency by system; the line is the target.", &chart);
}

/// Why MobiSR-like is late, or not. It is the only system whose frames wait for the processor that
/// throttles.
fn shared_blocks(page: &mut Sheet, simulated: &Simulated) {
    let heat = |o: &AriaOutcome| {
        let ghz = || o.moments.iter().map(|m| m.full_frames_ghz);
        let (low, high) = (ghz().fold(f64::INFINITY, f64::min), ghz().fold(0.0, f64::max));
        let (target, worked) = (o.target_ns / 1e6, 100.0 * o.busy[1]);
        format!(
            "at {target:.1} ms that processor works {worked:.0} % of the time, and goes from \
            {high:.2} GHz down to {low:.2} GHz at up to {:.0} degrees Celsius",
            o.hottest_c
        )
    };
    let both: Vec<String> = [&simulated.outcomes.outcomes, &simulated.outcomes.relaxed]
        .into_iter()
        .filter_map(|outcomes| of(outcomes, System::MobiSrLike))
        .map(heat)
        .collect();
    page.words(&format!(
        "MobiSR-like is the only system whose frames wait for the processor of full frames. \
        Blocks are shared out so that both processors are done soonest, the most dynamic ones on \
        that of regions, and it is planned as carefully as \
         the others: here {}. In the paper it is late in 93.1 to 97.7 % of frames because that \
         processor throttles; a frame that only just fits while it is cool cannot be in time \
         then. Whether it gets that hot is a matter of how long it works \
         and of thermal constants that nobody measured: MobiSR-like's row is a statement about \
         this model of a phone, not a repetition of the paper's.",
        both.join(", ")
    ));
}
