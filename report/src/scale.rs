//! [`Scale`]: the position of values and ticks on an axis.
//!
//! Places are linear for the drawing library: a logarithmic axis places a value at its decimal
//! logarithm.

use super::chart::Axis;

/// Range and ticks of one axis, in places.
#[derive(Clone, Debug, PartialEq)]
pub struct Scale {
    pub label: String,
    pub low: f64,
    pub high: f64,
    pub ticks: Vec<f64>,
    log: bool,
    names: Vec<String>,
}

impl Scale {
    /// Covers all values with a little room; a linear axis of values that are not negative starts
    /// at 0.
    pub fn of(axis: &Axis, values: impl Iterator<Item = f64>) -> Self {
        let places: Vec<f64> =
            values.map(|v| place(v, axis.log)).filter(|p| p.is_finite()).collect();
        let (mut low, mut high) = (
            places.iter().copied().fold(f64::INFINITY, f64::min),
            places.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        );
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        if !axis.log && low >= 0.0 {
            low = 0.0;
        }
        let room = if high > low { (high - low) * 0.04 } else { 0.5 };
        high += room;
        if axis.log || low < 0.0 {
            low -= room;
        }
        let ticks = if axis.log { decades(low, high) } else { steps(low, high) };
        Self { label: axis.label.clone(), low, high, ticks, log: axis.log, names: Vec::new() }
    }

    /// One place per name, the first at the top (the largest place).
    pub fn names(names: &[String]) -> Self {
        let count = names.len() as f64;
        let ticks = (0..names.len()).map(|i| count - i as f64 - 0.5).collect();
        Self {
            label: String::new(),
            low: 0.0,
            high: count.max(1.0),
            ticks,
            log: false,
            names: names.to_vec(),
        }
    }

    /// The position of a value; `None` if it has none.
    pub fn place(&self, value: f64) -> Option<f64> {
        Some(place(value, self.log)).filter(|p| p.is_finite())
    }

    /// The label of a tick.
    pub fn tick(&self, place: f64) -> String {
        if self.names.is_empty() {
            return short(if self.log { 10f64.powf(place) } else { place });
        }
        let from_top = (self.names.len() as f64 - place - 0.5).round();
        self.names.get(from_top.max(0.0) as usize).cloned().unwrap_or_default()
    }
}

fn place(value: f64, log: bool) -> f64 {
    if log { value.log10() } else { value }
}

/// 1, 2 and 5 times powers of ten; powers of ten alone over more than three of them.
fn decades(low: f64, high: f64) -> Vec<f64> {
    let within: &[f64] = if high - low > 3.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let exponents = low.floor() as i64..=high.ceil() as i64;
    exponents
        .flat_map(|e| within.iter().map(move |m| e as f64 + m.log10()))
        .filter(|t| (low..=high).contains(t))
        .collect()
}

/// About six round steps.
fn steps(low: f64, high: f64) -> Vec<f64> {
    let rough = (high - low) / 6.0;
    let power = 10f64.powf(rough.log10().floor());
    let step =
        [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * power).find(|s| *s >= rough).unwrap_or(rough);
    let first = (low / step).ceil() as i64;
    (first..first + 20).map(|i| i as f64 * step).filter(|t| *t <= high).collect()
}

/// `0.02`, `5`, `20 k`, `5 M`.
fn short(value: f64) -> String {
    let (scaled, unit) = match value.abs() {
        v if v >= 1e9 * 0.999 => (value / 1e9, " G"),
        v if v >= 1e6 * 0.999 => (value / 1e6, " M"),
        v if v >= 1e4 * 0.999 => (value / 1e3, " k"),
        _ => (value, ""),
    };
    let rounded = (scaled * 1e6).round() / 1e6;
    format!("{rounded}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        let linear = Scale::of(&Axis::linear("x"), [0.0, 23.0].into_iter());
        assert_eq!((linear.low, linear.ticks.as_slice()), (0.0, &[0.0, 5.0, 10.0, 15.0, 20.0][..]));
        let log = Scale::of(&Axis::log("x"), [2e3, 3e7, 0.0, -1.0].into_iter());
        let shown: Vec<String> = log.ticks.iter().map(|t| log.tick(*t)).collect();
        assert_eq!(shown, ["10 k", "100 k", "1 M", "10 M"]);
        assert_eq!(log.place(-1.0), None);
        let narrow = Scale::of(&Axis::log("x"), [0.3, 4.0].into_iter());
        assert_eq!(
            narrow.ticks.iter().map(|t| narrow.tick(*t)).collect::<Vec<_>>(),
            ["0.5", "1", "2"]
        );
    }

    #[test]
    fn no_values_and_equal_values_still_have_an_axis() {
        for values in [vec![], vec![7.0], vec![0.0, 0.0], vec![-3.0]] {
            for axis in [Axis::linear("x"), Axis::log("x")] {
                let scale = Scale::of(&axis, values.iter().copied());
                assert!(scale.low < scale.high && scale.ticks.len() < 30, "{values:?}");
            }
        }
    }

    #[test]
    fn the_first_name_is_on_top() {
        let scale = Scale::names(&["a".to_owned(), "b".to_owned()]);
        assert_eq!(scale.ticks.iter().map(|t| scale.tick(*t)).collect::<Vec<_>>(), ["a", "b"]);
        assert!(scale.ticks[0] > scale.ticks[1]);
    }
}
