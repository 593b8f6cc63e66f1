//! Preloading against enumeration of every set of subgraphs, and invariants of each method.

use super::{
    super::{
        hotness::{Hotness, hotness},
        preload::{
            Loaded, Present, as_printed, exact, exact_with_present, round_robin, with_faster,
        },
    },
    *,
};
use std::collections::BTreeSet;

fn all_hotness(zoo: &Zoo, order: &Order, configurations: &[Vec<Slo>]) -> Vec<Hotness> {
    let own = |task: usize| configurations.iter().map(|slos| slos[task]).collect::<Vec<_>>();
    (0..zoo.tasks().len())
        .map(|task| hotness(zoo, task, order, &own(task)).expect("few variants"))
        .collect()
}

/// Position, variant and memory of every subgraph.
fn every_subgraph(zoo: &Zoo) -> Vec<(usize, usize, usize, u64)> {
    let mut all = Vec::new();
    for (t, task) in zoo.tasks().iter().enumerate() {
        for (j, row) in task.subgraphs.iter().enumerate() {
            all.extend(row.iter().enumerate().map(|(i, s)| (t, j, i, s.memory_bytes)));
        }
    }
    all
}

/// Lines 9 to 22 of algorithm 2.
fn line_by_line(zoo: &Zoo, hotness: &[Hotness], budget: u64) -> Loaded {
    let mut loaded = Loaded::nothing(zoo);
    let mut used = 0;
    for (t, task) in zoo.tasks().iter().enumerate() {
        for (j, row) in task.subgraphs.iter().enumerate() {
            let mut sorted: Vec<usize> = (0..row.len()).collect();
            sorted.sort_by(|&a, &b| hotness[t][j][b].total_cmp(&hotness[t][j][a]));
            for i in sorted {
                if !loaded.holds(t, j, i) && used + row[i].memory_bytes <= budget {
                    loaded.load(zoo, t, j, i);
                    used += row[i].memory_bytes;
                    break;
                }
            }
        }
    }
    loaded
}

/// Eq. 7, with Theta as algorithm 1 defines it: fast enough in some order.
fn printed_hotness(zoo: &Zoo, task: usize, orders: &[Order], slos: &[Slo]) -> Hotness {
    let found = &zoo.tasks()[task];
    let mut hotness = vec![vec![0.0; found.variants.len()]; zoo.positions()];
    for slo in slos {
        let mut theta = BTreeSet::new();
        for order in orders {
            let met = |s: &Stitched| slo.is_met_by(s.accuracy_bp, s.latency_ns);
            let all = every_variant(zoo, task, order).into_iter();
            theta.extend(all.filter(met).map(|s| s.variants));
        }
        for (position, variant) in theta.iter().flat_map(|v| v.iter().enumerate()) {
            hotness[position][*variant] += 1.0 / theta.len() as f64;
        }
    }
    hotness
}

#[test]
fn hotness_as_printed_is_equation_7() {
    let mut rng = StdRng::seed_from_u64(43);
    let mut differs = 0;
    for round in 0..60 {
        let zoo = random_zoo(&mut rng, KINDS[round % 3], Size(1, 3, 3, 3));
        let orders = orders::each_once(3, 3).expect("orders");
        let slos: Vec<Slo> = (0..5).map(|_| random_slo(&mut rng, 3)).collect();
        let found = hotness::as_printed(&zoo, 0, &orders, &slos).expect("few");
        let expected = printed_hotness(&zoo, 0, &orders, &slos);
        let pairs = found.iter().flatten().zip(expected.iter().flatten());
        assert!(pairs.clone().all(|(a, b)| (a - b).abs() < 1e-9), "round {round}");
        let one = hotness(&zoo, 0, &orders[0], &slos).expect("few variants");
        differs += u32::from(one != found);
    }
    assert!(differs > 10, "in {differs} rounds another order lets in more variants");
}

