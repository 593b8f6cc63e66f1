//! Cells from the files that HELP's repository has under `data/`: `nasbench201/latency/DEVICE.pt`
//! and `nasbench201/str_arch2idx.pt`, `fbnet/latency/DEVICE.pt` and `fbnet/arch.pt` or
//! `fbnet/metainfo.pt`. Latencies are in ms of the whole batch; operators are computed from the
//! architectures.

use super::{Cells, Column, MS, fbnet, layer::Layers, nas_bench_201::Cell};
use crate::{
    DatasetError,
    published::torch::{self, Value},
};
use std::path::{Path, PathBuf};

/// Where a space lies below a checkout of the repository, or below its `data` folder.
const BELOW: [&str; 2] = ["", "data"];

/// The folder of a space's files, where there is one.
pub(super) fn folder_of(folder: &Path, space: &str) -> Option<PathBuf> {
    let below = BELOW.iter().map(|below| folder.join(below).join(space));
    below.into_iter().find(|of| of.join("latency").is_dir())
}

pub(super) fn nas_bench_201(folder: &Path) -> Result<Cells, DatasetError> {
    let path = folder.join("str_arch2idx.pt");
    let wrong = |reason: String| DatasetError::NotImportable { path: path.clone(), reason };
    let value = torch::read(&path)?;
    let entries = value.table().ok_or_else(|| wrong("it is not a table".to_owned()))?;
    let mut cells: Vec<Option<Cell>> = vec![None; entries.len()];
    for (text, number) in entries {
        let cell = text.text().and_then(Cell::parse);
        let place = number.index().and_then(|index| cells.get_mut(index));
        let (Some(cell), Some(place)) = (cell, place) else {
            return Err(wrong(format!("{text:?}: {number:?} is not a cell and its number")));
        };
        *place = Some(cell);
    }
    let cells: Vec<Cell> = cells
        .into_iter()
        .collect::<Option<_>>()
        .ok_or_else(|| wrong("two cells have the same number".to_owned()))?;
    let mut layers = Layers::default();
    let written = cells.iter().map(|cell| layers.count(cell.as_written())).collect();
    let live = cells.iter().map(|cell| layers.count(cell.without_dead_edges())).collect();
    Ok(Cells {
        operators: layers.operators,
        readings: vec![written, live],
        connected: cells.iter().map(Cell::is_connected).collect(),
        devices: devices(folder, cells.len(), |name| Column {
            reading: usize::from(FROM_HW_NAS_BENCH.contains(&name)),
            ..known(name)
        })?,
    })
}

pub(super) fn fbnet(folder: &Path) -> Result<Cells, DatasetError> {
    let arch = folder.join("arch.pt");
    let path = if arch.exists() { arch } else { folder.join("metainfo.pt") };
    let wrong = |reason: String| DatasetError::NotImportable { path: path.clone(), reason };
    let value = torch::read(&path)?;
    let architectures = value.get("arch").unwrap_or(&value).list();
    let architectures =
        architectures.ok_or_else(|| wrong("it is not a list of architectures".to_owned()))?;
    let mut layers = Layers::default();
    let mut reading = Vec::with_capacity(architectures.len());
    for (number, architecture) in architectures.iter().enumerate() {
        let choices = architecture.get("op_idx_list").unwrap_or(architecture).list();
        let choices: Option<Vec<usize>> =
            choices.and_then(|choices| choices.iter().map(Value::index).collect());
        let of = choices.as_deref().and_then(fbnet::layers).ok_or_else(|| {
            wrong(format!("architecture {number} is not 22 choices among 9 blocks"))
        })?;
        reading.push(layers.count(of));
    }
    Ok(Cells {
        operators: layers.operators,
        connected: vec![true; reading.len()],
        devices: devices(folder, reading.len(), |name| Column {
            summed: FROM_HW_NAS_BENCH.contains(&name),
            ..known(name)
        })?,
        readings: vec![reading],
    })
}

/// Devices whose latencies HELP took from HW-NAS-Bench: of NAS-Bench-201 without dead edges, of
/// FBNet sums of table entries.
const FROM_HW_NAS_BENCH: [&str; 4] = ["pixel3", "raspi4", "eyeriss", "fpga"];

/// Facts from a device's name: names of GPUs end with their batch size.
fn known(name: &str) -> Column {
    let starts = |names: &[&str]| names.iter().any(|start| name.starts_with(start));
    let batch = name.rsplit_once('_').is_some_and(|(_, batch)| batch.parse::<u32>().is_ok());
    let class = match () {
        () if starts(&["pixel", "samsung", "essential"]) => "phone",
        () if starts(&["raspi"]) => "board",
        () if starts(&["eyeriss", "fpga"]) => "accelerator",
        () if batch && !starts(&["gold", "silver"]) => "gpu",
        () => "cpu",
    };
    Column { name: name.to_owned(), class: class.to_owned(), ..Column::default() }
}

/// The devices in the order of their names.
fn devices(
    folder: &Path,
    architectures: usize,
    known: impl Fn(&str) -> Column,
) -> Result<Vec<Column>, DatasetError> {
    let folder = folder.join("latency");
    let entries = std::fs::read_dir(&folder).map_err(DatasetError::io("read", &folder))?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "pt"));
    paths.sort();
    let device = |path: &PathBuf| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        Ok(Column { ns: latencies(path, architectures)?, ..known(&name) })
    };
    paths.iter().map(device).collect()
}

fn latencies(path: &Path, architectures: usize) -> Result<Vec<Option<f64>>, DatasetError> {
    let wrong = |reason: String| DatasetError::NotImportable { path: path.to_owned(), reason };
    let value = torch::read(path)?;
    let values = value.list().ok_or_else(|| wrong("it is not a list of latencies".to_owned()))?;
    if values.len() != architectures {
        let reason = format!("it has {} latencies for {architectures} architectures", values.len());
        return Err(wrong(reason));
    }
    let ns = |(number, value): (usize, &Value)| match value.number() {
        Some(ms) if ms.is_finite() && ms >= 0.0 => Ok((ms > 0.0).then_some(ms * MS)),
        _ => Err(wrong(format!("entry {number} is not a latency"))),
    };
    values.iter().enumerate().map(ns).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_the_class() {
        for (name, class) in [
            ("1080ti_1", "gpu"),
            ("titan_rtx_256", "gpu"),
            ("essential_ph_1", "phone"),
            ("pixel3", "phone"),
            ("gold_6240", "cpu"),
            ("silver_4210r", "cpu"),
            ("raspi4", "board"),
        ] {
            assert_eq!(known(name).class, class, "{name}");
        }
    }
}
