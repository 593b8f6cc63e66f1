//! Neural processors of Snapdragon chips: adapts to a device from ten of its models and the other
//! devices; evaluated on models that no device has, and on models that the others have.

use super::{
    ChoiceTest, Evaluated, Outcome, Protocol, Scores, parallel, shuffled,
    subsets::{self, Priors, Subset},
};
use std::collections::{BTreeMap, BTreeSet};
use vitempo::{
    datasets::published::{AiHub, Row},
    predictors::adapt::{DevicePrior, Measured, Source, Trait, Workload},
};

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

    /// Forecasts of the models asked for from those given, with every subset of the sources; then
    /// by multiply-accumulates alone.
    fn evaluate(
        &self,
        priors: &Priors,
        workloads: &[Workload],
        [given, asked]: [&[usize]; 2],
        seed: u64,
    ) -> Vec<Evaluated> {
        if asked.is_empty() {
            return Vec::new();
        }
        let measured: Vec<Measured> =
            given.iter().map(|&m| Measured { model: m, ns: self.latencies_ns[&m] }).collect();
        let truth: Vec<f64> = asked.iter().map(|m| self.latencies_ns[m]).collect();
        let measured = (&measured[..], &self.kind());
        subsets::evaluate(priors, workloads, measured, (asked, &truth), seed)
    }
}

/// Mean over parts, weighted by their number of models.
#[derive(Clone, Copy)]
struct Mean {
    mean: Evaluated,
    models: f64,
}

impl Mean {
    const NONE: Self = Self { mean: Evaluated::of_points(0.0), models: 0.0 };

    fn add(&mut self, of: Evaluated, models: usize) {
        let weight = models as f64;
        let (all, sum) = (self.models, &mut self.mean);
        let merge = |a: f64, b: f64| (all * a + weight * b) / (all + weight);
        *sum = Evaluated {
            error: merge(sum.error, of.error),
            coverage: merge(sum.coverage, of.coverage),
            width: merge(sum.width, of.width),
        };
        self.models += weight;
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
        let of = |case: &&str| subsets::names(&format!("{}, {case}", Self::test(precision)));
        CASES.iter().flat_map(of).collect()
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

    /// Whether chosen models say more than drawn ones.
    pub(super) fn choice(&self) -> ChoiceTest {
        let names: Vec<&String> = self.hub.graphs.keys().collect();
        let settings = self.settings(&names).into_iter();
        ChoiceTest {
            name: Self::test(&self.precision),
            workloads: self.hub.graphs.values().map(Workload::of).collect(),
            settings: settings.map(|s| (s.name(), s.source(&BTreeSet::new()))).collect(),
        }
    }

    pub(super) fn test(precision: &str) -> String {
        format!("NPU, {precision}")
    }

    /// Errors and coverage of models that no device has, then of models that other devices have;
    /// both with all sources, with fewer, without any, and by multiply-accumulates alone.
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
            for &measure in subsets::measures(&test) {
                let of = |target: &&Setting| {
                    let at = devices.iter().position(|d| *d == target.device)?;
                    let score = |seed: usize| {
                        let of = results[at * seeds + seed].get(&(case, target.name()))?;
                        Some(of.mean.score(measure))
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
                && !r.is_of_another_graph()
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
    ) -> BTreeMap<(usize, String), Mean> {
        let order = shuffled((0..workloads.len()).collect(), seed);
        let others: Vec<&Setting> = settings
            .iter()
            .filter(|s| s.device != device && !protocol.unseen.contains(&s.device))
            .collect();
        let mut sums: BTreeMap<(usize, String), Mean> = BTreeMap::new();
        let spare = spare(protocol.samples);
        for part in 0..=PARTS {
            let hidden: BTreeSet<usize> = if part < PARTS {
                order.iter().skip(spare + part).step_by(PARTS).copied().collect()
            } else {
                BTreeSet::new()
            };
            let sources: Vec<Source> = others.iter().map(|s| s.source(&hidden)).collect();
            let priors = Priors::learn(&sources, &|of| DevicePrior::learn(workloads, of));
            for target in targets.iter().filter(|t| t.device == device) {
                let has = |m: &usize| target.latencies_ns.contains_key(m);
                let given: Vec<usize> = order
                    .iter()
                    .copied()
                    .filter(|m| !hidden.contains(m) && has(m))
                    .take(protocol.samples)
                    .collect();
                let asked: Vec<usize> = order
                    .iter()
                    .copied()
                    .filter(|m| !given.contains(m) && has(m))
                    .filter(|m| part == PARTS || hidden.contains(m))
                    .collect();
                let first = usize::from(part == PARTS) * (Subset::EVERY.len() + 1);
                for (i, evaluated) in target
                    .evaluate(&priors, workloads, [&given, &asked], seed)
                    .into_iter()
                    .enumerate()
                {
                    let sum = sums.entry((first + i, target.name())).or_insert(Mean::NONE);
                    sum.add(evaluated, asked.len());
                }
            }
        }
        sums
    }
}
