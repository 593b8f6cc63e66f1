//! How good plans for several models are for the evaluations they take: `cargo bench --bench
//! multi_dnn`. 4 tasks of 512 stitched variants arrive at once, in every order, on 2 to 4
//! processors; zoos are random. Beside the search: as many plans drawn at random, and every ratio
//! is of one run.

mod timing;
mod zoos;

use rand::RngExt;
use std::sync::Arc;
use timing::{median, median_us};
use vitempo::planners::{
    multi_dnn::{
        Arrivals, Evaluator, Problem, Proof, Score, Settings, plan,
        systems::{Named, Orders},
    },
    stitch::{
        Additive, Slo, Zoo,
        slo::{Ranges, shared},
    },
};
use zoos::Sizes;

const EVALUATIONS: u64 = 20_000;
/// Of the 25 of the grid.
const CONFIGURATIONS: [usize; 5] = [6, 8, 12, 14, 18];

fn main() {
    println!(
        "4 tasks x 512 variants, at once; {EVALUATIONS} evaluations, {} configurations of the grid \
        each; violated: sum over configurations",
        CONFIGURATIONS.len()
    );
    println!(
        "{:<12} {:>8} {:>8} {:>8} {:>8} {:>8} {:>7} {:>9} {:>11} {:>12}",
        "processors",
        "search",
        "random",
        "systems",
        "bound",
        "of",
        "proven",
        "q/s ratio",
        "time",
        "time ratio"
    );
    (2..=4).for_each(row);
}

fn row(processors: usize) {
    let zoo = zoo(processors);
    let orders = Orders::of(&zoo).expect("orders");
    let grids: Vec<Vec<Slo>> = (0..zoo.tasks().len())
        .map(|task| Ranges::of_originals(&zoo, task, &orders.fixed).expect("ranges").grid())
        .collect();
    let configurations = shared(&grids);
    let (mut violated, mut of, mut proven) = ([0u64; 4], 0, 0);
    let (mut seconds, mut ratios, mut throughputs) = (Vec::new(), Vec::new(), Vec::new());
    for index in CONFIGURATIONS {
        let problem = Problem::new(&zoo, configurations[index].clone(), Arrivals::AtOnce);
        let settings = Settings { evaluations: EVALUATIONS, seed: 0 };
        let (mut found, mut random) = (None, None);
        let searched = median_us(1, || found = plan(&problem, &orders, settings).ok());
        let found = found.expect("a plan");
        let drawn = median_us(1, || random = Some(at_random(&problem, found.evaluations)));
        let random = random.expect("a score");
        ratios.push(drawn / searched);
        seconds.push(searched / 1e6);
        let system = found.best_system(|named| named != Named::StitchedAlone).expect("one runs").1;
        for (sum, count) in violated.iter_mut().zip([
            found.score.violated,
            random.violated,
            system.violated,
            found.bound.violated,
        ]) {
            *sum += count;
        }
        of += found.score.queries;
        proven += usize::from(matches!(found.proof, Proof::Enumerated | Proof::First));
        throughputs.push(found.score.queries_per_s() / random.queries_per_s());
    }
    println!(
        "{processors:<12} {:>8} {:>8} {:>8} {:>8} {of:>8} {proven:>5}/{} {:>9.2} {:>9.2} s {:>12.2}",
        violated[0],
        violated[1],
        violated[2],
        violated[3],
        CONFIGURATIONS.len(),
        median(throughputs),
        median(seconds),
        median(ratios)
    );
}

/// The best of so many plans drawn at random.
fn at_random(problem: &Problem<'_>, count: u64) -> Score {
    let mut evaluator = Evaluator::new(problem).expect("a problem");
    let mut best: Option<Score> = None;
    for seed in 0..count {
        let policy = evaluator.random(seed);
        best = evaluator.score_if_less(&policy, best.as_ref()).or(best);
    }
    best.expect("a plan")
}

/// Each processor has its own speed for each subgraph.
fn zoo(processors: usize) -> Zoo {
    let sizes = Sizes { tasks: 4, variants: 8, positions: 3, processors };
    zoos::random(sizes, 60..160, |rng, ns| {
        let drops = zoos::drops(ns, 700.0, || rng.random_range(0.3..1.3));
        Arc::new(Additive::new(9000, drops).expect("accuracies"))
    })
}
