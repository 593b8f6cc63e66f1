//! A whole search space asked for latencies, on one core: `cargo bench --bench queries`.
//!
//! From the encoding as text to the latency with its interval: with tables that are there, with tables that are made on the way, and by making each
//! graph and lowering it, which is the peer the others are compared with. Then ONNX files, and candidates of a search. The predictors are LightGBM's
//! trees, trained on the measurements that ship with vitempo (a minute); `VITEMPO_BUNDLE=file.vtb` takes a bundle instead. How much of a row's time is
//! the trees', beside LightGBM's own C API, is what `predictors/benches/forest.rs` measures.

#![allow(clippy::unwrap_used)]

use std::{hint::black_box, path::Path, time::Instant};
use vitempo::{
    datasets::Dataset,
    graph::{Graph, LatencyModel, onnx},
    predictors::{Method, PredictorBundle, TrainOptions, train},
    query::Tables,
    search::{
        Device, Options,
        objective::{Measure, StandIn},
        search,
    },
    search_space::{Architecture, Space},
};

const ENCODINGS: usize = 1_000_000;
const GRAPHS: usize = 2000;
const REPEATS: usize = 5;
const CANDIDATES: u64 = 300_000;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn bundle() -> PredictorBundle {
    if let Some(path) = std::env::var_os("VITEMPO_BUNDLE") {
        return PredictorBundle::load(Path::new(&path)).unwrap();
    }
    println!("training on the shipped measurements");
    let folder = root().join("datasets/measured/epyc-onnxruntime-f32-1t");
    let environments = Dataset::environments(&folder).unwrap();
    let most = environments.iter().max_by_key(|(_, visits)| **visits).unwrap().0;
    let dataset = Dataset::load_environment(&folder, |id| id == most).unwrap();
    let synthetic: Vec<_> = dataset.profiles.iter().filter(|p| p.model.space.is_some()).cloned().collect();
    train(&synthetic, &dataset.graphs, Method::Gbdt, &TrainOptions { folds: 2, ..TrainOptions::default() }, &mut |_| {}).unwrap()
}

