//! [`Dataset`]: everything in a dataset folder, tables and journal, as the types the rest of vitempo uses.
//!
//! The journal is read first and the tables in the reverse of the order in which they are written: so a dataset that is being written, or whose compaction
//! was cut short, reads as one whole.

use crate::{
    DatasetError, VisitKey,
    journal::{self, Entry, Journal},
    parquet,
    schema::Manifest,
    tables::{
        environments::{self, EnvironmentRow},
        model_measurements::{self, VisitRow},
        models::{self, ModelRow},
        operator_measurements::{self, VisitOperators},
        operators::{self, OperatorRow},
    },
};
use std::{
    collections::{BTreeMap, HashMap, hash_map},
    fmt,
    path::{Path, PathBuf},
};
use vitempo_graph::{Environment, Graph, Measurement, ModelIdentity, ModelProfile, OpSpec, Origin, Status};

/// All visits of a dataset, and the graphs of the models.
#[derive(Debug, Default)]
pub struct Dataset {
    /// The folder it was read from.
    pub path: PathBuf,
    /// Every visit, failed ones included, in the order in which they were stored.
    pub profiles: Vec<ModelProfile>,
    /// The models' graphs, by architecture.
    pub graphs: BTreeMap<String, Graph>,
    /// Every model, visited or not.
    pub models: Vec<ModelIdentity>,
    /// What was left out while reading.
    pub warnings: Vec<Warning>,
}

/// Something that was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// The last line of a journal segment was not written to its end.
    TornLine {
        /// The segment.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
        /// How much of it is there.
        bytes: usize,
    },
    /// Operators of a visit that has no row of its own.
    Orphans {
        /// The table.
        path: PathBuf,
        /// Number of the first row, from 0.
        row: usize,
        /// How many there are.
        rows: usize,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TornLine { path, line, bytes } => {
                write!(f, "{}, line {line}: left out, only its first {bytes} bytes were written; that visit will be measured again", path.display())
            }
            Self::Orphans { path, row, rows } => {
                write!(f, "{}, row {row}: {rows} rows left out, their visit is not in model_measurements.parquet", path.display())
            }
        }
    }
}

/// The rows of all tables.
struct Tables {
    visits: Vec<VisitRow>,
    operator_visits: Vec<VisitOperators>,
    models: Vec<ModelRow>,
    operators: Vec<OperatorRow>,
    environments: Vec<EnvironmentRow>,
}

impl Tables {
    fn read(folder: &Path) -> Result<Self, DatasetError> {
        Ok(Self {
            visits: model_measurements::rows(&parquet::read(&model_measurements::SCHEMA, folder)?)?,
            operator_visits: operator_measurements::visits(&parquet::read(&operator_measurements::SCHEMA, folder)?)?,
            models: models::rows(&parquet::read(&models::SCHEMA, folder)?)?,
            operators: operators::rows(&parquet::read(&operators::SCHEMA, folder)?)?,
            environments: environments::rows(&parquet::read(&environments::SCHEMA, folder)?)?,
        })
    }
}

impl Dataset {
    /// Reads a dataset folder, with what its journal holds beyond the tables.
    ///
    /// # Errors
    /// [`DatasetError`] naming the file, and the row or line where there is one: not a dataset, another schema version, a missing, foreign, truncated or
    /// damaged file, a row that points to nothing.
    pub fn load(folder: &Path) -> Result<Self, DatasetError> {
        Manifest::read(folder)?;
        let journal = journal::read(folder)?;
        Self::assemble(folder, Tables::read(folder)?, journal)
    }

    /// The successful visits.
    ///
    /// # Errors
    /// [`DatasetError::Empty`] when there is none.
    pub fn successful(&self) -> Result<Vec<&ModelProfile>, DatasetError> {
        let successful: Vec<&ModelProfile> = self.profiles.iter().filter(|p| p.status == Status::Ok).collect();
        if successful.is_empty() { Err(DatasetError::Empty { path: self.path.clone(), failed: self.profiles.len() }) } else { Ok(successful) }
    }

    fn assemble(folder: &Path, tables: Tables, journal: Journal) -> Result<Self, DatasetError> {
        let mut dataset = Self { path: folder.to_owned(), warnings: journal.warnings, ..Self::default() };
        let mut known = Known::new(folder);
        for row in tables.models {
            known.add_model(&mut dataset, row.identity, row.graph)?;
        }
        let mut assembly = Assembly::new(folder, tables.environments, tables.operators, tables.operator_visits)?;
        for (number, row) in tables.visits.into_iter().enumerate() {
            let profile = assembly.profile(number, row, &known)?;
            known.add_visit(&mut dataset, profile)?;
        }
        for entry in journal.entries {
            match entry {
                Entry::Model(model) => known.add_model(&mut dataset, model.identity, Some(model.graph))?,
                Entry::Visit(profile) => {
                    known.add_model(&mut dataset, profile.model.clone(), None)?;
                    known.add_visit(&mut dataset, *profile)?;
                }
            }
        }
        assembly.report_orphans(&mut dataset, &known);
        Ok(dataset)
    }
}

/// What is in the dataset so far; refuses contradictions and skips repetitions.
pub(crate) struct Known {
    folder: PathBuf,
    models: HashMap<(String, String), ModelIdentity>,
    visits: HashMap<VisitKey, usize>,
}

