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

use std::time::{Duration, Instant};
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
        self.between_uj(start, &self.read()?)
    }

    /// Energy between two readings, uJ.
    fn between_uj(&self, start: &Reading, end: &Reading) -> Option<u64> {
        match &self.0 {
            Counter::Rapl(packages) => packages.between_uj(start, end),
            #[cfg(any(feature = "onnxruntime", feature = "torch"))]
            Counter::Nvml(_) => Some(end.0.first()?.saturating_sub(*start.0.first()?)),
        }
    }

    /// The power over a time: a sample every so often, each the mean since the one before. `None`
    /// when the counters cannot be read any more.
    #[must_use]
    pub fn record(&self, duration: Duration, every: Duration) -> Option<Vec<PowerSample>> {
        let start = Instant::now();
        let (mut before, mut before_s) = (self.read()?, 0.0);
        let mut samples = Vec::new();
        let mut next = every;
        while next <= duration {
            std::thread::sleep(next.saturating_sub(start.elapsed()));
            let reading = self.read()?;
            let time_s = start.elapsed().as_secs_f64();
            let joules = self.between_uj(&before, &reading)? as f64 / 1e6;
            if time_s > before_s {
                samples.push(PowerSample { time_s, power_w: joules / (time_s - before_s) });
                (before, before_s) = (reading, time_s);
            }
            next += every;
        }
        Some(samples)
    }
}

/// A mean power.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PowerSample {
    /// End of the time that it is the mean of, s since the start.
    pub time_s: f64,
    /// W.
    pub power_w: f64,
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_means_between_readings() {
        let folder = tempfile::tempdir().unwrap();
        let zone = folder.path().join("intel-rapl:0");
        std::fs::create_dir_all(&zone).unwrap();
        for (file, text) in
            [("name", "package-0"), ("energy_uj", "5"), ("max_energy_range_uj", "1000")]
        {
            std::fs::write(zone.join(file), text).unwrap();
        }
        let meter = Meter(Counter::Rapl(rapl::Packages::find(folder.path()).unwrap()));
        let samples = meter.record(Duration::from_millis(30), Duration::from_millis(10)).unwrap();
        assert!(!samples.is_empty() && samples.windows(2).all(|s| s[0].time_s < s[1].time_s));
        assert!(samples.iter().all(|s| s.power_w == 0.0), "the counter stands still: {samples:?}");
        std::fs::remove_file(zone.join("energy_uj")).unwrap();
        assert_eq!(meter.record(Duration::from_millis(30), Duration::from_millis(10)), None);
    }
}
