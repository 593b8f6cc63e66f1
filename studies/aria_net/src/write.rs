//! Held-out errors, and the files.

use crate::{
    model::{self, PATCH, WIDTH},
    npy,
    parameters::Parameters,
    shots::{LEVELS, full},
};
use candle_core::{Device, Result, Tensor};
use std::{error::Error, path::Path};
use vitempo_aria::{
    CHANNELS, Frame, Grid, View,
    scene::{CELLS, Dense, Kind, Picture, Scene, Score},
};
use vitempo_graph::{
    Graph,
    onnx::{self, WriteOptions},
    quantize::Conversion,
};

/// Scenes of each kind that are tested, and frames of each.
const SCENES: u64 = 3;
const FRAMES: [u64; 2] = [20, 170];
/// Least and greatest value of the encoder's input, and of the decoder's.
const PIXELS: (f64, f64) = (-1.0, 1.0);
const FEATURES: (f64, f64) = (-4.0, 4.0);

/// Prints errors in scenes that were not trained on, by resolution.
pub fn held_out(parameters: &Parameters) -> std::result::Result<(), Box<dyn Error>> {
    let full = full()?;
    let mut scores = [Score::default(); LEVELS.len()];
    for kind in Kind::ALL {
        for scene in 0..SCENES {
            let scene = Scene::furnished(kind, Scene::HELD_OUT + scene, full, PATCH)?;
            for frame in FRAMES {
                let picture = scene.picture(frame);
                for (score, [rows, cols]) in scores.iter_mut().zip(LEVELS) {
                    let grid = Grid::new(rows, cols)?;
                    let [_, depths, labels] = outputs(parameters, &scene, &picture, grid)?;
                    let dense = Dense::new([CELLS * rows, CELLS * cols], depths, labels)?;
                    dense.score(scene.world(), &picture, score);
                }
            }
        }
    }
    for (score, [rows, cols]) in scores.iter().zip(LEVELS) {
        println!(
            "{rows} x {cols} patches: RMSE {:.3} m, mIoU {:.3}",
            score.depth_rmse_m().unwrap_or(f64::NAN),
            score.label_miou().unwrap_or(f64::NAN)
        );
    }
    Ok(())
}

/// Features, ln of depth and scores for a frame, resized to patches.
fn outputs(
    parameters: &Parameters,
    scene: &Scene,
    picture: &Picture,
    grid: Grid,
) -> std::result::Result<[Vec<f32>; 3], Box<dyn Error>> {
    let weight = |name: &str| parameters.weight(name).map(|weight| weight.detach());
    let image = Tensor::from_vec(
        pixels(scene, picture, grid)?,
        (1, CHANNELS, grid.rows() * PATCH, grid.cols() * PATCH),
        &Device::Cpu,
    )?;
    let features = model::features(&image, &weight)?;
    let (depths, labels) = model::maps(&model::answers(&features, &weight)?)?;
    let numbers = |tensor: &Tensor| -> Result<Vec<f32>> { tensor.flatten_all()?.to_vec1() };
    Ok([numbers(&features)?, numbers(&depths)?, numbers(&labels)?])
}

fn pixels(
    scene: &Scene,
    picture: &Picture,
    grid: Grid,
) -> std::result::Result<Vec<f32>, vitempo_aria::AriaError> {
    let camera = scene.camera();
    Frame::new(&picture.colours, camera.grid, camera.patch, camera.intrinsics)?
        .pixels(&View::whole(camera.grid, grid))
}

/// Writes the models and the expected outputs.
pub fn files(
    parameters: &Parameters,
    graphs: &[Graph; 2],
    folder: &Path,
) -> std::result::Result<(), Box<dyn Error>> {
    for ((graph, name), range) in graphs.iter().zip(["encoder", "decoder"]).zip([PIXELS, FEATURES])
    {
        let filled = parameters.fill(graph)?;
        let path = folder.join(format!("{name}.onnx"));
        onnx::write_file(&path, &filled, &WriteOptions::default())?;
        let bytes = Conversion::Integer.model_bytes(&filled, 1, range)?;
        std::fs::write(folder.join(format!("{name}_int8.onnx")), bytes)?;
    }
    let scene = Scene::furnished(Kind::Crowded, Scene::HELD_OUT, full()?, PATCH)?;
    let [features, depths, labels] =
        outputs(parameters, &scene, &scene.picture(FRAMES[0]), full()?)?;
    // Features of every sixteenth patch: enough to find a difference.
    let some: Vec<f32> = features.chunks_exact(WIDTH).step_by(16).flatten().copied().collect();
    let all: Vec<f32> = [some, depths, labels].concat();
    npy::write_f32(&folder.join("expected.npy"), &[all.len()], &all)?;
    println!("{}: encoder.onnx, decoder.onnx, *_int8.onnx, expected.npy", folder.display());
    Ok(())
}
