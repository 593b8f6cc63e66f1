//! Rows grouped by model run: [`Runs`] collects the rows for all tables, [`TablesWriter`] writes
//! the tables one model run at a time, so that a dataset need not fit in memory.

use super::{environments, model_measurements, models, operator_measurements, operators};
#[cfg(feature = "write")]
use crate::parquet;
use crate::{
    Dataset, DatasetError, RunKey, assembly::repeated_bytes, column::Table, schema::TableSchema,
};
use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
    sync::Arc,
};
use vitempo_graph::{Environment, Graph, ModelIdentity, ModelProfile, OpSpec};

/// The state of the model runs so far.
pub(crate) struct Runs {
    folder: PathBuf,
    environments: BTreeMap<(String, String), Environment>,
    /// The identifier of each distinct operator.
    ids: HashMap<Arc<OpSpec>, Arc<str>>,
    /// The same by address, for operators that `ids` holds.
    by_address: HashMap<usize, Arc<str>>,
    rows: Table,
    /// See [`repeated_bytes`].
    repeated_bytes: u64,
}

impl Runs {
    pub(crate) fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            environments: BTreeMap::new(),
            ids: HashMap::new(),
            by_address: HashMap::new(),
            rows: Table::new(&model_measurements::SCHEMA, folder),
            repeated_bytes: 0,
        }
    }

    /// Adds a model run; its operators become rows of `operator_rows`.
    pub(crate) fn add(
        &mut self,
        profile: &ModelProfile,
        operator_rows: &mut Table,
    ) -> Result<(), DatasetError> {
        let key = RunKey::from(profile);
        let variant = environments::variant(&profile.environment);
        let op_ids: Vec<Arc<str>> =
            profile.operators.iter().map(|measurement| self.id(&measurement.op)).collect();
        operator_measurements::push(operator_rows, profile, &key, op_ids.iter().map(AsRef::as_ref));
        model_measurements::push(&mut self.rows, profile, &key, &variant)?;
        self.repeated_bytes += repeated_bytes(&profile.environment, &profile.model);
        self.environments
            .entry((key.environment_id, variant))
            .or_insert_with(|| profile.environment.clone());
        Ok(())
    }

    /// The rows of the model runs, the bytes that they repeat, and the identifier of each operator.
    #[cfg(feature = "write")]
    pub(crate) fn into_parts(self) -> (Table, u64, HashMap<Arc<OpSpec>, Arc<str>>) {
        (self.rows, self.repeated_bytes, self.ids)
    }

    fn id(&mut self, op: &Arc<OpSpec>) -> Arc<str> {
        let address = Arc::as_ptr(op) as usize;
        if let Some(id) = self.by_address.get(&address).or_else(|| self.ids.get(op)) {
            return Arc::clone(id);
        }
        let id: Arc<str> = op.id().into();
        self.ids.insert(Arc::clone(op), Arc::clone(&id));
        self.by_address.insert(address, Arc::clone(&id));
        id
    }

    /// All tables but that of the operators' rows, in the order in which they are written.
    pub(crate) fn tables(
        self,
        models: &[ModelIdentity],
        graphs: &BTreeMap<String, Graph>,
    ) -> Result<[Table; 4], DatasetError> {
        let operators: BTreeMap<&str, &OpSpec> =
            self.ids.iter().map(|(op, id)| (&**id, &**op)).collect();
        Ok([
            environments::build(&self.folder, self.environments.values())?,
            operators::build(&self.folder, &operators),
            models::build(&self.folder, models, graphs)?,
            self.rows,
        ])
    }
}

/// All tables of a dataset, in the order in which they are written.
pub(crate) fn tables_of(folder: &Path, dataset: &Dataset) -> Result<Vec<Table>, DatasetError> {
    let mut runs = Runs::new(folder);
    let mut operator_rows = Table::new(&operator_measurements::SCHEMA, folder);
    for profile in &dataset.profiles {
        runs.add(profile, &mut operator_rows)?;
    }
    let [environments, operators, models, model_rows] =
        runs.tables(&dataset.models, &dataset.graphs)?;
    Ok(vec![environments, operators, models, operator_rows, model_rows])
}

/// A table of a dataset folder, with the rows that are only in the journal so far.
pub(crate) fn whole_table(
    schema: &'static TableSchema,
    folder: &Path,
) -> Result<Table, DatasetError> {
    let tables = tables_of(folder, &Dataset::load(folder)?)?;
    let found = tables.into_iter().find(|table| table.schema.name == schema.name);
    Ok(found.unwrap_or_else(|| Table::new(schema, folder)))
}

/// Writes the tables of a folder.
#[cfg(feature = "write")]
pub(crate) struct TablesWriter {
    runs: Runs,
    operator_rows: parquet::Writer,
}

#[cfg(feature = "write")]
impl TablesWriter {
    pub(crate) fn new(folder: &Path) -> Result<Self, DatasetError> {
        Ok(Self {
            runs: Runs::new(folder),
            operator_rows: parquet::Writer::new(&operator_measurements::SCHEMA, folder)?,
        })
    }

    pub(crate) fn add(&mut self, profile: &ModelProfile) -> Result<(), DatasetError> {
        self.runs.add(profile, self.operator_rows.rows()?)
    }

    /// Replaces the tables, each whole: a row exists before any row that refers to it.
    pub(crate) fn finish(
        self,
        models: &[ModelIdentity],
        graphs: &BTreeMap<String, Graph>,
    ) -> Result<(), DatasetError> {
        let repeated = self.runs.repeated_bytes;
        let [environments, operators, models, rows] = self.runs.tables(models, graphs)?;
        [environments, operators, models].iter().try_for_each(parquet::write)?;
        self.operator_rows.finish()?;
        parquet::write_with(&rows, repeated)
    }
}
