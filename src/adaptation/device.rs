//! [`NewDevice`]: what is known of a device of which only end-to-end latencies exist.

use std::path::Path;
use vitempo_graph::{Environment, Precision, Processor};

/// A device, as far as its latencies' owner describes it.
///
/// ```
/// use vitempo::adaptation::NewDevice;
/// use vitempo::graph::{Precision, Processor};
///
/// let phone = NewDevice {
///     name: None,
///     processor: Processor::Gpu,
///     framework: "tflite".to_owned(),
///     threads: 1,
///     precision: Precision::F16,
/// };
/// let environment = phone.environment("latencies/galaxy-s24.csv".as_ref());
/// assert_eq!((&*environment.device, &*environment.framework), ("galaxy-s24", "tflite"));
/// assert_eq!(environment.framework_version, "unknown");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewDevice {
    /// `None`: that of the file of latencies.
    pub name: Option<String>,
    /// On which the models ran.
    pub processor: Processor,
    /// That ran the models.
    pub framework: String,
    /// That the models ran with.
    pub threads: usize,
    /// In which the models ran.
    pub precision: Precision,
}

impl NewDevice {
    /// The environment of the latencies in this file. What latencies do not say is left open: the
    /// framework's version is `unknown`, there is a core for each thread, and memory format, power
    /// mode, instruction set and operating system are absent.
    #[must_use]
    pub fn environment(&self, latencies: &Path) -> Environment {
        let stem = || latencies.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        Environment {
            device: self.name.clone().or_else(stem).unwrap_or_else(|| "device".to_owned()),
            processor: self.processor,
            cores_available: self.threads,
            cores: Vec::new(),
            framework: self.framework.clone(),
            framework_version: "unknown".to_owned(),
            threads: self.threads,
            precision: self.precision,
            memory_format: None,
            power_mode: None,
            isa: String::new(),
            os: String::new(),
            beside: None,
            settings: Vec::new(),
            host: None,
        }
    }
}
