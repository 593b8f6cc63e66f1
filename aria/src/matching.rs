//! Finds where each dynamic patch was before (equation 2): at the patch of the warped earlier frame
//! whose features are most similar.
//!
//! Neighbouring queries are compared in pairs with four candidates at a time, so that each loaded
//! number serves several products. Up to sixteen queries, whose features stay in the first-level
//! cache, share one pass over the candidates. Of equally similar candidates the nearest is taken.

use crate::{
    AriaError, FeatureMap, Grid, Instructions, Votes,
    candidates::{Candidates, Origin},
    features::{cosine, product},
    quantized::{Quantized, Selection},
    simd::{ROWS, SOON, SimdVector, integer_dots, vectorised},
    sweep::{AROUND, Search, Sweep, offset},
    votes::Peak,
};

/// Largest distance of the queries of a pair; beyond it they share few candidates.
const NEAR: usize = 4;

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
    /// Its displacement from the earlier frame to this one, without the camera's motion, in
    /// patches.
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
pub fn matches(
    instructions: Instructions,
    earlier: &FeatureMap,
    current: &FeatureMap,
    patches: &[usize],
    search: Search,
) -> Result<Vec<Match>, AriaError> {
    Ok(matches_and_votes(instructions, earlier, current, patches, search)?.0)
}

/// The same, and how well each displacement explains all of `patches` together.
///
/// # Errors
/// As [`matches()`].
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
    let mut quantized = Quantized::new(grid, current.width());
    let sought = Sought::new(instructions, grid, patches, |patch| {
        (current.row(patch), current.norms()[patch])
    });
    let queries = sought.queries();
    let mut found: Vec<Match> = queries.iter().map(Query::unmatched).collect();
    let votes = looked_for(
        instructions,
        &mut Candidates::new(&mut quantized, Origin::Features(earlier)),
        &queries,
        search,
        &mut found,
    );
    for Match { patch, source, similarity } in &mut found {
        *similarity = cosine(
            product(instructions, earlier.row(*source), current.row(*patch)),
            earlier.norms()[*source],
            current.norms()[*patch],
        );
    }
    Ok((found, votes))
}

/// How well each displacement explains all queries; and the best match of each, if there is room
/// for them.
pub(crate) fn looked_for(
    instructions: Instructions,
    earlier: &mut Candidates,
    queries: &[Query],
    search: Search,
    best: &mut [Match],
) -> Votes {
    let mut votes = Votes::new(earlier.grid(), search);
    search_all(instructions, earlier, queries, &mut votes, best);
    votes
}

/// The displacement that explains all queries best: what [`Votes::displacement`] of all says, for a
/// fraction of the work. A displacement costs something, so that how well those next to none do
/// bounds how far away a better one can be. Within that, every second one is tried, and then those
/// around the best of these: neighbouring patches resemble each other, so that a peak shows from
/// beside it. Where none reaches the similarity `least`, all within the bound are tried. Queries of
/// one parity stand together.
pub(crate) fn shared_displacement(
    instructions: Instructions,
    earlier: &mut Candidates,
    queries: &[Query],
    search: Search,
    least: f32,
) -> Option<[f32; 2]> {
    let mut shared = Shared { reach: search.reach(earlier.grid()), instructions, earlier, queries };
    if search == Search::Everywhere {
        return shared.votes(Sweep::all(shared.reach)).displacement();
    }
    let still = shared.around([0; 2])?;
    let farthest = shared.farthest(&still);
    let close = shared.closest(still, farthest, least);
    // Beyond the farthest, the neighbours of a peak.
    close
        .unwrap_or_else(|| shared.votes(Sweep::all((farthest + 1).min(shared.reach))))
        .displacement()
}

/// Peaks of the coarse sweep that are refined.
const PEAKS: usize = 2;

/// A search for the displacement of all queries together.
struct Shared<'a, 'b, 'c> {
    instructions: Instructions,
    earlier: &'a mut Candidates<'b>,
    queries: &'a [Query<'c>],
    reach: usize,
}

/// Votes for a displacement and its neighbours; the best of these, and its mean.
struct Close {
    votes: Votes,
    around: [isize; 2],
    best: [isize; 2],
    mean: f32,
}

