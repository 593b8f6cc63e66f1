//! The same steps written as the paper's equations, with plain loops over features. Steps that read
//! no features (flow, hulls, windows, priorities) use the library.

use super::{CYCLE, Machine, Video, WIDTH};
use vitempo_aria::{
    CameraFlow, CameraMotion, Grid, PatchFlow, PatchSet, Pose, Region, Settings, Structure, group,
    scheduler::{Cycle, CyclePlanner, Request},
};

/// Largest displacement, and most patches of a region that are matched, as in the runtime.
const RADIUS: isize = 8;
const MOST: usize = 16;

pub(crate) struct Plain {
    grid: Grid,
    settings: Settings,
    flow: CameraFlow,
    planner: CyclePlanner,
    latest: Option<(u64, Pose, Vec<f32>)>,
    regions: Vec<Region>,
    next: u64,
    frame: u64,
    now: PatchFlow,
    warped: Vec<f32>,
    merged: Vec<f32>,
    asked: Vec<(u64, PatchSet, PatchSet)>,
    kept: Vec<Kept>,
}

/// Region, frame, where it was, and features by patch.
type Kept = (u64, u64, [f32; 2], Vec<(usize, Vec<f32>)>);

fn cosine(a: &[f32], b: &[f32]) -> f32 {
    let (mut product, mut aa, mut bb) = (0.0, 0.0, 0.0);
    for (a, b) in a.iter().zip(b) {
        product += a * b;
        aa += a * a;
        bb += b * b;
    }
    if aa > 0.0 && bb > 0.0 { product / (aa * bb).sqrt() } else { 0.0 }
}

fn row(values: &[f32], patch: usize) -> &[f32] {
    &values[patch * WIDTH..][..WIDTH]
}

fn warp(grid: Grid, flow: &PatchFlow, source: &[f32]) -> Vec<f32> {
    let mut out = vec![0.0; grid.patches() * WIDTH];
    for (patch, [x, y]) in flow.sources().iter().enumerate() {
        let x = (x - 0.5).clamp(0.0, (grid.cols() - 1) as f32);
        let y = (y - 0.5).clamp(0.0, (grid.rows() - 1) as f32);
        for feature in 0..WIDTH {
            let at = |row: f32, col: f32| {
                source[grid.index(row as usize, col as usize) * WIDTH + feature]
            };
            let along =
                |row: f32| at(row, x.floor()) * (1.0 - x.fract()) + at(row, x.ceil()) * x.fract();
            out[patch * WIDTH + feature] =
                along(y.floor()) * (1.0 - y.fract()) + along(y.ceil()) * y.fract();
        }
    }
    out
}

/// The patches that are matched: as many as possible of one parity, and in pairs.
fn some_of(grid: Grid, patches: &[usize]) -> Vec<usize> {
    let parity = |patch: usize| 2 * (grid.place(patch).0 % 2) + grid.place(patch).1 % 2;
    let mut classes: Vec<Vec<usize>> = (0..4)
        .map(|class| patches.iter().copied().filter(|patch| parity(*patch) == class).collect())
        .collect();
    classes.sort_by_key(|class| std::cmp::Reverse(class.len()));
    let mut some = Vec::new();
    for class in classes {
        let wanted = MOST - some.len();
        if class.len() <= wanted {
            some.extend(class);
            continue;
        }
        let (pairs, wanted) = (class.len() / 2, wanted / 2);
        some.extend((0..wanted).flat_map(|n| class.iter().skip(2 * (n * pairs / wanted)).take(2)));
        break;
    }
    some
}

