//! [`compare`]: how the latencies of two models differ on one device, by kind of kernel and by
//! kernels of one name.
//!
//! The errors of two forecasts of one bundle are not independent, and how they depend on each other
//! was not calibrated. The bounds of the difference hold whatever the dependence is: where each
//! interval covers with probability p, both cover with probability 2 p - 1 (Bonferroni), and then
//! the difference lies between lower end minus upper end and upper end minus lower end.

use super::ModelForecast;
use std::collections::{BTreeMap, HashMap};
use vitempo_graph::{Latency, OpKind, OperatorPrediction};

/// The second model beside the first, on one device.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Latency of the second model minus that of the first, ns.
    pub change_ns: f64,
    /// Least and largest change, ns, which hold with probability [`Comparison::level`] at least.
    pub bounds_ns: (f64, f64),
    /// Probability that the bounds hold, 0 to 1; 1 where both models have the same operators.
    pub level: f64,
    /// Both models have the same operators with the same shapes: the latencies are equal.
    pub same_architecture: bool,
    /// By kind of kernel, the largest change first.
    pub kinds: Vec<KindChange>,
    /// Kernels that both models have under one name, the largest change first.
    pub matched: Vec<KernelChange>,
    /// Kernels that only the first, and only the second model has, the longest first.
    pub unmatched: [Vec<UnmatchedKernel>; 2],
    /// Change of what is added to the sum over kernels, ns.
    pub overhead_change_ns: f64,
}

/// The kernels of one kind in both models.
#[derive(Clone, Debug, PartialEq)]
pub struct KindChange {
    /// Name of the kind.
    pub kind: String,
    /// How many the first and the second model have.
    pub counts: [usize; 2],
    /// What they take together.
    pub latencies: [Latency; 2],
}

/// A kernel that both models have under one name.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelChange {
    /// Its name.
    pub name: String,
    /// What it computes in the first and in the second model.
    pub kinds: [OpKind; 2],
    /// What it takes.
    pub latencies: [Latency; 2],
}

/// A kernel that one model has alone.
#[derive(Clone, Debug, PartialEq)]
pub struct UnmatchedKernel {
    /// Its name.
    pub name: String,
    /// What it computes.
    pub kind: OpKind,
    /// What it takes.
    pub latency: Latency,
}

/// Latency of the second minus that of the first, ns.
fn change([first, second]: &[Latency; 2]) -> f64 {
    second.ns() - first.ns()
}

impl KindChange {
    /// Latency in the second model minus that in the first, ns.
    #[must_use]
    pub fn change_ns(&self) -> f64 {
        change(&self.latencies)
    }
}

impl KernelChange {
    /// Latency in the second model minus that in the first, ns.
    #[must_use]
    pub fn change_ns(&self) -> f64 {
        change(&self.latencies)
    }
}

/// Compares two forecasts of one bundle.
#[must_use]
pub fn compare(first: &ModelForecast, second: &ModelForecast) -> Comparison {
    let both = [first, second];
    let [a, b] = both.map(|forecast| forecast.prediction.latency);
    let architectures = both.map(|forecast| forecast.model.graph.architecture());
    let same_architecture = architectures[0] == architectures[1];
    let bounds = (b.lower().ns() - a.upper().ns(), b.upper().ns() - a.lower().ns());
    let (matched, unmatched) = kernels(both);
    Comparison {
        change_ns: b.point().ns() - a.point().ns(),
        bounds_ns: if same_architecture { (0.0, 0.0) } else { bounds },
        level: if same_architecture { 1.0 } else { (a.level + b.level - 1.0).max(0.0) },
        same_architecture,
        kinds: kinds(both),
        matched,
        unmatched,
        overhead_change_ns: change(&both.map(|forecast| forecast.prediction.overhead)),
    }
}

fn kinds(both: [&ModelForecast; 2]) -> Vec<KindChange> {
    let mut kinds: BTreeMap<String, KindChange> = BTreeMap::new();
    for (which, forecast) in both.into_iter().enumerate() {
        for row in forecast.by_kind() {
            let entry = kinds.entry(row.kind.clone()).or_insert_with(|| KindChange {
                kind: row.kind,
                counts: [0; 2],
                latencies: [Latency::ZERO; 2],
            });
            entry.counts[which] = row.count;
            entry.latencies[which] = row.latency;
        }
    }
    let mut kinds: Vec<KindChange> = kinds.into_values().collect();
    kinds.sort_by(|a, b| b.change_ns().abs().total_cmp(&a.change_ns().abs()));
    kinds
}

