//! The evaluator against the simulator, plans against enumeration and against systems, bounds
//! against random plans; and cases worked out by hand.

use super::{
    candidates::{Candidates, alike},
    policy::Way,
    systems::{Named, Orders},
    *,
};
use crate::{
    cost::{Interval, Link},
    stitch::{
        Additive, HandOver, Order, Slo, Subgraph, Task, Zoo,
        preload::Loaded,
        systems::{Setting, System},
    },
};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::{cmp::Ordering, collections::BTreeMap, sync::Arc};

/// Tasks, variants, positions, processors.
#[derive(Clone, Copy)]
struct Size(usize, usize, usize, usize);

/// The first processor runs everything; links and hand-over in every other zoo.
fn random_zoo(rng: &mut StdRng, Size(tasks, variants, positions, processors): Size) -> Zoo {
    let mut links = BTreeMap::new();
    if rng.random_bool(0.5) {
        let pairs = (0..processors).flat_map(|a| (0..processors).map(move |b| (a, b)));
        for pair in pairs.filter(|(a, b)| a != b) {
            let message_ns = rng.random_range(0..400);
            links.insert(pair, Link { message_ns, ..Link::of_bandwidth(1_000_000_000) });
        }
    }
    let mut task = |index: usize| {
        let mut subgraph = || Subgraph {
            latency_ns: (0..processors)
                .map(|p| {
                    (p == 0 || rng.random_bool(0.9))
                        .then(|| Interval::exact(rng.random_range(1_000..30_000)))
                })
                .collect(),
            memory_bytes: rng.random_range(1..9),
            boundary_bytes: rng.random_range(0..500),
            boundary_tensors: 1,
            load_ns: Vec::new(),
        };
        let subgraphs =
            (0..positions).map(|_| (0..variants).map(|_| subgraph()).collect()).collect();
        let drops = (0..positions)
            .map(|_| (0..variants).map(|_| rng.random_range(0..30)).collect())
            .collect();
        Task {
            name: format!("task {index}"),
            variants: (0..variants).map(|v| format!("v{v}")).collect(),
            subgraphs,
            accuracy: Arc::new(Additive::new(9000, drops).expect("accuracies")),
        }
    };
    let tasks = (0..tasks).map(&mut task).collect();
    let names = (0..processors).map(|p| format!("p{p}")).collect();
    let zoo = Zoo::new(names, links, tasks).expect("a zoo");
    let hand_over = match rng.random_range(0..4) {
        0 => HandOver::Given(700),
        1 => HandOver::Measured(
            (0..processors).map(|_| Interval::exact(rng.random_range(0..3_000))).collect(),
        ),
        _ => HandOver::Unknown,
    };
    zoo.with_hand_over(hand_over).expect("one for each processor")
}

fn random_arrivals(rng: &mut StdRng, tasks: usize) -> Arrivals {
    if rng.random_bool(0.4) {
        return Arrivals::AtOnce;
    }
    let mut one = |_| match rng.random_range(0..3) {
        0 => TaskArrivals::Periodic {
            period_ns: rng.random_range(20_000..90_000),
            phase_ns: rng.random_range(0..50_000),
        },
        1 => {
            TaskArrivals::Poisson { per_s: rng.random_range(5_000.0..40_000.0), seed: rng.random() }
        }
        _ => TaskArrivals::Trace(vec![0, 0, 5_000, 40_000, 100_000]),
    };
    Arrivals::Over { horizon_ns: 400_000, tasks: (0..tasks).map(&mut one).collect() }
}

