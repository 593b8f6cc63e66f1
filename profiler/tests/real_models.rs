//! Sweeps over real models on every engine of this machine: the models of the repository, and those
//! in the folder that `VITEMPO_ZOO` names. They have no weights. Prints one line per model run.

#![allow(clippy::unwrap_used)]

mod here;

use std::{
    path::{Path, PathBuf},
    sync::atomic::AtomicBool,
    time::Duration,
};
use vitempo_graph::{ModelIdentity, ModelProfile, OpKind, Processor, Status, onnx};
use vitempo_profiler::{
    Backend, Hooks, MemoryRuns, RunOptions, RunProtocol, Source, Sweep, SweepModel, WorkerCommand,
    backends,
};

fn onnx_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files.extend(onnx_files(&path));
        } else if path.extension().is_some_and(|e| e == "onnx") {
            files.push(path);
        }
    }
    files.sort();
    files
}

fn model(path: PathBuf) -> SweepModel {
    let graph = onnx::read_file(&path, &onnx::ReadOptions::default()).unwrap();
    let name = path.file_stem().unwrap().to_string_lossy().into_owned();
    let identity =
        ModelIdentity { name, architecture: graph.architecture(), space: None, encoding: None };
    SweepModel { identity, graph, source: Source::File(path) }
}

/// Name, end to end, sum of operators / end to end (by wall time, and by CPU time, which a busy
/// machine does not stretch), operators, and the kernels vitempo cannot describe.
fn line(profile: &ModelProfile) -> String {
    let e2e = profile.e2e.median_ns().unwrap_or_default();
    let sum: f64 = profile.operators.iter().filter_map(|o| o.samples.median_ns()).sum();
    let mut unknown: Vec<_> = profile
        .operators
        .iter()
        .filter(|o| matches!(o.op.kind, OpKind::Unsupported(_)))
        .map(|o| &o.kernel)
        .collect();
    unknown.sort();
    unknown.dedup();
    let name = format!("{} {}", profile.environment.framework, profile.model.name);
    let (share, cpu_share) = (sum / e2e, sum / profile.e2e.median_cpu_ns().unwrap_or(f64::NAN));
    let count = profile.operators.len();
    format!(
        "{name:45} {:8.2} ms, {count} operators, {share:.3} of it ({cpu_share:.3} of CPU time), \
        unknown {unknown:?} {:?}",
        e2e / 1e6,
        profile.status
    )
}

#[test]
fn real_models_without_weights_can_be_measured() {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/models");
    let folder = std::env::var_os("VITEMPO_ZOO").map_or(shipped, PathBuf::from);
    let models: Vec<_> = onnx_files(&folder).into_iter().map(model).collect();
    assert!(!models.is_empty(), "no models in {}", folder.display());
    let available = |backend: &dyn Backend| {
        here::offered(backend, &RunOptions::default())
            .is_some_and(|offered| offered.devices.contains(&Processor::Cpu))
    };
    for backend in
        backends::all().into_iter().filter(|b| b.name() != "null" && available(b.as_ref()))
    {
        let sweep = Sweep {
            models: models.clone(),
            backend: backend.name().to_owned(),
            options: RunOptions::default(),
            protocol: RunProtocol::default(),
            only_round: None,
            budget: None,
            run_timeout: Duration::from_secs(120),
            target: WorkerCommand {
                program: env!("CARGO_BIN_EXE_vitempo-test-worker").into(),
                args: Vec::new(),
                env: Vec::new(),
            }
            .into(),
            session: "test".to_owned(),
            beside: None,
            memory: MemoryRuns::Never,
        };
        let mut profiles = Vec::new();
        let mut sink = |profile: &ModelProfile| {
            eprintln!("{}", line(profile));
            profiles.push(profile.clone());
            Ok(())
        };
        let hooks = Hooks {
            done: &|_, _| false,
            sink: &mut sink,
            progress: &mut |_| {},
            interrupted: &AtomicBool::new(false),
        };
        let summary = sweep.run(hooks).unwrap();
        eprintln!(
            "{}: {} measured, {} failed in {:.1?}",
            backend.name(),
            summary.measured,
            summary.failed.len(),
            summary.elapsed
        );
        for profile in profiles.iter().filter(|p| p.status == Status::Ok) {
            assert!(
                profile.e2e.median_ns().unwrap() > 0.0 && !profile.operators.is_empty(),
                "{}",
                profile.model.name
            );
            assert_eq!(profile.reference.wall_ns.len(), 2 * sweep.protocol.reference_repeats);
        }
        if std::env::var_os("VITEMPO_ZOO").is_none() {
            assert_eq!(summary.failed, [], "{}", backend.name());
        }
    }
}
