//! Splits against enumeration of every split, on thousands of random models.

use super::{bandwidth, bounded, frontier, *};
use crate::cost::{Interval, Link, NodeCosts, ProcessorCosts, TensorCosts};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::collections::BTreeMap;

/// A random model of `nodes` operators: a spine with skips, several readers per tensor, sometimes a
/// second input, sometimes a confined tensor.
fn random_costs(rng: &mut StdRng, nodes: usize) -> Costs {
    let mut processors = vec![ProcessorCosts::named("device"), ProcessorCosts::named("server")];
    processors[0].active_w = 1.0 + 3.0 * rng.random::<f64>();
    processors[0].idle_w = rng.random::<f64>();
    let link = Link {
        bandwidth_bytes_per_s: Interval::within(
            rng.random_range(100_000_000..2_000_000_000),
            0.2 * rng.random::<f64>(),
        ),
        setup_ns: if rng.random_bool(0.3) { rng.random_range(1..300) } else { 0 },
        message_ns: rng.random_range(0..30),
        conversion_bytes_per_s: None,
        transmit_w: 2.0 * rng.random::<f64>(),
    };
    let mut links = BTreeMap::from([((0, 1), link)]);
    if rng.random_bool(0.5) {
        let setup_ns = if rng.random_bool(0.5) { rng.random_range(1..300) } else { 0 };
        links.insert((1, 0), Link { transmit_w: 0.0, setup_ns, ..link });
    }
    let mut latency = |most: u64| Some(Interval::within(rng.random_range(10..most), 0.3));
    let node = |i: usize| NodeCosts {
        name: format!("n{i}"),
        latency_ns: vec![latency(1000), latency(300)],
        energy_nj: vec![None; 2],
        memory_bytes: 10 + 7 * (i as u64 % 5),
    };
    let nodes_costs: Vec<NodeCosts> = (0..nodes).map(node).collect();
    let tensor = |name: String, producer: Option<usize>, size_bytes: u64| TensorCosts {
        name,
        size_bytes,
        producer,
        consumers: vec![],
        output: false,
        confined: false,
    };
    let mut tensors: Vec<TensorCosts> =
        (0..nodes).map(|i| tensor(format!("t{i}"), Some(i), rng.random_range(1..400))).collect();
    tensors.push(tensor("image".to_owned(), None, rng.random_range(1..600)));
    tensors[nodes].consumers.push(0);
    for i in 1..nodes {
        let mut parents = vec![if rng.random_bool(0.7) { i - 1 } else { rng.random_range(0..i) }];
        if rng.random_bool(0.4) {
            parents.push(rng.random_range(0..i));
        }
        parents.sort_unstable();
        parents.dedup();
        parents.iter().for_each(|&p| tensors[p].consumers.push(i));
        if rng.random_bool(0.1) {
            tensors[nodes].consumers.push(i);
        }
    }
    for t in &mut tensors {
        t.output = t.producer.is_some() && (t.consumers.is_empty() || rng.random_bool(0.1));
        t.confined = rng.random_bool(0.03);
    }
    let together = if rng.random_bool(0.3) && nodes > 2 { vec![vec![1, 2]] } else { vec![] };
    Costs::new("random", processors, links, nodes_costs, tensors, together).expect("costs that fit")
}

/// Every split that satisfies the constraints, checked by the definition.
fn every_split(costs: &Costs) -> Vec<Vec<bool>> {
    let n = costs.nodes().len();
    let allowed = |side: &Vec<bool>| {
        costs.tensors().iter().all(|t| {
            let here = t.producer.is_none_or(|p| side[p]);
            let readers = t.consumers.iter().all(|&c| here || !side[c]);
            let kept = !t.confined || (here && t.consumers.iter().all(|&c| side[c]));
            readers && kept
        }) && costs.together().iter().all(|g| g.windows(2).all(|w| side[w[0]] == side[w[1]]))
    };
    (0..1u32 << n)
        .map(|mask| (0..n).map(|i| mask >> i & 1 == 1).collect())
        .filter(allowed)
        .collect()
}

