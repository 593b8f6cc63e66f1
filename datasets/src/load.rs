//! Reads a dataset folder, tables and journal, into a [`Dataset`].
//!
//! The journal is read first and the tables in the reverse of the order in which they are written:
//! a dataset that is being written, or whose compaction was interrupted, is therefore read
//! completely.

use crate::{
    Dataset, DatasetError, RunKey, Sampled,
    assembly::{Assembly, Known, Shared, Tables},
    journal::{Entry, Journal},
    parquet::Asked,
    sample,
    source::Source,
    tables::{environments, key_of, model_measurements, status_of},
};
use std::{
    collections::{BTreeMap, HashSet},
    path::Path,
};
use vitempo_graph::{Environment, ModelProfile, Status};

/// Which model runs to read.
#[derive(Clone, Copy)]
pub(crate) struct Selection<'a> {
    /// Whether an environment is wanted, by its identifier.
    pub(crate) environment: &'a dyn Fn(&str) -> bool,
    /// Of these architectures, where not of all.
    pub(crate) architectures: Option<&'a HashSet<String>>,
}

impl Selection<'_> {
    /// All model runs; without models that have none.
    pub(crate) const MEASURED: Selection<'static> =
        Selection { environment: &|_| true, architectures: None };

    fn takes(&self, run: &ModelProfile) -> bool {
        (self.environment)(&run.environment.id())
            && self.architectures.is_none_or(|chosen| chosen.contains(&run.model.architecture))
    }
}

/// What is read of a dataset, as of its last commit where it is a lake that is being compacted.
fn current(
    folder: &Path,
    read: impl Fn(&Source) -> Result<Dataset, DatasetError>,
) -> Result<Dataset, DatasetError> {
    let mut source = Source::open(folder)?;
    loop {
        match read(&source) {
            Err(error) if source.is_outdated(&error)? => source = Source::open(folder)?,
            read => return read,
        }
    }
}

impl Dataset {
    /// Reads a dataset folder, with what its journal holds beyond the tables, or a lake.
    ///
    /// # Errors
    /// [`DatasetError`] naming the file, and the row or line where there is one: not a dataset,
    /// another schema version, a missing, foreign, truncated or damaged file, a row that points to
    /// nothing.
    pub fn load(folder: &Path) -> Result<Self, DatasetError> {
        current(folder, |source| Self::of(source, None))
    }

