//! [`AiHub`]: models on the processors of Snapdragon chips, by runtime and precision, with the
//! graphs of the models.

use super::text;
use crate::DatasetError;
use std::{collections::BTreeMap, path::Path};
use vitempo_graph::{
    Graph,
    onnx::{self, ReadOptions},
};

const MS: f64 = 1e6;

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
    /// What is wrong with it; empty where nothing is.
    pub flag: String,
    /// End to end, ns.
    pub ns: f64,
}

/// Latencies and graphs.
#[derive(Clone, Debug, PartialEq)]
pub struct AiHub {
    /// By name, those whose file is there.
    pub graphs: BTreeMap<String, Graph>,
    /// All rows with a latency.
    pub rows: Vec<Row>,
}

impl AiHub {
    /// Reads `aihub_latency.csv` and the graphs in `aihub_graphs/`.
    ///
    /// # Errors
    /// [`DatasetError`] naming file, line and column, or the graph that cannot be read.
    pub fn read(folder: &Path) -> Result<Self, DatasetError> {
        let table = text::Table::read(&folder.join("aihub_latency.csv"))?;
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
        Ok(Self { graphs: graphs(&folder.join("aihub_graphs"))?, rows })
    }
}

fn graphs(folder: &Path) -> Result<BTreeMap<String, Graph>, DatasetError> {
    let mut graphs = BTreeMap::new();
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
