//! [`Claim`]: a printed figure beside what the paper's other figures say it should be.
//!
//! Printed figures are rounded. A claim holds when it differs from the computed value by no more
//! than the rounding of both can explain: half a unit of its own last place, and for each input the
//! effect of half a unit of its last place.

use serde::Serialize;
use std::fmt;
use vitempo::planners::Evidence;

/// A number as printed, with its digits after the point.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// As printed.
    pub value: f64,
    /// Digits after the point.
    pub decimals: i32,
}

impl Figure {
    /// A number printed with so many digits after the point.
    #[must_use]
    pub const fn new(value: f64, decimals: i32) -> Self {
        Self { value, decimals }
    }

    fn half_unit(self) -> f64 {
        0.5 * 10f64.powi(-self.decimals)
    }
}

impl fmt::Display for Figure {
    /// As printed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.*}", usize::try_from(self.decimals).unwrap_or(0), self.value)
    }
}

/// A printed figure, checked against the paper's other figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Claim {
    /// Table or section.
    pub place: String,
    /// What is claimed.
    pub what: String,
    /// As printed.
    pub printed: f64,
    /// From the paper's other figures.
    pub computed: f64,
    /// What rounding, and repeated measurement where that is said, can explain.
    pub slack: f64,
}

impl Claim {
    /// Recomputes a printed figure.
    pub(super) fn new(
        place: &str,
        what: impl Into<String>,
        printed: Figure,
        inputs: &[Figure],
        formula: impl Fn(&[f64]) -> f64,
    ) -> Self {
        let values: Vec<f64> = inputs.iter().map(|f| f.value).collect();
        let computed = formula(&values);
        let effect = |index: usize| {
            let mut moved = values.clone();
            moved[index] += inputs[index].half_unit();
            (formula(&moved) - computed).abs()
        };
        let slack = printed.half_unit() + (0..inputs.len()).map(effect).sum::<f64>() + 1e-9;
        Self { place: place.to_owned(), what: what.into(), printed: printed.value, computed, slack }
    }

    /// Allows for repeated measurements that differ by this share.
    #[must_use]
    pub(super) fn repeatable_to(mut self, share: f64) -> Self {
        self.slack += share * self.computed.abs();
        self
    }

    /// Whether the paper agrees with itself here.
    #[must_use]
    pub fn holds(&self) -> bool {
        (self.printed - self.computed).abs() <= self.slack
    }
}

/// Whether a printed figure was used for the model that reproduces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// The model was fitted to it.
    Fitted,
    /// The model was fitted to other figures alone.
    Predicted,
}

impl fmt::Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fitted => "fitted",
            Self::Predicted => "predicted",
        })
    }
}

/// A printed measurement beside what a model says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reproduced {
    /// Which figure, with its unit.
    pub what: String,
    /// As printed.
    pub printed: f64,
    /// What the model says, in the same unit.
    pub modelled: f64,
    /// How strong the latter is.
    pub evidence: Evidence,
    /// Whether the model was fitted to the printed figure.
    pub basis: Basis,
}

impl Reproduced {
    /// (modelled - printed) / printed.
    #[must_use]
    pub fn error(&self) -> f64 {
        self.modelled / self.printed - 1.0
    }
}

/// What a paper observes, and whether a model says so too.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Observation {
    /// Number or section.
    pub place: String,
    /// The statement.
    pub what: String,
    /// What the model says, in words and numbers.
    pub modelled: String,
    /// Whether it says the same.
    pub holds: bool,
}

/// Mean absolute percentage error, as a share, of what was modelled against what was printed.
#[must_use]
pub fn mape(rows: &[Reproduced]) -> f64 {
    rows.iter().map(|r| r.error().abs()).sum::<f64>() / rows.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_no_contradiction_but_more_is() {
        let ratio = |printed| {
            Claim::new(
                "",
                "",
                Figure::new(printed, 1),
                &[Figure::new(2.0, 1), Figure::new(3.0, 1)],
                |x| 100.0 * x[0] / x[1],
            )
        };
        // 1.95/3.05 to 2.05/2.95.
        assert!(ratio(66.7).holds() && ratio(64.2).holds() && ratio(69.0).holds());
        assert!(!ratio(63.0).holds() && !ratio(70.0).holds());
    }
}
