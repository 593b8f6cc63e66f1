//! [`pipeline`](pipeline()): what a [`Network`] shows of footage, frame after frame, when full frames
//! and regions both go through its encoder.
//!
//! Nothing here is taken from the scene's truth but what scores are counted by: regions are found by
//! comparing features, the camera's pose is that of the picture, and depth for the flow is the
//! decoder's own.

mod full_frames;
mod shown;
mod stage;
mod viewer;
mod ways;

pub use shown::{Found, Shown};
pub use stage::{Stage, cut};
pub use viewer::Viewer;
pub use ways::{Choices, Pace, PacedLevel, Show};

use super::{Camera, Dense, Detection, Picture, Score, Truth, World, by_variation, tiles};
use crate::{AriaError, FeatureMap, Grid};
use full_frames::FullFrames;

/// An encoder and its decoder, at every size.
pub trait Network {
    /// Why it cannot run.
    type Error: From<AriaError>;

    /// Features of the pixels of a view ([`Frame::pixels`](crate::Frame::pixels)), one row for each
    /// patch of `grid`.
    ///
    /// # Errors
    /// When the encoder fails.
    fn encode(&mut self, pixels: Vec<f32>, grid: Grid) -> Result<Vec<f32>, Self::Error>;

    /// The decoder's output for features.
    ///
    /// # Errors
    /// When the decoder fails.
    fn decode(&mut self, features: &FeatureMap) -> Result<Dense, Self::Error>;
}

/// Frames of a camera, in order: of a rendered scene, or of a real camera.
#[derive(Clone, Copy, Debug)]
pub struct Footage<'a> {
    /// The camera.
    pub camera: &'a Camera,
    /// Number 0 first, without gaps.
    pub pictures: &'a [Picture],
    /// What the pictures show, where it is known; without, depths above 0 are the truth.
    pub world: Option<&'a World>,
}

/// Shows footage in several ways; the first `skipped` frames are not counted.
///
/// # Errors
/// When the network fails or a size is out of its range.
pub fn pipeline<N: Network>(
    footage: &Footage<'_>,
    network: &mut N,
    skipped: u64,
    ways: &[Show],
) -> Result<Vec<Shown>, N::Error> {
    watched(footage, network, skipped, ways, &mut |_, _, _| {})
}

/// The same; `watch` sees what every way shows: the number of the way, the picture and the decoder's
/// output.
///
/// # Errors
/// As [`pipeline`].
pub fn watched<N: Network>(
    footage: &Footage<'_>,
    network: &mut N,
    skipped: u64,
    ways: &[Show],
    watch: &mut dyn FnMut(usize, &Picture, &Dense),
) -> Result<Vec<Shown>, N::Error> {
    let mut stage = Stage::new(*footage, network)?;
    let all = ways.iter().enumerate().map(|(number, way)| {
        let watch = &mut |picture: &Picture, dense: &Dense| watch(number, picture, dense);
        show(&mut stage, network, way, skipped, watch)
    });
    all.collect()
}

