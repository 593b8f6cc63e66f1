//! Constants given by a rule, which needs no memory for their values, however large their shapes
//! are.

use crate::resampling::Sampling;

/// Floats that follow from a rule.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Generated {
    /// The same number everywhere.
    Fill(f32),
    /// Of a matrix: ones above (`upper`) or below its diagonal and on it, zeros elsewhere.
    Triangle { upper: bool },
    /// Of a matrix `[to, from]`: what each output along a dimension takes of each input.
    Interpolation { sampling: Sampling, dimension: usize, from: usize, to: usize },
    /// Of an image `[1, 1, rows, columns]`: elements of a window over those that count.
    Means { elements: usize, rows: Overlap, columns: Overlap },
}

/// How many places of windows along one dimension lie between two bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overlap {
    /// Places between two windows.
    pub stride: usize,
    /// Places of a window.
    pub window: usize,
    /// The first place that counts, and the first one that does not any more.
    pub counted: (usize, usize),
    /// Number of windows.
    pub count: usize,
}

impl Overlap {
    fn of(&self, index: usize) -> usize {
        let begin = index.saturating_mul(self.stride);
        let end = begin.saturating_add(self.window);
        end.min(self.counted.1).saturating_sub(begin.max(self.counted.0))
    }

    /// Whether all places of all windows count: windows ascend, so the first and the last decide.
    fn is_whole(&self) -> bool {
        let whole = |index: usize| self.of(index) == self.window;
        self.count == 0 || (whole(0) && whole(self.count - 1))
    }
}

impl Generated {
    /// Whether every value is 1.
    pub(crate) fn is_one(&self) -> bool {
        match self {
            Self::Fill(value) => *value == 1.0,
            Self::Means { elements, rows, columns } => {
                *elements <= 1 || (rows.is_whole() && columns.is_whole())
            }
            Self::Triangle { .. } | Self::Interpolation { .. } => false,
        }
    }

    /// All values, row by row.
    pub(super) fn values(&self, shape: &[usize]) -> Vec<f32> {
        match self {
            Self::Fill(value) => vec![*value; shape.iter().product()],
            Self::Triangle { upper } => {
                let &[.., rows, columns] = shape else { return Vec::new() };
                let kept = |row: usize, column: usize| match upper {
                    true => column >= row,
                    false => column <= row,
                };
                let value = |row, column| if kept(row, column) { 1.0 } else { 0.0 };
                (0..rows).flat_map(|r| (0..columns).map(move |c| value(r, c))).collect()
            }
            Self::Interpolation { sampling, dimension, from, to } => {
                sampling.matrix(*dimension, *from, *to).unwrap_or_default()
            }
            Self::Means { elements, rows, columns } => {
                let of = |overlap: &Overlap| -> Vec<usize> {
                    (0..overlap.count).map(|i| overlap.of(i)).collect()
                };
                let columns = of(columns);
                let factor = |counted: usize| *elements as f32 / counted.max(1) as f32;
                of(rows)
                    .into_iter()
                    .flat_map(|row| columns.iter().map(move |&column| factor(row * column)))
                    .collect()
            }
        }
    }
}

/// Integers that steer an operation, or that it reads as indices.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Integers {
    /// Those that are listed.
    Listed(Vec<i64>),
    /// For each output along a dimension the input that it copies.
    Picks { sampling: Sampling, dimension: usize, from: usize, to: usize },
}

impl Integers {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Listed(values) => values.len(),
            Self::Picks { to, .. } => *to,
        }
    }

    /// All of them.
    pub(crate) fn iter(&self) -> Box<dyn Iterator<Item = i64> + '_> {
        match self {
            Self::Listed(values) => Box::new(values.iter().copied()),
            Self::Picks { sampling, dimension, from, to } => {
                Box::new((0..*to).map(move |i| sampling.nearest(*dimension, i, *from, *to) as i64))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_give_their_values() {
        let lower = Generated::Triangle { upper: false };
        assert_eq!(lower.values(&[2, 3]), [1.0, 0.0, 0.0, 1.0, 1.0, 0.0]);
        assert_eq!(Generated::Fill(2.0).values(&[2, 1]), [2.0, 2.0]);
        // Windows of 3 over 4 places with one of padding on each side that does not count.
        let overlap = Overlap { stride: 2, window: 3, counted: (1, 5), count: 2 };
        let whole = Overlap { stride: 1, window: 1, counted: (0, 2), count: 2 };
        let means = Generated::Means { elements: 3, rows: overlap, columns: whole };
        assert_eq!(means.values(&[1, 1, 2, 2]), [1.5, 1.5, 1.0, 1.0]);
        assert!(!means.is_one());
        assert!(Generated::Means { elements: 1, rows: whole, columns: whole }.is_one());
    }
}