impl Shared<'_, '_, '_> {
    fn votes(&mut self, sweep: Sweep) -> Votes {
        let mut votes = Votes::among(sweep);
        search_all(self.instructions, self.earlier, self.queries, &mut votes, &mut []);
        votes
    }

    fn around(&mut self, around: [isize; 2]) -> Option<Close> {
        let votes = self.votes(Sweep::around(around, self.reach));
        let [peak] = votes.peaks();
        peak.map(|(mean, best)| Close { votes, around, best, mean })
    }

    /// How far away, within reach, a displacement can be that is better than those next to none.
    fn farthest(&self, still: &Close) -> usize {
        still.votes.farthest(still.mean).min(self.reach)
    }

    /// The highest of the coarse sweep. Queries of one parity share their candidates.
    fn coarse(&mut self, reach: usize) -> [Option<Peak>; PEAKS] {
        let mut votes = Votes::among(Sweep::coarse(reach));
        for class in self.queries.chunk_by(|a, b| a.parity() == b.parity()) {
            search_all(self.instructions, self.earlier, class, &mut votes, &mut []);
        }
        votes.peaks()
    }

    /// Votes around the best displacement, if it reaches a similarity.
    fn closest(&mut self, still: Close, farthest: usize, least: f32) -> Option<Votes> {
        let peaks =
            self.coarse(farthest).into_iter().flatten().filter(|(_, place)| *place != still.around);
        let elsewhere: Vec<Close> = peaks.filter_map(|(_, place)| self.around(place)).collect();
        let close = elsewhere
            .into_iter()
            .chain([still])
            .filter(|close| close.mean >= least)
            .max_by(|a, b| a.mean.total_cmp(&b.mean))?;
        if close.best == close.around {
            Some(close.votes)
        } else {
            self.around(close.best).map(|close| close.votes)
        }
    }
}

/// A patch to match.
#[derive(Clone, Copy)]
pub(crate) struct Query<'a> {
    patch: usize,
    row: usize,
    col: usize,
    features: &'a [i16],
    /// One over their length.
    inverse: f32,
}

/// The patches to match, and their features.
pub(crate) struct Sought<'a> {
    grid: Grid,
    patches: &'a [usize],
    features: Selection,
}

impl<'a> Sought<'a> {
    /// Patches, given the features and their length of each.
    pub fn new<'b>(
        instructions: Instructions,
        grid: Grid,
        patches: &'a [usize],
        current: impl Fn(usize) -> (&'b [f32], f32),
    ) -> Self {
        let rows: Vec<_> = patches.iter().map(|patch| current(*patch)).collect();
        Self { grid, patches, features: Selection::of(instructions, &rows) }
    }

    /// One for each.
    pub fn queries(&self) -> Vec<Query<'_>> {
        let query = |(patch, (features, inverse)): (&usize, _)| {
            let (row, col) = self.grid.place(*patch);
            Query { patch: *patch, row, col, features, inverse }
        };
        self.patches.iter().zip(self.features.iter()).map(query).collect()
    }
}

impl Query<'_> {
    fn parity(&self) -> usize {
        parity(self.row, self.col)
    }

    /// Before any candidate was seen.
    pub fn unmatched(&self) -> Match {
        Match { patch: self.patch, source: self.patch, similarity: f32::NEG_INFINITY }
    }
}

/// Patches of the same parity share the candidates of a coarse sweep: one of four.
pub(crate) fn parity(row: usize, col: usize) -> usize {
    Sweep::COARSE * (row % Sweep::COARSE) + col % Sweep::COARSE
}

/// One or two queries that share most of their candidates, and the first and last row, first and
/// last column of these.
struct Pair {
    first: usize,
    count: usize,
    rows: [usize; 2],
    cols: [usize; 2],
}

impl Pair {
    /// `None` where all candidates lie outside of the grid.
    fn new(
        grid: Grid,
        sweep: Sweep,
        queries: &[Query],
        first: usize,
        count: usize,
    ) -> Option<Self> {
        let mut pair = Self { first, count, rows: [usize::MAX, 0], cols: [usize::MAX, 0] };
        for Query { row, col, .. } in &queries[first..first + count] {
            let (rows, cols) = sweep.candidates(grid, *row, *col)?;
            for (bounds, [from, to]) in [(&mut pair.rows, rows), (&mut pair.cols, cols)] {
                *bounds = [bounds[0].min(from), bounds[1].max(to)];
            }
        }
        Some(pair)
    }

    /// All queries, in pairs where two lie close to each other in a row.
    fn all(grid: Grid, sweep: Sweep, queries: &[Query]) -> Vec<Self> {
        let everywhere = sweep.cols[1] + 1 >= grid.cols().max(grid.rows()) as isize;
        let near =
            |a: &Query, b: &Query| everywhere || (a.row == b.row && a.col.abs_diff(b.col) <= NEAR);
        let (mut pairs, mut first) = (Vec::with_capacity(queries.len()), 0);
        while first < queries.len() {
            let two = queries.get(first + 1).is_some_and(|second| near(&queries[first], second));
            let pair = if two { Self::new(grid, sweep, queries, first, 2) } else { None };
            let count = pair.as_ref().map_or(1, |pair| pair.count);
            pairs.extend(pair.or_else(|| Self::new(grid, sweep, queries, first, 1)));
            first += count;
        }
        pairs
    }
}

