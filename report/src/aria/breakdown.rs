//! The time of each part of a frame: figure 19.

use super::sheet::{Sheet, of, simulation};
use crate::{
    chart::{Chart, Part},
    hue::Hue,
    table::{Cell, Table},
};
use vitempo::{plan::aria::Simulated, planners::aria::System};

/// Figure 19: the time of each part of a frame.
pub fn breakdown(page: &mut Sheet, simulated: &Simulated) {
    page.heading("Where a frame's time goes (figure 19)");
    let mut rows = Vec::new();
    let mut parts: Vec<Part> = Vec::new();
    for (outcomes, factor) in
        [(&simulated.outcomes.outcomes, 1.0), (&simulated.outcomes.relaxed, 2.0)]
    {
        for system in [System::Aria, System::Base, System::NpuOnly, System::MobiSrLike] {
            let Some(o) = of(outcomes, system) else { continue };
            rows.push(format!(
                "{}, {:.1} ms",
                system.name(),
                factor * simulated.scenario.requirements.target_ns / 1e6
            ));
            for (name, ns) in o.parts {
                match parts.iter_mut().find(|part| part.name == name) {
                    Some(part) => part.lengths.push(ns / 1e6),
                    None => parts.push(Part {
                        name: name.to_owned(),
                        lengths: vec![ns / 1e6],
                        hue: Hue::Place,
                    }),
                }
            }
        }
    }
    let headings = ["System and target".to_owned()]
        .into_iter()
        .chain(parts.iter().map(|part| format!("{}, ms", part.name)));
    let mut table = Table::new(
        "parts",
        simulation(
            "Mean over all frames. Blocks of MobiSR-like run on two processors at the same time: \
            their times add up to more than the frame's.",
        ),
        headings,
    );
    for (index, row) in rows.iter().enumerate() {
        let cells = parts.iter().map(|part| Cell::number(part.lengths.get(index).copied()));
        table.rows.push(std::iter::once(Cell::text(row)).chain(cells).collect());
    }
    page.table(&table);
    page.figure(
        "parts",
        "Mean parts of a frame.",
        &Chart::Stacked { value: "ms".to_owned(), rows, parts },
    );
}
