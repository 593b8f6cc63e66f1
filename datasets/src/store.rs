//! [`Store`]: writes a dataset. A sweep appends to the journal, and [`Store::compact`] folds the journal into the tables.
//!
//! Tables are replaced one by one, each whole, rows before the rows that point to them, and the journal goes last: a crash anywhere in between leaves rows
//! twice on the disk, never lost, and a reader takes rows with the same [`VisitKey`] once.

use crate::{
    Dataset, DatasetError, VisitKey, Warning,
    files::{UNFINISHED, sync_parent},
    journal::{self, Entry, EntryRef, Writer},
    lock::{LOCK_FILE, Lock},
    parquet,
    schema::{Manifest, SCHEMA_FILE, TABLES},
    tables::{
        environments, model_measurements, models,
        operator_measurements::{self, OperatorIds},
        operators,
    },
};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fs,
    path::{Path, PathBuf},
};
use vitempo_graph::{Environment, Graph, ModelIdentity, ModelProfile, OpSpec, Status};

/// A dataset open for writing; no other process can open it meanwhile.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    writer: Writer,
    visits: HashMap<VisitKey, Status>,
    models: HashMap<(String, String), ModelIdentity>,
    graphs: HashSet<String>,
    warnings: Vec<Warning>,
    _lock: Lock,
}

/// What [`Store::compact`] did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compaction {
    /// Visits in the tables now.
    pub visits: usize,
    /// Models in the tables now.
    pub models: usize,
    /// Journal segments folded in.
    pub segments: usize,
    /// What had to be left out.
    pub warnings: Vec<Warning>,
}

impl Store {
    /// Opens a dataset folder, and makes it if it is not there or empty.
    ///
    /// # Errors
    /// [`DatasetError`]: another process writes it, the folder holds something else, cannot be written, or has another schema version.
    pub fn open_or_create(folder: &Path) -> Result<Self, DatasetError> {
        fs::create_dir_all(folder).map_err(DatasetError::io("create", folder))?;
        let fresh = is_fresh(folder)?;
        if !fresh {
            Manifest::read(folder)?;
        }
        let lock = Lock::take(folder)?;
        if fresh {
            create_tables(folder)?;
            Manifest::current().write(folder)?;
        }
        let mut store = Self {
            folder: folder.to_owned(),
            writer: Writer::new(folder),
            visits: HashMap::new(),
            models: HashMap::new(),
            graphs: HashSet::new(),
            warnings: Vec::new(),
            _lock: lock,
        };
        store.learn_tables()?;
        store.learn_journal()?;
        Ok(store)
    }

    fn learn_tables(&mut self) -> Result<(), DatasetError> {
        for row in model_measurements::rows(&parquet::read(&model_measurements::SCHEMA, &self.folder)?)? {
            self.visits.insert(row.key, row.status);
        }
        let table = parquet::read(&models::SCHEMA, &self.folder)?;
        for row in 0..table.rows() {
            let identity = models::identity(&table, row);
            if table.optional_text("graph_json", row).is_some() {
                self.graphs.insert(identity.architecture.clone());
            }
            self.models.insert((identity.architecture.clone(), identity.name.clone()), identity);
        }
        Ok(())
    }

