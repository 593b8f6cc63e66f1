//! [`SpaceModel`]: a latency model over a whole search space, and its [`Forecasts`].
//!
//! Tables answer for bundles of either kind. The latency by a trained bundle follows from a sum over
//! kernels; that by an adapted one from such sums under each hypothesis about the device
//! (`vitempo_predictors::adapt::Sums`).

use super::{AdaptedLatencies, Latencies, Meter, QueryError, Statistics, Tables};
use crate::bundle::{Bundle, Contents};
use std::{borrow::Borrow, fmt, sync::Arc};
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
        Forecasts::trained(Held::Borrowed(self), space)
    }
}

impl SpaceModel for AdaptedBundle {
    fn over<'m>(&'m self, space: &Space) -> Forecasts<'m> {
        Forecasts::adapted(Held::Borrowed(self), space)
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

/// A bundle, borrowed or shared.
#[derive(Debug)]
enum Held<'m, B> {
    Borrowed(&'m B),
    Shared(Arc<B>),
}

impl<B> Borrow<B> for Held<'_, B> {
    fn borrow(&self) -> &B {
        match self {
            Self::Borrowed(bundle) => bundle,
            Self::Shared(bundle) => bundle,
        }
    }
}

/// End-to-end forecasts of a space's architectures.
pub struct Forecasts<'m>(Way<'m>);

enum Way<'m> {
    Trained(Box<Tables<Latencies<Held<'m, PredictorBundle>>>>),
    Adapted(Box<Tables<AdaptedLatencies<Held<'m, AdaptedBundle>>>>),
}

impl fmt::Debug for Forecasts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Way::Trained(tables) => tables.fmt(f),
            Way::Adapted(tables) => tables.fmt(f),
        }
    }
}

impl<'m> Forecasts<'m> {
    fn trained(bundle: Held<'m, PredictorBundle>, space: &Space) -> Self {
        Self(Way::Trained(Box::new(Tables::new(space, Latencies(bundle)))))
    }

    fn adapted(bundle: Held<'m, AdaptedBundle>, space: &Space) -> Self {
        Self(Way::Adapted(Box::new(Tables::new(space, AdaptedLatencies(bundle)))))
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
            Way::Trained(tables) => tables.predict_encodings(encodings),
            Way::Adapted(tables) => tables.predict_encodings(encodings),
        }
    }

    /// As [`Forecasts::predict_batch`]; `inside`: all are known to be of the space.
    pub(crate) fn predict_where(
        &mut self,
        architectures: &[Architecture],
        inside: bool,
    ) -> Result<Vec<Prediction>, QueryError> {
        match &mut self.0 {
            Way::Trained(tables) => tables.predict_where(architectures, inside),
            Way::Adapted(tables) => tables.predict_where(architectures, inside),
        }
    }

    /// Statistics of the tables so far.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        match &self.0 {
            Way::Trained(tables) => tables.statistics(),
            Way::Adapted(tables) => tables.statistics(),
        }
    }

    /// Bytes that the tables take, about.
    pub(super) fn bytes(&self) -> usize {
        match &self.0 {
            Way::Trained(tables) => tables.bytes(),
            Way::Adapted(tables) => tables.bytes(),
        }
    }
}

impl Forecasts<'static> {
    /// Forecasts that keep their bundle.
    pub(super) fn keeping(bundle: &Bundle, space: &Space) -> Self {
        match bundle.contents() {
            Contents::Trained(bundle) => Self::trained(Held::Shared(bundle.clone()), space),
            Contents::Adapted(bundle) => Self::adapted(Held::Shared(bundle.clone()), space),
        }
    }
}

/// Whether tables can answer for a bundle.
pub(super) fn is_local(bundle: &Bundle) -> bool {
    match bundle.contents() {
        Contents::Trained(bundle) => Latencies(bundle.as_ref()).is_local(),
        Contents::Adapted(bundle) => AdaptedLatencies(bundle.as_ref()).is_local(),
    }
}

/// The forecast of one architecture, by its graph.
pub(super) fn by_graph(
    bundle: &Bundle,
    architecture: &Architecture,
) -> Result<Prediction, QueryError> {
    let graph = architecture.to_graph()?;
    match bundle.contents() {
        Contents::Trained(bundle) => Ok(bundle.predict(&graph)?.latency),
        Contents::Adapted(bundle) => Ok(bundle.checked_latency(&graph)?),
    }
}
