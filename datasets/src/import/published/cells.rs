//! [`import_cells`]: cells of NAS-Bench-201 and FBNet on many devices.

use super::{Imported, ModelRun, NOT_GIVEN, end_to_end, environment};
use crate::{
    DatasetError, Store,
    published::{Cells, Column, HELP},
    tables::runs::TablesWriter,
};
use std::{collections::BTreeMap, path::Path};
use vitempo_graph::{ModelIdentity, Precision, Processor};

/// A search space of cells: its name among models, whether a folder has it, and how it is read.
type Space = (&'static str, fn(&Path) -> bool, fn(&Path) -> Result<Cells, DatasetError>);

const SPACES: [Space; 2] = [
    ("nas-bench-201", Cells::has_nas_bench_201, Cells::nas_bench_201),
    ("fbnet-32", Cells::has_fbnet, Cells::fbnet),
];

/// Writes the latencies of all devices into a new dataset folder, of whichever of the two spaces
/// the folder has. Sums of table entries are left out and counted. The runtime and the precision
/// are unknown; a batch size is part of the device's name.
///
/// # Errors
/// [`DatasetError::Import`] naming file, line and column; [`DatasetError::NotImportable`] when the
/// folder has neither; [`DatasetError::NotADataset`] when `out` holds measurements already;
/// [`DatasetError::Io`].
pub fn import_cells(folder: &Path, out: &Path) -> Result<Imported, DatasetError> {
    let there: Vec<&Space> = SPACES.iter().filter(|(_, has, _)| has(folder)).collect();
    if there.is_empty() {
        let reason = "it has neither HELP's nasbench201/latency/*.pt or fbnet/latency/*.pt nor \
            nb201_latency.csv.gz or fbnet_latency.csv.gz"
            .to_owned();
        return Err(DatasetError::NotImportable { path: folder.to_owned(), reason });
    }
    let spaces: Vec<(&str, Cells)> = there
        .into_iter()
        .map(|(name, _, read)| Ok((*name, read(folder)?)))
        .collect::<Result<_, DatasetError>>()?;
    let _held = Store::open_empty(out, "import")?;
    let mut imported = Imported::default();
    let mut writer = TablesWriter::new(out)?;
    let mut models = Vec::new();
    for (space, cells) in &spaces {
        let identities: Vec<ModelIdentity> =
            (0..cells.architectures()).map(|index| identity(space, index)).collect();
        for device in &cells.devices {
            if device.summed {
                *imported
                    .unsupported
                    .entry(format!("{space} on {}: sums of table entries", device.name))
                    .or_default() += device.ns.len();
                continue;
            }
            let environment =
                environment(&device.name, processor(device), NOT_GIVEN, Precision::F32);
            let run =
                ModelRun { environment: &environment, session: space, round: 0, source: HELP };
            for (identity, ns) in identities
                .iter()
                .zip(&device.ns)
                .filter_map(|(identity, ns)| Some((identity, (*ns)?)))
            {
                writer.add(&end_to_end(identity.clone(), &run, ns))?;
                imported.runs += 1;
            }
            imported.environments += 1;
        }
        imported.models += identities.len();
        models.extend(identities);
    }
    models.sort_by(|a, b| (&a.architecture, &a.name).cmp(&(&b.architecture, &b.name)));
    writer.finish(&models, &BTreeMap::new())?;
    Ok(imported)
}

fn identity(space: &str, index: usize) -> ModelIdentity {
    let digest = blake3::hash(format!("{space}|{index}").as_bytes()).to_hex();
    ModelIdentity {
        name: format!("{space}-{index}"),
        architecture: digest[..16].to_owned(),
        space: Some(space.to_owned()),
        encoding: Some(index.to_string()),
    }
}

fn processor(device: &Column) -> Processor {
    match device.class.as_str() {
        "gpu" => Processor::Gpu,
        "cpu" | "phone" | "board" | "" => Processor::Cpu,
        _ => Processor::Npu,
    }
}
