//! The names that small programs need: `use vitempo::prelude::*;`. Each is also at the path that
//! its documentation shows.

pub use crate::{
    bundle::{Bundle, BundleError},
    graph::{
        Environment, Graph, GraphPrediction, Latency, LatencyModel, Prediction, onnx::ReadOptions,
    },
    models::{self, Model},
    search::{Options as SearchOptions, search},
    search_space::{Architecture, Space},
};

#[cfg(all(feature = "dataset", feature = "profile"))]
pub use crate::campaign::{self, Campaign};
#[cfg(feature = "profile")]
pub use crate::profiler::{RunOptions, RunProtocol};
#[cfg(all(feature = "dataset", feature = "train"))]
pub use crate::{
    evaluation::{self, Evaluated},
    predictors::{Method, TrainOptions},
    training,
};
