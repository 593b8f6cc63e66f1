//! An application in a rendered scene: full frames arrive an interval late, one cycle runs in every
//! frame, and the decoder's input is compared with the features of an encoder that processes the
//! current frame whole.

use vitempo_aria::{
    AriaError, CameraFlow, FeatureMap, Flow, FlowSource, Grid, Instructions, PatchSet, Runtime,
    Settings, Structure, WholeWindows,
    flow::{Pair, Training},
    scene::{Kind, Scene, StandIn, Truth},
};

const WIDTH: usize = 128;
const INTERVAL: u64 = 4;

/// 1 - cosine similarity to the truth over the patches that moved since the full frame, and over
/// the rest: sums and counts.
#[derive(Debug, Default)]
struct Error {
    moving: f64,
    moving_patches: usize,
    rest: f64,
    rest_patches: usize,
}

impl Error {
    fn count(&mut self, given: &FeatureMap, real: &FeatureMap, moving: &PatchSet) {
        let mut similarities = Vec::new();
        given
            .similarities(Instructions::best(), real, &mut similarities)
            .expect("maps of one shape");
        for (patch, similarity) in similarities.iter().enumerate() {
            let error = f64::from(1.0 - similarity);
            if moving.contains(patch) {
                self.moving += error;
                self.moving_patches += 1;
            } else {
                self.rest += error;
                self.rest_patches += 1;
            }
        }
    }

    fn means(&self) -> [f64; 2] {
        [
            self.moving / self.moving_patches.max(1) as f64,
            self.rest / self.rest_patches.max(1) as f64,
        ]
    }
}

/// The paper's runtime.
fn run(kind: Kind, cycles: usize) -> [Error; 2] {
    run_with(kind, cycles, |settings| settings)
}

/// Runs 40 frames with so many cycles in each; the region encoder gives the features of a full one.
/// Also the same without warping.
fn run_with(kind: Kind, cycles: usize, change: impl Fn(Settings) -> Settings) -> [Error; 2] {
    run_by(&FlowSource::Depth, kind, cycles, change)
}

/// The same with any flow; that by depth has the true one.
fn run_by(
    source: &FlowSource,
    kind: Kind,
    cycles: usize,
    change: impl Fn(Settings) -> Settings,
) -> [Error; 2] {
    let grid = Grid::new(17, 23).expect("a grid");
    let scene = Scene::new(kind, 21, grid, 8).expect("a scene");
    let encoder = StandIn::new(WIDTH, 1);
    let flow = Flow::new(source, grid, scene.camera().intrinsics);
    let settings = change(Settings::new(grid, WIDTH, [7, 9]));
    let mut runtime = Runtime::new(settings, flow).expect("a runtime");
    let frames: Vec<_> = (0..40)
        .map(|frame| {
            let picture = scene.picture(frame);
            let features = FeatureMap::from_values(
                Instructions::best(),
                grid,
                WIDTH,
                &encoder.encode(scene.camera(), &picture),
            )
            .expect("features");
            (picture, features)
        })
        .collect();
    let (mut aligned, mut stale) = (Error::default(), Error::default());
    for frame in 0..40u64 {
        let (picture, real) = &frames[frame as usize];
        if frame % INTERVAL == 0 && frame >= INTERVAL {
            let (full, features) = &frames[(frame - INTERVAL) as usize];
            runtime
                .full_frame(full.frame, &full.pose, &mut features.values().to_vec())
                .expect("a full frame");
            runtime.estimator_mut().set_depths(&scene.camera().depths_of_patches(full));
        }
        if frame < 3 * INTERVAL {
            continue;
        }
        let latest = frame - frame % INTERVAL - INTERVAL;
        let compared = latest - runtime.compared_with();
        assert!(compared >= settings.apart.min(latest) && compared < settings.apart + INTERVAL);
        let plan = runtime.frame(frame, &picture.pose, cycles).expect("a plan");
        assert!(plan.cycles.len() <= cycles);
        if settings.whole_windows.is_some_and(|whole| whole.spare) {
            assert_eq!(plan.cycles.len(), cycles, "no cycle is left");
        }
        for cycle in &plan.cycles {
            let window: Vec<f32> = cycle
                .window
                .places()
                .flat_map(|(row, col)| real.row(grid.index(row, col)).to_vec())
                .collect();
            runtime.update(cycle, &window).expect("an update");
        }
        let (full, features) = &frames[latest as usize];
        let truth = Truth::between(scene.world(), scene.camera(), full, picture);
        aligned.count(runtime.aligned(), real, &truth.moving);
        stale.count(features, real, &truth.moving);
    }
    println!(
        "{:>12}, {cycles} cycles: {:.4?} aligned, {:.4?} as they were (moving, rest)",
        kind.name(),
        aligned.means(),
        stale.means()
    );
    [aligned, stale]
}