#[test]
fn what_is_not_loaded_takes_fetching_too() {
    let mut rng = StdRng::seed_from_u64(44);
    let mut zoo = random_zoo(&mut rng, Kind::Additive, Size(1, 2, 2, 1));
    let mut loaded = Loaded::nothing(&zoo);
    loaded.load(&zoo, 0, 0, 0);
    assert_eq!(zoo.loading(), Loading::Unknown);
    let everything = Loaded::everything(&zoo);
    assert!(zoo.with_fetching(&loaded, &loaded).is_ok(), "nothing is fetched");
    let unknown = zoo.with_fetching(&loaded, &everything).map(|_| ()).map_err(|e| e.to_string());
    assert!(unknown.is_err_and(|e| e.contains("at position 1") && e.contains("is not known")));
    for (nth, subgraph) in zoo.tasks[0].subgraphs.iter_mut().flatten().enumerate() {
        subgraph.load_ns = vec![Some(1000 + nth as u64)];
    }
    assert_eq!(zoo.loading(), Loading::Measured);
    assert_eq!(zoo.clone().with_forecast_loads().loading(), Loading::Forecast);
    let fetched = zoo.with_fetching(&loaded, &everything).expect("known times");
    let order = Order::new(vec![0, 0]);
    for (position, variant) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let ns = |zoo: &Zoo| zoo.step_ns(0, &order, position, variant).map(Interval::point);
        let nth = 2 * position as u64 + variant as u64;
        let load_ns = if nth == 0 { 0 } else { 1000 + nth };
        assert_eq!(ns(&fetched), ns(&zoo).map(|ns| ns + load_ns), "{position} {variant}");
    }
}

#[test]
fn greedy_preloading_keeps_the_budget_and_takes_the_hottest() {
    let mut rng = StdRng::seed_from_u64(41);
    let mut more = 0;
    for round in 0..200 {
        let zoo = random_zoo(&mut rng, KINDS[round % 3], Size(3, 4, 3, 3));
        let order = Order::new(vec![0, 1, 2]);
        let configurations = random_configurations(&mut rng, &zoo, 6);
        let hotness = all_hotness(&zoo, &order, &configurations);
        let budget = rng.random_range(0..=Loaded::everything(&zoo).memory_bytes());
        let (once, rounds) =
            (as_printed(&zoo, &hotness, budget), round_robin(&zoo, &hotness, budget));
        assert_eq!(once, line_by_line(&zoo, &hotness, budget), "round {round}");
        for (t, j, i, memory) in every_subgraph(&zoo) {
            assert!(
                !once.holds(t, j, i) || rounds.holds(t, j, i),
                "round {round}: the first round is algorithm 2"
            );
            assert!(
                rounds.holds(t, j, i) || rounds.memory_bytes() + memory > budget,
                "round {round}: nothing fits any more"
            );
            let held = |i: usize| usize::from(once.holds(t, j, i));
            assert!(
                (0..4).map(held).sum::<usize>() <= 1,
                "round {round}: one per task and position"
            );
        }
        assert!(once.memory_bytes() <= budget && rounds.memory_bytes() <= budget, "round {round}");
        more += usize::from(rounds.count() > once.count());
        let (kept, kept_more) = (
            once.keeps(&zoo, &order, &configurations),
            rounds.keeps(&zoo, &order, &configurations),
        );
        assert!(kept.expect("a number") <= kept_more.expect("a number"), "round {round}");
        assert_eq!(round_robin(&zoo, &hotness, u64::MAX), Loaded::everything(&zoo));
    }
    assert!(more > 100, "algorithm 2 as printed left room in {more} cases only");
}

#[test]
fn exact_preloading_equals_enumeration_of_every_set() {
    let mut rng = StdRng::seed_from_u64(42);
    let (mut better, mut kept) = (0, 0);
    for round in 0..120 {
        let size = if round % 2 == 0 { Size(2, 3, 2, 3) } else { Size(1, 4, 3, 3) };
        let zoo = random_zoo(&mut rng, KINDS[round % 3], size);
        let order = Order::new((0..size.2).collect());
        let configurations = random_configurations(&mut rng, &zoo, 7);
        let budget = rng.random_range(0..=Loaded::everything(&zoo).memory_bytes() / 2);
        let found =
            exact(&zoo, &order, &configurations, budget, &default_budget()).expect("few variants");
        let subgraphs = every_subgraph(&zoo);
        let of = |set: u32| {
            let mut loaded = Loaded::nothing(&zoo);
            let chosen = subgraphs.iter().enumerate().filter(|(index, _)| set >> index & 1 == 1);
            chosen.for_each(|(_, &(t, j, i, _))| loaded.load(&zoo, t, j, i));
            loaded
        };
        let value = |loaded: &Loaded| {
            (
                loaded.keeps(&zoo, &order, &configurations).expect("a number"),
                std::cmp::Reverse(loaded.memory_bytes()),
            )
        };
        let best = (0..1u32 << subgraphs.len())
            .map(of)
            .filter(|l| l.memory_bytes() <= budget)
            .map(|l| value(&l))
            .max()
            .expect("nothing is a set too");
        assert_eq!(value(&found.loaded), best, "round {round}");
        assert_eq!((found.keeps, found.at_most), (best.0, best.0), "round {round}");
        let greedy =
            value(&round_robin(&zoo, &all_hotness(&zoo, &order, &configurations), budget)).0;
        better += usize::from(best.0 > greedy);
        kept += usize::from(best.0 > 0);
    }
    assert!(better > 10 && kept > 40, "better than greedy in {better} of {kept} cases");
}

