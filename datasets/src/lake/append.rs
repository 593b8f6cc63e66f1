//! [`Lake::append`]: adds what is new of a dataset, in one commit.

use super::{
    Contents, Lake, Part, State,
    commits::{Batch, Change},
    partition,
};
use crate::{
    Dataset, DatasetError, RunKey,
    assembly::Known,
    column::Table,
    load::Selection,
    parquet,
    store::check_storable,
    tables::{environments, models, operator_measurements, operators, runs::Runs},
};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use vitempo_graph::{ModelIdentity, ModelProfile, OpSpec};

/// How many commits of others may come first before a writer gives up.
const ATTEMPTS: usize = 100;

/// What [`Lake::append`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Model runs that were added.
    pub runs: usize,
    /// Model runs that were there already.
    pub known: usize,
    /// Models that were added.
    pub models: usize,
    /// The number of the lake's last commit.
    pub commit: u64,
}

/// Rows that are stored and that no commit names yet, with the keys of their model runs.
#[derive(Default)]
struct Stored {
    keys: Vec<RunKey>,
    batches: Vec<Batch>,
}

impl Lake {
    /// Adds the model runs and models of a dataset that the lake does not have, in one commit: they
    /// are all there, or none. Others may append at the same time. Files that were written before
    /// an error or a crash are not part of the lake.
    ///
    /// # Errors
    /// [`DatasetError::Conflict`] and [`DatasetError::ModelConflict`] where the lake says other
    /// things of one of these model runs or models; [`DatasetError::Unstorable`];
    /// [`DatasetError::Io`] where the lake cannot be read or written; [`DatasetError::Busy`] where
    /// others commit all the time. Nothing is added then.
    pub fn append(&mut self, dataset: &Dataset) -> Result<Appended, DatasetError> {
        check_runs(dataset)?;
        let ids: BTreeSet<String> =
            dataset.profiles.iter().map(|profile| profile.environment.id()).collect();
        let mut stored = Stored::default();
        for _ in 0..ATTEMPTS {
            match self.try_append(dataset, &ids, &mut stored) {
                Ok(Some(appended)) => return Ok(appended),
                Ok(None) => {}
                Err(error) if self.is_outdated(&error)? => {}
                Err(error) => return Err(error),
            }
        }
        Err(DatasetError::Busy { path: self.path.clone(), attempts: ATTEMPTS })
    }

    /// `None` where another writer's commit came first.
    fn try_append(
        &mut self,
        dataset: &Dataset,
        environments: &BTreeSet<String>,
        stored: &mut Stored,
    ) -> Result<Option<Appended>, DatasetError> {
        self.state = State::latest(&self.objects, &self.path)?;
        self.learn(environments)?;
        let runs = self.new_runs(dataset)?;
        let models = self.new_models(dataset, &runs)?;
        let keys: Vec<RunKey> = runs.iter().map(|profile| RunKey::from(*profile)).collect();
        if stored.keys != keys {
            *stored = Stored { keys, batches: self.store_runs(&runs)? };
        }
        let referred = self.store_referred(dataset, &runs, &models)?;
        let contents = Contents { batches: stored.batches.clone(), ..referred };
        if !contents.is_empty() {
            let change = Change::Add(contents);
            match self.state.commit(&self.objects, &self.path, change)? {
                Some(state) => self.state = state,
                None => return Ok(None),
            }
        }
        Ok(Some(Appended {
            runs: runs.len(),
            known: dataset.profiles.len() - runs.len(),
            models: models.len(),
            commit: self.state.number,
        }))
    }

