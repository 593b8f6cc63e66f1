//! [`Memory`]: the server's resident memory over time, and what it counts for bodies and answers.

use super::server::Running;
use std::{
    fmt, fs, thread,
    time::{Duration, Instant},
};

/// Samples at equal distances.
pub struct Memory {
    every: Duration,
    /// Resident memory, bytes.
    resident: Vec<f64>,
    /// Bodies and unread answers that count, bytes.
    pub counted: Vec<f64>,
}

/// Watches for so long; ends early where the server has ended.
pub fn watch(server: &Running, long: Duration) -> Memory {
    let every = Duration::from_secs(1).min(long / 12);
    let mut memory = Memory { every, resident: Vec::new(), counted: Vec::new() };
    let begun = Instant::now();
    while begun.elapsed() < long {
        thread::sleep(every);
        memory.resident.push(resident(server.child.id()));
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
        let mean = |samples: &[f64]| samples.iter().sum::<f64>() / samples.len() as f64;
        let (first, last) =
            (&self.resident[..third], &self.resident[self.resident.len() - third..]);
        mean(last) / mean(first) - 1.0
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:>10} {:>14} {:>14}", "s", "resident, MB", "most, MB")?;
        let seconds = self.every.as_secs_f64();
        let step = if self.resident.len() >= 300 { 60 } else { self.resident.len().div_ceil(12) };
        for (index, samples) in self.resident.chunks(step.max(1)).enumerate() {
            let mean = samples.iter().sum::<f64>() / samples.len() as f64;
            let most = samples.iter().copied().fold(0.0, f64::max);
            let end = (index * step + samples.len()) as f64 * seconds;
            writeln!(f, "{end:>10.1} {:>14.1} {:>14.1}", mean / 1e6, most / 1e6)?;
        }
        let counted = self.counted.iter().copied().fold(0.0, f64::max);
        writeln!(f, "bodies and unread answers: at most {:.1} MB", counted / 1e6)?;
        let growth = self.growth() * 100.0;
        write!(f, "resident memory, last third over first: {growth:+.1} %")
    }
}
