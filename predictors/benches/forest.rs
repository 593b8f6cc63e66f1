//! Compiled forests beside the libraries that trained them, on one core, as ratios measured in one run: `cargo bench -p vitempo-predictors --bench forest`.
//!
//! 500 LightGBM trees of 31 leaves and 100 smartcore trees of depth 16, on 20 features: widths, small whole numbers and sizes over six decades.
//! Contenders take turns, round after round, on the thread's CPU clock; printed are medians over the rounds with the quartiles.

#![allow(clippy::unwrap_used)]

use lightgbm::{Booster, Dataset};
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
    (work + row[14] * row[15].sqrt() * 0.1 + row[16] * 3.0 + 500.0).ln() + 0.05 * (random.uniform() + random.uniform() - 1.0)
}

struct Contender<'a> {
    name: String,
    rows: usize,
    run: Box<dyn FnMut() + 'a>,
    ns_per_row: Vec<f64>,
}

impl<'a> Contender<'a> {
    fn new(name: &str, rows: usize, run: impl FnMut() + 'a) -> Self {
        Self { name: name.to_owned(), rows, run: Box::new(run), ns_per_row: Vec::new() }
    }

    /// Runs for a window, a few calls between two looks at the clock.
    fn measure(&mut self) {
        let (start, mut calls) = (cpu_s(), 0);
        let elapsed = loop {
            for _ in 0..(512 / self.rows).max(1) {
                (self.run)();
                calls += 1;
            }
            let elapsed = cpu_s() - start;
            if elapsed > WINDOW_S {
                break elapsed;
            }
        };
        self.ns_per_row.push(elapsed * 1e9 / (calls * self.rows) as f64);
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
    for Contender { name, ns_per_row, .. } in contenders {
        let ratios = peer.iter().zip(&ns_per_row).map(|(peer, own)| peer / own).collect();
        let ([low, median, high], [slow, ratio, fast]) = (quartiles(ns_per_row), quartiles(ratios));
        println!("{name:28} {median:10.0} {low:10.0} {high:10.0}   {ratio:6.1} ({slow:.1} to {fast:.1})");
    }
}

/// A forest once with each set of instructions.
fn with_each_instructions(forest: &CompiledForest) -> Vec<(String, CompiledForest)> {
    Instructions::available().into_iter().map(|i| (format!("compiled, {i:?}"), forest.clone().with_instructions(i))).collect()
}

/// Calls `run` with one row after the other.
fn in_turn<'a>(rows: &'a [f64], mut run: impl FnMut(&[f64]) + 'a) -> impl FnMut() + 'a {
    let mut next = 0;
    move || {
        run(&rows[next..next + FEATURES]);
        next = (next + FEATURES) % rows.len();
    }
}

fn batches<'a>(forests: &'a [(String, CompiledForest)], rows: &'a [f64]) -> Vec<Contender<'a>> {
    let batch = |(name, forest): &'a (String, CompiledForest)| {
        let mut out = vec![0.0; rows.len() / FEATURES];
        Contender::new(name, out.len(), move || forest.predict_batch(black_box(rows), &mut out).unwrap())
    };
    forests.iter().map(batch).collect()
}

fn boosted_trees(x: &[f64], y: &[f64], rows: &[f64]) {
    let labels: Vec<f32> = y.iter().map(|y| *y as f32).collect();
    let parameters =
        json!({ "objective": "regression", "num_iterations": 500, "num_leaves": 31, "learning_rate": 0.05, "num_threads": 1, "verbosity": -1, "seed": 1 });
    let mut booster = Booster::train(Dataset::from_slice(x, &labels, FEATURES as i32, true).unwrap(), &parameters).unwrap();
    booster.single_row_fast_init::<f64>(Some(&json!({ "num_threads": 1 }))).unwrap();
    let forest = CompiledForest::from_lightgbm(&booster.save_string().unwrap()).unwrap();
    let forests = with_each_instructions(&forest);
    for batch in [ROWS, 512, 64] {
        let rows = &rows[..batch * FEATURES];
        let theirs = || drop(black_box(booster.predict_with_params(black_box(rows), FEATURES as i32, true, "num_threads=1").unwrap()));
        let contenders = [Contender::new("LightGBM", batch, theirs)].into_iter().chain(batches(&forests, rows)).collect();
        compare(&format!("{} boosted trees of 31 leaves, {batch} rows at a time", forest.len()), contenders);
    }
    let theirs = Contender::new("LightGBM, one row, fast", 1, in_turn(rows, |row| drop(black_box(booster.predict_single_row_fast(row).unwrap()))));
    let one = |(name, forest): &(String, CompiledForest)| (name.clone(), forest.clone());
    let ours = forests.iter().map(one).map(|(name, forest)| Contender::new(&name, 1, in_turn(rows, move |row| _ = black_box(forest.predict(row)))));
    compare(&format!("{} boosted trees of 31 leaves, one row at a time", forest.len()), [theirs].into_iter().chain(ours).collect());
}

fn random_forest(x: &[f64], y: &[f64], rows: &[f64]) {
    let matrix = |x: &[f64]| DenseMatrix::new(x.len() / FEATURES, FEATURES, x.to_vec(), false).unwrap();
    let parameters = RandomForestRegressorParameters::default().with_n_trees(100).with_max_depth(16).with_m(7).with_seed(1);
    let trained = RandomForestRegressor::fit(&matrix(x), &y.to_vec(), parameters).unwrap();
    let forest = CompiledForest::from_smartcore(&trained, FEATURES).unwrap();
    let forests = [("compiled".to_owned(), forest)];
    let rows = &rows[..1024 * FEATURES];
    let all = matrix(rows);
    let theirs = Contender::new("smartcore", 1024, || drop(black_box(trained.predict(&all).unwrap())));
    compare("random forest of 100 trees, 1024 rows at a time", [theirs].into_iter().chain(batches(&forests, rows)).collect());
    let theirs = Contender::new("smartcore", 1, in_turn(rows, |row| drop(black_box(trained.predict(&matrix(row)).unwrap()))));
    let ours = Contender::new("compiled", 1, in_turn(rows, |row| _ = black_box(forests[0].1.predict(row))));
    compare("random forest of 100 trees, one row at a time", vec![theirs, ours]);
}

fn main() {
    let mut random = Numbers(42);
    let x: Vec<f64> = (0..TRAINING_ROWS).flat_map(|_| random.row()).collect();
    let y: Vec<f64> = x.chunks(FEATURES).map(|row| target(row, &mut random)).collect();
    let rows: Vec<f64> = (0..ROWS).flat_map(|_| random.row()).collect();
    boosted_trees(&x, &y, &rows);
    random_forest(&x, &y, &rows);
}
