//! Regions: dynamic patches that touch each other, filled up to their convex hull (section 4.2.1),
//! so that the inside of a moving object is updated too.
//!
//! Patches touch at sides and corners. A region takes the patches whose centre lies in the hull of
//! its patches' corners; where hulls overlap, the region with more dynamic patches has them.

use crate::{Grid, PatchSet};

/// Patches that moved together.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// The dynamic ones.
    pub dynamic: Vec<usize>,
    /// Those and what their hull holds.
    pub filled: PatchSet,
}

/// Groups of at least `smallest` dynamic patches, the largest first.
#[must_use]
pub fn group(dynamic: &PatchSet, smallest: usize) -> Vec<Group> {
    let grid = dynamic.grid();
    let mut components = components(dynamic);
    components.retain(|patches| patches.len() >= smallest);
    components.sort_by_key(|patches| std::cmp::Reverse(patches.len()));
    let mut taken = PatchSet::new(grid);
    let region = |dynamic: Vec<usize>| {
        let mut outline = Outline::new(grid);
        dynamic.iter().for_each(|patch| outline.add(grid.place(*patch)));
        let mut filled = outline.filled();
        filled.exclude(&taken);
        dynamic.iter().for_each(|patch| filled.insert(*patch));
        taken.extend(&filled);
        Group { dynamic, filled }
    };
    components.into_iter().map(region).collect()
}

/// Patches of a row that lie side by side, and a run of the same component, itself or one before
/// it.
struct Run {
    row: usize,
    from: usize,
    to: usize,
    before: usize,
}

/// Patches that touch at a side or corner, in order of their first patch.
pub(crate) fn components(set: &PatchSet) -> Vec<Vec<usize>> {
    let mut runs = joined(set);
    let (mut all, mut places): (Vec<Vec<usize>>, _) = (Vec::new(), vec![0; runs.len()]);
    for run in 0..runs.len() {
        let first = runs[runs[run].before].before;
        if first == run {
            places[run] = all.len();
            all.push(Vec::new());
        }
        runs[run].before = first;
        let Run { row, from, to, .. } = runs[run];
        all[places[first]].extend((from..to).map(|col| set.grid().index(row, col)));
    }
    all
}

/// The runs of a set, those that touch joined.
fn joined(set: &PatchSet) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (row, col) in set.places() {
        match runs.last_mut() {
            Some(run) if (run.row, run.to) == (row, col) => run.to += 1,
            _ => runs.push(Run { row, from: col, to: col + 1, before: runs.len() }),
        }
    }
    // The first run of the row above that the next one may touch, and the first of its own row.
    let (mut above, mut own) = (0, 0);
    for run in 0..runs.len() {
        let Run { row, from, to, .. } = runs[run];
        if row != runs[own].row {
            (above, own) = (own, run);
        }
        while above < own && (runs[above].row + 1 < row || runs[above].to < from) {
            above += 1;
        }
        let touching = (above..own).take_while(|other| runs[*other].from <= to).count();
        for other in above..above + touching {
            join(&mut runs, run, other);
        }
    }
    runs
}

/// Makes one component of those of two runs.
fn join(runs: &mut [Run], one: usize, other: usize) {
    let first = |mut run: usize| {
        while runs[run].before != run {
            run = runs[run].before;
        }
        run
    };
    let (one, other) = (first(one), first(other));
    runs[one.max(other)].before = one.min(other);
}

/// Twice the coordinates of a corner or centre of a patch: whole numbers.
type Corner = [i64; 2];

/// The first and last corner of some patches on each line between rows, in columns.
pub(crate) struct Outline {
    grid: Grid,
    ends: Vec<[u32; 2]>,
}

impl Outline {
    /// Of no patch.
    pub fn new(grid: Grid) -> Self {
        Self { grid, ends: vec![[u32::MAX, 0]; grid.rows() + 1] }
    }

    /// Adds a patch of the grid.
    pub fn add(&mut self, (row, col): (usize, usize)) {
        for [left, right] in &mut self.ends[row..row + 2] {
            (*left, *right) = ((*left).min(col as u32), (*right).max(col as u32 + 1));
        }
    }

