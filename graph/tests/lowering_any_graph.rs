//! Small graphs of every operator, also with tensors without dimensions or elements: every
//! framework lowers or refuses what shape inference accepts, and the TensorFlow Lite writer writes
//! or refuses it. Nothing panics.

#![allow(clippy::unwrap_used)]

mod growing;

use growing::environments;
use proptest::prelude::*;
use vitempo_graph::lowering::lower_within;
use vitempo_graph::tflite::{self, Weights};
use vitempo_graph::{
    Attribute, Attributes, Budget, ConstantData, Graph, GraphBuilder, Limits, OpKind, Precision,
    TensorSpec, ValueId, patterns,
};

/// Numbers that decide, one after the other; again from the first when they are over.
struct Choices {
    bytes: Vec<u8>,
    at: usize,
}

impl Choices {
    fn below(&mut self, count: usize) -> usize {
        let byte = self.bytes[self.at % self.bytes.len()];
        self.at += 1;
        usize::from(byte) % count.max(1)
    }

    fn of<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())].clone()
    }

    fn shape(&mut self) -> Vec<usize> {
        let rank = self.below(6);
        (0..rank).map(|_| self.of(&[0, 1, 2, 3, 4, 4])).collect()
    }

    fn precision(&mut self) -> Precision {
        use Precision::{Bool, F16, F32, F64, I8, I32, I64, U8};
        self.of(&[F32, F32, F32, F32, F32, F16, F64, I64, I32, I8, U8, Bool])
    }

    fn permutation(&mut self, rank: usize) -> Vec<i64> {
        let mut perm: Vec<i64> = (0..rank as i64).collect();
        for i in (1..rank).rev() {
            perm.swap(i, self.below(i + 1));
        }
        perm
    }

    fn ints(&mut self, count: usize, from: i64, to: i64) -> Vec<i64> {
        (0..count).map(|_| from + self.below((to - from) as usize + 1) as i64).collect()
    }
}

fn text(value: &str) -> Attribute {
    Attribute::Text(value.to_owned())
}

/// Attributes that could be an operator's on a tensor of this shape.
fn attributes(kind: &OpKind, shape: &[usize], c: &mut Choices) -> Attributes {
    use OpKind as K;
    let rank = shape.len();
    let spatial = rank.saturating_sub(2);
    let a = Attributes::new();
    let axis = c.below(rank.max(1)) as i64;
    match kind {
        K::Conv | K::ConvTranspose | K::MaxPool | K::AveragePool => a
            .with_ints("kernel_shape", c.ints(spatial, 1, 3))
            .with_ints("strides", c.ints(spatial, 1, 3))
            .with_ints("pads", c.ints(2 * spatial, 0, 2))
            .with_int("group", c.of(&[1, 1, 2, 4]))
            .with_int("ceil_mode", c.of(&[0, 1]))
            .with_int("count_include_pad", c.of(&[0, 1])),
        K::Transpose => a.with_ints("perm", c.permutation(rank)),
        K::Reshape => {
            let flat: i64 = shape.iter().map(|&d| d as i64).product();
            let whole: Vec<i64> = shape.iter().map(|&d| d as i64).collect();
            let squeezed: Vec<i64> = whole.iter().copied().filter(|&d| d != 1).collect();
            let wide = [&[1], &whole[..]].concat();
            a.with_ints("shape", c.of(&[vec![flat], squeezed, wide, vec![1, flat], vec![]]))
        }
        K::Expand => a.with_ints("shape", c.ints(rank + c.at % 2, 0, 4)),
        K::Tile => a.with_ints("repeats", c.ints(rank, 0, 2)),
        K::Pad => a
            .with_ints("pads", c.ints(2 * rank, -1, 2))
            .with("mode", text(c.of(&["constant", "reflect", "edge", "wrap"]))),
        K::Slice => a
            .with_ints("axes", [axis])
            .with_ints("starts", c.ints(1, -2, 3))
            .with_ints("ends", c.ints(1, -2, 4))
            .with_ints("steps", [c.of(&[1, 1, 2, -1])]),
        K::Split => {
            let extent = shape.get(axis as usize).copied().unwrap_or(0) as i64;
            let first = c.below(extent as usize + 1) as i64;
            a.with_int("axis", axis).with_ints("split", [first, extent - first])
        }
        K::Gather if c.below(2) == 0 => a.with_int("axis", axis).with_int("index", 0),
        K::Resize => a
            .with("mode", text(c.of(&["nearest", "linear", "cubic"])))
            .with(
                "coordinate_transformation_mode",
                text(c.of(&["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"])),
            )
            .with("nearest_mode", text(c.of(&["floor", "ceil", "round_prefer_floor"])))
            .with_ints("sizes", c.ints(rank, 0, 5)),
        K::DepthToSpace | K::SpaceToDepth => {
            a.with_int("blocksize", c.of(&[1, 2, 0])).with("mode", text(c.of(&["DCR", "CRD"])))
        }
        K::Col2Im => a.with_ints("image_shape", [2, 2]).with_ints("block_shape", c.ints(2, 0, 2)),
        K::Einsum => a.with("equation", text(c.of(&["ij,jk->ik", "bij,bjk->bik", "i,i->"]))),
        K::Clip => a.with("min", Attribute::Float(0.0)).with("max", Attribute::Float(6.0)),
        K::Compare => a.with("op", text("Greater")),
        K::Logical => a.with("op", text(c.of(&["And", "Not"]))),
        K::Round => a.with("op", text("Floor")),
        K::Cast | K::Quantize => a.with("to", text(c.of(&["f32", "u8", "i8", "i64", "bool"]))),
        K::GroupNorm => a.with_int("groups", c.of(&[1, 2, 0])),
        K::Attention => a.with_int("heads", 1),
        K::TopK => a.with_int("k", c.of(&[0, 1, 2])).with_int("axis", axis),
        K::Linear | K::MatMul => match c.below(3) {
            0 => a.with_int("trans_b", 1),
            1 => a.with_int("trans_a", 1),
            _ => a,
        },
        K::Trilu => a.with_int("upper", c.of(&[0, 1])),
        K::ReduceMean
        | K::ReduceSum
        | K::ReduceMax
        | K::ReduceMin
        | K::ReduceL2
        | K::ReduceProd => {
            let axes: Vec<i64> = (0..rank as i64).filter(|_| c.below(2) == 0).collect();
            a.with_ints("axes", axes).with_int("keepdims", c.of(&[0, 1]))
        }
        _ => a.with_int("axis", axis).with_int("keepdims", c.of(&[0, 1])),
    }
}

