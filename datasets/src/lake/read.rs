//! Reads tables of a lake: those of the files that a commit names and that are asked for, joined
//! into one. Rows are numbered through all files of a table; [`Lake::place_of`] gives file and row.

use super::{
    Lake,
    commits::{Filed, path_in},
    partition,
};
use crate::{
    DatasetError, RunKey,
    column::Table,
    parquet::{self, Asked},
    schema::TableSchema,
    tables::{has_key, key_of, operator_measurements, schema_of},
};
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

impl Lake {
    /// Reads what is asked for of a table. Files of environments that are not wanted are not
    /// opened.
    pub(crate) fn read(
        &self,
        schema: &'static TableSchema,
        asked: Asked<'_>,
    ) -> Result<Table, DatasetError> {
        if schema.name == operator_measurements::SCHEMA.name {
            return self.read_operators(asked);
        }
        let mut whole = self.empty(schema);
        for file in self.state.contents.of_table(schema.name) {
            if is_wanted(&asked, file.environment) {
                let table = self.table(schema, &file, asked)?;
                (0..table.rows()).for_each(|row| whole.push_numbered(&table, row, file.start));
                whole.spare_bytes = whole.spare_bytes.saturating_add(table.spare_bytes);
            }
        }
        Ok(whole)
    }

    /// The same of `operator_measurements`, whose rows of one model run are in a file for each kind
    /// of operator. They stand together here, in execution order. All columns are read: some of
    /// them say which rows these are.
    fn read_operators(&self, asked: Asked<'_>) -> Result<Table, DatasetError> {
        let schema = &operator_measurements::SCHEMA;
        let asked = Asked { columns: None, ..asked };
        let mut whole = self.empty(schema);
        let files = self.state.contents.of_table(schema.name);
        let mut files = files.as_slice();
        for batch in &self.state.contents.batches {
            let (own, others) = files.split_at(batch.operators.len());
            files = others;
            if is_wanted(&asked, Some(&batch.environment)) {
                let tables = own.iter().map(|file| self.table(schema, file, asked));
                let tables: Vec<Table> = tables.collect::<Result<_, _>>()?;
                for (of, row) in in_order(&tables) {
                    whole.push_numbered(&tables[of], row, own[of].start);
                }
            }
        }
        Ok(whole)
    }

    /// What is asked for of one file.
    pub(super) fn table(
        &self,
        schema: &'static TableSchema,
        file: &Filed<'_>,
        asked: Asked<'_>,
    ) -> Result<Table, DatasetError> {
        let path = path_in(&self.path, &file.part.path);
        let bytes = self.objects.get(&file.part.path)?;
        if !partition::is_named_for(&file.part.path, &bytes) {
            return Err(DatasetError::damaged(&path, "its bytes do not match its name"));
        }
        let table = parquet::decode(schema, path, bytes, asked)?;
        if asked.rows.is_none() && table.rows() != file.part.rows {
            let reason = format!("it has {} rows, not {}", table.rows(), file.part.rows);
            return Err(DatasetError::damaged(&table.path, reason));
        }
        let stray = |environment: &str| {
            let found = table.distinct("environment_id");
            found.iter().find(|id| ***id != *environment)
        };
        match file.environment.and_then(stray) {
            Some(id) => {
                let reason = format!("it has rows of the environment `{id}`");
                Err(DatasetError::damaged(&table.path, reason))
            }
            None => Ok(table),
        }
    }

    /// The file that has the row of this number, and the row there.
    pub(crate) fn place_of(&self, path: &Path, row: usize) -> (PathBuf, usize) {
        let table = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let is_joined =
            schema_of(table).is_ok_and(|schema| *path == path_in(&self.path, &schema.file_name()));
        let files = if is_joined { self.state.contents.of_table(table) } else { Vec::new() };
        let found = files
            .iter()
            .find(|file| row.checked_sub(file.start).is_some_and(|within| within < file.part.rows));
        match found {
            Some(file) => (path_in(&self.path, &file.part.path), row - file.start),
            None => (path.to_owned(), row),
        }
    }

    /// A table to be joined; its path is for messages, which [`Self::place_of`] takes apart.
    fn empty(&self, schema: &'static TableSchema) -> Table {
        let mut table = Table::new(schema, &self.path);
        table.path = path_in(&self.path, &schema.file_name());
        table.chosen = Some(Vec::new());
        table
    }
}

/// Whether files of an environment have rows that are asked for.
fn is_wanted(asked: &Asked<'_>, environment: Option<&str>) -> bool {
    asked.environments.zip(environment).is_none_or(|(wanted, environment)| wanted(environment))
}

/// The rows of tables of operators as table and row: model runs in the order in which they appear
/// first, and each in execution order.
fn in_order(tables: &[Table]) -> Vec<(usize, usize)> {
    let mut runs: HashMap<RunKey, usize> = HashMap::new();
    let mut rows: Vec<(usize, u64, usize, usize)> = Vec::new();
    for (of, table) in tables.iter().enumerate() {
        let mut last: Option<(RunKey, usize)> = None;
        for row in 0..table.rows() {
            let same = last.take().filter(|(key, _)| has_key(table, row, key));
            let (key, run) = same.unwrap_or_else(|| {
                let (key, next) = (key_of(table, row), runs.len());
                let run = *runs.entry(key.clone()).or_insert(next);
                (key, run)
            });
            rows.push((run, table.integer("position", row), of, row));
            last = Some((key, run));
        }
    }
    rows.sort_unstable();
    rows.into_iter().map(|(_, _, of, row)| (of, row)).collect()
}
