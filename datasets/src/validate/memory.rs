//! Finds peaks of memory that are not measurements. A [`PeakFault`] is a warning, because the times
//! of the model run are not affected.

use super::{Inspection, Readable, graphs};
use crate::{
    journal::Entry,
    tables::{environments::EnvironmentRow, model_measurements},
};
use std::collections::HashMap;
use vitempo_graph::{Graph, PeakFault, Precision};

impl Inspection<'_> {
    pub(super) fn check_peaks(&mut self, readable: &Readable) {
        let graphs = graphs(readable);
        let graph = |architecture: &str| graphs.get(architecture).copied();
        let precisions = precisions(readable.environments.iter().flatten());
        let file = model_measurements::SCHEMA.file_name();
        for (row, run) in readable.runs.iter().flatten().enumerate() {
            let key = &run.key;
            let precision = precisions.get(key.environment_id.as_str()).copied();
            let peak = run.peak_memory_bytes.zip(precision);
            self.check_peak(&file, row, peak, graph(&key.architecture));
        }
        for (index, entry) in readable.journal.entries.iter().enumerate() {
            let Entry::Run(profile) = entry else { continue };
            let (file, line) = readable.journal.place(index);
            let peak =
                profile.peak_memory_bytes.map(|bytes| (bytes, profile.environment.precision));
            self.check_peak(&file, line, peak, graph(&profile.model.architecture));
        }
    }

    fn check_peak(
        &mut self,
        file: &str,
        row: usize,
        peak: Option<(u64, Precision)>,
        graph: Option<&Graph>,
    ) {
        let fault = peak.and_then(|(bytes, precision)| PeakFault::of(bytes, graph, precision));
        match fault {
            Some(fault @ PeakFault::Zero) => {
                self.warn("peak-memory", file, row, format!("{fault}; it is read as null"));
            }
            Some(fault) => self.warn("peak-memory", file, row, fault.to_string()),
            None => {}
        }
    }
}

fn precisions<'a>(
    environments: impl Iterator<Item = &'a EnvironmentRow>,
) -> HashMap<&'a str, Precision> {
    environments.map(|row| (row.id.as_str(), row.environment.precision)).collect()
}
