//! [`measure`] runs models alone, in pairs and beside a stream, each in a process that stays ready
//! from one pair to the next.
//!
//! Pairs come diagonal by diagonal, so that every model has about as many pairs when the time is
//! over. What was measured is in the record after every pair.

use super::{PairRecord, Record, StreamRecord};
use crate::record::{self, RecordError};
use std::{
    collections::HashMap,
    path::Path,
    sync::atomic::AtomicBool,
    thread::sleep,
    time::{Duration, Instant},
};
use vitempo::{
    Bundle,
    graph::Environment,
    models::Model,
    profiler::{
        Load, RunOptions, Source, SweepError, Target, WorkerCommand,
        load::{LoadError, LoadModel, LoadWorker, StreamSpec, Tally},
    },
};

/// Time in which caches settle before samples count.
const SETTLING: Duration = Duration::from_millis(80);
/// How often models run alone and beside each other in turn, so that a machine which becomes slower
/// meanwhile does so for both.
pub const TURNS: u32 = 4;
/// Fewest runs of a model in a turn; the turn is longer for slow models.
const FEWEST_RUNS: usize = 2;
/// A window is at most this many times as long.
const LONGEST: usize = 20;

/// An engine on a core, and the bundle that forecasts it.
#[derive(Clone, Debug)]
pub struct Engine {
    /// Name of the backend.
    pub backend: String,
    /// Its core.
    pub core: usize,
    /// Its bundle.
    pub bundle: Bundle,
}

/// What is measured.
#[derive(Debug)]
pub struct Protocol<'a> {
    /// Two engines on different cores.
    pub engines: [Engine; 2],
    /// Least time for which a pair is sampled in all turns; alone it is half of it.
    pub window: Duration,
    /// No pair begins after this time.
    pub budget: Option<Duration>,
    /// Where the record is; what it has is not measured again.
    pub record: &'a Path,
    /// Starts the processes that run models.
    pub worker: WorkerCommand,
}

/// Why the study cannot go on. Finished pairs are in the record.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ContentionStudyError {
    /// The record.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// An engine is not available.
    #[error(transparent)]
    Engine(#[from] SweepError),
    /// Both engines have the same core.
    #[error("both engines are on core {0}")]
    OneCore(usize),
    /// A model or the stream does not run.
    #[error("{what}: {source}")]
    Run {
        /// Its name.
        what: String,
        /// The reason.
        source: LoadError,
    },
}

/// Measures the pairs and streams that the record lacks, until the budget is spent; `progress` gets
/// what comes next.
///
/// # Errors
/// [`ContentionStudyError`]; the record has everything that was finished before.
pub fn measure(
    models: &[Model],
    protocol: &Protocol<'_>,
    progress: &dyn Fn(&str),
) -> Result<Record, ContentionStudyError> {
    let start = Instant::now();
    let empty = Record {
        engines: environments(protocol)?,
        window_ms: u64::try_from(protocol.window.as_millis()).unwrap_or(u64::MAX),
        turns: TURNS,
        pairs: Vec::new(),
        streams: Vec::new(),
    };
    let mut record = record::continued(protocol.record, empty, |found, asked| {
        [
            ("engines", found.engines != asked.engines),
            ("windows", found.window_ms != asked.window_ms),
            ("turns", found.turns != asked.turns),
        ]
    })?;
    let mut crew = Crew { models, protocol, workers: HashMap::new() };
    for step in steps(models.len()) {
        if protocol.budget.is_some_and(|budget| start.elapsed() >= budget) {
            break;
        }
        match step {
            Step::Stream { engine, model } => {
                let name = &models[model].identity.name;
                if !record.has_stream(engine, name) {
                    progress(&format!("{name} beside a stream"));
                    record.streams.push(crew.stream(engine, model)?);
                    record::write(&record, protocol.record)?;
                }
            }
            Step::Pair(one, other) => {
                let names = [one, other].map(|model| models[model].identity.name.as_str());
                if !record.has_pair(names) {
                    progress(&format!("{} beside {}", names[0], names[1]));
                    record.pairs.push(crew.pair([one, other])?);
                    record::write(&record, protocol.record)?;
                }
            }
        }
    }
    Ok(record)
}

fn environments(protocol: &Protocol<'_>) -> Result<Vec<Environment>, ContentionStudyError> {
    let [one, other] = &protocol.engines;
    if one.core == other.core {
        return Err(ContentionStudyError::OneCore(one.core));
    }
    let target = Target::from(protocol.worker.clone());
    let probe = |engine: &Engine| {
        let options = RunOptions { cores: vec![engine.core], ..RunOptions::default() };
        Ok(target.probe(&engine.backend, &options)?.without_host())
    };
    protocol.engines.iter().map(probe).collect()
}

/// What is measured next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Stream { engine: usize, model: usize },
    Pair(usize, usize),
}

/// Streams first, then pairs diagonal by diagonal; a model beside itself comes last.
fn steps(models: usize) -> Vec<Step> {
    let streams =
        (0..models).flat_map(|model| (0..2).map(move |engine| Step::Stream { engine, model }));
    let pairs = (1..=models).flat_map(|diagonal| {
        (0..models).map(move |one| Step::Pair(one, (one + diagonal) % models))
    });
    streams.chain(pairs).collect()
}

/// What a worker runs on the core of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Role {
    Model(usize),
    Stream,
}

/// Workers that are ready, by the engine whose core they have.
struct Crew<'a> {
    models: &'a [Model],
    protocol: &'a Protocol<'a>,
    workers: HashMap<(usize, Role), LoadWorker>,
}