/// The cost of a split, computed from the definition of each criterion.
fn by_definition(
    costs: &Costs,
    side: &[bool],
    criterion: Criterion,
    end: impl Fn(Interval) -> u64,
) -> u64 {
    let up = costs.link(0, 1).expect("a link");
    let device = &costs.processors()[0];
    let mut sum = 0;
    for (i, node) in costs.nodes().iter().enumerate() {
        let processor = usize::from(!side[i]);
        let mut ns = node.latency_ns[processor].expect("a latency");
        if let Some(down) = costs.link(1, 0).filter(|_| !side[i]) {
            let results = costs.tensors().iter().filter(|t| t.output && t.producer == Some(i));
            ns = results.fold(ns, |ns, t| ns + down.transfer_ns(t.size_bytes).expect("a transfer"));
        }
        sum += match criterion {
            Criterion::Latency => end(ns),
            Criterion::DeviceEnergy => {
                end(ns.times(if side[i] { device.active_w } else { device.idle_w }))
            }
            Criterion::DeviceMemory => {
                if side[i] {
                    node.memory_bytes
                } else {
                    0
                }
            }
            Criterion::ServerMemory => {
                if side[i] {
                    0
                } else {
                    node.memory_bytes
                }
            }
            Criterion::BytesSent => 0,
        };
    }
    for t in costs.tensors() {
        if t.producer.is_none_or(|p| side[p]) && t.consumers.iter().any(|&c| !side[c]) {
            let ns = up.transfer_ns(t.size_bytes).expect("a transfer");
            sum += match criterion {
                Criterion::Latency => end(ns),
                Criterion::DeviceEnergy => end(ns.times(up.transmit_w)),
                Criterion::DeviceMemory | Criterion::ServerMemory => 0,
                Criterion::BytesSent => t.size_bytes,
            };
        }
    }
    let comes_back = |t: &TensorCosts| t.output && t.producer.is_some_and(|p| !side[p]);
    let setups = [
        Some(up).filter(|_| side.contains(&false)),
        costs.link(1, 0).filter(|_| costs.tensors().iter().any(comes_back)),
    ];
    for link in setups.into_iter().flatten() {
        sum += match criterion {
            Criterion::Latency => link.setup_ns,
            Criterion::DeviceEnergy => Interval::exact(link.setup_ns).times(device.idle_w).point(),
            _ => 0,
        };
    }
    sum
}

fn point(costs: &Costs, side: &[bool], criterion: Criterion) -> u64 {
    by_definition(costs, side, criterion, Interval::point)
}

/// All criteria of a split, the one that is minimised first, then as ties are broken.
fn in_order(costs: &Costs, side: &[bool], minimise: Criterion) -> Vec<u64> {
    let ties = [
        Criterion::Latency,
        Criterion::DeviceEnergy,
        Criterion::DeviceMemory,
        Criterion::BytesSent,
    ];
    std::iter::once(minimise).chain(ties).map(|c| point(costs, side, c)).collect()
}

/// The same model with latencies and sizes of a few values, so that many splits are equal.
fn coarse(costs: &Costs) -> Costs {
    let few = |value: u64| Interval::exact(value % 3);
    let node = |n: &NodeCosts| NodeCosts {
        latency_ns: n.latency_ns.iter().map(|l| l.map(|l| few(l.point()))).collect(),
        ..n.clone()
    };
    let tensor = |t: &TensorCosts| TensorCosts { size_bytes: t.size_bytes % 3, ..t.clone() };
    let link = |l: &Link| Link {
        bandwidth_bytes_per_s: Interval::exact(1_000_000_000),
        setup_ns: l.setup_ns % 2,
        message_ns: 0,
        ..*l
    };
    let links = [(0, 1), (1, 0)].into_iter().filter_map(|k| Some((k, link(costs.link(k.0, k.1)?))));
    Costs::new(
        "coarse",
        costs.processors().to_vec(),
        links.collect(),
        costs.nodes().iter().map(node).collect(),
        costs.tensors().iter().map(tensor).collect(),
        costs.together().to_vec(),
    )
    .expect("costs that fit")
}

