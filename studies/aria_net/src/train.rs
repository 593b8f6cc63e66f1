//! Training: error of ln depth, cross-entropy of labels, and how well the features of one frame
//! predict those of the next where nothing moved, but not where something did (equation 1 of the
//! paper needs that).

use crate::{
    model::{self, WIDTH},
    parameters::Parameters,
    shots::{Batch, Consistency, Overlaid, Overlay, Phase, Pool},
};
use candle_core::{D, Device, Result, Tensor};
use std::{error::Error, path::Path, time::Instant};
use vitempo_aria::Grid;

const RATE: f64 = 2e-3;
const WARMUP: usize = 60;
/// Shares of the parts of the loss.
const DEPTH: f64 = 2.0;
const CONSISTENCY: f64 = 0.4;
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
        let progress = step as f64 / steps as f64;
        let batch = Batch::draw(&pool, step, Phase::at(step))?;
        let weight = |name: &str| parameters.weight(name);
        let (loss, parts) = loss(&batch, &weight)?;
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
    let features = model::features(&images(&batch.images, batch.grid)?, weight)?;
    let shown = resampled(&features, batch.cells)?;
    let (shown, consistency) = match &batch.overlay {
        Some(overlay) => overlaid(&shown, overlay, weight)?,
        None if batch.pairs.is_empty() => {
            (shown, Tensor::zeros((), features.dtype(), &Device::Cpu)?)
        }
        None => (shown, pairs(batch, &features)?),
    };
    let answers = model::answers(&shown, weight)?;
    let mut answers = answers.reshape(((), answers.dim(D::Minus1)?))?;
    let count = batch.labels.len();
    let mut depths = Tensor::from_slice(&batch.log_depths, (count, 1), &Device::Cpu)?;
    let mut labels = Tensor::from_slice(&batch.labels, count, &Device::Cpu)?;
    if let Some(overlay) = &batch.overlay {
        let seen = Tensor::from_slice(&overlay.seen, overlay.seen.len(), &Device::Cpu)?;
        answers = answers.index_select(&seen, 0)?;
        depths = depths.index_select(&seen, 0)?;
        labels = labels.index_select(&seen, 0)?;
    }
    let depth = (answers.narrow(1, 0, 1)? - depths)?.abs()?.mean_all()?;
    let scores = answers.narrow(1, 1, vitempo_aria::scene::LABELS)?.contiguous()?;
    let labels = candle_nn::loss::cross_entropy(&scores, &labels)?;
    let loss = (((&depth * DEPTH)? + &labels)? + (&consistency * CONSISTENCY)?)?;
    let number = |part: &Tensor| part.to_scalar::<f32>().map(f64::from);
    Ok((loss, [number(&depth)?, number(&labels)?, number(&consistency)?]))
}

/// Images of some patches each, channels first.
fn images(pixels: &[f32], grid: Grid) -> Result<Tensor> {
    let (height, width) = (grid.rows() * model::PATCH, grid.cols() * model::PATCH);
    let count = pixels.len() / (vitempo_aria::CHANNELS * height * width);
    Tensor::from_slice(pixels, (count, vitempo_aria::CHANNELS, height, width), &Device::Cpu)
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

/// Features of earlier frames, warped, under those of parts of later frames; and how consistent both
/// are where they meet.
fn overlaid(
    features: &Tensor,
    overlay: &Overlay,
    weight: model::Weight<'_>,
) -> Result<(Tensor, Tensor)> {
    let (count, rows, cols, _) = features.dims4()?;
    let parts = model::features(&images(&overlay.images, overlay.part)?, weight)?;
    let parts = resampled(&parts, overlay.window)?.reshape((count, (), WIDTH))?;
    let features = features.reshape((count, rows * cols, WIDTH))?;
    let mut sum = Tensor::zeros((), features.dtype(), &Device::Cpu)?;
    let mut merged = Vec::new();
    for (pair, Overlaid { truth, rows }) in overlay.pairs.iter().enumerate() {
        let warped = warped(&features.get(pair)?, truth)?;
        let index = Tensor::from_slice(rows, rows.len(), &Device::Cpu)?;
        let now = Tensor::cat(&[&warped, &parts.get(pair)?], 0)?.index_select(&index, 0)?;
        let seen = |patch: usize| rows[patch] as usize >= rows.len();
        sum = (sum + consistency(&warped, &now, truth, &seen)?)?;
        merged.push(now);
    }
    let merged = Tensor::stack(&merged, 0)?.reshape((count, rows, cols, WIDTH))?;
    Ok((merged, (sum / overlay.pairs.len() as f64)?))
}

/// How consistent the features of pairs of frames are.
fn pairs(batch: &Batch, features: &Tensor) -> Result<Tensor> {
    let features = features.reshape((batch.count, batch.grid.patches(), WIDTH))?;
    let mut sum = Tensor::zeros((), features.dtype(), &Device::Cpu)?;
    for (pair, truth) in batch.pairs.iter().enumerate() {
        let (before, now) = (features.get(2 * pair)?, features.get(2 * pair + 1)?);
        sum = (sum + consistency(&warped(&before, truth)?, &now, truth, &|_| true)?)?;
    }
    sum / batch.pairs.len() as f64
}

/// Features of an earlier frame where the camera's flow takes them.
fn warped(before: &Tensor, truth: &Consistency) -> Result<Tensor> {
    let patches = truth.still.len();
    let from = Tensor::from_slice(&truth.from, 4 * patches, &Device::Cpu)?;
    let shares = Tensor::from_slice(&truth.shares, (patches, 4, 1), &Device::Cpu)?;
    before.index_select(&from, 0)?.reshape((patches, 4, WIDTH))?.broadcast_mul(&shares)?.sum(1)
}

/// Mean of 1 - cosine similarity of patches that stayed, and what similarity patches that moved have
/// too much of, among those that are `seen`.
fn consistency(
    warped: &Tensor,
    now: &Tensor,
    truth: &Consistency,
    seen: &dyn Fn(usize) -> bool,
) -> Result<Tensor> {
    let length = |x: &Tensor| (x.sqr()?.sum(1)? + 1e-6)?.sqrt();
    let cosine = ((warped * now)?.sum(1)? / (length(warped)? * length(now)?)?)?;
    let mean = |values: Tensor, mask: &[f32]| {
        let mask: Vec<f32> =
            mask.iter().enumerate().map(|(p, x)| if seen(p) { *x } else { 0.0 }).collect();
        let all = f64::from(mask.iter().sum::<f32>()).max(1.0);
        (values * Tensor::from_slice(&mask, mask.len(), &Device::Cpu)?)?.sum_all()? / all
    };
    mean((1.0 - &cosine)?, &truth.still)? + mean((cosine - DIFFERENT)?.relu()?, &truth.moving)?
}
