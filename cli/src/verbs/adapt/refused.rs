//! Why an adaptation is refused, and what to do about it.

use crate::verbs::error::CliError;
use std::path::Path;
use vitempo::{
    adaptation::{LatencyError, LatencyProblem, SameName, SourceError},
    models::Model,
};

/// An invalid file of latencies of these models.
pub fn latencies(error: &LatencyError, models: &[Model]) -> CliError {
    use LatencyProblem as P;
    let user = CliError::user(error);
    match &error.problem {
        P::SameName(error) => same_name(error, models),
        P::Separator { .. } => {
            user.hint("separate columns by `,` and write decimals with a point: model,latency_ms")
        }
        P::NoModelColumn => user.hint("name it in the first line"),
        P::NoLatencyColumn => {
            user.hint("name it latency_ns, latency_us, latency_ms or latency_s in the first line")
        }
        P::TwoLatencyColumns { .. } | P::RepeatedColumn(_) => user.hint("keep one of them"),
        P::Columns { .. } => user.hint("give each line the columns of the first, separated by `,`"),
        P::UnknownModel { near, .. } => user.hint(near_names(
            near,
            "a model has the name of its ONNX file without the extension; --models gives the files",
        )),
        P::NotALatency { .. } => user.hint("a number above zero, with a decimal point"),
        P::OutOfRange { .. } => user.hint(
            "correct the row, or name the column by its unit: latency_ns, latency_us, latency_ms \
            or latency_s",
        ),
        P::Empty => user.hint("one row per measured model"),
        P::SamplesDiffer { .. } => {
            user.hint("keep the row that is right; rows of one model are samples in one unit")
        }
        P::SameGraphDiffers { .. } => {
            user.hint("keep the row that is right, or give the model that was measured")
        }
        _ => user,
    }
}

/// Two models of one name, with their files.
pub fn same_name(error: &SameName, models: &[Model]) -> CliError {
    let file = |index: usize| models.get(index).map(|m| m.path.display().to_string());
    let files: Vec<String> = error.models.into_iter().filter_map(file).collect();
    CliError::user(format!("{error}: {} (--models)", files.join(", ")))
        .hint("rename one of the files, or leave it out: latencies are given by name")
}

/// A bundle or dataset that gives no source.
pub fn source(error: SourceError, path: &Path) -> CliError {
    let user =
        |error: &SourceError| CliError::user(format!("{}: {error} (--from)", path.display()));
    match error {
        SourceError::Prediction(error) => error.into(),
        SourceError::NothingUsable { .. } => user(&error).hint(
            "leave it out, or measure models with `vitempo profile`, which stores their graphs",
        ),
        _ => user(&error).hint("leave it out: a source counts once"),
    }
}

/// A text that says something.
pub fn text(text: &str) -> Result<String, String> {
    if text.trim().is_empty() { Err("expected a text".to_owned()) } else { Ok(text.to_owned()) }
}

/// Suggests similar names, or gives another hint.
fn near_names(near: &[String], otherwise: &str) -> String {
    if near.is_empty() {
        return otherwise.to_owned();
    }
    format!(
        "did you mean {}?",
        near.iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ")
    )
}
