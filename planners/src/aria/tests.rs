//! The paper's own numbers, and what must hold for every plan and every simulation.

use super::*;
use crate::simulator::Throttle;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use vitempo_aria::{Grid, Window, scheduler::identified_by};

fn phone() -> (AriaCosts, AriaDevice) {
    AriaCosts::paper_phone().expect("the shipped phone")
}

/// Three regions on circular paths, and a camera that turns at intervals.
fn trace(frames: usize) -> Trace {
    let frame = |number: usize| {
        let turning = (number / 90) % 4 == 3;
        let moving = (0..3u64).map(|region| {
            let (row, col) = (3 + 7 * region as usize, (number / (4 << region)) % 35);
            Moving {
                region,
                window: Window { row, col, rows: 6, cols: 9 },
                patches: 40,
                velocity: [1.0 / f64::from(4 << region), 0.0],
            }
        });
        TraceFrame {
            translation_m: 0.002,
            rotation_rad: if turning { 0.03 } else { 0.001 + 1e-5 * (number % 7) as f64 },
            moving: moving.collect(),
        }
    };
    Trace {
        grid: Grid::new(29, 47).expect("the paper's grid"),
        frames_per_s: 30.0,
        frames: (0..frames).map(frame).collect(),
    }
}

fn uncertain(costs: &AriaCosts, share: f64) -> AriaCosts {
    let mut costs = costs.clone();
    let widen =
        |forecast: &mut Forecast| *forecast = Forecast::within(forecast.point_ns(), share, 0.9);
    for level in &mut costs.levels {
        [&mut level.full_frame, &mut level.alone, &mut level.decoder].into_iter().for_each(widen);
    }
    for region in &mut costs.regions {
        [&mut region.cycle, &mut region.elsewhere].into_iter().for_each(widen);
    }
    [&mut costs.frame_step, &mut costs.patch_flow, &mut costs.baselines.block_matching]
        .into_iter()
        .for_each(widen);
    costs
}

#[test]
fn the_papers_phone_has_one_cycle_at_33_3_ms_and_four_at_66_6_ms() {
    let (costs, _) = phone();
    let plans = [33.3e6, 66.6e6]
        .map(|target| plan(&costs, &Requirements::for_target(target)).expect("a plan"));
    assert_eq!(plans.each_ref().map(|p| p.cycles), [1, 4]);
    assert!(plans.iter().all(|p| (p.region.rows, p.region.cols) == (17, 23)), "238 x 322 pixels");
    let cycle = identified_by(&[(33.3e6, plans[0].cycles), (66.6e6, plans[1].cycles)])
        .expect("bounds")
        .cycle;
    assert!((cycle.above_ns - 8.325e6).abs() < 1.0 && (cycle.below_ns - 16.65e6).abs() < 1.0);
    let taken = plans[0].region.cycle.point_ns();
    assert!(cycle.above_ns < taken && taken < cycle.below_ns);
    let top = plans[0].levels.last().expect("a level");
    assert_eq!((top.rows, top.cols, top.rows * top.cols), (29, 47, 1363));
    assert!(top.unusable.is_none() && top.rest_ns > 16.6e6 && top.rest_ns <= 23.3e6);
}

#[test]
fn plans_hold_what_they_promise() {
    let (phone, _) = phone();
    let mut random = StdRng::seed_from_u64(5);
    let mut between = |from: f64, to: f64| random.random_range(from..to);
    let mut nothing = 0;
    for _ in 0..300 {
        let costs = uncertain(&phone, between(0.01, 0.3));
        let requirements = Requirements {
            confidence: between(0.5, 0.99),
            spread: between(0.0, 0.1),
            ..Requirements::for_target(between(12.0, 90.0) * 1e6)
        };
        let planned = plan(&costs, &requirements).expect("a plan");
        for level in planned.usable() {
            assert!(
                level.success.at_upper >= requirements.share
                    && level.cycles >= 1
                    && level.cycles <= level.cycles_at_point,
                "{level:?}"
            );
            assert!(
                level.success.at_point >= level.success.at_upper
                    && level.interval_frames[2] <= requirements.interval_frames
            );
        }
        let longer =
            plan(&costs, &Requirements { target_ns: requirements.target_ns * 1.5, ..requirements })
                .expect("a plan");
        let bolder = plan(
            &costs,
            &Requirements { confidence: requirements.confidence * 0.7, ..requirements },
        )
        .expect("a plan");
        let updated = |p: &AriaPlan| p.tried.iter().map(|t| (t.patches, t.updated)).max();
        assert!(updated(&longer) >= updated(&planned) && updated(&bolder) >= updated(&planned));
        if planned.success.is_none() {
            nothing += 1;
            assert!(!planned.advice.is_empty(), "{requirements:?}");
            if let Some(Advice::Target { target_ns, .. }) =
                planned.advice.iter().find(|a| matches!(a, Advice::Target { .. }))
            {
                let others = planned.advice.iter().any(|a| matches!(a, Advice::Interval { .. }));
                let mended =
                    plan(&costs, &Requirements { target_ns: target_ns * 1.0001, ..requirements })
                        .expect("a plan");
                assert!(mended.success.is_some() || others, "{planned:?}");
            }
        } else {
            assert!(planned.advice.is_empty());
        }
    }
    assert!(nothing > 20);
}

