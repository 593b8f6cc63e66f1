//! The threads and cores that are asked for take effect, on every engine available here. Evidence
//! is what the kernel reports of this process and does not depend on other load: which threads an
//! engine started, which of them computed, and which cores each may run on. How many computed at
//! once does depend on it: other threads may do the work of a thread that does not get the
//! processor. Such a case is inconclusive: counted and printed, never failed. A backend that is not
//! available is skipped, with a notice.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

mod here;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
    sync::atomic::AtomicBool,
    time::Duration,
};
use vitempo_graph::Processor;
use vitempo_profiler::{
    Backend, BackendError, RunOptions, RunProtocol, Session, Source, Worker, WorkerCommand,
    backends, pinning, reference,
    worker::{Reply, Request, RunRequest},
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

/// Threads that computed: those with a large part of the busiest one's CPU time.
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

/// Number of threads that computed while the session ran repeatedly.
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

/// How often to look before a number of threads counts as inconclusive.
const LOOKS: usize = 10;

fn as_many_threads_compute_as_were_asked_for() {
    if cpu_times(std::process::id()).is_empty() {
        return here::notice("skipped: this system does not report the CPU time of threads");
    }
    let (mut checked, mut inconclusive) = (0, 0);
    for backend in engines() {
        // An engine may keep its threads from one session to the next.
        let before: BTreeSet<PathBuf> = threads_of(std::process::id()).into_iter().collect();
        for threads in [1, 2].into_iter().filter(|&t| t <= pinning::usable().len()) {
            let options = RunOptions { threads, ..RunOptions::default() };
            let model = reference::model_for(backend.as_ref(), &options).unwrap();
            let mut session = match backend.load(&model, &options) {
                Err(BackendError::Option { .. }) if threads > 1 => continue,
                session => session.unwrap(),
            };
            let mut counts = vec![computing_threads(session.as_mut())];
            while counts.len() < LOOKS && !counts.contains(&threads) {
                counts.push(computing_threads(session.as_mut()));
            }
            let started =
                threads_of(std::process::id()).iter().filter(|t| !before.contains(*t)).count();
            let name = backend.name();
            checked += 1;
            match classify(threads, started, &counts) {
                Seen::AsAsked => {}
                Seen::Inconclusive => {
                    inconclusive += 1;
                    here::notice(&format!(
                        "inconclusive: {name}: {threads} threads asked for, {started} started, \
                         {counts:?} computed beside what else runs here"
                    ));
                }
                Seen::Otherwise => panic!(
                    "{name}: {threads} threads asked for, {started} started, {counts:?} computed"
                ),
            }
        }
    }
    here::notice(&format!(
        "numbers of threads: {checked} checked, {inconclusive} of them inconclusive"
    ));
}

#[derive(Debug, PartialEq)]
enum Seen {
    AsAsked,
    /// The engine has the threads; whether they share the work is inconclusive.
    Inconclusive,
    Otherwise,
}

/// What follows from the threads that an engine started since its first session, beside the one
/// that calls it, and from how many computed at each look.
fn classify(asked: usize, started: usize, computed: &[usize]) -> Seen {
    if computed.iter().any(|&n| n > asked) {
        Seen::Otherwise
    } else if computed.contains(&asked) {
        Seen::AsAsked
    } else if started + 1 >= asked {
        Seen::Inconclusive
    } else {
        Seen::Otherwise
    }
}

#[test]
fn only_what_does_not_depend_on_load_fails() {
    for (asked, started, computed, seen) in [
        (1, 0, &[1][..], Seen::AsAsked),
        (2, 1, &[1, 2], Seen::AsAsked),
        (2, 1, &[1, 1], Seen::Inconclusive),
        (2, 0, &[1, 1], Seen::Otherwise),
        (1, 1, &[1, 2], Seen::Otherwise),
    ] {
        assert_eq!(classify(asked, started, computed), seen, "{asked} {started} {computed:?}");
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
        let request = RunRequest {
            backend: backend.name().to_owned(),
            options: RunOptions { cores: vec![core], ..RunOptions::default() },
            protocol: RunProtocol::default(),
            name: "reference".to_owned(),
            graph: reference::graph().unwrap(),
            source: Source::Graph,
        };
        let reply = worker
            .ask(
                &Request::Run(Box::new(request)),
                Duration::from_secs(120),
                &AtomicBool::new(false),
            )
            .unwrap();
        assert!(matches!(reply, Reply::Ran(_)), "{}: {reply:?}", backend.name());
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

/// The only test that computes in this process; the other takes no time.
#[test]
fn threads_and_cores_take_effect() {
    as_many_threads_compute_as_were_asked_for();
    threads_compute_on_the_cores_that_were_asked_for();
}