/// A random zoo with times of loading, some of which are not known.
fn random_zoo_with_loads(rng: &mut StdRng, kind: Kind, size: Size) -> Zoo {
    let mut zoo = random_zoo(rng, kind, size);
    for subgraph in zoo.tasks.iter_mut().flat_map(|task| task.subgraphs.iter_mut().flatten()) {
        let mut load = || rng.random_bool(0.9).then(|| rng.random_range(0..15));
        subgraph.load_ns = (0..size.3).map(|_| load()).collect();
    }
    zoo
}

/// Whether each task meets its objective by a variant whose subgraphs are loaded or fetched.
fn met_with_fetching(zoo: &Zoo, order: &Order, loaded: &Loaded, slos: &[Slo]) -> Vec<bool> {
    let of_task = |task: usize| {
        let fetch = |variants: &[usize]| {
            let missing = variants.iter().enumerate().filter(|(j, i)| !loaded.holds(task, *j, **i));
            let each = missing
                .map(|(j, &i)| zoo.tasks[task].subgraphs[j][i].load_ns[order.processors()[j]]);
            each.sum::<Option<u64>>()
        };
        let met = |s: Stitched| {
            let ns = fetch(&s.variants).map(|ns| s.latency_ns + ns);
            ns.is_some_and(|ns| slos[task].is_met_by(s.accuracy_bp, ns))
        };
        every_variant(zoo, task, order).into_iter().any(met)
    };
    (0..zoo.tasks().len()).map(of_task).collect()
}

#[test]
fn preloading_for_present_objectives_equals_enumeration_where_tasks_fetch() {
    let mut rng = StdRng::seed_from_u64(46);
    let (weight, mut partly, mut free) = (100, 0, 0);
    for round in 0..90 {
        let size = if round % 2 == 0 { Size(2, 2, 2, 2) } else { Size(1, 3, 3, 3) };
        let zoo = random_zoo_with_loads(&mut rng, KINDS[round % 3], size);
        let order = Order::new((0..size.2).collect());
        let later = random_configurations(&mut rng, &zoo, 4);
        let slos = random_configurations(&mut rng, &zoo, 1).remove(0);
        let subgraphs = every_subgraph(&zoo);
        let of = |set: u32| {
            let mut loaded = Loaded::nothing(&zoo);
            let chosen = subgraphs.iter().enumerate().filter(|(index, _)| set >> index & 1 == 1);
            chosen.for_each(|(_, &(t, j, i, _))| loaded.load(&zoo, t, j, i));
            loaded
        };
        let met = |loaded: &Loaded| {
            let met = met_with_fetching(&zoo, &order, loaded, &slos);
            met.into_iter().filter(|met| *met).count()
        };
        let value = |loaded: &Loaded| {
            weight * met(loaded) + loaded.keeps(&zoo, &order, &later).expect("a number")
        };
        let values: Vec<(u64, usize)> = (0..1u32 << subgraphs.len())
            .map(|set| (of(set).memory_bytes(), value(&of(set))))
            .collect();
        let (full, mut before) = (Loaded::everything(&zoo).memory_bytes(), 0);
        for percent in [0, 10, 25, 50, 100] {
            let budget = full * percent / 100;
            let fits = values.iter().filter(|(memory, _)| *memory <= budget);
            let best = fits.map(|(_, value)| *value).max().expect("nothing is a set too");
            let present = Present { slos: &slos[..], weight };
            let steps = default_budget();
            let found = exact_with_present(&zoo, &order, present, &later, budget, &steps)
                .expect("few variants");
            assert!(found.loaded.memory_bytes() <= budget, "round {round}");
            assert_eq!((found.keeps, found.at_most), (best, best), "round {round}, {percent} %");
            assert_eq!(value(&found.loaded), best, "round {round}, {percent} %");
            let met = met(&found.loaded);
            assert!(met >= before, "round {round}: {met} at {percent} %, with less {before}");
            before = met;
            let whole = found.loaded.keeps(&zoo, &order, std::slice::from_ref(&slos));
            partly += usize::from(percent > 0 && whole.expect("a number") < met);
            free += usize::from(percent == 0 && met > 0);
            let none = vitempo_graph::Limits { steps: 1, ..vitempo_graph::Limits::NONE };
            let none = vitempo_graph::Budget::new(none);
            let cut = exact_with_present(&zoo, &order, present, &later, budget, &none);
            let cut = cut.expect("few variants");
            assert!(cut.at_most >= best && cut.keeps <= value(&cut.loaded), "round {round}");
        }
    }
    assert!(partly > 20 && free > 10, "{partly} partly loaded, {free} with nothing loaded");
}

