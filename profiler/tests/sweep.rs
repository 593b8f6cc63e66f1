//! Whole sweeps through real worker processes: engines that fail, resuming, interruption, budget.

#![allow(clippy::unwrap_used)]

use std::{
    cell::RefCell,
    collections::HashSet,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};
use vitempo_graph::{ModelIdentity, ModelProfile, Origin, Status};
#[cfg(target_os = "linux")]
use vitempo_profiler::{
    Beside, Load,
    load::{LoadModel, LoadWorker, StreamSpec},
};
use vitempo_profiler::{
    Hooks, MemoryRuns, RunOptions, RunProtocol, Source, Summary, Sweep, SweepModel, WorkerCommand,
    reference,
};

fn worker() -> WorkerCommand {
    WorkerCommand {
        program: env!("CARGO_BIN_EXE_vitempo-test-worker").into(),
        args: Vec::new(),
        env: Vec::new(),
    }
}

fn sweep(backend: &str, names: &[&str]) -> Sweep {
    let graph = reference::graph().unwrap();
    let identity = |name: &str| ModelIdentity {
        name: name.to_owned(),
        architecture: graph.architecture(),
        space: None,
        encoding: None,
    };
    Sweep {
        models: names
            .iter()
            .map(|name| SweepModel {
                identity: identity(name),
                graph: graph.clone(),
                source: Source::Graph,
            })
            .collect(),
        backend: backend.to_owned(),
        options: RunOptions::default(),
        protocol: RunProtocol::default(),
        only_round: None,
        budget: None,
        run_timeout: Duration::from_secs(30),
        target: worker().into(),
        session: "test".to_owned(),
        beside: None,
        memory: MemoryRuns::Never,
    }
}

/// Runs the sweep; `after` is called after each model run.
fn run(
    sweep: &Sweep,
    done: &HashSet<(String, usize)>,
    interrupted: &AtomicBool,
    after: impl Fn(&str),
) -> (Vec<ModelProfile>, Summary) {
    let profiles = RefCell::new(Vec::new());
    let mut sink = |profile: &ModelProfile| {
        profiles.borrow_mut().push(profile.clone());
        after(&profile.model.name);
        Ok(())
    };
    let is_done = |model: &ModelIdentity, round: usize| done.contains(&(model.name.clone(), round));
    let summary = sweep
        .run(Hooks { done: &is_done, sink: &mut sink, progress: &mut |_| {}, interrupted })
        .unwrap();
    (profiles.into_inner(), summary)
}

fn plain(sweep: &Sweep) -> (Vec<ModelProfile>, Summary) {
    run(sweep, &HashSet::new(), &AtomicBool::new(false), |_| {})
}

#[test]
fn the_harness_measures_itself() {
    let (profiles, summary) = plain(&sweep("null", &["a", "b"]));
    assert_eq!((summary.measured, summary.failed.len(), summary.left), (2, 0, 0));
    for profile in &profiles {
        assert_eq!(
            (&profile.status, profile.origin, profile.round),
            (&Status::Ok, Origin::Measured, 0)
        );
        assert_eq!(profile.environment.framework, "null");
        assert!(!profile.environment.device.is_empty());
        let protocol = &profile.protocol;
        assert!((protocol.min_repeats..=protocol.max_repeats).contains(&profile.e2e.wall_ns.len()));
        assert_eq!(profile.reference.wall_ns.len(), 10);
        assert_eq!(profile.e2e_profiled.wall_ns.len(), 10);
        let graph = reference::graph().unwrap();
        let nodes: Vec<_> = profile.operators.iter().map(|o| (&o.node, &*o.op)).collect();
        assert_eq!(nodes, graph.nodes().iter().map(|n| (&n.name, &n.op)).collect::<Vec<_>>());
    }
}

