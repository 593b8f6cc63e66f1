//! Describes the environment of a measurement: processor, cores, instruction sets, power mode,
//! operating system, engine.
//!
//! Sources on Linux: `/proc/cpuinfo`, `/sys/devices/system/cpu`, `/proc/sys/kernel`; for an NVIDIA
//! GPU, its driver. Elsewhere what the standard library reports.

use crate::{
    backends::{availability::Capabilities, options::RunOptions},
    host,
    pinning::{self, PinningError},
};
use std::fs;
use vitempo_graph::{Environment, Processor, Setting};

/// Instruction set extensions that decide which kernels an engine takes.
const EXTENSIONS: &[&str] = &[
    "sse4_1",
    "avx",
    "avx2",
    "fma",
    "f16c",
    "avx_vnni",
    "avx512f",
    "avx512bw",
    "avx512vl",
    "avx512_vnni",
    "avx512_bf16",
    "avx512_fp16",
    "amx_tile",
    "amx_int8",
    "amx_bf16",
    "asimd",
    "asimdhp",
    "asimddp",
    "i8mm",
    "bf16",
    "sve",
    "sve2",
    "sme",
];

/// The environment in which `backend` runs with these options on this machine.
///
/// # Errors
/// [`PinningError`] when the cores asked for are not there.
pub fn detect(
    backend: &str,
    capabilities: &Capabilities,
    options: &RunOptions,
) -> Result<Environment, PinningError> {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cores = pinning::choose(&options.cores, options.threads)?;
    let core = cores.first().copied().unwrap_or(0);
    let (device, cores_available, isa) = gpu(backend, options.processor).unwrap_or_else(|| {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        (device_name(&cpuinfo), cores.max(pinning::usable().len()), extensions(&cpuinfo))
    });
    Ok(Environment {
        device,
        processor: options.processor,
        cores_available,
        power_mode: power_mode(core),
        cores,
        framework: backend.to_owned(),
        framework_version: capabilities.version.clone(),
        threads: options.threads,
        precision: options.precision,
        memory_format: options.memory_format,
        isa,
        os: operating_system(),
        beside: None,
        settings: in_order(&options.settings),
        host: Some(host::detect(core).into()),
    })
}

/// Settings in their order, each once: equal ones make equal environments.
fn in_order(settings: &[Setting]) -> Vec<Setting> {
    let mut settings = settings.to_vec();
    settings.sort_unstable();
    settings.dedup();
    settings
}

/// Name, CUDA cores and compute capability of the GPU that runs, for engines that run on NVIDIA's.
/// The CPU that drives it is in the record of the machine.
fn gpu(backend: &str, processor: Processor) -> Option<(String, usize, String)> {
    #[cfg(any(feature = "onnxruntime", feature = "torch"))]
    if processor == Processor::Gpu && ["onnxruntime", "torch"].contains(&backend) {
        let gpu = crate::nvml::Board::find().ok()?.describe()?;
        return Some((gpu.name, gpu.cores, gpu.capability));
    }
    let _ = (backend, processor);
    None
}

/// The first of `model name` (x86), `Model`/`Hardware` (boards) and the ARM part number; the
/// architecture if all are absent. A name without a number is that of a line of processors, as
/// hypervisors give it (`AMD EPYC`): family and model tell these apart.
fn device_name(cpuinfo: &str) -> String {
    let arm = || {
        let (vendor, part) = (field(cpuinfo, "CPU implementer")?, field(cpuinfo, "CPU part")?);
        Some(format!("ARM {vendor}/{part}"))
    };
    let name = field(cpuinfo, "model name")
        .or_else(|| field(cpuinfo, "Hardware"))
        .or_else(|| field(cpuinfo, "Model"))
        .or_else(arm);
    let name = name.unwrap_or_else(|| format!("{} processor", std::env::consts::ARCH));
    match field(cpuinfo, "cpu family").zip(field(cpuinfo, "model")) {
        Some((family, model)) if !name.contains(|c: char| c.is_ascii_digit()) => {
            format!("{name} (family {family} model {model})")
        }
        _ => name,
    }
}

fn field(cpuinfo: &str, name: &str) -> Option<String> {
    let value = |line: &str| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    cpuinfo.lines().find_map(value).filter(|v| !v.is_empty())
}

/// Known extensions the processor reports, in a fixed order, separated by commas.
fn extensions(cpuinfo: &str) -> String {
    let flags = field(cpuinfo, "flags").or_else(|| field(cpuinfo, "Features")).unwrap_or_default();
    let has = |extension: &&&str| flags.split(' ').any(|flag| flag == **extension);
    EXTENSIONS.iter().filter(has).copied().collect::<Vec<_>>().join(",")
}

fn power_mode(core: usize) -> Option<String> {
    let governor =
        fs::read_to_string(format!("/sys/devices/system/cpu/cpu{core}/cpufreq/scaling_governor"))
            .ok()?;
    Some(governor.trim().to_owned()).filter(|g| !g.is_empty())
}

fn operating_system() -> String {
    let kernel = |name: &str| {
        fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok().map(|t| t.trim().to_owned())
    };
    match (kernel("ostype"), kernel("osrelease")) {
        (Some(name), Some(release)) => format!("{name} {release}"),
        _ => std::env::consts::OS.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const X86: &str = "processor\t: 0\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: AMD  EPYC \
        9R14\nflags\t\t: fpu sse4_1 avx2 fma avx512f\n";
    /// As a hypervisor names any of them.
    const LINE: &str =
        "cpu family\t: 23\nmodel\t\t: 1\nmodel name\t: AMD EPYC\nflags\t\t: fpu avx2\n";
    const ARM: &str = "processor\t: 0\nFeatures\t: fp asimd asimddp\nCPU implementer\t: 0x41\nCPU \
        part\t: 0xd0c\n";

    #[test]
    fn processors_are_named() {
        for (cpuinfo, name, isa) in [
            (X86, "AMD EPYC 9R14", "sse4_1,avx2,fma,avx512f"),
            (LINE, "AMD EPYC (family 23 model 1)", "avx2"),
            (ARM, "ARM 0x41/0xd0c", "asimd,asimddp"),
        ] {
            assert_eq!((device_name(cpuinfo).as_str(), extensions(cpuinfo).as_str()), (name, isa));
        }
        assert!(device_name("").ends_with("processor"));
    }
}
