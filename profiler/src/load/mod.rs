//! Loads: what runs on other cores while models are measured ([`Sweep::beside`]).
//!
//! | load | traffic and arithmetic |
//! |---|---|
//! | `stream` | the triad `a = b + s c` over three arrays that together are larger than the last-level cache: 12 bytes and 2 FLOP per element |
//! | `matmul` | products of matrices that fit into the cache of a core, by the embedded engine rten |
//! | a model | the work of the kernels that its engine runs, per second |
//!
//! A load runs in a worker process of its own ([`LoadWorker`]), pinned to cores that the measured
//! models do not have. It reports what it did since it was last asked ([`Tally`]).
//!
//! | question | where |
//! |---|---|
//! | how is a load named? | [`LoadSpec`] |
//! | what runs in the worker? | `running`, `stream` |
//! | how does a host drive it, and record it beside rows? | [`LoadWorker`], `beside` |
//!
//! [`Sweep::beside`]: crate::Sweep::beside

mod beside;
mod driven;
mod running;
mod spec;
mod stream;

pub(crate) use beside::Companion;
pub use beside::{Beside, load_cores};
pub use driven::{Drive, LoadError, LoadWorker, Prepared};
pub(crate) use running::Running;
pub use running::Tally;
pub use spec::{LoadSpec, LoadSpecError, StreamSpec};
pub(crate) use stream::parse_size;

use crate::{backends::RunOptions, source::Source};
use serde::{Deserialize, Serialize};
use vitempo_graph::{Graph, GraphBuilder, GraphError, ModelIdentity, TensorSpec};

/// Rows, columns and depth of the products of `matmul`: three matrices take 0.4 MB.
const SIDE: usize = 192;
/// Products that follow each other in one run.
const PRODUCTS: usize = 2;
/// The engine that runs `matmul`.
const EMBEDDED: &str = "rten";

/// A load.
#[derive(Clone, Debug)]
pub enum Load {
    /// The triad over a large buffer.
    Stream(StreamSpec),
    /// Matrix products in the cache.
    Matmul,
    /// A model, run after run.
    Model(Box<LoadModel>),
}

/// A model that is a load.
#[derive(Clone, Debug)]
pub struct LoadModel {
    /// Which model.
    pub identity: ModelIdentity,
    /// Its operators; all shapes static.
    pub graph: Graph,
    /// Its bytes.
    pub source: Source,
    /// The engine that runs it.
    pub backend: String,
}

/// A load as a worker gets it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LoadRequest {
    /// Logical cores to pin the worker to.
    pub cores: Vec<usize>,
    /// What runs.
    pub work: LoadWork,
}

/// What a load does.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum LoadWork {
    /// See [`Load::Stream`].
    Stream(StreamSpec),
    /// A model on an engine.
    Model {
        /// Name of the backend.
        backend: String,
        /// How it runs; its cores are those of the request.
        options: Box<RunOptions>,
        /// The model's name, for messages.
        name: String,
        /// Its operators.
        graph: Box<Graph>,
        /// Its bytes.
        source: Source,
    },
}

impl Load {
    /// Its name in [`vitempo_graph::Environment::beside`]: different loads have different names. A
    /// model's has eight digits of its architecture.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Stream(stream) => stream.to_string(),
            Self::Matmul => LoadSpec::Matmul.to_string(),
            Self::Model(model) => {
                let ModelIdentity { name, architecture, .. } = &model.identity;
                let digits: String = architecture.chars().take(8).collect();
                format!("model:{name}-{digits}@{}", model.backend)
            }
        }
    }

    /// The request to a worker on these cores; `seed` is that of inputs and missing weights.
    ///
    /// # Errors
    /// Never, unless a layer is broken.
    pub fn request(&self, cores: Vec<usize>, seed: u64) -> Result<LoadRequest, GraphError> {
        let options = RunOptions { cores: cores.clone(), seed, ..RunOptions::default() };
        let work = match self {
            Self::Stream(stream) => LoadWork::Stream(*stream),
            Self::Matmul => LoadWork::Model {
                backend: EMBEDDED.to_owned(),
                options: options.into(),
                name: "matmul".to_owned(),
                graph: products()?.into(),
                source: Source::Graph,
            },
            Self::Model(model) => LoadWork::Model {
                backend: model.backend.clone(),
                options: options.into(),
                name: model.identity.name.clone(),
                graph: model.graph.clone().into(),
                source: model.source.clone(),
            },
        };
        Ok(LoadRequest { cores, work })
    }
}

/// Matrix products that follow each other.
fn products() -> Result<Graph, GraphError> {
    let mut b = GraphBuilder::new("matmul");
    let mut x = b.input("x", TensorSpec::f32([SIDE, SIDE]));
    for product in 0..PRODUCTS {
        x = b.linear(&format!("product{product}"), x, SIDE, false)?;
    }
    b.finish(vec![x])
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use vitempo_graph::{Work, footprint_bytes};

    #[test]
    fn products_fit_into_the_cache_of_a_core() {
        let graph = products().unwrap();
        assert_eq!(Work::of_graph(&graph).macs, (PRODUCTS * SIDE.pow(3)) as u64);
        assert!(footprint_bytes(graph.nodes().iter().map(|n| &n.op)) < 800_000);
    }

    #[test]
    fn loads_with_different_work_have_different_names() {
        let model = |name: &str, backend: &str| {
            let graph = products().unwrap();
            let identity = ModelIdentity {
                name: name.to_owned(),
                architecture: graph.architecture(),
                space: None,
                encoding: None,
            };
            let backend = backend.to_owned();
            Load::Model(LoadModel { identity, graph, source: Source::Graph, backend }.into())
        };
        let stream = |rate_bytes_per_s, size_bytes| {
            Load::Stream(StreamSpec { rate_bytes_per_s, size_bytes })
        };
        let loads = [
            stream(None, None),
            stream(Some(2_000_000_000), None),
            stream(None, Some(64 << 20)),
            Load::Matmul,
            model("a", "rten"),
            model("b", "rten"),
            model("a", "null"),
        ];
        let mut names: Vec<String> = loads.iter().map(Load::name).collect();
        assert!(names[4].starts_with("model:a-") && names[4].ends_with("@rten"), "{}", names[4]);
        names.sort();
        names.dedup();
        assert_eq!(names.len(), loads.len());
    }
}
