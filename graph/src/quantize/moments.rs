//! Estimates the range of every tensor without running the model, by propagating mean and variance
//! from operator to operator.
//!
//! Assumption: the elements of a tensor are independent draws of one distribution, normal except
//! for its ends (a ReLU's output is not negative). Then:
//!
//! | operator | mean and variance of its output |
//! |---|---|
//! | product with a weight | per output channel: sum(w) m + b and sum(w^2) v; the tensor's variance is their mean plus the variance of the channels' means |
//! | product of two tensors | K ma mb and K (va vb + va mb^2 + vb ma^2); of attention weights: those of the values they mix |
//! | function f of one number | of f(x), by integrating over six standard deviations |
//! | sum, product of two tensors | as of independent numbers |
//! | normalisation | its bias's mean; its scale's mean square plus its bias's variance |
//! | mean over n | the same mean; v / sqrt(n), between independent (v / n) and equal (v) elements |
//! | movement of elements | the same, to the bit: engines require equal scales on both sides |
//!
//! The range is mean +- 6 standard deviations. For a function of one number, it is the image of its
//! input's range.

mod function;
mod weighted;

use super::scale::Affine;
use crate::{ConstantData, Graph, Node, OpKind, Precision, Value, ValueId, ValueSource, Work};

/// Mean and variance of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Moments {
    pub mean: f64,
    pub variance: f64,
    /// The least element there may be.
    pub least: f64,
    /// The greatest element there may be.
    pub most: f64,
}

/// Standard deviations on each side of the mean that a normal distribution is followed.
const REACH: f64 = 6.0;
/// Standard deviation of weights without values, as the writer of models makes them.
const SEEDED_DEVIATION: f64 = 0.02;

impl Moments {
    fn normal(mean: f64, variance: f64) -> Self {
        let finite = |v: f64| if v.is_finite() { v.clamp(-1e18, 1e18) } else { 0.0 };
        let (mean, variance) = (finite(mean), finite(variance).max(0.0));
        let reach = REACH * variance.sqrt();
        Self { mean, variance, least: mean - reach, most: mean + reach }
    }

    fn uniform(low: f64, high: f64) -> Self {
        Self {
            least: low,
            most: high,
            ..Self::normal((low + high) / 2.0, (high - low).powi(2) / 12.0)
        }
    }

    /// The same within bounds.
    fn within(self, low: f64, high: f64) -> Self {
        Self { least: self.least.clamp(low, high), most: self.most.clamp(low, high), ..self }
    }

    fn deviation(self) -> f64 {
        self.variance.sqrt()
    }

    fn mean_square(self) -> f64 {
        self.mean * self.mean + self.variance
    }

    /// Whether all elements are about the same: a constant that shifts or scales.
    fn is_steady(self) -> bool {
        self.variance < 0.01 * self.mean * self.mean
    }

    /// Scale and zero point for the range.
    pub(crate) fn affine(self) -> Affine {
        Affine::of_range(self.least, self.most)
    }

    /// Scale and zero point for the smallest range around 0 that holds this one.
    pub(crate) fn affine_around_zero(self) -> Affine {
        Affine::around_zero(self.least, self.most)
    }

    fn mix(parts: &[(Self, f64)]) -> Self {
        let total: f64 = parts.iter().map(|(_, weight)| weight).sum::<f64>().max(f64::MIN_POSITIVE);
        let of = |f: &dyn Fn(&Self) -> f64| {
            parts.iter().map(|(m, weight)| f(m) * weight).sum::<f64>() / total
        };
        let mean = of(&|m| m.mean);
        let variance = of(&|m| m.mean_square()) - mean * mean;
        let bound = |f: fn(f64, f64) -> f64, of: fn(&Self) -> f64| {
            parts.iter().map(|(m, _)| of(m)).reduce(f).unwrap_or(0.0)
        };
        Self {
            least: bound(f64::min, |m| m.least),
            most: bound(f64::max, |m| m.most),
            ..Self::normal(mean, variance)
        }
    }
}

/// The moments of every value; `None` where a value is no float or nothing is known of it. `input`:
/// range of the model's inputs.
pub(crate) fn propagate(graph: &Graph, input: (f64, f64)) -> Vec<Option<Moments>> {
    let mut known: Vec<Option<Moments>> = vec![None; graph.values().len()];
    for &id in graph.inputs() {
        known[id.0 as usize] = Some(Moments::uniform(input.0, input.1));
    }
    for node in graph.nodes() {
        let moments = Visit { graph, known: &known, node }
            .output()
            .map(|m| function::on_the_way_out(&node.op, m));
        for &output in &node.outputs {
            let float = graph.value(output).tensor.as_ref().is_some_and(|t| t.precision.is_float());
            known[output.0 as usize] = moments.filter(|_| float);
        }
    }
    known
}

