//! Cases that can be computed by hand, and invariants that hold in all of them.

use super::super::{
    device::{Contention, Dvfs},
    scenario::Camera,
};
use super::*;

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;

fn task(processor: usize, ms: u64) -> Task {
    Task { processor, compute_ns: ms * MS, ..Task::default() }
}

fn stage(queue: usize, steps: Vec<Vec<Task>>) -> StageModel {
    StageModel { name: "stage".to_owned(), queue, steps }
}

fn processors(names: &[&str]) -> Vec<ProcessorModel> {
    names.iter().map(|&name| ProcessorModel::named(name)).collect()
}

fn run(scenario: &Scenario) -> Outcome {
    simulate(scenario, 1).expect("an outcome")
}

#[test]
fn a_camera_on_a_grid_rounds_the_period_up() {
    for (gate, ms, frames) in
        [(Gate::Next, 50, 10), (Gate::Next, 100, 10), (Gate::Next, 101, 5), (Gate::Latest, 150, 6)]
    {
        let camera = Source::Camera(Camera { period_ns: 100 * MS, gate });
        let stream = Stream::new("s", camera, vec![stage(0, vec![vec![task(0, ms)]])]);
        let outcome = run(&Scenario::new(processors(&["cpu"]), vec![stream], 1000 * MS));
        // The first frame arrives at a random time within the first period.
        assert!(
            outcome.streams[0].completed.abs_diff(frames) <= 1,
            "{gate:?} {ms}: {}",
            outcome.streams[0].completed
        );
    }
}

#[test]
fn a_pipeline_runs_at_its_slowest_stage_and_a_shared_processor_at_the_sum() {
    for (second, period) in [(1, 60), (0, 100)] {
        let stages =
            vec![stage(0, vec![vec![task(0, 40)]]), stage(1, vec![vec![task(second, 60)]])];
        let outcome = run(&Scenario::new(
            processors(&["npu", "cpu"]),
            vec![Stream::new("s", Source::Closed, stages)],
            60 * S,
        ));
        let measured = outcome.streams[0].period_ns().expect("a period") / MS as f64;
        assert!((measured - f64::from(period)).abs() < 0.1, "{measured}");
    }
}

#[test]
fn a_full_queue_holds_the_worker_not_the_processor() {
    // The first stage is fast: with a queue of 1 it is two frames ahead at most, and waits. A
    // second stream on its processor gets the remaining time.
    let stages = vec![stage(0, vec![vec![task(0, 10)]]), stage(1, vec![vec![task(1, 100)]])];
    let other = Stream::new("other", Source::Closed, vec![stage(0, vec![vec![task(0, 10)]])]);
    let outcome = run(&Scenario::new(
        processors(&["npu", "cpu"]),
        vec![Stream::new("s", Source::Closed, stages), other],
        10 * S,
    ));
    assert!(outcome.streams[0].completed.abs_diff(99) <= 1);
    assert!(outcome.streams[1].completed > 890, "{}", outcome.streams[1].completed);
    // Latency: own stages, one frame in the queue, one frame held by the first worker.
    assert_eq!(outcome.streams[0].latency_quantile(0.5), Some(300 * MS));
}

#[test]
fn steps_wait_for_all_their_tasks() {
    let stages = vec![stage(
        0,
        vec![vec![task(0, 10)], vec![task(0, 20), task(1, 35)], vec![], vec![task(1, 5)]],
    )];
    let outcome = run(&Scenario::new(
        processors(&["a", "b"]),
        vec![Stream::new("s", Source::Arrivals(vec![0, 0, 7 * MS]), stages)],
        S,
    ));
    assert_eq!(outcome.streams[0].latency_ns, [50 * MS, 100 * MS, 143 * MS]);
    assert_eq!((outcome.processors[0].busy_ns, outcome.processors[1].busy_ns), (90 * MS, 120 * MS));
}