#[test]
fn a_subgraph_is_fetched_where_the_time_is_known() {
    let mut rng = StdRng::seed_from_u64(47);
    let mut zoo = random_zoo(&mut rng, Kind::Additive, Size(1, 2, 2, 2));
    let order = Order::new(vec![0, 0]);
    let nothing = Loaded::nothing(&zoo);
    let unknown = zoo.fetching_in(&order, &nothing).map_err(|e| e.to_string());
    assert!(unknown.is_err_and(|e| e.contains("at position 1") && e.contains("is not known")));
    for row in &mut zoo.tasks[0].subgraphs {
        row[1].load_ns = vec![Some(1000), None];
    }
    let fetching = zoo.fetching_in(&order, &nothing).expect("the second variant is known");
    let ns = |zoo: &Zoo, variants: &[usize]| zoo.latency_ns(0, &order, variants);
    assert_eq!(ns(&fetching, &[0, 1]), None);
    let alone = ns(&zoo, &[1, 1]).map(|ns| ns.point() + 2000);
    assert_eq!(ns(&fetching, &[1, 1]).map(Interval::point), alone);
    let mut loaded = nothing;
    loaded.load(&zoo, 0, 0, 0);
    let fetching = zoo.fetching_in(&order, &loaded).expect("known");
    let alone = ns(&zoo, &[0, 1]).map(|ns| ns.point() + 1000);
    assert_eq!(ns(&fetching, &[0, 1]).map(Interval::point), alone);
}

/// Four tasks of ten variants in three positions, on the grid of 25 objectives, with memory of
/// every size.
pub(super) fn the_papers_size(seed: u64) -> (Zoo, Order, Vec<Vec<Slo>>) {
    let mut rng = StdRng::seed_from_u64(seed);
    let task = |index: usize| {
        let accuracies: Vec<u32> =
            (0..10).map(|v| 9000 - 70 * v + rng.random_range(0..60)).collect();
        let mut subgraph = |v: u64| Subgraph {
            latency_ns: (0..3)
                .map(|_| {
                    Some(Interval::exact(
                        (1_000_000 - 60_000 * v) * rng.random_range(60..140) / 100,
                    ))
                })
                .collect(),
            memory_bytes: (20 - v) * rng.random_range(40_000..60_000),
            boundary_bytes: 0,
            boundary_tensors: 1,
            load_ns: vec![Some(20_000_000); 3],
        };
        let subgraphs = (0..3).map(|_| (0..10).map(&mut subgraph).collect()).collect();
        let accuracy = Arc::new(Additive::of_originals(&accuracies, 3).expect("accuracies"));
        Task {
            name: format!("task {index}"),
            variants: (0..10).map(|v| format!("v{v}")).collect(),
            subgraphs,
            accuracy,
        }
    };
    let tasks = (0..4).map(task).collect();
    let zoo = Zoo::new(["NPU", "GPU", "CPU"].map(str::to_owned).to_vec(), BTreeMap::new(), tasks)
        .expect("a zoo");
    let order = Order::new(vec![0, 1, 2]);
    let grids: Vec<Vec<Slo>> = (0..4)
        .map(|t| slo::Ranges::of_originals(&zoo, t, &order).expect("ranges").grid())
        .collect();
    (zoo, order, slo::shared(&grids))
}

