//! [`Model`]: a stand-in for encoder and decoder that estimates depth and label of each patch;
//! [`Score`]: its error against the truth.
//!
//! Its features are those of [`StandIn`] and the answer, scaled so small that it changes no cosine:
//! the median depth of the patch and the share of it that shows each label. The answer is therefore
//! warped, merged and stored as the features of a real encoder are, and what a decoder reads is as
//! old and as coarse as they are. There is one answer per patch, so the printed error includes that
//! of the patches' size. The stand-in is not a network, and its accuracies are not those of a
//! network.

use super::{
    StandIn,
    picture::{Camera, Picture},
    world::{LABELS, World},
};
use crate::{AriaError, FeatureMap, Grid, Instructions, Intrinsics};

/// Numbers of an answer: depth, and a share for each label.
const ANSWER: usize = 1 + LABELS;
/// Scale of the answer as a feature: cosines change by its square.
const SMALL: f32 = 1e-3;

/// The stand-in model.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    looks: StandIn,
}

/// Depth in metres and label of each patch.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Depth of each patch, m.
    pub depths_m: Vec<f32>,
    /// Label of each patch.
    pub labels: Vec<u16>,
}

impl Model {
    /// With this many appearance features per patch, beside the answer.
    #[must_use]
    pub fn new(looks: usize, seed: u64) -> Self {
        Self { looks: StandIn::new(looks, seed) }
    }

    /// Features per patch.
    #[must_use]
    pub fn width(&self) -> usize {
        self.looks.width() + ANSWER
    }

    /// The encoder's features of a picture that was resized to `grid` patches.
    ///
    /// # Errors
    /// When the camera cannot see such a grid.
    pub fn encode(
        &self,
        world: &World,
        camera: &Camera,
        picture: &Picture,
        grid: Grid,
    ) -> Result<FeatureMap, AriaError> {
        let (camera, picture) = if grid == camera.grid {
            (*camera, picture)
        } else {
            (coarser(camera, grid)?, &resized(camera, picture, grid))
        };
        let looks = self.looks.encode(&camera, picture);
        let depths = camera.depths_of_patches(picture);
        let mut values = Vec::with_capacity(grid.patches() * self.width());
        for (patch, looks) in looks.chunks_exact(self.looks.width()).enumerate() {
            let mut shares = [0.0f32; LABELS];
            let pixels = (camera.patch * camera.patch) as f32;
            camera.pixels_of(patch).for_each(|pixel| {
                shares[usize::from(world.label(picture.things[pixel])).min(LABELS - 1)] +=
                    1.0 / pixels;
            });
            values.extend_from_slice(looks);
            values.push(SMALL * depths[patch]);
            values.extend(shares.map(|share| SMALL * share));
        }
        FeatureMap::from_values(Instructions::best(), grid, self.width(), &values)
    }

    /// The decoder's output for features, on the patches of `grid`; features of another grid are
    /// resampled by the nearest patch.
    #[must_use]
    pub fn decode(&self, features: &FeatureMap, grid: Grid) -> Answer {
        let from = features.grid();
        let row = |patch: usize| {
            let (row, col) = grid.place(patch);
            let nearest =
                from.index(row * from.rows() / grid.rows(), col * from.cols() / grid.cols());
            &features.row(nearest)[self.looks.width()..]
        };
        let label = |patch: usize| {
            let best = row(patch)[1..].iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
            best.map_or(0, |(label, _)| label as u16)
        };
        Answer {
            depths_m: (0..grid.patches()).map(|patch| row(patch)[0] / SMALL).collect(),
            labels: (0..grid.patches()).map(label).collect(),
        }
    }
}

/// The same lens before fewer patches.
fn coarser(camera: &Camera, grid: Grid) -> Result<Camera, AriaError> {
    let scale = [
        grid.cols() as f64 / camera.grid.cols() as f64,
        grid.rows() as f64 / camera.grid.rows() as f64,
    ];
    let (focal, centre) = (camera.intrinsics.focal(), camera.intrinsics.centre());
    let times = |of: [f64; 2]| [of[0] * scale[0], of[1] * scale[1]];
    Ok(Camera { grid, intrinsics: Intrinsics::new(times(focal), times(centre))?, ..*camera })
}

/// Each pixel from the nearest.
fn resized(camera: &Camera, picture: &Picture, grid: Grid) -> Picture {
    let (height, width) = (grid.rows() * camera.patch, grid.cols() * camera.patch);
    let nearest = |pixel: usize| {
        (pixel / width * picture.height / height) * picture.width
            + pixel % width * picture.width / width
    };
    let pixels = || (0..height * width).map(nearest);
    Picture {
        height,
        width,
        colours: pixels().map(|pixel| picture.colours[pixel]).collect(),
        depths_m: pixels().map(|pixel| picture.depths_m[pixel]).collect(),
        things: pixels().map(|pixel| picture.things[pixel]).collect(),
        pose: picture.pose,
        frame: picture.frame,
    }
}

/// Pixels of answers against the truth.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Score {
    squares: f64,
    pixels: f64,
    /// By label: correct pixels, true pixels, estimated pixels.
    labels: [[f64; 3]; LABELS],
}

