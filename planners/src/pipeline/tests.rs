//! Pipelines against enumeration of every cut and order, on random models.

use super::*;
use crate::cost::{Link, ProcessorCosts, TensorCosts};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::collections::BTreeMap;

fn random_costs(rng: &mut StdRng, nodes: usize, processors: usize) -> Costs {
    let mut specs: Vec<ProcessorCosts> =
        (0..processors).map(|p| ProcessorCosts::named(format!("p{p}"))).collect();
    specs[0].memory_bytes = rng.random_bool(0.3).then_some(40);
    let mut links = BTreeMap::new();
    for from in 0..processors {
        for to in (0..processors).filter(|&to| to != from) {
            if rng.random_bool(0.9) {
                let bandwidth = Interval::within(rng.random_range(500_000_000..4_000_000_000), 0.1);
                links.insert(
                    (from, to),
                    Link {
                        bandwidth_bytes_per_s: bandwidth,
                        message_ns: rng.random_range(0..20),
                        setup_ns: rng.random_range(0..20),
                        ..Link::of_bandwidth(1)
                    },
                );
            }
        }
    }
    let node = |i: usize, rng: &mut StdRng| NodeCosts {
        name: format!("n{i}"),
        latency_ns: (0..processors)
            .map(|p| {
                (p == 0 || rng.random_bool(0.9))
                    .then(|| Interval::within(rng.random_range(10..500), 0.2))
            })
            .collect(),
        energy_nj: vec![None; processors],
        memory_bytes: rng.random_range(0..15),
    };
    let node_costs = (0..nodes).map(|i| node(i, rng)).collect();
    let mut tensors: Vec<TensorCosts> = (0..=nodes)
        .map(|i| TensorCosts {
            name: format!("t{i}"),
            size_bytes: rng.random_range(1..400),
            producer: i.checked_sub(1),
            consumers: vec![],
            output: i == nodes,
            confined: false,
        })
        .collect();
    for i in 0..nodes {
        tensors[i].consumers.push(i);
        if rng.random_bool(0.3) {
            let parent = rng.random_range(0..=i);
            if !tensors[parent].consumers.contains(&i) {
                tensors[parent].consumers.push(i);
            }
        }
    }
    tensors.iter_mut().for_each(|t| t.confined = rng.random_bool(0.05));
    let together = if nodes > 3 && rng.random_bool(0.3) { vec![vec![1, 3]] } else { vec![] };
    Costs::new("random", specs, links, node_costs, tensors, together).expect("costs that fit")
}

#[test]
fn latencies_that_cannot_be_added_up_are_refused() {
    let with = |ns: u64| {
        let node = |name: &str| NodeCosts {
            name: name.to_owned(),
            latency_ns: vec![Some(Interval::exact(ns))],
            energy_nj: vec![None],
            memory_bytes: 0,
        };
        let nodes = vec![node("a"), node("b")];
        let processors = vec![ProcessorCosts::named("p")];
        Costs::new("m", processors, BTreeMap::new(), nodes, vec![], vec![]).expect("costs")
    };
    assert!(Pipeline::new(&with((1 << 61) - 1), 0).is_ok());
    let refused = Pipeline::new(&with(1 << 61), 0).err();
    assert!(matches!(refused, Some(PipelineError::TooLarge { sum }) if sum == 1 << 62));
}

/// The cost of a pipeline by definition: period and latency; `None` when it cannot run.
fn by_definition(costs: &Costs, cuts: &[Cut]) -> Option<(u64, u64)> {
    let (mut period, mut latency, mut from) = (0, 0, 0);
    for cut in cuts {
        let mut stage = 0;
        let mut memory = 0;
        for node in &costs.nodes()[cut.from..cut.to] {
            stage += node.latency_ns[cut.processor]?.point();
            memory += node.memory_bytes;
        }
        let inside = |n: usize| (cut.from..cut.to).contains(&n);
        let touches = |t: &TensorCosts| t.consumers.iter().chain(&t.producer).any(|&n| inside(n));
        if cut.processor != 0 && costs.tensors().iter().any(|t| t.confined && touches(t)) {
            return None;
        }
        let split_group = costs
            .together()
            .iter()
            .any(|g| g.iter().any(|&n| inside(n)) && !g.iter().all(|&n| inside(n)));
        if split_group
            || costs.processors()[cut.processor].memory_bytes.is_some_and(|room| memory > room)
        {
            return None;
        }
        if from != cut.processor {
            let link = costs.link(from, cut.processor)?;
            let live: Vec<_> = costs
                .tensors()
                .iter()
                .filter(|t| {
                    t.producer.is_none_or(|p| p < cut.from)
                        && t.consumers.iter().any(|&c| c >= cut.from)
                })
                .collect();
            if live.iter().any(|t| t.confined) {
                return None;
            }
            stage += live
                .iter()
                .map(|t| link.transfer_ns(t.size_bytes).expect("a transfer").point())
                .sum::<u64>();
            stage += if live.is_empty() { 0 } else { link.setup_ns };
        }
        period = period.max(stage);
        latency += stage;
        from = cut.processor;
    }
    Some((period, latency))
}

