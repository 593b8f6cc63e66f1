//! What share of a model's time a class of operators must have before its predictor matters: section
//! 4.5 of the mobile ViT study, which drops models whose linear operators take less than 5 % of the
//! time.
//!
//! Of each measured model outside a bundle's training data, the time of each class (a name per kind
//! of operator) is forecast from the model's graph and summed over what ran. An error counts twice:
//! relative to the class, which is what the study prints, and relative to all operators of the
//! model, which is what it costs the forecast of the whole.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};
use vitempo::{
    Bundle,
    graph::{Graph, LatencyModel, ModelProfile, OpKind, Status},
    training::{self, TrainingError},
};

/// Smallest shares of the measured time that models are kept for.
pub const SHARES: [f64; 6] = [0.0, 0.01, 0.02, 0.05, 0.1, 0.2];

/// Why there are no shares.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SharesError {
    /// The measurements cannot be read.
    #[error(transparent)]
    Training(#[from] TrainingError),
    /// No model has a graph and timed operators outside of the training data.
    #[error("{0}: no measured model with a graph is outside of the bundle's training data")]
    NothingHeldOut(String),
}

/// Errors by class and share.
#[derive(Clone, Debug, PartialEq)]
pub struct Shares {
    /// Name of the bundle.
    pub bundle: String,
    /// Models.
    pub models: usize,
    /// Classes, those with the largest mean share first.
    pub classes: Vec<ClassShares>,
}

/// The errors of one class.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassShares {
    /// Its name.
    pub class: String,
    /// Mean share of the measured time, over all models.
    pub mean_share: f64,
    /// For each of [`SHARES`], of the models where the class has at least that share (and more than
    /// nothing); `None` without any.
    pub kept: Vec<Option<Kept>>,
}

/// The errors of a class in some models.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Kept {
    /// How many models.
    pub models: usize,
    /// Mean of |forecast - measured| / measured of the class.
    pub mape: f64,
    /// Mean of |forecast - measured| of the class / measured time of all operators.
    pub of_whole: f64,
}

/// Times of a class in a model, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Times {
    forecast: f64,
    measured: f64,
}

/// A model's times by class.
type OfModel = BTreeMap<String, Times>;

/// The errors of a bundle on the models of a dataset that it was not trained on; `real` models
/// alone, or all.
///
/// # Errors
/// [`SharesError`] where the dataset has no such model.
pub fn shares(bundle: &Bundle, folder: &Path, real: bool) -> Result<Shares, SharesError> {
    let dataset = training::load_environment(folder, Some(&bundle.environment().id()))?;
    let trained: BTreeSet<&str> = bundle.trained().map_or(BTreeSet::new(), |trained| {
        trained.provenance.trained_on.iter().map(String::as_str).collect()
    });
    let mut seen = BTreeSet::new();
    let mut models = Vec::new();
    for profile in &dataset.profiles {
        let model = &profile.model;
        let wanted = !model.is_operator()
            && (!real || model.space.is_none())
            && !trained.contains(model.architecture.as_str());
        let graph =
            dataset.graphs.get(&model.name).or_else(|| dataset.graphs.get(&model.architecture));
        let Some(graph) = graph.filter(|_| wanted && seen.insert(model.architecture.clone()))
        else {
            continue;
        };
        models.extend(times(bundle, graph, profile));
    }
    if models.is_empty() {
        return Err(SharesError::NothingHeldOut(folder.display().to_string()));
    }
    let classes = summed(&models);
    Ok(Shares { bundle: bundle.name().to_owned(), models: models.len(), classes })
}

/// `None` where no operator was timed, or the bundle does not forecast the model.
fn times(bundle: &Bundle, graph: &Graph, profile: &ModelProfile) -> Option<OfModel> {
    let mut times = OfModel::new();
    for operator in profile.operators.iter().filter(|o| o.status == Status::Ok) {
        let ns = operator.samples.median_ns().unwrap_or(0.0);
        times.entry(class(&operator.op.kind)).or_default().measured += ns;
    }
    times.values().any(|t| t.measured > 0.0).then_some(())?;
    for operator in bundle.predict(graph).ok()?.operators {
        times.entry(class(&operator.kind)).or_default().forecast += operator.latency_ns.ns();
    }
    Some(times)
}

