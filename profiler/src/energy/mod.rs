//! Measures the energy of inferences, on machines with an energy counter.
//!
//! | counter | of | source |
//! |---|---|---|
//! | RAPL | processor packages: all their cores, and whatever else runs on them | zones `package-*` of `/sys/class/powercap` (Linux), uJ |
//! | NVML | the board of the first NVIDIA GPU | `nvmlDeviceGetTotalEnergyConsumption`, mJ |
//!
//! Counters are coarse (RAPL moves about every millisecond, NVML every 20 to 100 ms): they are read
//! around all end-to-end samples of a model run, and the difference is divided among them. Where the
//! samples took less than ten such steps ([`Meter::shortest`]), there is no energy.

mod rapl;

use std::time::Duration;
use vitempo_graph::Processor;

/// Why no energy is recorded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoCounter(String);

/// Counters of one processor's energy.
#[derive(Debug)]
pub struct Meter(Counter);

#[derive(Debug)]
enum Counter {
    Rapl(rapl::Packages),
    #[cfg(any(feature = "onnxruntime", feature = "torch"))]
    Nvml(crate::nvml::Board),
}

/// Counters at one moment, uJ each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading(Vec<u64>);

/// The board of the first GPU, if it reports its energy.
#[cfg(any(feature = "onnxruntime", feature = "torch"))]
fn board() -> Result<crate::nvml::Board, NoCounter> {
    let refuse = |reason: String| {
        NoCounter(format!("this machine shows no energy counter of an NVIDIA GPU: {reason}"))
    };
    let board = crate::nvml::Board::find().map_err(refuse)?;
    board.read_uj().ok_or_else(|| refuse("the GPU does not report its energy".to_owned()))?;
    Ok(board)
}

impl Meter {
    /// The counters of the machine's processor of that kind, read once to check permissions.
    ///
    /// # Errors
    /// [`NoCounter`] for a counter that does not exist or cannot be read.
    pub fn find(processor: Processor) -> Result<Self, NoCounter> {
        match processor {
            Processor::Cpu => rapl::Packages::find(std::path::Path::new(rapl::FOLDER))
                .map(|packages| Self(Counter::Rapl(packages))),
            #[cfg(any(feature = "onnxruntime", feature = "torch"))]
            Processor::Gpu => board().map(|board| Self(Counter::Nvml(board))),
            other => Err(NoCounter(format!("no counter is known for the energy of a {other}"))),
        }
    }

    /// The shortest time whose energy the counters resolve to a tenth.
    #[must_use]
    pub fn shortest(&self) -> Duration {
        match &self.0 {
            Counter::Rapl(_) => Duration::from_millis(10),
            #[cfg(any(feature = "onnxruntime", feature = "torch"))]
            Counter::Nvml(_) => Duration::from_secs(1),
        }
    }

    /// The counters now; `None` when they cannot be read any more.
    #[must_use]
    pub fn read(&self) -> Option<Reading> {
        match &self.0 {
            Counter::Rapl(packages) => packages.read(),
            #[cfg(any(feature = "onnxruntime", feature = "torch"))]
            Counter::Nvml(board) => board.read_uj().map(|uj| Reading(vec![uj])),
        }
    }

    /// Energy since a reading, uJ; `None` when the counters cannot be read any more.
    #[must_use]
    pub fn since_uj(&self, start: &Reading) -> Option<u64> {
        let now = self.read()?;
        match &self.0 {
            Counter::Rapl(packages) => packages.between_uj(start, &now),
            #[cfg(any(feature = "onnxruntime", feature = "torch"))]
            Counter::Nvml(_) => Some(now.0.first()?.saturating_sub(*start.0.first()?)),
        }
    }
}
