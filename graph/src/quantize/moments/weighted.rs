//! Products with weights, channel by channel where the weights have values.

use super::{Moments, SEEDED_DEVIATION, Visit};
use crate::quantize::scale;
use crate::{ConstantData, OpKind, ValueSource};

/// Sums over one output channel's weights.
#[derive(Clone, Copy, Default)]
struct Channel {
    weights: f64,
    squares: f64,
    bias: f64,
}

/// The output of a convolution or linear layer that reads `x`.
pub(super) fn product(visit: &Visit<'_>, x: Moments) -> Moments {
    match channels(visit) {
        Some(channels) => together(
            channels.into_iter().map(|c| (c.weights * x.mean + c.bias, c.squares * x.variance)),
        ),
        None => {
            let bias = if visit.node.inputs.len() > 2 { SEEDED_DEVIATION.powi(2) } else { 0.0 };
            Moments::normal(0.0, visit.depth() * SEEDED_DEVIATION.powi(2) * x.mean_square() + bias)
        }
    }
}

/// (x - mean) / sqrt(variance) * scale + bias of each channel.
pub(super) fn batch_norm(visit: &Visit<'_>, x: Moments) -> Moments {
    let vector = |index: usize| numbers(visit, index);
    let (Some(scale), Some(bias), Some(mean), Some(variance)) =
        (vector(1), vector(2), vector(3), vector(4))
    else {
        return Moments::normal(x.mean, x.variance + 2.0 * SEEDED_DEVIATION.powi(2));
    };
    let epsilon = visit.node.op.attributes.float("epsilon").unwrap_or(1e-5);
    let channel = |i: usize| {
        let at = |v: &[f64]| v.get(i).copied().unwrap_or(0.0);
        let factor = at(scale) / (at(variance) + epsilon).max(1e-12).sqrt();
        (factor * (x.mean - at(mean)) + at(bias), factor * factor * x.variance)
    };
    together((0..scale.len()).map(channel))
}

/// One distribution of channels with these means and variances.
fn together(channels: impl Iterator<Item = (f64, f64)>) -> Moments {
    let (mut n, mut means, mut squares, mut variances) = (0.0, 0.0, 0.0, 0.0);
    for (mean, variance) in channels {
        n += 1.0;
        means += mean;
        squares += mean * mean;
        variances += variance;
    }
    let n = f64::max(n, 1.0);
    Moments::normal(means / n, variances / n + (squares / n - (means / n).powi(2)).max(0.0))
}

fn numbers<'a>(visit: &Visit<'a>, index: usize) -> Option<&'a [f64]> {
    match &visit.graph.value(*visit.node.inputs.get(index)?).source {
        ValueSource::Constant(Some(ConstantData::Floats(v))) => Some(v),
        _ => None,
    }
}

fn channels(visit: &Visit<'_>) -> Option<Vec<Channel>> {
    let op = &visit.node.op;
    let weights = numbers(visit, 1)?;
    let shape = &op.inputs.get(1)?.tensor.shape;
    let transposed = op.attributes.int("trans_b") == Some(1);
    let axis = match op.kind {
        OpKind::Conv => 0,
        OpKind::ConvTranspose => 1,
        _ if transposed => 0,
        _ => shape.len().checked_sub(1)?,
    };
    // An empty tensor may have many channels.
    let count = shape.get(axis).copied().filter(|&count| count <= weights.len())?;
    let mut channels = vec![Channel::default(); count];
    for (&w, slice) in weights.iter().zip(scale::slices(shape, axis)) {
        let channel = channels.get_mut(slice)?;
        channel.weights += w;
        channel.squares += w * w;
    }
    let bias = numbers(visit, 2).filter(|b| b.len() == channels.len());
    for (channel, b) in channels.iter_mut().zip(bias.unwrap_or_default()) {
        channel.bias = *b;
    }
    Some(channels)
}
