//! [`Failure`]: errors of the facade as Python's exceptions, those of `vitempo/errors.py`, with the
//! node they speak of and what to do about it.

use pyo3::{
    PyErr,
    exceptions::{PyMemoryError, PyValueError},
    prelude::*,
    types::PyDict,
};
use std::{io, path::Path};
use vitempo::{
    BundleError,
    adaptation::{LatencyProblem, SameName, SourceError},
    datasets::DatasetError,
    evaluation::EvaluationError,
    graph::{
        ImageSizeError, PredictionError, ResizeError,
        lowering::LoweringError,
        onnx::OnnxError,
        tflite::{TfliteError, TfliteReadError},
    },
    models::ModelError,
    plan::{
        costs::PlanCostsError, multi_dnn::PlacingError, multitask::MultitaskError,
        split::PlanSplitError, stitch::StitchingError,
    },
    planners::{
        PartsError,
        pipeline::{PipelineError, TasksError},
    },
    predictors::PredictorError,
    query::QueryError,
    search::{ObjectiveError, SearchError},
    search_space::SpaceError,
    training::TrainingError,
};

/// Why a function of the package failed.
#[derive(Debug)]
pub enum Failure {
    /// An exception of Python's.
    Python(PyErr),
    /// An exception of `vitempo/errors.py`.
    Ours { class: &'static str, message: String, node: Option<String>, hint: Option<String> },
}

impl Failure {
    /// Without a node and a hint.
    pub fn new(class: &'static str, error: impl ToString) -> Self {
        Self::Ours { class, message: error.to_string(), node: None, hint: None }
    }

    /// With what to do about it.
    pub fn hint(self, text: impl Into<String>) -> Self {
        match self {
            Self::Ours { class, message, node, .. } => {
                Self::Ours { class, message, node, hint: Some(text.into()) }
            }
            python @ Self::Python(_) => python,
        }
    }

    /// Beginning with what it is about.
    pub fn of(self, what: impl AsRef<Path>) -> Self {
        match self {
            Self::Ours { class, message, node, hint } => {
                let message = format!("{}: {message}", what.as_ref().display());
                Self::Ours { class, message, node, hint }
            }
            python @ Self::Python(_) => python,
        }
    }

    fn at(self, of: Option<&str>) -> Self {
        match self {
            Self::Ours { class, message, hint, .. } => {
                Self::Ours { class, message, node: of.map(str::to_owned), hint }
            }
            python @ Self::Python(_) => python,
        }
    }

    fn read(message: String, source: &io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::NotFound => Self::new("ModelNotFound", message),
            _ => Self::new("InvalidModel", message),
        }
    }
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Self {
        Self::Python(error)
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Python(error) => error,
            Failure::Ours { class, message, node, hint } => Python::attach(|py| {
                made(py, class, &message, node, hint).unwrap_or_else(|error| error)
            }),
        }
    }
}

fn made(
    py: Python<'_>,
    class: &str,
    message: &str,
    node: Option<String>,
    hint: Option<String>,
) -> PyResult<PyErr> {
    let fields = PyDict::new(py);
    fields.set_item("node", node)?;
    fields.set_item("hint", hint)?;
    let class = py.import("vitempo.errors")?.getattr(class)?;
    Ok(PyErr::from_value(class.call((message,), Some(&fields))?))
}

impl From<OnnxError> for Failure {
    fn from(error: OnnxError) -> Self {
        let message = error.to_string();
        match &error {
            OnnxError::Io { source, .. } => Self::read(message, source),
            OnnxError::Dynamic { symbol, .. } => {
                Self::new("DynamicShape", message).hint(format!("give dims={{\"{symbol}\": 1}}"))
            }
            OnnxError::UnusedDimension { name, .. } => {
                Self::new("InvalidModel", message).hint(format!("leave \"{name}\" out of dims"))
            }
            OnnxError::Budget { .. } => Self::new("LimitExceeded", message).at(error.node()),
            OnnxError::Unwritable { .. } => Self::new("UnsupportedOperator", message),
            _ => Self::new("InvalidModel", message).at(error.node()),
        }
    }
}

