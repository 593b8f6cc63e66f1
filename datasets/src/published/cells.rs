//! [`Cells`]: architectures of a search space as counts of operators, and their latency on many
//! devices; from the files that HELP publishes, or from tables made of them.

mod fbnet;
mod help;
mod layer;
mod nas_bench_201;

use super::{Column, text};
use crate::DatasetError;
use layer::{Layer, LayerKind, Shape};
use serde_json::Value as Json;
use std::path::Path;
use vitempo_graph::OpSpec;

const MS: f64 = 1e6;

/// A search space of cells.
#[derive(Clone, Debug, PartialEq)]
pub struct Cells {
    /// Distinct operators, batch 1.
    pub operators: Vec<OpSpec>,
    /// Ways to read an architecture, each with the operators of every architecture: index and
    /// count. NAS-Bench-201 has two: every edge runs, or those that reach the output do.
    pub readings: Vec<Vec<Vec<(usize, f64)>>>,
    /// Whether input and output are connected.
    pub connected: Vec<bool>,
    /// Devices.
    pub devices: Vec<Column>,
}

impl Cells {
    /// Whether a folder has NAS-Bench-201 in one of its two layouts.
    #[must_use]
    pub fn has_nas_bench_201(folder: &Path) -> bool {
        folder.join("nb201_latency.csv.gz").exists()
            || help::folder_of(folder, "nasbench201").is_some()
    }

    /// Whether a folder has FBNet in one of its two layouts.
    #[must_use]
    pub fn has_fbnet(folder: &Path) -> bool {
        folder.join("fbnet_latency.csv.gz").exists() || help::folder_of(folder, "fbnet").is_some()
    }

    /// NAS-Bench-201: 15 625 cells, from HELP's `nasbench201/*.pt` or from
    /// `nb201_latency.csv.gz`, `nb201_ops.jsonl.gz` and `devices.json`.
    ///
    /// # Errors
    /// [`DatasetError`] naming file, line and column.
    pub fn nas_bench_201(folder: &Path) -> Result<Self, DatasetError> {
        if let Some(published) = help::folder_of(folder, "nasbench201") {
            return help::nas_bench_201(&published);
        }
        let pairs = |record: &Json, key: &str| -> Option<Vec<(usize, f64)>> {
            let pair =
                |p: &Json| Some((usize::try_from(p.get(0)?.as_u64()?).ok()?, p.get(1)?.as_f64()?));
            record.get(key)?.as_array()?.iter().map(pair).collect()
        };
        Self::read(folder, "nb201", |record| {
            Some(vec![pairs(record, "raw")?, pairs(record, "blive")?])
        })
    }

    /// FBNet at 32 x 32: 5 000 architectures, from HELP's `fbnet/*.pt` or from
    /// `fbnet_latency.csv.gz`, `fbnet_ops.jsonl.gz` and `devices.json`.
    ///
    /// # Errors
    /// [`DatasetError`] naming file, line and column.
    pub fn fbnet(folder: &Path) -> Result<Self, DatasetError> {
        if let Some(published) = help::folder_of(folder, "fbnet") {
            return help::fbnet(&published);
        }
        Self::read(folder, "fbnet", |record| {
            let sequence = record.get("seq")?.as_array()?;
            let mut counts = std::collections::BTreeMap::new();
            for op in sequence {
                *counts.entry(usize::try_from(op.as_u64()?).ok()?).or_insert(0.0) += 1.0;
            }
            Some(vec![counts.into_iter().collect()])
        })
    }

    fn read(
        folder: &Path,
        space: &str,
        readings: impl Fn(&Json) -> Option<Vec<Vec<(usize, f64)>>>,
    ) -> Result<Self, DatasetError> {
        let path = folder.join(format!("{space}_ops.jsonl.gz"));
        let mut cells = Self {
            operators: Vec::new(),
            readings: Vec::new(),
            connected: Vec::new(),
            devices: Vec::new(),
        };
        for (line, record) in text::json_lines(&path)?.iter().enumerate() {
            let wrong = |reason: &str| DatasetError::Import {
                path: path.clone(),
                line: line as u64 + 1,
                column: "json".to_owned(),
                reason: reason.to_owned(),
            };
            match record.get("rec").and_then(Json::as_str) {
                Some("op") => cells.operators.push(
                    operator(record)
                        .ok_or_else(|| wrong("not an operator with type and shapes"))?,
                ),
                Some("arch") => {
                    let ways = readings(record)
                        .ok_or_else(|| wrong("not an architecture with operator counts"))?;
                    if ways.iter().flatten().any(|(op, _)| *op >= cells.operators.len()) {
                        return Err(wrong("it counts an operator that is not listed before it"));
                    }
                    cells.readings.resize(ways.len(), Vec::new());
                    cells.readings.iter_mut().zip(ways).for_each(|(all, one)| all.push(one));
                    cells
                        .connected
                        .push(record.get("connected").and_then(Json::as_bool).unwrap_or(true));
                }
                _ => {}
            }
        }
        cells.devices = devices(folder, space, cells.connected.len())?;
        Ok(cells)
    }

