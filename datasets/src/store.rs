//! [`Store`]: writes a dataset. A sweep appends to the journal, and [`Store::compact`] folds the
//! journal into the tables.
//!
//! Tables are replaced one by one, each whole, and rows before the rows that refer to them; the
//! journal is removed last. A crash in between leaves rows twice on the disk and loses none, and a
//! reader takes rows with the same [`RunKey`] once.

mod runs;

pub use self::runs::{Found, Measures, Sought};
use self::runs::{Known, Runs};
use crate::{
    Dataset, DatasetError, RunKey, Warning,
    files::{UNFINISHED, UNFINISHED_WRITE, sync_parent, write_whole},
    journal::{self, Entry, EntryRef, Writer},
    lake,
    lock::{LOCK_FILE, Lock},
    parquet,
    schema::{Manifest, SCHEMA_FILE, SCHEMA_VERSION},
    tables::{
        TABLES, model_measurements, models,
        runs::{TablesWriter, tables_of},
    },
};
use std::{
    collections::{HashMap, HashSet},
    fs,
    path::{Path, PathBuf},
};
use vitempo_graph::{Graph, ModelIdentity, ModelProfile};

/// A dataset open for writing; no other process can open it meanwhile.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    writer: Writer,
    runs: Runs,
    models: HashMap<(String, String), ModelIdentity>,
    graphs: HashSet<String>,
    warnings: Vec<Warning>,
    _lock: Lock,
}

/// What [`Store::compact`] did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compaction {
    /// Model runs in the tables now.
    pub runs: usize,
    /// Models in the tables now.
    pub models: usize,
    /// Journal segments folded in.
    pub segments: usize,
    /// What had to be left out.
    pub warnings: Vec<Warning>,
}

impl Store {
    /// Opens a dataset folder, and creates the dataset if the folder does not exist or is empty.
    ///
    /// # Errors
    /// [`DatasetError`]: another process writes it, the folder holds something else, cannot be
    /// written, or has another schema version.
    pub fn open_or_create(folder: &Path) -> Result<Self, DatasetError> {
        if lake::is_at(folder) {
            return Err(DatasetError::NotADataset {
                path: folder.to_owned(),
                reason: "it is a lake; write into a folder, then `vitempo dataset append` it"
                    .to_owned(),
            });
        }
        fs::create_dir_all(folder).map_err(DatasetError::io("create", folder))?;
        let fresh = is_fresh(folder)?;
        let version = if fresh { None } else { Some(Manifest::read(folder)?.schema_version) };
        let lock = Lock::take(folder)?;
        if fresh {
            create_tables(folder)?;
        }
        // Additions to an older dataset have the current version, so a vitempo that does not
        // support it must not read the folder any more.
        if version != Some(SCHEMA_VERSION) {
            Manifest::current().write(folder)?;
        }
        let mut store = Self {
            folder: folder.to_owned(),
            writer: Writer::new(folder),
            runs: Runs::default(),
            models: HashMap::new(),
            graphs: HashSet::new(),
            warnings: Vec::new(),
            _lock: lock,
        };
        store.learn_tables()?;
        store.learn_journal()?;
        Ok(store)
    }

    /// Opens a folder that holds no measurements yet, for what is only done into a new one. Until
    /// [`Store::filled`] the folder is marked as unfinished.
    pub(crate) fn open_empty(folder: &Path, what: &str) -> Result<Self, DatasetError> {
        let store = Self::open_or_create(folder)?;

        let mark = folder.join(UNFINISHED_WRITE);
        // Tables of models that an interrupted one has left are written anew.
        let has_models = !store.models.is_empty() && !mark.exists();
        let has_journal = !journal::read(folder)?.segments.is_empty();
        if store.runs() > 0 || has_models || has_journal {
            return Err(DatasetError::NotADataset {
                path: folder.to_owned(),
                reason: format!("it holds models or measurements; {what} into a new folder"),
            });
        }
        write_whole(&mark, format!("{what}\n").as_bytes())?;
        Ok(store)
    }

    /// Everything is in the folder that [`Store::open_empty`] opened.
    pub(crate) fn filled(self) -> Result<(), DatasetError> {
        let mark = self.folder.join(UNFINISHED_WRITE);
        fs::remove_file(&mark).map_err(DatasetError::io("remove", &mark))?;
        sync_parent(&mark)
    }