fn every_pipeline(costs: &Costs) -> Vec<Vec<Cut>> {
    fn extend(costs: &Costs, cuts: &mut Vec<Cut>, all: &mut Vec<Vec<Cut>>) {
        let from = cuts.last().map_or(0, |c| c.to);
        if from == costs.nodes().len() {
            all.push(cuts.clone());
            return;
        }
        for processor in 0..costs.processors().len() {
            if cuts.iter().any(|c| c.processor == processor) {
                continue;
            }
            for to in from + 1..=costs.nodes().len() {
                cuts.push(Cut { processor, from, to });
                extend(costs, cuts, all);
                cuts.pop();
            }
        }
    }
    let mut all = Vec::new();
    extend(costs, &mut Vec::new(), &mut all);
    all
}

#[test]
fn pipelines_equal_enumeration() {
    let mut rng = StdRng::seed_from_u64(11);
    for round in 0..1500 {
        let (nodes, processors) = (rng.random_range(1..8), rng.random_range(1..4));
        let costs = random_costs(&mut rng, nodes, processors);
        let pipeline = Pipeline::new(&costs, 0).expect("a problem");
        let every: Vec<(u64, u64)> =
            every_pipeline(&costs).iter().filter_map(|cuts| by_definition(&costs, cuts)).collect();
        let check = |objective: PipelineObjective, expected: Option<(u64, u64)>| match (
            pipeline.best(objective),
            expected,
        ) {
            (Ok(found), Some(expected)) => {
                assert_eq!(
                    by_definition(&costs, &found.cuts),
                    Some(expected),
                    "round {round}, {objective:?}"
                );
                let predicted = (
                    found.plan.predicted.period_ns.expect("a period").point(),
                    found.plan.predicted.latency_ns.point(),
                );
                assert_eq!((predicted, found.plan.optimal.gap), (expected, 0.0), "round {round}");
            }
            (Err(_), None) => {}
            (found, expected) => {
                panic!("round {round}, {objective:?}: {found:?} instead of {expected:?}")
            }
        };
        check(PipelineObjective::Throughput { latency_at_most: None }, every.iter().copied().min());
        check(
            PipelineObjective::Latency { period_at_most: None },
            every.iter().copied().min_by_key(|(p, l)| (*l, *p)),
        );
        let bound = rng.random_range(50..3000);
        check(
            PipelineObjective::Throughput { latency_at_most: Some(bound) },
            every.iter().copied().filter(|(_, l)| *l <= bound).min(),
        );
        check(
            PipelineObjective::Latency { period_at_most: Some(bound) },
            every.iter().copied().filter(|(p, _)| *p <= bound).min_by_key(|(p, l)| (*l, *p)),
        );
        let mut front: Vec<(u64, u64)> = every
            .iter()
            .copied()
            .filter(|a| !every.iter().any(|b| b != a && b.0 <= a.0 && b.1 <= a.1))
            .collect();
        front.sort_unstable();
        front.dedup();
        let list = pipeline.pareto().map(|front| {
            assert!(front.is_complete);
            front.plans
        });
        assert_eq!(
            list.unwrap_or_default()
                .iter()
                .filter_map(|p| by_definition(&costs, &p.cuts))
                .collect::<Vec<_>>(),
            front,
            "round {round}"
        );
    }
}

