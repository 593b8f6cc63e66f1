//! Joins the rows of all tables into model runs: [`Assembly`], and [`Known`], which refuses
//! contradictory rows.

use crate::{
    Dataset, DatasetError, RunKey, Warning,
    load::Selection,
    parquet::Asked,
    source::Source,
    tables::{
        environments::{self, EnvironmentRow},
        model_measurements::{self, RunRow},
        models::{self, ModelRow},
        operator_measurements::{self, OperatorRuns},
        operators::{self, OperatorRow},
    },
};
use std::{
    collections::{HashMap, HashSet, hash_map},
    path::{Path, PathBuf},
    sync::Arc,
};
use vitempo_graph::{Environment, Graph, Measurement, ModelIdentity, ModelProfile, OpSpec, Origin};

/// The rows of all tables.
pub(crate) struct Tables {
    runs: Vec<RunRow>,
    operator_runs: OperatorRuns,
    pub(crate) models: Vec<ModelRow>,
    operators: Vec<OperatorRow>,
    environments: Vec<EnvironmentRow>,
    /// Bytes that the table of model runs could hold beyond its rows: what its rows refer to is
    /// there once for each of them in memory.
    spare_bytes: u64,
}

impl Tables {
    pub(crate) fn read(source: &Source) -> Result<Self, DatasetError> {
        let all = |schema| source.read(schema, Asked::ALL);
        let runs = all(&model_measurements::SCHEMA)?;
        Ok(Self {
            spare_bytes: runs.spare_bytes,
            runs: model_measurements::rows(&runs)?,
            operator_runs: OperatorRuns::new(all(&operator_measurements::SCHEMA)?)?,
            models: models::rows(&all(&models::SCHEMA)?)?,
            operators: operators::rows(&all(&operators::SCHEMA)?)?,
            environments: environments::rows(&all(&environments::SCHEMA)?)?,
        })
    }

    /// The model runs that are selected, the rows they refer to, and the models of these other
    /// architectures.
    pub(crate) fn read_selected(
        source: &Source,
        selection: Selection<'_>,
        others: &HashSet<&str>,
    ) -> Result<Self, DatasetError> {
        let is_chosen = |a: &str| selection.architectures.is_none_or(|chosen| chosen.contains(a));
        let asked = match selection.architectures {
            None => Asked::of_environments(selection.environment),
            Some(_) => Asked {
                environments: Some(selection.environment),
                ..Asked::rows("architecture", &is_chosen)
            },
        };
        let runs = source.read(&model_measurements::SCHEMA, asked)?;
        let operators = source.read(&operator_measurements::SCHEMA, asked)?;
        let architectures: HashSet<&str> =
            runs.distinct("architecture").iter().map(AsRef::as_ref).collect();
        let op_ids: HashSet<&str> = operators.distinct("op_id").iter().map(AsRef::as_ref).collect();
        let is_model = |a: &str| architectures.contains(a) || others.contains(a);
        let is_operator = |id: &str| op_ids.contains(id);
        let models = source.read(&models::SCHEMA, Asked::rows("architecture", &is_model))?;
        let specs = source.read(&operators::SCHEMA, Asked::rows("op_id", &is_operator))?;
        let is_of = |key: &RunKey| (selection.environment)(&key.environment_id);
        let spare_bytes = runs.spare_bytes;
        let mut runs = model_measurements::rows(&runs)?;
        let mut operator_runs = OperatorRuns::new(operators)?;
        runs.retain(|run| is_of(&run.key));
        operator_runs.runs.retain(|run| is_of(&run.key));
        Ok(Self {
            spare_bytes,
            runs,
            models: models::rows(&models)?,
            operators: operators::rows(&specs)?,
            environments: environments::rows(&source.read(&environments::SCHEMA, Asked::ALL)?)?,
            operator_runs,
        })
    }
}