/// One way, with full frames by its pace.
fn show<N: Network>(
    stage: &mut Stage<'_>,
    network: &mut N,
    way: &Show,
    skipped: u64,
    watch: &mut dyn FnMut(&Picture, &Dense),
) -> Result<Shown, N::Error> {
    let mut full =
        way.pace().map(|pace| FullFrames::new(pace, way.follows_motion())).transpose()?;
    let cycles = way.pace().map_or(0, |pace| pace.cycles);
    let first = full.as_ref().map(|full| full.latest);
    let mut viewer = Viewer::new(stage, network, way, first)?;
    let (mut all, mut begun) = (Shown::default(), first);
    for picture in stage.footage().pictures {
        let mut shown = Shown::default();
        if let Some(full) = &mut full {
            full.step(picture)?;
            if begun != Some(full.latest) {
                let (frame, level) = full.latest;
                viewer.full_frame(stage, network, frame, level, &mut shown)?;
                begun = Some(full.latest);
            }
        }
        let dense = viewer.frame(stage, network, picture.frame, cycles, &mut shown)?;
        watch(picture, &dense);
        if picture.frame >= skipped {
            all.add(&shown);
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Criterion, FlowSource, Padding, Window,
        scene::{CELLS, Kind, LABELS, Scene},
        scheduler::Priority,
    };

    /// Features are means of colours of a patch, with a constant; depth is a constant, and the label
    /// the wall's.
    struct Means;

    impl Network for Means {
        type Error = AriaError;

        fn encode(&mut self, pixels: Vec<f32>, grid: Grid) -> Result<Vec<f32>, AriaError> {
            let patch = 4;
            let (width, area) = (grid.cols() * patch, grid.patches() * patch * patch);
            let mut features = vec![0.0; grid.patches() * 4];
            for (at, pixel) in (0..3 * area).zip(&pixels) {
                let (channel, y, x) = (at / area, at % area / width, at % width);
                features[grid.index(y / patch, x / patch) * 4 + channel] += pixel / 16.0;
            }
            features.chunks_exact_mut(4).for_each(|row| row[3] = 0.3);
            Ok(features)
        }

        fn decode(&mut self, features: &FeatureMap) -> Result<Dense, AriaError> {
            let (rows, cols) = (features.grid().rows() * CELLS, features.grid().cols() * CELLS);
            let mut scores = vec![0.0; LABELS * rows * cols];
            scores[rows * cols..2 * rows * cols].fill(1.0);
            Dense::new([rows, cols], vec![1.0; rows * cols], scores)
        }
    }

    #[test]
    fn full_frames_are_as_old_as_the_pace_says_and_regions_are_found_and_served() {
        let (top, low) = (Grid::new(12, 16).expect("a grid"), Grid::new(6, 8).expect("a grid"));
        let scene = Scene::furnished(Kind::Crowded, 3, top, 4).expect("a scene");
        let level = |grid, full_ns| PacedLevel { grid, full_ns };
        let levels = vec![level(low, 10), level(top, 25)];
        let pace = Pace { frame_ns: 10, levels, region: [4, 4], cycles: 2 };
        let choices = Choices {
            flow: FlowSource::Depth,
            padding: Padding::default(),
            priority: Priority::default(),
            follows_motion: false,
            criterion: Criterion { threshold: 0.95, ..Criterion::default() },
            apart: 1,
            zoom: 2,
            whole_windows: None,
            whole_beyond: None,
        };
        let whole = Choices { whole_beyond: Some((0.0, low)), ..choices.clone() };
        let moved = Choices { follows_motion: true, ..choices.clone() };
        let ways = [
            Show::Whole(top),
            Show::Blocks(low, [4, 4], 0),
            Show::Blocks(low, [4, 4], 2),
            Show::Stale(pace.clone()),
            Show::MovedBlocks(pace.clone()),
            Show::Regions(pace.clone(), choices.clone()),
            Show::Regions(pace.clone(), moved),
            Show::Regions(pace.clone(), whole),
        ];
        let pictures: Vec<Picture> = (0..24).map(|frame| scene.picture(frame)).collect();
        let footage =
            Footage { camera: scene.camera(), pictures: &pictures, world: Some(scene.world()) };
        let shown = pipeline(&footage, &mut Means, 8, &ways).expect("frames");
        assert!(shown.iter().all(|shown| shown.frames == 16));
        // Every frame has the same answer, whatever was done.
        assert!(
            shown
                .iter()
                .map(|way| way.score.depth_rmse_m().zip(shown[0].score.depth_rmse_m()))
                .all(|both| both.is_some_and(|(way, first)| (way - first).abs() < 1e-9))
        );
        assert!(shown.iter().all(|way| way.against_reference.depth_rmse_m() == Some(0.0)));
        // A full frame takes three camera frames: it is 3, 4 or 5 frames old.
        assert_eq!(shown[3].full_ages, shown[5].full_ages);
        assert!((48..=80).contains(&shown[3].full_ages), "{}", shown[3].full_ages);
        assert!(shown[6].full_ages < shown[5].full_ages, "lower resolutions are younger");
        assert!(shown[5].cycles > 0 && shown[5].cycles <= 32 && shown[5].asked > 0);
        assert!(shown[4].cycles > 0 && shown[0].cycles == 0);
        // The camera moves all the time.
        assert_eq!([shown[7].whole, shown[7].cycles, shown[5].whole], [16, 0, 0]);
        let mut found = Found::default();
        for seed in 1..=6 {
            let scene = Scene::furnished(Kind::Crowded, seed, top, 4).expect("a scene");
            let pictures: Vec<Picture> = (0..24).map(|frame| scene.picture(frame)).collect();
            let (camera, world) = (scene.camera(), Some(scene.world()));
            let footage = Footage { camera, pictures: &pictures, world };
            let criterion = Criterion { threshold: 0.98, ..choices.criterion };
            let ways = [Show::Regions(pace.clone(), Choices { criterion, ..choices.clone() })];
            let shown = pipeline(&footage, &mut Means, 8, &ways).expect("frames");
            shown.iter().for_each(|shown| found.add(&shown.found));
        }
        assert!(found.patches.found_and_moved > 0 && found.moved > found.missed, "{found:?}");
    }

    #[test]
    fn footage_without_a_picture_is_refused() {
        let scene =
            Scene::furnished(Kind::Slow, 3, Grid::new(6, 8).expect("a grid"), 4).expect("a scene");
        let footage = Footage { camera: scene.camera(), pictures: &[], world: Some(scene.world()) };
        let refused = pipeline(&footage, &mut Means, 0, &[Show::Whole(scene.camera().grid)]);
        assert!(refused.is_err_and(|e| e.to_string().contains("number of pictures is 0")));
    }

    #[test]
    fn windows_are_cut_from_every_channel() {
        let grid = Grid::new(2, 2).expect("a grid");
        let pixels: Vec<f32> = (0..32).map(|pixel| pixel as f32).collect();
        let window = Window { row: 1, col: 0, rows: 1, cols: 1 };
        assert_eq!(cut(&pixels, grid, 2, window), [8.0, 9.0, 12.0, 13.0, 24.0, 25.0, 28.0, 29.0]);
    }
}
