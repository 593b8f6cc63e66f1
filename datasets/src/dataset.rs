//! [`Dataset`]: everything in a dataset folder as the types the rest of vitempo uses.

use crate::{DatasetError, Warning};
use std::{collections::BTreeMap, path::PathBuf};
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
}
