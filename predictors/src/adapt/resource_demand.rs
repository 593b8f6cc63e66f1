//! [`Workload`]: the resource demands of a model's operators, in units that have a cost each:
//! launches, multiply-accumulates, bytes.
//!
//! Wide arithmetic units round channels up to whole vectors and images up to whole tiles; narrow
//! units do not. The growth of a convolution by this padding is a demand of its own, whose effect
//! depends on the device. Operators that move elements or compute per element demand their bytes;
//! operators that compilers fuse into the operator before demand nothing. A tensor larger than the
//! on-chip memory demands its bytes once more (`Spill`).

use crate::elementary::ln;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};
use vitempo_graph::{
    Graph, Node, OpFamily, OpKind, OpSpec, TensorSpec, ValueId, ValueSource, Work,
};

/// Which part of an operator's time a unit cost belongs to. Launches add up; of arithmetic, weights
/// and traffic the longest counts; padding multiplies arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Starting a run or a kernel.
    Launch,
    /// Arithmetic.
    Compute,
    /// Reading weights.
    Weights,
    /// Reading and writing activations.
    Traffic,
    /// Computing elements that fill up vectors or tiles.
    Padding,
}

macro_rules! unit_costs {
    ($($variant:ident $group:ident $name:literal,)*) => {
        /// One cost that a device has per unit of work. Launches are in ns, arithmetic in ns per
        /// multiply-accumulate, weights and traffic in ns per byte. Padding is an exponent
        /// on the growth of arithmetic by whole vectors or tiles: 1 if the device computes the
        /// padding, 0 if it does not.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum UnitCost {
            $(
                #[doc = concat!("Of ", $name, ".")]
                $variant,
            )*
        }

        impl UnitCost {
            /// All of them; a vector of unit costs is in this order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// A readable name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The part of an operator's time that it belongs to.
            #[must_use]
            pub const fn group(self) -> Group {
                match self { $(Self::$variant => Group::$group,)* }
            }
        }
    };
}

unit_costs! {
    Run Launch "a run",
    LaunchConvolution Launch "a launch of a convolution",
    LaunchDepthwise Launch "a launch of a depthwise convolution",
    LaunchLinear Launch "a launch of a linear layer",
    LaunchDynamic Launch "a launch of a product of two computed tensors",
    LaunchElementwise Launch "a launch of an elementwise operator on images",
    LaunchTokenwise Launch "a launch of an elementwise operator on tokens",
    LaunchRectifier Launch "a launch of a rectifier",
    LaunchOther Launch "a launch of another operator",
    Pointwise Compute "arithmetic of 1x1 convolutions",
    Spatial Compute "arithmetic of larger convolutions",
    Stem Compute "arithmetic of convolutions of an image's few channels",
    Depthwise Compute "arithmetic of depthwise convolutions",
    Grouped Compute "arithmetic of grouped convolutions",
    Volumetric Compute "arithmetic of 3-D convolutions",
    Linear Compute "arithmetic of linear layers",
    Dynamic Compute "arithmetic of products of two computed tensors",
    Weights Weights "reading weights",
    ConvolutionBytes Traffic "images through convolutions",
    DepthwiseBytes Traffic "images through depthwise convolutions",
    LinearBytes Traffic "tokens through linear layers",
    DynamicBytes Traffic "operands of products of two computed tensors",
    ElementwiseBytes Traffic "elementwise operators on images",
    TokenwiseBytes Traffic "elementwise operators on tokens",
    RectifierBytes Traffic "rectifiers",
    ActivationBytes Traffic "other activations",
    SoftmaxBytes Traffic "softmax",
    NormalizationBytes Traffic "normalisations",
    MovementBytes Traffic "concatenations, slices and padding",
    TransposeBytes Traffic "transposes",
    ReshapeBytes Traffic "reshapes",
    PoolingBytes Traffic "pooling, reductions and resizing",
    Spill Traffic "tensors that do not stay on chip",
    Vectors Padding "channels rounded up to whole vectors",
    Tiles Padding "images rounded up to whole tiles",
}

impl UnitCost {
    /// Derivative of its logarithm by the logarithm of the device's overall latency.
    pub(crate) fn with_speed(self) -> f64 {
        if self.group() == Group::Padding { 0.0 } else { 1.0 }
    }
}

