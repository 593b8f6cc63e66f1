use super::*;
use crate::{Attributes, ConstantData, GraphBuilder, Precision};

fn f32(shape: &[usize]) -> TensorSpec {
    TensorSpec::new(shape, Precision::F32)
}

/// A patch embedding with a class token, position embedding, attention over heads, and a head that
/// makes an image of the tokens again.
fn transformer(height: usize, width: usize) -> Graph {
    let (rows, cols, features, heads) = (height / 14, width / 14, 12usize, 3usize);
    let tokens = rows * cols;
    let mut b = GraphBuilder::new("vit");
    let ints = |values: &[usize]| values.iter().map(|&v| v as i64).collect::<Vec<_>>();
    let image = b.input("image", f32(&[1, 3, height, width]));
    let kernel = b.weight("kernel", f32(&[features, 3, 14, 14]));
    let patches =
        Attributes::new().with_ints("kernel_shape", [14, 14]).with_ints("strides", [14, 14]);
    let x = b.op("patches", OpKind::Conv, patches, &[image, kernel]).expect("a convolution");
    let x = b
        .op(
            "row",
            OpKind::Reshape,
            Attributes::new().with_ints("shape", ints(&[1, features, tokens])),
            &[x],
        )
        .expect("tokens");
    let x = b
        .op("turn", OpKind::Transpose, Attributes::new().with_ints("perm", [0, 2, 1]), &[x])
        .expect("a transpose");
    let class = b.weight("class", f32(&[1, 1, features]));
    let x = b
        .op("class", OpKind::Concat, Attributes::new().with_int("axis", 1), &[class, x])
        .expect("a concat");
    let position = b.weight("position", f32(&[1, tokens + 1, features]));
    let x = b.op("position", OpKind::Add, Attributes::new(), &[x, position]).expect("an addition");
    let split =
        Attributes::new().with_ints("shape", ints(&[1, tokens + 1, heads, features / heads]));
    let x = b.op("heads", OpKind::Reshape, split, &[x]).expect("heads");
    let q = b
        .op("q", OpKind::Transpose, Attributes::new().with_ints("perm", [0, 2, 1, 3]), &[x])
        .expect("q");
    let k = b
        .op("k", OpKind::Transpose, Attributes::new().with_ints("perm", [0, 2, 3, 1]), &[x])
        .expect("k");
    let scores = b.op("scores", OpKind::MatMul, Attributes::new(), &[q, k]).expect("scores");
    let x = b.op("mixed", OpKind::MatMul, Attributes::new(), &[scores, q]).expect("mixed");
    let x = b
        .op("back", OpKind::Transpose, Attributes::new().with_ints("perm", [0, 2, 1, 3]), &[x])
        .expect("back");
    let x = b
        .op(
            "joined",
            OpKind::Reshape,
            Attributes::new().with_ints("shape", ints(&[1, tokens + 1, features])),
            &[x],
        )
        .expect("joined");
    let cut = Attributes::new()
        .with_ints("starts", [1])
        .with_ints("ends", [i64::MAX])
        .with_ints("axes", [1]);
    let x = b.op("tokens", OpKind::Slice, cut, &[x]).expect("a slice");
    let x = b
        .op("turn back", OpKind::Transpose, Attributes::new().with_ints("perm", [0, 2, 1]), &[x])
        .expect("a transpose");
    let x = b
        .op(
            "grid",
            OpKind::Reshape,
            Attributes::new().with_ints("shape", ints(&[1, features, rows, cols])),
            &[x],
        )
        .expect("a grid");
    let x = b
        .op(
            "image",
            OpKind::Resize,
            Attributes::new().with_ints("sizes", ints(&[1, features, height, width])),
            &[x],
        )
        .expect("a resize");
    b.finish(vec![x]).expect("a graph")
}

fn shapes(graph: &Graph) -> Vec<Vec<usize>> {
    graph
        .values()
        .iter()
        .map(|v| v.tensor.as_ref().map(|t| t.shape.to_vec()).unwrap_or_default())
        .collect()
}

#[test]
fn a_transformer_of_another_size_is_the_one_that_would_have_been_exported() {
    for (from, to) in [
        ((224, 224), (406, 658)),
        ((224, 224), (168, 168)),
        ((238, 322), (294, 490)),
        ((406, 658), (224, 224)),
        ((224, 224), (224, 224)),
    ] {
        let new = resized(&transformer(from.0, from.1), &[vec![1, 3, to.0, to.1]], &[])
            .expect("the new size");
        let expected = transformer(to.0, to.1);
        assert_eq!(shapes(&new), shapes(&expected), "{from:?} {to:?}");
        assert_eq!(new.architecture(), expected.architecture(), "{from:?} {to:?}");
    }
}