    fn learn_tables(&mut self) -> Result<(), DatasetError> {
        for row in
            model_measurements::rows(&parquet::read(&model_measurements::SCHEMA, &self.folder)?)?
        {
            let operators = usize::try_from(row.operators).unwrap_or(usize::MAX);
            let known = Known {
                is_of_memory_alone: row.protocol.measured_memory_alone(operators, &row.reference),
                has_memory: row.running_memory_bytes.is_some(),
                status: row.status,
                protocol: row.protocol,
            };
            self.runs.insert(row.key, known);
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
                Entry::Model(model) => {
                    let identity = model.identity;
                    self.graphs.insert(identity.architecture.clone());
                    self.models
                        .insert((identity.architecture.clone(), identity.name.clone()), identity);
                }
                Entry::Run(profile) => {
                    self.runs.insert(RunKey::from(&*profile), Known::from(&*profile));
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

    /// Parts of the journal that were left out when the dataset was opened: the model run that a
    /// killed sweep was writing.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Number of model runs so far.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.runs.count()
    }

    /// Whether this model was measured, successfully or not: the model run that is
    /// [`sought`](Sought).
    #[must_use]
    pub fn done(&self, model: &ModelIdentity, sought: &Sought<'_>) -> bool {
        self.find(model, sought).is_some()
    }

    /// The model run that is sought, in all its sessions or in one.
    #[must_use]
    pub fn find(&self, model: &ModelIdentity, sought: &Sought<'_>) -> Option<Found<'_>> {
        self.runs.find(model, sought)
    }

    /// Whether there is a model run of this key, whatever it measured.
    #[must_use]
    pub fn contains(&self, key: &RunKey) -> bool {
        self.runs.contains(key)
    }

    /// Stores a model's graph, once per architecture.
    ///
    /// # Errors
    /// [`DatasetError::ModelConflict`] when the model is known with another space or encoding;
    /// [`DatasetError::Io`] when it cannot be written.
    pub fn append_model(
        &mut self,
        identity: &ModelIdentity,
        graph: &Graph,
    ) -> Result<(), DatasetError> {
        let known = self.check_identity(identity)?;
        if known && self.graphs.contains(&identity.architecture) {
            return Ok(());
        }
        self.writer.append(&EntryRef::Model { identity, graph })?;
        self.graphs.insert(identity.architecture.clone());
        self.models
            .insert((identity.architecture.clone(), identity.name.clone()), identity.clone());
        Ok(())
    }

    /// Stores one model run; when this returns, it is on the disk.
    ///
    /// # Errors
    /// [`DatasetError::Conflict`] when this model run is stored already,
    /// [`DatasetError::Unstorable`] when its session has no name or its protocol holds a NaN, [`DatasetError::Io`] when it
    /// cannot be written (the disk is full): nothing of it is stored then.
    pub fn append(&mut self, profile: &ModelProfile) -> Result<(), DatasetError> {
        let key = RunKey::from(profile);
        if self.runs.contains(&key) {
            return Err(DatasetError::Conflict {
                path: self.folder.clone(),
                what: key.to_string(),
            });
        }
        check_storable(profile)?;
        self.check_identity(&profile.model)?;
        self.writer.append(&EntryRef::Run(profile))?;
        self.models.insert((key.architecture.clone(), key.model.clone()), profile.model.clone());
        self.runs.insert(key, Known::from(profile));
        Ok(())
    }

    fn check_identity(&self, identity: &ModelIdentity) -> Result<bool, DatasetError> {
        match self.models.get(&(identity.architecture.clone(), identity.name.clone())) {
            Some(known) if known != identity => {
                Err(DatasetError::contradiction(&self.folder, known, identity))
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
        Ok(Compaction {
            runs: self.runs.count(),
            models: self.models.len(),
            segments: journal.segments.len(),
            warnings: journal.warnings,
        })
    }
}

/// Whether the tables can represent a model run.
pub(crate) fn check_storable(profile: &ModelProfile) -> Result<(), DatasetError> {
    let reason = match profile {
        p if p.session.trim().is_empty() => "the name of its session is empty",
        p if !p.protocol.target_spread.is_finite() => {
            "`target_spread` of its protocol is not a finite number"
        }
        _ => return Ok(()),
    };
    Err(DatasetError::Unstorable {
        what: RunKey::from(profile).to_string(),
        reason: reason.to_owned(),
    })
}

/// Whether a folder can become a dataset: it is empty, or has the files of an interrupted creation.
fn is_fresh(folder: &Path) -> Result<bool, DatasetError> {
    let mut foreign = None;
    for entry in fs::read_dir(folder).map_err(DatasetError::io("read", folder))? {
        let name = entry
            .map_err(DatasetError::io("read", folder))?
            .file_name()
            .to_string_lossy()
            .into_owned();
        if name == SCHEMA_FILE {
            return Ok(false);
        }
        let ours = name == LOCK_FILE
            || name.ends_with(UNFINISHED)
            || TABLES.iter().any(|table| table.file_name() == name);
        if !ours {
            foreign = Some(name);
        }
    }
    match foreign {
        None => Ok(true),
        Some(name) => {
            let reason =
                format!("it has no schema.json but holds `{name}`; choose an empty folder");
            Err(DatasetError::NotADataset { path: folder.to_owned(), reason })
        }
    }
}

/// Writes empty tables where there are none; never replaces one.
fn create_tables(folder: &Path) -> Result<(), DatasetError> {
    let tables = tables_of(folder, &Dataset::default())?;
    tables.iter().filter(|table| !table.path.exists()).try_for_each(parquet::write)
}

/// Writes all tables of a dataset into a folder.
pub(crate) fn write_tables(folder: &Path, dataset: &Dataset) -> Result<(), DatasetError> {
    let mut writer = TablesWriter::new(folder)?;
    dataset.profiles.iter().try_for_each(|profile| writer.add(profile))?;
    writer.finish(&dataset.models, &dataset.graphs)
}

#[cfg(test)]
mod tests;
