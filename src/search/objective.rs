//! [`Objective`]: the score that a search maximises: the user's scores from a file or from a
//! program, or a size as a stand-in.

mod program;

pub use program::Program;

use crate::query::{QueryError, Sizes, Tables};
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};
use vitempo_search_space::{Architecture, Space};

/// Why a score is missing.
#[derive(Debug, thiserror::Error)]
pub enum ObjectiveError {
    /// A file of scores cannot be read.
    #[error("{path}: {reason}")]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A row of a file of scores is invalid.
    #[error("{path}, line {line}: {reason}")]
    Row {
        /// The file.
        path: PathBuf,
        /// Its line, counted from 1.
        line: u64,
        /// What is wrong.
        reason: String,
    },
    /// The program that scores architectures failed.
    #[error("the program `{command}` {reason}")]
    Program {
        /// Its command line.
        command: String,
        /// How it failed.
        reason: String,
    },
    /// Someone ended the search while a program computed scores.
    #[error("interrupted")]
    Stopped,
    /// An architecture has no forecast.
    #[error(transparent)]
    Query(#[from] QueryError),
}

/// Something that scores architectures; larger is better.
pub trait Objective {
    /// The name of the score, in tables and files.
    fn name(&self) -> &str;

    /// For a stand-in: a sentence that says so.
    fn stands_in(&self) -> Option<&str> {
        None
    }

    /// The architectures that have scores, where only some do.
    fn candidates(&self) -> Option<&[Architecture]> {
        None
    }

    /// The scores of architectures, in their order; finite.
    ///
    /// # Errors
    /// [`ObjectiveError`] naming file, line or program.
    fn scores(&mut self, architectures: &[Architecture]) -> Result<Vec<f64>, ObjectiveError>;
}

/// Which size stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Floating-point operations.
    Flops,
    /// Elements of weights.
    Parameters,
}

/// The size of a model, where no accuracy is at hand: larger models of one space tend to be better.
#[derive(Debug)]
pub struct StandIn {
    measure: Measure,
    tables: Tables<Sizes>,
}

impl StandIn {
    /// Over a space.
    #[must_use]
    pub fn new(space: &Space, measure: Measure) -> Self {
        Self { measure, tables: Tables::new(space, Sizes) }
    }
}

impl Objective for StandIn {
    fn name(&self) -> &str {
        match self.measure {
            Measure::Flops => "flops",
            Measure::Parameters => "parameters",
        }
    }

    fn stands_in(&self) -> Option<&str> {
        Some(match self.measure {
            Measure::Flops => "FLOPs stand in for accuracy, which was not measured",
            Measure::Parameters => "parameters stand in for accuracy, which was not measured",
        })
    }

    fn scores(&mut self, architectures: &[Architecture]) -> Result<Vec<f64>, ObjectiveError> {
        let score = |size: &crate::query::Size| match self.measure {
            Measure::Flops => size.flops,
            Measure::Parameters => size.parameters,
        };
        Ok(self.tables.sums(architectures)?.iter().map(score).collect())
    }
}

/// Scores from a CSV file with the columns `encoding` and `score`: the search goes over its rows.
#[derive(Debug)]
pub struct Listed {
    path: PathBuf,
    architectures: Vec<Architecture>,
    scores: HashMap<Architecture, f64>,
}

