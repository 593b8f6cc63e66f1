//! Forecasts for a whole search space at the speed of a search: from the encoding of an
//! architecture to its latency with an interval, without its graph.
//!
//! ```
//! use vitempo::{query::Tables, search_space::Space};
//!
//! # use vitempo::{datasets::Dataset, predictors::{Method, TrainOptions, train}};
//! # let folder = std::path::Path::new("datasets/measured/epyc-engines-20-models");
//! # let environments = Dataset::environments(folder)?;
//! # let id = environments.keys().find(|id| id.contains("onnxruntime")).ok_or("no such environment")?;
//! # let data = Dataset::load_environment(folder, |environment| environment == id)?;
//! # let bundle = train(&data.profiles, &data.graphs, Method::Lasso, &TrainOptions { folds: 2, ..TrainOptions::default() }, &mut |_| {})?;
//! let space = Space::named("hybrid-vit")?;
//! let architectures = space.sample_many(50, 7)?;
//! let mut tables = Tables::of(&space, &bundle);
//! let forecasts = tables.predict_batch(&architectures)?;
//! let pairs = architectures.iter().zip(&forecasts);
//! if let Some((architecture, forecast)) = pairs.min_by(|a, b| a.1.point().ns().total_cmp(&b.1.point().ns())) {
//!     println!("{architecture}: {} [{} .. {}]", forecast.point(), forecast.lower(), forecast.upper());
//! }
//! # assert_eq!(forecasts.len(), 50);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | question | where |
//! |---|---|
//! | which quantity is added up over the kernels of a model? | `meter` |
//! | which parts does an architecture have, and which kernels does each add? | `link` |
//! | how do the numbers of a kernel follow from those of an encoding? | `numbers`, `formula`, `pattern` |
//! | which kernels of parts are the same, so that they are computed once? | `template`, `pool` |
//! | what are their sums? | `rows` |
//! | how are sums found quickly? | `table` |
//! | what is known of a class of parts? | `known` |
//! | how is an architecture looked up? | `asked`, `lookup` |
//! | how are queries answered, and how are answers checked? | `tables` |
//! | which tables does a bundle of either kind have? | `forecasts` |
//! | how do several threads share tables? | [`SharedForecasts`] |
//!
//! Answers of tables equal those of `PredictorBundle::predict` except for the order of the sum:
//! they differ by less than 1e-12 of the latency. [`SpaceModel`] takes bundles of either kind.

mod asked;
mod forecasts;
mod formula;
mod known;
mod link;
mod lookup;
mod meter;
mod numbers;
mod pattern;
mod pool;
mod rows;
mod shared;
mod table;
mod tables;
mod template;

pub use forecasts::{Forecasts, SpaceModel};
pub use meter::{AdaptedLatencies, Amount, Forecasting, Latencies, Meter, Size, Sizes};
pub use shared::SharedForecasts;
pub use tables::{Statistics, Tables};

use tables::TOGETHER;
use vitempo_graph::{Prediction, PredictionError};
use vitempo_predictors::PredictorBundle;
use vitempo_search_space::{Architecture, Space, SpaceError};

/// Why an architecture has no forecast.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// The architecture is not in the space.
    #[error(transparent)]
    Space(#[from] SpaceError),
    /// The bundle cannot forecast it.
    #[error(transparent)]
    Prediction(#[from] PredictionError),
}

impl<'b> Tables<Latencies<&'b PredictorBundle>> {
    /// Latencies of a space's architectures in the environment of a bundle.
    #[must_use]
    pub fn of(space: &Space, bundle: &'b PredictorBundle) -> Self {
        Self::new(space, Latencies(bundle))
    }
}

impl<M: Forecasting> Tables<M> {
    /// End-to-end forecasts for architectures, in their order.
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
        let mut forecasts = Vec::with_capacity(encodings.len());
        for some in encodings.chunks(TOGETHER) {
            let architectures = some
                .iter()
                .map(|text| self.space().decode(text.as_ref()))
                .collect::<Result<Vec<_>, _>>()?;
            forecasts.extend(self.predict_where(&architectures, true)?);
        }
        Ok(forecasts)
    }

    /// As [`Tables::predict_batch`]; `inside`: all are known to be of the space.
    pub(crate) fn predict_where(
        &mut self,
        architectures: &[Architecture],
        inside: bool,
    ) -> Result<Vec<Prediction>, QueryError> {
        let sums = self.sums_where(architectures, inside)?;
        Ok(sums.iter().map(|sum| self.meter().end_to_end(sum)).collect())
    }
}
