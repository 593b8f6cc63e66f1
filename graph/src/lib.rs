//! The operator graph of a vision model, and the types every other crate of vitempo shares.
//!
//! | question | where |
//! |---|---|
//! | what is one operator? | [`OpSpec`], [`OpKind`], [`TensorSpec`] |
//! | what is a model? | [`Graph`], read by [`onnx`] or put together by [`GraphBuilder`] |
//! | how much work is that? | [`Work`] |
//! | what does a framework really run for it? | [`lowering`] |
//! | how is it written for TensorFlow Lite? | [`tflite`] |
//! | what does it look like in int8 or f16? | [`quantize`] |
//! | what does it look like with less weights? | [`sparsify`] |
//! | and for images of another size? | [`resized()`] |
//! | how much may one model cost? | [`Budget`] |
//! | how is a file written whole or not at all? | [`files`] |
//! | which number is `64MiB`, or `15%`? | [`quantity`] |
//! | where and how was something measured? | [`Environment`], [`Measurement`], [`ModelProfile`] |
//! | beside which load? | [`LoadRecord`] |
//! | what does a forecast look like? | [`LatencyModel`], [`Prediction`], [`Interval`] |
//!
//! This crate imports no other crate of the workspace.

mod budget;
mod builder;
mod channels_last;
mod domains;
mod environment;
mod exact_floats;
pub mod files;
mod framework;
mod graph;
mod host;
mod interval;
mod latency;
mod latency_model;
mod liveness;
mod load;
pub mod lowering;
mod measurement;
mod numbers;
pub mod onnx;
pub mod op;
mod op_family;
pub mod patterns;
mod peak_memory;
pub mod quantity;
pub mod quantize;
mod resampling;
mod resized;
mod setting;
pub mod shape;
pub mod sparsify;
mod spending;
mod subgraph;
mod tensor;
pub mod tflite;
mod work;

pub use budget::{Budget, Exceeded, Limits, Resource, Stop};
pub use builder::GraphBuilder;
pub use channels_last::images_channels_last;
pub use environment::{Environment, Processor};
pub use framework::{Framework, UnknownFramework};
pub use graph::{ConstantData, Graph, GraphError, Node, Value, ValueId, ValueSource, Written};
pub use host::{Cache, Host};
pub use interval::{End, Interval, IntervalError};
pub use latency::Latency;
pub use latency_model::{
    GraphPrediction, LatencyModel, OperatorPrediction, Prediction, PredictionError,
    PredictionSource,
};
pub use liveness::peak_alive_bytes;
pub use load::{LoadRecord, ResourceRates, footprint_bytes};
pub use measurement::{
    Executed, Measurement, ModelIdentity, ModelProfile, Origin, Protocol, Samples, Status, median,
};
pub use op::{Attribute, Attributes, Ints, OpKind, OpSpec, Operand};
pub use op_family::OpFamily;
pub use peak_memory::PeakFault;
pub use resized::{
    ImageSize, ImageSizeError, ResizeError, image_size, resized, with_image_size,
    with_image_size_within,
};
pub use setting::{Setting, UnknownSetting};
pub use tensor::{MemoryFormat, Precision, Shape, TensorSpec};
pub use work::Work;
