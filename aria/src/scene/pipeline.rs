//! [`pipeline`](pipeline()): what a [`Network`] shows of footage, frame after frame, when full frames
//! and regions both go through its encoder.
//!
//! Nothing here is taken from the scene's truth but what scores are counted by: regions are found by
//! comparing features, the camera's pose is that of the picture, and depth for the flow is the
//! decoder's own.

use super::{
    BlockFrames, Camera, Dense, Detection, Picture, Score, Truth, World, by_variation, tiles,
};
use crate::{
    AriaError, CameraFlow, CameraMotion, Criterion, FeatureMap, Frame, Grid, Instructions, Padding,
    PatchSet, Runtime, Settings, Structure, View, Window, group,
    scheduler::{Priority, Reaction, ResolutionLadder, ResolutionSettings},
};

/// An encoder and its decoder, at every size.
pub trait Network {
    /// Why it cannot run.
    type Error: From<AriaError>;

    /// Features of the pixels of a view ([`Frame::pixels`]), one row for each patch of `grid`.
    ///
    /// # Errors
    /// When the encoder fails.
    fn encode(&mut self, pixels: Vec<f32>, grid: Grid) -> Result<Vec<f32>, Self::Error>;

    /// The decoder's output for features.
    ///
    /// # Errors
    /// When the decoder fails.
    fn decode(&mut self, features: &FeatureMap) -> Result<Dense, Self::Error>;
}

/// A resolution of full frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacedLevel {
    /// Patches.
    pub grid: Grid,
    /// Latency of a full frame, ns.
    pub full_ns: u64,
}

/// What the processors finish in time.
#[derive(Clone, Debug, PartialEq)]
pub struct Pace {
    /// Interval between camera frames, ns.
    pub frame_ns: u64,
    /// Resolutions that full frames may have, rising.
    pub levels: Vec<PacedLevel>,
    /// Rows and columns of patches of the region encoder.
    pub region: [usize; 2],
    /// Cycles per frame.
    pub cycles: usize,
}

/// How frames are shown.
#[derive(Clone, Debug, PartialEq)]
pub enum Show {
    /// Every frame whole, at one resolution.
    Whole(Grid),
    /// Every frame at one resolution, cut into blocks of rows and columns of patches that the
    /// encoder sees one by one; this many of the blocks with most variation once more at the highest
    /// resolution, to which the rest is resampled.
    Blocks(Grid, [usize; 2], usize),
    /// The latest full frame as it is.
    Stale(Pace),
    /// The latest full frame, turned with the camera, and whole windows at blocks of pixels that
    /// moved, the largest first.
    MovedBlocks(Pace),
    /// The runtime.
    Regions(Pace, Choices),
}

/// Parts of the runtime that systems differ in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choices {
    /// Full frames are warped by the depth that the decoder gave for them, not by rotation alone.
    pub warps_by_depth: bool,
    /// Padding around regions.
    pub padding: Padding,
    /// Who is first.
    pub priority: Priority,
    /// Resolutions follow the camera's motion; otherwise the highest.
    pub follows_motion: bool,
    /// Which patches are dynamic.
    pub criterion: Criterion,
    /// Largest factor by which windows of cycles are larger than the encoder's input.
    pub zoom: usize,
    /// Where the picture has moved by more than this many patches, mean of all, since the latest full
    /// frame was captured, the frame is shown whole at this resolution instead.
    pub whole_beyond: Option<(f32, Grid)>,
}

/// Regions found from features against what moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Patches of regions.
    pub patches: Detection,
    /// Regions, and those of them in which no patch moved.
    pub regions: usize,
    /// See `regions`.
    pub false_regions: usize,
    /// Groups of patches that moved, and those of them that no region touches.
    pub moved: usize,
    /// See `moved`.
    pub missed: usize,
}

/// Frames of a camera, in order: of a rendered scene, or of a real camera.
#[derive(Clone, Copy, Debug)]
pub struct Footage<'a> {
    /// The camera.
    pub camera: &'a Camera,
    /// Number 0 first, without gaps.
    pub pictures: &'a [Picture],
    /// What the pictures show, where it is known; without, depths above 0 are the truth.
    pub world: Option<&'a World>,
}

