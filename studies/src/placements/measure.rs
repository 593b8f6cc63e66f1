//! [`measure`] divides each model where its work is shared most evenly, and runs every part alone
//! and every placement on engines with cores of their own.
//!
//! A placement runs twice per round: one frame after the other (its latency), and with a stage per
//! run of parts on one engine (its period). Rounds go through all placements in turn, so that slow
//! changes of the machine do not fall on one of them. No bundle has seen the models.

use super::{Division, EngineRecord, ModelRecord, PartRecord, PlacementRecord, Record};
use crate::record::{self, RecordError};
use std::{
    path::Path,
    sync::{Arc, atomic::AtomicBool},
};
use vitempo::{
    Bundle,
    graph::{Graph, LatencyModel, PredictionError, Work, onnx::ReadOptions},
    models::Model,
    plan::{
        live::{Engine, LiveOptions, LiveSession, LiveSessionError},
        partition::{Partition, PartitionError},
    },
    planners::{
        cost::Interval,
        stitch::cut::{self, CutError},
    },
    profiler::{
        Availability, BackendError, backends, environment,
        live::{Stage, Task},
        pinning::PinningError,
    },
};

/// Frames that may wait before a stage.
const QUEUE: usize = 1;

/// What is measured.
#[derive(Debug)]
pub struct Protocol<'a> {
    /// The engines, each with the bundle that forecasts it.
    pub engines: Vec<(Engine, Bundle)>,
    /// Numbers of parts.
    pub parts: Vec<usize>,
    /// Measured frames of every run.
    pub frames: usize,
    /// Runs of every placement.
    pub rounds: usize,
    /// Where the record is; models that it has are not measured again.
    pub record: &'a Path,
    /// Set it from another thread to stop after the current run; models that are finished are kept.
    pub interrupted: Arc<AtomicBool>,
}