/// Shapes that an operator could read beside one of this shape.
fn beside(kind: &OpKind, shape: &[usize], place: usize, c: &mut Choices) -> Vec<usize> {
    use OpKind as K;
    let extent = |d: usize| shape.get(d).copied().unwrap_or(1);
    let last = shape.last().copied().unwrap_or(1);
    match kind {
        K::Conv | K::ConvTranspose if place == 1 => {
            let channels = [c.of(&[1, 2, 4]), c.of(&[extent(1), 1])];
            let window = shape.iter().skip(2).map(|_| c.of(&[1, 2, 3]));
            channels.into_iter().chain(window).collect()
        }
        K::Conv | K::ConvTranspose => vec![c.of(&[1, 2, 4])],
        K::Linear | K::MatMul if place == 1 => c.of(&[vec![last, 3], vec![3, last], vec![last]]),
        K::Linear | K::MatMul => c.of(&[vec![3], vec![1], vec![]]),
        K::BatchNorm | K::InstanceNorm | K::GroupNorm => vec![extent(1)],
        K::LayerNorm | K::RmsNorm => vec![last],
        K::Quantize | K::Dequantize => c.of(&[vec![], vec![extent(1)]]),
        K::Gather => c.of(&[vec![], vec![2], vec![1, 2]]),
        K::GatherNd | K::ScatterNd => c.of(&[vec![1], vec![2, 1], shape.to_vec()]),
        _ => c.of(&[shape.to_vec(), shape.to_vec(), vec![], vec![1], vec![last]]),
    }
}

fn inputs_of(kind: &OpKind, c: &mut Choices) -> usize {
    use OpKind as K;
    match kind {
        K::BatchNorm => 5,
        K::InstanceNorm
        | K::GroupNorm
        | K::Where
        | K::ScatterNd
        | K::Attention
        | K::Quantize
        | K::Dequantize => 3,
        K::Conv | K::ConvTranspose | K::Linear | K::LayerNorm => c.of(&[2, 3]),
        K::RmsNorm
        | K::MatMul
        | K::Einsum
        | K::Add
        | K::Sub
        | K::Mul
        | K::Div
        | K::Mod
        | K::Compare
        | K::PRelu
        | K::GatherNd
        | K::GatherElements
        | K::GridSample => 2,
        K::Pow | K::Gather | K::Logical => c.of(&[1, 2]),
        K::Min | K::Max | K::Concat => c.of(&[1, 2, 3]),
        _ => 1,
    }
}

