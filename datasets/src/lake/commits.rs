//! The commits of a lake: `_commits/00000000000000000001.json` and so on. A commit names the files
//! that it adds, or all files of the lake where it `replaces` what was there. What no commit names
//! is not part of the lake.
//!
//! A commit is stored where there is none of its number yet, which the disk or the bucket decides
//! for all writers at once: one of two writers has to read the other's commit first and take the
//! next number. Commits stay; a slow writer could otherwise take a number again.

use super::{
    objects::{BUCKETS, Objects},
    partition,
};
use crate::{
    DatasetError,
    schema::{Manifest, check_version},
    tables::table_names,
};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, HashSet},
    hash::{BuildHasher as _, Hasher as _, RandomState},
    path::{Path, PathBuf},
};

/// The folder of the commits. Readers of other programs pass over names that begin with `_`.
pub(crate) const FOLDER: &str = "_commits";
const FORMAT: &str = "vitempo-lake";
/// Every so many commits one names all files, so that a reader needs no more of them than this.
const WHOLE_EVERY: u64 = 32;

/// A Parquet file.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Part {
    /// Its name, relative to the lake. It ends with a digest of its bytes.
    pub path: String,
    /// Its rows.
    pub rows: usize,
    /// Its size.
    pub bytes: u64,
}

/// Model runs of one environment that one commit stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Batch {
    pub(crate) environment: String,
    /// Rows of `model_measurements`.
    pub(crate) runs: Part,
    /// Their rows of `operator_measurements`, by kind of operator.
    pub(crate) operators: BTreeMap<String, Part>,
}

/// The files of a lake, or those that a commit adds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Contents {
    pub(crate) environments: Vec<Part>,
    pub(crate) operators: Vec<Part>,
    pub(crate) models: Vec<Part>,
    pub(crate) batches: Vec<Batch>,
}

/// A file of a table, with the values that are in its name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filed<'a> {
    pub(crate) part: &'a Part,
    pub(crate) environment: Option<&'a str>,
    pub(crate) kind: Option<&'a str>,
    /// The number of its first row among all rows of the table.
    pub(crate) start: usize,
}

impl Contents {
    /// The files of a table, in the order of the commits.
    pub(crate) fn of_table(&self, table: &str) -> Vec<Filed<'_>> {
        let mut files = Vec::new();
        let mut start = 0;
        let mut add = |part, environment, kind| {
            files.push(Filed { part, environment, kind, start });
            start = part.rows.saturating_add(start);
        };
        for batch in &self.batches {
            let environment = Some(batch.environment.as_str());
            match table {
                "model_measurements" => add(&batch.runs, environment, None),
                "operator_measurements" => batch
                    .operators
                    .iter()
                    .for_each(|(kind, part)| add(part, environment, Some(kind.as_str()))),
                _ => {}
            }
        }
        let whole = match table {
            "environments" => &self.environments,
            "operators" => &self.operators,
            "models" => &self.models,
            _ => return files,
        };
        whole.iter().for_each(|part| add(part, None, None));
        files
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.parts().next().is_none()
    }

    /// Every file.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &Part> {
        let tables = [&self.environments, &self.operators, &self.models].into_iter().flatten();
        tables.chain(self.batches.iter().flat_map(Batch::parts))
    }

    fn add(&mut self, other: Self) {
        self.environments.extend(other.environments);
        self.operators.extend(other.operators);
        self.models.extend(other.models);
        self.batches.extend(other.batches);
    }
}

impl Batch {
    /// Every file.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &Part> {
        std::iter::once(&self.runs).chain(self.operators.values())
    }
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Commit {
    format: String,
    schema_version: u64,
    written_by: String,
    /// Differs from commit to commit, so that a writer recognises its own.
    writer: String,
    replaces: bool,
    #[serde(flatten)]
    contents: Contents,
}

/// A lake as of one commit.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    /// The number of the commit; 0 before the first.
    pub(crate) number: u64,
    pub(crate) written_by: String,
    pub(crate) contents: Contents,
}

