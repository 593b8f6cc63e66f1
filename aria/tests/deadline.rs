//! The scheduler over the paper's 600 s at 30 frames a second: 18,000 frames of given latencies,
//! one after the other.

use vitempo_aria::{
    CameraMotion, Grid, Pose, Window,
    scheduler::{
        Bounds, CycleBounds, CycleBudget, CyclePlanner, MOST_FRAMES_WITHOUT_CYCLE, Priority,
        Reaction, Request, ResolutionLadder, ResolutionSettings, cycles, identified_by,
    },
};

const FRAMES: u64 = 18_000;
const TARGET_NS: u64 = 33_300_000;
const FRAME_NS: u64 = 33_333_333;

/// Jitter between 1 - by and 1 + by, the same for the same frame.
fn jitter(frame: u64, by: f64) -> f64 {
    let mixed = frame
        .wrapping_mul(0x9E37_79B9_7F4A_7C15)
        .rotate_left(23)
        .wrapping_mul(0xD6E8_FEB8_6659_FD93)
        >> 11;
    1.0 + by * (2.0 * mixed as f64 / (1u64 << 53) as f64 - 1.0)
}

/// How a run went.
#[derive(Debug, PartialEq)]
struct Run {
    in_time: u64,
    latencies_ns: Vec<u64>,
    longest_wait: u32,
    levels: Vec<usize>,
}

/// The per-frame overhead by level, with a decoder of equal time for all, and with another one.
const EQUAL: [u64; 3] = [18_000_000; 3];
const RISING: [u64; 3] = [13_000_000, 15_000_000, 18_000_000];

/// `gpu` and `npu` give the slowdown of the processors at a frame relative to their profiles.
fn run(rest_ns: [u64; 3], gpu: impl Fn(u64) -> f64, npu: impl Fn(u64) -> f64) -> Run {
    let cycle_ns = 10_000_000u64;
    let ladder_ns = [20_000_000u64, 45_000_000, 100_000_000];
    let grid = Grid::new(29, 47).expect("a grid");
    let mut budget = CycleBudget::new(TARGET_NS, &rest_ns, cycle_ns, 0.05, Reaction::default())
        .expect("a budget");
    let mut planner = CyclePlanner::new(grid, [17, 23], Priority::Waiting).expect("a planner");
    let mut ladder = ResolutionLadder::new(
        &ladder_ns,
        Reaction::default(),
        ResolutionSettings::for_frames_of(FRAME_NS),
    )
    .expect("a ladder");
    let mut run = Run { in_time: 0, latencies_ns: Vec::new(), longest_wait: 0, levels: Vec::new() };
    let mut busy: Option<(u64, usize, u64)> = None;
    let mut shown = 0;
    for frame in 0..FRAMES {
        let now = frame * FRAME_NS;
        if let Some((_, level, took)) = busy.filter(|(until, ..)| *until <= now) {
            ladder.observe(level, took);
            (busy, shown) = (None, level);
        }
        ladder.moved(&CameraMotion::between(
            &Pose::default(),
            &Pose::looking([0.0; 3], 0.01 * jitter(frame, 1.0), 0.0, 0.0),
        ));
        if busy.is_none() {
            let level = budget.level(ladder.level());
            let took = (ladder_ns[level] as f64 * gpu(frame) * jitter(frame + 7, 0.04)) as u64;
            busy = Some((now + took, level, took));
            run.levels.push(level);
        }
        let corner = |n: u64| Window {
            row: (n as usize % 2) * 20,
            col: (n as usize / 2) * 22,
            rows: 6,
            cols: 3,
        };
        let requests: Vec<Request> = (0..5)
            .map(|n| Request { region: n, window: corner(n), speed: n as f32 * 0.5 })
            .collect();
        let planned = planner.plan(&requests, budget.cycles(shown) as usize).len() as u64;
        let rest = (rest_ns[shown] as f64 * jitter(frame + 1, 0.04)) as u64;
        let cycle = (cycle_ns as f64 * npu(frame) * jitter(frame + 2, 0.04)) as u64;
        budget.observe(shown, rest, (planned > 0).then_some(cycle));
        let latency = rest + planned * cycle;
        run.in_time += u64::from(latency <= TARGET_NS);
        run.latencies_ns.push(latency);
        run.longest_wait = run
            .longest_wait
            .max(requests.iter().map(|request| planner.waited(request.region)).max().unwrap_or(0));
    }
    run
}

