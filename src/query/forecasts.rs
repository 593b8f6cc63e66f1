//! [`SpaceModel`]: a latency model over a whole search space, and its [`Forecasts`].
//!
//! Tables answer for bundles that were trained: the latency of a model is a function of a sum over
//! its kernels. The forecast of an adapted bundle is not: it is the mean of logarithms over
//! hypotheses, with a slope over the whole model and corrections weighted by each operator's share
//! of the time. Graphs answer for it, one by one: the answers are those of `predict`, bit for bit.

use super::{Latencies, QueryError, Statistics, Tables};
use crate::bundle::{Bundle, Contents};
use std::fmt;
use vitempo_graph::{LatencyModel, Prediction};
use vitempo_predictors::{AdaptedBundle, PredictorBundle};
use vitempo_search_space::{Architecture, Space};

/// A latency model over the architectures of a space.
pub trait SpaceModel: LatencyModel + fmt::Debug {
    /// Forecasts of the architectures of `space`.
    fn over<'m>(&'m self, space: &Space) -> Forecasts<'m>;
}

impl SpaceModel for PredictorBundle {
    fn over<'m>(&'m self, space: &Space) -> Forecasts<'m> {
        Forecasts(Way::Tables(Box::new(Tables::of(space, self))))
    }
}

impl SpaceModel for AdaptedBundle {
    fn over<'m>(&'m self, space: &Space) -> Forecasts<'m> {
        Forecasts(Way::Graphs { space: Box::new(space.clone()), model: self })
    }
}

impl SpaceModel for Bundle {
    fn over<'m>(&'m self, space: &Space) -> Forecasts<'m> {
        match self.contents() {
            Contents::Trained(bundle) => bundle.over(space),
            Contents::Adapted(bundle) => bundle.over(space),
        }
    }
}

/// End-to-end forecasts of a space's architectures.
pub struct Forecasts<'m>(Way<'m>);

enum Way<'m> {
    Tables(Box<Tables<Latencies<&'m PredictorBundle>>>),
    Graphs { space: Box<Space>, model: &'m dyn LatencyModel },
}

impl fmt::Debug for Forecasts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Way::Tables(tables) => tables.fmt(f),
            Way::Graphs { space, .. } => {
                f.debug_struct("Graphs").field("space", &space.name()).finish_non_exhaustive()
            }
        }
    }
}

impl Forecasts<'_> {
    /// Forecasts for architectures, in their order.
    ///
    /// # Errors
    /// [`QueryError`] for an architecture that cannot be built, or a bundle whose framework has no
    /// lowering rules.
    pub fn predict_batch(
        &mut self,
        architectures: &[Architecture],
    ) -> Result<Vec<Prediction>, QueryError> {
        self.predict_where(architectures, false)
    }

    /// The same for encodings (`hv1-288x224-k2-...`).
    ///
    /// # Errors
    /// [`QueryError::Space`] naming the encoding that cannot be read or is not in the space.
    pub fn predict_encodings<S: AsRef<str>>(
        &mut self,
        encodings: &[S],
    ) -> Result<Vec<Prediction>, QueryError> {
        match &mut self.0 {
            Way::Tables(tables) => tables.predict_encodings(encodings),
            Way::Graphs { space, model } => encodings
                .iter()
                .map(|encoding| by_graph(*model, &space.decode(encoding.as_ref())?))
                .collect(),
        }
    }

    /// As [`Forecasts::predict_batch`]; `inside`: all are known to be of the space.
    pub(crate) fn predict_where(
        &mut self,
        architectures: &[Architecture],
        inside: bool,
    ) -> Result<Vec<Prediction>, QueryError> {
        match &mut self.0 {
            Way::Tables(tables) => tables.predict_where(architectures, inside),
            Way::Graphs { model, .. } => {
                architectures.iter().map(|architecture| by_graph(*model, architecture)).collect()
            }
        }
    }

    /// Statistics of the tables so far; `None` if every answer comes from a graph.
    #[must_use]
    pub fn statistics(&self) -> Option<Statistics> {
        match &self.0 {
            Way::Tables(tables) => Some(tables.statistics()),
            Way::Graphs { .. } => None,
        }
    }
}

/// The forecast of one architecture, by its graph.
pub(super) fn by_graph(
    model: &dyn LatencyModel,
    architecture: &Architecture,
) -> Result<Prediction, QueryError> {
    Ok(model.predict(&architecture.to_graph()?)?.latency)
}
