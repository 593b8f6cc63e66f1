//! The transformer, twice under the same names of weights: as a graph to be written, and as what it
//! computes while it is trained.

use crate::images::{CHANNELS, CLASSES, SIZE};
use candle_core::{D, Result, Tensor};
use vitempo::graph::{Graph, GraphBuilder, GraphError, OpKind, TensorSpec, ValueId};

const PATCH: usize = 4;
const SIDE: usize = SIZE / PATCH;
const TOKENS: usize = SIDE * SIDE;
const WIDTH: usize = 48;
const HEADS: usize = 4;
const HEAD: usize = WIDTH / HEADS;
const HIDDEN: usize = 4 * WIDTH;
const BLOCKS: usize = 6;
const EPSILON: f64 = 1e-5;

/// As a graph that computes logits of so many images at once.
pub fn graph(batch: usize) -> std::result::Result<Graph, GraphError> {
    let mut g = GraphBuilder::new("stripes");
    let x = g.input("images", TensorSpec::f32([batch, CHANNELS, SIZE, SIZE]));
    let x = g.conv("patches", x, WIDTH, PATCH, PATCH, 0, 1, true)?;
    let x = g.reshape("patches.flat", x, &[batch, WIDTH, TOKENS])?;
    let x = g.transpose("patches.tokens", x, &[0, 2, 1])?;
    let positions = g.weight("positions", TensorSpec::f32([1, TOKENS, WIDTH]));
    let mut x = g.binary("embedding", OpKind::Add, x, positions)?;
    for block in 0..BLOCKS {
        let name = |part: &str| format!("blocks.{block}.{part}");
        let y = g.layer_norm(&name("norm1"), x)?;
        let y = attention(&mut g, &name("attention"), y, batch)?;
        x = g.binary(&name("sum1"), OpKind::Add, x, y)?;
        let y = g.layer_norm(&name("norm2"), x)?;
        let y = g.linear(&name("mlp.wide"), y, HIDDEN, true)?;
        let y = g.gelu_erf(&name("mlp.gelu"), y)?;
        let y = g.linear(&name("mlp.narrow"), y, WIDTH, true)?;
        x = g.binary(&name("sum2"), OpKind::Add, x, y)?;
    }
    let x = g.layer_norm("norm", x)?;
    let x = g.reduce_mean("pool", x, &[1], false)?;
    let logits = g.linear("head", x, CLASSES, true)?;
    g.finish(vec![logits])
}

fn attention(
    g: &mut GraphBuilder,
    name: &str,
    x: ValueId,
    batch: usize,
) -> std::result::Result<ValueId, GraphError> {
    let mut heads = |part: &str, perm: &[usize]| {
        let y = g.linear(&format!("{name}.{part}"), x, WIDTH, true)?;
        let y = g.reshape(&format!("{name}.{part}.split"), y, &[batch, TOKENS, HEADS, HEAD])?;
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
    let y = g.reshape(&format!("{name}.joined"), y, &[batch, TOKENS, WIDTH])?;
    g.linear(&format!("{name}.out"), y, WIDTH, true)
}

/// Logits of images `[batch, 3, 20, 20]`, given each weight by its name.
pub fn logits(images: &Tensor, weight: &dyn Fn(&str) -> Result<Tensor>) -> Result<Tensor> {
    let batch = images.dim(0)?;
    let patches = images
        .reshape((batch, CHANNELS, SIDE, PATCH, SIDE, PATCH))?
        .permute((0, 2, 4, 1, 3, 5))?
        .contiguous()?;
    let patches = patches.reshape((batch * TOKENS, CHANNELS * PATCH * PATCH))?;
    let kernel = weight("patches.weight")?.reshape((WIDTH, CHANNELS * PATCH * PATCH))?;
    let x = patches
        .matmul(&kernel.t()?)?
        .broadcast_add(&weight("patches.bias")?)?
        .reshape((batch, TOKENS, WIDTH))?;
    let positions = weight("positions")?;
    let mut x = x.broadcast_add(&positions)?;
    for block in 0..BLOCKS {
        let name = |part: &str| format!("blocks.{block}.{part}");
        x = (&x + mixed(&norm(&x, &name("norm1"), weight)?, &name("attention"), weight)?)?;
        let wide =
            linear(&norm(&x, &name("norm2"), weight)?, &name("mlp.wide"), weight)?.gelu_erf()?;
        x = (&x + linear(&wide, &name("mlp.narrow"), weight)?)?;
    }
    let pooled = norm(&x, "norm", weight)?.mean(1)?;
    pooled.matmul(&weight("head.weight")?.t()?)?.broadcast_add(&weight("head.bias")?)
}

fn linear(x: &Tensor, name: &str, weight: &dyn Fn(&str) -> Result<Tensor>) -> Result<Tensor> {
    let (batch, tokens, width) = x.dims3()?;
    let y = x
        .reshape((batch * tokens, width))?
        .matmul(&weight(&format!("{name}.weight"))?)?
        .broadcast_add(&weight(&format!("{name}.bias"))?)?;
    y.reshape((batch, tokens, ()))
}

fn norm(x: &Tensor, name: &str, weight: &dyn Fn(&str) -> Result<Tensor>) -> Result<Tensor> {
    let centred = x.broadcast_sub(&x.mean_keepdim(D::Minus1)?)?;
    let deviation = (centred.sqr()?.mean_keepdim(D::Minus1)? + EPSILON)?.sqrt()?;
    centred
        .broadcast_div(&deviation)?
        .broadcast_mul(&weight(&format!("{name}.weight"))?)?
        .broadcast_add(&weight(&format!("{name}.bias"))?)
}

fn mixed(x: &Tensor, name: &str, weight: &dyn Fn(&str) -> Result<Tensor>) -> Result<Tensor> {
    let (batch, tokens, width) = x.dims3()?;
    let heads = |part: &str| {
        linear(x, &format!("{name}.{part}"), weight)?
            .reshape((batch, tokens, HEADS, HEAD))?
            .transpose(1, 2)?
            .contiguous()
    };
    let (q, k, v) = (heads("q")?, heads("k")?, heads("v")?);
    let scores = (q.matmul(&k.t()?)? * (1.0 / (HEAD as f64).sqrt()))?;
    let y = candle_nn::ops::softmax(&scores, D::Minus1)?
        .matmul(&v)?
        .transpose(1, 2)?
        .contiguous()?
        .reshape((batch, tokens, width))?;
    linear(&y, &format!("{name}.out"), weight)
}