#[test]
fn what_makes_no_sense_is_named() {
    let (costs, _) = phone();
    let wrong = |change: &dyn Fn(&mut AriaCosts)| {
        let mut costs = costs.clone();
        change(&mut costs);
        plan(&costs, &Requirements::for_target(33.3e6)).expect_err("an error").to_string()
    };
    assert!(wrong(&|c| c.levels.clear()).contains("no resolution"));
    assert!(wrong(&|c| c.levels.reverse()).contains("levels must rise: 294 x 490"));
    assert!(
        wrong(&|c| c.levels[1].decoder = Forecast::exact(-1.0)).contains("decoder at 294 x 350")
    );
    assert!(
        wrong(&|c| c.regions[0].cycle = Forecast::within(1e6, 0.1, 2.0))
            .contains("region of 12 x 12 patches")
    );
    assert!(wrong(&|c| c.regions[0].rows = 0).contains("a region's number of rows is 0"));
    assert!(wrong(&|c| c.patch = 0).contains("the side of a patch is 0; it must be above 0"));
    let wish = plan(&costs, &Requirements { share: 1.0, ..Requirements::for_target(33.3e6) })
        .expect_err("an error");
    assert!(wish.to_string().contains("the share of frames in time is 1"));
}

/// 600 s at 30 frames per second, on a phone that heats up.
#[test]
fn of_18_000_frames_999_in_1000_are_in_time_and_no_region_waits_for_ever() {
    let (costs, device) = phone();
    let trace = trace(18_000);
    let simulation = Simulation {
        trace: &trace,
        costs: &costs,
        device: &device,
        requirements: Requirements::for_target(33.3e6),
        truth: Truth::Deviations(0.0),
        seed: 1,
    };
    let aria = simulation.run(System::Aria).expect("a rehearsal");
    assert_eq!((aria.executed, aria.dropped), (18_000, 0));
    assert!(aria.success_rate() >= 0.999, "{}", aria.success_rate());
    assert!(aria.longest_wait <= 12, "{}", aria.longest_wait);
    assert!(aria.throttled.is_some_and(|t| t > 1.3), "{:?}", aria.throttled);
    let again = simulation.run(System::Aria).expect("a rehearsal");
    assert_eq!(aria, again, "the same seed gives the same run");
}

#[test]
fn the_deadline_never_depends_on_the_processor_of_full_frames() {
    let (costs, device) = phone();
    let trace = trace(1800);
    let run = |times: f64, system: System| {
        let mut slower = costs.clone();
        slower.levels.iter_mut().for_each(|level| {
            level.full_frame = Forecast::exact(level.full_frame.point_ns() * times);
        });
        let mut calm = device.clone();
        calm.thermal.throttle = Throttle::Never;
        calm.spread = 0.0;
        let requirements =
            Requirements { interval_frames: 1_000_000, ..Requirements::for_target(33.3e6) };
        Simulation {
            trace: &trace,
            costs: &slower,
            device: &calm,
            requirements,
            truth: Truth::Deviations(0.0),
            seed: 1,
        }
        .run(system)
        .expect("a rehearsal")
    };
    for system in [System::S1, System::S2, System::Aria] {
        let (usual, slow, stuck) = (run(1.0, system), run(3.7, system), run(1000.0, system));
        for outcome in [&usual, &slow, &stuck] {
            assert_eq!((outcome.success_rate(), outcome.dropped), (1.0, 0), "{system:?}");
        }
        assert_eq!(usual.latency_ns[0], slow.latency_ns[0], "{system:?}");
        assert!(slow.full_frame_age > usual.full_frame_age);
        // Full frames that are never done: frames show nothing of the camera.
        let shown = usual.executed - usual.before_full_frames;
        assert!(shown > 1700 && usual.before_full_frames > 0, "{system:?}: {shown}");
        let never = run(1e5, system);
        assert_eq!(never.before_full_frames, never.executed, "{system:?}");
        assert_eq!((never.full_frame_age, never.patches), (None, None), "{system:?}");
        let stale = never.staleness.last().expect("a class");
        assert_eq!((stale.counted, stale.mean_frames, stale.p95_frames), (0, None, None));
        assert!(never.moments.iter().all(|moment| moment.height.is_none()));
    }
}