    /// Reads the model runs of the environments whose identifier is `wanted`, and their models;
    /// nothing else is kept or decoded.
    ///
    /// # Errors
    /// As [`Dataset::load`], but for rows that were not read.
    pub fn load_environment(
        folder: &Path,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<Self, DatasetError> {
        let selection = Selection { environment: &wanted, architectures: None };
        current(folder, |source| Self::of(source, Some(selection)))
    }

    /// The same, but of a [sample](Dataset::sampled) of the architectures where all of them have
    /// more than `rows` rows of operators. Memory is in proportion to `rows`, to the largest file
    /// and to the number of model runs, not to all rows.
    ///
    /// # Errors
    /// As [`Dataset::load_environment`]; [`DatasetError::SmallSample`] where no architecture fits.
    pub fn load_sample(
        folder: &Path,
        wanted: impl Fn(&str) -> bool,
        rows: u64,
        seed: u64,
    ) -> Result<Self, DatasetError> {
        current(folder, |source| {
            let sizes = sample::sizes(source, &wanted)?;
            let chosen = sample::within(rows, &sizes, seed);
            let is_empty = !sample::has_rows(&chosen, &sizes);
            if let Some(least) = is_empty.then(|| sample::least(&sizes, seed)).flatten() {
                return Err(DatasetError::SmallSample { path: folder.to_owned(), rows, least });
            }
            let is_sample = chosen.len() < sizes.len();
            let architectures = is_sample.then_some(&chosen);
            let selection = Selection { environment: &wanted, architectures };
            let mut dataset = Self::of(source, Some(selection))?;
            dataset.sampled =
                is_sample.then_some(Sampled { architectures: chosen.len(), of: sizes.len() });
            Ok(dataset)
        })
    }

    /// Every environment with its number of successful model runs.
    ///
    /// # Errors
    /// As [`Dataset::load`], of what it reads: keys and status of the model runs.
    /// [`DatasetError::Empty`] when none was successful.
    pub fn environments(folder: &Path) -> Result<BTreeMap<String, usize>, DatasetError> {
        let source = Source::open(folder)?;
        let journal = source.journal()?;
        let columns = [&RunKey::COLUMNS[..], &["status", "reason"]].concat();
        let table = source.read(&model_measurements::SCHEMA, Asked::columns(&columns))?;
        let mut runs: BTreeMap<RunKey, bool> = (0..table.rows())
            .map(|row| Ok((key_of(&table, row), status_of(&table, row)? == Status::Ok)))
            .collect::<Result<_, DatasetError>>()
            .map_err(|error| source.placed(error))?;
        runs.extend(
            journal.runs().map(|profile| (RunKey::from(profile), profile.status == Status::Ok)),
        );
        if !runs.values().any(|ok| *ok) {
            return Err(DatasetError::Empty { path: folder.to_owned(), failed: runs.len() });
        }
        let mut environments = BTreeMap::new();
        for (key, ok) in runs {
            *environments.entry(key.environment_id).or_default() += usize::from(ok);
        }
        Ok(environments)
    }

    /// The environments by identifier, with or without successful model runs. Of those that differ
    /// only in their cores or operating system, one.
    ///
    /// # Errors
    /// As [`Dataset::load`], of what it reads.
    pub fn described_environments(
        folder: &Path,
    ) -> Result<BTreeMap<String, Environment>, DatasetError> {
        let source = Source::open(folder)?;
        let journal = source.journal()?;
        let table = source.read(&environments::SCHEMA, Asked::ALL)?;
        let rows = environments::rows(&table).map_err(|error| source.placed(error))?;
        let mut described: BTreeMap<String, Environment> =
            rows.into_iter().map(|row| (row.id, row.environment)).collect();
        described.extend(journal.runs().map(|p| (p.environment.id(), p.environment.clone())));
        Ok(described)
    }

    /// What a source holds: everything, or what is selected.
    pub(crate) fn of(
        source: &Source,
        selection: Option<Selection<'_>>,
    ) -> Result<Self, DatasetError> {
        let mut dataset = Self::joined(source, selection).map_err(|error| source.placed(error))?;
        let warnings = std::mem::take(&mut dataset.warnings);
        dataset.warnings = warnings.into_iter().map(|w| source.placed_warning(w)).collect();
        Ok(dataset)
    }

    fn joined(source: &Source, selection: Option<Selection<'_>>) -> Result<Self, DatasetError> {
        let folder = source.path();
        let mut journal = source.journal()?;
        let Some(selection) = selection else {
            return Self::assemble(folder, Tables::read(source)?, journal);
        };
        journal.entries.retain(|entry| match entry {
            Entry::Run(profile) => selection.takes(profile),
            Entry::Model(_) => true,
        });
        let in_journal: HashSet<&str> =
            journal.runs().map(|profile| profile.model.architecture.as_str()).collect();
        let tables = Tables::read_selected(source, selection, &in_journal)?;
        let tabled = tables.models.iter().map(|row| row.identity.architecture.as_str());
        let measured: HashSet<String> = tabled.chain(in_journal).map(str::to_owned).collect();
        journal.entries.retain(|entry| match entry {
            Entry::Run(_) => true,
            Entry::Model(model) => measured.contains(&model.identity.architecture),
        });
        Self::assemble(folder, tables, journal)
    }

    fn assemble(folder: &Path, tables: Tables, journal: Journal) -> Result<Self, DatasetError> {
        let mut dataset =
            Self { path: folder.to_owned(), warnings: journal.warnings, ..Self::default() };
        let mut known = Known::new(folder);
        let (runs, models, mut assembly) = Assembly::new(folder, tables)?;
        for row in models {
            known.add_model(&mut dataset, row.identity, row.graph)?;
        }
        for row in runs {
            let profile = assembly.profile(row, &known)?;
            known.add_run(&mut dataset, profile)?;
        }
        dataset.add_journal(&mut known, journal.entries)?;
        assembly.report_orphans(&mut dataset, &known);
        Ok(dataset)
    }

    fn add_journal(&mut self, known: &mut Known, entries: Vec<Entry>) -> Result<(), DatasetError> {
        let mut shared = Shared::default();
        for entry in entries {
            match entry {
                Entry::Model(model) => known.add_model(self, model.identity, Some(model.graph))?,
                Entry::Run(mut profile) => {
                    shared.share(&mut profile);
                    known.add_model(self, profile.model.clone(), None)?;
                    known.add_run(self, *profile)?;
                }
            }
        }
        Ok(())
    }
}
