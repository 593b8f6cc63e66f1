//! [`fallbacks`]: the ways that a task can fall back to when it violates its objective again and
//! again although the plan expects otherwise: each is faster than the one before.
//!
//! A fallback takes at most nine tenths of the time of the ways before it. Accurate ones come first;
//! among equals the most accurate, then the fastest. The subgraphs of the plan and of the task's
//! fallbacks fit into the memory together.

use super::{
    Evaluator, Policy,
    candidates::{Loaded, accurate},
    model::Model,
    policy::Way,
};
use std::cmp::Reverse;

/// Most fallbacks of a task.
pub const MOST_FALLBACKS: usize = 3;
/// A fallback takes at most this share of the time before.
const FASTER: f64 = 0.9;

/// The fallbacks of a task, the slowest first.
pub(super) fn fallbacks(evaluator: &Evaluator<'_>, policy: &Policy, task: usize) -> Vec<Way> {
    let model = &evaluator.model;
    let candidates = candidates(model, task);
    let total = |way: Way| model.load(task, way).map(|load| Loaded { way, load }.total());
    let Some(mut before_ns) = policy.ways[task].iter().filter_map(|&way| total(way)).min() else {
        return Vec::new();
    };
    let mut found: Vec<Way> = Vec::new();
    while found.len() < MOST_FALLBACKS {
        let is_faster = |way: &&Loaded| way.total() as f64 <= FASTER * before_ns as f64;
        let fits = |way: &&Loaded| {
            let own: Vec<Way> =
                policy.ways[task].iter().chain(&found).copied().chain([way.way]).collect();
            let mut all: Vec<&[Way]> = policy.ways.iter().map(Vec::as_slice).collect();
            all[task] = &own;
            model.fits_memory(&all)
        };
        let rank = |way: &&Loaded| {
            let accuracy_bp = model.accuracy_bp(task, way.way);
            let is_accurate = model.is_accurate(task, way.way);
            (Reverse(is_accurate), Reverse(accuracy_bp), way.total(), way.way)
        };
        let next = candidates.iter().filter(is_faster).filter(fits).min_by_key(rank);
        let Some(next) = next else { break };
        before_ns = next.total();
        found.push(next.way);
    }
    found
}

/// Accurate ways, every variant whole on each processor, and the lightest way in each order.
fn candidates(model: &Model<'_>, task: usize) -> Vec<Loaded> {
    let variants = 0..model.problem.zoo.tasks()[task].variants.len();
    let positions = model.problem.zoo.positions();
    let whole = variants.flat_map(|variant| {
        let stitched = vec![variant; positions];
        model.whole_on_each(task, model.variant_of(task, &stitched))
    });
    let lightest = (0..model.orders.len())
        .filter_map(|order| model.lightest_in(task, order, &|_| 1.0).map(|(_, way)| way));
    let others = whole.chain(lightest);
    let others = others.filter_map(|way| Some(Loaded { way, load: model.load(task, way)? }));
    accurate(model, task).into_iter().chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Arrivals, Problem, Settings, plan, systems::Orders};
    use crate::{
        cost::Interval,
        stitch::{Additive, Slo, Subgraph, Task, Zoo},
    };
    use std::{collections::BTreeMap, sync::Arc};

    /// Three variants of one subgraph on one processor: 40, 20 and 10 ns, 90, 80 and 70 %.
    fn zoo() -> Zoo {
        let subgraph = |ns: u64| Subgraph {
            latency_ns: vec![Some(Interval::exact(ns))],
            memory_bytes: 10,
            boundary_bytes: 0,
            boundary_tensors: 1,
            load_ns: Vec::new(),
        };
        let task = Task {
            name: "task".to_owned(),
            variants: ["dense", "half", "quarter"].map(str::to_owned).to_vec(),
            subgraphs: vec![[40, 20, 10].map(subgraph).to_vec()],
            accuracy: Arc::new(Additive::of_originals(&[9000, 8000, 7000], 1).expect("shares")),
        };
        Zoo::new(vec!["p".to_owned()], BTreeMap::new(), vec![task]).expect("a zoo")
    }

    #[test]
    fn fallbacks_are_faster_and_accurate_ones_come_first_as_far_as_memory_goes() {
        let zoo = zoo();
        let found = |accuracy_bp, memory_bytes| {
            let slo = Slo { accuracy_bp, latency_ns: 100 };
            let mut problem = Problem::new(&zoo, vec![slo], Arrivals::AtOnce);
            problem.memory_bytes = memory_bytes;
            let orders = Orders::of(&zoo).expect("orders");
            let found = plan(&problem, &orders, Settings::default()).expect("a plan");
            let names = |ways: &[super::super::PlacedWay]| -> Vec<String> {
                ways.iter().map(|way| way.variants[0].clone()).collect()
            };
            (names(&found.tasks[0].ways), names(&found.tasks[0].fallbacks))
        };
        let names = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        assert_eq!(found(8500, None), (names(&["dense"]), names(&["half", "quarter"])));
        assert_eq!(found(8500, Some(25)), (names(&["dense"]), names(&["half"])));
        assert_eq!(found(8500, Some(10)), (names(&["dense"]), names(&[])));
        assert_eq!(found(7500, None), (names(&["half"]), names(&["quarter"])));
        assert_eq!(found(7000, None), (names(&["quarter"]), names(&[])));
    }
}
