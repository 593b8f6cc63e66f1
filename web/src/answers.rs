//! What the page gets: plain values, of which the TypeScript declarations are made. Latencies are
//! nanoseconds, sizes bytes.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
#[cfg(target_arch = "wasm32")]
use tsify::Tsify;
use vitempo::graph;

/// A latency with its interval, ns.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(target_arch = "wasm32", derive(Tsify))]
pub struct Latency {
    /// The forecast.
    pub point: f64,
    /// Lower end of the interval.
    pub lower: f64,
    /// Upper end of the interval; infinite where vitempo does not know an operator.
    pub upper: f64,
    /// Share of forecasts whose latency lies in the interval, 0 to 1.
    pub level: f64,
}

impl From<graph::Prediction> for Latency {
    fn from(of: graph::Prediction) -> Self {
        let [point, lower, upper] = [of.point(), of.lower(), of.upper()].map(graph::Latency::ns);
        Self { point, lower, upper, level: of.level }
    }
}

/// A quantity with its interval, without a level.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(target_arch = "wasm32", derive(Tsify))]
pub struct Range {
    /// The forecast.
    pub point: f64,
    /// Lower end of the interval.
    pub lower: f64,
    /// Upper end of the interval.
    pub upper: f64,
}

impl From<graph::Interval<u64>> for Range {
    fn from(of: graph::Interval<u64>) -> Self {
        let [point, lower, upper] = [of.point(), of.lower(), of.upper()].map(|n| n as f64);
        Self { point, lower, upper }
    }
}

/// A bundle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(target_arch = "wasm32", derive(Tsify))]
#[serde(deny_unknown_fields)]
pub struct BundleCard {
    /// Its name.
    pub name: String,
    /// How it came about.
    #[cfg_attr(target_arch = "wasm32", tsify(type = "\"trained\" | \"adapted\""))]
    pub kind: String,
    /// What was fitted.
    pub method: String,
    /// The origin of the latencies it was made from.
    pub origin: String,
    /// Level of its intervals, 0 to 1.
    pub level: f64,
    /// Name of the device.
    pub device: String,
    /// Which of its processors runs.
    pub processor: String,
    /// The inference engine.
    pub framework: String,
    /// Its version.
    pub framework_version: String,
    /// Threads that compute inside one operator.
    pub threads: usize,
    /// Precision.
    pub precision: String,
    /// The environment in words.
    pub description: String,
    /// BLAKE3 of its file, in hexadecimal.
    pub digest: String,
}

/// A dimension that needs a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(target_arch = "wasm32", derive(Tsify))]
pub struct OpenDimension {
    /// The name to give it a value by.
    pub symbol: String,
    /// The first input that has it.
    pub input: String,
    /// Which dimension of that input, counted from 0.
    pub index: usize,
}

/// Values of dimensions by their names.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(target_arch = "wasm32", derive(Tsify))]
pub struct Dimensions(pub BTreeMap<String, usize>);

/// What came of a file.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(target_arch = "wasm32", derive(Tsify))]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum Read {
    /// A model.
    Model(ModelCard),
    /// These dimensions have to get values first.
    Open {
        /// In the order of the inputs.
        dimensions: Vec<OpenDimension>,
    },
}

/// A model that was read.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(target_arch = "wasm32", derive(Tsify))]
#[serde(rename_all = "camelCase")]
pub struct ModelCard {
    /// The number to ask for it by.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Inputs: name and shape.
    pub inputs: Vec<String>,
    /// Height and width of its images, where it has any.
    pub image: Option<ImageSides>,
    /// Operators.
    pub operators: usize,
    /// Floating-point operations of one run.
    pub flops: u64,
    /// Elements of its weights.
    pub parameters: u64,
    /// Differences between the file and what was read.
    pub notes: Vec<String>,
}

/// Height and width of images, pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(target_arch = "wasm32", derive(Tsify))]
pub struct ImageSides {
    /// Pixels from top to bottom.
    pub height: usize,
    /// Pixels from left to right.
    pub width: usize,
}

