//! [`Forecast`]: the latency of one model with its interval, its operators, and what it consists
//! of.

use crate::{
    bundle::Bundle,
    column::{Column, Columns},
    failure::Failure,
    model::Model,
    space::Space,
    table::Table,
};
use pyo3::{prelude::*, sync::PyOnceLock, types::PyBytes};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::Arc;
use vitempo::{
    forecast::Coverage,
    graph::{
        Budget, Graph, GraphPrediction, Latency, LatencyModel, Limits, OperatorPrediction,
        Prediction, PredictionSource,
    },
    memory::MemoryForecast,
};

/// The latency of one model. It never changes.
#[pyclass(frozen, module = "vitempo")]
pub struct Forecast {
    model: String,
    latency: Prediction,
    /// Point, lower and upper end of it, ms. A forecast of a batch has them from its columns, and
    /// ns from these, which differ from others by rounding.
    ms: [f64; 3],
    of: Of,
}

/// What was forecast.
enum Of {
    /// A model.
    Model(Box<Details>),
    /// An architecture by tables; its operators are computed when they are asked for.
    Architecture { bundle: Py<Bundle>, space: Py<Space>, details: PyOnceLock<Box<Details>> },
}

/// What a forecast consists of.
#[derive(Serialize, Deserialize)]
struct Details {
    bundle: String,
    environment: String,
    prediction: GraphPrediction,
    coverage: Coverage,
    memory: Option<MemoryForecast>,
}

/// A forecast with its memory.
type WithMemory = (GraphPrediction, Option<MemoryForecast>);

/// The fields of `vitempo.Memory`.
pub type MemoryFields = (u64, u64, Option<u64>, f64, u64, u64, u64);

/// The fields of `vitempo.Memory`.
pub fn memory_fields(of: &MemoryForecast) -> MemoryFields {
    let (peak, demand) = (of.peak_bytes, of.demand);
    let (weights, activations) = (demand.weights_bytes(), demand.activations_bytes);
    let freed = demand.freed_bytes;
    (peak.point(), peak.lower(), of.upper_bytes(), of.level, weights, activations, freed)
}

impl Details {
    fn new(bundle: &Bundle, graph: &Graph, (prediction, memory): WithMemory) -> Self {
        let environment = bundle.bundle.environment().describe();
        let coverage = Coverage::of(graph, &prediction);
        Self { bundle: bundle.bundle.name().to_owned(), environment, prediction, coverage, memory }
    }

    fn operators(&self) -> Arc<Columns> {
        let operators = &self.prediction.operators;
        let source = |source| match source {
            PredictionSource::Model => "model",
            PredictionSource::Fallback => "fallback",
        };
        Columns::new([
            ("name", Column::text(operators.iter().map(|o| &o.name))),
            ("kind", Column::text(operators.iter().map(|o| o.kind.name()))),
            ("ms", Column::Numbers(operators.iter().map(|o| o.latency_ns.ms()).collect())),
            ("source", Column::text(operators.iter().map(|o| source(o.source)))),
            ("extrapolating", Column::flags(operators.iter().map(|o| o.extrapolating))),
        ])
    }
}

impl Forecast {
    /// Of a model.
    pub fn of_model(bundle: &Bundle, model: &Model, forecast: WithMemory) -> Self {
        let latency = forecast.0.latency;
        let details = Box::new(Details::new(bundle, &model.graph, forecast));
        let model = model.graph.name().to_owned();
        Self { model, latency, ms: ends_ms(latency), of: Of::Model(details) }
    }

    /// Of an architecture.
    pub fn of_encoding(
        bundle: &Bound<'_, Bundle>,
        space: &Bound<'_, Space>,
        encoding: String,
    ) -> Result<Self, Failure> {
        let architecture = space.get().space.decode(&encoding)?;
        let latency = bundle.get().over(space.get()).predict(&architecture)?;
        Ok(Self::tabulated(bundle, space, encoding, latency, ends_ms(latency)))
    }