#[test]
fn dispatching_and_switching_models_cost() {
    let mut cpu = processors(&["cpu"]);
    (cpu[0].dispatch_ns, cpu[0].switch_ns) = (MS, 10 * MS);
    let of_model = |model| {
        Stream::new(
            "s",
            Source::Arrivals(vec![0, 0]),
            vec![stage(0, vec![vec![Task { model, ..task(0, 5) }]])],
        )
    };
    let alone = run(&Scenario::new(cpu.clone(), vec![of_model(0)], S));
    assert_eq!(alone.streams[0].completed_ns, [6 * MS, 12 * MS]);
    let mixed = run(&Scenario::new(cpu, vec![of_model(0), of_model(1)], S));
    assert_eq!(
        (mixed.streams[0].completed_ns.as_slice(), mixed.streams[1].completed_ns.as_slice()),
        (&[6 * MS, 38 * MS][..], &[22 * MS, 54 * MS][..])
    );
}

#[test]
fn contention_slows_only_while_both_are_busy() {
    let mut both = processors(&["npu", "cpu"]);
    both.iter_mut().for_each(|p| p.bandwidth_share = 1.0);
    let once = |processor, ms| {
        Stream::new("s", Source::Arrivals(vec![0]), vec![stage(0, vec![vec![task(processor, ms)]])])
    };
    let mut scenario = Scenario::new(both, vec![once(0, 100), once(1, 30)], S);
    scenario.contention = Contention { from: 0.3, to: 0.8, most: 1.5 };
    let outcome = run(&scenario);
    assert_eq!(outcome.streams[1].completed_ns, [45 * MS]);
    // 45 ms at 1/1.5 speed do 30 ms of work; 70 ms are left at full speed.
    assert!(outcome.streams[0].completed_ns[0].abs_diff(115 * MS) <= 1);
}

#[test]
fn of_those_that_wait_the_lowest_priority_number_is_next() {
    let stream = |at: u64, priority: u32| Stream {
        priority,
        ..Stream::new(
            format!("at {at}"),
            Source::Arrivals(vec![at]),
            vec![stage(0, vec![vec![task(0, 10)]])],
        )
    };
    let done = |priorities: [u32; 3]| {
        let streams = priorities.iter().zip(0..).map(|(&p, at)| stream(at, p)).collect();
        let outcome = run(&Scenario::new(processors(&["cpu"]), streams, S));
        outcome.streams.iter().map(|s| s.completed_ns[0] / MS).collect::<Vec<_>>()
    };
    assert_eq!(done([0, 0, 0]), [10, 20, 30]);
    assert_eq!(done([9, 5, 1]), [10, 30, 20], "what runs is not interrupted");
}

#[test]
fn a_pair_slows_down_by_its_own_factors() {
    let stream = |processor: usize| {
        Stream::new(
            processor.to_string(),
            Source::Arrivals(vec![0]),
            vec![stage(0, vec![vec![task(processor, 30)]])],
        )
    };
    let streams = (0..3).map(stream).collect();
    let mut scenario = Scenario::new(processors(&["a", "b", "c"]), streams, S);
    scenario.slowdown = vec![vec![1.0, 1.5, 1.5], vec![1.0; 3], vec![1.0; 3]];
    let outcome = run(&scenario);
    let done: Vec<u64> = outcome.streams.iter().map(|s| s.completed_ns[0] / MS).collect();
    // Beside both, a does half of its work in 30 ms; the other half alone.
    assert_eq!(done, [45, 30, 30]);
    scenario.slowdown[0][1] = 0.5;
    assert!(simulate(&scenario, 1).is_err(), "neighbours do not make faster");
    scenario.slowdown = vec![vec![1.0; 2]; 3];
    assert!(simulate(&scenario, 1).is_err(), "a column for each processor");
}

fn hot(throttle: Throttle) -> Scenario {
    let mut gpu = processors(&["gpu"]);
    gpu[0].dvfs = Some(Dvfs {
        levels_ghz: vec![0.27, 0.4, 0.6, 0.8, 1.0],
        a_w_per_ghz: 2.0,
        b_w_per_ghz3: 6.0,
    });
    let stream = Stream::new("s", Source::Closed, vec![stage(0, vec![vec![task(0, 50)]])]);
    let mut scenario = Scenario::new(gpu, vec![stream], 600 * S);
    scenario.thermal = Some(Thermal {
        ambient_c: 25.0,
        junction_to_skin_k_per_w: 5.0,
        junction_j_per_k: 2.0,
        skin_to_ambient_k_per_w: 5.0,
        skin_j_per_k: 200.0,
        start_c: 25.0,
        throttle,
    });
    scenario
}

