//! The CSV of end-to-end latencies: model and latency, whose unit the heading says.

use super::super::{
    error::{CliError, CliResult},
    models::Model,
};
use std::{collections::BTreeMap, path::Path};
use vitempo::predictors::metrics;

/// Headings, and ns per unit.
const UNITS: [(&str, f64); 4] =
    [("latency_ns", 1.0), ("latency_us", 1e3), ("latency_ms", 1e6), ("latency_s", 1e9)];

/// Median latency in ns of each measured model, by index among `models`.
pub fn read(path: &Path, models: &[Model]) -> CliResult<Vec<(usize, f64)>> {
    let wrong = |what: String| CliError::user(format!("{}: {what}", path.display()));
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .from_path(path)
        .map_err(|e| wrong(e.to_string()))?;
    let headings = reader.headers().map_err(|e| wrong(e.to_string()))?.clone();
    let named = headings.iter().position(|h| h == "model").ok_or_else(|| {
        wrong("it has no column `model`".to_owned()).hint("name it in the first line")
    })?;
    let units = || {
        UNITS.iter().filter_map(|(heading, unit)| {
            Some((headings.iter().position(|h| h == *heading)?, *unit))
        })
    };
    let (latency, unit) = units().next().ok_or_else(|| {
        wrong("no column says the latency and its unit".to_owned())
            .hint("name it latency_ns, latency_us, latency_ms or latency_s in the first line")
    })?;
    if units().count() > 1 {
        return Err(wrong("it has two columns of latencies".to_owned()).hint("keep one of them"));
    }
    let mut samples: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for (row, record) in reader.records().enumerate() {
        let line = row + 2;
        let record = record.map_err(|e| wrong(e.to_string()))?;
        let (name, text) =
            (record.get(named).unwrap_or_default(), record.get(latency).unwrap_or_default());
        let name = name.strip_suffix(".onnx").unwrap_or(name);
        let model = models.iter().position(|m| m.identity.name == name).ok_or_else(|| {
            wrong(format!("line {line}: none of the models is called `{name}`")).hint(
                "a model is named as its ONNX file, without the ending; --models says where \
                    those are",
            )
        })?;
        match text.parse::<f64>() {
            Ok(value) if value > 0.0 && value.is_finite() => {
                samples.entry(model).or_default().push(value * unit);
            }
            _ => {
                return Err(wrong(format!("line {line}: `{text}` is not a latency"))
                    .hint("a number above zero"));
            }
        }
    }
    if samples.is_empty() {
        return Err(wrong("it holds no latency".to_owned()).hint("one row per measured model"));
    }
    Ok(samples.into_iter().filter_map(|(model, of)| Some((model, metrics::median(&of)?))).collect())
}