/// The engine is part of the test worker, and its memory that of the process.
#[test]
#[cfg(target_os = "linux")]
fn memory_is_measured_in_a_process_of_its_own() {
    let memory = |runs: MemoryRuns| {
        let mut sweep = sweep("rten", &["m"]);
        (sweep.memory, sweep.protocol.profiled_repeats) = (runs, 1);
        let (profiles, summary) = plain(&sweep);
        assert_eq!(summary.measured, 1, "{:?}", summary.failed);
        assert!(summary.without_peak_memory.is_empty(), "{summary:?}");
        profiles.into_iter().next().unwrap()
    };
    let graph = reference::graph().unwrap();
    let weights: u64 = 4 * vitempo_graph::Work::of_graph(&graph).params;
    let never = memory(MemoryRuns::Never);
    assert_eq!((never.peak_memory_bytes, never.running_memory_bytes), (None, None));
    let also = memory(MemoryRuns::Also);
    let (peak, running) = (also.peak_memory_bytes.unwrap(), also.running_memory_bytes.unwrap());
    assert!(weights <= peak && peak < weights + (64 << 20), "{peak} {weights}");
    assert!(running <= peak && also.e2e.wall_ns.len() > 2 && !also.operators.is_empty());
    let alone = memory(MemoryRuns::Alone);
    assert!(alone.peak_memory_bytes.is_some() && alone.operators.is_empty());
    assert_eq!((alone.e2e.wall_ns.len(), alone.protocol.max_repeats), (2, 2));
}

#[test]
fn a_model_that_fails_is_a_row_with_its_reason_and_the_sweep_goes_on() {
    let mut sweep = sweep("faulty", &["good", "crash", "panic", "hang", "refuse", "print", "fine"]);
    sweep.run_timeout = Duration::from_secs(2);
    let (profiles, summary) = plain(&sweep);
    assert_eq!((summary.measured, summary.failed.len()), (3, 4));
    let reason = |name: &str| match &profiles.iter().find(|p| p.model.name == name).unwrap().status
    {
        Status::Failed(reason) => reason.clone(),
        Status::Ok => String::new(),
    };
    for (name, part) in [
        ("good", ""),
        ("fine", ""),
        ("print", ""),
        ("crash", "about to crash"),
        ("panic", "what a model"),
        ("hang", "time limit of 2 s"),
        ("refuse", "Col2Im"),
    ] {
        assert!(
            reason(name).contains(part) && reason(name).is_empty() == part.is_empty(),
            "{name}: {}",
            reason(name)
        );
    }
}

/// One worker measures both, in turn.
#[test]
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn freed_memory_is_kept_in_networks_around_operators_alone() {
    let mut sweep = sweep("faulty", &["touch"; 6]);
    for (index, model) in sweep.models.iter_mut().enumerate() {
        model.identity.architecture = index.to_string();
        model.identity.space = (index % 2 == 0).then(|| ModelIdentity::OPERATORS.to_owned());
    }
    let (profiles, _) = plain(&sweep);
    assert_eq!(profiles.len(), 6);
    for profile in &profiles {
        let expected = if profile.model.is_operator() { "is kept" } else { "goes back" };
        let Status::Failed(reason) = &profile.status else { panic!("it refuses") };
        assert!(reason.contains(expected), "{}: {reason}", profile.model.architecture);
    }
}

#[test]
fn a_killed_sweep_resumes_where_it_stopped() {
    let mut sweep = sweep("null", &["a", "b", "c", "d"]);
    sweep.protocol.protocol.rounds = 2;
    let interrupted = AtomicBool::new(false);
    let runs = RefCell::new(0);
    let (first, summary) = run(&sweep, &HashSet::new(), &interrupted, |_| {
        *runs.borrow_mut() += 1;
        interrupted.store(*runs.borrow() == 3, Ordering::Relaxed);
    });
    assert_eq!((first.len(), summary.measured, summary.left, summary.interrupted), (3, 3, 5, true));
    let key = |p: &ModelProfile| (p.model.name.clone(), p.round);
    let done: HashSet<_> = first.iter().map(key).collect();
    let (second, summary) = run(&sweep, &done, &AtomicBool::new(false), |_| {});
    assert_eq!((summary.measured, summary.skipped, summary.left), (5, 3, 0));
    assert_eq!(first.iter().chain(&second).map(key).collect::<HashSet<_>>().len(), 8);
}

#[test]
fn an_interruption_gives_up_the_visit_under_way() {
    let sweep = sweep("faulty", &["hang"]);
    let interrupted = AtomicBool::new(false);
    let summary = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(300));
            interrupted.store(true, Ordering::Relaxed);
        });
        run(&sweep, &HashSet::new(), &interrupted, |_| {}).1
    });
    assert_eq!(
        (summary.measured, summary.failed.len(), summary.left, summary.interrupted),
        (0, 0, 1, true)
    );
}