#[test]
fn a_front_within_bounds_is_that_part_of_the_front() {
    let mut rng = StdRng::seed_from_u64(17);
    let mut parts = 0;
    for _ in 0..40 {
        let costs = random_costs(&mut rng, 6, 3);
        let Ok(front) = Pipeline::new(&costs, 0).expect("a problem").pareto() else { continue };
        let value = |plan: &PipelinePlan| {
            let predicted = &plan.plan.predicted;
            (predicted.period_ns.expect("a period").point(), predicted.latency_ns.point())
        };
        let (period, latency) = value(&front.plans[front.plans.len() / 2]);
        let within = front.clone().within(Some(period), Some(latency)).expect("this one");
        assert_eq!(within.plans.iter().map(value).collect::<Vec<_>>(), [(period, latency)]);
        let fast = front.clone().within(None, Some(latency)).expect("this one");
        assert!(fast.plans.iter().all(|plan| value(plan).1 <= latency));
        parts += u32::from(fast.plans.len() < front.plans.len());
        let refused = front.within(Some(0), Some(1)).map_err(|e| e.to_string());
        assert!(refused.is_err_and(|e| e.contains("period") && e.contains("latency")));
    }
    assert!(parts > 5, "{parts}");
}

#[test]
fn plans_are_no_worse_than_naive_cuts_and_mostly_better() {
    let mut rng = StdRng::seed_from_u64(12);
    let mut better = 0;
    let rounds = 300;
    for _ in 0..rounds {
        let costs = random_costs(&mut rng, 12, 3);
        let pipeline = Pipeline::new(&costs, 0).expect("a problem");
        let objective = PipelineObjective::Throughput { latency_at_most: None };
        let Ok(best) = pipeline.best(objective) else { continue };
        let period = |plan: &PipelinePlan| plan.plan.predicted.period_ns.expect("a period").point();
        for cuts in [naive::equal_counts(12, &[0, 1, 2]), naive::whole(12, 0)] {
            let Some(naive) = pipeline.plan_of(&cuts, objective) else { continue };
            assert!(period(&best) <= period(&naive));
            better += u32::from(period(&best) < period(&naive) && naive.plan.optimal.gap > 0.0);
        }
    }
    assert!(better > rounds / 2, "better in {better} of {rounds}");
}

/// These costs with another bandwidth of each link.
fn with_bandwidths(costs: &Costs, of: &dyn Fn((usize, usize), Interval) -> Interval) -> Costs {
    let processors = 0..costs.processors().len();
    let pairs = processors.clone().flat_map(|a| processors.clone().map(move |b| (a, b)));
    let links = pairs.filter_map(|pair| {
        let link = *costs.link(pair.0, pair.1)?;
        let bandwidth_bytes_per_s = of(pair, link.bandwidth_bytes_per_s);
        Some((pair, Link { bandwidth_bytes_per_s, ..link }))
    });
    Costs::new(
        costs.model(),
        costs.processors().to_vec(),
        links.collect(),
        costs.nodes().to_vec(),
        costs.tensors().to_vec(),
        costs.together().to_vec(),
    )
    .expect("costs that fit")
}

/// These costs with the time of each node at an end that a bit of the corner chooses.
fn at_corner(costs: &Costs, corner: u32) -> Costs {
    let processors = costs.processors().len();
    let end = |bit: usize| if corner >> bit & 1 == 1 { End::Upper } else { End::Lower };
    let nodes = costs.nodes().iter().enumerate().map(|(n, node)| {
        let exactly = |(p, time): (usize, &Option<Interval>)| {
            time.map(|time| Interval::exact(time.at(end(n * processors + p))))
        };
        NodeCosts {
            latency_ns: node.latency_ns.iter().enumerate().map(exactly).collect(),
            ..node.clone()
        }
    });
    let links = (0..processors).flat_map(|a| (0..processors).map(move |b| (a, b)));
    let links = links.filter_map(|pair| Some((pair, *costs.link(pair.0, pair.1)?)));
    Costs::new(
        costs.model(),
        costs.processors().to_vec(),
        links.collect(),
        nodes.collect(),
        costs.tensors().to_vec(),
        costs.together().to_vec(),
    )
    .expect("costs that fit")
}

