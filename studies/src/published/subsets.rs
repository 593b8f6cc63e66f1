//! What stands beside the forecasts with all sources: forecasts with fewer of them or with none,
//! and latencies by multiply-accumulates alone.

use super::{Evaluated, Measure};
use std::collections::BTreeSet;
use vitempo::predictors::{
    adapt::{DevicePrior, Measured, Source, Trait, Workload, adapt},
    metrics,
};

/// Suffix of the test's name: latencies by multiply-accumulates alone.
const BY_MACS: &str = ", by multiply-accumulates";

/// Which of the sources a forecast has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subset {
    All,
    /// Every second device.
    Half,
    /// One device.
    One,
    Nothing,
}

impl Subset {
    pub const EVERY: [Self; 4] = [Self::All, Self::Half, Self::One, Self::Nothing];

    /// Suffix of the test's name.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::All => "",
            Self::Half => ", half of the sources",
            Self::One => ", one source",
            Self::Nothing => ", without sources",
        }
    }
}

/// Names of a test's outcomes: with every subset, and by multiply-accumulates alone.
pub(super) fn names(test: &str) -> Vec<String> {
    let suffixes = Subset::EVERY.iter().map(|subset| subset.suffix()).chain([BY_MACS]);
    suffixes.map(|suffix| format!("{test}{suffix}")).collect()
}

/// What the outcome of that name has.
pub(super) fn measures(name: &str) -> &'static [Measure] {
    let intervals = !name.ends_with(BY_MACS);
    if intervals { &Evaluated::MEASURES } else { &[Measure::Mape] }
}

/// Priors from subsets of sources.
pub(super) struct Priors {
    all: DevicePrior,
    halves: [DevicePrior; 2],
    single: Vec<DevicePrior>,
    nothing: DevicePrior,
}

impl Priors {
    /// Learns from every subset by `learn`. Sources of one device stay together.
    pub fn learn(sources: &[Source], learn: &dyn Fn(&[Source]) -> DevicePrior) -> Self {
        let devices: BTreeSet<&str> = sources.iter().map(|s| s.device.as_str()).collect();
        let devices: Vec<&str> = devices.into_iter().collect();
        let of = |chosen: &dyn Fn(usize) -> bool| {
            let at = |s: &&Source| devices.iter().position(|d| *d == s.device).is_some_and(chosen);
            learn(&sources.iter().filter(at).cloned().collect::<Vec<_>>())
        };
        Self {
            all: learn(sources),
            halves: [0, 1].map(|half| of(&|i| i % 2 == half)),
            single: (0..devices.len()).map(|one| of(&|i| i == one)).collect(),
            nothing: DevicePrior::empty(),
        }
    }

    /// The prior of a subset; halves and single devices take turns over the seeds.
    pub fn of(&self, subset: Subset, seed: u64) -> &DevicePrior {
        let seed = seed as usize;
        match subset {
            Subset::All => &self.all,
            Subset::Half => &self.halves[seed % 2],
            Subset::One => {
                self.single.get(seed % self.single.len().max(1)).unwrap_or(&self.nothing)
            }
            Subset::Nothing => &self.nothing,
        }
    }
}

/// Forecasts of the models asked for, with their latencies in ns, from those measured on a device of
/// that kind: in the order of [`names`].
pub(super) fn evaluate(
    priors: &Priors,
    workloads: &[Workload],
    (measured, kind): (&[Measured], &Trait),
    (asked, truth): (&[usize], &[f64]),
    seed: u64,
) -> Vec<Evaluated> {
    let of = |subset: Subset| {
        let adapted = adapt(priors.of(subset, seed), workloads, measured, Some(kind));
        Evaluated::of(&adapted, workloads, asked, truth)
    };
    let error = ByMacs::fit(workloads, measured).error(workloads, asked, truth);
    Subset::EVERY.into_iter().map(of).chain([Evaluated::of_points(error)]).collect()
}

/// The line through the logarithms of multiply-accumulates and latencies, by least squares.
#[derive(Clone, Copy, Debug)]
struct ByMacs {
    middle: [f64; 2],
    slope: f64,
}

impl ByMacs {
    /// Of the measured models. With models of one size, the latency does not depend on the size.
    fn fit(workloads: &[Workload], measured: &[Measured]) -> Self {
        let points: Vec<[f64; 2]> =
            measured.iter().map(|m| [workloads[m.model].macs().ln(), m.ns.ln()]).collect();
        let mean = |i: usize| points.iter().map(|p| p[i]).sum::<f64>() / points.len().max(1) as f64;
        let middle = [mean(0), mean(1)];
        let sum = |i: usize| -> f64 {
            points.iter().map(|p| (p[0] - middle[0]) * (p[i] - middle[i])).sum()
        };
        let slope = if sum(0) > 0.0 { sum(1) / sum(0) } else { 0.0 };
        Self { middle, slope }
    }

    /// Latency of a model, ns.
    fn ns(&self, workload: &Workload) -> f64 {
        (self.middle[1] + self.slope * (workload.macs().ln() - self.middle[0])).exp()
    }

    /// Mean absolute percentage error on these models, in percent.
    fn error(&self, workloads: &[Workload], models: &[usize], truth: &[f64]) -> f64 {
        let points: Vec<f64> = models.iter().map(|&m| self.ns(&workloads[m])).collect();
        // A forecast that is not a number spoils the score visibly.
        metrics::mape(truth, &points).unwrap_or(f64::INFINITY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(device: &str, model: usize) -> Source {
        Source {
            device: device.to_owned(),
            kind: Trait::default(),
            latencies_ns: [(model, 1e6)].into(),
        }
    }

    #[test]
    fn sources_of_one_device_stay_together() {
        let workloads: Vec<Workload> =
            (1..5).map(|i| Workload::of_totals(1e6 * f64::from(i), 1e4)).collect();
        let sources = [source("a", 0), source("a", 1), source("b", 2), source("c", 3)];
        let priors = Priors::learn(&sources, &|of| DevicePrior::learn(&workloads, of));
        let count = |subset, seed| priors.of(subset, seed).sources();
        assert_eq!((count(Subset::All, 0), count(Subset::Nothing, 0)), (4, 0));
        assert_eq!((count(Subset::Half, 0), count(Subset::Half, 1)), (3, 1));
        assert_eq!(
            (count(Subset::One, 0), count(Subset::One, 1), count(Subset::One, 3)),
            (2, 1, 2)
        );
    }

    #[test]
    fn a_line_by_hand() {
        let workloads = [1e6, 1e8, 1e7].map(|macs| Workload::of_totals(macs, 1.0));
        let measured = [(0, 1e3), (1, 1e4)].map(|(model, ns)| Measured { model, ns });
        let line = ByMacs::fit(&workloads, &measured);
        assert!((line.ns(&workloads[2]) / 10.0_f64.powf(3.5) - 1.0).abs() < 1e-9);
        assert!(line.error(&workloads, &[2], &[10.0_f64.powf(3.5)]) < 1e-6);
        let same = ByMacs::fit(&workloads, &measured[..1]);
        assert!((same.ns(&workloads[1]) / 1e3 - 1.0).abs() < 1e-9);
    }
}
