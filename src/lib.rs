//! vitempo: how long will this vision model take on that device, how sure are we, and where should
//! each part of it run?
//!
//! The facade over the workspace's crates. Read a model, load a bundle, ask:
//!
//! ```no_run
//! use std::path::Path;
//! use vitempo::{Bundle, graph::{LatencyModel, onnx}};
//!
//! let model = onnx::read_file(Path::new("vit.onnx"), &onnx::ReadOptions::default())?;
//! let bundle = Bundle::open("demo.vtb")?;
//! println!("{}", bundle.predict(&model)?.latency.point);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(feature = "dataset")]
pub mod adaptation;
pub mod bundle;
#[cfg(all(feature = "dataset", feature = "profile"))]
pub mod campaign;
#[cfg(all(feature = "dataset", feature = "profile", feature = "train"))]
pub mod demo;
#[cfg(all(feature = "dataset", feature = "train"))]
pub mod evaluation;
pub mod inspection;
pub mod models;
#[cfg(feature = "plan")]
pub mod plan;
#[cfg(feature = "plan")]
pub mod quantity;
pub mod query;
pub mod sampling;
pub mod search;
#[cfg(all(feature = "dataset", feature = "train"))]
pub mod training;
#[cfg(feature = "plan")]
pub mod zoo;

pub use bundle::{Bundle, BundleError};
#[cfg(feature = "plan")]
pub use vitempo_aria as aria;
#[cfg(feature = "dataset")]
pub use vitempo_datasets as datasets;
pub use vitempo_graph as graph;
#[cfg(feature = "plan")]
pub use vitempo_planners as planners;
pub use vitempo_predictors as predictors;
#[cfg(feature = "profile")]
pub use vitempo_profiler as profiler;
pub use vitempo_search_space as search_space;

/// Processors that this program may use; 1 where that is not known.
#[must_use]
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
