//! Orders and variants against enumeration of all of them.

use super::{
    super::{menu::Menu, orders::each_once},
    *,
};
use std::cmp::Reverse;

fn value(stitched: &Stitched) -> (u64, Reverse<u32>) {
    (stitched.latency_ns, Reverse(stitched.accuracy_bp))
}

/// The variant of a task in an order, by the definition: the fastest that is accurate enough, or
/// else the most accurate.
fn by_definition(all: &[Stitched], slo: Slo) -> Option<&Stitched> {
    let accurate = all.iter().filter(|s| s.accuracy_bp >= slo.accuracy_bp).min_by_key(|s| value(s));
    accurate.or_else(|| all.iter().min_by_key(|s| (Reverse(s.accuracy_bp), s.latency_ns)))
}

#[test]
fn latency_is_the_sum_over_positions_and_links() {
    let mut rng = StdRng::seed_from_u64(21);
    let zoo = random_zoo(&mut rng, Kind::Additive, Size(1, 2, 3, 3));
    let ns = |position: usize, variant: usize, processor: usize| {
        zoo.tasks()[0].subgraphs[position][variant].latency_ns[processor]
    };
    let order = Order::new(vec![0, 0, 0]);
    let sum = [(0, 1), (1, 0), (2, 1)]
        .into_iter()
        .map(|(position, variant)| ns(position, variant, 0).expect("the first runs everything"))
        .sum();
    assert_eq!(
        zoo.latency_ns(0, &order, &[1, 0, 1]),
        Some(sum),
        "nothing is handed over on one processor"
    );
    let (link, bytes) =
        (Link { message_ns: 7, setup_ns: 3, ..Link::of_bandwidth(1_000_000_000) }, 5);
    let subgraph = |ns| Subgraph {
        latency_ns: vec![Some(Interval::exact(ns)), Some(Interval::exact(2 * ns))],
        memory_bytes: 0,
        boundary_bytes: bytes,
        boundary_tensors: 1,
        load_ns: Vec::new(),
    };
    let accuracy: Arc<dyn Accuracy> =
        Arc::new(Additive::new(9000, vec![vec![0], vec![0]]).expect("accuracies"));
    let task = Task {
        name: "t".into(),
        variants: vec!["v".into()],
        subgraphs: vec![vec![subgraph(10)], vec![subgraph(20)]],
        accuracy,
    };
    let linked =
        |links| Zoo::new(vec!["a".into(), "b".into()], links, vec![task.clone()]).expect("a zoo");
    let latency = |zoo: &Zoo, order: [usize; 2]| {
        zoo.latency_ns(0, &Order::new(order.to_vec()), &[0, 0]).map(|ns| ns.point())
    };
    assert_eq!(latency(&linked(BTreeMap::new()), [0, 1]), Some(50));
    let zoo = linked(BTreeMap::from([((0, 1), link)]));
    assert_eq!(
        (latency(&zoo, [0, 1]), latency(&zoo, [0, 0]), latency(&zoo, [1, 0])),
        (Some(50 + 7 + 3 + 5), Some(30), None)
    );
    let mut two = task.clone();
    two.subgraphs[0][0].boundary_tensors = 2;
    let links = BTreeMap::from([((0, 1), link)]);
    let zoo = Zoo::new(vec!["a".into(), "b".into()], links, vec![two]).expect("a zoo");
    assert_eq!(latency(&zoo, [0, 1]), Some(50 + 2 * 7 + 3 + 5));
}

