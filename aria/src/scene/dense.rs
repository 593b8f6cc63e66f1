//! [`Dense`]: the output of a decoder, several cells per patch, and its error against the truth;
//! [`Target`]: the truth in the same cells, to train on.

use super::{
    Score,
    picture::{Camera, Picture},
    world::{LABELS, World},
};
use crate::{AriaError, Grid, View, features::between};

/// Cells on each side of a patch in a decoder's output.
pub const CELLS: usize = 2;

/// Logarithm of depth and scores of labels in each cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Dense {
    rows: usize,
    cols: usize,
    log_depths: Vec<f32>,
    /// Label by label.
    scores: Vec<f32>,
}

impl Dense {
    /// Outputs of a decoder: `log_depths` of `rows` x `cols` cells, ln of metres, and as many scores
    /// of each label.
    ///
    /// # Errors
    /// When numbers are missing, too many or not finite.
    pub fn new(
        [rows, cols]: [usize; 2],
        log_depths: Vec<f32>,
        scores: Vec<f32>,
    ) -> Result<Self, AriaError> {
        let (given, cells) = (log_depths.len() + scores.len(), rows * cols);
        let finite = log_depths.iter().chain(&scores).all(|value| value.is_finite());
        if cells == 0 || log_depths.len() != cells || scores.len() != LABELS * cells || !finite {
            return Err(AriaError::Shapes {
                what: "a decoder's output and its cells",
                left: format!("{given} values, all of them finite: {finite}"),
                right: format!("{rows} x {cols} depths and {LABELS} times as many scores"),
            });
        }
        Ok(Self { rows, cols, log_depths, scores })
    }

    /// ln of the depth in metres of each cell, row by row.
    #[must_use]
    pub fn log_depths(&self) -> &[f32] {
        &self.log_depths
    }

    /// Scores of each label in turn, cell by cell.
    #[must_use]
    pub fn scores(&self) -> &[f32] {
        &self.scores
    }

    /// Counts every pixel of a picture of the same field of view; between cells, depth and scores
    /// are interpolated.
    pub fn score(&self, world: &World, picture: &Picture, score: &mut Score) {
        let answers = self.answers(picture.height, picture.width);
        for (pixel, (depth, label)) in answers.into_iter().enumerate() {
            let real = world.label(picture.things[pixel]);
            score.count_pixel([depth, picture.depths_m[pixel]], [label, usize::from(real)]);
        }
    }

    /// Counts the depth of every pixel of a picture whose depth is known: above 0.
    pub fn score_depth(&self, picture: &Picture, score: &mut Score) {
        let answers = self.answers(picture.height, picture.width);
        let known = answers.iter().zip(&picture.depths_m).filter(|(_, real)| **real > 0.0);
        known.for_each(|((depth, _), real)| score.count_depth([*depth, *real]));
    }

    /// Counts every cell of another output of the same field of view as if that were the truth.
    pub fn compare(&self, reference: &Self, score: &mut Score) {
        let truth = reference.answers(reference.rows, reference.cols);
        let found = self.answers(reference.rows, reference.cols);
        for ((depth, label), (real_depth, real)) in found.into_iter().zip(truth) {
            score.count_pixel([depth, real_depth], [label, real]);
        }
    }

    /// Mean depth of the cells around the centre of each patch of a grid, m.
    #[must_use]
    pub fn depths_of_patches(&self, grid: Grid) -> Vec<f32> {
        let rows = between(grid.rows(), self.rows);
        let cols = between(grid.cols(), self.cols);
        let mut depths = Vec::with_capacity(grid.patches());
        for (above, below, _) in rows {
            for (left, right, _) in &cols {
                let cell = |row: usize, col: usize| self.log_depths[row * self.cols + col].exp();
                let corners = [[above, *left], [above, *right], [below, *left], [below, *right]];
                depths.push(corners.iter().map(|[row, col]| cell(*row, *col)).sum::<f32>() / 4.0);
            }
        }
        depths
    }

