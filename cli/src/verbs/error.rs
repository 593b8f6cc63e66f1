//! Errors of verbs, and how they are printed: `error: ...`, `hint: ...`, and an exit code.

use super::output::visible;
use std::{fmt::Display, io, process::ExitCode};
use vitempo::{
    campaign::CampaignError,
    datasets::DatasetError,
    evaluation::EvaluationError,
    graph::{PredictionError, lowering::LoweringError, onnx::OnnxError},
    models::ModelError,
    profiler::{SweepError, pinning::PinningError},
    sampling::SamplingError,
    training::TrainingError,
};

const RAISE_LIMITS: &str =
    "--max-model-steps, --max-model-nodes and --max-model-bytes raise the limits";

/// The kind of error, which determines the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The input is wrong or a gate was not met: exit code 1.
    User,
    /// A fault of vitempo: exit code 2.
    Ours,
}

/// An error as the user sees it.
#[derive(Debug)]
pub struct CliError {
    message: String,
    hint: Option<String>,
    fault: Fault,
}

pub type CliResult<T = ()> = Result<T, CliError>;

impl CliError {
    /// The user's input is wrong, or a gate was not met.
    pub fn user(message: impl Display) -> Self {
        Self { message: message.to_string(), hint: None, fault: Fault::User }
    }

    /// A fault of vitempo.
    pub fn ours(message: impl Display) -> Self {
        Self { message: message.to_string(), hint: None, fault: Fault::Ours }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Display) -> Self {
        self.hint = Some(hint.to_string());
        self
    }

    /// Adds the subject of the error: a file, a task.
    #[must_use]
    pub fn about(mut self, what: impl Display) -> Self {
        self.message = format!("{what}: {}", self.message);
        self
    }

    /// Prints to standard error and returns the exit code.
    pub fn report(&self) -> ExitCode {
        eprintln!("error: {}", visible(&self.message, true));
        if let Some(hint) = &self.hint {
            eprintln!("hint: {}", visible(hint, true));
        }
        ExitCode::from(match self.fault {
            Fault::User => 1,
            Fault::Ours => 2,
        })
    }
}

/// Adds the file to an input/output error.
pub fn io_error(action: &str, path: &std::path::Path, source: &io::Error) -> CliError {
    let error = CliError::user(format!("cannot {action} {}: {source}", path.display()));
    match source.kind() {
        io::ErrorKind::StorageFull => {
            error.hint("free some space and run the same command again; finished work is kept")
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            error.hint("choose a place you may write to")
        }
        io::ErrorKind::AlreadyExists => error.hint("it is a file; name a folder"),
        io::ErrorKind::NotADirectory => {
            error.hint("a part of the path is a file where a folder is expected")
        }
        _ => error,
    }
}

impl Display for CliError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<SweepError> for CliError {
    fn from(error: SweepError) -> Self {
        match error {
            SweepError::Unavailable { backend, reason, hint } => {
                Self::user(format!("backend `{backend}` is not available: {reason}")).hint(hint)
            }
            SweepError::Pinning(error) => error.into(),
            SweepError::Remote(error) => {
                let hint = error.hint();
                let error = Self::user(error);
                match hint {
                    Some(hint) => error.hint(hint),
                    None => error,
                }
            }
            other => Self::user(other),
        }
    }
}

impl From<ModelError> for CliError {
    fn from(error: ModelError) -> Self {
        match error {
            ModelError::EmptyFolder(_) | ModelError::NoMatch(_) => {
                Self::user(error).hint("give ONNX files, folders that contain some, or a glob")
            }
            ModelError::Onnx(error) => error.into(),
            ModelError::Dimension { ref name, .. } => {
                let hint =
                    format!("leave `--dim {name}=…` out, or export with that dimension open");
                Self::user(error).hint(hint)
            }
            other => Self::user(other),
        }
    }
}

impl From<OnnxError> for CliError {
    fn from(error: OnnxError) -> Self {
        let hint = match &error {
            OnnxError::Dynamic { index, symbol, .. } => {
                // Images are N, C, H, W.
                let example = if *index < 2 { 1 } else { 224 };
                Some(format!("give it one: --dim '{symbol}={example}'"))
            }
            OnnxError::Budget { .. } => Some(RAISE_LIMITS.to_owned()),
            _ => None,
        };
        Self { hint, ..Self::user(error) }
    }
}

impl From<PinningError> for CliError {
    fn from(error: PinningError) -> Self {
        let flags = match &error {
            PinningError::NoSuchCore { .. } => "choose other --cores",
            PinningError::TooFew { .. } => "give more --cores, or fewer --threads",
            PinningError::TooMany { .. } => "give fewer --threads",
            _ => return Self::user(error),
        };
        Self::user(error).hint(flags)
    }
}