/// Bytes of what is there once for each of the model runs that refer to it.
pub(crate) fn repeated_bytes(environment: &Environment, model: &ModelIdentity) -> u64 {
    let e = environment;
    let texts = [&e.device, &e.framework, &e.framework_version, &e.isa, &e.os];
    let of_model = [Some(&model.name), Some(&model.architecture), model.space.as_ref()];
    let optional = of_model.into_iter().chain([
        model.encoding.as_ref(),
        e.power_mode.as_ref(),
        e.beside.as_ref(),
    ]);
    let texts = texts.into_iter().chain(optional.flatten());
    texts.map(|text| 16 + text.len() as u64).sum::<u64>()
        + 8 * e.cores.len() as u64
        + e.settings.len() as u64
        + e.host.as_ref().map_or(0, |host| host.bytes())
}

/// Equal operators made one in memory.
#[derive(Default)]
pub(crate) struct Shared(HashSet<Arc<OpSpec>>);

impl Shared {
    pub(crate) fn share(&mut self, profile: &mut ModelProfile) {
        for measurement in &mut profile.operators {
            match self.0.get(&measurement.op) {
                Some(known) => measurement.op = Arc::clone(known),
                None => drop(self.0.insert(Arc::clone(&measurement.op))),
            }
        }
    }
}

/// The contents of the dataset so far; refuses contradictions and skips repetitions.
pub(crate) struct Known {
    folder: PathBuf,
    models: HashMap<(String, String), ModelIdentity>,
    runs: HashMap<RunKey, usize>,
}

impl Known {
    pub(crate) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), models: HashMap::new(), runs: HashMap::new() }
    }

    pub(crate) fn add_model(
        &mut self,
        dataset: &mut Dataset,
        identity: ModelIdentity,
        graph: Option<Graph>,
    ) -> Result<(), DatasetError> {
        match self.models.entry((identity.architecture.clone(), identity.name.clone())) {
            hash_map::Entry::Occupied(known) if *known.get() != identity => {
                return Err(DatasetError::contradiction(&self.folder, known.get(), &identity));
            }
            hash_map::Entry::Occupied(_) => {}
            hash_map::Entry::Vacant(place) => {
                place.insert(identity.clone());
                dataset.models.push(identity.clone());
            }
        }
        if let Some(graph) = graph {
            dataset.graphs.entry(identity.architecture).or_insert(graph);
        }
        Ok(())
    }

    pub(crate) fn add_run(
        &mut self,
        dataset: &mut Dataset,
        mut profile: ModelProfile,
    ) -> Result<(), DatasetError> {
        // Early versions wrote 0 where a worker reused memory: not a measurement.
        profile.peak_memory_bytes = profile.peak_memory_bytes.filter(|&bytes| bytes > 0);
        match self.runs.entry(RunKey::from(&profile)) {
            hash_map::Entry::Occupied(known) => match dataset.profiles.get(*known.get()) {
                Some(same) if *same == profile => Ok(()),
                _ => Err(DatasetError::Conflict {
                    path: self.folder.clone(),
                    what: known.key().to_string(),
                }),
            },
            hash_map::Entry::Vacant(place) => {
                place.insert(dataset.profiles.len());
                dataset.profiles.push(profile);
                Ok(())
            }
        }
    }
}

/// Joins the tables.
pub(crate) struct Assembly {
    folder: PathBuf,
    environments: HashMap<(String, String), Environment>,
    operators: HashMap<String, Arc<OpSpec>>,
    rows: OperatorRuns,
    /// Positions in `rows` of model runs that were not requested yet.
    places: HashMap<RunKey, usize>,
    spare_bytes: u64,
}

impl Assembly {
    /// The model runs and models to go through, and what joins them.
    pub(crate) fn new(
        folder: &Path,
        tables: Tables,
    ) -> Result<(Vec<RunRow>, Vec<ModelRow>, Self), DatasetError> {
        let mut places = HashMap::new();
        for (place, run) in tables.operator_runs.runs.iter().enumerate() {
            if places.insert(run.key.clone(), place).is_some() {
                let path = folder.join(operator_measurements::SCHEMA.file_name());
                let reason = format!("{} is in two places of the table", run.key);
                return Err(DatasetError::Row {
                    path,
                    row: run.first,
                    column: "round".to_owned(),
                    reason,
                });
            }
        }
        let assembly = Self {
            folder: folder.to_owned(),
            environments: tables
                .environments
                .into_iter()
                .map(|row| ((row.id, row.variant), row.environment))
                .collect(),
            operators: tables.operators.into_iter().map(|row| (row.op_id, row.op)).collect(),
            rows: tables.operator_runs,
            places,
            spare_bytes: tables.spare_bytes,
        };
        Ok((tables.runs, tables.models, assembly))
    }

