//! Whether models that are chosen before anything is measured say more about a device than models
//! that are drawn: both forecast the models that are in neither.

use super::{Evaluated, Measure, Outcome, Protocol, Scores, parallel, shuffled};
use std::collections::{BTreeMap, BTreeSet};
use vitempo::predictors::adapt::{DevicePrior, Measured, Source, Workload, adapt};

/// Suffixes of the test's name.
const SUFFIXES: [&str; 2] = [", models chosen before measuring", ", models drawn"];

/// The test.
pub struct ChoiceTest {
    /// Name of the test.
    pub name: String,
    /// All models.
    pub workloads: Vec<Workload>,
    /// Names of settings and their latencies.
    pub settings: Vec<(String, Source)>,
}

impl ChoiceTest {
    /// Names of the outcomes of the test of that name.
    #[must_use]
    pub fn names(test: &str) -> Vec<String> {
        SUFFIXES.iter().map(|suffix| format!("{test}{suffix}")).collect()
    }

    /// Names of the devices that can be targets.
    #[must_use]
    pub fn devices(&self) -> Vec<&str> {
        self.settings.iter().map(|(_, s)| s.device.as_str()).collect()
    }

    /// The most samples that leave every target a model to evaluate.
    #[must_use]
    pub fn most_samples(&self, protocol: &Protocol) -> usize {
        let models = |(_, s): &(String, Source)| s.latencies_ns.len();
        let targets = self.settings.iter().filter(|(_, s)| protocol.has_target(&s.device));
        targets.map(models).min().map_or(usize::MAX, |fewest| fewest.saturating_sub(1) / 2)
    }

    /// Errors and coverage from the chosen and from the drawn models.
    #[must_use]
    pub fn run(&self, protocol: &Protocol) -> Vec<Outcome> {
        let targets: Vec<&(String, Source)> =
            self.settings.iter().filter(|(_, s)| protocol.has_target(&s.device)).collect();
        let devices: BTreeSet<&str> = targets.iter().map(|(_, s)| s.device.as_str()).collect();
        let devices: Vec<&str> = devices.into_iter().collect();
        let learnt = parallel(devices.len(), protocol.threads, |i| {
            DevicePrior::learn(&self.workloads, &self.sources(devices[i], protocol))
        });
        let priors: BTreeMap<&str, DevicePrior> = devices.into_iter().zip(learnt).collect();
        let evaluated = parallel(targets.len(), protocol.threads, |i| {
            let (_, target) = targets[i];
            self.evaluate(target, &priors[target.device.as_str()], protocol)
        });
        let outcome = |case: usize, test: &str, measure: Measure| Outcome {
            test: test.to_owned(),
            measure,
            scores: targets
                .iter()
                .zip(&evaluated)
                .map(|((name, _), seeds)| Scores {
                    target: name.clone(),
                    by_seed: seeds.iter().map(|of| of[case].score(measure)).collect(),
                })
                .collect(),
        };
        let names = Self::names(&self.name);
        let rows = names.iter().enumerate().flat_map(|(case, test)| {
            Evaluated::MEASURES.map(|measure| outcome(case, test, measure))
        });
        rows.collect()
    }

    fn sources(&self, without: &str, protocol: &Protocol) -> Vec<Source> {
        let others = self.settings.iter().map(|(_, source)| source);
        let usable = others.filter(|s| s.device != without && !protocol.unseen.contains(&s.device));
        usable.cloned().collect()
    }

    /// By seed: from the chosen models, and from the drawn ones.
    fn evaluate(
        &self,
        target: &Source,
        prior: &DevicePrior,
        protocol: &Protocol,
    ) -> Vec<[Evaluated; 2]> {
        let workloads = self.workloads.as_slice();
        let all: Vec<usize> = target.latencies_ns.keys().copied().collect();
        let at_hand: Vec<Workload> = all.iter().map(|&m| workloads[m].clone()).collect();
        let adapted = |models: &[usize]| {
            let ns = |&model: &usize| Measured { model, ns: target.latencies_ns[&model] };
            let measured: Vec<Measured> = models.iter().map(ns).collect();
            adapt(prior, workloads, &measured, Some(&target.kind))
        };
        let before = adapted(&[]);
        let chosen: Vec<usize> =
            before.suggest(&at_hand, &[], protocol.samples).into_iter().map(|i| all[i]).collect();
        let from_chosen = adapted(&chosen);
        let of_seed = |seed: u64| {
            let drawn: Vec<usize> =
                shuffled(all.clone(), seed).into_iter().take(protocol.samples).collect();
            let asked: Vec<usize> =
                all.iter().copied().filter(|m| !chosen.contains(m) && !drawn.contains(m)).collect();
            let truth: Vec<f64> = asked.iter().map(|m| target.latencies_ns[m]).collect();
            [&from_chosen, &adapted(&drawn)].map(|of| Evaluated::of(of, workloads, &asked, &truth))
        };
        (0..protocol.seeds).map(of_seed).collect()
    }
}
