//! [`Tracker`]: the current positions of dynamic regions: found at each full frame, extrapolated at
//! every frame between (section 4.2.2).
//!
//! A region's velocity is the displacement of its patches divided by the number of frames between
//! the two full frames. Displacements exclude the camera's motion, so a region moves with the flow
//! of its patches and with its own velocity.
//!
//! Patches that show what was hidden before also differ, and the most similar patch of the earlier
//! frame does not indicate their motion. A mean of matches therefore counts only those that are
//! similar enough and whose source lies in the region: an object that moved has left its place, and
//! that place is in the region too. Matches do not resolve motions below one patch; the
//! displacement that all patches share does.

use crate::{
    AriaError, FeatureMap, Grid, Identified, Instructions, PatchFlow, PatchSet, Window,
    candidates::{Candidates, Origin},
    features::Part,
    matching::{self, Match, Query, Sought, looked_for, shared_displacement},
    quantized::Quantized,
    regions::{Outline, group},
    sweep::Search,
};

/// Patches that move together.
#[derive(Clone, Debug, PartialEq)]
pub struct Region {
    /// The same for the same region, from full frame to full frame.
    pub id: u64,
    /// Its patches when it was found.
    pub patches: PatchSet,
    /// Patches per frame to the right and down, beyond the camera's motion.
    pub velocity: [f32; 2],
    /// The frame it was found in.
    pub frame: u64,
}

impl Region {
    /// Patches per frame.
    #[must_use]
    pub fn speed(&self) -> f32 {
        self.velocity[0].hypot(self.velocity[1])
    }

    /// Frames since it was found.
    #[must_use]
    pub fn age(&self, frame: u64) -> f32 {
        frame.saturating_sub(self.frame) as f32
    }

    /// Its patches `frames` later, when the camera's motion since is `flow`; holes that rounding
    /// leaves are filled.
    #[must_use]
    pub fn at(&self, flow: &PatchFlow, frames: f32) -> PatchSet {
        let [now] = self.outlines(flow, [frames]);
        now.filled()
    }

    /// The same, with its path in the last `back` frames, where hidden background is visible again.
    #[must_use]
    pub fn now_and_swept(&self, flow: &PatchFlow, frames: f32, back: f32) -> (PatchSet, PatchSet) {
        let [now, then] = self.outlines(flow, [frames, frames - back]);
        let mut all = then;
        all.extend(&now);
        (now.filled(), all.filled())
    }

    /// The surroundings of its patches after a number of frames each.
    fn outlines<const N: usize>(&self, flow: &PatchFlow, frames: [f32; N]) -> [Outline; N] {
        let grid = self.patches.grid();
        let [vx, vy] = self.velocity;
        let mut outlines = frames.map(|_| Outline::new(grid));
        for (row, col) in self.patches.places() {
            let [x, y] = flow.target_of_patch(row, col);
            for (outline, frames) in outlines.iter_mut().zip(frames) {
                let point = [x + vx * frames, y + vy * frames];
                if grid.holds(point) {
                    outline.add(grid.place_at(point));
                }
            }
        }
        outlines
    }
}

/// How a region's motion follows from what its patches are similar to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Velocity {
    /// The displacement that explains all of them best: [`Votes`](crate::Votes).
    Shared,
    /// The mean of the displacements of their matches, as the paper has it.
    Mean,
}

/// How regions are found and followed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tracking {
    /// Fewest dynamic patches of a region.
    pub smallest: usize,
    /// The patches of the earlier frame that are searched.
    pub search: Search,
    /// How velocities are taken.
    pub velocity: Velocity,
    /// Most patches of a region that are matched, evenly chosen; its motion does not need all of
    /// them.
    pub most: usize,
    /// The cosine similarity from which a match, or the mean at a displacement, counts as evidence
    /// of motion.
    pub least_similarity: f32,
    /// Weight of a new velocity from a region's own update, between 0 and 1.
    pub refresh: f32,
}

impl Default for Tracking {
    fn default() -> Self {
        Self {
            smallest: 1,
            search: Search::Within(8),
            velocity: Velocity::Shared,
            most: 16,
            least_similarity: 0.5,
            refresh: 0.5,
        }
    }
}

