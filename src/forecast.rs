//! Forecasts of several models by one bundle, and what a forecast consists of:
//! [`forecast_each`]. [`forecast_on_each`] takes several bundles, [`compare`] shows how two models
//! differ, [`explain`] how the forecast of one node comes about.
//!
//! ```
//! use vitempo::{Bundle, forecast::forecast_each, graph::onnx::ReadOptions, models};
//!
//! let options = ReadOptions::default();
//! let models = models::read_all(&["tests/models/mobilevit_xxs.onnx"], &options)?;
//! let bundle = Bundle::open("bundles/epyc-onnxruntime-f32-1t.vtb")?;
//! let forecasts = forecast_each(&bundle, models, &options);
//! for forecast in &forecasts.forecasts {
//!     let slowest = &forecast.by_kind()[0];
//!     println!("{}: {} in {}", forecast.model.identity.name, slowest.latency, slowest.kind);
//!     assert!(forecast.trained_share() > 0.9);
//! }
//! # assert!(forecasts.left_out.is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod blocks;
mod comparison;
mod coverage;
mod devices;
mod explanation;

pub use blocks::Block;
pub use comparison::{Comparison, KernelChange, KindChange, UnmatchedKernel, compare};
pub use coverage::{Coverage, Unsupported, unsupported_operators, unsupported_reasons};
pub use devices::{DeviceForecast, DeviceForecasts, ModelOnDevices, forecast_on_each};
pub use explanation::{
    Cause, CoveredNode, ExplainError, KernelExplanation, NodeExplanation, explain,
};

use crate::{
    Bundle,
    contention::{BesideError, Neighbour},
    models::{Model, ModelError, Models},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};
use vitempo_graph::{
    Graph, GraphPrediction, Latency, LatencyModel, OperatorPrediction, PredictionError,
    onnx::ReadOptions,
};
use vitempo_predictors::{
    adapt::{ListedModel, Match},
    contention::BesidePrediction,
    memory::MemoryForecast,
};

/// Forecasts of models, and those that have none.
#[derive(Debug, Default)]
pub struct ModelForecasts {
    /// In the order of the models.
    pub forecasts: Vec<ModelForecast>,
    /// Files without a forecast, with the reason; those that cannot be read come first.
    pub left_out: Vec<(PathBuf, ForecastError)>,
}

/// Why a model has no forecast.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ForecastError {
    /// It cannot be read.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The bundle does not forecast it.
    #[error(transparent)]
    Prediction(#[from] PredictionError),
}

/// One model's forecast.
#[derive(Debug)]
pub struct ModelForecast {
    /// The model.
    pub model: Model,
    /// Its latency with an interval, and that of each kernel.
    pub prediction: GraphPrediction,
    /// What the bundle lists for it, where it was adapted from latencies of such a model.
    pub listed: Option<Listed>,
    /// Its memory, where that of the bundle's engine is known.
    pub memory: Option<MemoryForecast>,
    /// Its latency beside a neighbour, where one was given.
    pub beside: Option<BesideForecast>,
}

/// A model's forecast beside a neighbour.
#[derive(Clone, Debug, PartialEq)]
pub struct BesideForecast {
    /// Name of the neighbour.
    pub neighbour: String,
    /// How much slower the model is, and its latency.
    pub forecast: BesidePrediction,
}

/// A latency that a bundle lists.
#[derive(Clone, Debug, PartialEq)]
pub enum Listed {
    /// Measured on this graph.
    SameGraph(Latency),
    /// Measured on another graph of the model.
    OtherGraph(ListedModel),
}

/// The kernels of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct KindLatency {
    /// Name of the kind.
    pub kind: String,
    /// How many there are.
    pub count: usize,
    /// What they take together.
    pub latency: Latency,
}

/// Forecasts each model that can be read, within the limits of `options`.
#[must_use]
pub fn forecast_each(bundle: &Bundle, models: Models, options: &ReadOptions) -> ModelForecasts {
    each(bundle, models, options, None)
}

/// [`forecast_each`], and the latencies beside a neighbour.
///
/// # Errors
/// [`BesideError`] where the bundle's contention with the neighbour is not known.
pub fn forecast_each_beside(
    bundle: &Bundle,
    models: Models,
    options: &ReadOptions,
    neighbour: &Neighbour,
) -> Result<ModelForecasts, BesideError> {
    let model = bundle.contention_beside(neighbour)?;
    let beside = |lowered: &Graph, alone: &GraphPrediction| {
        let forecast = model.beside(lowered, alone, &neighbour.demand);
        BesideForecast { neighbour: neighbour.name.clone(), forecast }
    };
    Ok(each(bundle, models, options, Some(&beside)))
}

/// The forecast of a lowered graph beside a neighbour, from that alone.
type Beside<'a> = &'a dyn Fn(&Graph, &GraphPrediction) -> BesideForecast;

/// The forecast of one model, within the limits of `options`.
///
/// # Errors
/// [`PredictionError`] where the bundle does not forecast the model.
pub fn forecast(
    bundle: &Bundle,
    model: Model,
    options: &ReadOptions,
) -> Result<ModelForecast, PredictionError> {
    one(bundle, model, options, None).map_err(|(_, error)| error)
}

fn each(
    bundle: &Bundle,
    models: Models,
    options: &ReadOptions,
    beside: Option<Beside<'_>>,
) -> ModelForecasts {
    let Models { read, unreadable } = models;
    let mut forecasts = Vec::new();
    let mut left_out: Vec<(PathBuf, ForecastError)> =
        unreadable.into_iter().map(|(path, error)| (path, error.into())).collect();
    for model in read {
        match one(bundle, model, options, beside) {
            Ok(forecast) => forecasts.push(forecast),
            Err((path, error)) => left_out.push((path, error.into())),
        }
    }
    ModelForecasts { forecasts, left_out }
}

