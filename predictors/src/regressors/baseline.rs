//! The work-and-bytes baseline: latency = c0 + c1 x work + c2 x bytes + ..., every coefficient at
//! least 0, fitted to relative error.
//!
//! Minimises sum w (1 - (A c)_i / y_i)^2 over c >= 0 by coordinate descent on the Gram matrix,
//! twice: the second time, rows with large errors have smaller weights. The coefficients are then
//! scaled so that the median of actual over predicted is 1. Units: ns per unit of each column.
//!
//! Where one stands in for a missing regressor it can be limited to the time per byte of the rows it
//! was fitted to: their copies of long runs have a cost per run that a copy of single elements
//! would pay a hundred times over.

use super::{constant_of, dot, linear_ns};
use crate::{features::BYTES_TOTAL, metrics};
use serde::{Deserialize, Serialize};

/// Coefficients of some columns of a family.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// Constant term, ns.
    #[serde(with = "crate::bits")]
    pub constant_ns: f64,
    /// The column that the constant is per unit of; `None`: the same for every row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub constant_per: Option<usize>,
    /// Column and nanoseconds per unit of it for costs that are, like the constant, per unit of
    /// [`Baseline::constant_per`].
    #[serde(with = "crate::bits::by_column", default, skip_serializing_if = "Vec::is_empty")]
    pub per_call: Vec<(usize, f64)>,
    /// Column and nanoseconds per unit of it.
    #[serde(with = "crate::bits::by_column")]
    pub coefficients: Vec<(usize, f64)>,
    /// No forecast is smaller than this, ns; positive.
    #[serde(with = "crate::bits")]
    pub floor_ns: f64,
    /// No forecast exceeds the constant by more than this, ns per byte of input, weights and
    /// output; infinite without a limit.
    #[serde(with = "crate::bits", default = "unlimited", skip_serializing_if = "is_unlimited")]
    pub most_ns_per_byte: f64,
}

fn unlimited() -> f64 {
    f64::INFINITY
}

/// serde asks with a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_unlimited(most: &f64) -> bool {
    *most == f64::INFINITY
}

/// What a baseline is fitted to: columns of rows.
#[derive(Clone, Copy, Debug)]
pub struct Columns<'a> {
    /// Columns per row.
    pub count: usize,
    /// Those whose costs are fitted.
    pub chosen: &'a [usize],
    /// The one that the constant is per unit of, if its values differ.
    pub calls: Option<usize>,
    /// Those of the chosen ones whose costs are per unit of it, too: they count calls.
    pub per_call: &'a [usize],
}

/// Relative residual at which a row counts half in the second pass.
const FAR_OFF: f64 = 0.5;
/// Factor by which a column varies if its coefficient is fitted.
const WIDELY: f64 = 4.0;
const SWEEPS: usize = 2000;
/// Share of the rows that take no longer per byte than a limited baseline allows.
#[cfg(feature = "train")]
const USUAL: f64 = 0.9;

impl Baseline {
    /// Fits to rows of features, using only the chosen columns, and of these only such that vary
    /// widely, by themselves and against those named before them: rows cannot separate the cost of
    /// any other from the constant or from the other column, and it would multiply the forecast of
    /// an operator that has a hundred times as much of it.
    #[must_use]
    pub fn fit(x: &[f64], columns: Columns<'_>, y_ns: &[f64], weights: &[f64]) -> Self {
        let Columns { count, calls, per_call, .. } = columns;
        let chosen = separable(x, count, columns.chosen);
        let constant_per = calls.filter(|&column| differs(x, count, column));
        let per = |column: usize| constant_per.filter(|_| per_call.contains(&column));
        let design: Vec<Vec<f64>> =
            x.chunks_exact(count.max(1))
                .zip(y_ns)
                .map(|(row, y)| {
                    std::iter::once(constant_of(1.0, constant_per, row) / y)
                        .chain(chosen.iter().map(|&c| {
                            constant_of(row.get(c).copied().unwrap_or(0.0), per(c), row) / y
                        }))
                        .collect()
                })
                .collect();
        let first = solve(&design, weights);
        let reweighted: Vec<f64> = design
            .iter()
            .zip(weights)
            .map(|(row, w)| w / (1.0 + ((dot(row, &first) - 1.0) / FAR_OFF).powi(2)))
            .collect();
        let second = solve(&design, &reweighted);
        let ratios: Vec<f64> =
            design.iter().map(|row| 1.0 / dot(row, &second)).filter(|r| r.is_finite()).collect();
        let scale = metrics::median(&ratios).unwrap_or(1.0);
        let least = y_ns.iter().copied().fold(f64::INFINITY, f64::min);
        let mut coefficients = chosen
            .iter()
            .copied()
            .zip(second.iter().skip(1).map(|c| c * scale))
            .collect::<Vec<_>>();
        coefficients.retain(|(_, c)| *c > 0.0);
        let (per_call, coefficients) =
            coefficients.into_iter().partition(|(column, _)| per(*column).is_some());
        Self {
            constant_per,
            per_call,
            constant_ns: second.first().copied().unwrap_or(0.0) * scale,
            coefficients,
            floor_ns: if least.is_finite() { least * 0.2 } else { 1.0 }.max(1.0),
            most_ns_per_byte: f64::INFINITY,
        }
    }