impl Tracking {
    /// How far patches of a region went, in patches, given the features and their length of each;
    /// `swept` is where the region has been.
    fn displacement<'a>(
        &self,
        instructions: Instructions,
        earlier: &mut Candidates,
        current: impl Fn(usize) -> (&'a [f32], f32),
        patches: &[usize],
        swept: &PatchSet,
    ) -> Option<[f32; 2]> {
        let grid = earlier.grid();
        let chosen = self.chosen(grid, patches);
        let sought = Sought::new(instructions, grid, &chosen, current);
        let queries = sought.queries();
        if self.velocity == Velocity::Shared {
            return shared_displacement(
                instructions,
                earlier,
                &queries,
                self.search,
                self.least_similarity,
            );
        }
        let mut matched: Vec<Match> = queries.iter().map(Query::unmatched).collect();
        looked_for(instructions, earlier, &queries, self.search, &mut matched);
        matched.retain(|m| m.similarity >= self.least_similarity && swept.contains(m.source));
        let sum = matched
            .iter()
            .map(|m| m.displacement(grid))
            .fold([0.0; 2], |sum, [x, y]| [sum[0] + x, sum[1] + y]);
        (!matched.is_empty()).then(|| sum.map(|s| s / matched.len() as f32))
    }

    /// At most this many of the patches, as many as possible of one parity, and of each parity in
    /// pairs, which share their candidates.
    fn chosen(&self, grid: Grid, patches: &[usize]) -> Vec<usize> {
        let mut classes: [Vec<usize>; 4] = Default::default();
        for patch in patches {
            let (row, col) = grid.place(*patch);
            classes[matching::parity(row, col)].push(*patch);
        }
        classes.sort_by_key(|class| std::cmp::Reverse(class.len()));
        let most = self.most.max(2);
        let mut chosen = Vec::with_capacity(most);
        for class in &classes {
            let wanted = most - chosen.len();
            if class.len() <= wanted {
                chosen.extend_from_slice(class);
            } else {
                let (pairs, wanted) = (class.len() / 2, wanted / 2);
                chosen.extend(
                    (0..wanted).flat_map(|n| class.iter().skip(2 * (n * pairs / wanted)).take(2)),
                );
                break;
            }
        }
        chosen
    }
}

/// Regions between full frames.
#[derive(Clone, Debug, PartialEq)]
pub struct Tracker {
    tracking: Tracking,
    regions: Vec<Region>,
    next: u64,
}

impl Tracker {
    /// No region yet.
    ///
    /// # Errors
    /// When the weight of a refreshed velocity is not between 0 and 1.
    pub fn new(tracking: Tracking) -> Result<Self, AriaError> {
        if !(0.0..=1.0).contains(&tracking.refresh) {
            return Err(AriaError::setting(
                "the weight of a refreshed velocity",
                tracking.refresh,
                "between 0 and 1",
            ));
        }
        Ok(Self { tracking, regions: Vec::new(), next: 0 })
    }

    /// The regions of the last full frame.
    #[must_use]
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }

    /// Finds the regions of full frame `frame`, `frames` after the one that was `warped` into it by
    /// `flow`.
    ///
    /// # Errors
    /// When shapes differ or no frame lies between the two.
    pub fn find(
        &mut self,
        instructions: Instructions,
        frame: u64,
        full: FullFrames,
        found: &Identified,
    ) -> Result<(), AriaError> {
        let FullFrames { warped, current, flow, frames } = full;
        if frames == 0 {
            return Err(AriaError::Order { frame, latest: frame });
        }
        warped.same_shape(current)?;
        let mut rows = Quantized::new(warped.grid(), warped.width());
        let earlier = &mut Candidates::new(&mut rows, Origin::Features(warped));
        self.find_from(instructions, earlier, Arrival { frame, frames, flow, current }, found);
        Ok(())
    }

    /// The same, given the warped features of the earlier frame to search among.
    pub(crate) fn find_from(
        &mut self,
        instructions: Instructions,
        earlier: &mut Candidates,
        now: Arrival,
        found: &Identified,
    ) {
        let Arrival { frame, frames, flow, current } = now;
        let features = |patch: usize| (current.row(patch), current.norms()[patch]);
        let mut free: Vec<(u64, PatchSet)> = self
            .regions
            .iter()
            .map(|region| (region.id, region.at(flow, region.age(frame))))
            .collect();
        let mut regions = Vec::new();
        for group in group(&found.dynamic, self.tracking.smallest) {
            let id = self.identity(&mut free, &group.filled);
            let moved = self.tracking.displacement(
                instructions,
                earlier,
                features,
                &group.dynamic,
                &group.filled,
            );
            let velocity = moved.unwrap_or([0.0; 2]).map(|d| d / frames as f32);
            regions.push(Region { id, patches: group.filled, velocity, frame });
        }
        self.regions = regions;
    }

    /// The number of the earlier region that a new one shares most patches with, or a new number.
    fn identity(&mut self, free: &mut Vec<(u64, PatchSet)>, patches: &PatchSet) -> u64 {
        let shared = free.iter().enumerate().map(|(index, (_, set))| (set.shared(patches), index));
        match shared.max_by_key(|(shared, index)| (*shared, std::cmp::Reverse(*index))) {
            Some((shared, index)) if shared > 0 => free.swap_remove(index).0,
            _ => {
                self.next += 1;
                self.next - 1
            }
        }
    }

    /// Computes a region's velocity again from its own update: the patches `now` of the current
    /// frame are matched in the full frame of `frames` before, warped to now. Sources in `swept`,
    /// the path of the region since, count. An unknown id is ignored: the update came too late.
    pub(crate) fn refresh(
        &mut self,
        instructions: Instructions,
        id: u64,
        [now, swept]: [&PatchSet; 2],
        earlier: &mut Candidates,
        current: &Part,
        frames: u64,
    ) {
        let refresh = self.tracking.refresh;
        let Some(region) =
            self.regions.iter_mut().find(|region| region.id == id).filter(|_| frames > 0)
        else {
            return;
        };
        let asked: Vec<usize> = now.iter().collect();
        if let Some(moved) = self.tracking.displacement(
            instructions,
            earlier,
            |patch| current.row(patch),
            &asked,
            swept,
        ) {
            let seen = moved.map(|d| d / frames as f32);
            region.velocity = std::array::from_fn(|i| {
                region.velocity[i] + refresh * (seen[i] - region.velocity[i])
            });
        }
    }
}

