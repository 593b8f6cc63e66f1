//! Latency queries over a whole search space, on one core: `cargo bench --bench queries`.
//!
//! From the encoding as text to the latency with its interval: with filled tables, with tables that
//! are filled on the way, and by lowering the graph of each, with which the others are compared.
//! Then ONNX files, and the candidates of a search; at the end each figure beside its target. The
//! bundle is the one that ships for ONNX Runtime on one thread, or that of `cargo bench --bench
//! queries -- BUNDLE.vtb`. `predictors/benches/forest.rs` compares its trees with LightGBM's own C
//! API, lleaves and treelite.
//!
//! Times are CPU times of this thread where the system reports them (Linux), so that other programs
//! do not count; those of single files are wall times.

#![allow(clippy::unwrap_used)]

#[cfg(unix)]
#[path = "../cli/src/allocator.rs"]
mod allocator;
mod timing;

use std::{
    hint::black_box,
    path::{Path, PathBuf},
    time::Instant,
};
use timing::{median, median_us};
use vitempo::{
    Bundle,
    graph::{Graph, Latency, LatencyModel, onnx},
    predictors::PredictorBundle,
    query::{SpaceModel, Tables},
    search::{
        Device, Options,
        objective::{Measure, StandIn},
        search,
    },
    search_space::{Architecture, Space},
};

const ENCODINGS: usize = 1_000_000;
/// Architectures that an adapted bundle is asked for.
const ADAPTED: usize = 100_000;
const GRAPHS: usize = 2000;
const REPEATS: usize = 5;
const CANDIDATES: u64 = 1_000_000;
/// What nn-Meter and NNLQP publish for one model, ms.
const PUBLISHED_MS: f64 = 44.0;

/// A figure that has a target.
struct Figure {
    what: String,
    measured: f64,
    unit: &'static str,
    target: f64,
    /// Whether less is better.
    at_most: bool,
}

impl Figure {
    fn at_most(target: f64, unit: &'static str, what: impl Into<String>, measured: f64) -> Self {
        Self { what: what.into(), measured, unit, target, at_most: true }
    }

    fn at_least(target: f64, unit: &'static str, what: impl Into<String>, measured: f64) -> Self {
        Self { at_most: false, ..Self::at_most(target, unit, what, measured) }
    }

    fn print(&self) {
        let Self { what, measured, unit, target, at_most } = self;
        let (factor, bound) =
            if *at_most { (target / measured, "at most") } else { (measured / target, "at least") };
        let result = if factor >= 1.0 { "met" } else { "missed" };
        println!(
            "{what:64} {measured:>12.3} {unit:10} {bound} {target:<8} {result}, by a factor of \
            {factor:.2}"
        );
    }
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

fn bundle() -> PredictorBundle {
    let named = std::env::args().skip(1).find(|argument| !argument.starts_with("--"));
    PredictorBundle::load(
        &named.map_or_else(|| root().join("bundles/epyc-onnxruntime-f32-1t.vtb"), PathBuf::from),
    )
    .unwrap()
}

/// CPU time of this thread, s.
fn cpu_s() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(text.split_whitespace().next()?.parse::<f64>().ok()? * 1e-9)
}

/// CPU time where it is reported, else wall time, s.
fn seconds(run: impl FnOnce()) -> f64 {
    let (start, cpu) = (Instant::now(), cpu_s());
    run();
    cpu.and_then(|before| Some(cpu_s()? - before)).unwrap_or_else(|| start.elapsed().as_secs_f64())
}

/// Median wall time of a short run, ms.
fn median_ms(repeats: usize, run: impl FnMut()) -> f64 {
    median_us(repeats, run) / 1e3
}

/// One line: the way, time of one, how many a second, and how many times as fast as the peer.
fn line(way: &str, each_s: f64, peer_s: f64) {
    println!(
        "{way:44} {:>10.3} us {:>12.0} a second {:>8.0} times as fast",
        each_s * 1e6,
        1.0 / each_s,
        peer_s / each_s
    );
}

/// Architectures of a space, and their encodings.
fn sampled(space: &Space, count: usize) -> (Vec<Architecture>, Vec<String>) {
    let architectures = space.sample_many(count, 1).unwrap();
    let encodings = architectures.iter().map(Architecture::encode).collect();
    (architectures, encodings)
}