struct Visit<'a> {
    graph: &'a Graph,
    known: &'a [Option<Moments>],
    node: &'a Node,
}

impl Visit<'_> {
    fn value(&self, index: usize) -> Option<&Value> {
        self.node.inputs.get(index).map(|&id| self.graph.value(id))
    }

    fn input(&self, index: usize) -> Option<Moments> {
        let id: ValueId = *self.node.inputs.get(index)?;
        let value = self.graph.value(id);
        match &value.source {
            ValueSource::Constant(Some(ConstantData::Floats(v))) => Some(of_numbers(v)),
            ValueSource::Constant(Some(ConstantData::Ints(v))) => {
                Some(of_numbers(&v.iter().map(|&i| i as f64).collect::<Vec<_>>()))
            }
            ValueSource::Constant(None) => Some(self.assumed(index)),
            _ => self.known[id.0 as usize],
        }
    }

    /// A constant without values, which the writer of models fills.
    fn assumed(&self, index: usize) -> Moments {
        use OpKind::*;
        match (&self.node.op.kind, index) {
            (BatchNorm, 4) | (Sqrt | Log | Reciprocal | Pow, 0) | (Div, 1) => {
                Moments::uniform(0.5, 1.5)
            }
            (BatchNorm | LayerNorm | InstanceNorm | GroupNorm | RmsNorm, 1) => {
                Moments::normal(1.0, SEEDED_DEVIATION.powi(2))
            }
            _ => Moments::normal(0.0, SEEDED_DEVIATION.powi(2)),
        }
    }

    /// The first computed input of floats.
    fn first(&self) -> Option<Moments> {
        let float = |i: &usize| {
            self.node
                .op
                .inputs
                .get(*i)
                .is_some_and(|o| !o.constant && o.tensor.precision.is_float())
        };
        let constant = (0..self.node.inputs.len()).find_map(|i| self.input(i));
        (0..self.node.inputs.len()).filter(float).find_map(|i| self.input(i)).or(constant)
    }

    fn output(&self) -> Option<Moments> {
        use OpKind::*;
        let op = &self.node.op;
        if let (Pow, Some(exponent)) =
            (&op.kind, op.attributes.float("exponent").filter(|&e| e < 0.0))
        {
            return Some(power(self.first()?, exponent));
        }
        if let Some(function) = function::of(op) {
            return Some(function::apply(self.first()?, &*function));
        }
        let (a, b) = (self.input(0), self.input(1));
        Some(match op.kind {
            Conv | ConvTranspose | Linear => weighted::product(self, a?),
            MatMul | Einsum => self.product(a?, b?),
            Attention => self.input(2)?,
            Add => sum(a?, b?, 1.0),
            Sub if op.attributes.int("squared") == Some(1) => {
                function::apply(sum(a?, b?, -1.0), &|x| x * x)
            }
            Sub => sum(a?, b?, -1.0),
            Mul if self.node.inputs.first() == self.node.inputs.get(1) => {
                function::apply(a?, &|x| x * x)
            }
            Mul => multiplied(a?, b?),
            Div => multiplied(a?, inverse(b?)),
            Softmax => {
                softmax(a?, self.extent("axis").max(1.0), op.attributes.int("log") == Some(1))
            }
            LayerNorm | InstanceNorm | GroupNorm | RmsNorm => {
                let (scale, bias) = (
                    b.unwrap_or(Moments::normal(1.0, 0.0)),
                    self.input(2).unwrap_or(Moments::normal(0.0, 0.0)),
                );
                Moments::normal(bias.mean, scale.mean_square() + bias.variance)
            }
            LpNorm => Moments::normal(0.0, 1.0 / self.extent("axis").max(1.0)).within(-1.0, 1.0),
            BatchNorm => weighted::batch_norm(self, a?),
            GlobalAveragePool | AveragePool | ReduceMean => {
                averaged(self.first()?, self.shrinkage())
            }
            ReduceSum => {
                let (x, n) = (self.first()?, self.shrinkage());
                Moments::normal(x.mean * n, x.variance * n)
            }
            ReduceL2 => Moments::normal(
                (self.first()?.mean_square() * self.shrinkage()).sqrt(),
                self.first()?.variance,
            )
            .within(0.0, f64::INFINITY),
            Concat | Where | Min | Max => {
                let skip = usize::from(op.kind == Where);
                let parts = (skip..self.node.inputs.len())
                    .filter_map(|i| Some((self.input(i)?, self.elements(i))))
                    .collect::<Vec<_>>();
                Moments::mix(&parts)
            }
            Cast if op.inputs.first().is_some_and(|x| x.tensor.precision == Precision::Bool) => {
                Moments::uniform(0.0, 1.0)
            }
            _ => self.first()?,
        })
    }

    fn elements(&self, index: usize) -> f64 {
        self.value(index).and_then(|v| v.tensor.as_ref()).map_or(0.0, |t| t.elements() as f64)
    }

    /// Input elements per output element.
    fn shrinkage(&self) -> f64 {
        let outputs = self.node.op.outputs.first().map_or(1, |t| t.elements()).max(1) as f64;
        match self.node.op.attributes.ints("kernel_shape") {
            [] => (self.elements(0) / outputs).max(1.0),
            kernel => kernel.iter().map(|&k| k.max(1) as f64).product(),
        }
    }

    /// Extent of the input along an axis named by an attribute.
    fn extent(&self, attribute: &str) -> f64 {
        let axis = self.node.op.attributes.int(attribute).and_then(|a| usize::try_from(a).ok());
        let shape = self.value(0).and_then(|v| v.tensor.as_ref()).map_or(&[][..], |t| &t.shape);
        axis.and_then(|a| shape.get(a)).or(shape.last()).map_or(1.0, |&d| d as f64)
    }

    /// Multiply-accumulates per output element.
    fn depth(&self) -> f64 {
        let outputs = self.node.op.outputs.first().map_or(1, |t| t.elements()).max(1);
        Work::of_operator(&self.node.op).macs as f64 / outputs as f64
    }

    fn product(&self, a: Moments, b: Moments) -> Moments {
        let attention = self
            .node
            .inputs
            .first()
            .and_then(|&id| self.graph.producer(id))
            .is_some_and(|n| n.op.kind == OpKind::Softmax);
        if attention {
            return b;
        }
        let both = multiplied(a, b);
        Moments::normal(self.depth() * both.mean, self.depth() * both.variance)
    }
}

