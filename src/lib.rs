//! vitempo: how long will this vision model take on that device, how sure are we, and where should
//! each part of it run?
//!
//! This crate is the facade over the workspace: programs have everything that the binary `vitempo`
//! does as functions. Three lines forecast a model:
//!
//! ```no_run
//! use vitempo::prelude::*;
//!
//! let model = models::read("vit.onnx".as_ref(), &ReadOptions::default())?;
//! let bundle = Bundle::open("epyc-onnxruntime-f32-1t")?;
//! println!("{}", bundle.predict(&model.graph)?.latency.point());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What to do, and where
//!
//! | job | start at | feature | example |
//! |---|---|---|---|
//! | forecast a model with its interval | [`Bundle::open`], [`Bundle::predict_each`] | | `forecast` |
//! | forecast several models, and see what a forecast consists of | [`forecast::forecast_each`] | | |
//! | forecast on several devices, compare two models, explain a node | [`forecast::forecast_on_each`], [`forecast::compare`], [`forecast::explain`] | | |
//! | count and forecast a model over sizes of images | [`sweep::sweep`] | | |
//! | make the graph of a shipped model, or of an encoding | [`export::find`] | | |
//! | forecast a model while another processor is busy | [`contention::predict_beside`] | | |
//! | sample architectures of a search space | [`sampling`] | | |
//! | answer millions of latency queries | [`query`] | | |
//! | find the best architecture below a latency | [`search`] | | `search` |
//! | list, check and install engines | `engines` | `profile` | |
//! | measure models on engines, with resuming | `campaign` | `dataset`, `profile` | |
//! | measure what the forecast of one model is least sure of | `refine` | `dataset`, `profile` | |
//! | train predictors | `training` | `dataset`, `train` | `train` |
//! | evaluate a bundle on measured models | `evaluation` | `dataset-read` | |
//! | adapt to a device known by ten latencies | `adaptation` | `dataset-read` | `adapt` |
//! | plan splits, pipelines, placements | `plan` | `plan` | `plan_split` |
//! | plan several models that wait for each other | `plan::multi_dnn` | `plan` | |
//! | run such a plan on engines, and replay its log | `plan::run` | `plan`, `profile` |
//! | choose between device and server, by energy | `plan::offload` | `plan` | |
//! | divide a measured power trace among the phases of a frame | `plan::dissection` | `plan` | |
//! | run a foundation model within a frame deadline (ARIA) | `plan::aria` | `plan` | |
//! | make variants of a model, and measure them stitched | `zoo` | `plan`, `profile`, `train` | |
//!
//! Tables and figures are in the crate `vitempo-report`, reproductions of papers in `studies/`.
//!
//! Examples are files in `examples/`; the tests run them. Bundles by name need the feature
//! `embedded-bundles`, a folder in the variable `VITEMPO_BUNDLES`, or the checkout's `bundles/`.
//!
//! # Sampling and forecasting a search space
//!
//! ```
//! use vitempo::{graph::LatencyModel, prelude::*, sampling};
//!
//! let bundle = Bundle::open("bundles/epyc-onnxruntime-f32-1t.vtb")?;
//! for sample in sampling::sample_named("hybrid-vit", 3, 7)? {
//!     let latency = bundle.predict(&sample.graph)?.latency;
//!     assert!(latency.lower().ns() <= latency.point().ns());
//!     println!("{} [{} .. {}]", latency.point(), latency.lower(), latency.upper());
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Errors
//! Functions return typed errors that name the file, node, row or field. Nothing is printed; events
//! go to `tracing`.

#[cfg(feature = "dataset-read")]
pub mod adaptation;
pub mod bundle;
#[cfg(all(feature = "dataset", feature = "profile"))]
pub mod campaign;
pub mod contention;
#[cfg(all(feature = "dataset", feature = "profile", feature = "train"))]
pub mod demo;
#[cfg(feature = "profile")]
pub mod engines;
#[cfg(feature = "dataset-read")]
pub mod evaluation;
pub mod export;
pub mod forecast;
pub mod inspection;
#[cfg(all(test, feature = "dataset-read"))]
mod model_runs;
pub mod models;
#[cfg(feature = "plan")]
pub mod plan;
pub mod prelude;
#[cfg(feature = "plan")]
pub mod quantity;
pub mod query;
#[cfg(all(feature = "dataset", feature = "profile"))]
pub mod refine;
pub mod sampling;
pub mod search;
pub mod sweep;
#[cfg(feature = "dataset-read")]
pub mod training;
#[cfg(feature = "plan")]
pub mod zoo;

pub use bundle::{Bundle, BundleError};
#[cfg(feature = "plan")]
pub use vitempo_aria as aria;
#[cfg(feature = "dataset-read")]
pub use vitempo_datasets as datasets;
pub use vitempo_graph as graph;
#[cfg(feature = "plan")]
pub use vitempo_planners as planners;
pub use vitempo_predictors as predictors;
pub use vitempo_predictors::memory;
#[cfg(feature = "profile")]
pub use vitempo_profiler as profiler;
pub use vitempo_search_space as search_space;

/// Processors that this program may use; 1 where that is not known.
#[must_use]
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