#[test]
fn all_of_18_000_frames_are_in_time_and_no_region_waits_for_ever() {
    let run = run(EQUAL, |_| 1.0, |_| 1.0);
    assert_eq!(run.in_time, FRAMES);
    assert!(run.longest_wait <= 5, "{}", run.longest_wait);
}

/// Throttled by 3.7, as in figure 7, from a third of the time on; or a hundred times slower, or
/// never done.
#[test]
fn the_deadline_never_depends_on_the_gpu() {
    let calm = run(EQUAL, |_| 1.0, |_| 1.0);
    let throttled = run(EQUAL, |frame| if frame > FRAMES / 3 { 3.7 } else { 1.0 }, |_| 1.0);
    let stuck = run(EQUAL, |frame| if frame > 100 { 1e9 } else { 1.0 }, |_| 1.0);
    assert_eq!(calm.latencies_ns, throttled.latencies_ns);
    assert_eq!(calm.latencies_ns, stuck.latencies_ns);
    assert_eq!(calm.longest_wait, throttled.longest_wait);
    let highest = |levels: &[usize]| {
        levels.iter().filter(|level| **level == 2).count() as f64 / levels.len() as f64
    };
    let late = &throttled.levels[throttled.levels.len() / 2..];
    assert!(highest(&calm.levels) > 0.2, "the highest resolution is used while it is in time");
    assert!(highest(late) < 0.01, "and not when it takes 370 ms: {}", highest(late));
}

#[test]
fn when_the_region_encoders_processor_throttles_a_lower_resolution_leaves_time_for_a_cycle() {
    let run = run(RISING, |_| 1.0, |frame| if frame >= 6000 { 1.8 } else { 1.0 });
    let late: Vec<usize> =
        (0..run.latencies_ns.len()).filter(|frame| run.latencies_ns[*frame] > TARGET_NS).collect();
    assert!(
        late.iter().all(|frame| (6000..6003).contains(frame)),
        "only until three samples show it: {late:?}"
    );
    assert!(run.longest_wait <= 12, "regions are served on: {}", run.longest_wait);
    assert!(run.levels[run.levels.len() / 2..].iter().all(|level| *level == 0));
}

/// Then a cycle fits at no resolution: one runs now and then, because regions must not wait for
/// ever.
#[test]
fn where_nothing_fits_regions_wait_a_bounded_time() {
    let run = run(EQUAL, |_| 1.0, |frame| if frame >= 6000 { 1.9 } else { 1.0 });
    assert!(run.longest_wait <= 5 * (MOST_FRAMES_WITHOUT_CYCLE + 1), "{}", run.longest_wait);
    let late = (FRAMES - run.in_time) as f64 / (FRAMES - 6000) as f64;
    assert!(late > 0.0 && late <= 1.0 / f64::from(MOST_FRAMES_WITHOUT_CYCLE), "{late}");
}

#[test]
fn the_papers_pairs_leave_one_range_of_cycle_times() {
    let pairs = [(33.3e6, 1), (66.6e6, 4)];
    let Bounds { above_ns, below_ns } = identified_by(&pairs).expect("bounds").cycle;
    assert!((above_ns - 8.325e6).abs() < 1.0 && (below_ns - 16.65e6).abs() < 1.0);
    assert_eq!(CycleBounds::rest(&pairs, 8.3e6), None);
    assert_eq!(CycleBounds::rest(&pairs, 16.7e6), None);
    assert_eq!(
        [33_300_000, 66_600_000].map(|target| cycles(target, 20_000_000, 10_000_000)),
        [1, 4]
    );
}
