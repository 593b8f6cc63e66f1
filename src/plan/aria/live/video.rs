//! Converts a rendered video into inputs of engines, and their outputs into features of patches.

use super::{
    super::{models::features_of_patches, walk::trace_frame},
    AriaLiveError,
};
use vitempo_aria::{
    AriaError, CHANNELS, FeatureMap, Frame, Grid, Instructions, Intrinsics, Pose, View, Window,
    scene::{Camera, Kind, Picture, Scene, World},
};
use vitempo_graph::Graph;
use vitempo_planners::aria::TraceFrame;
use vitempo_profiler::{OutputValues, live::Answer};

/// Pictures of a scene, played forwards and backwards in turn without end.
pub struct Video {
    scene: Scene,
    pictures: Vec<Picture>,
}

impl Video {
    /// Renders this many pictures of a scene; at least two.
    pub fn of(scene: Scene, frames: usize) -> Self {
        let pictures = (0..frames.max(2) as u64).map(|frame| scene.picture(frame)).collect();
        Self { scene, pictures }
    }

    /// A scene for an encoder of this many channels: what a network with directions of pixels
    /// ([`CHANNELS`]) was trained on, not in training; otherwise one of plain balls.
    pub fn scene(channels: usize, grid: Grid, patch: usize) -> Result<Scene, AriaError> {
        if channels == CHANNELS {
            Scene::furnished(Kind::Crowded, Scene::HELD_OUT, grid, patch)
        } else {
            Scene::new(Kind::Crowded, 1, grid, patch)
        }
    }

    /// All pictures.
    pub fn pictures(&self) -> &[Picture] {
        &self.pictures
    }

    /// Index of the picture of a camera frame.
    pub fn index(&self, frame: usize) -> usize {
        let round = 2 * (self.pictures.len() - 1);
        let at = frame % round;
        at.min(round - at)
    }

    /// The picture of a camera frame.
    pub fn picture(&self, frame: usize) -> &Picture {
        &self.pictures[self.index(frame)]
    }

    pub fn pose(&self, frame: usize) -> Pose {
        self.picture(frame).pose
    }

    pub fn camera(&self) -> &Camera {
        self.scene.camera()
    }

    pub fn world(&self) -> &World {
        self.scene.world()
    }

    pub fn intrinsics(&self) -> Intrinsics {
        self.scene.camera().intrinsics
    }

    /// What moves in a camera frame; things run backwards where the video does.
    pub fn motion(&self, frame: usize) -> TraceFrame {
        let [before, now] = [frame.saturating_sub(1), frame].map(|frame| self.index(frame) as u64);
        trace_frame(&self.scene, before, now)
    }

    /// A window of a frame as an encoder's input of `channels`, channels first, resized to `size`
    /// patches. Of three channels, each pixel is from the nearest.
    pub fn pixels(
        &self,
        channels: usize,
        frame: usize,
        window: Window,
        [rows, cols]: [usize; 2],
    ) -> Result<Vec<f32>, AriaError> {
        let (picture, camera) = (self.picture(frame), self.camera());
        if channels == CHANNELS {
            let view = View { window, grid: Grid::new(rows, cols)? };
            return Frame::new(&picture.colours, camera.grid, camera.patch, camera.intrinsics)?
                .pixels(&view);
        }
        let patch = camera.patch;
        let (height, width) = (rows * patch, cols * patch);
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
        Ok(values)
    }
}

/// Channels of an encoder's image.
pub fn channels(graph: &Graph) -> Result<usize, AriaLiveError> {
    let image = graph.inputs().first().and_then(|id| graph.value(*id).tensor.as_ref());
    match image.map(|tensor| tensor.shape.as_slice()) {
        Some(&[_, channels, _, _]) if channels == 3 || channels == CHANNELS => Ok(channels),
        _ => Err(AriaLiveError::NoImage { model: graph.name().to_owned() }),
    }
}

