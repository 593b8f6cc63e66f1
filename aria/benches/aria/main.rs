//! Times the runtime on one core beside a plain implementation of the same steps: `cargo bench -p
//! vitempo-aria`.
//!
//! 29 x 47 patches of 384 features, a crowded scene, played forwards and backwards. Every fourth
//! camera frame a full frame arrives, captured four frames ago; every camera frame has one cycle of
//! 17 x 23 patches. Both are timed in turns by the thread's CPU clock; the bench prints medians and
//! quartiles over the rounds. A camera frame in which a full frame arrives takes both; the budget
//! for that is 1 ms.

#![allow(clippy::unwrap_used)]

mod plain;

use std::hint::black_box;
use vitempo_aria::{
    CameraFlow, CameraMotion, Criterion, FeatureMap, FlowEstimator, Grid, Instructions, Pose,
    Runtime, Settings, Structure, Warped, Window, identify, matches,
    scene::{Kind, Scene, StandIn},
};

pub(crate) const WIDTH: usize = 384;
pub(crate) const CYCLE: [usize; 2] = [17, 23];
/// Camera frames from full frame to full frame, and until one arrives.
pub(crate) const INTERVAL: u64 = 4;
const ROUNDS: usize = 25;
/// Full frames of one contender in one round.
const TIMES: usize = 8;
/// Frames of the video.
const FRAMES: u64 = 9;

/// CPU time of this thread, us.
fn cpu_us() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a timespec to write to.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 * 1e-3
}

/// A frame of the video: the camera's pose, the encoder's features, and the decoder's output for
/// them.
pub(crate) struct Seen {
    pub(crate) pose: Pose,
    pub(crate) features: Vec<f32>,
    pub(crate) depths: Vec<f32>,
}

pub(crate) struct Video {
    pub(crate) grid: Grid,
    pub(crate) flow: CameraFlow,
    frames: Vec<Seen>,
}

impl Video {
    fn new() -> Self {
        let grid = Grid::of_image(406, 658, 14).unwrap();
        let scene = Scene::new(Kind::Crowded, 1, grid, 14).unwrap();
        let encoder = StandIn::new(WIDTH, 1);
        let see = |frame| {
            let picture = scene.picture(40 + frame);
            Seen {
                pose: picture.pose,
                features: encoder.encode(scene.camera(), &picture),
                depths: scene.camera().depths_of_patches(&picture),
            }
        };
        let flow = CameraFlow::new(scene.camera().intrinsics, Structure::Distant);
        Self { grid, flow, frames: (0..FRAMES).map(see).collect() }
    }

    /// To and fro without end.
    pub(crate) fn at(&self, frame: u64) -> &Seen {
        let round = 2 * (FRAMES - 1);
        let at = frame % round;
        &self.frames[at.min(round - at) as usize]
    }

    /// The region encoder's features of a window.
    fn window(&self, frame: u64, window: Window) -> Vec<f32> {
        let features = &self.at(frame).features;
        window
            .places()
            .flat_map(|(row, col)| features[self.grid.index(row, col) * WIDTH..][..WIDTH].to_vec())
            .collect()
    }
}

/// An implementation with the timed steps: a full frame arrives; a camera frame up to its plan; the
/// update of a window.
pub(crate) trait Machine {
    /// Takes `features`, the encoder's output, and may leave other room.
    fn full_frame(&mut self, frame: u64, pose: &Pose, features: &mut Vec<f32>);
    fn depths(&mut self, depths: &[f32]);
    fn frame(&mut self, frame: u64, pose: &Pose) -> Vec<vitempo_aria::scheduler::Cycle>;
    fn update(&mut self, cycle: &vitempo_aria::scheduler::Cycle, features: &[f32]);
    /// Where its regions are going: of all, in patches per frame.
    fn motion(&self) -> Vec<[f32; 2]>;
}