#[test]
fn the_fastest_above_an_accuracy_equals_enumeration() {
    let mut rng = StdRng::seed_from_u64(22);
    for round in 0..900 {
        let kind = KINDS[round % 3];
        let size = Size(1, rng.random_range(1..6), rng.random_range(1..5), rng.random_range(1..4));
        let zoo = random_zoo(&mut rng, kind, size);
        let order = Order::new((0..zoo.positions()).map(|_| rng.random_range(0..size.3)).collect());
        let all = every_variant(&zoo, 0, &order);
        let menu = Menu::new(&zoo, 0, &order, None).expect("a menu");
        for _ in 0..6 {
            let bp = if rng.random_bool(0.1) { 0 } else { rng.random_range(8850..9005) };
            let found = menu.fastest(bp);
            let expected = all.iter().filter(|s| s.accuracy_bp >= bp).min_by_key(|s| value(s));
            assert_eq!(found.as_ref().map(value), expected.map(value), "round {round}, {kind:?}");
            assert!(found.is_none_or(|found| all.contains(&found)), "round {round}, {kind:?}");
        }
        let highest = all.iter().min_by_key(|s| (Reverse(s.accuracy_bp), s.latency_ns));
        assert_eq!(
            menu.most_accurate().as_ref().map(value),
            highest.map(value),
            "round {round}, {kind:?}"
        );
    }
}

#[test]
fn orders_and_variants_equal_enumeration() {
    let mut rng = StdRng::seed_from_u64(23);
    for round in 0..300 {
        let positions = rng.random_range(1..4);
        let size = Size(rng.random_range(1..4), rng.random_range(1..5), positions, 3);
        let zoo = random_zoo(&mut rng, KINDS[round % 3], size);
        let orders = each_once(3, positions).expect("orders");
        let configurations = random_configurations(&mut rng, &zoo, 3);
        let Ok(best) = Optimiser::new(&zoo, &orders).and_then(|o| o.best(&configurations)) else {
            continue;
        };
        for (found, slos) in best.iter().zip(&configurations) {
            let in_order = |order: &Order| {
                let all: Vec<Vec<Stitched>> =
                    (0..slos.len()).map(|task| every_variant(&zoo, task, order)).collect();
                let chosen: Vec<&Stitched> = all
                    .iter()
                    .zip(slos)
                    .map(|(all, slo)| by_definition(all, *slo))
                    .collect::<Option<_>>()?;
                let violated = all
                    .iter()
                    .zip(slos)
                    .filter(|(all, slo)| {
                        !all.iter().any(|s| slo.is_met_by(s.accuracy_bp, s.latency_ns))
                    })
                    .count();
                let short = chosen
                    .iter()
                    .zip(slos)
                    .map(|(s, slo)| u64::from(slo.accuracy_bp.saturating_sub(s.accuracy_bp)));
                let latency = chosen.iter().map(|s| s.latency_ns).sum::<u64>();
                Some((violated, short.sum::<u64>(), latency))
            };
            let expected = orders.iter().filter_map(in_order).min();
            let own = (found.violations, found.total_short_bp(), found.total_latency_ns);
            assert_eq!(Some(own), expected, "round {round}");
            assert_eq!(in_order(&found.order), expected, "round {round}");
            let violated = found.choices.iter().flatten().filter(|c| !c.meets_slo()).count();
            assert_eq!(
                (violated, found.choices.iter().flatten().count()),
                (found.violations, slos.len())
            );
            assert!(
                found
                    .choices
                    .iter()
                    .flatten()
                    .all(|c| c.latency_ns.point() == c.stitched.latency_ns)
            );
        }
    }
}

