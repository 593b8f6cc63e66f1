//! [`Grid`]: the patches of a frame; [`Window`]: a rectangle of them; [`PatchSet`]: any of them.
//!
//! Patches are numbered row by row, as encoders put out their tokens. Points are `[x, y]` in
//! patches from the upper left corner of the frame: the centre of the patch in row `r` and column
//! `c` is `[c + 0.5, r + 0.5]`.

use crate::AriaError;

/// The patches of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    rows: usize,
    cols: usize,
}

impl Grid {
    /// Most patches on one side.
    pub const LONGEST: usize = 4096;

    /// A grid of `rows` x `cols` patches.
    ///
    /// # Errors
    /// When a side is 0 or more than [`Self::LONGEST`].
    pub fn new(rows: usize, cols: usize) -> Result<Self, AriaError> {
        let fits = |side| (1..=Self::LONGEST).contains(&side);
        if fits(rows) && fits(cols) {
            Ok(Self { rows, cols })
        } else {
            Err(AriaError::Grid { rows, cols, most: Self::LONGEST })
        }
    }

    /// The whole patches of an image; remainders at the lower and right edges belong to none.
    ///
    /// # Errors
    /// When there is not one.
    pub fn of_image(height: usize, width: usize, patch: usize) -> Result<Self, AriaError> {
        let wrong = AriaError::Image { height, width, patch };
        match (height.checked_div(patch), width.checked_div(patch)) {
            (Some(rows), Some(cols)) if rows > 0 && cols > 0 => Self::new(rows, cols),
            _ => Err(wrong),
        }
    }

    /// Rows of patches.
    #[must_use]
    #[inline]
    pub fn rows(self) -> usize {
        self.rows
    }

    /// Columns of patches.
    #[must_use]
    #[inline]
    pub fn cols(self) -> usize {
        self.cols
    }

    /// Number of patches.
    #[must_use]
    #[inline]
    pub fn patches(self) -> usize {
        self.rows * self.cols
    }

    /// Number of the patch in a row and column.
    #[must_use]
    #[inline]
    pub fn index(self, row: usize, col: usize) -> usize {
        row * self.cols + col
    }

    /// Row and column of a patch.
    #[must_use]
    #[inline]
    pub fn place(self, index: usize) -> (usize, usize) {
        (index / self.cols, index % self.cols)
    }

    /// Centre of a patch.
    #[must_use]
    #[inline]
    pub fn centre(self, index: usize) -> [f32; 2] {
        let (row, col) = self.place(index);
        [col as f32 + 0.5, row as f32 + 0.5]
    }

    /// Whether a point lies in the frame.
    #[must_use]
    #[inline]
    pub fn holds(self, [x, y]: [f32; 2]) -> bool {
        (0.0..=self.cols as f32).contains(&x) && (0.0..=self.rows as f32).contains(&y)
    }

    /// The patch that holds a point, if the frame does.
    #[must_use]
    #[inline]
    pub fn at(self, point: [f32; 2]) -> Option<usize> {
        self.holds(point).then(|| self.place_at(point)).map(|(row, col)| self.index(row, col))
    }

    /// Row and column of the patch that holds a point, or of the nearest. One that is not a number
    /// is in the first.
    #[inline]
    pub(crate) fn place_at(self, [x, y]: [f32; 2]) -> (usize, usize) {
        // Sides fit into 32 bits, which are faster to convert to.
        let within = |x: f32, sides: usize| x.clamp(0.0, (sides - 1) as f32) as i32 as usize;
        (within(y, self.rows), within(x, self.cols))
    }

    /// The whole frame.
    #[must_use]
    pub fn window(self) -> Window {
        Window { row: 0, col: 0, rows: self.rows, cols: self.cols }
    }
}

impl std::fmt::Display for Grid {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "{} x {} patches", self.rows, self.cols)
    }
}

