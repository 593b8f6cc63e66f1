//! [`BlockFrames`]: the frames of ARIA-base, which finds what moved by matching blocks of pixels.

use super::{Blocks, Camera, Picture};
use crate::{
    AriaError, CameraFlow, CameraMotion, FeatureMap, FlowEstimator, Instructions, Pose, Structure,
    Warped, Window, group,
};

/// The latest full frame, turned with the camera, under whole windows at blocks of pixels that
/// moved, the largest first.
#[derive(Clone, Debug)]
pub struct BlockFrames {
    flow: CameraFlow,
    /// Patches of a window.
    size: [usize; 2],
    full: FeatureMap,
    seen_from: Pose,
    warped: Warped,
}

impl BlockFrames {
    /// Frames of a camera after a first full frame at the highest resolution, with windows of `size`
    /// patches.
    ///
    /// # Errors
    /// When the features are empty.
    pub fn new(
        camera: &Camera,
        size: [usize; 2],
        full: FeatureMap,
        pose: Pose,
    ) -> Result<Self, AriaError> {
        let grid = full.grid();
        Ok(Self {
            flow: CameraFlow::new(camera.intrinsics, Structure::Distant),
            size: [size[0].min(grid.rows()), size[1].min(grid.cols())],
            warped: Warped::new(grid, full.width())?,
            full,
            seen_from: pose,
        })
    }

    /// A full frame of the same size as the first that was seen from `pose`.
    pub fn full_frame(&mut self, full: FeatureMap, pose: Pose) {
        (self.full, self.seen_from) = (full, pose);
    }

    /// Turns the full frame to `now`; returns the windows to update, at most `most`, and how many
    /// there would be.
    ///
    /// # Errors
    /// When the camera's motion has no flow.
    pub fn frame(
        &mut self,
        camera: &Camera,
        before: &Picture,
        now: &Picture,
        most: usize,
    ) -> Result<(Vec<Window>, usize), AriaError> {
        let motion = CameraMotion::between(&self.seen_from, &now.pose);
        let flow = self.flow.flow(&self.full, &motion)?;
        self.warped.warp(Instructions::best(), &self.full, &flow)?;
        let moved = group(&Blocks::default().identify(camera, before, now), 1);
        let (grid, [rows, cols]) = (self.full.grid(), self.size);
        let windows = moved.iter().filter_map(|group| group.filled.window()).take(most);
        let within = |at: Window| Window {
            row: at.row.min(grid.rows() - rows),
            col: at.col.min(grid.cols() - cols),
            rows,
            cols,
        };
        Ok((windows.map(within).collect(), moved.len()))
    }

    /// Replaces the features of a window.
    ///
    /// # Errors
    /// As [`FeatureMap::replace_window`].
    pub fn update(&mut self, window: Window, values: &[f32]) -> Result<(), AriaError> {
        self.warped.features.replace_window(window, values)
    }

    /// What is shown.
    #[must_use]
    pub fn shown(&self) -> &FeatureMap {
        &self.warped.features
    }
}
