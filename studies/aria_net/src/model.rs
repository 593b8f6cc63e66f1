//! The network, twice under the same names of weights: as graphs to be written, and as what it
//! computes while it is trained.
//!
//! The encoder is a small transformer over patches of 8 x 8 pixels, behind convolutions (Xiao et
//! al., "Early convolutions help transformers see better", NeurIPS 2021). Each block begins with a
//! depthwise convolution (Chu et al., "Conditional positional encodings", ICLR 2023), which works at
//! every resolution. The decoder mixes neighbouring patches and gives 2 x 2 cells for each: ln of
//! depth, and a score for each label.

use crate::fast::{Bias, Near, Normalised, Relu, Softmax};
use candle_core::{D, Result, Tensor};
use vitempo_aria::{
    CHANNELS, Grid,
    scene::{CELLS, LABELS},
};
use vitempo_graph::{Graph, GraphBuilder, GraphError, OpKind, TensorSpec, ValueId};

/// Pixels along each side of a patch.
pub const PATCH: usize = 8;
/// Features per patch.
pub const WIDTH: usize = 160;
/// Channels of the convolutions at a half and at a quarter of the resolution.
const STEM: [usize; 2] = [32, 64];
const HEADS: usize = 5;
const HEAD: usize = WIDTH / HEADS;
const HIDDEN: usize = 3 * WIDTH;
const BLOCKS: usize = 5;
const DECODER_HIDDEN: usize = 2 * WIDTH;
/// Numbers of a cell.
const ANSWER: usize = 1 + LABELS;

type Built<T> = std::result::Result<T, GraphError>;

/// From pixels to one row of features for each patch.
pub fn encoder(grid: Grid) -> Built<Graph> {
    let mut g = GraphBuilder::new("aria_encoder");
    let (rows, cols) = (grid.rows(), grid.cols());
    let image = TensorSpec::f32([1, CHANNELS, rows * PATCH, cols * PATCH]);
    let x = g.input("image", image);
    let x = g.conv("stem1", x, STEM[0], 4, 2, 1, 1, true)?;
    let x = g.unary("stem1.relu", OpKind::Relu, x)?;
    let y = g.conv("stem1.near", x, STEM[0], 3, 1, 1, STEM[0], true)?;
    let x = g.binary("stem1.sum", OpKind::Add, x, y)?;
    let x = g.conv("stem2", x, STEM[1], 2, 2, 0, 1, true)?;
    let x = g.unary("stem2.relu", OpKind::Relu, x)?;
    let y = g.conv("stem2.near", x, STEM[1], 3, 1, 1, STEM[1], true)?;
    let x = g.binary("stem2.sum", OpKind::Add, x, y)?;
    let x = g.conv("patches", x, WIDTH, 2, 2, 0, 1, true)?;
    let mut x = tokens(&mut g, "patches", x, grid)?;
    for block in 0..BLOCKS {
        let name = |part: &str| format!("blocks.{block}.{part}");
        x = neighbours(&mut g, &name("near"), x, grid)?;
        let y = g.layer_norm(&name("norm1"), x)?;
        let y = attention(&mut g, &name("attention"), y, grid.patches())?;
        x = g.binary(&name("sum1"), OpKind::Add, x, y)?;
        let y = g.layer_norm(&name("norm2"), x)?;
        let y = perceptron(&mut g, &name("mlp"), y, HIDDEN)?;
        x = g.binary(&name("sum2"), OpKind::Add, x, y)?;
    }
    let features = g.layer_norm("features", x)?;
    g.finish(vec![features])
}

/// From features to ln of depth `[1, 1, 2 rows, 2 cols]` and scores `[1, labels, 2 rows, 2 cols]`.
pub fn decoder(grid: Grid) -> Built<Graph> {
    let mut g = GraphBuilder::new("aria_decoder");
    let (rows, cols) = (grid.rows(), grid.cols());
    let x = g.input("features", TensorSpec::f32([1, grid.patches(), WIDTH]));
    let x = neighbours(&mut g, "decoder.near1", x, grid)?;
    let y = g.layer_norm("decoder.norm1", x)?;
    let y = perceptron(&mut g, "decoder.mlp", y, DECODER_HIDDEN)?;
    let x = g.binary("decoder.sum", OpKind::Add, x, y)?;
    let x = neighbours(&mut g, "decoder.near2", x, grid)?;
    let x = g.layer_norm("decoder.norm2", x)?;
    let mut head = |name: &str, channels: usize| {
        let y = g.linear(&format!("{name}.cells"), x, CELLS * CELLS * channels, true)?;
        let apart = [1, rows, cols, CELLS, CELLS, channels];
        let y = g.reshape(&format!("{name}.apart"), y, &apart)?;
        let y = g.transpose(&format!("{name}.placed"), y, &[0, 5, 1, 3, 2, 4])?;
        g.reshape(name, y, &[1, channels, CELLS * rows, CELLS * cols])
    };
    let (depth, labels) = (head("log_depth", 1)?, head("labels", LABELS)?);
    g.finish(vec![depth, labels])
}

