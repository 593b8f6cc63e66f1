//! Pipelines against enumeration of every cut and order, on random models.

use super::*;
use crate::cost::{Link, NodeCosts, ProcessorCosts, TensorCosts};
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
        let list = pipeline.pareto().unwrap_or_default();
        assert_eq!(
            list.iter().filter_map(|p| by_definition(&costs, &p.cuts)).collect::<Vec<_>>(),
            front,
            "round {round}"
        );
    }
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

#[test]
fn the_regret_of_a_period_bounds_every_scenario_and_is_reached() {
    let mut rng = StdRng::seed_from_u64(13);
    for round in 0..40 {
        let costs = random_costs(&mut rng, 4, 2);
        let exact_link = |from, to| {
            costs.link(from, to).map(|l| {
                (
                    (from, to),
                    Link {
                        bandwidth_bytes_per_s: Interval::exact(l.bandwidth_bytes_per_s.point()),
                        ..*l
                    },
                )
            })
        };
        let links: BTreeMap<_, _> =
            [(0, 1), (1, 0)].into_iter().filter_map(|(a, b)| exact_link(a, b)).collect();
        let rebuild = |nodes: Vec<NodeCosts>| {
            Costs::new(
                "m",
                costs.processors().to_vec(),
                links.clone(),
                nodes,
                costs.tensors().to_vec(),
                costs.together().to_vec(),
            )
        };
        let costs = rebuild(costs.nodes().to_vec()).expect("costs");
        let pipeline = Pipeline::new(&costs, 0).expect("a problem");
        let Ok(found) = pipeline.best(PipelineObjective::Throughput { latency_at_most: None })
        else {
            continue;
        };
        let every = every_pipeline(&costs);
        let mut worst = 0;
        for corner in 0..1u32 << 8 {
            let at = |n: usize, p: usize, i: Interval| {
                i.at(if corner >> (2 * n + p) & 1 == 1 { End::Upper } else { End::Lower })
            };
            let nodes = costs.nodes().iter().enumerate().map(|(n, c)| NodeCosts {
                latency_ns: c
                    .latency_ns
                    .iter()
                    .enumerate()
                    .map(|(p, l)| l.map(|l| Interval::exact(at(n, p, l))))
                    .collect(),
                ..c.clone()
            });
            let scenario = rebuild(nodes.collect()).expect("costs");
            let period = |cuts: &[Cut]| by_definition(&scenario, cuts).map(|(p, _)| p);
            let best = every.iter().filter_map(|cuts| period(cuts)).min().expect("a pipeline");
            worst = worst.max(period(&found.cuts).expect("it runs") - best);
        }
        assert_eq!(found.plan.regret.map(|r| r.worst), Some(worst), "round {round}");
    }
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
