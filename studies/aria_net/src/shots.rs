//! What the network is trained on: pairs of frames of furnished scenes ([`Shot`]), and [`Batch`]es
//! of views of them. The same seed and step give the same batch.

use crate::model::PATCH;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::collections::VecDeque;
use vitempo_aria::{
    AriaError, CameraFlow, CameraMotion, Frame, Grid, Intrinsics, Structure, View, Window,
    scene::{CELLS, Camera, Kind, Picture, Scene, Target, Truth},
};

/// Patches of a frame at full resolution, and the lower resolutions, rows by columns.
pub const LEVELS: [[usize; 2]; 4] = [[12, 16], [15, 20], [18, 24], [24, 32]];
/// Sides of the parts of frames that the network is trained on, in patches.
const PARTS: [usize; 3] = [6, 8, 12];
/// Parts that are laid over a frame.
const OVERLAID: usize = 2;
/// Shots at hand, and how many of them, the oldest, are replaced with each step.
const POOL: usize = 40;
const FRESH: usize = 3;
/// Patches of a batch, about.
const PATCHES: usize = 1200;

/// Patches of a frame at full resolution.
pub fn full() -> Result<Grid, AriaError> {
    let [_, _, _, [rows, cols]] = LEVELS;
    Grid::new(rows, cols)
}

/// Two frames of a scene.
pub struct Shot {
    pub scene: Scene,
    pub pictures: [Picture; 2],
}

impl Shot {
    /// The shot of a number.
    fn new(seed: u64, number: usize) -> Result<Self, AriaError> {
        let mut random = StdRng::seed_from_u64(seed ^ (number as u64).wrapping_mul(0x9E37_79B9));
        let kind = Kind::ALL[number % Kind::ALL.len()];
        let scene = Scene::furnished(kind, random.random(), full()?, PATCH)?;
        let first = random.random_range(0..400);
        let later = first + random.random_range(2..12u64);
        let pictures = [first, later].map(|frame| scene.picture(frame));
        Ok(Self { scene, pictures })
    }

    fn frame(&self, picture: usize) -> Result<Frame<'_>, AriaError> {
        let camera = self.scene.camera();
        Frame::new(&self.pictures[picture].colours, camera.grid, camera.patch, camera.intrinsics)
    }
}

/// The latest shots.
pub struct Pool {
    seed: u64,
    shots: VecDeque<Shot>,
}

impl Pool {
    /// The shots at hand before a step.
    pub fn before(seed: u64, step: usize) -> Result<Self, AriaError> {
        let shots = (step * FRESH..step * FRESH + POOL).map(|number| Shot::new(seed, number));
        Ok(Self { seed, shots: shots.collect::<Result<_, _>>()? })
    }

    /// Replaces the oldest shots; `step` is the number of the step that follows.
    pub fn advance(&mut self, step: usize) -> Result<(), AriaError> {
        for number in (step - 1) * FRESH + POOL..step * FRESH + POOL {
            self.shots.pop_front();
            self.shots.push_back(Shot::new(self.seed, number)?);
        }
        Ok(())
    }
}

/// How features of the earlier frame of a pair predict those of the later.
pub struct Consistency {
    /// For each patch four patches of the earlier frame, and their shares.
    pub from: Vec<u32>,
    pub shares: Vec<f32>,
    /// 1 where nothing moved, and where something did.
    pub still: Vec<f32>,
    pub moving: Vec<f32>,
}

/// What is trained on at a time: first the network has to see, then its features are also decoded
/// with parts laid over them, then the highest resolution counts most, and at the end parts may be
/// seen at half the resolution.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
pub enum Phase {
    Sees,
    Overlays,
    Refines,
    Zooms,
}

impl Phase {
    /// The phase of a step.
    pub fn at(step: usize) -> Self {
        match step {
            ..1800 => Self::Sees,
            ..4200 => Self::Overlays,
            ..6000 => Self::Refines,
            _ => Self::Zooms,
        }
    }
}

/// Views of one size.
pub struct Batch {
    pub grid: Grid,
    pub count: usize,
    pub images: Vec<f32>,
    /// In cells of `cells`, patch by patch.
    pub log_depths: Vec<f32>,
    pub labels: Vec<u32>,
    /// Patches of the answer: those of the views, or of full frames.
    pub cells: Grid,
    /// For each pair of views that follow each other; empty if they are no pairs.
    pub pairs: Vec<Consistency>,
    /// What is laid over the views; the answer is that of the later frames.
    pub overlay: Option<Overlay>,
}

/// Parts of later frames, laid over the features of earlier ones as the camera's flow moves them: what
/// the decoder gets at run time.
pub struct Overlay {
    /// Patches of a part as the encoder sees it, and as it is laid over.
    pub part: Grid,
    pub window: Grid,
    /// The encoder's input for all parts, those of a pair behind each other.
    pub images: Vec<f32>,
    pub pairs: Vec<Overlaid>,
    /// Cells of the answer that can be known: those that stayed, and those of parts.
    pub seen: Vec<u32>,
}

