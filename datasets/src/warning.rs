//! [`Warning`]: a part of a dataset that was left out while it was read.

use std::{fmt, path::PathBuf};

/// Something that was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// The last line of a journal segment was not written to its end.
    TornLine {
        /// The segment.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
        /// How much of it exists.
        bytes: usize,
    },
    /// Operators of a model run that has no row of its own.
    Orphans {
        /// The table.
        path: PathBuf,
        /// Number of the first row, from 0.
        row: usize,
        /// How many there are.
        rows: usize,
    },
    /// Runs that measured memory and no latency.
    MemoryAlone {
        /// How many there are.
        runs: usize,
    },
    /// Runs with other input values than most have.
    OtherInputs {
        /// How many there are.
        runs: usize,
        /// The values of most.
        usual: String,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TornLine { path, line, bytes } => {
                write!(
                    f,
                    "{}, line {line}: left out, only its first {bytes} bytes were written; that \
                    run will be measured again",
                    path.display()
                )
            }
            Self::Orphans { path, row, rows } => {
                write!(
                    f,
                    "{}, row {row}: {rows} rows left out, their run is not in \
                    model_measurements.parquet",
                    path.display()
                )
            }
            Self::MemoryAlone { runs } => {
                write!(f, "measurements of memory alone have no latency: {runs} runs left out")
            }
            Self::OtherInputs { runs, usual } => {
                write!(f, "other inputs than {usual}: {runs} runs left out")
            }
        }
    }
}