/// Queries whose features stay in the nearest cache while candidates go by.
const TOGETHER: usize = 16;

/// Compares all candidates of a sweep.
fn search_all(
    instructions: Instructions,
    earlier: &mut Candidates,
    queries: &[Query],
    votes: &mut Votes,
    best: &mut [Match],
) {
    queries.iter().for_each(|query| votes.count(earlier.grid(), query.patch));
    if best.is_empty() && votes.sweep().is_around() {
        search_neighbours(instructions, earlier, queries, votes);
    } else {
        search_pairs(instructions, earlier, queries, votes, best);
    }
}

vectorised!(fn search_neighbours(earlier: &mut Candidates, queries: &[Query], votes: &mut Votes) = search_around);

/// # Safety
/// As [`SimdVector`].
#[inline(always)]
unsafe fn search_around<L: SimdVector>(
    earlier: &mut Candidates,
    queries: &[Query],
    votes: &mut Votes,
) {
    let (grid, sweep) = (earlier.grid(), votes.sweep());
    for query in queries {
        let Some(([top, bottom], [left, right])) = sweep.candidates(grid, query.row, query.col)
        else {
            continue;
        };
        // What fills up three rows of three is compared and not counted.
        let places: [usize; AROUND * AROUND] = std::array::from_fn(|n| {
            grid.index((top + n / AROUND).min(bottom), (left + n % AROUND).min(right))
        });
        // SAFETY: the caller has the instructions of `L`.
        let [products] = unsafe {
            places.iter().for_each(|place| earlier.make::<L>(*place));
            integer_dots::<L, 1, { AROUND * AROUND }>(
                [query.features],
                places.map(|place| earlier.rows().row(place)),
            )
        };
        for (row, (products, places)) in
            (top..=bottom).zip(products.chunks(AROUND).zip(places.chunks(AROUND)))
        {
            let similarities: [f32; AROUND] = std::array::from_fn(|n| {
                products[n] as f32 * (query.inverse * earlier.rows().inverse(places[n]))
            });
            votes.add(
                offset(query.row, row),
                offset(query.col, left),
                &similarities[..=right - left],
            );
        }
    }
}

vectorised!(fn search_pairs(earlier: &mut Candidates, queries: &[Query], votes: &mut Votes, best: &mut [Match]) = search_together);

/// # Safety
/// As [`SimdVector`].
#[inline(always)]
unsafe fn search_together<L: SimdVector>(
    earlier: &mut Candidates,
    queries: &[Query],
    votes: &mut Votes,
    best: &mut [Match],
) {
    let (grid, sweep) = (earlier.grid(), votes.sweep());
    let step = sweep.step();
    let pairs = Pair::all(grid, sweep, queries);
    for pairs in pairs.chunks(TOGETHER / 2) {
        let first =
            |of: fn(&Pair) -> [usize; 2]| pairs.iter().map(|pair| of(pair)[0]).min().unwrap_or(1);
        let last =
            |of: fn(&Pair) -> [usize; 2]| pairs.iter().map(|pair| of(pair)[1]).max().unwrap_or(0);
        let rows = first(|pair| pair.rows)..=last(|pair| pair.rows);
        for row in rows.step_by(step) {
            for pair in pairs.iter().filter(|pair| pair.rows[0] <= row && row <= pair.rows[1]) {
                for place in
                    (pair.cols[0]..=pair.cols[1]).step_by(step).map(|col| grid.index(row, col))
                {
                    earlier.prefetch(place + SOON * step);
                    // SAFETY: the caller has the instructions of `L`.
                    unsafe { earlier.make::<L>(place) };
                }
                // SAFETY: the caller has the instructions of `L`.
                unsafe {
                    search_row::<L>(
                        earlier.rows(),
                        row,
                        &queries[pair.first..pair.first + pair.count],
                        pair,
                        votes,
                        best,
                    );
                };
            }
        }
    }
}

