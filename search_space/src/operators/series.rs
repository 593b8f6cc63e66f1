//! Series: networks that differ in one property alone, so that its effect can be plotted: channels
//! of a depthwise convolution, the kind of an activation.

use super::{Built, Network, OperatorSample};
use vitempo_graph::{Attribute, Attributes, GraphBuilder, GraphError, OpKind, TensorSpec, ValueId};

/// The name that `vitempo sample --space` takes for them.
pub const SERIES: &str = "operator-series";

/// Channels of the depthwise convolutions.
const CHANNELS: std::ops::RangeInclusive<usize> = 1..=36;
/// They go up in steps of this many.
const CHANNEL_STEP: usize = 8;

type Activation = fn(&mut Network, ValueId) -> Built;

/// Activations, each on an image that is the network's input: the input distribution of the
/// measurement sets its values.
const ACTIVATIONS: [(&str, Activation); 11] = [
    ("relu", |n, x| n.b.unary("op", OpKind::Relu, x)),
    ("relu6", |n, x| with(n, OpKind::Clip, &[("min", 0.0), ("max", 6.0)], x)),
    ("leaky-relu", |n, x| with(n, OpKind::LeakyRelu, &[("alpha", 0.1)], x)),
    ("elu", |n, x| with(n, OpKind::Elu, &[("alpha", 1.0)], x)),
    ("sigmoid", |n, x| n.b.unary("op", OpKind::Sigmoid, x)),
    ("hard-sigmoid", |n, x| {
        with(n, OpKind::HardSigmoid, &[("alpha", 1.0 / 6.0), ("beta", 0.5)], x)
    }),
    ("hard-swish", |n, x| n.b.unary("op", OpKind::HardSwish, x)),
    ("silu", |n, x| n.b.silu("op", x)),
    ("gelu", |n, x| n.b.gelu_erf("op", x)),
    ("tanh", |n, x| n.b.unary("op", OpKind::Tanh, x)),
    ("softplus", |n, x| n.b.unary("op", OpKind::Softplus, x)),
];

fn with(n: &mut Network, kind: OpKind, floats: &[(&str, f64)], x: ValueId) -> Built {
    let attributes = floats
        .iter()
        .fold(Attributes::new(), |a, (name, value)| a.with(name, Attribute::Float(*value)));
    n.b.op("op", kind, attributes, &[x])
}

/// All series.
///
/// # Errors
/// [`GraphError`] when one contradicts itself, which its test rules out.
pub fn series() -> Result<Vec<OperatorSample>, GraphError> {
    let depthwise = CHANNELS.map(|i| {
        one(format!("depthwise-{:03}", i * CHANNEL_STEP), |n| depthwise(n, i * CHANNEL_STEP, 28))
    });
    let activations = ACTIVATIONS.iter().map(|(name, activation)| {
        one(format!("activation-{name}"), |n| {
            let x = n.b.input("x", TensorSpec::f32([1, 64, 56, 56]));
            activation(n, x)
        })
    });
    depthwise.chain(activations).collect()
}

pub(super) fn one(
    encoding: String,
    build: impl FnOnce(&mut Network) -> Built,
) -> Result<OperatorSample, GraphError> {
    let mut network = Network { b: GraphBuilder::new(encoding.clone()), count: 0 };
    let output = build(&mut network)?;
    Ok(OperatorSample { encoding, graph: network.b.finish(vec![output])? })
}

/// 3x3 on an image of this side, between pointwise convolutions.
pub(super) fn depthwise(n: &mut Network, channels: usize, side: usize) -> Built {
    let x = n.b.input("x", TensorSpec::f32([1, channels, side, side]));
    let y = n.b.conv("before", x, channels, 1, 1, 0, 1, true)?;
    let y = n.b.conv("op", y, channels, 3, 1, 1, channels, true)?;
    n.b.conv("after", y, channels, 1, 1, 0, 1, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_series_builds_and_no_two_networks_are_the_same() {
        let series = series().unwrap_or_else(|e| panic!("{e}"));
        let architectures: std::collections::BTreeSet<String> =
            series.iter().map(|s| s.graph.architecture()).collect();
        assert_eq!(architectures.len(), series.len());
        assert!(series.iter().all(|s| s.graph.unsupported().next().is_none()));
    }
}
