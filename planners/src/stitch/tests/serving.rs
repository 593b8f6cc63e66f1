//! Systems in the simulator, against cases computed by hand.

use super::{
    super::{
        preload::{Loaded, exact},
        systems::{Setting, System},
    },
    preloading::the_papers_size,
    *,
};

/// Two processors; each task has variants whose two subgraphs take the given ns on both, and the
/// given accuracies.
fn by_hand(tasks: &[(&[u64], &[u32])]) -> Zoo {
    let task = |(index, (ns, accuracies)): (usize, &(&[u64], &[u32]))| {
        let subgraph = |&ns: &u64| Subgraph {
            latency_ns: vec![Some(Interval::exact(ns)); 2],
            memory_bytes: 1,
            boundary_bytes: 0,
            boundary_tensors: 1,
            load_ns: vec![Some(27 * ns); 2],
        };
        let row: Vec<Subgraph> = ns.iter().map(subgraph).collect();
        let accuracy = Arc::new(Additive::of_originals(accuracies, 2).expect("accuracies"));
        Task {
            name: format!("task {index}"),
            variants: ns.iter().map(u64::to_string).collect(),
            subgraphs: vec![row.clone(), row],
            accuracy,
        }
    };
    Zoo::new(
        vec!["a".into(), "b".into()],
        BTreeMap::new(),
        tasks.iter().enumerate().map(task).collect(),
    )
    .expect("a zoo")
}

fn setting<'a>(zoo: &'a Zoo, orders: &'a [Order]) -> Setting<'a> {
    Setting { zoo, fixed: &orders[0], orders, loaded: None, budget: None }
}

#[test]
fn baselines_choose_as_their_names_say() {
    let zoo = by_hand(&[(&[10, 6, 2], &[9000, 8500, 8000])]);
    let orders = orders::each_once(2, 2).expect("orders");
    let slo = |accuracy_bp, latency_ns| vec![vec![Slo { accuracy_bp, latency_ns }]];
    let chosen = |index: usize, slos: &[Vec<Slo>]| {
        let system = System::BASELINES[index];
        let found =
            setting(&zoo, &orders).choose(system, slos).expect("variants").remove(0).remove(0);
        (system.to_string(), found.variants[0], found.order.is_some())
    };
    assert_eq!(chosen(0, &slo(0, 1)), ("SV-AO-P".to_owned(), 0, true));
    assert_eq!(chosen(1, &slo(0, 1)), ("SV-AO-NP".to_owned(), 0, false));
    assert_eq!(chosen(2, &slo(9000, 99)), ("SV-LO-P".to_owned(), 2, true));
    assert_eq!(chosen(4, &slo(8400, 15)), ("AV-P".to_owned(), 1, true));
    assert_eq!(chosen(4, &slo(8400, 100)).1, 1, "the fastest that keeps it");
    assert_eq!(
        chosen(5, &slo(9000, 3)),
        ("AV-NP".to_owned(), 2, false),
        "1/3 too slow and 11 % short is less bad than 3 times too slow"
    );
    let stitched = setting(&zoo, &orders)
        .choose(System::STITCHED, &slo(8750, 16))
        .expect("variants")
        .remove(0)
        .remove(0);
    assert_eq!(
        (stitched.accuracy_bp, System::STITCHED.to_string()),
        (8750, "stitched".to_owned()),
        "no original is this accurate in this time"
    );
}

#[test]
fn tasks_that_come_at_once_queue_up_and_missing_subgraphs_are_fetched() {
    let zoo = by_hand(&[(&[10], &[9000]), (&[10], &[9000])]);
    let orders = orders::each_once(2, 2).expect("orders");
    let slos = vec![vec![Slo { accuracy_bp: 9000, latency_ns: 20 }; 2]];
    let rate = |system, spacing, setting: Setting<'_>| {
        setting.violations(system, &slos, spacing).expect("a rate")
    };
    let all = setting(&zoo, &orders);
    let apart = rate(System::STITCHED, 1000, all);
    assert_eq!(
        (apart.violated, apart.of),
        (0, 4),
        "each has the chip to itself, in both orders of arrival"
    );
    assert_eq!(
        rate(System::STITCHED, 0, all).violated,
        2,
        "the second waits 10 ns for the first processor"
    );
    assert_eq!(
        rate(System::BASELINES[1], 0, all).violated,
        0,
        "whole variants take a processor each"
    );
    let mut loaded = Loaded::nothing(&zoo);
    (0..2).for_each(|task| loaded.load(&zoo, task, 0, 0));
    let fetched =
        rate(System::STITCHED, 1000, Setting { loaded: Some((&orders[0], &loaded)), ..all });
    assert_eq!(fetched.violated, 4, "the second position has to be compiled and loaded");
    let everything = Loaded::everything(&zoo);
    assert_eq!(
        rate(System::STITCHED, 1000, Setting { loaded: Some((&orders[0], &everything)), ..all }),
        apart
    );
}

