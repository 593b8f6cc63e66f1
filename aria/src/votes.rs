//! [`Votes`]: how well each displacement explains a whole region. One patch's best match is a whole number of patches away and often wrong, at edges and where
//! little is to be seen; the similarities of all patches of a region, added up by displacement, have their peak where the region came from, and a parabola
//! through the peak and its neighbours gives the fraction.

use crate::{Grid, Search};

/// What a displacement of one patch costs, in similarity of one patch; its square counts. So many patches overrule it easily, and a few do not go far by chance.
const DOUBT: f32 = 0.1;

/// Similarities of a region's patches to the earlier frame, added up by displacement.
#[derive(Clone, Debug, PartialEq)]
pub struct Votes {
    reach: usize,
    /// Sum and number of similarities, by rows and columns from the farthest up and left.
    cells: Vec<[f32; 2]>,
}

impl Votes {
    /// None yet, for the displacements of a search.
    pub(crate) fn new(grid: Grid, search: Search) -> Self {
        let longest = grid.rows().max(grid.cols()) - 1;
        let reach = if let Search::Within(radius) = search { radius.min(longest) } else { longest };
        let side = 2 * reach + 1;
        Self { reach, cells: vec![[0.0; 2]; side * side] }
    }

    /// A patch is so similar to one that lies `rows` above and `cols` to the left; `false` if that is out of reach.
    #[inline(always)]
    pub(crate) fn add(&mut self, rows: isize, cols: isize, similarity: f32) -> bool {
        let cell = self.index(rows, cols).and_then(|index| self.cells.get_mut(index));
        let Some([sum, count]) = cell else { return false };
        *sum += similarity;
        *count += 1.0;
        true
    }

    #[inline(always)]
    fn index(&self, rows: isize, cols: isize) -> Option<usize> {
        let (row, col) = (rows.wrapping_add_unsigned(self.reach) as usize, cols.wrapping_add_unsigned(self.reach) as usize);
        let side = 2 * self.reach + 1;
        (row < side && col < side).then_some(row * side + col)
    }

    /// Mean similarity, less what the displacement costs, at a displacement at which most of the region lay in the earlier frame.
    fn mean(&self, rows: isize, cols: isize) -> Option<f32> {
        let ([sum, count], [_, still]) = (*self.cells.get(self.index(rows, cols)?)?, *self.cells.get(self.index(0, 0)?)?);
        let far = (rows * rows + cols * cols) as f32;
        (count > 0.0 && 2.0 * count >= still).then(|| (sum - DOUBT * far) / count)
    }

    /// The displacement to the right and down that explains the region best, in patches, the nearest among equals; `None` without any vote.
    #[must_use]
    pub fn displacement(&self) -> Option<[f32; 2]> {
        let reach = self.reach as isize;
        let mut best: Option<(f32, [isize; 2])> = None;
        for [rows, cols] in (-reach..=reach).flat_map(|rows| (-reach..=reach).map(move |cols| [rows, cols])) {
            let Some(mean) = self.mean(rows, cols) else { continue };
            let far = |[rows, cols]: [isize; 2]| rows * rows + cols * cols;
            if best.is_none_or(|(most, place)| mean > most || (mean == most && far([rows, cols]) < far(place))) {
                best = Some((mean, [rows, cols]));
            }
        }
        let (peak, [rows, cols]) = best?;
        let across = fraction(self.mean(rows, cols - 1), peak, self.mean(rows, cols + 1));
        let down = fraction(self.mean(rows - 1, cols), peak, self.mean(rows + 1, cols));
        Some([cols as f32 + across, rows as f32 + down])
    }
}

/// Where a parabola through three values at -1, 0 and 1 has its peak, if the middle one is the highest.
fn fraction(before: Option<f32>, peak: f32, after: Option<f32>) -> f32 {
    let (Some(before), Some(after)) = (before, after) else { return 0.0 };
    let bend = before - 2.0 * peak + after;
    if bend < 0.0 { (0.5 * (before - after) / bend).clamp(-0.5, 0.5) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_found_between_whole_displacements() {
        let mut votes = Votes::new(Grid::new(9, 9).expect("a grid"), Search::Within(3));
        assert_eq!(votes.displacement(), None);
        for _ in 0..400 {
            for (rows, cols) in (-3..=3).flat_map(|r| (-3..=3).map(move |c| (r, c))) {
                let far = (cols as f32 - 1.3).powi(2) + (rows as f32 + 0.6).powi(2);
                assert!(votes.add(rows, cols, 1.0 - 0.05 * far));
            }
        }
        // Out of reach.
        assert!(!votes.add(9, 0, 5.0) && !votes.add(0, -4, 5.0));
        let [x, y] = votes.displacement().expect("a peak");
        assert!((x - 1.3).abs() < 0.01 && (y + 0.6).abs() < 0.01, "{x} {y}");
    }

    #[test]
    fn a_few_patches_do_not_go_far_by_chance() {
        let moved = |patches: usize| {
            let mut votes = Votes::new(Grid::new(19, 19).expect("a grid"), Search::Within(8));
            for (rows, cols) in (-8..=8).flat_map(|r| (-8..=8).map(move |c| (r, c))) {
                let similarity = if (rows, cols) == (0, 6) { 0.9 } else { 0.7 };
                (0..patches).for_each(|_| assert!(votes.add(rows, cols, similarity)));
            }
            votes.displacement()
        };
        assert_eq!(moved(2), Some([0.0, 0.0]));
        assert!(moved(40).is_some_and(|[x, y]| (x - 6.0).abs() < 0.1 && y == 0.0));
    }
}