/// Why a study cannot go on. Finished models are in the record.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlacementsError {
    /// The record.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// An engine is not available.
    #[error("processor `{processor}`: {reason}")]
    Engine {
        /// Its name.
        processor: String,
        /// The engine's reason.
        reason: String,
    },
    /// No such backend.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// The cores are not there.
    #[error(transparent)]
    Pinning(#[from] PinningError),
    /// A model cannot be cut into so many parts.
    #[error("`{model}`: {source}")]
    Cut {
        /// Its name.
        model: String,
        /// The reason.
        source: CutError,
    },
    /// A model's parts cannot be made.
    #[error(transparent)]
    Partition(#[from] PartitionError),
    /// A bundle does not forecast a part.
    #[error("`{bundle}`: {source}")]
    Prediction {
        /// The bundle.
        bundle: String,
        /// Its error.
        source: PredictionError,
    },
    /// An engine does not run a part.
    #[error("`{model}`: {source}")]
    Live {
        /// The model.
        model: String,
        /// The reason.
        source: LiveSessionError,
    },
    /// A part reports no samples.
    #[error("`{0}`: a measurement without samples")]
    NoSamples(String),
}

/// Measures the models that the record lacks; `progress` gets what comes next.
///
/// # Errors
/// [`PlacementsError`]; the record has every model that was finished before.
pub fn measure(
    models: &[Model],
    protocol: &Protocol<'_>,
    progress: &dyn Fn(&str),
) -> Result<Record, PlacementsError> {
    let empty = Record {
        engines: protocol.engines.iter().map(engine_record).collect::<Result<_, _>>()?,
        parts: protocol.parts.clone(),
        frames: protocol.frames,
        rounds: protocol.rounds,
        models: Vec::new(),
    };
    let mut record = record::continued(protocol.record, empty, |found, asked| {
        [
            ("engines", found.engines != asked.engines),
            ("numbers of parts", found.parts != asked.parts),
            ("frames", found.frames != asked.frames),
            ("rounds", found.rounds != asked.rounds),
        ]
    })?;
    for model in models {
        let name = &model.identity.name;
        if record.models.iter().any(|known| known.model == *name) {
            continue;
        }
        let division = |&parts: &usize| {
            progress(&format!("{name} in {parts} parts"));
            divided(model, parts, protocol)
        };
        let divisions = protocol.parts.iter().map(division).collect::<Result<_, _>>()?;
        record.models.push(ModelRecord { model: name.clone(), divisions });
        record::write(&record, protocol.record)?;
    }
    Ok(record)
}

fn engine_record((engine, bundle): &(Engine, Bundle)) -> Result<EngineRecord, PlacementsError> {
    let options = engine.processor().options;
    let environment = match backends::by_name(&engine.backend)?.probe(&options) {
        Availability::Available(capabilities) => {
            environment::detect(&engine.backend, &capabilities, &options)?.without_host()
        }
        Availability::Unavailable { reason, .. } => {
            return Err(PlacementsError::Engine { processor: engine.name.clone(), reason });
        }
    };
    Ok(EngineRecord {
        name: engine.name.clone(),
        environment,
        bundle: bundle.name().to_owned(),
        forecast_for: bundle.environment().clone(),
    })
}

/// One model in one number of parts.
fn divided(
    model: &Model,
    parts: usize,
    protocol: &Protocol<'_>,
) -> Result<Division, PlacementsError> {
    let name = &model.identity.name;
    let cut = |source| PlacementsError::Cut { model: name.clone(), source };
    let cuts = cut::shared(&[&model.graph], parts).map_err(cut)?;
    let subgraphs = cut::subgraphs(&model.graph, &cuts).map_err(cut)?;
    let part_of = cut::part_of(&model.graph, &cuts).map_err(cut)?;
    let names: Vec<String> = (1..=parts).map(|part| format!("part-{part}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let partition = Partition::of(model, &ReadOptions::default(), &part_of, &names)?;
    let options = LiveOptions {
        engines: protocol.engines.iter().map(|(engine, _)| engine.clone()).collect(),
        frames: protocol.frames,
        camera_fps: None,
        deadline_ns: None,
        interrupted: Arc::clone(&protocol.interrupted),
    };
    let live = |source| PlacementsError::Live { model: name.clone(), source };
    let session = LiveSession::start(options, partition).map_err(live)?;
    let mut parts = forecasts(&subgraphs, protocol)?;
    let mut placements: Vec<PlacementRecord> =
        placements(parts.len(), protocol.engines.len()).collect();
    for _ in 0..protocol.rounds {
        alone(&session, &mut parts).map_err(live)?;
        for placement in &mut placements {
            run(&session, placement).map_err(live)?;
        }
        session.go_on().map_err(live)?;
    }
    if parts.iter().flat_map(|part| &part.measured_ns).any(Vec::is_empty) {
        return Err(PlacementsError::NoSamples(name.clone()));
    }
    Ok(Division { cuts, parts, placements })
}

fn forecasts(parts: &[Graph], protocol: &Protocol<'_>) -> Result<Vec<PartRecord>, PlacementsError> {
    let forecast = |part: &Graph, bundle: &Bundle| match bundle.predict(part) {
        Ok(prediction) => Ok(Interval::from(&prediction.latency)),
        Err(source) => {
            Err(PlacementsError::Prediction { bundle: bundle.name().to_owned(), source })
        }
    };
    let record = |part: &Graph| {
        let engines = protocol.engines.iter().map(|(_, bundle)| forecast(part, bundle));
        Ok(PartRecord {
            flops: Work::of_graph(part).flops,
            forecast_ns: engines.collect::<Result<_, _>>()?,
            measured_ns: vec![Vec::new(); protocol.engines.len()],
        })
    };
    parts.iter().map(record).collect()
}

/// Every engine for every part.
fn placements(parts: usize, engines: usize) -> impl Iterator<Item = PlacementRecord> {
    let count = engines.pow(u32::try_from(parts).unwrap_or(u32::MAX));
    (0..count).map(move |number| PlacementRecord {
        engines: (0..parts).map(|part| number / engines.pow(part as u32) % engines).collect(),
        latency_ns: Vec::new(),
        completed_ns: Vec::new(),
        apart: None,
    })
}

/// Adds samples of each part alone on each engine.
fn alone(session: &LiveSession, parts: &mut [PartRecord]) -> Result<(), LiveSessionError> {
    let all: Vec<usize> = (0..parts.len()).collect();
    let values = session.computed(&all, 0)?;
    for (index, part) in parts.iter_mut().enumerate() {
        for (engine, samples) in part.measured_ns.iter_mut().enumerate() {
            samples.extend(session.alone(index, engine, &values, session.frames())?);
        }
    }
    Ok(())
}

/// Adds a round of a placement.
fn run(session: &LiveSession, placement: &mut PlacementRecord) -> Result<(), LiveSessionError> {
    let tasks: Vec<Task> = placement
        .engines
        .iter()
        .enumerate()
        .map(|(part, &processor)| Task { part, processor })
        .collect();
    let stage = |tasks: &[Task]| Stage {
        name: "parts".to_owned(),
        queue: QUEUE,
        steps: tasks.iter().map(|task| vec![*task]).collect(),
    };
    let sequential = session.measure(&[Stage { queue: 0, ..stage(&tasks) }])?;
    let stages: Vec<Stage> =
        tasks.chunk_by(|one, next| one.processor == next.processor).map(stage).collect();
    let pipelined = session.measure(&stages)?;
    placement.latency_ns.push(sequential.outcome.latency_ns);
    placement.completed_ns.push(pipelined.outcome.completed_ns);
    let apart = [placement.apart, sequential.apart, pipelined.apart];
    placement.apart = apart.into_iter().flatten().reduce(f64::max);
    Ok(())
}
