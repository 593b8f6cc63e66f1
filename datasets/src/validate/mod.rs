//! [`validate`]: checks that a dataset is complete, consistent and plausible. Every finding names
//! its file and row.
//!
//! Checked: schema version; missing, foreign, truncated and damaged files; duplicate keys;
//! references that point to nothing; identifiers that do not match what they stand for; samples
//! that are missing, zero, absurdly long, or too short for the work done (a sign of a wrong unit);
//! failed rows, by reason; peak memory that is 0 or below the weights; sums over operators against
//! end-to-end times; precisions that were not those asked for; origins that mix; values that no
//! machine has; columns that are not what they are derived from; writes that were cut short.

mod derived;
mod executed;
mod files;
mod lake;
mod loads;
mod memory;
mod references;
mod samples;
mod values;

use crate::{
    DatasetError, Lake,
    column::Table,
    journal::{self, Entry},
    parquet::Asked,
    schema::TableSchema,
    source::Source,
    tables::{environments, model_measurements, models, operator_measurements, operators},
};
use serde::Serialize;
use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    path::{Path, PathBuf},
};
use vitempo_graph::Graph;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// A note.
    Note,
    /// The data can be used, but may mislead.
    Warning,
    /// The data is invalid.
    Error,
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad.
    pub severity: Severity,
    /// Which check found it, e.g. `duplicate-key`.
    pub check: &'static str,
    /// The file, relative to the dataset.
    pub file: String,
    /// The row of a table, from 0, or the line of a journal segment, from 1.
    pub row: Option<usize>,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.row {
            Some(row) => write!(f, "{}, row {row}: {}", self.file, self.what),
            None => write!(f, "{}: {}", self.file, self.what),
        }
    }
}

/// Limits of plausible values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerances {
    /// Largest distance from 1 of (sum over operators) / (end-to-end with profiling).
    pub operator_sum: f64,
    /// Longest plausible sample, in ns.
    pub longest_sample_ns: u64,
    /// Highest plausible rate of one thread of a CPU, in FLOP per ns (1 FLOP per ns is 1 GFLOP/s).
    pub thread_flops_per_ns: f64,
    /// Highest plausible rate of a GPU or NPU, in FLOP per ns.
    pub accelerator_flops_per_ns: f64,
    /// Findings kept per check; the others are counted.
    pub findings_per_check: usize,
}

impl Default for Tolerances {
    fn default() -> Self {
        Self {
            operator_sum: 0.10,
            longest_sample_ns: 3_600_000_000_000,
            thread_flops_per_ns: 1e4,
            accelerator_flops_per_ns: 1e7,
            findings_per_check: 20,
        }
    }
}

/// Sum over operators against end-to-end of one model run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OperatorShare {
    /// The model's name.
    pub model: String,
    /// The session.
    #[serde(rename = "sitting")]
    pub session: String,
    /// The round.
    pub round: u64,
    /// Sum of the operators' medians divided by the median end-to-end time with profiling.
    pub share: f64,
}

/// What [`validate`] found.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ValidationReport {
    /// The folder.
    pub path: PathBuf,
    /// Findings, worst first.
    pub findings: Vec<Finding>,
    /// Findings of each check that are not listed, because there are too many.
    pub unlisted: BTreeMap<&'static str, usize>,
    /// Rows of each table.
    pub rows: BTreeMap<&'static str, usize>,
    /// Model runs in the journal.
    pub journal_runs: usize,
    /// Failed model runs and operators, by reason.
    pub failed: BTreeMap<String, usize>,
    /// Model runs per origin.
    pub origins: BTreeMap<String, usize>,
    /// One entry per successful model run with operators.
    pub operator_shares: Vec<OperatorShare>,
}

impl ValidationReport {
    /// Sum over operators against end-to-end over all model runs: least, median and greatest.
    #[must_use]
    pub fn operator_share_range(&self) -> Option<[f64; 3]> {
        let mut shares: Vec<f64> = self.operator_shares.iter().map(|run| run.share).collect();
        shares.sort_by(f64::total_cmp);
        let middle = [shares.len().saturating_sub(1) / 2, shares.len() / 2];
        let [below, above] = middle.map(|at| shares.get(at));
        Some([*shares.first()?, (below? + above?) / 2.0, *shares.last()?])
    }

    /// Whether there is no [`Severity::Error`].
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.findings.iter().all(|finding| finding.severity < Severity::Error)
    }

    /// The findings of one severity.
    pub fn of(&self, severity: Severity) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(move |finding| finding.severity == severity)
    }

    fn add(&mut self, tolerances: &Tolerances, finding: Finding) {
        let listed = self.findings.iter().filter(|f| f.check == finding.check).count();
        if listed < tolerances.findings_per_check {
            self.findings.push(finding);
        } else {
            *self.unlisted.entry(finding.check).or_default() += 1;
        }
    }
}

/// A report in the making.
struct Inspection<'a> {
    source: &'a Source,
    tolerances: &'a Tolerances,
    report: ValidationReport,
}

/// The tables that could be read.
#[derive(Default)]
struct Readable {
    environments: Option<Vec<environments::EnvironmentRow>>,
    operators: Option<Vec<operators::OperatorRow>>,
    models: Option<Vec<models::ModelRow>>,
    operator_runs: Option<operator_measurements::OperatorRuns>,
    runs: Option<Vec<model_measurements::RunRow>>,
    journal: journal::Journal,
}