/// How many operators are forecast in which way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(target_arch = "wasm32", derive(Tsify))]
pub struct Coverage {
    /// Kernels that will run.
    pub operators: usize,
    /// Of these, by a trained predictor.
    pub trained: usize,
    /// Of these, from their work alone.
    pub fallback: usize,
    /// Of the trained ones, outside the range of the training data.
    pub extrapolating: usize,
    /// Nodes whose operators are not supported: node and operator.
    pub unsupported: Vec<[String; 2]>,
}

/// The forecast of a model by one bundle.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(target_arch = "wasm32", derive(Tsify))]
pub struct Forecast {
    /// Name of the bundle.
    pub bundle: String,
    /// End to end.
    pub latency: Latency,
    /// How many operators are forecast in which way.
    pub coverage: Coverage,
}

/// What a forecast consists of.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(target_arch = "wasm32", derive(Tsify))]
#[serde(rename_all = "camelCase")]
pub struct Details {
    /// Name of the bundle.
    pub bundle: String,
    /// End to end.
    pub latency: Latency,
    /// Added to the sum over operators, ns.
    pub overhead: f64,
    /// How many operators are forecast in which way.
    pub coverage: Coverage,
    /// Share of the operators' time that trained predictors forecast, 0 to 1.
    pub trained_share: f64,
    /// Share of the operators' time outside of the training data, 0 to 1.
    pub extrapolating_share: f64,
    /// Kinds without a trained predictor.
    pub fallback_kinds: Vec<String>,
    /// Kinds of which an operator lies outside of the training data.
    pub extrapolating_kinds: Vec<String>,
    /// The latency that was measured on this model, ns, where the bundle lists it.
    pub measured: Option<f64>,
    /// Memory, where that of the engine is known.
    pub memory: Option<Memory>,
    /// Kernels by kind, those that take longest first.
    pub kinds: Vec<Kind>,
    /// Kernels by the parts of the model.
    pub blocks: Block,
    /// Every kernel, in the order in which they run.
    pub operators: Vec<Operator>,
}

/// The memory of a model, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(target_arch = "wasm32", derive(Tsify))]
pub struct Memory {
    /// Most that loading and running add to the process.
    pub peak: Range,
    /// Share of models whose memory lies in the interval, 0 to 1.
    pub level: f64,
    /// Weights.
    pub weights: u64,
    /// Activations.
    pub activations: u64,
    /// What loading frees and the process keeps.
    pub freed: u64,
}

/// The kernels of one kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(target_arch = "wasm32", derive(Tsify))]
pub struct Kind {
    /// Name of the kind.
    pub kind: String,
    /// How many there are.
    pub count: usize,
    /// What they take together, ns.
    pub latency: f64,
}

/// A part of a model.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(target_arch = "wasm32", derive(Tsify))]
pub struct Block {
    /// Its name within the block around it.
    pub name: String,
    /// Kernels in it.
    pub count: usize,
    /// What they take together, ns.
    pub latency: f64,
    /// The blocks in it.
    pub children: Vec<Block>,
}

impl From<vitempo::forecast::Block> for Block {
    fn from(of: vitempo::forecast::Block) -> Self {
        let children = of.children.into_iter().map(Self::from).collect();
        Self { name: of.name, count: of.count, latency: of.latency.ns(), children }
    }
}

/// A kernel.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(target_arch = "wasm32", derive(Tsify))]
pub struct Operator {
    /// Name of the node.
    pub name: String,
    /// What it computes.
    pub kind: String,
    /// How long it takes, ns.
    pub latency: f64,
    /// Whether a trained predictor forecasts it; otherwise it is an estimate from its work.
    pub trained: bool,
    /// Whether it lies outside the range of the training data.
    pub extrapolating: bool,
}

/// A model at one size of images.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(target_arch = "wasm32", derive(Tsify))]
pub struct SizeRow {
    /// Height and width.
    pub size: ImageSides,
    /// By bundle, in the order of the request; `None` where the bundle does not forecast it.
    pub latencies: Vec<Option<Latency>>,
    /// Why the model does not work at this size.
    pub problem: Option<String>,
}

