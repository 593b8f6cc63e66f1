//! [`Bundle`]: forecasts in one environment, by name or path.

use crate::{
    batch::Forecasts,
    encodings::Encodings,
    failure::Failure,
    forecast::Forecast,
    interrupt::Interrupt,
    model::{self, Input, Model, Reading},
    space::{self, Space},
    whole::Whole,
};
use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
    types::{PyDict, PyType},
};
use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};
use vitempo::{
    bundle::Location,
    graph::{LatencyModel, Origin},
    query::SharedForecasts,
};

/// Spaces of which a bundle keeps tables.
const MOST_SPACES: usize = 8;

/// Forecasts in one environment.
#[pyclass(frozen, module = "vitempo")]
pub struct Bundle {
    pub bundle: vitempo::Bundle,
    /// Forecasts over spaces, those used last at the end.
    spaces: Mutex<Vec<Arc<SharedForecasts>>>,
    /// What finds it again from any folder: an absolute path, or the name of an embedded one.
    place: PathBuf,
}

/// Names of the bundles that a name finds, sorted.
#[pyfunction]
pub fn bundles() -> Vec<String> {
    Location::by_name().into_keys().collect()
}

impl Bundle {
    fn of(bundle: vitempo::Bundle) -> Self {
        let place = match bundle.location() {
            Location::File(path) => std::path::absolute(path).unwrap_or_else(|_| path.clone()),
            Location::Embedded(name) => PathBuf::from(name),
        };
        Self { bundle, spaces: Mutex::default(), place }
    }

    /// The bundle itself, or the bundle of this name or path.
    pub fn from_any<'py>(value: &Bound<'py, PyAny>) -> Result<Bound<'py, Self>, Failure> {
        match value.cast::<Self>() {
            Ok(bundle) => Ok(bundle.clone()),
            Err(_) => {
                let (py, path) = (value.py(), space::path(value)?);
                let bundle = py.detach(|| vitempo::Bundle::open(path))?;
                Ok(Bound::new(py, Self::of(bundle))?)
            }
        }
    }

    /// Forecasts over a space, with the tables that earlier calls made.
    pub fn over(&self, space: &Space) -> Arc<SharedForecasts> {
        let mut spaces = self.spaces.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = spaces.iter().find(|known| Arc::ptr_eq(known.space(), &space.space)) {
            return known.clone();
        }
        if spaces.len() >= MOST_SPACES {
            spaces.remove(0);
        }
        let new = Arc::new(SharedForecasts::new(self.bundle.clone(), space.space.clone()));
        spaces.push(new.clone());
        new
    }

    /// The forecast of a model with its operators.
    pub fn of_model(&self, py: Python<'_>, model: &Model) -> Result<Forecast, Failure> {
        let interrupt = Interrupt::default();
        let budget = model::budget(&interrupt);
        let forecast = py.detach(|| self.bundle.predict_with_memory(&model.graph, &budget));
        Ok(Forecast::of_model(self, model, interrupt.or(forecast)?))
    }
}

