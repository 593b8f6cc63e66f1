//! Compiled forests beside the libraries that trained them, on one core, as ratios measured in one
//! run: `cargo bench -p vitempo-predictors --bench forest`.
//!
//! 500 LightGBM trees of 31 leaves and 100 smartcore trees of depth 16, on 20 features: widths,
//! small whole numbers and sizes over six decades. All are timed in turns by the thread's CPU
//! clock; the bench prints medians and quartiles over the rounds, and the targets. Where
//! `VITEMPO_BENCH_PYTHON` names a Python that has lleaves or treelite, these take part.

#![allow(clippy::unwrap_used)]

mod peers;

use lightgbm::{Booster, Dataset};
use peers::Peers;
use serde_json::json;
use smartcore::{
    ensemble::random_forest_regressor::{RandomForestRegressor, RandomForestRegressorParameters},
    linalg::basic::matrix::DenseMatrix,
};
use std::hint::black_box;
use vitempo_predictors::forest::{CompiledForest, Instructions};

const FEATURES: usize = 20;
const TRAINING_ROWS: usize = 10_000;
const ROWS: usize = 8192;
const ROUNDS: usize = 15;
/// CPU time of one contender in one round, s.
const WINDOW_S: f64 = 0.03;

/// CPU time of this thread, s.
fn cpu_s() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a timespec to write to.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// A small generator of numbers between 0 and 1.
struct Numbers(u64);

impl Numbers {
    fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    fn row(&mut self) -> [f64; FEATURES] {
        std::array::from_fn(|i| match i {
            0..8 => 2f64.powi((3.0 + self.uniform() * 8.0) as i32),
            8..14 => (1.0 + self.uniform() * 7.0).floor(),
            _ => 10f64.powf(self.uniform() * 6.0),
        })
    }
}

/// Logarithm of a latency: work over a rate that depends on alignment, memory and noise.
fn target(row: &[f64], random: &mut Numbers) -> f64 {
    let work = row[0] * row[1] * row[8] * row[9] * (1.0 + 0.3 * (row[2] / 64.0).min(2.0));
    (work + row[14] * row[15].sqrt() * 0.1 + row[16] * 3.0 + 500.0).ln()
        + 0.05 * (random.uniform() + random.uniform() - 1.0)
}

/// What is timed.
enum Runner<'a> {
    Here(Box<dyn FnMut() + 'a>),
    Peer(&'a Peers),
}

struct Contender<'a> {
    name: String,
    rows: usize,
    runner: Runner<'a>,
    /// How many times as fast as the peer it should be.
    goal: Option<f64>,
    ns_per_row: Vec<f64>,
}

impl<'a> Contender<'a> {
    fn new(name: &str, rows: usize, run: impl FnMut() + 'a) -> Self {
        Self {
            name: name.to_owned(),
            rows,
            runner: Runner::Here(Box::new(run)),
            goal: None,
            ns_per_row: Vec::new(),
        }
    }

    fn peers(peers: Option<&'a Peers>, rows: usize) -> impl Iterator<Item = Self> {
        let peer = move |peers: &'a Peers, name: &String| Self {
            name: name.clone(),
            rows,
            runner: Runner::Peer(peers),
            goal: None,
            ns_per_row: Vec::new(),
        };
        peers
            .into_iter()
            .flat_map(move |peers| peers.names.iter().map(move |name| peer(peers, name)))
    }

    fn measure(&mut self) {
        let ns_per_row = match &mut self.runner {
            Runner::Here(run) => ns_per_row(self.rows, run),
            Runner::Peer(peers) => peers.ns_per_row(&self.name, self.rows, WINDOW_S),
        };
        self.ns_per_row.push(ns_per_row);
    }
}

/// Runs for a window, a few calls between two looks at the clock.
fn ns_per_row(rows: usize, run: &mut dyn FnMut()) -> f64 {
    let (start, mut calls) = (cpu_s(), 0);
    loop {
        for _ in 0..(512 / rows).max(1) {
            run();
            calls += 1;
        }
        let elapsed = cpu_s() - start;
        if elapsed > WINDOW_S {
            return elapsed * 1e9 / (calls * rows) as f64;
        }
    }
}

