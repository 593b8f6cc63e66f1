//! Engines in processes of their own: results and hand-over, crashes, hangs, kills, restarts. No test
//! depends on how long something takes.

#![allow(clippy::unwrap_used)]

use std::{process::Command, sync::Arc, time::Duration};
use vitempo_graph::{Graph, GraphBuilder, OpKind, TensorSpec};
use vitempo_profiler::{
    OutputValues, RunOptions, WorkerCommand, inputs,
    live::{
        Engines, Finished, LiveError, LiveProcessor, Piece, Pieces, Report, Rig, Tensors, Workers,
    },
    pinning,
};

fn part(name: &str, input: &str, kind: OpKind) -> Graph {
    let mut b = GraphBuilder::new(name);
    let x = b.input(input, TensorSpec::f32([1, 4, 8, 8]));
    let y = b.conv(&format!("{name}.conv"), x, 4, 3, 1, 1, 1, true).unwrap();
    let y = b.unary(name, kind, y).unwrap();
    b.finish(vec![y]).unwrap()
}

/// x -> first -> second; and parts at which the engine `faulty` fails.
fn parts() -> Vec<Graph> {
    let first = part("first", "x", OpKind::Relu);
    let faulty = ["crash", "hang", "panic", "refuse"].map(|name| first.clone().with_name(name));
    [first, part("second", "first_out", OpKind::Tanh)].into_iter().chain(faulty).collect()
}

const CRASH: usize = 2;
const HANG: usize = 3;
const PANIC: usize = 4;
const REFUSE: usize = 5;

fn workers(timeout: Duration) -> Engines {
    let command = WorkerCommand {
        program: env!("CARGO_BIN_EXE_vitempo-test-worker").into(),
        args: Vec::new(),
        env: Vec::new(),
    };
    Engines::Workers(Workers { timeout, restarts: 2, ..Workers::new(command) })
}

const LONG: Duration = Duration::from_secs(60);

/// Engines of these backends; `None`, with a notice, where there are too few cores.
fn rig(engines: &Engines, backends: &[&str]) -> Option<Rig> {
    if (1..backends.len()).contains(&pinning::usable().len()) {
        eprintln!("skipped: {} cores are too few", pinning::usable().len());
        return None;
    }
    let processor = |(index, backend): (usize, &&str)| LiveProcessor {
        name: format!("p{index}"),
        backend: (*backend).to_owned(),
        options: RunOptions::default(),
    };
    let processors: Vec<LiveProcessor> = backends.iter().enumerate().map(processor).collect();
    Some(Rig::start_in(engines, &processors, parts()).unwrap())
}

fn given() -> Vec<Arc<OutputValues>> {
    let options = RunOptions::default();
    let values = inputs::of_graph(&parts()[0], options.inputs, options.seed).unwrap();
    values.into_iter().map(Arc::new).collect()
}

fn piece(processor: usize, parts: &[usize], values: &Tensors) -> Piece {
    let (parts, values, keep) = (parts.to_vec(), values.clone(), Vec::new());
    Piece { id: 7, processor, parts, keep, unload: Vec::new(), values, expected_ns: 0 }
}

/// The next report, which is that of a piece.
fn finished(pieces: &Pieces<'_>) -> Finished {
    match pieces.next(u64::MAX >> 1) {
        Some(Report::Finished(finished)) => finished,
        other => panic!("{other:?}"),
    }
}

/// Runs parts on a processor.
fn run(pieces: &Pieces<'_>, processor: usize, parts: &[usize], values: &Tensors) -> Finished {
    pieces.submit(piece(processor, parts, values)).unwrap();
    let finished = finished(pieces);
    assert!(finished.begun_ns <= finished.ended_ns && finished.ended_ns <= finished.noticed_ns);
    finished
}

/// Why a piece was lost, and whether the engine starts again.
fn lost(finished: Finished) -> (String, bool) {
    match finished.result {
        Err(LiveError::Ended { reason, starts_again, .. }) => (reason, starts_again),
        other => panic!("{other:?}"),
    }
}

fn signal(name: &str, process: u32) {
    let sent = Command::new("kill").args([name, &process.to_string()]).status().unwrap();
    assert!(sent.success(), "kill {name} {process}");
}