    /// Of an architecture whose latency is known.
    pub fn tabulated(
        bundle: &Bound<'_, Bundle>,
        space: &Bound<'_, Space>,
        encoding: String,
        latency: Prediction,
        ms: [f64; 3],
    ) -> Self {
        let (bundle, space) = (bundle.clone().unbind(), space.clone().unbind());
        let of = Of::Architecture { bundle, space, details: PyOnceLock::new() };
        Self { model: encoding, latency, ms, of }
    }

    fn details(&self, py: Python<'_>) -> Result<&Details, Failure> {
        let (bundle, space, details) = match &self.of {
            Of::Model(details) => return Ok(details),
            Of::Architecture { bundle, space, details } => (bundle.get(), space.get(), details),
        };
        let made = details.get_or_try_init(py, || -> Result<Box<Details>, Failure> {
            let graph = space.space.decode(&self.model)?.to_graph()?;
            let forecast = bundle.bundle.predict_with_memory(&graph, &Budget::new(Limits::NONE))?;
            Ok(Box::new(Details::new(bundle, &graph, forecast)))
        })?;
        Ok(made)
    }
}

#[pymethods]
impl Forecast {
    /// Name of the model, or the encoding.
    #[getter]
    fn model(&self) -> &str {
        &self.model
    }

    /// Name of the bundle.
    #[getter]
    fn bundle(&self) -> &str {
        match &self.of {
            Of::Model(details) => &details.bundle,
            Of::Architecture { bundle, .. } => bundle.get().bundle.name(),
        }
    }

    /// The environment in which the latency holds, in a line.
    #[getter]
    fn environment(&self) -> String {
        match &self.of {
            Of::Model(details) => details.environment.clone(),
            Of::Architecture { bundle, .. } => bundle.get().bundle.environment().describe(),
        }
    }

    /// Latency end to end, ms.
    #[getter]
    fn ms(&self) -> f64 {
        self.ms[0]
    }

    /// Lower end of the interval, ms.
    #[getter]
    fn lower(&self) -> f64 {
        self.ms[1]
    }

    /// Upper end of the interval, ms; infinite where vitempo does not support an operator.
    #[getter]
    fn upper(&self) -> f64 {
        self.ms[2]
    }

    /// Share of forecasts whose latency lies in the interval, 0 to 1.
    #[getter]
    fn level(&self) -> f64 {
        self.latency.level
    }

    /// What is added to the sum over operators, ms.
    #[getter]
    fn overhead(&self, py: Python<'_>) -> Result<f64, Failure> {
        Ok(self.details(py)?.prediction.overhead.ms())
    }

    /// The kernels that the framework runs, in their order: columns name, kind, ms, source (`model`
    /// or `fallback`: estimated from its work alone) and extrapolating.
    #[getter]
    fn operators(&self, py: Python<'_>) -> Result<Table, Failure> {
        Ok(Table(self.details(py)?.operators()))
    }

    /// How many kernels are forecast in which way.
    #[getter]
    fn coverage<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>, Failure> {
        let of = &self.details(py)?.coverage;
        let class = py.import("vitempo._types")?.getattr("Coverage")?;
        Ok(class.call1((of.operators, of.trained, of.fallback, of.extrapolating))?)
    }