    pub(crate) fn profile(
        &mut self,
        row: RunRow,
        known: &Known,
    ) -> Result<ModelProfile, DatasetError> {
        let broken = |column: &str, reason: String| DatasetError::Row {
            path: self.folder.join(model_measurements::SCHEMA.file_name()),
            row: row.number,
            column: column.to_owned(),
            reason,
        };
        let environment = self
            .environments
            .get(&(row.key.environment_id.clone(), row.environment_variant.clone()));
        let environment = environment.cloned().ok_or_else(|| {
            broken("environment_id", "environments.parquet has no such environment".to_owned())
        })?;
        let model =
            known.models.get(&(row.key.architecture.clone(), row.key.model.clone())).cloned();
        let model =
            model.ok_or_else(|| broken("model", "models.parquet has no such model".to_owned()))?;
        let repeated = repeated_bytes(&environment, &model);
        self.spare_bytes = self.spare_bytes.checked_sub(repeated).ok_or_else(|| {
            let reason = "the model runs up to this one refer to longer texts than vitempo writes";
            broken("environment_id", reason.to_owned())
        })?;
        let place = self.places.get(&row.key).copied();
        let found = place.and_then(|place| self.rows.runs.get(place)).map_or(0, |run| run.len());
        if found as u64 != row.operators {
            return Err(broken(
                "operators",
                format!(
                    "{} has {found} rows in operator_measurements.parquet, not {}; or it is listed \
                     twice",
                    row.key, row.operators
                ),
            ));
        }
        let operators = place
            .map(|place| self.measurements(place, row.origin))
            .transpose()?
            .unwrap_or_default();
        self.places.remove(&row.key);
        Ok(ModelProfile {
            model,
            environment,
            session: row.key.session,
            round: row.key.round as usize,
            started_unix_ms: row.started_unix_ms,
            origin: row.origin,
            source: row.source,
            protocol: row.protocol,
            e2e: row.e2e,
            e2e_profiled: row.e2e_profiled,
            reference: row.reference,
            operators,
            executed: row.executed,
            peak_memory_bytes: row.peak_memory_bytes,
            running_memory_bytes: row.running_memory_bytes,
            energy_per_inference_uj: row.energy_per_inference_uj,
            load: row.load,
            status: row.status,
        })
    }

    fn measurements(&self, place: usize, origin: Origin) -> Result<Vec<Measurement>, DatasetError> {
        let Some(run) = self.rows.runs.get(place) else { return Ok(Vec::new()) };
        let path = || self.folder.join(operator_measurements::SCHEMA.file_name());
        let mut measurements = Vec::with_capacity(run.len());
        for (position, row) in self.rows.rows(run).enumerate() {
            let broken = |column: &str, reason: &str| DatasetError::Row {
                path: path(),
                row: row.number(),
                column: column.to_owned(),
                reason: reason.to_owned(),
            };
            if row.position() != position as u64 {
                return Err(broken(
                    "position",
                    "rows of this model run are missing or out of order",
                ));
            }
            if row.origin()? != origin {
                return Err(broken("origin", "it is not that of its model run"));
            }
            let op = self
                .operators
                .get(row.op_id())
                .ok_or_else(|| broken("op_id", "operators.parquet has no such operator"))?;
            measurements.push(row.measurement(Arc::clone(op))?);
        }
        Ok(measurements)
    }

    pub(crate) fn report_orphans(self, dataset: &mut Dataset, known: &Known) {
        let path = self.folder.join(operator_measurements::SCHEMA.file_name());
        let orphans =
            self.rows.runs.iter().filter(|run| {
                self.places.contains_key(&run.key) && !known.runs.contains_key(&run.key)
            });
        dataset.warnings.extend(orphans.map(|run| Warning::Orphans {
            path: path.clone(),
            row: run.first,
            rows: run.len(),
        }));
    }
}