#[test]
fn algorithm_1_as_printed_equals_enumeration() {
    let mut rng = StdRng::seed_from_u64(24);
    let mut filtered = 0;
    for round in 0..1600 {
        let positions = rng.random_range(1..4);
        let size = Size(rng.random_range(1..4), rng.random_range(1..5), positions, 3);
        let zoo = random_zoo(&mut rng, KINDS[round % 3], size);
        let orders = each_once(3, positions).expect("orders");
        let optimiser = Optimiser::new(&zoo, &orders).expect("orders");
        let slos: Vec<Slo> = zoo.tasks().iter().map(|_| random_slo(&mut rng, positions)).collect();
        let each: Vec<Vec<Vec<Stitched>>> = orders
            .iter()
            .map(|order| (0..slos.len()).map(|task| every_variant(&zoo, task, order)).collect())
            .collect();
        let fast_somewhere = |task: usize, s: &Stitched| {
            each.iter().any(|of| {
                of[task]
                    .iter()
                    .any(|o| o.variants == s.variants && o.latency_ns <= slos[task].latency_ns)
            })
        };
        let theta = |order: usize, task: usize| -> Vec<&Stitched> {
            each[order][task]
                .iter()
                .filter(|s| s.accuracy_bp >= slos[task].accuracy_bp && fast_somewhere(task, s))
                .collect()
        };
        let nonempty: Vec<usize> = (0..slos.len())
            .filter(|&task| (0..orders.len()).any(|order| !theta(order, task).is_empty()))
            .collect();
        for reading in [Reading::Algorithm, Reading::Text] {
            let mean = |order: usize| -> Option<f64> {
                let of_task = |&task: &usize| {
                    let ns: Vec<f64> =
                        theta(order, task).iter().map(|s| s.latency_ns as f64).collect();
                    let least = ns.iter().copied().reduce(f64::min)?;
                    Some(if reading == Reading::Algorithm {
                        least
                    } else {
                        ns.iter().sum::<f64>() / ns.len() as f64
                    })
                };
                nonempty.iter().map(of_task).sum()
            };
            let expected = (0..orders.len())
                .filter_map(|order| Some((mean(order)?, order)))
                .min_by(|a, b| a.0.total_cmp(&b.0));
            let found = optimiser.as_printed(std::slice::from_ref(&slos), reading);
            let Some((least, order)) = expected else {
                assert!(found.is_err(), "round {round}");
                continue;
            };
            let found = found.expect("an order").remove(0);
            let chosen = orders.iter().position(|o| *o == found.order).expect("one of them");
            assert!(
                mean(chosen).is_some_and(|mean| (mean - least).abs() < 1e-9),
                "round {round}: {chosen} instead of {order}"
            );
            for (task, choice) in found.choices.iter().enumerate() {
                let fastest = theta(chosen, task).iter().map(|s| s.latency_ns).min();
                assert_eq!(
                    choice.as_ref().map(|c| c.stitched.latency_ns),
                    fastest,
                    "round {round}, task {task}"
                );
                filtered += usize::from(choice.as_ref().is_some_and(|c| c.late_ns > 0));
            }
            let kept = found.choices.iter().flatten().filter(|c| c.meets_slo()).count();
            assert_eq!(found.violations, slos.len() - kept);
            // The best plan never violates more, unless it has to exclude an order in which some
            // task cannot run.
            let all_run = each[chosen].iter().all(|all| !all.is_empty());
            let ours = optimiser.best(std::slice::from_ref(&slos));
            assert!(
                !all_run || ours.is_ok_and(|ours| ours[0].violations <= found.violations),
                "round {round}"
            );
        }
    }
    assert!(filtered > 20, "the filter by other orders was at work in {filtered} cases only");
}

#[test]
fn without_objectives_an_order_costs_the_sum_of_its_positions() {
    let mut rng = StdRng::seed_from_u64(25);
    for round in 0..200 {
        let zoo = random_zoo(&mut rng, KINDS[round % 3], Size(3, 4, 3, 3));
        let zoo = Zoo::new(zoo.processors().to_vec(), BTreeMap::new(), zoo.tasks().to_vec())
            .expect("a zoo without links");
        let orders = each_once(3, 3).expect("orders");
        let column = |position: usize, processor: usize| -> Option<u64> {
            let least = |task: &Task| {
                task.subgraphs[position]
                    .iter()
                    .filter_map(|s| s.latency_ns[processor])
                    .map(Interval::point)
                    .min()
            };
            zoo.tasks().iter().map(least).sum()
        };
        let sum = |order: &Order| {
            order
                .processors()
                .iter()
                .enumerate()
                .map(|(position, &p)| column(position, p))
                .sum::<Option<u64>>()
        };
        let any = vec![Slo { accuracy_bp: 0, latency_ns: u64::MAX }; 3];
        let found = Optimiser::new(&zoo, &orders)
            .and_then(|o| o.best(&[any]))
            .map(|a| a[0].total_latency_ns);
        assert_eq!(found.ok(), orders.iter().filter_map(sum).min(), "round {round}");
    }
}

