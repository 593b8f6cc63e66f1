//! The library's own times for what `speed.py` measures from Python, as one line of JSON, seconds:
//! `cargo bench -p vitempo-python --bench library`.

use std::{error::Error, hint::black_box, path::Path, time::Instant};
use vitempo::{
    Bundle,
    graph::{LatencyModel, onnx},
    query::{SharedForecasts, Tables},
    search_space::{Architecture, Space},
};

const REPEATS: usize = 5;
const FILES: usize = 30;
const ONE_BY_ONE: usize = 20_000;

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds.get(seconds.len() / 2).copied().unwrap_or(f64::NAN)
}

fn timed<T>(run: impl FnOnce() -> T) -> f64 {
    let start = Instant::now();
    black_box(run());
    start.elapsed().as_secs_f64()
}

fn main() -> Result<(), Box<dyn Error>> {
    let count = std::env::var("ENCODINGS").ok().and_then(|n| n.parse().ok()).unwrap_or(1_000_000);
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let bundle = Bundle::open("epyc-onnxruntime-f32-1t")?;
    let file = root.join("tests/models/vit_tiny_patch16_224.onnx");
    let forecast = || -> Result<_, Box<dyn Error>> {
        Ok(bundle.predict(&onnx::read_file(&file, &onnx::ReadOptions::default())?)?)
    };
    forecast()?;
    let one_file = median((0..FILES).map(|_| timed(forecast)).collect());

    let space = Space::named("hybrid-vit")?;
    let architectures = space.sample_many(count, 1)?;
    let encodings: Vec<String> = architectures.iter().map(Architecture::encode).collect();
    let trained = bundle.trained().ok_or("an adapted bundle")?;
    let mut tables = Tables::of(&space, trained);
    tables.predict_encodings(&encodings)?;
    let filled =
        median((0..REPEATS).map(|_| timed(|| tables.predict_encodings(&encodings))).collect());

    let shared = SharedForecasts::new(bundle.clone(), space.into());
    let threads = vitempo::processors();
    shared.predict_encodings(&encodings, threads, &|| false)?;
    let all_cores = || shared.predict_encodings(&encodings, threads, &|| false);
    let all_cores = median((0..REPEATS).map(|_| timed(all_cores)).collect());
    let single = |text: &String| {
        shared.space().decode(text).map_err(Into::into).and_then(|a| shared.predict(&a))
    };
    let some = &encodings[..ONE_BY_ONE.min(encodings.len())];
    let one_by_one = || some.iter().filter(|text| single(text).is_ok()).count();
    one_by_one();
    let each = median((0..REPEATS).map(|_| timed(one_by_one)).collect()) / some.len() as f64;

    println!(
        "{{\"encodings\":{count},\"one_file\":{one_file},\"one_thread\":{filled},\
         \"all_cores\":{all_cores},\"each\":{each}}}"
    );
    Ok(())
}