/// The phone has two levels of 294 lines, one 1.5 times as slow as the other.
#[test]
fn slowdown_and_shares_of_full_frames_are_those_of_resolutions_whatever_their_heights() {
    let (costs, device) = phone();
    let trace = trace(3600);
    let run = |costs: &AriaCosts| {
        Simulation {
            trace: &trace,
            costs,
            device: &device,
            requirements: Requirements::for_target(33.3e6),
            truth: Truth::Deviations(0.0),
            seed: 1,
        }
        .run(System::Aria)
        .expect("an outcome")
    };
    let outcome = run(&costs);
    let mut other = costs.clone();
    other.levels[1].height = 295;
    assert_eq!(run(&other).throttled, outcome.throttled);
    let sizes = outcome.resolutions.iter().map(|of| (of.height, of.width));
    let known = |size: &(usize, usize)| {
        costs.levels.iter().any(|level| (level.height, level.width) == *size)
    };
    assert!(sizes.clone().all(|size| known(&size)) && sizes.clone().is_sorted());
    assert_eq!(sizes.filter(|size| size.0 == 294).count(), 2);
    let shares: f64 = outcome.resolutions.iter().map(|of| of.share).sum();
    assert!((shares - 1.0).abs() < 1e-9);
}

#[test]
fn a_trace_of_60_frames_per_second_is_planned_at_that_rate() {
    let (costs, device) = phone();
    let trace = Trace { frames_per_s: 60.0, ..trace(120) };
    let simulation = Simulation {
        trace: &trace,
        costs: &costs,
        device: &device,
        requirements: Requirements::for_target(33.3e6),
        truth: Truth::Deviations(0.0),
        seed: 1,
    };
    let height = |requirements: &Requirements| {
        let planned = plan(&costs, requirements).expect("a plan");
        planned.usable().next_back().map(|level| level.height)
    };
    assert_ne!(height(&simulation.planned_by()), height(&simulation.requirements));
    let swept = robustness::sweep(&simulation, &[Truth::Deviations(0.0)], &[Some(0.9)]);
    assert_eq!(swept.expect("a sweep")[0].planned_height, height(&simulation.planned_by()));
}

#[test]
fn as_many_cycles_are_planned_as_fit_and_one_more_does_not() {
    let (mut costs, _) = phone();
    costs.regions.iter_mut().for_each(|region| region.cycle = Forecast::within(2e4, 0.1, 0.9));
    let requirements = Requirements::for_target(33.3e6);
    let planned = plan(&costs, &requirements).expect("a plan");
    let (top, region) = (costs.levels.last().expect("a level"), &planned.region);
    let success = |cycles: u64| {
        plan::work(&costs, top, region, cycles, requirements.spread)
            .success_at(requirements.target_ns, requirements.z())
    };
    assert!(planned.cycles > 64, "{}", planned.cycles);
    assert!(success(planned.cycles) >= requirements.share);
    assert!(success(planned.cycles + 1) < requirements.share);
}