#[test]
fn more_variants_never_miss_more_objectives() {
    let mut rng = StdRng::seed_from_u64(28);
    for round in 0..200 {
        let zoo = random_zoo(&mut rng, KINDS[round % 3], Size(3, 4, 3, 3));
        let orders = each_once(3, 3).expect("orders");
        let configurations = random_configurations(&mut rng, &zoo, 4);
        let mut loaded = preload::Loaded::nothing(&zoo);
        let mut before = usize::MAX;
        for variant in 0..4 {
            (0..9).for_each(|at| loaded.load(&zoo, at / 3, at % 3, variant));
            let Ok(found) =
                Optimiser::new(&zoo, &orders).and_then(|o| o.among(&loaded).best(&configurations))
            else {
                continue;
            };
            let violated = found.iter().map(|a| a.violations).sum();
            assert!(violated <= before, "{violated} after {before}");
            before = violated;
        }
        let all = Optimiser::new(&zoo, &orders).and_then(|o| o.best(&configurations));
        assert!(
            all.map_or(before == usize::MAX, |all| all.iter().map(|a| a.violations).sum::<usize>()
                == before),
            "round {round}"
        );
    }
}

#[test]
fn ten_to_the_sixteenth_variants_are_searched_exactly() {
    let mut rng = StdRng::seed_from_u64(26);
    let (variants, positions) = (100, 8);
    let rows: Vec<Vec<(u64, u32)>> = (0..positions)
        .map(|_| {
            let mut option = |_| {
                let ns = rng.random_range(1000..10_000u64);
                (ns, ((10_000 - ns) as f64 / 40.0 * rng.random_range(0.3..1.3)) as u32)
            };
            (0..variants).map(&mut option).collect()
        })
        .collect();
    let subgraph = |&(ns, _): &(u64, u32)| Subgraph {
        latency_ns: vec![Some(Interval::exact(ns)); positions],
        memory_bytes: 0,
        boundary_bytes: 0,
        boundary_tensors: 1,
        load_ns: Vec::new(),
    };
    let accuracy =
        Additive::new(10_000, rows.iter().map(|row| row.iter().map(|r| r.1).collect()).collect())
            .expect("accuracies");
    let task = Task {
        name: "t".into(),
        variants: (0..variants).map(|v| v.to_string()).collect(),
        subgraphs: rows.iter().map(|row| row.iter().map(subgraph).collect()).collect(),
        accuracy: Arc::new(accuracy.clone()),
    };
    let zoo =
        Zoo::new((0..positions).map(|p| p.to_string()).collect(), BTreeMap::new(), vec![task])
            .expect("a zoo");
    assert_eq!(zoo.stitched_variants(0), Some(10u128.pow(16)));
    // By hand: the least latency for each drop, one position after the other, nothing left out.
    let mut least = vec![u64::MAX; 10_001];
    least[0] = 0;
    for row in &rows {
        let mut next = vec![u64::MAX; least.len()];
        for (drop, &ns) in least.iter().enumerate().filter(|(_, ns)| **ns < u64::MAX) {
            for &(more, drops) in row {
                if let Some(slot) = next.get_mut(drop + drops as usize) {
                    *slot = (*slot).min(ns + more);
                }
            }
        }
        least = next;
    }
    let order = Order::new((0..positions).collect());
    let menu = Menu::new(&zoo, 0, &order, None).expect("a menu");
    for bp in [1, 5000, 8000, 8800, 9000, 9200, 9500] {
        let found = menu.fastest(bp);
        let expected =
            least[..=10_000 - bp as usize].iter().min().copied().filter(|&ns| ns < u64::MAX);
        assert_eq!(found.as_ref().map(|s| s.latency_ns), expected, "{bp}");
        if let Some(found) = found {
            assert_eq!(accuracy.of(&found.variants), found.accuracy_bp);
            assert_eq!(
                zoo.latency_ns(0, &order, &found.variants).map(Interval::point),
                Some(found.latency_ns)
            );
        }
    }
}