impl From<ModelError> for Failure {
    fn from(error: ModelError) -> Self {
        match error {
            ModelError::Onnx(error) => error.into(),
            ModelError::Tflite(error) => error.into(),
            other => Self::new("InvalidModel", other),
        }
    }
}

impl From<ResizeError> for Failure {
    fn from(error: ResizeError) -> Self {
        let message = error.to_string();
        match &error {
            ResizeError::Node { node, .. } => Self::new("InvalidModel", message).at(Some(node)),
            _ => Self::new("InvalidModel", message),
        }
    }
}

impl From<ImageSizeError> for Failure {
    fn from(error: ImageSizeError) -> Self {
        PyValueError::new_err(error.to_string()).into()
    }
}

impl From<TfliteReadError> for Failure {
    fn from(error: TfliteReadError) -> Self {
        let message = error.to_string();
        match &error {
            TfliteReadError::Io { source, .. } => Self::read(message, source),
            TfliteReadError::Budget { .. } => Self::new("LimitExceeded", message),
            TfliteReadError::Operator { output, .. } => {
                let hint = "export the model that it was made from to ONNX, and give that";
                Self::new("InvalidModel", message).at(Some(output)).hint(hint)
            }
            _ => Self::new("InvalidModel", message),
        }
    }
}

impl From<TfliteError> for Failure {
    fn from(error: TfliteError) -> Self {
        let class = match &error {
            TfliteError::Exceeded { .. } => "LimitExceeded",
            _ => "UnsupportedOperator",
        };
        Self::new(class, &error).at(error.node())
    }
}

impl From<PredictionError> for Failure {
    fn from(error: PredictionError) -> Self {
        let class = match &error {
            PredictionError::Exceeded { .. }
            | PredictionError::Lowering(LoweringError::Exceeded { .. }) => "LimitExceeded",
            _ => "UnsupportedOperator",
        };
        Self::new(class, &error).at(error.node())
    }
}

impl From<BundleError> for Failure {
    fn from(error: BundleError) -> Self {
        match &error {
            BundleError::Unknown { .. } => Self::new("UnknownBundle", &error)
                .hint("vitempo.bundles() lists the bundles that a name finds"),
            _ => Self::new("InvalidBundle", &error),
        }
    }
}

impl From<SpaceError> for Failure {
    fn from(error: SpaceError) -> Self {
        match &error {
            SpaceError::Encoding { .. } | SpaceError::Outside { .. } => {
                Self::new("InvalidEncoding", &error)
            }
            SpaceError::Memory { .. } => PyMemoryError::new_err(error.to_string()).into(),
            _ => Self::new("InvalidSpace", &error),
        }
    }
}

impl From<QueryError> for Failure {
    fn from(error: QueryError) -> Self {
        match error {
            QueryError::Space(error) => error.into(),
            QueryError::Prediction(error) => error.into(),
        }
    }
}

impl From<SearchError> for Failure {
    fn from(error: SearchError) -> Self {
        match error {
            SearchError::Query(error) | SearchError::Objective(ObjectiveError::Query(error)) => {
                error.into()
            }
            SearchError::NothingFits { .. } => Self::new("NothingFits", &error)
                .hint("raise the ceiling, or search a space with smaller architectures"),
            other => Self::new("SearchError", other),
        }
    }
}

impl From<PlanCostsError> for Failure {
    fn from(error: PlanCostsError) -> Self {
        match error {
            PlanCostsError::Prediction { source, .. } => source.into(),
            other => Self::new("PlanError", other),
        }
    }
}

impl From<PlanSplitError> for Failure {
    fn from(error: PlanSplitError) -> Self {
        Self::new("PlanError", error)
    }
}

impl From<PipelineError> for Failure {
    fn from(error: PipelineError) -> Self {
        Self::new("PlanError", error)
    }
}

impl From<DatasetError> for Failure {
    fn from(error: DatasetError) -> Self {
        Self::new("InvalidDataset", error)
    }
}