/// Time of one architecture by its graph, s.
fn by_graph_s(bundle: &dyn LatencyModel, architectures: &[Architecture]) -> f64 {
    let graph = |a: &Architecture| bundle.predict(&a.to_graph().unwrap()).unwrap().latency;
    seconds(|| architectures[..GRAPHS].iter().for_each(|a| _ = black_box(graph(a)))) / GRAPHS as f64
}

fn spaces(bundle: &PredictorBundle) -> [Figure; 2] {
    let space = Space::named("hybrid-vit").unwrap();
    let (architectures, encodings) = sampled(&space, ENCODINGS);
    let by_graph = by_graph_s(bundle, &architectures);
    println!("\n{ENCODINGS} sampled hybrid vision transformers, {}", bundle.environment.describe());
    line("each by its graph", by_graph, by_graph);
    let graphs: Vec<Graph> =
        architectures[..GRAPHS].iter().map(|a| a.to_graph().unwrap()).collect();
    let batch = seconds(|| drop(black_box(bundle.predict_batch(&graphs).unwrap()))) / GRAPHS as f64;
    line("graphs that are there, in one batch", batch, by_graph);
    drop(graphs);
    let mut tables = Tables::of(&space, bundle);
    let cold = seconds(|| drop(black_box(tables.predict_encodings(&encodings).unwrap())));
    line("encodings, tables made on the way", cold / ENCODINGS as f64, by_graph);
    let again = |tables: &mut Tables<_>| {
        seconds(|| drop(black_box(tables.predict_encodings(&encodings).unwrap())))
    };
    let warm = median((0..REPEATS).map(|_| again(&mut tables)).collect());
    line("encodings, tables there", warm / ENCODINGS as f64, by_graph);
    let values = median(
        (0..REPEATS)
            .map(|_| seconds(|| drop(black_box(tables.predict_batch(&architectures).unwrap()))))
            .collect(),
    );
    line("architectures, tables there", values / ENCODINGS as f64, by_graph);
    let decoding = median(
        (0..REPEATS)
            .map(|_| {
                seconds(|| encodings.iter().for_each(|e| _ = black_box(space.decode(e).unwrap())))
            })
            .collect(),
    );
    line("of it reading the encodings", decoding / ENCODINGS as f64, by_graph);
    println!("{:?}", tables.statistics());
    let unseen: Vec<String> = space.sample_many(ENCODINGS + 100_000, 1).unwrap()[ENCODINGS..]
        .iter()
        .map(Architecture::encode)
        .collect();
    let new = seconds(|| drop(black_box(tables.predict_encodings(&unseen).unwrap())));
    line("100000 encodings that were not asked before", new / unseen.len() as f64, by_graph);
    [
        Figure::at_most(
            2.0,
            "s",
            format!("{ENCODINGS} encodings to intervals, tables there"),
            warm,
        ),
        Figure::at_most(
            20.0,
            "s",
            format!("{ENCODINGS} encodings to intervals, no tables before"),
            cold,
        ),
    ]
}

/// A bundle that was adapted from end-to-end latencies.
fn adapted() -> Figure {
    let name = "samsung-galaxy-s24-tflite-npu-f16";
    let bundle = Bundle::open(root().join(format!("bundles/adapted/{name}.vtb"))).unwrap();
    let space = Space::named("hybrid-vit").unwrap();
    let (architectures, encodings) = sampled(&space, ADAPTED);
    let by_graph = by_graph_s(&bundle, &architectures);
    println!("\n{ADAPTED} of them, {name}, adapted");
    line("each by its graph", by_graph, by_graph);
    let mut forecasts = bundle.over(&space);
    let mut ask = || seconds(|| drop(black_box(forecasts.predict_encodings(&encodings).unwrap())));
    line("encodings, tables made on the way", ask() / ADAPTED as f64, by_graph);
    let warm = median((0..REPEATS).map(|_| ask()).collect()) / ADAPTED as f64;
    line("encodings, tables there", warm, by_graph);
    println!("{:?}", forecasts.statistics());
    Figure::at_least(10.0, "times", "an adapted bundle, as fast as by graphs", by_graph / warm)
}

