//! A machine that is left out of a fleet: forecast from ten end-to-end latencies, and from a minute
//! of operator networks, with the others' datasets and bundles at hand.
//!
//! | question | where |
//! |---|---|
//! | what does a dataset say of a machine? | `fleet/machine.rs` |
//! | what came of each way to forecast it? | [`study`] |

mod machine;

pub use machine::{Machine, MachineError};

use crate::record::{self, RecordError};
use machine::Truth;
use rand::{SeedableRng, rngs::StdRng, seq::SliceRandom};
use serde::{Deserialize, Serialize};
use std::path::Path;
use vitempo::{
    adaptation::{Adapter, Latencies, Model, ModelLatency, Sample, SourceError, Unit},
    graph::{LatencyModel, ModelProfile, PredictionError},
    predictors::{Method, PredictorBundle, PredictorError, TrainOptions, metrics, train, transfer},
};

/// What of a machine is used to forecast it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// Nothing: the bundle of another machine as it is.
    Nothing,
    /// Ten latencies; the others measured the same models.
    TenLatencies,
    /// Ten latencies; the others have bundles and measured none of the models.
    TenLatenciesOfNewModels,
    /// A minute of operator networks corrects the bundle of another machine.
    Minute,
    /// A minute of operator networks alone.
    MinuteAlone,
    /// A whole campaign.
    Campaign,
}

impl Way {
    /// Its name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "bundle of another machine, as it is",
            Self::TenLatencies => "ten latencies, models known on the others",
            Self::TenLatenciesOfNewModels => "ten latencies, models new to all",
            Self::Minute => "a minute of operators corrects another machine's bundle",
            Self::MinuteAlone => "a minute of operators, trained alone",
            Self::Campaign => "a campaign of its own",
        }
    }

    /// Mean error that is aimed at, percent.
    #[must_use]
    pub const fn target(self) -> Option<f64> {
        match self {
            Self::TenLatencies | Self::TenLatenciesOfNewModels => Some(8.0),
            Self::Minute => Some(5.0),
            _ => None,
        }
    }
}

/// One way to forecast one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The engine.
    pub engine: String,
    /// The machine that was left out.
    pub machine: String,
    /// What was used.
    pub way: Way,
    /// The machine whose bundle was used, where it is one.
    pub source: Option<String>,
    /// Seed of what was drawn.
    pub seed: u64,
    /// Models that were forecast.
    pub models: usize,
    /// Whether they are real ones; else synthetic ones.
    pub real: bool,
    /// Mean absolute percentage error.
    pub mape: f64,
    /// Share of them inside of the interval.
    pub coverage: f64,
    /// Measuring time of what was used, s; of latencies, that of their models.
    pub seconds: f64,
}

/// All rows, and the noise of each machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// In the order of the study.
    pub rows: Vec<Row>,
    /// Engine, machine and mean difference of two rounds of its models, percent.
    pub noise: Vec<(String, String, Option<f64>)>,
}

/// How it is done.
#[derive(Clone, Debug)]
pub struct Protocol<'a> {
    /// Draws of models and networks.
    pub seeds: u64,
    /// End-to-end latencies.
    pub latencies: usize,
    /// Measuring time of operator networks, s.
    pub seconds: f64,
    /// Folder of the machines' own bundles, which are made where they are absent.
    pub bundles: &'a Path,
    /// The file of the record.
    pub record: &'a Path,
}

