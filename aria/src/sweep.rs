//! [`Search`] and [`Sweep`]: which displacements of a patch are tried, and which patches of the
//! earlier frame they lead from.

use crate::Grid;

/// Which patches of the earlier frame are candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Search {
    /// All, as equation (2) is written.
    Everywhere,
    /// Displacements of at most this many rows and columns.
    Within(usize),
}

impl Search {
    /// Most rows or columns between a patch and a candidate.
    pub(crate) fn reach(self, grid: Grid) -> usize {
        let longest = grid.rows().max(grid.cols()) - 1;
        if let Self::Within(radius) = self { radius.min(longest) } else { longest }
    }
}

/// Rows and columns of a displacement and its neighbours.
pub(crate) const AROUND: usize = 3;

/// Displacements that are tried: from the first to the last down and across, every one, or every
/// second, fourth, ...
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sweep {
    pub rows: [isize; 2],
    pub cols: [isize; 2],
    /// How often the step from one to the next was doubled.
    pub doublings: u32,
}

impl Sweep {
    /// From one displacement of a coarse sweep to the next.
    pub const COARSE: usize = 2;

    /// All within reach.
    pub fn all(reach: usize) -> Self {
        let sides = [-(reach as isize), reach as isize];
        Self { rows: sides, cols: sides, doublings: 0 }
    }

    /// Every second one within reach, none among them.
    pub fn coarse(reach: usize) -> Self {
        Self { doublings: Self::COARSE.ilog2(), ..Self::all(reach - reach % Self::COARSE) }
    }

    /// Whether it is no more than one displacement and its neighbours.
    pub fn is_around(self) -> bool {
        let few = |[least, most]: [isize; 2]| most - least < AROUND as isize;
        self.doublings == 0 && few(self.rows) && few(self.cols)
    }

    /// One and its neighbours within reach.
    pub fn around([rows, cols]: [isize; 2], reach: usize) -> Self {
        let sides = |at: isize| [(at - 1).max(-(reach as isize)), (at + 1).min(reach as isize)];
        Self { rows: sides(rows), cols: sides(cols), doublings: 0 }
    }

    /// From one displacement to the next.
    pub fn step(self) -> usize {
        1 << self.doublings
    }

    /// Rows down.
    pub fn down(self) -> impl Iterator<Item = isize> {
        (self.rows[0]..=self.rows[1]).step_by(self.step())
    }

    /// Columns across.
    pub fn across(self) -> impl Iterator<Item = isize> {
        (self.cols[0]..=self.cols[1]).step_by(self.step())
    }

    /// Whether it has a displacement between its first and last.
    pub fn has(self, [rows, cols]: [isize; 2]) -> bool {
        (self.rows[0]..=self.rows[1]).contains(&rows)
            && (self.cols[0]..=self.cols[1]).contains(&cols)
    }

    /// The first and last row and the first and last column of the grid from which these
    /// displacements lead to a place; `None` if there are none.
    pub fn candidates(
        self,
        grid: Grid,
        row: usize,
        col: usize,
    ) -> Option<([usize; 2], [usize; 2])> {
        Some((
            within(row, self.rows, self.step(), grid.rows())?,
            within(col, self.cols, self.step(), grid.cols())?,
        ))
    }
}

/// The first and last place along a side of the grid whose displacement to `at` is one of a
/// sweep's.
fn within(at: usize, [least, most]: [isize; 2], step: usize, sides: usize) -> Option<[usize; 2]> {
    let whole_steps = |outside: isize| (outside.max(0) as usize).next_multiple_of(step) as isize;
    let (from, to) = (at as isize - most, at as isize - least);
    let (from, to) = (from + whole_steps(-from), to - whole_steps(to + 1 - sides as isize));
    (from <= to).then_some([from as usize, to as usize])
}

/// From a candidate to a patch.
#[inline(always)]
pub(crate) fn offset(patch: usize, candidate: usize) -> isize {
    patch as isize - candidate as isize
}
