//! [`Columns`]: what each column of a file holds, from its header.

use super::{cells::Place, conventions::Setting};
use crate::DatasetError;
use csv::StringRecord;
use std::path::Path;

/// The contents of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Layout {
    EndToEnd,
    Operators,
}

/// The positions of a file's columns.
#[derive(Debug)]
pub(super) struct Columns {
    pub(super) layout: Layout,
    pub(super) model: usize,
    /// Columns `operation` and `feature`; 0 in files without them.
    pub(super) operation: usize,
    pub(super) feature: usize,
    /// Latencies: the column, where it was measured, and the column of its kernel's name.
    pub(super) latencies: Vec<(usize, Setting, Option<usize>)>,
}

impl Columns {
    pub(super) fn read(path: &Path, header: &StringRecord) -> Result<Self, DatasetError> {
        let find = |name: &str| header.iter().position(|h| h.trim().eq_ignore_ascii_case(name));
        let missing = |column: &str| {
            Place { path, line: 1, column }
                .error("the column is missing; this is not a file of mobile-ml-benchmark")
        };
        let model = find("model").ok_or_else(|| missing("model"))?;
        let (operation, feature) = (find("operation"), find("feature"));
        let layout = if operation.is_some() { Layout::Operators } else { Layout::EndToEnd };
        if layout == Layout::Operators && feature.is_none() {
            return Err(missing("feature"));
        }
        let mut latencies: Vec<(usize, Setting, Option<usize>)> = Vec::new();
        for (index, name) in header.iter().enumerate() {
            let wrong = |reason: String| Place { path, line: 1, column: name }.error(reason);
            let Some(setting) = latency(layout, name).map_err(wrong)? else { continue };
            if latencies.iter().any(|(_, other, _)| *other == setting) {
                return Err(wrong("the column is there twice".to_owned()));
            }
            let kernel = setting
                .cores
                .is_none()
                .then(|| find(&format!("{}|gpu|kernel", setting.device)))
                .flatten();
            latencies.push((index, setting, kernel));
        }
        if latencies.is_empty() {
            return Err(missing(if layout == Layout::Operators {
                "device|cores|float"
            } else {
                "device|cores|float|mean"
            }));
        }
        Ok(Self {
            layout,
            model,
            operation: operation.unwrap_or(0),
            feature: feature.unwrap_or(0),
            latencies,
        })
    }
}

/// Where the latencies of a column were measured; `None` for a column without latencies.
fn latency(layout: Layout, name: &str) -> Result<Option<Setting>, String> {
    let parts: Vec<&str> = name.trim().split('|').collect();
    match (layout, parts.as_slice()) {
        (_, [_])
        | (Layout::Operators, [_, "gpu", "kernel"])
        | (Layout::EndToEnd, [_, _, _, "std"]) => Ok(None),
        (Layout::Operators, [device, cores, precision])
        | (Layout::EndToEnd, [device, cores, precision, "mean"]) => {
            Setting::new(device, cores, precision).map(Some)
        }
        (Layout::Operators, _) => {
            Err("it is none of `device|cores|float`, `device|cores|quant` and `device|gpu|kernel`"
                .to_owned())
        }
        (Layout::EndToEnd, _) => {
            Err("it is neither `device|cores|precision|mean` nor `device|cores|precision|std`"
                .to_owned())
        }
    }
}
