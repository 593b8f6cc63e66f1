//! [`Failure`]: an error of the library as the page shows it.

use std::{error::Error, fmt};

/// Why there is no answer, in the library's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What is wrong, with the file, node or name.
    pub message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for Failure {}

impl Failure {
    /// An error of the library.
    pub fn of(error: impl fmt::Display) -> Self {
        Self { message: error.to_string() }
    }

    /// A number or name of the page that stands for nothing.
    pub(crate) fn unknown(what: &str, name: impl fmt::Display) -> Self {
        Self { message: format!("no {what} `{name}` is open") }
    }
}
