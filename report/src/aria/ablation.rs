//! The effect of each part of ARIA: figure 15.

use super::{
    sheet::{Sheet, of, simulation},
    words::success,
};
use crate::{
    chart::{BarSeries, Chart},
    hue::Hue,
    table::{Cell, Table},
};
use vitempo::{plan::aria::Simulated, planners::aria::System};

/// Figure 15: the effect of each part of ARIA.
pub fn ablation(page: &mut Sheet, simulated: &Simulated) {
    page.heading("What each part brings (figure 15)");
    page.words(
        "S1: dynamic regions by patch features instead of block matching on the CPU. S2: \
        windows that follow a region's way. S3: cycles, priorities and resolutions chosen anew \
        for every frame.",
    );
    let headings = [
        "System",
        "In time",
        "Stale, frames",
        "95 of 100, frames",
        "Moved since, patches",
        "Before the first full frame, frames",
        "Full frame age, frames",
        "Patches of full frames",
        "Slowdown of full frames",
        "Energy, J",
    ];
    let mut table = Table::new(
        "ablation",
        simulation(
            "Stale: frames since what is shown of a moving region was seen. Frames before the first \
            full frame show nothing, and count in no age.",
        ),
        headings,
    );
    for system in [System::Base, System::S1, System::S2, System::Aria] {
        let Some(o) = of(&simulated.outcomes.outcomes, system) else { continue };
        let all = o.staleness.last();
        table.rows.push(vec![
            Cell::text(o.system.name()),
            Cell::text(success(o.success_rate())),
            Cell::number(all.and_then(|x| x.mean_frames)),
            all.and_then(|x| x.p95_frames).map_or(Cell::Blank, |p95| Cell::Count(p95 as usize)),
            Cell::number(all.and_then(|x| x.mean_patches)),
            Cell::Count(o.before_full_frames),
            Cell::number(o.full_frame_age),
            Cell::number(o.patches),
            Cell::times(o.throttled),
            Cell::number(o.energy_j),
        ]);
    }
    page.table(&table);
    let systems = [System::Base, System::S1, System::S2, System::Aria];
    let chart = Chart::Bars {
        value: "patches that moving regions went since they were seen".to_owned(),
        groups: systems.iter().map(|system| system.name().to_owned()).collect(),
        series: vec![BarSeries {
            name: "mean".to_owned(),
            values: systems
                .iter()
                .map(|system| {
                    of(&simulated.outcomes.outcomes, *system)
                        .and_then(|o| o.staleness.last())
                        .and_then(|x| x.mean_patches)
                })
                .collect(),
            floors: Vec::new(),
            hue: Hue::Place,
        }],
        reference: None,
    };
    page.figure("ablation", "How far what is shown of moving regions is behind.", &chart);
}
