//! [`Rig::pieces`]: consecutive parts on one processor as one piece of work, for runtimes that
//! decide query by query what runs where. Loading and unloading of parts are reported, and every
//! time is on one clock that starts with the run.

use super::{
    LiveError, Rig,
    server::{Job, PieceJob, Timed},
    tensors::Tensors,
};
use serde::{Deserialize, Serialize};
use std::{
    sync::mpsc,
    time::{Duration, Instant},
};

/// Parts that run one after the other on one processor; the results of each are the inputs of the
/// next, with the values that are kept.
#[derive(Clone, Debug)]
pub struct Piece {
    /// The caller's number.
    pub id: usize,
    /// Index of the processor.
    pub processor: usize,
    /// Indices of the parts.
    pub parts: Vec<usize>,
    /// By part, names of earlier values that are handed on beside its outputs, because later parts
    /// read them or they are results; none for the parts that it lacks.
    pub keep: Vec<Vec<String>>,
    /// Parts of this processor that are unloaded first.
    pub unload: Vec<usize>,
    /// The inputs of the first part are among these.
    pub values: Tensors,
    /// How long it is expected to take, ns; an engine in a process of its own counts as hung after
    /// a multiple of this time ([`super::Workers`]).
    pub expected_ns: u64,
}

/// How long an engine took to read, compile and load a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadTime {
    /// Index of the part.
    pub part: usize,
    /// From the file to a session that can run, ns.
    pub ns: u64,
    /// Resident memory of the engine's process just afterwards; `None` in the program's own
    /// process, and where the system does not report it.
    pub resident_bytes: Option<u64>,
}

/// What a piece computed, and how long it took; ns.
#[derive(Clone, Debug, Default)]
pub struct Computed {
    /// The outputs of the last part, and the values that are kept.
    pub values: Tensors,
    /// Resident memory of the engine's process after parts were unloaded, before any was loaded;
    /// `None` where none was unloaded, and as for [`LoadTime::resident_bytes`].
    pub unloaded_resident_bytes: Option<u64>,
    /// Parts that had to be loaded.
    pub loads: Vec<LoadTime>,
    /// Transfer of inputs into the engine.
    pub feed_ns: u64,
    /// Running, with the transfer of outputs out of the engine.
    pub run_ns: u64,
}

/// An engine's process that was started again; it has no part loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Started {
    /// Identifier of the process.
    pub process: Option<u32>,
    /// How long it took, ns.
    pub ns: u64,
    /// Why the one before ended.
    pub reason: String,
}

/// A piece that ended.
#[derive(Debug)]
pub struct Finished {
    /// The caller's number.
    pub id: usize,
    /// Index of the processor.
    pub processor: usize,
    /// When the engine began, ns since the start of the clock.
    pub begun_ns: u64,
    /// When the engine ended.
    pub ended_ns: u64,
    /// When the caller got the result.
    pub noticed_ns: u64,
    /// Its engine was started again before, which is part of the time until the engine ended.
    pub started: Option<Started>,
    /// What came of it.
    pub result: Result<Computed, LiveError>,
}

/// Parts that were to be unloaded while nothing else waited for it.
#[derive(Debug)]
pub struct Unloaded {
    /// Index of the processor.
    pub processor: usize,
    /// Indices of the parts.
    pub parts: Vec<usize>,
    /// When the caller got the result, ns since the start of the clock.
    pub noticed_ns: u64,
    /// The resident memory of the engine's process afterwards, as for [`LoadTime::resident_bytes`].
    pub result: Result<Option<u64>, LiveError>,
}

/// What engines report.
#[derive(Debug)]
pub enum Report {
    /// A piece ended.
    Finished(Finished),
    /// Parts were unloaded.
    Unloaded(Unloaded),
}

/// The same, as an engine's thread reports it.
pub(super) enum Reported {
    Piece { id: usize, processor: usize, timed: Timed },
    Unloaded { processor: usize, parts: Vec<usize>, result: Result<Option<u64>, LiveError> },
}