/// Two processors and three nodes that take some microseconds, with links whose bandwidth varies by
/// a share.
fn small_costs(rng: &mut StdRng, share: f64) -> Costs {
    let costs = random_costs(rng, 3, 2);
    let pairs = [(0, 1), (1, 0)];
    let links = pairs.iter().filter_map(|&pair| {
        let link = *costs.link(pair.0, pair.1)?;
        let rate = link.bandwidth_bytes_per_s.point() / 1000;
        let (message_ns, setup_ns) = (1000 * link.message_ns, 1000 * link.setup_ns);
        let bandwidth_bytes_per_s = Interval::within(rate, share);
        Some((pair, Link { bandwidth_bytes_per_s, message_ns, setup_ns, ..link }))
    });
    let slower = |time: &Option<Interval>| time.map(|time| time.times(1000.0));
    let node = |node: &NodeCosts| NodeCosts {
        latency_ns: node.latency_ns.iter().map(slower).collect(),
        ..node.clone()
    };
    Costs::new(
        costs.model(),
        costs.processors().to_vec(),
        links.collect(),
        costs.nodes().iter().map(node).collect(),
        costs.tensors().to_vec(),
        costs.together().to_vec(),
    )
    .expect("costs that fit")
}

/// The largest (cost of this pipeline - least cost of those allowed) over all corners and all pairs
/// of these bandwidths, each as a share of the way from the lower to the upper end. And the largest
/// share of its cost.
fn worst_of(
    costs: &Costs,
    cuts: &[Cut],
    allowed: &[Vec<Cut>],
    shares: &[f64],
    of: &dyn Fn((u64, u64)) -> u64,
) -> (u64, f64) {
    let (mut worst, mut largest) = (0, 0.0f64);
    for corner in 0..1u32 << (2 * costs.nodes().len()) {
        let corner = at_corner(costs, corner);
        for (there, back) in shares.iter().flat_map(|a| shares.iter().map(move |b| (a, b))) {
            let scenario = with_bandwidths(&corner, &|pair, rate| {
                let share = if pair == (0, 1) { there } else { back };
                let (low, high) = (rate.at(End::Lower), rate.at(End::Upper));
                Interval::exact(low + ((high - low) as f64 * share) as u64)
            });
            let cost = |cuts: &[Cut]| by_definition(&scenario, cuts).map(of);
            let best = allowed.iter().filter_map(|cuts| cost(cuts)).min();
            let paid = cost(cuts).expect("it runs");
            let saved = paid.saturating_sub(best.unwrap_or(paid));
            worst = worst.max(saved);
            largest = largest.max(saved as f64 / paid.max(1) as f64);
        }
    }
    (worst, largest)
}

/// One ns for each tensor that a stage receives, of both pipelines.
const ROUNDING: u64 = 8;

#[test]
fn the_regret_of_a_period_is_the_worst_of_all_corners() {
    let mut rng = StdRng::seed_from_u64(13);
    let (mut above_zero, mut bounds) = (0, 0);
    for round in 0..60 {
        let costs = small_costs(&mut rng, 0.0);
        let pipeline = Pipeline::new(&costs, 0).expect("a problem");
        let every = every_pipeline(&costs);
        let bound = rng.random_bool(0.5).then(|| 1000 * rng.random_range(200..1500));
        let objective = PipelineObjective::Throughput { latency_at_most: bound };
        let Ok(found) = pipeline.best(objective) else { continue };
        let within = |cuts: &&Vec<Cut>| {
            by_definition(&costs, cuts).is_some_and(|(_, l)| bound.is_none_or(|b| l <= b))
        };
        let allowed: Vec<Vec<Cut>> = every.iter().filter(within).cloned().collect();
        let (worst, share) = worst_of(&costs, &found.cuts, &allowed, &[0.0], &|(period, _)| period);
        let regret = found.plan.regret.expect("a regret");
        assert_eq!(regret.worst, worst, "round {round}");
        assert!(regret.share > share - 1e-6, "round {round}: {regret:?}, {share}");
        if regret.is_bound {
            bounds += 1;
        } else {
            above_zero += u32::from(worst > 0);
        }
    }
    assert!(above_zero > 10 && bounds < above_zero / 2, "{above_zero}, {bounds} bounds");
}