/// What was shown of some footage.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shown {
    /// Error against the truth, where it is known.
    pub score: Score,
    /// Difference from what the network shows of every frame whole at the highest resolution.
    pub against_reference: Score,
    /// Regions of full frames, where features find them.
    pub found: Found,
    /// Frames.
    pub frames: u64,
    /// Sum of the ages of full frames, in camera frames.
    pub full_ages: u64,
    /// Frames of [`Choices::whole_beyond`].
    pub whole: u64,
    /// Cycles, and regions that asked for one.
    pub cycles: u64,
    /// See `cycles`.
    pub asked: u64,
}

impl Found {
    /// Adds the counts of another one.
    pub fn add(&mut self, other: &Self) {
        self.patches.add(&other.patches);
        self.regions += other.regions;
        self.false_regions += other.false_regions;
        self.moved += other.moved;
        self.missed += other.missed;
    }

    fn count(&mut self, regions: &[PatchSet], truth: &Truth) {
        let mut all = PatchSet::new(truth.known.grid());
        for region in regions {
            all.extend(region);
            let known = PatchSet::of(region.grid(), |patch| {
                region.contains(patch) && truth.known.contains(patch)
            });
            self.regions += usize::from(known.count() > 0);
            self.false_regions +=
                usize::from(known.count() > 0 && known.shared(&truth.moving) == 0);
        }
        self.patches.count(&all, truth);
        for moved in group(&truth.moving, 2) {
            self.moved += 1;
            let touched = moved.dynamic.iter().any(|patch| all.contains(*patch));
            self.missed += usize::from(!touched);
        }
    }
}

impl Shown {
    /// Adds the counts of another one.
    pub fn add(&mut self, other: &Self) {
        self.score.add(&other.score);
        self.against_reference.add(&other.against_reference);
        self.found.add(&other.found);
        self.frames += other.frames;
        self.full_ages += other.full_ages;
        self.whole += other.whole;
        self.cycles += other.cycles;
        self.asked += other.asked;
    }
}

/// Shows footage in several ways; the first `skipped` frames are not counted.
///
/// # Errors
/// When the network fails or a size is out of its range.
pub fn pipeline<N: Network>(
    footage: &Footage<'_>,
    network: &mut N,
    skipped: u64,
    ways: &[Show],
) -> Result<Vec<Shown>, N::Error> {
    let mut stage = Stage { footage, network, skipped, full: Vec::new(), reference: Vec::new() };
    for picture in footage.pictures {
        let features = stage.full(picture.frame, stage.top())?;
        let dense = stage.network.decode(&features)?;
        stage.reference.push(dense);
    }
    ways.iter().map(|way| stage.show(way)).collect()
}

/// Features of a full frame.
struct Full {
    frame: u64,
    level: Grid,
    features: FeatureMap,
}

struct Stage<'a, N> {
    footage: &'a Footage<'a>,
    network: &'a mut N,
    skipped: u64,
    /// Full frames so far: several ways use the same.
    full: Vec<Full>,
    /// The network's output for every frame, whole at the highest resolution.
    reference: Vec<Dense>,
}

impl<'a, N: Network> Stage<'a, N> {
    fn top(&self) -> Grid {
        self.footage.camera.grid
    }