#[test]
fn minimum_cuts_equal_enumeration() {
    let mut rng = StdRng::seed_from_u64(1);
    for round in 0..4000 {
        let nodes = rng.random_range(2..11);
        let mut costs = random_costs(&mut rng, nodes);
        if round % 2 == 1 {
            costs = coarse(&costs);
        }
        let split = match Split::new(&costs, 0, 1) {
            Ok(split) => split,
            Err(error) => panic!("round {round}: {error}"),
        };
        let splits = every_split(&costs);
        for criterion in [Criterion::Latency, Criterion::DeviceEnergy, Criterion::BytesSent] {
            let least = splits.iter().map(|side| in_order(&costs, side, criterion)).min();
            let found = split.best(&Objective::least(criterion)).expect("a split");
            assert!(splits.contains(&found.on_device), "round {round}");
            let columns = split.columns(criterion.then_ties(), Vec::new());
            let cut = split.unbounded_by_cut(&columns).expect("a split");
            assert_eq!(
                Some(&in_order(&costs, &cut.side, criterion)),
                least.as_ref(),
                "round {round}, {criterion}, by cuts"
            );
            let own = in_order(&costs, &found.on_device, criterion);
            assert_eq!(Some(&own), least.as_ref(), "round {round}, {criterion}");
            let predicted = &found.plan.predicted;
            let energy = predicted.device_energy_nj.expect("energy").point();
            assert_eq!((predicted.latency_ns.point(), energy), (own[1], own[2]), "round {round}");
        }
    }
}

#[test]
fn bounded_splits_and_pareto_lists_equal_enumeration() {
    let mut rng = StdRng::seed_from_u64(2);
    for round in 0..1200 {
        let nodes = rng.random_range(2..10);
        let mut costs = random_costs(&mut rng, nodes);
        if round % 2 == 1 {
            costs = coarse(&costs);
        }
        let split = Split::new(&costs, 0, 1).expect("a problem");
        let (a, b) = [
            (Criterion::Latency, Criterion::DeviceEnergy),
            (Criterion::DeviceEnergy, Criterion::BytesSent),
        ][round / 2 % 2];
        let memory = [Criterion::DeviceMemory, Criterion::ServerMemory][round / 4 % 2];
        let memory = Bound { criterion: memory, at_most: rng.random_range(40..200) };
        let kept: Vec<Vec<bool>> = every_split(&costs)
            .into_iter()
            .filter(|side| point(&costs, side, memory.criterion) <= memory.at_most)
            .collect();
        let points: Vec<(u64, u64)> =
            kept.iter().map(|side| (point(&costs, side, a), point(&costs, side, b))).collect();
        let mut front: Vec<(u64, u64)> = points
            .iter()
            .copied()
            .filter(|p| !points.iter().any(|o| o != p && o.0 <= p.0 && o.1 <= p.1))
            .collect();
        front.sort_unstable();
        front.dedup();
        for is_wide in [false, true] {
            let found = if is_wide {
                let objective = Objective { minimise: a, bounds: vec![memory] };
                split.front_by_searches(b, &objective)
            } else {
                split.pareto(a, b, &[memory])
            };
            let list = match found {
                Ok(list) => list,
                Err(SplitError::Impossible { .. }) => Front { plans: vec![], is_complete: true },
                Err(error) => panic!("round {round}: {error}"),
            };
            let found: Vec<(u64, u64)> = list
                .plans
                .iter()
                .map(|p| (split.value(a, &p.on_device), split.value(b, &p.on_device)))
                .collect();
            assert_eq!(found, front, "round {round}");
            assert!(list.is_complete && list.plans.iter().all(|p| p.plan.optimal.gap == 0.0));
        }
        let best = split.best(&Objective { minimise: a, bounds: vec![memory] });
        let least = kept.iter().map(|side| in_order(&costs, side, a)).min();
        let own = best.ok().map(|best| in_order(&costs, &best.on_device, a));
        assert_eq!(own, least, "round {round}");
    }
}

#[test]
fn a_budget_that_ends_leaves_a_true_bound() {
    let mut rng = StdRng::seed_from_u64(7);
    let (mut proven, mut open) = (0, 0);
    for round in 0..600 {
        let nodes = rng.random_range(4..10);
        let costs = random_costs(&mut rng, nodes);
        let steps = 1 << rng.random_range(0..16);
        let budget = Budget::new(Limits { steps, ..Limits::NONE });
        let split = Split::new(&costs, 0, 1).expect("a problem").within(budget);
        let objective = Objective::least(Criterion::Latency)
            .keeping(Criterion::DeviceMemory, rng.random_range(20..100))
            .keeping(Criterion::BytesSent, rng.random_range(100..600));
        let keeps = |side: &&Vec<bool>| {
            objective.bounds.iter().all(|b| point(&costs, side, b.criterion) <= b.at_most)
        };
        let splits = every_split(&costs);
        let least = splits.iter().filter(keeps).map(|s| point(&costs, s, Criterion::Latency)).min();
        match split.solve(&objective) {
            Ok(found) => {
                let least = u128::from(least.expect("a split"));
                assert!(keeps(&&found.side) && found.value >= least, "round {round}");
                assert!(found.at_least <= least, "round {round}: {} {least}", found.at_least);
                *(if found.at_least == found.value { &mut proven } else { &mut open }) += 1;
            }
            Err(SplitError::Impossible { .. }) => assert_eq!(least, None, "round {round}"),
            Err(SplitError::GaveUp { .. }) => open += 1,
            Err(error) => panic!("round {round}: {error}"),
        }
    }
    assert!(proven > 50 && open > 10, "{proven} proven, {open} open");
}

