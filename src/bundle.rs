//! [`Bundle`]: forecasts latencies in one environment, opened by name or by path. Bundles that were
//! trained on operators and bundles that were adapted from end-to-end latencies have the same
//! interface.
//!
//! ```
//! use vitempo::{Bundle, graph::{LatencyModel, onnx}};
//!
//! let bundle = Bundle::open("bundles/adapted/samsung-galaxy-s24-tflite-npu-f16.vtb")?;
//! let options = onnx::ReadOptions::default();
//! let model = onnx::read_file("tests/models/mobilevit_xxs.onnx".as_ref(), &options)?;
//! let latency = bundle.predict(&model)?.latency;
//! println!("{}: {} [{} .. {}]", bundle.name(), latency.point(), latency.lower(), latency.upper());
//! # assert!(latency.lower().ns() < latency.upper().ns());
//! # assert_eq!(bundle.kind(), vitempo::bundle::Kind::Adapted);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A name is looked up in these places, and the first match is used:
//!
//! 1. the folders of the variable `VITEMPO_BUNDLES`, a path list like `PATH`;
//! 2. `bundles` in vitempo's own folder: `$VITEMPO_HOME`, else `$XDG_DATA_HOME/vitempo`, else
//!    `~/.local/share/vitempo`;
//! 3. `share/vitempo/bundles`, in the folder of the program and in the one above it;
//! 4. the program itself, with the feature `embedded-bundles`.
//!
//! A folder's subfolder `adapted` counts as well. The working directory does not: a name means the
//! same wherever the program is started.
//!
//! | question | where |
//! |---|---|
//! | where is a bundle, and in which order are places searched? | `bundle/location.rs` |
//! | which names are similar to one that does not exist? | `bundle/near.rs` |
//! | which bundles do several names, globs and `all` select? | `bundle/selection.rs` |
//! | why can a bundle not be opened? | `bundle/error.rs` |

mod error;
mod location;
pub(crate) mod near;
mod selection;

pub use error::BundleError;
pub use location::files_in;
pub use location::{EXTENSION, Location, VARIABLE, unusable_listed_folders};
pub use selection::{ALL, Selection};

use serde::Serialize;
use std::{borrow::Cow, fmt, path::Path, sync::Arc};
use vitempo_graph::{
    Budget, Environment, Graph, GraphPrediction, Latency, LatencyModel, OpSpec, Origin, Precision,
    PredictionError, PredictionSource, Processor,
};
use vitempo_predictors::{
    AdaptedBundle, PredictorBundle,
    memory::{EngineMemory, MemoryForecast},
};

/// How a bundle was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Trained on measured operators: it forecasts the kernels that an engine runs.
    Trained,
    /// Adapted from end-to-end latencies: it forecasts operators as a model's file has them.
    Adapted,
}

impl Kind {
    /// `trained` or `adapted`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Trained => "trained",
            Self::Adapted => "adapted",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The contents of a bundle, by its kind.
#[derive(Clone, Debug)]
pub enum Contents {
    /// See [`Kind::Trained`].
    Trained(Arc<PredictorBundle>),
    /// See [`Kind::Adapted`].
    Adapted(Arc<AdaptedBundle>),
}

/// A bundle of either kind, with its name. Copies share their contents.
#[derive(Clone, Debug)]
pub struct Bundle {
    name: String,
    location: Location,
    digest: String,
    file_size: u64,
    contents: Contents,
}

/// A bundle that a name finds.
#[derive(Clone, Debug, Serialize)]
pub struct BundleRow {
    /// The name for [`Bundle::open`].
    pub name: String,
    /// Where it is.
    pub location: Location,
    /// How it came about.
    pub kind: Kind,
    /// Where its forecasts hold.
    pub environment: Environment,
}

/// What a list of bundles shows of one, for programs in which people choose among them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BundleCard {
    /// Its name.
    pub name: String,
    /// How it came about.
    pub kind: Kind,
    /// What was fitted.
    pub method: &'static str,
    /// The origin of the latencies it was made from.
    pub origin: Origin,
    /// Level of its intervals, between 0 and 1.
    pub level: f64,
    /// Name of the device.
    pub device: String,
    /// Which of its processors runs.
    pub processor: Processor,
    /// The inference engine.
    pub framework: String,
    /// Its version.
    pub framework_version: String,
    /// Threads that compute inside one operator.
    pub threads: usize,
    /// Precision.
    pub precision: Precision,
    /// The environment in words.
    pub description: String,
    /// BLAKE3 of its file, in hexadecimal.
    pub digest: String,
}