    fn pictures(&self) -> &'a [Picture] {
        self.footage.pictures
    }

    fn show(&mut self, way: &Show) -> Result<Shown, N::Error> {
        let mut shown = Shown::default();
        match way {
            Show::Whole(level) => {
                for picture in self.pictures() {
                    let features = self.full(picture.frame, *level)?;
                    self.count(&mut shown, picture, &features)?;
                }
            }
            Show::Blocks(level, block, refined) => {
                for picture in self.pictures() {
                    let mut features = self.blocks(picture, *level, *block)?;
                    if *refined > 0 {
                        features = features.resampled(self.top())?;
                    }
                    let hard = by_variation(self.footage.camera, picture, *block);
                    for window in hard.into_iter().take(*refined) {
                        features.replace_window(window, &self.part(picture, window)?)?;
                    }
                    self.count(&mut shown, picture, &features)?;
                }
            }
            Show::Stale(pace) => {
                let mut full = FullFrames::new(pace, None)?;
                for picture in self.pictures() {
                    full.step(picture)?;
                    shown.full_ages += full.age(picture, self.skipped);
                    let features = self.full(full.latest.0, full.latest.1)?;
                    let features = features.resampled(self.top())?;
                    self.count(&mut shown, picture, &features)?;
                }
            }
            Show::MovedBlocks(pace) => self.moved_blocks(pace, &mut shown)?,
            Show::Regions(pace, choices) => self.regions(pace, choices, &mut shown)?,
        }
        Ok(shown)
    }

    /// Decodes what is shown, and scores it if the frame counts.
    fn count(
        &mut self,
        shown: &mut Shown,
        picture: &Picture,
        features: &FeatureMap,
    ) -> Result<Dense, N::Error> {
        let dense = self.network.decode(features)?;
        if picture.frame >= self.skipped {
            shown.frames += 1;
            dense.compare(&self.reference[picture.frame as usize], &mut shown.against_reference);
            match self.footage.world {
                Some(world) => dense.score(world, picture, &mut shown.score),
                None => dense.score_depth(picture, &mut shown.score),
            }
        }
        Ok(dense)
    }

    fn pixels(&self, picture: &Picture, view: &View) -> Result<Vec<f32>, AriaError> {
        let camera = self.footage.camera;
        Frame::new(&picture.colours, camera.grid, camera.patch, camera.intrinsics)?.pixels(view)
    }

    /// The features of a whole frame at a resolution.
    fn full(&mut self, frame: u64, level: Grid) -> Result<FeatureMap, N::Error> {
        let known = self.full.iter().find(|full| full.frame == frame && full.level == level);
        if let Some(full) = known {
            return Ok(full.features.clone());
        }
        let picture = &self.pictures()[(frame as usize).min(self.footage.pictures.len() - 1)];
        let pixels = self.pixels(picture, &View::whole(self.top(), level))?;
        let features = self.map(pixels, level)?;
        self.full.push(Full { frame, level, features: features.clone() });
        Ok(features)
    }

    fn map(&mut self, pixels: Vec<f32>, grid: Grid) -> Result<FeatureMap, N::Error> {
        let values = self.network.encode(pixels, grid)?;
        let width = values.len() / grid.patches();
        Ok(FeatureMap::from_values(Instructions::best(), grid, width, &values)?)
    }

    /// The features of a window at full resolution, as the encoder sees it alone.
    fn part(&mut self, picture: &Picture, window: Window) -> Result<Vec<f32>, N::Error> {
        let view = View::part(window)?;
        let pixels = self.pixels(picture, &view)?;
        self.network.encode(pixels, view.grid)
    }

    /// The features of a window of a cycle, resized to the encoder's input.
    fn region(
        &mut self,
        picture: &Picture,
        window: Window,
        [rows, cols]: [usize; 2],
    ) -> Result<Vec<f32>, N::Error> {
        if window.rows == rows {
            return self.part(picture, window);
        }
        let view = View { window, grid: Grid::new(rows, cols)? };
        let pixels = self.pixels(picture, &view)?;
        let seen = self.map(pixels, view.grid)?;
        Ok(seen.resampled(Grid::new(window.rows, window.cols)?)?.values().to_vec())
    }

    fn blocks(
        &mut self,
        picture: &Picture,
        level: Grid,
        block: [usize; 2],
    ) -> Result<FeatureMap, N::Error> {
        let pixels = self.pixels(picture, &View::whole(self.top(), level))?;
        let mut parts = Vec::new();
        for window in tiles(level, block) {
            let part = cut(&pixels, level, self.footage.camera.patch, window);
            parts.push((window, self.network.encode(part, Grid::new(window.rows, window.cols)?)?));
        }
        let parts = parts.iter().map(|(window, values)| (*window, &values[..]));
        Ok(FeatureMap::of_windows(level, parts)?)
    }

    fn moved_blocks(&mut self, pace: &Pace, shown: &mut Shown) -> Result<(), N::Error> {
        let (top, camera) = (self.top(), *self.footage.camera);
        let mut full = FullFrames::new(pace, None)?;
        let first = self.full(0, full.latest.1)?.resampled(top)?;
        let mut frames = BlockFrames::new(&camera, pace.region, first, self.pictures()[0].pose)?;
        for picture in self.pictures() {
            full.step(picture)?;
            shown.full_ages += full.age(picture, self.skipped);
            let (frame, level) = full.latest;
            let features = self.full(frame, level)?.resampled(top)?;
            frames.full_frame(features, self.pictures()[frame as usize].pose);
            let before = &self.pictures()[picture.frame.saturating_sub(1) as usize];
            let (windows, asked) = frames.frame(&camera, before, picture, pace.cycles)?;
            for window in &windows {
                frames.update(*window, &self.part(picture, *window)?)?;
            }
            if picture.frame >= self.skipped {
                shown.asked += asked as u64;
                shown.cycles += windows.len() as u64;
            }
            self.count(shown, picture, frames.shown())?;
        }
        Ok(())
    }

    fn regions(
        &mut self,
        pace: &Pace,
        choices: &Choices,
        shown: &mut Shown,
    ) -> Result<(), N::Error> {
        let (top, camera) = (self.top(), *self.footage.camera);
        let mut full = FullFrames::new(pace, choices.follows_motion.then_some(pace))?;
        let first = self.full(0, full.latest.1)?.resampled(top)?;
        let flow = CameraFlow::new(camera.intrinsics, Structure::Distant);
        let mut runtime = Runtime::new(
            Settings {
                padding: choices.padding,
                priority: choices.priority,
                criterion: choices.criterion,
                zoom: choices.zoom,
                ..Settings::new(top, first.width(), pace.region)
            },
            flow,
        )?;
        let (mut before, mut begun) = (None, None);
        // Full frames are warped by the depth that was shown when they were captured.
        let mut depths = vec![self.network.decode(&first)?.depths_of_patches(top)];
        for picture in self.pictures() {
            full.step(picture)?;
            let counted = picture.frame >= self.skipped;
            shown.full_ages += full.age(picture, self.skipped);
            if begun != Some(full.latest.0) {
                let (frame, level) = full.latest;
                let arrived = &self.pictures()[frame as usize];
                let features = self.full(frame, level)?.resampled(top)?;
                runtime.full_frame(frame, &arrived.pose, &mut features.values().to_vec())?;
                let known = before.filter(|_| counted).zip(self.footage.world);
                if let Some((before, world)) = known {
                    let truth = Truth::between(world, &camera, before, arrived);
                    let regions: Vec<PatchSet> =
                        runtime.regions().iter().map(|region| region.patches.clone()).collect();
                    shown.found.count(&regions, &truth);
                }
                if choices.warps_by_depth {
                    let depths = depths[frame as usize].clone();
                    runtime.estimator_mut().set_structure(Structure::Depth(depths));
                }
                (before, begun) = (Some(arrived), Some(frame));
            }
            if let Some((most, level)) = choices.whole_beyond {
                let seen_from = &self.pictures()[full.latest.0 as usize].pose;
                let motion = CameraMotion::between(seen_from, &picture.pose);
                if runtime.estimator_mut().over(top, &motion)?.mean_distance() > most {
                    shown.whole += u64::from(counted);
                    let features = self.full(picture.frame, level)?;
                    let dense = self.count(shown, picture, &features)?;
                    depths.push(dense.depths_of_patches(top));
                    continue;
                }
            }
            let plan = runtime.frame(picture.frame, &picture.pose, pace.cycles)?;
            for cycle in &plan.cycles {
                let values = self.region(picture, cycle.window, pace.region)?;
                runtime.update(cycle, &values)?;
            }
            if counted {
                shown.cycles += plan.cycles.len() as u64;
                shown.asked += plan.asked as u64;
            }
            let dense = self.count(shown, picture, runtime.aligned())?;
            if picture.frame > 0 {
                depths.push(dense.depths_of_patches(top));
            }
        }
        Ok(())
    }
}

