//! [`Environment`]: where a measurement was taken. Latencies of different environments are never
//! mixed.

use crate::{Host, MemoryFormat, Precision, Setting};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The kind of processor that ran the operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Processor {
    /// Central processing unit.
    Cpu,
    /// Graphics processing unit.
    Gpu,
    /// Neural processing unit.
    Npu,
}

impl fmt::Display for Processor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Cpu => "cpu",
            Self::Gpu => "gpu",
            Self::Npu => "npu",
        })
    }
}

/// Device, processor and core set, framework and version, threads, precision and power mode.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Environment {
    /// Name of the processor as it gives it itself, e.g. `AMD EPYC`.
    pub device: String,
    /// Which of the device's processors ran.
    pub processor: Processor,
    /// Number of cores of that kind the machine has.
    pub cores_available: usize,
    /// Logical cores the framework's threads were pinned to; empty when they were not pinned.
    pub cores: Vec<usize>,
    /// Framework (inference engine), e.g. `onnxruntime`.
    pub framework: String,
    /// The framework's own version string.
    pub framework_version: String,
    /// Threads that compute inside one operator.
    pub threads: usize,
    /// Precision asked for.
    pub precision: Precision,
    /// Memory format asked for; `None`: left to the framework.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_format: Option<MemoryFormat>,
    /// Frequency governor or power mode, if the system reports it.
    pub power_mode: Option<String>,
    /// Instruction set extensions that decide which kernels run, e.g. `avx512f,avx512_vnni`.
    pub isa: String,
    /// Operating system and kernel release.
    pub os: String,
    /// The load that ran on other cores meanwhile, e.g. `stream`; `None`: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<String>,
    /// Settings of the framework that differ from its defaults, in their order; mostly none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<Setting>,
    /// The machine when the session began; no part of the identity. `None`: not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<Box<Host>>,
}

impl Environment {
    /// A stable, readable identifier: device, framework, version, processor, threads, precision and
    /// eight digits of the digest of all fields that make latencies comparable (everything but the
    /// operating system's release and the exact cores).
    #[must_use]
    pub fn id(&self) -> String {
        let mut identity = format!(
            "{}|{}|{}|{}|{}|{}|{}|{}|{:?}|{}",
            self.device,
            self.processor,
            self.cores_available,
            self.cores.len(),
            self.framework,
            self.framework_version,
            self.threads,
            self.precision,
            self.power_mode,
            self.isa
        );
        let format = self.memory_format.map(|f| format!("-{}", slug(f.name()))).unwrap_or_default();
        identity += &format;
        let load = self.beside.as_ref().map(|load| format!("-beside-{}", slug(load)));
        let load = load.unwrap_or_default();
        identity += &self.beside.as_ref().map(|load| format!("|{load}")).unwrap_or_default();
        let settings = self.settings_after("-");
        identity += &settings;
        let digest = blake3::hash(identity.as_bytes()).to_hex();
        format!(
            "{}-{}-{}-{}-{}t-{}{format}{settings}{load}-{}",
            slug(&self.device),
            slug(&self.framework),
            self.framework_version,
            self.processor,
            self.threads,
            self.precision,
            &digest[..8]
        )
    }

    /// The names of the settings, each after `mark`; without settings, nothing.
    #[must_use]
    pub fn settings_after(&self, mark: &str) -> String {
        self.settings.iter().map(|setting| format!("{mark}{setting}")).collect()
    }

    /// The same without the record of the machine.
    #[must_use]
    pub fn without_host(&self) -> Self {
        Self { host: None, ..self.clone() }
    }

    /// The same without a load on other cores.
    #[must_use]
    pub fn alone(&self) -> Self {
        Self { beside: None, ..self.clone() }
    }

    /// A readable line: `onnxruntime 1.31.1, AMD EPYC, cpu, 1 thread, f32`.
    #[must_use]
    pub fn describe(&self) -> String {
        let threads = if self.threads == 1 {
            "1 thread".to_owned()
        } else {
            format!("{} threads", self.threads)
        };
        let format = self
            .memory_format
            .map(|f| format!(", {}", f.name().replace('_', " ")))
            .unwrap_or_default();
        let settings = self.settings_after(", ");
        let load = self.beside.as_ref().map(|load| format!(", beside {load}")).unwrap_or_default();
        format!(
            "{} {}, {}, {}, {threads}, {}{format}{settings}{load}",
            self.framework, self.framework_version, self.device, self.processor, self.precision
        )
    }
}

fn slug(text: &str) -> String {
    let lower = text.to_lowercase();
    let words: Vec<&str> =
        lower.split(|c: char| !c.is_ascii_alphanumeric()).filter(|w| !w.is_empty()).collect();
    words.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epyc() -> Environment {
        Environment {
            device: "AMD EPYC (x)".into(),
            processor: Processor::Cpu,
            cores_available: 2,
            cores: vec![1],
            framework: "onnxruntime".into(),
            framework_version: "1.31.1".into(),
            threads: 1,
            precision: Precision::F32,
            memory_format: None,
            power_mode: None,
            isa: "avx512f".into(),
            os: "Linux 6.1".into(),
            beside: None,
            settings: Vec::new(),
            host: None,
        }
    }

    #[test]
    fn id_is_readable_and_tells_environments_apart() {
        let one = epyc();
        assert!(one.id().starts_with("amd-epyc-x-onnxruntime-1.31.1-cpu-1t-f32-"));
        assert_eq!(
            one.id(),
            Environment { os: "Linux 6.2".into(), cores: vec![0], ..one.clone() }.id()
        );
        assert_ne!(one.id(), Environment { threads: 2, ..one.clone() }.id());
        let last = Environment { memory_format: Some(MemoryFormat::ChannelsLast), ..one.clone() };
        assert!(last.id().starts_with("amd-epyc-x-onnxruntime-1.31.1-cpu-1t-f32-channels-last-"));
        assert_ne!(one.id(), Environment { isa: "avx2".into(), ..one.clone() }.id());
        let host = Host { clock_mhz: Some(3000), ..Host::default() };
        assert_eq!(one.id(), Environment { host: Some(host.into()), ..one.clone() }.id());
    }

    #[test]
    fn settings_are_part_of_the_identity() {
        let one = epyc();
        let set = |settings: &[Setting]| Environment { settings: settings.into(), ..one.clone() };
        let both = set(&[Setting::CudaGraph, Setting::Tf32]);
        assert!(both.id().contains("-1t-f32-cuda-graph-tf32-"), "{}", both.id());
        assert_ne!(both.id(), set(&[Setting::Tf32]).id());
        assert!(both.describe().ends_with(", f32, cuda-graph, tf32"));
        let json = serde_json::to_string(&one).unwrap_or_default();
        assert!(!json.contains("settings"), "{json}");
    }

    #[test]
    fn a_load_on_other_cores_is_another_environment() {
        let one = epyc();
        let beside = |load: &str| Environment { beside: Some(load.into()), ..one.clone() };
        let stream = beside("stream:2000MB/s");
        assert!(stream.id().contains("-1t-f32-beside-stream-2000mb-s-"), "{}", stream.id());
        assert_ne!(stream.id(), beside("stream").id());
        assert_eq!((stream.alone().id(), &stream.alone()), (one.id(), &one));
        assert!(stream.describe().ends_with(", f32, beside stream:2000MB/s"));
        let json = serde_json::to_string(&one).unwrap_or_default();
        assert!(!json.contains("beside"), "{json}");
    }
}
