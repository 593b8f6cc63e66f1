//! Converts a rendered video into inputs of engines, and their outputs into features of patches.

use super::{super::models::MOST_EXTRA_TOKENS, AriaLiveError};
use vitempo_aria::{
    AriaError, Grid, Intrinsics, Pose, Window,
    scene::{Camera, Kind, Picture, Scene},
};
use vitempo_graph::Graph;
use vitempo_profiler::{OutputValues, live::Answer};

/// Pictures of a scene, played forwards and backwards in turn without end.
pub struct Video {
    scene: Scene,
    pictures: Vec<Picture>,
}

impl Video {
    /// Renders this many pictures; at least two.
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

/// A window of a frame as an encoder's input, channels first; `scale`: resized to this many
/// patches, each pixel from the nearest.
pub fn input(
    graph: &Graph,
    video: &Video,
    frame: usize,
    window: Window,
    scale: Option<[usize; 2]>,
) -> Result<OutputValues, AriaLiveError> {
    let image = graph.inputs().first().map(|id| graph.value(*id));
    let Some((value, &[_, 3, height, width])) =
        image.and_then(|value| Some((value, value.tensor.as_ref()?.shape.as_slice())))
    else {
        return Err(AriaLiveError::NoImage { model: graph.name().to_owned() });
    };
    let (picture, patch) = (video.picture(frame), video.camera().patch);
    let [rows, cols] = scale.unwrap_or([window.rows, window.cols]);
    if (height, width) != (rows * patch, cols * patch) {
        return Err(AriaLiveError::Pixels { height, width, rows, cols });
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

/// Features by patch of an encoder's first output for `grid`, resampled to `to` by the nearest
/// patch; and the number of features per patch.
pub fn features(answer: &Answer, grid: Grid, to: Grid) -> Result<(Vec<f32>, usize), AriaLiveError> {
    let output = answer.values.first().ok_or(AriaLiveError::NoOutput)?;
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
        _ => return Err(AriaLiveError::NoFeatures { shape: output.shape.clone(), patches }),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(rows: usize, cols: usize) -> Grid {
        Grid::new(rows, cols).expect("a grid")
    }

    fn answer(shape: &[usize]) -> Answer {
        let values = (0..shape.iter().product::<usize>()).map(|value| value as f32).collect();
        let output = OutputValues { name: "features".to_owned(), shape: shape.to_vec(), values };
        Answer { values: vec![output], busy_ns: 1 }
    }

    #[test]
    fn features_are_found_behind_extra_tokens_and_channels_first() {
        let tokens = features(&answer(&[1, 5, 2]), grid(2, 2), grid(2, 2)).expect("features");
        assert_eq!(tokens, ((2..10).map(|value| value as f32).collect(), 2));
        let maps = features(&answer(&[1, 2, 2, 2]), grid(2, 2), grid(2, 2)).expect("features");
        assert_eq!(maps, (vec![0.0, 4.0, 1.0, 5.0, 2.0, 6.0, 3.0, 7.0], 2));
        let wide = features(&answer(&[1, 2, 1]), grid(1, 2), grid(2, 4)).expect("features");
        assert_eq!(wide, (vec![0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0], 1));
        let refused = features(&answer(&[1, 1000]), grid(2, 2), grid(2, 2));
        assert!(matches!(refused, Err(AriaLiveError::NoFeatures { patches: 4, .. })));
    }

    #[test]
    fn the_video_is_played_to_and_fro() {
        let video = Video::render(Kind::Slow, 1, grid(3, 4), 4, 3).expect("a video");
        let shown = [0, 1, 2, 3, 4, 5].map(|frame| std::ptr::from_ref(video.picture(frame)));
        let [first, second, third] = [0, 1, 2].map(|at| std::ptr::from_ref(&video.pictures[at]));
        assert_eq!(shown, [first, second, third, second, first, second]);
    }
}
