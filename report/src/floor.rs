//! Noise floors: how much the same models, and the same operators in them, differ between one
//! measurement and the next.

use super::group::Group;
use std::collections::{BTreeMap, HashMap};
use vitempo::graph::{ModelProfile, OpFamily, OpSpec};
use vitempo::predictors::{
    TrainingRows,
    metrics::{MetricError, mape, where_paired, within},
};

/// The name for the floor of all activations together.
const ACTIVATIONS: &str = "activation";

/// Differences between repeated measurements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Floor {
    /// Models, or operators in models, that were measured more than once.
    pub repeated: usize,
    /// Mean difference between a measurement and the next, percent; drift-corrected where the
    /// reference corrects drift.
    pub mape: f64,
    /// Share of measurements that are within 10 % of the next. Medians of several measurements,
    /// which forecasts are held against, are quieter than that.
    pub within_10pct: f64,
}

/// Noise floors of one environment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Floors {
    /// End to end.
    pub models: BTreeMap<Group, Floor>,
    /// End to end, all real models together.
    pub real: Option<Floor>,
    /// Of one operator in place, by kind; all activations together as `activation`.
    pub kinds: BTreeMap<String, Floor>,
}

/// Pairs of measurements of the same thing.
#[derive(Default)]
struct Pairs {
    repeated: usize,
    first: Vec<f64>,
    second: Vec<f64>,
}

impl Pairs {
    /// Each run of a model with the next.
    fn add(&mut self, runs: &[f64]) {
        self.repeated += 1;
        self.first.extend(runs.iter().take(runs.len().saturating_sub(1)));
        self.second.extend(runs.iter().skip(1));
    }

    /// `None` where nothing took time.
    fn floor(&self) -> Result<Option<Floor>, MetricError> {
        let found = || {
            Ok(Floor {
                repeated: self.repeated,
                mape: mape(&self.first, &self.second)?,
                within_10pct: within(&self.first, &self.second, 10.0)?,
            })
        };
        where_paired(found())
    }
}

/// The floors of those that have one.
fn floors<K: Ord>(pairs: BTreeMap<K, Pairs>) -> Result<BTreeMap<K, Floor>, MetricError> {
    let floor = |(key, pairs): (K, Pairs)| Ok(pairs.floor()?.map(|floor| (key, floor)));
    pairs.into_iter().map(floor).filter_map(Result::transpose).collect()
}

impl Floors {
    /// From rows of the same profiles; `groups` has an entry for each model of the rows.
    ///
    /// # Errors
    /// [`MetricError`] for a latency that is not a finite number.
    pub fn of(
        rows: &TrainingRows,
        groups: &[Option<Group>],
        profiles: &[ModelProfile],
    ) -> Result<Self, MetricError> {
        let (mut models, mut real) = (BTreeMap::<Group, Pairs>::new(), Pairs::default());
        for (model, group) in rows.models.iter().zip(groups) {
            if let (Some(group), true) = (group, model.runs.len() > 1) {
                let runs: Vec<f64> = model.runs.iter().map(|(_, corrected)| *corrected).collect();
                models.entry(*group).or_default().add(&runs);
                if *group != Group::Synthetic {
                    real.add(&runs);
                }
            }
        }
        Ok(Self {
            models: floors(models)?,
            real: real.floor()?,
            kinds: floors(operator_pairs(rows, profiles))?,
        })
    }
}

fn operator_pairs(rows: &TrainingRows, profiles: &[ModelProfile]) -> BTreeMap<String, Pairs> {
    let mut measurements: BTreeMap<(&str, &str), Vec<&ModelProfile>> = BTreeMap::new();
    for profile in profiles {
        measurements
            .entry((&profile.model.name, &profile.model.architecture))
            .or_default()
            .push(profile);
    }
    let mut kinds: BTreeMap<String, Pairs> = BTreeMap::new();
    for mut same in measurements.into_values().filter(|v| v.len() > 1) {
        same.sort_by_key(|p| (p.started_unix_ms, p.round));
        let of_measurement = |p: &ModelProfile| {
            TrainingRows::with_drift(std::slice::from_ref(p), rows.drift)
                .map(|r| r.rows)
                .unwrap_or_default()
        };
        let each: Vec<_> = same.into_iter().map(of_measurement).collect();
        for pair in each.windows(2) {
            let [before, after] = pair else { continue };
            let earlier: HashMap<&OpSpec, f64> =
                before.iter().map(|r| -> (&OpSpec, f64) { (&r.op, r.latency_ns) }).collect();
            for row in after {
                if let Some(first) = earlier.get(&*row.op) {
                    let family = (row.op.kind.family() == OpFamily::Activation)
                        .then(|| ACTIVATIONS.to_owned());
                    for name in family.into_iter().chain([row.op.kind.name().to_owned()]) {
                        let pairs = kinds.entry(name).or_default();
                        pairs.repeated += 1;
                        pairs.first.push(*first);
                        pairs.second.push(row.latency_ns);
                    }
                }
            }
        }
    }
    kinds
}