/// Pixels as the input of an encoder for this many patches.
pub fn input(
    graph: &Graph,
    pixels: Vec<f32>,
    [rows, cols]: [usize; 2],
    patch: usize,
) -> Result<OutputValues, AriaLiveError> {
    let image = graph.inputs().first().map(|id| graph.value(*id));
    let Some((value, &[_, channels, height, width])) =
        image.and_then(|value| Some((value, value.tensor.as_ref()?.shape.as_slice())))
    else {
        return Err(AriaLiveError::NoImage { model: graph.name().to_owned() });
    };
    if (height, width) != (rows * patch, cols * patch) {
        return Err(AriaLiveError::Pixels { height, width, rows, cols });
    }
    let shape = vec![1, channels, height, width];
    Ok(OutputValues { name: value.name.clone(), shape, values: pixels })
}

/// Features by patch of an encoder's first output for `grid`.
pub fn features(answer: &Answer, grid: Grid) -> Result<FeatureMap, AriaLiveError> {
    let output = answer.values.first().ok_or(AriaLiveError::NoOutput)?;
    let patches = grid.patches();
    let Some((width, by_patch)) = features_of_patches(&output.shape, patches) else {
        return Err(AriaLiveError::NoFeatures { shape: output.shape.clone(), patches });
    };
    let values = &output.values;
    let rows = if by_patch {
        values[values.len().saturating_sub(patches * width)..].to_vec()
    } else {
        let one = |patch: usize| (0..width).map(move |at| values[at * patches + patch]);
        (0..patches).flat_map(one).collect()
    };
    Ok(FeatureMap::from_values(Instructions::best(), grid, width, &rows)?)
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
        let tokens = features(&answer(&[1, 5, 2]), grid(2, 2)).expect("features");
        let expected: Vec<f32> = (2..10).map(|value| value as f32).collect();
        assert_eq!((tokens.values(), tokens.width()), (&expected[..], 2));
        let maps = features(&answer(&[1, 2, 2, 2]), grid(2, 2)).expect("features");
        assert_eq!(maps.values(), [0.0, 4.0, 1.0, 5.0, 2.0, 6.0, 3.0, 7.0]);
        let refused = features(&answer(&[1, 1000]), grid(2, 2));
        assert!(matches!(refused, Err(AriaLiveError::NoFeatures { patches: 4, .. })));
    }

    #[test]
    fn the_video_is_played_to_and_fro() {
        let video = Video::of(Video::scene(3, grid(3, 4), 4).expect("a scene"), 3);
        let shown = [0, 1, 2, 3, 4, 5].map(|frame| std::ptr::from_ref(video.picture(frame)));
        let [first, second, third] = [0, 1, 2].map(|at| std::ptr::from_ref(&video.pictures[at]));
        assert_eq!(shown, [first, second, third, second, first, second]);
        let (forth, back) = (video.motion(1), video.motion(3));
        assert_eq!(forth.rotation_rad, video.motion(4).rotation_rad);
        let speeds = |frame: &TraceFrame| -> Vec<[f64; 2]> {
            frame.moving.iter().map(|moving| moving.velocity).collect()
        };
        let turned: Vec<[f64; 2]> = speeds(&back).iter().map(|v| v.map(|x| -x)).collect();
        assert!(!turned.is_empty() && speeds(&forth) == turned, "both show the second picture");
    }

    #[test]
    fn a_network_that_wants_directions_gets_them() {
        let video = Video::of(Video::scene(CHANNELS, grid(6, 8), 4).expect("a scene"), 2);
        let window = Window { row: 1, col: 2, rows: 3, cols: 4 };
        let pixels = video.pixels(CHANNELS, 0, window, [3, 4]).expect("pixels");
        assert_eq!(pixels.len(), CHANNELS * 12 * 16);
        assert_eq!(video.pixels(3, 0, window, [3, 4]).expect("pixels").len(), 3 * 12 * 16);
    }
}