/// Full frames in time: each begins with the first camera frame after the one before is done.
struct FullFrames<'a> {
    pace: &'a Pace,
    ladder: Option<ResolutionLadder>,
    /// Number and resolution of the latest that is done.
    latest: (u64, Grid),
    /// The running one, and the frame from which on it is done.
    running: Option<(u64, usize, u64)>,
    pose: Option<crate::Pose>,
}

impl<'a> FullFrames<'a> {
    /// The first frame is there from the beginning, at the highest resolution.
    fn new(pace: &'a Pace, by_motion: Option<&Pace>) -> Result<Self, AriaError> {
        let latencies: Vec<u64> = pace.levels.iter().map(|level| level.full_ns).collect();
        let ladder = by_motion.map(|pace| {
            ResolutionLadder::new(
                &latencies,
                Reaction::default(),
                ResolutionSettings::for_frames_of(pace.frame_ns),
            )
        });
        let Some(highest) = pace.levels.last() else {
            return Err(AriaError::setting("the number of resolutions", 0, "1 or more"));
        };
        let latest = (0, highest.grid);
        Ok(Self { pace, ladder: ladder.transpose()?, latest, running: None, pose: None })
    }

    /// The state at a camera frame.
    fn step(&mut self, picture: &Picture) -> Result<(), AriaError> {
        let now = picture.frame;
        if let (Some(ladder), Some(before)) = (&mut self.ladder, &self.pose) {
            ladder.moved(&CameraMotion::between(before, &picture.pose));
        }
        self.pose = Some(picture.pose);
        if let Some((frame, level, _)) = self.running.filter(|(_, _, done)| *done <= now) {
            let level = &self.pace.levels[level];
            self.latest = (frame, level.grid);
            self.running = None;
        }
        if self.running.is_none() && now > 0 {
            let highest = self.pace.levels.len() - 1;
            let level = self.ladder.as_ref().map_or(highest, ResolutionLadder::level).min(highest);
            let took = self.pace.levels[level].full_ns.div_ceil(self.pace.frame_ns.max(1)).max(1);
            self.running = Some((now, level, now + took));
        }
        Ok(())
    }

