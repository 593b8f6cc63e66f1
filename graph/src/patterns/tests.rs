//! Each pattern on the smallest graph that contains it, in the forms that exporters write, and on
//! similar graphs without it.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::{Attribute, Attributes, ConstantData, GraphBuilder, OpKind, TensorSpec, ValueId};

fn number(b: &mut GraphBuilder, value: f64) -> ValueId {
    b.constant(format!("c{value}"), TensorSpec::f32([]), ConstantData::Floats(vec![value]))
}

fn op(b: &mut GraphBuilder, name: &str, kind: OpKind, inputs: &[ValueId]) -> ValueId {
    b.op(name, kind, Attributes::new(), inputs).unwrap()
}

fn with(b: &mut GraphBuilder, name: &str, kind: OpKind, constant: f64, x: ValueId) -> ValueId {
    let c = number(b, constant);
    op(b, name, kind, &[x, c])
}

fn kinds(graph: &Graph) -> Vec<String> {
    graph.nodes().iter().map(|n| n.op.kind.name().to_owned()).collect()
}

/// Builds a graph of one input `[1, 8, 64]` and canonicalizes it.
fn canonical(build: impl Fn(&mut GraphBuilder, ValueId) -> ValueId) -> Vec<String> {
    let mut b = GraphBuilder::new("t");
    let x = b.input("x", TensorSpec::f32([1, 8, 64]));
    let y = build(&mut b, x);
    kinds(&canonicalize(&b.finish(vec![y]).unwrap()))
}

#[test]
fn gelu_by_erf_in_every_order() {
    let factor = |b: &mut GraphBuilder, x: ValueId, multiply: bool| {
        let scaled = if multiply {
            with(b, "scale", OpKind::Mul, std::f64::consts::FRAC_1_SQRT_2, x)
        } else {
            with(b, "scale", OpKind::Div, std::f64::consts::SQRT_2, x)
        };
        let erf = op(b, "erf", OpKind::Erf, &[scaled]);
        with(b, "one", OpKind::Add, 1.0, erf)
    };
    for multiply in [false, true] {
        let late = canonical(|b, x| {
            let f = factor(b, x, multiply);
            let product = op(b, "times", OpKind::Mul, &[x, f]);
            with(b, "half", OpKind::Mul, 0.5, product)
        });
        let early = canonical(|b, x| {
            let f = factor(b, x, multiply);
            let half = with(b, "half", OpKind::Mul, 0.5, x);
            op(b, "times", OpKind::Mul, &[half, f])
        });
        let between = canonical(|b, x| {
            let f = factor(b, x, multiply);
            let half = with(b, "half", OpKind::Mul, 0.5, f);
            op(b, "times", OpKind::Mul, &[x, half])
        });
        for found in [late, early, between] {
            assert_eq!(found, ["gelu"], "multiply: {multiply}");
        }
    }
    let not_gelu = canonical(|b, x| {
        let f = factor(b, x, false);
        let product = op(b, "times", OpKind::Mul, &[x, f]);
        with(b, "third", OpKind::Mul, 0.3, product)
    });
    assert_eq!(not_gelu.len(), 5);
}

#[test]
fn gated_activations() {
    let silu = canonical(|b, x| {
        let s = op(b, "s", OpKind::Sigmoid, &[x]);
        op(b, "m", OpKind::Mul, &[x, s])
    });
    assert_eq!(silu, ["silu"]);
    let other = canonical(|b, x| {
        let s = op(b, "s", OpKind::Sigmoid, &[x]);
        let r = op(b, "r", OpKind::Relu, &[x]);
        op(b, "m", OpKind::Mul, &[r, s])
    });
    assert_eq!(other.len(), 3);
    let clip =
        Attributes::new().with("min", Attribute::Float(0.0)).with("max", Attribute::Float(6.0));
    for divide_first in [false, true] {
        let swish = canonical(|b, x| {
            let shifted = with(b, "a", OpKind::Add, 3.0, x);
            let clipped = b.op("c", OpKind::Clip, clip.clone(), &[shifted]).unwrap();
            if divide_first {
                let gate = with(b, "d", OpKind::Div, 6.0, clipped);
                op(b, "m", OpKind::Mul, &[x, gate])
            } else {
                let product = op(b, "m", OpKind::Mul, &[x, clipped]);
                with(b, "d", OpKind::Div, 6.0, product)
            }
        });
        assert_eq!(swish, ["hard_swish"], "divide first: {divide_first}");
    }
}