/// Arrivals, contention, power and fetches of every kind.
fn random_problem<'a>(rng: &mut StdRng, zoo: &'a Zoo) -> Problem<'a> {
    let (tasks, processors) = (zoo.tasks().len(), zoo.processors().len());
    let slo = |rng: &mut StdRng| Slo {
        accuracy_bp: rng.random_range(8920..8990),
        latency_ns: rng.random_range(2_000..40_000) * zoo.positions() as u64,
    };
    let slos = (0..tasks).map(|_| slo(rng)).collect();
    let mut problem = Problem::new(zoo, slos, random_arrivals(rng, tasks));
    problem.saturation = rng.random_range(1..8);
    if rng.random_bool(0.5) {
        let mut factor = |a: usize, b: usize| if a == b { 1.0 } else { rng.random_range(1.0..2.0) };
        let row = |a: usize, factor: &mut dyn FnMut(usize, usize) -> f64| {
            (0..processors).map(|b| factor(a, b)).collect::<Vec<f64>>()
        };
        problem.contention =
            Contention::Known((0..processors).map(|a| row(a, &mut factor)).collect());
    }
    if rng.random_bool(0.5) {
        problem.active_w = Some((0..processors).map(|_| rng.random_range(0.5..5.0)).collect());
    }
    if rng.random_bool(0.3) {
        let ns = |task, position, variant, processor| {
            let mixed = task * 7 + position * 5 + variant * 3 + processor;
            if mixed % 3 == 0 { 0 } else { 9_000 + mixed as u64 }
        };
        problem.fetches = Some(Fetches::new(zoo, ns));
    }
    if rng.random_bool(0.3) {
        problem.objective = Objective::Throughput;
    }
    problem
}

fn random_way(rng: &mut StdRng, evaluator: &Evaluator<'_>, task: usize) -> Way {
    let model = &evaluator.model;
    loop {
        let order = rng.random_range(0..model.orders.len());
        let variant = rng.random_range(0..model.stitched(task)) as u32;
        let joined = model.repeats(order) && rng.random_bool(0.5);
        let way = Way { order: order as u32, variant, joined };
        if model.load(task, way).is_some() {
            return way;
        }
    }
}

fn random_policy(rng: &mut StdRng, evaluator: &Evaluator<'_>) -> Policy {
    let tasks = evaluator.model.tasks();
    let ways = |rng: &mut StdRng, task: usize| {
        let count = rng.random_range(1..4);
        let mut ways: Vec<Way> = (0..count).map(|_| random_way(rng, evaluator, task)).collect();
        ways.dedup();
        if alike(&evaluator.model, task, &ways) { ways } else { ways[..1].to_vec() }
    };
    Policy {
        ways: (0..tasks).map(|task| ways(rng, task)).collect(),
        priorities: (0..tasks).map(|_| rng.random_range(0..3)).collect(),
    }
}

#[test]
fn the_evaluator_is_the_simulator() {
    let mut rng = StdRng::seed_from_u64(1);
    let (mut queued, mut met) = (0, 0);
    for round in 0..120 {
        let processors = rng.random_range(1..4);
        let size = Size(rng.random_range(1..5), 3, rng.random_range(1..4), processors);
        let zoo = random_zoo(&mut rng, size);
        let problem = random_problem(&mut rng, &zoo);
        let Ok(mut evaluator) = Evaluator::new(&problem) else { continue };
        for _ in 0..5 {
            let policy = random_policy(&mut rng, &evaluator);
            let score = evaluator.score(&policy);
            let simulated = evaluator.simulated(&policy).expect("a simulation");
            assert_eq!(score, simulated, "round {round}: {policy:?}");
            queued += usize::from(score.violated > 0);
            met += usize::from(score.violated < score.queries);
        }
    }
    assert!(queued > 100 && met > 100, "a test of something: {queued} {met}");
}