    /// Adds the patches of another one.
    pub fn extend(&mut self, other: &Self) {
        self.ends
            .iter_mut()
            .zip(&other.ends)
            .for_each(|(a, b)| *a = [a[0].min(b[0]), a[1].max(b[1])]);
    }

    /// The patches whose centre lies in the convex hull of the corners, the border included.
    pub fn filled(&self) -> PatchSet {
        fill(self.grid, &self.ends)
    }
}

fn fill(grid: Grid, ends: &[[u32; 2]]) -> PatchSet {
    // Only the first and last corner of each line can be on the hull.
    let some = ends.iter().enumerate().filter(|(_, [left, right])| left < right);
    let lines: Vec<_> = some
        .map(|(line, [left, right])| (2 * line as i64, 2 * i64::from(*left), 2 * i64::from(*right)))
        .collect();
    let left = chain(lines.iter().map(|&(y, left, _)| [left, y]), 1);
    let right = chain(lines.iter().map(|&(y, _, right)| [right, y]), -1);
    let mut filled = PatchSet::new(grid);
    let (Some(first), Some(last)) = (left.first(), left.last()) else { return filled };
    for row in (first[1] / 2) as usize..(last[1] / 2) as usize {
        let y = 2 * row as i64 + 1;
        // A centre at 2 c + 1 between the two chains.
        let from = at(&left, y, |x, by| -(-x).div_euclid(by)).div_euclid(2);
        let to = at(&right, y, i64::div_euclid);
        filled.insert_run(row, from.max(0) as usize, (to + 1).div_euclid(2).max(0) as usize);
    }
    filled
}

/// The part of the convex hull that faces left (`side` 1) or right (-1), of points from top to
/// bottom: Andrew's monotone chain.
fn chain(points: impl Iterator<Item = Corner>, side: i64) -> Vec<Corner> {
    let mut hull: Vec<Corner> = Vec::new();
    for point in points {
        while let [.., a, b] = hull[..] {
            let turn = (b[0] - a[0]) * (point[1] - a[1]) - (b[1] - a[1]) * (point[0] - a[0]);
            // `b` stays if it lies further out than the line from `a` to `point`.
            if turn * side < 0 {
                break;
            }
            hull.pop();
        }
        hull.push(point);
    }
    hull
}

