//! Damaged models: for any bytes, the reader returns a graph or an error, does not panic, and takes
//! memory in proportion.
//!
//! A few thousand inputs by default, `VITEMPO_FUZZ_INPUTS` for more. Seeded: the same inputs each
//! time.
#![allow(clippy::unwrap_used)]

use prost::Message;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::path::Path;
use vitempo_graph::onnx::proto::{
    AttributeProto, DimensionProto, ModelProto, NodeProto, TensorProto, ValueInfoProto,
};
use vitempo_graph::onnx::{ReadOptions, read_bytes};

fn inputs() -> usize {
    std::env::var("VITEMPO_FUZZ_INPUTS").ok().and_then(|v| v.parse().ok()).unwrap_or(3000)
}

fn seeds() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models");
    ["vit_tiny_patch16_224.onnx", "mobilevit_xxs.onnx", "edgenext_xx_small.onnx"]
        .iter()
        .map(|f| std::fs::read(folder.join(f)).unwrap())
        .collect()
}

/// Models cut down to the nodes around one place, so that one input is read quickly and a mutation
/// is rarely somewhere unimportant.
fn cut(model: &ModelProto, random: &mut StdRng) -> ModelProto {
    let mut model = model.clone();
    let graph = model.graph.as_mut().unwrap();
    let at = random.random_range(0..graph.node.len());
    let nodes: Vec<NodeProto> = graph.node.iter().skip(at).take(12).cloned().collect();
    let read: Vec<String> = nodes.iter().flat_map(|n| n.input.clone()).collect();
    let made: Vec<String> = nodes.iter().flat_map(|n| n.output.clone()).collect();
    graph.initializer.retain(|t| read.contains(&t.name));
    let known: Vec<String> = graph.initializer.iter().map(|t| t.name.clone()).collect();
    let infos: Vec<ValueInfoProto> =
        [graph.value_info.clone(), graph.input.clone(), graph.output.clone()].concat();
    graph.input = infos
        .iter()
        .filter(|i| read.contains(&i.name) && !made.contains(&i.name) && !known.contains(&i.name))
        .cloned()
        .collect();
    graph.output = infos.iter().filter(|i| made.contains(&i.name)).cloned().collect();
    graph.value_info.clear();
    graph.node = nodes;
    model
}

const NUMBERS: &[i64] = &[
    0,
    1,
    -1,
    2,
    -2,
    3,
    7,
    64,
    197,
    1 << 20,
    1 << 31,
    -(1 << 31),
    1 << 40,
    i64::MAX,
    i64::MIN,
    1_000_000_000_000,
];

fn number(random: &mut StdRng) -> i64 {
    NUMBERS[random.random_range(0..NUMBERS.len())]
}

fn pick<'a, T>(list: &'a mut [T], random: &mut StdRng) -> Option<&'a mut T> {
    if list.is_empty() { None } else { Some(&mut list[random.random_range(0..list.len())]) }
}

const OPERATORS: &[&str] = &[
    "Add",
    "MatMul",
    "Gemm",
    "Conv",
    "ConvTranspose",
    "MaxPool",
    "AveragePool",
    "Reshape",
    "Squeeze",
    "Unsqueeze",
    "Flatten",
    "Transpose",
    "Concat",
    "Split",
    "Slice",
    "Gather",
    "GatherND",
    "GatherElements",
    "ScatterND",
    "Expand",
    "Tile",
    "Pad",
    "Resize",
    "Upsample",
    "GridSample",
    "DepthToSpace",
    "SpaceToDepth",
    "Col2Im",
    "Softmax",
    "LayerNormalization",
    "ReduceMean",
    "ReduceProd",
    "ArgMax",
    "TopK",
    "CumSum",
    "Cast",
    "CastLike",
    "Clip",
    "Pow",
    "Where",
    "Equal",
    "Not",
    "Floor",
    "Shape",
    "Size",
    "ConstantOfShape",
    "Range",
    "NonZero",
    "Trilu",
    "Einsum",
    "Identity",
    "Div",
    "Mod",
    "If",
    "Loop",
    "Constant",
    "Unknown",
];
const NAMES: &[&str] = &[
    "axis",
    "axes",
    "perm",
    "pads",
    "strides",
    "kernel_shape",
    "dilations",
    "group",
    "auto_pad",
    "ceil_mode",
    "keepdims",
    "to",
    "value",
    "value_ints",
    "split",
    "shape",
    "starts",
    "ends",
    "steps",
    "k",
    "blocksize",
    "batch_dims",
    "equation",
    "mode",
    "scales",
    "transA",
    "transB",
    "allowzero",
    "output_shape",
    "output_padding",
    "start",
];
const TEXTS: &[&str] = &[
    "SAME_UPPER",
    "SAME_LOWER",
    "VALID",
    "ij,jk->ik",
    "...ij,...jk->...ik",
    "i->",
    "nearest",
    "linear",
    "cubic",
    "DCR",
    "",
];

