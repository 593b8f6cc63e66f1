//! Which regions are updated: figure 18.

use super::sheet::{Sheet, of, simulation};
use crate::{
    chart::{BarSeries, Chart},
    hue::Hue,
    table::{Cell, Table},
};
use vitempo::{plan::aria::Simulated, planners::aria::System};

/// Figure 18: which regions are updated.
pub fn priorities(page: &mut Sheet, simulated: &Simulated<'_>) {
    page.heading("Who gets the cycles: staleness by speed (figure 18)");
    page.words(
        "ARIA serves by waiting, then speed; base + S1 + S2 has the same windows and as \
        many cycles in a random order.",
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
    let systems = [System::Aria, System::S2, System::S1, System::Base];
    let classes = of(&simulated.outcomes.outcomes, System::Aria).map_or(0, |o| o.staleness.len());
    let named = |speed: [f64; 2]| match speed {
        [0.0, to] if to.is_infinite() => "all".to_owned(),
        [from, to] if to.is_infinite() => format!("{from} and more"),
        [from, to] => format!("{from} to {to}"),
    };
    for class in 0..classes {
        for system in systems {
            let Some(x) =
                of(&simulated.outcomes.outcomes, system).and_then(|o| o.staleness.get(class))
            else {
                continue;
            };
            table.rows.push(vec![
                Cell::text(named(x.speed)),
                Cell::text(system.name()),
                Cell::Count(x.counted),
                Cell::number(x.mean_frames),
                Cell::Count(x.p95_frames as usize),
                Cell::number(x.mean_patches),
            ]);
        }
    }
    page.table(&table);
    let groups: Vec<String> = of(&simulated.outcomes.outcomes, System::Aria)
        .map(|o| o.staleness.iter().map(|x| named(x.speed)).collect())
        .unwrap_or_default();
    let bars = |system: System| {
        let values = of(&simulated.outcomes.outcomes, system)
            .map(|o| o.staleness.iter().map(|x| (x.counted > 0).then_some(x.mean_frames)).collect())
            .unwrap_or_default();
        BarSeries { name: system.name().to_owned(), values, floors: Vec::new(), hue: Hue::Place }
    };
    let chart = Chart::Bars {
        value: "frames".to_owned(),
        groups,
        series: vec![bars(System::Aria), bars(System::S2)],
        reference: None,
    };
    page.figure(
        "staleness",
        "Frames since what is shown of a moving region was seen, by its \
        speed in patches per frame.",
        &chart,
    );
}