/// The displacement with the highest similarity less the price of distance, and a parabola for the
/// fraction; over some of the patches, in pairs.
fn displacement<'a>(
    grid: Grid,
    patches: &[usize],
    earlier: &[f32],
    now: impl Fn(usize) -> &'a [f32],
) -> Option<[f32; 2]> {
    let some = some_of(grid, patches);
    let side = 2 * RADIUS + 1;
    let mut votes = vec![(0.0f32, 0.0f32); (side * side) as usize];
    let cell = |down: isize, across: isize| ((down + RADIUS) * side + across + RADIUS) as usize;
    for patch in &some {
        let (row_now, col_now) = grid.place(*patch);
        for source in 0..grid.patches() {
            let (row_then, col_then) = grid.place(source);
            let (down, across) =
                (row_now as isize - row_then as isize, col_now as isize - col_then as isize);
            if down.abs().max(across.abs()) <= RADIUS {
                let vote = &mut votes[cell(down, across)];
                *vote = (vote.0 + cosine(row(earlier, source), now(*patch)), vote.1 + 1.0);
            }
        }
    }
    let mean = |down: isize, across: isize| {
        let within = down.abs().max(across.abs()) <= RADIUS;
        let (sum, count) = if within { votes[cell(down, across)] } else { (0.0, 0.0) };
        (count > 0.0 && 2.0 * count >= votes[cell(0, 0)].1)
            .then(|| (sum - 0.1 * (down * down + across * across) as f32) / count)
    };
    let all =
        (-RADIUS..=RADIUS).flat_map(|down| (-RADIUS..=RADIUS).map(move |across| (down, across)));
    let (peak, down, across) = all
        .filter_map(|(down, across)| Some((mean(down, across)?, down, across)))
        .max_by(|a, b| a.0.total_cmp(&b.0))?;
    let fraction = |before: Option<f32>, after: Option<f32>| {
        let (Some(before), Some(after)) = (before, after) else { return 0.0 };
        let bend = before - 2.0 * peak + after;
        if bend < 0.0 { (0.5 * (before - after) / bend).clamp(-0.5, 0.5) } else { 0.0 }
    };
    let right = fraction(mean(down, across - 1), mean(down, across + 1));
    let below = fraction(mean(down - 1, across), mean(down + 1, across));
    Some([across as f32 + right, down as f32 + below])
}

fn centre(set: &PatchSet) -> [f32; 2] {
    let sum = set
        .iter()
        .map(|patch| set.grid().centre(patch))
        .fold([0.0; 2], |sum, [x, y]| [sum[0] + x, sum[1] + y]);
    sum.map(|sum| sum / set.count().max(1) as f32)
}

impl Plain {
    pub(crate) fn new(video: &Video, settings: Settings) -> Self {
        let grid = video.grid;
        Self {
            grid,
            settings,
            flow: video.flow.clone(),
            planner: CyclePlanner::new(grid, CYCLE, settings.priority).unwrap(),
            latest: None,
            regions: Vec::new(),
            next: 0,
            frame: 0,
            now: PatchFlow::still(grid),
            warped: Vec::new(),
            merged: Vec::new(),
            asked: Vec::new(),
            kept: Vec::new(),
        }
    }

    fn flow(&self, latest: &Pose, pose: &Pose) -> PatchFlow {
        self.flow.over(self.grid, &CameraMotion::between(latest, pose)).unwrap()
    }

    /// The earlier region that a new one shares most patches with, or a new number.
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

    fn unseen(&self) -> PatchSet {
        PatchSet::of(self.grid, |patch| !self.grid.holds(self.now.sources()[patch]))
    }
}

impl Machine for Plain {
    fn full_frame(&mut self, frame: u64, now: &Pose, output: &mut Vec<f32>) {
        let features = std::mem::take(output);
        let Some((then, pose, before)) = self.latest.take() else {
            self.latest = Some((frame, *now, features));
            return;
        };
        let (grid, flow) = (self.grid, self.flow(&pose, now));
        let warped = warp(grid, &flow, &before);
        let dynamic = PatchSet::of(grid, |patch| {
            grid.holds(flow.sources()[patch])
                && cosine(row(&warped, patch), row(&features, patch))
                    < self.settings.criterion.threshold
        });
        let mut free: Vec<(u64, PatchSet)> = self
            .regions
            .iter()
            .map(|region| (region.id, region.at(&flow, region.age(frame))))
            .collect();
        let groups = group(&dynamic, self.settings.tracking.smallest);
        self.regions = Vec::new();
        for found in groups {
            let id = self.identity(&mut free, &found.filled);
            let moved = displacement(grid, &found.dynamic, &warped, |patch| row(&features, patch))
                .unwrap_or([0.0; 2]);
            self.regions.push(Region {
                id,
                patches: found.filled,
                velocity: moved.map(|d| d / (frame - then) as f32),
                frame,
            });
        }
        self.kept.retain(|(region, kept, ..)| {
            *kept > frame && self.regions.iter().any(|other| other.id == *region)
        });
        self.latest = Some((frame, *now, features));
    }

    fn depths(&mut self, depths: &[f32]) {
        self.flow.set_structure(Structure::Depth(depths.to_vec()));
    }