#[test]
fn branching_alone_equals_enumeration() {
    let mut rng = StdRng::seed_from_u64(8);
    for round in 0..300 {
        let nodes = rng.random_range(3..9);
        let costs = random_costs(&mut rng, nodes);
        let split = Split::new(&costs, 0, 1).expect("a problem");
        let objective = Objective::least(Criterion::Latency)
            .keeping(Criterion::DeviceMemory, rng.random_range(20..100));
        let columns = split.columns(vec![Criterion::Latency], split.bounds(&objective));
        let found = bounded::by_branching(&split.closure, &columns, &split.budget);
        let splits = every_split(&costs);
        let kept = splits
            .iter()
            .filter(|s| point(&costs, s, Criterion::DeviceMemory) <= objective.bounds[0].at_most);
        let least = kept.map(|s| u128::from(point(&costs, s, Criterion::Latency))).min();
        assert_eq!(
            found.ok().map(|f| (f.value, f.at_least)),
            least.map(|l| (l, l)),
            "round {round}"
        );
    }
}

/// The costs with both links at a bandwidth.
fn at_bandwidth(costs: &Costs, bytes_per_s: u64) -> Costs {
    let mut there = costs.clone();
    for (from, to) in [(0, 1), (1, 0)] {
        if let Some(&link) = costs.link(from, to) {
            let link = Link { bandwidth_bytes_per_s: Interval::exact(bytes_per_s), ..link };
            there = there.with_link(from, to, link).expect("costs");
        }
    }
    there
}

#[test]
fn break_points_in_bandwidth_equal_enumeration() {
    let mut rng = StdRng::seed_from_u64(3);
    let mut bounded = 0;
    for round in 0..2400 {
        let nodes = rng.random_range(2..9);
        let costs = random_costs(&mut rng, nodes);
        let split = Split::new(&costs, 0, 1).expect("a problem");
        let minimise = [Criterion::Latency, Criterion::DeviceEnergy][round / 2 % 2];
        let mut objective = Objective::least(minimise);
        if round % 2 == 1 {
            objective = objective
                .keeping(Criterion::DeviceMemory, rng.random_range(40..300))
                .keeping(Criterion::Latency, rng.random_range(500..6000));
        }
        let ranges = match split.over_bandwidth(&objective) {
            Ok(ranges) => ranges,
            Err(SplitError::Impossible { .. }) => Vec::new(),
            Err(error) => panic!("round {round}: {error}"),
        };
        if let Some(last) = ranges.last() {
            assert_eq!(last.to_bytes_per_s, f64::INFINITY, "round {round}");
            assert!(round % 2 == 1 || ranges[0].from_bytes_per_s == 0.0, "round {round}");
        }
        let follow = |w: &[BandwidthRange]| {
            w[0].to_bytes_per_s == w[1].from_bytes_per_s
                && w[0].from_bytes_per_s < w[0].to_bytes_per_s
        };
        assert!(ranges.windows(2).all(follow), "round {round}");
        for _ in 0..3 {
            let bandwidth = 10f64.powf(rng.random_range(5.0..12.0)).round();
            let here =
                ranges.iter().find(|r| (r.from_bytes_per_s..r.to_bytes_per_s).contains(&bandwidth));
            let there = at_bandwidth(&costs, bandwidth as u64);
            // Transfers are rounded up to whole nanoseconds, tensor by tensor, energies node by
            // node.
            let slack = (2 * costs.tensors().len() + costs.nodes().len()) as u64;
            let keeps = |side: &Vec<bool>, slack: u64| {
                let within = |b: &Bound| point(&there, side, b.criterion) <= b.at_most + slack;
                objective.bounds.iter().all(within)
            };
            let cost = |side: &Vec<bool>| point(&there, side, minimise);
            let splits = every_split(&costs);
            let least = splits.iter().filter(|side| keeps(side, 0)).map(cost).min();
            bounded += u32::from(round % 2 == 1 && here.is_some());
            match (here, least) {
                (Some(here), least) => {
                    let own = cost(&here.on_device);
                    assert!(keeps(&here.on_device, slack), "round {round} at {bandwidth}");
                    let least = least.unwrap_or(own);
                    assert!(own <= least + slack, "round {round} at {bandwidth}: {own}, {least}");
                }
                (None, Some(_)) => panic!("round {round} at {bandwidth}: a split was left out"),
                (None, None) => {}
            }
        }
    }
    assert!(bounded > 500, "{bounded}");
}

