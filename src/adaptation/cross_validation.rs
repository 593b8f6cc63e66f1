//! [`CrossValidation`]: forecasts each measured model from the others; a tenth is left out at a
//! time, and rows of one workload together.

use super::parallel::parallel;
use crate::{
    graph::{Latency, Prediction},
    predictors::{
        adapt::{DevicePrior, Forecast, Measured, Trait, Workload, adapt},
        metrics,
    },
};
use std::collections::BTreeMap;

/// Number of groups in which measured models are left out; one by one if there are no more models.
const GROUPS: usize = 10;
/// With fewer, nothing is left to forecast from.
const FEWEST: usize = 2;
/// Level of the intervals.
const LEVEL: f64 = 0.9;

/// Forecasts of measured models, each without the latencies of the model itself.
#[derive(Clone, Debug, PartialEq)]
pub struct CrossValidation {
    /// Latency in ns and forecast, in the order of the measured models.
    pub forecasts: Vec<(f64, Prediction)>,
}

impl CrossValidation {
    /// `None` with fewer than two measured workloads: one cannot be cross-validated.
    #[must_use]
    pub fn of(
        prior: &DevicePrior,
        workloads: &[Workload],
        measured: &[Measured],
        kind: &Trait,
        threads: usize,
    ) -> Option<Self> {
        let numbers = numbers(measured);
        let distinct = numbers.iter().max().map_or(0, |last| last + 1);
        if distinct < FEWEST {
            return None;
        }
        let groups = distinct.min(GROUPS);
        let without = |group: usize| {
            let (out, others): (Vec<_>, Vec<_>) =
                measured.iter().enumerate().partition(|(i, _)| numbers[*i] % groups == group);
            let others: Vec<Measured> = others.into_iter().map(|(_, m)| *m).collect();
            let adapted = adapt(prior, workloads, &others, Some(kind));
            let forecast = |(i, m): (usize, &Measured)| {
                let of = adapted.forecast(&workloads[m.model], Some(m.model));
                (i, (m.ns, prediction(of)))
            };
            out.into_iter().map(forecast).collect::<Vec<_>>()
        };
        let mut forecasts: Vec<(usize, (f64, Prediction))> =
            parallel(groups, threads, without).into_iter().flatten().collect();
        forecasts.sort_by_key(|(i, _)| *i);
        Some(Self { forecasts: forecasts.into_iter().map(|(_, of)| of).collect() })
    }

    /// Mean absolute percentage error, in percent; infinite where a forecast is not a number.
    #[must_use]
    pub fn mape(&self) -> f64 {
        let (truth, points): (Vec<f64>, Vec<f64>) =
            self.forecasts.iter().map(|(ns, p)| (*ns, p.point().ns())).unzip();
        metrics::mape(&truth, &points).unwrap_or(f64::INFINITY)
    }

    /// How many latencies lie within their 90 % interval.
    #[must_use]
    pub fn inside(&self) -> usize {
        let within = |(ns, p): &&(f64, Prediction)| p.interval.contains(Latency::from_ns(*ns));
        self.forecasts.iter().filter(within).count()
    }
}

/// By row: the number of its workload, in the order in which they are first measured.
fn numbers(measured: &[Measured]) -> Vec<usize> {
    let mut known: BTreeMap<usize, usize> = BTreeMap::new();
    let number = |row: &Measured| {
        let next = known.len();
        *known.entry(row.model).or_insert(next)
    };
    measured.iter().map(number).collect()
}

/// A forecast as a prediction.
fn prediction(forecast: Forecast) -> Prediction {
    Prediction::new(forecast.latency(), LEVEL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_one_workload_are_left_out_together() {
        let rows = |models: &[usize]| -> Vec<Measured> {
            models.iter().map(|&model| Measured { model, ns: 1e6 }).collect()
        };
        assert_eq!(numbers(&rows(&[4, 2, 4, 9, 2])), [0, 1, 0, 2, 1]);
        let workloads = vec![Workload::default(); 1];
        let (prior, kind) = (DevicePrior::learn(&workloads, &[]), Trait(String::new()));
        let of = CrossValidation::of(&prior, &workloads, &rows(&[0, 0, 0]), &kind, 1);
        assert_eq!(of, None, "one workload is not forecast from itself");
    }
}
