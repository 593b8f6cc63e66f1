//! 102 CNNs on phones: every setting of one phone from ten of its models and all settings of the
//! other phones.

use super::{
    ChoiceTest, Evaluated, Outcome, Protocol, Scores, parallel, shuffled,
    subsets::{self, Priors},
};
use std::collections::{BTreeMap, BTreeSet};
use vitempo::{
    datasets::published::{Phone, Phones},
    predictors::adapt::{DevicePrior, Measured, Source, Trait, Workload},
};

/// The test.
pub struct PhoneTest<'a> {
    /// The data.
    pub phones: &'a Phones,
}

/// Name of the test.
pub(super) const NAME: &str = "102 CNNs on phones";

impl PhoneTest<'_> {
    /// Names of the outcomes.
    #[must_use]
    pub fn names() -> Vec<String> {
        subsets::names(NAME)
    }

    /// Whether chosen models say more than drawn ones.
    pub(super) fn choice(&self) -> ChoiceTest {
        ChoiceTest {
            name: NAME.to_owned(),
            workloads: self.workloads(),
            settings: self.phones.settings.iter().map(|s| (name(s), source(s))).collect(),
        }
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

    /// Errors of all settings and coverage of the intervals, with all sources, with fewer and
    /// without any; then errors by multiply-accumulates alone.
    #[must_use]
    pub fn run(&self, protocol: &Protocol) -> Vec<Outcome> {
        let workloads = self.workloads();
        let targets: Vec<&Phone> =
            self.phones.settings.iter().filter(|s| protocol.has_target(&s.device)).collect();
        let devices: Vec<&str> = targets
            .iter()
            .map(|t| t.device.as_str())
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect();
        let learnt = parallel(devices.len(), protocol.threads, |i| {
            let learn = |of: &[Source]| DevicePrior::learn(&workloads, of);
            Priors::learn(&self.sources(devices[i], protocol), &learn)
        });
        let priors: BTreeMap<&str, Priors> = devices.into_iter().zip(learnt).collect();
        let seeds = protocol.seeds as usize;
        let scores = parallel(targets.len() * seeds, protocol.threads, |job| {
            let target = targets[job / seeds];
            let priors = &priors[target.device.as_str()];
            score(target, priors, &workloads, protocol.samples, (job % seeds) as u64)
        });
        let outcome = |case: usize, test: &str, measure| Outcome {
            test: test.to_owned(),
            measure,
            scores: targets
                .iter()
                .zip(scores.chunks(seeds))
                .map(|(t, of)| Scores {
                    target: name(t),
                    by_seed: of.iter().map(|evaluated| evaluated[case].score(measure)).collect(),
                })
                .collect(),
        };
        let rows = Self::names().into_iter().enumerate().flat_map(|(case, test)| {
            let measures = subsets::measures(&test);
            measures.iter().map(|measure| outcome(case, &test, *measure)).collect::<Vec<_>>()
        });
        rows.collect()
    }

    fn workloads(&self) -> Vec<Workload> {
        let of = |(macs, bytes): (&f64, &f64)| Workload::of_totals(*macs, *bytes);
        self.phones.macs.iter().zip(&self.phones.weight_bytes).map(of).collect()
    }

    fn sources(&self, without: &str, protocol: &Protocol) -> Vec<Source> {
        let others = self
            .phones
            .settings
            .iter()
            .filter(|s| s.device != without && !protocol.unseen.contains(&s.device));
        others.map(source).collect()
    }
}

fn source(setting: &Phone) -> Source {
    let latencies = setting.ns.iter().enumerate().filter_map(|(i, ns)| Some((i, (*ns)?)));
    Source {
        device: setting.device.clone(),
        kind: kind(setting),
        latencies_ns: latencies.collect(),
    }
}

fn name(setting: &Phone) -> String {
    format!("{} {} {}", setting.device, setting.cores, setting.precision)
}

/// GPU or cores, and precision.
fn kind(setting: &Phone) -> Trait {
    Trait(format!("{} {}", if setting.cores == "gpu" { "gpu" } else { "cpu" }, setting.precision))
}

/// In the order of [`PhoneTest::names`].
fn score(
    target: &Phone,
    priors: &Priors,
    workloads: &[Workload],
    samples: usize,
    seed: u64,
) -> Vec<Evaluated> {
    let models = shuffled((0..target.ns.len()).filter(|&i| target.ns[i].is_some()).collect(), seed);
    let (given, asked) = models.split_at(samples.min(models.len()));
    let measured: Vec<Measured> =
        given.iter().filter_map(|&model| Some(Measured { model, ns: target.ns[model]? })).collect();
    let truth: Vec<f64> = asked.iter().filter_map(|&i| target.ns[i]).collect();
    let measured = (&measured[..], &kind(target));
    subsets::evaluate(priors, workloads, measured, (asked, &truth), seed)
}