    /// Age of the latest full frame at a counted frame.
    fn age(&self, picture: &Picture, skipped: u64) -> u64 {
        if picture.frame >= skipped { picture.frame - self.latest.0 } else { 0 }
    }
}

/// The pixels of a window of an encoder's input, channels first: `pixels` are those of `grid`
/// patches of `patch` pixels on each side.
#[must_use]
pub fn cut(pixels: &[f32], grid: Grid, patch: usize, window: Window) -> Vec<f32> {
    let (height, width) = (grid.rows() * patch, grid.cols() * patch);
    let mut part = Vec::with_capacity(pixels.len() / grid.patches() * window.patches());
    for channel in pixels.chunks_exact(height * width) {
        for line in channel.chunks_exact(width).skip(window.row * patch).take(window.rows * patch) {
            part.extend_from_slice(&line[window.col * patch..][..window.cols * patch]);
        }
    }
    part
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::{CELLS, Kind, LABELS, Scene};

    /// Features are means of colours of a patch, with a constant; depth is a constant, and the label
    /// the wall's.
    struct Means;

    impl Network for Means {
        type Error = AriaError;

        fn encode(&mut self, pixels: Vec<f32>, grid: Grid) -> Result<Vec<f32>, AriaError> {
            let patch = 4;
            let (width, area) = (grid.cols() * patch, grid.patches() * patch * patch);
            let mut features = vec![0.0; grid.patches() * 4];
            for (at, pixel) in (0..3 * area).zip(&pixels) {
                let (channel, y, x) = (at / area, at % area / width, at % width);
                features[grid.index(y / patch, x / patch) * 4 + channel] += pixel / 16.0;
            }
            features.chunks_exact_mut(4).for_each(|row| row[3] = 0.3);
            Ok(features)
        }

        fn decode(&mut self, features: &FeatureMap) -> Result<Dense, AriaError> {
            let (rows, cols) = (features.grid().rows() * CELLS, features.grid().cols() * CELLS);
            let mut scores = vec![0.0; LABELS * rows * cols];
            scores[rows * cols..2 * rows * cols].fill(1.0);
            Dense::new([rows, cols], vec![1.0; rows * cols], scores)
        }
    }

    #[test]
    fn full_frames_are_as_old_as_the_pace_says_and_regions_are_found_and_served() {
        let (top, low) = (Grid::new(12, 16).expect("a grid"), Grid::new(6, 8).expect("a grid"));
        let scene = Scene::furnished(Kind::Crowded, 3, top, 4).expect("a scene");
        let level = |grid, full_ns| PacedLevel { grid, full_ns };
        let levels = vec![level(low, 10), level(top, 25)];
        let pace = Pace { frame_ns: 10, levels, region: [4, 4], cycles: 2 };
        let choices = Choices {
            warps_by_depth: true,
            padding: Padding::default(),
            priority: Priority::default(),
            follows_motion: false,
            criterion: Criterion { threshold: 0.95, smoothing: 0.0 },
            zoom: 2,
            whole_beyond: None,
        };
        let whole = Choices { whole_beyond: Some((0.0, low)), ..choices };
        let moved = Choices { follows_motion: true, ..choices };
        let ways = [
            Show::Whole(top),
            Show::Blocks(low, [4, 4], 0),
            Show::Blocks(low, [4, 4], 2),
            Show::Stale(pace.clone()),
            Show::MovedBlocks(pace.clone()),
            Show::Regions(pace.clone(), choices),
            Show::Regions(pace.clone(), moved),
            Show::Regions(pace.clone(), whole),
        ];
        let pictures: Vec<Picture> = (0..24).map(|frame| scene.picture(frame)).collect();
        let footage =
            Footage { camera: scene.camera(), pictures: &pictures, world: Some(scene.world()) };
        let shown = pipeline(&footage, &mut Means, 8, &ways).expect("frames");
        assert!(shown.iter().all(|shown| shown.frames == 16));
        // Every frame has the same answer, whatever was done.
        assert!(
            shown
                .iter()
                .all(|way| (way.score.depth_rmse_m() - shown[0].score.depth_rmse_m()).abs() < 1e-9)
        );
        assert!(shown.iter().all(|way| way.against_reference.depth_rmse_m() == 0.0));
        // A full frame takes three camera frames: it is 3, 4 or 5 frames old.
        assert_eq!(shown[3].full_ages, shown[5].full_ages);
        assert!((48..=80).contains(&shown[3].full_ages), "{}", shown[3].full_ages);
        assert!(shown[6].full_ages < shown[5].full_ages, "lower resolutions are younger");
        assert!(shown[5].cycles > 0 && shown[5].cycles <= 32 && shown[5].asked > 0);
        assert!(shown[4].cycles > 0 && shown[0].cycles == 0);
        // The camera moves all the time.
        assert_eq!([shown[7].whole, shown[7].cycles, shown[5].whole], [16, 0, 0]);
        let mut found = Found::default();
        for seed in 1..=6 {
            let scene = Scene::furnished(Kind::Crowded, seed, top, 4).expect("a scene");
            let pictures: Vec<Picture> = (0..24).map(|frame| scene.picture(frame)).collect();
            let (camera, world) = (scene.camera(), Some(scene.world()));
            let footage = Footage { camera, pictures: &pictures, world };
            let criterion = Criterion { threshold: 0.98, ..choices.criterion };
            let ways = [Show::Regions(pace.clone(), Choices { criterion, ..choices })];
            let shown = pipeline(&footage, &mut Means, 8, &ways).expect("frames");
            shown.iter().for_each(|shown| found.add(&shown.found));
        }
        assert!(found.patches.found_and_moved > 0 && found.moved > found.missed, "{found:?}");
    }

    #[test]
    fn windows_are_cut_from_every_channel() {
        let grid = Grid::new(2, 2).expect("a grid");
        let pixels: Vec<f32> = (0..32).map(|pixel| pixel as f32).collect();
        let window = Window { row: 1, col: 0, rows: 1, cols: 1 };
        assert_eq!(cut(&pixels, grid, 2, window), [8.0, 9.0, 12.0, 13.0, 24.0, 25.0, 28.0, 29.0]);
    }
}