#[test]
fn the_regret_of_a_latency_is_the_worst_of_all_corners_and_bandwidths() {
    let mut rng = StdRng::seed_from_u64(15);
    let mut above_zero = 0;
    for round in 0..40 {
        let costs = small_costs(&mut rng, 0.5);
        let pipeline = Pipeline::new(&costs, 0).expect("a problem");
        let bound = rng.random_bool(0.5).then(|| 1000 * rng.random_range(100..1000));
        let objective = PipelineObjective::Latency { period_at_most: bound };
        let Ok(found) = pipeline.best(objective) else { continue };
        let within = |cuts: &&Vec<Cut>| {
            by_definition(&costs, cuts).is_some_and(|(p, _)| bound.is_none_or(|b| p <= b))
        };
        let every = every_pipeline(&costs);
        let allowed: Vec<Vec<Cut>> = every.iter().filter(within).cloned().collect();
        let shares = [0.0, 0.3, 0.6, 1.0];
        let (worst, share) =
            worst_of(&costs, &found.cuts, &allowed, &shares, &|(_, latency)| latency);
        let regret = found.plan.regret.expect("a regret");
        assert!(!regret.is_bound && regret.worst.abs_diff(worst) <= ROUNDING, "round {round}");
        assert!((regret.share - share).abs() < 0.03, "round {round}: {regret:?}, {share}");
        above_zero += u32::from(worst > 0);
    }
    assert!(above_zero > 10, "{above_zero}");
}

#[test]
fn the_regret_of_a_period_is_the_worst_of_all_corners_and_bandwidths() {
    let mut rng = StdRng::seed_from_u64(16);
    let (mut exact, mut bounds) = (0, 0);
    let steps = 20;
    let shares: Vec<f64> = (0..=steps).map(|step| f64::from(step) / f64::from(steps)).collect();
    for round in 0..24 {
        let costs = small_costs(&mut rng, 0.6);
        let pipeline = Pipeline::new(&costs, 0).expect("a problem");
        let bound = rng.random_bool(0.3).then(|| 1000 * rng.random_range(300..1500));
        let objective = PipelineObjective::Throughput { latency_at_most: bound };
        let Ok(found) = pipeline.best(objective) else { continue };
        let within = |cuts: &&Vec<Cut>| {
            by_definition(&costs, cuts).is_some_and(|(_, l)| bound.is_none_or(|b| l <= b))
        };
        let every = every_pipeline(&costs);
        let allowed: Vec<Vec<Cut>> = every.iter().filter(within).cloned().collect();
        let (worst, share) =
            worst_of(&costs, &found.cuts, &allowed, &shares, &|(period, _)| period);
        let regret = found.plan.regret.expect("a regret");
        assert!(regret.worst + ROUNDING >= worst, "round {round}: {regret:?}, {worst}");
        assert!(regret.share > share - 0.03, "round {round}: {regret:?}, {share}");
        if regret.is_bound {
            bounds += 1;
            continue;
        }
        // Between two of the bandwidths, a transfer changes by at most a part of itself.
        assert!(regret.worst <= worst + worst / 8 + 40_000, "round {round}: {regret:?}, {worst}");
        exact += u32::from(worst > 0);
    }
    assert!(exact > 6, "{exact} exact, {bounds} bounds");
}

/// Stages `x` and `y` on `a`, `z` on `b`; or `x`, `y`, `z` on `a`, `b`, `c`. Over the link from `a`
/// to `b` the second sends twice as much.
fn three_in_a_row() -> Costs {
    let node = |name: &str, ns: [Option<Interval>; 3]| NodeCosts {
        name: name.to_owned(),
        latency_ns: ns.to_vec(),
        energy_nj: vec![None; 3],
        memory_bytes: 0,
    };
    let exact = |ns| Some(Interval::exact(ns));
    let nodes = vec![
        node("x", [exact(100_000), None, None]),
        node("y", [exact(50_000), exact(20_000), None]),
        node("z", [exact(1_000_000), Interval::new(100_000, 50_000, 300_000), exact(140_000)]),
    ];
    let tensor = |name: &str, size_bytes, node: usize| TensorCosts {
        name: name.to_owned(),
        size_bytes,
        producer: node.checked_sub(1),
        consumers: vec![node],
        output: false,
        confined: false,
    };
    let tensors = vec![tensor("in", 1, 0), tensor("xy", 60_000, 1), tensor("yz", 30_000, 2)];
    let rate = Interval::new(500_000_000, 100_000_000, 1_000_000_000).expect("an interval");
    let uncertain = Link { bandwidth_bytes_per_s: rate, ..Link::of_bandwidth(1) };
    let links = BTreeMap::from([((0, 1), uncertain), ((1, 2), Link::of_bandwidth(500_000_000))]);
    let processors = ["a", "b", "c"].map(ProcessorCosts::named).to_vec();
    Costs::new("row", processors, links, nodes, tensors, vec![]).expect("costs that fit")
}