/// A rectangle of patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Window {
    /// The uppermost row.
    pub row: usize,
    /// The leftmost column.
    pub col: usize,
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub cols: usize,
}

impl Window {
    /// Number of patches.
    #[must_use]
    pub fn patches(self) -> usize {
        self.rows * self.cols
    }

    /// The row after the last.
    #[must_use]
    pub fn end_row(self) -> usize {
        self.row + self.rows
    }

    /// The column after the last.
    #[must_use]
    pub fn end_col(self) -> usize {
        self.col + self.cols
    }

    /// Whether a patch lies inside.
    #[must_use]
    pub fn contains(self, row: usize, col: usize) -> bool {
        (self.row..self.end_row()).contains(&row) && (self.col..self.end_col()).contains(&col)
    }

    /// Whether all of another window lies inside.
    #[must_use]
    pub fn covers(self, other: Self) -> bool {
        self.row <= other.row
            && self.col <= other.col
            && other.end_row() <= self.end_row()
            && other.end_col() <= self.end_col()
    }

    /// The window extended by patches above, below, left and right, within the grid.
    #[must_use]
    pub fn grown(self, grid: Grid, [above, below, left, right]: [usize; 4]) -> Self {
        let (row, col) = (self.row.saturating_sub(above), self.col.saturating_sub(left));
        let (end_row, end_col) = (
            self.end_row().saturating_add(below).min(grid.rows()),
            self.end_col().saturating_add(right).min(grid.cols()),
        );
        Self { row, col, rows: end_row.saturating_sub(row), cols: end_col.saturating_sub(col) }
    }

    /// Its patches by row and column.
    pub fn places(self) -> impl Iterator<Item = (usize, usize)> {
        (self.row..self.end_row())
            .flat_map(move |row| (self.col..self.end_col()).map(move |col| (row, col)))
    }
}

/// Some patches of a grid: a bit for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatchSet {
    grid: Grid,
    words: Vec<u64>,
}

/// Patches in a word of a set.
const BITS: usize = u64::BITS as usize;

impl PatchSet {
    /// No patch.
    #[must_use]
    pub fn new(grid: Grid) -> Self {
        Self { grid, words: vec![0; grid.patches().div_ceil(BITS)] }
    }

    /// The patches for which `is` holds.
    pub fn of(grid: Grid, is: impl FnMut(usize) -> bool) -> Self {
        let mut set = Self::new(grid);
        set.refill(is);
        set
    }

    /// Takes out all patches, and in those for which `is` holds.
    pub(crate) fn refill(&mut self, mut is: impl FnMut(usize) -> bool) {
        let patches = self.grid.patches();
        for (first, word) in (0..patches).step_by(BITS).zip(&mut self.words) {
            *word = (first..patches.min(first + BITS))
                .fold(0, |word, patch| word | u64::from(is(patch)) << (patch - first));
        }
    }

    /// The grid.
    #[must_use]
    pub fn grid(&self) -> Grid {
        self.grid
    }

    /// Whether a patch is in; one that the grid lacks is not.
    #[must_use]
    #[inline]
    pub fn contains(&self, patch: usize) -> bool {
        self.words.get(patch / BITS).is_some_and(|word| word >> (patch % BITS) & 1 == 1)
    }

    /// Takes a patch in, if the grid has it.
    pub fn insert(&mut self, patch: usize) {
        if let Some(word) = self.words.get_mut(patch / BITS).filter(|_| patch < self.grid.patches())
        {
            *word |= 1 << (patch % BITS);
        }
    }

    /// Adds patches of a row, from a column up to another one, within the grid.
    pub(crate) fn insert_run(&mut self, row: usize, from: usize, to: usize) {
        let to = to.min(self.grid.cols());
        if row >= self.grid.rows() || from >= to {
            return;
        }
        let (mut first, last) = (self.grid.index(row, from), self.grid.index(row, to));
        while first < last {
            let word = first / BITS;
            let end = last.min((word + 1) * BITS);
            self.words[word] |= u64::MAX >> (BITS - (end - first)) << (first % BITS);
            first = end;
        }
    }

