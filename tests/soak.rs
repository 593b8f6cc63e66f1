//! `vitempo serve` at saturation, with one hostile client in ten: every valid request is answered
//! with the right bits or with 503, and memory stays flat. It runs for `VITEMPO_SOAK_SECONDS`, a
//! few where that is not set, and prints memory, waits and counts of outcomes:
//!
//!     VITEMPO_SOAK_SECONDS=1800 cargo test --release -p vitempo-cli --test soak -- --nocapture
//!
//! Server and clients share the machine's processors. Nothing here is asserted of time.

#[path = "soak/expected.rs"]
mod expected;
#[path = "soak/hostile.rs"]
mod hostile;
#[path = "soak/memory.rs"]
mod memory;
mod program;
#[path = "program/server.rs"]
mod server;
#[path = "soak/valid.rs"]
mod valid;

use expected::Expected;
use server::Running;
use std::{
    env, fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};
use valid::{Kind, Tally};

/// How long it runs where nothing else is said, s.
const SHORT_S: u64 = 4;
/// How much longer it may run until every kind of request was answered once, s.
const PATIENCE_S: u64 = 300;
/// Memory is compared where it has had this long to settle, s.
const SETTLED_S: u64 = 300;
/// By how much it may grow from the first third to the last.
const GROWTH: f64 = 0.1;
/// Memory for bodies and unread answers, bytes.
const MEMORY: f64 = (128 << 20) as f64;
/// Clients that behave: each a thread with a connection.
const VALID: [(Kind, usize); 4] =
    [(Kind::Single, 12), (Kind::Batch, 3), (Kind::Upload, 2), (Kind::Listed, 1)];
/// Clients that do not, a tenth of all.
const HOSTILE: usize = 2;

/// A bundle that is left alone, and one whose file is damaged and mended again and again.
const STEADY: &str = "epyc-onnxruntime-f32-1t";
const DAMAGED: &str = "epyc-litert-f32-1t";

/// A file of the repository.
fn file(path: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).join(path)
}

fn start(folder: &Path) -> Running {
    for name in [STEADY, DAMAGED] {
        let bundle = file("bundles").join(format!("{name}.vtb"));
        fs::copy(bundle, folder.join(format!("{name}.vtb"))).expect("a copy");
    }
    let folder = folder.display().to_string();
    let limits = ["--timeout", "30s", "--head-timeout", "2s", "--max-connections", "128"];
    let sizes = ["--memory", "128MiB", "--max-body", "16MiB", "--max-response", "16MiB"];
    let rest = ["--bundle", &folder, "--reload", "200ms", "--workers", "2", "--no-request-log"];
    Running::start_with(&[&rest[..], &limits, &sizes].concat())
}

#[test]
fn answers_stay_right_and_memory_flat() {
    let seconds = env::var("VITEMPO_SOAK_SECONDS").ok().map(|text| text.parse::<u64>());
    let seconds = seconds.map_or(SHORT_S, |seconds| seconds.expect("a number of seconds"));
    let folder = tempfile::tempdir().expect("a folder");
    let server = start(folder.path());
    let expected = Expected::compute();
    let enough = AtomicBool::new(false);
    let answered = Kind::ALL.map(|_| AtomicBool::new(false));
    let (tallies, attacks, memory) = thread::scope(|scope| {
        let (server, expected, enough, answered) = (&server, &expected, &enough, &answered);
        let of = |(kind, clients): &(Kind, usize)| vec![*kind; *clients];
        let valid: Vec<_> = VALID
            .iter()
            .flat_map(of)
            .enumerate()
            .map(|(number, kind)| {
                let seen = &answered[kind as usize];
                scope.spawn(move || valid::client(server, expected, (kind, number), seen, enough))
            })
            .collect();
        let hostile: Vec<_> = (0..HOSTILE)
            .map(|number| {
                let bundle = folder.path().join(format!("{DAMAGED}.vtb"));
                scope.spawn(move || hostile::client(server, &bundle, number, enough))
            })
            .collect();
        let memory = memory::watch(server, |time| {
            let is_answered = answered.iter().all(|seen| seen.load(Ordering::Relaxed));
            time >= Duration::from_secs(if is_answered { seconds } else { seconds + PATIENCE_S })
        });
        enough.store(true, Ordering::Relaxed);
        let tallies: Vec<Tally> =
            valid.into_iter().map(|client| client.join().expect("a client ends")).collect();
        let attacks: Vec<hostile::Counts> =
            hostile.into_iter().map(|client| client.join().expect("a client ends")).collect();
        (tallies, attacks, memory)
    });
    let total = report(seconds, &tallies, &attacks, &memory);
    for kind in Kind::ALL {
        let tally = &total[kind as usize];
        assert!(tally.wrong.is_empty(), "{kind:?}: {:?}", tally.wrong);
        assert!(tally.right > 0, "{kind:?}: nothing was answered");
    }
    assert!(memory.counted.iter().all(|&bytes| bytes <= MEMORY), "{:?}", memory.counted);
    server.wait_until("all memory", || {
        server.in_flight() == 0 && server.metric("vitempo_memory_used_bytes") == 0.0
    });
    assert!(server.get("/readyz").status == 200 && server.get("/healthz").status == 200);
    assert!(!server.log().contains("panic"), "{}", server.log());
    if seconds >= SETTLED_S {
        let growth = memory.growth();
        assert!(growth <= GROWTH, "memory grew by {:.1} %", growth * 100.0);
    }
}

/// Prints what happened, and returns it by kind of request.
fn report(
    seconds: u64,
    tallies: &[Tally],
    attacks: &[hostile::Counts],
    memory: &memory::Memory,
) -> Vec<Tally> {
    println!("{seconds} s, {} valid clients, {HOSTILE} hostile", tallies.len());
    let total: Vec<Tally> = Kind::ALL
        .iter()
        .map(|&kind| {
            tallies
                .iter()
                .filter(|tally| tally.kind == kind)
                .fold(Tally::new(kind), |sum, tally| sum.plus(tally))
        })
        .collect();
    println!(
        "\n{:<8} {:>10} {:>8} {:>8} {:>7} {:>10} {:>10} {:>10}",
        "valid", "right", "busy", "closed", "wrong", "p50, ms", "p99, ms", "most, ms"
    );
    for tally in &total {
        println!("{tally}");
    }
    println!("\n{:<32} {:>10}", "hostile", "times");
    for (index, name) in hostile::ATTACKS.iter().enumerate() {
        println!("{name:<32} {:>10}", attacks.iter().map(|counts| counts[index]).sum::<u64>());
    }
    println!("\n{memory}");
    total
}

/// How long something took, in steps of 10 us.
#[derive(Clone, Debug, Default)]
struct Waits(Vec<u32>);

impl Waits {
    fn add(&mut self, since: Instant) {
        let step = usize::try_from(since.elapsed().as_micros() / 10).unwrap_or(usize::MAX);
        let step = step.min(6_000_000);
        if self.0.len() <= step {
            self.0.resize(step + 1, 0);
        }
        self.0[step] += 1;
    }

    fn plus(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        self.0.iter_mut().zip(&other.0).for_each(|(sum, count)| *sum += count);
    }

    /// The wait in ms that this share did not exceed.
    fn quantile(&self, share: f64) -> f64 {
        let total: u64 = self.0.iter().map(|&count| u64::from(count)).sum();
        let mut left = (total as f64 * share).ceil() as u64;
        let reached = self.0.iter().position(|&count| {
            left = left.saturating_sub(u64::from(count));
            left == 0
        });
        reached.map_or(f64::NAN, |step| step as f64 / 100.0)
    }
}
