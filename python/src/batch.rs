//! [`Forecasts`]: the latencies of many architectures, as columns.

use crate::{
    bundle::Bundle,
    column::{Column, Columns},
    encodings::Encodings,
    failure::Failure,
    forecast::{Forecast, prediction},
    interrupt::Interrupt,
    space::Space,
    table::{self, Table},
};
use numpy::PyReadonlyArray1;
use pyo3::{
    exceptions::PyIndexError,
    prelude::*,
    types::{PyCapsule, PyList},
};
use std::sync::Arc;
use vitempo::graph::{Latency, Prediction};

/// Latencies of architectures, in the order in which they were given.
#[pyclass(frozen, module = "vitempo")]
pub struct Forecasts {
    bundle: Py<Bundle>,
    space: Py<Space>,
    level: f64,
    columns: Arc<Columns>,
}

impl Forecasts {
    /// Forecasts encodings without the interpreter's lock, by default on all cores.
    pub fn predict(
        bundle: &Bound<'_, Bundle>,
        space: &Bound<'_, Space>,
        encodings: Encodings,
        threads: Option<usize>,
    ) -> Result<Self, Failure> {
        let threads = threads.unwrap_or_else(vitempo::processors);
        let shared = bundle.get().over(space.get());
        let interrupt = Interrupt::default();
        let answered = bundle.py().detach(|| {
            let stopped = || interrupt.is_pending();
            shared.predict_encodings(&encodings.texts(), threads, &stopped)
        });
        let forecasts = interrupt.or(answered)?.unwrap_or_default();
        let column = |end: fn(&Prediction) -> Latency| {
            Column::Numbers(forecasts.iter().map(|forecast| end(forecast).ms()).collect())
        };
        let columns = Columns::new([
            ("encoding", encodings.into_column()),
            ("ms", column(|forecast| forecast.point())),
            ("lower", column(|forecast| forecast.lower())),
            ("upper", column(|forecast| forecast.upper())),
        ]);
        Ok(Self::of(bundle, space, columns))
    }

    fn of(bundle: &Bound<'_, Bundle>, space: &Bound<'_, Space>, columns: Arc<Columns>) -> Self {
        let level = bundle.get().bundle.level();
        Self { bundle: bundle.clone().unbind(), space: space.clone().unbind(), level, columns }
    }

    fn numbers(&self, name: &str) -> &[f64] {
        self.columns.column(name).map_or(&[], Column::numbers)
    }
}

#[pymethods]
impl Forecasts {
    /// Name of the bundle.
    #[getter]
    fn bundle(&self) -> &str {
        self.bundle.get().bundle.name()
    }

    /// Level of the intervals, between 0 and 1.
    #[getter]
    fn level(&self) -> f64 {
        self.level
    }

    /// Latencies, ms; float64, shape (n,), read-only.
    #[getter]
    fn ms<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.get().columns.array("ms", slf.as_any())
    }

    /// Lower ends of the intervals, ms; float64, shape (n,).
    #[getter]
    fn lower<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.get().columns.array("lower", slf.as_any())
    }

    /// Upper ends of the intervals, ms; float64, shape (n,).
    #[getter]
    fn upper<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.get().columns.array("upper", slf.as_any())
    }

    /// The encodings, in their order.
    #[getter]
    fn encodings<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let column = self.columns.column("encoding");
        let text = |row| column.and_then(|column| column.text_at(row));
        PyList::new(py, (0..self.columns.rows()).filter_map(text))
    }

    /// Columns encoding, ms, lower, upper.
    #[getter]
    fn table(&self) -> Table {
        Table(self.columns.clone())
    }

    fn __len__(&self) -> usize {
        self.columns.rows()
    }

    fn __getitem__(&self, py: Python<'_>, index: isize) -> PyResult<Forecast> {
        let rows = self.columns.rows();
        let place = if index < 0 { index.checked_add_unsigned(rows) } else { Some(index) };
        let row = place.and_then(|place| usize::try_from(place).ok()).filter(|&row| row < rows);
        let row = row.ok_or_else(|| {
            PyIndexError::new_err(format!("there are {rows} forecasts, none is at {index}"))
        })?;
        let encoding = self.columns.column("encoding").and_then(|column| column.text_at(row));
        let ms = ["ms", "lower", "upper"].map(|name| self.numbers(name)[row]);
        Ok(Forecast::tabulated(
            self.bundle.bind(py),
            self.space.bind(py),
            encoding.unwrap_or_default().to_owned(),
            prediction(ms.map(Latency::from_ms), self.level),
            ms,
        ))
    }

    fn __iter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let builtins = slf.py().import("builtins")?;
        let rows = builtins.call_method1("range", (slf.get().columns.rows(),))?;
        builtins.call_method1("map", (slf.getattr("__getitem__")?, rows))
    }

    fn __repr__(&self) -> String {
        let ms = self.numbers("ms");
        let least = ms.iter().copied().fold(f64::INFINITY, f64::min);
        let most = ms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let range =
            if ms.is_empty() { String::new() } else { format!(": {least:.3} to {most:.3} ms") };
        format!("Forecasts({}{range}, {})", ms.len(), self.bundle())
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyCapsule>, Failure> {
        table::schema(py, &self.columns)
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> Result<Bound<'py, PyCapsule>, Failure> {
        drop(requested_schema);
        table::stream(py, &self.columns)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let (py, of) = (slf.py(), slf.get());
        let [ms, lower, upper] = [Self::ms(slf)?, Self::lower(slf)?, Self::upper(slf)?];
        let content = (&of.bundle, &of.space, of.encodings(py)?, ms, lower, upper);
        Ok((slf.get_type().getattr("_restored")?, content.into_pyobject(py)?.into_any()))
    }

    #[staticmethod]
    fn _restored(
        bundle: &Bound<'_, Bundle>,
        space: &Bound<'_, Space>,
        encodings: &Bound<'_, PyList>,
        ms: PyReadonlyArray1<'_, f64>,
        lower: PyReadonlyArray1<'_, f64>,
        upper: PyReadonlyArray1<'_, f64>,
    ) -> Result<Self, Failure> {
        let column = |values: &PyReadonlyArray1<'_, f64>| {
            Column::Numbers(values.as_array().iter().copied().collect())
        };
        let columns = Columns::new([
            ("encoding", Encodings::of(encodings.as_any())?.into_column()),
            ("ms", column(&ms)),
            ("lower", column(&lower)),
            ("upper", column(&upper)),
        ]);
        Ok(Self::of(bundle, space, columns))
    }
}
