//! Where was each dynamic patch before? Equation (2): the patch of the warped earlier frame whose features are most similar.
//!
//! Queries that are near each other are compared in pairs with four candidates at a time: each number loaded serves several products. Ties go to the nearest candidate.

use crate::{
    AriaError, FeatureMap, Grid, Instructions, Votes,
    lanes::{Lanes, ROWS, dots, vectorised},
};

/// How far queries of a pair may lie apart: further, and they hardly share candidates.
const NEAR: usize = 4;

/// Which patches of the earlier frame are candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Search {
    /// All, as equation (2) is written.
    Everywhere,
    /// Those at most so many rows and columns away.
    Within(usize),
}

/// A dynamic patch and where it came from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Match {
    /// Number of the patch in the current frame.
    pub patch: usize,
    /// Number of the most similar patch in the earlier frame, warped.
    pub source: usize,
    /// Their cosine similarity.
    pub similarity: f32,
}

impl Match {
    /// How far it went from the earlier frame to this, beyond what the camera explains, in patches.
    #[must_use]
    pub fn displacement(&self, grid: Grid) -> [f32; 2] {
        let (to, from) = (grid.centre(self.patch), grid.centre(self.source));
        [to[0] - from[0], to[1] - from[1]]
    }
}

/// The match of each of `patches` (of the current frame) in the earlier one.
///
/// # Errors
/// When shapes differ, or a patch is not in the grid.
pub fn matches(instructions: Instructions, earlier: &FeatureMap, current: &FeatureMap, patches: &[usize], search: Search) -> Result<Vec<Match>, AriaError> {
    Ok(matches_and_votes(instructions, earlier, current, patches, search)?.0)
}

/// The same, and how well each displacement explains all of `patches` together.
///
/// # Errors
/// As [`matches`].
pub fn matches_and_votes(
    instructions: Instructions,
    earlier: &FeatureMap,
    current: &FeatureMap,
    patches: &[usize],
    search: Search,
) -> Result<(Vec<Match>, Votes), AriaError> {
    earlier.same_shape(current)?;
    let grid = current.grid();
    if let Some(patch) = patches.iter().find(|patch| **patch >= grid.patches()) {
        return Err(AriaError::setting("a patch to match", patch, "one of the grid"));
    }
    let mut found: Vec<Match> = patches.iter().map(|patch| Match { patch: *patch, source: *patch, similarity: f32::NEG_INFINITY }).collect();
    let mut votes = Votes::new(grid, search);
    search_all(instructions, earlier, current, search, &mut found, &mut votes);
    Ok((found, votes))
}

vectorised!(fn search_all(earlier: &FeatureMap, current: &FeatureMap, search: Search, found: &mut [Match], votes: &mut Votes) = search_pairs);

/// # Safety
/// As [`Lanes`].
#[inline(always)]
unsafe fn search_pairs<L: Lanes>(earlier: &FeatureMap, current: &FeatureMap, search: Search, found: &mut [Match], votes: &mut Votes) {
    let grid = current.grid();
    let mut left = found;
    while let [first, ..] = left {
        let first = first.patch;
        let paired = left.get(1).is_some_and(|second| search == Search::Everywhere || near(grid, first, second.patch));
        let (now, later) = std::mem::take(&mut left).split_at_mut(if paired { 2 } else { 1 });
        // SAFETY: as for this function.
        match now {
            [a, b] => unsafe { search_some::<L, 2>(earlier, current, search, [a, b], votes) },
            [a] => unsafe { search_some::<L, 1>(earlier, current, search, [a], votes) },
            _ => {}
        }
        left = later;
    }
}

/// In the same row and close to each other.
fn near(grid: Grid, a: usize, b: usize) -> bool {
    let ((a_row, a_col), (b_row, b_col)) = (grid.place(a), grid.place(b));
    a_row == b_row && a_col.abs_diff(b_col) <= NEAR
}

/// A patch that is looked for.
struct Query<'a> {
    best: &'a mut Match,
    row: usize,
    col: usize,
    /// One over its length.
    inverse: f32,
    /// Square of the distance to the best so far.
    far: isize,
}

/// One over a length; 0 for none, which is similar to nothing.
#[inline(always)]
fn inverse(norm: f32) -> f32 {
    if norm > 0.0 { 1.0 / norm } else { 0.0 }
}

/// First and last row, first and last column of the candidates of some queries.
fn candidates<const Q: usize>(grid: Grid, search: Search, queries: &[Query; Q]) -> [usize; 4] {
    let Search::Within(radius) = search else { return [0, grid.rows() - 1, 0, grid.cols() - 1] };
    let mut bounds = [usize::MAX, 0, usize::MAX, 0];
    for Query { row, col, .. } in queries {
        let [top, bottom, left, right] = bounds;
        let (last_row, last_col) = (row.saturating_add(radius).min(grid.rows() - 1), col.saturating_add(radius).min(grid.cols() - 1));
        bounds = [top.min(row.saturating_sub(radius)), bottom.max(last_row), left.min(col.saturating_sub(radius)), right.max(last_col)];
    }
    bounds
}