#[test]
fn the_worst_bandwidth_of_a_period_may_be_inside_the_interval() {
    let costs = three_in_a_row();
    let pipeline = Pipeline::new(&costs, 0).expect("a problem");
    let objective = PipelineObjective::Throughput { latency_at_most: None };
    let found = pipeline.best(objective).expect("a pipeline");
    assert_eq!(
        found.cuts.iter().map(|c| (c.processor, c.to)).collect::<Vec<_>>(),
        [(0, 2), (1, 3)]
    );
    // The other takes 200 us (z on c with its transfer) until 20 us and 60 kB over the link take as
    // long: at 3 ns per byte, where this one takes 300 + 90 us.
    let regret = found.plan.regret.expect("a regret");
    assert!(regret.worst.abs_diff(190_000) <= ROUNDING && !regret.is_bound, "{regret:?}");
    assert!((regret.share - 190.0 / 390.0).abs() < 1e-3);
    // At the ends of the interval it is 130 us and 0.
    let at = |rate: u64| {
        let scenario = with_bandwidths(&at_corner(&costs, 1 << 7), &|pair, old| {
            if pair == (0, 1) { Interval::exact(rate) } else { old }
        });
        let period = |cuts: &[Cut]| by_definition(&scenario, cuts).map(|(period, _)| period);
        let every = every_pipeline(&costs);
        let best = every.iter().filter_map(|cuts| period(cuts)).min().expect("a pipeline");
        period(&found.cuts).expect("it runs") - best
    };
    assert_eq!((at(1_000_000_000), at(100_000_000)), (130_000, 0));
    assert!(at(333_333_333).abs_diff(190_000) <= ROUNDING);
}

/// Nodes in a row that run on every processor, with links between all.
fn long_row(rng: &mut StdRng, nodes: usize, processors: usize) -> Costs {
    let node = |i: usize, rng: &mut StdRng| NodeCosts {
        name: format!("n{i}"),
        latency_ns: (0..processors)
            .map(|_| Some(Interval::exact(rng.random_range(1000..5000))))
            .collect(),
        energy_nj: vec![None; processors],
        memory_bytes: 0,
    };
    let node_costs = (0..nodes).map(|i| node(i, rng)).collect();
    let tensor = |i: usize, rng: &mut StdRng| TensorCosts {
        name: format!("t{i}"),
        size_bytes: rng.random_range(1..1000),
        producer: i.checked_sub(1),
        consumers: vec![i],
        output: false,
        confined: false,
    };
    let tensors = (0..nodes).map(|i| tensor(i, rng)).collect();
    let pairs = (0..processors).flat_map(|a| (0..processors).map(move |b| (a, b)));
    let links = pairs.filter(|(a, b)| a != b);
    let links = links.map(|pair| (pair, Link::of_bandwidth(1_000_000_000))).collect();
    let named = (0..processors).map(|p| ProcessorCosts::named(format!("p{p}"))).collect();
    Costs::new("row", named, links, node_costs, tensors, vec![]).expect("costs that fit")
}

#[test]
fn a_search_that_is_cut_is_refined_in_its_order() {
    let mut rng = StdRng::seed_from_u64(18);
    let costs = long_row(&mut rng, 1500, 9);
    let limits = vitempo_graph::Limits { steps: 1, ..vitempo_graph::Limits::NONE };
    let pipeline = Pipeline::new(&costs, 0).expect("a problem").within(Budget::new(limits));
    let objective = PipelineObjective::Throughput { latency_at_most: None };
    let found = pipeline.best(objective).expect("a pipeline");
    assert!(!found.is_complete && found.cuts.len() > 1);
    let period = |cuts: &[Cut]| pipeline.period_ns(cuts).expect("it runs").point();
    let at = period(&found.cuts);
    // No single cut can be moved for the better.
    for index in 1..found.cuts.len() {
        for by in [-1isize, 1] {
            let mut moved = found.cuts.clone();
            let Some(place) = moved[index].from.checked_add_signed(by) else { continue };
            (moved[index - 1].to, moved[index].from) = (place, place);
            let moved = pipeline.period_ns(&moved);
            assert!(moved.is_none_or(|ns| ns.point() * 101 / 100 >= at), "cut {index}");
        }
    }
}