#[test]
fn images_are_found_with_channels_first_and_last() {
    let model = |last: bool| {
        let mut b = GraphBuilder::new("pooled");
        let shape: [usize; 4] = if last { [1, 32, 48, 3] } else { [1, 3, 32, 48] };
        let image = b.input("image", f32(&shape));
        let x = if last {
            b.transpose("turn", image, &[0, 3, 1, 2]).expect("a transpose")
        } else {
            image
        };
        let x = b.conv("conv", x, 8, 3, 2, 1, 1, true).expect("a convolution");
        b.finish(vec![x]).expect("a graph")
    };
    let size: ImageSize = "64x20".parse().expect("a size");
    for last in [false, true] {
        let new = with_image_size(&model(last), size).expect("the new size");
        let image: [usize; 4] = if last { [1, 64, 20, 3] } else { [1, 3, 64, 20] };
        let shapes = shapes(&new);
        assert_eq!(
            (&shapes[0][..], &shapes[shapes.len() - 1][..]),
            (&image[..], &[1, 8, 32, 10][..])
        );
    }
    let mut b = GraphBuilder::new("words");
    let words = b.input("words", f32(&[1, 77]));
    let x = b.unary("abs", OpKind::Abs, words).expect("an operator");
    let error = with_image_size(&b.finish(vec![x]).expect("a graph"), size).expect_err("no image");
    assert!(error.to_string().contains("`words` is [1, 77]"), "{error}");
}

#[test]
fn a_window_of_the_whole_image_and_the_shape_of_another_tensor_follow_it() {
    // 32 pixels and 32 channels: what is broadcast to 32 is not always the image.
    let model = |side: usize| {
        let mut b = GraphBuilder::new("pooled");
        let image = b.input("image", f32(&[1, 3, side, side]));
        let x = b.conv("conv", image, 32, 3, 1, 1, 1, true).expect("a convolution");
        let x = b.transpose("turn", x, &[0, 2, 3, 1]).expect("a transpose");
        let norm = b.reduce_mean("norm", x, &[3], true).expect("a mean");
        let shape = Attributes::new().with_ints("shape", [1, side as i64, side as i64, 32]);
        let norm = b.op("expand", OpKind::Expand, shape, &[norm]).expect("a broadcast");
        let x = b.binary("div", OpKind::Div, x, norm).expect("a quotient");
        let x = b.transpose("back", x, &[0, 3, 1, 2]).expect("a transpose");
        let window = [side as i64; 2];
        let window = Attributes::new().with_ints("kernel_shape", window);
        let x = b.op("pool", OpKind::AveragePool, window, &[x]).expect("a pool");
        let x = b.reshape("flat", x, &[1, 32]).expect("features");
        b.finish(vec![x]).expect("a graph")
    };
    let size: ImageSize = "48".parse().expect("a size");
    let new = with_image_size(&model(32), size).expect("the new size");
    assert_eq!(shapes(&new), shapes(&model(48)));
    assert_eq!(new.architecture(), model(48).architecture());
}

#[test]
fn sizes_are_written_as_height_and_width() {
    for (text, size) in [("406x658", [406, 658]), ("384", [384, 384])] {
        let parsed: ImageSize = text.parse().expect("a size");
        assert_eq!(ImageSize::new(size[0], size[1]), Ok(parsed));
        assert_eq!(parsed.to_string().parse(), Ok(parsed));
    }
    for text in ["", "0x3", "4x", "x4", "-1", "1x2x3", "65537", "4 x 4", "99999999999999999999"] {
        let error = text.parse::<ImageSize>().expect_err(text).to_string();
        assert!(error.contains(&format!("`{text}`")) || text == "65537", "{error}");
        assert!(error.contains("406x658"), "{error}");
    }
}

