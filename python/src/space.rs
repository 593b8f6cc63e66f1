//! [`Space`]: a search space of architectures, as encodings and as dictionaries.

use crate::{failure::Failure, interrupt::Interrupt, whole::Whole};
use pyo3::{
    exceptions::PyIndexError,
    prelude::*,
    sync::PyOnceLock,
    types::{PyBytes, PyType},
};
use std::sync::Arc;
use vitempo::{
    graph::onnx::{self, WriteOptions},
    search_space::{self, Architecture, Generator, SpaceError},
};

/// A search space.
#[pyclass(frozen, module = "vitempo")]
pub struct Space {
    pub space: Arc<search_space::Space>,
    /// Name and definition of a space that does not come with vitempo.
    definition: Option<(String, String)>,
}

/// What a pickle has: the name, and the definition of a space that does not come with vitempo.
type Restored = (String, Option<String>);

/// The spaces that come with vitempo, each made once.
static BUILT_IN: PyOnceLock<Vec<Py<Space>>> = PyOnceLock::new();

impl Space {
    /// The space that comes with vitempo and whose encodings begin as this text does.
    pub fn of_encoding<'py>(py: Python<'py>, text: &str) -> Result<Bound<'py, Self>, Failure> {
        let family = Architecture::family_of(text);
        let of_family = |space: &&Py<Self>| Some(space.get().space.family()) == family;
        match built_in(py)?.iter().find(of_family) {
            Some(space) => Ok(space.bind(py).clone()),
            None => Err(search_space::Space::of_encoding(text)
                .err()
                .map_or_else(|| Failure::new("InvalidEncoding", text), Into::into)),
        }
    }

    /// The space itself, or the space of this name or path.
    pub fn from_any<'py>(value: &Bound<'py, PyAny>) -> Result<Bound<'py, Self>, Failure> {
        match value.cast::<Self>() {
            Ok(space) => Ok(space.clone()),
            Err(_) => Self::find(value.py(), &path(value)?),
        }
    }

    fn find<'py>(py: Python<'py>, name: &str) -> Result<Bound<'py, Self>, Failure> {
        if let Some(space) = built_in(py)?.iter().find(|space| space.get().space.name() == name) {
            return Ok(space.bind(py).clone());
        }
        let space = search_space::Space::find(name)?;
        let text = std::fs::read_to_string(name)
            .map_err(|source| SpaceError::Io { path: name.into(), source })?;
        Ok(Bound::new(py, Self::of(space, Some((name.to_owned(), text))))?)
    }

    fn of(space: search_space::Space, definition: Option<(String, String)>) -> Self {
        Self { space: Arc::new(space), definition }
    }
}

fn built_in(py: Python<'_>) -> Result<&Vec<Py<Space>>, Failure> {
    BUILT_IN.get_or_try_init(py, || {
        search_space::Space::names()
            .map(|name| Ok(Py::new(py, Space::of(search_space::Space::named(name)?, None))?))
            .collect()
    })
}

/// A text or a path.
pub fn path(value: &Bound<'_, PyAny>) -> Result<String, Failure> {
    Ok(value.py().import("os")?.call_method1("fspath", (value,))?.extract()?)
}

#[pymethods]
impl Space {
    #[new]
    fn new(py: Python<'_>, name: &Bound<'_, PyAny>) -> Result<Self, Failure> {
        let found = Self::find(py, &path(name)?)?;
        let found = found.get();
        Ok(Self { space: found.space.clone(), definition: found.definition.clone() })
    }

