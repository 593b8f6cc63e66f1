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
//! All engines of a [`Rig`] run in one process: an engine's threads inherit the cores of the thread
//! that loads it. Times are ns of the wall clock.
//!
//! | part | where |
//! |---|---|
//! | engines with their cores, ready to run parts | [`Rig`] |
//! | stages, queues, where frames come from | [`Stage`], [`Trial`] |
//! | what was measured | [`Run`] |
//! | one part at a time, and a camera's clock | [`Ticket`], [`FrameClock`] |
//! | several parts in a row, with their loading | [`Piece`], [`Pieces`] |

mod line;
mod piece;
mod server;
mod ticket;

pub use line::{Arrivals, Run, Stage, Task, Trial};
pub use piece::{Computed, Finished, LoadTime, Piece, Pieces};
pub use ticket::{Answer, FrameClock, Ticket};

use crate::{
    backends::{OutputValues, RunOptions},
    pinning::{self, PinningError},
};
use server::Server;
use std::sync::Arc;
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

/// Engines, each on cores of its own, that load the parts of a model when they are first asked to
/// run them.
#[derive(Debug)]
pub struct Rig {
    servers: Vec<Server>,
    parts: Arc<Vec<Graph>>,
}

impl Rig {
    /// Starts every engine and pins it.
    ///
    /// # Errors
    /// [`LiveError`] naming the processor that does not start, or whose cores are not its own.
    pub fn start(processors: &[LiveProcessor], parts: Vec<Graph>) -> Result<Self, LiveError> {
        let cores = own_cores(processors, &pinning::usable())?;
        let parts = Arc::new(parts);
        let start = |(processor, cores): (&LiveProcessor, Vec<usize>)| {
            let options = RunOptions { cores, ..processor.options.clone() };
            Server::start(&LiveProcessor { options, ..processor.clone() }, Arc::clone(&parts))
        };
        let servers = processors.iter().zip(cores).map(start).collect::<Result<_, _>>()?;
        Ok(Self { servers, parts })
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