#[test]
fn tensors_go_from_process_to_process_and_results_are_the_same() {
    let results = |engines: &Engines| {
        let rig = rig(engines, &["rten", "rten"])?;
        let pieces = rig.pieces();
        let inputs = rig.tensors(&given()).unwrap();
        let first = run(&pieces, 0, &[0], &inputs).result.unwrap();
        assert_eq!(first.loads.len(), 1);
        let second = run(&pieces, 1, &[1], &first.values).result.unwrap();
        let both = run(&pieces, 0, &[0, 1], &Tensors::Here(given())).result.unwrap();
        let values = second.values.read().unwrap();
        assert_eq!(values, both.values.read().unwrap());
        assert_eq!(
            values,
            rig.ask(1, 1, &first.values.read().unwrap())
                .unwrap()
                .wait()
                .unwrap()
                .values
                .into_iter()
                .map(Arc::new)
                .collect::<Vec<_>>()
        );
        assert_eq!(rig.load(1, 0).unwrap().map(|load| load.part), Some(0));
        assert_eq!(rig.load(1, 0), Ok(None), "it is loaded");
        rig.unload(1, &[0]).unwrap();
        assert!(rig.load(1, 0).unwrap().is_some(), "it was unloaded");
        let apart =
            rig.processes().all(|process| process.is_some_and(|id| id != std::process::id()));
        assert_eq!(apart, matches!(engines, Engines::Workers(_)));
        Some(values)
    };
    assert_eq!(results(&workers(LONG)), results(&Engines::Here));
}

#[test]
fn a_crash_loses_its_piece_and_the_engine_is_started_again_a_few_times() {
    let rig = rig(&workers(LONG), &["faulty"]).unwrap();
    let (pieces, inputs) = (rig.pieces(), Tensors::Here(given()));
    for (crash, starts_again) in [(1, true), (2, true), (3, false)] {
        let (reason, again) = lost(run(&pieces, 0, &[CRASH], &inputs));
        assert!(reason.contains("about to crash"), "{reason}");
        assert_eq!(again, starts_again, "crash {crash}");
    }
    let (reason, again) = lost(run(&pieces, 0, &[0], &inputs));
    assert!(!again && reason.contains("about to crash"), "{reason}");
    assert_eq!(rig.unload(0, &[0]), Ok(None), "it holds nothing");
}

#[test]
fn a_killed_engine_that_has_nothing_to_do_loses_nothing() {
    let rig = rig(&workers(LONG), &["rten"]).unwrap();
    let pieces = rig.pieces();
    let inputs = rig.tensors(&given()).unwrap();
    let before = run(&pieces, 0, &[0], &inputs);
    assert_eq!(before.started, None);
    let process = rig.processes().next().flatten().unwrap();
    signal("-KILL", process);
    // It has ended when none of its threads is left.
    let threads = |process: u32| std::fs::read_dir(format!("/proc/{process}/task"));
    let stat = |process: u32| std::fs::read_to_string(format!("/proc/{process}/stat"));
    while threads(process).is_ok_and(|threads| threads.count() > 1)
        || stat(process).is_ok_and(|stat| !stat.contains(") Z "))
    {
        std::thread::yield_now();
    }
    let after = run(&pieces, 0, &[0], &inputs);
    let started = after.started.expect("it was started again");
    assert!(started.reason.contains("signal: 9"), "{started:?}");
    assert!(started.process.is_some_and(|id| id != process));
    let (before, after) = (before.result.unwrap(), after.result.unwrap());
    assert_eq!(after.loads.len(), 1, "the new process has nothing loaded");
    assert_eq!(before.values.read().unwrap(), after.values.read().unwrap());
}