/// Where a chain crosses the height `y`, rounded by `divide`.
fn at(chain: &[Corner], y: i64, divide: impl Fn(i64, i64) -> i64) -> i64 {
    let next = chain.partition_point(|corner| corner[1] < y).clamp(1, chain.len() - 1);
    let ([ax, ay], [bx, by]) = (chain[next - 1], chain[next]);
    ax + divide((bx - ax) * (y - ay), by - ay)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn grid() -> Grid {
        Grid::new(29, 47).expect("a grid")
    }

    /// In the hull if no edge between two corners has all corners on one side and the centre on the
    /// other.
    fn by_definition(grid: Grid, patches: &[usize]) -> Vec<usize> {
        let mut corners: Vec<Corner> = Vec::new();
        for (row, col) in patches.iter().map(|p| grid.place(*p)) {
            for (r, c) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                corners.push([2 * (col + c) as i64, 2 * (row + r) as i64]);
            }
        }
        corners.sort_unstable();
        corners.dedup();
        let side = |a: Corner, b: Corner, p: Corner| {
            ((b[0] - a[0]) * (p[1] - a[1]) - (b[1] - a[1]) * (p[0] - a[0])).signum()
        };
        let pairs = corners
            .iter()
            .flat_map(|a| corners.iter().map(move |b| (*a, *b)))
            .filter(|(a, b)| a != b);
        let edges: Vec<_> =
            pairs.filter(|&(a, b)| corners.iter().all(|c| side(a, b, *c) >= 0)).collect();
        let inside = |patch: &usize| {
            let (row, col) = grid.place(*patch);
            edges.iter().all(|&(a, b)| side(a, b, [2 * col as i64 + 1, 2 * row as i64 + 1]) >= 0)
        };
        (0..grid.patches()).filter(inside).collect()
    }

    #[test]
    fn hulls_are_filled_as_defined() {
        let mut random = Random::new(5);
        let small = Grid::new(9, 11).expect("a grid");
        for _ in 0..300 {
            let count = 1 + random.below(6);
            let mut patches: Vec<usize> =
                (0..count).map(|_| random.below(small.patches())).collect();
            patches.sort_unstable();
            patches.dedup();
            let (mut outline, mut half) = (Outline::new(small), Outline::new(small));
            patches.iter().step_by(2).for_each(|patch| outline.add(small.place(*patch)));
            patches.iter().skip(1).step_by(2).for_each(|patch| half.add(small.place(*patch)));
            outline.extend(&half);
            assert_eq!(
                outline.filled().iter().collect::<Vec<_>>(),
                by_definition(small, &patches),
                "{patches:?}"
            );
        }
    }

    #[test]
    fn components_are_what_touches() {
        let (mut random, grid) = (Random::new(6), Grid::new(8, 13).expect("a grid"));
        for round in 0..200 {
            let set = PatchSet::of(grid, |_| random.uniform() < 0.1 + 0.004 * f64::from(round));
            // The least patch that is reached from each by going from neighbour to neighbour.
            let mut least: Vec<usize> = (0..grid.patches()).collect();
            let near = |a: usize, b: usize| {
                grid.place(a).0.abs_diff(grid.place(b).0) <= 1
                    && grid.place(a).1.abs_diff(grid.place(b).1) <= 1
            };
            let pairs: Vec<(usize, usize)> = set
                .iter()
                .flat_map(|a| set.iter().filter(move |b| near(a, *b)).map(move |b| (a, b)))
                .collect();
            while let Some((a, b)) = pairs.iter().find(|(a, b)| least[*b] < least[*a]) {
                least[*a] = least[*b];
            }
            let firsts = set.iter().filter(|patch| least[*patch] == *patch);
            let expected: Vec<Vec<usize>> = firsts
                .map(|first| set.iter().filter(|patch| least[*patch] == first).collect())
                .collect();
            assert_eq!(components(&set), expected);
        }
    }

    #[test]
    fn the_outline_of_a_box_is_filled_and_diagonals_touch() {
        let grid = grid();
        let outline = |patch: usize| {
            let (row, col) = grid.place(patch);
            (3..=8).contains(&row)
                && (5..=12).contains(&col)
                && (row == 3 || row == 8 || col == 5 || col == 12)
        };
        let groups = group(&PatchSet::of(grid, outline), 1);
        assert_eq!(groups.len(), 1);
        assert_eq!((groups[0].dynamic.len(), groups[0].filled.count()), (24, 48));
        let stairs =
            PatchSet::of(grid, |patch| patch == grid.index(0, 0) || patch == grid.index(1, 1));
        assert_eq!(group(&stairs, 1).len(), 1);
        assert_eq!(group(&stairs, 3).len(), 0);
        assert!(group(&PatchSet::new(grid), 1).is_empty());
    }

    #[test]
    fn every_dynamic_patch_is_in_one_region_and_regions_share_none() {
        let mut random = Random::new(9);
        for share in [0.02, 0.1, 0.3, 0.6, 1.0] {
            let dynamic = PatchSet::of(grid(), |_| random.uniform() < share);
            let groups = group(&dynamic, 1);
            let mut all = PatchSet::new(grid());
            groups.iter().for_each(|g| all.extend(&g.filled));
            assert_eq!(all.shared(&dynamic), dynamic.count());
            assert_eq!(groups.iter().map(|g| g.dynamic.len()).sum::<usize>(), dynamic.count());
            for (index, group) in groups.iter().enumerate() {
                assert!(group.dynamic.iter().all(|patch| group.filled.contains(*patch)));
                let others = groups.iter().enumerate().filter(|(other, _)| *other != index);
                // A hull never takes another group's filled patches; dynamic patches inside a
                // larger hull belong to both.
                for (_, other) in others {
                    let shared = group.filled.shared(&other.filled);
                    assert!(shared <= group.dynamic.len().min(other.dynamic.len()));
                }
            }
        }
    }
}
