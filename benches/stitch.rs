//! Times the choice, counting and preloading of stitched variants: `cargo bench --bench stitch`.
//! Times are medians; zoos are random. Where a zoo is small enough, enumeration computes the same.

mod timing;
mod zoos;

use rand::RngExt;
use std::{hint::black_box, sync::Arc};
use timing::median_us;
use vitempo::planners::stitch::{
    Additive, Monotone, Optimiser, Order, Reading, Slo, Zoo, default_budget, each_variant,
    hotness::{Lattice, counted, hotness},
    orders::each_once,
    preload::{Loaded, exact, round_robin},
    slo::{Ranges, shared},
};
use zoos::Sizes;

#[derive(Clone, Copy)]
enum Kind {
    /// Drops fall with latency, by a random factor: few subgraphs are worth while.
    Scattered,
    /// Every subgraph is worth while: the faster, the less accurate, without exception.
    OnACurve,
    /// Mean and minimum of the originals' accuracies: no sum.
    Monotone,
}

fn main() {
    println!(
        "Best order and variants of 4 tasks on 25 objectives (budgets: 1 ms for 10^3 variants and \
        all orders, 10 ms an order for 100^8)"
    );
    println!(
        "{:<34} {:>8} {:>12} {:>12} {:>9}",
        "variants", "orders", "exact", "enumeration", "ratio"
    );
    choosing("10^3, sums of drops", Kind::Scattered, 10, 3, 6);
    choosing("10^3, monotone", Kind::Monotone, 10, 3, 6);
    choosing("100^3, sums of drops", Kind::Scattered, 100, 3, 1);
    choosing("100^3, all on a curve", Kind::OnACurve, 100, 3, 1);
    choosing("100^8, sums of drops", Kind::Scattered, 100, 8, 1);
    choosing("100^8, all on a curve", Kind::OnACurve, 100, 8, 1);
    choosing("100^8, monotone", Kind::Monotone, 100, 8, 1);
    as_printed();
    println!("\nHotness of one task over 25 objectives");
    counting("10^3, enumerated", 10, 3);
    counting("100^8, counted on 256 x 256", 100, 8);
    println!("\nPreloading 4 tasks of 10^3 variants for 25 objectives");
    preloading();
}

fn zoo(kind: Kind, tasks: usize, variants: usize, positions: usize) -> (Zoo, Vec<Vec<Slo>>) {
    let sizes = Sizes { tasks, variants, positions, processors: positions };
    let zoo = zoos::random(sizes, 90..110, |rng, ns| match kind {
        Kind::Monotone => {
            let estimate = |x: &[u32]| {
                let mean = x.iter().sum::<u32>() / x.len() as u32;
                (mean + x.iter().min().copied().unwrap_or(0)) / 2
            };
            let originals = (0..variants).map(|_| rng.random_range(7000..9000)).collect();
            Arc::new(Monotone::new(originals, positions, Arc::new(estimate)).expect("accuracies"))
        }
        Kind::Scattered | Kind::OnACurve => {
            let factor = || match kind {
                Kind::OnACurve => 1.0,
                _ => rng.random_range(0.3..1.3),
            };
            let drops = zoos::drops(ns, 2000.0 / positions as f64, factor);
            Arc::new(Additive::new(9000, drops).expect("accuracies"))
        }
    });
    let fixed = Order::new((0..positions).collect());
    let grids: Vec<Vec<Slo>> = (0..zoo.tasks().len())
        .map(|task| Ranges::of_originals(&zoo, task, &fixed).expect("ranges").grid())
        .collect();
    let configurations = shared(&grids);
    (zoo, configurations)
}

fn choosing(name: &str, kind: Kind, variants: usize, positions: usize, orders: usize) {
    let (zoo, configurations) = zoo(kind, 4, variants, positions);
    let orders: Vec<Order> =
        each_once(positions, positions).expect("orders").into_iter().take(orders).collect();
    let optimiser = Optimiser::new(&zoo, &orders).expect("orders");
    let best = optimiser.best(&configurations).expect("an order");
    let exact = median_us(21, || drop(black_box(optimiser.best(&configurations))));
    let (mut enumeration, mut ratio) = ("-".to_owned(), String::new());
    if zoo.stitched_variants(0).is_some_and(|count| count <= 1_000_000) {
        let violations: usize = best.iter().map(|a| a.violations).sum();
        let us =
            median_us(3, || assert_eq!(enumerated(&zoo, &orders, &configurations), violations));
        (enumeration, ratio) = (format!("{us:.0} us"), format!("{:.0}", us / exact));
    }
    println!("{name:<34} {:>8} {exact:>9.0} us {enumeration:>12} {ratio:>9}", orders.len());
}

