//! Trains the network with which ARIA is evaluated, on rendered scenes of `vitempo-aria`, and
//! writes what it takes to run it:
//!
//! | file | what |
//! |---|---|
//! | `encoder.onnx` | pixels of a frame or a part of one to features, one row per patch |
//! | `decoder.onnx` | features of a frame to ln of depth and scores of labels |
//! | `encoder_int8.onnx`, `decoder_int8.onnx` | the same with 8-bit products |
//! | `expected.npy` | what candle computes for a held-out frame, to compare engines with |
//!
//! `cargo run --release --manifest-path aria_net/Cargo.toml -- FOLDER [STEPS] [SEED]`. The same
//! steps and seed give the same scenes, and on one machine with `RAYON_NUM_THREADS=1` the same
//! network. An interrupted run continues from `checkpoint.safetensors` in the folder.

mod fast;
mod model;
mod npy;
mod parameters;
mod shots;
mod train;
mod write;

use std::{error::Error, path::PathBuf};

/// Training steps, where none are given.
const STEPS: usize = 900;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().ok_or("which FOLDER? e.g. `-- net/ 900 1`")?);
    let steps = arguments
        .next()
        .map_or(Ok(STEPS), |text| text.parse().map_err(|e| format!("STEPS `{text}`: {e}")))?;
    let seed: u64 = arguments
        .next()
        .map_or(Ok(1), |text| text.parse().map_err(|e| format!("SEED `{text}`: {e}")))?;
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let full = shots::full()?;
    let graphs = [model::encoder(full)?, model::decoder(full)?];
    let mut parameters = parameters::Parameters::new(&graphs, seed)?;
    println!("{} weights", parameters.count());
    train::train(&mut parameters, steps, seed, &folder)?;
    write::held_out(&parameters)?;
    write::files(&parameters, &graphs, &folder)
}
