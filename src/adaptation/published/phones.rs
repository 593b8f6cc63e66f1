//! 102 CNNs on phones: every setting of one phone from ten of its models and all settings of the
//! other phones.

use super::{Measure, Outcome, Protocol, Scores, parallel, shuffled};
use crate::{
    datasets::published::{Phone, Phones},
    graph::{Interval, Latency},
    predictors::{
        adapt::{DevicePrior, Measured, Source, Trait, Workload, adapt},
        metrics,
    },
};
use std::collections::{BTreeMap, BTreeSet};

/// The test.
pub struct PhoneTest<'a> {
    /// The data.
    pub phones: &'a Phones,
}

/// Name of the test.
const NAME: &str = "102 CNNs on phones";

impl PhoneTest<'_> {
    /// Names of the outcomes.
    #[must_use]
    pub fn names() -> Vec<String> {
        vec![NAME.to_owned()]
    }

    /// Names of the devices that can be targets.
    #[must_use]
    pub fn devices(&self) -> Vec<&str> {
        self.phones.settings.iter().map(|s| s.device.as_str()).collect()
    }

    /// The most samples that leave every target a model to evaluate.
    #[must_use]
    pub fn most_samples(&self, protocol: &Protocol) -> usize {
        let models = |s: &Phone| s.ns.iter().flatten().count();
        let targets = self.phones.settings.iter().filter(|s| protocol.has_target(&s.device));
        targets.map(models).min().unwrap_or(usize::MAX).saturating_sub(1)
    }

    /// Errors of all settings and coverage of the intervals.
    #[must_use]
    pub fn run(&self, protocol: &Protocol) -> Vec<Outcome> {
        let workloads: Vec<Workload> = self
            .phones
            .macs
            .iter()
            .zip(&self.phones.weight_bytes)
            .map(|(m, b)| Workload::of_totals(*m, *b))
            .collect();
        let targets: Vec<&Phone> =
            self.phones.settings.iter().filter(|s| protocol.has_target(&s.device)).collect();
        let devices: Vec<&str> = targets
            .iter()
            .map(|t| t.device.as_str())
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect();
        let learnt = parallel(devices.len(), protocol.threads, |i| {
            DevicePrior::learn(&workloads, &self.sources(devices[i], protocol))
        });
        let priors: BTreeMap<&str, DevicePrior> = devices.into_iter().zip(learnt).collect();
        let empty = DevicePrior::empty();
        let seeds = protocol.seeds as usize;
        let scores = parallel(targets.len() * seeds, protocol.threads, |job| {
            let target = targets[job / seeds];
            score(
                target,
                priors.get(target.device.as_str()).unwrap_or(&empty),
                &workloads,
                protocol.samples,
                (job % seeds) as u64,
            )
        });
        let outcome = |measure, which: fn(&(f64, f64)) -> f64| Outcome {
            test: NAME.to_owned(),
            measure,
            scores: targets
                .iter()
                .zip(scores.chunks(seeds))
                .map(|(t, of)| Scores { target: name(t), by_seed: of.iter().map(which).collect() })
                .collect(),
        };
        vec![outcome(Measure::Mape, |s| s.0), outcome(Measure::Coverage, |s| s.1)]
    }

    fn sources(&self, without: &str, protocol: &Protocol) -> Vec<Source> {
        let others = self
            .phones
            .settings
            .iter()
            .filter(|s| s.device != without && !protocol.unseen.contains(&s.device));
        let source = |s: &Phone| Source {
            device: s.device.clone(),
            kind: kind(s),
            latencies_ns: s.ns.iter().enumerate().filter_map(|(i, ns)| Some((i, (*ns)?))).collect(),
        };
        others.map(source).collect()
    }
}

fn name(setting: &Phone) -> String {
    format!("{} {} {}", setting.device, setting.cores, setting.precision)
}

/// GPU or cores, and precision.
fn kind(setting: &Phone) -> Trait {
    Trait(format!("{} {}", if setting.cores == "gpu" { "gpu" } else { "cpu" }, setting.precision))
}

fn score(
    target: &Phone,
    prior: &DevicePrior,
    workloads: &[Workload],
    samples: usize,
    seed: u64,
) -> (f64, f64) {
    let models = shuffled((0..target.ns.len()).filter(|&i| target.ns[i].is_some()).collect(), seed);
    let (given, asked) = models.split_at(samples.min(models.len()));
    let measured: Vec<Measured> =
        given.iter().filter_map(|&model| Some(Measured { model, ns: target.ns[model]? })).collect();
    let adapted = adapt(prior, workloads, &measured, Some(&kind(target)));
    let truth: Vec<f64> = asked.iter().filter_map(|&i| target.ns[i]).collect();
    let forecasts: Vec<Interval<Latency>> =
        asked.iter().map(|&i| adapted.forecast(&workloads[i], Some(i)).latency()).collect();
    let points: Vec<f64> = forecasts.iter().map(|f| f.point().ns()).collect();
    let within = |(ns, f): &(&f64, &Interval<Latency>)| f.contains(Latency::from_ns(**ns));
    let inside = truth.iter().zip(&forecasts).filter(within).count();
    // A forecast that is not a number spoils the score visibly.
    let error = metrics::mape(&truth, &points).unwrap_or(f64::INFINITY);
    (error, 100.0 * inside as f64 / truth.len().max(1) as f64)
}
