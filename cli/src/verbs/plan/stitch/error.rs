//! Hints for errors of stitched plans.

use crate::verbs::error::{CliError, io_error};
use vitempo::plan::stitch::{StitchingError, live::StitchSessionError, record::RecordError};
use vitempo::planners::stitch::StitchError;

const ANY_ORDER: &str = "--any-order lets a processor take several positions";

const LOADING: &str = "`vitempo plan stitch --live NAME=BACKEND --record` measures times of loading; \
    for bundles of rten, ONNX Runtime, OpenVINO and LiteRT they are forecast";

impl From<StitchError> for CliError {
    fn from(error: StitchError) -> Self {
        let hint = match &error {
            StitchError::TooMany { .. } => "--preload round-robin looks at no variant one by one",
            StitchError::Impossible { .. } => ANY_ORDER,
            StitchError::LoadingUnknown { .. } => LOADING,
            _ => return Self::user(error),
        };
        Self::user(error).hint(hint)
    }
}

impl From<StitchingError> for CliError {
    fn from(error: StitchingError) -> Self {
        let hint = match &error {
            StitchingError::Orders { repeated: false, .. } => ANY_ORDER.to_owned(),
            StitchingError::Int8Alone { processor, .. } => {
                format!("add --processor {processor}=BUNDLE with one for f32")
            }
            StitchingError::TwoBundles { .. } => "give another processor another name".to_owned(),
            StitchingError::NoProcessors(_) => "--processor NAME=BUNDLE, once per processor; or \
                --live NAME=BACKEND, to measure"
                .to_owned(),
            StitchingError::NoEngine(name) => format!("add --live {name}=rten"),
            StitchingError::TooManyOrders(_) => {
                "fewer processors, or without --any-order".to_owned()
            }
            StitchingError::NoObjective { task, .. } => format!("--slo {task}=75%,30ms"),
            StitchingError::NoAccuracy { .. } => "measure it, and add accuracy = PERCENT; \
                `vitempo zoo make --compare rten` measures similarity"
                .to_owned(),
            _ => return Self::unhinted(error),
        };
        Self::user(error).hint(hint)
    }
}

impl CliError {
    /// Errors whose hints are added elsewhere, or that have none.
    fn unhinted(error: StitchingError) -> Self {
        match error {
            StitchingError::Zoo(error) => error.into(),
            StitchingError::Stitch(error) => error.into(),
            StitchingError::Bundle(error) => error.into(),
            StitchingError::Prediction { what, source } => Self::from(source).about(what),
            StitchingError::Live(error) => error.into(),
            other => Self::user(other),
        }
    }
}

impl From<StitchSessionError> for CliError {
    fn from(error: StitchSessionError) -> Self {
        match error {
            StitchSessionError::Stitch(error) => error.into(),
            StitchSessionError::Live(_) | StitchSessionError::Inputs(_) => Self::user(error),
            other => Self::ours(other),
        }
    }
}

impl From<RecordError> for CliError {
    fn from(error: RecordError) -> Self {
        match error {
            RecordError::Read { path, source } => io_error("read", &path, &source)
                .hint("`vitempo plan stitch --live ... --record` writes one"),
            RecordError::Stitch(error) => error.into(),
            RecordError::NoOrder | RecordError::NotMeasured => Self::ours(error),
            other => Self::user(other),
        }
    }
}
