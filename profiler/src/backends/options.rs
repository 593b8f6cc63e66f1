//! [`RunOptions`]: how an engine runs a model.

use crate::inputs::InputDistribution;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use vitempo_graph::{MemoryFormat, Precision, Processor, Setting};

/// How to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunOptions {
    /// Threads that compute inside one operator.
    pub threads: usize,
    /// Logical cores to pin the process to; empty: not pinned.
    pub cores: Vec<usize>,
    /// Which of the machine's processors runs.
    pub processor: Processor,
    /// Precision asked for.
    pub precision: Precision,
    /// Memory format asked for; `None`: left to the engine.
    pub memory_format: Option<MemoryFormat>,
    /// Settings of the engine that differ from its defaults.
    #[serde(default)]
    pub settings: Vec<Setting>,
    /// Values of the inputs.
    pub inputs: InputDistribution,
    /// Seed of inputs and of weights the file lacks.
    pub seed: u64,
    /// The engine's shared library, where it has one; `None`: look for it.
    pub library: Option<PathBuf>,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            threads: 1,
            cores: Vec::new(),
            processor: Processor::Cpu,
            precision: Precision::F32,
            memory_format: None,
            settings: Vec::new(),
            inputs: InputDistribution::default(),
            seed: 0,
            library: None,
        }
    }
}