/// Lower quartile, median, upper quartile.
fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [1, 2, 3].map(|q| values[q * (values.len() - 1) / 4])
}

/// Rounds of all contenders in turn; the first is the peer that the others are compared with.
fn compare(title: &str, mut contenders: Vec<Contender<'_>>) {
    for round in 0..=ROUNDS {
        contenders.iter_mut().for_each(Contender::measure);
        if round == 0 {
            contenders.iter_mut().for_each(|c| c.ns_per_row.clear());
        }
    }
    println!("\n{title}\n{:28} {:>10} {:>21}   times as fast", "", "ns/row", "quartiles");
    let peer = contenders[0].ns_per_row.clone();
    for Contender { name, goal, ns_per_row, .. } in contenders {
        let ratios = peer.iter().zip(&ns_per_row).map(|(peer, own)| peer / own).collect();
        let ([low, median, high], [slow, ratio, fast]) = (quartiles(ns_per_row), quartiles(ratios));
        let goal = goal.map_or_else(String::new, |goal| {
            format!("  target {goal}: {}", if ratio >= goal { "met" } else { "not met" })
        });
        println!(
            "{name:28} {median:10.0} {low:10.0} {high:10.0}   {ratio:6.1} ({slow:.1} to \
            {fast:.1}){goal}"
        );
    }
}

/// A compiled forest, and how many times as fast as the library that trained it it should be: in
/// batches, and row by row.
struct Compiled {
    name: String,
    forest: CompiledForest,
    goals: [f64; 2],
}

/// A forest once with each set of instructions.
fn with_each_instructions(forest: &CompiledForest) -> Vec<Compiled> {
    let compiled = |instructions: Instructions| {
        let name = format!("compiled, {instructions:?}");
        let goals = [if name.ends_with("Avx512") { 50.0 } else { 15.0 }, 5.0];
        Compiled { name, forest: forest.clone().with_instructions(instructions), goals }
    };
    Instructions::available().into_iter().map(compiled).collect()
}

/// Calls `run` with one row after the other.
fn in_turn<'a>(rows: &'a [f64], mut run: impl FnMut(&[f64]) + 'a) -> impl FnMut() + 'a {
    let mut next = 0;
    move || {
        run(&rows[next..next + FEATURES]);
        next = (next + FEATURES) % rows.len();
    }
}

fn batches<'a>(forests: &'a [Compiled], rows: &'a [f64]) -> Vec<Contender<'a>> {
    let batch = |Compiled { name, forest, goals }: &'a Compiled| {
        let mut out = vec![0.0; rows.len() / FEATURES];
        let contender = Contender::new(name, out.len(), move || {
            forest.predict_batch(black_box(rows), &mut out).unwrap();
        });
        Contender { goal: Some(goals[0]), ..contender }
    };
    forests.iter().map(batch).collect()
}

fn one_by_one<'a>(forests: &'a [Compiled], rows: &'a [f64]) -> Vec<Contender<'a>> {
    let one = |Compiled { name, forest, goals }: &'a Compiled| {
        let contender =
            Contender::new(name, 1, in_turn(rows, move |row| _ = black_box(forest.predict(row))));
        Contender { goal: Some(goals[1]), ..contender }
    };
    forests.iter().map(one).collect()
}

/// Prints the differences of peers from our forecasts, relative to the forecast.
fn check(peers: &Peers, forest: &CompiledForest, rows: &[f64]) {
    let rows = &rows[..512 * FEATURES];
    let mut ours = vec![0.0; 512];
    forest.predict_batch(rows, &mut ours).unwrap();
    for name in &peers.names {
        let differences = peers
            .forecasts(name, ours.len())
            .into_iter()
            .zip(&ours)
            .map(|(theirs, ours)| (theirs / ours - 1.0).abs());
        println!("{name}: forecasts differ by up to {:.1e}", differences.fold(0.0, f64::max));
    }
}