#[test]
fn originals_keep_their_accuracy_and_bad_input_is_named() {
    let accuracies = [9123, 8877, 9000];
    let shared = Additive::of_originals(&accuracies, 4).expect("accuracies");
    assert_eq!([0, 1, 2].map(|v| shared.of(&[v; 4])), accuracies);
    // A stitched variant has the mean of its parts' accuracies, rounded down: 8999.5 is not 9000.
    for stitched in (0..81).map(|code| [code / 27, code / 9 % 3, code / 3 % 3, code % 3]) {
        let sum: u32 = stitched.iter().map(|&variant| accuracies[variant]).sum();
        assert_eq!(shared.of(&stitched), sum / 4, "{stitched:?}");
    }
    let message = |error: Result<Table, StitchError>| {
        error.map_err(|e| e.to_string()).err().unwrap_or_default()
    };
    assert!(message(Table::new(2, 3, vec![0; 8])).contains("8 of them for 3^2"));
    assert!(message(Table::new(1, 1, vec![10_001])).contains("10001 basis points"));
    let mut rng = StdRng::seed_from_u64(27);
    let zoo = random_zoo(&mut rng, Kind::Additive, Size(2, 2, 3, 3));
    let orders = each_once(3, 3).expect("orders");
    let optimiser = Optimiser::new(&zoo, &orders).expect("orders");
    assert!(
        optimiser
            .best(&[vec![random_slo(&mut rng, 3)]])
            .is_err_and(|e| e.to_string().contains("1 objectives for 2 tasks"))
    );
    assert!(
        Optimiser::new(&zoo, &[Order::new(vec![0, 7, 1])]).is_err()
            && Optimiser::new(&zoo, &[]).is_err()
    );
    assert!(each_once(2, 3).is_err_and(|e| e.to_string().contains("3 positions on 2 processors")));
    assert_eq!(
        (each_once(4, 2).map(|o| o.len()).ok(), orders::any(3, 4).map(|o| o.len()).ok()),
        (Some(12), Some(81))
    );
    assert!(orders::any(10, 9).is_err());
    let mut task = zoo.tasks()[0].clone();
    task.subgraphs[1].pop();
    assert!(
        Zoo::new(zoo.processors().to_vec(), BTreeMap::new(), vec![task])
            .is_err_and(|e| e.to_string().contains("position 1"))
    );
}

#[test]
fn of_orders_with_equal_means_the_better_balanced_is_chosen() {
    let subgraph = |a: u64, b: u64| {
        vec![Subgraph {
            latency_ns: vec![Some(Interval::exact(a)), Some(Interval::exact(b))],
            memory_bytes: 0,
            boundary_bytes: 0,
            boundary_tensors: 1,
            load_ns: Vec::new(),
        }]
    };
    let accuracy: Arc<dyn Accuracy> =
        Arc::new(Additive::new(9000, vec![vec![0], vec![0]]).expect("accuracies"));
    // 20 ns either way: 18 and 2 on the processors in the first order, 10 and 10 in the second.
    let task = Task {
        name: "t".into(),
        variants: vec!["v".into()],
        subgraphs: vec![subgraph(18, 10), subgraph(10, 2)],
        accuracy,
    };
    let zoo = Zoo::new(vec!["a".into(), "b".into()], BTreeMap::new(), vec![task]).expect("a zoo");
    let orders = each_once(2, 2).expect("orders");
    let found = Optimiser::new(&zoo, &orders)
        .and_then(|o| o.best(&[vec![Slo { accuracy_bp: 0, latency_ns: 20 }]]))
        .expect("an order")
        .remove(0);
    assert_eq!(
        (zoo.named(&found.order), found.total_latency_ns, found.bottleneck_ns),
        ("b-a".to_owned(), 20, 10)
    );
}

