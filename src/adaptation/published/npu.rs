//! Neural processors of Snapdragon chips: a device of which ten models are measured, from the other
//! devices; models that no device has, and models that the others have.

use super::{Measure, Outcome, Protocol, Scores, parallel, shuffled};
use crate::{
    datasets::published::{AiHub, Row},
    graph::Latency,
    predictors::{
        adapt::{DevicePrior, Measured, Source, Trait, Workload, adapt},
        metrics,
    },
};
use std::collections::{BTreeMap, BTreeSet};

/// Fewest models of a setting.
const FEWEST: usize = 25;
/// Parts into which the models that are not measured are divided: each in turn is hidden from every
/// device.
const PARTS: usize = 3;

/// The test.
pub struct NpuTest<'a> {
    /// The data.
    pub hub: &'a AiHub,
    /// `float` or another precision.
    pub precision: String,
}

/// One device, runtime and precision.
struct Setting {
    device: String,
    runtime: String,
    latencies_ns: BTreeMap<usize, f64>,
}

impl Setting {
    fn name(&self) -> String {
        format!("{} {}", self.device, self.runtime)
    }

    fn kind(&self) -> Trait {
        Trait(self.runtime.clone())
    }

    fn source(&self, hidden: &BTreeSet<usize>) -> Source {
        let latencies_ns = self
            .latencies_ns
            .iter()
            .filter(|(m, _)| !hidden.contains(m))
            .map(|(m, ns)| (*m, *ns))
            .collect();
        Source { device: self.device.clone(), kind: self.kind(), latencies_ns }
    }
}

/// Errors in percent and coverage in percent, summed over parts, with the number of models.
#[derive(Clone, Copy, Default)]
struct Sum {
    error: f64,
    inside: f64,
    models: f64,
}

impl Sum {
    /// `None` where no model was evaluated.
    fn score(&self, measure: Measure) -> Option<f64> {
        let sum = if measure == Measure::Mape { self.error } else { 100.0 * self.inside };
        (self.models > 0.0).then(|| sum / self.models)
    }
}

/// Models that come first in the order of a draw and are not hidden: those measured, and some more
/// because a target may lack some.
fn spare(samples: usize) -> usize {
    samples + samples / 3
}

/// What other devices have of the models that are evaluated.
const CASES: [&str; 2] = ["models seen nowhere", "models of other devices"];

