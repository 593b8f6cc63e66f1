//! `perf.yaml` of Qualcomm AI Hub Models: the time of a run, in ms, for every precision, component,
//! device and runtime of a model. A checkout has one per model, `MODEL/perf.yaml`; files that were
//! copied are named `MODEL.perf.yaml`.

use super::Row;
use crate::DatasetError;
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

const FILE: &str = "perf.yaml";
const MS: f64 = 1e6;
/// Where models lie below a checkout of the repository.
const BELOW: [&str; 3] = ["", "qai_hub_models/models", "src/qai_hub_models/models"];
/// The publication that files in a folder are.
const SNAPSHOT: &str = "newest";

#[derive(Deserialize)]
struct Perf {
    precisions: BTreeMap<String, PrecisionOf>,
}

#[derive(Deserialize)]
struct PrecisionOf {
    #[serde(default)]
    components: BTreeMap<String, Component>,
}

#[derive(Deserialize)]
struct Component {
    /// By device and runtime.
    #[serde(default)]
    performance_metrics: BTreeMap<String, BTreeMap<String, Metrics>>,
}

#[derive(Deserialize)]
struct Metrics {
    inference_time_milliseconds: Option<f64>,
    primary_compute_unit: Option<String>,
}

/// The files in a folder, by model.
pub(super) fn files(folder: &Path) -> BTreeMap<String, PathBuf> {
    let mut files = BTreeMap::new();
    for below in BELOW.map(|below| folder.join(below)) {
        let Ok(entries) = std::fs::read_dir(below) else { continue };
        for path in entries.flatten().map(|entry| entry.path()) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if let Some(model) = name.strip_suffix(FILE).and_then(|name| name.strip_suffix('.')) {
                files.insert(model.to_owned(), path);
            } else if path.join(FILE).is_file() {
                files.insert(name, path.join(FILE));
            }
        }
    }
    files
}

/// The rows of one file. A component of a model is named `MODEL.COMPONENT`.
pub(super) fn rows(model: &str, path: &Path) -> Result<Vec<Row>, DatasetError> {
    let text = crate::published::text::read(path)?;
    let wrong = |e: serde_saphyr::Error| DatasetError::NotImportable {
        path: path.to_owned(),
        reason: e.to_string(),
    };
    let perf: Perf = serde_saphyr::from_str(&text).map_err(wrong)?;
    let mut rows = Vec::new();
    for (precision, of) in &perf.precisions {
        let alone = of.components.len() == 1;
        for (component, metrics) in &of.components {
            let name = if alone { model.to_owned() } else { format!("{model}.{component}") };
            for (device, runtimes) in &metrics.performance_metrics {
                rows.extend(runtimes.iter().filter_map(|(runtime, metrics)| {
                    row(&name, precision, device, runtime, metrics)
                }));
            }
        }
    }
    Ok(rows)
}

/// `None` where the run failed.
fn row(
    model: &str,
    precision: &str,
    device: &str,
    runtime: &str,
    metrics: &Metrics,
) -> Option<Row> {
    let ms = metrics.inference_time_milliseconds.filter(|ms| *ms > 0.0 && ms.is_finite())?;
    Some(Row {
        model: model.to_owned(),
        snapshot: SNAPSHOT.to_owned(),
        device: device.to_owned(),
        runtime: runtime.to_owned(),
        precision: precision.to_owned(),
        processor: metrics.primary_compute_unit.clone().unwrap_or_default(),
        flag: String::new(),
        ns: ms * MS,
    })
}