fn kernels(both: [&ModelForecast; 2]) -> (Vec<KernelChange>, [Vec<UnmatchedKernel>; 2]) {
    let [first, second] = both.map(|forecast| &forecast.prediction.operators[..]);
    let mut rest: HashMap<&str, Vec<&OperatorPrediction>> = HashMap::new();
    // The first kernel of a name is matched first.
    second.iter().rev().for_each(|o| rest.entry(&o.name).or_default().push(o));
    let (mut matched, mut alone) = (Vec::new(), Vec::new());
    for kernel in first {
        match rest.get_mut(kernel.name.as_str()).and_then(Vec::pop) {
            Some(other) => matched.push(KernelChange {
                name: kernel.name.clone(),
                kinds: [kernel.kind.clone(), other.kind.clone()],
                latencies: [kernel.latency_ns, other.latency_ns],
            }),
            None => alone.push(kernel),
        }
    }
    matched.sort_by(|a, b| b.change_ns().abs().total_cmp(&a.change_ns().abs()));
    (matched, [unmatched(alone), unmatched(rest.into_values().flatten().collect())])
}

fn unmatched(kernels: Vec<&OperatorPrediction>) -> Vec<UnmatchedKernel> {
    let row = |o: &OperatorPrediction| UnmatchedKernel {
        name: o.name.clone(),
        kind: o.kind.clone(),
        latency: o.latency_ns,
    };
    let mut rows: Vec<UnmatchedKernel> = kernels.into_iter().map(row).collect();
    rows.sort_by(|a, b| {
        b.latency.ns().total_cmp(&a.latency.ns()).then_with(|| a.name.cmp(&b.name))
    });
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Bundle,
        forecast::{ModelForecasts, forecast_each},
        models::{Model, Models},
        sampling,
    };
    use vitempo_graph::onnx::ReadOptions;

    fn forecasts(names: [&str; 2]) -> [ModelForecast; 2] {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let bundle = Bundle::open(root.join("bundles/epyc-onnxruntime-f32-1t.vtb"))
            .expect("a bundle that ships");
        let options = ReadOptions::default();
        let read = names.map(|name| {
            crate::models::read(&root.join(format!("tests/models/{name}.onnx")), &options)
                .expect("a model")
        });
        let models = Models { read: read.to_vec(), unreadable: Vec::new() };
        let ModelForecasts { forecasts, .. } = forecast_each(&bundle, models, &options);
        forecasts.try_into().expect("two forecasts")
    }

    #[test]
    fn kinds_and_kernels_add_up_to_the_change() {
        let [first, second] = forecasts(["mobilevit_xxs", "edgenext_xx_small"]);
        let found = compare(&first, &second);
        let kinds: f64 = found.kinds.iter().map(KindChange::change_ns).sum();
        assert!((kinds + found.overhead_change_ns - found.change_ns).abs() < 1.0);
        let matched: f64 = found.matched.iter().map(KernelChange::change_ns).sum();
        let [gone, new] =
            [0, 1].map(|i| found.unmatched[i].iter().map(|k| k.latency.ns()).sum::<f64>());
        assert!((matched + new - gone + found.overhead_change_ns - found.change_ns).abs() < 1.0);
        let (least, most) = found.bounds_ns;
        assert!(least < found.change_ns && found.change_ns < most);
        let [a, b] = [&first, &second].map(|f| f.prediction.latency);
        assert!((found.level - (a.level + b.level - 1.0)).abs() < 1e-12);
        let back = compare(&second, &first);
        assert_eq!((back.bounds_ns.0, back.bounds_ns.1), (-most, -least));
        assert_eq!(back.matched.len(), found.matched.len());
    }

    #[test]
    fn equal_models_do_not_differ() {
        let [first, second] = forecasts(["mobilevit_xxs", "mobilevit_xxs"]);
        let found = compare(&first, &second);
        assert!(found.same_architecture && found.change_ns == 0.0);
        assert_eq!((found.bounds_ns, found.level), ((0.0, 0.0), 1.0));
        assert!(found.unmatched.iter().all(Vec::is_empty));
        assert!(found.matched.iter().all(|kernel| kernel.change_ns() == 0.0));
    }

    #[test]
    fn kernels_of_one_name_are_matched_one_to_one() {
        let sample = sampling::sample_named("hybrid-vit", 1, 3).expect("a sample").remove(0);
        let model = Model::sampled(sample, "sample.onnx".into());
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let bundle = Bundle::open(root.join("bundles/epyc-rten-f32-1t.vtb")).expect("a bundle");
        let models = Models { read: vec![model], unreadable: Vec::new() };
        let mut forecast =
            forecast_each(&bundle, models, &ReadOptions::default()).forecasts.remove(0);
        let count = forecast.prediction.operators.len();
        forecast.prediction.operators.iter_mut().for_each(|o| o.name = "same".to_owned());
        let found = compare(&forecast, &forecast);
        assert_eq!(found.matched.len(), count);
        assert!(found.matched.iter().all(|kernel| kernel.kinds[0] == kernel.kinds[1]));
    }
}