/// Two frames that are compared.
#[derive(Clone, Copy, Debug)]
pub struct FullFrames<'a> {
    /// The earlier one's features, warped into the current.
    pub warped: &'a FeatureMap,
    /// The current one's.
    pub current: &'a FeatureMap,
    /// What warped the earlier one.
    pub flow: &'a PatchFlow,
    /// Frames between the two.
    pub frames: u64,
}

/// A full frame that arrived: its number, how many lie between it and the one before, the flow from
/// that, and its features.
#[derive(Clone, Copy)]
pub(crate) struct Arrival<'a> {
    pub frame: u64,
    pub frames: u64,
    pub flow: &'a PatchFlow,
    pub current: &'a FeatureMap,
}

/// A region's window in a frame, with padding for the encoder (section 4.3.2).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Padding {
    /// Patches on each side, so that the encoder sees the region's surroundings.
    pub around: usize,
    /// Frames of motion ahead of the region.
    pub frames_ahead: f32,
    /// Whether it reaches back over the way since the last update.
    pub trail: bool,
}

impl Default for Padding {
    fn default() -> Self {
        Self { around: 1, frames_ahead: 1.0, trail: true }
    }
}

impl Padding {
    /// No padding: the region alone.
    pub const NONE: Self = Self::fixed(0);

    /// The same number of patches on each side, whatever moves.
    #[must_use]
    pub const fn fixed(around: usize) -> Self {
        Self { around, frames_ahead: 0.0, trail: false }
    }