/// Two frames, the second of which is seen in parts.
pub struct Overlaid {
    pub truth: Consistency,
    /// For each patch its own number, or where a part covers it the number of the part's patch,
    /// counted after all patches of the frame.
    pub rows: Vec<u32>,
}

impl Batch {
    /// The batch of a step.
    pub fn draw(pool: &Pool, step: usize, phase: Phase) -> Result<Self, AriaError> {
        let mut random = StdRng::seed_from_u64(pool.seed.rotate_left(17) ^ step as u64);
        match random.random_range(0..10) {
            0..3 => Self::parts(pool, &mut random),
            3..5 => Self::pairs(pool, phase, &mut random),
            5..8 if phase != Phase::Sees => Self::overlaid(pool, phase, &mut random),
            _ => Self::whole(pool, phase, &mut random),
        }
    }

    /// Whole frames, each of another scene.
    fn whole(pool: &Pool, phase: Phase, random: &mut StdRng) -> Result<Self, AriaError> {
        let levels = if phase >= Phase::Refines { [0, 1, 2, 3, 3, 3] } else { [0, 0, 0, 1, 2, 3] };
        let [rows, cols] = LEVELS[levels[random.random_range(0..6)]];
        let grid = Grid::new(rows, cols)?;
        let cells = if random.random_bool(0.25) { full()? } else { grid };
        let mut batch = Self::empty(grid, cells);
        for _ in 0..(PATCHES / grid.patches()).max(2) {
            let shot = &pool.shots[random.random_range(0..pool.shots.len())];
            let frame = shot.scene.camera().grid;
            let (seen, asked) = (View::whole(frame, grid), View::whole(frame, cells));
            batch.add(shot, random.random_range(0..2), &seen, &asked)?;
        }
        Ok(batch)
    }

    /// Whole frames, both of each shot.
    fn pairs(pool: &Pool, phase: Phase, random: &mut StdRng) -> Result<Self, AriaError> {
        let low = if phase >= Phase::Refines { 0.3 } else { 0.7 };
        let [rows, cols] = LEVELS[if random.random_bool(low) { 0 } else { 3 }];
        let grid = Grid::new(rows, cols)?;
        let mut batch = Self::empty(grid, grid);
        for _ in 0..(PATCHES / grid.patches() / 2).max(1) {
            let shot = &pool.shots[random.random_range(0..pool.shots.len())];
            let view = View::whole(shot.scene.camera().grid, grid);
            for picture in 0..2 {
                batch.add(shot, picture, &view, &view)?;
            }
            batch.pairs.push(Consistency::of(shot, grid)?);
        }
        Ok(batch)
    }

    /// Parts of frames at full resolution.
    fn parts(pool: &Pool, random: &mut StdRng) -> Result<Self, AriaError> {
        let side = PARTS[random.random_range(0..PARTS.len())];
        let grid = Grid::new(side, side)?;
        let mut batch = Self::empty(grid, grid);
        for _ in 0..PATCHES / grid.patches() {
            let shot = &pool.shots[random.random_range(0..pool.shots.len())];
            let frame = shot.scene.camera().grid;
            let row = random.random_range(0..=frame.rows() - side);
            let col = random.random_range(0..=frame.cols() - side);
            let view = View::part(Window { row, col, rows: side, cols: side })?;
            batch.add(shot, random.random_range(0..2), &view, &view)?;
        }
        Ok(batch)
    }

    /// The earlier frame of each shot at any resolution, under parts of the later one.
    fn overlaid(pool: &Pool, phase: Phase, random: &mut StdRng) -> Result<Self, AriaError> {
        let [rows, cols] = LEVELS[[3, 3, 2, 1, 0][random.random_range(0..5)]];
        let (grid, top) = (Grid::new(rows, cols)?, full()?);
        let zoom = if phase == Phase::Zooms { random.random_range(1..3) } else { 1 };
        let side = PARTS[random.random_range(2 - zoom..PARTS.len() + 1 - zoom)];
        let mut overlay = Overlay {
            part: Grid::new(side, side)?,
            window: Grid::new(zoom * side, zoom * side)?,
            images: Vec::new(),
            pairs: Vec::new(),
            seen: Vec::new(),
        };
        let mut batch = Self::empty(grid, top);
        for pair in 0..(PATCHES / (grid.patches() + OVERLAID * side * side)).max(1) {
            let shot = &pool.shots[random.random_range(0..pool.shots.len())];
            batch.images.extend(shot.frame(0)?.pixels(&View::whole(top, grid))?);
            batch.ask(shot, 1, &View::whole(top, top));
            overlay.add(shot, pair, random)?;
        }
        batch.overlay = Some(overlay);
        Ok(batch)
    }

    fn empty(grid: Grid, cells: Grid) -> Self {
        let (images, log_depths, labels) = (Vec::new(), Vec::new(), Vec::new());
        let pairs = Vec::new();
        Self { grid, count: 0, images, log_depths, labels, cells, pairs, overlay: None }
    }

