//! [`Scan`]: the rows of a table of a lake, file by file, of those files that can have rows that
//! are wanted. The others are not opened.

use super::{Lake, Part};
use crate::{
    DatasetError, TableRows, column::Table, parquet::Asked, rows, schema::TableSchema,
    tables::schema_of,
};
use std::{collections::BTreeSet, vec};

/// Which rows of a lake: those with one of these values, or all where there are none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Environments.
    pub environments: Vec<String>,
    /// Kinds of operators, e.g. `conv`; only of `operator_measurements`.
    pub kinds: Vec<String>,
}

impl Filter {
    fn takes(&self, environment: Option<&str>, kind: Option<&str>) -> bool {
        let among = |values: &[String], value: Option<&str>| match value {
            Some(value) if !values.is_empty() => values.iter().any(|wanted| wanted == value),
            _ => true,
        };
        among(&self.environments, environment) && among(&self.kinds, kind)
    }
}

/// The rows of a table, file by file; each item is the rows of a file.
pub struct Scan {
    lake: Lake,
    schema: &'static TableSchema,
    columns: Vec<&'static str>,
    parts: vec::IntoIter<Part>,
}

impl Lake {
    /// The files that have the rows of a table that `filter` takes, in the order of the commits.
    ///
    /// # Errors
    /// [`DatasetError::NoSuchTable`].
    pub fn parts(&self, table: &str, filter: &Filter) -> Result<Vec<Part>, DatasetError> {
        let files = self.state.contents.of_table(schema_of(table)?.name);
        let wanted = files.iter().filter(|file| filter.takes(file.environment, file.kind));
        Ok(wanted.map(|file| file.part.clone()).collect())
    }

    /// Checks that every value of a filter has files of the table.
    ///
    /// # Errors
    /// [`DatasetError::NoSuchTable`]; [`DatasetError::NotDivided`] where the table has no such
    /// files; [`DatasetError::NoSuchPart`] for a value that the lake does not have.
    pub fn check(&self, table: &str, filter: &Filter) -> Result<(), DatasetError> {
        let table = schema_of(table)?.name;
        let files = self.state.contents.of_table(table);
        let check = |what, divided: &'static str, asked: &[String], known: BTreeSet<&str>| {
            let by_it = divided.split(" and ").any(|name| name == table);
            if !asked.is_empty() && !by_it {
                return Err(DatasetError::NotDivided { table, what, divided });
            }
            let unknown = asked.iter().find(|name| !known.contains(name.as_str()));
            unknown.map_or(Ok(()), |name| {
                let known = known.iter().copied().collect::<Vec<_>>().join(", ");
                Err(DatasetError::NoSuchPart { what, name: name.clone(), table, known })
            })
        };
        let environments = files.iter().filter_map(|file| file.environment).collect();
        let kinds = files.iter().filter_map(|file| file.kind).collect();
        let runs = "model_measurements and operator_measurements";
        check("environment", runs, &filter.environments, environments)?;
        check("kind", "operator_measurements", &filter.kinds, kinds)
    }

    /// Reads rows of a table, one file for each item, when it is asked for. `columns`: some of its
    /// columns, or all where they are not given.
    ///
    /// # Errors
    /// [`DatasetError::NoSuchTable`] and [`DatasetError::NoSuchColumn`] for unknown names; items as
    /// [`crate::Dataset::load`].
    pub fn scan(
        &self,
        table: &str,
        filter: &Filter,
        columns: Option<&[&str]>,
    ) -> Result<Scan, DatasetError> {
        let schema = schema_of(table)?;
        Ok(Scan {
            columns: rows::wanted(schema, columns)?,
            parts: self.parts(table, filter)?.into_iter(),
            lake: self.clone(),
            schema,
        })
    }
}

impl Scan {
    /// The next file's rows.
    pub(crate) fn next_table(&mut self) -> Option<Result<Table, DatasetError>> {
        let part = self.parts.next()?;
        let files = self.lake.contents().of_table(self.schema.name);
        let file = files.iter().find(|file| *file.part == part)?;
        Some(self.lake.table(self.schema, file, Asked::columns(&self.columns)))
    }
}

impl Iterator for Scan {
    type Item = Result<TableRows, DatasetError>;

    fn next(&mut self) -> Option<Self::Item> {
        let table = self.next_table()?;
        Some(table.map(|table| TableRows::of(table, &self.columns)))
    }
}