    /// Names of the spaces that come with vitempo.
    #[staticmethod]
    fn names() -> Vec<&'static str> {
        search_space::Space::names().collect()
    }

    /// A space from the text of a TOML definition; errors name it `file`.
    #[classmethod]
    #[pyo3(signature = (text, *, file="definition"))]
    fn parse(_: &Bound<'_, PyType>, text: &str, file: &str) -> Result<Self, Failure> {
        let space = search_space::Space::parse(file, text)?;
        Ok(Self::of(space, Some((file.to_owned(), text.to_owned()))))
    }

    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        self.space.name()
    }

    /// The family of its architectures.
    #[getter]
    fn family(&self) -> &'static str {
        self.space.family()
    }

    /// How many architectures it has.
    #[getter]
    fn size(&self) -> u128 {
        self.space.size()
    }

    /// Encodings of `count` distinct architectures; the same seed gives the same ones.
    #[pyo3(signature = (count, *, seed=Whole::ZERO), text_signature = "($self, count, *, seed=0)")]
    fn sample(&self, py: Python<'_>, count: Whole, seed: Whole) -> Result<Vec<String>, Failure> {
        let (count, seed) = (count.named("count")?, seed.named("seed")?);
        let interrupt = Interrupt::default();
        let encodings = py.detach(|| -> Result<Vec<String>, SpaceError> {
            let sampled = self.space.sample_while(count, seed, || !interrupt.is_pending())?;
            Ok(sampled.iter().map(Architecture::encode).collect())
        });
        interrupt.or(encodings)
    }

    /// The encoding of the architecture with this number, from 0 to below `size`; neighbours differ
    /// in their last choices.
    fn nth(&self, number: Whole) -> PyResult<String> {
        let found = number
            .value()
            .and_then(|number| self.space.nth(number))
            .map(|architecture| architecture.encode());
        found.ok_or_else(|| {
            let size = self.space.size();
            PyIndexError::new_err(format!("there are {size} architectures, none is at {number}"))
        })
    }

    /// An architecture that differs from this one in one choice.
    #[pyo3(
        signature = (encoding, *, seed=Whole::ZERO),
        text_signature = "($self, encoding, *, seed=0)"
    )]
    fn mutate(&self, encoding: &str, seed: Whole) -> Result<String, Failure> {
        let seed = seed.named("seed")?;
        let parent = self.space.decode(encoding)?;
        Ok(self.space.mutate(&parent, &mut Generator::new(seed))?.encode())
    }

    /// An architecture with parts of either.
    #[pyo3(
        signature = (one, other, *, seed=Whole::ZERO),
        text_signature = "($self, one, other, *, seed=0)"
    )]
    fn cross(&self, one: &str, other: &str, seed: Whole) -> Result<String, Failure> {
        let seed = seed.named("seed")?;
        let (one, other) = (self.space.decode(one)?, self.space.decode(other)?);
        Ok(self.space.cross(&one, &other, &mut Generator::new(seed)).encode())
    }

    /// The choices of an architecture as a dictionary.
    fn decode<'py>(&self, py: Python<'py>, encoding: &str) -> Result<Bound<'py, PyAny>, Failure> {
        let architecture = self.space.decode(encoding)?;
        let json =
            serde_json::to_string(&architecture).map_err(|e| Failure::new("InvalidEncoding", e))?;
        Ok(py.import("json")?.call_method1("loads", (json,))?)
    }

    /// The encoding of such a dictionary.
    fn encode(&self, architecture: &Bound<'_, PyAny>) -> Result<String, Failure> {
        let numbers = architecture.py().import("vitempo._numbers")?;
        let json: String = numbers.call_method1("as_json", (architecture,))?.extract()?;
        let architecture: Architecture =
            serde_json::from_str(&json).map_err(|e| Failure::new("InvalidEncoding", e))?;
        self.space.contains(&architecture)?;
        Ok(architecture.encode())
    }

    /// The architecture as an ONNX model without weights.
    fn to_onnx<'py>(
        &self,
        py: Python<'py>,
        encoding: &str,
    ) -> Result<Bound<'py, PyBytes>, Failure> {
        let graph = self.space.decode(encoding)?.to_graph()?;
        let weights = onnx::WeightFill::Omitted;
        let bytes = onnx::to_bytes(&graph, &WriteOptions { weights })?;
        Ok(PyBytes::new(py, &bytes))
    }

    fn __contains__(&self, encoding: &Bound<'_, PyAny>) -> bool {
        encoding.extract::<String>().is_ok_and(|encoding| self.space.decode(&encoding).is_ok())
    }

    fn __repr__(&self) -> String {
        format!("Space({})", self.space.name())
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Restored)> {
        let name = slf.get().space.name().to_owned();
        let restored = slf.get().definition.clone().map_or((name, None), |(f, t)| (f, Some(t)));
        Ok((slf.get_type().getattr("_restored")?, restored))
    }

    #[staticmethod]
    fn _restored(
        py: Python<'_>,
        name: &str,
        definition: Option<String>,
    ) -> Result<Py<Self>, Failure> {
        let Some(text) = definition else { return Ok(Self::find(py, name)?.unbind()) };
        let space = search_space::Space::parse(name, &text)?;
        Ok(Py::new(py, Self::of(space, Some((name.to_owned(), text))))?)
    }
}