#[pymethods]
impl Bundle {
    /// Opens a bundle by its name or by the path of its file.
    #[classmethod]
    fn load(_: &Bound<'_, PyType>, name: &Bound<'_, PyAny>) -> Result<Py<Self>, Failure> {
        Ok(Self::from_any(name)?.unbind())
    }

    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        self.bundle.name()
    }

    /// Where it was read: a path, or `embedded:NAME`.
    #[getter]
    fn location(&self) -> String {
        self.bundle.location().to_string()
    }

    /// BLAKE3 of its file, in hexadecimal.
    #[getter]
    fn digest(&self) -> &str {
        self.bundle.digest()
    }

    /// `trained` on operators, or `adapted` from end-to-end latencies.
    #[getter]
    fn kind(&self) -> &'static str {
        self.bundle.kind().name()
    }

    /// What was fitted.
    #[getter]
    fn method(&self) -> &'static str {
        self.bundle.method()
    }

    /// Origin of the latencies it was made from: measured, imported or simulated.
    #[getter]
    fn origin(&self) -> &'static str {
        match self.bundle.origin() {
            Origin::Measured => "measured",
            Origin::Imported => "imported",
            Origin::Simulated => "simulated",
        }
    }

    /// Level of its intervals, between 0 and 1.
    #[getter]
    fn level(&self) -> f64 {
        self.bundle.level()
    }

    /// Its environment in a line.
    #[getter]
    fn environment(&self) -> String {
        self.bundle.environment().describe()
    }

    /// Its identifier, as datasets name environments.
    #[getter]
    fn environment_id(&self) -> String {
        self.bundle.environment().id()
    }

    /// Name of the device.
    #[getter]
    fn device(&self) -> &str {
        &self.bundle.environment().device
    }

    /// Name of the inference engine.
    #[getter]
    fn framework(&self) -> &str {
        &self.bundle.environment().framework
    }

    /// Precision of the models, e.g. `f32`.
    #[getter]
    fn precision(&self) -> String {
        self.bundle.environment().precision.to_string()
    }

    /// Threads that compute inside one operator.
    #[getter]
    fn threads(&self) -> usize {
        self.bundle.environment().threads
    }

    /// Forecasts the latency of a model, or of encodings of a search space.
    ///
    /// Args:
    ///     model: The path of an ONNX or TensorFlow Lite file, the bytes of one, an
    ///         `onnx.ModelProto`, a `torch.nn.Module`, a `torch.export.ExportedProgram`, a `Model`,
    ///         or the encoding of an architecture; or several encodings: a list of n texts, or a
    ///         NumPy array of shape (n,) and type str, bytes or object.
    ///     inputs: For a torch module: a tensor, a tuple of tensors, or the shape of its input.
    ///     dims: For an ONNX model: extents of symbolic dimensions by name, e.g. `{"batch": 1}`.
    ///     space: The space of encodings, its name, or the path of its definition; by default the
    ///         one that comes with vitempo and has such encodings.
    ///     threads: Threads for several encodings; by default all cores. The interpreter's lock is
    ///         released meanwhile.
    ///
    /// Returns:
    ///     A `Forecast`, latencies in ms; for several encodings `Forecasts`, arrays of shape (n,).
    ///
    /// Raises:
    ///     InvalidModel: The model cannot be read.
    ///     UnsupportedOperator: The bundle's framework cannot run an operator.
    ///     InvalidEncoding: An encoding is not one of the space.
    ///     TypeError: An option is for another kind of model.
    #[pyo3(signature = (model, *, inputs=None, dims=None, space=None, threads=None))]
    fn predict(
        slf: &Bound<'_, Self>,
        model: &Bound<'_, PyAny>,
        inputs: Option<&Bound<'_, PyAny>>,
        dims: Option<BTreeMap<String, Whole>>,
        space: Option<&Bound<'_, PyAny>>,
        threads: Option<Whole>,
    ) -> Result<Py<PyAny>, Failure> {
        let py = slf.py();
        let space = space.map(Space::from_any).transpose()?;
        let threads = threads.map(|threads| threads.named("threads")).transpose()?;
        if threads == Some(0) {
            return Err(PyValueError::new_err("`threads` is 0, expected at least 1").into());
        }
        match Input::of(model, Reading::new(inputs, dims)?)? {
            Input::Encoding(_) | Input::Model(_) if threads.is_some() => {
                let message = "`threads` is for several encodings; one forecast takes one thread";
                Err(PyTypeError::new_err(message).into())
            }
            Input::Encoding(text) => {
                let space = space.map_or_else(|| Space::of_encoding(py, &text), Ok)?;
                Ok(Py::new(py, Forecast::of_encoding(slf, &space, text)?)?.into_any())
            }
            Input::Encodings(encodings) => {
                let space = space.map_or_else(|| first(py, &encodings), Ok)?;
                let forecasts = Forecasts::predict(slf, &space, encodings, threads)?;
                Ok(Py::new(py, forecasts)?.into_any())
            }
            Input::Model(_) if space.is_some() => {
                Err(PyTypeError::new_err("`space` is for encodings, not for a model").into())
            }
            Input::Model(model) => {
                let forecast = slf.get().of_model(py, model.get())?;
                Ok(Py::new(py, forecast)?.into_any())
            }
        }
    }

    /// For the command: what a list of bundles has of it, as JSON.
    fn _summary(&self) -> String {
        self.bundle.summary().to_string()
    }

    /// Compares its forecasts with the measurements of its environment in a dataset, as
    /// `vitempo.evaluate` does.
    fn evaluate<'py>(
        slf: &Bound<'py, Self>,
        on: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("vitempo._evaluate")?.call_method1("evaluate", (slf, on))
    }

    /// Measures the kernels that its forecast of a model is least sure of, and gives a bundle that
    /// is corrected by them, as `vitempo.refine` does.
    ///
    /// Args:
    ///     model: As for `predict`, one model.
    ///     options: Those of `vitempo.refine`: `out`, `within` and others.
    ///
    /// Raises:
    ///     ProgramNotFound: There is no program.
    ///     ProgramError: It refused or failed: its message and hint.
    #[pyo3(signature = (model, **options))]
    fn refine<'py>(
        slf: &Bound<'py, Self>,
        model: &Bound<'py, PyAny>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("vitempo._refine")?.call_method("refine", (slf, model), options)
    }

    fn __repr__(&self) -> String {
        format!("Bundle({}: {})", self.bundle.name(), self.bundle.environment().describe())
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.bundle.digest() == other.bundle.digest()
    }

    fn __hash__(&self) -> isize {
        let digest = self.bundle.digest().get(..15).unwrap_or_default();
        isize::from_str_radix(digest, 16).unwrap_or(0)
    }

    /// A pickle has the name or path and the digest, not the contents.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (String, String))> {
        let Self { bundle, place, .. } = slf.get();
        let content = (place.display().to_string(), bundle.digest().to_owned());
        Ok((slf.get_type().getattr("_restored")?, content))
    }

    #[staticmethod]
    fn _restored(py: Python<'_>, place: &str, digest: &str) -> Result<Py<Self>, Failure> {
        let bundle = py.detach(|| vitempo::Bundle::open(place))?;
        if bundle.digest() != digest {
            let message = format!("{place}: the bundle is another one than when it was pickled");
            return Err(Failure::new("InvalidBundle", message)
                .hint("load the bundle by Bundle.load instead of from the pickle"));
        }
        Ok(Py::new(py, Self::of(bundle))?)
    }
}

/// The space of the first encoding.
fn first<'py>(py: Python<'py>, encodings: &Encodings) -> Result<Bound<'py, Space>, Failure> {
    match encodings.texts().first() {
        Some(text) => Space::of_encoding(py, text),
        None => Err(Failure::new("InvalidEncoding", "no encodings were given")
            .hint("give `space` where the list may be empty")),
    }
}