#[test]
fn an_engine_that_hangs_is_ended() {
    // It does not answer, or its process is stopped.
    let rig = rig(&workers(Duration::from_millis(300)), &["faulty"]).unwrap();
    let (pieces, inputs) = (rig.pieces(), Tensors::Here(given()));
    let (reason, again) = lost(run(&pieces, 0, &[HANG], &inputs));
    assert!(reason.contains("no answer within the time limit of 3 s") && again, "{reason}");
    let finished = run(&pieces, 0, &[PANIC], &inputs);
    let process = finished.started.and_then(|started| started.process).expect("a process");
    assert!(
        matches!(finished.result, Err(LiveError::Task { reason, .. }) if reason.contains("panicked"))
    );
    signal("-STOP", process);
    let (reason, again) = lost(run(&pieces, 0, &[0], &inputs));
    assert!(reason.contains("no answer within the time limit") && again, "{reason}");
}

#[test]
fn unloading_does_not_wait_for_a_process_that_does_not_answer() {
    let Some(rig) = rig(&workers(Duration::from_secs(100_000)), &["rten", "rten"]) else { return };
    let (pieces, inputs) = (rig.pieces(), Tensors::Here(given()));
    assert_eq!(run(&pieces, 0, &[0], &inputs).result.unwrap().loads.len(), 1);
    let process = rig.processes().next().flatten().unwrap();
    signal("-STOP", process);
    pieces.unload(0, &[0]).unwrap();
    assert!(run(&pieces, 1, &[0], &inputs).result.is_ok(), "the other engine goes on");
    signal("-CONT", process);
    let Some(Report::Unloaded(unloaded)) = pieces.next(u64::MAX >> 1) else { panic!("an answer") };
    assert_eq!((unloaded.processor, &unloaded.parts[..]), (0, &[0][..]));
    unloaded.result.unwrap();
    assert_eq!(run(&pieces, 0, &[0], &inputs).result.unwrap().loads.len(), 1, "it was unloaded");
    // Nor does the end of a run wait.
    signal("-STOP", process);
    pieces.unload(0, &[0]).unwrap();
    drop(pieces);
    drop(rig);
}

#[test]
#[cfg(target_os = "linux")]
fn resident_memory_of_processes_is_reported() {
    let own = rig(&workers(LONG), &["rten"]).unwrap();
    let (pieces, inputs) = (own.pieces(), Tensors::Here(given()));
    let start = own.resident_bytes().next().flatten().expect("resident memory");
    let loaded = own.load(0, 0).unwrap().expect("it was not loaded");
    // A small part may fit into pages that were resident before; a process never has so little.
    let least = 1 << 20;
    assert!(start > least && loaded.resident_bytes.expect("resident memory") > least);
    let again = Piece { unload: vec![0], ..piece(0, &[0, 1], &inputs) };
    pieces.submit(again).unwrap();
    let computed = finished(&pieces).result.unwrap();
    assert!(computed.unloaded_resident_bytes.is_some_and(|bytes| bytes > least));
    assert_eq!(computed.loads.len(), 2);
    assert!(computed.loads.iter().all(|load| load.resident_bytes.is_some_and(|b| b > least)));
    let shared = rig(&Engines::Here, &["rten"]).unwrap();
    assert_eq!(shared.resident_bytes().next(), Some(None), "not the memory of an engine alone");
    assert_eq!(shared.load(0, 0).unwrap().expect("a part").resident_bytes, None);
}

#[test]
fn a_part_that_fails_is_named_and_the_engine_goes_on() {
    let rig = rig(&workers(LONG), &["faulty"]).unwrap();
    let (pieces, inputs) = (rig.pieces(), Tensors::Here(given()));
    for part in [REFUSE, PANIC, 99] {
        let piece = piece(0, &[part], &inputs);
        if part == 99 {
            assert!(matches!(pieces.submit(piece), Err(LiveError::Unknown { .. })));
            continue;
        }
        pieces.submit(piece).unwrap();
        let finished = finished(&pieces);
        assert_eq!(finished.started, None, "the process is the same");
        let name = parts()[part].name().to_owned();
        assert!(matches!(finished.result, Err(LiveError::Task { part, .. }) if part == name));
    }
    let unknown = LiveProcessor {
        name: "a".to_owned(),
        backend: "abacus".to_owned(),
        options: RunOptions::default(),
    };
    let refused = Rig::start_in(&workers(LONG), &[unknown], parts()).map(|_| ()).unwrap_err();
    assert!(refused.to_string().starts_with("processor `a`: no backend is called `abacus`"));
}