#[test]
fn the_budget_is_kept() {
    let mut sweep = sweep("faulty", &["slow"; 20]);
    sweep.budget = Some(Duration::from_millis(1000));
    let (profiles, summary) = plain(&sweep);
    assert!(!profiles.is_empty() && profiles.len() < 5, "{}", profiles.len());
    assert_eq!(summary.left, 20 - profiles.len());
}

#[test]
fn unknown_backends_absent_cores_and_full_sinks_end_the_sweep() {
    let error = |sweep: &Sweep, sink: &mut dyn FnMut(&ModelProfile) -> Result<(), String>| {
        let hooks = Hooks {
            done: &|_, _| false,
            sink,
            progress: &mut |_| {},
            interrupted: &AtomicBool::new(false),
        };
        sweep.run(hooks).unwrap_err().to_string()
    };
    let unknown = error(&sweep("nope", &["a"]), &mut |_| Ok(()));
    assert!(unknown.contains("`nope`") && unknown.contains("null"), "{unknown}");
    let mut pinned = sweep("null", &["a"]);
    pinned.options.cores = vec![99_999];
    if cfg!(target_os = "linux") {
        assert!(error(&pinned, &mut |_| Ok(())).contains("99999"));
    }
    let full = error(&sweep("null", &["a"]), &mut |_| Err("No space left on device".to_owned()));
    assert!(full.contains("`a`") && full.contains("No space"), "{full}");
}

#[test]
fn progress_counts_to_the_end() {
    let sweep = sweep("null", &["a", "b", "c"]);
    let seen = RefCell::new(Vec::new());
    let done = |model: &ModelIdentity, _: usize| model.name == "b";
    let mut progress = |p: &vitempo_profiler::Progress<'_>| {
        seen.borrow_mut().push((p.done, p.total, p.remaining.is_some()));
    };
    sweep
        .run(Hooks {
            done: &done,
            sink: &mut |_| Ok(()),
            progress: &mut progress,
            interrupted: &AtomicBool::new(false),
        })
        .unwrap();
    assert_eq!(seen.into_inner(), [(1, 3, false), (2, 3, true), (3, 3, true)]);
}

