//! Shapes and canonical attributes, worked out by hand from the ONNX operator specification.
#![allow(clippy::unwrap_used)]

use super::*;

fn inputs(shapes: &[&[usize]]) -> Vec<Operand> {
    shapes
        .iter()
        .enumerate()
        .map(|(i, s)| Operand { tensor: TensorSpec::f32(s), constant: i > 0 })
        .collect()
}

fn a() -> Attributes {
    Attributes::new()
}

fn text(a: Attributes, name: &str, value: &str) -> Attributes {
    a.with(name, Attribute::Text(value.to_owned()))
}

type Case = (OpKind, Attributes, &'static [&'static [usize]], &'static [&'static [usize]]);

fn check_all(cases: Vec<Case>) {
    for (kind, attributes, given, expected) in cases {
        let outputs = infer(&kind, &attributes, &inputs(given))
            .unwrap_or_else(|e| panic!("{kind} {attributes:?} {given:?}: {e}"));
        let shapes: Vec<&[usize]> = outputs.iter().map(|o| o.shape.as_slice()).collect();
        assert_eq!(shapes, expected, "{kind} {attributes:?} {given:?}");
    }
}

#[test]
fn windows() {
    let conv =
        |stride: i64, pad: i64| a().with_ints("strides", [stride; 2]).with_ints("pads", [pad; 4]);
    let pool = |ceil: i64| {
        a().with_ints("kernel_shape", [3, 3])
            .with_ints("strides", [2, 2])
            .with_int("ceil_mode", ceil)
    };
    check_all(vec![
        (
            OpKind::Conv,
            conv(2, 1),
            &[&[1, 3, 224, 224], &[32, 3, 3, 3], &[32]],
            &[&[1, 32, 112, 112]],
        ),
        (
            OpKind::Conv,
            a().with_int("group", 8),
            &[&[1, 8, 7, 7], &[16, 1, 3, 3]],
            &[&[1, 16, 5, 5]],
        ),
        (OpKind::Conv, a().with_ints("dilations", [2]), &[&[1, 4, 10], &[6, 4, 3]], &[&[1, 6, 6]]),
        (
            OpKind::Conv,
            text(conv(2, 0), "auto_pad", "SAME_UPPER"),
            &[&[1, 3, 7, 8], &[4, 3, 3, 3]],
            &[&[1, 4, 4, 4]],
        ),
        (
            OpKind::ConvTranspose,
            a().with_ints("strides", [2, 2]),
            &[&[1, 8, 14, 14], &[8, 4, 2, 2]],
            &[&[1, 4, 28, 28]],
        ),
        (
            OpKind::ConvTranspose,
            a().with_ints("strides", [2]).with_ints("output_shape", [9]),
            &[&[1, 2, 4], &[2, 2, 3]],
            &[&[1, 2, 9]],
        ),
        (OpKind::MaxPool, pool(0), &[&[1, 4, 8, 8]], &[&[1, 4, 3, 3]]),
        (OpKind::MaxPool, pool(1), &[&[1, 4, 8, 8]], &[&[1, 4, 4, 4]]),
        // The fourth window would begin in the padding at the end.
        (
            OpKind::AveragePool,
            pool(1).with_ints("pads", [1; 4]).with_ints("kernel_shape", [2, 2]),
            &[&[1, 4, 5, 5]],
            &[&[1, 4, 3, 3]],
        ),
        (OpKind::GlobalAveragePool, a(), &[&[2, 9, 5, 6]], &[&[2, 9, 1, 1]]),
    ]);
}

#[test]
fn products() {
    let einsum = |equation: &str| text(a(), "equation", equation);
    check_all(vec![
        (OpKind::Linear, a(), &[&[1, 197, 192], &[192, 576]], &[&[1, 197, 576]]),
        (
            OpKind::Linear,
            a().with_int("trans_b", 1),
            &[&[1, 192], &[1000, 192], &[1000]],
            &[&[1, 1000]],
        ),
        (OpKind::MatMul, a(), &[&[1, 3, 197, 64], &[1, 3, 64, 197]], &[&[1, 3, 197, 197]]),
        (OpKind::MatMul, a(), &[&[5, 1, 2, 3], &[4, 3, 6]], &[&[5, 4, 2, 6]]),
        (OpKind::MatMul, a(), &[&[3], &[4, 3, 6]], &[&[4, 6]]),
        (OpKind::MatMul, a(), &[&[4, 2, 3], &[3]], &[&[4, 2]]),
        (
            OpKind::Einsum,
            einsum("bhwc,hkc->bhwk"),
            &[&[2, 8, 8, 16], &[8, 5, 16]],
            &[&[2, 8, 8, 5]],
        ),
        (OpKind::Einsum, einsum("...ij,...jk->...ik"), &[&[7, 2, 3], &[7, 3, 4]], &[&[7, 2, 4]]),
        (OpKind::Einsum, einsum("ij,jk"), &[&[2, 3], &[3, 4]], &[&[2, 4]]),
        (OpKind::Attention, a(), &[&[1, 10, 64], &[1, 20, 64], &[1, 20, 32]], &[&[1, 10, 32]]),
    ]);
}