#[test]
fn at_the_papers_size_exact_preloading_is_proven_and_no_worse() {
    let (zoo, order, configurations) = the_papers_size(43);
    let (hotness, full) = (all_hotness(&zoo, &order, &configurations), Loaded::everything(&zoo));
    let most = full.keeps(&zoo, &order, &configurations).expect("a number");
    let mut before = 0;
    for percent in [5, 15, 30, 55, 100] {
        let budget = full.memory_bytes() * percent / 100;
        let found =
            exact(&zoo, &order, &configurations, budget, &default_budget()).expect("few variants");
        let greedy = round_robin(&zoo, &hotness, budget)
            .keeps(&zoo, &order, &configurations)
            .expect("a number");
        eprintln!(
            "{percent} % of memory: exact {} (at most {}), round-robin {greedy}, of {most}",
            found.keeps, found.at_most
        );
        assert_eq!(
            found.loaded.keeps(&zoo, &order, &configurations).expect("a number"),
            found.keeps
        );
        assert!(
            found.loaded.memory_bytes() <= budget && found.keeps >= greedy && found.keeps >= before
        );
        assert_eq!(found.at_most, found.keeps, "proven at {percent} %");
        before = found.keeps;
    }
    assert_eq!(before, most);
}

#[test]
fn with_enough_memory_every_task_is_as_fast_as_with_everything_loaded() {
    let mut rng = StdRng::seed_from_u64(45);
    let mut faster = 0;
    for round in 0..60 {
        let zoo = random_zoo(&mut rng, KINDS[round % 3], Size(2, 3, 3, 3));
        let order = Order::new(vec![0, 1, 2]);
        let configurations = random_configurations(&mut rng, &zoo, 1);
        let full = Loaded::everything(&zoo);
        let orders = [order.clone()];
        let rank = |loaded: &Loaded| {
            let usable = loaded.or_fetched(&zoo, &order);
            let optimiser = Optimiser::new(&zoo, &orders).expect("an order").among(&usable);
            let best = optimiser.best(&configurations).expect("a plan").remove(0);
            (best.violations, best.total_short_bp(), best.total_latency_ns)
        };
        for share in [2, 3, 4] {
            let budget = full.memory_bytes() * share / 4;
            let found = exact(&zoo, &order, &configurations, budget, &default_budget());
            let least = found.expect("few variants").loaded;
            let slos = &configurations[0];
            let loaded = with_faster(least.clone(), &zoo, &order, slos, budget).expect("few");
            assert!(loaded.memory_bytes() <= budget, "round {round}");
            for (t, j, i, _) in every_subgraph(&zoo) {
                assert!(loaded.holds(t, j, i) || !least.holds(t, j, i), "round {round}");
            }
            if share == 4 {
                assert_eq!(rank(&loaded), rank(&full), "round {round}");
                faster += u32::from(rank(&loaded) < rank(&least));
            }
        }
    }
    assert!(faster > 10, "{faster}");
}

#[test]
fn a_budget_that_ends_leaves_a_preloading_and_a_true_bound() {
    let (zoo, order, configurations) = the_papers_size(43);
    let full = Loaded::everything(&zoo).memory_bytes();
    let mut cut = 0;
    for percent in [5, 15, 30] {
        let memory = full * percent / 100;
        let within = |steps: u64| {
            let limits = vitempo_graph::Limits { steps, ..vitempo_graph::Limits::NONE };
            let budget = vitempo_graph::Budget::new(limits);
            exact(&zoo, &order, &configurations, memory, &budget).expect("few variants")
        };
        let best = within(u64::MAX);
        assert_eq!(best.keeps, best.at_most, "{percent} %");
        for steps in [1, 1 << 20] {
            let found = within(steps);
            assert_eq!(found, within(steps), "the same again");
            assert!(found.loaded.memory_bytes() <= memory && found.keeps <= best.keeps);
            assert!(found.at_most >= best.keeps, "{percent} %: {steps} steps");
            cut += u32::from(found.at_most > found.keeps);
        }
    }
    assert!(cut > 0, "no search was cut");
}
