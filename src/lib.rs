//! vitempo: how long will this vision model take on that device, how sure are we, and where should
//! each part of it run?
//!
//! The facade over the workspace's crates. Read a model, load a bundle, ask:
//!
//! ```no_run
//! use std::path::Path;
//! use vitempo::{graph::{LatencyModel, onnx}, predictors::PredictorBundle};
//!
//! let model = onnx::read_file(Path::new("vit.onnx"), &onnx::ReadOptions::default())?;
//! let bundle = PredictorBundle::load(Path::new("demo.vtb"))?;
//! println!("{}", bundle.predict(&model)?.latency.point);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod adaptation;
pub mod query;
pub mod search;
pub mod serve;

pub use vitempo_datasets as datasets;
pub use vitempo_graph as graph;
pub use vitempo_planners as planners;
pub use vitempo_predictors as predictors;
pub use vitempo_profiler as profiler;
pub use vitempo_search_space as search_space;

/// Processors that this program may use; 1 where that is not known.
#[must_use]
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