impl Score {
    /// Counts every pixel of a picture; all pixels of a patch have its answer.
    pub fn count(&mut self, world: &World, camera: &Camera, picture: &Picture, answer: &Answer) {
        for patch in 0..camera.grid.patches() {
            let (depth, said) =
                (answer.depths_m[patch], usize::from(answer.labels[patch]).min(LABELS - 1));
            for pixel in camera.pixels_of(patch) {
                let real = usize::from(world.label(picture.things[pixel]));
                self.count_pixel([depth, picture.depths_m[pixel]], [said, real]);
            }
        }
    }

    /// Counts a pixel: the estimated and the true depth, m, and the estimated and the true label.
    pub(crate) fn count_pixel(&mut self, depths_m: [f32; 2], labels: [usize; 2]) {
        let [said, real] = labels.map(|label| label.min(LABELS - 1));
        self.count_depth(depths_m);
        self.labels[real][0] += f64::from(u8::from(real == said));
        self.labels[real][1] += 1.0;
        self.labels[said][2] += 1.0;
    }

    /// Counts the depth of a pixel alone, the estimated and the true one, m.
    pub(crate) fn count_depth(&mut self, depths_m: [f32; 2]) {
        self.squares += f64::from(depths_m[0] - depths_m[1]).powi(2);
        self.pixels += 1.0;
    }

    /// Adds the counts of another score.
    pub fn add(&mut self, other: &Self) {
        self.squares += other.squares;
        self.pixels += other.pixels;
        for (mine, other) in self.labels.iter_mut().flatten().zip(other.labels.iter().flatten()) {
            *mine += other;
        }
    }

    /// Root of the mean squared error of depth over all pixels, m; `None` where none was counted.
    #[must_use]
    pub fn depth_rmse_m(&self) -> Option<f64> {
        (self.pixels > 0.0).then(|| (self.squares / self.pixels).sqrt())
    }

    /// Intersection over union, mean over the labels that were there, 0 to 1; `None` where there was
    /// none.
    #[must_use]
    pub fn label_miou(&self) -> Option<f64> {
        let ratios = || {
            self.labels
                .iter()
                .filter(|[_, real, _]| *real > 0.0)
                .map(|[both, real, said]| both / (real + said - both))
        };
        let count = ratios().count();
        (count > 0).then(|| ratios().sum::<f64>() / count as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::{Kind, Scene};

    #[test]
    fn a_score_is_what_one_counts_by_hand() {
        let scene =
            Scene::new(Kind::Slow, 3, Grid::new(2, 3).expect("a grid"), 4).expect("a scene");
        let picture = scene.picture(0);
        let mut score = Score::default();
        let labels: Vec<u16> =
            picture.things.iter().map(|thing| scene.world().label(*thing)).collect();
        let answer = Answer { depths_m: vec![1.0; 6], labels: vec![labels[0]; 6] };
        score.count(scene.world(), scene.camera(), &picture, &answer);
        let squares: f64 =
            picture.depths_m.iter().map(|depth| f64::from(1.0 - depth).powi(2)).sum();
        let figures = |score: &Score| {
            score.depth_rmse_m().zip(score.label_miou()).expect("pixels with labels")
        };
        let (rmse, miou) = figures(&score);
        assert!((rmse - (squares / 96.0).sqrt()).abs() < 1e-9);
        let mut kinds = labels.clone();
        kinds.sort_unstable();
        kinds.dedup();
        let right = labels.iter().filter(|label| **label == labels[0]).count() as f64 / 96.0;
        assert!((miou - right / kinds.len() as f64).abs() < 1e-9);
        let mut twice = score;
        twice.add(&score);
        let (same_rmse, same_miou) = figures(&twice);
        assert!((same_miou - miou).abs() < 1e-12 && (same_rmse - rmse).abs() < 1e-12);
        let nothing = Score::default();
        assert_eq!((nothing.depth_rmse_m(), nothing.label_miou()), (None, None));
    }

    #[test]
    fn answers_ride_on_features_unnoticed_and_are_better_at_higher_resolutions() {
        let grid = Grid::new(29, 47).expect("a grid");
        let scene = Scene::new(Kind::Crowded, 5, grid, 6).expect("a scene");
        let (model, world, camera) = (Model::new(32, 1), scene.world(), scene.camera());
        let picture = scene.picture(7);
        let full = model.encode(world, camera, &picture, grid).expect("features");
        let alone = FeatureMap::from_values(
            Instructions::best(),
            grid,
            32,
            &StandIn::new(32, 1).encode(camera, &picture),
        )
        .expect("features");
        let apart = full
            .norms()
            .iter()
            .zip(alone.norms())
            .map(|(a, b)| (a - b).abs() / b)
            .fold(0.0, f32::max);
        assert!(apart < 1e-4, "{apart}");
        let scores = [[9, 12], [17, 23], [29, 47]].map(|[rows, cols]| {
            let coarse = Grid::new(rows, cols).expect("a grid");
            let features = model.encode(world, camera, &picture, coarse).expect("features");
            let mut score = Score::default();
            score.count(world, camera, &picture, &model.decode(&features, grid));
            score.depth_rmse_m().zip(score.label_miou()).expect("pixels")
        });
        assert!(scores.is_sorted_by(|a, b| a.0 > b.0 && a.1 < b.1), "{scores:?}");
        assert!(scores[2].1 > 0.8, "{scores:?}");
    }
}
