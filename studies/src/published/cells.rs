//! NAS-Bench-201 and FBNet after HELP's protocol: samples from the pool (the first architectures),
//! ranks of the 1 000 after it, both within the 10-90 % band of the target's latency. Ranks of all
//! 1 000 are reported too.

use super::{
    Measure, Outcome, Protocol, Scores, parallel, shuffled,
    subsets::{self, Priors, Subset},
};
use std::collections::{BTreeMap, BTreeSet};
use vitempo::{
    datasets::published::{Cells, Column},
    predictors::adapt::{Adapted, DevicePrior, Measured, Source, Trait, Workload, adapt},
    search::spearman,
};

/// Architectures whose ranks are compared.
const QUERY: usize = 1000;
/// Architectures of a source that are used for training.
const LEARNT: usize = 200;
/// Readings that are less likely than this share of the likeliest are left out.
const LEAST: f64 = 1e-3;
/// Suffix of the test's name: ranks of all, not only within the band.
const UNTRIMMED: &str = ", all";

/// One search space on many devices.
pub struct CellTest<'a> {
    /// Name of the test.
    pub name: String,
    /// The space.
    pub cells: &'a Cells,
    /// Architectures that samples are drawn from.
    pub pool: usize,
    /// Which devices may be sources.
    pub source: fn(&Column) -> bool,
    /// Which devices are targets where the protocol does not name them.
    pub target: fn(&Column) -> bool,
}

impl CellTest<'_> {
    /// Ranks within the band and of all; then within the band with fewer sources, without any, and
    /// by multiply-accumulates alone.
    #[must_use]
    pub fn run(&self, protocol: &Protocol) -> Vec<Outcome> {
        let workloads: Vec<Vec<Workload>> =
            self.cells.readings.iter().map(|reading| self.workloads(reading)).collect();
        let targets: Vec<&Column> =
            self.cells.devices.iter().filter(|d| named(protocol, d, self.target)).collect();
        let priors: BTreeMap<String, Priors> = {
            let families: BTreeSet<String> = targets.iter().map(|d| family(d)).collect();
            let families: Vec<String> = families.into_iter().collect();
            let learnt = parallel(families.len(), protocol.threads, |i| {
                self.priors(&families[i], &workloads, protocol)
            });
            families.into_iter().zip(learnt).collect()
        };
        let jobs = targets.len() * protocol.seeds as usize;
        let scores = parallel(jobs, protocol.threads, |job| {
            let (target, seed) =
                (targets[job / protocol.seeds as usize], (job % protocol.seeds as usize) as u64);
            self.scores(target, &priors[&family(target)], &workloads, protocol.samples, seed)
        });
        let outcome = |(which, test): (usize, String)| Outcome {
            test,
            measure: Measure::Spearman,
            scores: targets
                .iter()
                .zip(scores.chunks(protocol.seeds as usize))
                .map(|(t, of)| Scores {
                    target: t.name.clone(),
                    by_seed: of.iter().map(|s| s[which]).collect(),
                })
                .collect(),
        };
        Self::names(&self.name).into_iter().enumerate().map(outcome).collect()
    }

    /// Names of the outcomes of the test of that name.
    #[must_use]
    pub fn names(test: &str) -> Vec<String> {
        let mut names = subsets::names(test);
        names.insert(1, format!("{test}{UNTRIMMED}"));
        names
    }

    /// Names of the devices that can be targets.
    #[must_use]
    pub fn devices(&self) -> Vec<&str> {
        self.cells.devices.iter().map(|d| d.name.as_str()).collect()
    }

    /// The most samples that every target has in its pool; none without architectures behind it.
    #[must_use]
    pub fn most_samples(&self, protocol: &Protocol) -> usize {
        if self.cells.architectures() <= self.pool {
            return 0;
        }
        let targets = self.cells.devices.iter().filter(|d| named(protocol, d, self.target));
        targets.map(|d| self.band(d, 0..self.pool).len()).min().unwrap_or(usize::MAX)
    }

    fn workloads(&self, reading: &[Vec<(usize, f64)>]) -> Vec<Workload> {
        let upto = self.pool + QUERY;
        reading
            .iter()
            .take(upto)
            .map(|counts| {
                Workload::of_operators(
                    counts.iter().map(|&(op, count)| (&self.cells.operators[op], count)),
                )
            })
            .collect()
    }

    /// Every other device explained by the architectures of the pool, in its own reading.
    fn priors(&self, family_out: &str, workloads: &[Vec<Workload>], protocol: &Protocol) -> Priors {
        let chosen = |d: &&Column| {
            (self.source)(d) && family(d) != family_out && !protocol.unseen.contains(&d.name)
        };
        let sources: Vec<&Column> = self.cells.devices.iter().filter(chosen).collect();
        let mut all = Vec::new();
        let mut latencies = Vec::new();
        for device in &sources {
            let band = self.band(device, 0..self.pool);
            let step = band.len().div_ceil(LEARNT).max(1);
            let rows = band.iter().step_by(step).filter_map(|&i| {
                all.push(workloads.get(device.reading).or(workloads.first())?.get(i)?.clone());
                Some((all.len() - 1, device.ns[i]?))
            });
            let latencies_ns = rows.collect();
            latencies.push(Source {
                device: family(device),
                kind: Trait(device.class.clone()),
                latencies_ns,
            });
        }
        let learn = |of: &[Source]| DevicePrior::learn(&all, of).without_residuals();
        Priors::learn(&latencies, &learn)
    }

    /// In the order of [`CellTest::names`].
    fn scores(
        &self,
        target: &Column,
        priors: &Priors,
        workloads: &[Vec<Workload>],
        samples: usize,
        seed: u64,
    ) -> Vec<f64> {
        let drawn: Vec<usize> =
            shuffled(self.band(target, 0..self.pool), seed).into_iter().take(samples).collect();
        let measured: Vec<Measured> = drawn
            .iter()
            .filter_map(|&model| Some(Measured { model, ns: target.ns[model]? }))
            .collect();
        let query = self.pool..self.pool + QUERY;
        let (all, band) = (self.usable(target, query.clone()), self.band(target, query));
        let ranks = |chosen: &[usize], by: &dyn Fn(usize) -> f64| {
            let truth: Vec<f64> = chosen.iter().filter_map(|&i| target.ns[i]).collect();
            spearman(&chosen.iter().map(|&i| by(i)).collect::<Vec<_>>(), &truth).unwrap_or(0.0)
        };
        let mut scores = Vec::new();
        for subset in Subset::EVERY {
            let forecaster = Readings::adapt(priors.of(subset, seed), workloads, &measured, target);
            scores.push(ranks(&band, &|i| forecaster.log_ns(i)));
            if subset == Subset::All {
                scores.push(ranks(&all, &|i| forecaster.log_ns(i)));
            }
        }
        let reading = workloads.get(target.reading).or(workloads.first());
        scores.push(ranks(&band, &|i| reading.map_or(0.0, |of| of[i].macs())));
        scores
    }

    fn usable(&self, device: &Column, range: std::ops::Range<usize>) -> Vec<usize> {
        let upto = range.end.min(self.cells.architectures());
        (range.start..upto)
            .filter(|&i| self.cells.connected[i] && device.ns.get(i).copied().flatten().is_some())
            .collect()
    }

    /// Those whose latency lies between the 10th and the 90th percentile.
    fn band(&self, device: &Column, range: std::ops::Range<usize>) -> Vec<usize> {
        let usable = self.usable(device, range);
        let mut sorted: Vec<f64> = usable.iter().filter_map(|&i| device.ns[i]).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let at = |share: f64| {
            let place = share * (sorted.len().max(1) - 1) as f64;
            let (low, high) =
                (sorted.get(place.floor() as usize), sorted.get(place.ceil() as usize));
            low.zip(high).map_or(0.0, |(l, h)| l + (h - l) * place.fract())
        };
        let (low, high) = (at(0.1), at(0.9));
        usable
            .into_iter()
            .filter(|&i| device.ns[i].is_some_and(|ns| low <= ns && ns <= high))
            .collect()
    }
}

