//! A worker for tests: all backends, and one that fails in the way that the model's name describes.

use std::{io, path::PathBuf, thread::sleep, time::Duration};
use vitempo_profiler::{
    Availability, Backend, BackendError, Model, OutputValues, ProfiledRuns, RunOptions, RunTime,
    Session, WorkerCommand, backends,
    remote::{self, AgentOptions, Log},
    worker,
};

/// The null backend, but for models called `crash`, `panic`, `hang`, `refuse`, `print`, `kill` (ends
/// the other worker's `dies`), `dies`, and `touch` (refuses with what happens to freed memory).
struct Faulty(Box<dyn Backend>);

impl Backend for Faulty {
    fn name(&self) -> &'static str {
        "faulty"
    }

    fn description(&self) -> &'static str {
        "fails as the model's name says"
    }

    fn probe(&self, options: &RunOptions) -> Availability {
        self.0.probe(options)
    }

    fn load(&self, model: &Model, options: &RunOptions) -> Result<Box<dyn Session>, BackendError> {
        match model.name.as_str() {
            "crash" => {
                eprintln!("about to crash");
                std::process::abort()
            }
            "panic" => panic!("what a model"),
            "hang" => sleep(Duration::from_secs(600)),
            "slow" => sleep(Duration::from_millis(300)),
            "kill" => {
                let written = marker().map(|marker| std::fs::write(marker, "now"));
                assert!(written.is_some_and(|written| written.is_ok()), "no marker");
                sleep(Duration::from_millis(300));
            }
            "dies" => return Ok(Box::new(Mortal(self.0.load(model, options)?))),
            "print" => println!("engines print to stdout"),
            "refuse" => {
                return Err(BackendError::Load {
                    backend: self.name(),
                    model: model.name.clone(),
                    reason: "Col2Im is unknown".to_owned(),
                });
            }
            "touch" => {
                return Err(BackendError::Load {
                    backend: self.name(),
                    model: model.name.clone(),
                    reason: freed_memory().to_owned(),
                });
            }
            _ => {}
        }
        self.0.load(model, options)
    }
}

/// Whether a large block that was freed costs page faults again.
fn freed_memory() -> &'static str {
    const BYTES: usize = 48 << 20;
    let touch = || drop(std::hint::black_box(vec![1u8; BYTES]));
    touch();
    let before = page_faults();
    (0..4).for_each(|_| touch());
    // Pages have at most 2 MiB.
    let all = 4 * (BYTES >> 21) as u64;
    if page_faults() - before < all / 2 { "freed memory is kept" } else { "freed memory goes back" }
}

/// Minor page faults of this process so far.
fn page_faults() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let mut fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.nth(7).and_then(|count| count.parse().ok()).unwrap_or_default()
}

/// The file whose presence ends a session of `dies`.
fn marker() -> Option<PathBuf> {
    std::env::var_os("VITEMPO_TEST_MARKER").map(PathBuf::from)
}

/// Aborts the process as soon as there is a marker, which it removes.
struct Mortal(Box<dyn Session>);

impl Session for Mortal {
    fn run(&mut self) -> Result<RunTime, BackendError> {
        if marker().is_some_and(|marker| std::fs::remove_file(marker).is_ok()) {
            std::process::abort();
        }
        self.0.run()
    }

    fn profile(&mut self, warmups: usize, repeats: usize) -> Result<ProfiledRuns, BackendError> {
        self.0.profile(warmups, repeats)
    }

    fn outputs(&mut self) -> Result<Vec<OutputValues>, BackendError> {
        self.0.outputs()
    }
}

/// `agent FOLDER` is an agent whose workers are this program.
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    if let (Some("agent"), Some(folder)) = (words.next().as_deref(), words.next()) {
        let worker = WorkerCommand::this_program([])?;
        remote::serve(&AgentOptions::new(folder.into(), worker, Log::silent()))?;
        return Ok(());
    }
    let mut all = backends::all();
    let null = backends::by_name("null").map_err(io::Error::other)?;
    all.push(Box::new(Faulty(null)));
    Ok(worker::serve(&all)?)
}