    /// Number of architectures.
    #[must_use]
    pub fn architectures(&self) -> usize {
        self.connected.len()
    }
}

fn devices(folder: &Path, space: &str, architectures: usize) -> Result<Vec<Column>, DatasetError> {
    let table = text::Table::read(&folder.join(format!("{space}_latency.csv.gz")))?;
    if table.rows.len() != architectures {
        let reason = format!(
            "it has {} rows, the operators of {architectures} architectures are known",
            table.rows.len()
        );
        return Err(DatasetError::NotImportable { path: table.path, reason });
    }
    let known = described(folder, space)?;
    let column = |(index, name): (usize, &String)| {
        let ns: Result<Vec<Option<f64>>, DatasetError> =
            (0..architectures).map(|row| table.latency(row, index, MS)).collect();
        let given = known.iter().find(|column| column.name == *name).cloned().unwrap_or_default();
        Ok(Column { name: name.clone(), ns: ns?, ..given })
    };
    table.headings.iter().enumerate().skip(2).map(column).collect()
}

/// The entries of `devices.json`; empty without that file.
fn described(folder: &Path, space: &str) -> Result<Vec<Column>, DatasetError> {
    let path = folder.join("devices.json");
    if !path.exists() {
        return Ok(Vec::new());
    }
    let json: Json = serde_json::from_str(&text::read(&path)?)
        .map_err(|e| DatasetError::damaged(&path, e.to_string()))?;
    let mut found = Vec::new();
    collect(&json, space, &mut found);
    Ok(found)
}

/// Finds records with space and device, however deep.
fn collect(json: &Json, space: &str, found: &mut Vec<Column>) {
    match json {
        Json::Array(items) => items.iter().for_each(|item| collect(item, space, found)),
        Json::Object(fields) => {
            let text = |key: &str| fields.get(key).and_then(Json::as_str).unwrap_or_default();
            if let (Some(device), true) =
                (fields.get("device").and_then(Json::as_str), text("space") == space)
            {
                let reading = usize::from(text("lowering") == "blive");
                found.push(Column {
                    name: device.to_owned(),
                    class: text("cls").to_owned(),
                    reading,
                    summed: text("kind").starts_with("SUM"),
                    ns: Vec::new(),
                });
            }
            fields.values().for_each(|value| collect(value, space, found));
        }
        _ => {}
    }
}

fn operator(record: &Json) -> Option<OpSpec> {
    let number =
        |key: &str| record.get(key).and_then(Json::as_u64).and_then(|v| usize::try_from(v).ok());
    let shape = |key: &str| -> Option<Shape> {
        let sizes: Option<Vec<usize>> = record
            .get(key)?
            .as_array()?
            .iter()
            .map(|v| usize::try_from(v.as_u64()?).ok())
            .collect();
        sizes?.try_into().ok()
    };
    let kind = match record.get("type")?.as_str()? {
        "Conv" => LayerKind::Convolution,
        "AvgPool" => LayerKind::AveragePool,
        "GlobalAvgPool" => LayerKind::GlobalAveragePool,
        "Relu" => LayerKind::Rectifier,
        "BatchNorm" => LayerKind::BatchNorm,
        "Add" => LayerKind::Add,
        "MulZero" => LayerKind::Zero,
        "ChannelShuffle" => LayerKind::ChannelShuffle,
        "Gemm" => LayerKind::Classifier,
        other => LayerKind::Other(other.to_owned()),
    };
    let layer = Layer {
        kind,
        input: shape("in_shape")?,
        output: shape("out_shape")?,
        kernel: number("kernel").unwrap_or(0),
        stride: number("stride").unwrap_or(1),
        groups: number("groups").unwrap_or(1),
    };
    Some(layer.spec())
}
