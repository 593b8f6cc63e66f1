//! [`Memory`]: the server's resident memory over time, and what it counts for bodies and answers.

use super::server::Running;
use std::{
    fmt, fs, thread,
    time::{Duration, Instant},
};

/// Samples at equal distances.
pub struct Memory {
    /// When, and resident memory, bytes.
    resident: Vec<(Duration, f64)>,
    /// Bodies and unread answers that count, bytes.
    pub counted: Vec<f64>,
}

/// Between two samples.
const EVERY: Duration = Duration::from_millis(500);

/// Watches until `is_enough` for the time that has gone by.
pub fn watch(server: &Running, is_enough: impl Fn(Duration) -> bool) -> Memory {
    let mut memory = Memory { resident: Vec::new(), counted: Vec::new() };
    let begun = Instant::now();
    while !is_enough(begun.elapsed()) {
        thread::sleep(EVERY);
        memory.resident.push((begun.elapsed(), resident(server.child.id())));
        memory.counted.extend(counted(server));
    }
    memory
}

fn resident(process: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<f64>().ok());
    kibibytes.map_or(f64::NAN, |kibibytes| kibibytes * 1024.0)
}

/// `None` where the server is too busy to say.
fn counted(server: &Running) -> Option<f64> {
    let reply = server.try_get("/metrics").filter(|reply| reply.status == 200)?;
    let page = String::from_utf8(reply.body).ok()?;
    let line = page.lines().find_map(|line| line.strip_prefix("vitempo_memory_used_bytes "));
    line?.parse().ok()
}

impl Memory {
    /// From the first third to the last, as a share of the first.
    pub fn growth(&self) -> f64 {
        let third = self.resident.len() / 3;
        let last = &self.resident[self.resident.len() - third..];
        mean(last) / mean(&self.resident[..third]) - 1.0
    }
}

fn mean(samples: &[(Duration, f64)]) -> f64 {
    samples.iter().map(|(_, bytes)| bytes).sum::<f64>() / samples.len() as f64
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:>10} {:>14} {:>14}", "s", "resident, MB", "most, MB")?;
        let is_long = self.resident.last().is_some_and(|(time, _)| time.as_secs() >= 300);
        let step = Duration::from_secs(if is_long { 60 } else { 5 });
        let row = |time: &Duration| time.as_nanos() / step.as_nanos();
        for samples in self.resident.chunk_by(|(one, _), (next, _)| row(one) == row(next)) {
            let most = samples.iter().map(|(_, bytes)| *bytes).fold(0.0, f64::max);
            let end = samples.last().map_or(0.0, |(time, _)| time.as_secs_f64());
            writeln!(f, "{end:>10.1} {:>14.1} {:>14.1}", mean(samples) / 1e6, most / 1e6)?;
        }
        let counted = self.counted.iter().copied().fold(0.0, f64::max);
        writeln!(f, "bodies and unread answers: at most {:.1} MB", counted / 1e6)?;
        let growth = self.growth() * 100.0;
        write!(f, "resident memory, last third over first: {growth:+.1} %")
    }
}