/// Number of unit costs.
pub(crate) const COSTS: usize = UnitCost::ALL.len();

/// Bytes of the largest tensor that is assumed to stay on chip.
const ON_CHIP: f64 = 8e6;
/// Channels are rounded up to this.
const VECTOR: usize = 32;
/// Rows and columns of an image are rounded up to this.
const TILE: usize = 8;
/// Bytes per element: half precision. The unit costs of other precisions absorb the difference.
const ELEMENT: f64 = 2.0;
/// A reshape of fewer elements is a change of shape alone.
const SMALL_RESHAPE: f64 = 5e4;

/// Resource demand of one operator: amounts by unit cost.
pub(crate) type ResourceDemand = Vec<(UnitCost, f64)>;

/// Operators of a model, equal ones once with their count.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Workload {
    pub(crate) demands: Vec<(ResourceDemand, f64)>,
}

impl Workload {
    /// Of a graph as its file has it, without operators that any compiler merges with the one
    /// before.
    #[must_use]
    pub fn of(graph: &Graph) -> Self {
        let nodes = graph.nodes().iter().zip(merged(graph));
        Self::of_operators(nodes.filter(|(_, merged)| !merged).map(|(node, _)| (&node.op, 1.0)))
    }

    /// Of operators and how often each runs.
    #[must_use]
    pub fn of_operators<'a>(operators: impl IntoIterator<Item = (&'a OpSpec, f64)>) -> Self {
        let mut counts: BTreeMap<&OpSpec, f64> = BTreeMap::new();
        operators.into_iter().for_each(|(op, count)| *counts.entry(op).or_default() += count);
        let demands = counts
            .into_iter()
            .map(|(op, count)| (resource_demand(op), count))
            .filter(|(demand, _)| !demand.is_empty());
        Self { demands: demands.collect() }
    }

    /// Of a model with known multiply-accumulates and bytes of weights only.
    #[must_use]
    pub fn of_totals(macs: f64, weight_bytes: f64) -> Self {
        let arithmetic = vec![(UnitCost::Spatial, macs)];
        let weights = vec![(UnitCost::Weights, weight_bytes)];
        Self { demands: vec![(arithmetic, 1.0), (weights, 1.0)] }
    }

    /// Multiply-accumulates of all operators.
    #[must_use]
    pub fn macs(&self) -> f64 {
        let computed = |(cost, _): &&(UnitCost, f64)| cost.group() == Group::Compute;
        let of = |(demand, count): &(ResourceDemand, f64)| {
            count * demand.iter().filter(computed).map(|(_, amount)| amount).sum::<f64>()
        };
        self.demands.iter().map(of).sum()
    }

    /// Of one operator alone.
    #[must_use]
    pub fn of_operator(op: &OpSpec) -> Self {
        Self::of_operators([(op, 1.0)])
    }
}

/// By node: whether compilers fuse it into the operator before, so that it has no cost of its own.
/// They fuse ReLUs and arithmetic with constants (biases, scales) after a product or after an
/// operator fused into one, and ReLUs after a sum. No other operator may read the tensor between.
pub(crate) fn merged(graph: &Graph) -> Vec<bool> {
    let readers = graph.consumers();
    let returned: HashSet<ValueId> = graph.outputs().iter().copied().collect();
    let mut merged: Vec<bool> = Vec::with_capacity(graph.nodes().len());
    for node in graph.nodes() {
        let before = only_reader_of(graph, &readers, &returned, node)
            .and_then(|index| Some((graph.nodes().get(index)?, *merged.get(index)?)));
        merged.push(before.is_some_and(|(producer, with_product)| {
            let behind_product = with_product || producer.op.kind.is_product();
            match node.op.kind {
                OpKind::Relu | OpKind::Clip => behind_product || producer.op.kind == OpKind::Add,
                OpKind::Add | OpKind::Sub | OpKind::Mul | OpKind::Div => behind_product,
                _ => false,
            }
        }));
    }
    merged
}