/// A runtime takes the same ways, and has the same queues.
#[test]
fn a_dispatcher_with_a_simulated_clock_is_the_evaluator() {
    let mut rng = StdRng::seed_from_u64(11);
    let (mut compared, mut several, mut contended) = (0, 0, 0);
    for round in 0..120 {
        let processors = rng.random_range(1..4);
        let size = Size(rng.random_range(1..5), 3, rng.random_range(1..4), processors);
        let zoo = random_zoo(&mut rng, size);
        let problem = Problem { fetches: None, ..random_problem(&mut rng, &zoo) };
        let Ok(mut evaluator) = Evaluator::new(&problem) else { continue };
        for _ in 0..5 {
            let policy = random_policy(&mut rng, &evaluator);
            let placed = MultiDnnPlan::tasks(&mut evaluator, &policy);
            let score = evaluator.score(&policy);
            let steps = |way: &PlacedWay| -> Vec<Step> {
                assert_eq!(way.pieces.last().map(|p| p.positions.end), Some(zoo.positions()));
                way.pieces.iter().map(|p| Step { processor: p.processor, ns: p.ns }).collect()
            };
            let mut lanes = Vec::new();
            let mut of_task: Vec<Vec<usize>> = Vec::new();
            for task in &placed {
                let ways = task.ways.iter().map(|way| {
                    lanes.push(Lane { steps: steps(way), priority: task.priority });
                    lanes.len() - 1
                });
                of_task.push(ways.collect());
            }
            let factors = problem.contention.factors();
            let (mut planned_ns, mut replayed_ns, mut tied) = (0u128, 0u128, false);
            let names: Vec<String> = zoo.tasks().iter().map(|task| task.name.clone()).collect();
            for scenario in problem.arrivals.scenarios(&names).expect("arrivals") {
                let mut expected = Expectation::default();
                let mut lane = |arrival: &Arrival| {
                    let own = &of_task[arrival.task];
                    let ways = own.iter().map(|&lane| lanes[lane].steps.as_slice());
                    own[expected.choose(arrival.at_ns, ways).expect("a way")]
                };
                let queries: Vec<(u64, usize)> =
                    scenario.iter().map(|arrival| (arrival.at_ns, lane(arrival))).collect();
                // Who comes first at the same time depends on who asked first for a query.
                tied |= queries.windows(2).any(|two| two[0].0 == two[1].0 && two[0].0 > 0);
                let sum = |ends: &[u64]| -> u128 {
                    ends.iter().zip(&queries).map(|(end, (at, _))| u128::from(end - at)).sum()
                };
                planned_ns += sum(&forecast(processors, factors, &lanes, &queries).expect("ends"));
                let query = |&(arrived_ns, lane): &(u64, usize)| Replayed {
                    arrived_ns,
                    lane,
                    service_ns: lanes[lane].steps.iter().map(|step| step.ns).collect(),
                };
                let replayed: Vec<Replayed> = queries.iter().map(query).collect();
                let found = replay(processors, usize::MAX, &lanes, &replayed).expect("a replay");
                let ends: Option<Vec<u64>> = found.completed_ns.into_iter().collect();
                replayed_ns += sum(&ends.expect("nothing is refused"));
            }
            assert_eq!(planned_ns, score.latency_ns, "round {round}: {policy:?}");
            if factors.is_empty() && !tied {
                assert_eq!(replayed_ns, score.latency_ns, "round {round}: {policy:?}");
                compared += 1;
            } else {
                contended += 1;
            }
            several += usize::from(policy.ways.iter().any(|ways| ways.len() > 1));
        }
    }
    assert!(compared > 100 && several > 100 && contended > 100, "{compared} {several} {contended}");
}

#[test]
fn giving_up_early_changes_nothing() {
    let mut rng = StdRng::seed_from_u64(2);
    for round in 0..60 {
        let zoo = random_zoo(&mut rng, Size(3, 2, 2, 2));
        let problem = random_problem(&mut rng, &zoo);
        let mut evaluator = Evaluator::new(&problem).expect("a problem");
        let (one, other) =
            (random_policy(&mut rng, &evaluator), random_policy(&mut rng, &evaluator));
        let (below, score) = (evaluator.score(&one), evaluator.score(&other));
        let ways: Vec<&[Way]> = other.ways.iter().map(Vec::as_slice).collect();
        let found = evaluator.score_below(&ways, &other.priorities, Some(&below));
        let less = score.compare(&below, problem.objective) == Ordering::Less;
        assert_eq!(found, less.then_some(score), "round {round}");
    }
}

/// The best of the whole space, by the simulator.
fn brute_force(evaluator: &Evaluator<'_>, objective: Objective) -> Score {
    let model = &evaluator.model;
    let choices = |task: usize| {
        let mut all: Vec<Vec<Way>> = Vec::new();
        for variant in 0..model.stitched(task) as u32 {
            for order in 0..model.orders.len() as u32 {
                for joined in [false, true] {
                    let way = Way { order, variant, joined };
                    let runs = model.load(task, way).is_some();
                    if runs && (!joined || model.repeats(order as usize)) {
                        all.push(vec![way]);
                    }
                }
            }
            all.push(model.whole_on_each(task, variant));
        }
        let several = Candidates::of(model, task).choices;
        all.extend(several.into_iter().filter(|ways| ways.len() > 1));
        all.retain(|ways| !ways.is_empty());
        all
    };
    let (first, second) = (choices(0), choices(1));
    let mut best: Option<Score> = None;
    for (a, b) in first.iter().flat_map(|a| second.iter().map(move |b| (a, b))) {
        for priorities in [[0, 0], [0, 1], [1, 0]] {
            let policy =
                Policy { ways: vec![a.clone(), b.clone()], priorities: priorities.to_vec() };
            let score = evaluator.simulated(&policy).expect("a simulation");
            if best.is_none_or(|best| score.compare(&best, objective) == Ordering::Less) {
                best = Some(score);
            }
        }
    }
    best.expect("a plan")
}