/// The numbers that are printed, not those behind them.
#[test]
fn advice_as_printed_is_enough() {
    let (costs, _) = phone();
    let number = |advice: &Advice| {
        let text = advice.to_string();
        let words = text.split_whitespace().filter_map(|word| word.parse::<f64>().ok());
        words.into_iter().next().expect("a number")
    };
    let mut followed = 0;
    for target_ms in [4.0, 8.0, 12.0, 16.0, 17.0, 18.5] {
        let requirements = Requirements::for_target(target_ms * 1e6);
        let planned = plan(&costs, &requirements).expect("a plan");
        for advice in planned.advice {
            assert!(!advice.is_for_full_frames());
            let mut costs = costs.clone();
            let mut requirements = requirements;
            match advice {
                Advice::Target { .. } => requirements.target_ns = number(&advice) * 1e6,
                Advice::Regions { .. } => {
                    let times = number(&advice);
                    costs.patch_flow = costs.patch_flow.faster(times);
                    costs.levels.iter_mut().for_each(|l| l.decoder = l.decoder.faster(times));
                    costs.regions.iter_mut().for_each(|r| r.cycle = r.cycle.faster(times));
                }
                _ => continue,
            }
            followed += 1;
            let mended = plan(&costs, &requirements).expect("a plan");
            assert!(mended.success.is_some(), "{target_ms} ms: {advice}");
        }
    }
    assert!(followed >= 4, "{followed}");
    // A full frame just too slow: 1.004 times as fast is enough, 1.00 times is not.
    let requirements = Requirements { interval_frames: 1, ..Requirements::for_target(66.6e6) };
    let mut slow = costs.clone();
    for level in &mut slow.levels {
        level.full_frame = Forecast::exact(1.004 * requirements.frame_ns);
    }
    let planned = plan(&slow, &requirements).expect("a plan");
    let faster = planned.advice.iter().find(|a| matches!(a, Advice::FullFrames { .. }));
    assert!(planned.advice.iter().all(Advice::is_for_full_frames));
    assert_eq!(faster.map(number), Some(1.01));
}

/// The intervals of the paper's phone: printed by the paper, constrained by it, or estimated.
#[test]
fn a_plan_at_90_percent_holds_at_the_pessimistic_end_and_one_from_the_points_does_not() {
    let (costs, device) = phone();
    let trace = trace(1800);
    let calm = AriaDevice {
        thermal: crate::simulator::Thermal { throttle: Throttle::Never, ..device.thermal.clone() },
        ..device
    };
    let required = Requirements::for_target(33.3e6);
    let tight =
        robustness::tightest(&costs, &required).expect("costs that make sense").expect("a plan");
    assert!(tight < 33.3e6 && tight > 30.0e6, "{tight}");
    for target_ns in [33.3e6, tight, 66.6e6] {
        let requirements = Requirements { target_ns, ..required };
        let simulation = Simulation {
            trace: &trace,
            costs: &costs,
            device: &calm,
            requirements,
            truth: Truth::Deviations(0.0),
            seed: 1,
        };
        let truths = [
            Truth::Deviations(0.0),
            requirements.pessimistic(),
            Truth::Longer(0.05),
            Truth::Longer(-0.1),
        ];
        for off in robustness::sweep(&simulation, &truths, &[Some(0.9)]).expect("a sweep") {
            assert!(
                off.success >= 0.997 && off.success_held >= 0.997 && off.planned_cycles > 0,
                "{off:?}"
            );
        }
        if target_ns == tight {
            let bare = robustness::sweep(&simulation, &truths[..2], &[None]).expect("a sweep");
            assert!(bare[0].success_held >= 0.995 && bare[1].success_held < 0.9, "{bare:?}");
            assert!(bare[1].success > bare[1].success_held, "the scheduler sees it: {bare:?}");
            let held = plan(&costs, &requirements).expect("a plan");
            let top = |plan: &AriaPlan| {
                plan.usable()
                    .next_back()
                    .map(|level| (level.rows * level.cols, plan.cycles, plan.region.useful()))
            };
            assert!(
                top(&held) < top(&plan(&costs, &required).expect("a plan")),
                "the price of the confidence"
            );
        }
    }
}

#[test]
fn forecasts_that_are_off_are_held_by_a_plan_at_90_percent() {
    let (phone, device) = phone();
    let costs = uncertain(&phone, 0.1);
    let trace = trace(1800);
    let calm = AriaDevice {
        thermal: crate::simulator::Thermal { throttle: Throttle::Never, ..device.thermal.clone() },
        ..device
    };
    let simulation = Simulation {
        trace: &trace,
        costs: &costs,
        device: &calm,
        requirements: Requirements::for_target(36.0e6),
        truth: Truth::Deviations(0.0),
        seed: 1,
    };
    let swept =
        robustness::sweep(&simulation, &[-0.1, 0.0, 0.05, 0.1].map(Truth::Longer), &[Some(0.9)])
            .expect("a sweep");
    for off in &swept {
        assert!(off.success >= 0.999 && off.success_held >= 0.998, "{off:?}");
    }
}