#[test]
fn tokens_alone_need_the_patches_they_come_from() {
    let decoder = |rows: usize, cols: usize| {
        let mut b = GraphBuilder::new("decoder");
        let tokens = b.input("tokens", f32(&[1, rows * cols, 8]));
        let x = b
            .op(
                "turn",
                OpKind::Transpose,
                Attributes::new().with_ints("perm", [0, 2, 1]),
                &[tokens],
            )
            .expect("a transpose");
        let shape = vec![1, 8, rows as i64, cols as i64];
        let x = b
            .op("grid", OpKind::Reshape, Attributes::new().with_ints("shape", shape), &[x])
            .expect("a grid");
        b.finish(vec![x]).expect("a graph")
    };
    let new = resized(&decoder(16, 16), &[vec![1, 29 * 47, 8]], &[[(16, 29), (16, 47)]])
        .expect("the new size");
    assert_eq!(shapes(&new), shapes(&decoder(29, 47)));
    let error = resized(&decoder(16, 16), &[vec![1, 29 * 47, 8]], &[])
        .expect_err("1363 is not a multiple of 16");
    assert!(error.to_string().contains("`grid`") && error.to_string().contains("1363"), "{error}");
}

/// Stages of half the size each, cut into windows of 7; the last one is a window.
fn windowed(side: usize) -> Graph {
    let mut b = GraphBuilder::new("windowed");
    let image = b.input("image", f32(&[1, 4, side, side]));
    let mut x = b.transpose("last", image, &[0, 2, 3, 1]).expect("a transpose");
    for stage in [56, 28, 14, 7] {
        let windows = stage / 7;
        let cut = [1, windows, 7, windows, 7, 4];
        let name = |what: &str| format!("{what}{stage}");
        x = b.reshape(&name("cut"), x, &cut).expect("windows");
        x = b.op(&name("relu"), OpKind::Relu, Attributes::new(), &[x]).expect("an activation");
        x = b.reshape(&name("whole"), x, &[1, stage, stage, 4]).expect("an image");
        if stage > 7 {
            let all = Attributes::new()
                .with_ints("axes", [1, 2])
                .with_ints("starts", [0, 0])
                .with_ints("ends", [stage as i64; 2])
                .with_ints("steps", [2, 2]);
            x = b.op(&name("half"), OpKind::Slice, all, &[x]).expect("every other pixel");
        }
    }
    b.finish(vec![x]).expect("a graph")
}

#[test]
fn windows_keep_their_size() {
    let refused = |size: &str| {
        let size: ImageSize = size.parse().expect("a size");
        with_image_size(&windowed(56), size).expect_err("windows of 7").to_string()
    };
    let error = refused("64");
    assert!(error.contains("`cut28`") && error.contains("windows of 7"), "{error}");
    let error = refused("112");
    assert!(error.contains("`cut7`") && error.contains("one window of 7"), "{error}");
}

#[test]
fn what_does_not_fit_is_named() {
    let model = transformer(224, 224);
    let wrong = resized(&model, &[vec![3, 406, 658]], &[]).expect_err("a shape of other rank");
    assert!(
        wrong
            .to_string()
            .contains("input `image` is [1, 3, 224, 224] and cannot become [3, 406, 658]"),
        "{wrong}"
    );
    assert!(matches!(
        resized(&model, &[], &[]),
        Err(ResizeError::Inputs { given: 0, inputs: 1, .. })
    ));
}

#[test]
fn nothing_to_resize_is_an_error() {
    let mut b = GraphBuilder::new("empty");
    let x = b.input("x", f32(&[1, 4, 8, 8]));
    let none =
        Attributes::new().with_ints("starts", [2]).with_ints("ends", [2]).with_ints("axes", [1]);
    let x = b.op("none", OpKind::Slice, none, &[x]).expect("a slice");
    let x = b
        .op("grow", OpKind::Resize, Attributes::new().with_ints("sizes", [1, 0, 16, 16]), &[x])
        .expect("a resize");
    let graph = b.finish(vec![x]).expect("a graph");
    let error = resized(&graph, &[vec![1, 4, 16, 16]], &[]).expect_err("no elements");
    assert!(
        error.to_string().contains("`none`") && error.to_string().contains("dimension of 0"),
        "{error}"
    );
}

/// A convolution of an image, then one operator with a constant.
fn with_constant(
    side: usize,
    kind: OpKind,
    attributes: Attributes,
    constant: Option<(TensorSpec, Vec<i64>)>,
) -> Graph {
    let mut b = GraphBuilder::new("m");
    let image = b.input("image", f32(&[1, 3, side, side]));
    let x = b.conv("conv", image, 8, 3, 1, 1, 1, true).expect("a convolution");
    let mut inputs = vec![x];
    inputs.extend(constant.map(|(tensor, values)| {
        if tensor.precision.is_float() {
            b.weight("constant", tensor)
        } else {
            b.constant("constant", tensor, ConstantData::Ints(values))
        }
    }));
    let y = b.op("op", kind, attributes, &inputs).expect("an operator");
    b.finish(vec![y]).expect("a graph")
}