    fn learn_journal(&mut self) -> Result<(), DatasetError> {
        let journal = journal::read(&self.folder)?;
        self.warnings = journal.warnings;
        for entry in journal.entries {
            match entry {
                Entry::Model { identity, .. } => {
                    self.graphs.insert(identity.architecture.clone());
                    self.models.insert((identity.architecture.clone(), identity.name.clone()), identity);
                }
                Entry::Visit(profile) => {
                    self.visits.insert(VisitKey::from(&*profile), profile.status);
                    let model = profile.model;
                    self.models.insert((model.architecture.clone(), model.name.clone()), model);
                }
            }
        }
        Ok(())
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What was left out of the journal when the dataset was opened: the visit a killed sweep was writing.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Number of visits so far.
    #[must_use]
    pub fn visits(&self) -> usize {
        self.visits.len()
    }

    /// Whether this model was visited in this environment and round, successfully or not: in `sitting`, or in any sitting if that is `None`.
    #[must_use]
    pub fn done(&self, environment_id: &str, model: &ModelIdentity, round: usize, sitting: Option<&str>) -> bool {
        self.status(environment_id, model, round, sitting).is_some()
    }

    /// How the visit that [`Store::done`] asks for ended: `Ok` if any did.
    #[must_use]
    pub fn status(&self, environment_id: &str, model: &ModelIdentity, round: usize, sitting: Option<&str>) -> Option<&Status> {
        let same = |key: &VisitKey| {
            key.round == round as u64
                && key.architecture == model.architecture
                && key.model == model.name
                && key.environment_id == environment_id
                && sitting.is_none_or(|s| s == key.sitting)
        };
        let mut found: Vec<&Status> = self.visits.iter().filter(|(key, _)| same(key)).map(|(_, status)| status).collect();
        found.sort_by_key(|status| **status != Status::Ok);
        found.first().copied()
    }

    /// Stores a model's graph, once per architecture.
    ///
    /// # Errors
    /// [`DatasetError::Conflict`] when the model is known with another space or encoding; [`DatasetError::Io`] when it cannot be written.
    pub fn append_model(&mut self, identity: &ModelIdentity, graph: &Graph) -> Result<(), DatasetError> {
        let known = self.check_identity(identity)?;
        if known && self.graphs.contains(&identity.architecture) {
            return Ok(());
        }
        self.writer.append(&EntryRef::Model { identity, graph })?;
        self.graphs.insert(identity.architecture.clone());
        self.models.insert((identity.architecture.clone(), identity.name.clone()), identity.clone());
        Ok(())
    }

    /// Stores one visit; when this returns, it is on the disk.
    ///
    /// # Errors
    /// [`DatasetError::Conflict`] when this visit is stored already, [`DatasetError::Unstorable`] when its protocol holds a NaN, [`DatasetError::Io`] when it
    /// cannot be written (the disk is full): nothing of it is stored then.
    pub fn append(&mut self, profile: &ModelProfile) -> Result<(), DatasetError> {
        let key = VisitKey::from(profile);
        if self.visits.contains_key(&key) {
            return Err(DatasetError::Conflict { path: self.folder.clone(), what: key.to_string() });
        }
        if !profile.protocol.target_spread.is_finite() {
            return Err(DatasetError::Unstorable { what: key.to_string(), reason: "`target_spread` of its protocol is not a finite number".to_owned() });
        }
        self.check_identity(&profile.model)?;
        self.writer.append(&EntryRef::Visit(profile))?;
        self.models.insert((key.architecture.clone(), key.model.clone()), profile.model.clone());
        self.visits.insert(key, profile.status.clone());
        Ok(())
    }

    fn check_identity(&self, identity: &ModelIdentity) -> Result<bool, DatasetError> {
        match self.models.get(&(identity.architecture.clone(), identity.name.clone())) {
            Some(known) if known != identity => {
                Err(DatasetError::Conflict { path: self.folder.clone(), what: format!("model `{}` ({})", identity.name, identity.architecture) })
            }
            known => Ok(known.is_some()),
        }
    }

    /// Folds the journal into the tables. Does nothing when the journal is empty.
    ///
    /// # Errors
    /// As [`Dataset::load`], and [`DatasetError::Io`]; the journal is kept then.
    pub fn compact(&mut self) -> Result<Compaction, DatasetError> {
        let journal = journal::read(&self.folder)?;
        if !journal.segments.is_empty() {
            let dataset = Dataset::load(&self.folder)?;
            write_tables(&self.folder, &dataset)?;
            for segment in &journal.segments {
                fs::remove_file(segment).map_err(DatasetError::io("remove", segment))?;
                sync_parent(segment)?;
            }
            self.writer.reset();
        }
        Ok(Compaction { visits: self.visits.len(), models: self.models.len(), segments: journal.segments.len(), warnings: journal.warnings })
    }
}

/// Whether a folder can become a dataset: nothing in it, or what the creation of a dataset leaves when it is cut short.
fn is_fresh(folder: &Path) -> Result<bool, DatasetError> {
    let mut foreign = None;
    for entry in fs::read_dir(folder).map_err(DatasetError::io("read", folder))? {
        let name = entry.map_err(DatasetError::io("read", folder))?.file_name().to_string_lossy().into_owned();
        if name == SCHEMA_FILE {
            return Ok(false);
        }
        let ours = name == LOCK_FILE || name.ends_with(UNFINISHED) || TABLES.iter().any(|table| table.file_name() == name);
        if !ours {
            foreign = Some(name);
        }
    }
    match foreign {
        None => Ok(true),
        Some(name) => {
            let reason = format!("it has no schema.json but holds `{name}`; choose an empty folder");
            Err(DatasetError::NotADataset { path: folder.to_owned(), reason })
        }
    }
}

fn create_tables(folder: &Path) -> Result<(), DatasetError> {
    let missing = TABLES.iter().any(|table| !folder.join(table.file_name()).exists());
    if missing { write_tables(folder, &Dataset::default()) } else { Ok(()) }
}

/// Writes all tables of a dataset into a folder.
pub(crate) fn write_tables(folder: &Path, dataset: &Dataset) -> Result<(), DatasetError> {
    tables_of(folder, dataset)?.iter().try_for_each(parquet::write)
}

/// All tables of a dataset, in the order in which they are written.
pub(crate) fn tables_of(folder: &Path, dataset: &Dataset) -> Result<Vec<crate::column::Table>, DatasetError> {
    let environments: BTreeMap<(String, String), &Environment> =
        dataset.profiles.iter().map(|p| ((p.environment.id(), environments::variant(&p.environment)), &p.environment)).collect();
    let mut ids: OperatorIds<'_> = HashMap::new();
    for measurement in dataset.profiles.iter().flat_map(|profile| &profile.operators) {
        ids.entry(&measurement.op).or_insert_with(|| measurement.op.id());
    }
    let operators: BTreeMap<String, &OpSpec> = ids.iter().map(|(op, id)| (id.clone(), *op)).collect();
    Ok(vec![
        environments::build(folder, environments.into_values()),
        operators::build(folder, &operators),
        models::build(folder, &dataset.models, &dataset.graphs)?,
        operator_measurements::build(folder, &dataset.profiles, &ids),
        model_measurements::build(folder, &dataset.profiles)?,
    ])
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::simulated::{append_all, environment, stored, sweep};

    #[test]
    fn what_goes_in_comes_out_before_and_after_compaction() {
        let folder = tempfile::tempdir().unwrap();
        let (profiles, graphs) = sweep(12, 7, 4);
        let mut store = Store::open_or_create(folder.path()).unwrap();
        assert!(Dataset::load(folder.path()).unwrap().profiles.is_empty());
        append_all(&mut store, &profiles[..15], &graphs);
        let check = |expected: &[ModelProfile]| {
            let dataset = Dataset::load(folder.path()).unwrap();
            assert_eq!(dataset.profiles, expected);
            assert_eq!(dataset.graphs, graphs);
            assert_eq!(dataset.warnings, []);
        };
        check(&profiles[..15]);
        assert_eq!(store.compact().unwrap().segments, 1);
        check(&profiles[..15]);
        append_all(&mut store, &profiles[15..], &graphs);
        check(&profiles);
        store.compact().unwrap();
        check(&profiles);
        assert_eq!(store.compact().unwrap().segments, 0);
    }

    #[test]
    fn equal_datasets_have_equal_bytes() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        stored(one.path(), 5);
        stored(two.path(), 5);
        for table in TABLES {
            assert_eq!(fs::read(one.path().join(table.file_name())).unwrap(), fs::read(two.path().join(table.file_name())).unwrap(), "{}", table.name);
        }
    }