/// The only producer that this node reads besides constants, if no other node reads its result.
fn only_reader_of(
    graph: &Graph,
    readers: &[Vec<usize>],
    returned: &HashSet<ValueId>,
    node: &Node,
) -> Option<usize> {
    let mut computed = node
        .inputs
        .iter()
        .filter(|id| !matches!(graph.value(**id).source, ValueSource::Constant(_)));
    let (Some(id), None) = (computed.next(), computed.next()) else { return None };
    let ValueSource::Node(producer) = graph.value(*id).source else { return None };
    let alone = readers.get(id.0 as usize).is_some_and(|r| r.len() == 1) && !returned.contains(id);
    alone.then_some(producer as usize)
}

/// Resource demand of one operator; empty if it costs nothing.
pub(crate) fn resource_demand(op: &OpSpec) -> ResourceDemand {
    use UnitCost as U;
    let work = Work::of_operator(op);
    let elements = |t: &TensorSpec| t.elements() as f64;
    let read: f64 = op.inputs.iter().filter(|i| !i.constant).map(|i| elements(&i.tensor)).sum();
    let written: f64 = op.outputs.iter().map(elements).sum();
    let (macs, moved) = (work.macs as f64, (read + written) * ELEMENT);
    let images = op.outputs.first().is_some_and(|t| t.rank() == 4);
    let mut demand = match &op.kind {
        OpKind::Conv | OpKind::ConvTranspose => convolution(op, macs, moved),
        OpKind::Linear => vec![(U::LaunchLinear, 1.0), (U::Linear, macs), (U::LinearBytes, moved)],
        OpKind::MatMul | OpKind::Einsum | OpKind::Attention => {
            vec![(U::LaunchDynamic, 1.0), (U::Dynamic, macs), (U::DynamicBytes, moved)]
        }
        OpKind::Relu | OpKind::Clip => vec![(U::LaunchRectifier, 1.0), (U::RectifierBytes, moved)],
        OpKind::Softmax => vec![(U::LaunchOther, 1.0), (U::SoftmaxBytes, moved)],
        OpKind::Div | OpKind::Pow => vec![(U::LaunchOther, 1.0), (U::ActivationBytes, moved)],
        OpKind::Transpose => vec![(U::LaunchOther, 1.0), (U::TransposeBytes, moved)],
        OpKind::Reshape
            if read < SMALL_RESHAPE || op.outputs.first().is_some_and(|t| t.rank() <= 2) =>
        {
            return Vec::new();
        }
        OpKind::Reshape => vec![(U::LaunchOther, 1.0), (U::ReshapeBytes, moved)],
        OpKind::Identity
        | OpKind::Cast
        | OpKind::Shape
        | OpKind::ConstantOfShape
        | OpKind::Range => return Vec::new(),
        kind => match kind.family() {
            OpFamily::Activation => vec![(U::LaunchOther, 1.0), (U::ActivationBytes, moved)],
            OpFamily::Normalization => vec![(U::LaunchOther, 1.0), (U::NormalizationBytes, moved)],
            OpFamily::Pooling => vec![(U::LaunchOther, 1.0), (U::PoolingBytes, moved)],
            OpFamily::Movement if *kind == OpKind::Resize => {
                vec![(U::LaunchOther, 1.0), (U::PoolingBytes, moved)]
            }
            OpFamily::Movement => vec![(U::LaunchOther, 1.0), (U::MovementBytes, moved)],
            OpFamily::Elementwise if images => {
                vec![(U::LaunchElementwise, 1.0), (U::ElementwiseBytes, moved)]
            }
            OpFamily::Elementwise => vec![(U::LaunchTokenwise, 1.0), (U::TokenwiseBytes, moved)],
            _ => vec![(U::LaunchOther, 1.0), (U::ElementwiseBytes, moved)],
        },
    };
    if op.kind.is_product() {
        demand.push((U::Weights, work.params as f64 * ELEMENT));
    }
    if read.max(written) * ELEMENT > ON_CHIP {
        demand.push((U::Spill, moved));
    }
    demand.retain(|(_, amount)| *amount > 0.0 && amount.is_finite());
    demand
}