#[test]
fn small_plans_are_those_of_brute_force_through_the_simulator() {
    let mut rng = StdRng::seed_from_u64(3);
    let mut proven = 0;
    for round in 0..6 {
        let zoo = random_zoo(&mut rng, Size(2, 2, 2, 2));
        let mut problem = random_problem(&mut rng, &zoo);
        problem.saturation = 2;
        if round % 2 == 0 {
            problem.arrivals = Arrivals::AtOnce;
        }
        let orders = Orders::of(&zoo).expect("orders");
        let all = Settings { evaluations: 10_000, seed: 0 };
        let found = plan(&problem, &orders, all).expect("a plan");
        let best = brute_force(&Evaluator::new(&problem).expect("a problem"), problem.objective);
        let enumerated = search::enumerated(&problem, all).expect("a problem");
        assert_eq!(enumerated, Some(best), "round {round}");
        // Other sets of ways may be better still: that is no proof.
        assert!(matches!(found.proof, Proof::SingleWays | Proof::First), "round {round}");
        assert_ne!(found.score.compare(&best, problem.objective), Ordering::Greater);
        assert!(found.bound.violated <= found.score.violated, "round {round}");
        let least = found.bound.saturated_ns_with(found.score.violated);
        assert!(least <= found.score.saturated_ns, "round {round}");
        let few = Settings { evaluations: 400, seed: 0 };
        let searched = plan(&problem, &orders, few).expect("a plan");
        assert!(matches!(searched.proof, Proof::Open | Proof::First), "round {round}");
        if searched.proof == Proof::First && problem.objective == Objective::Violations {
            proven += 1;
            assert_eq!(searched.score.violated, found.score.violated, "round {round}");
        }
    }
    assert!(proven > 0, "bounds prove something");
}

#[test]
fn no_search_beats_what_is_proven_best() {
    let mut rng = StdRng::seed_from_u64(11);
    let (mut several, mut open) = (0, 0);
    for round in 0..12 {
        let zoo = random_zoo(&mut rng, Size(2, 2, 1, 2));
        let problem = random_problem(&mut rng, &zoo);
        let orders = Orders::of(&zoo).expect("orders");
        let with = |evaluations| {
            let settings = Settings { evaluations, seed: round };
            plan(&problem, &orders, settings).expect("a plan")
        };
        let (whole, more, few) = (with(20_000), with(60_000), with(400));
        assert_eq!((whole.proof, more.proof), (Proof::Enumerated, Proof::Enumerated));
        assert_eq!(whole.score.compare(&more.score, problem.objective), Ordering::Equal);
        assert_ne!(whole.score.compare(&few.score, problem.objective), Ordering::Greater);
        several += u32::from((0..2).any(|task| whole.policy.ways(task).len() > 1));
        open += u32::from(few.proof == Proof::SingleWays);
    }
    assert!(several > 0 && open > 0, "{several} with several ways, {open} not proven");
}

#[test]
fn no_system_is_better() {
    let mut rng = StdRng::seed_from_u64(4);
    let (mut better, mut ran) = (0, 0);
    for round in 0..40 {
        let processors = rng.random_range(2..4);
        let zoo = random_zoo(&mut rng, Size(3, 3, 3, processors));
        let problem = random_problem(&mut rng, &zoo);
        let orders = Orders::of(&zoo).expect("orders");
        let evaluations = if round % 4 == 0 { 0 } else { 300 };
        let settings = Settings { evaluations, seed: round };
        let Ok(found) = plan(&problem, &orders, settings) else { continue };
        assert_eq!(found.compared.len(), Named::ALL.len());
        for compared in &found.compared {
            let Ok(score) = &compared.score else { continue };
            let order = found.score.compare(score, problem.objective);
            assert_ne!(order, Ordering::Greater, "round {round}: {}", compared.system);
            better += usize::from(order == Ordering::Less);
            ran += 1;
        }
        let mut evaluator = Evaluator::new(&problem).expect("a problem");
        assert_eq!(evaluator.simulated(&found.policy).expect("a simulation"), found.score);
        assert_eq!(evaluator.score(&found.policy), found.score);
        let violated: u64 = found.tasks.iter().map(|task| task.violated).sum();
        assert_eq!(violated, found.score.violated, "round {round}");
        let shares: f64 = found.shares().iter().map(|(_, share)| share).sum();
        assert!((shares - 1.0).abs() < 1e-9, "round {round}: {shares}");
    }
    assert!(ran > 200 && better > ran / 2, "{better} of {ran}");
}

