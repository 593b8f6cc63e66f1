//! [`PatchFlow`]: where each patch of a frame was in an earlier one.

use crate::Grid;

/// For each patch of the target frame, the point of the source frame that shows the same.
#[derive(Clone, Debug, PartialEq)]
pub struct PatchFlow {
    grid: Grid,
    sources: Vec<[f32; 2]>,
}

/// Most steps to the inverse of a flow.
const STEPS: usize = 4;
/// A point outside of every frame.
const NOWHERE: [f32; 2] = [-1e6; 2];

impl PatchFlow {
    /// Nothing moved.
    #[must_use]
    pub fn still(grid: Grid) -> Self {
        Self { grid, sources: (0..grid.patches()).map(|patch| grid.centre(patch)).collect() }
    }

    /// From a point per patch; one that is not finite is outside.
    pub fn of(grid: Grid, mut source: impl FnMut(usize) -> Option<[f32; 2]>) -> Self {
        let finite = |point: &[f32; 2]| point.iter().all(|x| x.is_finite());
        Self {
            grid,
            sources: (0..grid.patches())
                .map(|patch| source(patch).filter(finite).unwrap_or(NOWHERE))
                .collect(),
        }
    }

    /// The patches.
    #[must_use]
    pub fn grid(&self) -> Grid {
        self.grid
    }

    /// The points, in the order of the target's patches.
    #[must_use]
    pub fn sources(&self) -> &[[f32; 2]] {
        &self.sources
    }

    /// Mean distance by which it moves patches, in patches.
    #[must_use]
    pub fn mean_distance(&self) -> f32 {
        let moved = self.sources.iter().enumerate().map(|(patch, [x, y])| {
            let [to_x, to_y] = self.grid.centre(patch);
            (to_x - x).hypot(to_y - y)
        });
        moved.sum::<f32>() / self.grid.patches() as f32
    }

    /// Where a point of the source frame is in the target: the inverse of the flow, by fixed-point
    /// iteration on the nearest patches.
    #[must_use]
    pub fn target_of(&self, source: [f32; 2]) -> [f32; 2] {
        if source.iter().any(|x| x.is_nan()) {
            source
        } else {
            self.target_from(source, self.grid.place_at(source))
        }
    }

    /// The same of the centre of a patch.
    pub(crate) fn target_of_patch(&self, row: usize, col: usize) -> [f32; 2] {
        self.target_from([col as f32 + 0.5, row as f32 + 0.5], (row, col))
    }

    /// The same, searched from a given patch.
    fn target_from(&self, source: [f32; 2], (mut row, mut col): (usize, usize)) -> [f32; 2] {
        let (mut target, mut last) = (source, usize::MAX);
        for _ in 0..STEPS {
            let patch = self.grid.index(row, col);
            let from = self.sources[patch];
            if patch == last || from == NOWHERE {
                break;
            }
            last = patch;
            target = [
                source[0] + (col as f32 + 0.5) - from[0],
                source[1] + (row as f32 + 0.5) - from[1],
            ];
            (row, col) = self.grid.place_at(target);
        }
        target
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_inverse_of_a_shift_is_the_shift_back() {
        let grid = Grid::new(6, 8).expect("a grid");
        let flow = PatchFlow::of(grid, |patch| {
            let [x, y] = grid.centre(patch);
            Some([x + 1.25, y - 0.5])
        });
        assert_eq!(flow.target_of([4.0, 3.0]), [2.75, 3.5]);
        assert_eq!(PatchFlow::still(grid).target_of([4.0, 3.0]), [4.0, 3.0]);
        let nowhere = PatchFlow::of(grid, |_| Some([f32::NAN, 0.0]));
        assert!(nowhere.sources().iter().all(|point| !grid.holds(*point)));
    }
}