/// Why there is no record.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FleetError {
    /// A dataset.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// The record.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A bundle.
    #[error(transparent)]
    Predictors(#[from] PredictorError),
    /// A forecast.
    #[error(transparent)]
    Prediction(#[from] PredictionError),
    /// Another machine as a source.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// One machine alone has no others.
    #[error("engine `{engine}`: {machines} machines have it; at least two are needed")]
    TooFew {
        /// The engine.
        engine: String,
        /// Machines that have it.
        machines: usize,
    },
}

/// Leaves each machine out in turn; rows that the record has are not made again.
///
/// # Errors
/// [`FleetError`].
pub fn study(
    datasets: &[std::path::PathBuf],
    engine: &str,
    protocol: &Protocol<'_>,
    say: &dyn Fn(&str),
) -> Result<Record, FleetError> {
    let mut record: Record = record::read(protocol.record)?.unwrap_or_default();
    let mut machines = Vec::new();
    for folder in datasets {
        machines.extend(Machine::read(folder, engine)?);
    }
    if machines.len() < 2 {
        return Err(FleetError::TooFew { engine: engine.to_owned(), machines: machines.len() });
    }
    let mut bundles = Vec::new();
    for machine in &machines {
        say(&format!("{engine}: the bundle of {}", machine.name));
        bundles.push(machine.bundle(protocol.bundles)?);
    }
    for target in 0..machines.len() {
        let judged = machines[target].judged(bundles[target].drift)?;
        let name = &machines[target].name;
        let is_there = |(of, machine, _): &(String, String, Option<f64>)| {
            (of.as_str(), machine) == (engine, name)
        };
        if !record.noise.iter().any(is_there) {
            record.noise.push((engine.to_owned(), name.clone(), noise(&judged)));
        }
        let fleet = LeftOut { machines: &machines, bundles: &bundles, target, judged, protocol };
        fleet.rows(&mut record, say)?;
    }
    Ok(record)
}

/// A machine and the others.
struct LeftOut<'a> {
    machines: &'a [Machine],
    bundles: &'a [PredictorBundle],
    target: usize,
    judged: Vec<Truth>,
    protocol: &'a Protocol<'a>,
}

/// What was found in one way.
struct Found {
    source: Option<String>,
    score: Score,
    seconds: f64,
}

/// Errors of forecasts.
struct Score {
    models: usize,
    mape: f64,
    coverage: f64,
}