fn indices(values: &[i64]) -> Option<(TensorSpec, Vec<i64>)> {
    Some((TensorSpec::new([values.len()], Precision::I64), values.to_vec()))
}

#[test]
fn constants_of_the_images_size_are_refused() {
    let none = Attributes::new;
    let columns = || none().with_int("axis", 3);
    let grid = |side: usize| Some((f32(&[1, side, side, 2]), Vec::new()));
    let all: Vec<i64> = (0..24).collect();
    let half: Vec<i64> = (0..24).step_by(2).collect();
    let mirrored: Vec<i64> = (0..24).rev().collect();
    let pads = |after: [i64; 2]| none().with_ints("pads", [0, 0, 0, 0, 0, 0, after[0], after[1]]);
    let table = Some((TensorSpec::new([1, 8, 4, 24], Precision::I64), vec![0; 768]));
    let refused = [
        (OpKind::GridSample, none(), grid(24), "[24, 24]"),
        (OpKind::GridSample, none(), grid(12), "[12, 12]"),
        (OpKind::GridSample, none(), grid(48), "[48, 48]"),
        (OpKind::Gather, columns(), indices(&all), "through 24"),
        (OpKind::Gather, columns(), indices(&half), "through 24"),
        (OpKind::Gather, columns(), indices(&mirrored), "through 24"),
        (OpKind::GatherElements, none().with_int("axis", 2), table, "through 24"),
        (OpKind::TopK, columns().with_int("k", 24), None, "count 24"),
        (OpKind::Pad, pads([4, 4]), None, "24 by 4 to a multiple of 7, and 40 needs 2"),
    ];
    let size = ImageSize::new(40, 40).expect("a size");
    for (kind, attributes, constant, says) in refused {
        let graph = with_constant(24, kind, attributes, constant);
        let error = with_image_size(&graph, size).expect_err(says).to_string();
        assert!(error.contains("node `op`") && error.contains(says), "{error}");
        let same = ImageSize::new(24, 24).expect("a size");
        assert!(with_image_size(&graph, same).is_ok(), "{says}");
    }
    let fine = [
        (OpKind::GridSample, none(), grid(7)),
        (OpKind::Gather, columns(), indices(&[0])),
        (OpKind::Gather, columns(), indices(&[3, 1, 2])),
        (OpKind::Gather, columns(), indices(&[2, 4, 6])),
        // Channels stay as many as they are.
        (OpKind::Gather, none().with_int("axis", 1), indices(&[0, 1, 2, 3, 4, 5, 6, 7])),
        (OpKind::TopK, columns().with_int("k", 5), None),
        (OpKind::Pad, pads([1, 1]), None),
        (OpKind::Pad, none().with_ints("pads", [0, 0, 2, 2, 0, 0, 2, 2]), None),
    ];
    for (kind, attributes, constant) in fine {
        let graph = with_constant(24, kind, attributes, constant);
        with_image_size(&graph, size).expect("the new size");
    }
    // What fills up to the same multiple may stay.
    let graph = with_constant(24, OpKind::Pad, pads([4, 4]), None);
    let size = ImageSize::new(45, 52).expect("a size");
    with_image_size(&graph, size).expect("45 and 52 need 4");
}

#[test]
fn indices_of_places_that_follow_the_image_are_refused() {
    let places = (TensorSpec::new([1, 24, 1], Precision::I64), (0..24).collect::<Vec<i64>>());
    let mut b = GraphBuilder::new("m");
    let image = b.input("image", f32(&[1, 3, 24, 24]));
    let rows = b.transpose("turn", image, &[2, 0, 1, 3]).expect("a transpose");
    let index = b.constant("index", places.0, ConstantData::Ints(places.1));
    let y = b.op("op", OpKind::GatherNd, Attributes::new(), &[rows, index]).expect("rows");
    let graph = b.finish(vec![y]).expect("a graph");
    let size = ImageSize::new(40, 24).expect("a size");
    let error = with_image_size(&graph, size).expect_err("24 rows").to_string();
    assert!(error.contains("node `op`") && error.contains("through 24"), "{error}");
    let size = ImageSize::new(24, 40).expect("a size");
    with_image_size(&graph, size).expect("24 rows stay");
}