    /// The model runs that the lake does not have; those that it has are the same there.
    fn new_runs<'d>(&self, dataset: &'d Dataset) -> Result<Vec<&'d ModelProfile>, DatasetError> {
        let is_known =
            |profile: &&ModelProfile| self.index.runs.contains_key(&RunKey::from(*profile));
        let (known, new): (Vec<_>, Vec<_>) = dataset.profiles.iter().partition(is_known);
        if !known.is_empty() {
            self.check_same(&known)?;
        }
        Ok(new)
    }

    /// Model runs that the lake has are the same there.
    fn check_same(&self, known: &[&ModelProfile]) -> Result<(), DatasetError> {
        let keys: HashSet<RunKey> = known.iter().map(|profile| RunKey::from(*profile)).collect();
        let files: HashSet<&str> =
            keys.iter().filter_map(|key| self.index.runs.get(key)).map(String::as_str).collect();
        let mut contents = self.state.contents.clone();
        contents.batches.retain(|batch| files.contains(batch.runs.path.as_str()));
        let there = Dataset::of(&self.only(contents).into(), Some(Selection::MEASURED))?;
        let there = there.profiles.into_iter().filter(|p| keys.contains(&RunKey::from(p)));
        let (mut compared, mut seen) = (Dataset::default(), Known::new(&self.path));
        there
            .chain(known.iter().copied().cloned())
            .try_for_each(|profile| seen.add_run(&mut compared, profile))
    }

    /// The models that the lake does not have, or of which it does not have the graph.
    fn new_models(
        &self,
        dataset: &Dataset,
        runs: &[&ModelProfile],
    ) -> Result<Vec<ModelIdentity>, DatasetError> {
        let mut new: BTreeMap<(&str, &str), &ModelIdentity> = BTreeMap::new();
        let mut ordered = Vec::new();
        let of_runs = runs.iter().map(|profile| &profile.model);
        for model in dataset.models.iter().chain(of_runs) {
            let conflict = |known| DatasetError::contradiction(&self.path, known, model);
            match new.insert((&model.architecture, &model.name), model) {
                Some(other) if other != model => return Err(conflict(other)),
                Some(_) => continue,
                None => {}
            }
            let key = (model.architecture.clone(), model.name.clone());
            match self.index.models.get(&key) {
                Some(known) if known != model => return Err(conflict(known)),
                Some(_) if !self.brings_graph(dataset, &model.architecture) => {}
                _ => ordered.push(model.clone()),
            }
        }
        Ok(ordered)
    }

    fn brings_graph(&self, dataset: &Dataset, architecture: &str) -> bool {
        !self.index.graphs.contains(architecture)
            && dataset.graphs.get(architecture).is_some_and(|graph| !graph.nodes().is_empty())
    }

    /// Stores the rows of model runs, for each environment.
    pub(super) fn store_runs(&self, runs: &[&ModelProfile]) -> Result<Vec<Batch>, DatasetError> {
        let mut by_environment: Vec<(String, Vec<&ModelProfile>)> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        for profile in runs {
            let id = profile.environment.id();
            let place = *places.entry(id.clone()).or_insert(by_environment.len());
            if place == by_environment.len() {
                by_environment.push((id, Vec::new()));
            }
            by_environment[place].1.push(profile);
        }
        by_environment.into_iter().map(|(id, runs)| self.store_batch(id, &runs)).collect()
    }

    fn store_batch(
        &self,
        environment: String,
        runs: &[&ModelProfile],
    ) -> Result<Batch, DatasetError> {
        let mut joined = Runs::new(&self.path);
        let mut rows = Table::new(&operator_measurements::SCHEMA, &self.path);
        runs.iter().try_for_each(|profile| joined.add(profile, &mut rows))?;
        let (run_rows, repeated_bytes, ids) = joined.into_parts();
        let kinds: HashMap<&str, String> =
            ids.iter().map(|(op, id)| (&**id, String::from(op.kind.clone()))).collect();
        let mut by_kind: BTreeMap<&str, Table> = BTreeMap::new();
        for row in 0..rows.rows() {
            let kind = kinds.get(rows.text("op_id", row)).map_or("", String::as_str);
            by_kind
                .entry(kind)
                .or_insert_with(|| Table::new(&operator_measurements::SCHEMA, &self.path))
                .push_row(&rows, row);
        }
        let of = Some(environment.as_str());
        let operators = by_kind
            .into_iter()
            .map(|(kind, table)| Ok((kind.to_owned(), self.store(&table, 0, of, Some(kind))?)))
            .collect::<Result<_, DatasetError>>()?;
        Ok(Batch { runs: self.store(&run_rows, repeated_bytes, of, None)?, operators, environment })
    }

    /// Stores what model runs refer to and the lake does not have.
    fn store_referred(
        &self,
        dataset: &Dataset,
        runs: &[&ModelProfile],
        new_models: &[ModelIdentity],
    ) -> Result<Contents, DatasetError> {
        let mut new_environments = BTreeMap::new();
        let mut new_operators: BTreeMap<String, &OpSpec> = BTreeMap::new();
        let mut seen: HashSet<*const OpSpec> = HashSet::new();
        for profile in runs {
            let key = (profile.environment.id(), environments::variant(&profile.environment));
            if !self.index.environments.contains(&key) {
                new_environments.insert(key, &profile.environment);
            }
            for measurement in &profile.operators {
                let op: &OpSpec = &measurement.op;
                if seen.insert(op) && !self.index.operators.contains(&op.id()) {
                    new_operators.insert(op.id(), op);
                }
            }
        }
        let new_operators = new_operators.iter().map(|(id, op)| (id.as_str(), *op)).collect();
        let tables = [
            environments::build(&self.path, new_environments.into_values())?,
            operators::build(&self.path, &new_operators),
            models::build(&self.path, new_models, &dataset.graphs)?,
        ];
        let [environments, operators, models] = tables.map(|table| -> Result<_, DatasetError> {
            let filled = (table.rows() > 0).then(|| self.store(&table, 0, None, None));
            Ok(filled.transpose()?.into_iter().collect::<Vec<Part>>())
        });
        Ok(Contents {
            environments: environments?,
            operators: operators?,
            models: models?,
            batches: Vec::new(),
        })
    }

    /// Stores a file, which no commit names yet.
    pub(super) fn store(
        &self,
        table: &Table,
        spare_bytes: u64,
        environment: Option<&str>,
        kind: Option<&str>,
    ) -> Result<Part, DatasetError> {
        let bytes = parquet::bytes(table, spare_bytes)?;
        let folder = partition::folder_of(table.schema.name, environment, kind);
        let path = format!("{folder}/{}", partition::file_of(&bytes));
        let part = Part { path, rows: table.rows(), bytes: bytes.len() as u64 };
        self.objects.put(&part.path, bytes)?;
        Ok(part)
    }
}

/// Every model run can be stored and is there once.
fn check_runs(dataset: &Dataset) -> Result<(), DatasetError> {
    let mut keys = HashSet::new();
    for profile in &dataset.profiles {
        check_storable(profile)?;
        let key = RunKey::from(profile);
        if let Some(key) = keys.replace(key) {
            return Err(DatasetError::Conflict {
                path: dataset.path.clone(),
                what: key.to_string(),
            });
        }
    }
    Ok(())
}