impl From<DatasetError> for CliError {
    fn from(error: DatasetError) -> Self {
        match &error {
            DatasetError::Io { action, path, source } => io_error(action, path, source),
            DatasetError::NotInName { .. } => {
                Self::user(error).hint("name it with --framework or --family")
            }
            _ => Self::user(error),
        }
    }
}

impl From<SamplingError> for CliError {
    fn from(error: SamplingError) -> Self {
        match &error {
            SamplingError::Count(_) => Self::user(format!("{error} (--count)"))
                .hint("sample more into other folders, with other seeds"),
            SamplingError::Index { .. } => {
                Self::user(error).hint("remove the damaged index, or sample into another folder")
            }
            SamplingError::Taken { .. } => {
                Self::user(error).hint("sample into another folder, or with another seed (--seed)")
            }
            SamplingError::Io { path, source } => io_error("write", path, source),
            _ => Self::user(error),
        }
    }
}

impl From<TrainingError> for CliError {
    fn from(error: TrainingError) -> Self {
        let hint = match &error {
            TrainingError::UnknownEnvironment { known, .. } => {
                format!("there are:\n  {}", known.join("\n  "))
            }
            TrainingError::SeveralEnvironments { known, .. } => {
                format!("choose one with --environment:\n  {}", known.join("\n  "))
            }
            TrainingError::NothingToTrain(_) => {
                "make the split from this dataset: vitempo dataset split".to_owned()
            }
            TrainingError::Dataset(DatasetError::SmallSample { .. }) => {
                return Self::user(format!("{error} (--max-rows)"));
            }
            _ => return Self::user(error),
        };
        Self::user(error).hint(hint)
    }
}

impl From<EvaluationError> for CliError {
    fn from(error: EvaluationError) -> Self {
        let hint = match &error {
            EvaluationError::NothingHeldOut { .. } => "train with a split that leaves some out",
            EvaluationError::Environment { .. } => {
                "train a bundle on this dataset, or measure in the bundle's environment"
            }
            EvaluationError::AboveLimit { .. } => {
                return Self::user(format!("{error} (--max-mape)"));
            }
            _ => return Self::user(error),
        };
        Self::user(error).hint(hint)
    }
}

impl From<CampaignError> for CliError {
    fn from(error: CampaignError) -> Self {
        match error {
            CampaignError::Sweep(error) => error.into(),
            CampaignError::Lowering(_) => Self::user(format!("{error} (--ops)")),
            CampaignError::NoSuchOperator => Self::user(format!("{error} (--ops)"))
                .hint("`vitempo inspect MODELS --framework NAME` shows the kinds"),
            CampaignError::Repeats { .. } => {
                Self::user(format!("{error} (--min-repeats, --max-repeats)"))
            }
            CampaignError::NoLibrary { .. } => {
                Self::user(format!("{error} (--library)")).hint("leave --library out")
            }
            other => Self::user(other),
        }
    }
}

/// Library errors are faults of the user's files and flags unless a verb overrides that.
macro_rules! user_errors {
    ($($error:ty),* $(,)?) => {
        $(impl From<$error> for CliError {
            fn from(error: $error) -> Self {
                Self::user(error)
            }
        })*
    };
}
user_errors!(
    vitempo::graph::GraphError,
    vitempo::search_space::SpaceError,
    vitempo::predictors::PredictorError,
);

impl From<PredictionError> for CliError {
    fn from(error: PredictionError) -> Self {
        let hint = match &error {
            PredictionError::Lowering(LoweringError::Precision(_)) => {
                "export the model in f32, or give a bundle of an engine that runs it"
            }
            PredictionError::Exceeded { .. }
            | PredictionError::Lowering(LoweringError::Exceeded { .. }) => RAISE_LIMITS,
            PredictionError::Unknown { .. } => {
                "plan the part of the model without them, or give costs of your own: --costs"
            }
            _ => return Self::user(error),
        };
        Self::user(error).hint(hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_where_a_folder_is_expected_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        std::fs::write(&path, "").expect("a file");
        let exists = std::fs::create_dir(&path).expect_err("a file");
        let beyond = std::fs::read(path.join("beyond")).expect_err("a file");
        for (source, says) in [(exists, "it is a file"), (beyond, "is a file")] {
            let path = path.clone();
            let error = CliError::from(DatasetError::Io { action: "create", path, source });
            assert!(error.hint.as_ref().is_some_and(|hint| hint.contains(says)), "{error:?}");
        }
    }
}