    /// Adds all patches of a window, within the grid.
    pub(crate) fn insert_all(&mut self, window: Window) {
        (window.row..window.end_row().min(self.grid.rows()))
            .for_each(|row| self.insert_run(row, window.col, window.end_col()));
    }

    /// Takes a patch out.
    pub fn remove(&mut self, patch: usize) {
        if let Some(word) = self.words.get_mut(patch / BITS) {
            *word &= !(1 << (patch % BITS));
        }
    }

    /// Adds all patches.
    pub(crate) fn fill(&mut self) {
        (0..self.grid.patches()).step_by(BITS).zip(&mut self.words).for_each(|(first, word)| {
            *word = u64::MAX >> (first + BITS).saturating_sub(self.grid.patches());
        });
    }

    /// Takes out all patches.
    pub fn clear(&mut self) {
        self.words.fill(0);
    }

    /// Adds the patches of another set.
    pub fn extend(&mut self, other: &Self) {
        self.words.iter_mut().zip(&other.words).for_each(|(a, b)| *a |= b);
    }

    /// Takes out the patches of another set.
    pub fn exclude(&mut self, other: &Self) {
        self.words.iter_mut().zip(&other.words).for_each(|(a, b)| *a &= !b);
    }

    /// The patches that lie in a window.
    #[must_use]
    pub fn within(&self, window: Window) -> Self {
        let mut inside = Self::new(self.grid);
        inside.insert_all(window);
        inside.words.iter_mut().zip(&self.words).for_each(|(a, b)| *a &= b);
        inside
    }