/// Adapted with every reading of the architectures, weighted by evidence.
struct Readings<'a>(Vec<(f64, Adapted, &'a [Workload])>);

impl<'a> Readings<'a> {
    fn adapt(
        prior: &DevicePrior,
        workloads: &'a [Vec<Workload>],
        measured: &[Measured],
        target: &Column,
    ) -> Self {
        let kind = Trait(target.class.clone());
        let adapted: Vec<Adapted> =
            workloads.iter().map(|w| adapt(prior, w, measured, Some(&kind))).collect();
        let best = adapted.iter().map(|a| a.log_evidence).fold(f64::NEG_INFINITY, f64::max);
        let weighted = adapted
            .into_iter()
            .zip(workloads)
            .map(|(a, w)| ((a.log_evidence - best).exp(), a, w.as_slice()));
        Self(weighted.filter(|(weight, ..)| *weight > LEAST).collect())
    }

    /// Logarithm of the latency of an architecture, up to a factor.
    fn log_ns(&self, architecture: usize) -> f64 {
        let of = |(weight, adapted, workloads): &(f64, Adapted, &[Workload])| {
            weight * adapted.forecast(&workloads[architecture], None).log_ns
        };
        self.0.iter().map(of).sum()
    }
}

fn named(protocol: &Protocol, device: &Column, otherwise: fn(&Column) -> bool) -> bool {
    if protocol.unseen.is_empty() {
        otherwise(device)
    } else {
        protocol.unseen.contains(&device.name)
    }
}

/// GPUs are named with their batch size behind: all batches are one device.
fn family(device: &Column) -> String {
    match device.name.rsplit_once('_') {
        Some((gpu, batch)) if device.class == "gpu" && batch.parse::<u32>().is_ok() => {
            gpu.to_owned()
        }
        _ => device.name.clone(),
    }
}
