//! [`Lake::compact`]: joins small files. Rows stay what they are, in the order in which they were.

use super::{
    Contents, Lake, Part, State,
    commits::{Batch, Change},
    is_unfinished, number_of,
};
use crate::{
    Dataset, DatasetError,
    column::Table,
    load::Selection,
    parquet::Asked,
    schema::TableSchema,
    tables::{environments, models, operators},
};
use std::{
    collections::{HashMap, HashSet},
    ops::Range,
    time::{Duration, SystemTime},
};
use vitempo_graph::ModelProfile;

/// Rows of operators that files of one environment are joined to, at most.
const ROWS: u64 = 1 << 20;
/// Bytes that files of what measurements refer to are joined to, at most.
const BYTES: u64 = 1 << 26;
/// How often another writer may compact at the same time.
const ATTEMPTS: usize = 5;
/// A writer needs less time than this between its first file and its commit.
const LONGEST_APPEND: Duration = Duration::from_secs(24 * 60 * 60);

/// What [`Lake::compact`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LakeCompaction {
    /// Files of the lake before.
    pub before: usize,
    /// Files of the lake after.
    pub after: usize,
    /// Files that were removed because no commit named them for a day: those of writers that were
    /// killed.
    pub abandoned: usize,
}

/// Files that others take the place of.
#[derive(Default)]
struct Joined {
    batches: Vec<(Vec<Batch>, Vec<Batch>)>,
    parts: Vec<(Vec<Part>, Part)>,
}

impl Lake {
    /// Joins the small files of each environment, and of what measurements refer to, in one commit;
    /// then removes the files that these replace, and files that killed writers left more than a
    /// day ago. Others may append at the same time. A reader that began before finds files missing
    /// and has to begin again.
    ///
    /// # Errors
    /// As [`Dataset::load`]; [`DatasetError::Io`] where the lake cannot be written;
    /// [`DatasetError::Busy`] where others compact at the same time. The lake is as it was, unless
    /// a file cannot be removed.
    pub fn compact(&mut self) -> Result<LakeCompaction, DatasetError> {
        for _ in 0..ATTEMPTS {
            match self.try_compact() {
                Ok(Some(compacted)) => return Ok(compacted),
                Ok(None) => {}
                Err(error) if self.is_outdated(&error)? => {}
                Err(error) => return Err(error),
            }
        }
        Err(DatasetError::Busy { path: self.path.clone(), attempts: ATTEMPTS })
    }

    /// `None` where another writer compacted at the same time.
    fn try_compact(&mut self) -> Result<Option<LakeCompaction>, DatasetError> {
        self.state = State::latest(&self.objects, &self.path)?;
        let before = self.state.contents.clone();
        let joined = self.join()?;
        let Some(state) = self.commit_joined(&joined)? else { return Ok(None) };
        self.state = state;
        let named: HashSet<&str> =
            self.state.contents.parts().map(|part| part.path.as_str()).collect();
        for part in before.parts().filter(|part| !named.contains(part.path.as_str())) {
            self.objects.remove(&part.path)?;
        }
        Ok(Some(LakeCompaction {
            before: before.parts().count(),
            after: self.state.contents.parts().count(),
            abandoned: self.remove_abandoned(&named)?,
        }))
    }

    /// Commits; `None` where another writer replaced some of these files.
    fn commit_joined(&mut self, joined: &Joined) -> Result<Option<State>, DatasetError> {
        if joined.is_empty() {
            return Ok(Some(self.state.clone()));
        }
        while let Some(contents) = joined.applied_to(&self.state.contents) {
            let change = Change::Replace(contents);
            if let Some(state) = self.state.commit(&self.objects, &self.path, change)? {
                return Ok(Some(state));
            }
            self.state = State::latest(&self.objects, &self.path)?;
        }
        Ok(None)
    }

    /// Stores files that join others.
    fn join(&self) -> Result<Joined, DatasetError> {
        let mut joined = Joined::default();
        let contents = &self.state.contents;
        let mut by_environment: HashMap<&str, Vec<&Batch>> = HashMap::new();
        for batch in &contents.batches {
            by_environment.entry(&batch.environment).or_default().push(batch);
        }
        for batches in by_environment.into_values() {
            let rows = |batch: &&Batch| {
                batch
                    .operators
                    .values()
                    .fold(batch.runs.rows as u64, |sum, part| sum.saturating_add(part.rows as u64))
            };
            let sizes: Vec<u64> = batches.iter().map(rows).collect();
            for group in groups(&sizes, ROWS) {
                let old: Vec<Batch> = batches[group].iter().map(|batch| (*batch).clone()).collect();
                let only = self.only(Contents { batches: old.clone(), ..contents.clone() });
                let dataset = Dataset::of(&only.into(), Some(Selection::MEASURED))?;
                let runs: Vec<&ModelProfile> = dataset.profiles.iter().collect();
                joined.batches.push((old, self.store_runs(&runs)?));
            }
        }
        for (schema, parts) in [
            (&environments::SCHEMA, &contents.environments),
            (&operators::SCHEMA, &contents.operators),
            (&models::SCHEMA, &contents.models),
        ] {
            let sizes: Vec<u64> = parts.iter().map(|part| part.bytes).collect();
            for group in groups(&sizes, BYTES) {
                let old = parts[group].to_vec();
                let table = self.joined_table(schema, &old)?;
                joined.parts.push((old, self.store(&table, 0, None, None)?));
            }
        }
        Ok(joined)
    }