    /// The region's window and its path since the last update, `frames` ago, whose background is
    /// newly visible. `None` if it has left the frame.
    #[must_use]
    pub fn window(&self, patches: &PatchSet, velocity: [f32; 2], frames: f32) -> Option<Window> {
        let margin = |v: f32, frames: f32| (v.max(0.0) * frames).ceil() as usize;
        let frames = if self.trail { frames } else { 0.0 };
        let sides = |v: f32| {
            [
                margin(v, frames).saturating_add(margin(-v, self.frames_ahead)),
                margin(-v, frames).saturating_add(margin(v, self.frames_ahead)),
            ]
        };
        let ([left, right], [above, below]) = (sides(velocity[0]), sides(velocity[1]));
        let padded = [above, below, left, right].map(|margin| margin.saturating_add(self.around));
        Some(patches.window()?.grown(patches.grid(), padded))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(grid: Grid, window: Window) -> PatchSet {
        PatchSet::of(grid, |patch| window.contains(grid.place(patch).0, grid.place(patch).1))
    }

    #[test]
    fn padding_reaches_back_over_the_way_and_a_step_ahead() {
        let grid = Grid::new(29, 47).expect("a grid");
        let region = set(grid, Window { row: 10, col: 20, rows: 3, cols: 4 });
        let still = Padding::default().window(&region, [0.0, 0.0], 4.0);
        assert_eq!(still, Some(Window { row: 9, col: 19, rows: 5, cols: 6 }));
        // Half a patch per frame to the right, four frames since the last update: two columns
        // behind, one ahead.
        let right = Padding::default().window(&region, [0.5, 0.0], 4.0);
        assert_eq!(right, Some(Window { row: 9, col: 17, rows: 5, cols: 9 }));
        let up = Padding::default().window(&region, [0.0, -0.3], 2.0);
        assert_eq!(up, Some(Window { row: 8, col: 19, rows: 7, cols: 6 }));
        let alone = Padding::NONE.window(&region, [0.5, 0.0], 4.0);
        assert_eq!(alone, Some(Window { row: 10, col: 20, rows: 3, cols: 4 }));
        let fixed = Padding::fixed(2).window(&region, [0.5, 0.0], 4.0);
        assert_eq!(fixed, Some(Window { row: 8, col: 18, rows: 7, cols: 8 }));
        assert_eq!(Padding::default().window(&PatchSet::new(grid), [1.0, 1.0], 2.0), None);
        let wild = Padding::default().window(&region, [f32::INFINITY, f32::NAN], 2.0);
        assert!(wild.is_some_and(|window| grid.window().covers(window)));
    }

    #[test]
    fn regions_follow_their_velocity_and_the_camera() {
        let grid = Grid::new(12, 20).expect("a grid");
        let region = Region {
            id: 0,
            patches: set(grid, Window { row: 4, col: 5, rows: 3, cols: 4 }),
            velocity: [0.5, -0.25],
            frame: 0,
        };
        assert_eq!(
            region.at(&PatchFlow::still(grid), 4.0),
            set(grid, Window { row: 3, col: 7, rows: 3, cols: 4 })
        );
        // The camera turns right: everything moves left by 3.
        let flow =
            PatchFlow::of(grid, |patch| Some([grid.centre(patch)[0] + 3.0, grid.centre(patch)[1]]));
        assert_eq!(region.at(&flow, 4.0), set(grid, Window { row: 3, col: 4, rows: 3, cols: 4 }));
        assert_eq!(region.at(&PatchFlow::still(grid), 100.0).count(), 0, "it left the frame");
    }

    #[test]
    fn chosen_patches_are_some_of_them_in_pairs() {
        let tracking = Tracking { most: 6, ..Tracking::default() };
        let grid = Grid::new(8, 10).expect("a grid");
        let chosen = |tracking: Tracking, patches: Vec<usize>| tracking.chosen(grid, &patches);
        assert_eq!(chosen(tracking, (0..80).collect()), [0, 2, 22, 24, 44, 46], "one parity");
        assert_eq!(
            chosen(tracking, vec![0, 1, 2, 3, 10, 12, 14]),
            [10, 12, 14, 0, 2],
            "the larger class first"
        );
        assert_eq!(chosen(tracking, vec![0, 1, 10, 11]), [0, 1, 10, 11]);
        assert_eq!(chosen(Tracking { most: 0, ..tracking }, (0..80).collect()), [0, 2]);
    }

    /// A block with features of its own moves two columns to the right in four frames, twice.
    #[test]
    fn a_block_is_found_again_with_its_velocity_and_keeps_its_number() {
        let grid = Grid::new(10, 16).expect("a grid");
        let width = 64;
        let mut random = crate::random::Random::new(2);
        let background: Vec<f32> =
            (0..grid.patches() * width).map(|_| random.normal() as f32).collect();
        let block: Vec<f32> = (0..4 * 4 * width).map(|_| random.normal() as f32).collect();
        let frame = |col: usize| {
            let mut values = background.clone();
            for (row, offset) in (3..7).flat_map(|row| (0..4).map(move |offset| (row, offset))) {
                let from = ((row - 3) * 4 + offset) * width;
                values[grid.index(row, col + offset) * width..][..width]
                    .copy_from_slice(&block[from..from + width]);
            }
            FeatureMap::from_values(Instructions::best(), grid, width, &values).expect("a map")
        };
        let (best, flow) = (Instructions::best(), PatchFlow::still(grid));
        let mut tracker = Tracker::new(Tracking::default()).expect("a tracker");
        let mut ids = Vec::new();
        for (number, cols) in [[2, 4], [4, 6]].iter().enumerate() {
            let [before, current] = cols.map(frame);
            let mut warped = crate::Warped::new(grid, width).expect("room");
            warped.warp(best, &before, &flow).expect("a warp");
            let found = crate::identify(best, &warped, &current, crate::Criterion::default())
                .expect("patches");
            let full =
                FullFrames { warped: &warped.features, current: &current, flow: &flow, frames: 4 };
            tracker.find(best, 4 * (number as u64 + 1), full, &found).expect("regions");
            let [region] = tracker.regions() else { panic!("{} regions", tracker.regions().len()) };
            let [x, y] = region.velocity;
            assert!((x - 0.5).abs() < 0.02 && y.abs() < 0.02, "{x} {y}");
            assert_eq!(
                region.patches.window(),
                Some(Window { row: 3, col: cols[0], rows: 4, cols: 6 })
            );
            ids.push(region.id);
        }
        assert_eq!(ids, [0, 0]);
        assert!(Tracker::new(Tracking { refresh: 2.0, ..Tracking::default() }).is_err());
    }
}
