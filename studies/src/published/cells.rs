//! NAS-Bench-201 and FBNet after HELP's protocol: samples from the pool (the first architectures),
//! ranks of the 1 000 after it, both within the 10-90 % band of the target's latency. Ranks of all
//! 1 000 are reported too.

use super::{Measure, Outcome, Protocol, Scores, parallel, shuffled};
use std::collections::BTreeMap;
use vitempo::{
    datasets::published::{Cells, Column},
    predictors::adapt::{Adapted, DevicePrior, Measured, Source, Trait, Workload, adapt},
    search::spearman,
};

/// Architectures whose ranks are compared.
const QUERY: usize = 1000;
/// Architectures of a source that are used for training.
const LEARNT: usize = 200;
/// Suffixes of the test's name: ranks within the band, of all, and without adaptation.
const RANKED: [&str; 3] = ["", ", all", ", by multiply-accumulates"];

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
    /// Ranks within the band and of all, with the samples asked for; then within the band with the
    /// whole pool as samples, and by multiply-accumulates alone.
    #[must_use]
    pub fn run(&self, protocol: &Protocol) -> Vec<Outcome> {
        let workloads: Vec<Vec<Workload>> =
            self.cells.readings.iter().map(|reading| self.workloads(reading)).collect();
        let targets: Vec<&Column> =
            self.cells.devices.iter().filter(|d| named(protocol, d, self.target)).collect();
        let priors: BTreeMap<String, DevicePrior> = {
            let families: Vec<String> = targets
                .iter()
                .map(|d| family(d))
                .collect::<std::collections::BTreeSet<_>>()
                .into_iter()
                .collect();
            let learnt = parallel(families.len(), protocol.threads, |i| {
                self.prior(&families[i], &workloads, protocol)
            });
            families.into_iter().zip(learnt).collect()
        };
        let empty = DevicePrior::empty();
        let jobs = targets.len() * protocol.seeds as usize;
        let scores = parallel(jobs, protocol.threads, |job| {
            let (target, seed) =
                (targets[job / protocol.seeds as usize], (job % protocol.seeds as usize) as u64);
            self.score(
                target,
                priors.get(&family(target)).unwrap_or(&empty),
                &workloads,
                protocol.samples,
                seed,
            )
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
        RANKED.iter().map(|suffix| format!("{test}{suffix}")).collect()
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
    fn prior(
        &self,
        family_out: &str,
        workloads: &[Vec<Workload>],
        protocol: &Protocol,
    ) -> DevicePrior {
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
        DevicePrior::learn(&all, &latencies).without_residuals()
    }

    fn score(
        &self,
        target: &Column,
        prior: &DevicePrior,
        workloads: &[Vec<Workload>],
        samples: usize,
        seed: u64,
    ) -> [f64; 3] {
        let drawn: Vec<usize> =
            shuffled(self.band(target, 0..self.pool), seed).into_iter().take(samples).collect();
        let measured: Vec<Measured> = drawn
            .iter()
            .filter_map(|&model| Some(Measured { model, ns: target.ns[model]? }))
            .collect();
        let kind = Trait(target.class.clone());
        let adapted: Vec<Adapted> =
            workloads.iter().map(|w| adapt(prior, w, &measured, Some(&kind))).collect();
        let best = adapted.iter().map(|a| a.log_evidence).fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = adapted.iter().map(|a| (a.log_evidence - best).exp()).collect();
        let forecast = |i: usize| -> f64 {
            let readings = adapted.iter().zip(workloads).zip(&weights).filter(|(_, w)| **w > 1e-3);
            readings.map(|((a, w), weight)| weight * a.forecast(&w[i], None).log_ns).sum()
        };
        let all: Vec<usize> = self.usable(target, self.pool..self.pool + QUERY);
        let forecasts: BTreeMap<usize, f64> = all.iter().map(|&i| (i, forecast(i))).collect();
        let band = self.band(target, self.pool..self.pool + QUERY);
        let rank_errors = |chosen: &[usize], by: &dyn Fn(usize) -> f64| {
            let truth: Vec<f64> = chosen.iter().filter_map(|&i| target.ns[i]).collect();
            spearman(&chosen.iter().map(|&i| by(i)).collect::<Vec<_>>(), &truth).unwrap_or(0.0)
        };
        let of = |i: usize| forecasts.get(&i).copied().unwrap_or(0.0);
        let macs = |i: usize| -> f64 {
            let reading = self.cells.readings.get(target.reading).or(self.cells.readings.first());
            let counts = reading.and_then(|r| r.get(i)).map_or(&[][..], Vec::as_slice);
            counts
                .iter()
                .map(|&(op, count)| {
                    count * vitempo::graph::Work::of_operator(&self.cells.operators[op]).macs as f64
                })
                .sum()
        };
        [rank_errors(&band, &of), rank_errors(&all, &of), rank_errors(&band, &macs)]
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