impl Machine for Runtime<CameraFlow> {
    fn full_frame(&mut self, frame: u64, pose: &Pose, features: &mut Vec<f32>) {
        self.full_frame(frame, pose, features).unwrap();
    }

    fn depths(&mut self, depths: &[f32]) {
        self.estimator_mut().set_structure(Structure::Depth(depths.to_vec()));
    }

    fn frame(&mut self, frame: u64, pose: &Pose) -> Vec<vitempo_aria::scheduler::Cycle> {
        self.frame(frame, pose, 1).unwrap().cycles
    }

    fn update(&mut self, cycle: &vitempo_aria::scheduler::Cycle, features: &[f32]) {
        self.update(cycle, features).unwrap();
        black_box(self.aligned());
    }

    fn motion(&self) -> Vec<[f32; 2]> {
        self.regions().iter().map(|region| region.velocity).collect()
    }
}

/// Steps that are timed, and the two of them together that a camera frame has.
const STEPS: [&str; 3] = ["full frame", "frame", "update"];

struct Contender {
    name: &'static str,
    machine: Box<dyn Machine>,
    /// The buffer of the encoder's features of a full frame.
    output: Vec<f32>,
    frame: u64,
    /// By round and step, mean of a round.
    us: Vec<[f64; 3]>,
}

impl Contender {
    fn new(name: &'static str, machine: impl Machine + 'static) -> Self {
        Self {
            name,
            machine: Box::new(machine),
            output: Vec::new(),
            frame: INTERVAL,
            us: Vec::new(),
        }
    }

    /// Some full frames and the camera frames between; the first is not counted, as the caches are
    /// full of what others left.
    fn round(&mut self, video: &Video) {
        let mut us = [0.0; 3];
        for time in 0..=TIMES {
            if time == 1 {
                us = [0.0; 3];
            }
            let captured = self.frame - INTERVAL;
            let seen = video.at(captured);
            self.output.clone_from(&seen.features);
            us[0] += timed(|| self.machine.full_frame(captured, &seen.pose, &mut self.output)).1;
            self.machine.depths(&seen.depths);
            for frame in self.frame..self.frame + INTERVAL {
                let (cycles, planned) = timed(|| self.machine.frame(frame, &video.at(frame).pose));
                us[1] += planned / INTERVAL as f64;
                for cycle in &cycles {
                    let window = video.window(frame, cycle.window);
                    us[2] += timed(|| self.machine.update(cycle, &window)).1 / INTERVAL as f64;
                }
            }
            self.frame += INTERVAL;
        }
        self.us.push(us.map(|us| us / TIMES as f64));
    }

    /// Of some steps together.
    fn quantile(&self, steps: &[usize], share: f64) -> f64 {
        let mut us: Vec<f64> =
            self.us.iter().map(|round| steps.iter().map(|step| round[*step]).sum()).collect();
        us.sort_by(f64::total_cmp);
        us[((us.len() - 1) as f64 * share) as usize]
    }
}

/// What came out, and the CPU time it took, us.
fn timed<T>(mut run: impl FnMut() -> T) -> (T, f64) {
    let start = cpu_us();
    let out = run();
    (out, cpu_us() - start)
}