#[test]
fn elementwise_and_reductions() {
    check_all(vec![
        (OpKind::Add, a(), &[&[1, 64, 1, 1], &[8, 8]], &[&[1, 64, 8, 8]]),
        (OpKind::Where, a(), &[&[3, 1], &[1, 4], &[]], &[&[3, 4]]),
        (OpKind::Gelu, a(), &[&[1, 5]], &[&[1, 5]]),
        (OpKind::ReduceMean, a().with_ints("axes", [-1, -2]), &[&[1, 8, 7, 7]], &[&[1, 8, 1, 1]]),
        (
            OpKind::ReduceMean,
            a().with_ints("axes", [1]).with_int("keepdims", 0),
            &[&[1, 8, 7]],
            &[&[1, 7]],
        ),
        (OpKind::ReduceSum, a().with_int("keepdims", 0), &[&[2, 3]], &[&[]]),
        (OpKind::ArgMax, a().with_int("axis", -1).with_int("keepdims", 0), &[&[2, 3]], &[&[2]]),
        (OpKind::TopK, a().with_int("k", 2), &[&[4, 9]], &[&[4, 2], &[4, 2]]),
        (OpKind::Softmax, a(), &[&[4, 9]], &[&[4, 9]]),
    ]);
}

#[test]
fn movement() {
    let slice = |start: i64, end: i64, step: i64| {
        a().with_ints("starts", [start])
            .with_ints("ends", [end])
            .with_ints("axes", [-1])
            .with_ints("steps", [step])
    };
    check_all(vec![
        (OpKind::Transpose, a(), &[&[2, 3, 4]], &[&[4, 3, 2]]),
        (OpKind::Reshape, a().with_ints("shape", [0, -1, 6]), &[&[2, 3, 4]], &[&[2, 2, 6]]),
        (OpKind::Concat, a().with_int("axis", -1), &[&[2, 3], &[2, 4]], &[&[2, 7]]),
        (
            OpKind::Split,
            a().with_ints("split", [1, 2]).with_int("axis", 1),
            &[&[2, 3]],
            &[&[2, 1], &[2, 2]],
        ),
        (OpKind::Expand, a().with_ints("shape", [4, 1]), &[&[1, 3]], &[&[4, 3]]),
        (OpKind::Tile, a().with_ints("repeats", [2, 3]), &[&[1, 3]], &[&[2, 9]]),
        (OpKind::Slice, slice(1, i64::MAX, 1), &[&[2, 9]], &[&[2, 8]]),
        (OpKind::Slice, slice(-1, i64::MIN, -2), &[&[2, 9]], &[&[2, 5]]),
        (OpKind::Slice, slice(5, 3, 1), &[&[2, 9]], &[&[2, 0]]),
        (OpKind::Gather, a().with_int("axis", 1), &[&[5, 6], &[2, 3]], &[&[5, 2, 3]]),
        (OpKind::Gather, a().with_int("axis", 1).with_int("index", -1), &[&[5, 6, 7]], &[&[5, 7]]),
        (OpKind::GatherNd, a(), &[&[5, 6, 7], &[3, 2]], &[&[3, 7]]),
        (OpKind::Pad, a().with_ints("pads", [0, 1, 0, -1]), &[&[5, 6]], &[&[5, 6]]),
        (
            OpKind::Resize,
            a().with("scales", Attribute::Floats(vec![1.0, 1.0, 2.0, 0.5])),
            &[&[1, 8, 7, 7]],
            &[&[1, 8, 14, 3]],
        ),
        (OpKind::GridSample, a(), &[&[1, 8, 7, 7], &[1, 3, 4, 2]], &[&[1, 8, 3, 4]]),
        (OpKind::DepthToSpace, a().with_int("blocksize", 2), &[&[1, 8, 3, 4]], &[&[1, 2, 6, 8]]),
        (OpKind::SpaceToDepth, a().with_int("blocksize", 2), &[&[1, 2, 6, 8]], &[&[1, 8, 3, 4]]),
        (
            OpKind::Col2Im,
            a().with_ints("image_shape", [5, 7])
                .with_ints("block_shape", [3, 3])
                .with_ints("strides", [2, 2])
                .with_ints("pads", [1, 1, 1, 1]),
            &[&[2, 36, 12]],
            &[&[2, 4, 5, 7]],
        ),
    ]);
}

