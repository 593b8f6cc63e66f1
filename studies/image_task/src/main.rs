//! Trains a small vision transformer on generated images, and writes what it takes to measure
//! variants of it:
//!
//! | file | what |
//! |---|---|
//! | `stripes.onnx` | the trained model; its input is a batch |
//! | `images.npy`, `labels.npy` | images it never saw, f32 `[count, 3, 20, 20]`, and their classes, i64 `[count]` |
//!
//! `cargo run --release --manifest-path image_task/Cargo.toml -- FOLDER [STEPS] [SEED]`. The same
//! steps and seed give the same images, and on one machine the same model.

mod images;
mod model;
mod npy;
mod train;

use rand::{SeedableRng, rngs::StdRng};
use std::{error::Error, path::PathBuf};
use vitempo::graph::onnx::{self, WriteOptions};

/// Images in the test set, and in one batch of the model that is written.
const TESTED: usize = 5000;
const BATCH: usize = 50;
/// Training steps, where none are given.
const STEPS: usize = 2000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().ok_or("which FOLDER? e.g. `-- task/ 2000 1`")?);
    let steps = arguments
        .next()
        .map_or(Ok(STEPS), |text| text.parse().map_err(|e| format!("STEPS `{text}`: {e}")))?;
    let seed: u64 = arguments
        .next()
        .map_or(Ok(1), |text| text.parse().map_err(|e| format!("SEED `{text}`: {e}")))?;
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;

    let graph = model::graph(BATCH)?;
    let parameters = train::train(&graph, steps, seed)?;
    // Test images come from a stream of their own.
    let mut random = StdRng::seed_from_u64(seed ^ 0x7e57);
    let tested: Vec<images::Labelled> = (0..TESTED).map(|_| images::draw(&mut random)).collect();
    println!(
        "accuracy on {TESTED} new images: {:.2} %",
        100.0 * train::accuracy(&parameters, &tested)?
    );

    onnx::write_file(
        &folder.join("stripes.onnx"),
        &parameters.fill(&graph)?,
        &WriteOptions::default(),
    )?;
    let pixels: Vec<f32> = tested.iter().flat_map(|image| image.pixels.iter().copied()).collect();
    let labels: Vec<i64> = tested.iter().map(|image| i64::from(image.class)).collect();
    npy::write_f32(
        &folder.join("images.npy"),
        &[TESTED, images::CHANNELS, images::SIZE, images::SIZE],
        &pixels,
    )?;
    npy::write_i64(&folder.join("labels.npy"), &labels)?;
    println!("{}: stripes.onnx, images.npy, labels.npy", folder.display());
    Ok(())
}