fn boosted_trees(x: &[f64], y: &[f64], rows: &[f64]) {
    let labels: Vec<f32> = y.iter().map(|y| *y as f32).collect();
    let parameters = json!({ "objective": "regression", "num_iterations": 500, "num_leaves": 31, "learning_rate": 0.05, "num_threads": 1, "verbosity": -1, "seed": 1 });
    let mut booster = Booster::train(
        Dataset::from_slice(x, &labels, FEATURES as i32, true).unwrap(),
        &parameters,
    )
    .unwrap();
    booster.single_row_fast_init::<f64>(Some(&json!({ "num_threads": 1 }))).unwrap();
    let text = booster.save_string().unwrap();
    let forest = CompiledForest::from_lightgbm(&text).unwrap();
    let peers = Peers::start(&text, rows, FEATURES);
    peers.iter().for_each(|peers| check(peers, &forest, rows));
    let forests = with_each_instructions(&forest);
    for batch in [ROWS, 512, 64] {
        let rows = &rows[..batch * FEATURES];
        let theirs = || {
            drop(black_box(
                booster
                    .predict_with_params(black_box(rows), FEATURES as i32, true, "num_threads=1")
                    .unwrap(),
            ));
        };
        let theirs = [Contender::new("LightGBM", batch, theirs)]
            .into_iter()
            .chain(Contender::peers(peers.as_ref(), batch));
        let contenders = theirs.chain(batches(&forests, rows)).collect();
        compare(
            &format!("{} boosted trees of 31 leaves, {batch} rows at a time", forest.len()),
            contenders,
        );
    }
    let theirs = Contender::new(
        "LightGBM, one row, fast",
        1,
        in_turn(rows, |row| drop(black_box(booster.predict_single_row_fast(row).unwrap()))),
    );
    let theirs = [theirs].into_iter().chain(Contender::peers(peers.as_ref(), 1));
    compare(
        &format!("{} boosted trees of 31 leaves, one row at a time", forest.len()),
        theirs.chain(one_by_one(&forests, rows)).collect(),
    );
}

fn random_forest(x: &[f64], y: &[f64], rows: &[f64]) {
    let matrix =
        |x: &[f64]| DenseMatrix::new(x.len() / FEATURES, FEATURES, x.to_vec(), false).unwrap();
    let parameters = RandomForestRegressorParameters::default()
        .with_n_trees(100)
        .with_max_depth(16)
        .with_m(7)
        .with_seed(1);
    let trained = RandomForestRegressor::fit(&matrix(x), &y.to_vec(), parameters).unwrap();
    let forest = CompiledForest::from_smartcore(&trained, FEATURES).unwrap();
    let forests = [Compiled { name: "compiled".to_owned(), forest, goals: [5.0; 2] }];
    let rows = &rows[..1024 * FEATURES];
    let all = matrix(rows);
    let theirs =
        Contender::new("smartcore", 1024, || drop(black_box(trained.predict(&all).unwrap())));
    compare(
        "random forest of 100 trees, 1024 rows at a time",
        [theirs].into_iter().chain(batches(&forests, rows)).collect(),
    );
    let theirs = Contender::new(
        "smartcore",
        1,
        in_turn(rows, |row| drop(black_box(trained.predict(&matrix(row)).unwrap()))),
    );
    compare(
        "random forest of 100 trees, one row at a time",
        [theirs].into_iter().chain(one_by_one(&forests, rows)).collect(),
    );
}

fn main() {
    let mut random = Numbers(42);
    let x: Vec<f64> = (0..TRAINING_ROWS).flat_map(|_| random.row()).collect();
    let y: Vec<f64> = x.chunks(FEATURES).map(|row| target(row, &mut random)).collect();
    let rows: Vec<f64> = (0..ROWS).flat_map(|_| random.row()).collect();
    boosted_trees(&x, &y, &rows);
    random_forest(&x, &y, &rows);
}
