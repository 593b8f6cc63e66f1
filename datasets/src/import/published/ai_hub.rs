//! [`import_ai_hub`]: models on Snapdragon processors.

use super::{Imported, ModelRun, end_to_end, environment};
use crate::{
    DatasetError, Store,
    published::{AI_HUB, AiHub, Row},
    tables::runs::TablesWriter,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};
use vitempo_graph::{Environment, Graph, ModelIdentity, Precision, Processor};

/// Writes the rows whose model has a graph into a new dataset folder. Rows of one model,
/// environment and snapshot are rounds.
///
/// Float models run in 16 bits on GPU and NPU and in 32 on CPU; of mixed precisions the narrower
/// weights count, and the rest is part of the device's name. Rows that the files flag as of another
/// graph are left out.
///
/// # Errors
/// [`DatasetError::Import`] naming file, line and column; [`DatasetError::NotADataset`] when `out`
/// holds measurements already; [`DatasetError::Io`].
pub fn import_ai_hub(folder: &Path, out: &Path) -> Result<Imported, DatasetError> {
    let hub = AiHub::read(folder)?;
    if !hub.rows.iter().any(|row| hub.graphs.contains_key(&row.model)) {
        let reason =
            "none of its models has a graph: put ONNX files, weights may be absent, named \
            as the models into its folder aihub_graphs"
                .to_owned();
        return Err(DatasetError::NotImportable { path: folder.to_owned(), reason });
    }
    let mut imported = Imported::default();
    let mut environments: BTreeMap<String, (Environment, Vec<&Row>)> = BTreeMap::new();
    for row in hub.rows.iter().filter(|row| hub.graphs.contains_key(&row.model)) {
        if row.is_of_another_graph() {
            let what = format!("{}: flagged `{}`", row.model, row.flag);
            *imported.unsupported.entry(what).or_default() += 1;
            continue;
        }
        match where_it_ran(row) {
            Some(environment) => environments
                .entry(environment.id())
                .or_insert_with(|| (environment, Vec::new()))
                .1
                .push(row),
            None => {
                *imported
                    .unsupported
                    .entry(format!("{} on {}", row.precision, row.processor))
                    .or_default() += 1;
            }
        }
    }
    if environments.is_empty() {
        let reason = "none of its rows of models with a graph can be imported".to_owned();
        return Err(DatasetError::NotImportable { path: folder.to_owned(), reason });
    }
    let measured: BTreeSet<&String> =
        environments.values().flat_map(|(_, rows)| rows.iter().map(|row| &row.model)).collect();
    let graphs = || hub.graphs.iter().filter(|(name, _)| measured.contains(name));
    let identities: BTreeMap<&String, ModelIdentity> =
        graphs().map(|(name, graph)| (name, identity(name, graph))).collect();
    let store = Store::open_empty(out, "import")?;
    let mut writer = TablesWriter::new(out)?;
    for (environment, rows) in environments.values() {
        let mut rounds: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for row in rows {
            let Some(identity) = identities.get(&row.model) else { continue };
            let round = rounds.entry((&row.model, &row.snapshot)).or_default();
            let run =
                ModelRun { environment, session: &row.snapshot, round: *round, source: AI_HUB };
            writer.add(&end_to_end(identity.clone(), &run, row.ns))?;
            *round += 1;
            imported.runs += 1;
        }
    }
    imported.environments = environments.len();
    imported.models = identities.len();
    let graphs = graphs().map(|(_, graph)| (graph.architecture(), graph.clone())).collect();
    let mut models: Vec<ModelIdentity> = identities.into_values().collect();
    models.sort_by(|a, b| (&a.architecture, &a.name).cmp(&(&b.architecture, &b.name)));
    writer.finish(&models, &graphs)?;
    store.filled()?;
    Ok(imported)
}

fn identity(name: &str, graph: &Graph) -> ModelIdentity {
    ModelIdentity {
        name: name.to_owned(),
        architecture: graph.architecture(),
        space: None,
        encoding: None,
    }
}

fn where_it_ran(row: &Row) -> Option<Environment> {
    let processor = match row.processor.as_str() {
        "CPU" => Processor::Cpu,
        "GPU" => Processor::Gpu,
        "NPU" => Processor::Npu,
        _ => return None,
    };
    let precision = match (row.precision.as_str(), processor) {
        ("float", Processor::Cpu) => Precision::F32,
        ("float", _) => Precision::F16,
        (quantised, _) if quantised.starts_with("w8a") => Precision::I8,
        _ => return None,
    };
    let device = match row.precision.as_str() {
        "float" | "w8a8" => row.device.clone(),
        other => format!("{} {other}", row.device),
    };
    Some(environment(&device, processor, &row.runtime, precision))
}