#[test]
fn bounds_hold_for_random_plans() {
    let mut rng = StdRng::seed_from_u64(5);
    let (mut tight, mut positive) = (0, 0);
    for round in 0..60 {
        let processors = rng.random_range(1..4);
        let tasks = rng.random_range(1..5);
        let zoo = random_zoo(&mut rng, Size(tasks, 3, 2, processors));
        let problem = random_problem(&mut rng, &zoo);
        let Ok(mut evaluator) = Evaluator::new(&problem) else { continue };
        let candidates: Vec<Candidates> =
            (0..zoo.tasks().len()).map(|t| Candidates::of(&evaluator.model, t)).collect();
        let (bound, _) = Bound::of(&evaluator.model, &candidates);
        positive += usize::from(bound.violated > 0);
        for _ in 0..60 {
            let policy = random_policy(&mut rng, &evaluator);
            let score = evaluator.score(&policy);
            assert!(bound.violated <= score.violated, "round {round}: {bound:?} {score:?}");
            let least = bound.saturated_ns_with(score.violated);
            assert!(least <= score.saturated_ns, "round {round}: {bound:?} {score:?}");
            tight += usize::from(bound.violated == score.violated);
        }
    }
    assert!(tight > 50 && positive > 10, "{tight} {positive}");
}

#[test]
fn systems_do_as_the_stitching_module_simulates_them() {
    let mut rng = StdRng::seed_from_u64(6);
    for round in 0..12 {
        let zoo = random_zoo(&mut rng, Size(3, 3, 2, 2));
        let mut problem = random_problem(&mut rng, &zoo);
        problem.contention = Contention::Unknown;
        problem.fetches = None;
        problem.arrivals = Arrivals::AtOnce;
        let orders = Orders::of(&zoo).expect("orders");
        let setting = Setting {
            zoo: &zoo,
            fixed: &orders.fixed,
            orders: &orders.chosen_from,
            loaded: None,
            budget: None,
        };
        let mut evaluator = Evaluator::new(&problem).expect("a problem");
        let stitched = (Named::StitchedAlone, System::STITCHED);
        let systems = System::BASELINES.map(|system| (Named::Baseline(system), system));
        for (named, system) in systems.into_iter().chain([stitched]) {
            let Ok(policy) = evaluator.plan_of(named, &orders) else { continue };
            let score = evaluator.score(&policy);
            let slos = [problem.slos.clone()];
            let violations = setting.violations(system, &slos, 0).expect("a rate");
            assert_eq!(score.violated as usize, violations.violated, "round {round}: {named}");
            assert_eq!(score.queries as usize, violations.of);
            let rate = setting
                .throughput(system, &problem.slos, problem.saturation)
                .expect("queries per second");
            let ratio = score.queries_per_s() / rate;
            assert!((ratio - 1.0).abs() < 1e-9, "round {round}: {named}: {ratio}");
        }
    }
}

/// One processor a column; each task has one variant whose positions take these ns there.
fn by_hand(tasks: &[&[&[u64]]]) -> Zoo {
    let task = |(index, positions): (usize, &&[&[u64]])| {
        let subgraph = |ns: &&[u64]| {
            vec![Subgraph {
                latency_ns: ns.iter().map(|&ns| Some(Interval::exact(ns))).collect(),
                memory_bytes: 10,
                boundary_bytes: 0,
                boundary_tensors: 1,
                load_ns: Vec::new(),
            }]
        };
        let accuracy = Additive::of_originals(&[9000], positions.len()).expect("accuracies");
        Task {
            name: format!("task {index}"),
            variants: vec!["dense".to_owned()],
            subgraphs: positions.iter().map(subgraph).collect(),
            accuracy: Arc::new(accuracy),
        }
    };
    let processors = tasks[0][0].len();
    let tasks = tasks.iter().enumerate().map(task).collect();
    let names = (0..processors).map(|p| format!("p{p}")).collect();
    Zoo::new(names, BTreeMap::new(), tasks).expect("a zoo")
}

