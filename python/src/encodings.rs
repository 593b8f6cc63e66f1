//! [`Encodings`]: texts of architectures as a column, from a list or from a NumPy array of fixed
//! width, in one copy.

use crate::{column::Column, failure::Failure};
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
            return Self::of_rows(texts, points.shape()[1]);
        }
        let bytes = values.extract::<PyReadonlyArray2<'_, u8>>()?;
        Self::of_rows(bytes.as_slice().map_err(PyErr::from)?, bytes.shape()[1])
    }

    /// Python's interface for all versions encodes a text by making another object; joined texts
    /// are encoded at once.
    fn of_list(texts: &Bound<'_, PyList>) -> Result<Self, Failure> {
        let separator = PyString::new(texts.py(), "\n");
        let joined = separator.call_method1("join", (texts,))?;
        let joined = joined.cast::<PyString>().map_err(PyErr::from)?.to_cow()?;
        let mut all = Self { offsets: vec![0], bytes: String::with_capacity(joined.len()) };
        all.offsets.reserve(texts.len());
        if joined.bytes().filter(|byte| *byte == b'\n').count() + 1 == texts.len() {
            joined.split('\n').for_each(|text| all.add(text));
        } else {
            for text in texts {
                all.add(&text.cast::<PyString>().map_err(PyErr::from)?.to_cow()?);
            }
        }
        Ok(all)
    }

    fn of_rows<T: Copy + Default + PartialEq + Into<u32>>(
        values: &[T],
        width: usize,
    ) -> Result<Self, Failure> {
        let rows = values.len().checked_div(width).unwrap_or(0);
        let (mut offsets, mut bytes) = (vec![0], Vec::with_capacity(rows * width));
        offsets.reserve(rows);
        let point = |value: &T| -> u32 { (*value).into() };
        for (index, row) in values.chunks_exact(width.max(1)).enumerate() {
            let end = row.iter().position(|value| *value == T::default()).unwrap_or(width);
            let text = &row[..end];
            if text.iter().map(point).fold(0, |all, point| all | point) > 0x7F {
                let message = format!("encoding {index} has a character that no encoding has");
                return Err(Failure::new("InvalidEncoding", message));
            }
            bytes.extend(text.iter().map(|value| point(value) as u8));
            offsets.push(bytes.len() as i64);
        }
        let bytes =
            String::from_utf8(bytes).map_err(|error| Failure::new("InvalidEncoding", error))?;
        Ok(Self { offsets, bytes })
    }

    fn add(&mut self, text: &str) {
        self.bytes.push_str(text);
        self.offsets.push(self.bytes.len() as i64);
    }

    /// Each text.
    pub fn texts(&self) -> Vec<&str> {
        let text = |ends: &[i64]| &self.bytes[ends[0] as usize..ends[1] as usize];
        self.offsets.windows(2).map(text).collect()
    }

    /// The texts as a column of a table.
    pub fn into_column(self) -> Column {
        Column::Text { offsets: self.offsets, bytes: self.bytes, validity: None }
    }
}
