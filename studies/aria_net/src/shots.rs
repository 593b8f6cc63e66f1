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
}

impl Batch {
    /// The batch of a step.
    pub fn draw(pool: &Pool, step: usize) -> Result<Self, AriaError> {
        let mut random = StdRng::seed_from_u64(pool.seed.rotate_left(17) ^ step as u64);
        match random.random_range(0..10) {
            0..3 => Self::parts(pool, &mut random),
            3..5 => Self::pairs(pool, &mut random),
            _ => Self::whole(pool, &mut random),
        }
    }

    /// Whole frames, each of another scene.
    fn whole(pool: &Pool, random: &mut StdRng) -> Result<Self, AriaError> {
        let [rows, cols] = LEVELS[[0, 0, 0, 1, 2, 3][random.random_range(0..6)]];
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
    fn pairs(pool: &Pool, random: &mut StdRng) -> Result<Self, AriaError> {
        let [rows, cols] = LEVELS[if random.random_bool(0.7) { 0 } else { 3 }];
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

    fn empty(grid: Grid, cells: Grid) -> Self {
        let (images, log_depths, labels) = (Vec::new(), Vec::new(), Vec::new());
        Self { grid, count: 0, images, log_depths, labels, cells, pairs: Vec::new() }
    }

    fn add(
        &mut self,
        shot: &Shot,
        picture: usize,
        seen: &View,
        asked: &View,
    ) -> Result<(), AriaError> {
        self.images.extend(shot.frame(picture)?.pixels(seen)?);
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
