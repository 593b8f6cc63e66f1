//! Draws [`crate::chart::Chart::Intervals`]: rows with a mark and a line over its interval for each
//! series.

use super::{Canvas, Failure, Mark, Scale, colour, mark, panel};
use crate::chart::IntervalSeries;
use plotters::prelude::*;

/// Share of a row that its marks take.
const HEIGHT: f64 = 0.7;

pub(super) fn intervals(
    root: &Canvas<'_>,
    x: &Scale,
    y: &Scale,
    series: &[IntervalSeries],
) -> Result<(), Failure> {
    let chart = panel(root, x, y)?;
    let area = chart.plotting_area();
    let step = HEIGHT / series.len().max(1) as f64;
    for (index, s) in series.iter().enumerate() {
        for (value, middle) in s.values.iter().zip(&y.ticks) {
            let Some(ends) = value else { continue };
            let [Some(lower), Some(point), Some(upper)] = ends.map(|end| x.place(end)) else {
                continue;
            };
            let height = middle + HEIGHT / 2.0 - (index as f64 + 0.5) * step;
            let line = vec![(lower, height), (upper, height)];
            area.draw(&PathElement::new(line, colour(index).stroke_width(2)))?;
            mark(area, Mark::Dot, (point, height), colour(index))?;
        }
    }
    Ok(())
}
