//! Reads datasets one environment at a time, because a large dataset does not fit into memory.

use super::{Progress, ReportError, survey::Measurements};
use std::path::{Path, PathBuf};
use vitempo::datasets::Dataset;
use vitempo::graph::{ModelProfile, Status};

/// The measurements of one environment in one folder.
pub struct EnvironmentData {
    /// Identifier of the environment.
    pub id: String,
    /// Name of the folder.
    pub folder: String,
    /// Successful measurements with the usual inputs, and the graphs of the models.
    pub dataset: Dataset,
    /// Successful measurements with other input values.
    pub other_inputs: Vec<ModelProfile>,
    /// Number of measurements that failed.
    pub failed: usize,
}

impl EnvironmentData {
    fn new(id: String, folder: &Path, mut dataset: Dataset) -> Self {
        let all = dataset.profiles.len();
        dataset.profiles.retain(|p| p.status == Status::Ok);
        let failed = all - dataset.profiles.len();
        let other_inputs = dataset.take_other_inputs();
        let name = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        let folder = name
            .file_name()
            .map_or_else(|| folder.display().to_string(), |n| n.to_string_lossy().into_owned());
        Self { id, folder, dataset, other_inputs, failed }
    }

    /// As a survey reads it.
    pub fn measurements(&self) -> Measurements<'_> {
        Measurements {
            folder: self.folder.clone(),
            profiles: &self.dataset.profiles,
            other_inputs: &self.other_inputs,
            graphs: &self.dataset.graphs,
            failed: self.failed,
        }
    }
}

/// A function of one environment's measurements.
type Each<'a> =
    &'a mut dyn FnMut(&EnvironmentData, &mut dyn FnMut(Progress<'_>)) -> Result<(), ReportError>;

/// Calls `each` with every environment of the folders, in the order of folders, then of
/// identifiers.
pub fn environments(
    folders: &[PathBuf],
    progress: &mut dyn FnMut(Progress<'_>),
    each: Each<'_>,
) -> Result<(), ReportError> {
    for folder in folders {
        let described = Dataset::described_environments(folder)?;
        let is_alone = |id: &String| described.get(id).is_none_or(|e| e.beside.is_none());
        // Rows beside loads serve the slowdown model, not the tables of accuracy.
        for id in Dataset::environments(folder)?.into_keys().filter(is_alone) {
            let dataset = Dataset::load_environment(folder, |other| other == id)?;
            for warning in &dataset.warnings {
                progress(Progress::Warning(&warning.to_string()));
            }
            each(&EnvironmentData::new(id, folder, dataset), progress)?;
        }
    }
    Ok(())
}
