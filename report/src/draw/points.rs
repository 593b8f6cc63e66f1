//! Draws [`crate::chart::Chart::Points`]: the points of a series as one path, but for those of
//! models, which are shapes of their own.

use super::{
    Target,
    canvas::{Anchor, Around, Canvas, Ink, px},
    panel::Panel,
};
use crate::{
    chart::{Mark, Series},
    scale::Scale,
    table::three_digits,
};
use std::collections::BTreeSet;

/// Pixels: of points of one series that fall into one square of this side, one is drawn.
const CELL: f64 = 2.0;

/// The form of a mark around its place.
#[derive(Clone, Copy)]
pub struct Shape {
    mark: Mark,
}

impl Shape {
    pub const fn of(mark: Mark) -> Self {
        Self { mark }
    }

    fn path(self, (x, y): (f64, f64)) -> String {
        let (left, above) = (px(x - 3.5), px(y - 3.5));
        match self.mark {
            // Lines of no length with round ends.
            Mark::Dot | Mark::Line => format!("M{} {}h0", px(x), px(y)),
            Mark::Ring => format!("M{left} {}a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0", px(y)),
            Mark::Triangle => format!("M{} {}l4.5 8h-9z", px(x), px(y - 5.0)),
            Mark::Cross => format!("M{left} {above}l7 7m0-7l-7 7"),
            Mark::Bar => format!("M{} {}h14v10h-14z", px(x - 7.0), px(y - 5.0)),
        }
    }

    /// The mark at all of these places.
    pub fn draw(self, canvas: &mut Canvas, places: &[(f64, f64)], ink: Ink, around: &Around) {
        let path: String = places.iter().map(|place| self.path(*place)).collect();
        if path.is_empty() {
            return;
        }
        match self.mark {
            Mark::Dot => canvas.outlined(&path, ink, 6.5, around),
            Mark::Line => canvas.outlined(&path, ink, 5.0, around),
            Mark::Ring | Mark::Cross => canvas.outlined(&path, ink, 1.3, around),
            Mark::Triangle | Mark::Bar => canvas.filled(&path, ink, around),
        }
    }
}

pub fn points(canvas: &mut Canvas, panel: &Panel, series: &[Series], target: Target<'_>) {
    for (place, s) in series.iter().enumerate() {
        let ink = Ink::Colour(s.hue.colour(place));
        let placed: Vec<(usize, (f64, f64))> = s
            .points
            .iter()
            .enumerate()
            .filter_map(|(number, point)| Some((number, panel.at(*point)?)))
            .collect();
        if s.mark == Mark::Line {
            let line: Vec<(f64, f64)> = placed.iter().map(|(_, at)| *at).collect();
            canvas.line(&line, ink, 2.0, s.dashed || s.hue.is_dashed(place));
        }
        let (named, plain): (Vec<_>, Vec<_>) =
            placed.iter().partition(|(number, _)| s.models.len() > *number);
        let shape = Shape::of(s.mark);
        shape.draw(canvas, &apart(plain.into_iter().map(|(_, at)| at)), ink, &Around::default());
        for (number, at) in named {
            let (Some(model), Some(point)) = (s.models.get(number), s.points.get(number)) else {
                continue;
            };
            let title = title(&model.name, *point, panel);
            let around = Around { title: Some(title), target: target(model) };
            shape.draw(canvas, &[at], ink, &around);
        }
        for (number, (x, y)) in &placed {
            let Some(label) = s.labels.get(*number) else { continue };
            let (shift, anchor) =
                if panel.is_right(*x) { (-7.0, Anchor::End) } else { (7.0, Anchor::Start) };
            canvas.word(label, (x + shift, *y), anchor, Ink::Plain);
        }
    }
}

/// `resnet18: GFLOPs 3.64, latency, ms 12.1`.
fn title(name: &str, (x, y): (f64, f64), panel: &Panel) -> String {
    let value = |scale: &Scale, value: f64| format!("{} {}", scale.label, three_digits(value));
    format!("{name}: {}, {}", value(&panel.x, x), value(&panel.y, y))
}

/// Places without those that would hide another.
fn apart(places: impl Iterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
    let mut covered = BTreeSet::new();
    let cell = |(x, y): (f64, f64)| ((x / CELL) as i64, (y / CELL) as i64);
    places.filter(|place| covered.insert(cell(*place))).collect()
}
