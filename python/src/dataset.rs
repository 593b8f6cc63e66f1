//! Datasets for `vitempo/_dataset.py`: tables as columns, counts and findings as JSON.

use crate::{column::Columns, failure::Failure, table::Table};
use pyo3::prelude::*;
use serde::Serialize;
use std::{collections::BTreeMap, path::PathBuf, sync::Arc};
use vitempo::datasets::{self, Dataset, DatasetError, Tolerances};

fn json(value: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(value).map_err(|error| Failure::new("InvalidDataset", error))
}

/// The names of all tables.
#[pyfunction]
pub fn dataset_tables() -> Vec<&'static str> {
    datasets::table_names()
}

/// Identifiers and lines that describe the environments of a dataset.
#[pyfunction]
pub fn dataset_environments(
    py: Python<'_>,
    folder: PathBuf,
) -> Result<BTreeMap<String, String>, Failure> {
    let described = py.detach(|| Dataset::described_environments(&folder))?;
    Ok(described.into_iter().map(|(id, environment)| (id, environment.describe())).collect())
}

/// Columns of a table.
#[pyfunction]
pub fn dataset_table(
    py: Python<'_>,
    folder: PathBuf,
    name: &str,
    columns: Option<Vec<String>>,
) -> Result<Table, Failure> {
    let rows = py.detach(|| -> Result<Columns, DatasetError> {
        let names: Option<Vec<&str>> =
            columns.as_ref().map(|names| names.iter().map(String::as_str).collect());
        Ok(datasets::table_rows(&folder, name, names.as_deref())?.into())
    });
    Ok(Table(Arc::new(rows?)))
}

/// Counts of everything in a dataset.
#[pyfunction]
pub fn dataset_inspect(py: Python<'_>, folder: PathBuf) -> Result<String, Failure> {
    json(&py.detach(|| datasets::inspect(&folder))?)
}

/// What its checks find.
#[pyfunction]
pub fn dataset_validate(py: Python<'_>, folder: PathBuf) -> Result<String, Failure> {
    json(&py.detach(|| datasets::validate(&folder, &Tolerances::default()))?)
}