fn files(bundle: &PredictorBundle) -> Vec<Figure> {
    let mut files: Vec<(String, Vec<u8>)> = Vec::new();
    for entry in std::fs::read_dir(root().join("tests/models"))
        .unwrap()
        .flatten()
        .filter(|e| e.path().extension().is_some_and(|e| e == "onnx"))
    {
        files.push((
            entry.file_name().to_string_lossy().into_owned(),
            std::fs::read(entry.path()).unwrap(),
        ));
    }
    files.sort();
    let space = Space::named("hybrid-vit").unwrap();
    let write = |a: &Architecture| {
        onnx::to_bytes(
            &a.to_graph().unwrap(),
            &onnx::WriteOptions { weights: onnx::WeightFill::Omitted },
        )
        .unwrap()
    };
    let sampled: Vec<Vec<u8>> = space.sample_many(100, 3).unwrap().iter().map(write).collect();
    let read =
        |bytes: &[u8]| onnx::read_bytes("model", bytes, &onnx::ReadOptions::default()).unwrap();
    let predict = |graph: &Graph| drop(black_box(bundle.predict(graph).unwrap()));
    // Forests are compiled on first use, and operators are cached: the first time is that of models
    // whose forests are compiled.
    space.sample_many(50, 4).unwrap().iter().for_each(|a| predict(&a.to_graph().unwrap()));
    let first = seconds(|| sampled.iter().for_each(|bytes| predict(&read(bytes)))) * 1e3
        / sampled.len() as f64;
    println!("\nONNX files in memory, without weights");
    let mut figures = vec![
        Figure::at_most(
            1.0,
            "ms",
            "one of 100 sampled ONNX files to interval, the first time",
            first,
        ),
        Figure::at_least(
            PUBLISHED_MS,
            "times",
            format!("as fast as the {PUBLISHED_MS} ms published for nn-Meter and NNLQP"),
            PUBLISHED_MS / first,
        ),
    ];
    for (name, bytes) in &files {
        let whole = median_ms(21, || predict(&read(bytes)));
        let reading = median_ms(21, || drop(black_box(read(bytes))));
        println!("{name:44} {whole:>10.3} ms, of it reading {reading:.3} ms");
        figures.push(Figure::at_most(1.0, "ms", format!("{name} to interval, again"), whole));
    }
    let each = |run: &dyn Fn(&Vec<u8>)| {
        median_ms(7, || sampled.iter().for_each(run)) / sampled.len() as f64
    };
    let (whole, reading) =
        (each(&|bytes| predict(&read(bytes))), each(&|bytes| drop(black_box(read(bytes)))));
    println!(
        "{:44} {whole:>10.3} ms, of it reading {reading:.3} ms; the first time {first:.3} ms",
        "one of 100 sampled hybrid ViTs"
    );
    let graphs: Vec<Graph> = sampled.iter().map(|bytes| read(bytes)).collect();
    let batch = median_ms(7, || drop(black_box(bundle.predict_batch(&graphs).unwrap())))
        / graphs.len() as f64;
    println!("{:44} {batch:>10.3} ms", "their graphs in one batch");
    figures
}

fn searches(bundle: &PredictorBundle) -> Vec<Figure> {
    let space = Space::named("hybrid-vit").unwrap();
    let sample = space.sample_many(1000, 2).unwrap();
    let mut times: Vec<f64> = Tables::of(&space, bundle)
        .predict_batch(&sample)
        .unwrap()
        .iter()
        .map(|l| l.point().ns())
        .collect();
    times.sort_by(f64::total_cmp);
    let devices = [Device {
        bundle,
        ceiling: Some(Latency::from_ns(times[times.len() / 2])),
        memory_ceiling: None,
    }];
    println!(
        "\nsearch of {CANDIDATES} candidates, a ceiling at the median latency, FLOPs for a score, \
        tables made on the way"
    );
    let mut figures = Vec::new();
    for population in [200, 1000] {
        let options = Options { candidates: CANDIDATES, population, seed: 1, upper: false };
        let mut objective = StandIn::new(&space, Measure::Flops);
        let time = seconds(|| {
            drop(black_box(
                search(&space, &devices, &mut objective, options, &mut |_| true).unwrap(),
            ));
        });
        let rate = CANDIDATES as f64 / time;
        println!("generations of {population:<5} {rate:>10.0} candidates a second");
        figures.push(Figure::at_least(
            100_000.0,
            "a second",
            format!("candidates searched in generations of {population}"),
            rate,
        ));
    }
    figures
}

fn main() {
    let bundle = bundle();
    let files = files(&bundle);
    let spaces = spaces(&bundle);
    let adapted = [adapted()];
    let searches = searches(&bundle);
    println!("\n{:64} {:>12}", "targets", "measured");
    files.iter().chain(&spaces).chain(&adapted).chain(&searches).for_each(Figure::print);
}
