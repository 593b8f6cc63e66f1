//! Where was each dynamic patch before? Equation (2): the patch of the warped earlier frame whose features are most similar.
//!
//! Queries that are near each other are compared in pairs with four candidates at a time: each number loaded serves several products. Candidates go by once for
//! up to sixteen queries, whose features stay in the nearest cache meanwhile. Ties go to the nearest candidate.

use crate::{
    AriaError, FeatureMap, Grid, Instructions, Votes,
    lanes::{Lanes, ROWS, dots, vectorised},
    merged::Rows,
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

impl Search {
    /// Most rows or columns between a patch and a candidate.
    pub(crate) fn reach(self, grid: Grid) -> usize {
        let longest = grid.rows().max(grid.cols()) - 1;
        if let Self::Within(radius) = self { radius.min(longest) } else { longest }
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
    let queries: Vec<Query> = patches.iter().map(|patch| Query::new(grid, *patch, (current.row(*patch), current.norms()[*patch]))).collect();
    let mut found: Vec<Match> = queries.iter().map(Query::unmatched).collect();
    let votes = looked_for(instructions, Rows::of(earlier), &queries, search, &mut found);
    Ok((found, votes))
}

/// How well each displacement explains all queries; and the best match of each, if there is room for them.
pub(crate) fn looked_for(instructions: Instructions, earlier: Rows, queries: &[Query], search: Search, best: &mut [Match]) -> Votes {
    let mut votes = Votes::new(earlier.grid(), search);
    search_all(instructions, earlier, queries, search, &mut votes, best);
    votes
}

/// A patch that is looked for.
#[derive(Clone, Copy)]
pub(crate) struct Query<'a> {
    patch: usize,
    row: usize,
    col: usize,
    features: &'a [f32],
    /// One over their length.
    inverse: f32,
}

impl<'a> Query<'a> {
    /// A patch with its features and their length.
    pub fn new(grid: Grid, patch: usize, (features, norm): (&'a [f32], f32)) -> Self {
        let (row, col) = grid.place(patch);
        Self { patch, row, col, features, inverse: inverse(norm) }
    }

    /// Before any candidate was seen.
    pub fn unmatched(&self) -> Match {
        Match { patch: self.patch, source: self.patch, similarity: f32::NEG_INFINITY }
    }
}

/// One over a length; 0 for none, which is similar to nothing.
#[inline(always)]
fn inverse(norm: f32) -> f32 {
    if norm > 0.0 { 1.0 / norm } else { 0.0 }
}

/// One or two queries that share most of their candidates, and the first and last row, first and last column of these.
struct Pair {
    first: usize,
    count: usize,
    rows: [usize; 2],
    cols: [usize; 2],
}

impl Pair {
    fn new(grid: Grid, reach: usize, queries: &[Query], first: usize, count: usize) -> Self {
        let mut pair = Self { first, count, rows: [usize::MAX, 0], cols: [usize::MAX, 0] };
        for Query { row, col, .. } in &queries[first..first + count] {
            for (bounds, at, sides) in [(&mut pair.rows, row, grid.rows()), (&mut pair.cols, col, grid.cols())] {
                *bounds = [bounds[0].min(at.saturating_sub(reach)), bounds[1].max((at + reach).min(sides - 1))];
            }
        }
        pair
    }

    /// All queries, in pairs where two lie close to each other in a row.
    fn all(grid: Grid, search: Search, queries: &[Query]) -> Vec<Self> {
        let near = |a: &Query, b: &Query| search == Search::Everywhere || (a.row == b.row && a.col.abs_diff(b.col) <= NEAR);
        let (mut pairs, mut first) = (Vec::with_capacity(queries.len()), 0);
        while first < queries.len() {
            let count = if queries.get(first + 1).is_some_and(|second| near(&queries[first], second)) { 2 } else { 1 };
            pairs.push(Self::new(grid, search.reach(grid), queries, first, count));
            first += count;
        }
        pairs
    }
}

/// Queries whose features stay in the nearest cache while candidates go by.
const TOGETHER: usize = 16;

vectorised!(fn search_all(earlier: Rows, queries: &[Query], search: Search, votes: &mut Votes, best: &mut [Match]) = search_together);

/// # Safety
/// As [`Lanes`].
#[inline(always)]
unsafe fn search_together<L: Lanes>(earlier: Rows, queries: &[Query], search: Search, votes: &mut Votes, best: &mut [Match]) {
    let (grid, reach) = (earlier.grid(), search.reach(earlier.grid()));
    queries.iter().for_each(|query| votes.count(grid, query.patch));
    let pairs = Pair::all(grid, search, queries);
    for pairs in pairs.chunks(TOGETHER / 2) {
        let first = |of: fn(&Pair) -> [usize; 2]| pairs.iter().map(|pair| of(pair)[0]).min().unwrap_or(1);
        let last = |of: fn(&Pair) -> [usize; 2]| pairs.iter().map(|pair| of(pair)[1]).max().unwrap_or(0);
        let (rows, cols) = (first(|pair| pair.rows)..=last(|pair| pair.rows), first(|pair| pair.cols)..=last(|pair| pair.cols));
        for row in rows {
            for col in cols.clone().step_by(ROWS) {
                // What fills up the last four is compared and not counted.
                let there = (cols.end() + 1 - col).min(ROWS);
                let places: [usize; ROWS] = std::array::from_fn(|r| grid.index(row, col + r.min(there - 1)));
                let candidates: [&[f32]; ROWS] = std::array::from_fn(|r| earlier.row(places[r]));
                let inverses: [f32; ROWS] = std::array::from_fn(|r| inverse(earlier.norm(places[r])));
                for pair in pairs.iter().filter(|pair| pair.rows[0] <= row && row <= pair.rows[1] && pair.cols[0] < col + ROWS && col <= pair.cols[1]) {
                    let mut products = [[0.0; ROWS]; 2];
                    // SAFETY: as for this function.
                    match &queries[pair.first..pair.first + pair.count] {
                        [a, b] => products = unsafe { dots::<L, 2>([a.features, b.features], candidates) },
                        [a] => [products[0]] = unsafe { dots::<L, 1>([a.features], candidates) },
                        _ => {}
                    }
                    for (number, products) in (pair.first..pair.first + pair.count).zip(products) {
                        let query = &queries[number];
                        let similarities: [f32; ROWS] = std::array::from_fn(|r| products[r] * query.inverse * inverses[r]);
                        let [down, across] = [query.row as isize - row as isize, query.col as isize - col as isize];
                        votes.add(down, across, &similarities[..there]);
                        if let Some(best) = best.get_mut(number) {
                            best.consider(grid, reach, &places[..there], &similarities);
                        }
                    }
                }
            }
        }
    }
}

impl Match {
    /// Takes the most similar of some candidates, the nearest among equals.
    fn consider(&mut self, grid: Grid, reach: usize, places: &[usize], similarities: &[f32]) {
        let (row, col) = grid.place(self.patch);
        let away = |place: usize| [grid.place(place).0.abs_diff(row), grid.place(place).1.abs_diff(col)];
        let far = |[rows, cols]: [usize; 2]| rows * rows + cols * cols;
        for (place, similarity) in places.iter().zip(similarities) {
            let within = away(*place).iter().all(|away| *away <= reach);
            let better = *similarity > self.similarity || (*similarity == self.similarity && far(away(*place)) < far(away(self.source)));
            if within && better {
                (self.source, self.similarity) = (*place, *similarity);
            }
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