#[test]
fn throttling_lengthens_tasks_and_caps_the_temperature() {
    let hottest = |o: &Outcome| o.readings.iter().map(|r| r.junction_c).fold(f64::MIN, f64::max);
    let free = run(&hot(Throttle::Never));
    let kept = run(&hot(Throttle::Stepwise { trip_c: 70.0, hysteresis_k: 3.0 }));
    assert!(
        hottest(&free) > 80.0 && hottest(&kept) < 71.0,
        "{} {}",
        hottest(&free),
        hottest(&kept)
    );
    assert_eq!(free.streams[0].latency_quantile(1.0), Some(50 * MS));
    let slowest = kept.streams[0].latency_quantile(1.0).expect("frames") as f64 / (50 * MS) as f64;
    assert!(slowest > 1.2 && slowest <= 1.0 / 0.27 + 1e-6, "{slowest}");
    assert!(kept.streams[0].completed < free.streams[0].completed);
}

#[test]
fn powers_and_constants_without_meaning_are_refused_by_name() {
    let refused = |change: &dyn Fn(&mut Scenario)| {
        let mut scenario = hot(Throttle::Never);
        change(&mut scenario);
        simulate(&scenario, 1).map(|_| ()).map_err(|e| e.to_string()).expect_err("an error")
    };
    let thermal = |scenario: &mut Scenario| {
        scenario.thermal.as_mut().expect("a model").junction_j_per_k = 0.0;
    };
    assert!(refused(&thermal).contains("`junction_j_per_k` is 0"));
    assert!(refused(&|s| s.base_w = -20.0).contains("`base_w` is -20"));
    let power = |scenario: &mut Scenario| {
        scenario.processors[0].dvfs.as_mut().expect("levels").b_w_per_ghz3 = -1.0;
    };
    assert!(refused(&power).contains("processor `gpu`: power"));
    let dispatch = refused(&|s| s.processors[0].dispatch_ns = 1_000_000_000_000_000_000);
    assert!(dispatch.contains("at most an hour"), "{dispatch}");
}

#[test]
fn energy_is_power_times_time() {
    let outcome = run(&hot(Throttle::Never));
    assert!((outcome.energy_j - 8.0 * 600.0).abs() < 1e-6, "{}", outcome.energy_j);
    let mut idle = Scenario::new(
        processors(&["cpu"]),
        vec![Stream::new("s", Source::Arrivals(vec![0]), vec![stage(0, vec![vec![task(0, 250)]])])],
        S,
    );
    (idle.processors[0].active_w, idle.processors[0].idle_w, idle.base_w) = (4.0, 1.0, 0.5);
    assert!((run(&idle).energy_j - (1.0 + 0.75 + 0.5)).abs() < 1e-9);
}

#[test]
fn switching_by_temperature_costs_frames_and_cools_nothing() {
    // Thesis, table 4.4: fast on the NPU, slow on the CPU, about the same power: above the
    // threshold the frame rate falls and the skin continues to warm up.
    let way = |processor, ms| vec![stage(0, vec![vec![task(processor, ms)]])];
    let mut scenario = hot(Throttle::Never);
    scenario.processors = processors(&["npu", "cpu"]);
    scenario.processors.iter_mut().for_each(|p| p.active_w = 5.0);
    scenario.duration_ns = 40 * S;
    let thermal = scenario.thermal.as_mut().expect("a thermal model");
    (thermal.start_c, thermal.skin_j_per_k) = (29.6, 40.0);
    scenario.streams[0].alternatives = vec![way(0, 140), way(1, 235)];
    let stay = run(&scenario);
    scenario.streams[0].policy = Policy::SwitchAbove { skin_c: 30.0, check_ns: 10 * S };
    let switch = run(&scenario);
    assert!(switch.streams[0].completed < stay.streams[0].completed);
    let skin = |o: &Outcome| o.readings.last().expect("readings").skin_c;
    assert!((skin(&switch) - skin(&stay)).abs() < 0.2 && skin(&switch) > 30.0);
}