impl<'a> Inspection<'a> {
    fn new(source: &'a Source, tolerances: &'a Tolerances) -> Self {
        let path = source.path().to_owned();
        let report = ValidationReport { path, ..ValidationReport::default() };
        Self { source, tolerances, report }
    }

    fn find(
        &mut self,
        severity: Severity,
        check: &'static str,
        file: &str,
        row: Option<usize>,
        what: impl Into<String>,
    ) {
        let finding = Finding { severity, check, file: file.to_owned(), row, what: what.into() };
        self.report.add(self.tolerances, finding);
    }

    fn error(&mut self, check: &'static str, file: &str, row: usize, what: impl Into<String>) {
        self.find(Severity::Error, check, file, Some(row), what);
    }

    fn warn(&mut self, check: &'static str, file: &str, row: usize, what: impl Into<String>) {
        self.find(Severity::Warning, check, file, Some(row), what);
    }

    /// An error met while reading becomes a finding.
    fn keep<T>(&mut self, file: &str, result: Result<T, DatasetError>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(DatasetError::Row { row, column, reason, .. }) => {
                self.error("unreadable-row", file, row, format!("column `{column}`: {reason}"));
                None
            }
            Err(DatasetError::Journal { path, line, reason }) => {
                let name = path.file_name().map_or_else(
                    || file.to_owned(),
                    |name| format!("{}/{}", journal::FOLDER, name.to_string_lossy()),
                );
                self.error("unreadable-row", &name, line, reason);
                None
            }
            Err(error) => {
                self.find(Severity::Error, "unreadable-file", file, None, error.to_string());
                None
            }
        }
    }

    fn table<R>(
        &mut self,
        schema: &'static TableSchema,
        rows: impl FnOnce(Table) -> Result<R, DatasetError>,
    ) -> Option<R> {
        let table = self.keep(&schema.file_name(), self.source.read(schema, Asked::ALL))?;
        self.report.rows.insert(schema.name, table.rows());
        self.keep(&schema.file_name(), rows(table))
    }

    /// The rows of a table that has columns derived from others.
    fn derived<R>(
        &mut self,
        schema: &'static TableSchema,
        rows: impl FnOnce(&Table) -> Result<Vec<R>, DatasetError>,
        departures: impl FnOnce(&Table, &[R]) -> Vec<derived::Departure>,
    ) -> Option<Vec<R>> {
        let (rows, departures) = self.table(schema, |table| {
            let rows = rows(&table)?;
            let departures = departures(&table, &rows);
            Ok((rows, departures))
        })?;
        self.report_departures(&schema.file_name(), &departures);
        Some(rows)
    }

    fn read(&mut self) -> Readable {
        let journal = self.source.journal();
        Readable {
            journal: self.keep(journal::FOLDER, journal).unwrap_or_default(),
            runs: self.table(&model_measurements::SCHEMA, |t| model_measurements::rows(&t)),
            operator_runs: self
                .table(&operator_measurements::SCHEMA, operator_measurements::OperatorRuns::new),
            models: self.derived(&models::SCHEMA, models::rows, derived::of_models),
            operators: self.derived(&operators::SCHEMA, operators::rows, derived::of_operators),
            environments: self.table(&environments::SCHEMA, |t| environments::rows(&t)),
        }
    }
}

impl Inspection<'_> {
    /// What the rows of model runs and operators say.
    fn check_rows(&mut self, readable: &Readable) {
        self.check_samples(readable);
        self.check_values(readable);
        self.check_peaks(readable);
        self.check_loads(readable);
        self.check_executed(readable);
    }
}

/// Graphs by architecture, of tables and journal.
fn graphs(readable: &Readable) -> HashMap<&str, &Graph> {
    let stored = readable
        .models
        .iter()
        .flatten()
        .filter_map(|row| Some((row.identity.architecture.as_str(), row.graph.as_ref()?)));
    let journal = readable.journal.entries.iter().filter_map(|entry| match entry {
        Entry::Model(model) => Some((model.identity.architecture.as_str(), &model.graph)),
        Entry::Run(_) => None,
    });
    stored.chain(journal).collect()
}

/// Checks a dataset folder, or a lake file by file.
///
/// # Errors
/// [`DatasetError`] if there is no dataset, or none of a schema version that this vitempo reads; all
/// other faults are findings.
pub fn validate(folder: &Path, tolerances: &Tolerances) -> Result<ValidationReport, DatasetError> {
    let source = Source::open(folder)?;
    let mut report = match &source {
        Source::Folder(folder) => of_folder(&source, folder, tolerances),
        Source::Lake(lake) => lake::validate(Lake::clone(lake), tolerances)?,
    };
    report.findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    Ok(report)
}

fn of_folder(source: &Source, folder: &Path, tolerances: &Tolerances) -> ValidationReport {
    let mut inspection = Inspection::new(source, tolerances);
    let readable = inspection.read();
    inspection.check_files(folder, &readable.journal);
    inspection.check_identifiers(&readable);
    inspection.check_references(&readable);
    inspection.check_rows(&readable);
    inspection.check_written(&readable);
    inspection.check_origins();
    inspection.report
}

#[cfg(all(test, feature = "write"))]
mod tests;
