//! [`Availability`]: whether an engine can run here, and what it offers.

use super::{error::BackendError, options::RunOptions};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use vitempo_graph::{MemoryFormat, Precision, Processor, Setting};

/// Whether an engine can run here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "lowercase")]
pub enum Availability {
    /// It can.
    Available(Capabilities),
    /// It cannot.
    Unavailable {
        /// What was found, or not.
        reason: String,
        /// What to do about it.
        hint: String,
    },
}

/// A processor an engine could use if it were there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AbsentDevice {
    /// Which.
    pub processor: Processor,
    /// The engine's own words.
    pub reason: String,
    /// What to do about it.
    pub hint: String,
}

/// What an available engine offers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Capabilities {
    /// The engine's own version string.
    pub version: String,
    /// Its library; `None` when it is compiled in.
    pub path: Option<PathBuf>,
    /// Processors it can run on here.
    pub devices: Vec<Processor>,
    /// Precisions that can be asked for.
    pub precisions: Vec<Precision>,
    /// Memory formats that can be asked for.
    pub memory_formats: Vec<MemoryFormat>,
    /// Settings that can be asked for, on the processor of the options.
    #[serde(default)]
    pub settings: Vec<Setting>,
    /// Whether it reports the time of every operator in place.
    pub operator_timing: bool,
}

impl Capabilities {
    /// Refuses options that the engine does not offer.
    ///
    /// # Errors
    /// [`BackendError::Option`].
    pub fn check(&self, backend: &'static str, options: &RunOptions) -> Result<(), BackendError> {
        let names = |list: Vec<String>| list.join(", ");
        let refuse = |asked: String, offered: Vec<String>| {
            Err(BackendError::Option { backend, asked, offered: names(offered) })
        };
        if !self.devices.contains(&options.processor) {
            return refuse(
                format!("device {}", options.processor),
                self.devices.iter().map(ToString::to_string).collect(),
            );
        }
        if !self.precisions.contains(&options.precision) {
            return refuse(
                format!("precision {}", options.precision),
                self.precisions.iter().map(ToString::to_string).collect(),
            );
        }
        if let Some(format) = options.memory_format.filter(|f| !self.memory_formats.contains(f)) {
            return refuse(
                format!("memory format {format}"),
                self.memory_formats.iter().map(ToString::to_string).collect(),
            );
        }
        for (index, &setting) in options.settings.iter().enumerate() {
            if !self.settings.contains(&setting) {
                let offered = match self.settings.as_slice() {
                    [] => vec![format!("no settings on a {}", options.processor)],
                    settings => settings.iter().map(ToString::to_string).collect(),
                };
                return refuse(format!("setting {setting}"), offered);
            }
            if let Some(other) = options.settings[..index].iter().find(|s| !s.agrees(setting)) {
                return refuse(
                    format!("settings {other} and {setting}"),
                    vec![format!("one of {other}, {setting}")],
                );
            }
        }
        if options.threads == 0 {
            return refuse("0 threads".to_owned(), vec!["1 and more".to_owned()]);
        }
        Ok(())
    }
}

impl Availability {
    /// The capabilities, or the error that says why there are none.
    ///
    /// # Errors
    /// [`BackendError::Unavailable`].
    pub fn require(self, backend: &'static str) -> Result<Capabilities, BackendError> {
        match self {
            Self::Available(capabilities) => Ok(capabilities),
            Self::Unavailable { reason, hint } => {
                Err(BackendError::Unavailable { backend, reason, hint })
            }
        }
    }
}
