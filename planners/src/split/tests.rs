//! Splits against enumeration of every split, on thousands of random models.

use super::*;
use crate::cost::{Link, NodeCosts, ProcessorCosts, TensorCosts};
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
        links.insert((1, 0), link);
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

/// Every split that respects the constraints, checked by the definition.
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

/// What a split costs, computed anew from the definition of each criterion.
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
            Criterion::BytesSent => 0,
        };
    }
    for t in costs.tensors() {
        if t.producer.is_none_or(|p| side[p]) && t.consumers.iter().any(|&c| !side[c]) {
            let ns = up.transfer_ns(t.size_bytes).expect("a transfer");
            sum += match criterion {
                Criterion::Latency => end(ns),
                Criterion::DeviceEnergy => end(ns.times(up.transmit_w)),
                Criterion::DeviceMemory => 0,
                Criterion::BytesSent => t.size_bytes,
            };
        }
    }
    if side.contains(&false) {
        sum += match criterion {
            Criterion::Latency => up.setup_ns,
            Criterion::DeviceEnergy => Interval::exact(up.setup_ns).times(device.idle_w).point(),
            _ => 0,
        };
    }
    sum
}

fn point(costs: &Costs, side: &[bool], criterion: Criterion) -> u64 {
    by_definition(costs, side, criterion, Interval::point)
}

#[test]
fn minimum_cuts_equal_enumeration() {
    let mut rng = StdRng::seed_from_u64(1);
    for round in 0..4000 {
        let nodes = rng.random_range(2..11);
        let costs = random_costs(&mut rng, nodes);
        let split = match Split::new(&costs, 0, 1) {
            Ok(split) => split,
            Err(error) => panic!("round {round}: {error}"),
        };
        let splits = every_split(&costs);
        for criterion in [Criterion::Latency, Criterion::DeviceEnergy] {
            let least = splits
                .iter()
                .map(|side| point(&costs, side, criterion))
                .min()
                .expect("all on the device");
            let found = split.best(&Objective::least(criterion)).expect("a split");
            assert!(splits.contains(&found.on_device), "round {round}");
            assert_eq!(
                point(&costs, &found.on_device, criterion),
                least,
                "round {round}, {criterion}"
            );
            let predicted = if criterion == Criterion::Latency {
                found.plan.predicted.latency_ns
            } else {
                found.plan.predicted.device_energy_nj.expect("energy")
            };
            assert_eq!(predicted.point(), least, "round {round}, {criterion}");
        }
    }
}

#[test]
fn bounded_splits_and_pareto_lists_equal_enumeration() {
    let mut rng = StdRng::seed_from_u64(2);
    for round in 0..600 {
        let nodes = rng.random_range(2..10);
        let costs = random_costs(&mut rng, nodes);
        let split = Split::new(&costs, 0, 1).expect("a problem");
        let (a, b) = [
            (Criterion::Latency, Criterion::DeviceEnergy),
            (Criterion::DeviceEnergy, Criterion::BytesSent),
        ][round % 2];
        let memory =
            Bound { criterion: Criterion::DeviceMemory, at_most: rng.random_range(40..200) };
        let points: Vec<(u64, u64)> = every_split(&costs)
            .iter()
            .filter(|side| point(&costs, side, memory.criterion) <= memory.at_most)
            .map(|side| (point(&costs, side, a), point(&costs, side, b)))
            .collect();
        let mut front: Vec<(u64, u64)> = points
            .iter()
            .copied()
            .filter(|p| !points.iter().any(|o| o != p && o.0 <= p.0 && o.1 <= p.1))
            .collect();
        front.sort_unstable();
        front.dedup();
        let list = match split.pareto(a, b, &[memory], usize::MAX) {
            Ok(list) => list,
            Err(SplitError::Impossible { .. }) => Vec::new(),
            Err(error) => panic!("round {round}: {error}"),
        };
        let found: Vec<(u64, u64)> = list
            .iter()
            .map(|p| (split.value(a, &p.on_device), split.value(b, &p.on_device)))
            .collect();
        assert_eq!(found, front, "round {round}");
        assert!(list.iter().all(|p| p.plan.optimal.gap == 0.0), "round {round}");
    }
}