    /// Depth in metres and label at every pixel of a picture of this size.
    #[must_use]
    pub fn answers(&self, height: usize, width: usize) -> Vec<(f32, usize)> {
        let across = between(width, self.cols);
        let cells = self.rows * self.cols;
        let mut answers = Vec::with_capacity(height * width);
        for (above, below, down) in between(height, self.rows) {
            let lines = [(above, 1.0 - down), (below, down)];
            for (left, right, along) in &across {
                let corners: [(usize, f32); 4] = std::array::from_fn(|corner| {
                    let (line, share) = lines[corner / 2];
                    let (col, part) = [(left, 1.0 - along), (right, *along)][corner % 2];
                    (line * self.cols + col, share * part)
                });
                let mix = |values: &[f32]| {
                    corners.iter().map(|(cell, share)| share * values[*cell]).sum::<f32>()
                };
                let scores = (0..LABELS).map(|label| mix(&self.scores[label * cells..][..cells]));
                let best = scores.enumerate().max_by(|a, b| a.1.total_cmp(&b.1));
                answers.push((mix(&self.log_depths).exp(), best.map_or(0, |(label, _)| label)));
            }
        }
        answers
    }
}

/// The truth in the cells of a view.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// ln of metres.
    pub log_depths: Vec<f32>,
    /// Label of each cell.
    pub labels: Vec<u32>,
}

impl Target {
    /// What the pixel in the middle of each cell shows.
    #[must_use]
    pub fn of(world: &World, camera: &Camera, picture: &Picture, view: &View) -> Self {
        let window = view.window;
        let (rows, cols) = (view.grid.rows() * CELLS, view.grid.cols() * CELLS);
        let middle = |cell: usize, cells: usize, first: usize, patches: usize| {
            let at = (cell as f64 + 0.5) / cells as f64 * (patches * camera.patch) as f64;
            first * camera.patch + at as usize
        };
        let pixels = (0..rows * cols).map(|cell| {
            let y = middle(cell / cols, rows, window.row, window.rows).min(picture.height - 1);
            let x = middle(cell % cols, cols, window.col, window.cols).min(picture.width - 1);
            y * picture.width + x
        });
        let (log_depths, labels) = pixels
            .map(|pixel| {
                (picture.depths_m[pixel].ln(), u32::from(world.label(picture.things[pixel])))
            })
            .unzip();
        Self { log_depths, labels }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Grid,
        scene::{Kind, Scene},
    };

    #[test]
    fn the_truth_in_cells_scores_better_the_more_cells_there_are() {
        let grid = Grid::new(12, 16).expect("a grid");
        let scene = Scene::furnished(Kind::Crowded, 5, grid, 8).expect("a scene");
        let picture = scene.picture(3);
        let scored = |rows: usize, cols: usize| {
            let view = View::whole(grid, Grid::new(rows, cols).expect("a grid"));
            let target = Target::of(scene.world(), scene.camera(), &picture, &view);
            let cells = target.labels.len();
            let mut scores = vec![0.0; LABELS * cells];
            for (cell, label) in target.labels.iter().enumerate() {
                scores[*label as usize * cells + cell] = 1.0;
            }
            let dense = Dense::new([rows * CELLS, cols * CELLS], target.log_depths, scores);
            let mut score = Score::default();
            dense.expect("an output").score(scene.world(), &picture, &mut score);
            score.depth_rmse_m().zip(score.label_miou()).expect("pixels")
        };
        let (coarse, fine) = (scored(6, 8), scored(12, 16));
        assert!(coarse.0 > fine.0 && coarse.1 < fine.1, "{coarse:?} {fine:?}");
        assert!(fine.0 < 0.4 && fine.1 > 0.75, "{fine:?}");
        assert!(Dense::new([2, 2], vec![0.0; 4], vec![0.0; 4]).is_err());
        assert!(Dense::new([1, 1], vec![f32::NAN], vec![0.0; LABELS]).is_err());
    }
}