fn tensor(random: &mut StdRng) -> TensorProto {
    let dims: Vec<i64> = (0..random.random_range(0..3))
        .map(|_| {
            if random.random_range(0..4) == 0 { number(random) } else { random.random_range(0..5) }
        })
        .collect();
    let count = dims
        .iter()
        .try_fold(1i64, |n, &d| n.checked_mul(d))
        .filter(|n| (0..100).contains(n))
        .unwrap_or(3);
    let mut tensor = TensorProto {
        dims,
        data_type: [1, 6, 7, 9, 10, 8][random.random_range(0..6)],
        ..Default::default()
    };
    tensor.int64_data = (0..count).map(|_| number(random)).collect();
    tensor.int32_data = (0..count).map(|_| number(random) as i32).collect();
    tensor.float_data = (0..count).map(|_| number(random) as f32 / 2.0).collect();
    tensor
}

fn attribute(random: &mut StdRng) -> AttributeProto {
    let one = |random: &mut StdRng| {
        if random.random_range(0..2) == 0 { number(random) } else { random.random_range(-3..5) }
    };
    let ints: Vec<i64> = (0..random.random_range(0..6)).map(|_| one(random)).collect();
    AttributeProto {
        name: NAMES[random.random_range(0..NAMES.len())].to_owned(),
        i: Some(number(random)),
        f: Some(number(random) as f32),
        s: TEXTS[random.random_range(0..TEXTS.len())].as_bytes().to_vec(),
        ints,
        floats: (0..4).map(|_| number(random) as f32).collect(),
        t: Some(tensor(random)),
        ..Default::default()
    }
}