fn spelled_layer_norm(b: &mut GraphBuilder, x: ValueId, affine: bool) -> ValueId {
    let axes = || Attributes::new().with_ints("axes", [-1]).with_int("keepdims", 1);
    let mean = b.op("mean", OpKind::ReduceMean, axes(), &[x]).unwrap();
    let centred = op(b, "sub", OpKind::Sub, &[x, mean]);
    let square = b
        .op(
            "pow",
            OpKind::Pow,
            Attributes::new().with("exponent", Attribute::Float(2.0)),
            &[centred],
        )
        .unwrap();
    let variance = b.op("variance", OpKind::ReduceMean, axes(), &[square]).unwrap();
    let sum = with(b, "epsilon", OpKind::Add, 1e-6, variance);
    let deviation = op(b, "sqrt", OpKind::Sqrt, &[sum]);
    let y = op(b, "div", OpKind::Div, &[centred, deviation]);
    if !affine {
        return y;
    }
    let (scale, bias) =
        (b.weight("scale", TensorSpec::f32([64])), b.weight("bias", TensorSpec::f32([64])));
    let y = op(b, "mul", OpKind::Mul, &[y, scale]);
    op(b, "add", OpKind::Add, &[y, bias])
}

#[test]
fn layer_norm_with_and_without_affine() {
    for affine in [false, true] {
        let mut b = GraphBuilder::new("t");
        let x = b.input("x", TensorSpec::f32([1, 8, 64]));
        let y = spelled_layer_norm(&mut b, x, affine);
        let graph = canonicalize(&b.finish(vec![y]).unwrap());
        assert_eq!(kinds(&graph), ["layer_norm"]);
        let norm = &graph.nodes()[0].op;
        assert_eq!(norm.inputs.len(), if affine { 3 } else { 1 });
        assert_eq!(norm.attributes.int("axis"), Some(2));
        assert_eq!(norm.attributes.float("epsilon"), Some(f64::from(1e-6f32)));
    }
}

#[test]
fn group_norm_between_reshapes() {
    let mut b = GraphBuilder::new("t");
    let x = b.input("x", TensorSpec::f32([1, 64, 7, 7]));
    let grouped = b
        .op("in", OpKind::Reshape, Attributes::new().with_ints("shape", [1, 8, 392]), &[x])
        .unwrap();
    let (one, zero) =
        (b.weight("one", TensorSpec::f32([8])), b.weight("zero", TensorSpec::f32([8])));
    let normed = op(&mut b, "norm", OpKind::InstanceNorm, &[grouped, one, zero]);
    let restored = b
        .op("out", OpKind::Reshape, Attributes::new().with_ints("shape", [1, 64, 7, 7]), &[normed])
        .unwrap();
    let (scale, bias) = (
        b.weight("scale", TensorSpec::f32([64, 1, 1])),
        b.weight("bias", TensorSpec::f32([64, 1, 1])),
    );
    let scaled = op(&mut b, "mul", OpKind::Mul, &[restored, scale]);
    let y = op(&mut b, "add", OpKind::Add, &[scaled, bias]);
    let graph = canonicalize(&b.finish(vec![y]).unwrap());
    assert_eq!(kinds(&graph), ["group_norm"]);
    assert_eq!(graph.nodes()[0].op.attributes.int("groups"), Some(8));
}

#[test]
fn attention_is_found_with_its_sizes() {
    let mut b = GraphBuilder::new("t");
    let q = b.input("q", TensorSpec::f32([1, 3, 197, 64]));
    let k = b.input("k", TensorSpec::f32([1, 3, 49, 64]));
    let v = b.input("v", TensorSpec::f32([1, 3, 49, 64]));
    let scaled = with(&mut b, "scale", OpKind::Mul, 0.125, q);
    let turned = b
        .op("t", OpKind::Transpose, Attributes::new().with_ints("perm", [0, 1, 3, 2]), &[k])
        .unwrap();
    let scores = op(&mut b, "scores", OpKind::MatMul, &[scaled, turned]);
    let mask = b.weight("mask", TensorSpec::f32([1, 3, 197, 49]));
    let masked = op(&mut b, "mask_add", OpKind::Add, &[scores, mask]);
    let weights = b
        .op("softmax", OpKind::Softmax, Attributes::new().with_int("axis", -1), &[masked])
        .unwrap();
    let y = op(&mut b, "mix", OpKind::MatMul, &[weights, v]);
    let found = attention(&b.finish(vec![y]).unwrap());
    let expected = AttentionPattern {
        query: q,
        key: k,
        value: v,
        output: y,
        batch: 1,
        heads: 3,
        queries: 197,
        keys: 49,
        head_size: 64,
        has_bias: true,
    };
    assert_eq!(found, [expected]);
}
