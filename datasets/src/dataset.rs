//! [`Dataset`]: everything in a dataset folder as the types the rest of vitempo uses.

use crate::{DatasetError, Warning};
use std::{collections::BTreeMap, mem, path::PathBuf};
use vitempo_graph::{Graph, ModelIdentity, ModelProfile, Status};

/// All model runs of a dataset, and the graphs of the models.
#[derive(Debug, Default)]
pub struct Dataset {
    /// The folder it was read from.
    pub path: PathBuf,
    /// Every model run, failed ones included, in the order in which they were stored.
    pub profiles: Vec<ModelProfile>,
    /// The models' graphs, by architecture.
    pub graphs: BTreeMap<String, Graph>,
    /// Every model, measured or not.
    pub models: Vec<ModelIdentity>,
    /// Parts that were left out while reading.
    pub warnings: Vec<Warning>,
    /// How many architectures it has of how many, where it was read as a sample
    /// ([`Dataset::load_sample`]); `None` where it has all of them.
    pub sampled: Option<Sampled>,
}

/// How many architectures a sample has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampled {
    /// In the sample.
    pub architectures: usize,
    /// Measured in the environment.
    pub of: usize,
}

impl Dataset {
    /// The successful model runs.
    ///
    /// # Errors
    /// [`DatasetError::Empty`] when there is none.
    pub fn successful(&self) -> Result<Vec<&ModelProfile>, DatasetError> {
        let successful: Vec<&ModelProfile> =
            self.profiles.iter().filter(|p| p.status == Status::Ok).collect();
        if successful.is_empty() {
            Err(DatasetError::Empty { path: self.path.clone(), failed: self.profiles.len() })
        } else {
            Ok(successful)
        }
    }

    /// Takes out the model runs that measured memory alone
    /// ([`ModelProfile::is_of_memory_alone`]): they are not measurements of latency.
    pub fn take_memory_runs(&mut self) -> Vec<ModelProfile> {
        let (of_memory, kept): (Vec<_>, Vec<_>) =
            mem::take(&mut self.profiles).into_iter().partition(ModelProfile::is_of_memory_alone);
        self.profiles = kept;
        if !of_memory.is_empty() {
            self.warnings.push(Warning::MemoryAlone { runs: of_memory.len() });
        }
        of_memory
    }

    /// Takes out the model runs with other input values
    /// ([`Protocol::input_distribution`](vitempo_graph::Protocol)) than most have: latency may depend
    /// on them.
    pub fn take_other_inputs(&mut self) -> Vec<ModelProfile> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for profile in &self.profiles {
            *counts.entry(&profile.protocol.input_distribution).or_default() += 1;
        }
        let Some((usual, _)) = counts.into_iter().max_by_key(|(_, runs)| *runs) else {
            return Vec::new();
        };
        let usual = usual.to_owned();
        let (kept, others) = mem::take(&mut self.profiles)
            .into_iter()
            .partition(|p| p.protocol.input_distribution == usual);
        self.profiles = kept;
        if !others.is_empty() {
            self.warnings.push(Warning::OtherInputs { runs: others.len(), usual });
        }
        others
    }
}