impl Listed {
    /// Reads a file whose encodings are all of one space.
    ///
    /// # Errors
    /// [`ObjectiveError`] naming the file and the line.
    pub fn read(path: &Path, space: &Space) -> Result<Self, ObjectiveError> {
        let file = |reason: String| ObjectiveError::File { path: path.to_owned(), reason };
        let mut reader = csv::Reader::from_path(path).map_err(|e| file(e.to_string()))?;
        let headers = reader.headers().map_err(|e| file(e.to_string()))?.clone();
        let column = |name: &str| {
            let mut found = headers.iter().enumerate().filter(|(_, h)| h.trim() == name);
            match (found.next(), found.next()) {
                (Some((column, _)), None) => Ok(column),
                (Some(_), Some(_)) => Err(file(format!("it has two columns `{name}`; keep one"))),
                (None, _) => Err(file(format!(
                    "it has no column `{name}`; its first line must name `encoding` and `score`"
                ))),
            }
        };
        let (encoding, score) = (column("encoding")?, column("score")?);
        let (mut architectures, mut scores) = (Vec::new(), HashMap::new());
        for record in reader.records() {
            let record = record.map_err(|e| file(e.to_string()))?;
            let line = record.position().map_or(0, csv::Position::line);
            let row = |reason: String| ObjectiveError::Row { path: path.to_owned(), line, reason };
            let architecture = space
                .decode(record.get(encoding).unwrap_or_default().trim())
                .map_err(|e| row(e.to_string()))?;
            let value = number(record.get(score).unwrap_or_default()).map_err(row)?;
            if scores.insert(architecture, value).is_some() {
                return Err(ObjectiveError::Row {
                    path: path.to_owned(),
                    line,
                    reason: format!("{architecture} is listed twice"),
                });
            }
            architectures.push(architecture);
        }
        if architectures.is_empty() {
            Err(file("it has no rows".to_owned()))
        } else {
            Ok(Self { path: path.to_owned(), architectures, scores })
        }
    }
}

/// A finite number.
fn number(text: &str) -> Result<f64, String> {
    let value = text.trim().parse::<f64>().ok().filter(|v| v.is_finite());
    value.ok_or_else(|| format!("`{}` is not a score; expected a number", text.trim()))
}

impl Objective for Listed {
    fn name(&self) -> &str {
        "score"
    }

    fn candidates(&self) -> Option<&[Architecture]> {
        Some(&self.architectures)
    }

    fn scores(&mut self, architectures: &[Architecture]) -> Result<Vec<f64>, ObjectiveError> {
        let missing = |a: &Architecture| ObjectiveError::File {
            path: self.path.clone(),
            reason: format!("it has no score for {a}"),
        };
        architectures
            .iter()
            .map(|a| self.scores.get(a).copied().ok_or_else(|| missing(a)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vitempo_graph::Work;

    fn space() -> Space {
        Space::named("hybrid-vit").expect("a space")
    }

    #[test]
    fn sizes_are_those_of_the_graphs() {
        let (space, architectures) = (space(), space().sample_many(200, 5).expect("architectures"));
        let flops = StandIn::new(&space, Measure::Flops).scores(&architectures).expect("FLOPs");
        let parameters =
            StandIn::new(&space, Measure::Parameters).scores(&architectures).expect("parameters");
        for ((architecture, flops), parameters) in architectures.iter().zip(flops).zip(parameters) {
            let work = Work::of_graph(&architecture.to_graph().expect("a graph"));
            assert_eq!(
                (flops, parameters),
                (work.flops as f64, work.params as f64),
                "{architecture}"
            );
        }
    }

    #[test]
    fn files_are_read_and_their_faults_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("scores.csv");
        let [a, b] = [1, 2].map(|seed| space().sample(seed));
        let read = |text: String| {
            std::fs::write(&path, text).expect("a file");
            Listed::read(&path, &space())
        };
        let mut listed = read(format!("score, encoding\n0.5,{a}\n-2e1, {b}\n")).expect("scores");
        assert_eq!(listed.scores(&[b, a]).expect("scores"), [-20.0, 0.5]);
        assert_eq!(listed.candidates().map(<[Architecture]>::len), Some(2));
        for (text, says) in [
            (format!("encoding,accuracy\n{a},1\n"), "no column `score`"),
            (format!("encoding,score\n{a},high\n"), "line 2: `high` is not a score"),
            (format!("encoding,score\n{a},inf\n"), "`inf` is not a score"),
            (format!("encoding,score\n{a},1\nhv1-what,2\n"), "line 3: `hv1-what`"),
            (format!("encoding,score\n{a},1\n{a},2\n"), "listed twice"),
            (format!("encoding,score\n{a}\n"), "scores.csv"),
            ("encoding,score\n".to_owned(), "no rows"),
            (format!("score,encoding, score\n1,{a},2\n"), "two columns `score`"),
        ] {
            let error = read(text).expect_err(says).to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
