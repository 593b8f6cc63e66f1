//! Choices and models in files: measured choices as CSV, a device with its server as JSON.

use super::{Choice, OffloadError, OffloadModel};
use std::path::Path;

/// Reads measured choices: a CSV file with the columns `place` (local or remote), `setting`,
/// `size_px`, `camera_fps`, `latency_s`, `energy_j` and `accuracy`; `camera_fps` and `accuracy` may
/// be empty. Lines that begin with `#` are comments.
///
/// # Errors
/// [`OffloadError::File`] naming file and line.
pub fn read_choices(path: &Path) -> Result<Vec<Choice>, OffloadError> {
    let refuse = |reason: String| OffloadError::File { path: path.to_owned(), reason };
    let reader = csv::ReaderBuilder::new().trim(csv::Trim::All).comment(Some(b'#')).from_path(path);
    let mut reader = reader.map_err(|e| refuse(e.to_string()))?;
    let headings = reader.headers().map_err(|e| refuse(e.to_string()))?.clone();
    let mut choices = Vec::new();
    for row in reader.records() {
        let row = row.map_err(|e| refuse(e.to_string()))?;
        let line = row.position().map_or(0, csv::Position::line);
        let choice: Choice = row.deserialize(Some(&headings)).map_err(|e| refuse(e.to_string()))?;
        let accuracy = choice.accuracy.unwrap_or(0.0);
        let numbers = [
            ("latency_s", choice.latency_s),
            ("energy_j", choice.energy_j),
            ("camera_fps", choice.camera_fps.unwrap_or(0.0)),
            ("accuracy", accuracy),
        ];
        if let Some((column, value)) =
            numbers.into_iter().find(|(_, value)| !value.is_finite() || *value < 0.0)
        {
            return Err(refuse(format!(
                "line {line}: {column} is {value}; it must be a number, 0 or more"
            )));
        }
        if choice.latency_s == 0.0 {
            return Err(refuse(format!("line {line}: latency_s is 0; it must be above 0")));
        }
        if accuracy > 100.0 {
            return Err(refuse(format!(
                "line {line}: accuracy is {accuracy}; it must be a percentage, 0 to 100"
            )));
        }
        choices.push(choice);
    }
    if choices.is_empty() {
        Err(refuse("there is no choice in it".to_owned()))
    } else {
        Ok(choices)
    }
}

impl OffloadModel {
    /// Reads and checks a device with its server.
    ///
    /// # Errors
    /// [`OffloadError`] naming the file, and the field.
    pub fn read(path: &Path) -> Result<Self, OffloadError> {
        let refuse = |reason: String| OffloadError::File { path: path.to_owned(), reason };
        let text = vitempo_graph::files::read_text(path).map_err(|e| refuse(e.to_string()))?;
        let model: Self = serde_json::from_str(&text).map_err(|e| refuse(e.to_string()))?;
        model.check().map_err(|e| refuse(e.to_string()))?;
        Ok(model)
    }
}
