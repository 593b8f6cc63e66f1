//! The contents of a figure as data: sections compute it, `draw.rs` draws it.

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
}

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
}

impl Series {
    /// Points under a name.
    pub fn new(name: impl Into<String>, mark: Mark, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), mark, points, labels: Vec::new() }
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
        /// Name of the part, and its length in each row.
        parts: Vec<(String, Vec<f64>)>,
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
