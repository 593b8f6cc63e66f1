//! Runs a plan on engines: the parts of a model on engines with cores of their own, stages
//! connected by bounded queues.
//!
//! The rules are those of a simulated pipeline. A processor is one engine on its cores; it serves
//! one task at a time, first come, first served. A stage takes one frame at a time through its
//! steps; the tasks of one step run at the same time on their processors. A stage that finds the
//! next queue full keeps its frame and waits (blocking after service). Tensors are really
//! transferred: the results of a part are the inputs of the next one, and the times include the
//! transfer.
//!
//! An engine's threads inherit the cores of the thread that loads it. That is a thread of this
//! process, so that an engine that crashes ends it, or the main thread of a worker
//! ([`Engines::Workers`]), whose end is an error. Times are ns of the wall clock.
//!
//! | part | where |
//! |---|---|
//! | engines with their cores, ready to run parts | [`Rig`] |
//! | engines in processes of their own: what if one ends or hangs? | [`Workers`] |
//! | how do tensors get from one engine to the next? | [`Tensors`] |
//! | stages, queues, where frames come from | [`Stage`], [`Trial`] |
//! | what was measured | [`Run`] |
//! | one part at a time, and a camera's clock | [`Ticket`], [`FrameClock`] |
//! | several parts in a row, with their loading | [`Piece`], [`Pieces`] |

pub(crate) mod engine;
mod line;
mod piece;
mod process;
mod server;
pub(crate) mod tensors;
mod ticket;

pub use engine::{PartError, PartFile};
pub use line::{Arrivals, Run, Stage, Task, Trial};
pub use piece::{Computed, Finished, LoadTime, Piece, Pieces, Report, Started, Unloaded};
pub use process::Workers;
pub use tensors::{SharedTensor, SharedTensors, Tensors};
pub use ticket::{Answer, FrameClock, Ticket};

use crate::{
    backends::{OutputValues, RunOptions},
    pinning::{self, PinningError},
};
use process::PartFiles;
use server::{Seat, Server};
use std::sync::Arc;
use tensors::Pool;
use vitempo_graph::{Environment, Graph};

/// One engine on cores of its own.
#[derive(Clone, Debug)]
pub struct LiveProcessor {
    /// For messages.
    pub name: String,
    /// Name of the backend.
    pub backend: String,
    /// How it runs. No cores: some that no other processor has.
    pub options: RunOptions,
}

/// Why something did not run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LiveError {
    /// The threads cannot be pinned.
    #[error(transparent)]
    Pinning(#[from] PinningError),
    /// Two processors are to run on one core.
    #[error(
        "processors `{first}` and `{second}` both have core {core}; each needs cores of its own"
    )]
    SharedCore {
        /// One of the two.
        first: String,
        /// The other.
        second: String,
        /// Number of the core.
        core: usize,
    },
    /// All cores are taken.
    #[error(
        "processor `{processor}` finds no core that no other has: {usable:?} are all there are"
    )]
    NoCore {
        /// Name of the processor.
        processor: String,
        /// Cores in the process's affinity mask.
        usable: Vec<usize>,
    },
    /// A processor does not start.
    #[error("processor `{processor}`: {reason}")]
    Processor {
        /// Name of the processor.
        processor: String,
        /// What is wrong.
        reason: String,
    },
    /// The process of an engine ended, or was ended because it did not answer.
    #[error("processor `{processor}`: {reason}")]
    Ended {
        /// Name of the processor.
        processor: String,
        /// How it ended.
        reason: String,
        /// Whether the next work starts it again.
        starts_again: bool,
    },
    /// A part failed.
    #[error("part `{part}` on processor `{processor}`: {reason}")]
    Task {
        /// Name of the part.
        part: String,
        /// Name of the processor.
        processor: String,
        /// What is wrong.
        reason: String,
    },
    /// A stage names a part, processor or stage that does not exist.
    #[error("stage `{stage}` names {what} {index}; there are {count}")]
    Unknown {
        /// Name of the stage.
        stage: String,
        /// Which part.
        what: &'static str,
        /// Which one, counted from 0.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// There is nothing to run.
    #[error(
        "there is nothing to run: a line needs a stage, every stage a task, and a trial a frame"
    )]
    Empty,
    /// The user interrupted it.
    #[error("interrupted")]
    Interrupted,
}

impl LiveError {
    fn of_part(parts: &[Graph], part: usize, processor: &str, reason: String) -> Self {
        let part = parts.get(part).map_or_else(String::new, |graph| graph.name().to_owned());
        Self::Task { part, processor: processor.to_owned(), reason }
    }
}

/// Where engines run.
#[derive(Clone, Debug, Default)]
pub enum Engines {
    /// In threads of this process.
    #[default]
    Here,
    /// Each in a process of its own.
    Workers(Workers),
}

/// Engines, each on cores of its own, that load the parts of a model when they are first asked to
/// run them.
#[derive(Debug)]
pub struct Rig {
    servers: Vec<Server>,
    parts: Arc<Vec<Graph>>,
    /// Tensors that processes share.
    pool: Option<Pool>,
}

