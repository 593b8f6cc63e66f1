//! [`Example`]: what regressors are fitted to: a row or, where rows are very many, all rows with the
//! same features as one.
//!
//! For squared errors of logarithms, which trees minimise, a row with the sum of the weights and
//! the weighted mean of the logarithms is as good as the rows themselves. Models of one space share
//! most of their operators, so that a million rows are some hundred thousand examples. Fewer rows
//! stay what they are: LightGBM counts rows, not weights, in leaves and in bags.

use super::Model;
use crate::{
    elementary::{exp, ln},
    features::WorkingSet,
    rows::TrainingRow,
};
use foldhash::{HashMap, HashMapExt};
use vitempo_graph::OpSpec;

/// Training rows up to which each is an example of its own.
const SEPARATE: usize = 200_000;
/// Stands where features have no example yet.
const NOWHERE: u32 = u32::MAX;

/// One or several rows with the same features.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Example<'r> {
    pub op: &'r OpSpec,
    pub working_set: WorkingSet,
    pub latency_ns: f64,
    pub weight: f64,
    /// Number of the architecture, of several the first.
    pub group: usize,
    /// Whether a whole model has it, whose sizes are in distribution.
    pub whole: bool,
    /// Whether a network around operators has it.
    pub alone: bool,
}

impl<'r> Example<'r> {
    fn of(row: &'r TrainingRow, from: &Model) -> Self {
        let &TrainingRow { ref op, working_set, latency_ns, weight, .. } = row;
        let Model { group, whole } = *from;
        Self { op, working_set, latency_ns, weight, group, whole, alone: !whole }
    }
}

/// By row, the number of its features; `None` where each row is an example of its own.
pub(crate) fn features_of(rows: &[TrainingRow]) -> Option<Vec<u32>> {
    (rows.len() > SEPARATE).then(|| numbered(rows))
}

fn numbered(rows: &[TrainingRow]) -> Vec<u32> {
    let mut known: HashMap<(&OpSpec, WorkingSet), u32> = HashMap::new();
    rows.iter()
        .map(|row| {
            let next = known.len() as u32;
            *known.entry((&row.op, row.working_set)).or_insert(next)
        })
        .collect()
}

/// The examples of some rows, of which `features` has the numbers, in the order of their first row.
pub(crate) fn examples<'r>(
    rows: impl Iterator<Item = (usize, &'r TrainingRow)>,
    models: &[Model],
    features: Option<&[u32]>,
) -> Vec<Example<'r>> {
    let Some(features) = features else {
        return rows.map(|(_, row)| Example::of(row, &models[row.model])).collect();
    };
    let mut places = vec![NOWHERE; features.len()];
    let mut merged: Vec<Example<'r>> = Vec::new();
    for (number, row) in rows {
        let one = Example::of(row, &models[row.model]);
        let log_sum = one.weight * ln(one.latency_ns);
        let place = &mut places[features[number] as usize];
        match merged.get_mut(*place as usize) {
            Some(known) => {
                known.latency_ns += log_sum;
                known.weight += one.weight;
                known.whole |= one.whole;
                known.alone |= one.alone;
            }
            None => {
                *place = merged.len() as u32;
                merged.push(Example { latency_ns: log_sum, ..one });
            }
        }
    }
    merged
        .iter_mut()
        .for_each(|example| example.latency_ns = exp(example.latency_ns / example.weight));
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use vitempo_graph::{Attributes, OpKind, TensorSpec};

    fn row(width: usize, model: usize, latency_ns: f64, weight: f64) -> TrainingRow {
        let op = OpSpec {
            kind: OpKind::Relu,
            attributes: Attributes::new(),
            inputs: Vec::new(),
            outputs: vec![TensorSpec::f32([1, width])],
        };
        let working_set = WorkingSet::LARGE;
        TrainingRow { op: Arc::new(op), model, working_set, count: 1, latency_ns, weight }
    }

    #[test]
    fn rows_with_the_same_features_are_one_example() {
        let rows = [row(8, 0, 100.0, 1.0), row(9, 0, 7.0, 0.5), row(8, 1, 1600.0, 3.0)];
        let models = [Model { group: 0, whole: false }, Model { group: 1, whole: true }];
        let numbers = numbered(&rows);
        assert_eq!(numbers, [0, 1, 0]);
        let merged = examples(rows.iter().enumerate(), &models, Some(&numbers));
        assert_eq!(merged.len(), 2);
        let [one, other] = [merged[0], merged[1]];
        // The fourth root of 100 x 1600^3.
        assert!((one.latency_ns - 800.0).abs() < 1e-9 && one.weight == 4.0);
        assert_eq!((one.group, one.whole, one.alone), (0, true, true));
        assert!((other.latency_ns - 7.0).abs() < 1e-12 && !other.whole);
        // Without the first model, the numbers are the same.
        let rest = examples(rows.iter().enumerate().skip(2), &models, Some(&numbers));
        assert_eq!((rest.len(), rest[0].weight, rest[0].alone), (1, 3.0, false));
        let separate = examples(rows.iter().enumerate(), &models, None);
        assert_eq!(separate.iter().map(|e| e.latency_ns).collect::<Vec<_>>(), [100.0, 7.0, 1600.0]);
        assert!(features_of(&rows).is_none());
    }
}