    /// The memory that the engine takes to load and run the model; None where that of the bundle's
    /// engine is not known.
    #[getter]
    fn memory<'py>(&self, py: Python<'py>) -> Result<Option<Bound<'py, PyAny>>, Failure> {
        let Some(memory) = &self.details(py)?.memory else { return Ok(None) };
        let class = py.import("vitempo._types")?.getattr("Memory")?;
        Ok(Some(class.call1(memory_fields(memory))?))
    }

    /// Nodes of the model whose operator vitempo does not support.
    #[getter]
    fn unsupported<'py>(&self, py: Python<'py>) -> Result<Vec<Bound<'py, PyAny>>, Failure> {
        let class = py.import("vitempo._types")?.getattr("Unsupported")?;
        let nodes = self.details(py)?.coverage.unsupported.iter();
        Ok(nodes
            .map(|at| class.call1((at.node.as_str(), at.operator.as_str())))
            .collect::<PyResult<_>>()?)
    }

    fn __float__(&self) -> f64 {
        self.ms()
    }

    fn __repr__(&self) -> String {
        let Prediction { level, .. } = self.latency;
        let [point, lower, upper] = ends(self.latency).map(|latency| latency.to_string());
        format!(
            "Forecast({}: {point} [{lower} .. {upper}], {:.0} % interval, {})",
            self.model,
            100.0 * level,
            self.bundle()
        )
    }

    /// For the command: the values in ns as the program prints them, as JSON.
    fn _json(&self, py: Python<'_>, breakdown: bool) -> Result<String, Failure> {
        let details = self.details(py)?;
        let mut out = json!({
            "latency_ns": self.latency,
            "overhead_ns": details.prediction.overhead,
            "coverage": details.coverage,
        });
        if let Some(memory) = &details.memory {
            out["memory"] = json!(memory);
        }
        if breakdown {
            let row = |of: &OperatorPrediction| {
                json!({
                    "name": of.name,
                    "kind": of.kind,
                    "latency_ns": of.latency_ns,
                    "source": of.source,
                    "extrapolating": of.extrapolating,
                })
            };
            out["operators"] = details.prediction.operators.iter().map(row).collect();
        }
        Ok(out.to_string())
    }

    fn _repr_html_(slf: &Bound<'_, Self>) -> PyResult<String> {
        slf.py().import("vitempo._card")?.call_method1("forecast", (slf,))?.extract()
    }

    fn __eq__(&self, other: &Self) -> bool {
        let key = |of: &Self| (of.ms, of.level());
        key(self) == key(other) && self.model == other.model && self.bundle() == other.bundle()
    }

    fn __hash__(&self) -> u64 {
        self.ms[0].to_bits()
    }

    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> Result<(Bound<'py, PyAny>, Bound<'py, PyAny>), Failure> {
        let (py, of, class) = (slf.py(), slf.get(), slf.get_type());
        match &of.of {
            Of::Model(details) => {
                let kept = serde_json::to_vec(&(&of.model, details))
                    .map_err(|error| Failure::new("VitempoError", error))?;
                let content = (PyBytes::new(py, &kept),).into_pyobject(py)?.into_any();
                Ok((class.getattr("_restored")?, content))
            }
            Of::Architecture { bundle, space, .. } => {
                let ns = ends(of.latency).map(Latency::ns);
                let content = (bundle, space, &of.model, ns, of.ms, of.level());
                let content = content.into_pyobject(py)?.into_any();
                Ok((class.getattr("_tabulated")?, content))
            }
        }
    }

    #[staticmethod]
    fn _restored(kept: &[u8]) -> Result<Self, Failure> {
        let (model, details): (String, Details) =
            serde_json::from_slice(kept).map_err(|error| Failure::new("VitempoError", error))?;
        let latency = details.prediction.latency;
        Ok(Self { model, latency, ms: ends_ms(latency), of: Of::Model(Box::new(details)) })
    }

    #[staticmethod]
    fn _tabulated(
        bundle: &Bound<'_, Bundle>,
        space: &Bound<'_, Space>,
        encoding: String,
        ns: [f64; 3],
        ms: [f64; 3],
        level: f64,
    ) -> Self {
        Self::tabulated(bundle, space, encoding, prediction(ns.map(Latency::from_ns), level), ms)
    }
}

/// Point, lower and upper end.
fn ends(of: Prediction) -> [Latency; 3] {
    [of.point(), of.lower(), of.upper()]
}

/// The same, ms.
fn ends_ms(of: Prediction) -> [f64; 3] {
    ends(of).map(Latency::ms)
}

/// A forecast of its point and ends, and the level.
pub fn prediction([point, lower, upper]: [Latency; 3], level: f64) -> Prediction {
    Prediction::new(vitempo::graph::Interval::clamped(point, lower, upper), level)
}