    /// The patches, in order.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        let without_lowest = |word: &u64| Some(word & (word - 1)).filter(|rest| *rest != 0);
        let bits = move |word: u64| {
            std::iter::successors(Some(word).filter(|word| *word != 0), without_lowest)
                .map(|word| word.trailing_zeros() as usize)
        };
        self.words
            .iter()
            .enumerate()
            .flat_map(move |(index, word)| bits(*word).map(move |bit| index * BITS + bit))
    }

    /// Their rows and columns, in order.
    pub(crate) fn places(&self) -> impl Iterator<Item = (usize, usize)> {
        let (cols, mut row, mut first) = (self.grid.cols(), 0, 0);
        self.iter().map(move |patch| {
            // Cheaper than to divide: most rows have some.
            while patch >= first + cols {
                (row, first) = (row + 1, first + cols);
            }
            (row, patch - first)
        })
    }

    /// Number of patches in it.
    #[must_use]
    pub fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Number of patches in both.
    #[must_use]
    pub fn shared(&self, other: &Self) -> usize {
        self.words.iter().zip(&other.words).map(|(a, b)| (a & b).count_ones() as usize).sum()
    }

    /// The smallest window around them; `None` if there are none.
    #[must_use]
    pub fn window(&self) -> Option<Window> {
        let mut bounds: Option<[usize; 4]> = None;
        for (row, col) in self.places() {
            let [top, left, bottom, right] = bounds.unwrap_or([row, col, row, col]);
            bounds = Some([top.min(row), left.min(col), bottom.max(row), right.max(col)]);
        }
        bounds.map(|[row, col, bottom, right]| Window {
            row,
            col,
            rows: bottom - row + 1,
            cols: right - col + 1,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_picture_has_29_x_47_patches() {
        let grid = Grid::of_image(406, 658, 14).expect("a grid");
        assert_eq!((grid.rows(), grid.cols(), grid.patches()), (29, 47, 1363));
        assert_eq!(Grid::of_image(238, 322, 14).expect("a grid").patches(), 391);
        assert_eq!(
            Grid::of_image(420, 671, 14).expect("a grid"),
            Grid::new(30, 47).expect("a grid")
        );
    }

    #[test]
    fn impossible_grids_are_errors() {
        assert!(matches!(Grid::of_image(13, 100, 14), Err(AriaError::Image { .. })));
        assert!(matches!(Grid::of_image(13, 100, 0), Err(AriaError::Image { .. })));
        assert!(matches!(Grid::new(0, 3), Err(AriaError::Grid { .. })));
        assert!(matches!(Grid::new(usize::MAX, 3), Err(AriaError::Grid { .. })));
    }

    #[test]
    fn points_fall_into_the_patches_around_them() {
        let grid = Grid::new(3, 4).expect("a grid");
        for patch in 0..grid.patches() {
            assert_eq!(grid.at(grid.centre(patch)), Some(patch));
        }
        assert_eq!(grid.at([4.0, 3.0]), Some(11));
        assert_eq!(grid.at([-0.1, 1.0]), None);
        assert_eq!(grid.at([f32::NAN, 1.0]), None);
    }

    #[test]
    fn windows_grow_to_the_edge_and_no_further() {
        let grid = Grid::new(5, 6).expect("a grid");
        let window = Window { row: 1, col: 2, rows: 2, cols: 2 };
        assert_eq!(
            window.grown(grid, [3, 1, 1, usize::MAX]),
            Window { row: 0, col: 1, rows: 4, cols: 5 }
        );
        assert!(grid.window().covers(window) && !window.covers(grid.window()));
        let set = PatchSet::of(grid, |patch| patch == 8 || patch == 15);
        assert_eq!(set.window(), Some(Window { row: 1, col: 2, rows: 2, cols: 2 }));
        assert_eq!(PatchSet::new(grid).window(), None);
    }

    #[test]
    fn sets_hold_what_was_put_in_and_nothing_beyond_the_grid() {
        let grid = Grid::new(29, 47).expect("a grid");
        let third = PatchSet::of(grid, |patch| patch % 3 == 0);
        assert_eq!(
            third.iter().collect::<Vec<_>>(),
            (0..grid.patches()).step_by(3).collect::<Vec<_>>()
        );
        assert_eq!(
            (third.count(), third.contains(1362), third.contains(1364), third.contains(1 << 40)),
            (455, true, false, false)
        );
        let mut set = third.clone();
        [1363, 1364, 1407, usize::MAX].into_iter().for_each(|patch| set.insert(patch));
        assert_eq!(set, third, "the grid has no such patches");
        let even = PatchSet::of(grid, |patch| patch % 2 == 0);
        assert_eq!(third.shared(&even), (0..grid.patches()).step_by(6).count());
        set.exclude(&even);
        assert_eq!(set, PatchSet::of(grid, |patch| patch % 6 == 3));
        set.extend(&even);
        assert_eq!(set.count(), even.count() + (3..grid.patches()).step_by(6).count());
        let window = Window { row: 27, col: 40, rows: 2, cols: 7 };
        let inside = PatchSet::of(grid, |patch| {
            patch % 3 == 0 && window.contains(grid.place(patch).0, grid.place(patch).1)
        });
        assert_eq!(third.within(window), inside);
        assert_eq!(
            third.within(Window { rows: 50, cols: 50, ..window }),
            inside,
            "there is nothing beyond the grid"
        );
        set.insert_all(window);
        set.insert_all(Window { row: usize::MAX, ..window });
        assert_eq!(
            (
                set.shared(&PatchSet::of(grid, |patch| window
                    .contains(grid.place(patch).0, grid.place(patch).1))),
                third.shared(&set)
            ),
            (14, third.count())
        );
        set.fill();
        assert_eq!(set, PatchSet::of(grid, |_| true));
        assert!(
            set.places().eq(grid.window().places())
                && third.places().eq(third.iter().map(|patch| grid.place(patch)))
        );
        set.remove(0);
        set.clear();
        assert_eq!((set.count(), set.iter().next()), (0, None));
    }
}