    fn add(
        &mut self,
        shot: &Shot,
        picture: usize,
        seen: &View,
        asked: &View,
    ) -> Result<(), AriaError> {
        self.images.extend(shot.frame(picture)?.pixels(seen)?);
        self.ask(shot, picture, asked);
        Ok(())
    }

    /// Adds the answer for a view.
    fn ask(&mut self, shot: &Shot, picture: usize, asked: &View) {
        let (scene, picture) = (&shot.scene, &shot.pictures[picture]);
        let target = Target::of(scene.world(), scene.camera(), picture, asked);
        let (rows, cols) = (asked.grid.rows(), asked.grid.cols());
        for patch in 0..rows * cols {
            for cell in 0..CELLS * CELLS {
                let y = patch / cols * CELLS + cell / CELLS;
                let x = patch % cols * CELLS + cell % CELLS;
                self.log_depths.push(target.log_depths[y * cols * CELLS + x]);
                self.labels.push(target.labels[y * cols * CELLS + x]);
            }
        }
        self.count += 1;
    }
}

impl Overlay {
    /// Adds a pair, with parts around patches that moved, or anywhere if none did.
    fn add(&mut self, shot: &Shot, pair: usize, random: &mut StdRng) -> Result<(), AriaError> {
        let top = shot.scene.camera().grid;
        let truth = Consistency::of(shot, top)?;
        let moving: Vec<usize> = (0..top.patches()).filter(|p| truth.moving[*p] > 0.0).collect();
        let mut rows: Vec<u32> = (0..top.patches() as u32).collect();
        let (high, wide) = (self.window.rows(), self.window.cols());
        for part in 0..OVERLAID {
            let middle = match moving.len() {
                0 => random.random_range(0..top.patches()),
                count => moving[random.random_range(0..count)],
            };
            let (row, col) = top.place(middle);
            let window = Window {
                row: row.saturating_sub(high / 2).min(top.rows() - high),
                col: col.saturating_sub(wide / 2).min(top.cols() - wide),
                rows: high,
                cols: wide,
            };
            let view = View { window, grid: self.part };
            self.images.extend(shot.frame(1)?.pixels(&view)?);
            for (number, (row, col)) in window.places().enumerate() {
                let number = top.patches() + part * self.window.patches() + number;
                rows[top.index(row, col)] = number as u32;
            }
        }
        let (cells, patches) = (CELLS * CELLS, top.patches());
        for patch in 0..patches {
            if truth.still[patch] > 0.0 || rows[patch] as usize >= patches {
                let first = (pair * patches + patch) * cells;
                self.seen.extend((first..first + cells).map(|cell| cell as u32));
            }
        }
        self.pairs.push(Overlaid { truth, rows });
        Ok(())
    }
}

impl Consistency {
    fn of(shot: &Shot, grid: Grid) -> Result<Self, AriaError> {
        let camera = coarser(shot.scene.camera(), grid)?;
        let [before, now] = &shot.pictures;
        let truth = Truth::between(shot.scene.world(), &camera, before, now);
        let depths = Structure::Depth(camera.depths_of_patches(before));
        let motion = CameraMotion::between(&before.pose, &now.pose);
        let flow = CameraFlow::new(camera.intrinsics, depths).over(grid, &motion)?;
        let patches = grid.patches();
        let mut all = Self {
            from: Vec::with_capacity(4 * patches),
            shares: Vec::with_capacity(4 * patches),
            still: vec![0.0; patches],
            moving: vec![0.0; patches],
        };
        for (patch, [x, y]) in flow.sources().iter().copied().enumerate() {
            let inside = x >= 0.0 && y >= 0.0 && x < grid.cols() as f32 && y < grid.rows() as f32;
            let (left, across) = halves(x, grid.cols());
            let (top, down) = halves(y, grid.rows());
            for (r, share) in [(top[0], 1.0 - down), (top[1], down)] {
                for (c, part) in [(left[0], 1.0 - across), (left[1], across)] {
                    all.from.push(grid.index(r, c) as u32);
                    all.shares.push(share * part);
                }
            }
            if inside && truth.known.contains(patch) {
                let moved = truth.moving.contains(patch);
                (if moved { &mut all.moving } else { &mut all.still })[patch] = 1.0;
            }
        }
        Ok(all)
    }
}

/// The two patches whose centres lie around a point, and how far it is on the way to the second.
fn halves(at: f32, patches: usize) -> ([usize; 2], f32) {
    let at = (at - 0.5).clamp(0.0, (patches - 1) as f32);
    ([at as usize, (at as usize + 1).min(patches - 1)], at.fract())
}

/// The same pictures, cut into fewer patches.
fn coarser(camera: &Camera, grid: Grid) -> Result<Camera, AriaError> {
    let times = camera.grid.rows() / grid.rows();
    let fewer = |of: [f64; 2]| of.map(|x| x / times as f64);
    let (focal, centre) = (camera.intrinsics.focal(), camera.intrinsics.centre());
    let intrinsics = Intrinsics::new(fewer(focal), fewer(centre))?;
    Ok(Camera { grid, patch: camera.patch * times, intrinsics, ..*camera })
}
