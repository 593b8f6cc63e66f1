//! [`Encodings`]: texts of architectures as a column, from a list or from a NumPy array of fixed
//! width, in one copy.

use crate::{failure::Failure, table::Column};
use numpy::{PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::{
    prelude::*,
    types::{PyList, PyString},
};

/// Texts of architectures.
#[derive(Debug)]
pub struct Encodings {
    offsets: Vec<i64>,
    bytes: String,
}

impl Encodings {
    /// Of what `vitempo/_inputs.py` passes: a list of texts, or the code points (uint32) or bytes
    /// (uint8) of an array of fixed width, a row per text, filled with zeros.
    pub fn of(values: &Bound<'_, PyAny>) -> Result<Self, Failure> {
        if let Ok(texts) = values.cast::<PyList>() {
            return Self::of_list(texts);
        }
        if let Ok(points) = values.extract::<PyReadonlyArray2<'_, u32>>() {
            let texts = points.as_slice().map_err(PyErr::from)?;
            return Self::of_rows(texts, points.shape()[1], |&point| char::from_u32(point));
        }
        let bytes = values.extract::<PyReadonlyArray2<'_, u8>>()?;
        let texts = bytes.as_slice().map_err(PyErr::from)?;
        Self::of_rows(texts, bytes.shape()[1], |&byte| byte.is_ascii().then_some(char::from(byte)))
    }

    fn of_list(texts: &Bound<'_, PyList>) -> Result<Self, Failure> {
        let mut all = Self::with_capacity(texts.len(), 48);
        for text in texts {
            all.bytes.push_str(&text.cast::<PyString>().map_err(PyErr::from)?.to_cow()?);
            all.end();
        }
        Ok(all)
    }

    fn of_rows<T: Default + PartialEq>(
        values: &[T],
        width: usize,
        char: impl Fn(&T) -> Option<char>,
    ) -> Result<Self, Failure> {
        let rows = values.len().checked_div(width).unwrap_or(0);
        let mut all = Self::with_capacity(rows, width);
        for (index, row) in values.chunks_exact(width.max(1)).enumerate() {
            for value in row.iter().take_while(|value| **value != T::default()) {
                all.bytes.push(char(value).ok_or_else(|| {
                    let message = format!("encoding {index} has a character that no encoding has");
                    Failure::new("InvalidEncoding", message)
                })?);
            }
            all.end();
        }
        Ok(all)
    }

    fn with_capacity(rows: usize, width: usize) -> Self {
        let mut offsets = Vec::with_capacity(rows + 1);
        offsets.push(0);
        Self { offsets, bytes: String::with_capacity(rows * width) }
    }

    fn end(&mut self) {
        self.offsets.push(self.bytes.len() as i64);
    }

    /// Each text.
    pub fn texts(&self) -> Vec<&str> {
        let text = |ends: &[i64]| &self.bytes[ends[0] as usize..ends[1] as usize];
        self.offsets.windows(2).map(text).collect()
    }

    /// The texts as a column of a table.
    pub fn into_column(self) -> Column {
        Column::Text { offsets: self.offsets, bytes: self.bytes }
    }
}
