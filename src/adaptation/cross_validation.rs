//! [`CrossValidation`]: each measured model forecast from the others, a tenth left out at a time.

use super::parallel::parallel;
use crate::{
    graph::{Latency, Prediction},
    predictors::{
        adapt::{DevicePrior, Forecast, Measured, Trait, Workload, adapt},
        metrics,
    },
};

/// Measured models are left out in so many groups: one by one where there are no more.
const GROUPS: usize = 10;
/// With fewer, nothing is left to forecast from.
const FEWEST: usize = 2;
/// Level of the intervals.
const LEVEL: f64 = 0.9;

/// Forecasts of measured models, none of which saw the latency of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct CrossValidation {
    /// Latency in ns and forecast, in the order of the measured models.
    pub forecasts: Vec<(f64, Prediction)>,
}

impl CrossValidation {
    /// `None` with fewer than two measured models: one latency cannot be cross-validated.
    #[must_use]
    pub fn of(
        prior: &DevicePrior,
        workloads: &[Workload],
        measured: &[Measured],
        kind: &Trait,
        threads: usize,
    ) -> Option<Self> {
        if measured.len() < FEWEST {
            return None;
        }
        let groups = measured.len().min(GROUPS);
        let without = |group: usize| {
            let (out, others): (Vec<_>, Vec<_>) =
                measured.iter().enumerate().partition(|(i, _)| i % groups == group);
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

/// A forecast as a prediction.
fn prediction(forecast: Forecast) -> Prediction {
    Prediction::new(forecast.latency(), LEVEL)
}
