//! [`Columns`]: named columns of one length in the layout of Arrow, and as NumPy arrays.

use numpy::{PyArray1, ndarray::ArrayView1};
use pyo3::{
    exceptions::PyKeyError,
    prelude::*,
    types::{PyDict, PyList},
};
use std::{ffi::c_void, sync::Arc};
use vitempo::datasets::{ColumnRows, TableRows};

/// Which rows of a column have a value.
#[derive(Debug)]
pub struct Validity {
    /// A bit each, lowest first; 0 where the value is missing.
    bits: Vec<u8>,
    missing: usize,
}

/// The values of a column.
#[derive(Debug)]
pub enum Column {
    /// Texts, one after the other, and where each begins; the last offset is the end.
    Text { offsets: Vec<i64>, bytes: String, validity: Option<Validity> },
    /// Numbers; the column's name has their unit.
    Numbers(Vec<f64>),
    /// Integers; the column's name has their unit.
    Integers { values: Vec<u64>, validity: Option<Validity> },
    /// Lists of integers, end to end, and where each begins; the last offset is the end.
    Lists { offsets: Vec<i64>, values: Vec<u64> },
    /// Truth values, a bit each, lowest first.
    Flags { bits: Vec<u8>, count: usize },
}

/// A bit each, lowest first, and how many there are.
fn packed(flags: impl IntoIterator<Item = bool>) -> (Vec<u8>, usize) {
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
    (bits, count)
}

fn bit(bits: &[u8], row: usize) -> bool {
    bits.get(row / 8).is_some_and(|byte| byte >> (row % 8) & 1 == 1)
}

impl Validity {
    /// `None` where no value is missing.
    fn of(is_there: impl Iterator<Item = bool> + Clone) -> Option<Self> {
        let missing = is_there.clone().filter(|there| !there).count();
        (missing > 0).then(|| Self { bits: packed(is_there).0, missing })
    }
}

impl Column {
    /// Of texts.
    pub fn text<S: AsRef<str>>(texts: impl IntoIterator<Item = S>) -> Self {
        let (mut offsets, mut bytes) = (vec![0], String::new());
        for text in texts {
            bytes.push_str(text.as_ref());
            offsets.push(bytes.len() as i64);
        }
        Self::Text { offsets, bytes, validity: None }
    }

    /// Of truth values.
    pub fn flags(flags: impl IntoIterator<Item = bool>) -> Self {
        let (bits, count) = packed(flags);
        Self::Flags { bits, count }
    }

    fn optional_text<'a>(texts: impl Iterator<Item = Option<&'a str>> + Clone) -> Self {
        let there = Validity::of(texts.clone().map(|text| text.is_some()));
        match Self::text(texts.map(Option::unwrap_or_default)) {
            Self::Text { offsets, bytes, .. } => Self::Text { offsets, bytes, validity: there },
            other => other,
        }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        match self {
            Self::Text { offsets, .. } | Self::Lists { offsets, .. } => {
                offsets.len().saturating_sub(1)
            }
            Self::Numbers(values) => values.len(),
            Self::Integers { values, .. } => values.len(),
            Self::Flags { count, .. } => *count,
        }
    }

    /// Arrow's name of the type.
    pub fn format(&self) -> &'static str {
        match self {
            Self::Text { .. } => "U",
            Self::Numbers(_) => "g",
            Self::Integers { .. } => "L",
            Self::Lists { .. } => "+L",
            Self::Flags { .. } => "b",
        }
    }

    fn validity(&self) -> Option<&Validity> {
        match self {
            Self::Text { validity, .. } | Self::Integers { validity, .. } => validity.as_ref(),
            Self::Numbers(_) | Self::Lists { .. } | Self::Flags { .. } => None,
        }
    }

    /// Rows without a value.
    pub fn missing(&self) -> usize {
        self.validity().map_or(0, |validity| validity.missing)
    }

    /// Whether a row has a value.
    fn is_there(&self, row: usize) -> bool {
        self.validity().is_none_or(|validity| bit(&validity.bits, row))
    }

    /// Arrow's buffers: validity (null where no value is missing), then the values'.
    pub fn buffers(&self) -> Vec<*const c_void> {
        let valid = self.validity().map_or(std::ptr::null(), |v| v.bits.as_ptr().cast());
        match self {
            Self::Text { offsets, bytes, .. } => {
                vec![valid, offsets.as_ptr().cast(), bytes.as_ptr().cast()]
            }
            Self::Numbers(values) => vec![valid, values.as_ptr().cast()],
            Self::Integers { values, .. } => vec![valid, values.as_ptr().cast()],
            Self::Lists { offsets, .. } => vec![valid, offsets.as_ptr().cast()],
            Self::Flags { bits, .. } => vec![valid, bits.as_ptr().cast()],
        }
    }

    /// The elements of all lists; `None` of a column of another type.
    pub fn elements(&self) -> Option<&[u64]> {
        match self {
            Self::Lists { values, .. } => Some(values),
            _ => None,
        }
    }

    /// The text of a row.
    pub fn text_at(&self, row: usize) -> Option<&str> {
        let Self::Text { offsets, bytes, .. } = self else { return None };
        let end = |row: usize| offsets.get(row).and_then(|&end| usize::try_from(end).ok());
        bytes.get(end(row)?..end(row + 1)?).filter(|_| self.is_there(row))
    }

    /// All numbers; none of a column of another type.
    pub fn numbers(&self) -> &[f64] {
        match self {
            Self::Numbers(values) => values,
            _ => &[],
        }
    }
}