#[test]
fn switching_by_load_leaves_a_processor_that_others_use() {
    let way = |processor| vec![stage(0, vec![vec![task(processor, 10)]])];
    // Others use `a` for 8 of every 10 ms during the second of three seconds.
    let others: Vec<u64> = (0..100).map(|i| S + i * 10_000_000).collect();
    let mut own = Stream::new("own", Source::Closed, way(0));
    own.alternatives.push(way(1));
    own.policy = Policy::SwitchAboveLoad { busy_share: 0.4, check_ns: S / 10 };
    let other =
        Stream::new("other", Source::Arrivals(others), vec![stage(0, vec![vec![task(0, 8)]])]);
    let mut scenario = Scenario::new(processors(&["a", "b"]), vec![own, other], 3 * S);
    let switched = run(&scenario);
    assert_eq!(switched.switches, [2, 0], "to `b` and back");
    scenario.streams[0].policy = Policy::First;
    let stayed = run(&scenario);
    assert_eq!(stayed.switches, [0, 0]);
    assert!(switched.streams[0].completed > stayed.streams[0].completed);
    scenario.streams[0].policy = Policy::SwitchAboveLoad { busy_share: 0.9, check_ns: S / 10 };
    assert_eq!(run(&scenario).switches, [0, 0], "others never have nine tenths");
}

#[test]
fn outcomes_repeat_exactly_and_depend_on_the_seed() {
    let noisy = |cv| {
        vec![
            stage(0, vec![vec![Task { cv, ..task(0, 20) }, Task { cv, ..task(1, 25) }]]),
            stage(1, vec![vec![Task { cv, ..task(1, 15) }]]),
        ]
    };
    let camera = Source::Camera(Camera { period_ns: 33_333_333, gate: Gate::Next });
    let scenario = Scenario::new(
        processors(&["a", "b"]),
        vec![Stream::new("s", camera, noisy(0.1)), Stream::new("t", Source::Closed, noisy(0.3))],
        30 * S,
    );
    let first = simulate(&scenario, 7).expect("an outcome");
    assert_eq!(first, simulate(&scenario, 7).expect("an outcome"));
    assert_ne!(first, simulate(&scenario, 8).expect("an outcome"));
    // No processor is busy for longer than the simulated time, and the number of frames is
    // conserved.
    assert!(first.processors.iter().all(|p| p.busy_ns <= first.duration_ns));
    let grid = first.duration_ns / 33_333_333;
    assert!(first.streams[0].completed + first.streams[0].dropped <= grid + 1);
    assert!(first.streams[0].completed + first.streams[0].dropped + 8 >= grid);
}

#[test]
fn what_cannot_be_simulated_is_named() {
    let message = |change: &dyn Fn(&mut Scenario)| {
        let mut scenario = Scenario::new(
            processors(&["cpu"]),
            vec![Stream::new("s", Source::Closed, vec![stage(0, vec![vec![task(0, 1)]])])],
            S,
        );
        change(&mut scenario);
        simulate(&scenario, 0).map_or_else(|e| e.to_string(), |_| "simulated".to_owned())
    };
    assert_eq!(message(&|_| {}), "simulated");
    assert!(
        message(&|s| s.streams[0].alternatives[0][0].steps[0][0].processor = 3)
            .contains("there is no processor 3; there are 1")
    );
    assert!(
        message(&|s| s.streams[0].alternatives[0][0].steps[0][0].compute_ns = 0)
            .contains("never end")
    );
    assert!(
        message(
            &|s| s.streams[0].source = Source::Camera(Camera { period_ns: 0, gate: Gate::Next })
        )
        .contains("the camera's period is 0")
    );
    assert!(
        message(&|s| s.streams[0].policy = Policy::SwitchAbove { skin_c: 30.0, check_ns: 1 })
            .contains("needs a thermal model")
    );
    assert!(
        message(&|s| {
            s.streams[0].policy = Policy::SwitchAboveLoad { busy_share: 1.5, check_ns: 1 };
        })
        .contains("a share from 0 to 1")
    );
    assert!(message(&|s| s.processors[0].active_w = f64::NAN).contains("processor `cpu`"));
    assert!(message(&|s| s.duration_ns = 0).contains("duration"));
}