fn tokens(g: &mut GraphBuilder, name: &str, x: ValueId, grid: Grid) -> Built<ValueId> {
    let x = g.reshape(&format!("{name}.flat"), x, &[1, WIDTH, grid.patches()])?;
    g.transpose(&format!("{name}.tokens"), x, &[0, 2, 1])
}

/// Adds a depthwise convolution of 3 x 3 patches.
fn neighbours(g: &mut GraphBuilder, name: &str, x: ValueId, grid: Grid) -> Built<ValueId> {
    let y = g.transpose(&format!("{name}.channels"), x, &[0, 2, 1])?;
    let y = g.reshape(&format!("{name}.map"), y, &[1, WIDTH, grid.rows(), grid.cols()])?;
    let y = g.conv(name, y, WIDTH, 3, 1, 1, WIDTH, true)?;
    let y = tokens(g, name, y, grid)?;
    g.binary(&format!("{name}.sum"), OpKind::Add, x, y)
}

fn perceptron(g: &mut GraphBuilder, name: &str, x: ValueId, hidden: usize) -> Built<ValueId> {
    let y = g.linear(&format!("{name}.wide"), x, hidden, true)?;
    let y = g.unary(&format!("{name}.relu"), OpKind::Relu, y)?;
    g.linear(&format!("{name}.narrow"), y, WIDTH, true)
}

fn attention(g: &mut GraphBuilder, name: &str, x: ValueId, tokens: usize) -> Built<ValueId> {
    let mut heads = |part: &str, perm: &[usize]| {
        let y = g.linear(&format!("{name}.{part}"), x, WIDTH, true)?;
        let y = g.reshape(&format!("{name}.{part}.split"), y, &[1, tokens, HEADS, HEAD])?;
        g.transpose(&format!("{name}.{part}.heads"), y, perm)
    };
    let (q, k, v) =
        (heads("q", &[0, 2, 1, 3])?, heads("k", &[0, 2, 3, 1])?, heads("v", &[0, 2, 1, 3])?);
    let scores = g.matmul(&format!("{name}.scores"), q, k)?;
    let scale = g.scalar(&format!("{name}.scale"), scores, 1.0 / (HEAD as f64).sqrt())?;
    let scores = g.binary(&format!("{name}.scaled"), OpKind::Mul, scores, scale)?;
    let shares = g.softmax(&format!("{name}.softmax"), scores, 3)?;
    let y = g.matmul(&format!("{name}.mixed"), shares, v)?;
    let y = g.transpose(&format!("{name}.tokens"), y, &[0, 2, 1, 3])?;
    let y = g.reshape(&format!("{name}.joined"), y, &[1, tokens, WIDTH])?;
    g.linear(&format!("{name}.out"), y, WIDTH, true)
}

/// A weight by its name.
pub type Weight<'a> = &'a dyn Fn(&str) -> Result<Tensor>;

/// Features `[batch, rows, cols, width]` of images `[batch, channels, height, width]`.
pub fn features(images: &Tensor, weight: Weight<'_>) -> Result<Tensor> {
    let (_, _, height, across) = images.dims4()?;
    let (rows, cols) = (height / PATCH, across / PATCH);
    let x = halved(images, weight)?.apply_op1(Relu)?;
    let x = merged(&near(&x, "stem1.near", weight)?, "stem2", weight)?.apply_op1(Relu)?;
    let mut x = merged(&near(&x, "stem2.near", weight)?, "patches", weight)?;
    let batch = x.dim(0)?;
    for block in 0..BLOCKS {
        let name = |part: &str| format!("blocks.{block}.{part}");
        x = near(&x, &name("near"), weight)?;
        let y = norm(&x, &name("norm1"), weight)?.reshape((batch, rows * cols, WIDTH))?;
        x = (&x + mixed(&y, &name("attention"), weight)?.reshape(x.shape())?)?;
        x = (&x + thought(&norm(&x, &name("norm2"), weight)?, &name("mlp"), weight)?)?;
    }
    norm(&x, "features", weight)
}

/// The first convolution, 4 x 4 with stride 2, as a product: `[batch, height / 2, width / 2, out]` of
/// images that need no gradient.
fn halved(images: &Tensor, weight: Weight<'_>) -> Result<Tensor> {
    let (batch, channels, height, width) = images.dims4()?;
    let (rows, cols) = (height / 2, width / 2);
    let pixels: Vec<f32> = images.flatten_all()?.to_vec1()?;
    let inputs = channels * 16;
    let mut unfolded = vec![0.0f32; batch * rows * cols * inputs];
    for (place, window) in unfolded.chunks_exact_mut(inputs).enumerate() {
        let (image, row, col) = (place / (rows * cols), place / cols % rows, place % cols);
        for (tap, value) in window.iter_mut().enumerate() {
            let (y, x) = (2 * row + tap / 4 % 4, 2 * col + tap % 4);
            // One pixel of zeros around.
            if (1..=height).contains(&y) && (1..=width).contains(&x) {
                let channel = image * channels + tap / 16;
                *value = pixels[(channel * height + y - 1) * width + x - 1];
            }
        }
    }
    let unfolded = Tensor::from_vec(unfolded, (batch * rows * cols, inputs), images.device())?;
    let kernel = weight("stem1.weight")?.reshape((STEM[0], inputs))?;
    unfolded
        .matmul(&kernel.t()?)?
        .apply_op2(&weight("stem1.bias")?, Bias)?
        .reshape((batch, rows, cols, STEM[0]))
}