/// How the second model differs from the first on one device.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(target_arch = "wasm32", derive(Tsify))]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    /// Latency of the second minus that of the first, ns.
    pub change: f64,
    /// Least change, ns.
    pub least: f64,
    /// Largest change, ns.
    pub most: f64,
    /// Probability that least and most hold, 0 to 1.
    pub level: f64,
    /// Whether both have the same operators with the same shapes.
    pub same_architecture: bool,
    /// By kind, the largest change first.
    pub kinds: Vec<KindChange>,
}

/// The kernels of one kind in two models.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(target_arch = "wasm32", derive(Tsify))]
pub struct KindChange {
    /// Name of the kind.
    pub kind: String,
    /// How many the first and the second model have.
    pub counts: [usize; 2],
    /// What they take together, ns.
    pub latencies: [f64; 2],
}

/// A model between a device and a server.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(target_arch = "wasm32", derive(Tsify))]
#[serde(rename_all = "camelCase")]
pub struct Split {
    /// The split of the least latency.
    pub best: SplitPlan,
    /// The whole model on the device, ns.
    pub device: Range,
    /// The Pareto front of latency and bytes sent.
    pub front: Vec<SplitPlan>,
    /// Whether the front is complete.
    pub is_complete: bool,
    /// The best split over bandwidth, from the slowest link to the fastest.
    pub ranges: Vec<BandwidthRange>,
    /// Picture of the graph with the best split, SVG.
    pub picture: String,
}

/// One split.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(target_arch = "wasm32", derive(Tsify))]
#[serde(rename_all = "camelCase")]
pub struct SplitPlan {
    /// From input to result, ns.
    pub latency: Range,
    /// Bytes to the server.
    pub bytes_sent: u64,
    /// Operators on the device.
    pub device_operators: usize,
    /// All operators.
    pub operators: usize,
    /// What runs where, in order.
    pub stages: Vec<Stage>,
    /// What crosses the link.
    pub transfers: Vec<Transfer>,
}

/// Operators that run on one side after each other.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(target_arch = "wasm32", derive(Tsify))]
pub struct Stage {
    /// `device` or `server`.
    pub processor: String,
    /// How many operators.
    pub count: usize,
    /// The first of them.
    pub first: String,
    /// The last.
    pub last: String,
    /// What they take, ns.
    pub latency: Range,
}

/// Tensors that cross the link.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(target_arch = "wasm32", derive(Tsify))]
pub struct Transfer {
    /// Who sends.
    pub from: String,
    /// Names of the tensors.
    pub tensors: Vec<String>,
    /// Their bytes.
    pub bytes: u64,
    /// What the transfer takes, ns.
    pub latency: Range,
}

/// A range of bandwidths in which one split is the best.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(target_arch = "wasm32", derive(Tsify))]
#[serde(rename_all = "camelCase")]
pub struct BandwidthRange {
    /// From this bandwidth on, bytes per second.
    pub from: f64,
    /// Up to this one; `None` for the fastest.
    pub to: Option<f64>,
    /// Operators on the device.
    pub device_operators: usize,
}

/// An architecture of a search space.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(target_arch = "wasm32", derive(Tsify))]
pub struct Sample {
    /// Its encoding.
    pub encoding: String,
    /// In what it can be changed.
    pub choices: Vec<Choice>,
}

/// A choice of an architecture.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(target_arch = "wasm32", derive(Tsify))]
pub struct Choice {
    /// What is chosen.
    pub name: String,
    /// The stage, from 1; none for the whole architecture.
    pub stage: Option<usize>,
    /// The values.
    pub values: Vec<String>,
    /// For each value, the encoding of the architecture that has it.
    pub encodings: Vec<String>,
    /// Which value it has.
    pub current: usize,
}

/// Architectures with their latencies on two devices.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(target_arch = "wasm32", derive(Tsify))]
pub struct Drawn {
    /// Encodings.
    pub encodings: Vec<String>,
    /// Latency on the first device, ns.
    pub first: Vec<f64>,
    /// Latency on the second device, ns.
    pub second: Vec<f64>,
    /// Places of those that no other beats on both devices, the fastest on the first one first.
    pub front: Vec<usize>,
}