impl From<ColumnRows> for Column {
    fn from(rows: ColumnRows) -> Self {
        match rows {
            ColumnRows::Texts { distinct, rows } => {
                let text = |row: &Option<u32>| distinct.get((*row)? as usize).map(|text| &**text);
                Self::optional_text(rows.iter().map(text))
            }
            ColumnRows::Integers(values) => Self::Integers { values, validity: None },
            ColumnRows::OptionalIntegers(rows) => {
                let validity = Validity::of(rows.iter().map(Option::is_some));
                let values = rows.into_iter().map(Option::unwrap_or_default).collect();
                Self::Integers { values, validity }
            }
            ColumnRows::IntegerLists { ends, values } => {
                let ends = ends.into_iter().map(|end| end as i64);
                Self::Lists { offsets: std::iter::once(0).chain(ends).collect(), values }
            }
        }
    }
}

/// Columns of one length. They never change.
#[derive(Debug)]
pub struct Columns {
    rows: usize,
    named: Vec<(String, Column)>,
}

impl From<TableRows> for Columns {
    fn from(table: TableRows) -> Self {
        let each = table.columns.into_iter();
        let named = each.map(|(name, column)| (name.to_owned(), column.into())).collect();
        Self { rows: table.rows, named }
    }
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

    /// A column as a NumPy array: numbers as a view that keeps `owner`, which holds `self`, alive;
    /// integers of which some are missing as a masked array.
    pub fn array<'py>(&self, name: &str, owner: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = owner.py();
        let missing = || PyKeyError::new_err(name.to_owned());
        let column = self.column(name).ok_or_else(missing)?;
        match column {
            Column::Numbers(values) => view(values, owner),
            Column::Integers { values, .. } if column.missing() == 0 => view(values, owner),
            Column::Integers { values, .. } => {
                let mask = (0..values.len()).map(|row| !column.is_there(row));
                let options = PyDict::new(py);
                options.set_item("mask", PyArray1::from_iter(py, mask))?;
                let arguments = (view(values, owner)?,);
                py.import("numpy.ma")?.call_method("array", arguments, Some(&options))
            }
            Column::Lists { offsets, values } => lists(offsets, &view(values, owner)?),
            Column::Flags { bits, count } => {
                let flags = (0..*count).map(|row| bit(bits, row));
                Ok(PyArray1::from_iter(py, flags).into_any())
            }
            Column::Text { .. } => {
                let texts = (0..column.len()).map(|row| column.text_at(row));
                let as_objects = PyDict::new(py);
                as_objects.set_item("dtype", "object")?;
                let texts = PyList::new(py, texts)?;
                py.import("numpy")?.call_method("array", (texts,), Some(&as_objects))
            }
        }
    }
}

/// Values as a read-only array that keeps their owner alive.
fn view<'py, T: numpy::Element>(
    values: &[T],
    owner: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let view = ArrayView1::from(values);
    // SAFETY: `owner` keeps the columns, which never change, alive.
    let array = unsafe { PyArray1::borrow_from_array(&view, owner.clone()) };
    let read_only = PyDict::new(owner.py());
    read_only.set_item("write", false)?;
    array.call_method("setflags", (), Some(&read_only))?;
    Ok(array.into_any())
}

/// An array of arrays, each a part of `values`.
fn lists<'py>(offsets: &[i64], values: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let numpy = values.py().import("numpy")?;
    let array = numpy.call_method1("empty", (offsets.len().saturating_sub(1), "object"))?;
    for (row, ends) in offsets.windows(2).enumerate() {
        let slice = pyo3::types::PySlice::new(values.py(), ends[0] as isize, ends[1] as isize, 1);
        array.set_item(row, values.get_item(slice)?)?;
    }
    Ok(array)
}