#[test]
fn a_budget_limits_algorithm_1_and_searches_over_configurations() {
    let mut rng = StdRng::seed_from_u64(32);
    let orders = orders::any(3, 3).expect("orders");
    let (mut cut, mut fewer) = (0, 0);
    for round in 0..90 {
        let zoo = random_zoo(&mut rng, KINDS[round % 3], Size(3, 4, 3, 3));
        let slos: Vec<Slo> = (0..3).map(|_| random_slo(&mut rng, 3)).collect();
        let optimiser = Optimiser::new(&zoo, &orders).expect("orders");
        let budget = |steps: u64| {
            let limits = vitempo_graph::Limits { steps, ..vitempo_graph::Limits::NONE };
            vitempo_graph::Budget::new(limits)
        };
        let configurations = vec![slos.clone(); 2];
        if let Ok(best) = optimiser.best(&configurations) {
            for steps in [1, 1 << 13, u64::MAX] {
                let limited = optimiser.best_within(&configurations, Some(&budget(steps)));
                let (found, left) = limited.expect("a plan for each configuration");
                assert_eq!(found.len(), 2);
                assert!(found.iter().zip(&best).all(|(f, b)| f.rank() >= b.rank()));
                assert!(left > 0 || found == best, "round {round}");
                assert!(left < orders.len() || steps == 1);
                fewer += u32::from(left > 0);
            }
        }
        let printed = optimiser.as_printed(std::slice::from_ref(&slos), Reading::Algorithm);
        let Ok(printed) = printed else { continue };
        for steps in [1, 1 << 13, u64::MAX] {
            let found = optimiser.as_printed_within(&slos, &budget(steps)).expect("an order");
            assert!(found.plan.total_latency_ns >= found.latency_at_least_ns, "round {round}");
            if found.left == 0 {
                assert_eq!(found.plan, printed[0], "round {round}");
                continue;
            }
            cut += 1;
            // Tasks that have a variant in some order have one in all of them together.
            let both = found.plan.choices.iter().zip(&printed[0].choices);
            let same = both.filter(|(own, _)| own.is_some()).map(|(_, whole)| {
                whole.as_ref().map(|choice| choice.stitched.latency_ns).expect("a variant")
            });
            assert!(same.sum::<u64>() >= found.latency_at_least_ns, "round {round}");
        }
    }
    assert!(cut > 5 && fewer > 5, "{cut} and {fewer} searches were cut");
}

#[test]
fn a_budget_that_ends_leaves_a_plan_and_a_true_bound() {
    let mut rng = StdRng::seed_from_u64(31);
    let orders = orders::any(3, 3).expect("orders");
    let (mut cut, mut reached) = (0, 0);
    for round in 0..90 {
        let zoo = random_zoo(&mut rng, KINDS[round % 3], Size(3, 4, 3, 3));
        let slos: Vec<Slo> = (0..3).map(|_| random_slo(&mut rng, 3)).collect();
        let optimiser = Optimiser::new(&zoo, &orders).expect("orders");
        let Ok(best) = optimiser.best(std::slice::from_ref(&slos)) else { continue };
        let within = |steps: u64| {
            let limits = vitempo_graph::Limits { steps, ..vitempo_graph::Limits::NONE };
            optimiser.each_order(&slos, &vitempo_graph::Budget::new(limits)).expect("orders")
        };
        let whole = within(u64::MAX);
        assert_eq!(whole.best(), best.first(), "round {round}");
        assert_eq!((whole.left, whole.violations_at_least), (0, best[0].violations));
        for steps in [1, 1 << 13] {
            let found = within(steps);
            assert_eq!(found, within(steps), "round {round}: the same again");
            let plan = found.best().expect("a plan");
            assert!(plan.rank() >= best[0].rank(), "round {round}");
            assert!(found.violations_at_least <= best[0].violations, "round {round}");
            cut += u32::from(found.left > 0);
            reached += u32::from(found.left > 0 && found.violations_at_least > 0);
            if found.left == 0 {
                assert_eq!(found, whole, "round {round}");
            }
        }
    }
    assert!(cut > 20 && reached > 0, "{cut} searches were cut, {reached} with a bound above 0");
}