/// Submits pieces to the engines of a rig and collects what they report.
#[derive(Debug)]
pub struct Pieces<'a> {
    rig: &'a Rig,
    begin: Instant,
    sender: mpsc::Sender<Reported>,
    reports: mpsc::Receiver<Reported>,
}

impl Rig {
    /// A clock that starts now, and the pieces of a run.
    #[must_use]
    pub fn pieces(&self) -> Pieces<'_> {
        let (sender, reports) = mpsc::channel();
        Pieces { rig: self, begin: Instant::now(), sender, reports }
    }

    /// Loads a part on a processor, if it is not loaded; `None` if it was.
    ///
    /// # Errors
    /// [`LiveError`] naming the part and the processor.
    pub fn load(&self, processor: usize, part: usize) -> Result<Option<LoadTime>, LiveError> {
        self.check_part(processor, part)?;
        let (reply, answer) = mpsc::channel();
        self.servers[processor].submit(Job::Load { part, reply })?;
        answer.recv().map_err(|_| self.servers[processor].ended())?
    }

    /// Unloads parts of a processor, and waits until that is done. Returns the resident memory of
    /// its process afterwards, as for [`LoadTime::resident_bytes`].
    ///
    /// # Errors
    /// [`LiveError`] naming the processor.
    pub fn unload(&self, processor: usize, parts: &[usize]) -> Result<Option<u64>, LiveError> {
        if parts.is_empty() {
            return Ok(None);
        }
        let (reply, answer) = mpsc::channel();
        self.submit_unload(processor, parts, reply)?;
        match answer.recv() {
            Ok(Reported::Unloaded { result, .. }) => result,
            _ => Err(self.servers[processor].ended()),
        }
    }

    fn submit_unload(
        &self,
        processor: usize,
        parts: &[usize],
        reply: mpsc::Sender<Reported>,
    ) -> Result<(), LiveError> {
        for &part in parts {
            self.check_part(processor, part)?;
        }
        self.servers[processor].submit(Job::Unload { processor, parts: parts.to_vec(), reply })
    }
}

impl Pieces<'_> {
    /// Time since the start of the clock, ns.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.since_start(Instant::now())
    }

    /// Appends a piece to the queue of its processor.
    ///
    /// # Errors
    /// [`LiveError`] for parts or processors that do not exist, or an engine that ended.
    pub fn submit(&self, piece: Piece) -> Result<(), LiveError> {
        for &part in &piece.parts {
            self.rig.check_part(piece.processor, part)?;
        }
        let (processor, reply) = (piece.processor, self.sender.clone());
        self.rig.servers[processor].submit(Job::Piece(PieceJob { piece, reply }))
    }

    /// Unloads parts of a processor once it has done what it was asked before, without waiting for
    /// that; it is reported.
    ///
    /// # Errors
    /// [`LiveError`] for parts or processors that do not exist, or an engine that ended.
    pub fn unload(&self, processor: usize, parts: &[usize]) -> Result<(), LiveError> {
        self.rig.submit_unload(processor, parts, self.sender.clone())
    }

    /// The next report, or `None` when this time has come, ns since the start.
    #[must_use]
    pub fn next(&self, until_ns: u64) -> Option<Report> {
        let wait = Duration::from_nanos(until_ns.saturating_sub(self.now_ns()));
        Some(match self.reports.recv_timeout(wait).ok()? {
            Reported::Piece { id, processor, timed } => {
                let Timed { begun, ended, started, result } = timed;
                Report::Finished(Finished {
                    id,
                    processor,
                    begun_ns: self.since_start(begun),
                    ended_ns: self.since_start(ended),
                    noticed_ns: self.now_ns(),
                    started,
                    result,
                })
            }
            Reported::Unloaded { processor, parts, result } => {
                Report::Unloaded(Unloaded { processor, parts, noticed_ns: self.now_ns(), result })
            }
        })
    }

    fn since_start(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.begin).as_nanos()).unwrap_or(u64::MAX)
    }
}