#[test]
fn constants_that_nobody_measured_are_moved_one_by_one() {
    let (costs, device) = phone();
    let trace = trace(900);
    let simulation = Simulation {
        trace: &trace,
        costs: &costs,
        device: &device,
        requirements: Requirements::for_target(33.3e6),
        truth: Truth::Deviations(0.0),
        seed: 1,
    };
    let shaken = estimates::perturb(&simulation, 0.3).expect("simulations");
    assert_eq!(
        shaken.len(),
        12,
        "five of heat and base, two of the governor, two each of CPU and GPU, one of the NPU"
    );
    for one in &shaken {
        assert_eq!(one.outcomes[0].len(), 4);
        assert!(
            one.outcomes.iter().flatten().all(|(_, success, behind)| (0.0..=1.0).contains(success)
                && behind.is_some_and(|behind| behind >= 0.0))
        );
    }
    let moved = shaken
        .iter()
        .find(|one| one.constant == "power of gpu by cubed frequency")
        .expect("the GPU's power");
    let (low, high) = (&moved.outcomes[0], &moved.outcomes[1]);
    let worse = estimates::Perturbation {
        outcomes: [
            low.clone(),
            high.iter().map(|(system, _, behind)| (*system, 0.5, *behind)).collect(),
        ],
        ..moved.clone()
    };
    assert!(!worse.holds(0.999));
}

/// Eyes that want every other cycle, and remember what they were shown.
#[derive(Default)]
struct Eyes {
    frames: Vec<usize>,
    full: Vec<(usize, [usize; 2])>,
    most: u64,
    taken: u64,
}

impl Sight for Eyes {
    fn full_frame(&mut self, frame: usize, patches: [usize; 2]) {
        self.full.push((frame, patches));
    }

    fn frame(&mut self, frame: usize, most: u64) -> u64 {
        self.frames.push(frame);
        self.most += most;
        let takes = most.min(frame as u64 % 2);
        self.taken += takes;
        takes
    }
}

#[test]
fn eyes_see_every_frame_that_runs_and_say_how_many_cycles_it_takes() {
    let (costs, device) = phone();
    let (trace, requirements) = (trace(300), Requirements::for_target(33.3e6));
    let planned = plan(&costs, &requirements).expect("a plan");
    let simulation = Simulation {
        trace: &trace,
        costs: &costs,
        device: &device,
        requirements,
        truth: Truth::Deviations(0.0),
        seed: 1,
    };
    for system in [System::NpuOnly, System::MobiSrLike, System::Base, System::S2, System::Aria] {
        let setup = Setup::of(system, &costs, &requirements, &planned);
        let (alone, mut eyes) = (simulation.run(system).expect("an outcome"), Eyes::default());
        let seen = simulation.run_seeing(setup, &mut eyes).expect("an outcome");
        assert_eq!(eyes.frames.len(), seen.executed, "{system:?}");
        assert!(eyes.frames.is_sorted() && eyes.full.is_sorted(), "in order");
        let mean = eyes.taken as f64 / seen.executed as f64;
        assert!((seen.cycles - mean).abs() < 1e-9, "{system:?}");
        assert_eq!(eyes.full.is_empty(), !system.is_parallel());
        if system.is_parallel() {
            assert!(eyes.taken > 0 && seen.cycles < alone.cycles, "{system:?}");
            let known = |patches: [usize; 2]| {
                costs.levels.iter().any(|level| [level.rows, level.cols] == patches)
            };
            assert!(eyes.full.iter().all(|(_, patches)| known(*patches)));
        } else {
            assert_eq!((eyes.most, alone.latency_ns), (0, seen.latency_ns), "the same times");
        }
    }
}

#[test]
fn whole_windows_spend_every_cycle_that_fits_and_stay_in_time() {
    let (costs, device) = phone();
    let trace = trace(900);
    let run = |system| {
        let requirements = Requirements::for_target(66.6e6);
        let truth = Truth::Deviations(0.0);
        Simulation { trace: &trace, costs: &costs, device: &device, requirements, truth, seed: 1 }
            .run(system)
            .expect("an outcome")
    };
    let [aria, windows] = [System::Aria, System::WholeWindows].map(run);
    assert!(windows.cycles > aria.cycles, "{} {}", windows.cycles, aria.cycles);
    assert!(windows.success_rate() > 0.99, "{}", windows.success_rate());
}
