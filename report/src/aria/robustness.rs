//! The effect of biased forecasts, and of errors in the estimated constants of the device.

use super::{
    sheet::{Sheet, simulation},
    words::{planned_at, success, truth},
};
use crate::table::{Cell, Table};
use vitempo::{
    plan::aria::{Details, PERTURBATION, Simulated},
    planners::aria::System,
};

/// The effect of biased forecasts.
pub fn biased(page: &mut Sheet, simulated: &Simulated) {
    page.heading("When forecasts are off");
    page.words(
        "The plan is made from the forecasts; then everything really takes longer, or less. \
        ARIA's scheduler corrects what it counts with by what it sees; with the plan held fast \
        (base + S1 + S2) the plan's own margin is \
         all there is. Standard deviations are those of the forecasts' intervals, all in the same \
         direction: 1.64 of them are the pessimistic end at 90 % confidence, at which a plan at \
         90 % must hold. No plan knows of heat: what the CPU loses to it, the plan held fast \
         loses too. At the shorter target the \
         point forecasts just allow what they allow at the longer one: there is room for runs \
         that differ, but none for forecasts that are off, and the plan at 90 % does with less.",
    );
    let headings = [
        "Target, ms",
        "Planned at",
        "Really takes",
        "Highest level, px",
        "Planned cycles",
        "Cycles run",
        "In time",
        "In time, plan held",
    ];
    let mut table = Table::new("off", simulation("Deadline success rate."), headings);
    for bias in &simulated.outcomes.off {
        table.rows.push(vec![
            Cell::number(bias.target_ns / 1e6),
            Cell::text(planned_at(bias.confidence)),
            Cell::text(truth(bias.truth)),
            bias.planned_height.map_or(Cell::Blank, Cell::Count),
            Cell::Count(bias.planned_cycles as usize),
            Cell::number(bias.cycles),
            Cell::text(success(bias.success)),
            Cell::text(success(bias.success_held)),
        ]);
    }
    page.table(&table);
}

/// Whether the outcomes depend on the estimated constants of the device.
pub fn perturbed(page: &mut Sheet, simulated: &Simulated, details: &Details) {
    page.heading("When heat and power are other than estimated");
    let share = simulated.scenario.requirements.share;
    page.words(&format!(
        "Each constant of the device's model is moved by {:.0} % down and up, alone. The last \
        column: ARIA still has {:.1} % of frames in time, and of what else has, nothing shows \
        moving regions less far behind.",
        100.0 * PERTURBATION,
        100.0 * share
    ));
    let headings = [
        "Constant",
        "ARIA in time, low",
        "high",
        "Behind, patches, low",
        "high",
        "ARIA-base in time, low",
        "high",
        "Behind, patches, low",
        "high",
        "Holds",
    ];
    let mut table = Table::new(
        "estimates",
        simulation("Success rate and how far what is shown of moving regions is behind."),
        headings,
    );
    for perturbation in &details.perturbed {
        let mut row = vec![Cell::text(&perturbation.constant)];
        for system in [System::Aria, System::Base] {
            let of_system = || {
                let systems = perturbation.outcomes.iter();
                systems.filter_map(|all| all.iter().find(|(other, ..)| *other == system))
            };
            row.extend(of_system().map(|(_, rate, _)| Cell::text(success(*rate))));
            row.extend(of_system().map(|(.., behind)| Cell::number(*behind)));
        }
        row.push(Cell::text(if perturbation.holds(share) { "yes" } else { "no" }));
        table.rows.push(row);
    }
    page.table(&table);
}