#[test]
fn a_budget_that_ends_leaves_a_true_bound() {
    let mut rng = StdRng::seed_from_u64(17);
    let (mut cut, mut proven) = (0, 0);
    for round in 0..40 {
        let costs = random_costs(&mut rng, 120, 4);
        let best = Pipeline::new(&costs, 0).expect("a problem");
        let objective = match round % 3 {
            0 => PipelineObjective::Throughput { latency_at_most: None },
            1 => PipelineObjective::Latency { period_at_most: None },
            _ => PipelineObjective::Throughput { latency_at_most: Some(30_000) },
        };
        let Ok(best) = best.best(objective) else { continue };
        assert!(best.is_complete && best.plan.optimal.gap == 0.0, "round {round}");
        let within = |steps: u64| {
            let limits = vitempo_graph::Limits { steps, ..vitempo_graph::Limits::NONE };
            Pipeline::new(&costs, 0).expect("a problem").within(Budget::new(limits)).best(objective)
        };
        let value = |found: &PipelinePlan| {
            let predicted = &found.plan.predicted;
            match objective {
                PipelineObjective::Latency { .. } => predicted.latency_ns.point(),
                _ => predicted.period_ns.expect("a period").point(),
            }
        };
        for steps in [1, 10_000, 100_000] {
            let found = match within(steps) {
                Ok(found) => found,
                Err(PipelineError::GaveUp { .. }) => continue,
                Err(error) => panic!("round {round}: {error}"),
            };
            let gap = found.plan.optimal.gap;
            assert!(value(&best) <= value(&found), "round {round}");
            assert!(
                value(&found) as f64 <= value(&best) as f64 * (1.0 + gap) + 1.0,
                "round {round}: a gap of {gap}"
            );
            let (exact, regret) = (best.plan.regret, found.plan.regret.expect("a regret"));
            if found.cuts == best.cuts {
                assert!(regret.worst >= exact.expect("a regret").worst, "round {round}");
            }
            if !found.is_complete {
                cut += 1;
                assert!(regret.is_bound || regret.worst == 0, "round {round}");
                proven += u32::from(gap == 0.0 && value(&found) > value(&best));
            }
            assert_eq!(Ok(&found), within(steps).as_ref().map_err(drop), "round {round}");
        }
    }
    assert!(cut > 40 && proven == 0, "{cut} searches were cut");
}

#[test]
fn what_cannot_be_is_explained() {
    let mut rng = StdRng::seed_from_u64(14);
    let costs = random_costs(&mut rng, 4, 2);
    let pipeline = Pipeline::new(&costs, 0).expect("a problem");
    let refused = pipeline.best(PipelineObjective::Latency { period_at_most: Some(1) });
    assert_eq!(
        refused.map_err(|e| e.to_string()).err().as_deref(),
        Some("no pipeline keeps period at most 1.00 ns")
    );
    assert!(Pipeline::new(&costs, 7).is_err());
    assert_eq!(
        pipeline
            .plan_of(&naive::whole(3, 0), PipelineObjective::Throughput { latency_at_most: None }),
        None
    );
}

#[test]
fn the_share_of_a_regret_of_a_few_ns_is_not_rounded_away() {
    // All on `b` costs 11 + n3, n0 on `a` and the rest on `b` at least 10 + n3: n3 is 5 to 14.
    let ns = |point: u64, lower: u64, upper: u64| Interval::new(point, lower, upper);
    let exact = |ns: u64| Some(Interval::exact(ns));
    let node = |name: &str, latency_ns: [Option<Interval>; 2]| NodeCosts {
        name: name.to_owned(),
        latency_ns: latency_ns.to_vec(),
        energy_nj: vec![None; 2],
        memory_bytes: 0,
    };
    let nodes = vec![
        node("n0", [ns(5, 5, 13), ns(0, 0, 6)]),
        node("n1", [None, exact(5)]),
        node("n3", [None, ns(8, 5, 14)]),
    ];
    let processors = ["a", "b"].map(ProcessorCosts::named).to_vec();
    let links = BTreeMap::from([((0, 1), Link::of_bandwidth(1_000_000_000))]);
    let costs = Costs::new("few", processors, links, nodes, vec![], vec![]).expect("costs");
    let pipeline = Pipeline::new(&costs, 0).expect("a problem");
    let found = pipeline.best(PipelineObjective::Latency { period_at_most: None });
    let regret = found.expect("a pipeline").plan.regret.expect("a regret");
    assert_eq!(regret.worst, 1);
    assert!(!regret.is_bound && (regret.share - 1.0 / 16.0).abs() < 1e-3, "{regret:?}");
}
