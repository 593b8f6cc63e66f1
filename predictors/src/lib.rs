//! Operator predictors, whose sum is a model's latency, and the bundles that contain them.
//!
//! `ModelProfile`s -> [`TrainingRows`] -> [`train()`] -> [`PredictorBundle`] -> forecasts through
//! `vitempo_graph::LatencyModel`, evaluated by [`evaluate()`].
//!
//! | question | where |
//! |---|---|
//! | which features of an operator does a regressor read? | [`features`] |
//! | which rows does a profile give, and how is noise kept out of them? | [`rows`], `location.rs`, `drift.rs` |
//! | how is a regressor fitted? | [`regressors`] |
//! | how are trees blended with the linear model out of distribution? | `blend_weight.rs` |
//! | how accurate is a model stitched from subgraphs of several variants? | [`accuracy`] |
//! | how are many models forecast at once? | [`PredictorBundle::predict_batch`] |
//! | how are millions of rows forecast in a second? | [`forest`] |
//! | how much longer does it take while another processor is busy? | [`contention`] |
//! | how large is the expected error of a forecast? | [`error_scale`], [`interval`] |
//! | how large is the error of forecasts? | [`metrics`], [`evaluate()`] |
//! | how does the forecast of one kernel come about? | [`PredictorBundle::explain`] |
//! | how much memory does an engine take for a model? | [`memory`] |
//! | which features matter? | [`importance()`] |
//! | how is a machine forecast on which a minute of operators was measured? | [`transfer`] |
//! | how is a device forecast on which only a few models were timed end to end? | [`adapt`] |

// Parts of calibration and error scales that only fitting calls stay beside what reads them.
#![cfg_attr(not(feature = "train"), allow(dead_code))]

#[cfg(feature = "train")]
pub mod accuracy;
pub mod adapt;
mod batch;
mod bias;
mod bits;
mod blend_weight;
mod boosting;
mod bundle;
mod calibration;
pub mod contention;
mod drift;
mod elementary;
mod envelope;
mod error;
pub mod error_scale;
mod evaluate;
mod explanation;
pub mod features;
#[cfg(feature = "train")]
pub mod fitting;
mod forecast;
pub mod forest;
mod held_out;
#[cfg(feature = "train")]
mod importance;
mod interference;
pub mod interval;
mod location;
mod memo;
pub mod memory;
pub mod metrics;
pub mod non_negative;
mod packing;
mod predictors;
pub mod refined;
pub mod regressors;
pub mod rows;
#[cfg(feature = "train")]
mod shares;
#[cfg(feature = "train")]
mod train;
#[cfg(feature = "train")]
pub mod transfer;
pub mod unfamiliar;

pub use adapt::AdaptedBundle;
pub use batch::Batch;
pub use boosting::Boosting;
pub use bundle::{BUNDLE_VERSION, PredictorBundle, Provenance, SourceCounts};
pub use calibration::Calibration;
pub use contention::SlowdownModel;
pub use drift::Drift;
pub use envelope::LARGEST_BUNDLE_BYTES;
pub use error::PredictorError;
pub use error_scale::ErrorScale;
pub use evaluate::{
    Contribution, EndToEnd, Evaluation, KindMetrics, ModelRow, NoiseFloor, evaluate, evaluate_part,
};
pub use explanation::{Basis, Explanation, Feature};
pub use features::{FeatureSchema, FeatureVector, PredictorKey, WorkingSet, WorkingSetBytes};
pub use forecast::{Coverage, Tally};
pub use forest::{CompiledForest, ForestError};
#[cfg(feature = "train")]
pub use importance::{Importance, importance};
pub use interval::{Bounds, ConformalInterval};
pub use location::end_to_end_ns;
pub use predictors::{Estimate, KeyPredictor, Predictors};
pub use refined::Refinements;
pub use regressors::Method;
pub use rows::{MeasuredModel, Skipped, TrainingRow, TrainingRows};
#[cfg(feature = "train")]
pub use shares::{Fitted, Share};
#[cfg(feature = "train")]
pub use train::{Progress, TrainOptions, train, train_with};
pub use unfamiliar::{UnfamiliarInterval, Witness};
