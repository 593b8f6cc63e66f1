//! [`import_mobile_ml_benchmark`]: CNNs and vision transformers on six phones, as Li, Paolieri and
//! Golubchik publish them in <https://github.com/qed-usc/mobile-ml-benchmark> (MIT).
//!
//! | file | columns |
//! |---|---|
//! | end to end | `model`, `FLOPS` or `flops`, `size`, then `device\|cores\|precision\|mean` and `\|std` |
//! | per operator | `model`, `operation`, `feature` (a Python dict), then `device\|cores\|precision`, and `device\|gpu\|kernel` |
//!
//! Latencies are means in microseconds, an empty cell was not measured; `cores` is a set of cores
//! such as `1large1med`, or `gpu`; precision is `float` or `quant`. File names give the rest:
//! `{tflite|torch}_{cnn|nas|vit|transformer}_{real|synthetic}_{e2e|ops_cpu|ops_cpu_quant|ops_gpu}.csv`.
//!
//! A mean becomes one sample in nanoseconds; standard deviations are of single runs, not of the
//! mean, and are left out. The rows of all files are held as numbers; model runs are built and
//! written one at a time, environment by environment.

mod cells;
mod columns;
mod conventions;
mod features;
mod fused;
mod kinds;
mod operators;
mod read;
mod runs;
mod shapes;
mod windows;

#[cfg(test)]
mod tests;

pub use conventions::{Family, Framework};

use crate::{DatasetError, Store, tables::runs::TablesWriter};
use std::{collections::BTreeMap, path::Path};

/// Where the numbers come from and under which licence.
pub(crate) const SOURCE: &str = "https://github.com/qed-usc/mobile-ml-benchmark, MIT";

/// What the names of files do not give.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileFacts {
    /// Inference engine.
    pub framework: Option<Framework>,
    /// What kind of models.
    pub family: Option<Family>,
    /// Whether the models were sampled from a search space. Only these are used for training; all
    /// others are used for testing.
    pub synthetic: bool,
}

/// What was imported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// Model runs written.
    pub runs: usize,
    /// Models with a model run.
    pub models: usize,
    /// Environments.
    pub environments: usize,
    /// Rows of operators.
    pub operator_rows: usize,
    /// Operations that were kept as unsupported operators: `name: why`, and how many rows of the
    /// files.
    pub unsupported: BTreeMap<String, usize>,
}

/// Writes what the files hold into a new dataset folder. End-to-end and operator rows of one model
/// and setting become one model run.
///
/// # Errors
/// [`DatasetError::Import`] naming file, line and column; [`DatasetError::NotImportable`] when a
/// name and `facts` do not give what a file holds, or two files hold the same;
/// [`DatasetError::NotADataset`] when `out` holds measurements already; [`DatasetError::Io`].
pub fn import_mobile_ml_benchmark(
    files: &[&Path],
    facts: &FileFacts,
    out: &Path,
) -> Result<Imported, DatasetError> {
    let collections = read::collections(files, facts)?;
    if !collections.values().any(read::Models::has_latencies) {
        let path = files.first().copied().unwrap_or(out).to_owned();
        let reason = "no row has a latency".to_owned();
        return Err(DatasetError::NotImportable { path, reason });
    }
    let store = Store::open_empty(out, "import")?;
    let mut writer = TablesWriter::new(out)?;
    let (imported, models) = runs::write(&collections, &mut writer)?;
    writer.finish(&models, &BTreeMap::new())?;
    store.filled()?;
    Ok(imported)
}
