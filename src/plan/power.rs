//! A power trace of this machine, where it counts energy: [`record`].

use std::time::Duration;
use vitempo_graph::Processor;
use vitempo_planners::energy::PowerTrace;
use vitempo_profiler::energy::{Meter, NoCounter};

/// Why there is no trace.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The machine has no counter, or it cannot be read.
    #[error(transparent)]
    NoCounter(#[from] NoCounter),
    /// The counter moves more slowly than samples are taken.
    #[error("the counter resolves {shortest:?}; a sample every {every:?} is too often")]
    TooOften {
        /// The shortest time whose energy is known to a tenth.
        shortest: Duration,
        /// The time between samples.
        every: Duration,
    },
    /// The time is too short for two samples.
    #[error("two samples or more are needed: {duration:?} is too short for one every {every:?}")]
    TooShort {
        /// The time to record.
        duration: Duration,
        /// The time between samples.
        every: Duration,
    },
    /// The counter cannot be read any more.
    #[error("the energy counter cannot be read any more")]
    Lost,
}

/// Records the power of the processor packages, or of the GPU's board. Each sample is the mean since
/// the one before (`Averaging::SinceLast`), which `every` is the least time of.
///
/// # Errors
/// [`RecordError`] without a counter, or for times that it does not resolve.
pub fn record(
    processor: Processor,
    duration: Duration,
    every: Duration,
) -> Result<PowerTrace, RecordError> {
    let meter = Meter::find(processor)?;
    let shortest = meter.shortest();
    if every < shortest {
        return Err(RecordError::TooOften { shortest, every });
    }
    let samples = meter.record(duration, every).ok_or(RecordError::Lost)?;
    let (time_s, power_w) = samples.iter().map(|s| (s.time_s, s.power_w)).unzip();
    PowerTrace::new(time_s, power_w).ok_or(RecordError::TooShort { duration, every })
}
