//! [`by_interference`]: the model runs that others interfered with, because other programs ran on
//! their cores, and the ones to use. The sign is a share of CPU time in wall time that is far below
//! the usual one of these runs: their samples are a mixture of running and waiting.
//!
//! On a machine that is busy all the time, leaving out all of these runs may leave too few
//! architectures to train on. Then the least disturbed run of those that would be missing is used,
//! until there are [`FEWEST_ARCHITECTURES`]; the caller says so.

use crate::metrics;
use std::collections::BTreeMap;
use vitempo_graph::{ModelProfile, Samples, Status};

/// A model run whose CPU share is below this part of the usual one was interfered with.
const LEAST_CPU_SHARE: f64 = 0.85;
/// How often the system counts the CPU time of threads that go on running, ns; 4 ms at 250 Hz.
const TICK_NS: f64 = 4e6;
/// Samples that are shorter together say nothing: a tick more or less would be over a tenth.
const FEWEST_TICKS: f64 = 10.0;
/// As many architectures as the folds of a cross-validation, unless fewer were measured.
const FEWEST_ARCHITECTURES: usize = 5;

/// Model runs by whether others interfered with them, each in the order given.
#[derive(Debug, Default)]
pub(crate) struct ByInterference<'p> {
    /// Runs to use.
    pub used: Vec<&'p ModelProfile>,
    /// How many of these were interfered with.
    pub disturbed: usize,
    /// Runs that were interfered with, and are left out.
    pub left_out: Vec<&'p ModelProfile>,
}

/// Sorts the model runs that did not fail. Those of memory alone are in none of the groups.
pub(crate) fn by_interference(profiles: &[ModelProfile]) -> ByInterference<'_> {
    let of_latency = || profiles.iter().enumerate().filter(|(_, p)| !p.is_of_memory_alone());
    let usual =
        metrics::median(&of_latency().filter_map(|(_, p)| cpu_share(p)).collect::<Vec<_>>());
    let least = usual.map_or(0.0, |usual| LEAST_CPU_SHARE * usual);
    let is_disturbed =
        |profile: &ModelProfile| cpu_share(profile).is_some_and(|share| share < least);
    let runs = || of_latency().filter(|(_, p)| p.status == Status::Ok);
    // The least disturbed run of each architecture, unless one is undisturbed.
    let mut best: BTreeMap<&str, Option<(f64, usize)>> = BTreeMap::new();
    for (index, profile) in runs() {
        let found = (cpu_share(profile).unwrap_or(0.0), index);
        let own = best.entry(&profile.model.architecture).or_insert(Some(found));
        *own = match *own {
            Some(before) if is_disturbed(profile) => {
                Some(if found.0 > before.0 { found } else { before })
            }
            _ => None,
        };
    }
    let mut missing: Vec<(f64, usize)> = best.values().flatten().copied().collect();
    missing.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let enough = best.len() - missing.len();
    missing.truncate(FEWEST_ARCHITECTURES.saturating_sub(enough));
    let mut sorted = ByInterference { disturbed: missing.len(), ..ByInterference::default() };
    for (index, profile) in runs() {
        let is_needed = missing.iter().any(|(_, needed)| *needed == index);
        if is_needed || !is_disturbed(profile) {
            sorted.used.push(profile);
        } else {
            sorted.left_out.push(profile);
        }
    }
    sorted
}

/// CPU time over wall time, end to end; `None` where the engine does not report it, and where the
/// runs of several threads are too short to say.
fn cpu_share(profile: &ModelProfile) -> Option<f64> {
    let (cpu, wall) = (profile.e2e.median_cpu_ns()?, profile.e2e.median_ns()?);
    if profile.environment.threads > 1 && wall < TICK_NS {
        return share_of_all(&profile.e2e);
    }
    (cpu > 0.0 && wall > 0.0).then_some(cpu / wall)
}

/// The share of all samples together: CPU time of other threads is counted by ticks, so that most
/// samples that are shorter than a tick have none of it, and some a whole tick.
fn share_of_all(samples: &Samples) -> Option<f64> {
    let [cpu, wall] = [&samples.cpu_ns, &samples.wall_ns].map(|ns| ns.iter().sum::<u64>() as f64);
    (cpu > 0.0 && wall >= FEWEST_TICKS * TICK_NS).then_some(cpu / wall)
}
