//! The threads and cores that are asked for take effect, on every engine available here: told by
//! the CPU time each thread of the process used, and by the cores it may run on. A backend that is
//! not available is skipped, with a notice.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

mod here;

use std::{collections::BTreeMap, fs, path::PathBuf, sync::atomic::AtomicBool, time::Duration};
use vitempo_graph::Processor;
use vitempo_profiler::{
    Backend, BackendError, RunOptions, Session, Source, VisitProtocol, Worker, WorkerCommand,
    backends, pinning, reference,
    worker::{Reply, Request, VisitRequest},
};

fn engines() -> Vec<Box<dyn Backend>> {
    let available = |backend: &dyn Backend| {
        here::offered(backend, &RunOptions::default())
            .is_some_and(|offered| offered.devices.contains(&Processor::Cpu))
    };
    backends::all().into_iter().filter(|b| b.name() != "null" && available(b.as_ref())).collect()
}

/// Threads of a process and of the processes it started: their folders below `/proc`.
fn threads_of(process: u32) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for thread in fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten() {
        let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        found.push(thread.path());
        found.extend(
            children.split_whitespace().filter_map(|child| child.parse().ok()).flat_map(threads_of),
        );
    }
    found
}

/// CPU time each thread of a process has used, ns.
fn cpu_times(process: u32) -> BTreeMap<PathBuf, u64> {
    let time = |thread: &PathBuf| {
        fs::read_to_string(thread.join("schedstat")).ok()?.split_whitespace().next()?.parse().ok()
    };
    threads_of(process)
        .into_iter()
        .filter_map(|thread| Some((thread.clone(), time(&thread)?)))
        .collect()
}

/// Threads that computed: those that used a good part of what the busiest one did.
fn busy(before: &BTreeMap<PathBuf, u64>, after: &BTreeMap<PathBuf, u64>) -> Vec<PathBuf> {
    let used =
        |thread: &PathBuf, time: u64| time - before.get(thread).copied().unwrap_or(0).min(time);
    let most = after.iter().map(|(thread, &time)| used(thread, time)).max().unwrap_or(0);
    after
        .iter()
        .filter(|(thread, time)| used(thread, **time) * 20 > most)
        .map(|(thread, _)| thread.clone())
        .collect()
}

/// Number of threads that computed while the session ran again and again.
fn computing_threads(session: &mut dyn Session) -> usize {
    session.run().unwrap();
    let before = cpu_times(std::process::id());
    let total = |times: &BTreeMap<PathBuf, u64>| times.values().sum::<u64>();
    loop {
        for _ in 0..10 {
            session.run().unwrap();
        }
        let after = cpu_times(std::process::id());
        if total(&after) > total(&before) + 400_000_000 {
            return busy(&before, &after).len();
        }
    }
}

fn as_many_threads_compute_as_were_asked_for() {
    if cpu_times(std::process::id()).is_empty() {
        return eprintln!("skipped: this system does not tell the CPU time of threads");
    }
    for backend in engines() {
        for threads in [1, 2].into_iter().filter(|&t| t <= pinning::usable().len()) {
            let options = RunOptions { threads, ..RunOptions::default() };
            let model = reference::model_for(backend.as_ref(), &options).unwrap();
            let mut session = match backend.load(&model, &options) {
                Err(BackendError::Option { .. }) if threads > 1 => continue,
                session => session.unwrap(),
            };
            // On a busy machine one of the threads may be kept from its work for a while, and the
            // others do it all.
            let mut counts = Vec::new();
            while counts.len() < 2 || (counts.len() < 30 && !counts.contains(&threads)) {
                counts.push(computing_threads(session.as_mut()));
            }
            assert!(
                counts.contains(&threads) && counts.iter().all(|&n| n <= threads),
                "{}: {threads} asked for, {counts:?} computed",
                backend.name()
            );
        }
    }
}

fn threads_compute_on_the_cores_that_were_asked_for() {
    let worker = WorkerCommand {
        program: env!("CARGO_BIN_EXE_vitempo-test-worker").into(),
        args: Vec::new(),
        env: Vec::new(),
    };
    let core = pinning::usable()[0];
    for backend in engines() {
        let mut worker = Worker::start(&worker).unwrap();
        let request = VisitRequest {
            backend: backend.name().to_owned(),
            options: RunOptions { cores: vec![core], ..RunOptions::default() },
            protocol: VisitProtocol::default(),
            name: "reference".to_owned(),
            graph: reference::graph().unwrap(),
            source: Source::Graph,
        };
        let reply = worker
            .ask(
                &Request::Visit(Box::new(request)),
                Duration::from_secs(120),
                &AtomicBool::new(false),
            )
            .unwrap();
        assert!(matches!(reply, Reply::Visited(_)), "{}: {reply:?}", backend.name());
        let computed = busy(&BTreeMap::new(), &cpu_times(worker.process_id()));
        assert!(!computed.is_empty(), "{}", backend.name());
        for thread in computed {
            let status = fs::read_to_string(thread.join("status")).unwrap();
            let allowed = status
                .lines()
                .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
                .map(str::trim);
            assert_eq!(allowed, Some(core.to_string().as_str()), "{}", backend.name());
        }
    }
}

/// One test, so that nothing else computes in this process meanwhile.
#[test]
fn threads_and_cores_take_effect() {
    as_many_threads_compute_as_were_asked_for();
    threads_compute_on_the_cores_that_were_asked_for();
}