impl State {
    /// As of the last commit.
    pub(crate) fn latest(objects: &Objects, path: &Path) -> Result<Self, DatasetError> {
        let files = objects.list(FOLDER)?;
        let mut numbers: Vec<u64> = files.iter().filter_map(|file| number_of(&file.name)).collect();
        numbers.sort_unstable();
        let number = numbers.last().copied().unwrap_or(0);
        let mut state = Self { number, ..Self::default() };
        let mut read: Vec<Commit> = Vec::new();
        for expected in (1..=number).rev() {
            if numbers.pop() != Some(expected) {
                let reason = "it is missing: restore it, or append its data to a new lake";
                return Err(DatasetError::damaged(
                    &path.join(FOLDER).join(name_of(expected)),
                    reason,
                ));
            }
            read.push(Commit::read(objects, path, expected)?);
            if read.last().is_some_and(|commit| commit.replaces) {
                break;
            }
        }
        for commit in read.into_iter().rev() {
            state.written_by = commit.written_by;
            state.contents.add(commit.contents);
        }
        Ok(state)
    }

    /// Stores the next commit; `None` where another writer did so first.
    pub(crate) fn commit(
        &self,
        objects: &Objects,
        path: &Path,
        change: Change,
    ) -> Result<Option<Self>, DatasetError> {
        let number = self.number + 1;
        let (mut whole, mut written) = (self.contents.clone(), Contents::default());
        let mut replaces = number.is_multiple_of(WHOLE_EVERY);
        match change {
            Change::Add(contents) => {
                written = contents.clone();
                whole.add(contents);
            }
            Change::Replace(contents) => {
                whole = contents;
                replaces = true;
            }
        }
        let commit = Commit::of(if replaces { whole.clone() } else { written }, replaces);
        let name = name_of(number);
        let json = serde_json::to_vec(&commit)
            .map_err(|e| DatasetError::Unstorable { what: name.clone(), reason: e.to_string() })?;
        // A store may have stored it although its answer was lost.
        let stored =
            objects.put_new(&name, json)? || Commit::read(objects, path, number)? == commit;
        Ok(stored.then_some(Self { number, written_by: commit.written_by, contents: whole }))
    }
}

/// What a commit does.
pub(crate) enum Change {
    /// Adds files.
    Add(Contents),
    /// Leaves these files alone in the lake.
    Replace(Contents),
}

impl Commit {
    fn of(contents: Contents, replaces: bool) -> Self {
        let Manifest { schema_version, written_by, .. } = Manifest::current();
        // The seeds of a hash table are random.
        let writer = format!("{:016x}", RandomState::new().build_hasher().finish());
        Self { format: FORMAT.to_owned(), schema_version, written_by, writer, replaces, contents }
    }

    fn read(objects: &Objects, lake: &Path, number: u64) -> Result<Self, DatasetError> {
        let name = name_of(number);
        let path = path_in(lake, &name);
        let bytes = objects.get(&name)?;
        let facts: Facts = serde_json::from_slice(&bytes)
            .map_err(|e| DatasetError::damaged(&path, e.to_string()))?;
        if facts.format != FORMAT {
            return Err(DatasetError::foreign(&path, format!("its format is `{}`", facts.format)));
        }
        check_version(&path, facts.schema_version)?;
        let commit: Self = serde_json::from_slice(&bytes)
            .map_err(|e| DatasetError::damaged(&path, e.to_string()))?;
        commit.check().map_err(|reason| DatasetError::damaged(&path, reason))?;
        Ok(commit)
    }

    /// Whoever writes a commit could name files of the machine that reads it.
    fn check(&self) -> Result<(), String> {
        let contents = &self.contents;
        for table in table_names() {
            for Filed { part, environment, kind, .. } in contents.of_table(table) {
                if !partition::is_part(&part.path, table, environment, kind) {
                    return Err(format!("`{}` is not a file of `{table}`", part.path));
                }
            }
        }
        let distinct: HashSet<&Part> = contents.parts().collect();
        if distinct.len() < contents.parts().count() {
            return Err("it names a file twice".to_owned());
        }
        Ok(())
    }
}

/// What is looked at first.
#[derive(Deserialize)]
struct Facts {
    format: String,
    schema_version: u64,
}

fn name_of(number: u64) -> String {
    format!("{FOLDER}/{number:020}.json")
}

/// The number of a commit's file; `None` for other files.
pub(crate) fn number_of(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(FOLDER)?.strip_prefix('/')?.strip_suffix(".json")?;
    (digits.len() == 20).then(|| digits.parse().ok()).flatten()
}

/// The path of a file of the lake, for messages.
pub(crate) fn path_in(lake: &Path, name: &str) -> PathBuf {
    match lake.to_str() {
        Some(address) if address.starts_with(BUCKETS) => {
            PathBuf::from(format!("{}/{name}", address.trim_end_matches('/')))
        }
        _ => lake.join(name),
    }
}