impl LeftOut<'_> {
    fn own(&self) -> &Machine {
        &self.machines[self.target]
    }

    fn others(&self) -> impl Iterator<Item = (&Machine, &PredictorBundle)> {
        let all = self.machines.iter().zip(self.bundles).enumerate();
        all.filter(|(index, _)| *index != self.target).map(|(_, of)| of)
    }

    fn rows(&self, record: &mut Record, say: &dyn Fn(&str)) -> Result<(), FleetError> {
        let own = self.own();
        let ways = [
            (Way::Campaign, 1),
            (Way::Nothing, 1),
            (Way::TenLatencies, self.protocol.seeds),
            (Way::TenLatenciesOfNewModels, self.protocol.seeds),
            (Way::Minute, self.protocol.seeds),
            (Way::MinuteAlone, self.protocol.seeds),
        ];
        for (way, seeds) in ways {
            for seed in 0..seeds {
                let is_there = |row: &Row| {
                    (row.way, row.seed) == (way, seed)
                        && (&row.engine, &row.machine) == (&own.environment.framework, &own.name)
                };
                if record.rows.iter().any(is_there) {
                    continue;
                }
                say(&format!(
                    "{} without {}: {}, {seed}",
                    own.environment.framework,
                    own.name,
                    way.name()
                ));
                let Found { source, score, seconds } = self.found(way, seed)?;
                record.rows.push(Row {
                    engine: own.environment.framework.clone(),
                    machine: own.name.clone(),
                    way,
                    source,
                    seed,
                    models: score.models,
                    real: own.has_real(),
                    mape: score.mape,
                    coverage: score.coverage,
                    seconds,
                });
                record::write(record, self.protocol.record)?;
            }
        }
        Ok(())
    }

    fn found(&self, way: Way, seed: u64) -> Result<Found, FleetError> {
        match way {
            Way::Campaign => {
                let score = score(&self.bundles[self.target], &self.judged)?;
                Ok(Found { source: None, score, seconds: self.own().seconds() })
            }
            Way::Nothing => {
                let (name, bundle, _) = self.corrected(seed)?;
                let bundle =
                    self.others().find(|(m, _)| m.name == name).map_or(&bundle, |(_, b)| b);
                let score = score(bundle, &self.judged)?;
                Ok(Found { source: Some(name), score, seconds: 0.0 })
            }
            Way::TenLatencies | Way::TenLatenciesOfNewModels => self.adapted(way, seed),
            Way::Minute => {
                let (name, bundle, seconds) = self.corrected(seed)?;
                let score = score(&bundle, &self.judged)?;
                Ok(Found { source: Some(name), score, seconds })
            }
            Way::MinuteAlone => {
                let (profiles, seconds) = self.minute(seed);
                let options = TrainOptions::default();
                let graphs = self.own().graphs();
                let bundle = train(&profiles, graphs, Method::Gbdt, &options, &mut |_| ())?;
                let score = score(&bundle, &self.judged)?;
                Ok(Found { source: None, score, seconds })
            }
        }
    }

    /// The bundle of the other machine that networks left out fit best, corrected.
    fn corrected(&self, seed: u64) -> Result<(String, PredictorBundle, f64), FleetError> {
        let (profiles, seconds) = self.minute(seed);
        let mut best: Option<(f64, String, PredictorBundle)> = None;
        for (machine, bundle) in self.others() {
            let found = transfer::transfer(bundle, &profiles)?;
            if best.as_ref().is_none_or(|(error, _, _)| found.error_after < *error) {
                best = Some((found.error_after, machine.name.clone(), found.bundle));
            }
        }
        let none = FleetError::TooFew { engine: String::new(), machines: 1 };
        best.map(|(_, name, bundle)| (name, bundle, seconds)).ok_or(none)
    }

    /// Operator networks at random until their recorded time reaches the protocol's.
    fn minute(&self, seed: u64) -> (Vec<ModelProfile>, f64) {
        let mut networks = self.own().networks.clone();
        networks.shuffle(&mut StdRng::seed_from_u64(seed));
        let (mut taken, mut seconds) = (Vec::new(), 0.0);
        for (profile, took) in networks {
            if seconds >= self.protocol.seconds {
                break;
            }
            seconds += took;
            taken.push(profile);
        }
        (taken, seconds)
    }

    fn adapted(&self, way: Way, seed: u64) -> Result<Found, FleetError> {
        let truths = &self.judged;
        let models: Vec<Model<'_>> =
            truths.iter().map(|t| Model { name: &t.name, graph: &t.graph }).collect();
        let mut order: Vec<usize> = (0..truths.len()).collect();
        order.shuffle(&mut StdRng::seed_from_u64(seed));
        let (measured, rest) = order.split_at(self.protocol.latencies.min(order.len()));
        let mut adapter = Adapter::new(self.own().environment.clone(), &models);
        for (machine, bundle) in self.others() {
            match way {
                Way::TenLatencies => adapter.add_dataset(&machine.dataset)?,
                _ => adapter.add_bundle(bundle)?,
            }
        }
        let latency = |&model: &usize| {
            let latency_ns = truths[model].latency_ns;
            ModelLatency { model, latency_ns, samples: vec![Sample { line: 0, latency_ns }] }
        };
        let models = measured.iter().map(latency).collect();
        let latencies = Latencies { unit: Unit::Nanoseconds, models };
        let adapted = adapter.adapt(&latencies).bundle;
        let rest: Vec<Truth> = rest.iter().map(|&i| truths[i].clone()).collect();
        let seconds = measured.iter().map(|&i| truths[i].seconds).sum();
        Ok(Found { source: None, score: score(&adapted, &rest)?, seconds })
    }
}

/// Mean difference of two rounds of a model, percent.
fn noise(truths: &[Truth]) -> Option<f64> {
    let each: Vec<f64> = truths.iter().filter_map(|truth| truth.noise).collect();
    metrics::mean(&each).map(|mean| 100.0 * mean)
}

/// Errors of a bundle's forecasts.
fn score(bundle: &dyn LatencyModel, truths: &[Truth]) -> Result<Score, FleetError> {
    let (mut actual, mut forecast, mut inside) = (Vec::new(), Vec::new(), 0.0);
    for truth in truths {
        let latency = bundle.predict(&truth.graph)?.latency;
        actual.push(truth.latency_ns);
        forecast.push(latency.point().ns());
        let holds = (latency.lower().ns()..=latency.upper().ns()).contains(&truth.latency_ns);
        inside += f64::from(u8::from(holds));
    }
    let mape = metrics::mape(&actual, &forecast).unwrap_or(f64::NAN);
    Ok(Score { models: truths.len(), mape, coverage: inside / truths.len().max(1) as f64 })
}