fn convolution(op: &OpSpec, macs: f64, moved: f64) -> ResourceDemand {
    use UnitCost as U;
    let channels =
        |t: Option<&TensorSpec>| t.and_then(|t| t.shape.get(1)).copied().unwrap_or(1).max(1);
    let (inward, outward) =
        (channels(op.inputs.first().map(|i| &i.tensor)), channels(op.outputs.first()));
    let group =
        usize::try_from(op.attributes.int("group").unwrap_or(1)).unwrap_or(1).clamp(1, inward);
    let larger = op.attributes.ints("kernel_shape").iter().any(|&extent| extent > 1);
    let up = |extent: usize, to: usize| {
        extent.div_ceil(to).saturating_mul(to) as f64 / extent.max(1) as f64
    };
    let whole = |channels: usize| ln(up(channels, VECTOR));
    let tiles: f64 = op.outputs.first().map_or(0.0, |t| {
        t.shape.iter().skip(2).rev().take(2).map(|&extent| ln(up(extent, TILE))).sum()
    });
    let volumetric = op.outputs.first().is_some_and(|t| t.rank() == 5);
    let (launch, arithmetic, bytes, vectors) = match () {
        () if volumetric => (U::LaunchConvolution, U::Volumetric, U::ConvolutionBytes, 0.0),
        () if group > 1 && group == inward => {
            (U::LaunchDepthwise, U::Depthwise, U::DepthwiseBytes, 0.0)
        }
        () if group > 1 => {
            (U::LaunchConvolution, U::Grouped, U::ConvolutionBytes, whole(inward / group))
        }
        () if larger && inward <= 4 => (U::LaunchConvolution, U::Stem, U::ConvolutionBytes, 0.0),
        () if larger => {
            (U::LaunchConvolution, U::Spatial, U::ConvolutionBytes, whole(inward) + whole(outward))
        }
        () => (
            U::LaunchConvolution,
            U::Pointwise,
            U::ConvolutionBytes,
            whole(inward) + whole(outward),
        ),
    };
    vec![
        (launch, 1.0),
        (arithmetic, macs),
        (bytes, moved),
        (U::Vectors, vectors),
        (U::Tiles, tiles),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use vitempo_graph::{Attributes, Operand, Value, ValueId};

    fn conv(inward: usize, outward: usize, kernel: i64, group: i64) -> OpSpec {
        let operand =
            |shape: &[usize], constant| Operand { tensor: TensorSpec::f32(shape), constant };
        let k = kernel as usize;
        OpSpec {
            kind: OpKind::Conv,
            attributes: Attributes::new()
                .with_ints("kernel_shape", [kernel, kernel])
                .with_int("group", group),
            inputs: vec![
                operand(&[1, inward, 8, 8], false),
                operand(&[outward, inward / group as usize, k, k], true),
            ],
            outputs: vec![TensorSpec::f32([1, outward, 8, 8])],
        }
    }

    fn amount(op: &OpSpec, cost: UnitCost) -> f64 {
        resource_demand(op).iter().find(|(c, _)| *c == cost).map_or(0.0, |(_, amount)| *amount)
    }

    #[test]
    fn convolutions_by_hand() {
        let pointwise = conv(64, 48, 1, 1);
        assert_eq!(amount(&pointwise, UnitCost::Pointwise), (64 * 48 * 64) as f64);
        assert_eq!(amount(&pointwise, UnitCost::Vectors), ln(64.0 / 48.0), "48 channels run as 64");
        assert_eq!(amount(&pointwise, UnitCost::Weights), (64 * 48 * 2) as f64);
        assert_eq!(amount(&pointwise, UnitCost::ConvolutionBytes), ((64 + 48) * 64 * 2) as f64);
        assert_eq!(amount(&conv(32, 32, 3, 32), UnitCost::Depthwise), (32 * 9 * 64) as f64);
        assert_eq!(amount(&conv(64, 64, 3, 4), UnitCost::Grouped), (64 * 16 * 9 * 64) as f64);
        assert_eq!(
            amount(&conv(64, 64, 3, 4), UnitCost::Vectors),
            ln(2.0),
            "16 channels a group run as 32"
        );
        assert_eq!(amount(&conv(3, 32, 3, 1), UnitCost::Stem), (3 * 32 * 9 * 64) as f64);
        assert_eq!(
            amount(&conv(64, 64, i64::MAX, 1), UnitCost::LaunchConvolution),
            1.0,
            "an absurd kernel is not a panic"
        );
    }

    #[test]
    fn images_fill_whole_tiles() {
        let of = |rows: usize, columns: usize| {
            let mut op = conv(32, 32, 3, 1);
            op.outputs = vec![TensorSpec::f32([1, 32, rows, columns])];
            (
                amount(&op, UnitCost::Spatial) / (32 * 32 * 9) as f64,
                amount(&op, UnitCost::Tiles).exp(),
            )
        };
        let whole = |rows, columns| {
            let (pixels, padding) = of(rows, columns);
            (pixels * padding).round()
        };
        assert_eq!((of(8, 8).0, of(7, 7).0, of(9, 16).0), (64.0, 49.0, 144.0), "what is there");
        assert_eq!(
            (whole(8, 8), whole(7, 7), whole(9, 16), whole(1, 8)),
            (64.0, 64.0, 256.0, 64.0),
            "whole tiles of 8 x 8"
        );
    }

    /// `x -> conv -> relu -> add bias -> y`, and `x + y -> relu`.
    fn residual(bias_is_constant: bool, relu_is_read_twice: bool) -> Graph {
        let image = TensorSpec::f32([1, 32, 8, 8]);
        let value =
            |name: &str, source| Value { name: name.into(), tensor: Some(image.clone()), source };
        let bias = if bias_is_constant { ValueSource::Constant(None) } else { ValueSource::Input };
        let from = ValueSource::Node;
        let mut values = vec![
            value("x", ValueSource::Input),
            value("bias", bias),
            value("w", ValueSource::Constant(None)),
        ];
        values.extend(
            [("c", 0), ("r", 1), ("b", 2), ("sum", 3), ("y", 4)]
                .map(|(name, node)| value(name, from(node))),
        );
        let node = |name: &str, kind, inputs: &[u32], output: u32| {
            let inputs = inputs.iter().map(|&i| ValueId(i)).collect();
            let mut node =
                Node::new(name, kind, Attributes::new(), &values, inputs, vec![ValueId(output)]);
            if name == "conv" {
                node.op.attributes = Attributes::new().with_ints("kernel_shape", [3, 3]);
            }
            node
        };
        let nodes = vec![
            node("conv", OpKind::Conv, &[0, 2], 3),
            node("relu", OpKind::Relu, &[3], 4),
            node("bias", OpKind::Add, &[4, 1], 5),
            node("sum", OpKind::Add, &[if relu_is_read_twice { 4 } else { 0 }, 5], 6),
            node("last", OpKind::Relu, &[6], 7),
        ];
        Graph::new(
            "residual",
            values,
            nodes,
            [ValueId(0)].into_iter().chain((!bias_is_constant).then_some(ValueId(1))).collect(),
            vec![ValueId(7)],
        )
        .expect("a graph")
    }

    #[test]
    fn what_reads_a_product_alone_is_merged_with_it() {
        assert_eq!(merged(&residual(true, false)), [false, true, true, false, true]);
        assert_eq!(
            merged(&residual(false, false)),
            [false, true, false, false, true],
            "a bias that is computed is read from memory"
        );
        assert_eq!(
            merged(&residual(true, true)),
            [false, true, false, false, true],
            "a tensor that two read is written"
        );
        assert_eq!(
            Workload::of(&residual(true, false)).demands.len(),
            2,
            "the convolution and the sum"
        );
    }

    #[test]
    fn every_kind_has_a_charge_or_costs_nothing() {
        for kind in OpKind::ALL.iter().cloned().chain([OpKind::Unsupported("Foo".into())]) {
            let op = OpSpec {
                kind,
                attributes: Attributes::new(),
                inputs: Vec::new(),
                outputs: vec![TensorSpec::f32([1, 64, 64, 64])],
            };
            assert!(
                resource_demand(&op).iter().all(|(_, amount)| amount.is_finite() && *amount > 0.0),
                "{}",
                op.kind
            );
            let _ = resource_demand(&OpSpec { outputs: Vec::new(), ..op });
        }
    }

    #[test]
    fn equal_operators_count_once() {
        let op = conv(64, 64, 1, 1);
        let workload = Workload::of_operators([(&op, 1.0), (&op, 2.0)]);
        assert_eq!(workload.demands.len(), 1);
        assert_eq!(workload.demands[0].1, 3.0);
    }
}
