//! Draws [`crate::chart::Chart::Bars`] and [`crate::chart::Chart::Stacked`]: horizontal bars.

use super::{
    canvas::{Canvas, Ink},
    panel::Panel,
};
use crate::{
    chart::{BarSeries, Part},
    table::three_digits,
};

/// Share of a group that its bars take.
const GROUP: f64 = 0.84;
/// Share of a row that a stack takes.
const ROW: f64 = 0.76;

pub fn bars(canvas: &mut Canvas, panel: &Panel, series: &[BarSeries], reference: Option<f64>) {
    let thickness = GROUP / series.len().max(1) as f64;
    let from = panel.across(reference.unwrap_or(0.0).max(panel.x.low));
    for (place, s) in series.iter().enumerate() {
        let ink = Ink::Colour(s.hue.colour(place));
        for (group, middle) in panel.y.ticks.iter().enumerate() {
            let top = panel.down(middle + GROUP / 2.0 - place as f64 * thickness);
            let height = panel.down(*middle - thickness) - panel.down(*middle);
            let of = |values: &[Option<f64>]| {
                values.get(group).copied().flatten().filter(|v| v.is_finite())
            };
            if let Some(value) = of(&s.values) {
                let to = panel.across(value);
                let title =
                    format!("{}, {}: {}", panel.y.tick(*middle), s.name, three_digits(value));
                canvas.bar((from.min(to), top), ((to - from).abs(), height - 1.0), ink, &title);
            }
            if let Some(floor) = of(&s.floors) {
                let x = panel.across(floor);
                canvas.line(&[(x, top - 0.5), (x, top + height - 0.5)], Ink::Plain, 2.0, false);
            }
        }
    }
    if reference.is_some() {
        let ends = [(from, panel.down(panel.y.low)), (from, panel.down(panel.y.high))];
        canvas.line(&ends, Ink::Plain, 1.0, false);
    }
}

pub fn stacked(canvas: &mut Canvas, panel: &Panel, parts: &[Part]) {
    for (row, middle) in panel.y.ticks.iter().enumerate() {
        let (top, bottom) = (panel.down(middle + ROW / 2.0), panel.down(middle - ROW / 2.0));
        let mut from = 0.0;
        for (place, part) in parts.iter().enumerate() {
            let length = part.lengths.get(row).copied().filter(|l| l.is_finite() && *l > 0.0);
            let Some(length) = length else { continue };
            let (left, right) = (panel.across(from), panel.across(from + length));
            let title =
                format!("{}, {}: {}", panel.y.tick(*middle), part.name, three_digits(length));
            let ink = Ink::Colour(part.hue.colour(place));
            canvas.bar((left, top), (right - left, bottom - top), ink, &title);
            from += length;
        }
    }
}
