//! [`Table`]: named columns of one length, for libraries of tables: through Arrow's PyCapsule
//! interface without a copy, or column by column as NumPy arrays.

use crate::{
    arrow::{Array, Schema, Stream},
    column::Columns,
    failure::Failure,
};
use pyo3::{
    prelude::*,
    types::{PyCapsule, PyList},
};
use std::sync::Arc;

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

    fn __contains__(&self, name: &Bound<'_, PyAny>) -> bool {
        name.extract::<String>().is_ok_and(|name| self.0.column(&name).is_some())
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
