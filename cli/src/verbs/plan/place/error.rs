//! What to do about errors of plans for several models.

use crate::verbs::error::CliError;
use vitempo::plan::multi_dnn::{PlacingError, trace::TraceError};
use vitempo::planners::multi_dnn::MultiDnnError;

impl From<PlacingError> for CliError {
    fn from(error: PlacingError) -> Self {
        let hint = match &error {
            PlacingError::Incomplete { what: "power", .. } => "--power NAME=2W, once for each",
            PlacingError::Incomplete { .. } => "--slowdown NAME/OTHER=FACTOR, once for each pair",
            PlacingError::NeverAsked(_) => "--arrivals without a task counts for all others",
            PlacingError::ChangeAtOnce { .. } => "--slo-at needs --arrivals or --trace",
            PlacingError::Plan(MultiDnnError::Memory { .. }) => "raise --memory",
            PlacingError::Plan(MultiDnnError::TooMany { .. }) => {
                "fewer variants, processors, tasks or queries (--over, --arrivals)"
            }
            _ => return Self::of_its_parts(error),
        };
        Self::user(error).hint(hint)
    }
}

impl CliError {
    fn of_its_parts(error: PlacingError) -> Self {
        match error {
            PlacingError::Stitching(error) => error.into(),
            PlacingError::Stitch(error) | PlacingError::Plan(MultiDnnError::Stitch(error)) => {
                error.into()
            }
            PlacingError::Trace(error) => error.into(),
            other => Self::user(other),
        }
    }
}

impl From<TraceError> for CliError {
    fn from(error: TraceError) -> Self {
        Self::user(error).hint("a CSV file with the columns task and arrival_ns")
    }
}
