//! [`Panel`]: two axes with ticks, names and a light grid, and where values stand between them.

use super::{
    WIDTH,
    canvas::{Anchor, Canvas, Ink},
    legend::CHARACTER,
};
use crate::scale::Scale;

/// Pixels right of a panel: half of a tick's label.
const RIGHT: f64 = 24.0;
/// Pixels above a panel.
const ABOVE: f64 = 8.0;
/// Pixels below a panel: labels of ticks and of the axis.
const BELOW: f64 = 46.0;
/// Most pixels for names of rows.
const MOST_LEFT: f64 = 330.0;

/// Axes, and the rectangle between them, pixels.
pub struct Panel {
    pub x: Scale,
    pub y: Scale,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl Panel {
    /// Draws axes into the stripe of this height below `top`.
    pub fn draw(canvas: &mut Canvas, x: Scale, y: Scale, top: f64, height: f64) -> Self {
        let widest = y.ticks.iter().map(|t| y.tick(*t).chars().count()).max().unwrap_or(0);
        let label = if y.label.is_empty() { 0.0 } else { 24.0 };
        let left = (16.0 + widest as f64 * CHARACTER).min(MOST_LEFT) + label;
        let panel = Self {
            x,
            y,
            left,
            right: WIDTH - RIGHT,
            top: top + ABOVE,
            bottom: top + height - BELOW,
        };
        panel.axes(canvas);
        panel
    }

    fn axes(&self, canvas: &mut Canvas) {
        for tick in &self.x.ticks {
            let x = self.across(*tick);
            canvas.line(&[(x, self.top), (x, self.bottom)], Ink::Rule, 1.0, false);
            let at = (x, self.bottom + 14.0);
            canvas.word(&self.x.tick(*tick), at, Anchor::Middle, Ink::Quiet);
        }
        for tick in &self.y.ticks {
            let y = self.down(*tick);
            canvas.line(&[(self.left, y), (self.right, y)], Ink::Rule, 1.0, false);
            let name = shortened(&self.y.tick(*tick));
            canvas.word(&name, (self.left - 8.0, y), Anchor::End, Ink::Quiet);
        }
        let corner = [(self.left, self.top), (self.left, self.bottom), (self.right, self.bottom)];
        canvas.line(&corner, Ink::Quiet, 1.0, false);
        let middle = (self.left + self.right) / 2.0;
        canvas.word(&self.x.label, (middle, self.bottom + 34.0), Anchor::Middle, Ink::Plain);
        if !self.y.label.is_empty() {
            canvas.upright(&self.y.label, (16.0, (self.top + self.bottom) / 2.0), Ink::Plain);
        }
    }

    /// Pixels from the left of a place on the horizontal axis.
    pub fn across(&self, place: f64) -> f64 {
        let share = (place - self.x.low) / (self.x.high - self.x.low);
        self.left + (self.right - self.left) * share
    }

    /// Pixels from above of a place on the vertical axis.
    pub fn down(&self, place: f64) -> f64 {
        let share = (place - self.y.low) / (self.y.high - self.y.low);
        self.bottom - (self.bottom - self.top) * share
    }

    /// Where a pair of values stands; `None` where one of them has no place.
    pub fn at(&self, (x, y): (f64, f64)) -> Option<(f64, f64)> {
        Some((self.across(self.x.place(x)?), self.down(self.y.place(y)?)))
    }

    /// Whether a place is so far to the right that words beside it stand on its left.
    pub fn is_right(&self, x: f64) -> bool {
        self.right - x < 0.12 * (self.right - self.left)
    }
}

/// A name that fits beside a panel.
fn shortened(name: &str) -> String {
    let most = ((MOST_LEFT - 16.0) / CHARACTER) as usize;
    if name.chars().count() <= most {
        return name.to_owned();
    }
    name.chars().take(most - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::Axis;

    #[test]
    fn values_stand_between_the_axes() {
        let mut canvas = Canvas::new(WIDTH, 420.0, "");
        let scale = || Scale::of(&Axis::log("x"), [1.0, 100.0].into_iter());
        let panel = Panel::draw(&mut canvas, scale(), scale(), 0.0, 420.0);
        let (low, high) = (panel.at((1.0, 1.0)), panel.at((100.0, 100.0)));
        let ((left, bottom), (right, top)) = (low.expect("a place"), high.expect("a place"));
        assert!(0.0 < left && left < right && right < WIDTH && 0.0 < top && top < bottom);
        assert_eq!(panel.at((0.0, 1.0)), None, "0 has no logarithm");
        assert!(panel.is_right(right) && !panel.is_right(left));
    }

    #[test]
    fn long_names_are_shortened() {
        let name = shortened(&"n".repeat(200));
        assert!(name.ends_with('…') && name.chars().count() < 60);
        assert_eq!(shortened("short"), "short");
    }
}
