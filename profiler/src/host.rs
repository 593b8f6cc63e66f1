//! Describes the machine below an environment: [`Host`].
//!
//! Sources on Linux: `/proc/cpuinfo`, `/proc/meminfo`, `/proc/stat`, `/sys/devices/system/cpu`.
//! Elsewhere nothing is reported.

use crate::load::parse_size;
use std::fs;
use vitempo_graph::{Cache, Host};

/// The machine now, seen from a logical core.
#[must_use]
pub fn detect(core: usize) -> Host {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let folder = format!("/sys/devices/system/cpu/cpu{core}");
    let cpuinfo = read("/proc/cpuinfo");
    let reported = of_texts(core_section(&cpuinfo, core), &read("/proc/meminfo"));
    let counters = counters(&read("/proc/stat"));
    let khz = |file: &str| read(&format!("{folder}/cpufreq/{file}")).trim().parse::<u64>().ok();
    Host {
        threads_per_core: listed(read(&format!("{folder}/topology/thread_siblings_list")).trim()),
        caches: caches(&format!("{folder}/cache")),
        clock_mhz: khz("scaling_cur_freq").map(|khz| khz / 1000).or(reported.clock_mhz),
        highest_clock_mhz: khz("cpuinfo_max_freq").map(|khz| khz / 1000),
        logical_cores: counters.map(|c| c.cores),
        stolen_ticks: counters.map(|c| c.stolen),
        idle_ticks: counters.map(|c| c.idle),
        ticks: counters.map(|c| c.all),
        ..reported
    }
}

/// The part of `/proc/cpuinfo` about one core; the first one where there is none.
fn core_section(cpuinfo: &str, core: usize) -> &str {
    let mut sections = cpuinfo.split("\n\n");
    let found = sections.find(|section| number(section, "processor") == Some(core as u64));
    found.or_else(|| cpuinfo.split("\n\n").next()).unwrap_or_default()
}

fn of_texts(core: &str, meminfo: &str) -> Host {
    let versions = ["cpu family", "model", "stepping", "microcode"];
    let versions: Vec<&str> = versions.into_iter().filter_map(|n| text(core, n)).collect();
    let memory = |name| Some(number(meminfo, name)? * 1024);
    let flags = text(core, "flags").unwrap_or_default();
    Host {
        processor: Some(versions.join("/")).filter(|text| !text.is_empty()),
        virtualised: flags.split(' ').any(|flag| flag == "hypervisor"),
        clock_mhz: number(core, "cpu MHz"),
        memory_bytes: memory("MemTotal"),
        memory_available_bytes: memory("MemAvailable"),
        ..Host::default()
    }
}

/// The value of a line `name: value`.
fn text<'a>(lines: &'a str, name: &str) -> Option<&'a str> {
    let of_line = |line: &'a str| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    };
    lines.lines().find_map(of_line).filter(|value| !value.is_empty())
}

/// The whole number that such a value begins with.
fn number(lines: &str, name: &str) -> Option<u64> {
    let value = text(lines, name)?;
    value.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// How many numbers a list as `0-3,8` has.
fn listed(list: &str) -> Option<u64> {
    let count = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<u64>().ok()?, last.parse::<u64>().ok()?);
        last.checked_sub(first)?.checked_add(1)
    };
    list.split(',').map(count).sum()
}

fn caches(folder: &str) -> Vec<Cache> {
    let cache = |entry: fs::DirEntry| {
        let read = |file: &str| fs::read_to_string(entry.path().join(file)).ok();
        Some(Cache {
            level: read("level")?.trim().parse().ok()?,
            kind: read("type")?.trim().to_owned(),
            bytes: parse_size(read("size")?.trim())?,
            shared_by: read("shared_cpu_list").unwrap_or_default().trim().to_owned(),
        })
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut caches: Vec<Cache> = entries.filter_map(cache).collect();
    caches.sort();
    caches
}

/// How many cores there are, and their ticks together.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Counters {
    cores: u64,
    stolen: u64,
    idle: u64,
    all: u64,
}

/// From the line `cpu` of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal; guests'
/// time is part of user's. A core that waits for a disk is idle.
fn counters(stat: &str) -> Option<Counters> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let numbers: Vec<u64> = line.split_whitespace().take(8).flat_map(str::parse).collect();
    let [_, _, _, idle, waiting, _, _, stolen] = numbers[..] else { return None };
    let cores = stat.lines().filter(|line| line.starts_with("cpu")).count() - 1;
    Some(Counters { cores: cores as u64, stolen, idle: idle + waiting, all: numbers.iter().sum() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CPUINFO: &str = "processor\t: 0\ncpu family\t: 25\nmodel\t\t: 1\nmodel name\t: AMD EPYC\n\
        stepping\t: 1\ncpu MHz\t\t: 2445.406\nflags\t\t: fpu hypervisor avx2\n\nprocessor\t: 1\n\
        cpu MHz\t\t: 3100.1\n";
    const MEMINFO: &str = "MemTotal:       24000000 kB\nMemAvailable:   20000 kB\n";
    const STAT: &str = "cpu  100 0 20 800 10 0 5 65 40 0\ncpu0 1 0 0 0 0 0 0 0 0 0\n";

    #[test]
    fn texts_of_the_kernel_are_read() {
        let host = of_texts(core_section(CPUINFO, 0), MEMINFO);
        assert_eq!(host.processor.as_deref(), Some("25/1/1"));
        assert_eq!((host.virtualised, host.clock_mhz), (true, Some(2445)));
        assert_eq!(host.memory_bytes, Some(24_000_000 * 1024));
        assert_eq!(host.memory_available_bytes, Some(20_000 * 1024));
        assert_eq!(number(core_section(CPUINFO, 1), "cpu MHz"), Some(3100));
        assert_eq!(counters(STAT), Some(Counters { cores: 1, stolen: 65, idle: 810, all: 1000 }));
        assert_eq!(counters("cpu 1 2 3\n"), None);
        assert_eq!((listed("0,64"), listed("0-3,8"), listed("")), (Some(2), Some(5), None));
        assert_eq!(of_texts("", ""), Host::default());
    }
}