#[test]
fn what_does_not_fit_is_an_error_that_says_so() {
    let cases: Vec<(OpKind, Attributes, &[&[usize]], &str)> = vec![
        (OpKind::Add, a(), &[&[2], &[3]], "broadcast"),
        (OpKind::Linear, a(), &[&[1, 4], &[5, 6]], "multiplied"),
        (OpKind::Conv, a(), &[&[1, 3, 8, 8], &[4, 5, 3, 3]], "does not fit"),
        (OpKind::Conv, a().with_int("group", 0), &[&[1, 3, 8, 8], &[4, 3, 3, 3]], "groups"),
        (OpKind::Conv, a(), &[&[1, 3, 2, 2], &[4, 3, 3, 3]], "window"),
        (
            OpKind::Conv,
            a().with_ints("strides", [0, 0]),
            &[&[1, 3, 8, 8], &[4, 3, 3, 3]],
            "strides",
        ),
        (
            OpKind::Conv,
            a().with_ints("pads", [i64::MAX; 4]),
            &[&[1, 3, 8, 8], &[4, 3, 3, 3]],
            "dimension",
        ),
        (
            OpKind::Col2Im,
            a().with_ints("image_shape", [4, 4]).with_ints("block_shape", [2, 2]),
            &[&[1, 8, 8]],
            "9 windows",
        ),
        (OpKind::Reshape, a().with_ints("shape", [7]), &[&[2, 3]], "cannot become"),
        (OpKind::Reshape, a().with_ints("shape", [-1, 0, -1]), &[&[2, 3]], "cannot become"),
        (OpKind::Transpose, a().with_ints("perm", [0, 0]), &[&[2, 3]], "order"),
        (OpKind::Softmax, a().with_int("axis", 7), &[&[2, 3]], "axis 7"),
        (OpKind::Tile, a().with_ints("repeats", [1 << 40, 2]), &[&[2, 3]], "dimension"),
        (OpKind::Expand, a().with_ints("shape", [1 << 30, 1 << 30, 1]), &[&[1]], "2^40"),
        (OpKind::ConstantOfShape, a().with_ints("shape", [1; 33]), &[], "dimensions"),
        (
            OpKind::Slice,
            a().with_ints("starts", [0]).with_ints("ends", [1]).with_ints("steps", [0]),
            &[&[2]],
            "step of 0",
        ),
        (OpKind::TopK, a().with_int("k", 4), &[&[3]], "largest"),
        (OpKind::Add, a(), &[], "missing"),
        (OpKind::NonZero, a(), &[&[3]], "depends on the values"),
    ];
    for (kind, attributes, given, expected) in cases {
        let error = infer(&kind, &attributes, &inputs(given)).expect_err(kind.name());
        assert!(error.contains(expected), "{kind}: {error}");
    }
}

#[test]
fn equal_operators_have_equal_attributes() {
    let full = a()
        .with_ints("kernel_shape", [3, 3])
        .with_ints("strides", [1, 1])
        .with_ints("pads", [1; 4])
        .with_ints("dilations", [1, 1])
        .with_int("group", 1);
    let resized = text(
        text(
            text(a().with_ints("sizes", [1, 8, 14, 14]), "mode", "nearest"),
            "coordinate_transformation_mode",
            "half_pixel",
        ),
        "nearest_mode",
        "round_prefer_floor",
    );
    let image: &[&[usize]] = &[&[1, 8, 7, 7]];
    let cases: Vec<(OpKind, Attributes, &[&[usize]], Attributes)> = vec![
        (OpKind::Conv, text(a(), "auto_pad", "SAME_LOWER"), &[&[1, 3, 8, 8], &[4, 3, 3, 3]], full),
        (
            OpKind::Linear,
            a().with_int("trans_b", 0).with("alpha", Attribute::Float(1.0)),
            &[&[1, 2], &[2, 3]],
            a(),
        ),
        (
            OpKind::ReduceMean,
            a().with_ints("axes", [-1, 2]),
            image,
            a().with_ints("axes", [2, 3]).with_int("keepdims", 1),
        ),
        (OpKind::Reshape, a().with_ints("shape", [0, -1]), image, a().with_ints("shape", [1, 392])),
        (
            OpKind::Resize,
            a().with("scales", Attribute::Floats(vec![1.0, 1.0, 2.0, 2.0])),
            image,
            resized,
        ),
        (
            OpKind::Slice,
            a().with_ints("starts", [-3]).with_ints("ends", [i64::MAX]).with_ints("axes", [-1]),
            image,
            a().with_ints("starts", [4])
                .with_ints("ends", [7])
                .with_ints("axes", [3])
                .with_ints("steps", [1]),
        ),
    ];
    for (kind, given, shapes, expected) in cases {
        let once = canonical(&kind, given, &inputs(shapes)).unwrap();
        assert_eq!(once, expected, "{kind}");
        assert_eq!(
            canonical(&kind, once.clone(), &inputs(shapes)).unwrap(),
            once,
            "{kind}: canonical twice"
        );
    }
}

#[test]
fn outputs_keep_the_format_and_type_of_what_is_computed() {
    let blocked = Operand {
        tensor: TensorSpec::new([1, 8, 4, 4], Precision::F16).with_format(MemoryFormat::Blocked),
        constant: false,
    };
    let relu = infer(&OpKind::Relu, &a(), std::slice::from_ref(&blocked)).unwrap();
    assert_eq!(relu, vec![blocked.tensor.clone()]);
    let to = text(a(), "to", "i64");
    assert_eq!(
        infer(&OpKind::Cast, &to, std::slice::from_ref(&blocked)).unwrap()[0].precision,
        Precision::I64
    );
    let compared = infer(&OpKind::Compare, &a(), &[blocked.clone(), blocked]).unwrap();
    assert_eq!(compared[0].precision, Precision::Bool);
}
