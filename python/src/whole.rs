//! [`Whole`]: whole numbers of Python; an error names the argument.

use crate::failure::Failure;
use pyo3::{exceptions::PyOverflowError, prelude::*};
use std::fmt;

/// A whole number, or the text of one that no unsigned integer has.
#[derive(Debug)]
pub struct Whole(Result<u128, String>);

impl Whole {
    /// For defaults.
    pub const ZERO: Self = Self(Ok(0));

    /// The number, where it is one of at least 0 that the library takes.
    pub fn named<T: TryFrom<u128>>(&self, argument: &str) -> Result<T, Failure> {
        self.value().and_then(|number| T::try_from(number).ok()).ok_or_else(|| {
            let range = if self.value().is_some() { "below 2^64" } else { "of at least 0" };
            let message = format!("`{argument}` is {self}, expected a whole number {range}");
            Failure::new("InvalidArgument", message)
        })
    }

    /// The number, where it is at least 0.
    pub fn value(&self) -> Option<u128> {
        self.0.as_ref().ok().copied()
    }
}

impl fmt::Display for Whole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Ok(number) => number.fmt(f),
            Err(text) => f.write_str(text),
        }
    }
}

impl FromPyObject<'_, '_> for Whole {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        match value.extract() {
            Ok(number) => Ok(Self(Ok(number))),
            Err(error) if error.is_instance_of::<PyOverflowError>(value.py()) => {
                Ok(Self(Err(value.str()?.to_string())))
            }
            Err(error) => Err(error),
        }
    }
}
