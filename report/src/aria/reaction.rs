//! The camera's motion and the resolution that follows it: figure 17.

use super::{
    over_time::time,
    sheet::{Sheet, of, simulation},
};
use crate::{
    chart::{Axis, Chart, Mark, Series},
    table::{Cell, Table},
};
use vitempo::{plan::aria::Simulated, planners::aria::System};

/// Figure 17: the camera's motion and the resolution that follows it.
pub fn reaction(page: &mut Sheet, simulated: &Simulated) {
    page.heading("Camera motion and resolution (figure 17)");
    let Some(aria) = of(&simulated.outcomes.outcomes, System::Aria) else { return };
    let motion = Series::new(
        "camera",
        Mark::Line,
        aria.moments.iter().map(|m| (m.time_s, m.rotation_rad * 1e3)).collect(),
    );
    page.figure(
        "motion",
        "How far the camera turned, mean over each second.",
        &Chart::Points { x: time(), y: Axis::linear("mrad per frame"), series: vec![motion] },
    );
    let mut by_size: std::collections::BTreeMap<(usize, usize), (f64, usize)> =
        std::collections::BTreeMap::new();
    for m in &aria.moments {
        let (Some(height), Some(width)) = (m.height, m.width) else { continue };
        let sum = by_size.entry((height, width)).or_default();
        *sum = (sum.0 + m.rotation_rad * 1e3, sum.1 + 1);
    }
    let mut table = Table::new(
        "motion",
        simulation(
            "ARIA: how far the camera turned in the seconds that ended with each resolution.",
        ),
        ["Resolution, px", "Seconds", "mrad per frame"],
    );
    for ((height, width), (sum, count)) in by_size {
        table.rows.push(vec![
            Cell::text(format!("{height}x{width}")),
            Cell::Count(count),
            Cell::number(sum / count as f64),
        ]);
    }
    page.table(&table);
}