fn seconds(run: impl FnOnce()) -> f64 {
    let start = Instant::now();
    run();
    start.elapsed().as_secs_f64()
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// One line: the way, time of one, how many a second, and how many times as fast as the peer.
fn line(way: &str, each_s: f64, peer_s: f64) {
    println!("{way:44} {:>10.3} us {:>12.0} a second {:>8.0} times as fast", each_s * 1e6, 1.0 / each_s, peer_s / each_s);
}

fn spaces(bundle: &PredictorBundle) {
    let space = Space::named("hybrid-vit").unwrap();
    let architectures = space.sample_many(ENCODINGS, 1).unwrap();
    let encodings: Vec<String> = architectures.iter().map(Architecture::encode).collect();
    let graph = |a: &Architecture| bundle.predict(&a.to_graph().unwrap()).unwrap().latency;
    let by_graph = seconds(|| architectures[..GRAPHS].iter().for_each(|a| _ = black_box(graph(a)))) / GRAPHS as f64;
    println!("\n{ENCODINGS} sampled hybrid vision transformers, {}", bundle.environment.describe());
    line("each by its graph", by_graph, by_graph);
    let mut tables = Tables::of(&space, bundle);
    let cold = seconds(|| drop(black_box(tables.predict_encodings(&encodings).unwrap())));
    line("encodings, tables made on the way", cold / ENCODINGS as f64, by_graph);
    let again = |tables: &mut Tables<_>| seconds(|| drop(black_box(tables.predict_encodings(&encodings).unwrap())));
    let warm = median((0..REPEATS).map(|_| again(&mut tables)).collect());
    line("encodings, tables there", warm / ENCODINGS as f64, by_graph);
    let values = median((0..REPEATS).map(|_| seconds(|| drop(black_box(tables.predict_batch(&architectures).unwrap())))).collect());
    line("architectures, tables there", values / ENCODINGS as f64, by_graph);
    println!("all: {cold:.2} s making tables on the way, {warm:.2} s with tables; {:?}", tables.statistics());
    let unseen: Vec<String> = space.sample_many(ENCODINGS + 100_000, 1).unwrap()[ENCODINGS..].iter().map(Architecture::encode).collect();
    let new = seconds(|| drop(black_box(tables.predict_encodings(&unseen).unwrap())));
    line("100000 encodings that were not asked before", new / unseen.len() as f64, by_graph);
}

fn files(bundle: &PredictorBundle) {
    let mut files: Vec<(String, Vec<u8>)> = Vec::new();
    for entry in std::fs::read_dir(root().join("tests/models")).unwrap().flatten().filter(|e| e.path().extension().is_some_and(|e| e == "onnx")) {
        files.push((entry.file_name().to_string_lossy().into_owned(), std::fs::read(entry.path()).unwrap()));
    }
    files.sort();
    let space = Space::named("hybrid-vit").unwrap();
    let write = |a: &Architecture| onnx::to_bytes(&a.to_graph().unwrap(), &onnx::WriteOptions { weights: onnx::WeightFill::Omitted }).unwrap();
    let sampled: Vec<Vec<u8>> = space.sample_many(100, 3).unwrap().iter().map(write).collect();
    let read = |bytes: &[u8]| onnx::read_bytes("model", bytes, &onnx::ReadOptions::default()).unwrap();
    let predict = |graph: &Graph| drop(black_box(bundle.predict(graph).unwrap()));
    println!("\nONNX files in memory, without weights");
    for (name, bytes) in &files {
        let whole = median((0..21).map(|_| seconds(|| predict(&read(bytes)))).collect());
        let reading = median((0..21).map(|_| seconds(|| drop(black_box(read(bytes))))).collect());
        println!("{name:44} {:>10.3} ms, of it reading {:.3} ms", whole * 1e3, reading * 1e3);
    }
    let all = |forecast: bool| {
        let one = |bytes: &Vec<u8>| if forecast { predict(&read(bytes)) } else { drop(black_box(read(bytes))) };
        median((0..7).map(|_| seconds(|| sampled.iter().for_each(one))).collect()) / sampled.len() as f64
    };
    println!("{:44} {:>10.3} ms, of it reading {:.3} ms", "100 sampled hybrid vision transformers", all(true) * 1e3, all(false) * 1e3);
    let graphs: Vec<Graph> = sampled.iter().map(|bytes| read(bytes)).collect();
    let batch = median((0..7).map(|_| seconds(|| drop(black_box(bundle.predict_batch(&graphs).unwrap())))).collect()) / graphs.len() as f64;
    println!("{:44} {:>10.3} ms", "their graphs in one batch", batch * 1e3);
}

fn searches(bundle: &PredictorBundle) {
    let space = Space::named("hybrid-vit").unwrap();
    let sample = space.sample_many(1000, 2).unwrap();
    let mut times: Vec<f64> = Tables::of(&space, bundle).predict_batch(&sample).unwrap().iter().map(|l| l.point.ns()).collect();
    times.sort_by(f64::total_cmp);
    let devices = [Device { bundle, ceiling: Some(vitempo::graph::Latency::from_ns(times[times.len() / 2])) }];
    println!("\nsearch of {CANDIDATES} candidates, a ceiling at the median latency, FLOPs for a score");
    for population in [200, 1000] {
        let options = Options { candidates: CANDIDATES, population, seed: 1, upper: false };
        let mut objective = StandIn::new(&space, Measure::Flops);
        let time = seconds(|| drop(black_box(search(&space, &devices, &mut objective, options, &mut |_| true).unwrap())));
        println!("generations of {population:<5} {:>10.0} candidates a second, tables made on the way", CANDIDATES as f64 / time);
    }
}

fn main() {
    let bundle = bundle();
    files(&bundle);
    spaces(&bundle);
    searches(&bundle);
}