fn slo(latency_ns: u64) -> Slo {
    Slo { accuracy_bp: 9000, latency_ns }
}

fn planned(problem: &Problem<'_>) -> MultiDnnPlan {
    let orders = Orders::of(problem.zoo).expect("orders");
    plan(problem, &orders, Settings::default()).expect("a plan")
}

#[test]
fn tasks_that_would_queue_for_one_processor_get_one_each() {
    let zoo = by_hand(&[&[&[10, 10], &[10, 10]], &[&[10, 10], &[10, 10]]]);
    let problem = Problem::new(&zoo, vec![slo(20); 2], Arrivals::AtOnce);
    let found = planned(&problem);
    assert_eq!((found.score.violated, found.score.queries), (0, 4));
    assert_eq!((found.proof, found.bound.violated), (Proof::Enumerated, 0));
    assert_eq!(found.shares()[0], (Kind::Whole, 1.0));
    let of = |named| found.compared.iter().find(|c| c.system == named).expect("a system");
    let stitched = of(Named::StitchedAlone).score.as_ref().expect("a score");
    assert_eq!(stitched.violated, 2, "the second waits 10 ns for the first processor");
    assert!(!found.contention_known);
}

#[test]
fn the_urgent_task_goes_first() {
    let zoo = by_hand(&[&[&[10]], &[&[10]], &[&[10]]]);
    let tasks = [0, 1, 2].map(|at| TaskArrivals::Trace(vec![at])).to_vec();
    let arrivals = Arrivals::Over { horizon_ns: 100, tasks };
    let problem = Problem::new(&zoo, vec![slo(100), slo(100), slo(25)], arrivals);
    let found = planned(&problem);
    assert_eq!(found.score.violated, 0);
    assert!(found.tasks[2].priority < found.tasks[1].priority, "{:?}", found.policy);
    assert!(found.compared.iter().all(|c| c.score.as_ref().is_ok_and(|s| s.violated == 1)));
}

#[test]
fn contention_and_fetching_change_plans() {
    let zoo = by_hand(&[&[&[10, 12]], &[&[10, 12]]]);
    let mut problem = Problem::new(&zoo, vec![slo(20); 2], Arrivals::AtOnce);
    assert_eq!(planned(&problem).score.violated, 0);
    let slower = vec![vec![1.0, 3.0], vec![3.0, 1.0]];
    problem.contention = Contention::Known(slower);
    let beside = planned(&problem);
    assert!(beside.contention_known);
    assert_eq!(beside.score.violated, 0, "one after the other on the faster");
    let on = |plan: &MultiDnnPlan| {
        let ways = plan.tasks.iter().flat_map(|task| &task.ways);
        ways.map(|way| way.processors[0].clone()).collect::<Vec<_>>()
    };
    assert_eq!(on(&beside), ["p0", "p0"]);
    // The first processor has nothing loaded.
    let fetch = |_, _, _, processor| if processor == 0 { 50 } else { 0 };
    problem.fetches = Some(Fetches::new(&zoo, fetch));
    problem.slos = vec![slo(24); 2];
    let fetched = planned(&problem);
    assert_eq!((fetched.score.violated, on(&fetched)), (0, vec!["p1".into(), "p1".into()]));
    let nothing = Loaded::nothing(&zoo);
    let order = Order::new(vec![0]);
    assert!(Fetches::missing(&zoo, &order, &nothing).is_err(), "no time of loading is known");
    problem.fetches = Some(Fetches::new(&zoo, |_, _, _, processor| [20, 24][processor]));
    assert_eq!(planned(&problem).score.violated, 4, "each takes three times as long at first");
}