impl NpuTest<'_> {
    /// Names of the outcomes for a precision.
    #[must_use]
    pub fn names(precision: &str) -> Vec<String> {
        CASES.iter().map(|case| format!("NPU, {precision}, {case}")).collect()
    }

    /// Names of the devices that can be targets.
    #[must_use]
    pub fn devices(&self) -> Vec<String> {
        self.settings(&self.hub.graphs.keys().collect::<Vec<_>>())
            .into_iter()
            .map(|s| s.device)
            .collect()
    }

    /// The most samples that leave every target a model to evaluate, and models to hide from all
    /// devices.
    #[must_use]
    pub fn most_samples(&self, protocol: &Protocol) -> usize {
        let names: Vec<&String> = self.hub.graphs.keys().collect();
        let settings = self.settings(&names);
        let targets = settings.iter().filter(|s| protocol.has_target(&s.device));
        let Some(fewest) = targets.map(|s| s.latencies_ns.len()).min() else { return usize::MAX };
        let hidden = |samples: &usize| spare(*samples) + PARTS <= names.len();
        (0..fewest).take_while(hidden).last().unwrap_or(0)
    }

    /// Errors and coverage of models that no device has, then of models that other devices have.
    #[must_use]
    pub fn run(&self, protocol: &Protocol) -> Vec<Outcome> {
        let names: Vec<&String> = self.hub.graphs.keys().collect();
        let workloads: Vec<Workload> = self.hub.graphs.values().map(Workload::of).collect();
        let settings = self.settings(&names);
        let targets: Vec<&Setting> =
            settings.iter().filter(|s| protocol.has_target(&s.device)).collect();
        let devices: Vec<&str> = targets
            .iter()
            .map(|t| t.device.as_str())
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect();
        let seeds = protocol.seeds as usize;
        let results = parallel(devices.len() * seeds, protocol.threads, |job| {
            let (device, seed) = (devices[job / seeds], (job % seeds) as u64);
            self.evaluate(device, &settings, &targets, &workloads, protocol, seed)
        });
        let mut outcomes = Vec::new();
        for (case, test) in Self::names(&self.precision).into_iter().enumerate() {
            for measure in [Measure::Mape, Measure::Coverage] {
                let of = |target: &&Setting| {
                    let at = devices.iter().position(|d| *d == target.device)?;
                    let score = |seed: usize| {
                        let sum = results[at * seeds + seed].get(&(case, target.name()))?;
                        sum.score(measure)
                    };
                    let by_seed: Option<Vec<f64>> = (0..seeds).map(score).collect();
                    Some(Scores { target: target.name(), by_seed: by_seed? })
                };
                let scores = targets.iter().filter_map(of).collect();
                outcomes.push(Outcome { test: test.clone(), measure, scores });
            }
        }
        outcomes
    }

    /// The newest rows of NPUs in this precision with enough models; rows with a flag on their
    /// graph are left out.
    fn settings(&self, names: &[&String]) -> Vec<Setting> {
        let usable = |r: &&Row| {
            r.precision == self.precision
                && r.processor == "NPU"
                && r.snapshot.starts_with("newest")
                && !r.flag.starts_with("graph")
        };
        let mut settings: BTreeMap<(&str, &str), BTreeMap<usize, f64>> = BTreeMap::new();
        for row in self.hub.rows.iter().filter(usable) {
            if let Some(model) = names.iter().position(|n| **n == row.model) {
                settings.entry((&row.device, &row.runtime)).or_default().insert(model, row.ns);
            }
        }
        let enough = settings.into_iter().filter(|(_, latencies)| latencies.len() >= FEWEST);
        enough
            .map(|((device, runtime), latencies_ns)| Setting {
                device: device.to_owned(),
                runtime: runtime.to_owned(),
                latencies_ns,
            })
            .collect()
    }

    fn evaluate(
        &self,
        device: &str,
        settings: &[Setting],
        targets: &[&Setting],
        workloads: &[Workload],
        protocol: &Protocol,
        seed: u64,
    ) -> BTreeMap<(usize, String), Sum> {
        let order = shuffled((0..workloads.len()).collect(), seed);
        let others: Vec<&Setting> = settings
            .iter()
            .filter(|s| s.device != device && !protocol.unseen.contains(&s.device))
            .collect();
        let learn = |hidden: &BTreeSet<usize>| {
            DevicePrior::learn(
                workloads,
                &others.iter().map(|s| s.source(hidden)).collect::<Vec<_>>(),
            )
        };
        let mut sums: BTreeMap<(usize, String), Sum> = BTreeMap::new();
        let spare = spare(protocol.samples);
        for part in 0..=PARTS {
            let hidden: BTreeSet<usize> = if part < PARTS {
                order.iter().skip(spare + part).step_by(PARTS).copied().collect()
            } else {
                BTreeSet::new()
            };
            let prior = learn(&hidden);
            for target in targets.iter().filter(|t| t.device == device) {
                let given: Vec<usize> = order
                    .iter()
                    .copied()
                    .filter(|m| !hidden.contains(m) && target.latencies_ns.contains_key(m))
                    .take(protocol.samples)
                    .collect();
                let asked = order
                    .iter()
                    .filter(|m| !given.contains(m) && (part == PARTS || hidden.contains(m)));
                let measured: Vec<Measured> = given
                    .iter()
                    .map(|&model| Measured { model, ns: target.latencies_ns[&model] })
                    .collect();
                let adapted = adapt(&prior, workloads, &measured, Some(&target.kind()));
                let sum = sums.entry((usize::from(part == PARTS), target.name())).or_default();
                for (model, truth) in asked.filter_map(|m| Some((*m, *target.latencies_ns.get(m)?)))
                {
                    let forecast = adapted.forecast(&workloads[model], Some(model)).latency();
                    // A forecast that is not a number spoils the score visibly.
                    sum.error +=
                        metrics::mape(&[truth], &[forecast.point().ns()]).unwrap_or(f64::INFINITY);
                    let inside = forecast.contains(Latency::from_ns(truth));
                    sum.inside += f64::from(u8::from(inside));
                    sum.models += 1.0;
                }
            }
        }
        sums
    }
}