#[test]
fn break_points_in_bandwidth_equal_enumeration() {
    let mut rng = StdRng::seed_from_u64(3);
    for round in 0..800 {
        let nodes = rng.random_range(2..9);
        let costs = random_costs(&mut rng, nodes);
        let split = Split::new(&costs, 0, 1).expect("a problem");
        let ranges = split.over_bandwidth(Criterion::Latency).expect("ranges");
        assert_eq!(
            (ranges[0].from_bytes_per_s, ranges[ranges.len() - 1].to_bytes_per_s),
            (0.0, f64::INFINITY)
        );
        assert!(
            ranges.windows(2).all(|w| w[0].to_bytes_per_s == w[1].from_bytes_per_s
                && w[0].from_bytes_per_s < w[0].to_bytes_per_s),
            "round {round}"
        );
        let bandwidth = 10f64.powf(rng.random_range(5.0..12.0));
        let here = ranges
            .iter()
            .find(|r| (r.from_bytes_per_s..r.to_bytes_per_s).contains(&bandwidth))
            .expect("a range");
        let link = Link {
            bandwidth_bytes_per_s: Interval::exact(bandwidth as u64),
            ..*costs.link(0, 1).expect("a link")
        };
        let there = costs.clone().with_link(0, 1, link).expect("costs");
        let latency = |side: &Vec<bool>| point(&there, side, Criterion::Latency);
        let least = every_split(&costs).iter().map(latency).min().expect("a split");
        // Transfers are rounded up to whole nanoseconds, tensor by tensor.
        assert!(
            latency(&here.on_device) <= least + costs.tensors().len() as u64,
            "round {round} at {bandwidth}"
        );
    }
}

#[test]
fn regret_is_the_worst_case_over_all_corners() {
    let mut rng = StdRng::seed_from_u64(4);
    for round in 0..60 {
        let costs = random_costs(&mut rng, 3);
        let costs = costs
            .clone()
            .with_link(0, 1, Link { setup_ns: 0, ..*costs.link(0, 1).expect("a link") })
            .expect("costs");
        let split = Split::new(&costs, 0, 1).expect("a problem");
        let found = split.best(&Objective::least(Criterion::Latency)).expect("a split");
        // Corners of everything but the link, whose transfers move together: those are fixed here.
        let fixed = Link {
            bandwidth_bytes_per_s: Interval::exact(
                costs.link(0, 1).expect("a link").bandwidth_bytes_per_s.point(),
            ),
            ..*costs.link(0, 1).expect("a link")
        };
        let costs = costs.clone().with_link(0, 1, fixed).expect("costs");
        let costs = if costs.link(1, 0).is_some() {
            costs.with_link(1, 0, fixed).expect("costs")
        } else {
            costs
        };
        let split_fixed = Split::new(&costs, 0, 1).expect("a problem");
        let plan = split_fixed
            .plan_of(&found.on_device, &Objective::least(Criterion::Latency))
            .expect("a plan")
            .expect("an allowed split");
        let splits = every_split(&costs);
        let mut worst = 0;
        for corner in 0..1u32 << 6 {
            let at = |node: usize, processor: usize, i: Interval| {
                i.at(if corner >> (2 * node + processor) & 1 == 1 {
                    End::Upper
                } else {
                    End::Lower
                })
            };
            let nodes: Vec<NodeCosts> = costs
                .nodes()
                .iter()
                .enumerate()
                .map(|(n, c)| NodeCosts {
                    latency_ns: c
                        .latency_ns
                        .iter()
                        .enumerate()
                        .map(|(p, l)| l.map(|l| Interval::exact(at(n, p, l))))
                        .collect(),
                    ..c.clone()
                })
                .collect();
            let links = [(0, 1), (1, 0)]
                .into_iter()
                .filter_map(|k| costs.link(k.0, k.1).map(|l| (k, *l)))
                .collect();
            let scenario = Costs::new(
                "corner",
                costs.processors().to_vec(),
                links,
                nodes,
                costs.tensors().to_vec(),
                costs.together().to_vec(),
            )
            .expect("costs");
            let best = splits
                .iter()
                .map(|s| point(&scenario, s, Criterion::Latency))
                .min()
                .expect("a split");
            worst = worst.max(point(&scenario, &found.on_device, Criterion::Latency) - best);
        }
        assert_eq!(plan.plan.regret.map(|r| r.worst), Some(worst), "round {round}");
    }
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
