//! Which regions are updated: figure 18.

use super::sheet::{Sheet, simulation};
use crate::{
    chart::{BarSeries, Chart},
    hue::Hue,
    table::{Cell, Table},
};
use vitempo::{plan::aria::Simulated, planners::aria::System};

/// Figure 18: which regions are updated.
pub fn priorities(page: &mut Sheet, simulated: &Simulated) {
    page.heading("Who gets the cycles: staleness by speed (figure 18)");
    page.words(
        "ARIA serves by waiting, then speed. The paper's words are followed literally by the next \
        row: speed, after the regions that were left out of the last frame. Random regions differ \
        from ARIA in the order alone; base + S1 + S2 has no order, and fixed cycles and \
        resolutions.",
    );
    let headings = [
        "Speed, patches per frame",
        "System",
        "Regions in frames",
        "Stale, frames",
        "95 of 100, frames",
        "Moved since, patches",
    ];
    let mut table = Table::new(
        "priority",
        simulation("Staleness of moving regions by how fast they are."),
        headings,
    );
    let others = [System::S2, System::S1, System::Base];
    let systems: Vec<System> = System::ORDERS.into_iter().chain(others).collect();
    let outcome = |system: System| simulated.outcomes.at_target().find(|o| o.system == system);
    let classes = outcome(System::Aria).map_or(0, |o| o.staleness.len());
    let named = |speed: [f64; 2]| match speed {
        [0.0, to] if to.is_infinite() => "all".to_owned(),
        [from, to] if to.is_infinite() => format!("{from} and more"),
        [from, to] => format!("{from} to {to}"),
    };
    for class in 0..classes {
        for &system in &systems {
            let Some(x) = outcome(system).and_then(|o| o.staleness.get(class)) else { continue };
            table.rows.push(vec![
                Cell::text(named(x.speed)),
                Cell::text(system.name()),
                Cell::Count(x.counted),
                Cell::number(x.mean_frames),
                x.p95_frames.map_or(Cell::Blank, |p95| Cell::Count(p95 as usize)),
                Cell::number(x.mean_patches),
            ]);
        }
    }
    page.table(&table);
    let groups: Vec<String> = outcome(System::Aria)
        .map(|o| o.staleness.iter().map(|x| named(x.speed)).collect())
        .unwrap_or_default();
    let bars = |system: System| {
        let values = outcome(system)
            .map(|o| o.staleness.iter().map(|x| x.mean_frames).collect())
            .unwrap_or_default();
        BarSeries { name: system.name().to_owned(), values, floors: Vec::new(), hue: Hue::Place }
    };
    let chart = Chart::Bars {
        value: "frames".to_owned(),
        groups,
        series: System::ORDERS.map(bars).into(),
        reference: None,
    };
    page.figure(
        "staleness",
        "Frames since what is shown of a moving region was seen, by its \
        speed in patches per frame.",
        &chart,
    );
}
