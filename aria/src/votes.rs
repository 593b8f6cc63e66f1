//! [`Votes`]: how well each displacement explains a whole region. The best match of one patch is a
//! whole number of patches away, and often wrong at edges and in plain areas; the similarities of
//! all patches of a region, added up by displacement, have their peak where the region came from,
//! and a parabola through the peak and its neighbours gives the fraction.

use crate::{
    Grid,
    simd::ROWS,
    sweep::{Search, Sweep, offset},
};

/// Price of a displacement of one patch, in similarity of one patch; it grows with the square. Many
/// patches outweigh it easily, and a few do not move far by chance.
const DISTANCE_PENALTY: f32 = 0.1;

/// The most that two patches can be similar, with what rounding adds.
const MOST: f32 = 1.001;

/// Similarities of a region's patches to the earlier frame, added up by displacement.
#[derive(Clone, Debug, PartialEq)]
pub struct Votes {
    sweep: Sweep,
    /// Sums of similarities, by where the earlier patch lies: rows from the farthest up, in each
    /// from the farthest left. Both ends of a row have unused places, so that several neighbours
    /// can be added at once of which only some are within the sweep.
    sums: Vec<f32>,
    /// How many were added up.
    counts: Vec<f32>,
    /// Cells of a row.
    stride: usize,
    /// Patches to match.
    patches: f32,
}

/// Most neighbours of a row that are added at once.
const AT_ONCE: usize = ROWS;
/// Room beyond each end of a row.
const ROOM: usize = AT_ONCE - 1;

impl Votes {
    /// None yet, for the displacements of a search.
    pub(crate) fn new(grid: Grid, search: Search) -> Self {
        Self::among(Sweep::all(search.reach(grid)))
    }

    /// None yet, for some displacements.
    pub(crate) fn among(sweep: Sweep) -> Self {
        let stride = sweep.across().count() + 2 * ROOM;
        let cells = sweep.down().count() * stride;
        Self { sweep, sums: vec![0.0; cells], counts: vec![0.0; cells], stride, patches: 0.0 }
    }

    /// The displacements.
    #[inline(always)]
    pub(crate) fn sweep(&self) -> Sweep {
        self.sweep
    }

    /// Adds a patch: one more vote for each displacement from within the grid.
    pub(crate) fn count(&mut self, grid: Grid, patch: usize) {
        self.patches += 1.0;
        let (row, col) = grid.place(patch);
        let Some(([top, bottom], [left, right])) = self.sweep.candidates(grid, row, col) else {
            return;
        };
        let (Some(first), Some(last)) = (
            self.index(offset(row, top), offset(col, left)),
            self.index(offset(row, bottom), offset(col, right)),
        ) else {
            return;
        };
        let length = last % self.stride + 1 - first % self.stride;
        for cells in self.counts[first..=last].chunks_mut(self.stride) {
            cells[..length].iter_mut().for_each(|count| *count += 1.0);
        }
    }

    /// Similarities of a patch to neighbours of the sweep in a row, the first of which lies `rows`
    /// above it and `cols` to the left. One of them at least is within the sweep.
    #[inline(always)]
    pub(crate) fn add(&mut self, rows: isize, cols: isize, similarities: &[f32]) {
        let first = self.index(rows, cols);
        if let Some(sums) =
            first.and_then(|first| self.sums.get_mut(first..first + similarities.len()))
        {
            sums.iter_mut().zip(similarities).for_each(|(sum, similarity)| *sum += similarity);
        }
    }

    #[inline(always)]
    fn index(&self, rows: isize, cols: isize) -> Option<usize> {
        let ([least, most], [_, farthest]) = (self.sweep.rows, self.sweep.cols);
        let row =
            usize::try_from(most - rows).ok().filter(|_| rows >= least)? >> self.sweep.doublings;
        let col = usize::try_from(farthest - cols + (ROOM << self.sweep.doublings) as isize)
            .ok()?
            >> self.sweep.doublings;
        (col < self.stride).then(|| row * self.stride + col)
    }

    /// Mean similarity, less the price of the displacement, at a displacement at which most of the
    /// region lay in the earlier frame.
    fn mean(&self, [rows, cols]: [isize; 2]) -> Option<f32> {
        let here = self.index(rows, cols).filter(|_| self.sweep.has([rows, cols]))?;
        let count = self.counts[here];
        let far = (rows * rows + cols * cols) as f32;
        (count > 0.0 && 2.0 * count >= self.patches)
            .then(|| (self.sums[here] - DISTANCE_PENALTY * far) / count)
    }

    /// How many rows or columns away displacements can be whose mean is higher than this: farther
    /// ones cost more than they can be similar.
    pub(crate) fn farthest(&self, mean: f32) -> usize {
        ((MOST - mean).max(0.0) * self.patches / DISTANCE_PENALTY).sqrt() as usize
    }

    /// The displacements (down and across) with the highest means, the highest first, the nearest
    /// among equals.
    pub(crate) fn peaks<const N: usize>(&self) -> [Option<Peak>; N] {
        let mut best: [Option<Peak>; N] = [None; N];
        for place in
            self.sweep.down().flat_map(|rows| self.sweep.across().map(move |cols| [rows, cols]))
        {
            let Some(mean) = self.mean(place) else { continue };
            let far = |[rows, cols]: [isize; 2]| rows * rows + cols * cols;
            let below = |peak: &Option<Peak>| {
                peak.is_none_or(|(most, other)| {
                    mean > most || (mean == most && far(place) < far(other))
                })
            };
            if let Some(rank) = best.iter().position(below) {
                best[rank..].rotate_right(1);
                best[rank] = Some((mean, place));
            }
        }
        best
    }

