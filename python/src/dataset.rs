//! Datasets for `vitempo/_dataset.py`: tables as columns, counts and findings as JSON.

use crate::{column::Columns, failure::Failure, table::Table};
use pyo3::prelude::*;
use serde::Serialize;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};
use vitempo::datasets::{self, Dataset, DatasetError, Filter, Lake, Tolerances};

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

/// Whether it is a lake.
#[pyfunction]
pub fn dataset_is_lake(folder: PathBuf) -> bool {
    datasets::is_lake(&folder)
}

/// Table, name, rows and bytes of each file of a lake.
#[pyfunction]
pub fn lake_parts(
    py: Python<'_>,
    folder: PathBuf,
) -> Result<Vec<(&'static str, String, usize, u64)>, Failure> {
    let parts = py.detach(|| -> Result<_, DatasetError> {
        let lake = opened(&folder)?;
        let mut parts = Vec::new();
        for table in datasets::table_names() {
            let of_table = lake.parts(table, &Filter::default())?;
            parts.extend(of_table.into_iter().map(|of| (table, of.path, of.rows, of.bytes)));
        }
        Ok(parts)
    });
    Ok(parts?)
}

/// Rows of a lake's table, file by file.
#[pyfunction]
pub fn lake_scan(
    py: Python<'_>,
    folder: PathBuf,
    name: &str,
    environments: Vec<String>,
    kinds: Vec<String>,
    columns: Option<Vec<String>>,
) -> Result<Scan, Failure> {
    let scan = py.detach(|| -> Result<_, DatasetError> {
        let names: Option<Vec<&str>> =
            columns.as_ref().map(|names| names.iter().map(String::as_str).collect());
        opened(&folder)?.scan(name, &Filter { environments, kinds }, names.as_deref())
    });
    Ok(Scan(Mutex::new(scan?)))
}

fn opened(folder: &Path) -> Result<Lake, DatasetError> {
    if !datasets::is_lake(folder) {
        return Err(DatasetError::NotALake { path: folder.to_owned() });
    }
    Lake::open(folder)
}

/// The tables of a scan.
#[pyclass(frozen, module = "vitempo")]
pub struct Scan(Mutex<datasets::Scan>);

#[pymethods]
impl Scan {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> Result<Option<Table>, Failure> {
        let next = py.detach(|| self.0.lock().unwrap_or_else(PoisonError::into_inner).next());
        Ok(next.transpose()?.map(|rows| Table(Arc::new(rows.into()))))
    }
}
