//! Each rule on the smallest graph it applies to, and on its nearest neighbour to which it does
//! not.

use super::lower;
use crate::{
    Attribute, Attributes, Graph, GraphBuilder, GraphError, OpKind, Precision, TensorSpec, ValueId,
};

type Made = Result<ValueId, GraphError>;
type Make = fn(&mut GraphBuilder, ValueId) -> Made;

/// The graph of one function of an input of that shape.
fn graph(shape: &[usize], make: Make) -> Graph {
    let mut builder = GraphBuilder::new("g");
    let x = builder.input("x", TensorSpec::f32(shape));
    make(&mut builder, x).and_then(|y| builder.finish(vec![y])).unwrap_or_else(|e| panic!("{e}"))
}

/// Kernels as `name:kind(inputs){attributes}`, attributes that name the fusion only.
fn kernels(graph: &Graph) -> Vec<String> {
    let shown =
        ["alpha", "trans_a", "trans_b", "perm_a", "perm_b", "perm_0", "perm_1", "mask", "copy"];
    let kernel = |node: &crate::Node| {
        let mut attributes = node.op.attributes.clone();
        attributes.0.retain(|name, _| shown.contains(&name.as_str()));
        let inputs: Vec<String> = node
            .op
            .inputs
            .iter()
            .map(|i| i.tensor.shape.iter().map(usize::to_string).collect::<Vec<_>>().join("x"))
            .collect();
        let attributes = if attributes.0.is_empty() {
            String::new()
        } else {
            serde_json::to_string(&attributes).unwrap_or_default()
        };
        format!("{}:{}({}){attributes}", node.name, node.op.kind, inputs.join(","))
    };
    graph.nodes().iter().map(kernel).collect()
}

fn scaled(b: &mut GraphBuilder, name: &str, x: ValueId, by: f64) -> Made {
    let factor = b.scalar(&format!("{name}.factor"), x, by)?;
    b.binary(name, OpKind::Mul, x, factor)
}

/// Layer normalisation spelled out, along the last dimension or the one before.
fn spelled_layer_norm(b: &mut GraphBuilder, x: ValueId, axis: usize) -> Made {
    let mean = b.reduce_mean("mean", x, &[axis], true)?;
    let centred = b.binary("sub", OpKind::Sub, x, mean)?;
    let square = b.op(
        "pow",
        OpKind::Pow,
        Attributes::new().with("exponent", Attribute::Float(2.0)),
        &[centred],
    )?;
    let variance = b.reduce_mean("variance", square, &[axis], true)?;
    let epsilon = b.scalar("epsilon", x, 1e-6)?;
    let shifted = b.binary("eps", OpKind::Add, variance, epsilon)?;
    let root = b.unary("sqrt", OpKind::Sqrt, shifted)?;
    let normal = b.binary("div", OpKind::Div, centred, root)?;
    let (scale, bias) =
        (b.weight("scale", TensorSpec::f32([8])), b.weight("bias", TensorSpec::f32([8])));
    let scaled = b.binary("mul", OpKind::Mul, normal, scale)?;
    b.binary("add", OpKind::Add, scaled, bias)
}

fn affine(b: &mut GraphBuilder, x: ValueId, shape: &[usize]) -> Made {
    let (scale, bias) =
        (b.weight("scale", TensorSpec::f32(shape)), b.weight("bias", TensorSpec::f32(shape)));
    let y = b.binary("mul", OpKind::Mul, x, scale)?;
    b.binary("add", OpKind::Add, bias, y)
}