#[test]
fn break_points_by_cuts_are_those_of_the_frontier() {
    let mut rng = StdRng::seed_from_u64(9);
    for round in 0..300 {
        let nodes = rng.random_range(2..9);
        let costs = random_costs(&mut rng, nodes);
        let split = Split::new(&costs, 0, 1).expect("a problem");
        let objective = Objective::least(Criterion::Latency);
        let by_frontier = split.over_bandwidth(&objective).expect("ranges");
        let by_cuts = split.envelope_by_cuts(&objective).expect("lines");
        let breaks = |ranges: &[BandwidthRange]| -> Vec<(f64, u64, f64)> {
            ranges.iter().map(|r| (r.from_bytes_per_s, r.fixed, r.per_ns_of_byte)).collect()
        };
        let by_cuts = bandwidth::ranges(&by_cuts, split.units_of_cuts(objective.minimise));
        assert_eq!(breaks(&by_frontier), breaks(&by_cuts), "round {round}");
    }
}

/// Branches that read an image, each with a result of one byte; 10 ms each on the device and 1 ms
/// on the server, and 100 bytes of memory.
fn branches(count: usize, bytes_per_s: [u64; 2]) -> Costs {
    let ms = |ms: u64| Some(Interval::exact(1_000_000 * ms));
    let node = |index: usize| NodeCosts {
        name: format!("n{index}"),
        latency_ns: vec![ms(10), ms(1)],
        energy_nj: vec![None; 2],
        memory_bytes: 100,
    };
    let tensor = |name: String, producer: Option<usize>, consumers: Vec<usize>| TensorCosts {
        name,
        size_bytes: if producer.is_some() { 1 } else { 2 },
        output: producer.is_some(),
        producer,
        consumers,
        confined: false,
    };
    let image = tensor("image".to_owned(), None, (0..count).collect());
    let results = (0..count).map(|index| tensor(format!("t{index}"), Some(index), Vec::new()));
    let links = [((0, 1), bytes_per_s[0]), ((1, 0), bytes_per_s[1])]
        .map(|(pair, bandwidth)| (pair, Link::of_bandwidth(bandwidth)));
    let processors = ["device", "server"].map(ProcessorCosts::named).to_vec();
    let nodes = (0..count).map(node).collect();
    let tensors = std::iter::once(image).chain(results).collect();
    Costs::new("branches", processors, BTreeMap::from(links), nodes, tensors, vec![])
        .expect("costs that fit")
}

#[test]
fn results_that_come_back_count_by_the_ratio_of_the_bandwidths() {
    // 54 ms are saved for 2 bytes there and 6 bytes back, which is `ratio` times faster.
    for (up, down, exact) in [(1000, 2500, 1.0), (1_000_000_007, 333_333_333, 1e-9)] {
        let costs = branches(6, [up, down]);
        let split = Split::new(&costs, 0, 1).expect("a problem");
        let objective = Objective::least(Criterion::Latency);
        let ranges = split.over_bandwidth(&objective).expect("ranges");
        let bytes = 2.0 + 6.0 * up as f64 / down as f64;
        let off = |found: f64, expected: f64| (found / expected - 1.0).abs();
        assert_eq!(ranges.len(), 2);
        assert!(off(ranges[1].per_ns_of_byte, bytes) < 1e-12_f64.max(1e-9 * exact), "{ranges:?}");
        assert!(off(ranges[0].to_bytes_per_s, 1e9 * bytes / 54e6) < 1e-9, "{ranges:?}");
        let by_cuts = split.envelope_by_cuts(&objective).expect("lines");
        let by_cuts = bandwidth::ranges(&by_cuts, split.units_of_cuts(objective.minimise));
        assert_eq!(by_cuts, ranges);
    }
}

