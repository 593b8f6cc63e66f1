//! The contents of a figure as data: sections compute it, `draw.rs` draws it.

use super::hue::Hue;

/// One axis of numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Quantity and unit.
    pub label: String,
    /// Logarithmic; values that are not positive are left out.
    pub log: bool,
}

impl Axis {
    /// A linear axis.
    pub fn linear(label: &str) -> Self {
        Self { label: label.to_owned(), log: false }
    }

    /// A logarithmic axis.
    pub fn log(label: &str) -> Self {
        Self { label: label.to_owned(), log: true }
    }

    /// The vertical axis of these series: logarithmic where the tallest is so much taller than the
    /// lowest that a linear one would flatten it.
    pub fn suited(label: &str, series: &[Series]) -> Self {
        let highest = |s: &Series| s.points.iter().map(|p| p.1).fold(f64::NEG_INFINITY, f64::max);
        let tops = || series.iter().filter(|s| !s.points.is_empty()).map(highest);
        let (low, high) = (tops().fold(f64::INFINITY, f64::min), tops().fold(0.0, f64::max));
        let all_positive = series.iter().flat_map(|s| &s.points).all(|p| p.1 > 0.0);
        let log = all_positive && low.is_finite() && high > FLATTENED * low;
        Self { label: label.to_owned(), log }
    }
}

/// How many times as tall a series is beside which another looks flat.
const FLATTENED: f64 = 8.0;

/// How points are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A filled circle.
    Dot,
    /// An empty circle.
    Ring,
    /// A triangle.
    Triangle,
    /// A cross.
    Cross,
    /// Points joined by a line.
    Line,
    /// A bar, in legends.
    Bar,
}

/// A model that a point or a cell is about; two models may have one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelKey {
    /// The name that is shown.
    pub name: String,
    /// Digest of its operators.
    pub architecture: String,
}

impl ModelKey {
    /// The model of this name and architecture.
    pub fn new(name: &str, architecture: &str) -> Self {
        Self { name: name.to_owned(), architecture: architecture.to_owned() }
    }
}

/// Points of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// In the legend.
    pub name: String,
    /// How its points are drawn.
    pub mark: Mark,
    /// Pairs of x and y.
    pub points: Vec<(f64, f64)>,
    /// A word beside each point; none where there are fewer.
    pub labels: Vec<String>,
    /// The model of each point, shown where a reader points; none where there are fewer.
    pub models: Vec<ModelKey>,
    /// What its colour stands for.
    pub hue: Hue,
    /// Whether its line is dashed.
    pub dashed: bool,
}

impl Series {
    /// Points under a name.
    pub fn new(name: impl Into<String>, mark: Mark, points: Vec<(f64, f64)>) -> Self {
        Self {
            name: name.into(),
            mark,
            points,
            labels: Vec::new(),
            models: Vec::new(),
            hue: Hue::Place,
            dashed: false,
        }
    }

    /// The same with a colour that stands for something.
    #[must_use]
    pub fn hue(self, hue: Hue) -> Self {
        Self { hue, ..self }
    }
}

/// Bars of one colour, one for each group.
#[derive(Clone, Debug, PartialEq)]
pub struct BarSeries {
    /// In the legend.
    pub name: String,
    /// `None`: no bar.
    pub values: Vec<Option<f64>>,
    /// A tick across each bar: its noise floor; may be empty.
    pub floors: Vec<Option<f64>>,
    /// What its colour stands for.
    pub hue: Hue,
}

/// A part of each bar of a stack.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// In the legend.
    pub name: String,
    /// Its length in each row.
    pub lengths: Vec<f64>,
    /// What its colour stands for.
    pub hue: Hue,
}

/// Values with intervals of one colour, one for each row.
#[derive(Clone, Debug, PartialEq)]
pub struct IntervalSeries {
    /// In the legend.
    pub name: String,
    /// Lower end, value and upper end; `None`: no mark.
    pub values: Vec<Option<[f64; 3]>>,
}

/// A figure.
#[derive(Clone, Debug, PartialEq)]
pub enum Chart {
    /// Points over two axes.
    Points {
        /// The horizontal axis.
        x: Axis,
        /// The vertical axis.
        y: Axis,
        /// The series, in the order of the legend.
        series: Vec<Series>,
    },
    /// Horizontal bars in groups.
    Bars {
        /// Label of the value axis, with its unit.
        value: String,
        /// Names of the groups.
        groups: Vec<String>,
        /// A bar per group and series.
        series: Vec<BarSeries>,
        /// A line across all bars, e.g. at 1 for factors.
        reference: Option<f64>,
    },
    /// Values with intervals on a logarithmic axis, in rows.
    Intervals {
        /// Label of the value axis, with its unit.
        value: String,
        /// Names of the rows, the first on top.
        rows: Vec<String>,
        /// A value per row and series.
        series: Vec<IntervalSeries>,
    },
    /// Horizontal bars of parts that add up; one row each.
    Stacked {
        /// Label of the value axis, with its unit.
        value: String,
        /// Names of the rows.
        rows: Vec<String>,
        /// The parts, from left to right.
        parts: Vec<Part>,
    },
}

impl Chart {
    /// Whether there is nothing to draw.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Points { series, .. } => series.iter().all(|s| s.points.is_empty()),
            Self::Bars { series, .. } => {
                series.iter().all(|s| s.values.iter().all(Option::is_none))
            }
            Self::Intervals { series, .. } => {
                series.iter().all(|s| s.values.iter().all(Option::is_none))
            }
            Self::Stacked { rows, parts, .. } => rows.is_empty() || parts.is_empty(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_of_very_different_height_have_a_logarithmic_axis() {
        let line = |top: f64| Series::new("", Mark::Line, vec![(1.0, top / 4.0), (2.0, top)]);
        for (tops, log) in
            [(&[10.0, 12.0][..], false), (&[10.0, 100.0], true), (&[10.0], false), (&[], false)]
        {
            let series: Vec<Series> = tops.iter().map(|top| line(*top)).collect();
            assert_eq!(Axis::suited("us", &series).log, log, "{tops:?}");
        }
        // 0 has no place on a logarithmic axis.
        let zero = Series::new("", Mark::Line, vec![(1.0, 0.0)]);
        assert!(!Axis::suited("us", &[line(10.0), line(100.0), zero]).log);
    }
}