/// The worker's stdin is closed when its host is gone; the worker then ends even while its engine
/// hangs, and leaves no files.
#[cfg(target_os = "linux")]
#[test]
fn a_worker_ends_with_its_host_and_leaves_nothing() {
    use std::{io::Write, process::Stdio, time::Instant};
    let folder = tempfile::tempdir().unwrap();
    let private = folder.path().join("worker");
    std::fs::create_dir(&private).unwrap();
    std::fs::write(private.join("optimized.onnx"), b"big").unwrap();
    let mut child = std::process::Command::new(worker().program)
        .env("VITEMPO_WORKER_FOLDER", &private)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let request = vitempo_profiler::worker::RunRequest {
        backend: "faulty".to_owned(),
        options: RunOptions::default(),
        protocol: RunProtocol::default(),
        name: "hang".to_owned(),
        graph: reference::graph().unwrap(),
        source: Source::Graph,
    };
    let line =
        serde_json::to_string(&vitempo_profiler::worker::Request::Run(Box::new(request))).unwrap();
    let mut stdin = child.stdin.take().unwrap();
    writeln!(stdin, "{line}").unwrap();
    std::thread::sleep(Duration::from_millis(200));
    let signalled =
        std::process::Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    assert!(signalled.is_ok() && child.try_wait().unwrap().is_none());
    drop(stdin);
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        assert!(start.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(!private.exists());
}

/// The core of models and that of a load; `None` where this machine has no second one.
#[cfg(target_os = "linux")]
fn two_cores() -> Option<(usize, usize)> {
    let usable = vitempo_profiler::pinning::usable();
    Some((*usable.get(1)?, *usable.first()?))
}

#[cfg(target_os = "linux")]
fn model_load(name: &str, backend: &str) -> Load {
    let graph = reference::graph().unwrap();
    let identity = ModelIdentity {
        name: name.to_owned(),
        architecture: graph.architecture(),
        space: None,
        encoding: None,
    };
    let backend = backend.to_owned();
    Load::Model(LoadModel { identity, graph, source: Source::Graph, backend }.into())
}

#[cfg(target_os = "linux")]
#[test]
fn rows_beside_a_load_carry_it_and_what_it_did() {
    let Some((core, other)) = two_cores() else { return };
    let stream = Load::Stream(StreamSpec { size_bytes: Some(8 << 20), ..StreamSpec::default() });
    for load in [stream, Load::Matmul, model_load("reference", "rten")] {
        let name = load.name();
        let mut sweep = sweep("rten", &["a"]);
        sweep.options.cores = vec![core];
        sweep.beside = Some(Beside { load, cores: Vec::new() });
        let (profiles, summary) = plain(&sweep);
        assert_eq!((summary.measured, &summary.failed), (1, &Vec::new()), "{name}");
        let [profile] = &profiles[..] else { panic!("one profile") };
        assert_eq!(profile.environment.beside.as_ref(), Some(&name));
        // The machine's counters go on.
        let again = sweep.environment().unwrap();
        assert_eq!(profile.environment.without_host(), again.without_host());
        let record = profile.load.as_ref().unwrap();
        assert_eq!(record.cores, [other]);
        assert!(record.footprint_bytes > 0);
        for rates in [record.alone, record.during] {
            assert!(rates.bytes_per_s > 0 && rates.flops_per_s > 0, "{name}: {record:?}");
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_model_beside_a_load_that_died_has_failed_and_the_next_one_gets_another_load() {
    let Some((core, _)) = two_cores() else { return };
    let mut sweep = sweep("faulty", &["a", "kill", "b"]);
    sweep.protocol.protocol.seed = 1;
    sweep.options.cores = vec![core];
    let folder = tempfile::tempdir().unwrap();
    let marker = folder.path().join("marker").into_os_string();
    let env = vec![("VITEMPO_TEST_MARKER".into(), marker)];
    sweep.target = WorkerCommand { env, ..worker() }.into();
    sweep.beside = Some(Beside { load: model_load("dies", "faulty"), cores: Vec::new() });
    let (profiles, summary) = plain(&sweep);
    assert_eq!((summary.measured, summary.failed.len()), (2, 1), "{:?}", summary.failed);
    for profile in &profiles {
        match (&profile.status, profile.model.name.as_str()) {
            (Status::Failed(reason), "kill") => {
                assert!(reason.contains("the load") && reason.contains("SIGABRT"), "{reason}");
                assert!(profile.load.is_none() && profile.e2e.wall_ns.is_empty());
                assert!(profile.environment.beside.is_some());
            }
            (Status::Ok, "a" | "b") => assert!(profile.load.is_some()),
            (status, name) => panic!("{name}: {status:?}"),
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_load_that_cannot_run_ends_the_sweep_with_its_reason() {
    let Some((core, _)) = two_cores() else { return };
    let error = |load: Load, cores: Vec<usize>| {
        let mut sweep = sweep("null", &["a"]);
        sweep.options.cores = vec![core];
        sweep.beside = Some(Beside { load, cores });
        let hooks = Hooks {
            done: &|_, _| false,
            sink: &mut |_| Ok(()),
            progress: &mut |_| {},
            interrupted: &AtomicBool::new(false),
        };
        sweep.run(hooks).unwrap_err().to_string()
    };
    for (load, cores, says) in [
        (Load::Matmul, vec![core], "is a core of the measured models"),
        (model_load("refuse", "faulty"), vec![], "Col2Im"),
        (model_load("m", "nope"), vec![], "no backend is called `nope`"),
    ] {
        let said = error(load, cores);
        assert!(said.contains(says), "{said}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_load_runs_and_rests_as_it_is_told() {
    let Some((_, core)) = two_cores() else { return };
    let never = AtomicBool::new(false);
    let load = model_load("reference", "rten");
    let mut running = LoadWorker::of(&worker(), &load, vec![core], 0, &never).unwrap();
    assert!(running.prepared().footprint_bytes > 0);
    assert_eq!(running.tally(&never).unwrap().passes, 0, "it rests at first");
    running.go(&never).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    let went = running.pause(&never).unwrap();
    assert!(went.passes > 0 && went.wall_ns > 0, "{went:?}");
    assert_eq!(went.runs_ns.len() as u64, went.passes);
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(running.tally(&never).unwrap().passes, 0, "it rests again");
}
