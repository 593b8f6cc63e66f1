//! ONNX Runtime's optimised export of a model, read again, has the forecast of the model's own
//! file, but for what the engine fuses when it optimises the export a second time.
//!
//! The engine writes its own operators, fused and in its memory formats. They are read as the
//! kernels that they are, and lowering changes those of them that the engine changes as well. That
//! is exact, in f32 and in int8.
//!
//! `VITEMPO_ZOO` names a folder of other models than those of the repository.
#![allow(clippy::unwrap_used)]

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};
use vitempo::{
    bundle::Bundle,
    graph::{
        Environment, Graph, LatencyModel, OpSpec, Precision,
        lowering::{lower, onnxruntime},
        onnx::{self, ReadOptions},
    },
    profiler::{
        Availability, Backend, Model, ModelSource, RunOptions, backends, environment,
        source::{self, Source},
    },
};

fn onnx_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            files.extend(onnx_files(&path));
        } else if path.extension().is_some_and(|e| e == "onnx") {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// Kernels that one graph has and the other has not.
fn differing(a: &Graph, b: &Graph) -> usize {
    let mut counts: BTreeMap<&OpSpec, i64> = BTreeMap::new();
    a.nodes().iter().for_each(|node| *counts.entry(&node.op).or_insert(0) += 1);
    b.nodes().iter().for_each(|node| *counts.entry(&node.op).or_insert(0) -= 1);
    counts.values().map(|count| count.unsigned_abs() as usize).sum()
}

/// The optimised export of a model, and of this export.
fn exports(backend: &dyn Backend, path: &Path, options: &RunOptions) -> (Graph, Graph, Graph) {
    let read = |bytes: &[u8]| onnx::read_bytes("export", bytes, &ReadOptions::default()).unwrap();
    let optimized =
        |model: &Model| backend.load(model, options).unwrap().optimized().unwrap().unwrap();
    let graph = onnx::read_file(path, &ReadOptions::default()).unwrap();
    let file = Source::File(path.to_owned());
    let model = source::ready(graph.name(), &file, &graph, backend, options).unwrap();
    let bytes = optimized(&model);
    let export = read(&bytes);
    let source = ModelSource::Bytes(bytes);
    let again = optimized(&Model { name: "export".to_owned(), graph: export.clone(), source });
    (graph, export, read(&again))
}

/// How the forecasts and kernels of a model and its export differ.
struct Difference {
    /// Share of the forecast.
    forecast: f64,
    /// Kernels that are predicted for the original file, but not in the export, or the other way
    /// round.
    not_exported: usize,
    /// Kernels of the export that lowering changes.
    changed: usize,
    /// Kernels that are not those predicted for the original file, or not in the export.
    unpredicted: usize,
    /// Kernels that the engine changes when it optimises the export again.
    by_engine: usize,
    /// Kernels after that which are not those predicted for the export, or the other way round.
    unpredicted_again: usize,
    kernels: usize,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "forecast {:+.4} %, {} kernels, {} not as exported, {} not as predicted for the export; of \
            the export, {} changed by lowering, {} by the engine, {} not as predicted",
            100.0 * self.forecast,
            self.kernels,
            self.not_exported,
            self.unpredicted,
            self.changed,
            self.by_engine,
            self.unpredicted_again
        )
    }
}

impl Difference {
    fn check(&self, name: &str, precision: Precision, of_the_repository: bool) {
        if of_the_repository || precision == Precision::I8 {
            assert_eq!(self.not_exported, 0, "{name}: kernels of the export");
        }
        assert_eq!(self.unpredicted_again, 0, "{name}: kernels of the export's export");
        // What the engine changes when it loads its own export takes another time.
        let most = match precision {
            _ if self.by_engine == 0 => 1e-9,
            Precision::F32 => 0.002,
            _ => 0.1,
        };
        assert!(self.forecast.abs() <= most, "{name}: {self}");
        if of_the_repository && precision == Precision::F32 {
            assert_eq!(self.unpredicted + self.changed, 0, "{name}: {self}");
        }
    }
}

fn difference(
    (graph, export, again): &(Graph, Graph, Graph),
    environment: &Environment,
    bundle: Option<&Bundle>,
) -> Difference {
    let (predicted, kernels) =
        (lower(graph, environment).unwrap(), lower(export, environment).unwrap());
    let forecast = bundle.map_or(0.0, |bundle| {
        let point = |graph: &Graph| bundle.predict(graph).unwrap().latency.point().ns();
        point(export) / point(graph) - 1.0
    });
    Difference {
        forecast,
        not_exported: differing(&predicted, export),
        changed: differing(export, &kernels),
        unpredicted: differing(&predicted, &kernels),
        by_engine: differing(export, again),
        unpredicted_again: differing(&kernels, again),
        kernels: predicted.nodes().len(),
    }
}

#[test]
fn forecasts_of_optimized_exports_are_those_of_the_files() {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models");
    let zoo = std::env::var_os("VITEMPO_ZOO").map(PathBuf::from);
    let backend = backends::all().into_iter().find(|b| b.name() == "onnxruntime").unwrap();
    for (precision, bundle) in
        [(Precision::F32, "epyc-onnxruntime-f32-1t"), (Precision::I8, "epyc-onnxruntime-int8-1t")]
    {
        let options = RunOptions { precision, ..RunOptions::default() };
        let offered = match backend.probe(&options) {
            Availability::Available(offered) => offered,
            Availability::Unavailable { reason, .. } => {
                eprintln!("skipped: onnxruntime is not here: {reason}");
                return;
            }
        };
        let environment = environment::detect(backend.name(), &offered, &options).unwrap();
        let bundle = Bundle::open(bundle).unwrap();
        // An export is blocked for the machine that wrote it.
        let blocks = |environment: &Environment| onnxruntime::block(environment);
        let comparable = blocks(bundle.environment()) == blocks(&environment);
        for path in onnx_files(zoo.as_deref().unwrap_or(&shipped)) {
            let exports = exports(backend.as_ref(), &path, &options);
            let found = difference(&exports, &environment, comparable.then_some(&bundle));
            let name = path.file_stem().unwrap().to_string_lossy();
            eprintln!("{precision} {name}: {found}");
            let of_the_repository = zoo.is_none();
            found.check(&format!("{precision} {name}"), precision, of_the_repository);
        }
    }
}