    /// The displacement to the right and down that explains the region best, in patches, the
    /// nearest among equals; `None` without any vote.
    #[must_use]
    pub fn displacement(&self) -> Option<[f32; 2]> {
        let [best] = self.peaks();
        let (peak, [rows, cols]) = best?;
        let across = fraction(self.mean([rows, cols - 1]), peak, self.mean([rows, cols + 1]));
        let down = fraction(self.mean([rows - 1, cols]), peak, self.mean([rows + 1, cols]));
        Some([cols as f32 + across, rows as f32 + down])
    }
}

/// A mean and its displacement, down and across.
pub(crate) type Peak = (f32, [isize; 2]);

/// Where a parabola through three values at -1, 0 and 1 has its peak, if the middle one is the
/// highest.
fn fraction(before: Option<f32>, peak: f32, after: Option<f32>) -> f32 {
    let (Some(before), Some(after)) = (before, after) else { return 0.0 };
    let bend = before - 2.0 * peak + after;
    if bend < 0.0 { (0.5 * (before - after) / bend).clamp(-0.5, 0.5) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A patch in the middle of a grid with a given similarity at each displacement.
    fn vote(votes: &mut Votes, grid: Grid, similarity: impl Fn(isize, isize) -> f32) {
        let reach = votes.sweep.rows[1];
        votes.count(grid, grid.patches() / 2);
        for rows in -reach..=reach {
            // Sources from left to right, three at once.
            for first in (-reach..=reach).rev().step_by(3) {
                let three: Vec<f32> = (0..3).map(|n| similarity(rows, first - n)).collect();
                votes.add(rows, first, &three);
            }
        }
    }

    #[test]
    fn the_peak_is_found_between_whole_displacements() {
        let grid = Grid::new(9, 9).expect("a grid");
        let mut votes = Votes::new(grid, Search::Within(3));
        assert_eq!(votes.displacement(), None);
        for _ in 0..400 {
            vote(&mut votes, grid, |rows, cols| {
                1.0 - 0.05 * ((cols as f32 - 1.3).powi(2) + (rows as f32 + 0.6).powi(2))
            });
        }
        // Out of reach.
        votes.add(9, 0, &[1e6]);
        votes.add(0, -4, &[1e6]);
        votes.add(0, -40, &[1e6]);
        let [x, y] = votes.displacement().expect("a peak");
        assert!((x - 1.3).abs() < 0.01 && (y + 0.6).abs() < 0.01, "{x} {y}");
    }

    #[test]
    fn a_few_patches_do_not_go_far_by_chance() {
        let moved = |patches: usize| {
            let grid = Grid::new(19, 19).expect("a grid");
            let mut votes = Votes::new(grid, Search::Within(8));
            (0..patches).for_each(|_| {
                vote(&mut votes, grid, |rows, cols| if (rows, cols) == (0, 6) { 0.9 } else { 0.7 });
            });
            votes.displacement()
        };
        assert_eq!(moved(2), Some([0.0, 0.0]));
        assert!(moved(40).is_some_and(|[x, y]| (x - 6.0).abs() < 0.1 && y == 0.0));
    }

    #[test]
    fn nothing_beyond_the_farthest_can_be_better() {
        let grid = Grid::new(19, 19).expect("a grid");
        for (patches, mean) in [(1, 0.4), (3, 0.9), (20, 0.8), (20, 1.0)] {
            let mut votes = Votes::new(grid, Search::Within(8));
            (0..patches).for_each(|_| vote(&mut votes, grid, |_, _| 1.0));
            let farthest = votes.farthest(mean) as isize;
            let better = |place: [isize; 2]| votes.mean(place).is_some_and(|found| found > mean);
            let beyond = |[rows, cols]: [isize; 2]| rows.abs() > farthest || cols.abs() > farthest;
            let places = || {
                votes
                    .sweep()
                    .down()
                    .flat_map(|rows| votes.sweep().across().map(move |cols| [rows, cols]))
            };
            assert!(
                places().filter(|place| beyond(*place)).all(|place| !better(place)),
                "{patches} {mean}"
            );
            assert!(
                farthest > 8 || farthest == 0 || better([farthest, 0]),
                "{patches} {mean}: no farther than needed"
            );
        }
    }

    /// At a corner, most displacements come from outside of the frame.
    #[test]
    fn displacements_from_outside_of_the_frame_have_no_vote() {
        let grid = Grid::new(5, 6).expect("a grid");
        let mut votes = Votes::new(grid, Search::Everywhere);
        votes.count(grid, grid.index(0, 0));
        assert_eq!(votes.counts.iter().sum::<f32>(), 30.0);
        assert!(votes.mean([0, 0]).is_some() && votes.mean([-4, -5]).is_some());
        assert!(
            votes.mean([1, 0]).is_none()
                && votes.mean([0, 1]).is_none()
                && votes.mean([-5, 0]).is_none()
        );
    }
}