    /// Takes costs, ns per unit, of columns that have none.
    #[cfg(feature = "train")]
    pub(crate) fn add(&mut self, costs: &[(usize, f64)], per_call: &[(usize, f64)]) {
        super::add_costs(&mut self.coefficients, costs);
        super::add_costs(&mut self.per_call, per_call);
    }

    /// The same law, limited to the time per byte that it gives [`USUAL`] of some rows.
    #[must_use]
    #[cfg(feature = "train")]
    pub(crate) fn limited_to(self, x: &[f64], columns: usize) -> Self {
        let seen: Vec<f64> = x
            .chunks_exact(columns.max(1))
            .filter_map(|row| Some(linear_ns(&self.coefficients, row) / row.get(BYTES_TOTAL)?))
            .filter(|ns| ns.is_finite())
            .collect();
        Self { most_ns_per_byte: metrics::quantile(&seen, USUAL).unwrap_or(f64::INFINITY), ..self }
    }

    /// Those of the columns in `chosen` that a fit leaves out: the rows cannot separate their cost
    /// from the constant or from that of a column named before.
    #[must_use]
    pub fn inseparable(x: &[f64], columns: usize, chosen: &[usize]) -> Vec<usize> {
        let kept = separable(x, columns, chosen);
        chosen.iter().copied().filter(|column| !kept.contains(column)).collect()
    }

    /// What a row costs per call, ns.
    #[must_use]
    pub fn constant_for(&self, x: &[f64]) -> f64 {
        constant_of(self.constant_ns + linear_ns(&self.per_call, x), self.constant_per, x)
    }

    /// Latency in ns; positive.
    #[must_use]
    pub fn predict(&self, x: &[f64]) -> f64 {
        let variable = linear_ns(&self.coefficients, x);
        let most = match x.get(BYTES_TOTAL) {
            Some(bytes) if self.most_ns_per_byte.is_finite() => self.most_ns_per_byte * bytes,
            _ => f64::INFINITY,
        };
        (self.constant_for(x) + variable.min(most)).max(self.floor_ns)
    }

    /// Whether every number is finite and in its range for rows of `columns` features.
    #[must_use]
    pub fn is_valid(&self, columns: usize) -> bool {
        let sane = |v: f64| v.is_finite() && v >= 0.0;
        sane(self.constant_ns)
            && sane(self.floor_ns)
            && self.floor_ns > 0.0
            && self.most_ns_per_byte >= 0.0
            && self.constant_per.is_none_or(|column| column < columns)
            && self.per_call.iter().chain(&self.coefficients).all(|(i, c)| *i < columns && sane(*c))
    }
}

/// Whether rows have different values of a column.
fn differs(x: &[f64], columns: usize, column: usize) -> bool {
    let mut values = x.iter().skip(column).step_by(columns.max(1));
    values.next().is_some_and(|first| values.any(|value| value != first))
}

/// Those of the columns whose cost the rows can separate: the largest value is at least [`WIDELY`]
/// times the smallest, and so is the largest ratio to each column kept before.
fn separable(x: &[f64], columns: usize, chosen: &[usize]) -> Vec<usize> {
    let varies = |value: &dyn Fn(&[f64]) -> Option<f64>| {
        let mut extremes = (f64::INFINITY, f64::NEG_INFINITY);
        x.chunks_exact(columns.max(1)).filter_map(value).any(|v| {
            extremes = (extremes.0.min(v), extremes.1.max(v));
            extremes.1 > extremes.0 && extremes.1 >= WIDELY * extremes.0
        })
    };
    let mut kept: Vec<usize> = Vec::new();
    for &column in chosen {
        let value = |row: &[f64]| row.get(column).copied();
        let follows = |&before: &usize| {
            !varies(&|row| Some(value(row)? / row.get(before)?).filter(|ratio| !ratio.is_nan()))
        };
        if varies(&value) && !kept.iter().any(follows) {
            kept.push(column);
        }
    }
    kept
}

