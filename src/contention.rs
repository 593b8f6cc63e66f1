//! Forecasts of models while another processor is busy, by bundles with a slowdown model:
//! [`Neighbour`], [`predict_beside`].
//!
//! `vitempo train` fits a slowdown model where the dataset has rows beside loads
//! ([`crate::training`]). Without one a bundle says that contention is not known
//! ([`BesideError::Unknown`]): its forecasts are those of a model alone.

use crate::{
    Bundle,
    bundle::Contents,
    models::{self, ModelError},
};
use std::path::Path;
use vitempo_graph::{
    Budget, Environment, Graph, LatencyModel, PredictionError, Processor, onnx::ReadOptions,
};
use vitempo_predictors::contention::{BesidePrediction, Demand, SlowdownModel};

/// What keeps another processor busy.
#[derive(Clone, Debug, PartialEq)]
pub struct Neighbour {
    /// Its name.
    pub name: String,
    /// What it demands, alone.
    pub demand: Demand,
    /// Where it runs; `None`: a load that the bundle was fitted to.
    pub environment: Option<Environment>,
}

/// Why there is no forecast beside a neighbour.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BesideError {
    /// The bundle has no slowdown model.
    #[error("contention is not known: bundle `{0}` has no slowdown model")]
    Unknown(String),
    /// The neighbour runs on another device, or on a processor that no load ran on.
    #[error("bundle `{bundle}` forecasts {what}, the neighbour runs on {found}")]
    Elsewhere {
        /// The bundle.
        bundle: String,
        /// Device and processor of its loads.
        what: String,
        /// Those of the neighbour.
        found: String,
    },
    /// Neither a fitted load nor a model.
    #[error("`{asked}` is neither a load that `{bundle}` was fitted to nor FILE@BUNDLE")]
    NoNeighbour {
        /// As asked for.
        asked: String,
        /// The bundle.
        bundle: String,
        /// The loads it was fitted to.
        known: Vec<String>,
    },
    /// The neighbour's bundle.
    #[error(transparent)]
    Bundle(#[from] crate::BundleError),
    /// The neighbour's file.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A model has no forecast.
    #[error(transparent)]
    Prediction(#[from] PredictionError),
}

impl Bundle {
    /// How much longer its kernels take while another processor is busy; `None`: not known.
    #[must_use]
    pub fn contention(&self) -> Option<&SlowdownModel> {
        match self.contents() {
            Contents::Trained(bundle) => bundle.contention.as_ref(),
            Contents::Adapted(_) => None,
        }
    }

    /// The slowdown model for neighbours in an environment.
    ///
    /// # Errors
    /// [`BesideError::Unknown`] and [`BesideError::Elsewhere`].
    pub fn contention_with(&self, other: &Environment) -> Result<&SlowdownModel, BesideError> {
        let model = self.known_contention()?;
        let own = self.environment();
        if own.device == other.device && model.other == other.processor {
            return Ok(model);
        }
        let described = |device: &str, processor: Processor| format!("{device}, {processor}");
        Err(BesideError::Elsewhere {
            bundle: self.name().to_owned(),
            what: format!("slowdown by {}", described(&own.device, model.other)),
            found: described(&other.device, other.processor),
        })
    }

    fn known_contention(&self) -> Result<&SlowdownModel, BesideError> {
        self.contention().ok_or_else(|| BesideError::Unknown(self.name().to_owned()))
    }

    /// The slowdown model for a neighbour.
    pub(crate) fn contention_beside(
        &self,
        neighbour: &Neighbour,
    ) -> Result<&SlowdownModel, BesideError> {
        match &neighbour.environment {
            Some(other) => self.contention_with(other),
            None => self.contention_with(self.environment()),
        }
    }
}

impl Neighbour {
    /// A model that runs again and again in a bundle's environment.
    ///
    /// # Errors
    /// [`BesideError::Prediction`] where the bundle does not forecast it.
    pub fn model(name: &str, bundle: &Bundle, graph: &Graph) -> Result<Self, BesideError> {
        Ok(Self {
            name: format!("{name}@{}", bundle.name()),
            demand: Demand::of_model(bundle, graph)?,
            environment: Some(bundle.environment().clone()),
        })
    }

    /// What `asked` names for a bundle: a load that it was fitted to, e.g. `stream`, or
    /// `FILE@BUNDLE`, a model that another bundle forecasts.
    ///
    /// # Errors
    /// [`BesideError`] where the bundle has no slowdown model, or `asked` names nothing.
    pub fn named(asked: &str, bundle: &Bundle, options: &ReadOptions) -> Result<Self, BesideError> {
        let model = bundle.known_contention()?;
        if let Some(fitted) = model.load(asked) {
            let (name, demand) = (fitted.load.clone(), fitted.demand);
            return Ok(Self { name, demand, environment: None });
        }
        let Some((file, other)) = asked.rsplit_once('@') else {
            return Err(BesideError::NoNeighbour {
                asked: asked.to_owned(),
                bundle: bundle.name().to_owned(),
                known: model.loads.iter().map(|load| load.load.clone()).collect(),
            });
        };
        let other = Bundle::open(other)?;
        let read = models::read(Path::new(file), options)?;
        let neighbour = Self::model(&read.identity.name, &other, &read.graph)?;
        bundle.contention_with(other.environment())?;
        Ok(neighbour)
    }
}

/// Forecasts a model while a neighbour is busy.
///
/// # Errors
/// [`BesideError`] where contention is not known, or the model has no forecast.
pub fn predict_beside(
    bundle: &Bundle,
    graph: &Graph,
    neighbour: &Neighbour,
) -> Result<BesidePrediction, BesideError> {
    let model = bundle.contention_beside(neighbour)?;
    let (lowered, alone) = bundle.predict_lowered(graph, &Budget::default())?;
    Ok(model.beside(&lowered, &alone, &neighbour.demand))
}

#[cfg(test)]
mod tests;