#[test]
fn bounds_that_leave_no_room_end_the_search_of_parallel_branches_at_once() {
    let mut costs = crate::cost::CostsFile::from(&branches(17, [1000, 1000]));
    let mut join = costs.nodes[0].clone();
    join.name = "join".to_owned();
    costs.nodes.push(join);
    for tensor in costs.tensors.iter_mut().filter(|tensor| tensor.producer.is_some()) {
        (tensor.consumers, tensor.output) = (vec!["join".to_owned()], false);
    }
    let costs = costs.check().expect("costs");
    let split = Split::new(&costs, 0, 1).expect("a problem");
    let objective = Objective::least(Criterion::Latency).keeping(Criterion::DeviceMemory, 50);
    let columns = split.columns(vec![Criterion::Latency], split.bounds(&objective));
    let (mut calls, mut steps) = (0u64, 0u64);
    let mut spend = |more: u64| {
        (calls, steps) = (calls + 1, steps + more);
        calls < 1000
    };
    let question = columns.question(u64::MAX);
    let found = frontier::undominated(&split.closure, &question, &mut spend).expect("splits");
    assert_eq!(found.len(), 1);
    assert!(found[0].side.iter().all(|on_device| !on_device));
    assert!(calls < 100 && steps >= calls, "{calls} calls, {steps} steps");
}

#[test]
fn break_points_do_not_depend_on_the_bandwidth_given() {
    let mut rng = StdRng::seed_from_u64(10);
    for round in 0..200 {
        let nodes = rng.random_range(2..9);
        let costs = random_costs(&mut rng, nodes);
        let ranges = |bytes_per_s: u64| {
            let costs = at_bandwidth(&costs, bytes_per_s);
            let split = Split::new(&costs, 0, 1).expect("a problem");
            split.over_bandwidth(&Objective::least(Criterion::Latency)).expect("ranges")
        };
        assert_eq!(ranges(1000), ranges(1_000_000_000), "round {round}");
    }
}

#[test]
fn regret_is_the_worst_case_over_all_corners() {
    let mut rng = StdRng::seed_from_u64(4);
    let mut wide = 0;
    for round in 0..100 {
        let costs = random_costs(&mut rng, 3);
        let objective = Objective::least([Criterion::Latency, Criterion::DeviceEnergy][round % 2]);
        let split = Split::new(&costs, 0, 1).expect("a problem");
        let found = split.best(&objective).expect("a split");
        let splits = every_split(&costs);
        let (mut worst, mut share) = (0, 0.0f64);
        // A bit for each latency, and one for the bandwidth of each link.
        for corner in 0..1u32 << 8 {
            let at = |bit: usize, i: Interval| {
                Interval::exact(i.at(if corner >> bit & 1 == 1 { End::Upper } else { End::Lower }))
            };
            let node = |(n, c): (usize, &NodeCosts)| NodeCosts {
                latency_ns: c
                    .latency_ns
                    .iter()
                    .enumerate()
                    .map(|(p, l)| l.map(|l| at(2 * n + p, l)))
                    .collect(),
                ..c.clone()
            };
            let nodes: Vec<NodeCosts> = costs.nodes().iter().enumerate().map(node).collect();
            let link = |(bit, (from, to)): (usize, (usize, usize))| {
                let link = *costs.link(from, to)?;
                let bandwidth_bytes_per_s = at(bit, link.bandwidth_bytes_per_s);
                Some(((from, to), Link { bandwidth_bytes_per_s, ..link }))
            };
            let scenario = Costs::new(
                "corner",
                costs.processors().to_vec(),
                [(6, (0, 1)), (7, (1, 0))].into_iter().filter_map(link).collect(),
                nodes,
                costs.tensors().to_vec(),
                costs.together().to_vec(),
            )
            .expect("costs");
            let cost = |side: &Vec<bool>| point(&scenario, side, objective.minimise);
            let best = splits.iter().map(cost).min().expect("a split");
            let paid = cost(&found.on_device);
            worst = worst.max(paid - best);
            share = share.max((paid - best) as f64 / paid as f64);
        }
        let regret = found.plan.regret.expect("a regret");
        assert_eq!((regret.worst, regret.is_bound), (worst, false), "round {round}");
        assert!((regret.share - share).abs() < 1e-5, "round {round}: {regret:?}, {share}");
        wide += u32::from(worst > 0);
    }
    assert!(wide > 20, "{wide} splits with some regret");
}