/// The forecast of one model, or its path with the reason.
fn one(
    bundle: &Bundle,
    model: Model,
    options: &ReadOptions,
    beside: Option<Beside<'_>>,
) -> Result<ModelForecast, (PathBuf, PredictionError)> {
    match bundle.predict_lowered(&model.graph, &options.budget()) {
        Ok((kernels, prediction)) => {
            let listed = listed(bundle, &model);
            let memory = bundle.memory(&model.graph, &kernels);
            let beside = beside.map(|beside| beside(&kernels, &prediction));
            Ok(ModelForecast { model, prediction, listed, memory, beside })
        }
        Err(error) => Err((model.path, error)),
    }
}

fn listed(bundle: &Bundle, model: &Model) -> Option<Listed> {
    Some(match bundle.adapted()?.listed(&model.identity.name, &model.graph)? {
        Match::SameGraph(listed) => Listed::SameGraph(Latency::from_ns(listed.latency_ns)),
        Match::OtherGraph(listed) => Listed::OtherGraph(listed.clone()),
    })
}

impl ModelForecast {
    /// The latency that was measured on this graph, where the bundle lists it.
    #[must_use]
    pub fn measured(&self) -> Option<Latency> {
        match self.listed {
            Some(Listed::SameGraph(latency)) => Some(latency),
            _ => None,
        }
    }

    /// The same as one of several devices' forecasts.
    #[must_use]
    pub fn on_device(self, bundle: &Bundle) -> ModelOnDevices {
        let forecast = DeviceForecast {
            bundle: bundle.name().to_owned(),
            kind: bundle.kind(),
            environment: bundle.environment().clone(),
            latency: self.prediction.latency,
            coverage: Coverage::of(&self.model.graph, &self.prediction),
        };
        ModelOnDevices { model: self.model, forecasts: vec![forecast], left_out: Vec::new() }
    }

    /// Share of the kernels' time that trained predictors forecast.
    #[must_use]
    pub fn trained_share(&self) -> f64 {
        1.0 - self.share(self.prediction.fallbacks())
    }

    /// Share of the kernels' time that lies outside of the training data.
    #[must_use]
    pub fn extrapolating_share(&self) -> f64 {
        self.share(self.prediction.extrapolating())
    }

    fn share<'a>(&self, operators: impl Iterator<Item = &'a OperatorPrediction>) -> f64 {
        let all: Latency = self.prediction.operators.iter().map(|o| o.latency_ns).sum();
        let these: Latency = operators.map(|o| o.latency_ns).sum();
        these.ns() / all.ns().max(f64::MIN_POSITIVE)
    }

    /// Kinds without a trained predictor, which one can be trained for.
    #[must_use]
    pub fn fallback_kinds(&self) -> BTreeSet<&str> {
        let is_known =
            |o: &&OperatorPrediction| !matches!(o.kind, vitempo_graph::OpKind::Unsupported(_));
        self.prediction.fallbacks().filter(is_known).map(|o| o.kind.name()).collect()
    }

    /// Kinds of which a kernel lies outside of the training data.
    #[must_use]
    pub fn extrapolating_kinds(&self) -> BTreeSet<&str> {
        self.prediction.extrapolating().map(|o| o.kind.name()).collect()
    }

    /// Kernels by kind, those that take longest first.
    #[must_use]
    pub fn by_kind(&self) -> Vec<KindLatency> {
        let mut kinds: BTreeMap<&str, (usize, Latency)> = BTreeMap::new();
        for operator in &self.prediction.operators {
            let entry = kinds.entry(operator.kind.name()).or_default();
            *entry = (entry.0 + 1, entry.1 + operator.latency_ns);
        }
        let row = |(kind, (count, latency)): (&str, _)| KindLatency {
            kind: kind.to_owned(),
            count,
            latency,
        };
        let mut rows: Vec<KindLatency> = kinds.into_iter().map(row).collect();
        rows.sort_by(|a, b| b.latency.ns().total_cmp(&a.latency.ns()));
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models;

    #[test]
    fn what_cannot_be_read_comes_with_its_reason() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let named = |name: &str| root.join(name).display().to_string();
        let paths = [named("tests/models/mobilevit_xxs.onnx"), named("Cargo.toml")];
        let options = ReadOptions::default();
        let read = models::read_all(&paths, &options).expect("two files");
        let bundle = Bundle::open(root.join("bundles/epyc-onnxruntime-f32-1t.vtb"))
            .expect("a bundle that ships");
        let ModelForecasts { forecasts, left_out } = forecast_each(&bundle, read, &options);
        assert!(matches!(&left_out[..], [(path, ForecastError::Model(_))]
            if path.ends_with("Cargo.toml")));
        let [forecast] = &forecasts[..] else { panic!("one forecast") };
        let kinds = forecast.by_kind();
        let total: Latency = kinds.iter().map(|row| row.latency).sum();
        let all: Latency = forecast.prediction.operators.iter().map(|o| o.latency_ns).sum();
        assert!((total.ns() - all.ns()).abs() < 1e-3 * all.ns());
        assert!(kinds.windows(2).all(|pair| pair[0].latency.ns() >= pair[1].latency.ns()));
        assert!(forecast.measured().is_none() && forecast.listed.is_none());
    }
}