/// Compares the candidates of a pair in a row.
///
/// # Safety
/// As [`SimdVector`].
#[inline(always)]
unsafe fn search_row<L: SimdVector>(
    earlier: &Quantized,
    row: usize,
    queries: &[Query],
    pair: &Pair,
    votes: &mut Votes,
    best: &mut [Match],
) {
    let (grid, sweep, step) = (earlier.grid(), votes.sweep(), votes.sweep().step());
    for col in (pair.cols[0]..=pair.cols[1]).step_by(step * ROWS) {
        // What fills up the last four is compared and not counted.
        let there = (((pair.cols[1] - col) >> sweep.doublings) + 1).min(ROWS);
        let places: [usize; ROWS] =
            std::array::from_fn(|r| grid.index(row, col + step * r.min(there - 1)));
        let candidates = places.map(|place| earlier.row(place));
        let mut products = [[0; ROWS]; 2];
        // SAFETY: the caller has the instructions of `L`.
        match queries {
            [a, b] => {
                // SAFETY: the caller has the instructions of `L`.
                products =
                    unsafe { integer_dots::<L, 2, ROWS>([a.features, b.features], candidates) }
            }
            // SAFETY: the caller has the instructions of `L`.
            [a] => [products[0]] = unsafe { integer_dots::<L, 1, ROWS>([a.features], candidates) },
            _ => {}
        }
        for (number, (query, products)) in queries.iter().zip(products).enumerate() {
            let similarities: [f32; ROWS] = std::array::from_fn(|r| {
                products[r] as f32 * (query.inverse * earlier.inverse(places[r]))
            });
            votes.add(offset(query.row, row), offset(query.col, col), &similarities[..there]);
            if let Some(best) = best.get_mut(pair.first + number) {
                best.consider(grid, sweep.rows[1] as usize, &places[..there], &similarities);
            }
        }
    }
}