fn main() {
    let video = Video::new();
    let settings = Settings::new(video.grid, WIDTH, CYCLE);
    let runtime = |instructions| {
        Runtime::new(settings, video.flow.clone()).unwrap().with_instructions(instructions)
    };
    let mut contenders =
        vec![Contender::new("straightforward", plain::Plain::new(&video, settings))];
    contenders.extend(
        Instructions::available()
            .into_iter()
            .map(|instructions| Contender::new(instructions.name(), runtime(instructions))),
    );
    for _ in 0..ROUNDS {
        contenders.iter_mut().for_each(|contender| contender.round(&video));
    }
    let regions = contenders[0].machine.motion();
    println!("{}, {WIDTH} features, {} regions", video.grid, regions.len());
    for contender in &contenders {
        let motion = contender.machine.motion();
        let apart = motion
            .iter()
            .zip(&regions)
            .map(|(a, b)| (a[0] - b[0]).hypot(a[1] - b[1]))
            .fold(0.0, f32::max);
        assert!(
            motion.len() == regions.len() && apart < 1e-2,
            "{} sees other motion: {motion:?}, {regions:?}",
            contender.name
        );
    }
    report(
        "A full frame arrives: flow, warp, identify, group, match, velocities",
        &contenders,
        &[0],
    );
    report(
        "A camera frame: flow, warp, track, pad, choose one cycle; merge it, refresh velocities, \
        keep it",
        &contenders,
        &[1, 2],
    );
    report(
        "Both: a camera frame in which a full frame arrives (budget: 1000 us)",
        &contenders,
        &[0, 1, 2],
    );
    println!("\nBest instructions, by call, us");
    STEPS.iter().enumerate().for_each(|(step, name)| {
        println!("{name:>40} {:>10.0}", contenders[1].quantile(&[step], 0.5));
    });
    parts(&video);
}

fn report(title: &str, contenders: &[Contender], steps: &[usize]) {
    println!("\n{title}\n{:>20} {:>10} {:>19} {:>14}", "", "us", "quartiles", "times as fast");
    let base = contenders[0].quantile(steps, 0.5);
    for contender in contenders {
        let [low, median, high] = [0.25, 0.5, 0.75].map(|share| contender.quantile(steps, share));
        println!(
            "{:>20} {median:>10.0} {low:>9.0}-{high:<9.0} {:>14.1}",
            contender.name,
            base / median
        );
    }
}

/// Some parts alone, over features that were just used.
fn parts(video: &Video) {
    let best = Instructions::best();
    let (before, now) = (video.at(0), video.at(INTERVAL));
    let map =
        |seen: &Seen| FeatureMap::from_values(best, video.grid, WIDTH, &seen.features).unwrap();
    let (earlier, current, motion) =
        (map(before), map(now), CameraMotion::between(&before.pose, &now.pose));
    let mut estimator = video.flow.clone();
    estimator.set_structure(Structure::Depth(before.depths.clone()));
    let flow = estimator.flow(&earlier, &motion).unwrap();
    let mut warped = Warped::new(video.grid, WIDTH).unwrap();
    warped.warp(best, &earlier, &flow).unwrap();
    let found = identify(best, &warped, &current, Criterion::default()).unwrap();
    let mut room = FeatureMap::new(video.grid, WIDTH).unwrap();
    let median = |run: &mut dyn FnMut()| {
        let mut us: Vec<f64> = (0..101).map(|_| timed(&mut *run).1).collect();
        us.sort_by(f64::total_cmp);
        us[us.len() / 2]
    };
    let near: Vec<usize> = found.dynamic.iter().take(16).collect();
    let search = vitempo_aria::Search::Within(8);
    println!(
        "\nParts alone, us; {} dynamic patches, {} unseen",
        found.dynamic.count(),
        found.unseen.count()
    );
    let alone: [(&str, f64); 6] = [
        ("flow", median(&mut || drop(black_box(estimator.flow(&earlier, &motion))))),
        ("warp", median(&mut || warped.warp(best, &earlier, &flow).unwrap())),
        (
            "identify after a warp",
            median(&mut || {
                drop(black_box(identify(best, &warped, &current, Criterion::default())));
            }),
        ),
        ("copy of a full frame", median(&mut || room.set(best, &now.features).unwrap())),
        ("regions", median(&mut || drop(black_box(vitempo_aria::group(&found.dynamic, 1))))),
        (
            "search for 16 patches",
            median(&mut || drop(black_box(matches(best, &earlier, &current, &near, search)))),
        ),
    ];
    alone.iter().for_each(|(name, us)| println!("{name:>40} {us:>10.0}"));
}