/// One change that keeps the file decodable but not sensible.
fn mutate(model: &mut ModelProto, random: &mut StdRng) {
    let graph = model.graph.as_mut().unwrap();
    let names: Vec<String> =
        graph.node.iter().flat_map(|n| n.input.iter().chain(&n.output)).cloned().collect();
    let name = names[random.random_range(0..names.len())].clone();
    let value = number(random);
    match random.random_range(0..12) {
        0 => drop(
            pick(&mut graph.node, random)
                .map(|n| n.op_type = OPERATORS[random.random_range(0..OPERATORS.len())].to_owned()),
        ),
        1 => drop(pick(&mut graph.node, random).map(|n| n.attribute.push(attribute(random)))),
        2 => drop(
            pick(&mut graph.node, random)
                .map(|n| n.attribute = vec![attribute(random), attribute(random)]),
        ),
        3 => drop(pick(&mut graph.node, random).map(|n| n.input.push(name))),
        4 => drop(
            pick(&mut graph.node, random)
                .and_then(|n| pick(&mut n.input, random).map(|i| *i = name)),
        ),
        5 => drop(
            pick(&mut graph.node, random)
                .and_then(|n| pick(&mut n.output, random).map(|o| *o = name)),
        ),
        6 => drop(pick(&mut graph.node, random).and_then(|n| n.input.pop())),
        7 => drop(
            pick(&mut graph.initializer, random)
                .and_then(|t| pick(&mut t.dims, random).map(|d| *d = value)),
        ),
        8 => drop(
            pick(&mut graph.initializer, random)
                .map(|t| *t = TensorProto { name: t.name.clone(), ..tensor(random) }),
        ),
        9 => {
            let dims = pick(&mut graph.input, random)
                .and_then(|i| i.r#type.as_mut()?.tensor_type.as_mut()?.shape.as_mut())
                .map(|s| &mut s.dim);
            if let Some(dim) = dims.and_then(|dims| pick(dims, random)) {
                *dim = DimensionProto { dim_value: Some(value), dim_param: None };
            }
        }
        10 => drop(pick(&mut graph.node, random).and_then(|n| {
            pick(&mut n.attribute, random)
                .and_then(|a| pick(&mut a.ints, random).map(|i| *i = value))
        })),
        _ => model.opset_import.iter_mut().for_each(|o| o.version = random.random_range(6..24)),
    }
}

fn corrupt(bytes: &mut Vec<u8>, random: &mut StdRng) {
    // Half of the inputs keep their length, so that the damage is not found at once.
    let kinds = if random.random_range(0..2) == 0 { 3..5 } else { 0..5 };
    for _ in 0..random.random_range(1..5) {
        let at = random.random_range(0..bytes.len().max(1)).min(bytes.len().saturating_sub(1));
        match random.random_range(kinds.clone()) {
            0 => bytes.truncate(at.max(1)),
            1 => bytes.insert(at, random.random()),
            2 => drop(bytes.remove(at)),
            3 => bytes[at] ^= 1 << random.random_range(0..8),
            _ => bytes[at] = random.random(),
        }
        if bytes.is_empty() {
            return;
        }
    }
}

/// What came of the inputs: read, refused.
fn run(count: usize, mut input: impl FnMut(&mut StdRng) -> Vec<u8>) -> (usize, usize) {
    let mut random = StdRng::seed_from_u64(2);
    let mut outcome = (0, 0);
    for number in 0..count {
        let bytes = input(&mut random);
        let result = std::panic::catch_unwind(|| {
            read_bytes("fuzz", &bytes, &ReadOptions::default()).is_ok()
        });
        match result {
            Ok(true) => outcome.0 += 1,
            Ok(false) => outcome.1 += 1,
            Err(_) => {
                let kept = std::env::temp_dir().join("vitempo_fuzz_panic.onnx");
                std::fs::write(&kept, &bytes).unwrap();
                panic!("input {number} made the reader panic; it is kept in {}", kept.display());
            }
        }
    }
    println!("{count} inputs: {} read, {} refused", outcome.0, outcome.1);
    outcome
}

#[test]
fn damaged_bytes_never_panic() {
    let seeds = seeds();
    let (read, refused) = run(inputs() / 4, |random| {
        let mut bytes = seeds[random.random_range(0..seeds.len())].clone();
        corrupt(&mut bytes, random);
        bytes
    });
    assert!(refused > read, "damage is mostly noticed");
}

#[test]
fn damaged_bytes_of_small_models_never_panic() {
    let seeds: Vec<ModelProto> =
        seeds().iter().map(|b| ModelProto::decode(b.as_slice()).unwrap()).collect();
    let small: Vec<Vec<u8>> = {
        let mut random = StdRng::seed_from_u64(1);
        (0..48).map(|i| cut(&seeds[i % seeds.len()], &mut random).encode_to_vec()).collect()
    };
    let (read, refused) = run(inputs(), |random| {
        let mut bytes = small[random.random_range(0..small.len())].clone();
        corrupt(&mut bytes, random);
        bytes
    });
    assert!(read > 0 && refused > 0);
}

#[test]
fn senseless_models_never_panic() {
    let seeds: Vec<ModelProto> =
        seeds().iter().map(|b| ModelProto::decode(b.as_slice()).unwrap()).collect();
    let small: Vec<ModelProto> = {
        let mut random = StdRng::seed_from_u64(1);
        (0..48).map(|i| cut(&seeds[i % seeds.len()], &mut random)).collect()
    };
    let (read, refused) = run(inputs(), |random| {
        let mut model = small[random.random_range(0..small.len())].clone();
        for _ in 0..random.random_range(1..6) {
            mutate(&mut model, random);
        }
        model.encode_to_vec()
    });
    assert!(read > 0 && refused > 0);
}
