//! A rendered video as engines take it, and what they put out as features of patches.

use super::super::super::error::{CliError, CliResult};
use vitempo::aria::{
    AriaError, Grid, Intrinsics, Pose, Window,
    scene::{Camera, Kind, Picture, Scene},
};
use vitempo::graph::Graph;
use vitempo::profiler::{OutputValues, live::Answer};

/// Tokens before the patches: class, registers.
const MOST_EXTRA_TOKENS: usize = 8;

/// Pictures of a scene, played to and fro without end.
pub struct Video {
    scene: Scene,
    pictures: Vec<Picture>,
}

impl Video {
    /// Renders so many pictures; two at least.
    pub fn render(
        kind: Kind,
        seed: u64,
        grid: Grid,
        patch: usize,
        frames: usize,
    ) -> Result<Self, AriaError> {
        let scene = Scene::new(kind, seed, grid, patch)?;
        let pictures = (0..frames.max(2) as u64).map(|frame| scene.picture(frame)).collect();
        Ok(Self { scene, pictures })
    }

    /// The picture of a camera frame.
    pub fn picture(&self, frame: usize) -> &Picture {
        let round = 2 * (self.pictures.len() - 1);
        let at = frame % round;
        &self.pictures[at.min(round - at)]
    }

    pub fn pose(&self, frame: usize) -> Pose {
        self.picture(frame).pose
    }

    pub fn camera(&self) -> &Camera {
        self.scene.camera()
    }

    pub fn intrinsics(&self) -> Intrinsics {
        self.scene.camera().intrinsics
    }
}

/// A window of a frame as an encoder's input, channels first; `scale`: at so many patches instead,
/// each pixel from the nearest.
pub fn input(
    graph: &Graph,
    video: &Video,
    frame: usize,
    window: Window,
    scale: Option<[usize; 2]>,
) -> CliResult<OutputValues> {
    let image = graph.inputs().first().map(|id| graph.value(*id));
    let Some((value, &[_, 3, height, width])) =
        image.and_then(|value| Some((value, value.tensor.as_ref()?.shape.as_slice())))
    else {
        return Err(CliError::user(format!(
            "{}: its first input is no image of three channels",
            graph.name()
        ))
        .hint("--live needs an encoder of [1, 3, height, width]"));
    };
    let (picture, patch) = (video.picture(frame), video.camera().patch);
    let [rows, cols] = scale.unwrap_or([window.rows, window.cols]);
    if (height, width) != (rows * patch, cols * patch) {
        return Err(CliError::ours(format!(
            "{height} x {width} pixels are not {rows} x {cols} patches"
        )));
    }
    let (from_rows, from_cols) = (window.rows * patch, window.cols * patch);
    let mut values = vec![0.0; 3 * height * width];
    for y in 0..height {
        let line =
            (window.row * patch + y * from_rows / height) * picture.width + window.col * patch;
        for x in 0..width {
            let colour = picture.colours[line + x * from_cols / width];
            for (channel, value) in colour.into_iter().enumerate() {
                values[(channel * height + y) * width + x] = value;
            }
        }
    }
    Ok(OutputValues { name: value.name.clone(), shape: vec![1, 3, height, width], values })
}

/// Features by patch of an encoder's first output for `grid`, brought to `to` by the nearest patch;
/// and how many there are per patch.
pub fn features(answer: &Answer, grid: Grid, to: Grid) -> CliResult<(Vec<f32>, usize)> {
    let output = answer.values.first().ok_or_else(|| {
        CliError::user(
            "the engine puts out nothing; --live \
            needs one that hands out tensors, e.g. onnxruntime",
        )
    })?;
    let patches = grid.patches();
    let (rows, width): (Vec<f32>, usize) = match output.shape[..] {
        [1, tokens, width] if (patches..=patches + MOST_EXTRA_TOKENS).contains(&tokens) => {
            (output.values[(tokens - patches) * width..].to_vec(), width)
        }
        [1, width, height, across] if height * across == patches => {
            let values = (0..patches)
                .flat_map(|patch| (0..width).map(move |feature| feature * patches + patch))
                .map(|at| output.values[at]);
            (values.collect(), width)
        }
        _ => {
            let shape = &output.shape;
            return Err(CliError::user(format!(
                "the encoder's first output is {shape:?}: no features of {patches} patches"
            ))
            .hint("--live needs an encoder that puts out its patches' features"));
        }
    };
    if grid == to {
        return Ok((rows, width));
    }
    let mut wide = Vec::with_capacity(to.patches() * width);
    for patch in 0..to.patches() {
        let (row, col) = to.place(patch);
        let from = grid.index(row * grid.rows() / to.rows(), col * grid.cols() / to.cols());
        wide.extend_from_slice(&rows[from * width..][..width]);
    }
    Ok((wide, width))
}