/// # Safety
/// As [`Lanes`].
#[inline(always)]
unsafe fn search_some<L: Lanes, const Q: usize>(earlier: &FeatureMap, current: &FeatureMap, search: Search, found: [&mut Match; Q], votes: &mut Votes) {
    let grid = current.grid();
    let mut queries = found.map(|best| {
        let (row, col) = grid.place(best.patch);
        Query { row, col, inverse: inverse(current.norms()[best.patch]), far: 0, best }
    });
    let [top, bottom, left, right] = candidates(grid, search, &queries);
    let features: [&[f32]; Q] = std::array::from_fn(|q| current.row(queries[q].best.patch));
    for row in top..=bottom {
        for col in (left..=right).step_by(ROWS) {
            // What fills up the last four is compared and not counted.
            let places: [usize; ROWS] = std::array::from_fn(|r| grid.index(row, (col + r).min(right)));
            let inverses: [f32; ROWS] = std::array::from_fn(|r| inverse(earlier.norms()[places[r]]));
            // SAFETY: as for this function.
            let products = unsafe { dots::<L, Q>(features, std::array::from_fn(|r| earlier.row(places[r]))) };
            for (query, products) in queries.iter_mut().zip(products) {
                for (r, product) in products.into_iter().enumerate().take(right + 1 - col) {
                    let moved = [query.row as isize - row as isize, query.col as isize - (col + r) as isize];
                    query.consider(places[r], moved, product * query.inverse * inverses[r], votes);
                }
            }
        }
    }
}

impl Query<'_> {
    #[inline(always)]
    fn consider(&mut self, source: usize, [rows, cols]: [isize; 2], similarity: f32, votes: &mut Votes) {
        if !votes.add(rows, cols, similarity) {
            return;
        }
        let far = rows * rows + cols * cols;
        if similarity > self.best.similarity || (similarity == self.best.similarity && far < self.far) {
            (self.best.source, self.best.similarity, self.far) = (source, similarity, far);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{TOLERANCE, random::Random};

    /// Random features, and the same ones moved by rows and columns with a little noise.
    fn moved(grid: Grid, width: usize, [rows, cols]: [isize; 2], seed: u64) -> [FeatureMap; 2] {
        let mut random = Random::new(seed);
        let values: Vec<f32> = (0..grid.patches() * width).map(|_| random.normal() as f32).collect();
        let mut later = vec![0.0; values.len()];
        for patch in 0..grid.patches() {
            let (row, col) = grid.place(patch);
            let row = (row as isize - rows).rem_euclid(grid.rows() as isize) as usize;
            let col = (col as isize - cols).rem_euclid(grid.cols() as isize) as usize;
            let from = grid.index(row, col) * width;
            for feature in 0..width {
                later[patch * width + feature] = values[from + feature] + 0.1 * random.normal() as f32;
            }
        }
        [values, later].map(|values| FeatureMap::from_values(Instructions::best(), grid, width, &values).expect("a map"))
    }

    #[test]
    fn matches_are_the_most_similar_with_all_instructions() {
        let grid = Grid::new(7, 9).expect("a grid");
        for (width, search) in [(24, Search::Everywhere), (24, Search::Within(2)), (17, Search::Within(0)), (384, Search::Within(3))] {
            let [before, now] = moved(grid, width, [1, -2], 4);
            let mut random = Random::new(width as u64);
            let patches: Vec<usize> = (0..grid.patches()).filter(|_| random.uniform() < 0.6).collect();
            for instructions in Instructions::available() {
                let found = matches(instructions, &before, &now, &patches, search).expect("matches");
                assert_eq!(found.len(), patches.len());
                for m in found {
                    let similarity = |place: usize| -> f32 {
                        let product: f32 = before.row(place).iter().zip(now.row(m.patch)).map(|(a, b)| a * b).sum();
                        product / (before.norms()[place] * now.norms()[m.patch])
                    };
                    let (row, col) = grid.place(m.patch);
                    let reach = |place: &usize| match search {
                        Search::Everywhere => true,
                        Search::Within(radius) => grid.place(*place).0.abs_diff(row).max(grid.place(*place).1.abs_diff(col)) <= radius,
                    };
                    let best = (0..grid.patches()).filter(reach).map(similarity).fold(f32::NEG_INFINITY, f32::max);
                    assert!(reach(&m.source) && (m.similarity - best).abs() < TOLERANCE && (similarity(m.source) - best).abs() < TOLERANCE);
                }
            }
        }
    }

    #[test]
    fn what_moved_is_found_where_it_was_and_ties_stay_near() {
        let grid = Grid::new(8, 8).expect("a grid");
        let [before, now] = moved(grid, 64, [2, 1], 8);
        let patches: Vec<usize> = (0..grid.patches()).filter(|p| grid.place(*p).0 >= 2 && grid.place(*p).1 >= 1).collect();
        for m in matches(Instructions::best(), &before, &now, &patches, Search::Everywhere).expect("matches") {
            assert_eq!(m.displacement(grid), [1.0, 2.0]);
        }
        let flat = FeatureMap::from_values(Instructions::best(), grid, 2, &vec![1.0; 128]).expect("a map");
        for m in matches(Instructions::best(), &flat, &flat, &patches, Search::Within(3)).expect("matches") {
            assert_eq!(m.displacement(grid), [0.0, 0.0]);
        }
        assert!(matches(Instructions::best(), &flat, &flat, &[64], Search::Everywhere).is_err());
        assert!(matches(Instructions::best(), &flat, &flat, &[], Search::Everywhere).expect("none").is_empty());
    }
}
