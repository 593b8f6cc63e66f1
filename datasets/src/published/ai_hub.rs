//! [`AiHub`]: models on the processors of Snapdragon chips, by runtime and precision, with the
//! graphs of the models; from the published `perf.yaml` files, or from a table made of them.

mod perf;

use super::text;
use crate::DatasetError;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};
use vitempo_graph::{
    Graph,
    onnx::{self, ReadOptions},
};

const MS: f64 = 1e6;
const TABLE: &str = "aihub_latency.csv";
const GRAPHS: &str = "aihub_graphs";

/// One published latency.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Model, as its graph's file is named.
    pub model: String,
    /// Which publication: `newest...` or `history`.
    pub snapshot: String,
    /// Board, phone or laptop.
    pub device: String,
    /// `tflite`, `qnn_dlc`, `onnx`...
    pub runtime: String,
    /// `float`, `w8a8`...
    pub precision: String,
    /// `NPU`, `GPU` or `CPU`.
    pub processor: String,
    /// The flag of an unsuitable graph; empty without one.
    pub flag: String,
    /// End to end, ns.
    pub ns: f64,
}

impl Row {
    /// Whether its model had another graph when it was measured.
    #[must_use]
    pub fn is_of_another_graph(&self) -> bool {
        self.flag.starts_with("graph")
    }
}

/// Latencies and graphs.
#[derive(Clone, Debug, PartialEq)]
pub struct AiHub {
    /// By name, those whose file exists.
    pub graphs: BTreeMap<String, Graph>,
    /// All rows with a latency.
    pub rows: Vec<Row>,
}

impl AiHub {
    /// Whether a folder has latencies in one of the two layouts.
    #[must_use]
    pub fn is_in(folder: &Path) -> bool {
        folder.join(TABLE).exists() || !perf::files(folder).is_empty()
    }

    /// Reads `aihub_latency.csv`, or without it `MODEL/perf.yaml` and `MODEL.perf.yaml`, and the
    /// graphs in `aihub_graphs/`, which are named as the models.
    ///
    /// # Errors
    /// [`DatasetError`] naming file, line and column, or the graph that cannot be read.
    pub fn read(folder: &Path) -> Result<Self, DatasetError> {
        let table = folder.join(TABLE);
        let files = perf::files(folder);
        let rows = if table.exists() || files.is_empty() {
            Self::table(&table)?
        } else {
            let of = |(model, path): (&String, &PathBuf)| perf::rows(model, path);
            files.iter().map(of).collect::<Result<Vec<_>, _>>()?.concat()
        };
        Ok(Self { graphs: graphs(&folder.join(GRAPHS))?, rows })
    }

    fn table(path: &Path) -> Result<Vec<Row>, DatasetError> {
        let table = text::Table::read(path)?;
        let names =
            ["model", "snapshot", "device", "runtime", "precision", "primary_compute_unit", "flag"];
        let columns: Vec<usize> =
            names.iter().map(|name| table.column(name)).collect::<Result<_, _>>()?;
        let latency = table.column("inference_time_ms")?;
        let mut rows = Vec::new();
        for row in 0..table.rows.len() {
            let Some(ns) = table.latency(row, latency, MS)? else { continue };
            let mut texts = columns.iter().map(|&column| table.text(row, column).to_owned());
            let mut next = || texts.next().unwrap_or_default();
            let (model, snapshot, device, runtime, precision, processor, flag) =
                (next(), next(), next(), next(), next(), next(), next());
            rows.push(Row { model, snapshot, device, runtime, precision, processor, flag, ns });
        }
        Ok(rows)
    }
}

/// The graphs in a folder; none where there is no such folder.
fn graphs(folder: &Path) -> Result<BTreeMap<String, Graph>, DatasetError> {
    let mut graphs = BTreeMap::new();
    if !folder.exists() {
        return Ok(graphs);
    }
    for entry in std::fs::read_dir(folder).map_err(DatasetError::io("read", folder))?.flatten() {
        let path = entry.path();
        let (Some(name), true) = (
            path.file_stem().and_then(|s| s.to_str()),
            path.extension().is_some_and(|e| e == "onnx"),
        ) else {
            continue;
        };
        let unreadable = |e: onnx::OnnxError| DatasetError::NotImportable {
            path: path.clone(),
            reason: e.to_string(),
        };
        graphs.insert(
            name.to_owned(),
            onnx::read_file(&path, &ReadOptions::default()).map_err(unreadable)?,
        );
    }
    Ok(graphs)
}