impl Rig {
    /// Starts every engine in this process and pins it.
    ///
    /// # Errors
    /// [`LiveError`] naming the processor that does not start, or whose cores are not its own.
    pub fn start(processors: &[LiveProcessor], parts: Vec<Graph>) -> Result<Self, LiveError> {
        Self::start_in(&Engines::Here, processors, parts)
    }

    /// Starts every engine and pins it.
    ///
    /// # Errors
    /// [`LiveError`] naming the processor that does not start, or whose cores are not its own.
    pub fn start_in(
        engines: &Engines,
        processors: &[LiveProcessor],
        parts: Vec<Graph>,
    ) -> Result<Self, LiveError> {
        let cores = own_cores(processors, &pinning::usable())?;
        let parts = Arc::new(parts);
        let shared = match engines {
            Engines::Here => None,
            Engines::Workers(workers) => {
                let files =
                    PartFiles::new(Arc::clone(&parts)).map_err(|e| LiveError::Processor {
                        processor: processors.first().map_or_else(String::new, |p| p.name.clone()),
                        reason: format!("no temporary folder: {e}"),
                    })?;
                Some((workers, Arc::new(files), Pool::default()))
            }
        };
        let seat = || match &shared {
            None => Seat::Here(Arc::clone(&parts)),
            Some((workers, files, pool)) => {
                Seat::Process((*workers).clone(), Arc::clone(files), pool.clone())
            }
        };
        let start = |(processor, cores): (&LiveProcessor, Vec<usize>)| {
            let options = RunOptions { cores, ..processor.options.clone() };
            Server::start(&LiveProcessor { options, ..processor.clone() }, seat())
        };
        let servers = processors.iter().zip(cores).map(start).collect::<Result<_, _>>()?;
        let pool = shared.map(|(_, _, pool)| pool);
        Ok(Self { servers, parts, pool })
    }

    /// Values as the engines hand them over: where engines run in processes of their own, these are
    /// copied to where all of them read.
    ///
    /// # Errors
    /// When there is no room for them.
    pub fn tensors(&self, values: &[Arc<OutputValues>]) -> std::io::Result<Tensors> {
        let here = Tensors::Here(values.to_vec());
        match &self.pool {
            None => Ok(here),
            Some(pool) => pool.shared(&here).map(Tensors::Shared),
        }
    }

    /// Identifier of each engine's process as it was started, if that is not this one.
    pub fn processes(&self) -> impl Iterator<Item = Option<u32>> {
        self.servers.iter().map(Server::process)
    }

    /// Resident memory of these processes with their engines started and nothing loaded, bytes;
    /// `None` in this process, and where the system does not report it.
    pub fn resident_bytes(&self) -> impl Iterator<Item = Option<u64>> {
        self.servers.iter().map(Server::resident_bytes)
    }

    /// The cores of each processor; none where the system does not pin.
    pub fn cores(&self) -> impl Iterator<Item = &[usize]> {
        self.servers.iter().map(Server::cores)
    }

    /// The environment of each processor's engine.
    pub fn environments(&self) -> impl Iterator<Item = &Environment> {
        self.servers.iter().map(Server::environment)
    }

    /// The parts, by the index that tasks name.
    #[must_use]
    pub fn parts(&self) -> &[Graph] {
        &self.parts
    }
}

/// The cores each processor is pinned to: the requested ones; else, from the last on, as many free
/// cores as it has threads.
pub(crate) fn own_cores(
    processors: &[LiveProcessor],
    usable: &[usize],
) -> Result<Vec<Vec<usize>>, LiveError> {
    let mut owner: Vec<(usize, &str)> = Vec::new();
    for processor in processors {
        for &core in &processor.options.cores {
            if let Some((_, first)) = owner.iter().find(|(taken, _)| *taken == core) {
                return Err(LiveError::SharedCore {
                    first: (*first).to_owned(),
                    second: processor.name.clone(),
                    core,
                });
            }
            owner.push((core, &processor.name));
        }
    }
    let mut free: Vec<usize> = usable
        .iter()
        .copied()
        .filter(|core| owner.iter().all(|(taken, _)| taken != core))
        .collect();
    let mut own = |processor: &LiveProcessor| -> Result<Vec<usize>, LiveError> {
        let options = &processor.options;
        if usable.is_empty() {
            return Ok(options.cores.clone());
        }
        if !options.cores.is_empty() {
            return Ok(pinning::choose_from(usable, &options.cores, options.threads)?);
        }
        let first = free.len().checked_sub(options.threads);
        let first = first.ok_or_else(|| LiveError::NoCore {
            processor: processor.name.clone(),
            usable: usable.to_vec(),
        })?;
        Ok(free.split_off(first))
    };
    processors.iter().map(&mut own).collect()
}

/// The value of that name.
#[must_use]
pub fn named<'a>(values: &'a [Arc<OutputValues>], name: &str) -> Option<&'a OutputValues> {
    values.iter().find(|value| value.name == name).map(AsRef::as_ref)
}

#[cfg(test)]
mod tests;
