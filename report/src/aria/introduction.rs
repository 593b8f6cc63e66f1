//! The introduction of the page: the simulated trace, the costs, and the plan.

use super::{sheet::Sheet, words::success};
use crate::table::{Cell, Table};
use vitempo::{plan::aria::Simulated, planners::Evidence};

pub fn introduction(page: &mut Sheet, simulated: &Simulated) {
    let target = simulated.scenario.requirements.target_ns / 1e6;
    page.words(&format!(
        "Made by `vitempo plan aria --simulate {} --seed {} --out FOLDER`: {} frames, {:.0} s, \
        target {target:.1} ms and twice that. Six systems run over the same trace on the same \
        model of a device: \
         processors with frequencies and power, two thermal nodes, a governor. Cycles, priorities \
         and resolutions of ARIA are chosen by the scheduler that ships (`vitempo-aria`); what \
         everything takes is this:",
        simulated.trace_name,
        simulated.seed,
        simulated.trace.frames.len(),
        simulated.trace.seconds(),
    ));
    let sources: String =
        simulated.scenario.costs.sources.iter().map(|source| format!("- {source}\n")).collect();
    page.words(sources.trim_end());
    page.words(
        "Nothing here is the paper's accuracy (RMSE, mIoU): that needs its videos and networks. \
        What stands for it is how old what is shown of a moving region is, how far the region \
        went since, how many patches the \
         background was last seen with, and depth and labels of a stand-in model. Where the paper \
         prints a figure, it stands beside ours with its own level of evidence.",
    );
    let mut table = Table::new(
        "plan",
        format!(
            "The plan, from costs alone, at {:.0} % confidence. Evidence: {}.",
            100.0 * simulated.scenario.requirements.confidence,
            Evidence::CostModel
        ),
        [
            "Target, ms",
            "Region, patches",
            "Cycles per frame",
            "Highest level",
            "Frames between full frames",
            "In time, to expect",
            "In time, pessimistic end",
        ],
    );
    for plan in [&simulated.scenario.plan, &simulated.outcomes.plan_relaxed] {
        table.rows.push(vec![
            Cell::number(plan.requirements.target_ns / 1e6),
            Cell::text(format!("{} x {}", plan.region.rows, plan.region.cols)),
            Cell::Count(plan.cycles as usize),
            Cell::text(
                plan.usable()
                    .next_back()
                    .map_or_else(|| "none".to_owned(), |l| format!("{} x {}", l.height, l.width)),
            ),
            Cell::number(plan.interval_frames),
            Cell::text(plan.success.map_or_else(|| "-".to_owned(), |x| success(x.expected))),
            Cell::text(plan.success.map_or_else(|| "-".to_owned(), |x| success(x.at_upper))),
        ]);
    }
    page.table(&table);
}
