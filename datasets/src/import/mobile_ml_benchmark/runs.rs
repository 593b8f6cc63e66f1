//! Makes a model run of each model in each environment and writes it at once: environments one
//! after the other, so that each can be read alone.

use super::{
    Imported, SOURCE,
    cells::NOT_MEASURED,
    conventions::{Collection, Framework, Setting},
    operators::{Operation, operator},
    read::Models,
};
use crate::{
    DatasetError,
    import::{ModelRun, one_sample, profile},
    tables::runs::TablesWriter,
};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};
use vitempo_graph::{Environment, Measurement, ModelIdentity, OpSpec, Precision, Status};

/// Name of the session of everything imported.
const SESSION: &str = "mobile-ml-benchmark";

/// An operator and why it is an unsupported one, by the numbers of operation and kernel, and
/// precision.
type Operators = HashMap<(usize, usize, Precision), (Arc<OpSpec>, Option<String>)>;

/// Writes all model runs; gives the models measured.
pub(super) fn write(
    collections: &BTreeMap<Collection, Models>,
    writer: &mut TablesWriter,
) -> Result<(Imported, Vec<ModelIdentity>), DatasetError> {
    let mut imported = Imported::default();
    let mut identities: BTreeMap<(String, String), ModelIdentity> = BTreeMap::new();
    let mut known: BTreeMap<Collection, Operators> = BTreeMap::new();
    let mut reported: BTreeSet<(Collection, usize)> = BTreeSet::new();
    for (environment, parts) in environments(collections) {
        let run =
            ModelRun { environment: &environment, session: SESSION, round: 0, source: SOURCE };
        let mut measured = false;
        for (collection, setting) in parts {
            let Some(models) = collections.get(&collection) else { continue };
            let operators = known.entry(collection).or_default();
            for model in 0..models.names.len() {
                let e2e = models
                    .end_to_end
                    .get(setting)
                    .and_then(|of| of.get(&model))
                    .copied()
                    .filter(|ns| *ns != NOT_MEASURED);
                let rows = measurements(
                    models,
                    collection.framework,
                    setting,
                    model,
                    operators,
                    &mut |operation, reason| {
                        if reported.insert((collection, operation)) {
                            let count = models
                                .files
                                .iter()
                                .map(|file| file.count(operation))
                                .sum::<usize>();
                            *imported
                                .unsupported
                                .entry(format!("{}: {reason}", models.operation(operation)))
                                .or_default() += count;
                        }
                    },
                );
                if e2e.is_none() && rows.is_empty() {
                    continue;
                }
                let profile =
                    profile(identity(collection, models.names.text(model)), &run, e2e, rows);
                writer.add(&profile)?;
                measured = true;
                imported.runs += 1;
                imported.operator_rows += profile.operators.len();
                identities
                    .entry((profile.model.architecture.clone(), profile.model.name.clone()))
                    .or_insert(profile.model);
            }
        }
        imported.environments += usize::from(measured);
    }
    imported.models = identities.len();
    Ok((imported, identities.into_values().collect()))
}

/// An environment, and which settings of which collections are measured in it.
type Measured<'a> = (Environment, BTreeSet<(Collection, &'a Setting)>);

/// Each environment with the settings that are measured in it, in the order of the environments'
/// names.
fn environments(collections: &BTreeMap<Collection, Models>) -> Vec<Measured<'_>> {
    let mut found: BTreeMap<String, Measured<'_>> = BTreeMap::new();
    for (collection, models) in collections {
        for setting in models.settings() {
            let environment = setting.environment(*collection);
            found
                .entry(environment.id())
                .or_insert_with(|| (environment, BTreeSet::new()))
                .1
                .insert((*collection, setting));
        }
    }
    found.into_values().collect()
}

/// The operators of a model that were measured in a setting.
fn measurements(
    models: &Models,
    framework: Framework,
    setting: &Setting,
    model: usize,
    known: &mut Operators,
    unsupported: &mut dyn FnMut(usize, &str),
) -> Vec<Measurement> {
    let mut rows = Vec::new();
    for file in &models.files {
        let Some(place) = file.settings.iter().position(|s| s == setting) else { continue };
        for (row, ns, kernel) in file.rows(model, place).filter(|(_, ns, _)| *ns != NOT_MEASURED) {
            let name = models.operation(row.operation);
            let given = models.kernels.text(kernel);
            let (op, reason) =
                known.entry((row.operation, kernel, setting.precision)).or_insert_with(|| {
                    let features = models.features.get(row.operation).cloned().unwrap_or_default();
                    let (op, reason) = operator(Operation {
                        framework,
                        name,
                        features: &features,
                        kernel: given,
                        precision: setting.precision,
                    });
                    (Arc::new(op), reason)
                });
            if let Some(reason) = reason {
                unsupported(row.operation, reason);
            }
            rows.push(Measurement {
                op: Arc::clone(op),
                node: format!("{name}_{}", row.position),
                kernel: if given.is_empty() { name.to_owned() } else { given.to_owned() },
                samples: one_sample(Some(ns)),
                memory_bytes: None,
                status: Status::Ok,
            });
        }
    }
    rows
}

/// The files hold no graphs: a model is known by its name among those it was published with.
fn identity(collection: Collection, name: &str) -> ModelIdentity {
    let (family, kind) =
        (collection.family.name(), if collection.synthetic { "synthetic" } else { "real" });
    let digest =
        blake3::hash(format!("mobile-ml-benchmark|{family}|{kind}|{name}").as_bytes()).to_hex();
    ModelIdentity {
        name: name.to_owned(),
        architecture: digest[..16].to_owned(),
        space: collection.synthetic.then(|| format!("mobile-ml-benchmark-{family}")),
        encoding: collection.synthetic.then(|| name.to_owned()),
    }
}