/// A constant, with its numbers or without.
fn constant(b: &mut GraphBuilder, name: String, tensor: TensorSpec, c: &mut Choices) -> ValueId {
    let count = tensor.elements() as usize;
    match c.below(3) {
        0 => b.weight(name, tensor),
        _ if tensor.precision.is_float() => {
            let number = c.of(&[0.0, 0.5, 1.0, 2.0, 3.0, 6.0]);
            b.constant(name, tensor, ConstantData::Floats(vec![number; count]))
        }
        _ => b.constant(name, tensor, ConstantData::Ints(vec![0; count])),
    }
}

/// The operators of these numbers that shape inference accepts.
fn graph(operators: &[(usize, Vec<u8>)]) -> Option<Graph> {
    let mut b = GraphBuilder::new("any");
    let mut values: Vec<ValueId> = Vec::new();
    for (number, (kind, bytes)) in operators.iter().enumerate() {
        let kind = &OpKind::ALL[kind % OpKind::ALL.len()];
        let c = &mut Choices { bytes: bytes.clone(), at: 0 };
        let first = match values.last() {
            Some(&value) if c.below(5) > 0 => value,
            _ => {
                let tensor = TensorSpec::new(c.shape(), c.precision());
                if c.below(8) == 0 {
                    constant(&mut b, format!("x{number}"), tensor, c)
                } else {
                    b.input(format!("x{number}"), tensor)
                }
            }
        };
        let tensor = b.tensor(first)?.clone();
        let mut inputs = vec![first];
        for place in 1..inputs_of(kind, c) {
            let indices = matches!(kind, OpKind::Gather | OpKind::GatherNd) && place == 1;
            let precision = if indices { Precision::I64 } else { tensor.precision };
            let shape = beside(kind, &tensor.shape, place, c);
            let same = values.iter().copied().find(|&v| {
                b.tensor(v).is_some_and(|t| t.shape[..] == shape[..] && t.precision == precision)
            });
            let other = TensorSpec::new(shape, precision);
            let name = format!("w{number}_{place}");
            inputs.push(match same {
                Some(value) if c.below(3) == 0 => value,
                _ if c.below(3) == 0 => b.input(name, other),
                _ => constant(&mut b, name, other, c),
            });
        }
        let attributes = attributes(kind, &tensor.shape, c);
        if let Ok(outputs) = b.op_many(&format!("n{number}"), kind.clone(), attributes, &inputs) {
            values.extend(outputs);
        }
    }
    let last = *values.last()?;
    let outputs = if values.len() > 2 { vec![values[0], last] } else { vec![last] };
    b.finish(outputs).ok()
}

fn lowers_everywhere(graph: &Graph) {
    let budget = || Budget::new(Limits { bytes: 1 << 24, steps: 1 << 22, nodes: 1 << 14 });
    for (_, environment) in environments() {
        let _ = lower_within(graph, &environment, &budget());
    }
    let _ = patterns::attention(graph);
    if let Ok(weights) = Weights::seeded(graph, 1) {
        let _ = tflite::write(graph, &weights);
        let _ = tflite::write_int8(graph, &weights, (-1.0, 1.0));
    }
}

fn operators(kinds: std::ops::Range<usize>) -> impl Strategy<Value = Vec<(usize, Vec<u8>)>> {
    let operator = (kinds, prop::collection::vec(any::<u8>(), 32));
    prop::collection::vec(operator, 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..Default::default() })]

    #[test]
    fn graphs_of_any_operators(operators in operators(0..OpKind::ALL.len())) {
        if let Some(graph) = graph(&operators) {
            lowers_everywhere(&graph);
        }
    }
}

/// Each operator alone and before others, with the same numbers each time.
#[test]
fn every_operator_is_met() {
    let mut met = std::collections::BTreeSet::new();
    for kind in 0..OpKind::ALL.len() {
        for seed in 0..60u64 {
            let bytes = |salt: u64| -> Vec<u8> {
                let mut state = (seed * 1_000 + kind as u64 + 1).wrapping_mul(salt * 2 + 1);
                let mut next = || {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(salt + 1);
                    (state >> 33) as u8
                };
                (0..32).map(|_| next()).collect()
            };
            let after = OpKind::ALL.len() * (seed as usize) / 60;
            let Some(graph) = graph(&[(kind, bytes(1)), (after, bytes(2)), (kind, bytes(3))])
            else {
                continue;
            };
            met.extend(graph.kinds().into_keys());
            lowers_everywhere(&graph);
        }
    }
    let fused = ["elementwise", "attention", "reorder"];
    let missing: Vec<&str> = OpKind::ALL
        .iter()
        .map(OpKind::name)
        .filter(|name| !met.contains(*name) && !fused.contains(name))
        .collect();
    assert!(missing.len() < 12, "never built: {missing:?}");
}
