//! Windows for cycles that no region asks for ([`WholeWindows::spare`](crate::WholeWindows)): where
//! the latest full frame differs most from patch to patch, because warping blurs it most there.

use crate::{
    FeatureMap, Grid, Instructions, PatchFlow, PatchSet, Window,
    features::{cosine, product},
};

/// How much a patch counts that the full frame did not show: as one that resembles no neighbour.
const UNSEEN: f32 = 1.0;

/// For each patch of a full frame, 1 - the mean cosine similarity to its neighbours to the right and
/// below.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Detail {
    values: Vec<f32>,
}

impl Detail {
    /// Of a full frame.
    pub fn of(instructions: Instructions, features: &FeatureMap) -> Self {
        let grid = features.grid();
        let differs = |a: usize, b: usize| {
            let dot = product(instructions, features.row(a), features.row(b));
            1.0 - cosine(dot, features.norms()[a], features.norms()[b])
        };
        let value = |patch: usize| {
            let (row, col) = grid.place(patch);
            let right = (col + 1 < grid.cols()).then(|| differs(patch, patch + 1));
            let below = (row + 1 < grid.rows()).then(|| differs(patch, patch + grid.cols()));
            let count = usize::from(right.is_some()) + usize::from(below.is_some());
            (right.unwrap_or(0.0) + below.unwrap_or(0.0)) / count.max(1) as f32
        };
        Self { values: (0..grid.patches()).map(value).collect() }
    }

    /// At most `most` windows of `size` patches of the frame that `flow` leads to, those first that
    /// hold most detail in patches outside of `fresh` and of each other; none without any.
    pub fn windows(
        &self,
        flow: &PatchFlow,
        fresh: &PatchSet,
        size: [usize; 2],
        most: usize,
    ) -> Vec<Window> {
        let grid = flow.grid();
        let now = |(patch, source): (usize, &[f32; 2])| match grid.at(*source) {
            _ if fresh.contains(patch) => 0.0,
            Some(source) => self.values.get(source).copied().unwrap_or(UNSEEN),
            None => UNSEEN,
        };
        let mut detail: Vec<f32> = flow.sources().iter().enumerate().map(now).collect();
        let mut chosen = Vec::with_capacity(most);
        while chosen.len() < most
            && let Some(window) = fullest(grid, size, &detail)
        {
            window.places().for_each(|(row, col)| detail[grid.index(row, col)] = 0.0);
            chosen.push(window);
        }
        chosen
    }
}

/// The window of a size with the largest sum, half a window from one to the next; none where all
/// sums are 0.
fn fullest(grid: Grid, [rows, cols]: [usize; 2], values: &[f32]) -> Option<Window> {
    let starts = |length: usize, side: usize| {
        let last = length.saturating_sub(side);
        (0..last).step_by((side / 2).max(1)).chain([last])
    };
    let sum = |window: Window| -> f32 {
        window.places().map(|(row, col)| values[grid.index(row, col)]).sum()
    };
    let places = starts(grid.rows(), rows)
        .flat_map(|row| starts(grid.cols(), cols).map(move |col| Window { row, col, rows, cols }));
    let sums = places.map(|window| (sum(window), window));
    let best = sums.reduce(|best, next| if next.0 > best.0 { next } else { best })?;
    (best.0 > 0.0).then_some(best.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_go_where_patches_differ_and_not_where_they_are_fresh() {
        let (grid, best) = (Grid::new(8, 12).expect("a grid"), Instructions::best());
        // A thing of other features in rows 5 to 6, columns 8 to 9.
        let thing = |patch: usize| {
            let (row, col) = grid.place(patch);
            (5..7).contains(&row) && (8..10).contains(&col)
        };
        let values: Vec<f32> = (0..grid.patches())
            .flat_map(|patch| if thing(patch) { [0.0, 1.0] } else { [1.0, 0.0] })
            .collect();
        let map = FeatureMap::from_values(best, grid, 2, &values).expect("a map");
        let (detail, still) = (Detail::of(best, &map), PatchFlow::still(grid));
        let fresh = PatchSet::new(grid);
        let windows = detail.windows(&still, &fresh, [4, 4], 3);
        // Every patch that differs from a neighbour lies in the first one.
        assert_eq!(windows, [Window { row: 4, col: 6, rows: 4, cols: 4 }]);
        // Two columns to the left, and brought up to date in part.
        let flow = PatchFlow::of(grid, |patch| {
            let [x, y] = grid.centre(patch);
            Some([(x + 2.0).min(11.5), y])
        });
        let moved = detail.windows(&flow, &fresh, [4, 4], 1);
        assert_eq!(moved[0], Window { row: 4, col: 4, rows: 4, cols: 4 });
        let all = PatchSet::of(grid, |_| true);
        assert!(detail.windows(&still, &all, [4, 4], 3).is_empty());
        // What the full frame did not show comes first.
        let unseen =
            PatchFlow::of(grid, |patch| (grid.place(patch).1 >= 2).then(|| grid.centre(patch)));
        let first = detail.windows(&unseen, &fresh, [8, 2], 1);
        assert_eq!(first, [Window { row: 0, col: 0, rows: 8, cols: 2 }]);
        assert_eq!(detail.windows(&still, &fresh, [8, 12], 2), [grid.window()]);
    }
}
