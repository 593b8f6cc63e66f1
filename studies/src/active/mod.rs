//! Which networks to measure: replays of a measured dataset. Networks are taken in the order of
//! [`Targets::choose`], or drawn at random, until their recorded wall time reaches each budget; a
//! bundle is trained on them, and judged on synthetic models that no order may take.
//!
//! | question | where |
//! |---|---|
//! | what is there to measure, and what did it take? | `active/pool.rs` |
//! | what came of it at each budget? | [`replay`] |
//! | how long does one order need for the error of another? | [`Curve`] |

mod pool;
mod score;

pub(crate) use pool::wall_seconds;
pub use pool::{Pool, PoolError};
pub use score::{Curve, Mean, Summary, summary};

use rand::{SeedableRng, rngs::StdRng, seq::SliceRandom};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, path::Path};
use vitempo::{
    campaign::active::{ActiveError, Candidate, Targets},
    graph::ModelProfile,
    predictors::{Evaluation, Method, PredictorBundle, PredictorError, TrainOptions, train},
};

use crate::record::{self, RecordError};

/// In which order networks are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// The next one shrinks the expected error most; trained anew at each budget.
    Active,
    /// Drawn from everything.
    Random,
    /// Drawn from whole synthetic models alone, until there are none.
    Models,
}

impl Order {
    /// Its name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Random => "random",
            Self::Models => "random, whole models only",
        }
    }
}

/// A bundle of one order at one budget.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The order.
    pub order: Order,
    /// The seed of random ones; 0 for the active one.
    pub seed: u64,
    /// The budget, s.
    pub budget_s: f64,
    /// Recorded wall time of what was taken, s.
    pub seconds: f64,
    /// Networks around operators among it.
    pub networks: usize,
    /// Synthetic models among it.
    pub models: usize,
    /// Mean absolute percentage error on held-out synthetic models.
    pub synthetic_mape: f64,
    /// The same on real models, for information; `None`: the dataset has none.
    pub real_mape: Option<f64>,
    /// Share of held-out synthetic models inside of the interval.
    pub coverage: f64,
    /// Mean width of the interval as a share of the point.
    pub width: f64,
}

/// All points of a dataset's environment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Name of the dataset's folder.
    pub dataset: String,
    /// The environment.
    pub environment: String,
    /// Of the split and of weights.
    pub held_out: usize,
    /// Real models of the dataset.
    pub real: usize,
    /// Networks and models that could be measured, and what all of them take, s.
    pub pool: (usize, f64),
    /// In the order of the replay.
    pub points: Vec<Point>,
}

/// What is replayed.
#[derive(Clone, Debug)]
pub struct Protocol {
    /// Budgets, s, ascending.
    pub budgets_s: Vec<f64>,
    /// Seeds of random orders.
    pub seeds: u64,
    /// How predictors are fitted.
    pub method: Method,
}

/// Why there is no record.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StudyError {
    /// The dataset.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The order.
    #[error(transparent)]
    Active(#[from] ActiveError),
    /// The record.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A bundle.
    #[error(transparent)]
    Predictors(#[from] PredictorError),
}

/// Replays every order, and keeps every point in the record's file as soon as it is there; those
/// that the file has are not made again.
///
/// # Errors
/// [`StudyError`].
pub fn replay(
    pool: &Pool,
    protocol: &Protocol,
    file: &Path,
    say: &dyn Fn(&str),
) -> Result<Record, StudyError> {
    let empty = pool.record();
    let differs = |a: &Record, b: &Record| {
        [("datasets", (&a.dataset, &a.environment) != (&b.dataset, &b.environment))]
    };
    let mut record = record::continued(file, empty, differs)?;
    let orders =
        [(Order::Active, 1), (Order::Random, protocol.seeds), (Order::Models, protocol.seeds)];
    for (order, seeds) in orders {
        for seed in 0..seeds {
            let mut run = Run::new(pool, order, seed)?;
            for &budget_s in &protocol.budgets_s {
                run.take(budget_s);
                let is_there = |p: &Point| (p.order, p.seed, p.budget_s) == (order, seed, budget_s);
                if order != Order::Active && record.points.iter().any(is_there) {
                    continue;
                }
                say(&format!("{} {seed}, {budget_s} s", order.name()));
                let point = run.point(protocol, budget_s)?;
                if !record.points.iter().any(is_there) {
                    record.points.extend(point);
                    record::write(&record, file)?;
                }
            }
        }
    }
    Ok(record)
}

/// One order under way.
struct Run<'p> {
    pool: &'p Pool,
    order: Order,
    seed: u64,
    targets: Targets,
    candidates: Vec<Candidate>,
    /// What a random order takes next, last first.
    shuffled: Vec<usize>,
    taken: BTreeSet<usize>,
    seconds: f64,
}

