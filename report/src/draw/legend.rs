//! [`Legend`]: the names of series above a chart, each beside its mark; empty for one series.

use super::{
    WIDTH,
    canvas::{Anchor, Canvas, Ink},
    points::Shape,
};
use crate::{
    chart::{Chart, Mark},
    hue::Hue,
};

/// Height of a line, pixels.
const LINE: f64 = 20.0;
/// Pixels per character, about.
pub const CHARACTER: f64 = 7.2;
/// Pixels of a mark and of what is between two names.
const MARK: f64 = 32.0;

/// One name.
struct Item {
    name: String,
    mark: Mark,
    ink: Ink,
    dashed: bool,
}

pub struct Legend {
    items: Vec<Item>,
}

impl Legend {
    pub fn of(chart: &Chart) -> Self {
        let item = |place: usize, name: &str, mark: Mark, hue: Hue, dashed: bool| Item {
            name: name.to_owned(),
            mark,
            ink: Ink::Colour(hue.colour(place)),
            dashed: dashed || hue.is_dashed(place),
        };
        let bar = Mark::Bar;
        let items: Vec<Item> = match chart {
            Chart::Points { series, .. } => series
                .iter()
                .enumerate()
                .map(|(place, s)| item(place, &s.name, s.mark, s.hue, s.dashed))
                .collect(),
            Chart::Bars { series, .. } => series
                .iter()
                .enumerate()
                .map(|(place, s)| item(place, &s.name, bar, s.hue, false))
                .collect(),
            Chart::Intervals { series, .. } => series
                .iter()
                .enumerate()
                .map(|(place, s)| item(place, &s.name, Mark::Dot, Hue::Place, false))
                .collect(),
            Chart::Stacked { parts, .. } => parts
                .iter()
                .enumerate()
                .map(|(place, p)| item(place, &p.name, bar, p.hue, false))
                .collect(),
        };
        Self { items: if items.len() > 1 { items } else { Vec::new() } }
    }

    /// Where each name stands: they fill lines from left to right.
    fn places(&self) -> Vec<(f64, f64)> {
        let (mut x, mut y) = (10.0, LINE / 2.0 + 2.0);
        let mut places = Vec::new();
        for item in &self.items {
            let width = MARK + item.name.chars().count() as f64 * CHARACTER;
            if x + width > WIDTH && x > 10.0 {
                (x, y) = (10.0, y + LINE);
            }
            places.push((x, y));
            x += width;
        }
        places
    }

    /// Pixels that it takes.
    pub fn height(&self) -> f64 {
        self.places().last().map_or(4.0, |(_, y)| y + LINE / 2.0)
    }

    pub fn draw(&self, canvas: &mut Canvas, top: f64) {
        for (item, (x, y)) in self.items.iter().zip(self.places()) {
            let y = top + y;
            if item.mark == Mark::Line {
                canvas.line(&[(x, y), (x + 16.0, y)], item.ink, 2.5, item.dashed);
            } else {
                Shape::of(item.mark).draw(canvas, &[(x + 8.0, y)], item.ink, &Default::default());
            }
            canvas.word(&item.name, (x + 21.0, y), Anchor::Start, Ink::Plain);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::{Axis, Series};

    #[test]
    fn a_long_legend_takes_several_lines() {
        let series = |i: usize| {
            Series::new(format!("an environment with a name {i}"), Mark::Dot, vec![(1.0, 1.0)])
        };
        let chart = |count: usize| Chart::Points {
            x: Axis::linear("x"),
            y: Axis::linear("y"),
            series: (0..count).map(series).collect(),
        };
        let places = Legend::of(&chart(12)).places();
        assert!(
            places.last().is_some_and(|(_, y)| *y > LINE) && places.iter().all(|(x, _)| *x < WIDTH)
        );
        assert!(Legend::of(&chart(1)).places().is_empty(), "one series needs no name");
    }
}
