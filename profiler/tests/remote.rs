//! Agents as a sweep uses them: the small program over stdin and stdout, and one whose engine fails
//! in every way.

#![allow(clippy::unwrap_used)]

use std::{
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};
use vitempo_graph::{ModelIdentity, ModelProfile, Status, onnx};
use vitempo_profiler::{
    Hooks, MemoryRuns, RunOptions, RunProtocol, Source, Summary, Sweep, SweepModel, Target,
    WorkerCommand, reference, remote::Remote,
};

fn sweep(target: Target, backend: &str, models: Vec<SweepModel>) -> Sweep {
    let protocol = RunProtocol { profiled_repeats: 3, ..RunProtocol::default() };
    Sweep {
        models,
        backend: backend.to_owned(),
        options: RunOptions::default(),
        protocol,
        only_round: None,
        budget: None,
        run_timeout: Duration::from_secs(30),
        target,
        session: "test".to_owned(),
        beside: None,
        memory: MemoryRuns::Never,
    }
}

fn named(name: &str, source: Source) -> SweepModel {
    let graph = reference::graph().unwrap();
    SweepModel {
        identity: ModelIdentity {
            name: name.to_owned(),
            architecture: graph.architecture(),
            space: None,
            encoding: None,
        },
        graph,
        source,
    }
}

fn run(sweep: &Sweep, interrupted: &AtomicBool) -> (Vec<ModelProfile>, Summary) {
    let mut profiles = Vec::new();
    let mut sink = |profile: &ModelProfile| {
        profiles.push(profile.clone());
        Ok(())
    };
    let summary = sweep
        .run(Hooks { done: &|_, _| false, sink: &mut sink, progress: &mut |_| {}, interrupted })
        .unwrap();
    (profiles, summary)
}

/// An agent that this program starts, for a sweep.
fn agent(words: &[&str]) -> Remote {
    let command = words.iter().map(|&word| word.to_owned()).collect();
    Remote::new(command, 2, |notice| eprintln!("{notice}"))
}

/// The small program.
fn small(folder: &Path) -> Remote {
    let program = env!("CARGO_BIN_EXE_vitempo-agent");
    agent(&[program, "--folder", folder.to_str().unwrap()])
}

fn worker() -> WorkerCommand {
    WorkerCommand {
        program: env!("CARGO_BIN_EXE_vitempo-test-worker").into(),
        args: Vec::new(),
        env: Vec::new(),
    }
}

#[test]
fn the_small_program_brings_what_a_worker_here_brings() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("reference.onnx");
    let weightless = onnx::WriteOptions::default();
    onnx::write_file(&file, &reference::graph().unwrap(), &weightless).unwrap();
    let models = || vec![named("graph", Source::Graph), named("file", Source::File(file.clone()))];
    let operators = |profiles: &[ModelProfile]| {
        let mut rows: Vec<_> = profiles
            .iter()
            .flat_map(|p| {
                p.operators.iter().map(|o| (p.model.name.clone(), o.node.clone(), o.op.clone()))
            })
            .collect();
        rows.sort();
        rows
    };
    for backend in ["null", "rten"] {
        let (there, summary) = run(
            &sweep(small(&folder.path().join("agent")).into(), backend, models()),
            &AtomicBool::new(false),
        );
        let (here, _) = run(&sweep(worker().into(), backend, models()), &AtomicBool::new(false));
        assert_eq!((summary.measured, summary.failed), (2, Vec::new()));
        let machine = |profile: &ModelProfile| {
            let host = profile.environment.host.clone();
            (profile.environment.without_host(), host.map(|host| (host.processor, host.caches)))
        };
        assert_eq!(machine(&there[0]), machine(&here[0]));
        assert_eq!(operators(&there), operators(&here));
        assert!(there.iter().all(|p| p.reference.wall_ns.len() == here[0].reference.wall_ns.len()
            && !p.e2e.wall_ns.is_empty()));
    }
}

#[test]
fn a_client_names_no_files() {
    let folder = tempfile::tempdir().unwrap();
    let options = RunOptions { library: Some("/etc/passwd".into()), ..RunOptions::default() };
    let error = small(folder.path()).probe("rten", &options).unwrap_err().to_string();
    assert!(error.contains("a client names no files"), "{error}");
    let missing = sweep(
        small(folder.path()).into(),
        "null",
        vec![named("m", Source::File("/nonexistent/m.onnx".into()))],
    );
    let (profiles, _) = run(&missing, &AtomicBool::new(false));
    assert!(
        matches!(&profiles[0].status, Status::Failed(reason) if reason.contains("/nonexistent/m.onnx"))
    );
}

/// An agent with an engine that fails as the model's name says.
fn faulty(folder: &Path) -> Target {
    let program = env!("CARGO_BIN_EXE_vitempo-test-worker");
    agent(&[program, "agent", folder.to_str().unwrap()]).into()
}

#[test]
fn engines_that_fail_at_an_agents_are_rows_with_their_reason() {
    let folder = tempfile::tempdir().unwrap();
    let names = ["good", "crash", "panic", "hang", "refuse", "fine"];
    let mut sweep = sweep(
        faulty(folder.path()),
        "faulty",
        names.iter().map(|name| named(name, Source::Graph)).collect(),
    );
    sweep.run_timeout = Duration::from_secs(2);
    let (profiles, summary) = run(&sweep, &AtomicBool::new(false));
    assert_eq!((summary.measured, summary.failed.len()), (2, 4));
    for (name, part) in [
        ("crash", "about to crash"),
        ("panic", "what a model"),
        ("hang", "time limit of 2 s"),
        ("refuse", "Col2Im"),
    ] {
        let profile = profiles.iter().find(|p| p.model.name == name).unwrap();
        assert!(
            matches!(&profile.status, Status::Failed(reason) if reason.contains(part)),
            "{name}: {:?}",
            profile.status
        );
    }
}

#[test]
fn an_interruption_ends_the_model_run_at_both_ends() {
    let folder = tempfile::tempdir().unwrap();
    let target = faulty(folder.path());
    let interrupted = AtomicBool::new(false);
    let hanging = sweep(target.clone(), "faulty", vec![named("hang", Source::Graph)]);
    let (_, summary) = thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(500));
            interrupted.store(true, Ordering::Relaxed);
        });
        run(&hanging, &interrupted)
    });
    assert_eq!(
        (summary.measured, summary.failed.len(), summary.left, summary.interrupted),
        (0, 0, 1, true)
    );
    // The engine would hang for minutes: the next client is let in because the model run was given
    // up.
    let next = sweep(target, "faulty", vec![named("good", Source::Graph)]);
    assert_eq!(run(&next, &AtomicBool::new(false)).1.measured, 1);
}
