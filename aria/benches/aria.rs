//! What the runtime takes on one core beside a straightforward implementation, as ratios from one run: `cargo bench -p vitempo-aria`.
//!
//! 29 x 47 patches of 384 features, a crowded scene; the region encoder takes 17 x 23 patches. Contenders take turns, round after round, on the thread's CPU
//! clock; printed are medians over the rounds with the quartiles. A camera frame in which a full frame arrives takes both; the budget for that is 1 ms.

#![allow(clippy::unwrap_used)]

use std::{collections::BTreeMap, hint::black_box};
use vitempo_aria::{
    CameraFlow, Grid, Instructions, Pose, Runtime, Search, Settings, Structure, Window,
    scene::{Kind, Scene, StandIn},
};

const WIDTH: usize = 384;
const INTERVAL: u64 = 4;
const ROUNDS: usize = 15;
/// CPU time of one contender in one round, s.
const WINDOW_S: f64 = 0.02;

/// CPU time of this thread, s.
fn cpu_s() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a timespec to write to.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Two full frames of a scene and the frame after the second.
struct Input {
    grid: Grid,
    flow: CameraFlow,
    poses: [Pose; 2],
    features: [Vec<f32>; 2],
}

impl Input {
    fn new() -> Self {
        let grid = Grid::of_image(406, 658, 14).unwrap();
        let scene = Scene::new(Kind::Crowded, 1, grid, 14).unwrap();
        let encoder = StandIn::new(WIDTH, 1);
        let pictures = [scene.picture(40), scene.picture(40 + INTERVAL)];
        let features = [0, 1].map(|i| encoder.encode(scene.camera(), &pictures[i]));
        let depth = scene.camera().depths_of_patches(&pictures[0]);
        let flow = CameraFlow::new(scene.camera().intrinsics, Structure::Depth(depth));
        Self { grid, flow, poses: [pictures[0].pose, pictures[1].pose], features }
    }

    /// What the region encoder would say of a window of the second full frame.
    fn window(&self, window: Window) -> Vec<f32> {
        window.places().flat_map(|(row, col)| self.features[1][self.grid.index(row, col) * WIDTH..][..WIDTH].to_vec()).collect()
    }

    fn runtime(&self, instructions: Instructions, search: Search) -> Runtime<CameraFlow> {
        let mut settings = Settings::new(self.grid, WIDTH, [17, 23]);
        settings.tracking.search = search;
        let mut runtime = Runtime::new(settings, self.flow.clone()).unwrap().with_instructions(instructions);
        runtime.full_frame(0, &self.poses[0], &self.features[0]).unwrap();
        runtime.full_frame(INTERVAL, &self.poses[1], &self.features[1]).unwrap();
        runtime
    }
}

struct Contender<'a> {
    name: String,
    run: Box<dyn FnMut() + 'a>,
    us: Vec<f64>,
}

impl<'a> Contender<'a> {
    fn new(name: impl Into<String>, run: impl FnMut() + 'a) -> Self {
        Self { name: name.into(), run: Box::new(run), us: Vec::new() }
    }

    fn measure(&mut self) {
        let (start, mut calls) = (cpu_s(), 0);
        loop {
            (self.run)();
            calls += 1;
            let elapsed = cpu_s() - start;
            if elapsed > WINDOW_S {
                self.us.push(elapsed * 1e6 / f64::from(calls));
                return;
            }
        }
    }

    fn quantile(&self, share: f64) -> f64 {
        let mut us = self.us.clone();
        us.sort_by(f64::total_cmp);
        us[((us.len() - 1) as f64 * share) as usize]
    }
}

fn main() {
    let input = Input::new();
    let near = Search::Within(8);
    let probe = input.runtime(Instructions::best(), near);
    let found = probe.found().unwrap();
    println!("{}, {WIDTH} features: {} dynamic patches, {} unseen, {} regions", input.grid, found.dynamic.count(), found.unseen.count(), probe.regions().len());
    let flow = input.flow.over(input.grid, &vitempo_aria::CameraMotion::between(&input.poses[0], &input.poses[1])).unwrap();

    let window = input.window(Window { row: 0, col: 0, rows: 17, cols: 23 });
    let mut full = vec![Contender::new("straightforward", || drop(black_box(plain::full_frame(&input, &flow, 8))))];
    let mut frames = vec![Contender::new("straightforward", || drop(black_box(plain::frame(&input, &flow, &window))))];
    for instructions in Instructions::available() {
        full.push(full_frames(&input, instructions, near, instructions.name()));
        frames.push(camera_frames(&input, instructions));
    }
    full.push(full_frames(&input, Instructions::best(), Search::Everywhere, "best, matching everywhere"));
    for _ in 0..ROUNDS {
        full.iter_mut().chain(&mut frames).for_each(Contender::measure);
    }
    report("A full frame arrives: warp, identify, group, match, velocities", &full);
    report("A camera frame: flow, warp, track, pad, choose one cycle, merge it, refresh velocities", &frames);
    println!("\nBoth, best instructions: {:.0} us of 1000", full[1].quantile(0.5) + frames[1].quantile(0.5));
}