    #[test]
    fn a_sweep_resumes_after_a_kill_having_lost_one_visit() {
        let folder = tempfile::tempdir().unwrap();
        let (profiles, graphs) = sweep(4, 5, 3);
        let id = environment().id();
        let mut store = Store::open_or_create(folder.path()).unwrap();
        append_all(&mut store, &profiles[..3], &graphs);
        drop(store);
        let segment = folder.path().join("journal/000001.jsonl");
        let whole = fs::read(&segment).unwrap();
        for torn in [1, 2, 40, 900] {
            fs::write(&segment, &whole[..whole.len() - torn]).unwrap();
            let mut store = Store::open_or_create(folder.path()).unwrap();
            assert!(matches!(store.warnings(), [Warning::TornLine { line: 6, .. }]), "{torn}: {:?}", store.warnings());
            assert!(store.done(&id, &profiles[1].model, 0, None) && !store.done(&id, &profiles[2].model, 0, None));
            append_all(&mut store, &profiles[2..5], &graphs);
            assert_eq!(Dataset::load(folder.path()).unwrap().profiles, profiles[..5]);
            let compaction = store.compact().unwrap();
            assert_eq!((compaction.visits, compaction.segments, compaction.warnings.len()), (5, 2, 1));
            drop(store);
            assert_eq!(Dataset::load(folder.path()).unwrap().profiles, profiles[..5]);
            for table in TABLES {
                fs::remove_file(folder.path().join(table.file_name())).unwrap();
            }
            write_tables(folder.path(), &Dataset::default()).unwrap();
        }
    }