#[test]
fn kernels_are_those_of_rten() {
    let cases: Vec<(&[usize], Make, &[&str])> = vec![
        (&[1, 4, 8], |b, x| b.silu("l", x), &["l.mul:silu(1x4x8)"]),
        (&[1, 4, 8], |b, x| b.gelu_erf("l", x), &["l.mul_1:gelu(1x4x8)"]),
        (
            &[1, 4, 8],
            |b, x| {
                let inner = scaled(b, "alpha", x, 1.702)?;
                let gate = b.unary("gate", OpKind::Sigmoid, inner)?;
                b.binary("mul", OpKind::Mul, x, gate)
            },
            &[r#"mul:silu(1x4x8){"alpha":1.7020000219345093}"#],
        ),
        (&[1, 4, 8], |b, x| spelled_layer_norm(b, x, 2), &["add:layer_norm(1x4x8,8,8)"]),
        (
            &[1, 4, 8],
            |b, x| spelled_layer_norm(b, x, 1),
            &[
                "mean:reduce_mean(1x4x8)",
                "sub:sub(1x4x8,1x1x8)",
                "pow:pow(1x4x8)",
                "variance:reduce_mean(1x4x8)",
                "eps:add(1x1x8,)",
                "sqrt:sqrt(1x1x8)",
                "div:div(1x4x8,1x1x8)",
                "mul:mul(1x4x8,8)",
                "add:add(1x4x8,8)",
            ],
        ),
        (&[1, 8, 4, 4], |b, x| affine(b, x, &[1, 8, 1, 1]), &["add:batch_norm(1x8x4x4,8,8,8,8)"]),
        (
            &[1, 8, 4, 4],
            |b, x| affine(b, x, &[8, 1, 1]),
            &["mul:mul(1x8x4x4,8x1x1)", "add:add(8x1x1,1x8x4x4)"],
        ),
        (&[1, 4, 8], |b, x| b.linear("l", x, 16, true), &["l.add:linear(1x4x8,8x16,16)"]),
        (&[4, 8], |b, x| b.linear("l", x, 16, true), &[r#"l:linear(4x8,16x8,16){"trans_b":1}"#]),
        (
            &[1, 4, 8],
            |b, x| {
                let y = b.linear("l", x, 8, false)?;
                b.binary("residual", OpKind::Add, y, x)
            },
            &["l:linear(1x4x8,8x8)", "residual:add(1x4x8,1x4x8)"],
        ),
        (
            &[1, 3, 4, 8],
            |b, x| {
                let (q, k) = (scaled(b, "q", x, 0.5)?, b.transpose("k", x, &[0, 1, 3, 2])?);
                let k = scaled(b, "k.scaled", k, 0.5)?;
                b.matmul("qk", q, k)
            },
            &[r#"qk:matmul(1x3x4x8,1x3x4x8){"alpha":0.25,"trans_b":1}"#],
        ),
        (
            &[1, 4, 3, 8],
            |b, x| {
                let (q, k) =
                    (b.transpose("q", x, &[0, 2, 1, 3])?, b.transpose("k", x, &[0, 2, 3, 1])?);
                b.matmul("qk", q, k)
            },
            &[r#"qk:matmul(1x3x4x8,1x3x4x8){"perm_a":[0,2,1,3],"perm_b":[0,2,1,3],"trans_b":1}"#],
        ),
        (
            // The product is also an output of its own reader's neighbour: the scale must stay.
            &[1, 4, 4],
            |b, x| {
                let y = b.matmul("xx", x, x)?;
                let s = scaled(b, "s", y, 0.5)?;
                b.binary("both", OpKind::Add, y, s)
            },
            &["xx:matmul(1x4x4,1x4x4)", "s:mul(1x4x4,)", "both:add(1x4x4,1x4x4)"],
        ),
        (
            &[1, 3, 4, 4],
            |b, x| {
                let mask = b.weight("table", TensorSpec::f32([1, 3, 4, 4]));
                let y = b.binary("masked", OpKind::Add, x, mask)?;
                b.softmax("softmax", y, 3)
            },
            &[r#"softmax:softmax(1x3x4x4,1x3x4x4){"mask":1}"#],
        ),
        (
            &[1, 3, 4, 4],
            |b, x| {
                let mask = b.weight("table", TensorSpec::f32([1, 3, 4, 4]));
                let y = b.binary("masked", OpKind::Add, x, mask)?;
                b.softmax("softmax", y, 1)
            },
            &["masked:add(1x3x4x4,1x3x4x4)", "softmax:softmax(1x3x4x4)"],
        ),
        (
            &[1, 8, 4, 4],
            |b, x| {
                let y = b.conv("conv", x, 16, 1, 1, 0, 1, false)?;
                b.batch_norm("bn", y)
            },
            &["bn:conv(1x8x4x4,16x8x1x1,16)"],
        ),
        (
            &[1, 8, 4, 4],
            |b, x| {
                let y = b.conv("conv", x, 16, 1, 1, 0, 1, false)?;
                let bias = b.weight("b", TensorSpec::f32([1, 16, 1, 1]));
                b.binary("add", OpKind::Add, y, bias)
            },
            &["add:conv(1x8x4x4,16x8x1x1,16)"],
        ),
        (
            &[1, 4, 8],
            |b, x| {
                let y = scaled(b, "one", x, 1.0)?;
                let zero = b.scalar("zero", x, 0.0)?;
                let y = b.binary("plus", OpKind::Add, zero, y)?;
                b.unary("relu", OpKind::Relu, y)
            },
            &["relu:relu(1x4x8)"],
        ),
        (&[1, 4, 8], |b, x| scaled(b, "one", x, 1.0), &["one_out/identity:identity(1x4x8)"]),
        (
            &[1, 4, 8],
            |b, x| {
                let w = b.weight("w", TensorSpec::f32([16, 8]));
                let w = b.transpose("t", w, &[1, 0])?;
                b.matmul("product", x, w)
            },
            &["product:linear(1x4x8,8x16)"],
        ),
        (
            // A reshape of a model's input, or of a value with another reader, copies.
            &[1, 4, 8],
            |b, x| {
                let y = b.reshape("input", x, &[4, 2, 4])?;
                let flat = b.reshape("flat", y, &[4, 8])?;
                let again = b.reshape("again", flat, &[32])?;
                let again = b.unary("relu", OpKind::Relu, again)?;
                let flat_again = b.reshape("flat_again", again, &[4, 8])?;
                let flat = b.binary("sum", OpKind::Add, flat, flat_again)?;
                let turned = b.transpose("turned", flat, &[1, 0])?;
                let back = b.reshape("back", turned, &[4, 8])?;
                b.binary("add", OpKind::Add, flat, back)
            },
            &[
                r#"input:reshape(1x4x8){"copy":1}"#,
                "flat:reshape(4x2x4)",
                r#"again:reshape(4x8){"copy":1}"#,
                "relu:relu(32)",
                "flat_again:reshape(32)",
                "sum:add(4x8,4x8)",
                "turned:transpose(4x8)",
                "back:reshape(8x4)",
                "add:add(4x8,4x8)",
            ],
        ),
        (
            &[2, 4, 8],
            |b, x| {
                let y = b.transpose("t", x, &[1, 0, 2])?;
                b.concat("c", &[y, y], 0)
            },
            &[r#"c:concat(4x2x8,4x2x8){"perm_0":[1,0,2],"perm_1":[1,0,2]}"#],
        ),
    ];
    for (shape, make, expected) in cases {
        assert_eq!(kernels(&lower(&graph(shape, make)).expect("kernels")), expected);
    }
}

#[test]
fn casts_between_types_held_alike_vanish() {
    let to = |precision: &str| Attributes::new().with("to", Attribute::Text(precision.into()));
    for (from, name, kernels) in
        [(Precision::I64, "i32", 1), (Precision::Bool, "i64", 1), (Precision::I64, "f32", 2)]
    {
        let mut b = GraphBuilder::new("g");
        let x = b.input("x", TensorSpec::new([4], from));
        let y =
            b.op("cast", OpKind::Cast, to(name), &[x]).and_then(|y| b.reshape("shape", y, &[2, 2]));
        let graph = y.and_then(|y| b.finish(vec![y])).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(lower(&graph).expect("kernels").nodes().len(), kernels, "{from} to {name}");
    }
}

#[test]
fn lowering_is_stable_and_keeps_inputs_and_outputs() {
    let graph = graph(&[1, 4, 8], |b, x| {
        let y = b.layer_norm("norm", x)?;
        let y = b.linear("l", y, 16, true)?;
        b.gelu_erf("gelu", y)
    });
    let lowered = lower(&graph).expect("kernels");
    assert_eq!(lowered, lower(&graph).expect("kernels"));
    assert_eq!((lowered.inputs(), lowered.outputs()), (graph.inputs(), graph.outputs()));
    assert_eq!(
        kernels(&lowered),
        ["norm:layer_norm(1x4x8,8,8)", "l.add:linear(1x4x8,8x16,16)", "gelu.mul_1:gelu(1x4x16)"]
    );
}
