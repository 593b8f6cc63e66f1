//! Datasets, one environment at a time: a large one does not fit into memory whole.

use crate::verbs::{error::CliResult, progress};
use std::{
    collections::BTreeMap,
    mem,
    path::{Path, PathBuf},
};
use vitempo::datasets::Dataset;
use vitempo::graph::{ModelProfile, Status};
use vitempo_report::survey::Visited;

/// The visits of one environment in one folder.
pub struct Environment {
    pub id: String,
    /// Name of the folder.
    pub folder: String,
    /// Successful visits with the usual inputs, and the graphs of the models.
    pub dataset: Dataset,
    /// Successful visits with other input values.
    pub other_inputs: Vec<ModelProfile>,
    /// Visits that failed.
    pub failed: usize,
}

impl Environment {
    fn new(id: String, folder: &Path, mut dataset: Dataset) -> Self {
        let visits = dataset.profiles.len();
        dataset.profiles.retain(|p| p.status == Status::Ok);
        let failed = visits - dataset.profiles.len();
        let usual = usual_inputs(&dataset.profiles);
        let (profiles, other_inputs) = mem::take(&mut dataset.profiles)
            .into_iter()
            .partition(|p| p.protocol.input_distribution == usual);
        dataset.profiles = profiles;
        let name = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        let folder = name
            .file_name()
            .map_or_else(|| folder.display().to_string(), |n| n.to_string_lossy().into_owned());
        Self { id, folder, dataset, other_inputs, failed }
    }

    /// As the report sees it.
    pub fn visited(&self) -> Visited<'_> {
        Visited {
            folder: self.folder.clone(),
            profiles: &self.dataset.profiles,
            other_inputs: &self.other_inputs,
            graphs: &self.dataset.graphs,
            failed: self.failed,
        }
    }
}

/// The input distribution of most visits.
fn usual_inputs(profiles: &[ModelProfile]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    profiles.iter().for_each(|p| *counts.entry(&p.protocol.input_distribution).or_default() += 1);
    counts.into_iter().max_by_key(|(_, n)| *n).map(|(name, _)| name.to_owned()).unwrap_or_default()
}

/// Calls `each` with every environment of the folders, in the order of folders, then of
/// identifiers.
pub fn environments(
    folders: &[PathBuf],
    each: &mut dyn FnMut(&Environment) -> CliResult,
) -> CliResult {
    for folder in folders {
        for id in Dataset::environments(folder)?.into_keys() {
            let dataset = Dataset::load_environment(folder, |other| other == id)?;
            dataset.warnings.iter().for_each(|w| progress::say(format!("warning: {w}")));
            each(&Environment::new(id, folder, dataset))?;
        }
    }
    Ok(())
}