    fn frame(&mut self, frame: u64, pose: &Pose) -> Vec<Cycle> {
        let (grid, (_, then, features)) = (self.grid, self.latest.as_ref().unwrap());
        self.now = self.flow(then, pose);
        self.warped = warp(grid, &self.now, features);
        self.merged = self.warped.clone();
        self.frame = frame;
        let mut requests = Vec::new();
        self.asked.clear();
        for region in &self.regions {
            let age = region.age(frame);
            let since = age.min(self.planner.waited(region.id) as f32 + 1.0);
            let (now, stale) = region.now_and_swept(&self.now, age, since);
            if let Some(window) = self.settings.padding.window(&now, region.velocity, since) {
                requests.push(Request { region: region.id, window, speed: region.speed() });
                self.asked.push((region.id, now, stale));
            }
        }
        let unseen = self.unseen();
        let corners = (0..grid.rows())
            .step_by(CYCLE[0])
            .flat_map(|row| (0..grid.cols()).step_by(CYCLE[1]).map(move |col| (row, col)));
        for (number, (row, col)) in corners.enumerate() {
            let part = PatchSet::of(grid, |patch| {
                let (r, c) = grid.place(patch);
                unseen.contains(patch)
                    && (row..row + CYCLE[0]).contains(&r)
                    && (col..col + CYCLE[1]).contains(&c)
            });
            if let Some(window) = self.settings.padding.window(&part, [0.0; 2], 0.0) {
                requests.push(Request { region: u64::MAX - number as u64, window, speed: 0.0 });
                self.asked.push((u64::MAX - number as u64, part.clone(), part));
            }
        }
        for (region, _, from, patches) in &self.kept {
            let Some((_, now, _)) =
                self.asked.iter().find(|(asked, now, _)| asked == region && now.count() > 0)
            else {
                continue;
            };
            let to = centre(now);
            let shift = [to[0] - from[0], to[1] - from[1]].map(f32::round);
            for (patch, features) in patches {
                let [x, y] = grid.centre(*patch);
                if let Some(patch) = grid.at([x + shift[0], y + shift[1]]) {
                    self.merged[patch * WIDTH..][..WIDTH].copy_from_slice(features);
                }
            }
        }
        self.planner.plan(&requests, 1)
    }

    fn update(&mut self, cycle: &Cycle, features: &[f32]) {
        let (grid, window) = (self.grid, cycle.window);
        let since = self.frame - self.latest.as_ref().unwrap().0;
        let mut placed = self.warped.clone();
        for ((r, c), features) in window.places().zip(features.chunks_exact(WIDTH)) {
            placed[grid.index(r, c) * WIDTH..][..WIDTH].copy_from_slice(features);
        }
        let inside = |patch: &usize| window.contains(grid.place(*patch).0, grid.place(*patch).1);
        for (id, now, stale) in self.asked.iter().filter(|(id, ..)| cycle.regions.contains(id)) {
            let Some(region) = self.regions.iter_mut().find(|region| region.id == *id) else {
                continue;
            };
            let patches: Vec<usize> = now.iter().filter(inside).collect();
            if let Some(moved) =
                displacement(grid, &patches, &self.warped, |patch| row(&placed, patch))
                    .filter(|_| since > 0)
            {
                let seen = moved.map(|d| d / since as f32);
                region.velocity = std::array::from_fn(|i| {
                    region.velocity[i] + 0.5 * (seen[i] - region.velocity[i])
                });
            }
            let differing = stale.iter().filter(inside).filter(|patch| {
                cosine(row(&placed, *patch), row(&self.warped, *patch))
                    < self.settings.criterion.threshold
            });
            let kept: Vec<(usize, Vec<f32>)> =
                differing.map(|patch| (patch, row(&placed, patch).to_vec())).collect();
            self.kept.push((*id, self.frame, centre(now), kept));
        }
        for (.., stale) in self.asked.iter().filter(|(id, ..)| cycle.regions.contains(id)) {
            for patch in stale.iter().filter(inside) {
                self.merged[patch * WIDTH..][..WIDTH].copy_from_slice(row(&placed, patch));
            }
        }
        std::hint::black_box(&self.merged);
    }

    fn motion(&self) -> Vec<[f32; 2]> {
        self.regions.iter().map(|region| region.velocity).collect()
    }
}
