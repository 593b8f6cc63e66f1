//! [`Dataset`]: everything in a dataset folder, tables and journal, as the types the rest of
//! vitempo uses.
//!
//! The journal is read first and the tables in the reverse of the order in which they are written:
//! so a dataset that is being written, or whose compaction was cut short, reads as one whole.

use crate::{
    DatasetError, VisitKey,
    assembly::{Assembly, Known, Shared, Tables},
    journal::{self, Entry, Journal},
    parquet,
    schema::Manifest,
    tables::model_measurements,
};
use std::{
    collections::{BTreeMap, HashSet},
    fmt,
    path::{Path, PathBuf},
};
use vitempo_graph::{Graph, ModelIdentity, ModelProfile, Status};

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
                write!(
                    f,
                    "{}, line {line}: left out, only its first {bytes} bytes were written; that \
                    visit will be measured again",
                    path.display()
                )
            }
            Self::Orphans { path, row, rows } => {
                write!(
                    f,
                    "{}, row {row}: {rows} rows left out, their visit is not in \
                    model_measurements.parquet",
                    path.display()
                )
            }
        }
    }
}

impl Dataset {
    /// Reads a dataset folder, with what its journal holds beyond the tables.
    ///
    /// # Errors
    /// [`DatasetError`] naming the file, and the row or line where there is one: not a dataset,
    /// another schema version, a missing, foreign, truncated or damaged file, a row that points to
    /// nothing.
    pub fn load(folder: &Path) -> Result<Self, DatasetError> {
        Self::read(folder, None)
    }

    /// Reads the visits of the environments whose identifier is `wanted`, and their models; nothing
    /// else is kept or decoded.
    ///
    /// # Errors
    /// As [`Dataset::load`], but for rows that were not read.
    pub fn load_environment(
        folder: &Path,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<Self, DatasetError> {
        Self::read(folder, Some(&wanted))
    }

    /// Every environment with its number of successful visits.
    ///
    /// # Errors
    /// As [`Dataset::load`], of what it reads: the visits. [`DatasetError::Empty`] when none was
    /// successful.
    pub fn environments(folder: &Path) -> Result<BTreeMap<String, usize>, DatasetError> {
        Manifest::read(folder)?;
        let journal = journal::read(folder)?;
        let rows = model_measurements::rows(&parquet::read(&model_measurements::SCHEMA, folder)?)?;
        let mut visits: BTreeMap<VisitKey, bool> =
            rows.into_iter().map(|row| (row.key, row.status == Status::Ok)).collect();
        visits.extend(
            journal.visits().map(|profile| (VisitKey::from(profile), profile.status == Status::Ok)),
        );
        if !visits.values().any(|ok| *ok) {
            return Err(DatasetError::Empty { path: folder.to_owned(), failed: visits.len() });
        }
        let mut environments = BTreeMap::new();
        for (key, ok) in visits {
            *environments.entry(key.environment_id).or_default() += usize::from(ok);
        }
        Ok(environments)
    }

    fn read(folder: &Path, wanted: Option<&dyn Fn(&str) -> bool>) -> Result<Self, DatasetError> {
        Manifest::read(folder)?;
        let mut journal = journal::read(folder)?;
        let Some(wanted) = wanted else {
            return Self::assemble(folder, Tables::read(folder)?, journal);
        };
        journal.entries.retain(|entry| match entry {
            Entry::Visit(profile) => wanted(&profile.environment.id()),
            Entry::Model(_) => true,
        });
        let in_journal: HashSet<&str> =
            journal.visits().map(|profile| profile.model.architecture.as_str()).collect();
        let tables = Tables::read_environment(folder, wanted, &in_journal)?;
        let tabled = tables.models.iter().map(|row| row.identity.architecture.as_str());
        let visited: HashSet<String> = tabled.chain(in_journal).map(str::to_owned).collect();
        journal.entries.retain(|entry| match entry {
            Entry::Visit(_) => true,
            Entry::Model(model) => visited.contains(&model.identity.architecture),
        });
        Self::assemble(folder, tables, journal)
    }

    /// The successful visits.
    ///
    /// # Errors
    /// [`DatasetError::Empty`] when there is none.
    pub fn successful(&self) -> Result<Vec<&ModelProfile>, DatasetError> {
        let successful: Vec<&ModelProfile> =
            self.profiles.iter().filter(|p| p.status == Status::Ok).collect();
        if successful.is_empty() {
            Err(DatasetError::Empty { path: self.path.clone(), failed: self.profiles.len() })
        } else {
            Ok(successful)
        }
    }

    fn assemble(folder: &Path, tables: Tables, journal: Journal) -> Result<Self, DatasetError> {
        let mut dataset =
            Self { path: folder.to_owned(), warnings: journal.warnings, ..Self::default() };
        let mut known = Known::new(folder);
        let (visits, models, mut assembly) = Assembly::new(folder, tables)?;
        for row in models {
            known.add_model(&mut dataset, row.identity, row.graph)?;
        }
        for row in visits {
            let profile = assembly.profile(row, &known)?;
            known.add_visit(&mut dataset, profile)?;
        }
        let mut shared = Shared::default();
        for entry in journal.entries {
            match entry {
                Entry::Model(model) => {
                    known.add_model(&mut dataset, model.identity, Some(model.graph))?
                }
                Entry::Visit(mut profile) => {
                    shared.share(&mut profile);
                    known.add_model(&mut dataset, profile.model.clone(), None)?;
                    known.add_visit(&mut dataset, *profile)?;
                }
            }
        }
        assembly.report_orphans(&mut dataset, &known);
        Ok(dataset)
    }
}
