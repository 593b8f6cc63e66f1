//! Runs fuzz targets on stable Rust: each input follows from the corpus, the seed and its index
//! alone, so that any of them can be made again.
//!
//!     campaign TARGET [--seed 1] [--from 0] [--inputs 100000] [--out FOLDER]
//!
//! The work is done by a child process. When an input panics, takes more memory than is allowed, or
//! ends the process, it is stored in the folder and counted, and the next one follows. The last
//! line says how many inputs were run and how many were faults; then the program ends with 1.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::FileExt,
    panic,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    thread,
    time::Duration,
};
use vitempo_fuzz_bodies::{
    MEMORY_LIMIT, Target, corpus,
    memory::{Counting, peak_of},
    mutation, target,
};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// An input under way for so long is given up.
const LONGEST: Duration = Duration::from_secs(60);
/// Faults with one cause are many; no more are stored.
const MOST_FAULTS: u64 = 200;

struct Campaign {
    target: &'static Target,
    seed: u64,
    from: u64,
    inputs: u64,
    out: PathBuf,
    worker: bool,
}

fn main() -> ExitCode {
    let outcome = Campaign::from_arguments().and_then(|campaign| {
        if campaign.worker { campaign.work().map(|()| 0) } else { campaign.supervise() }
    });
    match outcome {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(1),
        Err(reason) => {
            eprintln!("error: {reason}");
            ExitCode::from(2)
        }
    }
}

impl Campaign {
    fn from_arguments() -> Result<Self, String> {
        let mut arguments = std::env::args().skip(1);
        let name = arguments.next().ok_or("name a target: one of fuzz/corpus")?;
        let target = target(&name).ok_or_else(|| format!("there is no target `{name}`"))?;
        let mut campaign = Self {
            target,
            seed: 1,
            from: 0,
            inputs: 100_000,
            out: PathBuf::from("crashes"),
            worker: false,
        };
        while let Some(flag) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{flag} needs a value"));
            let number = |text: String| text.parse().map_err(|e| format!("{flag}: {e}"));
            match flag.as_str() {
                "--seed" => campaign.seed = number(value()?)?,
                "--from" => campaign.from = number(value()?)?,
                "--inputs" => campaign.inputs = number(value()?)?,
                "--out" => campaign.out = value()?.into(),
                "--worker" => campaign.worker = true,
                _ => return Err(format!("there is no flag `{flag}`")),
            }
        }
        Ok(campaign)
    }

    fn end(&self) -> u64 {
        self.from.saturating_add(self.inputs)
    }

    /// Where the worker says which input is under way.
    fn progress(&self) -> PathBuf {
        self.out.join(format!("{}-{}.progress", self.target.name, self.seed))
    }

    /// Input number `index`.
    fn input(&self, index: u64, corpus: &[Vec<u8>]) -> Vec<u8> {
        mutation::seeded(self.target.mutation, corpus, self.seed, index)
    }

    fn corpus(&self) -> Result<Vec<Vec<u8>>, String> {
        let files = corpus::files(self.target).map_err(|e| format!("the corpus: {e}"))?;
        Ok(files.into_iter().map(|(_, bytes)| bytes).collect())
    }

    /// Runs the inputs in this process.
    fn work(&self) -> Result<(), String> {
        let corpus = self.corpus()?;
        let progress = File::create(self.progress()).map_err(|e| format!("no progress: {e}"))?;
        panic::set_hook(Box::new(|_| {}));
        watch();
        for index in self.from..self.end() {
            let _ = progress.write_all_at(&index.to_le_bytes(), 0);
            let input = self.input(index, &corpus);
            CURRENT.store(index + 1, Relaxed);
            let body = || peak_of(|| (self.target.body)(&input)).1;
            let fault = match panic::catch_unwind(panic::AssertUnwindSafe(body)) {
                Ok(peak) if peak > MEMORY_LIMIT + input.len() => format!("takes {peak} bytes"),
                Ok(_) => continue,
                Err(payload) => format!("panics: {}", message(&*payload)),
            };
            // What is set up once is no input's own: only a second time counts.
            if fault.starts_with("takes")
                && peak_of(|| (self.target.body)(&input)).1 <= MEMORY_LIMIT
            {
                continue;
            }
            self.store(index, &input, &fault).map_err(|e| format!("cannot store a fault: {e}"))?;
        }
        progress.write_all_at(&self.end().to_le_bytes(), 0).map_err(|e| e.to_string())
    }

    fn store(&self, index: u64, input: &[u8], fault: &str) -> io::Result<()> {
        let file = self.out.join(format!("{}-{}-{index}", self.target.name, self.seed));
        fs::write(&file, input)?;
        println!("{}: {fault}", file.display());
        Ok(())
    }

    /// Starts workers until every input was run; how many faults there were.
    fn supervise(&self) -> Result<u64, String> {
        let at = |e: io::Error| format!("{}: {e}", self.out.display());
        fs::create_dir_all(&self.out).map_err(at)?;
        let corpus = self.corpus()?;
        let (mut next, mut ended) = (self.from, 0);
        while next < self.end() && ended < MOST_FAULTS {
            let program = std::env::current_exe().map_err(at)?;
            let status = Command::new(program)
                .arg(self.target.name)
                .args(["--worker", "--seed", &self.seed.to_string()])
                .args(["--from", &next.to_string()])
                .args(["--inputs", &(self.end() - next).to_string()])
                .arg("--out")
                .arg(&self.out)
                .status()
                .map_err(at)?;
            let index = read_progress(&self.progress()).map_err(at)?;
            if !status.success() {
                ended += 1;
                let input = self.input(index, &corpus);
                self.store(index, &input, &format!("ends the process: {status}")).map_err(at)?;
            }
            next = if status.success() { self.end() } else { index + 1 };
        }
        let faults = self.stored().map_err(at)?;
        println!("{}: {} inputs, {faults} faults", self.target.name, next - self.from);
        Ok(faults)
    }

    /// How many inputs of this campaign were stored.
    fn stored(&self) -> io::Result<u64> {
        let prefix = format!("{}-{}-", self.target.name, self.seed);
        let names = fs::read_dir(&self.out)?.flatten().map(|entry| entry.file_name());
        Ok(names.filter(|name| name.to_string_lossy().starts_with(&prefix)).count() as u64)
    }
}

fn read_progress(path: &Path) -> io::Result<u64> {
    let bytes = fs::read(path)?;
    Ok(bytes.try_into().map_or(0, u64::from_le_bytes))
}

fn message(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default()
}

/// The input under way, plus one.
static CURRENT: AtomicU64 = AtomicU64::new(0);

/// Ends the process when one input takes too long.
fn watch() {
    thread::spawn(|| {
        loop {
            let before = CURRENT.load(Relaxed);
            thread::sleep(LONGEST);
            if before != 0 && CURRENT.load(Relaxed) == before {
                std::process::exit(3);
            }
        }
    });
}