    /// The rows of some files of a table, each key once; of a model, the row with its graph.
    fn joined_table(
        &self,
        schema: &'static TableSchema,
        parts: &[Part],
    ) -> Result<Table, DatasetError> {
        let mut tables = Vec::new();
        for file in self.state.contents.of_table(schema.name) {
            if parts.contains(file.part) {
                tables.push(self.table(schema, &file, Asked::ALL)?);
            }
        }
        let mut places: HashMap<[&str; 2], usize> = HashMap::new();
        let mut rows: Vec<(&Table, usize)> = Vec::new();
        for (table, row) in tables.iter().flat_map(|t| (0..t.rows()).map(move |row| (t, row))) {
            let key = match schema.name {
                name if name == operators::SCHEMA.name => [table.text("op_id", row), ""],
                name if name == models::SCHEMA.name => {
                    [table.text("architecture", row), table.text("model", row)]
                }
                _ => [table.text("environment_id", row), table.text("variant", row)],
            };
            let has_graph = |(table, row): (&Table, usize)| table.integer("operators", row) > 0;
            match places.get(&key) {
                Some(&place) if has_graph((table, row)) && !has_graph(rows[place]) => {
                    rows[place] = (table, row);
                }
                Some(_) => {}
                None => {
                    places.insert(key, rows.len());
                    rows.push((table, row));
                }
            }
        }
        // Specifications that resemble each other are compressed well beside each other.
        if schema.name == operators::SCHEMA.name {
            rows.sort_by_key(|(table, row)| table.text("spec_json", *row));
        }
        let mut joined = Table::new(schema, &self.path);
        rows.into_iter().for_each(|(table, row)| joined.push_row(table, row));
        Ok(joined)
    }

    /// Removes what no commit names and nobody can be writing any more.
    fn remove_abandoned(&self, named: &HashSet<&str>) -> Result<usize, DatasetError> {
        let mut removed = 0;
        for file in self.stored()? {
            let is_left = (file.name.ends_with(".parquet") || is_unfinished(&file.name))
                && !named.contains(file.name.as_str())
                && number_of(&file.name).is_none();
            let age = SystemTime::now().duration_since(file.changed).unwrap_or_default();
            if is_left && age > LONGEST_APPEND {
                self.objects.remove(&file.name)?;
                removed += 1;
            }
        }
        Ok(removed)
    }
}

impl Joined {
    fn is_empty(&self) -> bool {
        self.batches.is_empty() && self.parts.is_empty()
    }

    /// The contents with the joined files in the place of those that they join; `None` where one
    /// of those is not there.
    fn applied_to(&self, contents: &Contents) -> Option<Contents> {
        let mut contents = contents.clone();
        for (old, new) in &self.batches {
            let first = contents.batches.iter().position(|batch| old.first() == Some(batch))?;
            let before = contents.batches.len();
            contents.batches.retain(|batch| !old.contains(batch));
            if before - contents.batches.len() != old.len() {
                return None;
            }
            contents.batches.splice(first..first, new.iter().cloned());
        }
        for (old, new) in &self.parts {
            let tables =
                [&mut contents.environments, &mut contents.operators, &mut contents.models];
            let first = old.first()?;
            let parts = tables.into_iter().find(|parts| parts.contains(first))?;
            let first = parts.iter().position(|part| part == first)?;
            let before = parts.len();
            parts.retain(|part| !old.contains(part));
            if before - parts.len() != old.len() {
                return None;
            }
            parts.insert(first, new.clone());
        }
        Some(contents)
    }
}

/// Neighbours to join: at least two, of at most `most` together.
fn groups(sizes: &[u64], most: u64) -> Vec<Range<usize>> {
    let mut groups = Vec::new();
    let (mut start, mut sum) = (0, 0_u64);
    for (place, size) in sizes.iter().enumerate() {
        if sum.saturating_add(*size) > most {
            groups.push(start..place);
            (start, sum) = (place, 0);
        }
        sum = sum.saturating_add(*size);
    }
    groups.push(start..sizes.len());
    groups.retain(|group| group.len() > 1);
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_joined_up_to_a_size() {
        assert!([&[][..], &[3], &[11, 11]].iter().all(|sizes| groups(sizes, 10).is_empty()));
        assert_eq!(groups(&[3, 4, 3, 11, 1, 9, 1], 10), [0..3, 4..6]);
    }
}