/// Non-negative least squares of `design * c = 1`, on columns scaled to unit root mean square.
fn solve(design: &[Vec<f64>], weights: &[f64]) -> Vec<f64> {
    let width = design.first().map_or(0, Vec::len);
    let total: f64 = weights.iter().sum::<f64>().max(f64::MIN_POSITIVE);
    let scales: Vec<f64> = (0..width)
        .map(|j| {
            (design.iter().zip(weights).map(|(r, w)| w * r[j] * r[j]).sum::<f64>() / total).sqrt()
        })
        .collect();
    let inverse: Vec<f64> = scales.iter().map(|s| if *s > 0.0 { 1.0 / s } else { 0.0 }).collect();
    let mut gram = vec![0.0; width * width];
    let mut target = vec![0.0; width];
    for (row, w) in design.iter().zip(weights) {
        for i in 0..width {
            let scaled = w * row[i] * inverse[i];
            target[i] += scaled;
            for j in 0..=i {
                gram[i * width + j] += scaled * row[j] * inverse[j];
            }
        }
    }
    for i in 0..width {
        for j in i + 1..width {
            gram[i * width + j] = gram[j * width + i];
        }
    }
    let scaled = descend(&gram, &target, width);
    scaled.iter().zip(&inverse).map(|(c, s)| c * s).collect()
}