impl Known {
    pub(crate) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), models: HashMap::new(), visits: HashMap::new() }
    }

    fn conflict(&self, what: impl fmt::Display) -> DatasetError {
        DatasetError::Conflict { path: self.folder.clone(), what: what.to_string() }
    }

    pub(crate) fn add_model(&mut self, dataset: &mut Dataset, identity: ModelIdentity, graph: Option<Graph>) -> Result<(), DatasetError> {
        match self.models.entry((identity.architecture.clone(), identity.name.clone())) {
            hash_map::Entry::Occupied(known) if *known.get() != identity => {
                return Err(self.conflict(format!("model `{}` ({})", identity.name, identity.architecture)));
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

    pub(crate) fn add_visit(&mut self, dataset: &mut Dataset, profile: ModelProfile) -> Result<(), DatasetError> {
        match self.visits.entry(VisitKey::from(&profile)) {
            hash_map::Entry::Occupied(known) => match dataset.profiles.get(*known.get()) {
                Some(same) if *same == profile => Ok(()),
                _ => Err(DatasetError::Conflict { path: self.folder.clone(), what: known.key().to_string() }),
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
struct Assembly {
    folder: PathBuf,
    environments: HashMap<(String, String), Environment>,
    operators: HashMap<String, OpSpec>,
    visits: HashMap<VisitKey, VisitOperators>,
}

impl Assembly {
    fn new(folder: &Path, environments: Vec<EnvironmentRow>, operators: Vec<OperatorRow>, visits: Vec<VisitOperators>) -> Result<Self, DatasetError> {
        let mut by_key = HashMap::new();
        for visit in visits {
            match by_key.entry(visit.key.clone()) {
                hash_map::Entry::Vacant(place) => {
                    place.insert(visit);
                }
                hash_map::Entry::Occupied(_) => {
                    let path = folder.join(operator_measurements::SCHEMA.file_name());
                    let reason = format!("{} is in two places of the table", visit.key);
                    return Err(DatasetError::Row { path, row: visit.first, column: "round".to_owned(), reason });
                }
            }
        }
        Ok(Self {
            folder: folder.to_owned(),
            environments: environments.into_iter().map(|row| ((row.id, row.variant), row.environment)).collect(),
            operators: operators.into_iter().map(|row| (row.op_id, row.op)).collect(),
            visits: by_key,
        })
    }

    fn profile(&mut self, number: usize, row: VisitRow, known: &Known) -> Result<ModelProfile, DatasetError> {
        let broken = |column: &str, reason: String| DatasetError::Row {
            path: self.folder.join(model_measurements::SCHEMA.file_name()),
            row: number,
            column: column.to_owned(),
            reason,
        };
        let environment = self.environments.get(&(row.key.environment_id.clone(), row.environment_variant.clone()));
        let environment = environment.cloned().ok_or_else(|| broken("environment_id", "environments.parquet has no such environment".to_owned()))?;
        let model = known.models.get(&(row.key.architecture.clone(), row.key.model.clone())).cloned();
        let model = model.ok_or_else(|| broken("model", "models.parquet has no such model".to_owned()))?;
        let operators = self.visits.remove(&row.key);
        let found = operators.as_ref().map_or(0, |visit| visit.rows.len());
        if found as u64 != row.operators {
            return Err(broken("operators", format!("{} has {found} rows in operator_measurements.parquet, not {}", row.key, row.operators)));
        }
        Ok(ModelProfile {
            model,
            environment,
            sitting: row.key.sitting,
            round: row.key.round as usize,
            started_unix_ms: row.started_unix_ms,
            origin: row.origin,
            protocol: row.protocol,
            e2e: row.e2e,
            e2e_profiled: row.e2e_profiled,
            reference: row.reference,
            operators: operators.map(|visit| self.measurements(visit, row.origin)).transpose()?.unwrap_or_default(),
            executed: row.executed,
            peak_memory_bytes: row.peak_memory_bytes,
            status: row.status,
        })
    }

    fn measurements(&self, visit: VisitOperators, origin: Origin) -> Result<Vec<Measurement>, DatasetError> {
        let path = || self.folder.join(operator_measurements::SCHEMA.file_name());
        let mut measurements = Vec::with_capacity(visit.rows.len());
        for (position, row) in visit.rows.into_iter().enumerate() {
            let number = visit.first + position;
            let broken = |column: &str, reason: &str| DatasetError::Row { path: path(), row: number, column: column.to_owned(), reason: reason.to_owned() };
            if row.position != position as u64 {
                return Err(broken("position", "rows of this visit are missing or out of order"));
            }
            if row.origin != origin {
                return Err(broken("origin", "it is not that of its visit"));
            }
            let op = self.operators.get(&row.op_id).cloned().ok_or_else(|| broken("op_id", "operators.parquet has no such operator"))?;
            measurements.push(row.into_measurement(op));
        }
        Ok(measurements)
    }

    fn report_orphans(self, dataset: &mut Dataset, known: &Known) {
        let path = self.folder.join(operator_measurements::SCHEMA.file_name());
        let mut orphans: Vec<&VisitOperators> = self.visits.values().filter(|visit| !known.visits.contains_key(&visit.key)).collect();
        orphans.sort_by_key(|visit| visit.first);
        dataset.warnings.extend(orphans.iter().map(|visit| Warning::Orphans { path: path.clone(), row: visit.first, rows: visit.rows.len() }));
    }
}