impl From<EvaluationError> for Failure {
    fn from(error: EvaluationError) -> Self {
        match error {
            EvaluationError::Dataset(error) => error.into(),
            EvaluationError::Environment { source, bundle } => match *source {
                TrainingError::Dataset(error) => error.into(),
                TrainingError::UnknownEnvironment { environment, folder, known } => {
                    let message = format!(
                        "{bundle}: {} has no measurement of its environment, {environment}",
                        folder.display()
                    );
                    Self::new("NothingMeasured", message)
                        .hint(format!("it has {}", known.join(", ")))
                }
                other => Self::new("NothingMeasured", format!("{bundle}: {other}")),
            },
            other => Self::new("NothingMeasured", other),
        }
    }
}

impl From<PredictorError> for Failure {
    fn from(error: PredictorError) -> Self {
        Self::new("InvalidBundle", error)
    }
}

impl From<SameName> for Failure {
    fn from(error: SameName) -> Self {
        Self::new("InvalidModel", error).hint("give each model a name of its own")
    }
}

impl From<SourceError> for Failure {
    fn from(error: SourceError) -> Self {
        match error {
            SourceError::Prediction(error) => error.into(),
            SourceError::NothingUsable { .. } => {
                Self::new("InvalidDataset", error).hint("leave it out of `sources`")
            }
            other => Self::new("InvalidArgument", other)
                .hint("leave it out of `sources`: a source counts once"),
        }
    }
}

macro_rules! plan_errors {
    ($($error:ty),+) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::new("PlanError", error)
            }
        }
    )+};
}

plan_errors!(MultitaskError, PartsError, PlacingError, StitchingError, TasksError);

impl Failure {
    /// Says what to do with a file of another format, where it was not read as a model.
    pub fn of_format(self, file: &Path) -> Self {
        let ending = file.extension().map(|ending| ending.to_string_lossy().to_lowercase());
        let hint = match ending.as_deref() {
            Some("pt" | "pth" | "ckpt") => "load the torch.nn.Module and give it, with inputs=",
            Some("pt2") => "give the program: torch.export.load(FILE)",
            Some("h5" | "keras" | "pb") => {
                "convert it to ONNX: python -m tf2onnx.convert (pip install tf2onnx)"
            }
            Some("bin" | "safetensors") => {
                "weights alone are no model: give the ONNX file, or the module, that they are of"
            }
            Some("xml") => {
                "an OpenVINO model is not read, and OpenVINO writes no ONNX: export the model that \
                it was made from (torch.onnx.export, tf2onnx, paddle2onnx)"
            }
            Some("mlmodel" | "mlpackage" | "mlmodelc") => {
                "a Core ML model is not read, and coremltools writes no ONNX: export the model \
                that it was made from (torch.onnx.export, tf2onnx)"
            }
            Some("engine" | "plan" | "trt") => {
                "a TensorRT engine holds no model: give the ONNX file that it was built from"
            }
            _ => return self,
        };
        match &self {
            Self::Ours { class: "InvalidModel", hint: None, .. } => self.hint(hint),
            _ => self,
        }
    }

    /// Of a file of latencies.
    pub fn of_latencies(file: &Path, problem: LatencyProblem) -> Self {
        use LatencyProblem as P;
        if let P::SameName(error) = problem {
            return error.into();
        }
        let failure = Self::new("InvalidLatencies", format!("{}: {problem}", file.display()));
        match &problem {
            P::Separator { .. } => failure.hint("separate columns by `,`: model,latency_ms"),
            P::NoModelColumn | P::NoLatencyColumn => {
                failure.hint("its first line names the columns: model,latency_ms (or _s, _us, _ns)")
            }
            P::UnknownModel { near, .. } if !near.is_empty() => {
                failure.hint(format!("did you mean {}?", near.join(", ")))
            }
            P::UnknownModel { .. } => {
                failure.hint("`models` gives each measured model; a file has the name of its stem")
            }
            _ => failure,
        }
    }
}
