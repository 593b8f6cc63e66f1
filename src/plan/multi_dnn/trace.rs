//! Reads arrival times of queries from a CSV file with the columns `task` and `arrival_ns`.

use serde::Deserialize;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};
use vitempo_planners::multi_dnn::{MOST_QUERIES, TaskArrivals};

/// Why a file of arrivals cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The file cannot be read, or a row is not a task and a time.
    #[error("{}: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the reader, with the line.
        source: csv::Error,
    },
    /// More rows than a scenario may have.
    #[error("{}: more than {MOST_QUERIES} queries", .0.display())]
    TooMany(PathBuf),
    /// No rows.
    #[error("{}: it has no queries", .0.display())]
    Empty(PathBuf),
}

#[derive(Deserialize)]
struct Row {
    task: String,
    arrival_ns: u64,
}

/// The times of each task, in any order in the file.
///
/// # Errors
/// [`TraceError`] naming the file and the line.
pub fn read(path: &Path) -> Result<Vec<(Option<String>, TaskArrivals)>, TraceError> {
    let refuse = |source| TraceError::Read { path: path.to_owned(), source };
    let mut reader = csv::Reader::from_path(path).map_err(refuse)?;
    let mut times: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for (count, row) in reader.deserialize().enumerate() {
        let Row { task, arrival_ns } = row.map_err(refuse)?;
        if count >= MOST_QUERIES {
            return Err(TraceError::TooMany(path.to_owned()));
        }
        times.entry(task).or_default().push(arrival_ns);
    }
    if times.is_empty() {
        return Err(TraceError::Empty(path.to_owned()));
    }
    let sorted = |(task, mut times): (String, Vec<u64>)| {
        times.sort_unstable();
        (Some(task), TaskArrivals::Trace(times))
    };
    Ok(times.into_iter().map(sorted).collect())
}