#[test]
fn the_steps_of_a_plan_add_up_to_its_latency() {
    let mut rng = StdRng::seed_from_u64(12);
    let mut with_setup = 0;
    for round in 0..200 {
        let costs = random_costs(&mut rng, 6);
        let split = Split::new(&costs, 0, 1).expect("a problem");
        for side in every_split(&costs) {
            let objective = Objective::least(Criterion::Latency);
            let plan = split.plan_of(&side, &objective).expect("an answer").expect("a plan").plan;
            let stages = plan.stages.iter().map(|stage| stage.latency_ns);
            let steps: Interval =
                stages.chain(plan.transfers.iter().map(|sent| sent.latency_ns)).sum();
            assert_eq!(steps, plan.predicted.latency_ns, "round {round}");
            let says_results = plan.optimal.cost_model.contains("only results flow back");
            assert_eq!(says_results, costs.link(1, 0).is_some(), "round {round}");
            with_setup += u32::from(plan.transfers.iter().any(|sent| sent.setup_ns > 0));
        }
    }
    assert!(with_setup > 100, "{with_setup}");
}

#[test]
fn a_chain_scan_equals_the_minimum_cut() {
    let mut rng = StdRng::seed_from_u64(5);
    let mut chains = 0;
    for _ in 0..2000 {
        let nodes = rng.random_range(2..6);
        let costs = random_costs(&mut rng, nodes);
        let Some((on_device, latency)) = chain::best_split(&costs, 0, 1).expect("an answer") else {
            continue;
        };
        chains += 1;
        let cut = Split::new(&costs, 0, 1)
            .expect("a problem")
            .best(&Objective::least(Criterion::Latency))
            .expect("a split");
        assert_eq!(cut.plan.predicted.latency_ns.point(), latency);
        let side: Vec<bool> = (0..nodes).map(|n| n < on_device).collect();
        assert_eq!(point(&costs, &side, Criterion::Latency), latency);
    }
    assert!(chains > 100, "{chains} chains among the random models");
}

#[test]
fn constraints_that_cannot_be_kept_are_explained() {
    let mut rng = StdRng::seed_from_u64(6);
    let costs = random_costs(&mut rng, 5);
    let split = Split::new(&costs, 0, 1).expect("a problem");
    let impossible =
        split.best(&Objective::least(Criterion::Latency).keeping(Criterion::Latency, 1));
    assert_eq!(
        impossible.map_err(|e| e.to_string()).err().as_deref(),
        Some("no split keeps latency at most 1.00 ns")
    );
    assert!(
        Split::new(&costs, 0, 0)
            .is_err_and(|e| e.to_string() == "device and server are both `device`")
    );
    assert!(Split::new(&costs, 0, 9).is_err_and(|e| e.to_string().contains("processor `9`")));

    let mut nodes = costs.nodes().to_vec();
    nodes[0].latency_ns[0] = None; // Cannot run on the device...
    let mut tensors = costs.tensors().to_vec();
    tensors[5].confined = true; // ...but reads the image, which may not leave it.
    let links = BTreeMap::from([((0, 1), Link::of_bandwidth(1000))]);
    let costs =
        Costs::new("m", costs.processors().to_vec(), links, nodes, tensors, vec![]).expect("costs");
    assert!(Split::new(&costs, 0, 1).is_err_and(|e| {
        e.to_string().starts_with("node `n0` must be on the device and on the server")
    }));
}

#[test]
fn a_link_that_is_down_keeps_everything_on_the_device() {
    let mut rng = StdRng::seed_from_u64(7);
    let costs = random_costs(&mut rng, 6).with_link(0, 1, Link::of_bandwidth(0)).expect("costs");
    let split = Split::new(&costs, 0, 1).expect("a problem");
    assert_eq!(
        split.best(&Objective::least(Criterion::Latency)).expect("a split").on_device,
        [true; 6]
    );
}