/// The study's classes, and every other kind under its family.
fn class(kind: &OpKind) -> String {
    match kind {
        OpKind::Linear => "linear".to_owned(),
        OpKind::MatMul | OpKind::Einsum | OpKind::Attention => "matmul".to_owned(),
        OpKind::Gelu | OpKind::GeluTanh => "gelu".to_owned(),
        OpKind::Softmax => "softmax".to_owned(),
        OpKind::LayerNorm => "layernorm".to_owned(),
        other => other.family().name().to_owned(),
    }
}

fn summed(models: &[OfModel]) -> Vec<ClassShares> {
    let whole: Vec<f64> = models.iter().map(|m| m.values().map(|t| t.measured).sum()).collect();
    let names: BTreeSet<&String> = models.iter().flat_map(BTreeMap::keys).collect();
    let of = |name: &String| {
        let each: Vec<(Times, f64)> = models
            .iter()
            .zip(&whole)
            .map(|(model, whole)| (model.get(name).copied().unwrap_or_default(), *whole))
            .collect();
        let mean_share =
            each.iter().map(|(t, whole)| t.measured / whole).sum::<f64>() / each.len() as f64;
        let kept = SHARES.iter().map(|&least| kept(&each, least)).collect();
        ClassShares { class: name.clone(), mean_share, kept }
    };
    let mut classes: Vec<ClassShares> = names.into_iter().map(of).collect();
    classes.sort_by(|a, b| b.mean_share.total_cmp(&a.mean_share));
    classes
}

fn kept(each: &[(Times, f64)], least: f64) -> Option<Kept> {
    let has = |(t, whole): &&(Times, f64)| t.measured > 0.0 && t.measured >= least * whole;
    let chosen: Vec<&(Times, f64)> = each.iter().filter(has).collect();
    let mean = |of: fn(&Times, f64) -> f64| {
        chosen.iter().map(|(t, whole)| of(t, *whole)).sum::<f64>() / chosen.len() as f64
    };
    (!chosen.is_empty()).then(|| Kept {
        models: chosen.len(),
        mape: mean(|t, _| (t.forecast - t.measured).abs() / t.measured),
        of_whole: mean(|t, whole| (t.forecast - t.measured).abs() / whole),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(linear: (f64, f64), rest: (f64, f64)) -> OfModel {
        let times = |(forecast, measured)| Times { forecast, measured };
        OfModel::from([("linear".to_owned(), times(linear)), ("gelu".to_owned(), times(rest))])
    }

    #[test]
    fn small_shares_have_large_errors_that_cost_little() {
        let models = [
            // 60 % of the time, 10 % off.
            model((66.0, 60.0), (40.0, 40.0)),
            // 2 % of the time, 200 % off.
            model((6.0, 2.0), (98.0, 98.0)),
        ];
        let classes = summed(&models);
        let [gelu, linear] = &classes[..] else { panic!("two classes") };
        assert_eq!((gelu.class.as_str(), linear.class.as_str()), ("gelu", "linear"));
        assert!((linear.mean_share - 0.31).abs() < 1e-12);
        let at = |least: f64| {
            let place = SHARES.iter().position(|share| *share == least).expect("a share");
            linear.kept[place].expect("models")
        };
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
        assert_eq!((at(0.0).models, at(0.05).models), (2, 1));
        close(at(0.0).mape, 1.05);
        close(at(0.05).mape, 0.1);
        close(at(0.0).of_whole, 0.05);
        close(at(0.05).of_whole, 0.06);
        assert!(kept(&[(Times { forecast: 1.0, measured: 0.0 }, 1.0)], 0.0).is_none());
    }
}
