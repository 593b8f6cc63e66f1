//! [`Table`]: named columns of one length, for libraries of tables: through Arrow's PyCapsule
//! interface without a copy, or column by column as NumPy arrays.

use crate::{
    arrow::{Array, Schema, Stream},
    failure::Failure,
};
use numpy::{PyArray1, ndarray::ArrayView1};
use pyo3::{
    exceptions::PyKeyError,
    prelude::*,
    types::{PyCapsule, PyDict, PyList},
};
use std::{ffi::c_void, sync::Arc};

/// The values of a column.
#[derive(Debug)]
pub enum Column {
    /// Texts, one after the other, and where each begins; the last offset is the end.
    Text { offsets: Vec<i64>, bytes: String },
    /// Numbers; the column's name has their unit.
    Numbers(Vec<f64>),
    /// Truth values, a bit each, lowest first.
    Flags { bits: Vec<u8>, count: usize },
}

impl Column {
    /// Of texts.
    pub fn text<S: AsRef<str>>(texts: impl IntoIterator<Item = S>) -> Self {
        let (mut offsets, mut bytes) = (vec![0], String::new());
        for text in texts {
            bytes.push_str(text.as_ref());
            offsets.push(bytes.len() as i64);
        }
        Self::Text { offsets, bytes }
    }

    /// Of truth values.
    pub fn flags(flags: impl IntoIterator<Item = bool>) -> Self {
        let (mut bits, mut count) = (Vec::new(), 0);
        for flag in flags {
            if count % 8 == 0 {
                bits.push(0);
            }
            if let (true, Some(last)) = (flag, bits.last_mut()) {
                *last |= 1 << (count % 8);
            }
            count += 1;
        }
        Self::Flags { bits, count }
    }

    fn len(&self) -> usize {
        match self {
            Self::Text { offsets, .. } => offsets.len().saturating_sub(1),
            Self::Numbers(values) => values.len(),
            Self::Flags { count, .. } => *count,
        }
    }

    /// Arrow's name of the type.
    pub fn format(&self) -> &'static str {
        match self {
            Self::Text { .. } => "U",
            Self::Numbers(_) => "g",
            Self::Flags { .. } => "b",
        }
    }

    /// Arrow's buffers: validity (none: no value is missing), then the values'.
    pub fn buffers(&self) -> Vec<*const c_void> {
        let none = std::ptr::null();
        match self {
            Self::Text { offsets, bytes } => {
                vec![none, offsets.as_ptr().cast(), bytes.as_ptr().cast()]
            }
            Self::Numbers(values) => vec![none, values.as_ptr().cast()],
            Self::Flags { bits, .. } => vec![none, bits.as_ptr().cast()],
        }
    }

    /// The text of a row.
    pub fn text_at(&self, row: usize) -> Option<&str> {
        let Self::Text { offsets, bytes } = self else { return None };
        let end = |row: usize| offsets.get(row).and_then(|&end| usize::try_from(end).ok());
        bytes.get(end(row)?..end(row + 1)?)
    }

    /// All numbers; none of a column of another type.
    pub fn numbers(&self) -> &[f64] {
        match self {
            Self::Numbers(values) => values,
            _ => &[],
        }
    }
}

/// Columns of one length. They never change.
#[derive(Debug)]
pub struct Columns {
    rows: usize,
    named: Vec<(String, Column)>,
}

impl Columns {
    /// Of columns that have the length of the first.
    pub fn new<const N: usize>(named: [(&str, Column); N]) -> Arc<Self> {
        let rows = named.first().map_or(0, |(_, column)| column.len());
        debug_assert!(named.iter().all(|(_, column)| column.len() == rows));
        let owned = named.map(|(name, column)| (name.to_owned(), column));
        Arc::new(Self { rows, named: owned.into() })
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Names and columns.
    pub fn named(&self) -> &[(String, Column)] {
        &self.named
    }

    /// A column by name.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.named.iter().find(|(known, _)| known == name).map(|(_, column)| column)
    }

    /// A column as a NumPy array: numbers as a view that keeps `owner`, which holds `self`, alive.
    pub fn array<'py>(&self, name: &str, owner: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = owner.py();
        let missing = || PyKeyError::new_err(name.to_owned());
        match self.column(name).ok_or_else(missing)? {
            Column::Numbers(values) => {
                let view = ArrayView1::from(values.as_slice());
                // SAFETY: `owner` keeps the columns, which never change, alive.
                let array = unsafe { PyArray1::borrow_from_array(&view, owner.clone()) };
                let read_only = PyDict::new(py);
                read_only.set_item("write", false)?;
                array.call_method("setflags", (), Some(&read_only))?;
                Ok(array.into_any())
            }
            Column::Flags { bits, count } => {
                let bit = |row: usize| bits[row / 8] >> (row % 8) & 1 == 1;
                Ok(PyArray1::from_iter(py, (0..*count).map(bit)).into_any())
            }
            text @ Column::Text { .. } => {
                let texts = (0..text.len()).filter_map(|row| text.text_at(row));
                let as_objects = PyDict::new(py);
                as_objects.set_item("dtype", "object")?;
                let texts = PyList::new(py, texts)?;
                py.import("numpy")?.call_method("array", (texts,), Some(&as_objects))
            }
        }
    }
}

/// A table: columns of one length.
#[pyclass(frozen, module = "vitempo")]
pub struct Table(pub Arc<Columns>);

#[pymethods]
impl Table {
    /// Names of the columns.
    fn keys(&self) -> Vec<&str> {
        self.0.named().iter().map(|(name, _)| name.as_str()).collect()
    }

    fn __len__(&self) -> usize {
        self.0.rows()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(PyList::new(py, self.keys())?.try_iter()?.into_any())
    }

    fn __contains__(&self, name: &str) -> bool {
        self.0.column(name).is_some()
    }

    fn __getitem__<'py>(slf: &Bound<'py, Self>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        slf.get().0.array(name, slf.as_any())
    }

    fn __repr__(&self) -> String {
        format!("Table({} rows: {})", self.0.rows(), self.keys().join(", "))
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyCapsule>, Failure> {
        schema(py, &self.0)
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> Result<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>), Failure> {
        drop(requested_schema);
        let array = PyCapsule::new_with_value(py, Array::of(&self.0), c"arrow_array")?;
        Ok((schema(py, &self.0)?, array))
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> Result<Bound<'py, PyCapsule>, Failure> {
        drop(requested_schema);
        stream(py, &self.0)
    }
}

/// The capsule of a table's schema.
pub fn schema<'py>(py: Python<'py>, columns: &Columns) -> Result<Bound<'py, PyCapsule>, Failure> {
    Ok(PyCapsule::new_with_value(py, Schema::of(columns), c"arrow_schema")?)
}

/// The capsule of a table as a stream. A requested schema is not considered, as the interface
/// allows: whoever takes the table converts it.
pub fn stream<'py>(
    py: Python<'py>,
    columns: &Arc<Columns>,
) -> Result<Bound<'py, PyCapsule>, Failure> {
    Ok(PyCapsule::new_with_value(py, Stream::of(columns.clone()), c"arrow_array_stream")?)
}