#[test]
fn cycles_lower_the_error_where_things_move_and_warping_elsewhere() {
    for kind in [Kind::Fast, Kind::Crowded] {
        let [none, stale] = run(kind, 0);
        let [one, _] = run(kind, 1);
        let [three, _] = run(kind, 3);
        assert!(none.moving_patches > 300 && none.rest_patches > 3000, "{none:?}");
        assert!(one.means()[0] < 0.9 * none.means()[0], "one cycle a frame");
        assert!(three.means()[0] < one.means()[0], "three cycles a frame");
        assert!(none.means()[1] < stale.means()[1], "warping");
    }
}

/// Where the camera walks, a flow that was trained on other scenes aligns what does not move better
/// than the rotation alone, and the true depth better still.
#[test]
fn a_learned_flow_aligns_better_than_the_rotation_alone() {
    let grid = Grid::new(17, 23).expect("a grid");
    let encoder = StandIn::new(WIDTH, 1);
    let pair = |seed: u64, from: u64| -> Pair {
        let scene = Scene::new(Kind::Fast, seed, grid, 8).expect("a scene");
        scene.pair(&encoder, from, from + 4).expect("a pair")
    };
    let pairs: Vec<Pair> =
        (100..120).flat_map(|seed| (0..6).map(move |n| pair(seed, 17 * n))).collect();
    let learned = FlowSource::Learned(Training::default().train(&pairs).expect("a flow"));
    let rest = |source: &FlowSource| run_by(source, Kind::Fast, 0, |all| all)[0].means()[1];
    let [rotation, learned, depth] =
        [FlowSource::Rotation, learned, FlowSource::Depth].map(|source| rest(&source));
    println!("rotation {rotation:.4}, learned {learned:.4}, true depth {depth:.4}");
    assert!(depth < learned && learned < rotation, "{rotation} {learned} {depth}");
}

#[test]
fn whole_windows_and_spare_cycles_lower_the_error_of_the_rest_too() {
    let windows = |spare| WholeWindows { spare };
    let with = |whole_windows| {
        run_with(Kind::Slow, 5, |settings| Settings { whole_windows, ..settings })[0].means()
    };
    let [regions, windows, spare] = [None, Some(windows(false)), Some(windows(true))].map(with);
    assert!(windows[1] < regions[1] && spare[1] < windows[1], "{regions:?} {windows:?} {spare:?}");
    assert!(spare[0] <= 1.01 * regions[0], "{regions:?} {spare:?}");
}

#[test]
fn full_frames_may_be_compared_with_older_ones() {
    for apart in [INTERVAL + 1, 3 * INTERVAL] {
        let [aligned, _] = run_with(Kind::Fast, 1, |settings| Settings { apart, ..settings });
        let [none, _] = run(Kind::Fast, 0);
        assert!(aligned.means()[0] < none.means()[0], "{apart}: {aligned:?}");
    }
}

#[test]
fn what_comes_in_the_wrong_order_or_shape_is_an_error() {
    let grid = Grid::new(5, 6).expect("a grid");
    let flow = CameraFlow::new(
        vitempo_aria::Intrinsics::with_field_of_view(grid, 1.0).expect("a lens"),
        Structure::Distant,
    );
    let mut runtime =
        Runtime::new(Settings::new(grid, 8, [3, 3]), flow.clone()).expect("a runtime");
    let pose = vitempo_aria::Pose::default();
    let mut features = vec![1.0; 30 * 8];
    assert_eq!(runtime.frame(0, &pose, 1), Err(AriaError::NoFullFrame));
    runtime.full_frame(5, &pose, &mut features).expect("the first");
    assert!(matches!(runtime.full_frame(5, &pose, &mut features), Err(AriaError::Order { .. })));
    assert!(matches!(
        runtime.full_frame(6, &pose, &mut features[1..].to_vec()),
        Err(AriaError::Values { .. })
    ));
    let mut rubbish = vec![f32::NAN; 30 * 8];
    assert_eq!(runtime.full_frame(6, &pose, &mut rubbish), Err(AriaError::NotFinite { patch: 0 }));
    assert!(rubbish.iter().all(|value| value.is_nan()), "what was refused is the caller's");
    assert!(matches!(runtime.frame(4, &pose, 1), Err(AriaError::Order { .. })));
    assert!(runtime.frame(7, &pose, 1).expect("a plan").cycles.is_empty());
    assert!(Runtime::new(Settings::new(grid, 0, [3, 3]), flow.clone()).is_err());
    assert!(Runtime::new(Settings::new(grid, 8, [6, 3]), flow).is_err());
}
