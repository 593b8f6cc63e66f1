//! [`Stage`]: footage and a network: encodes frames whole and in parts, decodes, and scores what is
//! shown.

use super::{Camera, Dense, Footage, Network, Picture, Shown, tiles};
use crate::{AriaError, FeatureMap, Frame, Grid, Instructions, View, Window};

/// Features of a full frame.
struct Full {
    frame: u64,
    level: Grid,
    features: FeatureMap,
}

/// Footage that a network sees.
pub struct Stage<'a> {
    footage: Footage<'a>,
    /// Full frames so far: several ways use the same.
    full: Vec<Full>,
    /// The network's output for every frame, whole at the highest resolution.
    reference: Vec<Dense>,
}

impl<'a> Stage<'a> {
    /// Encodes and decodes every frame whole at the highest resolution: what is shown is compared with
    /// that.
    ///
    /// # Errors
    /// When the network fails, or there is no picture.
    pub fn new<N: Network>(footage: Footage<'a>, network: &mut N) -> Result<Self, N::Error> {
        if footage.pictures.is_empty() {
            return Err(AriaError::setting("the number of pictures", 0, "above 0").into());
        }
        let mut stage = Self { footage, full: Vec::new(), reference: Vec::new() };
        for picture in footage.pictures {
            let features = stage.full(network, picture.frame, stage.top())?;
            stage.reference.push(network.decode(&features)?);
        }
        Ok(stage)
    }

    /// The footage.
    #[must_use]
    pub fn footage(&self) -> Footage<'a> {
        self.footage
    }

    pub(super) fn camera(&self) -> &'a Camera {
        self.footage.camera
    }

    pub(super) fn top(&self) -> Grid {
        self.footage.camera.grid
    }

    /// A frame, or the last one for numbers beyond it.
    pub(super) fn picture(&self, frame: u64) -> &'a Picture {
        &self.footage.pictures[(frame as usize).min(self.footage.pictures.len() - 1)]
    }

    /// Decodes what is shown of a frame, and scores it.
    pub(super) fn score<N: Network>(
        &self,
        network: &mut N,
        frame: u64,
        features: &FeatureMap,
        shown: &mut Shown,
    ) -> Result<Dense, N::Error> {
        let (dense, picture) = (network.decode(features)?, self.picture(frame));
        shown.frames += 1;
        dense.compare(&self.reference[picture.frame as usize], &mut shown.against_reference);
        match self.footage.world {
            Some(world) => dense.score(world, picture, &mut shown.score),
            None => dense.score_depth(picture, &mut shown.score),
        }
        Ok(dense)
    }

    fn pixels(&self, picture: &Picture, view: &View) -> Result<Vec<f32>, AriaError> {
        let camera = self.footage.camera;
        Frame::new(&picture.colours, camera.grid, camera.patch, camera.intrinsics)?.pixels(view)
    }

    /// The features of a whole frame at a resolution.
    pub(super) fn full<N: Network>(
        &mut self,
        network: &mut N,
        frame: u64,
        level: Grid,
    ) -> Result<FeatureMap, N::Error> {
        let known = self.full.iter().find(|full| full.frame == frame && full.level == level);
        if let Some(full) = known {
            return Ok(full.features.clone());
        }
        let picture = self.picture(frame);
        let pixels = self.pixels(picture, &View::whole(self.top(), level))?;
        let features = map(network, pixels, level)?;
        self.full.push(Full { frame, level, features: features.clone() });
        Ok(features)
    }

    /// The features of a window at full resolution, as the encoder sees it alone.
    pub(super) fn part<N: Network>(
        &self,
        network: &mut N,
        picture: &Picture,
        window: Window,
    ) -> Result<Vec<f32>, N::Error> {
        let view = View::part(window)?;
        let pixels = self.pixels(picture, &view)?;
        network.encode(pixels, view.grid)
    }

    /// The features of a window of a cycle, resized to the encoder's input.
    pub(super) fn region<N: Network>(
        &self,
        network: &mut N,
        picture: &Picture,
        window: Window,
        [rows, cols]: [usize; 2],
    ) -> Result<Vec<f32>, N::Error> {
        if window.rows == rows {
            return self.part(network, picture, window);
        }
        let view = View { window, grid: Grid::new(rows, cols)? };
        let pixels = self.pixels(picture, &view)?;
        let seen = map(network, pixels, view.grid)?;
        Ok(seen.resampled(Grid::new(window.rows, window.cols)?)?.values().to_vec())
    }

    pub(super) fn blocks<N: Network>(
        &self,
        network: &mut N,
        picture: &Picture,
        level: Grid,
        block: [usize; 2],
    ) -> Result<FeatureMap, N::Error> {
        let pixels = self.pixels(picture, &View::whole(self.top(), level))?;
        let mut parts = Vec::new();
        for window in tiles(level, block) {
            let part = cut(&pixels, level, self.footage.camera.patch, window);
            parts.push((window, network.encode(part, Grid::new(window.rows, window.cols)?)?));
        }
        let parts = parts.iter().map(|(window, values)| (*window, &values[..]));
        Ok(FeatureMap::of_windows(level, parts)?)
    }
}

fn map<N: Network>(network: &mut N, pixels: Vec<f32>, grid: Grid) -> Result<FeatureMap, N::Error> {
    let values = network.encode(pixels, grid)?;
    let width = values.len() / grid.patches();
    Ok(FeatureMap::from_values(Instructions::best(), grid, width, &values)?)
}

/// The pixels of a window of an encoder's input, channels first: `pixels` are those of `grid`
/// patches of `patch` pixels on each side.
#[must_use]
pub fn cut(pixels: &[f32], grid: Grid, patch: usize, window: Window) -> Vec<f32> {
    let (height, width) = (grid.rows() * patch, grid.cols() * patch);
    let mut part = Vec::with_capacity(pixels.len() / grid.patches() * window.patches());
    for channel in pixels.chunks_exact(height * width) {
        for line in channel.chunks_exact(width).skip(window.row * patch).take(window.rows * patch) {
            part.extend_from_slice(&line[window.col * patch..][..window.cols * patch]);
        }
    }
    part
}
