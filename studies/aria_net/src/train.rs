//! Training: error of ln depth, cross-entropy of labels, and how well the features of one frame
//! predict those of the next where nothing moved, but not where something did (equation 1 of the
//! paper needs that).

use crate::{
    model::{self, WIDTH},
    parameters::Parameters,
    shots::{Batch, Pool},
};
use candle_core::{D, Device, Result, Tensor};
use std::{error::Error, path::Path, time::Instant};
use vitempo_aria::Grid;

const RATE: f64 = 2e-3;
const WARMUP: usize = 60;
/// Shares of the parts of the loss.
const DEPTH: f64 = 2.0;
const CONSISTENCY: f64 = 0.2;
/// Cosine similarity above which features of a patch that moved are too similar.
const DIFFERENT: f64 = 0.6;
/// Steps from one checkpoint and report to the next.
const EVERY: usize = 25;

/// Takes steps up to a number, from the checkpoint in the folder if there is one.
pub fn train(
    parameters: &mut Parameters,
    steps: usize,
    seed: u64,
    folder: &Path,
) -> std::result::Result<(), Box<dyn Error>> {
    let checkpoint = folder.join("checkpoint.safetensors");
    if checkpoint.exists() {
        parameters.load(&checkpoint)?;
        println!("continues after step {}", parameters.step);
    }
    let mut pool = Pool::before(seed, parameters.step)?;
    let (mut recent, mut since) = ([0.0f64; 3], Instant::now());
    while parameters.step < steps {
        let step = parameters.step;
        let batch = Batch::draw(&pool, step)?;
        let weight = |name: &str| parameters.weight(name);
        let (loss, parts) = loss(&batch, &weight)?;
        let progress = step as f64 / steps as f64;
        let warm = ((step + 1) as f64 / WARMUP as f64).min(1.0);
        let rate = RATE * warm * 0.5 * (1.0 + (std::f64::consts::PI * progress).cos());
        let gradients = loss.backward()?;
        parameters.update(&gradients, rate)?;
        recent.iter_mut().zip(parts).for_each(|(sum, part)| *sum += part);
        pool.advance(step + 1)?;
        if parameters.step % EVERY == 0 || parameters.step == steps {
            let [depth, labels, consistency] = recent.map(|sum| sum / EVERY as f64);
            println!(
                "step {:5}: ln depth {depth:.4}, labels {labels:.4}, consistency {consistency:.4}, {:.2} s a step",
                parameters.step,
                since.elapsed().as_secs_f64() / EVERY as f64
            );
            (recent, since) = ([0.0; 3], Instant::now());
            parameters.save(&checkpoint)?;
        }
    }
    Ok(())
}

/// The loss of a batch, and its parts.
fn loss(batch: &Batch, weight: model::Weight<'_>) -> Result<(Tensor, [f64; 3])> {
    let (rows, cols) = (batch.grid.rows(), batch.grid.cols());
    let shape = (batch.count, vitempo_aria::CHANNELS, rows * model::PATCH, cols * model::PATCH);
    let images = Tensor::from_slice(&batch.images, shape, &Device::Cpu)?;
    let features = model::features(&images, weight)?;
    let answers = model::answers(&resampled(&features, batch.cells)?, weight)?;
    let answers = answers.reshape(((), answers.dim(D::Minus1)?))?;
    let count = batch.labels.len();
    let depths = Tensor::from_slice(&batch.log_depths, (count, 1), &Device::Cpu)?;
    let depth = (answers.narrow(1, 0, 1)? - depths)?.abs()?.mean_all()?;
    let labels = Tensor::from_slice(&batch.labels, count, &Device::Cpu)?;
    let scores = answers.narrow(1, 1, vitempo_aria::scene::LABELS)?.contiguous()?;
    let labels = candle_nn::loss::cross_entropy(&scores, &labels)?;
    let mut loss = ((&depth * DEPTH)? + &labels)?;
    let mut parts = [&depth, &labels].map(|part| part.to_scalar::<f32>().map(f64::from));
    let mut consistent = 0.0;
    if !batch.pairs.is_empty() {
        let part = consistency(batch, &features)?;
        consistent = f64::from(part.to_scalar::<f32>()?);
        loss = (loss + (part * CONSISTENCY)?)?;
    }
    let [depth, labels] =
        [std::mem::replace(&mut parts[0], Ok(0.0))?, std::mem::replace(&mut parts[1], Ok(0.0))?];
    Ok((loss, [depth, labels, consistent]))
}

/// Features between the centres of patches, for another number of patches.
fn resampled(features: &Tensor, to: Grid) -> Result<Tensor> {
    let (batch, rows, cols, width) = features.dims4()?;
    if (rows, cols) == (to.rows(), to.cols()) {
        return Ok(features.clone());
    }
    let mut shares = vec![0.0f32; to.patches() * rows * cols];
    let place = |at: usize, count: usize, of: usize| {
        let at = ((at as f32 + 0.5) * of as f32 / count as f32 - 0.5).clamp(0.0, (of - 1) as f32);
        (at as usize, (at as usize + 1).min(of - 1), at.fract())
    };
    for patch in 0..to.patches() {
        let (row, col) = to.place(patch);
        let (top, bottom, down) = place(row, to.rows(), rows);
        let (left, right, across) = place(col, to.cols(), cols);
        for (r, share) in [(top, 1.0 - down), (bottom, down)] {
            for (c, part) in [(left, 1.0 - across), (right, across)] {
                shares[(patch * rows + r) * cols + c] += share * part;
            }
        }
    }
    let shares = Tensor::from_vec(shares, (1, to.patches(), rows * cols), &Device::Cpu)?;
    shares
        .broadcast_as((batch, to.patches(), rows * cols))?
        .contiguous()?
        .matmul(&features.reshape((batch, rows * cols, width))?)?
        .reshape((batch, to.rows(), to.cols(), width))
}

/// Mean of 1 - cosine similarity of patches that stayed, and what similarity patches that moved have
/// too much of.
fn consistency(batch: &Batch, features: &Tensor) -> Result<Tensor> {
    let patches = batch.grid.patches();
    let features = features.reshape((batch.count, patches, WIDTH))?;
    let mut sum = Tensor::zeros((), features.dtype(), &Device::Cpu)?;
    for (pair, truth) in batch.pairs.iter().enumerate() {
        let (before, now) = (features.get(2 * pair)?, features.get(2 * pair + 1)?);
        let from = Tensor::from_slice(&truth.from, 4 * patches, &Device::Cpu)?;
        let shares = Tensor::from_slice(&truth.shares, (patches, 4, 1), &Device::Cpu)?;
        let warped = before
            .index_select(&from, 0)?
            .reshape((patches, 4, WIDTH))?
            .broadcast_mul(&shares)?
            .sum(1)?;
        let length = |x: &Tensor| (x.sqr()?.sum(1)? + 1e-6)?.sqrt();
        let cosine = ((&warped * &now)?.sum(1)? / (length(&warped)? * length(&now)?)?)?;
        let mean = |values: Tensor, mask: &[f32]| {
            let all = f64::from(mask.iter().sum::<f32>()).max(1.0);
            (values * Tensor::from_slice(mask, patches, &Device::Cpu)?)?.sum_all()? / all
        };
        let still = mean((1.0 - &cosine)?, &truth.still)?;
        let moving = mean((cosine - DIFFERENT)?.relu()?, &truth.moving)?;
        sum = ((sum + still)? + moving)?;
    }
    sum / batch.pairs.len() as f64
}