/// Seconds of expected time that are chosen at a time.
const SLICE_S: f64 = 1.0;

impl<'p> Run<'p> {
    fn new(pool: &'p Pool, order: Order, seed: u64) -> Result<Self, StudyError> {
        let targets = Targets::sampled(&pool.environment)?;
        let candidates = match order {
            Order::Active => pool.candidates(&targets)?,
            Order::Random | Order::Models => Vec::new(),
        };
        let mut shuffled: Vec<usize> = (0..pool.entries.len()).collect();
        shuffled.shuffle(&mut StdRng::seed_from_u64(seed));
        if order == Order::Models {
            shuffled.retain(|&index| pool.entries[index].is_whole);
        }
        let (taken, seconds) = (BTreeSet::new(), 0.0);
        Ok(Self { pool, order, seed, targets, candidates, shuffled, taken, seconds })
    }

    /// Takes networks until their recorded time reaches the budget.
    fn take(&mut self, budget_s: f64) {
        while self.seconds < budget_s {
            let next = match self.order {
                Order::Active => self.targets.choose(&self.candidates, &mut self.taken, SLICE_S),
                Order::Random | Order::Models => self.shuffled.pop().into_iter().collect(),
            };
            if next.is_empty() {
                return;
            }
            for index in next {
                self.seconds += self.pool.entries[index].seconds;
                self.taken.insert(index);
            }
        }
    }

    /// Trains and judges; `None` where there are too few networks to train on.
    fn point(&mut self, protocol: &Protocol, budget_s: f64) -> Result<Option<Point>, StudyError> {
        let profiles: Vec<ModelProfile> = self
            .taken
            .iter()
            .flat_map(|&index| self.pool.entries[index].profiles.iter().cloned())
            .collect();
        let options = TrainOptions::default();
        let bundle =
            match train(&profiles, &self.pool.graphs, protocol.method, &options, &mut |_| ()) {
                Ok(bundle) => bundle,
                Err(PredictorError::TooFewModels { .. } | PredictorError::NoRows { .. }) => {
                    return Ok(None);
                }
                Err(error) => return Err(error.into()),
            };
        if self.order == Order::Active {
            self.targets.learn(&bundle);
        }
        let models = self.taken.iter().filter(|&&i| self.pool.entries[i].is_whole).count();
        let synthetic = self.judged(&bundle, &self.pool.held_out)?;
        let Some(synthetic) = synthetic.e2e else { return Ok(None) };
        let real = match self.pool.real.is_empty() {
            true => None,
            false => self.judged(&bundle, &self.pool.real)?.e2e,
        };
        Ok(Some(Point {
            order: self.order,
            seed: self.seed,
            budget_s,
            seconds: self.seconds,
            networks: self.taken.len() - models,
            models,
            synthetic_mape: synthetic.mape,
            real_mape: real.map(|e| e.mape),
            coverage: synthetic.interval_coverage,
            width: synthetic.interval_width,
        }))
    }

    fn judged(
        &self,
        bundle: &PredictorBundle,
        profiles: &[ModelProfile],
    ) -> Result<Evaluation, PredictorError> {
        vitempo::predictors::evaluate(bundle, profiles, &self.pool.graphs)
    }
}
