//! Forecasts beside neighbours by a bundle whose slowdown model is known.

use super::*;
use crate::forecast::{BesideForecast, forecast_each, forecast_each_beside};
use contended::STREAM;
use std::path::PathBuf;
use vitempo_graph as graph;
use vitempo_predictors as predictors;

#[path = "../../tests/contended/mod.rs"]
mod contended;

fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn with_contention(folder: &Path) -> Bundle {
    let path = contended::bundle(&shipped(""), folder);
    Bundle::open(&path).unwrap_or_else(|e| panic!("{e}"))
}

fn models() -> models::Models {
    let path = shipped("tests/models/mobilevit_xxs.onnx").display().to_string();
    models::read_all(&[path], &ReadOptions::default()).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn a_busier_neighbour_makes_a_model_slower_and_none_leaves_it_as_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let bundle = with_contention(folder.path());
    let options = ReadOptions::default();
    let alone = Bundle::open(shipped("bundles/epyc-rten-f32-1t.vtb")).expect("a bundle");
    let before = forecast_each(&alone, models(), &options);
    let after = forecast_each(&bundle, models(), &options);
    let [before, after] = [&before.forecasts[0], &after.forecasts[0]];
    assert_eq!(before.prediction, after.prediction, "a slowdown model changes nothing by itself");
    assert!(after.beside.is_none());
    let stream = Neighbour::named("stream", &bundle, &options).expect("a load");
    let beside = |demand: Demand| {
        let neighbour = Neighbour { demand, ..stream.clone() };
        let forecast = forecast_each_beside(&bundle, models(), &options, &neighbour);
        let mut forecasts = forecast.expect("forecasts").forecasts;
        forecasts.remove(0)
    };
    let busy = beside(STREAM);
    assert_eq!(busy.prediction, after.prediction);
    let Some(BesideForecast { neighbour, forecast }) = &busy.beside else { panic!("beside") };
    assert_eq!(neighbour, "stream");
    let (slow, fast) = (&forecast.prediction, &after.prediction);
    let factor = forecast.slowdown.point();
    assert!(factor > 1.01 && factor <= 1.5, "{factor}");
    assert!((slow.latency.point().ns() / fast.latency.point().ns() - factor).abs() < 1e-9);
    let sum: f64 = slow.operators.iter().map(|o| o.latency_ns.ns()).sum();
    assert!((sum + slow.overhead.ns() - slow.latency.point().ns()).abs() < 1.0);
    assert!(slow.operators.iter().zip(&fast.operators).all(|(s, f)| s.latency_ns >= f.latency_ns));
    assert!(slow.latency.upper() > fast.latency.upper());
    let half = beside(Demand { bytes_per_s: 5e9, ..STREAM });
    let lesser = half.beside.map(|b| b.forecast.slowdown.point()).expect("beside");
    assert!(lesser > 1.0 && (lesser - 1.0) * 1.99 < factor - 1.0 + 1e-3, "{lesser} {factor}");
    let nothing = beside(Demand { flops_per_s: 0.0, bytes_per_s: 0.0, footprint_bytes: 0.0 });
    assert_eq!(nothing.beside.map(|b| b.forecast.slowdown.point()), Some(1.0));
}

#[test]
fn a_model_is_a_neighbour_and_what_is_not_known_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let bundle = with_contention(folder.path());
    let options = ReadOptions::default();
    let model = shipped("tests/models/vit_tiny_patch16_224.onnx").display().to_string();
    let named = |asked: &str| Neighbour::named(asked, &bundle, &options);
    let path = bundle.location().to_string();
    let neighbour = named(&format!("{model}@{path}")).expect("a model");
    assert_eq!(neighbour.name, "vit_tiny_patch16_224@contended");
    let demand = neighbour.demand;
    assert!(demand.flops_per_s > 1e9 && demand.bytes_per_s > 1e8, "{demand:?}");
    assert!((20e6..30e6).contains(&demand.footprint_bytes), "5.7 million weights: {demand:?}");
    let read = models();
    let graph = &read.read[0].graph;
    let beside = predict_beside(&bundle, graph, &neighbour).expect("a forecast");
    assert!(beside.slowdown.point() > 1.0);
    let error = named("tornado").map(|_| ()).expect_err("no load").to_string();
    assert!(error.contains("`tornado` is neither a load"), "{error}");
    let phone = shipped("bundles/adapted/samsung-galaxy-s24-tflite-npu-f16.vtb");
    let elsewhere = named(&format!("{model}@{}", phone.display())).expect_err("another device");
    assert!(matches!(elsewhere, BesideError::Elsewhere { .. }), "{elsewhere}");
    let unknown = Bundle::open(shipped("bundles/epyc-rten-f32-1t.vtb")).expect("a bundle");
    let error = Neighbour::named("stream", &unknown, &options).expect_err("unknown");
    assert!(error.to_string().contains("contention is not known"), "{error}");
    let error = predict_beside(&unknown, graph, &neighbour).expect_err("unknown");
    assert!(matches!(error, BesideError::Unknown(_)), "{error}");
}