impl Crew<'_> {
    fn pair(&mut self, models: [usize; 2]) -> Result<PairRecord, ContentionStudyError> {
        let keys = [(0, Role::Model(models[0])), (1, Role::Model(models[1]))];
        let mut pair = PairRecord {
            models: models.map(|model| self.models[model].identity.name.clone()),
            alone_ns: Default::default(),
            beside_ns: Default::default(),
        };
        for _ in 0..TURNS {
            for (engine, alone) in pair.alone_ns.iter_mut().enumerate() {
                let tallies = self.run(&keys[engine..=engine], self.protocol.window / 2)?;
                alone.extend(tallies.into_iter().flat_map(|tally| tally.runs_ns));
            }
            let both = self.run(&keys, self.protocol.window)?;
            for (beside, tally) in pair.beside_ns.iter_mut().zip(both) {
                beside.extend(tally.runs_ns);
            }
        }
        Ok(pair)
    }

    fn stream(
        &mut self,
        engine: usize,
        model: usize,
    ) -> Result<StreamRecord, ContentionStudyError> {
        let keys = [(engine, Role::Model(model)), (1 - engine, Role::Stream)];
        let mut record = StreamRecord {
            engine,
            model: self.models[model].identity.name.clone(),
            alone_ns: Vec::new(),
            beside_ns: Vec::new(),
            stream_bytes_per_s: 0,
        };
        let mut stream = Tally::default();
        for _ in 0..TURNS {
            let alone = self.run(&keys[..1], self.protocol.window / 2)?;
            record.alone_ns.extend(alone.into_iter().flat_map(|tally| tally.runs_ns));
            let mut both = self.run(&keys, self.protocol.window)?.into_iter();
            record.beside_ns.extend(both.next().unwrap_or_default().runs_ns);
            both.for_each(|tally| add(&mut stream, tally));
        }
        Ok(StreamRecord { stream_bytes_per_s: stream.rates().bytes_per_s, ..record })
    }

    /// Runs these at the same time for one turn's share of a time; what each did after it settled.
    fn run(
        &mut self,
        keys: &[(usize, Role)],
        time: Duration,
    ) -> Result<Vec<Tally>, ContentionStudyError> {
        let mut running = Vec::new();
        for key in keys {
            running.push((*key, self.ready(*key)?));
        }
        let workers = running.iter_mut().map(|(_, worker)| worker).collect();
        let ran = together(workers, time / TURNS);
        let about = |source| ContentionStudyError::Run { what: self.named(keys), source };
        let tallies = ran.map_err(about)?;
        self.workers.extend(running);
        Ok(tallies)
    }

    /// The worker that is kept, or a new one.
    fn ready(&mut self, key: (usize, Role)) -> Result<LoadWorker, ContentionStudyError> {
        if let Some(worker) = self.workers.remove(&key) {
            return Ok(worker);
        }
        let (engine, role) = key;
        let engine = &self.protocol.engines[engine];
        let load = match role {
            Role::Stream => Load::Stream(StreamSpec::default()),
            Role::Model(model) => {
                let Model { path, identity, graph, .. } = self.models[model].clone();
                let (source, backend) = (Source::File(path), engine.backend.clone());
                Load::Model(LoadModel { identity, graph, source, backend }.into())
            }
        };
        let started = LoadWorker::of(&self.protocol.worker, &load, vec![engine.core], 0, &never());
        started.map_err(|source| ContentionStudyError::Run { what: self.named(&[key]), source })
    }

    fn named(&self, keys: &[(usize, Role)]) -> String {
        let name = |(engine, role): &(usize, Role)| match role {
            Role::Stream => "stream".to_owned(),
            Role::Model(model) => {
                let engine = &self.protocol.engines[*engine].backend;
                format!("`{}` on {engine}", self.models[*model].identity.name)
            }
        };
        keys.iter().map(name).collect::<Vec<_>>().join(" beside ")
    }
}

fn never() -> AtomicBool {
    AtomicBool::new(false)
}

/// Lets workers run until each model has enough runs, and rest again.
fn together(mut workers: Vec<&mut LoadWorker>, window: Duration) -> Result<Vec<Tally>, LoadError> {
    let never = never();
    workers.iter_mut().try_for_each(|worker| worker.go(&never))?;
    sleep(SETTLING);
    for worker in &mut workers {
        worker.tally(&never)?;
    }
    let mut sums: Vec<Tally> = vec![Tally::default(); workers.len()];
    for _ in 0..LONGEST {
        sleep(window);
        for (sum, worker) in sums.iter_mut().zip(&mut workers) {
            add(sum, worker.tally(&never)?);
        }
        if sums.iter().all(|sum| sum.passes >= FEWEST_RUNS as u64) {
            break;
        }
    }
    for worker in &mut workers {
        worker.pause(&never)?;
    }
    Ok(sums)
}

fn add(sum: &mut Tally, more: Tally) {
    sum.passes += more.passes;
    sum.bytes += more.bytes;
    sum.flops += more.flops;
    sum.wall_ns += more.wall_ns;
    sum.runs_ns.extend(more.runs_ns);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_and_every_stream_comes_once_and_models_alike() {
        let steps = steps(4);
        assert_eq!(steps.len(), 4 * 2 + 4 * 4);
        let pairs: Vec<(usize, usize)> = steps
            .iter()
            .filter_map(|step| match step {
                Step::Pair(one, other) => Some((*one, *other)),
                Step::Stream { .. } => None,
            })
            .collect();
        let mut distinct = pairs.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), 16);
        for diagonal in pairs.chunks(4) {
            let mut others: Vec<usize> = diagonal.iter().map(|(_, other)| *other).collect();
            others.sort_unstable();
            assert_eq!(others, [0, 1, 2, 3], "each model once on either engine");
        }
        assert!(pairs[12..].iter().all(|(one, other)| one == other));
    }
}