#[test]
fn plans_and_replays_have_the_hand_over_of_each_subgraph() {
    let zoo = by_hand(&[&[&[10], &[10]], &[&[20], &[20]]]).with_given_hand_over(Some(3));
    let tasks = vec![TaskArrivals::Trace(vec![0]); 2];
    let arrivals = Arrivals::Over { horizon_ns: 100, tasks };
    let problem = Problem::new(&zoo, vec![slo(100); 2], arrivals);
    let found = planned(&problem);
    let lane = |task: &PlacedTask| {
        let steps = task.ways[0].pieces.iter();
        let steps = steps.map(|piece| Step { processor: piece.processor, ns: piece.ns }).collect();
        Lane { steps, priority: task.priority }
    };
    let lanes: Vec<Lane> = found.tasks.iter().map(lane).collect();
    let steps = |lane: &Lane| lane.steps.iter().map(|step| step.ns).collect::<Vec<_>>();
    assert_eq!((steps(&lanes[0]), steps(&lanes[1])), (vec![26], vec![46]), "two subgraphs each");
    let query = |lane: usize| Replayed { arrived_ns: 0, lane, service_ns: steps(&lanes[lane]) };
    let replayed = replay(1, usize::MAX, &lanes, &[query(0), query(1)]).expect("a replay");
    let simulated = found.tasks.iter().map(|task| Some(task.longest_ns));
    assert_eq!(replayed.completed_ns, simulated.collect::<Vec<_>>());
    let model = &Evaluator::new(&problem).expect("a problem").model;
    let cut = Way { joined: false, ..found.policy.ways[1][0] };
    assert_eq!(model.load(1, cut).map(|load| load[0]), Some(46), "joined or not");
}

#[test]
fn plans_fit_into_memory() {
    let zoo = by_hand(&[&[&[10, 30]], &[&[10, 30]]]);
    let mut problem = Problem::new(&zoo, vec![slo(30); 2], Arrivals::AtOnce);
    let unlimited = planned(&problem);
    assert!(unlimited.memory_bytes >= 20);
    problem.memory_bytes = Some(20);
    let found = planned(&problem);
    assert!(found.memory_bytes <= 20);
    let whole = Named::Baseline(System::BASELINES[1]);
    let whole = found.compared.iter().find(|c| c.system == whole).expect("a system");
    assert!(!whole.fits_memory, "each task on each processor takes 40 bytes");
    problem.memory_bytes = Some(19);
    let orders = Orders::of(&zoo).expect("orders");
    let error = plan(&problem, &orders, Settings::default()).map_err(|e| e.to_string());
    assert!(error.is_err_and(|e| e.contains("at least 20 bytes") && e.contains("19 bytes")));
}

#[test]
fn the_same_seed_gives_the_same_plan() {
    let mut rng = StdRng::seed_from_u64(8);
    let zoo = random_zoo(&mut rng, Size(4, 4, 3, 2));
    let problem = random_problem(&mut rng, &zoo);
    let orders = Orders::of(&zoo).expect("orders");
    let of = |seed| plan(&problem, &orders, Settings { evaluations: 2_000, seed }).expect("a plan");
    let (one, again) = (of(1), of(1));
    assert_eq!((one.policy, one.evaluations), (again.policy, again.evaluations));
}

#[test]
fn bad_problems_are_refused() {
    let zoo = by_hand(&[&[&[10, 30]], &[&[10, 30]]]);
    let good = Problem::new(&zoo, vec![slo(30); 2], Arrivals::AtOnce);
    let refused = |problem: Problem<'_>| {
        Evaluator::new(&problem).err().map_or_else(String::new, |error| error.to_string())
    };
    assert_eq!(refused(good.clone()), "");
    let known = |factors: &[&[f64]]| Problem {
        contention: Contention::Known(factors.iter().map(|row| row.to_vec()).collect()),
        ..good.clone()
    };
    assert!(refused(Problem { slos: vec![slo(1)], ..good.clone() }).contains("objectives"));
    assert!(refused(Problem { saturation: 0, ..good.clone() }).contains("saturation"));
    assert!(refused(known(&[&[1.0, 2.0]])).contains("contention"));
    assert!(refused(known(&[&[1.0, 0.5], &[1.0, 1.0]])).contains("0.5"));
    assert!(refused(known(&[&[1.0, f64::NAN], &[1.0, 1.0]])).contains("NaN"));
    let power = |watts: Vec<f64>| Problem { active_w: Some(watts), ..good.clone() };
    assert!(refused(power(vec![1.0])).contains("power"));
    assert!(refused(power(vec![1.0, -1.0])).contains("power"));
}
