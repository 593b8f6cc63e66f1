//! Single operators: small networks around kinds and modes of operators that vision models use and
//! a search space may lack.
//!
//! Predictors need measurements of every kind that they forecast. This inventory covers dense,
//! grouped, strided and transposed convolutions, pooling, resizing, softmax over any axis,
//! permutations, rolls, window partitions, gathers, broadcasts, reductions and so on, over shapes
//! from wide ranges that are not those of any particular model. Each network has an input, an
//! operator that brings it into the caches and the engine's layout, the measured operator, and a
//! reader of its output.

mod attention;
mod blocks;
mod convolutions;
mod ends;
mod extremes;
mod images;
mod modes;
mod permuted;
mod rare;
mod rearrangements;
mod series;
mod study;
mod tokens;

pub use blocks::{BLOCKS, blocks};
pub use ends::{ENDS, ends};
pub use rare::{RARE, rare};
pub use series::{SERIES, series};
pub use study::{STUDY, study};

use crate::Generator;
use vitempo_graph::{Graph, GraphBuilder, GraphError, ModelIdentity, OpKind, TensorSpec, ValueId};

/// The name that stands where samples name their search space.
pub const NAME: &str = ModelIdentity::OPERATORS;

/// No tensor of a network has more elements.
const MOST_ELEMENTS: usize = 3 << 20;

type Built = Result<ValueId, GraphError>;
type Template = fn(&mut Network, &mut Generator) -> Built;

/// One operator's network.
#[derive(Clone, Debug)]
pub struct OperatorSample {
    /// Template and number, e.g. `resize-12`; the network depends on the seed and this name.
    pub encoding: String,
    /// The network.
    pub graph: Graph,
}

/// A network being built; names of its operators count up.
struct Network {
    b: GraphBuilder,
    count: usize,
}

impl Network {
    fn name(&mut self) -> String {
        self.count += 1;
        format!("op{}", self.count)
    }

    /// The shape of a value that was built; empty where it has none.
    fn shape(&self, x: ValueId) -> Vec<usize> {
        self.b.tensor(x).map(|t| t.shape.to_vec()).unwrap_or_default()
    }

    /// The channels of an image that was built.
    fn channels(&self, x: ValueId) -> usize {
        self.shape(x).get(1).copied().unwrap_or(1)
    }
}

/// Draws `count` networks, the templates in turn; the i-th does not depend on `count`.
///
/// # Errors
/// [`GraphError`] when a template contradicts itself, which its tests rule out.
pub fn sample(count: usize, seed: u64) -> Result<Vec<OperatorSample>, GraphError> {
    let templates: Vec<(&str, Template)> = [
        images::TEMPLATES,
        tokens::TEMPLATES,
        attention::TEMPLATES,
        convolutions::TEMPLATES,
        rearrangements::TEMPLATES,
    ]
    .concat();
    draw(&templates, count, seed)
}

/// `count` networks of these templates, in turn.
fn draw(
    templates: &[(&str, Template)],
    count: usize,
    seed: u64,
) -> Result<Vec<OperatorSample>, GraphError> {
    (0..count).map(|i| one(templates[i % templates.len()], i / templates.len(), seed)).collect()
}

fn one(
    (name, template): (&str, Template),
    number: usize,
    seed: u64,
) -> Result<OperatorSample, GraphError> {
    let salt = name.bytes().fold(0u64, |h, b| h.wrapping_mul(0x100_0000_01b3) ^ u64::from(b));
    let mut generator = Generator::stream(seed ^ salt, number as u64);
    let encoding = format!("{name}-{number}");
    let mut network = Network { b: GraphBuilder::new(encoding.clone()), count: 0 };
    let output = template(&mut network, &mut generator)?;
    Ok(OperatorSample { encoding, graph: network.b.finish(vec![output])? })
}

fn unary(n: &mut Network, kind: OpKind, x: ValueId) -> Built {
    let name = n.name();
    n.b.unary(&name, kind, x)
}

fn binary(n: &mut Network, kind: OpKind, a: ValueId, b: ValueId) -> Built {
    let name = n.name();
    n.b.binary(&name, kind, a, b)
}

fn linear(n: &mut Network, x: ValueId, out: usize) -> Built {
    let name = n.name();
    n.b.linear(&name, x, out, true)
}

fn layer_norm(n: &mut Network, x: ValueId) -> Built {
    let name = n.name();
    n.b.layer_norm(&name, x)
}

fn concat(n: &mut Network, parts: &[ValueId], axis: usize) -> Built {
    let name = n.name();
    n.b.concat(&name, parts, axis)
}

fn transposed(n: &mut Network, x: ValueId, perm: &[usize]) -> Built {
    let name = n.name();
    n.b.transpose(&name, x, perm)
}

fn reshaped(n: &mut Network, x: ValueId, shape: &[usize]) -> Built {
    let name = n.name();
    n.b.reshape(&name, x, shape)
}

/// An input of this shape that was just written.
fn written(n: &mut Network, shape: impl AsRef<[usize]>) -> Built {
    let x = n.b.input("x", TensorSpec::f32(shape));
    unary(n, OpKind::Abs, x)
}

/// An image of this shape, computed by a convolution from an input.
fn convolved(n: &mut Network, shape: [usize; 4]) -> Built {
    let x = n.b.input("x", TensorSpec::f32(shape));
    let name = n.name();
    n.b.conv(&name, x, shape[1], 1, 1, 0, 1, true)
}

/// One of several.
fn pick<T: Copy + Default>(g: &mut Generator, from: &[T]) -> T {
    g.pick(from).unwrap_or_default()
}

/// A whole number from `low` to `high`, small ones as likely as large ones on a logarithmic scale.
fn between(g: &mut Generator, low: usize, high: usize) -> usize {
    let (low_log, high_log) = ((low as f64).ln(), (high as f64 + 0.999).ln());
    ((low_log + g.unit() * (high_log - low_log)).exp() as usize).clamp(low, high)
}

/// A number of channels: mostly multiples of eight.
fn channels(g: &mut Generator, high: usize) -> usize {
    let step = pick(g, &[8, 8, 16, 32, 4]);
    (between(g, 8, high) / step).max(1) * step
}

/// The longest side of a square image with at most this many elements, by channels.
fn longest_side(elements: usize, channels: usize) -> usize {
    ((elements / channels.max(1)) as f64).sqrt() as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_template_builds_within_its_bounds_and_repeats() {
        let samples = sample(2000, 3).unwrap_or_else(|e| panic!("{e}"));
        let again = sample(2000, 3).unwrap_or_else(|e| panic!("{e}"));
        assert!(samples.iter().zip(&again).all(|(a, b)| a.graph == b.graph));
        for s in &samples {
            let largest = s
                .graph
                .values()
                .iter()
                .filter_map(|v| v.tensor.as_ref())
                .map(TensorSpec::elements)
                .max();
            assert!(
                largest.is_some_and(|n| n <= 16 * MOST_ELEMENTS as u64),
                "{}: {largest:?} elements",
                s.encoding
            );
            assert_eq!(s.graph.unsupported().count(), 0, "{}", s.encoding);
        }
        let architectures: BTreeSet<String> =
            samples.iter().map(|s| s.graph.architecture()).collect();
        assert!(architectures.len() > 1800, "only {} distinct networks", architectures.len());
    }

    #[test]
    fn the_first_samples_do_not_depend_on_the_count() {
        let (few, many) = (sample(30, 5), sample(90, 5));
        assert!(few.is_ok_and(|few| {
            many.is_ok_and(|many| few.iter().zip(&many).all(|(a, b)| a.graph == b.graph))
        }));
    }
}
