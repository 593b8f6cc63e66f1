//! Measurements on disk: written while a sweep runs, validated, and read for training.
//!
//! A dataset is a folder:
//!
//! | file | holds |
//! |---|---|
//! | `schema.json` | format, schema version, the version of vitempo that wrote it |
//! | `operators.parquet` | distinct operators: an [`OpSpec`](vitempo_graph::OpSpec) each, with its work |
//! | `operator_measurements.parquet` | one row per operator and model run, with raw samples |
//! | `models.parquet` | models and their graphs (no weights) |
//! | `model_measurements.parquet` | one row per model run: end-to-end samples, protocol, status |
//! | `environments.parquet` | where it was measured |
//! | `journal/*.jsonl` | model runs not yet folded into the tables |
//!
//! A dataset that grows and that many write is a [`Lake`]: the same tables in files by environment
//! and kind of operator, in a folder or in a bucket. All that reads a dataset reads both.
//!
//! [`Store`] writes, [`Dataset::load`] reads, [`Dataset::load_environment`] reads one environment
//! alone, [`Dataset::load_sample`] a
//! sample of it, [`validate`] checks, [`inspect`] sums up, [`table_rows`] gives the columns of a table,
//! [`split`] divides by architecture, [`merge`] joins, [`export`] writes a table for other
//! programs, [`import_mobile_ml_benchmark`], [`import_ai_hub`] and [`import_cells`] read what others
//! published. Columns and units: `docs/dataset-schema.md`. Only this crate uses polars, of it only
//! `parquet`, and only to write: without the feature `write` datasets are read, checked and summed
//! up.

// What only writing calls stays beside what reads it.
#![cfg_attr(not(feature = "write"), allow(dead_code))]

mod assembly;
mod column;
mod dataset;
mod error;
mod export;
mod files;
#[cfg(feature = "write")]
mod import;
mod inspect;
mod journal;
mod key;
mod lake;
mod load;
mod lock;
#[cfg(feature = "write")]
mod merge;
mod parquet;
pub mod published;
mod rows;
mod sample;
mod schema;
mod source;
mod split;
#[cfg(feature = "write")]
mod store;
mod tables;
mod text;
mod validate;
mod warning;

#[cfg(all(test, feature = "write"))]
mod allocation;
#[cfg(all(test, feature = "write"))]
mod simulated;

pub use dataset::{Dataset, Sampled};
pub use error::DatasetError;
pub use export::{ExportFormat, export};
#[cfg(feature = "write")]
pub use import::mobile_ml_benchmark::{
    Family, FileFacts, Framework, Imported, import_mobile_ml_benchmark,
};
#[cfg(feature = "write")]
pub use import::published::{import_ai_hub, import_cells};
pub use inspect::{Summary, inspect};
pub use key::RunKey;
#[cfg(feature = "write")]
pub use lake::{Appended, LakeCompaction};
pub use lake::{Filter, Lake, Part, Scan, is_at as is_lake};
#[cfg(feature = "write")]
pub use merge::merge;
pub use rows::{ColumnRows, TableRows, table_rows};
pub use schema::{FORMAT, OLDEST_VERSION, SCHEMA_FILE, SCHEMA_VERSION};
pub use split::{Split, SplitSize, split};
#[cfg(feature = "write")]
pub use store::{Compaction, Found, Measures, Sought, Store};
pub use tables::table_names;
pub use validate::{Finding, OperatorShare, Severity, Tolerances, ValidationReport, validate};
pub use warning::Warning;
