//! [`Errors`]: how far forecasts of an environment are off, beside how far its repeats are apart.
//! Errors are percent, shares between 0 and 1.

use crate::{accuracy::best_fed, group::Group, survey::Survey};
use vitempo::{
    graph::Latency,
    predictors::{Method, ModelRow},
};

/// Errors of GBDT on models that it was not trained on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Errors {
    pub models: usize,
    /// Mean absolute error.
    pub mape: f64,
    /// Share of models whose error is at most 10 %.
    pub within_10: f64,
    /// Share of models whose latency lies inside the interval.
    pub inside: f64,
    /// The share that the interval promises.
    pub level: f64,
    /// Mean difference between one measurement of a model and the next; `None` without repeats.
    pub floor: Option<f64>,
}

impl Errors {
    /// Of all real models together; `None` where none was forecast.
    pub fn real(survey: &Survey) -> Option<Self> {
        let floor = survey.floors.real.map(|f| f.mape);
        Self::of(survey, |group| group != Group::Synthetic, floor)
    }

    /// Of one kind of models.
    pub fn group(survey: &Survey, group: Group) -> Option<Self> {
        let floor = survey.floors.models.get(&group).map(|f| f.mape);
        Self::of(survey, |other| other == group, floor)
    }

    fn of(survey: &Survey, is_one: impl Fn(Group) -> bool, floor: Option<f64>) -> Option<Self> {
        let evaluated = best_fed(survey, Method::Gbdt)?;
        let sets: Vec<_> = evaluated.sets.iter().filter(|(group, _)| is_one(**group)).collect();
        let level = sets
            .iter()
            .find_map(|(_, e)| e.e2e.as_ref().or(e.e2e_executed.as_ref()))
            .map(|whole| whole.interval_level)?;
        let rows: Vec<(&ModelRow, f64)> = sets
            .iter()
            .flat_map(|(_, evaluation)| &evaluation.models)
            .filter_map(|row| Some((row, row.ape?)))
            .collect();
        let count = rows.len() as f64;
        let share = |is_one: &dyn Fn(&(&ModelRow, f64)) -> bool| {
            rows.iter().filter(|row| is_one(row)).count() as f64 / count
        };
        (!rows.is_empty()).then(|| Self {
            models: rows.len(),
            mape: rows.iter().map(|(_, ape)| ape).sum::<f64>() / count,
            within_10: share(&|(_, ape)| *ape <= 10.0),
            inside: share(&|(row, _)| is_inside(row)),
            level,
            floor,
        })
    }
}

/// Whether the measured latency lies inside the interval of the forecast.
pub fn is_inside(row: &ModelRow) -> bool {
    row.predicted.contains(Latency::from_ns(row.actual_ns))
}

/// The mean of what some have; `None` where none has it.
pub fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0.0);
    for value in values {
        (sum, count) = (sum + value, count + 1.0);
    }
    (count > 0.0).then(|| sum / count)
}
