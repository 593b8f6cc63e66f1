//! Draws [`crate::chart::Chart::Intervals`]: rows with a mark and a line over its interval for each
//! series.

use super::{
    canvas::{Around, Canvas, Ink},
    panel::Panel,
    points::Shape,
};
use crate::{
    chart::{IntervalSeries, Mark},
    hue::Hue,
    table::three_digits,
};

/// Share of a row that its marks take.
const HEIGHT: f64 = 0.7;

pub fn intervals(canvas: &mut Canvas, panel: &Panel, series: &[IntervalSeries]) {
    let step = HEIGHT / series.len().max(1) as f64;
    for (place, s) in series.iter().enumerate() {
        let ink = Ink::Colour(Hue::Place.colour(place));
        for (value, middle) in s.values.iter().zip(&panel.y.ticks) {
            let Some(ends) = value else { continue };
            let [Some(lower), Some(point), Some(upper)] = ends.map(|end| panel.x.place(end)) else {
                continue;
            };
            let y = panel.down(middle + HEIGHT / 2.0 - (place as f64 + 0.5) * step);
            canvas.line(&[(panel.across(lower), y), (panel.across(upper), y)], ink, 2.0, false);
            let [low, at, high] = ends.map(three_digits);
            let title = format!("{}, {}: {at} [{low} .. {high}]", panel.y.tick(*middle), s.name);
            let around = Around { title: Some(title), target: None };
            Shape::of(Mark::Dot).draw(canvas, &[(panel.across(point), y)], ink, &around);
        }
    }
}
