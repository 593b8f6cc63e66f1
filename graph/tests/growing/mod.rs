//! Models of any number of nodes, which repeat one structure: for tests and the benchmark of how
//! the work on a model grows with its nodes.

// Each target uses a part.
#![allow(dead_code)]
#![allow(clippy::unwrap_used)]

use vitempo_graph::{
    Attributes, ConstantData, Environment, Graph, GraphBuilder, MemoryFormat, OpKind, Precision,
    Processor, TensorSpec, ValueId, quantize,
};

/// Name of a structure, and the model with about this many nodes.
pub type Case = (&'static str, fn(usize) -> Graph);

/// Every structure.
pub const CASES: &[Case] = &[
    ("chain", |n| repeated(n, |b, name, x| unary(b, name, OpKind::Relu, x))),
    ("products", |n| repeated(n / 2, |b, name, x| b.linear(name, x, 8, true).unwrap())),
    ("products_and_sums", products_and_sums),
    ("quantised_products", quantised_products),
    ("quantised_transposed_convolutions", quantised_transposed_convolutions),
    ("fan_out", fan_out),
    ("fan_in", fan_in),
    ("same_in", same_in),
    ("folded", folded),
    ("transposes", transposes),
    ("turned_and_back", turned_and_back),
    ("turned_fan_out", turned_fan_out),
    ("reshapes", reshapes),
    ("scales", |n| repeated(n, scaled)),
    ("residuals", residuals),
    ("convolution_and_scales", convolution_and_scales),
    ("silus", |n| repeated(n / 2, |b, name, x| b.silu(name, x).unwrap())),
    ("gelus", |n| repeated(n / 5, |b, name, x| b.gelu_erf(name, x).unwrap())),
    ("norms", |n| repeated(n / 9, |b, name, x| b.layer_norm(name, x).unwrap())),
    ("attentions", attentions),
    ("builtin_and_delegated", builtin_and_delegated),
    ("identities", |n| repeated(n, |b, name, x| unary(b, name, OpKind::Identity, x))),
    ("splits", splits),
    ("inputs", inputs),
];

fn start() -> (GraphBuilder, ValueId) {
    let mut b = GraphBuilder::new("growing");
    let x = b.input("x", TensorSpec::f32([1, 4, 8]));
    (b, x)
}

fn unary(b: &mut GraphBuilder, name: &str, kind: OpKind, x: ValueId) -> ValueId {
    b.unary(name, kind, x).unwrap()
}

fn repeated(n: usize, step: fn(&mut GraphBuilder, &str, ValueId) -> ValueId) -> Graph {
    let (mut b, mut x) = start();
    for i in 0..n {
        x = step(&mut b, &format!("n{i}"), x);
    }
    b.finish(vec![x]).unwrap()
}

/// Products by the same weight, and sums with the same bias.
fn products_and_sums(n: usize) -> Graph {
    let (mut b, mut x) = start();
    let weight = b.weight("weight", TensorSpec::f32([8, 8]));
    let bias = b.weight("bias", TensorSpec::f32([8]));
    for i in 0..n / 2 {
        let name = format!("n{i}");
        let y = b.op(&name, OpKind::Linear, Attributes::new(), &[x, weight]).unwrap();
        x = b.binary(&format!("{name}+"), OpKind::Add, y, bias).unwrap();
    }
    b.finish(vec![x]).unwrap()
}

fn quantised_products(n: usize) -> Graph {
    let products = repeated(n / 8, |b, name, x| b.linear(name, x, 8, true).unwrap());
    quantize::qdq(&products, &quantize::Options::default()).unwrap()
}

/// Transposed convolutions between DQs and Qs, to whose weights an engine gives scales.
fn quantised_transposed_convolutions(n: usize) -> Graph {
    let mut b = GraphBuilder::new("growing");
    let mut x = b.input("x", TensorSpec::f32([1, 4, 8]));
    for i in 0..n / 3 {
        let name = format!("n{i}");
        let scale = b.scalar(&format!("{name}s"), x, 0.5).unwrap();
        let zero = TensorSpec::new([], Precision::U8);
        let zero = b.constant(format!("{name}z"), zero, ConstantData::Ints(vec![0]));
        let quantized =
            b.op(&format!("{name}q"), OpKind::Quantize, Attributes::new(), &[x, scale, zero]);
        let back = [quantized.unwrap(), scale, zero];
        let y = b.op(&format!("{name}d"), OpKind::Dequantize, Attributes::new(), &back).unwrap();
        let weight = b.weight(format!("{name}w"), TensorSpec::f32([4, 4, 1]));
        x = b.op(&name, OpKind::ConvTranspose, Attributes::new(), &[y, weight]).unwrap();
    }
    b.finish(vec![x]).unwrap()
}

/// One value that all nodes read, and as many outputs.
fn fan_out(n: usize) -> Graph {
    let (mut b, x) = start();
    let x = unary(&mut b, "first", OpKind::Tanh, x);
    let kinds = [OpKind::Relu, OpKind::Sigmoid, OpKind::Tanh, OpKind::Exp];
    let outputs = (0..n)
        .map(|i| unary(&mut b, &format!("n{i}"), kinds[i % kinds.len()].clone(), x))
        .collect();
    b.finish(outputs).unwrap()
}

/// As many values as there are nodes, and one that reads them all.
fn fan_in(n: usize) -> Graph {
    let (mut b, x) = start();
    let parts: Vec<ValueId> = (0..n)
        .map(|i| {
            let number = b.scalar(&format!("c{i}"), x, i as f64).unwrap();
            b.binary(&format!("n{i}"), OpKind::Add, x, number).unwrap()
        })
        .collect();
    let y = b.concat("join", &parts, 1).unwrap();
    b.finish(vec![y]).unwrap()
}

/// One value that one node reads as often.
fn same_in(n: usize) -> Graph {
    let (mut b, x) = start();
    let x = unary(&mut b, "first", OpKind::Identity, x);
    let y = b.concat("join", &vec![x; n], 1).unwrap();
    b.finish(vec![y]).unwrap()
}

/// A chain of operators on constants, before a sum.
fn folded(n: usize) -> Graph {
    let (mut b, x) = start();
    let mut constant = b.weight("w", TensorSpec::f32([4, 8]));
    for i in 0..n {
        let kind = if i % 2 == 0 { OpKind::Sqrt } else { OpKind::Neg };
        constant = unary(&mut b, &format!("n{i}"), kind, constant);
    }
    let y = b.binary("sum", OpKind::Add, x, constant).unwrap();
    b.finish(vec![y]).unwrap()
}

fn transposes(n: usize) -> Graph {
    repeated(n, |b, name, x| {
        let even = name.ends_with(['0', '2', '4', '6', '8']);
        b.transpose(name, x, if even { &[0, 2, 1] } else { &[1, 0, 2] }).unwrap()
    })
}

/// Transposes between functions of one number.
fn turned_and_back(n: usize) -> Graph {
    repeated(n / 4, |b, name, x| {
        let turned = b.transpose(&format!("{name}t"), x, &[0, 2, 1]).unwrap();
        let y = unary(b, &format!("{name}r"), OpKind::Relu, turned);
        let back = b.transpose(&format!("{name}b"), y, &[0, 2, 1]).unwrap();
        unary(b, &format!("{name}s"), OpKind::Sigmoid, back)
    })
}

/// A transpose that all nodes read, each with a transpose back.
fn turned_fan_out(n: usize) -> Graph {
    let (mut b, x) = start();
    let turned = b.transpose("turn", x, &[0, 2, 1]).unwrap();
    let outputs = (0..n / 2)
        .map(|i| {
            let number = b.scalar(&format!("c{i}"), x, i as f64).unwrap();
            let y = b.binary(&format!("n{i}"), OpKind::Mul, turned, number).unwrap();
            b.transpose(&format!("t{i}"), y, &[0, 2, 1]).unwrap()
        })
        .collect();
    b.finish(outputs).unwrap()
}

fn reshapes(n: usize) -> Graph {
    let (mut b, mut x) = start();
    for i in 0..n / 2 {
        let shape: &[usize] = if i % 2 == 0 { &[1, 8, 4] } else { &[1, 4, 8] };
        x = b.reshape(&format!("r{i}"), x, shape).unwrap();
        x = b.transpose(&format!("t{i}"), x, &[0, 2, 1]).unwrap();
        if i % 2 == 0 {
            x = b.reshape(&format!("s{i}"), x, &[1, 4, 8]).unwrap();
        }
    }
    b.finish(vec![x]).unwrap()
}

fn scaled(b: &mut GraphBuilder, name: &str, x: ValueId) -> ValueId {
    let number = b.scalar(&format!("{name}c"), x, 1.5).unwrap();
    b.binary(name, OpKind::Mul, x, number).unwrap()
}

fn image() -> (GraphBuilder, ValueId) {
    let mut b = GraphBuilder::new("growing");
    let x = b.input("x", TensorSpec::f32([1, 16, 4, 4]));
    (b, x)
}

/// Convolutions with a sum around them.
fn residuals(n: usize) -> Graph {
    let (mut b, mut x) = image();
    for i in 0..n / 3 {
        let y = b.conv(&format!("c{i}"), x, 16, 3, 1, 1, 1, true).unwrap();
        let sum = b.binary(&format!("a{i}"), OpKind::Add, x, y).unwrap();
        x = unary(&mut b, &format!("r{i}"), OpKind::Relu, sum);
    }
    b.finish(vec![x]).unwrap()
}

/// A convolution that much could be taken into.
fn convolution_and_scales(n: usize) -> Graph {
    let (mut b, x) = image();
    let mut x = b.conv("conv", x, 16, 3, 1, 1, 1, true).unwrap();
    for i in 0..n {
        let kind = if i % 2 == 0 { OpKind::Relu } else { OpKind::Sigmoid };
        x = unary(&mut b, &format!("n{i}"), kind, x);
    }
    b.finish(vec![x]).unwrap()
}

fn attentions(n: usize) -> Graph {
    let mut b = GraphBuilder::new("growing");
    let mut x = b.input("x", TensorSpec::f32([1, 2, 4, 8]));
    for i in 0..n / 5 {
        let turned = b.transpose(&format!("t{i}"), x, &[0, 1, 3, 2]).unwrap();
        let scores = b.matmul(&format!("q{i}"), x, turned).unwrap();
        let number = b.scalar(&format!("c{i}"), scores, 0.125).unwrap();
        let scores = b.binary(&format!("s{i}"), OpKind::Mul, scores, number).unwrap();
        let weights = b.softmax(&format!("w{i}"), scores, 3).unwrap();
        x = b.matmul(&format!("m{i}"), weights, x).unwrap();
    }
    b.finish(vec![x]).unwrap()
}

/// Operators that XNNPACK takes and others, alternating.
fn builtin_and_delegated(n: usize) -> Graph {
    repeated(n / 2, |b, name, x| {
        let sums = Attributes::new().with_int("axis", 1);
        let y = b.op(&format!("{name}c"), OpKind::CumSum, sums, &[x]).unwrap();
        unary(b, name, OpKind::Tanh, y)
    })
}

/// Cut into two and joined again.
fn splits(n: usize) -> Graph {
    let (mut b, mut x) = start();
    for i in 0..n / 3 {
        let cut = |start: i64, end: i64| {
            Attributes::new()
                .with_ints("axes", [1])
                .with_ints("starts", [start])
                .with_ints("ends", [end])
                .with_ints("steps", [1])
        };
        let first = b.op(&format!("a{i}"), OpKind::Slice, cut(0, 2), &[x]).unwrap();
        let second = b.op(&format!("b{i}"), OpKind::Slice, cut(2, 4), &[x]).unwrap();
        x = b.concat(&format!("c{i}"), &[second, first], 1).unwrap();
    }
    b.finish(vec![x]).unwrap()
}

/// As many inputs of the model as nodes, each an image, joined one by one.
fn inputs(n: usize) -> Graph {
    let (mut b, mut sum) = image();
    for i in 0..n {
        let x = b.input(format!("x{i}"), TensorSpec::f32([1, 16, 4, 4]));
        sum = b.binary(&format!("n{i}"), OpKind::Add, sum, x).unwrap();
    }
    b.finish(vec![sum]).unwrap()
}

/// Environments that differ in their kernels, with a name for each.
pub fn environments() -> Vec<(String, Environment)> {
    use MemoryFormat::{ChannelsFirst, ChannelsLast};
    use Precision::{Bf16, F16, F32, I8};
    let any = vec![None];
    let each = vec![None, Some(ChannelsFirst), Some(ChannelsLast)];
    let images = vec![Some(ChannelsFirst), Some(ChannelsLast)];
    let table = [
        ("litert", vec![F32, F16, I8], any.clone()),
        ("litert-builtin", vec![F32, I8], any.clone()),
        ("onnxruntime", vec![F32, I8], each),
        ("openvino", vec![F32, Bf16, I8], vec![None, Some(ChannelsLast)]),
        ("rten", vec![F32, I8], any),
        ("torch", vec![F32, Bf16], images),
    ];
    let mut environments = Vec::new();
    for (framework, precisions, formats) in table {
        for precision in precisions {
            for &memory_format in &formats {
                let format = memory_format.map_or("", MemoryFormat::name);
                let name = format!("{framework} {precision} {format}").trim_end().to_owned();
                environments.push((name, environment(framework, precision, memory_format)));
            }
        }
    }
    environments
}

fn environment(
    framework: &str,
    precision: Precision,
    memory_format: Option<MemoryFormat>,
) -> Environment {
    Environment {
        device: "test".to_owned(),
        processor: Processor::Cpu,
        cores_available: 1,
        cores: Vec::new(),
        framework: framework.to_owned(),
        framework_version: "1".to_owned(),
        threads: 1,
        precision,
        memory_format,
        power_mode: None,
        isa: "avx2,avx512f".to_owned(),
        os: String::new(),
        beside: None,
        settings: Vec::new(),
        host: None,
    }
}
