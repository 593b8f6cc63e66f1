//! [`Companion`]: the load of a sweep, and its record for each model run. It rests while a model is
//! measured alone, and runs while the same model is measured beside it.

use super::{Load, LoadError, LoadWorker};
use crate::{
    pinning,
    worker::{WorkerCommand, WorkerError},
};
use std::{sync::atomic::AtomicBool, thread::sleep, time::Duration};
use vitempo_graph::{LoadRecord, ResourceRates};

/// Time before a load is measured alone: caches and clocks settle.
const SETTLING: Duration = Duration::from_millis(300);
/// Time for which it is measured alone.
const ALONE: Duration = Duration::from_millis(700);
/// A load that did less than this share of its rates alone did not run.
const LEAST_SHARE: f64 = 0.05;

/// The load of a sweep.
#[derive(Clone, Debug)]
pub struct Beside {
    /// What runs.
    pub load: Load,
    /// Logical cores for it; empty: the first one that the measured models do not have.
    pub cores: Vec<usize>,
}

/// The cores of a load: those asked for, or the first one that is not measured.
///
/// # Errors
/// [`LoadError`] where a core is shared or missing, or none is left.
pub fn load_cores(asked: &[usize], measured: &[usize]) -> Result<Vec<usize>, LoadError> {
    cores_of(&pinning::usable(), asked, measured)
}

fn cores_of(
    usable: &[usize],
    asked: &[usize],
    measured: &[usize],
) -> Result<Vec<usize>, LoadError> {
    if let Some(&shared) = asked.iter().find(|core| measured.contains(core)) {
        return Err(LoadError::SharedCore(shared));
    }
    let free = usable.iter().copied().find(|core| !measured.contains(core));
    match free {
        // Models that are not pinned run on every core.
        Some(core) if !measured.is_empty() => match asked {
            [] => Ok(vec![core]),
            asked => Ok(pinning::choose_from(usable, asked, 1)?),
        },
        _ => Err(LoadError::NoCore { measured: measured.to_vec(), usable: usable.to_vec() }),
    }
}

/// A load that runs beside a sweep; one that died is started again for the next model run.
pub(crate) struct Companion {
    command: WorkerCommand,
    load: Load,
    cores: Vec<usize>,
    seed: u64,
    running: Option<(LoadWorker, ResourceRates)>,
}

impl Companion {
    /// Starts it.
    pub(crate) fn start(
        command: WorkerCommand,
        beside: &Beside,
        measured: &[usize],
        seed: u64,
        interrupted: &AtomicBool,
    ) -> Result<Self, LoadError> {
        let cores = load_cores(&beside.cores, measured)?;
        let load = beside.load.clone();
        let mut companion = Self { command, load, cores, seed, running: None };
        companion.ensure(interrupted)?;
        Ok(companion)
    }

    /// Starts it where it does not run, and measures it alone.
    fn ensure(&mut self, interrupted: &AtomicBool) -> Result<(), LoadError> {
        if self.running.is_some() {
            return Ok(());
        }
        let cores = self.cores.clone();
        let mut worker = LoadWorker::of(&self.command, &self.load, cores, self.seed, interrupted)?;
        worker.go(interrupted)?;
        sleep(SETTLING);
        worker.tally(interrupted)?;
        sleep(ALONE);
        let alone = worker.pause(interrupted)?.rates();
        if alone == ResourceRates::default() {
            return Err(LoadError::Failed("it finished no pass in a second".to_owned()));
        }
        self.running = Some((worker, alone));
        Ok(())
    }

    /// Before a model run: it runs from now on. `None`: interrupted. An inner error is a reason for
    /// which the model run fails.
    pub(crate) fn begin(&mut self, interrupted: &AtomicBool) -> Option<Result<(), String>> {
        let begun = self.ensure(interrupted).and_then(|()| match &mut self.running {
            Some((worker, _)) => {
                worker.go(interrupted)?;
                sleep(SETTLING);
                worker.tally(interrupted).map(drop)
            }
            None => Ok(()),
        });
        self.outcome(begun)
    }

    /// After a model run: it rests, and what it did meanwhile. `model_alone_ns`: latencies of the
    /// model while it rested. `None`: interrupted. An inner error is a reason for which the model
    /// run fails.
    pub(crate) fn end(
        &mut self,
        model_alone_ns: Vec<u64>,
        interrupted: &AtomicBool,
    ) -> Option<Result<LoadRecord, String>> {
        let ended = match &mut self.running {
            Some((worker, alone)) => worker.pause(interrupted).and_then(|tally| {
                let prepared = worker.prepared();
                let record = LoadRecord {
                    cores: self.cores.clone(),
                    footprint_bytes: prepared.footprint_bytes,
                    cache_bytes: prepared.cache_bytes,
                    alone: *alone,
                    during: tally.rates(),
                    model_alone_ns,
                };
                match has_run(&record) {
                    true => Ok(record),
                    false => Err(LoadError::Failed("it did not run meanwhile".to_owned())),
                }
            }),
            None => Err(LoadError::Failed("it did not run".to_owned())),
        };
        self.outcome(ended)
    }

    fn outcome<T>(&mut self, result: Result<T, LoadError>) -> Option<Result<T, String>> {
        match result {
            Ok(value) => Some(Ok(value)),
            Err(LoadError::Worker(WorkerError::Interrupted)) => None,
            Err(error) => {
                self.running = None;
                Some(Err(error.to_string()))
            }
        }
    }
}

fn has_run(record: &LoadRecord) -> bool {
    let share = |during: u64, alone: u64| alone > 0 && during as f64 >= LEAST_SHARE * alone as f64;
    share(record.during.bytes_per_s, record.alone.bytes_per_s)
        || share(record.during.flops_per_s, record.alone.flops_per_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_has_cores_of_its_own() {
        let usable = [0, 1, 4];
        let found = |asked: &[usize], measured: &[usize]| {
            cores_of(&usable, asked, measured).map_err(|error| error.to_string())
        };
        assert_eq!(found(&[], &[4]), Ok(vec![0]));
        assert_eq!(found(&[], &[0, 1]), Ok(vec![4]));
        assert_eq!(found(&[1], &[4]), Ok(vec![1]));
        for (asked, measured, says) in [
            (&[4][..], &[4][..], "core 4 is a core of the measured models"),
            (&[], &[0, 1, 4], "no core is left"),
            (&[], &[], "no core is left"),
            (&[9], &[4], "core 9 is not in"),
        ] {
            assert!(found(asked, measured).is_err_and(|e| e.contains(says)), "{asked:?}");
        }
    }

    #[test]
    fn a_load_that_stood_still_did_not_run() {
        let alone = ResourceRates { bytes_per_s: 1000, flops_per_s: 0 };
        let record = |bytes_per_s| LoadRecord {
            cores: vec![0],
            footprint_bytes: 1,
            cache_bytes: None,
            alone,
            during: ResourceRates { bytes_per_s, flops_per_s: 0 },
            model_alone_ns: Vec::new(),
        };
        assert_eq!([0, 49, 50, 900].map(|rate| has_run(&record(rate))), [false, false, true, true]);
    }
}