fn descend(gram: &[f64], target: &[f64], width: usize) -> Vec<f64> {
    let mut c = vec![0.0; width];
    for _ in 0..SWEEPS {
        let mut moved = 0.0f64;
        for j in 0..width {
            let diagonal = gram[j * width + j];
            if diagonal <= 0.0 {
                continue;
            }
            let gradient = target[j] - dot(&gram[j * width..(j + 1) * width], &c);
            let next = (c[j] + gradient / (diagonal * (1.0 + 1e-9))).max(0.0);
            moved = moved.max((next - c[j]).abs());
            c[j] = next;
        }
        if moved < 1e-9 {
            break;
        }
    }
    c
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fitted(x: &[f64], count: usize, chosen: &[usize], y_ns: &[f64]) -> Baseline {
        Baseline::fit(
            x,
            Columns { count, chosen, calls: None, per_call: &[] },
            y_ns,
            &vec![1.0; y_ns.len()],
        )
    }

    #[test]
    fn recovers_the_coefficients_of_a_known_law() {
        let rows: Vec<[f64; 3]> = (1..60)
            .map(|i| [f64::from(i) * 1e6, f64::from(i * i % 17 + 1) * 1e3, f64::from(i % 5)])
            .collect();
        let x: Vec<f64> = rows.iter().flatten().copied().collect();
        let y: Vec<f64> = rows.iter().map(|r| 500.0 + 0.01 * r[0] + 0.2 * r[1]).collect();
        let fit = fitted(&x, 3, &[0, 1, 2], &y);
        for (row, y) in rows.iter().zip(&y) {
            assert!((fit.predict(row) / y - 1.0).abs() < 1e-3, "{fit:?}");
        }
        assert!(
            (fit.predict(&[1e9, 0.0, 0.0]) / 1.00005e7 - 1.0).abs() < 1e-2,
            "it extrapolates along the work"
        );
    }

    #[test]
    fn a_column_that_hardly_varies_does_not_multiply_forecasts() {
        let rows: Vec<[f64; 2]> =
            (0..60).map(|i| [f64::from(2 + i % 2), f64::from(i + 1) * 1e5]).collect();
        let x: Vec<f64> = rows.iter().flatten().copied().collect();
        let y: Vec<f64> = rows.iter().map(|r| 3000.0 + 1000.0 * r[0] + 0.01 * r[1]).collect();
        let fit = fitted(&x, 2, &[0, 1], &y);
        assert_eq!(fit.coefficients.iter().map(|c| c.0).collect::<Vec<_>>(), [1]);
        assert!((fit.predict(&[300.0, 1e6]) / 15500.0 - 1.0).abs() < 0.1, "{fit:?}");
        assert!(fit.predict(&[2.0, 1e9]) > 9e6, "it extrapolates along the column that varies");
    }

    #[test]
    fn a_column_that_follows_another_does_not_multiply_forecasts() {
        let rows: Vec<[f64; 2]> =
            (1..60).map(|i| f64::from(i) * 1e5).map(|v| [v, v * (1.0 + 5e4 / v)]).collect();
        let x: Vec<f64> = rows.iter().flatten().copied().collect();
        let y: Vec<f64> = rows.iter().map(|r| 500.0 + 0.01 * r[1]).collect();
        let fit = |order: [usize; 2]| fitted(&x, 2, &order, &y);
        for (order, first) in [([0, 1], 0), ([1, 0], 1)] {
            let columns: Vec<usize> = fit(order).coefficients.iter().map(|c| c.0).collect();
            assert_eq!(columns, [first]);
        }
        assert!(
            fit([0, 1]).predict(&[1e6, 1e8]) < 2e4,
            "it follows the column that is named first"
        );
    }

    #[test]
    fn a_limited_law_is_no_dearer_per_byte_than_its_rows() {
        // Runs of a thousand bytes, 30 ns each.
        let row = |bytes: f64, runs: f64| [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, bytes, runs];
        let rows: Vec<[f64; 8]> =
            (1..60).map(|i| f64::from(i) * 1e4).map(|v| row(v, v / 1e3)).collect();
        let x: Vec<f64> = rows.iter().flatten().copied().collect();
        let y: Vec<f64> = rows.iter().map(|r| 500.0 + 30.0 * r[7]).collect();
        let law = fitted(&x, 8, &[7], &y);
        let limited = law.clone().limited_to(&x, 8);
        assert!(rows.iter().all(|r| (limited.predict(r) / law.predict(r) - 1.0).abs() < 1e-9));
        let scattered = row(1e5, 25e3);
        assert!(law.predict(&scattered) > 7e5 && limited.predict(&scattered) < 4e3);
        for (law, has_limit) in [(limited, true), (law, false)] {
            let written = serde_json::to_string(&law).expect("JSON");
            assert_eq!(written.contains("most_ns_per_byte"), has_limit);
            assert_eq!(serde_json::from_str::<Baseline>(&written).expect("a law"), law);
        }
    }

    #[test]
    fn a_constant_per_call_holds_where_calls_cost_less() {
        let rows: Vec<[f64; 2]> =
            (0..60).map(|i| [0.5 + 0.01 * f64::from(i % 50), f64::from(i + 1) * 1e3]).collect();
        let x: Vec<f64> = rows.iter().flatten().copied().collect();
        let y: Vec<f64> = rows.iter().map(|r| 50e3 * r[0] + 0.5 * r[1]).collect();
        let of = |calls| {
            let columns = Columns { count: 2, chosen: &[1], calls, per_call: &[] };
            Baseline::fit(&x, columns, &y, &vec![1.0; y.len()])
        };
        let (per_call, plain) = (of(Some(0)), of(None));
        let warm = [0.1, 4e3];
        assert!((per_call.predict(&warm) / 7e3 - 1.0).abs() < 0.05, "{per_call:?}");
        assert!(plain.predict(&warm) > 30e3, "{plain:?}");
        assert_eq!((per_call.constant_per, plain.constant_per), (Some(0), None));
        assert!(per_call.is_valid(2) && !Baseline { constant_per: Some(2), ..plain }.is_valid(2));
        let same: Vec<f64> = rows.iter().flat_map(|r| [1.0, r[1]]).collect();
        let columns = Columns { count: 2, chosen: &[1], calls: Some(0), per_call: &[] };
        assert_eq!(Baseline::fit(&same, columns, &y, &[1.0; 60]).constant_per, None);
    }

    #[test]
    fn a_copy_that_is_a_call_costs_less_where_calls_do() {
        let rows: Vec<[f64; 3]> = (0..60)
            .map(|i| [0.5 + 0.01 * f64::from(i % 50), f64::from(i + 1) * 1e3, f64::from(i % 2)])
            .collect();
        let x: Vec<f64> = rows.iter().flatten().copied().collect();
        let y: Vec<f64> =
            rows.iter().map(|r| 50e3 * r[0] + 0.5 * r[1] + 70e3 * r[0] * r[2]).collect();
        let of = |per_call: &[usize]| {
            let columns = Columns { count: 3, chosen: &[1, 2], calls: Some(0), per_call };
            Baseline::fit(&x, columns, &y, &vec![1.0; y.len()])
        };
        let (per_call, plain) = (of(&[2]), of(&[]));
        let warm = [0.1, 4e3, 1.0];
        assert!((per_call.predict(&warm) / 14e3 - 1.0).abs() < 0.05, "{per_call:?}");
        assert!(plain.predict(&warm) > 40e3, "{plain:?}");
        let written = serde_json::to_string(&per_call).expect("JSON");
        assert_eq!(serde_json::from_str::<Baseline>(&written).expect("a law"), per_call);
        assert!(per_call.is_valid(3) && !per_call.is_valid(2));
    }

    #[test]
    fn never_negative_and_never_zero() {
        let x = [1.0, 2.0, 3.0, 4.0];
        let fit = fitted(&x, 1, &[0], &[400.0, 300.0, 200.0, 100.0]);
        assert!(fit.is_valid(1));
        assert!([0.0, 1.0, 1e9].iter().all(|v| fit.predict(&[*v]) > 0.0));
        assert!(fitted(&[], 1, &[0], &[]).predict(&[1.0]) > 0.0);
    }
}
