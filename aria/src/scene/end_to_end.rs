//! [`end_to_end`](end_to_end()): the error of the decoder's output, frame after frame: depth and
//! labels of a stand-in model against the truth.
//!
//! | way | what is shown |
//! |---|---|
//! | [`Way::Resized`] | every frame, at the resolution that one processor alone can process in time |
//! | [`Way::Stale`] | the latest full frame as it is |
//! | [`Way::Base`] | the latest full frame, turned with the camera, and windows at blocks that moved, one per cycle, the largest first |
//! | [`Way::Aria`] | the runtime: the latest full frame, warped by the depth that the model itself estimates, and regions by waiting time and speed |

use super::{Blocks, Model, Picture, Scene, Score};
use crate::{
    AriaError, CameraFlow, CameraMotion, FeatureMap, FlowEstimator, Grid, Instructions, Runtime,
    Settings, Structure, Warped, Window, group,
};

/// The way in which frames are processed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Way {
    /// Every frame at a lower resolution.
    Resized {
        /// Rows of patches.
        rows: usize,
        /// Columns of patches.
        cols: usize,
    },
    /// Interval of full frames in camera frames; each arrives when the next begins.
    Stale {
        /// Camera frames from one full frame to the next.
        interval: u64,
    },
    /// Full frames turned with the camera, and windows at blocks that moved.
    Base {
        /// Camera frames from one full frame to the next.
        interval: u64,
        /// Most windows that are updated in a frame.
        cycles: usize,
        /// Rows and columns of patches of a window.
        region: [usize; 2],
    },
    /// The runtime.
    Aria {
        /// Camera frames from one full frame to the next.
        interval: u64,
        /// Most windows that are updated in a frame.
        cycles: usize,
        /// Rows and columns of patches of a window.
        region: [usize; 2],
    },
}

/// A frame, and the encoder's features of it at full resolution.
struct Seen {
    picture: Picture,
    features: FeatureMap,
}

/// Scores several ways over the first `frames` of a scene; frames before the second full frame of
/// the slowest are left out for all.
///
/// # Errors
/// When a size is out of its range.
pub fn end_to_end(
    scene: &Scene,
    model: &Model,
    frames: u64,
    ways: &[Way],
) -> Result<Vec<Score>, AriaError> {
    let (world, camera) = (scene.world(), scene.camera());
    let see = |frame: u64| -> Result<Seen, AriaError> {
        let picture = scene.picture(frame);
        Ok(Seen { features: model.encode(world, camera, &picture, camera.grid)?, picture })
    };
    let seen: Vec<Seen> = (0..frames).map(see).collect::<Result<_, _>>()?;
    let first = 2 * ways.iter().map(|way| way.interval()).max().unwrap_or(0);
    ways.iter().map(|way| Show { scene, model, seen: &seen, first }.score(*way)).collect()
}

impl Way {
    fn interval(self) -> u64 {
        match self {
            Self::Resized { .. } => 0,
            Self::Stale { interval }
            | Self::Base { interval, .. }
            | Self::Aria { interval, .. } => interval.max(1),
        }
    }
}

struct Show<'a> {
    scene: &'a Scene,
    model: &'a Model,
    seen: &'a [Seen],
    first: u64,
}

impl Show<'_> {
    fn score(&self, way: Way) -> Result<Score, AriaError> {
        let mut score = Score::default();
        match way {
            Way::Resized { rows, cols } => {
                let grid = Grid::new(rows, cols)?;
                for seen in self.shown() {
                    let features = self.model.encode(
                        self.scene.world(),
                        self.scene.camera(),
                        &seen.picture,
                        grid,
                    )?;
                    self.count(&mut score, seen, &features);
                }
            }
            Way::Stale { .. } => self
                .shown()
                .for_each(|seen| self.count(&mut score, seen, &self.latest(seen, way).features)),
            Way::Base { cycles, region, .. } => {
                for seen in self.shown() {
                    let features = self.base(seen, self.latest(seen, way), cycles, region)?;
                    self.count(&mut score, seen, &features);
                }
            }
            Way::Aria { cycles, region, .. } => self.aria(way, cycles, region, &mut score)?,
        }
        Ok(score)
    }

    fn shown(&self) -> impl Iterator<Item = &Seen> {
        self.seen.iter().filter(|seen| seen.picture.frame >= self.first)
    }

    fn count(&self, score: &mut Score, seen: &Seen, features: &FeatureMap) {
        let camera = self.scene.camera();
        score.count(
            self.scene.world(),
            camera,
            &seen.picture,
            &self.model.decode(features, camera.grid),
        );
    }

    /// The full frame available at a frame: the one begun an interval before the latest.
    fn latest(&self, seen: &Seen, way: Way) -> &Seen {
        let (frame, interval) = (seen.picture.frame, way.interval());
        &self.seen[(frame - frame % interval).saturating_sub(interval) as usize]
    }

    fn base(
        &self,
        seen: &Seen,
        full: &Seen,
        cycles: usize,
        [rows, cols]: [usize; 2],
    ) -> Result<FeatureMap, AriaError> {
        let (camera, best) = (self.scene.camera(), Instructions::best());
        let motion = CameraMotion::between(&full.picture.pose, &seen.picture.pose);
        let turned =
            CameraFlow::new(camera.intrinsics, Structure::Distant).flow(&full.features, &motion)?;
        let mut warped = Warped::new(camera.grid, self.model.width())?;
        warped.warp(best, &full.features, &turned)?;
        let before = &self.seen[seen.picture.frame.saturating_sub(1) as usize].picture;
        let moved = group(&Blocks::default().identify(camera, before, &seen.picture), 1);
        let (rows, cols) = (rows.min(camera.grid.rows()), cols.min(camera.grid.cols()));
        for at in moved.iter().filter_map(|group| group.filled.window()).take(cycles) {
            let window = Window {
                row: at.row.min(camera.grid.rows() - rows),
                col: at.col.min(camera.grid.cols() - cols),
                rows,
                cols,
            };
            for patch in window.places().map(|(row, col)| camera.grid.index(row, col)) {
                warped.features.replace(
                    patch,
                    seen.features.row(patch),
                    seen.features.norms()[patch],
                );
            }
        }
        Ok(warped.features)
    }

    fn aria(
        &self,
        way: Way,
        cycles: usize,
        region: [usize; 2],
        score: &mut Score,
    ) -> Result<(), AriaError> {
        let camera = self.scene.camera();
        let flow = CameraFlow::new(camera.intrinsics, Structure::Distant);
        let mut runtime =
            Runtime::new(Settings::new(camera.grid, self.model.width(), region), flow)?;
        for seen in self.seen {
            let frame = seen.picture.frame;
            if frame % way.interval() == 0 && frame >= way.interval() {
                let full = self.latest(seen, way);
                runtime.full_frame(
                    full.picture.frame,
                    &full.picture.pose,
                    &mut full.features.values().to_vec(),
                )?;
                runtime.estimator_mut().set_structure(Structure::Depth(
                    self.model.decode(&full.features, camera.grid).depths_m,
                ));
            }
            if frame < way.interval() {
                continue;
            }
            for cycle in runtime.frame(frame, &seen.picture.pose, cycles)?.cycles {
                let rows = cycle
                    .window
                    .places()
                    .flat_map(|(row, col)| seen.features.row(camera.grid.index(row, col)));
                runtime.update(&cycle, &rows.copied().collect::<Vec<_>>())?;
            }
            if frame >= self.first {
                self.count(score, seen, runtime.aligned());
            }
        }
        Ok(())
    }
}