    #[test]
    fn a_compaction_cut_short_anywhere_loses_and_doubles_nothing() {
        let (profiles, graphs) = sweep(6, 5, 3);
        for files_written in 0..=TABLES.len() {
            let folder = tempfile::tempdir().unwrap();
            let mut store = Store::open_or_create(folder.path()).unwrap();
            append_all(&mut store, &profiles[..4], &graphs);
            store.compact().unwrap();
            append_all(&mut store, &profiles[4..], &graphs);
            drop(store);
            let dataset = Dataset::load(folder.path()).unwrap();
            for table in &tables_of(folder.path(), &dataset).unwrap()[..files_written] {
                parquet::write(table).unwrap();
            }
            fs::write(folder.path().join("models.parquet.unfinished"), b"PAR1").unwrap();
            assert_eq!(Dataset::load(folder.path()).unwrap().profiles, profiles, "{files_written} tables");
            let mut store = Store::open_or_create(folder.path()).unwrap();
            store.compact().unwrap();
            let dataset = Dataset::load(folder.path()).unwrap();
            assert_eq!((dataset.profiles, dataset.graphs), (profiles.clone(), graphs.clone()), "{files_written} tables");
        }
    }

    #[test]
    fn done_knows_sittings_rounds_and_failures() {
        let folder = tempfile::tempdir().unwrap();
        let (profiles, _) = stored(folder.path(), 7);
        let store = Store::open_or_create(folder.path()).unwrap();
        let id = environment().id();
        let model = &profiles[6].model;
        for (environment, round, sitting, expected) in [
            (id.as_str(), 0, None, Some(Status::Ok)),
            (id.as_str(), 0, Some("monday"), Some(Status::Ok)),
            (id.as_str(), 0, Some("tuesday"), None),
            (id.as_str(), 1, None, Some(Status::Failed("out of memory".into()))),
            (id.as_str(), 2, None, None),
            ("elsewhere", 0, None, None),
        ] {
            assert_eq!(store.status(environment, model, round, sitting), expected.as_ref(), "{environment} {round} {sitting:?}");
        }
    }

    #[test]
    fn refuses_what_it_cannot_store() {
        let folder = tempfile::tempdir().unwrap();
        let (profiles, graphs) = stored(folder.path(), 2);
        let mut store = Store::open_or_create(folder.path()).unwrap();
        assert!(matches!(store.append(&profiles[0]), Err(DatasetError::Conflict { .. })));
        let mut nan = profiles[0].clone();
        nan.round = 9;
        nan.protocol.target_spread = f64::NAN;
        assert!(matches!(store.append(&nan), Err(DatasetError::Unstorable { .. })));
        let mut renamed = profiles[0].model.clone();
        renamed.space = Some("elsewhere".into());
        assert!(matches!(store.append_model(&renamed, &graphs[&renamed.architecture]), Err(DatasetError::Conflict { .. })));
        assert!(matches!(Store::open_or_create(folder.path()), Err(DatasetError::Locked { .. })));
        let other = tempfile::tempdir().unwrap();
        fs::write(other.path().join("holiday.jpg"), b"x").unwrap();
        let error = Store::open_or_create(other.path()).unwrap_err();
        assert!(error.to_string().contains("holiday.jpg"), "{error}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_an_error_with_a_path_and_keeps_the_journal() {
        let folder = tempfile::tempdir().unwrap();
        let (profiles, graphs) = sweep(2, 4, 2);
        let mut store = Store::open_or_create(folder.path()).unwrap();
        std::os::unix::fs::symlink("/dev/full", folder.path().join("models.parquet.unfinished")).unwrap();
        append_all(&mut store, &profiles, &graphs);
        let error = store.compact().unwrap_err();
        assert!(error.to_string().contains("models.parquet"), "{error}");
        assert_eq!(Dataset::load(folder.path()).unwrap().profiles, profiles);
        store.compact().unwrap();
        assert_eq!(Dataset::load(folder.path()).unwrap().profiles, profiles);
    }
}
