//! The controlled sweeps of the mobile ViT study (figures 9, 10 and 11): networks that differ in
//! one property alone, over channels and sizes of images. The rest of each sweep is how they are
//! measured: input values, memory format, threads and cores.

use super::{
    Built, Network, OperatorSample,
    series::{self, one},
};
use vitempo_graph::{GraphError, OpKind, TensorSpec, ValueId};

/// The name that `vitempo sample --space` takes for them.
pub const STUDY: &str = "study-series";

/// Numbers of channels go up in steps of this many.
const CHANNEL_STEP: usize = 16;
/// Most channels of a convolution.
const MOST_CHANNELS: usize = 256;
/// The same of an activation.
const MOST_ACTIVATED: usize = 512;
/// Sides of the images of depthwise convolutions: the study's 64 and 72, and sizes of models.
const DEPTHWISE_SIDES: [usize; 5] = [28, 48, 56, 64, 72];
/// Sides of the images of dense convolutions.
const DENSE_SIDES: [usize; 2] = [48, 64];
/// Windows of dense convolutions.
const DENSE_WINDOWS: [usize; 2] = [1, 3];
/// Side of the images of activations.
const ACTIVATED_SIDE: usize = 56;

type Activation = fn(&mut Network, ValueId) -> Built;

/// The study's activations, each on an image that is the network's input: the input distribution
/// of the measurement sets its values.
const ACTIVATIONS: [(&str, Activation); 4] = [
    ("relu", |n, x| n.b.unary("op", OpKind::Relu, x)),
    ("silu", |n, x| n.b.silu("op", x)),
    ("gelu", |n, x| n.b.gelu_erf("op", x)),
    ("gelu-tanh", |n, x| n.b.unary("op", OpKind::GeluTanh, x)),
];

/// All networks.
///
/// # Errors
/// [`GraphError`] when one contradicts itself, which its test rules out.
pub fn study() -> Result<Vec<OperatorSample>, GraphError> {
    let steps = |most: usize| (CHANNEL_STEP..=most).step_by(CHANNEL_STEP);
    let mut all = Vec::new();
    for (name, activation) in ACTIVATIONS {
        for channels in steps(MOST_ACTIVATED) {
            all.push(one(format!("activation-{name}-{channels:03}"), |n| {
                let shape = [1, channels, ACTIVATED_SIDE, ACTIVATED_SIDE];
                let x = n.b.input("x", TensorSpec::f32(shape));
                activation(n, x)
            })?);
        }
    }
    for side in DEPTHWISE_SIDES {
        for channels in steps(MOST_CHANNELS) {
            let name = format!("depthwise-{side}x{side}-{channels:03}");
            all.push(one(name, |n| series::depthwise(n, channels, side))?);
        }
    }
    for side in DENSE_SIDES {
        for window in DENSE_WINDOWS {
            for channels in steps(MOST_CHANNELS) {
                let name = format!("dense-{side}x{side}-{window}x{window}-{channels:03}");
                all.push(one(name, |n| dense(n, channels, side, window))?);
            }
        }
    }
    Ok(all)
}

/// As many channels as it reads, at stride 1, between activations of the same size.
fn dense(n: &mut Network, channels: usize, side: usize, window: usize) -> Built {
    let x = n.b.input("x", TensorSpec::f32([1, channels, side, side]));
    let y = n.b.unary("before", OpKind::Sigmoid, x)?;
    let y = n.b.conv("op", y, channels, window, 1, window / 2, 1, true)?;
    n.b.unary("after", OpKind::Sigmoid, y)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn every_curve_has_all_its_channels_and_no_two_networks_are_the_same() {
        let all = study().unwrap_or_else(|e| panic!("{e}"));
        let architectures: BTreeSet<String> = all.iter().map(|s| s.graph.architecture()).collect();
        assert_eq!(architectures.len(), all.len());
        assert!(all.iter().all(|s| s.graph.unsupported().next().is_none()));
        let mut curves: BTreeMap<&str, usize> = BTreeMap::new();
        for sample in &all {
            let (curve, _) = sample.encoding.rsplit_once('-').unwrap_or_default();
            *curves.entry(curve).or_default() += 1;
        }
        assert_eq!(curves.len(), 4 + 5 + 4);
        assert_eq!(curves["activation-gelu-tanh"], 32);
        assert_eq!((curves["depthwise-72x72"], curves["dense-48x48-3x3"]), (16, 16));
    }
}