/// A convolution of 2 x 2 with stride 2, as a product.
fn merged(x: &Tensor, name: &str, weight: Weight<'_>) -> Result<Tensor> {
    let (batch, rows, cols, width) = x.dims4()?;
    let kernel = weight(&format!("{name}.weight"))?;
    let out = kernel.dim(0)?;
    let patches = x
        .reshape((batch * rows / 2, 2, cols / 2, 2, width))?
        .permute((0, 2, 4, 1, 3))?
        .contiguous()?
        .reshape((batch * rows * cols / 4, 4 * width))?;
    patches
        .matmul(&kernel.reshape((out, 4 * width))?.t()?)?
        .apply_op2(&weight(&format!("{name}.bias"))?, Bias)?
        .reshape((batch, rows / 2, cols / 2, out))
}

/// Answers `[batch, rows, cols, cells, cells, 1 + labels]` for features `[batch, rows, cols, width]`:
/// ln of depth, then scores.
pub fn answers(features: &Tensor, weight: Weight<'_>) -> Result<Tensor> {
    let (batch, rows, cols, _) = features.dims4()?;
    let x = near(features, "decoder.near1", weight)?;
    let y = thought(&norm(&x, "decoder.norm1", weight)?, "decoder.mlp", weight)?;
    let x = near(&(x + y)?, "decoder.near2", weight)?;
    let x = norm(&x, "decoder.norm2", weight)?;
    let cells = |name: &str, channels: usize| {
        linear(&x, name, weight)?.reshape((batch, rows, cols, CELLS, CELLS, channels))
    };
    Tensor::cat(&[cells("log_depth.cells", 1)?, cells("labels.cells", LABELS)?], D::Minus1)
}

/// Answers as the graph has them: ln of depth and scores, each as a map of cells.
pub fn maps(answers: &Tensor) -> Result<(Tensor, Tensor)> {
    let (batch, rows, cols) = (answers.dim(0)?, answers.dim(1)?, answers.dim(2)?);
    let map = answers.permute((0, 5, 1, 3, 2, 4))?.contiguous()?.reshape((
        batch,
        ANSWER,
        CELLS * rows,
        CELLS * cols,
    ))?;
    Ok((map.narrow(1, 0, 1)?.contiguous()?, map.narrow(1, 1, LABELS)?.contiguous()?))
}

/// Adds a depthwise convolution of 3 x 3 patches.
fn near(x: &Tensor, name: &str, weight: Weight<'_>) -> Result<Tensor> {
    let kernel = weight(&format!("{name}.weight"))?;
    let kernel = kernel.reshape((kernel.dim(0)?, 9))?.t()?.contiguous()?;
    let near = x.contiguous()?.apply_op2(&kernel, Near)?;
    (x + near)?.apply_op2(&weight(&format!("{name}.bias"))?, Bias)
}

fn linear(x: &Tensor, name: &str, weight: Weight<'_>) -> Result<Tensor> {
    let shape = x.dims();
    let width = shape[shape.len() - 1];
    let y = x
        .reshape(((), width))?
        .matmul(&weight(&format!("{name}.weight"))?)?
        .apply_op2(&weight(&format!("{name}.bias"))?, Bias)?;
    let mut to = shape.to_vec();
    *to.last_mut().ok_or_else(|| candle_core::Error::msg("a tensor without axes"))? = y.dim(1)?;
    y.reshape(to)
}

fn thought(x: &Tensor, name: &str, weight: Weight<'_>) -> Result<Tensor> {
    let wide = linear(x, &format!("{name}.wide"), weight)?.apply_op1(Relu)?;
    linear(&wide, &format!("{name}.narrow"), weight)
}

fn norm(x: &Tensor, name: &str, weight: Weight<'_>) -> Result<Tensor> {
    let (scale, shift) = (weight(&format!("{name}.weight"))?, weight(&format!("{name}.bias"))?);
    x.contiguous()?.apply_op3(&scale, &shift, Normalised)
}

fn mixed(x: &Tensor, name: &str, weight: Weight<'_>) -> Result<Tensor> {
    let (batch, tokens, width) = x.dims3()?;
    let heads = |part: &str| {
        linear(x, &format!("{name}.{part}"), weight)?
            .reshape((batch, tokens, HEADS, HEAD))?
            .transpose(1, 2)?
            .contiguous()
    };
    let (q, k, v) = (heads("q")?, heads("k")?, heads("v")?);
    let scores = (q.matmul(&k.t()?)? * (1.0 / (HEAD as f64).sqrt()))?;
    let y = scores
        .apply_op1(Softmax)?
        .matmul(&v)?
        .transpose(1, 2)?
        .contiguous()?
        .reshape((batch, tokens, width))?;
    linear(&y, &format!("{name}.out"), weight)
}