impl Match {
    /// Takes the most similar of some candidates, the nearest among equals.
    fn consider(&mut self, grid: Grid, reach: usize, places: &[usize], similarities: &[f32]) {
        let (row, col) = grid.place(self.patch);
        let away =
            |place: usize| [grid.place(place).0.abs_diff(row), grid.place(place).1.abs_diff(col)];
        let far = |[rows, cols]: [usize; 2]| rows * rows + cols * cols;
        for (place, similarity) in places.iter().zip(similarities) {
            let within = away(*place).iter().all(|away| *away <= reach);
            let better = *similarity > self.similarity
                || (*similarity == self.similarity && far(away(*place)) < far(away(self.source)));
            if within && better {
                (self.source, self.similarity) = (*place, *similarity);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{TOLERANCE, Window, random::Random};

    /// Random features, and the same ones moved by rows and columns with a little noise.
    fn moved(grid: Grid, width: usize, [rows, cols]: [isize; 2], seed: u64) -> [FeatureMap; 2] {
        let mut random = Random::new(seed);
        let values: Vec<f32> =
            (0..grid.patches() * width).map(|_| random.normal() as f32).collect();
        let mut later = vec![0.0; values.len()];
        for patch in 0..grid.patches() {
            let (row, col) = grid.place(patch);
            let row = (row as isize - rows).rem_euclid(grid.rows() as isize) as usize;
            let col = (col as isize - cols).rem_euclid(grid.cols() as isize) as usize;
            let from = grid.index(row, col) * width;
            for feature in 0..width {
                later[patch * width + feature] =
                    values[from + feature] + 0.1 * random.normal() as f32;
            }
        }
        [values, later].map(|values| {
            FeatureMap::from_values(Instructions::best(), grid, width, &values).expect("a map")
        })
    }

    #[test]
    fn matches_are_the_most_similar_with_all_instructions() {
        let grid = Grid::new(7, 9).expect("a grid");
        for (width, search) in [
            (24, Search::Everywhere),
            (24, Search::Within(2)),
            (17, Search::Within(0)),
            (384, Search::Within(3)),
        ] {
            let [before, now] = moved(grid, width, [1, -2], 4);
            let mut random = Random::new(width as u64);
            let patches: Vec<usize> =
                (0..grid.patches()).filter(|_| random.uniform() < 0.6).collect();
            for instructions in Instructions::available() {
                let found =
                    matches(instructions, &before, &now, &patches, search).expect("matches");
                assert_eq!(found.len(), patches.len());
                for m in found {
                    let similarity = |place: usize| -> f32 {
                        let product: f32 = before
                            .row(place)
                            .iter()
                            .zip(now.row(m.patch))
                            .map(|(a, b)| a * b)
                            .sum();
                        product / (before.norms()[place] * now.norms()[m.patch])
                    };
                    let (row, col) = grid.place(m.patch);
                    let reach = |place: &usize| match search {
                        Search::Everywhere => true,
                        Search::Within(radius) => {
                            grid.place(*place)
                                .0
                                .abs_diff(row)
                                .max(grid.place(*place).1.abs_diff(col))
                                <= radius
                        }
                    };
                    let best = (0..grid.patches())
                        .filter(reach)
                        .map(similarity)
                        .fold(f32::NEG_INFINITY, f32::max);
                    assert!(
                        reach(&m.source)
                            && (m.similarity - best).abs() < TOLERANCE
                            && (similarity(m.source) - best).abs() < TOLERANCE
                    );
                }
            }
        }
    }

    /// Every patch is the mean of itself and its neighbours, as smooth as an encoder's output.
    fn smooth(map: &FeatureMap) -> FeatureMap {
        let grid = map.grid();
        let mean = |patch: usize| {
            let window =
                Window { row: grid.place(patch).0, col: grid.place(patch).1, rows: 1, cols: 1 }
                    .grown(grid, [1; 4]);
            let rows: Vec<&[f32]> =
                window.places().map(|(row, col)| map.row(grid.index(row, col))).collect();
            (0..map.width())
                .map(move |feature| rows.iter().map(|row| row[feature]).sum::<f32>())
                .collect::<Vec<f32>>()
        };
        let values: Vec<f32> = (0..grid.patches()).flat_map(mean).collect();
        FeatureMap::from_values(Instructions::best(), grid, map.width(), &values).expect("a map")
    }

    #[test]
    fn a_coarse_search_finds_what_a_full_one_finds() {
        let grid = Grid::new(22, 26).expect("a grid");
        for (moves, search) in [
            ([3, -5], Search::Within(8)),
            ([-2, 4], Search::Within(8)),
            ([7, 7], Search::Within(7)),
            ([1, 0], Search::Within(1)),
        ] {
            for rough in [true, false] {
                let maps = moved(grid, 48, moves, 6);
                let [before, now] = if rough { maps } else { maps.map(|map| smooth(&map)) };
                let patches = (9..13).flat_map(|row| (9..15).map(move |col| grid.index(row, col)));
                let patches: Vec<usize> = patches.collect();
                for instructions in Instructions::available() {
                    let sought = Sought::new(instructions, grid, &patches, |patch| {
                        (now.row(patch), now.norms()[patch])
                    });
                    let mut queries = sought.queries();
                    queries.sort_by_key(Query::parity);
                    let mut room = Quantized::new(grid, before.width());
                    let mut before = Candidates::new(&mut room, Origin::Features(&before));
                    let all = looked_for(instructions, &mut before, &queries, search, &mut [])
                        .displacement();
                    let found =
                        shared_displacement(instructions, &mut before, &queries, search, 0.5);
                    let [[x, y], [right, down]] =
                        [found, all].map(|place| place.expect("a displacement"));
                    assert!(
                        (x - right).hypot(y - down) < 1e-3,
                        "{moves:?} {x} {y}, {right} {down}"
                    );
                    assert!((x - moves[1] as f32).hypot(y - moves[0] as f32) < 0.5);
                    let mut shared = Shared {
                        instructions,
                        earlier: &mut before,
                        queries: &queries,
                        reach: search.reach(grid),
                    };
                    let still = shared.around([0; 2]).expect("votes");
                    let farthest = shared.farthest(&still);
                    assert!(
                        farthest
                            >= shared
                                .reach
                                .min(moves[0].unsigned_abs().max(moves[1].unsigned_abs())),
                        "{farthest}"
                    );
                    assert!(
                        rough || shared.closest(still, farthest, 0.5).is_some(),
                        "smooth features need no full search"
                    );
                }
            }
        }
    }

    #[test]
    fn what_moved_is_found_where_it_was_and_ties_stay_near() {
        let grid = Grid::new(8, 8).expect("a grid");
        let [before, now] = moved(grid, 64, [2, 1], 8);
        let patches: Vec<usize> = (0..grid.patches())
            .filter(|p| grid.place(*p).0 >= 2 && grid.place(*p).1 >= 1)
            .collect();
        for m in matches(Instructions::best(), &before, &now, &patches, Search::Everywhere)
            .expect("matches")
        {
            assert_eq!(m.displacement(grid), [1.0, 2.0]);
        }
        let flat =
            FeatureMap::from_values(Instructions::best(), grid, 2, &vec![1.0; 128]).expect("a map");
        for m in matches(Instructions::best(), &flat, &flat, &patches, Search::Within(3))
            .expect("matches")
        {
            assert_eq!(m.displacement(grid), [0.0, 0.0]);
        }
        assert!(matches(Instructions::best(), &flat, &flat, &[64], Search::Everywhere).is_err());
        assert!(
            matches(Instructions::best(), &flat, &flat, &[], Search::Everywhere)
                .expect("none")
                .is_empty()
        );
    }
}