/// BLAKE3, in hexadecimal.
fn digest(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

impl Bundle {
    /// Opens a bundle by its name, or by the path of its file.
    ///
    /// # Errors
    /// [`BundleError::Unknown`] with similar names, or as [`Bundle::load`].
    pub fn open(bundle: impl AsRef<Path>) -> Result<Self, BundleError> {
        Self::load(Location::find(bundle)?)
    }

    /// Reads and checks the bundle at a location.
    ///
    /// # Errors
    /// [`BundleError::Read`] for a file that cannot be read, [`BundleError::Format`] for one that
    /// is not a usable bundle.
    pub fn load(location: Location) -> Result<Self, BundleError> {
        let bytes = location.read()?;
        let digest = digest(&bytes);
        Self::decode(location, &bytes, digest)
    }

    /// Checks a bundle whose bytes the caller has, for example of an upload; `location` names it, in
    /// errors as well, and is not read.
    ///
    /// # Errors
    /// [`BundleError::Format`] for bytes that are not a usable bundle.
    pub fn from_bytes(location: impl Into<Location>, bytes: &[u8]) -> Result<Self, BundleError> {
        Self::decode(location.into(), bytes, digest(bytes))
    }

    /// Reads its file again. Where the file has the same bytes, the result shares the contents.
    ///
    /// # Errors
    /// As [`Bundle::load`].
    pub fn again(&self) -> Result<Self, BundleError> {
        let bytes = self.location.read()?;
        let digest = digest(&bytes);
        if digest == self.digest {
            return Ok(self.clone());
        }
        Self::decode(self.location.clone(), &bytes, digest)
    }

    fn decode(location: Location, bytes: &[u8], digest: String) -> Result<Self, BundleError> {
        let contents = if AdaptedBundle::is_on(bytes) {
            AdaptedBundle::from_bytes(bytes).map(|bundle| Contents::Adapted(Arc::new(bundle)))
        } else {
            PredictorBundle::from_bytes(bytes).map(|bundle| Contents::Trained(Arc::new(bundle)))
        };
        match contents {
            Ok(contents) => {
                let (name, file_size) = (location.name(), bytes.len() as u64);
                Ok(Self { name, digest, file_size, location, contents })
            }
            Err(reason) => Err(BundleError::Format { location, reason }),
        }
    }

    /// Opens every bundle that a name finds, one after the other in the order of names.
    pub fn all() -> impl Iterator<Item = Result<Self, BundleError>> {
        Location::by_name().into_values().map(Self::load)
    }

    /// The bundles that names find, in the order of names; an error for each that cannot be
    /// opened.
    #[must_use]
    pub fn list() -> Vec<Result<BundleRow, BundleError>> {
        Self::all().map(|bundle| bundle.map(|bundle| bundle.row())).collect()
    }

    fn row(self) -> BundleRow {
        let (kind, environment) = (self.kind(), self.environment().clone());
        BundleRow { name: self.name, location: self.location, kind, environment }
    }

    /// What a list shows of it.
    #[must_use]
    pub fn card(&self) -> BundleCard {
        let of = self.environment();
        BundleCard {
            name: self.name.clone(),
            kind: self.kind(),
            method: self.method(),
            origin: self.origin(),
            level: self.level(),
            device: of.device.clone(),
            processor: of.processor,
            framework: of.framework.clone(),
            framework_version: of.framework_version.clone(),
            threads: of.threads,
            precision: of.precision,
            description: of.describe(),
            digest: self.digest.clone(),
        }
    }

    /// Its name: that of its file without `.vtb`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it was read.
    #[must_use]
    pub fn location(&self) -> &Location {
        &self.location
    }

    /// BLAKE3 of its file, in hexadecimal.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// The bytes of its file as they are now; they may have changed since it was read.
    ///
    /// # Errors
    /// [`BundleError::Read`] where the file cannot be read.
    pub fn file(&self) -> Result<Cow<'static, [u8]>, BundleError> {
        self.location.read()
    }

    /// The length of its file when it was read, bytes.
    #[must_use]
    pub fn file_size(&self) -> u64 {
        self.file_size
    }

    /// Its contents.
    #[must_use]
    pub fn contents(&self) -> &Contents {
        &self.contents
    }

    /// How it came about.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self.contents {
            Contents::Trained(_) => Kind::Trained,
            Contents::Adapted(_) => Kind::Adapted,
        }
    }

    /// The bundle as one that was trained; `None` for one that was adapted.
    #[must_use]
    pub fn trained(&self) -> Option<&Arc<PredictorBundle>> {
        match &self.contents {
            Contents::Trained(bundle) => Some(bundle),
            Contents::Adapted(_) => None,
        }
    }

    /// The bundle as one that was adapted; `None` for one that was trained.
    #[must_use]
    pub fn adapted(&self) -> Option<&Arc<AdaptedBundle>> {
        match &self.contents {
            Contents::Trained(_) => None,
            Contents::Adapted(bundle) => Some(bundle),
        }
    }

    /// What was fitted: the regressors of a trained bundle, or `adapted`.
    #[must_use]
    pub fn method(&self) -> &'static str {
        match &self.contents {
            Contents::Trained(bundle) => bundle.method.name(),
            Contents::Adapted(_) => Kind::Adapted.name(),
        }
    }

    /// The origin of the latencies it was made from.
    #[must_use]
    pub fn origin(&self) -> Origin {
        match &self.contents {
            Contents::Trained(bundle) => bundle.origin,
            Contents::Adapted(bundle) => bundle.origin,
        }
    }

    /// Level of its intervals, between 0 and 1.
    #[must_use]
    pub fn level(&self) -> f64 {
        match &self.contents {
            Contents::Trained(bundle) => bundle.interval.level,
            Contents::Adapted(bundle) => bundle.level(),
        }
    }

    /// Forecasts of several models, in their order; equal to those of [`LatencyModel::predict`],
    /// whose error a model without a forecast has in its place.
    pub fn predict_each<'g>(
        &self,
        graphs: impl IntoIterator<Item = &'g Graph>,
    ) -> Vec<Result<GraphPrediction, PredictionError>> {
        match &self.contents {
            Contents::Trained(bundle) => bundle.predict_each(graphs),
            Contents::Adapted(bundle) => graphs.into_iter().map(|g| bundle.predict(g)).collect(),
        }
    }

    /// The same, each graph within a budget of its own, for untrusted graphs and for requests with
    /// a deadline; a graph has an error as well where its budget ends.
    pub fn predict_each_within<'g>(
        &self,
        graphs: impl IntoIterator<Item = &'g Graph>,
        budget: &dyn Fn() -> Budget,
    ) -> Vec<Result<GraphPrediction, PredictionError>> {
        match &self.contents {
            Contents::Trained(bundle) => bundle.predict_each_within(graphs, budget),
            Contents::Adapted(bundle) => {
                graphs.into_iter().map(|graph| bundle.predict_within(graph, &budget())).collect()
            }
        }
    }

    /// The memory that its engine takes for a model, from the kernels of
    /// [`LatencyModel::predict_lowered`]; `None` where the engine's memory is not known.
    #[must_use]
    pub fn memory(&self, model: &Graph, kernels: &Graph) -> Option<MemoryForecast> {
        Some(EngineMemory::of(self.environment())?.forecast(model, kernels))
    }

    /// The forecast of a model with its memory, where that of the engine is known.
    ///
    /// # Errors
    /// As [`LatencyModel::predict_lowered`].
    pub fn predict_with_memory(
        &self,
        model: &Graph,
        budget: &Budget,
    ) -> Result<(GraphPrediction, Option<MemoryForecast>), PredictionError> {
        let (kernels, prediction) = self.predict_lowered(model, budget)?;
        Ok((prediction, self.memory(model, &kernels)))
    }

    /// What a list of bundles has of it, as the program and the Python package write it.
    #[must_use]
    pub fn summary(&self) -> serde_json::Value {
        let mut row = serde_json::json!({
            "name": self.name(),
            "location": self.location(),
            "kind": self.kind(),
            "environment": self.environment().id(),
            "method": self.method(),
            "origin": self.origin(),
            "digest": self.digest(),
        });
        match &self.contents {
            Contents::Adapted(bundle) => row["models"] = bundle.measured.len().into(),
            Contents::Trained(bundle) => {
                row["models"] = bundle.provenance.models.into();
                row["held_out"] = bundle.held_out.summary();
            }
        }
        row
    }

    fn model(&self) -> &dyn LatencyModel {
        match &self.contents {
            Contents::Trained(bundle) => &**bundle,
            Contents::Adapted(bundle) => &**bundle,
        }
    }
}

/// Models that a bundle was trained on, without the networks around single operators.
#[must_use]
pub fn whole_models(bundle: &PredictorBundle) -> usize {
    let end_to_end = bundle.held_out.e2e.as_ref().or(bundle.held_out.e2e_executed.as_ref());
    end_to_end.map_or(0, |evaluation| evaluation.models)
}

impl LatencyModel for Bundle {
    fn environment(&self) -> &Environment {
        self.model().environment()
    }

    fn predict_operator(&self, op: &OpSpec) -> (Latency, PredictionSource) {
        self.model().predict_operator(op)
    }

    fn predict_within(
        &self,
        graph: &Graph,
        budget: &Budget,
    ) -> Result<GraphPrediction, PredictionError> {
        self.model().predict_within(graph, budget)
    }

    fn lowered(&self, graph: &Graph) -> Result<Graph, PredictionError> {
        self.model().lowered(graph)
    }

    fn predict_lowered(
        &self,
        graph: &Graph,
        budget: &Budget,
    ) -> Result<(Graph, GraphPrediction), PredictionError> {
        self.model().predict_lowered(graph, budget)
    }
}
