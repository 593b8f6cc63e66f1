//! [`Rig::ask`]: runs one part on one processor, without a line, for programs that decide frame by
//! frame what runs. [`FrameClock`]: the times at which frames arrive.

use super::{
    LiveError, Rig,
    server::{Done, Job, PartJob},
};
use crate::backends::OutputValues;
use std::{
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

/// The results of a part, and its time including the transfer of inputs, ns.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The outputs of the part.
    pub values: Vec<OutputValues>,
    /// How long the processor was busy with it.
    pub busy_ns: u64,
}

/// A requested run of a part.
#[derive(Debug)]
pub struct Ticket {
    reply: mpsc::Receiver<Result<Done, LiveError>>,
}

impl Rig {
    /// Requests a run of a part on a processor; its inputs are among `values`. It runs after
    /// earlier requests.
    ///
    /// # Errors
    /// [`LiveError::Unknown`] for a part or processor that does not exist.
    pub fn ask(
        &self,
        part: usize,
        processor: usize,
        values: &[Arc<OutputValues>],
    ) -> Result<Ticket, LiveError> {
        self.check_part(processor, part)?;
        let (sender, reply) = mpsc::channel();
        let job = PartJob { part, values: values.to_vec(), reply: sender };
        self.servers[processor].submit(Job::Part(job))?;
        Ok(Ticket { reply })
    }

    /// # Errors
    /// [`LiveError::Unknown`] for a part or processor that does not exist.
    pub(super) fn check_part(&self, processor: usize, part: usize) -> Result<(), LiveError> {
        let named =
            [("processor", processor, self.servers.len()), ("part", part, self.parts.len())];
        match named.into_iter().find(|(_, index, count)| index >= count) {
            None => Ok(()),
            Some((what, index, count)) => {
                let stage = "asked for".to_owned();
                Err(LiveError::Unknown { stage, what, index, count })
            }
        }
    }
}

impl Ticket {
    /// The answer, if it has arrived.
    ///
    /// # Errors
    /// Why the part failed.
    pub fn poll(&self) -> Result<Option<Answer>, LiveError> {
        match self.reply.try_recv() {
            Ok(done) => done.map(|done| Some(answer(done))),
            Err(mpsc::TryRecvError::Empty) => Ok(None),
            Err(mpsc::TryRecvError::Disconnected) => Err(ended()),
        }
    }

    /// The answer, if it arrives within this time.
    ///
    /// # Errors
    /// Why the part failed.
    pub fn wait_for(&self, time: Duration) -> Result<Option<Answer>, LiveError> {
        match self.reply.recv_timeout(time) {
            Ok(done) => done.map(|done| Some(answer(done))),
            Err(mpsc::RecvTimeoutError::Timeout) => Ok(None),
            Err(mpsc::RecvTimeoutError::Disconnected) => Err(ended()),
        }
    }

    /// Waits for the answer.
    ///
    /// # Errors
    /// Why the part failed.
    pub fn wait(self) -> Result<Answer, LiveError> {
        self.reply.recv().map_err(|_| ended())?.map(answer)
    }
}

fn answer(Done { values, busy_ns, .. }: Done) -> Answer {
    Answer { values, busy_ns }
}

fn ended() -> LiveError {
    LiveError::Processor { processor: "asked".to_owned(), reason: "its engine ended".to_owned() }
}

/// A camera's clock: frame `n` comes `n` periods after the start.
#[derive(Clone, Copy, Debug)]
pub struct FrameClock {
    begin: Instant,
    period_ns: u64,
}

impl FrameClock {
    /// Frame 0 comes now; the period is at least 1 ns.
    #[must_use]
    pub fn start(period_ns: u64) -> Self {
        Self { begin: Instant::now(), period_ns: period_ns.max(1) }
    }

    /// Since the start, ns.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        u64::try_from(self.begin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// When a frame comes, ns.
    #[must_use]
    pub fn time_of(&self, frame: u64) -> u64 {
        frame.saturating_mul(self.period_ns)
    }

    /// Waits for the next frame that has not come yet, `at_least` or later; returns its number.
    #[must_use]
    pub fn next(&self, at_least: u64) -> u64 {
        let frame = self.now_ns().div_ceil(self.period_ns).max(at_least);
        self.wait_until(self.time_of(frame));
        frame
    }

    /// Waits until this time after the start, ns; returns at once if it has passed.
    pub fn wait_until(&self, ns: u64) {
        thread::sleep(Duration::from_nanos(ns.saturating_sub(self.now_ns())));
    }
}