/// SLO violations in the best order of each configuration, by looking at every stitched variant
/// once in each order.
fn enumerated(zoo: &Zoo, orders: &[Order], configurations: &[Vec<Slo>]) -> usize {
    let violations = |order: &Order| {
        let mut fastest = vec![vec![u64::MAX; zoo.tasks().len()]; configurations.len()];
        for task in 0..zoo.tasks().len() {
            let visit = |_: &[usize], ns: u64, bp: u32| {
                for (of, _) in fastest
                    .iter_mut()
                    .zip(configurations)
                    .filter(|(_, slos)| bp >= slos[task].accuracy_bp)
                {
                    of[task] = of[task].min(ns);
                }
            };
            each_variant(zoo, task, order, visit).expect("few variants");
        }
        let misses = |(ns, slos): (Vec<u64>, &Vec<Slo>)| {
            ns.iter().zip(slos).filter(|(ns, slo)| **ns > slo.latency_ns).count()
        };
        fastest.into_iter().zip(configurations).map(misses).collect::<Vec<usize>>()
    };
    let each: Vec<Vec<usize>> = orders.iter().map(violations).collect();
    (0..configurations.len()).map(|c| each.iter().map(|order| order[c]).min().unwrap_or(0)).sum()
}

fn as_printed() {
    let (zoo, configurations) = zoo(Kind::Scattered, 4, 10, 3);
    let orders = each_once(3, 3).expect("orders");
    let optimiser = Optimiser::new(&zoo, &orders).expect("orders");
    let us = median_us(11, || {
        drop(black_box(optimiser.as_printed(&configurations, Reading::Algorithm)));
    });
    println!("{:<34} {:>8} {us:>9.0} us", "10^3, algorithm 1 as printed", orders.len());
}

fn counting(name: &str, variants: usize, positions: usize) {
    let (zoo, configurations) = zoo(Kind::Scattered, 1, variants, positions);
    let order = Order::new((0..positions).collect());
    let slos: Vec<Slo> = configurations.iter().map(|slos| slos[0]).collect();
    let us = median_us(3, || {
        drop(black_box(if positions > 3 {
            counted(&zoo, 0, &order, &slos, Lattice::default())
        } else {
            hotness(&zoo, 0, &order, &slos)
        }));
    });
    println!("{name:<34} {us:>9.0} us");
}

fn preloading() {
    let (zoo, configurations) = zoo(Kind::Scattered, 4, 10, 3);
    let order = Order::new(vec![0, 1, 2]);
    let own = |task: usize| configurations.iter().map(|slos| slos[task]).collect::<Vec<_>>();
    let hotness: Vec<_> =
        (0..4).map(|task| hotness(&zoo, task, &order, &own(task)).expect("few variants")).collect();
    let full = Loaded::everything(&zoo);
    let most = full.keeps(&zoo, &order, &configurations).expect("a number");
    println!(
        "{:<10} {:>12} {:>12} {:>12} {:>12}   of {most}",
        "memory", "round-robin", "exact", "at most", "time"
    );
    for percent in [5, 15, 30, 55] {
        let budget = full.memory_bytes() * percent / 100;
        let greedy = round_robin(&zoo, &hotness, budget)
            .keeps(&zoo, &order, &configurations)
            .expect("a number");
        let found =
            exact(&zoo, &order, &configurations, budget, &default_budget()).expect("few variants");
        let us = median_us(3, || {
            drop(black_box(exact(&zoo, &order, &configurations, budget, &default_budget())));
        });
        println!(
            "{:<10} {greedy:>12} {:>12} {:>12} {us:>9.0} us",
            format!("{percent} %"),
            found.keeps,
            found.at_most
        );
    }
}
