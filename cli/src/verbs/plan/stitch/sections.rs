//! Optional sections of a printed plan: memory, systems that do not stitch, and live trials.

use super::super::super::output::{Table, percent, thousands};
use super::super::place::words;
use std::fmt::Write;
use vitempo::graph::Latency;
use vitempo::plan::stitch::{
    preloading::{Bounded, Preloading},
    stitching::{Measured, Stitching},
    systems::{Compared, SystemOutcome},
};
use vitempo::planners::{Evidence, duration};

/// A latency, given in ns, as text.
pub fn latency(ns: u64) -> String {
    Latency::from_ns(ns as f64).to_string()
}

/// The origin of times of compiling and loading, where some subgraphs are fetched.
pub fn loading(stitching: &Stitching) -> String {
    if stitching.preloading.is_none() && stitching.systems.outcomes.is_empty() {
        return String::new();
    }
    format!("\n{}\n", words::loading(&stitching.zoo))
}

/// A number of bytes: in kB, rounded up, from 1 kB on.
fn size(bytes: u64) -> String {
    match bytes {
        0..1000 => format!("{bytes} B"),
        _ => format!("{} kB", thousands(bytes.div_ceil(1000))),
    }
}

/// The subgraphs that stay in memory.
pub fn memory(stitching: &Stitching, preloading: &Preloading) -> String {
    let mut text = String::new();
    let Preloading { loaded, budget_bytes, full_bytes, keeps, bound, without_grid, .. } =
        preloading;
    let share = |bytes: u64| percent(bytes as f64 / (*full_bytes).max(1) as f64);
    let _ = writeln!(
        text,
        "In memory: {} of the {} that all subgraphs take, budget {} ({})",
        size(loaded.memory_bytes()),
        size(*full_bytes),
        size(*budget_bytes),
        share(*budget_bytes)
    );
    let proven = match bound {
        Some(bound) if bound.is_proven() => {
            ", and no choice within the memory budget meets more in this order".to_owned()
        }
        Some(Bounded { met, at_most, weight }) => format!(
            "; the search ended before it was complete (--budget): where each SLO above counts \
            {weight} times, this choice meets {met}, and none in this order meets more than \
            {at_most}"
        ),
        None => String::new(),
    };
    let _ = writeln!(
        text,
        "The SLOs above come first; {} of {} of a grid of SLOs that may be asked later can \
        be met{proven}",
        keeps.0, keeps.1
    );
    for task in without_grid.iter().filter_map(|&task| stitching.zoo.tasks().get(task)) {
        let _ = writeln!(
            text,
            "there is no grid: no variant of {} runs whole in any order, which gives its range of \
            latencies",
            task.name
        );
    }
    let mut table = Table::new(&["Task", "Position", "Loaded"], 3);
    for (index, task) in stitching.zoo.tasks().iter().enumerate() {
        for position in 0..stitching.zoo.positions() {
            let held = stitching.loaded(index, position);
            let held = if held.is_empty() { "-".to_owned() } else { held.join(", ") };
            table.row([task.name.clone(), (position + 1).to_string(), held]);
        }
    }
    text + &table.to_text()
}

/// Compares stitching with systems that do not stitch.
pub fn systems(Compared { outcomes: systems, left_out }: &Compared) -> String {
    let mut table = Table::new(&["System", "Violated, alone", "Violated, at once", "Queries/s"], 1);
    for outcome in systems {
        let mark = if outcome.is_complete() { "" } else { " *" };
        table.row([
            format!("{}{mark}", outcome.system),
            percent(outcome.alone.rate()),
            percent(outcome.at_once.rate()),
            format!("{:.1}", outcome.queries_per_s),
        ]);
    }
    let outcomes = systems.iter().map(|system| system.alone.of).max().unwrap_or(0);
    let note = format!(
        "of {outcomes} outcomes: a grid of SLOs, tasks, and orders in which these \
        arrive   ({})",
        Evidence::Simulation
    );
    let ended = match systems.iter().all(SystemOutcome::is_complete) {
        true => "",
        false => {
            "* the budget ended (--budget): the best variants found, and the outcomes that were \
            simulated until then\n"
        }
    };
    let left_out: String =
        left_out.iter().map(|l| format!("{} is left out: {}\n", l.system, l.reason)).collect();
    format!("{}{note}\n{ended}{left_out}", table.to_text())
}

/// The measurements on engines.
pub fn live(measured: &Measured) -> String {
    let trials = &measured.trials;
    let mut table = Table::new(
        &["Order, live", "Predicted", "Measured", "Violated, predicted", "Violated, measured"],
        1,
    );
    for tried in &trials.orders {
        let misses = [tried.predicted_misses, tried.measured_misses].map(|count| count.to_string());
        table.row(
            [tried.order.join("-"), latency(tried.predicted_ns), latency(tried.measured_ns)]
                .into_iter()
                .chain(misses),
        );
    }
    let mut text = table.to_text();
    if let Some(regret) = trials.regret() {
        let _ = writeln!(
            text,
            "mean latencies over tasks; live regret of the order chosen: {}   ({})",
            percent(regret),
            Evidence::Live
        );
    }
    let count = trials.tried.len();
    if let Some((ns, share)) = trials.error(|tried| Some(tried.summed_ns)) {
        let ns = latency(ns as u64);
        let _ = writeln!(
            text,
            "{count} stitched variants run: the sum of their subgraphs as measured is {} off \
            on average ({ns})",
            percent(share)
        );
    }
    if let Some((ns, share)) = trials.error(|tried| measured.with_hand_over_ns(tried)) {
        let _ = writeln!(
            text,
            "with the hand-over of a subgraph, estimated from the same runs, it is {} off ({}): {}",
            percent(share),
            latency(ns as u64),
            measured_hand_over(measured)
        );
    }
    if let Some((ns, share)) = trials.error(|tried| tried.forecast_ns) {
        let _ = writeln!(
            text,
            "the sum of their forecasts is {} off ({})",
            percent(share),
            latency(ns as u64)
        );
    }
    text
}

/// The hand-over of a subgraph by processor, as measured.
fn measured_hand_over(Measured { zoo, hand_over, .. }: &Measured) -> String {
    let each = hand_over.as_ref().map_or(&[][..], |found| found.piece_ns.as_slice());
    let each = zoo.processors().iter().zip(each);
    let on = |(name, &ns): (&String, &_)| format!("{} on `{name}`", duration(ns));
    each.map(on).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_below_a_kilobyte_are_bytes() {
        assert_eq!([0, 1, 999].map(size), ["0 B", "1 B", "999 B"]);
        assert_eq!([1000, 1001, 2_000_000].map(size), ["1 kB", "2 kB", "2 000 kB"]);
    }
}