#[test]
fn each_subgraph_has_its_hand_over_in_all_systems() {
    let zoo = by_hand(&[(&[10], &[9000])]);
    let measured = HandOver::Measured([4, 1].map(Interval::exact).to_vec());
    let zoo = zoo.with_hand_over(measured).expect("one for each processor");
    let latency = |zoo: &Zoo, order: [usize; 2]| {
        zoo.latency_ns(0, &Order::new(order.to_vec()), &[0, 0]).map(|ns| ns.point())
    };
    assert_eq!([[0, 0], [0, 1], [1, 1]].map(|o| latency(&zoo, o)), [Some(28), Some(25), Some(22)]);
    let orders = orders::each_once(2, 2).expect("orders");
    let met = |system, latency_ns| {
        let slos = vec![vec![Slo { accuracy_bp: 9000, latency_ns }]];
        let found = setting(&zoo, &orders).violations(system, &slos, 0).expect("a rate");
        found.violated == 0
    };
    let [cut, whole] = [System::BASELINES[0], System::BASELINES[1]];
    for system in [cut, System::STITCHED] {
        assert!(met(system, 25) && !met(system, 24), "{system}");
    }
    assert!(met(whole, 22) && !met(whole, 21), "whole on the faster");
    let given = zoo.clone().with_given_hand_over(Some(2));
    assert_eq!(latency(&given, [0, 1]), Some(24), "instead of the measured one");
    assert_eq!(zoo.clone().with_given_hand_over(None).hand_over(), zoo.hand_over());
    let one = HandOver::Measured(vec![Interval::exact(4)]);
    let refused = zoo.with_hand_over(one).map_or_else(|e| e.to_string(), |_| String::new());
    assert!(refused.contains("measured on 1 processors, there are 2"), "{refused}");
}

#[test]
fn throughput_is_bounded_by_the_busiest_processor() {
    let zoo = by_hand(&[(&[1_000_000], &[9000])]);
    let orders = orders::each_once(2, 2).expect("orders");
    let slos = [Slo { accuracy_bp: 0, latency_ns: u64::MAX }];
    let rate = |system, queries| {
        setting(&zoo, &orders).throughput(system, &slos, queries).expect("a rate")
    };
    assert!(
        (rate(System::STITCHED, 100) - 100.0 / 0.101).abs() < 1e-6,
        "100 ms on the busier processor, and 1 ms until it starts"
    );
    assert!(
        (rate(System::BASELINES[1], 100) - 100.0 / 0.1).abs() < 1e-6,
        "50 whole variants of 2 ms on each processor"
    );
    assert_eq!(rate(System::STITCHED, 0), 0.0);
}

#[test]
fn stitching_misses_less_than_every_baseline_at_the_papers_size() {
    let (zoo, order, configurations) = the_papers_size(44);
    let orders = orders::each_once(3, 3).expect("orders");
    let all = Setting { zoo: &zoo, fixed: &order, orders: &orders, loaded: None, budget: None };
    let alone = 1_000_000_000;
    let rate = |system, setting: Setting<'_>| {
        setting.violations(system, &configurations, alone).expect("a rate")
    };
    let stitched = rate(System::STITCHED, all);
    assert_eq!(stitched.of, 25 * 24 * 4);
    let planned =
        Optimiser::new(&zoo, &orders).and_then(|o| o.best(&configurations)).expect("an order");
    assert_eq!(
        stitched.violated,
        24 * planned.iter().map(|a| a.violations).sum::<usize>(),
        "alone on the chip, the simulator agrees with eq. 5"
    );
    for system in System::BASELINES {
        let baseline = rate(system, all);
        eprintln!(
            "{system:<10} misses {:5.1} % ({:5.1} % when all come at once)",
            100.0 * baseline.rate(),
            { 100.0 * all.violations(system, &configurations, 0).expect("a rate").rate() }
        );
        // Cut in the same fixed order, stitching has every original to choose from.
        assert!(!system.cut || baseline.violated >= stitched.violated, "{system}");
    }
    let at_once = all.violations(System::STITCHED, &configurations, 0).expect("a rate");
    eprintln!(
        "{:<10} misses {:5.1} % ({:5.1} % when all come at once)",
        "stitched",
        100.0 * stitched.rate(),
        100.0 * at_once.rate()
    );
    assert!(at_once.violated >= stitched.violated);
    // Less memory can only violate more: a negative control of preloading.
    let budget = Loaded::everything(&zoo).memory_bytes() * 15 / 100;
    let preloaded = exact(&zoo, &order, &configurations, budget, &default_budget())
        .expect("few variants")
        .loaded;
    let [some, none] = [&preloaded, &Loaded::nothing(&zoo)].map(|loaded| {
        rate(System::STITCHED, Setting { loaded: Some((&order, loaded)), ..all }).violated
    });
    assert!(
        stitched.violated <= some && some <= none && none > stitched.violated,
        "{} {some} {none}",
        stitched.violated
    );
    let any = vec![Slo { accuracy_bp: 0, latency_ns: u64::MAX }; 4];
    for system in System::BASELINES.into_iter().chain([System::STITCHED]) {
        let throughput = all.throughput(system, &any, 100).expect("a rate");
        eprintln!("{system:<10} {throughput:6.0} queries/s");
        assert!(throughput > 0.0);
    }
}