/// The two full frames in turns, each compared with the other.
fn full_frames<'a>(input: &'a Input, instructions: Instructions, search: Search, name: &str) -> Contender<'a> {
    let mut runtime = input.runtime(instructions, search);
    let mut number = 1;
    Contender::new(name, move || {
        number += 1;
        let which = number as usize % 2;
        runtime.full_frame(number * INTERVAL, &input.poses[which], &input.features[which]).unwrap();
    })
}

fn camera_frames(input: &Input, instructions: Instructions) -> Contender<'_> {
    let mut runtime = input.runtime(instructions, Search::Within(8));
    let mut number = INTERVAL;
    let mut seen: BTreeMap<Window, Vec<f32>> = BTreeMap::new();
    Contender::new(instructions.name(), move || {
        // Regions move on for one interval at most, as they do between full frames; the second full frame stands for all of them.
        number = if number >= 2 * INTERVAL { INTERVAL + 1 } else { number + 1 };
        let plan = runtime.frame(number, &input.poses[1], 1).unwrap();
        for cycle in &plan.cycles {
            runtime.update(cycle, seen.entry(cycle.window).or_insert_with(|| input.window(cycle.window))).unwrap();
        }
        black_box(runtime.aligned());
    })
}

fn report(title: &str, contenders: &[Contender]) {
    println!("\n{title}\n{:>28} {:>10} {:>19} {:>14}", "", "us", "quartiles", "times as fast");
    let base = contenders[0].quantile(0.5);
    for contender in contenders {
        let [low, median, high] = [0.25, 0.5, 0.75].map(|share| contender.quantile(share));
        println!("{:>28} {median:>10.0} {low:>9.0}-{high:<9.0} {:>14.1}", contender.name, base / median);
    }
}

/// The equations as they are written, loop by loop.
mod plain {
    use super::{Input, WIDTH};
    use vitempo_aria::{PatchFlow, THRESHOLD};

    fn cosine(a: &[f32], b: &[f32]) -> f32 {
        let (mut product, mut aa, mut bb) = (0.0, 0.0, 0.0);
        for (a, b) in a.iter().zip(b) {
            product += a * b;
            aa += a * a;
            bb += b * b;
        }
        if aa > 0.0 && bb > 0.0 { product / (aa * bb).sqrt() } else { 0.0 }
    }

    fn warp(input: &Input, flow: &PatchFlow) -> Vec<f32> {
        let grid = input.grid;
        let mut out = vec![0.0; grid.patches() * WIDTH];
        for (patch, [x, y]) in flow.sources().iter().enumerate() {
            let x = (x - 0.5).clamp(0.0, (grid.cols() - 1) as f32);
            let y = (y - 0.5).clamp(0.0, (grid.rows() - 1) as f32);
            for feature in 0..WIDTH {
                let at = |row: f32, col: f32| input.features[0][grid.index(row as usize, col as usize) * WIDTH + feature];
                let along = |row: f32| at(row, x.floor()) * (1.0 - x.fract()) + at(row, x.ceil()) * x.fract();
                out[patch * WIDTH + feature] = along(y.floor()) * (1.0 - y.fract()) + along(y.ceil()) * y.fract();
            }
        }
        out
    }

    /// Warp, equation (1), equation (2) within a radius; the rest takes no time to speak of.
    pub fn full_frame(input: &Input, flow: &PatchFlow, radius: usize) -> Vec<(usize, usize)> {
        let grid = input.grid;
        let warped = warp(input, flow);
        let row = |values: &'_ [f32], patch: usize| values[patch * WIDTH..][..WIDTH].to_vec();
        let mut matched = Vec::new();
        for patch in 0..grid.patches() {
            let now = row(&input.features[1], patch);
            if cosine(&warped[patch * WIDTH..][..WIDTH], &now) >= THRESHOLD {
                continue;
            }
            let (r, c) = grid.place(patch);
            let mut best = (f32::NEG_INFINITY, patch);
            for source in 0..grid.patches() {
                let (from_r, from_c) = grid.place(source);
                if r.abs_diff(from_r).max(c.abs_diff(from_c)) <= radius {
                    let similarity = cosine(&warped[source * WIDTH..][..WIDTH], &now);
                    if similarity > best.0 {
                        best = (similarity, source);
                    }
                }
            }
            matched.push((patch, best.1));
        }
        matched
    }

    /// Warp, and a window put into its place.
    pub fn frame(input: &Input, flow: &PatchFlow, window: &[f32]) -> Vec<f32> {
        let mut warped = warp(input, flow);
        for (row, features) in window.chunks_exact(23 * WIDTH).enumerate() {
            warped[input.grid.index(row, 0) * WIDTH..][..features.len()].copy_from_slice(features);
        }
        warped
    }
}