fn of_numbers(numbers: &[f64]) -> Moments {
    let n = numbers.len().max(1) as f64;
    let mean = numbers.iter().sum::<f64>() / n;
    let variance = numbers.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n;
    let (least, most) = numbers.iter().fold((mean, mean), |(l, m), &v| (l.min(v), m.max(v)));
    Moments { least, most, ..Moments::normal(mean, variance) }
}

fn sum(a: Moments, b: Moments, sign: f64) -> Moments {
    let b = Moments { mean: sign * b.mean, least: sign * b.least, most: sign * b.most, ..b };
    let both = Moments::normal(a.mean + b.mean, a.variance + b.variance);
    match (a.variance, b.variance) {
        (v, w) if w <= 0.01 * v => {
            Moments { least: a.least + b.mean, most: a.most + b.mean, ..both }
        }
        (v, w) if v <= 0.01 * w => Moments {
            least: b.least.min(b.most) + a.mean,
            most: b.most.max(b.least) + a.mean,
            ..both
        },
        _ => both,
    }
}

fn multiplied(a: Moments, b: Moments) -> Moments {
    let both = Moments::normal(
        a.mean * b.mean,
        a.variance * b.variance + a.variance * b.mean.powi(2) + b.variance * a.mean.powi(2),
    );
    let scaled = |m: Moments, by: f64| Moments {
        least: (m.least * by).min(m.most * by),
        most: (m.least * by).max(m.most * by),
        ..both
    };
    if b.is_steady() {
        return scaled(a, b.mean);
    }
    if a.is_steady() {
        return scaled(b, a.mean);
    }
    if a.least >= 0.0 && b.least >= 0.0 { both.within(0.0, f64::INFINITY) } else { both }
}

/// x to a negative exponent, around the mean: far from it lies a pole.
fn power(x: Moments, exponent: f64) -> Moments {
    let mean = x.mean.abs().max(1e-12);
    let (value, slope) = (mean.powf(exponent), exponent * mean.powf(exponent - 1.0));
    Moments::normal(value, slope * slope * x.variance).within(0.0, f64::INFINITY)
}

/// 1 / x, around the mean.
fn inverse(x: Moments) -> Moments {
    let mean = if x.mean.abs() < 1e-6 { 1e-6 } else { x.mean };
    Moments::normal(1.0 / mean, x.variance / mean.powi(4))
}

fn averaged(x: Moments, n: f64) -> Moments {
    Moments::normal(x.mean, x.variance / n.max(1.0).sqrt()).within(x.least, x.most)
}

/// Of n normal scores: exp(s - mean - variance / 2) / n, whose greatest is close to 1 / n while
/// scores hardly differ and 1 once they do.
fn softmax(scores: Moments, n: f64, log: bool) -> Moments {
    let most = (REACH * scores.deviation() - scores.variance.min(REACH * REACH) / 2.0).exp() / n;
    if log {
        return Moments {
            most: 0.0,
            ..Moments::normal(-n.ln() - scores.variance / 2.0, scores.variance)
        };
    }
    Moments { least: 0.0, most: most.clamp(1.0 / n, 1.0), ..Moments::normal(1.0 / n, 1.0 / n / n) }
}
