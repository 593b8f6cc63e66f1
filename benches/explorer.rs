//! What the explorer asks, natively: the peer of WebAssembly in `web/page/scripts/bench.mjs`, which
//! runs both in turns (`make web-bench`).
//!
//! Each line on standard input is one repetition, answered by its times, ms, as JSON. All of them
//! begin with an empty session, and with the allocator of the program.

#![allow(clippy::unwrap_used)]

use mimalloc::MiMalloc;
use serde_json::json;
use std::{
    io::Write,
    path::{Path, PathBuf},
    time::Instant,
};
use vitempo_web::{Session, answers::Dimensions, answers::Read};

#[global_allocator]
static GLOBAL: MiMalloc = MiMalloc;

const MODEL: &str = "vit_tiny_patch16_224.onnx";
const SPACE: &str = "hybrid-vit";

fn main() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let model = std::fs::read(root.join("tests/models").join(MODEL)).unwrap();
    let bundles: Vec<(String, Vec<u8>)> = [root.join("bundles/adapted"), root.join("bundles")]
        .iter()
        .flat_map(|folder| files(folder))
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, std::fs::read(path).unwrap())
        })
        .collect();
    let mut out = std::io::stdout();
    for line in std::io::stdin().lines() {
        // How many architectures are asked for, and by which bundle, with spaces between.
        let line = line.unwrap();
        let mut words = line.split_whitespace();
        let count: usize = words.next().unwrap().parse().unwrap();
        let times = repetition(&model, &bundles, count, words.next().unwrap());
        writeln!(out, "{times}").unwrap();
        out.flush().unwrap();
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> = paths.filter(|path| path.is_file()).collect();
    paths.sort();
    paths
}

fn repetition(
    model: &[u8],
    bundles: &[(String, Vec<u8>)],
    count: usize,
    of: &str,
) -> serde_json::Value {
    let mut session = Session::new();
    let names: Vec<String> =
        bundles.iter().map(|(file, bytes)| session.add_bundle(file, bytes).unwrap().name).collect();
    let read =
        |session: &mut Session| match session.read(MODEL, model, &Dimensions::default()).unwrap() {
            Read::Model(card) => card.id,
            Read::Open { .. } => unreachable!("the model is fixed"),
        };
    let all = |session: &mut Session, id| {
        names.iter().for_each(|name| _ = session.forecast(id, None, name).unwrap());
    };
    let (id, read_ms) = timed(|| read(&mut session));
    let ((), first_ms) = timed(|| all(&mut session, id));
    session.close(id);
    let id = read(&mut session);
    let ((), again_ms) = timed(|| all(&mut session, id));
    let drawn = session.draw(SPACE, count, 1).unwrap();
    let (_, space_ms) = timed(|| session.latencies(SPACE, of, &drawn).unwrap());
    json!({"read": read_ms, "first": first_ms, "again": again_ms, "space": space_ms})
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let start = Instant::now();
    let result = work();
    (result, start.elapsed().as_secs_f64() * 1e3)
}
